/* The cloud agent's parts, put together: whatever happens is fed to the core, and a turn (common/turn.h) performs what the core asks for.
 * Nothing here decides anything.
 */
#include "cloud-agent/app.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/cluster.h"
#include "cloud-agent/cluster/kube/kube.h"
#include "cloud-agent/cluster/local/local.h"
#include "cloud-agent/core/controller.h"
#include "cloud-agent/credentials.h"
#include "cloud-agent/enrolment/service.h"
#include "cloud-agent/node_settings.h"
#include "cloud-agent/observe.h"
#include "common/clock.h"
#include "common/http/observe.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/mqtt/agent.h"
#include "common/notify.h"
#include "common/turn.h"
#include "common/version.h"

/* See core/controller.h: with a cluster each status write is a request to the API server. */
enum { STARTING_HOLD_MS = 10 * 1000, RUNNING_HOLD_MS = 2000 };

struct app {
	uv_loop_t *loop;
	const cloud_options *options;
	notify *notify;
	char session[33];
	node_settings *nodes;
	controller *core;
	cluster *cluster;
	mqtt_client *mqtt;
	credentials credentials;
	enrolment *enrolment; /* NULL: none */
	certificate_ends *ends;
	http_observe observe;
	http_server *http;
	turn turn;
	char *presence_topic;
	bool rival;    /* another agent of this name was born; to be acted on after the batch */
	bool together; /* more objects of the same moment are to come */
	bool in_kube, cluster_started, synced, stopping;
};

/* ---- performing ---- */

static void perform(app *a, const cloud_action *action)
{
	const cluster_ops *ops = a->cluster->ops;

	switch (action->kind) {
	case CLOUD_PATCH_STATUS:
		ops->patch_status(a->cluster, action->id, action->patch.kind, action->patch.ns, action->patch.name, action->patch.uid,
			action->patch.resource_version, action->patch.status);
		break;
	case CLOUD_PATCH_ANNOTATIONS:
		ops->patch_annotations(a->cluster, action->id, action->annotate.ns, action->annotate.name, action->annotate.uid,
			action->annotate.resource_version, action->annotate.annotations);
		break;
	case CLOUD_CREATE_POD:
		ops->create_pod(a->cluster, action->id, action->create.ns, action->create.name, action->create.pod);
		break;
	case CLOUD_DELETE_POD:
		ops->delete_pod(a->cluster, action->id, action->remove.ns, action->remove.name, action->remove.uid);
		break;
	case CLOUD_PUBLISH:
		mqtt_agent_say(a->mqtt, action->publish.topic, action->publish.payload, action->publish.retained);
		break;
	case CLOUD_EVENT:
		ops->event(a->cluster, action->event.ns, action->event.job, action->event.uid, action->event.warning, action->event.reason,
			action->event.message);
		break;
	case CLOUD_CREDENTIAL:
		credentials_answer(&a->credentials, a->cluster, action);
		break;
	case CLOUD_RAISE_EPOCH:
		ops->raise_epoch(a->cluster, action->id, action->epoch.above);
		break;
	}
}

static bool next(app *a, cloud_action *action)
{
	controller_room(a->core, mqtt_client_has_room(a->mqtt));
	return controller_next(a->core, clock_now(), action);
}

static void act(void *ctx)
{
	app *a = ctx;
	cloud_action action;

	while (next(a, &action))
		perform(a, &action);
}

static int64_t wake(void *ctx)
{
	app *a = ctx;

	return controller_wake(a->core);
}

/* ---- from the cluster ---- */

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	app *a = ctx;

	controller_object(a->core, kind, ns, name, object, clock_now());
	if (!a->together)
		turn_go(&a->turn);
}

static void on_together(void *ctx, bool begin)
{
	app *a = ctx;

	a->together = begin;
	if (!begin)
		turn_go(&a->turn);
}

static void on_synced(void *ctx, bool synced)
{
	app *a = ctx;

	a->synced = synced;
	controller_synced(a->core, synced, clock_now());
	turn_go(&a->turn);
}

static void on_lead(void *ctx, int64_t epoch)
{
	app *a = ctx;

	log_info("cloud", "leading", L_INT("epoch", epoch));
	controller_lead(a->core, epoch, clock_now());
	turn_go(&a->turn);
}

static void on_resign(void *ctx)
{
	app *a = ctx;

	log_warn("cloud", "no longer leading");
	controller_resign(a->core, clock_now());
	turn_go(&a->turn);
}

static void on_fence(void *ctx, int64_t mono_ms)
{
	app *a = ctx;

	controller_fence(a->core, mono_ms);
}

static void on_done(void *ctx, uint64_t id, int code, const char *text, cJSON *object, int64_t retry_after_ms)
{
	app *a = ctx;

	controller_done(a->core, id, code, text, object, retry_after_ms, clock_now());
	turn_go(&a->turn);
}

/* ---- from the broker ---- */

/* What the service manager shows of us. */
static void say_status(app *a)
{
	char words[512];

	mqtt_agent_words(a->mqtt, words, sizeof words);
	notify_status(a->notify, words);
}

static void on_problem(void *ctx)
{
	app *a = ctx;

	if (!a->stopping)
		say_status(a);
}

static void on_up(void *ctx, bool session_present)
{
	app *a = ctx;

	(void)session_present;
	controller_secure(a->core, mqtt_client_is_secure(a->mqtt));
	controller_link(a->core, true, clock_now());
	say_status(a);
	turn_go(&a->turn);
}

static void on_down(void *ctx, const char *reason)
{
	app *a = ctx;

	(void)reason;
	controller_link(a->core, false, clock_now());
	turn_go(&a->turn);
}

static void on_room(void *ctx)
{
	app *a = ctx;

	turn_go(&a->turn);
}

/* What is there at the first connection may be of a former life of this agent. The births of a leader with another name are of no rival. */
static bool is_rival(const app *a, const struct mqtt_message *m)
{
	return strcmp(m->topic, a->presence_topic) == 0 && mqtt_client_counters(a->mqtt)->connects > 1 &&
		presence_is_rival(m->payload, m->len, a->session, a->options->name);
}

static void on_message(void *ctx, const struct mqtt_message *m)
{
	app *a = ctx;
	message_reply reply = {.topic = m->response_topic, .correlation = m->correlation, .correlation_len = m->correlation_len};
	error err = {0};
	int code;

	a->rival |= is_rival(a, m);
	if (m->response_topic)
		code = controller_request(a->core, m->topic, m->payload, m->len, m->retained, &reply, clock_now(), &err);
	else
		code = controller_message(a->core, m->topic, m->payload, m->len, m->retained, clock_now(), &err);
	if (code != 0)
		log_warn("link", "a message is refused", L_STR("topic", m->topic), L_STR("error", err.text));
}

static void on_answered(void *ctx)
{
	app *a = ctx;

	turn_go(&a->turn);
}

static void on_batch(void *ctx)
{
	app *a = ctx;

	turn_go(&a->turn);
	if (a->rival) {
		a->rival = false;
		mqtt_client_yield(a->mqtt, "another agent with this name is there");
	}
}

/* ---- life ---- */

static bool on_ready(void *ctx, const char **why)
{
	app *a = ctx;
	const char *trouble = a->cluster_started && a->cluster->ops->trouble ? a->cluster->ops->trouble(a->cluster) : NULL;

	const char *unled = a->cluster_started && a->cluster->ops->unled ? a->cluster->ops->unled(a->cluster) : NULL;

	*why = !a->synced && trouble ? trouble : unled ? unled : "the objects have not been read completely yet";
	return a->synced && !unled;
}

static void on_metrics(void *ctx, buf *out)
{
	app *a = ctx;

	observe_print(a->core, a->mqtt, a->enrolment, a->ends, out);
}

static const char *lc_server_of(void *ctx, const char *node)
{
	app *a = ctx;

	return node_settings_lc_server(a->nodes, node);
}

static void start_core(app *a)
{
	const cloud_options *o = a->options;
	cloud_config config;

	a->nodes = node_settings_new(o->nodes);
	cloud_config_init(&config);
	clock_random_id(a->session);
	config.root = o->mqtt.topic_root;
	config.version = ILMARE_VERSION;
	config.session = a->session;
	config.client = o->name;
	config.seed = clock_random_seed();
	config.workers_in_place = !a->in_kube;
	config.nodes_listed = a->in_kube;
	config.lc_server = o->lc_server;
	config.storage_image = o->storage_image;
	config.lc_server_of = lc_server_of;
	config.lc_server_ctx = a;
	config.slow_ms = o->slow_ms;
	config.backoff_min_ms = o->backoff_min_ms;
	config.backoff_max_ms = o->backoff_max_ms;
	config.start_timeout_ms = o->start_timeout_ms;
	config.starting_hold_ms = STARTING_HOLD_MS;
	config.running_hold_ms = RUNNING_HOLD_MS;
	config.reported_running_ms = o->reported_running_ms;
	config.node_silence_ms = o->node_silence_ms;
	config.max_restarts = (int)o->max_restarts;
	config.conditions_max = (int)o->conditions_max;
	a->core = controller_new(&config);
}

static cluster *new_local(app *a, const cluster_events *events, error *err)
{
	cluster_local_config config = {.manifests = a->options->manifests_dir,
		.state = a->options->state_dir,
		.supervisor = a->options->supervisor,
		.worker_log_max = a->options->worker_log_max,
		.stop_workers = a->options->stop_workers};

	return cluster_local_new(a->loop, &config, events, on_done, a, err);
}

static cluster *new_kube(app *a, const cluster_events *events, error *err)
{
	const cloud_options *o = a->options;
	char *identity = mem_printf("%s_%s", o->name, a->session);
	cluster_kube_config config = {.kubeconfig = o->kubeconfig ? o->kubeconfig : getenv("KUBECONFIG"),
		.context = o->kube_context,
		.namespaces = o->kube_namespaces,
		.credentials_by_value = strcmp(o->credentials, "value") == 0,
		.lease = o->lease,
		.lease_namespace = o->lease_namespace,
		.identity = identity,
		.lease_ms = o->lease_ms,
		.lease_renew_ms = o->lease_renew_ms,
		.lease_retry_ms = o->lease_retry_ms,
		.requests_per_second = o->kube_requests,
		.burst = o->kube_burst,
		.silence_ms = o->watch_silence_ms,
		.version = ILMARE_VERSION,
		.seed = clock_random_seed()};
	cluster *made = cluster_kube_new(a->loop, &config, events, on_done, a, err);

	free(identity);
	return made;
}

static int start_cluster(app *a, error *err)
{
	cluster_events events = {.ctx = a,
		.object = on_object,
		.together = on_together,
		.synced = on_synced,
		.lead = on_lead,
		.resign = on_resign,
		.fence = on_fence};
	int code;

	a->cluster = a->in_kube ? new_kube(a, &events, err) : new_local(a, &events, err);
	if (!a->cluster)
		return err->code;
	code = a->cluster->ops->start(a->cluster, err);
	a->cluster_started = code == 0;
	return code;
}

static int start_link(app *a, error *err)
{
	struct mqtt_callbacks callbacks = {.ctx = a,
		.on_up = on_up,
		.on_down = on_down,
		.on_problem = on_problem,
		.on_message = on_message,
		.on_batch = on_batch,
		.on_room = on_room};
	struct mqtt_subscription subscriptions[MQTT_SUBSCRIPTIONS_MAX];
	char *will, **filters = topic_cloud_filters(a->options->mqtt.topic_root);
	mqtt_agent agent = {.client_id = a->options->name, .subscriptions = subscriptions};
	size_t n = 0;

	for (; filters[n] && n < MQTT_SUBSCRIPTIONS_MAX; n++)
		subscriptions[n] = (struct mqtt_subscription){.filter = filters[n], .qos = 1, .retain_as_published = true};
	controller_will(a->core, &a->presence_topic, &will);
	agent.presence = a->presence_topic;
	agent.will = will;
	agent.n_subscriptions = n;
	a->mqtt = mqtt_agent_start(a->loop, &a->options->mqtt, &agent, &callbacks, err);
	for (size_t i = 0; filters[i]; i++)
		free(filters[i]);
	free(filters);
	free(will);
	a->credentials = (credentials){.core = a->core, .mqtt = a->mqtt, .answered = on_answered, .ctx = a};
	return a->mqtt ? 0 : err->code;
}

static certificate_ends *watch_certificates(const cloud_options *o)
{
	certificate_ends *ends = certificate_ends_new();

	certificate_ends_add(ends, CERTIFICATE_OWN, "which=\"client\"", o->mqtt.cert_file);
	certificate_ends_add(ends, CERTIFICATE_AUTHORITIES, "which=\"authority\"", o->mqtt.ca_file);
	if (o->enrolment.port >= 0)
		certificate_ends_add(ends, CERTIFICATE_OWN, "which=\"enrolment\"", o->enrolment.cert_file);
	return ends;
}

static int start_observe(app *a, error *err)
{
	const cloud_options *o = a->options;

	if (o->observe.port < 0)
		return 0;
	a->observe = (http_observe){.ctx = a, .ready = on_ready, .metrics = on_metrics};
	if (http_observe_start(a->loop, o->observe.host, (int)o->observe.port, &a->observe, &a->http, err) != 0)
		return err->code;
	log_info("observe", "listening", L_STR("host", o->observe.host), L_INT("port", http_server_port(a->http)));
	return 0;
}

int app_start(uv_loop_t *loop, const cloud_options *options, app **out, error *err)
{
	app *a = mem_alloc(sizeof *a);
	int code;

	a->loop = loop;
	a->options = options;
	a->in_kube = strcmp(options->cluster, "kube") == 0;
	*out = a;
	a->notify = notify_new(loop);
	turn_init(&a->turn, loop, act, wake, a);
	start_core(a);
	a->ends = watch_certificates(options);
	code = start_observe(a, err);
	if (code == 0)
		code = start_link(a, err);
	if (code == 0)
		code = start_cluster(a, err);
	if (code == 0 && options->enrolment.port >= 0)
		code = enrolment_start(loop, &options->enrolment, a->cluster, &a->enrolment, err);
	if (code != 0) {
		app_stop(a);
		return code;
	}
	turn_begin(&a->turn);
	return 0;
}

void app_ready(app *a)
{
	if (a->stopping)
		return;
	log_info("main", "started", L_STR("name", a->options->name), L_STR("version", ILMARE_VERSION));
	notify_ready(a->notify);
	say_status(a);
}

void app_stop(app *a)
{
	char *where, *farewell;

	if (a->stopping)
		return;
	a->stopping = true;
	notify_stopping(a->notify);
	turn_end(&a->turn);
	http_server_stop(a->http);
	enrolment_stop(a->enrolment);
	if (a->cluster_started)
		a->cluster->ops->stop(a->cluster, NULL, NULL);
	if (!a->mqtt)
		return;
	controller_farewell(a->core, &where, &farewell);
	mqtt_agent_stop(a->mqtt, where, farewell);
	free(where);
	free(farewell);
}

void app_free(app *a)
{
	if (!a)
		return;
	mqtt_client_free(a->mqtt);
	notify_free(a->notify);
	uv_run(a->loop, UV_RUN_DEFAULT);
	if (a->cluster)
		a->cluster->ops->free(a->cluster);
	controller_free(a->core);
	node_settings_free(a->nodes);
	certificate_ends_free(a->ends);
	free(a->presence_topic);
	free(a);
}
