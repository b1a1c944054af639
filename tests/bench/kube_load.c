/* What an API server can do at most: requests sent by a client that costs next to nothing, so many at a time. For bench_kube*.py.
 *
 *     kube_load send  SERVER CA TOKEN N            each line of the input is one request: METHOD PATH BODY (with tabs between)
 *     kube_load patch SERVER CA TOKEN N SECONDS    each line is the path of an object's status. The first N of them are patched again and again,
 *                                                  each guarded by the version that it has, with the conditions that it has (one word differs)
 *
 * Says {"n", "failed", "seconds", "p50_ms", "p99_ms", "cpu_seconds"} of what was answered; with `patch`, after a first patch of each. It uses the
 * cloud agent's own transport: what is to be compared is what the agent makes of it, not two HTTP libraries. TOKEN: the token itself.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <uv.h>

#include "cloud-agent/cluster/kube/transport.h"
#include "common/json.h"
#include "common/mem.h"

enum { ANSWER_MAX = 1024 * 1024, TOTAL_MS = 60 * 1000 };

typedef struct load load;

typedef struct one { /* a request that is under way, or an object whose turn comes again */
	load *l;
	char *path;
	cJSON *object; /* patch: as it was last answered */
	uint64_t began;
} one;

struct load {
	uv_loop_t loop;
	transport *transport;
	const char *token, *ca;
	bool patches;
	one *all;
	size_t n, warm;            /* warm: answered first patches */
	uint64_t began, end, last; /* ns; end: nothing is begun after it */
	double *took;              /* ms */
	size_t answers, failed, running;
};

static void fail(const char *what)
{
	fprintf(stderr, "kube_load: %s\n", what);
	exit(1);
}

static int identity(void *ctx, transport_identity *out, error *err)
{
	const load *l = ctx;

	(void)err;
	*out = (transport_identity){.token = l->token, .ca_file = l->ca};
	return 0;
}

static void note(load *l, one *o, const transport_answer *answer)
{
	l->last = uv_hrtime();
	l->took = mem_resize_array(l->took, l->answers + 1, sizeof *l->took);
	l->took[l->answers++] = (double)(l->last - o->began) / 1e6;
	if (answer->code == 0 && answer->status / 100 == 2)
		return;
	if (l->failed++ == 0)
		fprintf(stderr, "kube_load: %s: %d %s %.300s\n", o->path, answer->status, answer->text, answer->body);
}

/* ---- send ---- */

static bool send_line(load *l, one *o);

static void on_sent(void *ctx, const transport_answer *answer)
{
	one *o = ctx;
	load *l = o->l;

	note(l, o, answer);
	l->running--;
	free(o->path);
	if (!send_line(l, o) && l->running == 0)
		transport_close(l->transport);
}

/* False: there is no more. */
static bool send_line(load *l, one *o)
{
	static char *line;
	static size_t size;
	transport_request request = {.content_type = "application/json", .total_ms = TOTAL_MS, .ctx = o, .done = on_sent};
	char *rest = NULL;

	if (getline(&line, &size, stdin) <= 0)
		return false;
	line[strcspn(line, "\n")] = 0;
	request.method = strtok_r(line, "\t", &rest);
	request.path = o->path = mem_strdup(strtok_r(NULL, "\t", &rest));
	request.body = strtok_r(NULL, "\t", &rest);
	if (o->path == NULL)
		fail("a line is no request");
	if (strcmp(request.method, "PATCH") == 0)
		request.content_type = "application/merge-patch+json";
	o->began = uv_hrtime();
	l->running++;
	transport_begin(l->transport, &request);
	return true;
}

/* ---- patch ---- */

static void patch(load *l, one *o);

static void take(one *o, const transport_answer *answer)
{
	error err = {0};

	cJSON_Delete(o->object);
	if (json_parse(answer->body, answer->len, ANSWER_MAX, &o->object, &err) != 0)
		fail(err.text);
}

static void on_patched(void *ctx, const transport_answer *answer)
{
	one *o = ctx;
	load *l = o->l;

	if (l->warm < l->n) {
		if (answer->code != 0 || answer->status != 200)
			fail(answer->body);
		take(o, answer);
		if (++l->warm < l->n)
			return;
		/* Connections are there, and everything is in the server's caches. */
		l->end += uv_hrtime();
		l->began = uv_hrtime();
		for (size_t i = 0; i < l->n; i++)
			patch(l, &l->all[i]);
		return;
	}
	note(l, o, answer);
	l->running--;
	take(o, answer);
	if (l->last < l->end)
		patch(l, o);
	else if (l->running == 0)
		transport_close(l->transport);
}

static void patch(load *l, one *o)
{
	transport_request request = {.method = "PATCH",
		.path = o->path,
		.content_type = "application/merge-patch+json",
		.total_ms = TOTAL_MS,
		.ctx = o,
		.done = on_patched};
	cJSON *body = cJSON_CreateObject(), *metadata = cJSON_CreateObject(), *status, *conditions;
	char word[40], *text;

	if (cJSON_GetObjectItemCaseSensitive(o->object, "status") == NULL)
		fail("an object has no status");
	status = cJSON_Duplicate(cJSON_GetObjectItemCaseSensitive(o->object, "status"), 1);
	conditions = cJSON_GetObjectItemCaseSensitive(status, "conditions");
	if (cJSON_GetArraySize(conditions) == 0)
		fail("an object has no conditions");
	snprintf(word, sizeof word, "patch %zu", l->answers);
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetArrayItem(conditions, cJSON_GetArraySize(conditions) - 1), "message");
	json_put_string(cJSON_GetArrayItem(conditions, cJSON_GetArraySize(conditions) - 1), "message", word);
	json_put_string(metadata, "resourceVersion", cJSON_GetStringValue(json_member(json_member(o->object, "metadata"), "resourceVersion")));
	json_put(body, "metadata", metadata);
	json_put(body, "status", status);
	request.body = text = json_print(body);
	cJSON_Delete(body);
	o->began = uv_hrtime();
	l->running += l->warm == l->n;
	transport_begin(l->transport, &request);
	free(text);
}

static void on_got(void *ctx, const transport_answer *answer)
{
	one *o = ctx;

	if (answer->code != 0 || answer->status != 200)
		fail(answer->code != 0 ? answer->text : answer->body);
	take(o, answer);
	patch(o->l, o);
}

static void patches_begin(load *l)
{
	char line[1024];

	for (size_t i = 0; i < l->n; i++) {
		transport_request request = {.method = "GET", .total_ms = TOTAL_MS, .ctx = &l->all[i], .done = on_got};

		if (fgets(line, sizeof line, stdin) == NULL)
			fail("there are fewer paths than requests at a time");
		line[strcspn(line, "\n")] = 0;
		request.path = l->all[i].path = mem_strdup(line);
		transport_begin(l->transport, &request);
	}
}

/* ---- all ---- */

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void tell(load *l)
{
	struct rusage used;
	double cpu;

	getrusage(RUSAGE_SELF, &used);
	cpu = (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
	if (l->answers == 0)
		fail("nothing was sent");
	qsort(l->took, l->answers, sizeof *l->took, compare);
	printf("{\"n\":%zu,\"failed\":%zu,\"seconds\":%.6f,\"p50_ms\":%.3f,\"p99_ms\":%.3f,\"cpu_seconds\":%.3f}\n", l->answers, l->failed,
		(double)(l->last - l->began) / 1e9, l->took[l->answers / 2], l->took[l->answers * 99 / 100], cpu);
}

int main(int argc, char **argv)
{
	load l = {0};

	if (argc < 6 || (strcmp(argv[1], "send") != 0 && argc != 7))
		fail("see the head of its source");
	l.patches = strcmp(argv[1], "patch") == 0;
	l.ca = argv[3];
	l.token = argv[4];
	l.n = (size_t)strtoul(argv[5], NULL, 10);
	l.all = mem_alloc(l.n * sizeof *l.all);
	uv_loop_init(&l.loop);
	l.transport = transport_new(&l.loop,
		&(transport_config){.server = argv[2],
			.agent = "kube_load",
			.identity = identity,
			.identity_ctx = &l,
			.connect_ms = 5000,
			.answer_max = ANSWER_MAX});
	for (size_t i = 0; i < l.n; i++)
		l.all[i].l = &l;
	l.began = uv_hrtime();
	if (l.patches) {
		l.end = (uint64_t)(strtod(argv[6], NULL) * 1e9);
		patches_begin(&l);
	} else {
		for (size_t i = 0; i < l.n && send_line(&l, &l.all[i]); i++)
			;
	}
	uv_run(&l.loop, UV_RUN_DEFAULT);
	tell(&l);
	transport_free(l.transport);
	return l.failed > 0;
}
