/* How the kinds of objects are called in the Kubernetes API: paths of requests, and what an answer means. Pure; any thread.
 */
#ifndef CLUSTER_KUBE_RESOURCE_H
#define CLUSTER_KUBE_RESOURCE_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cloud-agent/core/controller.h"
#include "common/error.h"

typedef struct resource {
	enum object_kind kind;
	const char *base;     /* "/apis/sedna.io/v1alpha1" */
	const char *plural;   /* "datasets" */
	const char *name;     /* for people: "Dataset" */
	const char *group;    /* of the rule that allows it: "sedna.io", "" */
	const char *selector; /* of the objects that concern us, or NULL */
	bool namespaced;
	bool metadata_only; /* Secrets: their data never comes here */
	bool custom;        /* there once the CRDs are installed */
} resource;

const resource *resource_of(enum object_kind kind);

/* "/apis/…/namespaces/NS/datasets/NAME/SUB", to be freed. ns NULL: of all namespaces; name NULL: the collection; sub NULL: the object. */
char *resource_path(enum object_kind kind, const char *ns, const char *name, const char *sub);
/* A page of the collection as it is now (a consistent read); `token` NULL: the first. limit 0: all in one. */
char *resource_list_path(enum object_kind kind, const char *ns, int limit, const char *token);
char *resource_watch_path(enum object_kind kind, const char *ns, const char *version, int timeout_s);
/* Of a list or a watch; NULL: plain JSON. */
const char *resource_accept(enum object_kind kind, bool watch);

/* The error of an answer that is not 2xx: HTTP status and the Status object of the body (which may be anything). Text: what the server says.
 *   400, 422 INVALID   401, 403 DENIED   404 NOT_FOUND   409 EXISTS or CONFLICT   410 CHANGED   413, and 422 or 500 for an object that is too
 *   large LIMIT   408, 504 TIMEOUT   all else OFFLINE. */
int resource_error(int status, const char *body, size_t len, error *err);
/* The same of a Status object, as an ERROR event holds it. */
int resource_status_error(int status, const cJSON *object, error *err);

/* What may be wrong, of a text with ERROR_DENIED, where it is not a rule of RBAC that is missing (then NULL): who we are, or who the server is. */
const char *resource_stranger(const char *text);

/* Versions of one kind's objects count up (Kubernetes says so since 1.35, and it was always so): a is newer than b. What is no number counts as
 * newer, so that nothing is missed. */
bool resource_newer(const char *a, const char *b);

#endif
