/* See cloud_harness.h. Here: the broker, and reports. */
#include "tests/unit/cloud_harness.h"

#include <inttypes.h>

const char *harness_retained(const harness *h, const char *topic_text)
{
	const cJSON *message = json_member(h->retained, topic_text);
	return message != NULL ? message->valuestring : NULL;
}

void harness_deliver(harness *h, const char *topic_text, const char *payload, bool retained)
{
	error err = {0};
	if (controller_message(h->c, topic_text, payload, strlen(payload), retained, h->now, &err) != 0)
		fail_msg("%s: %s", topic_text, err.text);
}

static void retain(harness *h, const char *topic_text, const char *payload)
{
	cJSON_DeleteItemFromObjectCaseSensitive(h->retained, topic_text);
	if (payload[0] != '\0')
		json_put_string(h->retained, topic_text, payload);
}

void harness_foreign_any(harness *h, const char *topic_text, const char *payload)
{
	error err = {0};
	retain(h, topic_text, payload);
	controller_message(h->c, topic_text, payload, strlen(payload), false, h->now, &err);
}

void harness_foreign(harness *h, const char *topic_text, const char *payload)
{
	retain(h, topic_text, payload);
	if (h->c != NULL)
		harness_deliver(h, topic_text, payload, false);
}

void harness_birth(harness *h, const char *node, const char *session)
{
	presence p = {.ts = "2026-11-30T00:00:00Z", .node = node, .online = true, .version = "1", .session = session};
	char *payload = presence_encode(&p), *topic_text = mem_printf("ilmare/v1/presence/%s", node);
	harness_foreign(h, topic_text, payload);
	free(payload);
	free(topic_text);
}

desired *harness_desired(const harness *h, const char *node, const char *job)
{
	char *topic_text = mem_printf("ilmare/v1/node/%s/job/default/%s", node, job);
	const char *payload = harness_retained(h, topic_text);
	desired *d = NULL;
	error err = {0};
	if (payload != NULL && desired_decode(payload, strlen(payload), &d, &err) != 0)
		fail_msg("%s: %s", payload, err.text);
	free(topic_text);
	return d;
}

inventory *harness_inventory(const harness *h, const char *node)
{
	char *topic_text = mem_printf("ilmare/v1/node/%s/inventory", node);
	const char *payload = harness_retained(h, topic_text);
	inventory *inv = NULL;
	error err = {0};
	if (payload != NULL && inventory_decode(payload, strlen(payload), &inv, &err) != 0)
		fail_msg("%s: %s", payload, err.text);
	free(topic_text);
	return inv;
}

job_state *harness_state(const harness *h, const char *job)
{
	char *topic_text = mem_printf("ilmare/v1/ns/default/job/%s/state", job);
	const char *payload = harness_retained(h, topic_text);
	job_state *s = NULL;
	error err = {0};
	if (payload != NULL && job_state_decode(payload, strlen(payload), &s, &err) != 0)
		fail_msg("%s: %s", payload, err.text);
	free(topic_text);
	return s;
}

/* ---- reports ---- */

static void fill_train(report *r, const says *s, model *models, char *urls[4], int64_t round, const char *dir)
{
	urls[0] = mem_printf("%s/data/train/%" PRId64 "/data.txt", dir, round);
	urls[1] = mem_printf("%s/train/%" PRId64, dir, round);
	urls[2] = mem_printf("%s/train/%" PRId64 "/serve.pb", dir, round);
	urls[3] = mem_printf("%s/train/%" PRId64 "/ckpt", dir, round);
	if (r->what == REPORT_READY) {
		models[0] = (model){.format = "ckpt", .url = "/models/initial.ckpt"};
		r->has_input = true;
		r->input.models = models;
		r->input.n_models = 1;
		r->input.data_url = urls[0];
		r->input.output_dir = urls[1];
	} else if (r->what == REPORT_COMPLETED) {
		models[0] = (model){.format = "pb", .url = urls[2]};
		models[1] = (model){.format = "ckpt", .url = urls[3]};
		r->has_output = true;
		r->output.models = models;
		r->output.n_models = 2;
	}
	if ((r->what == REPORT_READY || r->what == REPORT_COMPLETED) && !s->no_range) {
		r->has_range = true;
		r->range = (sample_range){.from = s->from, .to = s->to, .end = {.sample = s->to, .size = s->to * 10}};
	}
}

static void fill_eval(report *r, const says *s, model *models, char *urls[4], int64_t round, const char *dir, cJSON *metrics[2])
{
	urls[0] = mem_printf("%s/data/eval/%" PRId64 "/data.txt", dir, round);
	urls[2] = mem_printf("%s/train/%" PRId64 "/serve.pb", dir, round);
	models[0] = (model){.format = "pb", .url = urls[2]};
	models[1] = (model){.format = "pb", .url = "/models/serve.pb"};
	if (r->what == REPORT_READY) {
		r->has_input = true;
		r->input.models = models;
		r->input.n_models = 2;
		r->input.data_url = urls[0];
	} else if (r->what == REPORT_COMPLETED) {
		metrics[0] = cJSON_CreateObject();
		metrics[1] = cJSON_CreateObject();
		json_put_double(metrics[0], "acc", s->metric);
		json_put_double(metrics[1], "acc", s->metric_old);
		models[0].metrics = metrics[0];
		models[1].metrics = metrics[1];
		r->has_output = true;
		r->output.models = models;
		r->output.n_models = 2;
	}
}

/* The newest first, 0 at last. */
static void fill_versions(harness *h, report *r, int64_t content, const char *dir, model_version *versions, char urls[][80])
{
	if (h->n_kept == 0 || h->kept[h->n_kept - 1].round != r->position.round) {
		h->kept[h->n_kept].round = r->position.round;
		h->kept[h->n_kept++].content = content;
	}
	for (size_t i = 0; i <= h->n_kept && i < DOCUMENT_MAX_VERSIONS; i++) {
		bool first = i == h->n_kept;
		versions[i].round = first ? 0 : h->kept[h->n_kept - 1 - i].round;
		memset(&versions[i].sha256, (int)(first ? 255 : h->kept[h->n_kept - 1 - i].content), sizeof versions[i].sha256);
		snprintf(urls[i], 80, "%s/deployed/%lld/m.pb", dir, (long long)versions[i].round);
		versions[i].url = urls[i];
		r->n_versions = i + 1;
	}
	r->has_versions = true;
	r->versions = versions;
}

void harness_report(harness *h, const char *job, int64_t round, enum stage stage, enum report_what what, const says *s)
{
	static const enum phase phases[] = {PHASE_READY, PHASE_COMPLETED, PHASE_FAILED, PHASE_STARTING};
	const cJSON *object = harness_object(h, OBJECT_JOB, job);
	const char *dir = s->dir != NULL ? s->dir : object != NULL ? harness__text(object, "spec", "outputDir") : "/out";
	model models[2] = {0};
	char *urls[4] = {0};
	cJSON *metrics[2] = {0};
	model_version versions[DOCUMENT_MAX_VERSIONS];
	char version_urls[DOCUMENT_MAX_VERSIONS][80];
	report r = {.ts = "2026-11-30T00:00:00Z",
		.node = s->node,
		.what = what,
		.store = "store",
		.seq = 1,
		.reason = s->reason,
		.message = s->message};
	r.job = (job_ref){.ns = "default", .name = job, .uid = s->uid != NULL ? s->uid : harness__text(object, "metadata", "uid")};
	r.position = (position){.round = round, .stage = stage, .phase = phases[what]};
	if (stage == STAGE_TRAIN)
		fill_train(&r, s, models, urls, round, dir);
	else if (stage == STAGE_EVAL)
		fill_eval(&r, s, models, urls, round, dir, metrics);
	if (what == REPORT_FAILED && r.reason == NULL)
		r.reason = "ResultsMissing";
	if (what == REPORT_WRITTEN) {
		r.has_sha256 = true;
		memset(&r.sha256, (int)(s->content != 0 ? s->content : round), sizeof r.sha256);
		if (h->keeps)
			fill_versions(h, &r, s->content != 0 ? s->content : round, dir, versions, version_urls);
	}
	char *payload = report_encode(&r);
	topic t = {.kind = TOPIC_REPORT, .stage = stage, .what = what};
	snprintf(t.ns, sizeof t.ns, "default");
	snprintf(t.name, sizeof t.name, "%s", job);
	snprintf(t.node, sizeof t.node, "%s", s->node);
	char *topic_text = topic_format(TOPIC_ROOT, &t);
	harness_deliver(h, topic_text, payload, false);
	free(topic_text);
	free(payload);
	for (int i = 0; i < 4; i++)
		free(urls[i]);
	cJSON_Delete(metrics[0]);
	cJSON_Delete(metrics[1]);
}

void harness_say(harness *h, int64_t round, enum stage stage, enum report_what what)
{
	harness_report(h, "j", round, stage, what,
		&(says){.node = "edge-1", .from = 10 * (round - 1), .to = 10 * round, .metric = 0.9, .metric_old = 0.5});
	harness_run(h);
}

const char *harness_reason(const harness *h, const char *job)
{
	static char reason[65];
	job_state *s = harness_state(h, job);
	snprintf(reason, sizeof reason, "%s", s->reason);
	job_state_free(s);
	return reason;
}

/* ---- stamps ---- */

stamp harness_stamp_of(const char *payload)
{
	stamp s = {0};
	cJSON *tree = NULL;
	assert_int_equal(json_parse(payload, strlen(payload), 100000, &tree, NULL), 0);
	json_get_int(json_member(tree, "stamp"), "", "epoch", 0, JSON_MAX_INT, &s.epoch, NULL);
	json_get_int(json_member(tree, "stamp"), "", "gen", 0, JSON_MAX_INT, &s.gen, NULL);
	cJSON_Delete(tree);
	return s;
}

stamp harness_stamp(const harness *h, const char *topic_text)
{
	const char *payload = harness_retained(h, topic_text);
	if (payload == NULL)
		fail_msg("nothing at %s", topic_text);
	return harness_stamp_of(payload);
}

void harness_check_stamps(const harness *h)
{
	const cJSON *a, *b;
	cJSON_ArrayForEach(a, h->retained) {
		if (strstr(a->string, "/presence/") != NULL)
			continue;
		assert_int_equal(harness_stamp(h, a->string).epoch, h->epoch);
		for (b = a->next; b != NULL; b = b->next) {
			if (strstr(b->string, "/presence/") == NULL)
				assert_int_not_equal(harness_stamp(h, a->string).gen, harness_stamp(h, b->string).gen);
		}
	}
}
