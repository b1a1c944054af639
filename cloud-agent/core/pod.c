/* What a worker's pod is made of: the template of the job's spec, our names, labels and owner, and the variables that tell the worker what to
 * do. The template's own labels, annotations and finalizers go to the pod too; of a variable that both name, ours is the one that counts.
 *
 * Urls are those of the node. What they look like to the worker, and how it comes to the files, is the matter of pod_volumes.c.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/pod.h"
#include "common/buf.h"

#define HOT_FOLDER_ON_NODE "/var/lib/sedna/model-hot-update"
#define LC_DEFAULT "http://localhost:9100"

/* What the variables are made from. */
typedef struct made {
	const controller *c;
	const job *j;
	cJSON *env;
	pod_files files;
} made;

/* ---- variables ---- */

static void env_put(cJSON *env, const char *name, const char *value)
{
	cJSON *entry = cJSON_CreateObject();
	json_put_string(entry, "name", name);
	json_put_string(entry, "value", value != NULL ? value : "");
	cJSON_AddItemToArray(env, entry);
}

static void env_put_read(made *m, const char *name, const char *url, bool index)
{
	char *placed = url != NULL ? pod_file_read(m->c, m->j, &m->files, url, index) : NULL;
	env_put(m->env, name, placed);
	free(placed);
}

static void env_put_written(made *m, const char *name, const char *url)
{
	char *placed = url != NULL ? pod_file_written(m->c, &m->files, url) : NULL;
	env_put(m->env, name, placed);
	free(placed);
}

/* The dataset that the samples come from, or the list of those of its files that they name. */
static void env_put_original(made *m, const stage_input *in)
{
	bool index = in->data_index_url != NULL;
	env_put_read(m, "ORIGINAL_DATASET_URL", index ? in->data_index_url : m->j->facts.dataset->url, index);
}

static void env_put_key(cJSON *env, const char *name, const char *secret)
{
	cJSON *entry = cJSON_CreateObject(), *from = cJSON_CreateObject(), *ref = cJSON_CreateObject();
	json_put_string(entry, "name", name);
	json_put_string(ref, "name", secret);
	json_put_string(ref, "key", name);
	json_put(from, "secretKeyRef", ref);
	json_put(entry, "valueFrom", from);
	cJSON_AddItemToArray(env, entry);
}

static void env_train(made *m)
{
	const stage_input *in = &m->j->view->train_input;
	env_put_read(m, "BASE_MODEL_URL", in->n > 0 ? in->models[0].url : NULL, false);
	env_put_written(m, "MODEL_URL", in->output_dir);
	env_put_read(m, "TRAIN_DATASET_URL", in->data_url, false);
	env_put_original(m, in);
}

static void env_eval(made *m)
{
	const stage_input *in = &m->j->view->eval_input;
	buf urls = {0};
	for (size_t i = 0; i < in->n; i++) {
		char *placed = pod_file_read(m->c, m->j, &m->files, in->models[i].url, false);
		buf_printf(&urls, "%s%s", i > 0 ? ";" : "", placed);
		free(placed);
	}
	env_put(m->env, "MODEL_URLS", buf_text(&urls));
	buf_fini(&urls);
	env_put_read(m, "TEST_DATASET_URL", in->data_url, false);
	env_put_original(m, in);
}

static void env_hot_update(made *m, const char *folder)
{
	char *config = mem_printf("%s/model_config.json", m->c->cfg.workers_in_place ? folder : POD_HOT_FOLDER);
	char *period = mem_printf("%" PRId64, m->j->view->poll_s);
	env_put(m->env, "MODEL_HOT_UPDATE", "true");
	env_put(m->env, "MODEL_HOT_UPDATE_CONFIG", config);
	env_put(m->env, "MODEL_POLL_PERIOD_SECONDS", period);
	free(config);
	free(period);
}

static void env_inference(made *m)
{
	const job_view *v = m->j->view;
	const char *mining = v->hem_name != NULL ? v->hem_name : "";
	char *parameters = v->hem_parameters != NULL ? json_print(v->hem_parameters) : NULL;
	env_put_read(m, "MODEL_URL", m->j->facts.deploy->url, false);
	env_put(m->env, "HEM_NAME", mining);
	env_put(m->env, "HEM_PARAMETERS", parameters != NULL ? parameters : "[]");
	env_put(m->env, "HARD_SAMPLE_ALGORITHM", mining);
	free(parameters);
	if (m->files.hot_folder != NULL)
		env_hot_update(m, m->files.hot_folder);
}

static bool env_names(const cJSON *env, const char *name)
{
	const cJSON *entry;
	cJSON_ArrayForEach(entry, env) {
		if (strcmp(object_text(entry, NULL, "name"), name) == 0)
			return true;
	}
	return false;
}

/* The values themselves never enter the core: whoever starts the worker puts them in the place of the references. */
void pod_env_credential(const controller *c, const job *j, cJSON *env, const char *secret)
{
	char *key = object_key(j->ns, secret);
	const secret_object *s = table_get(&c->secrets, key);
	free(key);
	if (s != NULL && s->endpoint[0] != '\0')
		env_put(env, "S3_ENDPOINT_URL", s->endpoint);
	env_put_key(env, "ACCESS_KEY_ID", secret);
	env_put_key(env, "SECRET_ACCESS_KEY", secret);
}

const char *pod_without_endpoint(const cJSON *body)
{
	static const char *const lists[] = {"initContainers", "containers"};
	for (size_t i = 0; i < sizeof lists / sizeof lists[0]; i++) {
		const cJSON *container, *entry;
		cJSON_ArrayForEach(container, json_member(json_member(body, "spec"), lists[i])) {
			const cJSON *env = json_member(container, "env");
			cJSON_ArrayForEach(entry, env) {
				const cJSON *ref = json_member(json_member(entry, "valueFrom"), "secretKeyRef");
				if (ref != NULL && strcmp(object_text(entry, NULL, "name"), "ACCESS_KEY_ID") == 0 && !env_names(env, "S3_ENDPOINT_URL"))
					return object_text(ref, NULL, "name");
			}
		}
	}
	return NULL;
}

static const char *lc_server(const controller *c, const char *node_name)
{
	const char *own = c->cfg.lc_server_of != NULL && node_name != NULL ? c->cfg.lc_server_of(c->cfg.lc_server_ctx, node_name) : NULL;
	if (own != NULL)
		return own;
	return c->cfg.lc_server != NULL ? c->cfg.lc_server : LC_DEFAULT;
}

static void env_build(made *m, enum worker_kind kind, int64_t round, const char *node_name)
{
	char worker[WORKER_NAME_SIZE];
	const char *secret = pod_credential(m->c, m->j, NULL);
	worker_name(kind, m->j->uid, round, worker);
	env_put(m->env, "NAMESPACE", m->j->ns);
	env_put(m->env, "JOB_NAME", m->j->name);
	env_put(m->env, "WORKER_NAME", worker);
	env_put(m->env, "LC_SERVER", lc_server(m->c, node_name));
	if (kind == WORKER_TRAIN)
		env_train(m);
	else if (kind == WORKER_EVAL)
		env_eval(m);
	else
		env_inference(m);
	/* Without a cluster it is set and empty: unset, the library takes the usual prefix off paths that do not have it. */
	if (m->c->cfg.workers_in_place || m->files.n_mounts > 0)
		env_put(m->env, "DATA_PATH_PREFIX", m->c->cfg.workers_in_place ? "" : POD_DATA_PREFIX);
	if (secret != NULL)
		pod_env_credential(m->c, m->j, m->env, secret);
}

/* The template's own variables, then ours. */
static void env_merge(cJSON *container, const cJSON *ours)
{
	const cJSON *own = json_member(container, "env"), *entry;
	cJSON *env = cJSON_CreateArray();
	cJSON_ArrayForEach(entry, own) {
		if (!env_names(ours, object_text(entry, NULL, "name")))
			cJSON_AddItemToArray(env, cJSON_Duplicate(entry, 1));
	}
	cJSON_ArrayForEach(entry, ours) {
		cJSON_AddItemToArray(env, cJSON_Duplicate(entry, 1));
	}
	cJSON_DeleteItemFromObjectCaseSensitive(container, "env");
	json_put(container, "env", env);
}

/* ---- metadata ---- */

static void put_over(cJSON *obj, const char *name, const char *value)
{
	cJSON_DeleteItemFromObjectCaseSensitive(obj, name);
	json_put_string(obj, name, value);
}

static cJSON *part_of(const cJSON *template, const char *name)
{
	const cJSON *part = json_member(json_member(template, "metadata"), name);
	return cJSON_IsObject(part) ? cJSON_Duplicate(part, 1) : cJSON_CreateObject();
}

static cJSON *owner_refs(const job *j)
{
	cJSON *refs = cJSON_CreateArray(), *ref = cJSON_CreateObject();
	const char *version = object_text(j->object, NULL, "apiVersion");
	json_put_string(ref, "apiVersion", version[0] != '\0' ? version : "sedna.io/v1alpha1");
	json_put_string(ref, "kind", KIND_JOB);
	json_put_string(ref, "name", j->name);
	json_put_string(ref, "uid", j->uid);
	json_put_bool(ref, "controller", true);
	json_put_bool(ref, "blockOwnerDeletion", true);
	cJSON_AddItemToArray(refs, ref);
	return refs;
}

static cJSON *metadata_build(const job *j, const cJSON *template, enum worker_kind kind, int64_t round, const char *name)
{
	char label[64], number[24];
	cJSON *metadata = cJSON_CreateObject(), *labels = part_of(template, "labels"), *annotations = part_of(template, "annotations");
	const cJSON *finalizers = json_member(json_member(template, "metadata"), "finalizers");
	json_put_string(metadata, "name", name);
	json_put_string(metadata, "namespace", j->ns);
	label_value(j->name, label);
	put_over(labels, LABEL_NAME, label);
	label_value(j->uid, label);
	put_over(labels, LABEL_UID, label);
	put_over(labels, LABEL_WORKER, worker_kind_word(kind));
	json_put(metadata, "labels", labels);
	(void)snprintf(number, sizeof number, "%" PRId64, round);
	put_over(annotations, ANNOTATION_JOB, j->name);
	put_over(annotations, ANNOTATION_ROUND, number);
	if (kind == WORKER_INFERENCE && j->view->hot)
		put_over(annotations, ANNOTATION_HOT, "true");
	json_put(metadata, "annotations", annotations);
	if (cJSON_IsArray(finalizers))
		json_put(metadata, "finalizers", cJSON_Duplicate(finalizers, 1));
	json_put(metadata, "ownerReferences", owner_refs(j));
	return metadata;
}

/* ---- the rest of the spec ---- */

static bool tolerates(const cJSON *tolerations, const char *key)
{
	const cJSON *one;
	cJSON_ArrayForEach(one, tolerations) {
		const char *own = object_text(one, NULL, "key"), *effect = object_text(one, NULL, "effect");
		if ((own[0] == '\0' || strcmp(own, key) == 0) && (effect[0] == '\0' || strcmp(effect, "NoExecute") == 0))
			return true;
	}
	return false;
}

/* A device without a link is no reason to evict the training that runs well on it, which is what would happen after five minutes. */
static void tolerate_absence(cJSON *spec)
{
	static const char *const keys[] = {"node.kubernetes.io/unreachable", "node.kubernetes.io/not-ready"};
	const cJSON *own = json_member(spec, "tolerations");
	cJSON *all = cJSON_IsArray(own) ? cJSON_Duplicate(own, 1) : cJSON_CreateArray();
	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		cJSON *one;
		if (tolerates(own, keys[i]))
			continue;
		one = cJSON_CreateObject();
		json_put_string(one, "key", keys[i]);
		json_put_string(one, "operator", "Exists");
		json_put_string(one, "effect", "NoExecute");
		cJSON_AddItemToArray(all, one);
	}
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "tolerations");
	json_put(spec, "tolerations", all);
}

static cJSON *spec_build(made *m, const cJSON *template, enum worker_kind kind, const char *node_name)
{
	cJSON *spec = cJSON_Duplicate(json_member(template, "spec"), 1), *container;
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "hostNetwork");
	json_put_bool(spec, "hostNetwork", true);
	if (node_name != NULL)
		put_over(spec, "nodeName", node_name);
	if (kind != WORKER_INFERENCE && object_text(spec, NULL, "restartPolicy")[0] == '\0')
		put_over(spec, "restartPolicy", "OnFailure");
	if (!m->c->cfg.workers_in_place)
		tolerate_absence(spec);
	cJSON_ArrayForEach(container, json_member(spec, "containers")) {
		env_merge(container, m->env);
	}
	pod_files_mount(m->c, m->j, &m->files, spec);
	return spec;
}

cJSON *pod_build(const controller *c, const job *j, enum worker_kind kind, int64_t round, const char *name)
{
	const job_view *v = j->view;
	const cJSON *template = kind == WORKER_TRAIN ? v->train_template : kind == WORKER_EVAL ? v->eval_template : v->deploy_template;
	const char *node_name = template_node(c, template, j->facts.dataset);
	made m = {.c = c, .j = j, .env = cJSON_CreateArray()};
	char *hot = kind == WORKER_INFERENCE && v->hot ? mem_printf(HOT_FOLDER_ON_NODE "/%s/incrementallearningjob/%s", j->ns, j->name) : NULL;
	cJSON *body = cJSON_CreateObject();
	m.files.hot_folder = hot;
	env_build(&m, kind, round, node_name);
	json_put_string(body, "apiVersion", "v1");
	json_put_string(body, "kind", "Pod");
	json_put(body, "metadata", metadata_build(j, template, kind, round, name));
	json_put(body, "spec", spec_build(&m, template, kind, node_name));
	cJSON_Delete(m.env);
	pod_files_fini(&m.files);
	free(hot);
	return body;
}
