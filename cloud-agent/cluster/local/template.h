/* Whether a pod template can be run without containers: what can be said before there is a pod, from the template alone. Pure. */
#ifndef LOCAL_TEMPLATE_H
#define LOCAL_TEMPLATE_H

#include <cjson/cJSON.h>
#include <stdbool.h>

typedef struct template_fault {
	const char *field;    /* of the pod's spec: "initContainers", "containers" */
	const char *in_first; /* the field of the first container, or NULL */
	const char *text;
} template_fault;

/* True if there is one, with *out; all its texts are static. `built`: it is the spec of a pod that the core made of a template, and may have
 * fetchers. */
bool template_faulty(const cJSON *pod_spec, bool built, template_fault *out);
/* Is this init container one with which the core has a worker's remote urls fetched? */
bool template_fetcher(const cJSON *init_container);

/* Has the object this field, and is there anything in it? */
bool template_filled(const cJSON *object, const char *field);

#endif
