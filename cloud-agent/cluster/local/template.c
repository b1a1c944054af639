/* Templates that cannot be run: see template.h. Without an image there is nothing but the template that could say what to run. */
#include "cloud-agent/cluster/local/template.h"

#include <stddef.h>
#include <string.h>

#include "common/json.h"

bool template_filled(const cJSON *object, const char *field)
{
	const cJSON *m = json_member(object, field);
	return m != NULL && !cJSON_IsNull(m) && !((cJSON_IsArray(m) || cJSON_IsObject(m)) && m->child == NULL);
}

bool template_fetcher(const cJSON *init_container)
{
	static const char prefix[] = "ilmare-fetch-";
	const char *name = cJSON_GetStringValue(json_member(init_container, "name"));
	return name != NULL && strncmp(name, prefix, sizeof prefix - 1) == 0 && !template_filled(init_container, "command");
}

static bool initializes(const cJSON *pod_spec, bool built)
{
	const cJSON *one;
	if (!built)
		return template_filled(pod_spec, "initContainers");
	cJSON_ArrayForEach(one, json_member(pod_spec, "initContainers")) {
		if (!template_fetcher(one))
			return true;
	}
	return false;
}

bool template_faulty(const cJSON *pod_spec, bool built, template_fault *out)
{
	const cJSON *containers = json_member(pod_spec, "containers"), *container = cJSON_GetArrayItem(containers, 0);
	*out = (template_fault){.field = "containers"};
	if (initializes(pod_spec, built)) {
		out->field = "initContainers";
		out->text = "initContainers of a template are not supported without containers";
	} else if (cJSON_GetArraySize(containers) != 1 || !cJSON_IsObject(container)) {
		out->text = "a pod must have exactly one container to be run without containers";
	} else if (template_filled(container, "envFrom")) {
		out->in_first = "envFrom";
		out->text = "envFrom is not supported without containers; name the variables in env";
	} else if (!cJSON_IsArray(json_member(container, "command")) || !template_filled(container, "command")) {
		out->in_first = "args";
		out->text = "the container's command is needed: without containers there is no image whose entry point args could go to";
	}
	return out->text != NULL;
}
