/* The table of ilmare-edge's options. Defaults are those of docs/configuration.md, which is checked against it. */
#include "edge-agent/options.h"

#include <stddef.h>
#include <string.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/http/endpoint.h"
#include "edge-agent/worker-api/worker_api.h"
#include "proto/topic.h"

#define AT(field) offsetof(edge_options, field)
#define MINUTE INT64_C(60000)
#define DAY (24 * 60 * MINUTE)

/* A common name's, in X.520. */
enum { CERTIFICATE_NAME_MAX = 64 };

static const config_row rows[] = {
	{.key = "node",
		.type = CONFIG_STRING,
		.offset = AT(node),
		.env = "NODENAME,HOSTNAME",
		.help = "Name of this node, as the cluster knows it: the MQTT client id and part of every topic."},
	{.key = "stateDir",
		.type = CONFIG_STRING,
		.offset = AT(state_dir),
		.fallback = "/var/lib/ilmare",
		.help = "Folder of the store (one SQLite file). Made if it is missing."},
	{.key = "rootDir",
		.type = CONFIG_STRING,
		.offset = AT(root_dir),
		.env = "ROOTFS_MOUNT_DIR",
		.help =
			"Where the node's root is mounted when the agent runs in a container (/rootfs): put before every path that a job names, and "
			"never part of anything sent."},
	LOG_OPTION_ROW(AT(log_level)),
	{.key = "timeZone",
		.type = CONFIG_STRING,
		.offset = AT(time_zone),
		.help = "Zone of the times in triggers, for example Europe/Paris. Default: the system's."},

	MQTT_OPTION_ROWS(AT(mqtt)),
	{.key = "outbox.retryMin",
		.type = CONFIG_DURATION,
		.offset = AT(retry_min_ms),
		.fallback = "2s",
		.min = 10,
		.max = DAY,
		.help = "First wait before a report that no document has settled is published again; doubles, with full jitter."},
	{.key = "outbox.retryMax",
		.type = CONFIG_DURATION,
		.offset = AT(retry_max_ms),
		.fallback = "10m",
		.min = 10,
		.max = DAY,
		.help = "Longest wait before it is published again."},

	{.key = "workers.host",
		.type = CONFIG_STRING,
		.offset = AT(worker_host),
		.fallback = "127.0.0.1",
		.help = "Address that workers post to. Anything but loopback lets other machines report in a worker's name."},
	{.key = "workers.port",
		.type = CONFIG_INT,
		.offset = AT(worker_port),
		.fallback = "9100",
		.max = 65535,
		.env = "BIND_PORT",
		.help = "Port that workers post to (LC_SERVER). 0: any free one, said in the log."},
	{.key = "workers.tokenFile",
		.type = CONFIG_STRING,
		.offset = AT(worker_token_file),
		.help = "File whose first line workers need as the path of LC_SERVER: http://127.0.0.1:9100/TOKEN. Read at start. Default: none."},
	{.key = "workers.bodyMax",
		.type = CONFIG_SIZE,
		.offset = AT(worker_body_max),
		.fallback = "1MiB",
		.min = 1024,
		.max = 1024 * 1024,
		.help = "Largest post of a worker."},
	{.key = "workers.connections",
		.type = CONFIG_INT,
		.offset = AT(worker_connections),
		.fallback = "64",
		.min = 1,
		.max = 512,
		.help = "Connections at a time; over it the slowest one that is still sending is closed."},
	{.key = "workers.requestTime",
		.type = CONFIG_DURATION,
		.offset = AT(worker_request_ms),
		.fallback = "10s",
		.min = 100,
		.max = 600000,
		.help = "Time that a request may take to arrive."},
	{.key = "workers.resultGrace",
		.type = CONFIG_DURATION,
		.offset = AT(result_grace_ms),
		.fallback = "60s",
		.max = DAY,
		.help = "How long a result is awaited after the worker has ended, before the stage fails with ResultsMissing."},
	OBSERVE_OPTION_ROWS(AT(observe), "-1", "that of the workers"),

	{.key = "dataset.checkOnArrival",
		.type = CONFIG_BOOL,
		.offset = AT(check_on_arrival),
		.fallback = "false",
		.help = "Look at the train trigger at once when samples arrive, not only every checkPeriodSeconds."},
	{.key = "dataset.lookPeriod",
		.type = CONFIG_DURATION,
		.offset = AT(look_ms),
		.fallback = "60s",
		.min = 100,
		.max = DAY,
		.help = "How often a dataset is looked at where nothing notifies of changes: remote ones, and files on network file systems."},
	{.key = "dataset.statusPeriod",
		.type = CONFIG_DURATION,
		.offset = AT(status_ms),
		.fallback = "5s",
		.min = 10,
		.max = DAY,
		.help = "At most one status of a dataset, and one message with the counters of an inference worker, in this time."},
	{.key = "dataset.lineMax",
		.type = CONFIG_SIZE,
		.offset = AT(line_max),
		.fallback = "1MiB",
		.min = 64,
		.max = 64 * 1024 * 1024,
		.help = "Longest sample. A longer one is left out, counted, and said in the dataset's status."},
	{.key = "dataset.roundMax",
		.type = CONFIG_SIZE,
		.offset = AT(round_bytes_max),
		.fallback = "1GiB",
		.min = 1024,
		.max = INT64_C(1) << 50,
		.help = "Most bytes of samples that one round takes; the rest waits for the next."},
	{.key = "dataset.roundsKept",
		.type = CONFIG_INT,
		.offset = AT(rounds_kept),
		.fallback = "0",
		.min = 0,
		.max = 1000000000,
		.help = "Rounds of a job whose sample files are kept below {outputDir}/data, the present one among them; older ones are removed "
				"when the eval data of a round are written, but none that they are made of. With 0 all are kept."},
	{.key = "deploy.kept",
		.type = CONFIG_INT,
		.offset = AT(deployed_kept),
		.fallback = "3",
		.min = 1,
		.max = 1000,
		.help = "Deployed versions kept below {outputDir}/deployed, beside the one that was there first."},
	{.key = "remote.dir",
		.type = CONFIG_STRING,
		.offset = AT(remote_dir),
		.help =
			"Folder of what stands here for remote things, a copy of each remote dataset, and what goes to or comes from an object store. "
			"It can be made again, and may be removed while the agent is stopped. Not set, it is the folder remote in stateDir."},
	{.key = "remote.program",
		.type = CONFIG_STRING,
		.offset = AT(transfer_program),
		.help = "Path of ilmare-transfer, which fetches and sends. Not set, it is looked for beside this program, and then in PATH."},
	{.key = "credentials.keep",
		.type = CONFIG_ENUM,
		.offset = AT(credentials_keep),
		.fallback = "memory",
		.choices = "memory|disk",
		.help = "Where keys of object stores are held: in memory alone, and asked for after a restart, or on the disk too, in a file in "
				"stateDir "
				"that only this user can read, so that a device that starts without a link can go on."},
	{.key = "enrolment.url",
		.type = CONFIG_STRING,
		.offset = AT(enrolment_url),
		.help = "Where this device gets its certificate: https://host:port of the cloud agent's enrolment, whose own certificate is "
				"checked with "
				"mqtt.caFile. The certificate and its key are kept in tls/node.pem in stateDir, renewed in time, and used in place of "
				"mqtt.certFile. Default: none, mqtt.certFile counts."},
	{.key = "enrolment.tokenFile",
		.type = CONFIG_STRING,
		.offset = AT(enrolment_token_file),
		.help =
			"File whose first line proves which node this is: a one-time token, or the token of the pod. Read at each try; not needed for "
			"renewals."},
	{.key = "enrolment.program",
		.type = CONFIG_STRING,
		.offset = AT(enrolment_program),
		.help = "Path of ilmare-certificate, which asks. Not set, it is looked for beside this program, and then in PATH."},
	{.key = "provisional.max",
		.type = CONFIG_INT,
		.offset = AT(provisional_max),
		.fallback = "64",
		.min = 1,
		.max = 4096,
		.help = "Results of workers that no document announces yet: how many are kept."},
	{.key = "provisional.bytesMax",
		.type = CONFIG_SIZE,
		.offset = AT(provisional_bytes_max),
		.fallback = "4MiB",
		.min = 1024,
		.max = 256 * 1024 * 1024,
		.help = "How large they may be together."},
	{.key = "provisional.keep",
		.type = CONFIG_DURATION,
		.offset = AT(provisional_ms),
		.fallback = "24h",
		.min = MINUTE,
		.max = 365 * DAY,
		.help = "How long one is kept, in time that the agent runs."},
};

static void check_node(const edge_options *o, config_rules *rules)
{
	if (!o->node || !o->node[0])
		config_broken(rules, "node", NULL,
			"is not set; give the name that this node has in the cluster, here, as --node or in ILMARE_NODE");
	else if (!name_valid_node(o->node))
		config_broken(rules, "node", NULL,
			"\"%.100s\" is not a node's name (lower-case letters, digits, '-' and '.', at most 253; not \"%s\")", o->node, PRESENCE_CLOUD);
}

static void check_token(const edge_options *o, config_rules *rules)
{
	char *token = NULL;
	error err = {0};

	if (!o->worker_token_file)
		return;
	if (file_read_secret(o->worker_token_file, &token, &err) != 0)
		config_broken(rules, "workers.tokenFile", NULL, "%s", err.text);
	else if (!worker_token_valid(token))
		config_broken(rules, "workers.tokenFile", NULL, "%.200s: its first line is no token: %s", o->worker_token_file, WORKER_TOKEN_RULE);
	file_secret_free(token);
}

static void check_enrolment(const edge_options *o, config_rules *rules)
{
	const char *url = o->enrolment_url;

	if (!url)
		return;
	if (!endpoint_url_valid(url) || strncmp(url, "https://", 8) != 0)
		config_broken(rules, "enrolment.url", NULL, "\"%.100s\" is not a url such as https://broker.example.org:8443", url);
	if (o->node && strlen(o->node) > CERTIFICATE_NAME_MAX)
		config_broken(rules, "enrolment.url", "node", "a certificate has room for a name of %d characters, and node has more",
			CERTIFICATE_NAME_MAX);
	if (o->mqtt.cert_file)
		config_broken(rules, "mqtt.certFile", "enrolment.url",
			"is set together with enrolment.url, whose certificate is kept in stateDir; take one away");
}

static void check(const void *target, config_rules *rules)
{
	const edge_options *o = target;

	check_node(o, rules);
	if (o->root_dir && o->root_dir[0] && o->root_dir[0] != '/')
		config_broken(rules, "rootDir", NULL, "\"%.100s\" is not an absolute path", o->root_dir);
	if (o->time_zone && !clock_zone_exists(o->time_zone))
		config_broken(rules, "timeZone", NULL, "\"%.100s\" is no zone of this system (its zones are those of the package tzdata)",
			o->time_zone);
	mqtt_options_check(&o->mqtt, rules);
	check_enrolment(o, rules);
	if (!topic_root_valid(o->mqtt.topic_root))
		config_broken(rules, "mqtt.topicRoot", NULL, TOPIC_ROOT_RULE, o->mqtt.topic_root ? o->mqtt.topic_root : "");
	if (o->retry_max_ms < o->retry_min_ms)
		config_broken(rules, "outbox.retryMax", "outbox.retryMin", "is below outbox.retryMin");
	if (!endpoint_host_valid(o->worker_host))
		config_broken(rules, "workers.host", NULL, LISTEN_RULE, o->worker_host ? o->worker_host : "");
	check_token(o, rules);
	if (!endpoint_host_valid(o->observe.host))
		config_broken(rules, "observe.host", NULL, LISTEN_RULE, o->observe.host ? o->observe.host : "");
}

const config_spec edge_options_spec = {
	.program = "ilmare-edge",
	.summary = "the edge agent of Ilmare: watches datasets, decides when to train, reports",
	.about = "Runs on a device. It follows the dataset files that jobs name, writes the samples of a round when the job's trigger says so, "
			 "takes the "
			 "results of the workers on this node, deploys a model that is better, and reports all of it over MQTT to the cloud agent. It "
			 "works on "
			 "while the broker is away, and may be stopped or killed at any moment.",
	.default_file = "/etc/ilmare/edge.yaml",
	.rows = rows,
	.n = sizeof rows / sizeof rows[0],
	.check = check,
	.foreign = "CLUSTER,NAME,NODES,LC_SERVER,LOCAL_*,KUBE_*,DOCUMENTS_*,ROUNDS_*,STATUS_*,WORKERS_START_TIMEOUT,WORKERS_REPORTED_RUNNING,"
			   "WORKERS_MAX_RESTARTS,WORKERS_NODE_SILENCE_LIMIT,ENROLMENT_PORT,ENROLMENT_HOST,ENROLMENT_CERT_FILE,ENROLMENT_KEY_FILE,"
			   "ENROLMENT_AUTHORITY_CERT,ENROLMENT_AUTHORITY_KEY,ENROLMENT_SERVICE_ACCOUNT,ENROLMENT_SECRET_PREFIX,ENROLMENT_LIFETIME,"
			   "ENROLMENT_DENIED,ENROLMENT_RESERVED",
};
