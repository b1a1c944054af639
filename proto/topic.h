/* The topics of the wire contract: build, parse, validate (docs/protocol.md lists them). Pure.
 *
 * A topic is `{root}/{kind…}`, root by default "ilmare/v1". Namespaces and names are Kubernetes names (RFC 1123: lower-case letters, digits,
 * '-', names also '.'; at most 63 and 253 characters), node names likewise: they never hold '/', '+' or '#'. Anything else is refused.
 */
#ifndef PROTO_TOPIC_H
#define PROTO_TOPIC_H

#include <stdbool.h>

#include "common/error.h"
#include "proto/position.h"

#define TOPIC_ROOT "ilmare/v1"
enum { NAME_MAX_NS = 63, NAME_MAX_NAME = 253, TOPIC_MAX = 1200, TOPIC_ROOT_MAX = 255 };

enum topic_kind {
	TOPIC_STATE,               /* ns/{ns}/job/{name}/state                        cloud -> anyone, retained */
	TOPIC_REPORT,              /* ns/{ns}/job/{name}/node/{node}/{stage}/{what}   edge -> cloud */
	TOPIC_STATS,               /* ns/{ns}/job/{name}/node/{node}/infer/stats      edge -> cloud */
	TOPIC_DATASET_STATUS,      /* ns/{ns}/dataset/{name}/node/{node}/status       edge -> cloud, retained */
	TOPIC_DESIRED,             /* node/{node}/job/{ns}/{name}                     cloud -> edge, retained */
	TOPIC_DATASET,             /* node/{node}/dataset/{ns}/{name}                 cloud -> edge, retained */
	TOPIC_INVENTORY,           /* node/{node}/inventory                           cloud -> edge, retained */
	TOPIC_CREDENTIAL_REQUEST,  /* node/{node}/credential/request                   edge -> cloud, answered at the next */
	TOPIC_CREDENTIAL_RESPONSE, /* node/{node}/credential/response                  cloud -> edge */
	TOPIC_PRESENCE, /* presence/{node}                                 edge -> anyone, retained; node "cloud" is the cloud agent */
};

/* What a report says happened. READY, COMPLETED and FAILED exist for each stage, WRITTEN for deploy alone. */
enum report_what { REPORT_READY, REPORT_COMPLETED, REPORT_FAILED, REPORT_WRITTEN };
const char *report_what_word(enum report_what w); /* "ready", "completed", "failed", "written" */
bool report_what_parse(const char *word, enum report_what *out);

typedef struct topic {
	enum topic_kind kind;
	char ns[NAME_MAX_NS + 1];
	char name[NAME_MAX_NAME + 1]; /* job or dataset */
	char node[NAME_MAX_NAME + 1];
	enum stage stage;      /* REPORT */
	enum report_what what; /* REPORT */
} topic;

#define PRESENCE_CLOUD "cloud" /* so no node may be called that */

/* Fill *out from text; fields that the kind lacks are empty. ERROR_INVALID with what is wrong. */
int topic_parse(const char *root, const char *text, topic *out, error *err);
/* To be freed. The fields must be valid names. */
char *topic_format(const char *root, const topic *t);
/* Subscription filters, to be freed: the edge agent's single one, "{root}/node/{node}/#". */
char *topic_edge_filter(const char *root, const char *node);
/* The cloud agent's: reports, stats and dataset statuses, presences, requests for credentials, and its own retained topics (state, desired,
 * dataset, inventory). Not the answers with credentials: nobody but their node has a use for them.
 * A NULL-terminated array, each and the array to be freed. */
char **topic_cloud_filters(const char *root);

/* A configured root: printable ASCII levels, none empty, no wildcards, not beginning with '$', at most TOPIC_ROOT_MAX characters. */
bool topic_root_valid(const char *root);

bool name_valid(const char *s);    /* RFC 1123 subdomain of at most 253 characters */
bool name_valid_ns(const char *s); /* RFC 1123 label of at most 63 characters */
/* A node's name: as name_valid, and not PRESENCE_CLOUD. */
bool name_valid_node(const char *s);

#endif
