/* Messages of the cloud: which of them are believed.
 *
 * Documents and inventories carry stamps that can be compared across topics (rules 10 and 11), so the order in which they arrive does not
 * matter. What is accepted is kept as the newest `incoming` until it is committed; a message that is not accepted leaves no trace. A store
 * that no inventory ever answered accepts nothing but inventories (rule 15): what it sees may be a leftover of a job that is long gone. The
 * cloud sends all again after it has answered the birth, so nothing needs to be kept until then.
 */
#include <stdlib.h>
#include <string.h>

#include "common/log.h"
#include "edge-agent/core/agent_internal.h"

/* ---- objects ---- */

job *messages__job_new(edge_agent *a, const char *uid, const char *ns, const char *name)
{
	job *j = mem_alloc(sizeof(*j));

	j->uid = mem_strdup(uid);
	j->ns = mem_strdup(ns);
	j->name = mem_strdup(name);
	j->serial = ++a->next_serial;
	j->check_dirty = true;
	j->check_at = INT64_MIN;
	a->jobs = mem_resize_array(a->jobs, a->n_jobs + 1, sizeof(*a->jobs));
	a->jobs[a->n_jobs++] = j;
	return j;
}

void messages__job_free(edge_agent *a, job *j)
{
	for (size_t i = 0; i < a->n_jobs; i++) {
		if (a->jobs[i] == j) {
			/* Keep the order: jobs take their turns in it. */
			memmove(&a->jobs[i], &a->jobs[i + 1], (a->n_jobs - i - 1) * sizeof(*a->jobs));
			a->n_jobs--;
			break;
		}
	}
	job__memory_fini(j);
	record_free(j->rec);
	record_free(j->draft);
	record_document_release(j->incoming);
	free(j->uid);
	free(j->ns);
	free(j->name);
	free(j);
}

dataset *messages__dataset_new(edge_agent *a, const dataset_ref *ref)
{
	dataset *d = mem_alloc(sizeof(*d));

	d->uid = mem_strdup(ref->uid);
	d->ns = mem_strdup(ref->ns);
	d->name = mem_strdup(ref->name);
	d->next_at = INT64_MIN;
	a->datasets = mem_resize_array(a->datasets, a->n_datasets + 1, sizeof(*a->datasets));
	a->datasets[a->n_datasets++] = d;
	return d;
}

void messages__dataset_free(edge_agent *a, dataset *d)
{
	for (size_t i = 0; i < a->n_datasets; i++) {
		if (a->datasets[i] == d) {
			memmove(&a->datasets[i], &a->datasets[i + 1], (a->n_datasets - i - 1) * sizeof(*a->datasets));
			a->n_datasets--;
			break;
		}
	}
	dataset_doc_free(d->doc);
	dataset_doc_free(d->draft);
	dataset_doc_free(d->incoming);
	free(d->draft_text);
	free(d->incoming_text);
	free(d->published);
	free(d->trouble);
	free(d->uid);
	free(d->ns);
	free(d->name);
	free(d);
}

/* ---- acceptance ---- */

static void ignored(edge_agent *a, const char *what, const char *name, const char *why)
{
	a->counters.messages_ignored++;
	log_debug("messages", "message ignored", L_STR("what", what), L_STR("name", name), L_STR("why", why));
}

/* Rules 11 and 15 for something that is not held: NULL if it may come, else why not. */
static const char *newcomer_refusal(const edge_agent *a, const char *uid, stamp s, char *const *listed, size_t n)
{
	if (!a->meta_next.confirmed)
		return "no inventory has answered this store yet";
	if (stamp_compare(s, a->meta_next.inventory) > 0)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(listed[i], uid) == 0)
			return NULL;
	}
	return "older than the inventory, and not listed there";
}

stamp messages__job_stamp(const job *j)
{
	if (j->incoming != NULL)
		return j->incoming->desired->stamp;
	if (j->draft != NULL)
		return j->draft->desired->stamp;
	return j->rec != NULL ? j->rec->desired->stamp : (stamp){0};
}

stamp messages__dataset_stamp(const dataset *d)
{
	if (d->incoming != NULL)
		return d->incoming->stamp;
	if (d->draft != NULL)
		return d->draft->stamp;
	return d->doc != NULL ? d->doc->stamp : (stamp){0};
}

/* A job that has nothing in the store needs no commit to go. */
static void job_drop(edge_agent *a, job *j)
{
	log_info("messages", "job leaves this node", L_STR("namespace", j->ns), L_STR("job", j->name), L_STR("uid", j->uid));
	if (j->rec == NULL && j->draft == NULL) {
		messages__job_free(a, j);
		return;
	}
	j->drop = true;
	record_document_release(j->incoming);
	j->incoming = NULL;
}

static void dataset_drop(edge_agent *a, dataset *d)
{
	if (d->doc == NULL && d->draft == NULL) {
		messages__dataset_free(a, d);
		return;
	}
	d->drop = true;
	dataset_doc_free(d->incoming);
	free(d->incoming_text);
	d->incoming = NULL;
	d->incoming_text = NULL;
}

static void job_take(job *j, desired *doc, const char *payload, size_t len)
{
	record_document_release(j->incoming);
	j->incoming = record_document_new(payload, len, doc);
	/* As if the document had come before what asked for the drop: both orders are possible. */
	j->drop = false;
}

static size_t jobs_staying(const edge_agent *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_jobs; i++)
		n += !a->jobs[i]->drop && !a->jobs[i]->dropping;
	return n;
}

static int job_message(edge_agent *a, const topic *t, const char *payload, size_t len, error *err)
{
	desired *d;
	job *j, *other;
	const char *refusal = NULL;
	int code = desired_decode(payload, len, &d, err);

	if (code != 0)
		return code;
	if (strcmp(d->node, a->node) != 0 || strcmp(d->job.ns, t->ns) != 0 || strcmp(d->job.name, t->name) != 0) {
		desired_free(d);
		return error_set(err, ERROR_INVALID, "desired: the document is of another node or job than its topic");
	}
	j = agent__job_by_uid(a, d->job.uid);
	other = agent__job_by_name(a, t->ns, t->name);
	if (j != NULL && stamp_compare(d->stamp, messages__job_stamp(j)) <= 0)
		refusal = "not newer than the one held";
	else if (other != NULL && other != j && stamp_compare(d->stamp, messages__job_stamp(other)) <= 0)
		refusal = "older than that of another uid under this name";
	else if (j == NULL || j->drop || j->dropping)
		refusal = newcomer_refusal(a, d->job.uid, d->stamp, a->meta_next.jobs, a->meta_next.n_jobs);
	if (refusal == NULL && j == NULL && jobs_staying(a) - (other != NULL) >= a->config.jobs_max) {
		a->counters.messages_refused++;
		log_warn("messages", "job refused: this agent holds as many as it may", L_STR("namespace", t->ns), L_STR("job", t->name),
			L_INT("max", a->config.jobs_max));
		desired_free(d);
		return 0;
	}
	if (refusal != NULL) {
		ignored(a, "desired", t->name, refusal);
		desired_free(d);
		return 0;
	}
	if (other != NULL && other != j)
		job_drop(a, other);
	if (j == NULL)
		j = messages__job_new(a, d->job.uid, d->job.ns, d->job.name);
	job_take(j, d, payload, len);
	return 0;
}

static dataset *dataset_by_uid(const edge_agent *a, const char *uid)
{
	for (size_t i = 0; i < a->n_datasets; i++) {
		if (strcmp(a->datasets[i]->uid, uid) == 0)
			return a->datasets[i];
	}
	return NULL;
}

static dataset *dataset_by_name(const edge_agent *a, const char *ns, const char *name)
{
	for (size_t i = 0; i < a->n_datasets; i++) {
		dataset *d = a->datasets[i];

		if (!d->drop && !d->dropping && strcmp(d->name, name) == 0 && strcmp(d->ns, ns) == 0)
			return d;
	}
	return NULL;
}

static size_t datasets_staying(const edge_agent *a)
{
	size_t n = 0;

	for (size_t i = 0; i < a->n_datasets; i++)
		n += !a->datasets[i]->drop && !a->datasets[i]->dropping;
	return n;
}

static void dataset_take(dataset *d, dataset_doc *doc, const char *payload, size_t len)
{
	dataset_doc_free(d->incoming);
	free(d->incoming_text);
	d->incoming = doc;
	d->incoming_text = mem_strndup(payload, len);
	d->drop = false;
}

static int dataset_message(edge_agent *a, const topic *t, const char *payload, size_t len, error *err)
{
	dataset_doc *doc;
	dataset *d, *other;
	const char *refusal = NULL;
	int code = dataset_doc_decode(payload, len, &doc, err);

	if (code != 0)
		return code;
	if (strcmp(doc->node, a->node) != 0 || strcmp(doc->dataset.ns, t->ns) != 0 || strcmp(doc->dataset.name, t->name) != 0) {
		dataset_doc_free(doc);
		return error_set(err, ERROR_INVALID, "dataset: the document is of another node or dataset than its topic");
	}
	d = dataset_by_uid(a, doc->dataset.uid);
	other = dataset_by_name(a, t->ns, t->name);
	if (d != NULL && stamp_compare(doc->stamp, messages__dataset_stamp(d)) <= 0)
		refusal = "not newer than the one held";
	else if (other != NULL && other != d && stamp_compare(doc->stamp, messages__dataset_stamp(other)) <= 0)
		refusal = "older than that of another uid under this name";
	else if (d == NULL || d->drop || d->dropping)
		refusal = newcomer_refusal(a, doc->dataset.uid, doc->stamp, a->meta_next.datasets, a->meta_next.n_datasets);
	if (refusal == NULL && d == NULL && datasets_staying(a) - (other != NULL) >= a->config.datasets_max) {
		a->counters.messages_refused++;
		log_warn("messages", "dataset refused: this agent watches as many as it may", L_STR("namespace", t->ns), L_STR("dataset", t->name),
			L_INT("max", a->config.datasets_max));
		dataset_doc_free(doc);
		return 0;
	}
	if (refusal != NULL) {
		ignored(a, "dataset", t->name, refusal);
		dataset_doc_free(doc);
		return 0;
	}
	if (other != NULL && other != d)
		dataset_drop(a, other);
	if (d == NULL)
		d = messages__dataset_new(a, &doc->dataset);
	dataset_take(d, doc, payload, len);
	return 0;
}

/* ---- inventory ---- */

static bool lists(const char **uids, size_t n, const char *uid)
{
	for (size_t i = 0; i < n; i++) {
		if (strcmp(uids[i], uid) == 0)
			return true;
	}
	return false;
}

static char **texts_from(const char **texts, size_t n)
{
	char **copy = n > 0 ? mem_alloc(n * sizeof(*copy)) : NULL;

	for (size_t i = 0; i < n; i++)
		copy[i] = mem_strdup(texts[i]);
	return copy;
}

static void inventory_take(edge_agent *a, const inventory *inv)
{
	bool answers = inv->session != NULL && strcmp(inv->session, a->session) == 0;

	store_meta_fini(&a->meta_next);
	a->meta_next.inventory = inv->stamp;
	a->meta_next.jobs = texts_from(inv->jobs, inv->n_jobs);
	a->meta_next.n_jobs = inv->n_jobs;
	a->meta_next.datasets = texts_from(inv->datasets, inv->n_datasets);
	a->meta_next.n_datasets = inv->n_datasets;
	a->meta_next.confirmed |= answers;
	a->meta_version++;
	if (answers && !a->in_session) {
		a->in_session = true;
		a->session_stamp = inv->stamp;
	}
	/* Backwards: dropping may take an entry out. */
	for (size_t i = a->n_jobs; i-- > 0;) {
		job *j = a->jobs[i];

		if (!lists(inv->jobs, inv->n_jobs, j->uid) && stamp_compare(inv->stamp, messages__job_stamp(j)) > 0)
			job_drop(a, j);
	}
	for (size_t i = a->n_datasets; i-- > 0;) {
		dataset *d = a->datasets[i];

		if (!lists(inv->datasets, inv->n_datasets, d->uid) && stamp_compare(inv->stamp, messages__dataset_stamp(d)) > 0)
			dataset_drop(a, d);
	}
}

static int inventory_message(edge_agent *a, const char *payload, size_t len, error *err)
{
	inventory *inv;
	int code = inventory_decode(payload, len, &inv, err);

	if (code != 0)
		return code;
	if (strcmp(inv->node, a->node) != 0)
		code = error_set(err, ERROR_INVALID, "inventory: it is of another node");
	else if (stamp_compare(inv->stamp, a->meta_next.inventory) <= 0)
		ignored(a, "inventory", inv->node, "not newer than the newest one");
	else
		inventory_take(a, inv);
	inventory_free(inv);
	return code;
}

int edge_agent_message(edge_agent *a, const char *topic_text, const void *payload, size_t len, moment now, error *err)
{
	topic t;
	int code = topic_parse(a->root, topic_text, &t, err);

	(void)now;
	a->stale = true;
	a->counters.messages++;
	if (code == 0 && (t.kind == TOPIC_DESIRED || t.kind == TOPIC_DATASET || t.kind == TOPIC_INVENTORY) && strcmp(t.node, a->node) != 0)
		code = error_set(err, ERROR_INVALID, "the topic is of another node");
	/* An empty payload says that a retained message was cleared: no news (rule 13). */
	if (code == 0 && len > 0) {
		if (t.kind == TOPIC_DESIRED)
			code = job_message(a, &t, payload, len, err);
		else if (t.kind == TOPIC_DATASET)
			code = dataset_message(a, &t, payload, len, err);
		else if (t.kind == TOPIC_INVENTORY)
			code = inventory_message(a, payload, len, err);
		else if (t.kind != TOPIC_CREDENTIAL_REQUEST) /* our own, where a broker gives it back */
			code = error_set(err, ERROR_INVALID, "an edge agent takes no such message");
	}
	if (code != 0)
		a->counters.messages_refused++;
	return code;
}
