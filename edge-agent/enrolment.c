/* See enrolment.h for the contract. */
#include "edge-agent/enrolment.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/pki.h"
#include "common/text.h"
#include "edge-agent/core/enrolment_plan.h"
#include "proto/document.h"

/* CHILD_MS: longer than the program gives itself. Statuses are those of ilmare-certificate(8). */
enum { CHILD_MS = 120 * 1000, SAID_MAX = 400, STATUS_DONE = 0, STATUS_REFUSED = 3 };

struct enrolment {
	uv_loop_t *loop;
	enrolment_events events;
	char *url, *node, *token_file, *ca_file, *program, *folder, *file;
	enrolment_plan plan;
	enrolment_certificate certificate;
	enrolment_counters counters;
	uv_timer_t timer;
	bool stopping;
	/* The child. */
	uv_process_t process;
	uv_pipe_t in, out; /* its standard input and error */
	int open;          /* handles of it */
	int64_t status;
	char end[128]; /* in words */
	char heard[SAID_MAX + 1];
	size_t heard_len;
	char said[SAID_MAX + 1];      /* by the last one that failed */
	char problem[SAID_MAX + 128]; /* "" if the certificate is valid */
};

static void look(enrolment *e);

char *enrolment_file(const char *state_dir)
{
	return mem_printf("%s/tls/node.pem", state_dir);
}

/* ---- what there is ---- */

static bool is_ours(const enrolment *e, X509 *cert, EVP_PKEY *key)
{
	char name[PKI_NAME_SIZE];

	return cert && key && X509_check_private_key(cert, key) == 1 && pki_name(X509_get_subject_name(cert), name) &&
		strcmp(name, e->node) == 0;
}

/* One that cannot be read, is another node's, or has another key is as good as none. */
static void read_certificate(enrolment *e)
{
	buf text = {0};
	X509 *cert = NULL;
	EVP_PKEY *key = NULL;

	e->certificate = (enrolment_certificate){0};
	buf_reserve(&text, PKI_FILE_MAX + 1);
	if (file_read(e->file, PKI_FILE_MAX, &text, NULL) == 0) {
		cert = pki_certificate_parse(buf_text(&text), text.len);
		key = pki_key_parse(buf_text(&text), text.len);
	}
	if (is_ours(e, cert, key))
		e->certificate = (enrolment_certificate){
			.there = true, .begins_ms = pki_time(X509_get0_notBefore(cert)), .ends_ms = pki_time(X509_get0_notAfter(cert))};
	X509_free(cert);
	EVP_PKEY_free(key);
	buf_wipe(&text);
}

static bool has_token(const enrolment *e)
{
	return e->token_file && access(e->token_file, R_OK) == 0;
}

/* ---- what is said ---- */

static void set_problem(enrolment *e)
{
	enum enrolment_need need = enrolment_need(&e->certificate, clock_now().unix_ms);
	char text[sizeof e->problem] = "", date[32];

	if (need == ENROLMENT_CLOCK) {
		time_format(e->certificate.begins_ms, date);
		snprintf(text, sizeof text, "it begins at %s, and this machine's clock is before that", date);
	} else if (need == ENROLMENT_FIRST) {
		if (e->said[0])
			text_copy(text, sizeof text, e->said);
		else if (e->plan.running == ENROLMENT_WAIT && !has_token(e))
			text_print(text, sizeof text, "there is no token to ask with: %s",
				e->token_file ? e->token_file : "enrolment.tokenFile is not set");
		else
			text_print(text, sizeof text, "asking %s", e->url);
	}
	if (strcmp(text, e->problem) == 0)
		return;
	memcpy(e->problem, text, sizeof text);
	if (e->events.changed)
		e->events.changed(e->events.ctx);
}

static void say_end(const enrolment *e, enum enrolment_outcome outcome)
{
	char ends[32];

	if (e->said[0] == 0) {
		time_format(e->certificate.ends_ms, ends);
		log_info("enrolment", "a new certificate", L_STR("node", e->node), L_STR("not_after", ends));
	} else {
		log_warn("enrolment", outcome == ENROLMENT_REFUSED ? "refused" : "no certificate this time", L_STR("node", e->node),
			L_STR("error", e->said));
	}
}

/* ---- the child ---- */

/* Its first line, without the program's name. */
static void take_words(enrolment *e)
{
	static const char name[] = "ilmare-certificate: ";
	const char *words = e->heard;

	e->heard[e->heard_len] = 0;
	e->heard[strcspn(e->heard, "\r\n")] = 0;
	if (strncmp(words, name, sizeof name - 1) == 0)
		words += sizeof name - 1;
	text_copy(e->said, sizeof e->said, words[0] ? words : e->end);
}

/* All of it is over. */
static void ended(enrolment *e)
{
	enum enrolment_outcome outcome = e->status == STATUS_DONE ? ENROLMENT_DONE :
		e->status == STATUS_REFUSED                           ? ENROLMENT_REFUSED :
																ENROLMENT_FAILED;
	if (e->stopping)
		return;
	read_certificate(e);
	enrolment_plan_ended(&e->plan, outcome, &e->certificate, has_token(e), clock_now());
	e->said[0] = 0;
	if (outcome != ENROLMENT_DONE)
		take_words(e);
	else if (e->plan.failures > 0)
		snprintf(e->said, sizeof e->said, "the new certificate ends no later than the one before: perhaps the authority ends then");
	e->counters.failures += e->said[0] != 0;
	say_end(e, outcome);
	look(e);
	if (outcome == ENROLMENT_DONE && e->certificate.there)
		e->events.certificate(e->events.ctx);
}

static void on_closed(uv_handle_t *handle)
{
	enrolment *e = handle->data;

	if (--e->open == 0)
		ended(e);
}

static void on_exit_of(uv_process_t *process, int64_t status, int signal)
{
	enrolment *e = process->data;

	e->status = signal ? -1 : status;
	snprintf(e->end, sizeof e->end, "%s ended with %s %d", e->program, signal ? "signal" : "status", signal ? signal : (int)status);
	uv_close((uv_handle_t *)&e->process, on_closed);
	uv_close((uv_handle_t *)&e->in, on_closed);
}

static void give_room(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
	enrolment *e = handle->data;
	static char rest[256]; /* what is over the bound is thrown away */

	(void)wanted;
	*out = e->heard_len < SAID_MAX ? uv_buf_init(e->heard + e->heard_len, (unsigned)(SAID_MAX - e->heard_len)) :
									 uv_buf_init(rest, sizeof rest);
}

static void on_said(uv_stream_t *stream, ssize_t n, const uv_buf_t *data)
{
	enrolment *e = stream->data;

	if (n > 0 && data->base == e->heard + e->heard_len)
		e->heard_len += (size_t)n;
	if (n < 0)
		uv_close((uv_handle_t *)&e->out, on_closed);
}

static void begin(enrolment *e, enum enrolment_way way)
{
	const char *args[16] = {"ilmare-certificate", "--until-stdin-ends", "--url", e->url, "--node", e->node, "--dir", e->folder};
	int n = 8, rc;
	uv_stdio_container_t stdio[3] = {{.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&e->in},
		{.flags = UV_IGNORE}, {.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&e->out}};
	uv_process_options_t options = {.exit_cb = on_exit_of, .file = e->program, .args = (char **)args, .stdio = stdio, .stdio_count = 3};

	if (e->ca_file) {
		args[n++] = "--ca";
		args[n++] = e->ca_file;
	}
	args[n++] = way == ENROLMENT_BY_TOKEN ? "--token-file" : "--renew";
	if (way == ENROLMENT_BY_TOKEN)
		args[n] = e->token_file;
	uv_pipe_init(e->loop, &e->in, 0);
	uv_pipe_init(e->loop, &e->out, 0);
	e->process.data = e->in.data = e->out.data = e;
	e->open = 3;
	e->heard_len = 0;
	e->status = -1;
	e->counters.attempts++;
	rc = uv_spawn(e->loop, &e->process, &options);
	if (rc == 0) {
		uv_read_start((uv_stream_t *)&e->out, give_room, on_said);
		return;
	}
	snprintf(e->end, sizeof e->end, "cannot run %s: %s", e->program, uv_strerror(rc));
	uv_close((uv_handle_t *)&e->process, on_closed);
	uv_close((uv_handle_t *)&e->in, on_closed);
	uv_close((uv_handle_t *)&e->out, on_closed);
}

/* ---- the turn ---- */

static void on_timer(uv_timer_t *timer)
{
	enrolment *e = timer->data;

	if (e->plan.running == ENROLMENT_WAIT)
		look(e);
	else if (uv_is_active((uv_handle_t *)&e->process))
		uv_process_kill(&e->process, SIGKILL);
}

/* Files are read anew each time: somebody may have taken the certificate away, or brought a token. */
static void look(enrolment *e)
{
	moment now = clock_now();
	int64_t wake;
	enum enrolment_way way;

	read_certificate(e);
	way = enrolment_plan_next(&e->plan, &e->certificate, has_token(e), now, &wake);
	uv_timer_start(&e->timer, on_timer, way != ENROLMENT_WAIT ? CHILD_MS : wake > now.mono_ms ? (uint64_t)(wake - now.mono_ms) : 0, 0);
	if (way != ENROLMENT_WAIT)
		begin(e, way);
	set_problem(e);
}

/* ---- life ---- */

enrolment *enrolment_start(uv_loop_t *loop, const enrolment_config *config, const enrolment_events *events)
{
	enrolment *e = mem_alloc(sizeof *e);

	e->loop = loop;
	e->events = *events;
	e->url = mem_strdup(config->url);
	e->node = mem_strdup(config->node);
	e->token_file = mem_strdup(config->token_file);
	e->ca_file = mem_strdup(config->ca_file);
	e->program = mem_strdup(config->program);
	e->folder = mem_printf("%s/tls", config->state_dir);
	e->file = enrolment_file(config->state_dir);
	enrolment_plan_init(&e->plan, config->seed);
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	look(e);
	return e;
}

const char *enrolment_problem(const enrolment *e)
{
	return e->problem[0] ? e->problem : NULL;
}

void enrolment_count(const enrolment *e, enrolment_counters *out)
{
	*out = e->counters;
}

void enrolment_stop(enrolment *e)
{
	if (!e || e->stopping)
		return;
	e->stopping = true;
	uv_close((uv_handle_t *)&e->timer, NULL);
	if (e->open > 0 && uv_is_active((uv_handle_t *)&e->process))
		uv_process_kill(&e->process, SIGTERM);
}

void enrolment_free(enrolment *e)
{
	if (!e)
		return;
	free(e->url);
	free(e->node);
	free(e->token_file);
	free(e->ca_file);
	free(e->program);
	free(e->folder);
	free(e->file);
	free(e);
}
