/* What the topics of a job, a dataset and a node should hold.
 *
 * A desired document has all that its node needs and no more: what belongs to a role goes to the nodes with that role, and to the stage that
 * reads it. Contents are compared by their canonical text, in which Ready, Starting and Running are one phase: these alone change the state
 * topic, not what a device has to do.
 *
 * While something blocks the job (its spec or an object that it names is missing or wrong) its desired documents stay as they are, and its
 * uid is in every inventory: what is not known is not taken away.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/credential.h"
#include "cloud-agent/core/publisher.h"
#include "cloud-agent/core/rollback.h"

static model bare(const model *m)
{
	model copy = *m;
	copy.metrics = NULL;
	return copy;
}

/* ---- desired ---- */

static void add_eval_models(const job_view *v, const facts *f, arena *mem, desired *d)
{
	const model *target = f->eval != NULL ? f->eval : f->deploy;
	const model *fresh = v->trained.there ? model_select(v->trained.models, v->trained.n, target, USE_SERVE) : NULL;
	if (fresh == NULL)
		return;
	d->eval_models = arena_alloc(mem, 2 * sizeof *d->eval_models);
	d->eval_models[0] = bare(fresh);
	d->eval_models[1] = bare(target);
	d->n_eval_models = 2;
}

static void add_copy(const job_view *v, const model *to, desired *d)
{
	const model *from = model_select(v->trained.models, v->trained.n, to, USE_SERVE);
	if (from == NULL)
		return;
	d->copies[d->n_copies++] = (deploy_copy){.from = bare(from), .to = bare(to)};
}

/* The version to the Model that serves; and to the one that is compared with, if it takes the same. */
static void add_rollback(const job_view *v, const facts *f, arena *mem, desired *d)
{
	const kept_version *from = version_find(&v->m, v->m.rollback.to);
	d->has_rollback = true;
	d->rollback_round = v->m.rollback.to;
	d->rollback_sha256 = v->m.rollback.sha256;
	if (from == NULL || (d->roles & ROLE_DEPLOY) == 0)
		return;
	d->copies = arena_alloc(mem, 2 * sizeof *d->copies);
	d->copies[d->n_copies++] = (deploy_copy){.from = {.format = f->deploy->format, .url = from->url}, .to = bare(f->deploy)};
	if (f->eval != NULL && f->eval != f->deploy && strcmp(f->eval->format, f->deploy->format) == 0)
		d->copies[d->n_copies++] = (deploy_copy){.from = {.format = f->eval->format, .url = from->url}, .to = bare(f->eval)};
}

static void add_copies(const job_view *v, const facts *f, arena *mem, desired *d)
{
	if (!v->trained.there)
		return;
	d->copies = arena_alloc(mem, 2 * sizeof *d->copies);
	add_copy(v, f->deploy, d);
	if (f->eval != NULL && f->eval != f->deploy)
		add_copy(v, f->eval, d);
}

static void add_dataset(const job_view *v, const facts *f, desired *d)
{
	d->has_dataset = true;
	d->dataset =
		(dataset_ref){.ns = f->dataset->ns, .name = f->dataset->name, .uid = f->dataset->uid, .url = f->dataset->url, .format = f->format};
	d->train_prob = v->train_prob;
	d->first_sample_end = v->first_sample_end;
}

static void add_history(const job_view *v, desired *d)
{
	if (v->trained.there && v->trained.round > 0) {
		d->has_trained = true;
		d->trained_round = v->trained.round;
		d->trained_models = v->trained.models;
		d->n_trained_models = v->trained.n;
		d->has_cursor = v->m.has_cursor;
		d->cursor = v->m.cursor;
	}
	d->has_deployed = v->m.has_deployed;
	d->deployed_round = v->m.deployed.round;
	d->has_deployed_sha256 = v->m.deployed.has_sha256;
	d->deployed_sha256 = v->m.deployed.sha256;
}

char *document_desired(controller *c, job *j, const char *node_name, const stamp *s)
{
	char time[32] = "";
	const facts *f = job_facts(c, j);
	const job_view *v = j->view;
	unsigned roles = facts_roles(f, node_name);
	if (f->blocked || !v->started || roles == 0)
		return NULL;
	arena *mem = arena_new();
	desired d = {.ts = time, .node = node_name, .job = {.ns = j->ns, .name = j->name, .uid = j->uid}, .roles = roles, .position = v->pos};
	d.worker_ended = f->worker_ended;
	add_history(v, &d);
	if (v->pos.stage == STAGE_DEPLOY && v->m.rollback.under_way) {
		add_rollback(v, f, mem, &d);
	} else if (v->pos.stage == STAGE_DEPLOY) {
		d.eval_results = v->evaluated.models;
		d.n_eval_results = v->evaluated.n;
		if ((roles & ROLE_DEPLOY) != 0)
			add_copies(v, f, mem, &d);
	}
	if ((roles & ROLE_DATASET) != 0) {
		add_dataset(v, f, &d);
		if (v->pos.stage == STAGE_TRAIN) {
			d.has_base = true;
			d.base = bare(base_model(v, f->initial));
		} else if (v->pos.stage == STAGE_EVAL) {
			add_eval_models(v, f, mem, &d);
		}
	}
	d.train = v->train;
	d.deploy = v->deploy;
	d.output_dir = f->output_dir;
	d.hot_update = v->hot;
	d.poll_period_s = v->poll_s;
	d.credentials = credential_needs(c, j, roles, mem, &d.n_credentials);
	if (s != NULL) {
		d.stamp = *s;
		time_format(c->now.unix_ms, time);
	} else if (!phase_ended(d.position.phase) && d.position.phase != PHASE_WAITING) {
		d.position.phase = PHASE_READY;
	}
	char *text = desired_encode(&d);
	arena_free(mem);
	return text;
}

/* ---- state ---- */

static int64_t waiting_samples(const controller *c, const job *j)
{
	const job_view *v = j->view;
	const edge_status *status = j->facts.dataset != NULL ? dataset_status_of(c, j->facts.dataset) : NULL;
	int64_t from = v->m.has_cursor ? v->m.cursor.sample : 0;
	if (status == NULL || status->samples < from)
		return -1; /* not known, or the numbers went on over a replaced file */
	double p = v->train_prob;
	return (int64_t)floor((double)status->samples * p + 1e-9) - (int64_t)floor((double)from * p + 1e-9);
}

/* "num_of_samples >= 20, between 03:00 and 04:00"; false: it always holds. */
static bool trigger_text(const trigger *t, char *text, size_t size)
{
	char condition[400] = "", timer[48] = "";
	if (t->has_condition)
		(void)snprintf(condition, sizeof condition, "%s %s %g", t->metric, trigger_op_text(t->op), t->threshold);
	if (t->has_timer)
		(void)snprintf(timer, sizeof timer, "between %02d:%02d and %02d:%02d", t->start / 60, t->start % 60, t->end / 60, t->end % 60);
	(void)snprintf(text, size, "%s%s%s", condition, t->has_condition && t->has_timer ? ", " : "", timer);
	return t->has_condition || t->has_timer;
}

static void add_waiting(const controller *c, const job *j, char *text, size_t size, job_state *s)
{
	const trigger *t = &j->view->train;
	if (!j->view->started || j->view->spec_error != NULL || s->position.stage != STAGE_TRAIN || s->position.phase != PHASE_WAITING)
		return;
	s->has_waiting = true;
	s->waiting_samples = waiting_samples(c, j);
	s->waiting_trigger = trigger_text(t, text, size) ? text : NULL;
}

char *document_state(controller *c, job *j, const stamp *s)
{
	char time[32] = "", waiting[512];
	const job_view *v = j->view;
	arena *mem = arena_new();
	job_facts(c, j);
	job_state st = {.ts = time, .job = {.ns = j->ns, .name = j->name, .uid = j->uid}, .position = v->pos, .waiting_samples = -1};
	if (!v->started)
		st.position = (position){.round = 0, .stage = STAGE_TRAIN, .phase = PHASE_WAITING};
	st.since = v->started ? v->since : v->created;
	st.reason = v->reason;
	st.message = v->message;
	if (v->started && !phase_ended(v->pos.phase) && v->reason[0] != '\0') {
		/* What was told on the object, and may be over by now. */
		st.reason = "";
		st.message = waiting_message(mem, v);
	}
	if (j->state_reason[0] != '\0') {
		st.reason = j->state_reason;
		st.message = j->state_message;
	}
	st.has_ended = v->has_ended;
	st.ended = v->ended;
	st.ended_reason = v->ended_reason;
	st.ended_message = v->ended_message;
	add_waiting(c, j, waiting, sizeof waiting, &st);
	if (v->evaluated.n > 0)
		st.metrics_new = v->evaluated.models[0].metrics;
	if (v->evaluated.n > 1)
		st.metrics_old = v->evaluated.models[1].metrics;
	st.has_deployed = v->m.has_deployed;
	st.deployed_round = v->m.deployed.round;
	st.has_deployed_sha256 = v->m.deployed.has_sha256;
	st.deployed_sha256 = v->m.deployed.sha256;
	st.deployed_since = v->m.deployed.since;
	st.has_deployed_of = v->m.deployed.back;
	st.deployed_of = v->m.deployed.of;
	st.versions = arena_alloc(mem, (v->m.n_versions + 1) * sizeof *st.versions);
	for (size_t i = 0; i < v->m.n_versions; i++)
		st.versions[st.n_versions++] = v->m.versions[i].round;
	st.failures = v->m.failures;
	if (s != NULL) {
		st.stamp = *s;
		time_format(c->now.unix_ms, time);
	}
	char *text = job_state_encode(&st);
	arena_free(mem);
	return text;
}

/* ---- dataset, inventory, presence ---- */

char *document_dataset(controller *c, const dataset *d, const char *node_name, const stamp *s)
{
	char time[32] = "";
	if (d->wrong != NULL || strcmp(d->node, node_name) != 0)
		return NULL;
	arena *mem = arena_new();
	dataset_doc doc_of = {.ts = time, .node = node_name};
	doc_of.credentials = credential_needs_dataset(c, d, mem, &doc_of.n_credentials);
	doc_of.dataset = (dataset_ref){.ns = d->ns, .name = d->name, .uid = d->uid, .url = d->url, .format = d->format};
	if (s != NULL) {
		doc_of.stamp = *s;
		time_format(c->now.unix_ms, time);
	}
	char *text = dataset_doc_encode(&doc_of);
	arena_free(mem);
	return text;
}

static bool listed(const char **uids, size_t n, const char *uid)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(uids[i], uid) == 0)
			return true;
	}
	return false;
}

char *document_inventory(controller *c, const node *n, const stamp *s)
{
	char time[32];
	inventory inv = {.ts = time, .node = n->name, .stamp = *s, .session = n->session};
	time_format(c->now.unix_ms, time);
	inv.jobs = mem_alloc(DOCUMENT_MAX_INVENTORY * sizeof *inv.jobs);
	inv.datasets = mem_alloc(DOCUMENT_MAX_INVENTORY * sizeof *inv.datasets);
	for (const doc *d = n->docs; d != NULL; d = d->node_next) {
		if (d->want != WANT_PUBLISH)
			continue;
		if (d->kind == TOPIC_DESIRED && inv.n_jobs < DOCUMENT_MAX_INVENTORY)
			inv.jobs[inv.n_jobs++] = d->uid;
		else if (d->kind == TOPIC_DATASET && inv.n_datasets < DOCUMENT_MAX_INVENTORY)
			inv.datasets[inv.n_datasets++] = d->uid;
	}
	size_t published = inv.n_jobs;
	for (size_t i = 0; i < c->jobs.n && inv.n_jobs < DOCUMENT_MAX_INVENTORY; i++) {
		job *j = c->jobs.entries[i].value;
		if (job_facts(c, j)->blocked && !listed(inv.jobs, published, j->uid))
			inv.jobs[inv.n_jobs++] = j->uid;
	}
	char *text = inventory_encode(&inv);
	free(inv.jobs);
	free(inv.datasets);
	return text;
}

char *document_presence(const controller *c, bool online, bool will)
{
	char time[32];
	presence p = {.node = PRESENCE_CLOUD, .online = online, .version = c->cfg.version, .session = c->cfg.session, .client = c->cfg.client};
	time_format(c->now.unix_ms, time);
	p.ts = will ? NULL : time;
	p.epoch = will ? 0 : c->epoch;
	return presence_encode(&p);
}

/* ---- wishes ---- */

static bool has_doc(doc *const *docs, size_t n, const doc *d)
{
	for (size_t i = 0; i < n; i++) {
		if (docs[i] == d)
			return true;
	}
	return false;
}

/* False: nothing that the documents depend on has changed since they were compared. */
static bool tell(job *j, const facts *f)
{
	told now = {.any = true, .worker_ended = f->worker_ended, .version = j->version, .roles = UINT64_C(14695981039346656037)};
	for (size_t i = 0; i < f->n_roles; i++) {
		for (const char *p = f->roles[i].node; *p != '\0'; p++)
			now.roles = (now.roles ^ (unsigned char)*p) * UINT64_C(1099511628211);
		now.roles = (now.roles ^ (0x100 | f->roles[i].roles)) * UINT64_C(1099511628211);
	}
	memcpy(now.reason, j->state_reason, sizeof now.reason);
	memcpy(now.message, j->state_message, sizeof now.message);
	const told *t = &j->told;
	if (t->any && t->worker_ended == now.worker_ended && t->version == now.version && t->roles == now.roles &&
		strcmp(t->reason, now.reason) == 0 && strcmp(t->message, now.message) == 0)
		return false;
	j->told = now;
	return true;
}

void job_publish(controller *c, job *j)
{
	const facts *f = job_facts(c, j);
	doc *now[4];
	size_t n = 0;
	if (!tell(j, f))
		return;
	if (j->state == NULL)
		j->state = doc_get(c, TOPIC_STATE, j->ns, j->name, NULL);
	doc_set(c, j->state, j->uid, document_state(c, j, NULL));
	if (f->blocked || !j->view->started)
		return;
	for (size_t i = 0; i < f->n_roles; i++) {
		doc *d = doc_get(c, TOPIC_DESIRED, j->ns, j->name, f->roles[i].node);
		now[n++] = d;
		doc_set(c, d, j->uid, document_desired(c, j, f->roles[i].node, NULL));
	}
	for (size_t i = 0; i < j->n_docs; i++) {
		if (!has_doc(now, n, j->docs[i]))
			doc_clear(c, j->docs[i]);
	}
	memcpy(j->docs, now, n * sizeof now[0]);
	j->n_docs = n;
	docs_judge_again(c);
}

void job_unpublish(controller *c, job *j)
{
	if (j->state != NULL)
		doc_clear(c, j->state);
	for (size_t i = 0; i < j->n_docs; i++)
		doc_clear(c, j->docs[i]);
	j->state = NULL;
	j->n_docs = 0;
	docs_judge_again(c);
}

void job_answer(controller *c, job *j, const char *node_name)
{
	for (size_t i = 0; i < j->n_docs; i++) {
		if (strcmp(j->docs[i]->node->name, node_name) == 0) {
			doc_requeue(c, j->docs[i]);
			return;
		}
	}
	/* It may get its document only with the position that was read back just now. */
	node *n = node_get(c, node_name, false);
	if (n != NULL)
		fleet_inventory(c, n, true);
}

void dataset_publish(controller *c, dataset *d)
{
	if (d->wrong != NULL)
		return;
	doc *now = doc_get(c, TOPIC_DATASET, d->ns, d->name, d->node);
	if (d->doc != NULL && d->doc != now) {
		doc_clear(c, d->doc);
		c->statuses_due = true;
	}
	d->doc = now;
	doc_set(c, now, d->uid, document_dataset(c, d, d->node, NULL));
	docs_judge_again(c);
}

void dataset_unpublish(controller *c, dataset *d)
{
	if (d->doc != NULL)
		doc_clear(c, d->doc);
	d->doc = NULL;
	docs_judge_again(c);
	c->statuses_due = true;
}
