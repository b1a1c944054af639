/* What a job's decisions rest on besides its own object, made anew whenever the job was touched: the objects that its spec names, the nodes
 * that take part and in which roles, the pods of the present stage, and what stands in its way.
 *
 * A changed spec takes effect at the next boundary. The dataset and the output folder hold for a whole round: from Train/Ready on they are those
 * that the round's samples were taken from and written to, as its conditions tell.
 *
 * A problem that blocks (an invalid spec, an object that is missing, a folder in use) leaves what is published as it is: half-known documents
 * never replace whole ones.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"

static void problem(job *j, bool blocks, const char *reason, const char *fmt, ...) __attribute__((format(printf, 4, 5)));
static void problem(job *j, bool blocks, const char *reason, const char *fmt, ...)
{
	va_list args;
	if (j->facts.problem != NULL)
		return;
	j->facts.problem = reason;
	j->facts.blocked = blocks;
	va_start(args, fmt);
	vsnprintf(j->problem_text, sizeof j->problem_text, fmt, args);
	va_end(args);
}

bool url_usable(const char *url)
{
	static const char *const schemes[] = {"/", "s3://", "http://", "https://"};
	for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
		if (strncmp(url, schemes[i], strlen(schemes[i])) == 0)
			return true;
	}
	return false;
}

char *url_wrong(const char *url)
{
	if (url[0] == '\0')
		return mem_strdup("spec.url: is missing");
	if (strlen(url) > TEXT_MAX_URL)
		return mem_printf("spec.url: is longer than %d bytes", TEXT_MAX_URL);
	if (!url_usable(url))
		return mem_printf("spec.url: '%.120s' is neither a path from the root nor an s3://, http:// or https:// url", url);
	return NULL;
}

const char *template_node(const controller *c, const cJSON *template, const dataset *d)
{
	const char *node_name = object_text(template, "spec", "nodeName");
	if (node_name[0] != '\0')
		return node_name;
	return c->cfg.workers_in_place && d != NULL ? d->node : NULL;
}

static const char *known(const char *text)
{
	return text != NULL && text[0] != '\0' ? text : NULL;
}

static const dataset *dataset_of(const controller *c, const job *j)
{
	const job_view *v = j->view;
	if (v->spec_error != NULL)
		return NULL;
	char *key = object_key(j->ns, v->m.dataset != NULL ? v->m.dataset : v->dataset);
	const dataset *d = table_get(&c->datasets, key);
	free(key);
	return d;
}

/* ---- what the spec names ---- */

static const model *find_model(const controller *c, job *j, const char *name)
{
	if (name == NULL)
		return NULL;
	const model_object *m = model_find(c, j->ns, name);
	if (m == NULL)
		problem(j, true, "MissingModel", "there is no Model %s in namespace %s", name, j->ns);
	else if (m->wrong != NULL)
		problem(j, true, "InvalidModel", "Model %s: %s", name, m->wrong);
	return m != NULL ? &m->m : NULL;
}

static void resolve_objects(const controller *c, job *j)
{
	const job_view *v = j->view;
	facts *f = &j->facts;
	f->dataset = dataset_of(c, j);
	if (f->dataset == NULL)
		problem(j, true, "MissingDataset", "there is no Dataset %s in namespace %s", v->m.dataset != NULL ? v->m.dataset : v->dataset,
			j->ns);
	else if (f->dataset->wrong != NULL)
		problem(j, true, "InvalidDataset", "Dataset %s: %s", f->dataset->name, f->dataset->wrong);
	else
		f->dataset_node = known(f->dataset->node);
	f->initial = find_model(c, j, v->initial_model);
	f->eval = find_model(c, j, v->eval_model);
	f->deploy = find_model(c, j, v->deploy_model);
	f->output_dir = v->round_dir != NULL ? v->round_dir : v->output_dir;
	if (f->dataset != NULL)
		f->format = f->dataset->format;
	const char *ending = v->train_input.data_url != NULL ? strrchr(v->train_input.data_url, '.') : NULL;
	if (ending != NULL)
		dataset_format_parse(ending + 1, &f->format);
}

/* ---- one folder, one job ---- */

static void count(controller *c, const char *dir, bool more)
{
	uintptr_t n = (uintptr_t)table_get(&c->folders, dir);
	if (more)
		table_put(&c->folders, dir, (void *)(n + 1));
	else if (n > 1)
		table_put(&c->folders, dir, (void *)(n - 1));
	else
		table_remove(&c->folders, dir);
}

void folder_count(controller *c, const job_view *v, bool more)
{
	if (v == NULL || v->spec_error != NULL)
		return;
	count(c, v->output_dir, more);
	if (v->round_dir != NULL && strcmp(v->round_dir, v->output_dir) != 0)
		count(c, v->round_dir, more);
}

bool folder_alone(const controller *c, const job *j)
{
	const job_view *v = j->view;
	if (v == NULL || v->spec_error != NULL)
		return true;
	return (uintptr_t)table_get(&c->folders, v->round_dir != NULL ? v->round_dir : v->output_dir) == 1;
}

bool folder_shared(const controller *c, const job *a, const job *b)
{
	const job_view *v = a->view, *w = b->view;
	if (v == NULL || w == NULL || v->spec_error != NULL || w->spec_error != NULL)
		return false;
	const char *dir = v->round_dir != NULL ? v->round_dir : v->output_dir;
	if (strcmp(dir, w->output_dir) != 0 && (w->round_dir == NULL || strcmp(dir, w->round_dir) != 0))
		return false;
	if (url_is_remote(dir))
		return true;
	/* The same path on two nodes is two folders. */
	const dataset *d = dataset_of(c, a), *e = dataset_of(c, b);
	return d == NULL || e == NULL || strcmp(d->node, e->node) == 0;
}

static void check_folder(const controller *c, job *j)
{
	if (folder_alone(c, j))
		return;
	for (size_t i = 0; i < c->jobs.n && j->facts.problem == NULL; i++) {
		const job *other = c->jobs.entries[i].value;
		if (other == j || !folder_shared(c, j, other))
			continue;
		int order = strcmp(other->view->created, j->view->created);
		if (order < 0 || (order == 0 && strcmp(other->uid, j->uid) < 0))
			problem(j, true, "OutputDirInUse", "%.150s is the output folder of job %s, which was made earlier", j->facts.output_dir,
				other->key);
	}
}

/* ---- pods ---- */

static pod *pod_of(const controller *c, const job *j, enum worker_kind kind, int64_t round)
{
	const owner *o = table_get(&c->owners, j->uid);
	for (pod *p = o != NULL ? o->pods : NULL; p != NULL; p = p->next) {
		if (p->kind == kind && p->round == round)
			return p;
	}
	return NULL;
}

static void find_worker(const controller *c, job *j)
{
	const job_view *v = j->view;
	facts *f = &j->facts;
	if (!v->started || v->pos.stage == STAGE_DEPLOY || v->pos.phase == PHASE_WAITING)
		return;
	const made_pod *made = &j->made[v->pos.stage];
	f->worker = pod_of(c, j, v->pos.stage == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL, v->pos.round);
	/* One with another uid is not the one that was recorded: that one has ended. */
	if (f->worker != NULL && v->m.pod_uid != NULL && strcmp(f->worker->uid, v->m.pod_uid) != 0)
		f->worker = NULL;
	/* What was seen once is never made again, also if the answer to its creation was lost and it goes before the patch. */
	if (f->worker != NULL && v->pos.phase == PHASE_READY && made->round != v->pos.round)
		remember_made(j, f->worker->kind, v->pos.round, f->worker->uid, f->worker->node);
	if (v->pos.phase != PHASE_READY)
		f->worker_node = known(v->m.node);
	if (f->worker_node == NULL && f->worker != NULL)
		f->worker_node = known(f->worker->node);
	if (f->worker_node == NULL && made->round == v->pos.round)
		f->worker_node = known(made->node);
	if (v->pos.phase == PHASE_STARTING || v->pos.phase == PHASE_RUNNING)
		f->worker_ended = f->worker == NULL || !pod_live(f->worker);
}

bool serves_hot(const facts *f, const job_view *v)
{
	return v->spec_error == NULL && v->hot && f->inference != NULL && f->inference->hot && pod_live(f->inference) &&
		!f->inference->terminating;
}

/* The pod that is named after the deployed model; else one that loads models by itself; else any. */
static void find_inference(const controller *c, job *j)
{
	const job_view *v = j->view;
	facts *f = &j->facts;
	const owner *o = table_get(&c->owners, j->uid);
	f->inference = pod_of(c, j, WORKER_INFERENCE, v->m.has_deployed ? v->m.deployed.round : 0);
	for (pod *p = o != NULL ? o->pods : NULL; p != NULL && f->inference == NULL; p = p->next) {
		if (p->kind == WORKER_INFERENCE && p->hot && pod_live(p))
			f->inference = p;
	}
	for (pod *p = o != NULL ? o->pods : NULL; p != NULL && f->inference == NULL; p = p->next) {
		if (p->kind == WORKER_INFERENCE)
			f->inference = p;
	}
}

enum pod_place pod_place(const job *j, const pod *p)
{
	const job_view *v = j->view;
	enum stage stage = p->kind == WORKER_TRAIN ? STAGE_TRAIN : STAGE_EVAL;
	if (p->round < 1 || p->round > v->pos.round || p->round < v->pos.round - 1)
		return PLACE_OTHER;
	if (position_over(v->pos, p->round, stage))
		return PLACE_RECENT;
	if (v->pos.stage != stage || v->pos.phase == PHASE_WAITING)
		return PLACE_OTHER;
	return v->m.pod_uid == NULL || strcmp(v->m.pod_uid, p->uid) == 0 ? PLACE_PRESENT : PLACE_OTHER;
}

/* ---- nodes ---- */

static void add_role(facts *f, const char *node_name, unsigned role)
{
	if (node_name == NULL || !name_valid_node(node_name))
		return;
	for (size_t i = 0; i < f->n_roles; i++) {
		if (strcmp(f->roles[i].node, node_name) == 0) {
			f->roles[i].roles |= role;
			return;
		}
	}
	f->roles[f->n_roles++] = (role_node){.node = node_name, .roles = role};
}

unsigned facts_roles(const facts *f, const char *node_name)
{
	for (size_t i = 0; i < f->n_roles; i++) {
		if (strcmp(f->roles[i].node, node_name) == 0)
			return f->roles[i].roles;
	}
	return 0;
}

/* The node of a worker of this round: as recorded, as its pod tells, or as its template pins it. */
static const char *worker_node_of(const controller *c, const job *j, enum stage stage)
{
	const job_view *v = j->view;
	const facts *f = &j->facts;
	enum worker_kind kind = stage == STAGE_TRAIN ? WORKER_TRAIN : WORKER_EVAL;
	if (v->started && v->pos.stage == stage && f->worker_node != NULL)
		return f->worker_node;
	const pod *p = v->started && v->pos.stage > stage ? pod_of(c, j, kind, v->pos.round) : NULL;
	if (p != NULL && known(p->node) != NULL)
		return p->node;
	return known(template_node(c, stage == STAGE_TRAIN ? v->train_template : v->eval_template, f->dataset));
}

static const char *deploy_node_of(const controller *c, const job *j, const char *eval_node)
{
	const job_view *v = j->view;
	const facts *f = &j->facts;
	bool deploying = v->started && v->pos.stage == STAGE_DEPLOY;
	if (deploying && v->pos.phase != PHASE_WAITING && known(v->m.node) != NULL)
		return v->m.node;
	if (f->inference != NULL && known(f->inference->node) != NULL)
		return f->inference->node;
	const char *pinned = known(template_node(c, v->deploy_template, f->dataset));
	if (pinned != NULL || f->inference != NULL)
		return pinned;
	return deploying && known(v->m.node) != NULL ? v->m.node : eval_node;
}

static void check_local(job *j, const char *what, const char *node_name)
{
	const facts *f = &j->facts;
	if (node_name != NULL && f->dataset_node != NULL && !url_is_remote(f->output_dir) && strcmp(node_name, f->dataset_node) != 0)
		problem(j, true, "LocalPathOnOtherNode", "%s is to run on node %.80s, but %.100s is a folder of node %.80s", what, node_name,
			f->output_dir, f->dataset_node);
}

static void find_nodes(const controller *c, job *j)
{
	const job_view *v = j->view;
	facts *f = &j->facts;
	const char *train_node = worker_node_of(c, j, STAGE_TRAIN), *eval_node = worker_node_of(c, j, STAGE_EVAL);
	f->deploy_node = deploy_node_of(c, j, eval_node);
	check_local(j, "training", known(template_node(c, v->train_template, f->dataset)));
	check_local(j, "evaluation", known(template_node(c, v->eval_template, f->dataset)));
	check_local(j, "inference", f->deploy_node);
	add_role(f, f->dataset_node, ROLE_DATASET);
	add_role(f, train_node, ROLE_TRAIN);
	add_role(f, eval_node, ROLE_EVAL);
	add_role(f, f->deploy_node, ROLE_DEPLOY);
}

const facts *job_facts(controller *c, job *j)
{
	if (!j->stale)
		return &j->facts;
	j->stale = false;
	j->facts = (facts){0};
	if (j->view->spec_error != NULL)
		problem(j, true, "InvalidSpec", "%s", j->view->spec_error);
	else
		resolve_objects(c, j);
	find_worker(c, j);
	find_inference(c, j);
	if (j->view->spec_error == NULL) {
		find_nodes(c, j);
		check_folder(c, j);
	}
	return &j->facts;
}
