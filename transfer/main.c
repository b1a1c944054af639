/* ilmare-transfer: one job a process. As an init container it says in the log how far it is; as a child of the edge agent it writes a line of JSON
 * for each thing that happens on standard output, the last of which says how it ended, as the exit status does.
 */
#include <curl/curl.h>
#include <fcntl.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/commands.h"
#include "transfer/outcome.h"

/* What Kubernetes shows of a container that has ended. */
static void say_to_kubelet(const char *text)
{
	int fd = open("/dev/termination-log", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, text, strlen(text)) < 0)
		log_debug("main", "cannot write the reason for the kubelet");
	close(fd);
}

static void say_end(run *r, int code, const error *err)
{
	if (!r->s.machine) {
		if (code != 0) {
			log_error("main", "failed", L_STR("reason", outcome_word(code)), L_STR("error", err->text));
			say_to_kubelet(err->text);
		}
		return;
	}
	cJSON *line = code == 0 ? r->said : cJSON_CreateObject();
	if (code != 0) {
		json_put_string(line, "event", "error");
		json_put_string(line, "code", outcome_word(code));
		json_put_int(line, "exit", outcome_status(code));
		json_put_string(line, "message", err->text); /* which mends what is no UTF-8: keys may be any bytes */
	}
	char *text = json_print(line);
	printf("%s\n", text);
	fflush(stdout);
	free(text);
	if (code != 0)
		cJSON_Delete(line);
}

static void use_options(session *s, const options *o)
{
	s->machine = o->command != COMMAND_FETCH;
	if (o->jobs > 0)
		s->jobs = (int)o->jobs;
	if (o->attempts > 0)
		s->attempts = (int)o->attempts;
	if (o->connect_ms > 0)
		s->connect_ms = o->connect_ms;
	if (o->stall_ms > 0)
		s->stall_ms = o->stall_ms;
	if (o->retry_wait_ms > 0) {
		s->wait_min_ms = o->retry_wait_ms;
		s->wait_max_ms = 60 * o->retry_wait_ms;
	}
}

int main(int argc, char **argv)
{
	run r = {0};
	error err = {0};
	enum options_result result;

	mem_init();
	/* Names in archives are UTF-8, whatever the environment says. */
	setlocale(LC_CTYPE, "C.UTF-8");
	int code = options_parse(argc, argv, &r.o, &result, &err);
	if (code == 0 && result == OPTIONS_EXIT)
		return fflush(stdout) == 0 ? 0 : 1;
	log_init("ilmare-transfer", r.o.level);
	cancel_install(r.o.until_stdin_ends ? STDIN_FILENO : -1);
	int wrong = session_init(&r.s, code == 0 ? &err : NULL);
	if (code == 0)
		code = wrong;
	use_options(&r.s, &r.o);
	r.said = cJSON_CreateObject();
	json_put_string(r.said, "event", "done");
	if (code == 0) {
		curl_global_init(CURL_GLOBAL_DEFAULT);
		r.c = client_new(&r.s);
		code = commands_run(&r, &err);
		client_free(r.c);
		curl_global_cleanup();
	}
	say_end(&r, code, &err);
	log_flush();
	cJSON_Delete(r.said);
	session_fini(&r.s);
	return outcome_status(code);
}
