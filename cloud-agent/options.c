/* The table of ilmare-cloud's options. Defaults are those of docs/configuration.md, which is checked against it. */
#include "cloud-agent/options.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/node_settings.h"
#include "common/http/endpoint.h"
#include "common/mem.h"
#include "common/version.h"
#include "proto/topic.h"

#define AT(field) offsetof(cloud_options, field)
#define MINUTE INT64_C(60000)
#define DAY (24 * 60 * MINUTE)

static const config_row rows[] = {
	{.key = "cluster",
		.type = CONFIG_ENUM,
		.offset = AT(cluster),
		.fallback = "local",
		.choices = "local|kube",
		.help = "Where jobs live and workers run. local: manifests from a folder, workers as processes of this machine. kube: a Kubernetes "
				"cluster."},
	{.key = "name",
		.type = CONFIG_STRING,
		.offset = AT(name),
		.fallback = "ilmare-cloud",
		.help = "MQTT client id of this agent. Two agents with one name throw each other out."},
	LOG_OPTION_ROW(AT(log_level)),
	MQTT_OPTION_ROWS(AT(mqtt)),

	{.key = "local.manifestsDir",
		.type = CONFIG_STRING,
		.offset = AT(manifests_dir),
		.fallback = "/etc/ilmare/manifests",
		.help = "Folder of YAML files with Dataset, Model, IncrementalLearningJob and Secret objects. Watched: a file that is added, "
				"changed or "
				"removed takes effect at once."},
	{.key = "local.stateDir",
		.type = CONFIG_STRING,
		.offset = AT(state_dir),
		.fallback = "/var/lib/ilmare-cloud",
		.help = "Folder of the objects' state and of the workers' logs. Made if it is missing."},
	{.key = "local.supervisor",
		.type = CONFIG_STRING,
		.offset = AT(supervisor),
		.help = "The program that runs one worker (ilmare-worker). Default: beside this program, else the installed one."},
	{.key = "local.workerLogMax",
		.type = CONFIG_SIZE,
		.offset = AT(worker_log_max),
		.fallback = "10MiB",
		.min = 4096,
		.max = INT64_C(1) << 40,
		.help = "Size at which a worker's log is begun anew; one older part is kept."},
	{.key = "local.stopWorkers",
		.type = CONFIG_BOOL,
		.offset = AT(stop_workers),
		.fallback = "false",
		.help = "End the workers when the agent is stopped. They go on otherwise, and the next start finds them."},
	{.key = "kube.kubeconfig",
		.type = CONFIG_STRING,
		.offset = AT(kubeconfig),
		.help = "File, or files separated by ':', with the API server's address and our credentials, as kubectl takes it. Default: the "
				"variable KUBECONFIG, else the service account of the pod."},
	{.key = "kube.context",
		.type = CONFIG_STRING,
		.offset = AT(kube_context),
		.help = "Context of the kubeconfig. Default: its current one."},
	{.key = "kube.namespaces",
		.type = CONFIG_LIST,
		.offset = AT(kube_namespaces),
		.help = "Namespaces whose objects are followed. Default: all."},
	{.key = "kube.lease",
		.type = CONFIG_STRING,
		.offset = AT(lease),
		.fallback = "ilmare-cloud",
		.help =
			"Name of the Lease that decides which of several cloud agents leads. The same for all of them; each needs a name of its own."},
	{.key = "kube.leaseNamespace",
		.type = CONFIG_STRING,
		.offset = AT(lease_namespace),
		.help = "Namespace of the Lease. Default: the one of the service account or of the context."},
	{.key = "kube.leaseDuration",
		.type = CONFIG_DURATION,
		.offset = AT(lease_ms),
		.fallback = "15s",
		.min = 2000,
		.max = 3600 * 1000,
		.help = "A Lease that has not changed for so long may be taken by another agent. At least a second above kube.leaseRenewDeadline: "
				"in between, what the leader sent last still arrives."},
	{.key = "kube.leaseRenewDeadline",
		.type = CONFIG_DURATION,
		.offset = AT(lease_renew_ms),
		.fallback = "10s",
		.min = 1000,
		.max = 3600 * 1000,
		.help = "A leader that could not renew the Lease for so long writes nothing more."},
	{.key = "kube.leaseRetryPeriod",
		.type = CONFIG_DURATION,
		.offset = AT(lease_retry_ms),
		.fallback = "2s",
		.min = 100,
		.max = 3600 * 1000,
		.help = "Between two looks at the Lease, by the leader to renew it, by others to take it. Up to a fifth longer, so that they do "
				"not ask in step; below kube.leaseRenewDeadline even then."},
	{.key = "kube.storageImage",
		.type = CONFIG_STRING,
		.offset = AT(storage_image),
		.fallback = "ilmare-transfer:" ILMARE_VERSION,
		.help = "Image of the init container that fetches what a worker reads from s3://, http:// or https://."},
	{.key = "kube.credentials",
		.type = CONFIG_ENUM,
		.offset = AT(credentials),
		.fallback = "reference",
		.choices = "reference|value",
		.help =
			"How a Secret's keys come into a worker's environment. value: written into the pod, for nodes that cannot resolve references "
			"(old versions of KubeEdge); whoever may read pods can read them then, and this agent needs the right to get Secrets."},
	{.key = "kube.requestsPerSecond",
		.type = CONFIG_INT,
		.offset = AT(kube_requests),
		.fallback = "50",
		.min = 1,
		.max = 10000,
		.help = "Writes to the API server, on average."},
	{.key = "kube.burst",
		.type = CONFIG_INT,
		.offset = AT(kube_burst),
		.fallback = "300",
		.min = 1,
		.max = 100000,
		.help = "Writes to the API server at once, after a quiet time: a whole round of twenty jobs. Events leave half of it for what "
				"moves a job."},
	{.key = "kube.watchSilence",
		.type = CONFIG_DURATION,
		.offset = AT(watch_silence_ms),
		.fallback = "150s",
		.min = 1000,
		.max = DAY,
		.help = "A watch on which nothing comes for so long, not even one of the bookmarks that the server sends about once a minute, is "
				"taken for dead and begun anew."},
	{.key = "lcServer",
		.type = CONFIG_STRING,
		.offset = AT(lc_server),
		.fallback = "http://localhost:9100",
		.help = "Where workers report to (their LC_SERVER): the edge agent's worker endpoint, as seen from a worker."},
	{.key = "nodes", .type = CONFIG_MAP, .offset = AT(nodes), .help = "Per node: {name: {lcServer: url}}, where it differs from lcServer."},

	OBSERVE_OPTION_ROWS(AT(observe), "9101", "none"),

	{.key = "enrolment.port",
		.type = CONFIG_INT,
		.offset = AT(enrolment.port),
		.fallback = "-1",
		.min = -1,
		.max = 65535,
		.help =
			"Port at which devices get their certificates, over TLS. 0: any free one, said in the log. -1: none. Only with a cluster of "
			"Kubernetes."},
	{.key = "enrolment.host",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.host),
		.fallback = "0.0.0.0",
		.help = "Address of that port; :: for IPv6."},
	{.key = "enrolment.certFile",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.cert_file),
		.help = "PEM file of the certificate of that port, which devices check with their mqtt.caFile. Like all files of enrolment it is "
				"read anew when it changes."},
	{.key = "enrolment.keyFile",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.key_file),
		.help = "PEM file of its key, without a passphrase. Default: in certFile."},
	{.key = "enrolment.authorityCert",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.authority_cert),
		.help =
			"PEM file of the authority that signs the certificates of devices. Of several the first that fits the key signs; those that "
			"devices have now may be of any of them."},
	{.key = "enrolment.authorityKey",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.authority_key),
		.help = "PEM file of the authority's key, without a passphrase. Default: in authorityCert."},
	{.key = "enrolment.serviceAccount",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.account),
		.help =
			"namespace:name of the service account of edge agents that run as pods; their tokens get them a certificate for the node on "
			"which they are. Default: no such tokens are taken."},
	{.key = "enrolment.secretPrefix",
		.type = CONFIG_STRING,
		.offset = AT(enrolment.prefix),
		.help = "How the names of Secrets with one-time tokens begin, in this agent's namespace; the node's name follows. Default: no "
				"one-time tokens are taken."},
	{.key = "enrolment.lifetime",
		.type = CONFIG_DURATION,
		.offset = AT(enrolment.lifetime_ms),
		.fallback = "365d",
		.min = 2000,
		.max = 3650 * DAY,
		.help = "How long a certificate is valid, if the authority is. Devices renew theirs when a third of it is left."},
	{.key = "enrolment.denied",
		.type = CONFIG_LIST,
		.offset = AT(enrolment.denied),
		.help = "Nodes that get no certificate, however they ask. What they have is valid until it ends, unless the broker refuses it."},
	{.key = "enrolment.reserved",
		.type = CONFIG_LIST,
		.offset = AT(enrolment.reserved),
		.help = "Names that no device gets, such as those of operators; cloud and broker are always reserved."},

	{.key = "documents.slowTimer",
		.type = CONFIG_DURATION,
		.offset = AT(slow_ms),
		.fallback = "1h",
		.min = 1000,
		.max = 7 * DAY,
		.help = "How often all documents are published again, give or take a fifth."},
	{.key = "rounds.backoffMin",
		.type = CONFIG_DURATION,
		.offset = AT(backoff_min_ms),
		.fallback = "10s",
		.min = 10,
		.max = DAY,
		.help = "Wait after a failed round; doubles with each failure in a row."},
	{.key = "rounds.backoffMax",
		.type = CONFIG_DURATION,
		.offset = AT(backoff_max_ms),
		.fallback = "6m",
		.min = 10,
		.max = DAY,
		.help = "Longest wait after a failed round."},
	{.key = "workers.startTimeout",
		.type = CONFIG_DURATION,
		.offset = AT(start_timeout_ms),
		.fallback = "10m",
		.min = 1000,
		.max = 30 * DAY,
		.help = "A worker that does not start within this time is deleted, and its stage fails."},
	{.key = "workers.reportedRunning",
		.type = CONFIG_DURATION,
		.offset = AT(reported_running_ms),
		.fallback = "5m",
		.min = 1000,
		.max = 30 * DAY,
		.help = "A worker that has reported its result and still runs after this time is deleted."},
	{.key = "workers.maxRestarts",
		.type = CONFIG_INT,
		.offset = AT(max_restarts),
		.fallback = "3",
		.min = 0,
		.max = 1000,
		.help = "A worker that restarted this often is deleted, and its stage fails."},
	{.key = "workers.nodeSilenceLimit",
		.type = CONFIG_DURATION,
		.offset = AT(node_silence_ms),
		.fallback = "0",
		.min = 0,
		.max = 3650 * DAY,
		.help = "A stage whose worker has ended and whose node has been offline this long fails with ResultsMissing. 0: it waits for the "
				"node."},
	{.key = "status.conditionsMax",
		.type = CONFIG_INT,
		.offset = AT(conditions_max),
		.fallback = "14",
		.min = 12,
		.max = 100,
		.help = "Conditions kept in a job's status."},
};

static bool is_client_id(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)name[i] < ' ' || name[i] == 0x7f)
			return false;
	return n > 0 && n <= 128;
}

/* The beginning of a name of Kubernetes, to which a node's is added. */
static bool is_prefix(const char *text)
{
	char *name = mem_printf("%sx", text);
	bool good = name_valid(name);

	free(name);
	return good;
}

static bool is_account(const char *text)
{
	const char *colon = strchr(text, ':');
	char *ns = colon ? mem_strndup(text, (size_t)(colon - text)) : NULL;
	bool good = colon && name_valid_ns(ns) && name_valid(colon + 1);

	free(ns);
	return good;
}

static void check_names(const char *key, const char *names, config_rules *rules)
{
	char *copy = mem_strdup(names ? names : ""), *rest, *word;

	for (word = strtok_r(copy, "\n", &rest); word; word = strtok_r(NULL, "\n", &rest))
		if (!name_valid(word))
			config_broken(rules, key, NULL, "\"%.100s\" is not a name: lower-case letters, digits, '-' and '.'", word);
	free(copy);
}

static void check_enrolment(const cloud_options *o, config_rules *rules)
{
	const enrolment_options *e = &o->enrolment;

	if (!endpoint_host_valid(e->host))
		config_broken(rules, "enrolment.host", NULL, LISTEN_RULE, e->host ? e->host : "");
	if (e->account && !is_account(e->account))
		config_broken(rules, "enrolment.serviceAccount", NULL, "\"%.100s\" is not NAMESPACE:NAME", e->account);
	if (e->prefix && !is_prefix(e->prefix))
		config_broken(rules, "enrolment.secretPrefix", NULL, "\"%.100s\" cannot begin the name of a Secret", e->prefix);
	check_names("enrolment.denied", e->denied, rules);
	check_names("enrolment.reserved", e->reserved, rules);
	if (e->port < 0)
		return;
	if (strcmp(o->cluster, "kube") != 0)
		config_broken(rules, "enrolment.port", "cluster",
			"needs a cluster of Kubernetes (cluster: kube), which says who may get a certificate; elsewhere broker-config/certificates "
			"makes "
			"them");
	if (!e->cert_file)
		config_broken(rules, "enrolment.certFile", "enrolment.port", "is needed with enrolment.port: devices have to know whom they ask");
	if (!e->authority_cert)
		config_broken(rules, "enrolment.authorityCert", "enrolment.port", "is needed with enrolment.port: it signs the certificates");
}

static void check(const void *target, config_rules *rules)
{
	const cloud_options *o = target;

	if (!o->name || !is_client_id(o->name))
		config_broken(rules, "name", NULL, "an MQTT client id of 1 to 128 characters is needed, none of them a control character");
	mqtt_options_check(&o->mqtt, rules);
	if (!topic_root_valid(o->mqtt.topic_root))
		config_broken(rules, "mqtt.topicRoot", NULL, TOPIC_ROOT_RULE, o->mqtt.topic_root ? o->mqtt.topic_root : "");
	if (!endpoint_url_valid(o->lc_server))
		config_broken(rules, "lcServer", NULL, NODE_URL_RULE, o->lc_server ? o->lc_server : "");
	node_settings_check(o->nodes, rules);
	if (!endpoint_host_valid(o->observe.host))
		config_broken(rules, "observe.host", NULL, LISTEN_RULE, o->observe.host ? o->observe.host : "");
	if (o->lease_ms < o->lease_renew_ms + 1000)
		config_broken(rules, "kube.leaseDuration", "kube.leaseRenewDeadline", "is not at least a second above kube.leaseRenewDeadline");
	if (o->lease_renew_ms <= o->lease_retry_ms + o->lease_retry_ms / 5)
		config_broken(rules, "kube.leaseRenewDeadline", "kube.leaseRetryPeriod",
			"is not above kube.leaseRetryPeriod and the fifth that may be added to it");
	if (o->backoff_max_ms < o->backoff_min_ms)
		config_broken(rules, "rounds.backoffMax", "rounds.backoffMin", "is below rounds.backoffMin");
	check_enrolment(o, rules);
}

static const char *const tasks[][2] = {
	{"--apply FILE...",
		"Only this: bring the custom resource definitions in these files to the cluster of the variable KUBECONFIG, or of the pod's "
		"service account, "
		"and end: 0, 1 if the API server did not take them all, 2 if a file cannot be used. What is there already is brought to what the "
		"file says. "
		"The chart does this before each installation and upgrade."},
};

const config_spec cloud_options_spec = {
	.program = "ilmare-cloud",
	.summary = "the cloud agent of Ilmare: creates workers and advances jobs",
	.about =
		"Follows IncrementalLearningJob objects and the reports of the edge agents, creates the train, eval and inference workers, "
		"advances each "
		"job's conditions, and publishes over MQTT what each node should do and where each job stands. All that it knows is in the cluster "
		"and on the broker: it may be stopped or killed at any moment.",
	.default_file = "/etc/ilmare/cloud.yaml",
	.rows = rows,
	.n = sizeof rows / sizeof rows[0],
	.tasks = tasks,
	.n_tasks = sizeof tasks / sizeof tasks[0],
	.check = check,
	.foreign =
		"NODE,STATE_DIR,ROOT_DIR,TIME_ZONE,OUTBOX_*,DATASET_*,DEPLOY_*,CREDENTIALS_*,REMOTE_*,PROVISIONAL_*,WORKERS_HOST,WORKERS_PORT,"
		"ENROLMENT_URL,ENROLMENT_TOKEN_FILE,ENROLMENT_PROGRAM,"
		"WORKERS_TOKEN_FILE,WORKERS_BODY_MAX,WORKERS_CONNECTIONS,WORKERS_REQUEST_TIME,WORKERS_RESULT_GRACE",
};
