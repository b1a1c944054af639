/* What the cluster holds besides jobs and models: datasets and secrets by name, pods by name and by their owner's uid.
 *
 * A pod is ours if its labels say what kind of worker it is and its controller is an IncrementalLearningJob; others are not looked at. The
 * owner is matched by kind, name and uid. All that changes touches the jobs that refer to it.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/publisher.h"
#include "cloud-agent/core/secret.h"

char *object_key(const char *ns, const char *name)
{
	return mem_printf("%s/%s", ns, name);
}

const char *object_text(const cJSON *object, const char *part, const char *name)
{
	const cJSON *text = json_member(part != NULL ? json_member(object, part) : object, name);
	return cJSON_IsString(text) ? text->valuestring : "";
}

/* Touch the jobs of a namespace that name this object. */
void objects_touch_users(controller *c, enum object_kind kind, const char *ns, const char *name)
{
	for (size_t i = 0; i < c->jobs.n; i++) {
		job *j = c->jobs.entries[i].value;
		const job_view *v = j->view;
		if (strcmp(j->ns, ns) != 0)
			continue;
		bool uses = kind == OBJECT_SECRET || v->spec_error != NULL;
		if (!uses && kind == OBJECT_DATASET)
			uses = strcmp(v->dataset, name) == 0 || (v->m.dataset != NULL && strcmp(v->m.dataset, name) == 0);
		if (!uses && kind == OBJECT_MODEL)
			uses = strcmp(v->initial_model, name) == 0 || strcmp(v->deploy_model, name) == 0 ||
				(v->eval_model != NULL && strcmp(v->eval_model, name) == 0);
		if (uses)
			job_changed(c, j);
	}
}

/* ---- datasets ---- */

static void dataset_free(controller *c, dataset *d)
{
	status_write_fini(c, &d->write);
	free(d->ns);
	free(d->name);
	free(d->key);
	free(d->uid);
	free(d->url);
	free(d->node);
	free(d->credential);
	free(d->wrong);
	free(d);
}

static char *rest_wrong(dataset *d, const char *format)
{
	if (!dataset_format_parse(format, &d->format))
		return mem_printf("spec.format: '%.40s' is neither txt nor csv", format);
	if (d->node[0] == '\0')
		return mem_strdup("spec.nodeName: is missing");
	if (!name_valid_node(d->node))
		return mem_printf("spec.nodeName: '%.80s' is not a node's name", d->node);
	return NULL;
}

static void dataset_read(dataset *d, const cJSON *object)
{
	mem_replace(&d->uid, object_text(object, "metadata", "uid"));
	mem_replace(&d->write.rv, object_text(object, "metadata", "resourceVersion"));
	mem_replace(&d->url, object_text(object, "spec", "url"));
	mem_replace(&d->node, object_text(object, "spec", "nodeName"));
	mem_replace(&d->credential, object_text(object, "spec", "credentialName"));
	mem_replace(&d->wrong, NULL);
	d->wrong = url_wrong(d->url);
	if (d->wrong == NULL)
		d->wrong = rest_wrong(d, object_text(object, "spec", "format"));
	d->has_samples = json_get_int(json_member(object, "status"), "status", "numberOfSamples", 0, DOCUMENT_MAX_INT, &d->samples, NULL) == 1;
}

static void dataset_put(controller *c, const char *key, const char *ns, const char *name, cJSON *object)
{
	dataset *d = table_get(&c->datasets, key);
	if (d == NULL) {
		d = mem_alloc(sizeof *d);
		d->ns = mem_strdup(ns);
		d->name = mem_strdup(name);
		d->key = mem_strdup(key);
		status_write_init(&d->write);
		table_put(&c->datasets, key, d);
	}
	dataset_read(d, object);
	dataset_publish(c, d);
	dataset_touch(c, d);
}

static void dataset_drop(controller *c, const char *key)
{
	dataset *d = table_remove(&c->datasets, key);
	if (d == NULL)
		return;
	dataset_unpublish(c, d);
	dataset_free(c, d);
}

/* ---- pods ---- */

bool pod_live(const pod *p)
{
	return p->phase != POD_SUCCEEDED && p->phase != POD_FAILED;
}

static const cJSON *controller_ref(const cJSON *object)
{
	const cJSON *refs = json_member(json_member(object, "metadata"), "ownerReferences"), *ref;
	cJSON_ArrayForEach(ref, refs) {
		if (strcmp(object_text(ref, NULL, "kind"), KIND_JOB) == 0 && cJSON_IsTrue(json_member(ref, "controller")) &&
			object_text(ref, NULL, "uid")[0] != '\0')
			return ref;
	}
	return NULL;
}

bool pod_owned_by(const cJSON *object, const char *job_uid)
{
	const cJSON *ref = controller_ref(object);
	return ref != NULL && strcmp(object_text(ref, NULL, "uid"), job_uid) == 0;
}

static void pod_detach(controller *c, pod *p)
{
	owner *o = p->owner;
	pod **link = &o->pods;
	while (*link != p)
		link = &(*link)->next;
	*link = p->next;
	p->owner = NULL;
	job *j = job_of_uid(c, o->uid);
	if (j != NULL)
		job_touch(c, j);
	if (o->pods == NULL) {
		table_remove(&c->owners, o->uid);
		free(o->uid);
		free(o->ns);
		free(o->job);
		free(o);
	}
}

static void pod_attach(controller *c, pod *p, const char *uid, const char *job_name)
{
	owner *o = table_get(&c->owners, uid);
	if (o == NULL) {
		o = mem_alloc(sizeof *o);
		o->uid = mem_strdup(uid);
		o->ns = mem_strdup(p->ns);
		o->job = mem_strdup(job_name);
		table_put(&c->owners, uid, o);
	}
	p->owner = o;
	p->next = o->pods;
	o->pods = p;
}

/* Other jobs may wait for this pod's end: those of the same name. */
static void touch_namesake(controller *c, const owner *o)
{
	char *key = object_key(o->ns, o->job);
	job *j = table_get(&c->jobs, key);
	if (j != NULL)
		job_touch(c, j);
	free(key);
}

void pod_drop(controller *c, const char *key)
{
	pod *p = table_remove(&c->pods, key);
	if (p == NULL)
		return;
	touch_namesake(c, p->owner);
	if (p->flight != NULL && !p->flight->sent)
		flight_cancel(c, p->flight);
	pod_detach(c, p);
	free(p->ns);
	free(p->name);
	free(p->key);
	free(p->uid);
	free(p->node);
	free(p->message);
	free(p);
}

/* Of a container that cannot be started: ImagePull, or NULL; *message: why, whatever it is. */
static const char *image_trouble(const cJSON *containers, char **message)
{
	static const char *const image[] = {"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull"};
	const cJSON *entry;
	cJSON_ArrayForEach(entry, containers) {
		const cJSON *waiting = json_member(json_member(entry, "state"), "waiting");
		if (object_text(waiting, NULL, "message")[0] != '\0')
			mem_replace(message, object_text(waiting, NULL, "message"));
		for (size_t i = 0; i < sizeof image / sizeof image[0]; i++) {
			if (strcmp(object_text(waiting, NULL, "reason"), image[i]) == 0)
				return "ImagePull";
		}
	}
	return NULL;
}

static const char *waiting_trouble(const cJSON *status, char **message)
{
	const cJSON *entry;
	const char *trouble = image_trouble(json_member(status, "initContainerStatuses"), message);
	if (trouble == NULL)
		trouble = image_trouble(json_member(status, "containerStatuses"), message);
	if (trouble != NULL)
		return trouble;
	cJSON_ArrayForEach(entry, json_member(status, "conditions")) {
		if (strcmp(object_text(entry, NULL, "type"), "PodScheduled") == 0 && strcmp(object_text(entry, NULL, "status"), "False") == 0) {
			mem_replace(message, object_text(entry, NULL, "message"));
			return "Unschedulable";
		}
	}
	return NULL;
}

/* How they ended, the latest that did so badly. *most, where it is not NULL: the most restarts of one of them. */
static void read_ends(pod *p, const cJSON *containers, int64_t *most)
{
	const cJSON *entry;
	cJSON_ArrayForEach(entry, containers) {
		int64_t restarts = 0, exit_code = 0;
		json_get_int(entry, "", "restartCount", 0, INT32_MAX, &restarts, NULL);
		if (most != NULL && restarts > *most)
			*most = restarts;
		const cJSON *end = json_member(json_member(entry, "state"), "terminated");
		if (end == NULL)
			end = json_member(json_member(entry, "lastState"), "terminated");
		if (end == NULL || json_get_int(end, "", "exitCode", -INT32_MAX, INT32_MAX, &exit_code, NULL) != 1 || exit_code == 0)
			continue;
		const char *words = object_text(end, NULL, "message"), *reason = object_text(end, NULL, "reason");
		free(p->message);
		p->message = mem_printf("exit code %lld%s%.64s%s%.400s", (long long)exit_code, reason[0] != '\0' ? ", " : "", reason,
			words[0] != '\0' ? ": " : "", words);
	}
}

/* Of an init container only its words count: one that cannot fetch is no worker that keeps failing. What a worker says is the newer. */
static void read_containers(pod *p, const cJSON *status)
{
	read_ends(p, json_member(status, "initContainerStatuses"), NULL);
	read_ends(p, json_member(status, "containerStatuses"), &p->restarts);
}

static enum pod_phase phase_of(const char *text)
{
	static const char *const names[] = {"Pending", "Running", "Succeeded", "Failed"};
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		if (strcmp(text, names[i]) == 0)
			return (enum pod_phase)i;
	}
	return text[0] == '\0' ? POD_PENDING : POD_UNKNOWN;
}

/* The round that its annotation tells, if the name is the one that such a pod has. */
static int64_t round_of(const pod *p, const char *text)
{
	char name[POD_NAME_SIZE], *end;
	long long round = strtoll(text, &end, 10);
	if (text[0] < '0' || text[0] > '9' || *end != '\0')
		return -1;
	pod_name(p->kind, p->owner->job, p->owner->uid, round, name);
	return strcmp(name, p->name) == 0 ? round : -1;
}

/* It waits to be started once more. */
static bool is_backing_off(const cJSON *status)
{
	const cJSON *entry;
	cJSON_ArrayForEach(entry, json_member(status, "containerStatuses")) {
		if (strcmp(object_text(json_member(json_member(entry, "state"), "waiting"), NULL, "reason"), "CrashLoopBackOff") == 0)
			return true;
	}
	return false;
}

/* p->restarts is -1 at first sight: what happened before that is news only if it goes on. */
static void pod_read(const controller *c, pod *p, const cJSON *object)
{
	const cJSON *status = json_member(object, "status");
	mem_replace(&p->node, object_text(object, "spec", "nodeName"));
	p->phase = phase_of(object_text(object, "status", "phase"));
	if ((p->phase == POD_RUNNING || p->phase == POD_SUCCEEDED) && p->ran_at < 0)
		p->ran_at = c->now.mono_ms;
	p->terminating = object_text(object, "metadata", "deletionTimestamp")[0] != '\0';
	p->hot = object_text(json_member(object, "metadata"), "annotations", ANNOTATION_HOT)[0] != '\0';
	int64_t before = p->restarts;
	p->restarts = 0;
	mem_replace(&p->message, object_text(status, NULL, "message"));
	p->trouble = waiting_trouble(status, &p->message);
	read_containers(p, status);
	/* Evicted, say: how its containers ended then is no news. */
	if (object_text(status, NULL, "reason")[0] != '\0') {
		free(p->message);
		p->message = mem_printf("%.64s: %.400s", object_text(status, NULL, "reason"), object_text(status, NULL, "message"));
	}
	if (p->restarts > (before >= 0 ? before : 0) && (before >= 0 || is_backing_off(status)))
		p->restarted_at = c->now.mono_ms;
}

/* The pod that is there now; NULL if it is not one of ours. */
pod *pod_put(controller *c, const char *ns, const char *name, const cJSON *object)
{
	const cJSON *metadata = json_member(object, "metadata"), *ref = controller_ref(object);
	const char *uid = object_text(object, "metadata", "uid");
	enum worker_kind kind;
	char *key = object_key(ns, name);
	pod *p = table_get(&c->pods, key);
	bool ours = ref != NULL && worker_kind_parse(object_text(metadata, "labels", LABEL_WORKER), &kind);
	if (p != NULL && (!ours || strcmp(p->uid, uid) != 0 || strcmp(p->owner->uid, object_text(ref, NULL, "uid")) != 0)) {
		pod_drop(c, key);
		p = NULL;
	}
	if (ours && p == NULL) {
		p = mem_alloc(sizeof *p);
		p->ns = mem_strdup(ns);
		p->name = mem_strdup(name);
		p->key = mem_strdup(key);
		p->uid = mem_strdup(uid);
		p->kind = kind;
		p->seen_at = c->now.mono_ms;
		p->live_since = p->ran_at = p->remove_again = p->restarted_at = p->restarts = -1;
		const char *full = object_text(metadata, "annotations", ANNOTATION_JOB);
		pod_attach(c, p, object_text(ref, NULL, "uid"), full[0] != '\0' ? full : object_text(ref, NULL, "name"));
		p->round = round_of(p, object_text(metadata, "annotations", ANNOTATION_ROUND));
		table_put(&c->pods, key, p);
	}
	free(key);
	if (!ours)
		return NULL;
	pod_read(c, p, object);
	job *j = job_of_uid(c, p->owner->uid);
	if (j != NULL)
		job_touch(c, j);
	else
		c->orphans_due = true;
	touch_namesake(c, p->owner);
	return p;
}

/* ---- secrets ---- */

static void secret_drop(controller *c, const char *key)
{
	secret_object *s = table_remove(&c->secrets, key);
	if (s == NULL)
		return;
	free(s->endpoint);
	free(s->version);
	free(s);
}

/* Jobs are touched by the caller; datasets, whose documents name it, here. */
static void secret_put(controller *c, const char *key, const char *ns, const char *name, const cJSON *object)
{
	secret_drop(c, key);
	if (object != NULL) {
		secret_object *s = mem_alloc(sizeof *s);
		s->endpoint = secret_endpoint(object);
		s->version = secret_version(object);
		table_put(&c->secrets, key, s);
	}
	for (size_t i = 0; i < c->datasets.n; i++) {
		dataset *d = c->datasets.entries[i].value;
		if (strcmp(d->ns, ns) == 0 && strcmp(d->credential, name) == 0)
			dataset_publish(c, d);
	}
}

/* ---- all ---- */

void objects_put(controller *c, enum object_kind kind, const char *key, const char *ns, const char *name, cJSON *object)
{
	switch (kind) {
	case OBJECT_DATASET:
		if (object != NULL)
			dataset_put(c, key, ns, name, object);
		else
			dataset_drop(c, key);
		break;
	case OBJECT_MODEL:
		if (object != NULL)
			model_object_put(c, key, ns, name, object);
		else
			model_object_drop(c, key);
		break;
	case OBJECT_SECRET:
		secret_put(c, key, ns, name, object);
		break;
	case OBJECT_POD:
		if (object != NULL)
			pod_put(c, ns, name, object);
		else
			pod_drop(c, key);
		return;
	case OBJECT_NODE:
		node_listed(c, name, object);
		return;
	case OBJECT_JOB:
	case OBJECT_KINDS:
		return;
	}
	objects_touch_users(c, kind, ns, name);
}

void objects_fini(controller *c)
{
	while (c->pods.n > 0)
		pod_drop(c, c->pods.entries[0].key);
	while (c->datasets.n > 0)
		dataset_free(c, table_remove(&c->datasets, c->datasets.entries[0].key));
	while (c->models.n > 0)
		model_object_drop(c, c->models.entries[0].key);
	while (c->secrets.n > 0)
		secret_drop(c, c->secrets.entries[0].key);
	table_fini(&c->pods);
	table_fini(&c->owners);
	table_fini(&c->datasets);
	table_fini(&c->models);
	table_fini(&c->secrets);
}
