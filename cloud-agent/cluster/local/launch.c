/* From a pod to what its supervisor is told: see launch.h for the contract.
 *
 * The environment is built in order, a later variable replacing an earlier one of its name; `$(NAME)` sees what came before it, as with
 * Kubernetes, and command and args see all of it. A path that a fetcher fetches into is replaced by that of this machine, and is no text with
 * references. valueFrom is refused but for keys of Secrets, which is how the core hands on credentials.
 */
#include "cloud-agent/cluster/local/launch.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/local/downloads.h"
#include "cloud-agent/cluster/local/expand.h"
#include "cloud-agent/cluster/local/manifests.h"
#include "cloud-agent/cluster/local/template.h"
#include "common/buf.h"
#include "common/json.h"
#include "common/mem.h"

enum { GRACE_SECONDS = 30, GRACE_SECONDS_MAX = 3600 };

static const char refused[] = "UnsupportedTemplate";
static const char no_secret[] = "CreateContainerConfigError";

static int refuse(launch *l, const char *reason, error *err, const char *text)
{
	l->reason = reason;
	return error_set(err, ERROR_UNSUPPORTED, "%s", text);
}

static void ignored_add(buf *names, const cJSON *obj, const char *const *fields, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (template_filled(obj, fields[i]) && strstr(buf_text(names), fields[i]) == NULL)
			buf_printf(names, "%s%s", names->len > 0 ? ", " : "", fields[i]);
	}
}

static char *ignored_of(const cJSON *spec, const cJSON *container)
{
	static const char *const pod_fields[] = {
		"volumes", "securityContext", "nodeSelector", "affinity", "tolerations", "serviceAccountName", "imagePullSecrets"};
	static const char *const container_fields[] = {
		"image", "volumeMounts", "resources", "securityContext", "ports", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"};
	buf names = {0};
	ignored_add(&names, container, container_fields, sizeof container_fields / sizeof container_fields[0]);
	ignored_add(&names, spec, pod_fields, sizeof pod_fields / sizeof pod_fields[0]);
	char *text = names.len > 0 ? mem_strdup(buf_text(&names)) : NULL;
	buf_fini(&names);
	return text;
}

const char *launch_container(const cJSON *pod)
{
	const cJSON *containers = json_member(json_member(pod, "spec"), "containers");
	const char *name = cJSON_GetStringValue(json_member(cJSON_GetArrayItem(containers, 0), "name"));
	return name != NULL ? name : "";
}

/* A key of a Secret. 0 and *value (NULL: it is optional and not there). */
static int secret_value(const cJSON *source, const char *ns, const launch_host *host, launch *l, const char **value, error *err)
{
	const cJSON *ref = json_member(source, "secretKeyRef");
	const char *name = cJSON_GetStringValue(json_member(ref, "name")), *key = cJSON_GetStringValue(json_member(ref, "key"));
	*value = NULL;
	if (name == NULL || key == NULL)
		return refuse(l, refused, err, "valueFrom is not supported without containers, except for a key of a Secret (secretKeyRef)");
	const cJSON *data = host->secret(host->ctx, ns, name);
	*value = cJSON_GetStringValue(json_member(data, key));
	if (*value != NULL || cJSON_IsTrue(json_member(ref, "optional")))
		return 0;
	l->reason = no_secret;
	if (data == NULL)
		return error_set(err, ERROR_NOT_FOUND, "there is no Secret %s/%s", ns, name);
	return error_set(err, ERROR_NOT_FOUND, "the Secret %s/%s has no key %s", ns, name, key);
}

static bool variable_name_valid(const char *name)
{
	return name != NULL && name[0] != '\0' && strchr(name, '=') == NULL;
}

/* A container's environment while it is made. */
typedef struct variables {
	cJSON *env;          /* all of it */
	cJSON *own;          /* what the container itself defines, which alone references see */
	const cJSON *places; /* downloads.h */
} variables;

static int add_variable(const cJSON *item, const char *ns, const launch_host *host, const variables *v, launch *l, error *err)
{
	const char *name = cJSON_GetStringValue(json_member(item, "name")), *value = cJSON_GetStringValue(json_member(item, "value"));
	if (!variable_name_valid(name))
		return refuse(l, refused, err, "a variable of the container's env has no name, or one with a '='");
	const cJSON *value_member = json_member(item, "value");
	if (value == NULL && value_member != NULL && !cJSON_IsNull(value_member)) {
		l->reason = refused;
		return error_set(err, ERROR_UNSUPPORTED, "env %s: the value is not a text; put it in quotes", name);
	}
	char *text = NULL;
	if (template_filled(item, "valueFrom")) {
		int code = secret_value(json_member(item, "valueFrom"), ns, host, l, &value, err);
		if (code != 0)
			return error_prefix(err, "env %s", name);
		if (value == NULL)
			return 0;
		text = mem_strdup(value);
	} else {
		text = downloads_value(value != NULL ? value : "", v->places);
		if (text == NULL)
			text = expand_text(value != NULL ? value : "", v->own);
	}
	cJSON_DeleteItemFromObjectCaseSensitive(v->env, name);
	cJSON_DeleteItemFromObjectCaseSensitive(v->own, name);
	json_put_string(v->env, name, text);
	json_put_string(v->own, name, text);
	explicit_bzero(text, strlen(text));
	free(text);
	return 0;
}

static int add_variables(const cJSON *pod, const cJSON *container, const launch_host *host, const variables *v, launch *l, error *err)
{
	const char *ns = cJSON_GetStringValue(json_member(json_member(pod, "metadata"), "namespace"));
	const cJSON *item;
	cJSON_ArrayForEach(item, json_member(container, "env")) {
		int code = add_variable(item, ns != NULL ? ns : "default", host, v, l, err);
		if (code != 0)
			return code;
	}
	return 0;
}

static int add_words(cJSON *command, const cJSON *words, const char *what, const cJSON *own, launch *l, error *err)
{
	const cJSON *word;
	cJSON_ArrayForEach(word, words) {
		if (!cJSON_IsString(word)) {
			l->reason = refused;
			return error_set(err, ERROR_UNSUPPORTED, "the container's %s holds something that is not a text; put it in quotes", what);
		}
		char *text = expand_text(word->valuestring, own);
		cJSON_AddItemToArray(command, cJSON_CreateString(text));
		free(text);
	}
	return 0;
}

static int read_policy(const cJSON *spec, launch *l, error *err)
{
	const char *policy = cJSON_GetStringValue(json_member(spec, "restartPolicy"));
	int64_t grace = GRACE_SECONDS;
	if (policy == NULL)
		policy = "Always";
	if (strcmp(policy, "Always") != 0 && strcmp(policy, "OnFailure") != 0 && strcmp(policy, "Never") != 0) {
		l->reason = refused;
		return error_set(err, ERROR_UNSUPPORTED, "restartPolicy \"%.40s\" is not one of Always, OnFailure, Never", policy);
	}
	if (json_get_int(spec, "spec", "terminationGracePeriodSeconds", 0, GRACE_SECONDS_MAX, &grace, err) < 0) {
		l->reason = refused;
		return ERROR_UNSUPPORTED;
	}
	json_put_string(l->spec, "restartPolicy", policy);
	json_put_int(l->spec, "graceMs", grace * 1000);
	return 0;
}

/* What is needed to know the worker's pod again if the store of objects is lost. */
static cJSON *identity_of(const cJSON *pod)
{
	static const char *const kept[] = {"namespace", "name", "uid", "labels", "annotations", "ownerReferences"};
	cJSON *identity = cJSON_CreateObject(), *meta = cJSON_CreateObject(), *spec = cJSON_CreateObject();
	for (size_t i = 0; i < sizeof kept / sizeof kept[0]; i++) {
		const cJSON *part = json_member(json_member(pod, "metadata"), kept[i]);
		json_put(meta, kept[i], part != NULL ? cJSON_Duplicate(part, 1) : NULL);
	}
	json_put_string(spec, "nodeName", cJSON_GetStringValue(json_member(json_member(pod, "spec"), "nodeName")));
	json_put(identity, "metadata", meta);
	json_put(identity, "spec", spec);
	return identity;
}

/* Sources as they are, destinations on this machine. */
static int add_pairs(cJSON *command, const cJSON *args, const launch_host *host, launch *l, error *err)
{
	for (const cJSON *arg = args != NULL ? args->child : NULL; arg != NULL; arg = arg->next->next) {
		const char *source = cJSON_GetStringValue(arg), *destination = cJSON_GetStringValue(arg->next);
		char *real = source != NULL && destination != NULL ? downloads_destination(destination, host->downloads) : NULL;
		if (real == NULL) {
			l->reason = refused;
			return error_set(err, ERROR_UNSUPPORTED, "the url %s cannot be fetched into the folder of a worker",
				source != NULL ? source : "?");
		}
		cJSON_AddItemToArray(command, cJSON_CreateString(source));
		cJSON_AddItemToArray(command, cJSON_CreateString(real));
		free(real);
	}
	return 0;
}

static int add_fetcher(const cJSON *pod, const cJSON *container, const launch_host *host, cJSON *list, launch *l, error *err)
{
	cJSON *fetcher = cJSON_CreateObject(), *command = cJSON_CreateArray();
	variables v = {.env = cJSON_Duplicate(host->transfer_env, 1), .own = cJSON_CreateObject()};
	json_put_string(fetcher, "name", cJSON_GetStringValue(json_member(container, "name")));
	cJSON_AddItemToArray(command, cJSON_CreateString(host->transfer));
	int code = add_variables(pod, container, host, &v, l, err);
	if (code == 0)
		code = add_pairs(command, json_member(container, "args"), host, l, err);
	json_put(fetcher, "command", command);
	json_put(fetcher, "env", v.env);
	cJSON_AddItemToArray(list, fetcher);
	secret_delete(v.own);
	return code;
}

static int add_fetchers(const cJSON *pod, const launch_host *host, launch *l, error *err)
{
	const cJSON *container, *all = json_member(json_member(pod, "spec"), "initContainers");
	if (!cJSON_IsArray(all) || all->child == NULL)
		return 0;
	cJSON *list = cJSON_CreateArray();
	json_put(l->spec, "fetch", list);
	cJSON_ArrayForEach(container, all) {
		int code = add_fetcher(pod, container, host, list, l, err);
		if (code != 0)
			return code;
	}
	return 0;
}

static int fill(const cJSON *pod, const cJSON *container, const launch_host *host, const variables *v, launch *l, error *err)
{
	const char *folder = cJSON_GetStringValue(json_member(container, "workingDir"));
	int code = add_variables(pod, container, host, v, l, err);
	if (code != 0)
		return code;
	cJSON *command = cJSON_CreateArray();
	json_put(l->spec, "command", command);
	code = add_words(command, json_member(container, "command"), "command", v->own, l, err);
	if (code == 0)
		code = add_words(command, json_member(container, "args"), "args", v->own, l, err);
	if (code == 0)
		code = read_policy(json_member(pod, "spec"), l, err);
	if (folder == NULL || folder[0] != '/') {
		char *whole = folder != NULL ? mem_printf("%s/%s", host->folder, folder) : mem_strdup(host->folder);
		json_put_string(l->spec, "folder", whole);
		free(whole);
	} else {
		json_put_string(l->spec, "folder", folder);
	}
	json_put(l->spec, "pod", identity_of(pod));
	return code == 0 ? add_fetchers(pod, host, l, err) : code;
}

int launch_make(const cJSON *pod, const launch_host *host, launch *out, error *err)
{
	const cJSON *spec = json_member(pod, "spec"), *container = cJSON_GetArrayItem(json_member(spec, "containers"), 0);
	*out = (launch){.reason = refused};
	template_fault fault;
	if (template_faulty(spec, true, &fault))
		return refuse(out, refused, err, fault.text);
	out->spec = cJSON_CreateObject();
	out->ignored = ignored_of(spec, container);
	cJSON *places = downloads_places(spec, host->downloads);
	variables v = {.env = cJSON_Duplicate(host->env, 1), .own = cJSON_CreateObject(), .places = places};
	int code = fill(pod, container, host, &v, out, err);
	json_put(out->spec, "env", v.env);
	secret_delete(v.own);
	cJSON_Delete(places);
	if (code != 0) {
		const char *reason = out->reason;
		launch_fini(out);
		out->reason = reason;
	}
	return code;
}

void launch_fini(launch *l)
{
	secret_delete(l->spec);
	free(l->ignored);
	*l = (launch){0};
}
