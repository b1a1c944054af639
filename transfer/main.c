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
#include "common/json_scan.h"
#include "common/log.h"
#include "common/mem.h"
#include "transfer/cancel.h"
#include "transfer/client.h"
#include "transfer/core/http_reply.h"
#include "transfer/download.h"
#include "transfer/fetch.h"
#include "transfer/folder.h"
#include "transfer/options.h"
#include "transfer/outcome.h"
#include "transfer/store.h"
#include "transfer/upload.h"

typedef struct run {
	options o;
	session s;
	client *c;
	cJSON *said; /* the last line, for a program */
} run;

static void put_version(cJSON *line, const char *etag, const char *modified)
{
	/* An ETag that would be changed is of no use to whoever wants to ask with it. */
	if (etag[0] != '\0' && json_utf8_valid(etag, strlen(etag)))
		json_put_string(line, "etag", etag);
	if (modified != NULL && modified[0] != '\0')
		json_put_string(line, "lastModified", modified);
}

static int run_fetch(run *r, error *err)
{
	int code = 0;
	for (int i = 0; i < r->o.n_words && code == 0; i += 2) {
		int64_t files = atomic_load(&r->s.files), bytes = atomic_load(&r->s.bytes);
		code = fetch_pair(r->c, r->o.words[i], r->o.words[i + 1], r->o.fresh, err);
		if (code == 0)
			log_info("fetch", "done", L_STR("into", r->o.words[i + 1]), L_INT("files", atomic_load(&r->s.files) - files),
				L_INT("bytes", atomic_load(&r->s.bytes) - bytes));
	}
	return code;
}

static int run_get(run *r, error *err)
{
	location of;
	int code = location_parse(r->o.words[0], &of, err);
	download d = {.of = &of,
		.path = r->o.words[1],
		.fresh = r->o.fresh,
		.durable = true,
		.etag_is_no_md5 = r->o.etag_is_no_md5,
		.sha256 = r->o.sha256,
		.if_match = r->o.if_match,
		.same = r->o.same > 0 ? r->o.same : 0};
	if (code == 0 && of.kind == LOCATION_S3 && of.key[0] == '\0')
		code = error_set(err, ERROR_INVALID, "%s: the url names no object", of.shown);
	if (code == 0)
		code = r->o.has_range ? download_rest(r->c, &d, r->o.range, err) : download_file(r->c, &d, err);
	if (code == 0) {
		json_put_int(r->said, "size", d.size);
		json_put_int(r->said, "resumedAt", d.resumed_at);
		put_version(r->said, d.etag, d.modified);
	}
	location_fini(&of);
	return code;
}

static int run_head(run *r, error *err)
{
	location of;
	object_head head;
	int code = location_parse(r->o.words[0], &of, err);
	if (code == 0)
		code = store_head(r->c, &of, r->o.if_none_match, &head, err);
	if (code == 0) {
		json_put_bool(r->said, "changed", head.changed);
		if (head.size >= 0)
			json_put_int(r->said, "size", head.size);
		put_version(r->said, head.etag, head.modified);
	}
	location_fini(&of);
	return code;
}

static int parse_target(const char *text, bool folder, location *of, error *err)
{
	int code = location_parse(text, of, err);
	if (code == 0 && of->kind != LOCATION_S3)
		code = error_set(err, ERROR_INVALID, "%s: only an s3:// url can be %s", of->shown, folder ? "a folder" : "written to");
	if (code == 0 && !folder && of->key[0] == '\0')
		code = error_set(err, ERROR_INVALID, "%s: the url names no object", of->shown);
	return code;
}

static int run_put(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[1], false, &of, err);
	upload u = {.path = r->o.words[0], .to = &of, .only_new = r->o.only_new};
	if (code == 0)
		code = upload_file(r->c, &u, err);
	if (code == 0) {
		json_put_int(r->said, "size", u.size);
		json_put_int(r->said, "parts", u.parts);
		put_version(r->said, u.etag, NULL);
	}
	location_fini(&of);
	return code;
}

static int run_get_folder(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[0], true, &of, err);
	if (code == 0)
		code = fetch_make_folder(r->o.words[1], err);
	if (code == 0)
		code = fetch_folder(r->c, &of, r->o.words[1], r->o.fresh, err);
	/* Durable as a whole: one look at the disk in place of one for each file. */
	int fd = code == 0 ? open(r->o.words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0 && syncfs(fd) != 0)
		code = error_set(err, ERROR_IO, "cannot sync %s", r->o.words[1]);
	if (fd >= 0)
		close(fd);
	if (code == 0) {
		json_put_int(r->said, "files", atomic_load(&r->s.files));
		json_put_int(r->said, "bytes", atomic_load(&r->s.bytes));
	}
	location_fini(&of);
	return code;
}

static int run_put_folder(run *r, error *err)
{
	location of;
	int64_t files = 0;
	int code = parse_target(r->o.words[1], true, &of, err);
	if (code == 0)
		code = folder_send(r->c, r->o.words[0], &of, r->o.last, r->o.only_new, &files, err);
	if (code == 0) {
		json_put_int(r->said, "files", files);
		json_put_int(r->said, "bytes", atomic_load(&r->s.bytes));
	}
	location_fini(&of);
	return code;
}

static int (*const commands[COMMANDS])(run *, error *) = {
	[COMMAND_FETCH] = run_fetch,
	[COMMAND_GET] = run_get,
	[COMMAND_HEAD] = run_head,
	[COMMAND_PUT] = run_put,
	[COMMAND_GET_FOLDER] = run_get_folder,
	[COMMAND_PUT_FOLDER] = run_put_folder,
};

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
	if (code != 0)
		log_error("main", "failed", L_STR("reason", outcome_word(code)), L_STR("error", err->text));
	if (!r->s.machine) {
		if (code != 0)
			say_to_kubelet(err->text);
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
		code = commands[r.o.command](&r, &err);
		client_free(r.c);
		curl_global_cleanup();
	}
	say_end(&r, code, &err);
	log_flush();
	cJSON_Delete(r.said);
	session_fini(&r.s);
	return outcome_status(code);
}
