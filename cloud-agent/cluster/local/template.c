/* Templates that cannot be run: see template.h. Without an image there is nothing but the template that could say what to run. */
#include "cloud-agent/cluster/local/template.h"

#include <stddef.h>

#include "common/json.h"

bool template_filled(const cJSON *object, const char *field)
{
	const cJSON *m = json_member(object, field);
	return m != NULL && !cJSON_IsNull(m) && !((cJSON_IsArray(m) || cJSON_IsObject(m)) && m->child == NULL);
}

bool template_faulty(const cJSON *pod_spec, template_fault *out)
{
	const cJSON *containers = json_member(pod_spec, "containers"), *container = cJSON_GetArrayItem(containers, 0);
	*out = (template_fault){.field = "containers"};
	if (template_filled(pod_spec, "initContainers")) {
		out->field = "initContainers";
		out->text = "initContainers are not supported without containers (they are also what fetches remote urls for a worker)";
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
