/* The fields of each kind of manifest: names, types and what is needed are those of Sedna's custom resources, so that its users' manifests
 * work unchanged. Defaults are not filled in here: absent stays absent, and the core knows what that means.
 */
#include "cloud-agent/cluster/local/manifest_fields.h"

#define OPERATORS "gt ge eq ne le lt > >= = == != <= <"
/* A day; longer pauses between two looks are surely a slip of the pen. */
#define PERIOD_MAX 86400

/* What the API server fills in is there when a manifest was exported from a cluster; it means nothing here. */
const field manifest_metadata_fields[] = {{.name = "name", .type = FIELD_STRING, .required = true},
	{.name = "namespace", .type = FIELD_STRING}, {.name = "labels", .type = FIELD_MAP}, {.name = "annotations", .type = FIELD_MAP},
	{.name = "uid", .type = FIELD_IGNORED}, {.name = "resourceVersion", .type = FIELD_IGNORED},
	{.name = "generation", .type = FIELD_IGNORED}, {.name = "creationTimestamp", .type = FIELD_IGNORED},
	{.name = "managedFields", .type = FIELD_IGNORED}, {.name = "finalizers", .type = FIELD_IGNORED},
	{.name = "ownerReferences", .type = FIELD_IGNORED}, {.name = "selfLink", .type = FIELD_IGNORED}, {0}};

const field manifest_dataset_fields[] = {{.name = "url", .type = FIELD_STRING, .required = true},
	{.name = "format", .type = FIELD_ENUM, .required = true, .choices = "txt csv"},
	{.name = "nodeName", .type = FIELD_STRING, .required = true}, {.name = "credentialName", .type = FIELD_STRING}, {0}};

const field manifest_model_fields[] = {{.name = "url", .type = FIELD_STRING, .required = true},
	{.name = "format", .type = FIELD_STRING, .required = true}, {.name = "device_soc_versions", .type = FIELD_STRINGS},
	{.name = "credentialName", .type = FIELD_STRING}, {0}};

static const field reference[] = {{.name = "name", .type = FIELD_STRING, .required = true}, {0}};
static const field optional_reference[] = {{.name = "name", .type = FIELD_STRING}, {0}};

static const field timer[] = {
	{.name = "start", .type = FIELD_TIME, .required = true}, {.name = "end", .type = FIELD_TIME, .required = true}, {0}};

static const field condition[] = {{.name = "operator", .type = FIELD_ENUM, .required = true, .choices = OPERATORS},
	{.name = "threshold", .type = FIELD_NUMBER, .required = true}, {.name = "metric", .type = FIELD_STRING, .required = true}, {0}};

static const field trigger[] = {{.name = "checkPeriodSeconds", .type = FIELD_INT, .min = 1, .max = PERIOD_MAX},
	{.name = "timer", .type = FIELD_OBJECT, .inner = timer}, {.name = "condition", .type = FIELD_OBJECT, .inner = condition}, {0}};

static const field dataset_use[] = {{.name = "name", .type = FIELD_STRING, .required = true},
	{.name = "trainProb", .type = FIELD_NUMBER, .required = true, .min = 0, .max = 1}, {0}};

static const field train[] = {{.name = "template", .type = FIELD_WHOLE, .required = true},
	{.name = "trigger", .type = FIELD_OBJECT, .required = true, .inner = trigger}, {0}};

static const field eval[] = {{.name = "template", .type = FIELD_WHOLE, .required = true},
	{.name = "initialEvalModel", .type = FIELD_OBJECT, .inner = optional_reference}, {0}};

static const field deploy_model[] = {{.name = "name", .type = FIELD_STRING, .required = true},
	{.name = "hotUpdateEnabled", .type = FIELD_BOOL}, {.name = "pollPeriodSeconds", .type = FIELD_INT, .min = 1, .max = PERIOD_MAX}, {0}};

static const field parameter[] = {{.name = "key", .type = FIELD_STRING, .required = true}, {.name = "value", .type = FIELD_STRING}, {0}};

static const field mining[] = {
	{.name = "name", .type = FIELD_STRING, .required = true}, {.name = "parameters", .type = FIELD_LIST, .inner = parameter}, {0}};

static const field deploy[] = {{.name = "model", .type = FIELD_OBJECT, .required = true, .inner = deploy_model},
	{.name = "trigger", .type = FIELD_OBJECT, .required = true, .inner = trigger},
	{.name = "hardExampleMining", .type = FIELD_OBJECT, .inner = mining}, {.name = "template", .type = FIELD_WHOLE, .required = true}, {0}};

const field manifest_job_fields[] = {{.name = "dataset", .type = FIELD_OBJECT, .required = true, .inner = dataset_use},
	{.name = "initialModel", .type = FIELD_OBJECT, .required = true, .inner = reference},
	{.name = "trainSpec", .type = FIELD_OBJECT, .required = true, .inner = train},
	{.name = "evalSpec", .type = FIELD_OBJECT, .required = true, .inner = eval},
	{.name = "deploySpec", .type = FIELD_OBJECT, .required = true, .inner = deploy},
	{.name = "outputDir", .type = FIELD_STRING, .required = true}, {.name = "credentialName", .type = FIELD_STRING}, {0}};
