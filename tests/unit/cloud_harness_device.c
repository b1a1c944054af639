/* See cloud_harness.h. Here: a device that does its part at once. */
#include "tests/unit/cloud_harness.h"

static bool pods_pass(harness *h)
{
	const cJSON *pod;
	cJSON_ArrayForEach(pod, h->objects[OBJECT_POD]) {
		if (strcmp(harness__text(pod, "status", "phase"), "Pending") == 0) {
			harness_pod_phase(h, harness__text(pod, "metadata", "name"), "Running");
			return true;
		}
	}
	return false;
}

static bool work_pass(harness *h, device *d, const desired *doc, enum worker_kind kind)
{
	position p = doc->position;
	says s = {.node = d->node, .from = doc->has_cursor ? doc->cursor.sample : 0, .to = d->samples, .metric = d->metric, .metric_old = 0.5};
	if (p.phase == PHASE_WAITING && (doc->roles & ROLE_DATASET) != 0 && p.round <= d->last_round) {
		d->samples = 10 * p.round; /* the same in every repetition */
		s.to = d->samples;
		harness_report(h, d->job, p.round, p.stage, REPORT_READY, &s);
		return true;
	}
	if (p.phase == PHASE_WAITING || phase_ended(p.phase) || !harness_has_pod(h, d->job, kind, p.round))
		return false;
	char *name = harness_pod_name(h, d->job, kind, p.round);
	bool runs = strcmp(harness__text(harness_object(h, OBJECT_POD, name), "status", "phase"), "Running") == 0;
	bool ended = strcmp(harness__text(harness_object(h, OBJECT_POD, name), "status", "phase"), "Succeeded") == 0;
	if (runs || ended)
		harness_report(h, d->job, p.round, p.stage, REPORT_COMPLETED, &s);
	if (runs)
		harness_pod_phase(h, name, "Succeeded");
	free(name);
	return runs || ended;
}

static bool deploy_pass(harness *h, const device *d, const desired *doc)
{
	position p = doc->position;
	says s = {.node = d->node};
	if ((doc->roles & ROLE_DEPLOY) == 0)
		return false;
	if (p.phase == PHASE_WAITING && d->metric > 0.5) {
		harness_report(h, d->job, p.round, p.stage, REPORT_READY, &s);
	} else if (p.phase == PHASE_WAITING) {
		s.reason = "NotBetter";
		harness_report(h, d->job, p.round, p.stage, REPORT_COMPLETED, &s);
	} else if (p.phase == PHASE_READY) {
		for (size_t i = 0; i < h->n_kept && doc->has_rollback; i++) {
			if (h->kept[i].round == doc->rollback_round)
				s.content = h->kept[i].content;
		}
		if (doc->has_rollback && doc->rollback_round == 0)
			s.content = 255;
		harness_report(h, d->job, p.round, p.stage, REPORT_WRITTEN, &s);
	} else {
		return false;
	}
	return true;
}

bool device_pass(harness *h, device *d)
{
	if (pods_pass(h))
		return true;
	desired *doc = harness_desired(h, d->node, d->job);
	if (doc == NULL)
		return false;
	bool did = false;
	if (doc->position.stage == STAGE_DEPLOY)
		did = deploy_pass(h, d, doc);
	else
		did = work_pass(h, d, doc, doc->position.stage == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL);
	desired_free(doc);
	return did;
}

void device_run(harness *h, device *d)
{
	position before = {0};
	int same = 0;
	for (int i = 0; i < 1000; i++) {
		harness_run(h);
		position p = harness_position(h, d->job);
		same = position_compare(p, before) == 0 ? same + 1 : 0;
		before = p;
		/* A device repeats itself later and later: let time pass when nothing comes of it. */
		bool did = same < 4 && device_pass(h, d);
		if (did)
			continue;
		if (!harness_wake(h, 15 * 60 * 1000) || p.round > d->last_round)
			return;
		same = 0;
	}
	fail_msg("the device never comes to rest");
}

void device_until(harness *h, device *d, enum stage stage, enum phase phase)
{
	for (int i = 0; i < 200; i++) {
		harness_run(h);
		position p = harness_position(h, d->job);
		if (p.stage == stage && p.phase == phase)
			return;
		device_pass(h, d);
	}
	fail_msg("%s never comes to %s/%s", d->job, stage_name(stage), phase_name(phase));
}
