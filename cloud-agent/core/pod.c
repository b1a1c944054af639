/* What a worker's pod is made of: the template of the job's spec, our names, labels and owner, and the variables that tell the worker what to
 * do. The template's own labels, annotations and finalizers go to the pod too; of a variable that both name, ours is the one that counts.
 *
 * Urls are those of the node. What they look like to the worker is decided in pod_place_url alone: with a cluster, a path of the node is
 * found below /home/data; in place, it is what it is.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "common/buf.h"

#define DATA_PREFIX "/home/data"
#define HOT_FOLDER "/model-hot-update"
#define HOT_FOLDER_ON_NODE "/var/lib/sedna/model-hot-update"
#define LC_DEFAULT "http://localhost:9100"

char *pod_place_url(const controller *c, const char *url)
{
	return mem_printf("%s%s", !c->cfg.workers_in_place && url_local(url) ? DATA_PREFIX : "", url);
}

/* ---- variables ---- */

static void env_put(cJSON *env, const char *name, const char *value)
{
	cJSON *entry = cJSON_CreateObject();
	json_put_string(entry, "name", name);
	json_put_string(entry, "value", value != NULL ? value : "");
	cJSON_AddItemToArray(env, entry);
}

static void env_put_url(const controller *c, cJSON *env, const char *name, const char *url)
{
	char *placed = url != NULL ? pod_place_url(c, url) : NULL;
	env_put(env, name, placed);
	free(placed);
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

static void env_train(const controller *c, const job *j, cJSON *env)
{
	const stage_input *in = &j->view->train_input;
	env_put_url(c, env, "BASE_MODEL_URL", in->n > 0 ? in->models[0].url : NULL);
	env_put_url(c, env, "MODEL_URL", in->output_dir);
	env_put_url(c, env, "TRAIN_DATASET_URL", in->data_url);
	env_put_url(c, env, "ORIGINAL_DATASET_URL", in->data_index_url != NULL ? in->data_index_url : j->facts.dataset->url);
}

static void env_eval(const controller *c, const job *j, cJSON *env)
{
	const stage_input *in = &j->view->eval_input;
	buf urls = {0};
	for (size_t i = 0; i < in->n; i++) {
		char *placed = pod_place_url(c, in->models[i].url);
		buf_printf(&urls, "%s%s", i > 0 ? ";" : "", placed);
		free(placed);
	}
	env_put(env, "MODEL_URLS", buf_text(&urls));
	buf_fini(&urls);
	env_put_url(c, env, "TEST_DATASET_URL", in->data_url);
	env_put_url(c, env, "ORIGINAL_DATASET_URL", in->data_index_url != NULL ? in->data_index_url : j->facts.dataset->url);
}

static void env_inference(const controller *c, const job *j, cJSON *env)
{
	const job_view *v = j->view;
	const char *mining = v->hem_name != NULL ? v->hem_name : "";
	char *parameters = v->hem_parameters != NULL ? json_print(v->hem_parameters) : NULL;
	env_put_url(c, env, "MODEL_URL", j->facts.deploy->url);
	env_put(env, "HEM_NAME", mining);
	env_put(env, "HEM_PARAMETERS", parameters != NULL ? parameters : "[]");
	env_put(env, "HARD_SAMPLE_ALGORITHM", mining);
	free(parameters);
	if (!v->hot)
		return;
	char *config = c->cfg.workers_in_place ?
		mem_printf(HOT_FOLDER_ON_NODE "/%s/incrementallearningjob/%s/model_config.json", j->ns, j->name) :
		mem_strdup(HOT_FOLDER "/model_config.json");
	char *period = mem_printf("%" PRId64, v->poll_s);
	env_put(env, "MODEL_HOT_UPDATE", "true");
	env_put(env, "MODEL_HOT_UPDATE_CONFIG", config);
	env_put(env, "MODEL_POLL_PERIOD_SECONDS", period);
	free(config);
	free(period);
}

/* The values themselves never enter the core: whoever starts the worker puts them in the place of the references. */
static void env_credential(const controller *c, const job *j, cJSON *env, const char *secret)
{
	char *key = object_key(j->ns, secret);
	const char *endpoint = table_get(&c->secrets, key);
	free(key);
	if (endpoint != NULL && endpoint[0] != '\0')
		env_put(env, "S3_ENDPOINT_URL", endpoint);
	env_put_key(env, "ACCESS_KEY_ID", secret);
	env_put_key(env, "SECRET_ACCESS_KEY", secret);
}

static const char *lc_server(const controller *c, const char *node_name)
{
	const char *own = c->cfg.lc_server_of != NULL && node_name != NULL ? c->cfg.lc_server_of(c->cfg.lc_server_ctx, node_name) : NULL;
	if (own != NULL)
		return own;
	return c->cfg.lc_server != NULL ? c->cfg.lc_server : LC_DEFAULT;
}

static cJSON *env_build(const controller *c, const job *j, enum worker_kind kind, int64_t round, const char *node_name)
{
	char worker[WORKER_NAME_SIZE];
	cJSON *env = cJSON_CreateArray();
	const char *secret = j->view->credential != NULL ? j->view->credential : j->facts.dataset->credential;
	worker_name(kind, j->uid, round, worker);
	env_put(env, "NAMESPACE", j->ns);
	env_put(env, "JOB_NAME", j->name);
	env_put(env, "WORKER_NAME", worker);
	env_put(env, "LC_SERVER", lc_server(c, node_name));
	env_put(env, "DATA_PATH_PREFIX", c->cfg.workers_in_place ? "" : DATA_PREFIX);
	if (kind == WORKER_TRAIN)
		env_train(c, j, env);
	else if (kind == WORKER_EVAL)
		env_eval(c, j, env);
	else
		env_inference(c, j, env);
	if (secret != NULL && secret[0] != '\0')
		env_credential(c, j, env, secret);
	return env;
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

cJSON *pod_build(const controller *c, const job *j, enum worker_kind kind, int64_t round, const char *name)
{
	const job_view *v = j->view;
	const cJSON *template = kind == WORKER_TRAIN ? v->train_template : kind == WORKER_EVAL ? v->eval_template : v->deploy_template;
	const char *node_name = template_node(c, template, j->facts.dataset);
	cJSON *body = cJSON_CreateObject(), *spec = cJSON_Duplicate(json_member(template, "spec"), 1), *container;
	cJSON *env = env_build(c, j, kind, round, node_name);
	json_put_string(body, "apiVersion", "v1");
	json_put_string(body, "kind", "Pod");
	json_put(body, "metadata", metadata_build(j, template, kind, round, name));
	cJSON_DeleteItemFromObjectCaseSensitive(spec, "hostNetwork");
	json_put_bool(spec, "hostNetwork", true);
	if (node_name != NULL)
		put_over(spec, "nodeName", node_name);
	if (kind != WORKER_INFERENCE && object_text(spec, NULL, "restartPolicy")[0] == '\0')
		put_over(spec, "restartPolicy", "OnFailure");
	cJSON_ArrayForEach(container, json_member(spec, "containers")) {
		env_merge(container, env);
	}
	cJSON_Delete(env);
	json_put(body, "spec", spec);
	return body;
}
