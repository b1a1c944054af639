/* Reports that arrived, and what each leads to.
 *
 * A report is judged when it comes; one that is accepted waits here until its patch is applied, and is judged again if that patch fails or
 * another write was under way. At most REPORTS_MAX wait for a job, of each stage, kind and node the newest. Nothing is lost when one is
 * dropped: the sender repeats it until a document settles it. What does not match is counted and answered with the document, at most once in
 * a second.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"
#include "cloud-agent/core/rollback.h"

enum { ANSWER_EVERY_MS = 1000 };

static bool may_answer(int64_t *answered_at, int64_t now)
{
	if (*answered_at >= 0 && now - *answered_at < ANSWER_EVERY_MS)
		return false;
	*answered_at = now;
	return true;
}

/* ---- what a report leads to ---- */

static cJSON *input_encode(const report *r)
{
	cJSON *parts = cJSON_CreateObject(), *input = cJSON_CreateObject(), *models = cJSON_CreateArray();
	for (size_t i = 0; i < r->input.n_models; i++) {
		model m = r->input.models[i];
		m.metrics = NULL;
		cJSON_AddItemToArray(models, model_encode(&m));
	}
	json_put(input, "models", models);
	json_put_string(input, "dataURL", r->input.data_url);
	json_put_string(input, "dataIndexURL", r->input.data_index_url);
	json_put_string(input, "outputDir", r->input.output_dir);
	json_put(parts, "input", input);
	if (r->has_range) {
		cJSON *range = cJSON_CreateObject();
		json_put_int(range, "from", r->range.from);
		json_put_int(range, "to", r->range.to);
		json_put(range, "end", cursor_encode(&r->range.end));
		json_put(parts, "range", range);
	}
	return parts;
}

static cJSON *output_encode(const controller *c, const job *j, const report *r)
{
	bool truncated = false;
	cJSON *parts = cJSON_CreateObject(), *output = cJSON_CreateObject();
	json_put(output, "models",
		models_bounded(r->output.models, r->output.n_models, &j->view->deploy, j->compact ? 0 : c->cfg.metrics_max, &truncated));
	json_put(parts, "output", output);
	if (truncated)
		json_put_bool(parts, "truncated", true);
	return parts;
}

static void delete_tree(void *tree)
{
	cJSON_Delete(tree);
}

/* A step with parts of `data`; the change owns them. */
static void add_with_data(change *ch, enum stage stage, enum phase phase, const report *r, cJSON *input, cJSON *output)
{
	change_add(ch, stage, phase, r->reason, r->message);
	ch->steps[ch->n - 1].input = input;
	ch->steps[ch->n - 1].output = output;
	if (input != NULL)
		arena_own(ch->mem, input, delete_tree);
	if (output != NULL)
		arena_own(ch->mem, output, delete_tree);
}

static void apply_work_ready(const facts *f, const report *r, change *ch)
{
	ch->m.node = ch->m.pod_uid = NULL;
	if (r->position.stage == STAGE_TRAIN)
		ch->m.dataset = f->dataset != NULL ? f->dataset->name : NULL;
	add_with_data(ch, r->position.stage, PHASE_READY, r, input_encode(r), NULL);
}

/* The cursor is the end of the samples in the folder that was trained from: the dataset node reads it from the manifest; when another node
 * reports, it is what the accepted `ready` said. */
static void apply_work_completed(const controller *c, const job *j, const report *r, change *ch)
{
	const facts *f = &j->facts;
	const job_view *v = j->view;
	ch->m.node = r->node;
	if (r->position.stage == STAGE_TRAIN) {
		if (r->has_range && f->dataset_node != NULL && strcmp(r->node, f->dataset_node) == 0) {
			ch->m.has_cursor = true;
			ch->m.cursor = r->range.end;
		} else if (v->train_input.has_next) {
			ch->m.has_cursor = true;
			ch->m.cursor = v->train_input.next;
		}
	}
	add_with_data(ch, r->position.stage, PHASE_COMPLETED, r, NULL, output_encode(c, j, r));
	ch->m.pod_uid = NULL;
	if (r->position.stage == STAGE_TRAIN) {
		ch->m.node = NULL;
		change_add(ch, STAGE_EVAL, PHASE_WAITING, NULL, NULL);
	} else {
		change_add(ch, STAGE_DEPLOY, PHASE_WAITING, NULL, NULL); /* node: eval's, which decides if there is no inference pod */
	}
}

static void record_deployed(const controller *c, const job *j, const report *r, change *ch)
{
	char time[32];
	time_format(c->now.unix_ms, time);
	ch->m.has_deployed = true;
	ch->m.deployed.round = j->view->pos.round;
	ch->m.deployed.url = j->facts.deploy != NULL ? arena_strdup(ch->mem, j->facts.deploy->url) : NULL;
	ch->m.deployed.eval_url = j->facts.eval != NULL ? arena_strdup(ch->mem, j->facts.eval->url) : NULL;
	ch->m.deployed.since = arena_strdup(ch->mem, time);
	ch->m.deployed.has_sha256 = r->has_sha256;
	ch->m.deployed.sha256 = r->sha256;
	ch->m.deployed.back = ch->m.rollback.under_way;
	ch->m.deployed.of = ch->m.rollback.to;
	if (ch->m.rollback.under_way && !r->has_sha256) {
		ch->m.deployed.has_sha256 = true;
		ch->m.deployed.sha256 = ch->m.rollback.sha256;
	}
	versions_take(j, r, ch);
}

static bool apply_deploy(controller *c, job *j, const report *r, enum phase to, change *ch)
{
	bool recorded = r->what == REPORT_WRITTEN || (to == PHASE_COMPLETED && j->view->pos.phase == PHASE_READY);
	ch->m.node = r->node;
	if (recorded)
		record_deployed(c, j, r, ch);
	if (to != PHASE_COMPLETED) {
		change_add(ch, STAGE_DEPLOY, to, r->reason, r->message);
		return recorded;
	}
	change_end_round(ch, STAGE_DEPLOY, PHASE_COMPLETED, r->reason, r->message);
	next_round_add(c, j, ch);
	return recorded;
}

static void apply(controller *c, job *j, report *r, enum phase to)
{
	change ch = change_begin(j->view);
	bool deployed = false;
	if (to == PHASE_FAILED) {
		/* The worker could not load what is in place: this says that `written` came first, also if that report was overtaken. */
		deployed = r->position.stage == STAGE_DEPLOY && j->view->pos.phase == PHASE_READY && r->reason != NULL &&
			strcmp(r->reason, "LoadFailed") == 0;
		if (deployed)
			record_deployed(c, j, r, &ch);
		ch.m.node = ch.m.node != NULL ? ch.m.node : r->node;
		change_end_round(&ch, r->position.stage, PHASE_FAILED, r->reason, r->message);
	} else if (r->position.stage == STAGE_DEPLOY) {
		deployed = apply_deploy(c, j, r, to, &ch);
	} else if (to == PHASE_READY) {
		apply_work_ready(&j->facts, r, &ch);
	} else {
		apply_work_completed(c, j, r, &ch);
	}
	flight *f = flight_patch(c, j, &ch);
	f->report = r;
	f->settles = mem_strdup(r->node);
	f->deployments = deployed;
	change_end(&ch);
}

/* ---- judging ---- */

static enum verdict judge(controller *c, job *j, const report *r, enum phase *to)
{
	const facts *f = job_facts(c, j);
	const char *why;
	judge_nodes nodes = {.dataset = f->dataset_node, .worker = f->worker_node, .deploy = f->deploy_node};
	if (strcmp(r->job.uid, j->uid) != 0 || j->view->deleting)
		return VERDICT_IGNORE;
	return report_judge(j->view, serves_hot(f, j->view), &nodes, r, to, &why);
}

static void ignore(controller *c, job *j, const report *r)
{
	c->count.reports_ignored++;
	if (may_answer(&j->answered_at, c->now.mono_ms))
		job_answer(c, j, r->node);
}

static void remove_at(job *j, size_t i)
{
	report_free(j->reports[i]);
	j->n_reports--;
	memmove(&j->reports[i], &j->reports[i + 1], (j->n_reports - i) * sizeof j->reports[0]);
}

bool reports_apply(controller *c, job *j)
{
	for (size_t i = 0; i < j->n_reports;) {
		enum phase to;
		if (judge(c, j, j->reports[i], &to) == VERDICT_ACCEPT) {
			apply(c, j, j->reports[i], to);
			return true;
		}
		ignore(c, j, j->reports[i]);
		remove_at(j, i);
	}
	return false;
}

/* ---- arrival ---- */

static void keep(job *j, report *r)
{
	for (size_t i = 0; i < j->n_reports; i++) {
		const report *old = j->reports[i];
		if (old->position.stage == r->position.stage && old->what == r->what && strcmp(old->node, r->node) == 0) {
			if (j->flight != NULL && j->flight->report == old)
				j->flight->report = NULL;
			remove_at(j, i);
			break;
		}
	}
	if (j->n_reports == REPORTS_MAX) {
		if (j->flight != NULL && j->flight->report == j->reports[0])
			j->flight->report = NULL;
		remove_at(j, 0);
	}
	j->reports[j->n_reports++] = r;
}

static int check_topic(const topic *t, const report *r, error *err)
{
	if (strcmp(t->node, r->node) != 0)
		return error_set(err, ERROR_INVALID, "report: node %.80s was published under the topic of node %.80s", r->node, t->node);
	if (strcmp(t->ns, r->job.ns) != 0 || strcmp(t->name, r->job.name) != 0)
		return error_set(err, ERROR_INVALID, "report: job %.60s/%.80s was published under the topic of job %.60s/%.80s", r->job.ns,
			r->job.name, t->ns, t->name);
	return 0;
}

/* The job is not there: an inventory tells the node. */
static void answer_unknown(controller *c, const char *node_name)
{
	node *n = node_get(c, node_name, false);
	c->count.reports_ignored++;
	if (n != NULL && c->synced && may_answer(&n->answered_at, c->now.mono_ms))
		fleet_inventory(c, n, true);
}

int report_take(controller *c, const topic *t, const void *payload, size_t len, error *err)
{
	report *r;
	enum phase to;
	int code = report_decode(payload, len, t->stage, t->what, &r, err);
	if (code != 0)
		return code;
	code = check_topic(t, r, err);
	if (code != 0 || !c->leading) {
		report_free(r);
		return code;
	}
	c->count.reports++;
	char *key = object_key(t->ns, t->name);
	job *j = table_get(&c->jobs, key);
	free(key);
	if (j == NULL) {
		answer_unknown(c, r->node);
		report_free(r);
	} else if (!may_write(c) || j->flight != NULL || judge(c, j, r, &to) == VERDICT_ACCEPT) {
		keep(j, r);
		job_poke(c, j);
	} else {
		ignore(c, j, r);
		report_free(r);
	}
	return 0;
}
