/* Lists and watches: each reflector says what it wants to have sent, and gets what comes. */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

enum { EVENT_MAX = 8 * 1024 * 1024, LIST_MS = 60 * 1000, CHURN_PAGE = 100 };

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	kube *k = ctx;

	k->base.events.object(k->base.events.ctx, kind, ns, name, object);
}

static void source_add(kube *k, enum object_kind kind, const char *ns, uint64_t seed)
{
	kube_source *s;

	k->sources = mem_resize_array(k->sources, k->n_sources + 1, sizeof *k->sources);
	s = &k->sources[k->n_sources++];
	*s = (kube_source){.k = k, .kind = kind, .ns = mem_strdup(ns)};
	s->r = reflector_new(kind, ns, seed + k->n_sources, on_object, k);
	watch_lines_init(&s->lines, EVENT_MAX);
}

static void sources_add(kube *k, enum object_kind kind, const cluster_kube_config *config)
{
	char *list = mem_strdup(config->namespaces), *rest = NULL;

	for (char *ns = strtok_r(list, "\n", &rest); ns != NULL; ns = strtok_r(NULL, "\n", &rest))
		source_add(k, kind, ns, config->seed);
	free(list);
}

void kube__read_init(kube *k, const cluster_kube_config *config)
{
	/* What others refer to first, so that a job is not seen before its dataset. */
	enum { SILENCE_MS = 150 * 1000 }; /* bookmarks come about once a minute */
	static const enum object_kind order[] = {OBJECT_NODE, OBJECT_SECRET, OBJECT_DATASET, OBJECT_MODEL, OBJECT_POD, OBJECT_JOB};

	k->silence_ms = config->silence_ms != 0 ? config->silence_ms : SILENCE_MS;
	for (size_t i = 0; i < sizeof order / sizeof order[0]; i++) {
		if (config->namespaces == NULL || config->namespaces[0] == 0 || !resource_of(order[i])->namespaced)
			source_add(k, order[i], NULL, config->seed);
		else
			sources_add(k, order[i], config);
	}
}

void kube__read_fini(kube *k)
{
	for (size_t i = 0; i < k->n_sources; i++) {
		kube_source *s = &k->sources[i];

		if (s->call)
			transport_cancel(s->call);
		reflector_free(s->r);
		watch_lines_fini(&s->lines);
		free(s->ns);
	}
	free(k->sources);
	k->sources = NULL;
	k->n_sources = 0;
}

void kube__read_wrote(kube *k, enum object_kind kind, const char *ns, const cJSON *object)
{
	for (size_t i = 0; i < k->n_sources; i++) {
		kube_source *s = &k->sources[i];

		if (s->kind == kind && (s->ns == NULL || strcmp(s->ns, ns) == 0))
			reflector_wrote(s->r, object);
	}
}

void kube__read_again(kube *k)
{
	for (size_t i = 0; i < k->n_sources; i++)
		reflector_relist(k->sources[i].r, clock_now());
}

/* ---- answers ---- */

static void on_event(void *ctx, enum watch_type type, cJSON *object)
{
	kube_source *s = ctx;

	reflector_event(s->r, type, object, clock_now());
}

static void on_chunk(void *ctx, const char *data, size_t len)
{
	kube_source *s = ctx;
	error err = {0};

	if (watch_lines_add(&s->lines, data, len, on_event, s, &err) != 0) {
		transport_cancel(s->call);
		s->call = NULL;
		reflector_ended(s->r, err.code, err.text, 0, clock_now());
	}
	kube__go(s->k);
}

static void on_watch_ended(void *ctx, const transport_answer *answer)
{
	kube_source *s = ctx;
	error err = {0};
	int code = kube__answer(answer, NULL, &err);

	/* Silence is as good as an end: of a kind that never changes some servers send no bookmark either. If the connection is dead, the next one
	 * brings what was missed, or says what is wrong. */
	if (code == ERROR_TIMEOUT && answer->status == 200)
		code = 0;
	s->call = NULL;
	reflector_ended(s->r, code, err.text, answer->retry_after_ms, clock_now());
	kube__go(s->k);
}

static void on_list(void *ctx, const transport_answer *answer)
{
	kube_source *s = ctx;
	error err = {0};
	cJSON *page = NULL;
	int code = kube__answer(answer, &page, &err);

	s->call = NULL;
	s->k->churn += CHURN_PAGE;
	if (code == 0)
		reflector_page(s->r, page, clock_now());
	else
		reflector_ended(s->r, code, err.text, answer->retry_after_ms, clock_now());
	kube__go(s->k);
}

/* ---- requests ---- */

static void ask(kube_source *s, enum reflector_step step, reflector_request *wanted)
{
	transport_request request = {
		.method = "GET", .path = wanted->path, .accept = resource_accept(s->kind, step == REFLECTOR_WATCH), .ctx = s};

	if (s->call)
		transport_cancel(s->call);
	if (step == REFLECTOR_WATCH) {
		watch_lines_fini(&s->lines);
		watch_lines_init(&s->lines, EVENT_MAX);
		request.chunk = on_chunk;
		request.done = on_watch_ended;
		request.idle_ms = wanted->idle_ms < s->k->silence_ms ? wanted->idle_ms : s->k->silence_ms;
	} else {
		request.done = on_list;
		request.total_ms = LIST_MS;
	}
	s->call = transport_begin(s->k->transport, &request);
	free(wanted->path);
}

const char *kube__read_problem(const kube *k)
{
	for (size_t i = 0; i < k->n_sources; i++)
		if (reflector_problem(k->sources[i].r)[0] != 0)
			return reflector_problem(k->sources[i].r);
	return "";
}

static bool all_synced(const kube *k)
{
	for (size_t i = 0; i < k->n_sources; i++)
		if (!reflector_synced(k->sources[i].r))
			return false;
	return true;
}

void kube__read_act(kube *k)
{
	bool synced;

	for (size_t i = 0; i < k->n_sources; i++) {
		kube_source *s = &k->sources[i];
		reflector_request wanted;
		enum reflector_step step = reflector_next(s->r, clock_now(), &wanted);

		if (step != REFLECTOR_WAIT)
			ask(s, step, &wanted);
	}
	synced = all_synced(k);
	if (synced == k->synced)
		return;
	k->synced = synced;
	if (synced)
		log_info("kube", "all objects are known");
	k->base.events.synced(k->base.events.ctx, synced);
}

int64_t kube__read_wake(const kube *k)
{
	int64_t at = MOMENT_NEVER;

	for (size_t i = 0; i < k->n_sources; i++)
		if (reflector_wake(k->sources[i].r) < at)
			at = reflector_wake(k->sources[i].r);
	return at;
}
