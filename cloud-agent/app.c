/* The turn of the cloud agent: whatever happens is fed to the core, then `pump` performs what the core asks for until it asks for nothing.
 * Nothing here decides anything.
 */
#include "cloud-agent/app.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cloud-agent/cluster/cluster.h"
#include "cloud-agent/cluster/local/local.h"
#include "cloud-agent/core/controller.h"
#include "cloud-agent/node_settings.h"
#include "cloud-agent/observe.h"
#include "common/clock.h"
#include "common/http/observe.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/mqtt/mqtt.h"
#include "common/version.h"

enum { STOP_MS = 4500 };

struct app {
	uv_loop_t *loop;
	const cloud_options *options;
	char session[33];
	node_settings *nodes;
	controller *core;
	cluster *cluster;
	mqtt_client *mqtt;
	http_observe observe;
	http_server *http;
	uv_timer_t wake;
	uv_timer_t stop_limit; /* unreferenced: it ends the process if stopping takes too long */
	bool pumping, again, started, cluster_started, synced, stopping;
};

static void pump(app *a);

/* ---- performing ---- */

static void publish(app *a, const cloud_action *action)
{
	struct mqtt_message m = {.topic = action->publish.topic,
		.payload = action->publish.payload,
		.len = strlen(action->publish.payload),
		.retained = action->publish.retained};
	error err = {0};
	int64_t token = mqtt_client_publish(a->mqtt, &m, &err);

	/* Offline: everything is published again at the next connect. */
	if (token < 0 && token != ERROR_OFFLINE)
		log_warn("link", "cannot publish", L_STR("topic", m.topic), L_STR("error", err.text));
}

static void perform(app *a, const cloud_action *action)
{
	const cluster_ops *ops = a->cluster->ops;

	switch (action->kind) {
	case CLOUD_PATCH_STATUS:
		ops->patch_status(a->cluster, action->id, action->patch.kind, action->patch.ns, action->patch.name, action->patch.uid,
			action->patch.resource_version, action->patch.status);
		break;
	case CLOUD_CREATE_POD:
		ops->create_pod(a->cluster, action->id, action->create.ns, action->create.name, action->create.pod);
		break;
	case CLOUD_DELETE_POD:
		ops->delete_pod(a->cluster, action->id, action->remove.ns, action->remove.name, action->remove.uid);
		break;
	case CLOUD_PUBLISH:
		publish(a, action);
		break;
	case CLOUD_EVENT:
		ops->event(a->cluster, action->event.ns, action->event.job, action->event.uid, action->event.warning, action->event.reason,
			action->event.message);
		break;
	case CLOUD_RAISE_EPOCH:
		ops->raise_epoch(a->cluster, action->id, action->epoch.above);
		break;
	}
}

static void on_wake(uv_timer_t *timer)
{
	pump(timer->data);
}

static void arm(app *a)
{
	int64_t at = controller_wake(a->core), now;

	uv_timer_stop(&a->wake);
	if (at == MOMENT_NEVER)
		return;
	now = clock_now().mono_ms;
	uv_update_time(a->loop);
	uv_timer_start(&a->wake, on_wake, at > now ? (uint64_t)(at - now) : 0, 0);
}

static void pump(app *a)
{
	cloud_action action;

	if (a->pumping || a->stopping || !a->started) {
		a->again = true;
		return;
	}
	a->pumping = true;
	do {
		a->again = false;
		while (controller_next(a->core, clock_now(), &action))
			perform(a, &action);
	} while (a->again);
	a->pumping = false;
	arm(a);
}

/* ---- from the cluster ---- */

static void on_object(void *ctx, enum object_kind kind, const char *ns, const char *name, cJSON *object)
{
	app *a = ctx;

	controller_object(a->core, kind, ns, name, object, clock_now());
	pump(a);
}

static void on_synced(void *ctx, bool synced)
{
	app *a = ctx;

	a->synced = synced;
	controller_synced(a->core, synced, clock_now());
	pump(a);
}

static void on_lead(void *ctx, int64_t epoch)
{
	app *a = ctx;

	log_info("cloud", "leading", L_INT("epoch", epoch));
	controller_lead(a->core, epoch, clock_now());
	pump(a);
}

static void on_resign(void *ctx)
{
	app *a = ctx;

	log_warn("cloud", "no longer leading");
	controller_resign(a->core, clock_now());
	pump(a);
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
	pump(a);
}

/* ---- from the broker ---- */

static void on_up(void *ctx, bool session_present)
{
	app *a = ctx;

	log_info("link", "connected", L_STR("session", session_present ? "resumed" : "new"));
	controller_link(a->core, true, clock_now());
	pump(a);
}

static void on_down(void *ctx, const char *reason)
{
	app *a = ctx;

	log_warn("link", "disconnected; everything is published again after the next connect", L_STR("reason", reason));
	controller_link(a->core, false, clock_now());
	pump(a);
}

static void on_message(void *ctx, const struct mqtt_message *m)
{
	app *a = ctx;
	error err = {0};

	if (controller_message(a->core, m->topic, m->payload, m->len, m->retained, clock_now(), &err) != 0)
		log_warn("link", "a message is refused", L_STR("topic", m->topic), L_STR("error", err.text));
}

static void on_batch(void *ctx)
{
	pump(ctx);
}

static void on_published(void *ctx, int64_t token, int code, int reason, const char *text)
{
	(void)ctx;
	(void)token;
	if (code != 0)
		log_error("link", "the broker refused a document; it is published again with the slow timer", L_INT("reason", reason),
			L_STR("error", text));
}

static void on_refused(void *ctx, enum mqtt_refusal what, const char *filter, int reason, const char *text)
{
	(void)ctx;
	log_error("link", what == MQTT_REFUSED_CONNECT ? "the broker refuses the connection" : "the broker refuses a subscription",
		L_STR("topic", filter ? filter : ""), L_INT("reason", reason), L_STR("error", text));
}

/* ---- life ---- */

static bool on_ready(void *ctx, const char **why)
{
	app *a = ctx;

	*why = "the objects have not been read completely yet";
	return a->synced;
}

static void on_metrics(void *ctx, buf *out)
{
	app *a = ctx;

	observe_print(a->core, a->mqtt, out);
}

static const char *lc_server_of(void *ctx, const char *node)
{
	app *a = ctx;

	return node_settings_lc_server(a->nodes, node);
}

static int start_core(app *a, error *err)
{
	const cloud_options *o = a->options;
	cloud_config config;

	if (node_settings_new(o->nodes, &a->nodes, err) != 0)
		return err->code;
	cloud_config_init(&config);
	clock_random_id(a->session);
	config.root = o->mqtt.topic_root;
	config.version = ILMARE_VERSION;
	config.session = a->session;
	config.seed = clock_random_seed();
	config.workers_in_place = true;
	config.lc_server = o->lc_server;
	config.lc_server_of = lc_server_of;
	config.lc_server_ctx = a;
	config.slow_ms = o->slow_ms;
	config.backoff_min_ms = o->backoff_min_ms;
	config.backoff_max_ms = o->backoff_max_ms;
	config.start_timeout_ms = o->start_timeout_ms;
	config.reported_running_ms = o->reported_running_ms;
	config.node_silence_ms = o->node_silence_ms;
	config.max_restarts = (int)o->max_restarts;
	config.conditions_max = (int)o->conditions_max;
	a->core = controller_new(&config);
	return 0;
}

static int start_cluster(app *a, error *err)
{
	cluster_events events = {.ctx = a, .object = on_object, .synced = on_synced, .lead = on_lead, .resign = on_resign, .fence = on_fence};

	cluster_local_config config = {.manifests = a->options->manifests_dir,
		.state = a->options->state_dir,
		.supervisor = a->options->supervisor,
		.worker_log_max = a->options->worker_log_max,
		.stop_workers = a->options->stop_workers};
	int code;

	a->cluster = cluster_local_new(a->loop, &config, &events, on_done, a, err);
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
		.on_message = on_message,
		.on_batch = on_batch,
		.on_published = on_published,
		.on_refused = on_refused};
	struct mqtt_subscription subscriptions[MQTT_SUBSCRIPTIONS_MAX];
	struct mqtt_config config;
	mqtt_options_hold hold;
	char *will_topic, *will, **filters = topic_cloud_filters(a->options->mqtt.topic_root);
	size_t n = 0;
	int code = mqtt_options_apply(&a->options->mqtt, &config, &hold, err);

	for (; filters[n] && n < MQTT_SUBSCRIPTIONS_MAX; n++)
		subscriptions[n] = (struct mqtt_subscription){.filter = filters[n], .qos = 1, .retain_as_published = true};
	controller_will(a->core, &will_topic, &will);
	if (code == 0) {
		config.client_id = a->options->name;
		config.will.topic = will_topic;
		config.will.payload = will;
		config.will.len = strlen(will);
		config.will.retained = true;
		config.subscriptions = subscriptions;
		config.n_subscriptions = n;
		a->mqtt = mqtt_client_new(a->loop, &config, &callbacks, err);
		code = a->mqtt ? 0 : ERROR_INVALID;
	}
	mqtt_options_release(&hold);
	for (size_t i = 0; filters[i]; i++)
		free(filters[i]);
	free(filters);
	free(will_topic);
	free(will);
	if (code == 0)
		mqtt_client_start(a->mqtt);
	return code;
}

static int start_observe(app *a, error *err)
{
	const cloud_options *o = a->options;

	if (o->observe_port < 0)
		return 0;
	a->observe = (http_observe){.ctx = a, .ready = on_ready, .metrics = on_metrics};
	if (http_observe_start(a->loop, o->observe_host, (int)o->observe_port, &a->observe, &a->http, err) != 0)
		return err->code;
	log_info("observe", "listening", L_STR("host", o->observe_host), L_INT("port", http_server_port(a->http)));
	return 0;
}

int app_start(uv_loop_t *loop, const cloud_options *options, app **out, error *err)
{
	app *a = mem_alloc(sizeof *a);
	int code;

	a->loop = loop;
	a->options = options;
	*out = a;
	uv_timer_init(loop, &a->wake);
	uv_timer_init(loop, &a->stop_limit);
	a->wake.data = a->stop_limit.data = a;
	code = start_core(a, err);
	if (code == 0)
		code = start_observe(a, err);
	if (code == 0)
		code = start_link(a, err);
	if (code == 0)
		code = start_cluster(a, err);
	if (code != 0) {
		app_stop(a);
		return code;
	}
	a->started = true;
	pump(a);
	return 0;
}

static void on_stop_limit(uv_timer_t *timer)
{
	(void)timer;
	/* All that matters is in the cluster. */
	log_warn("cloud", "stopping took too long; ended as it is");
	_exit(0);
}

void app_stop(app *a)
{
	struct mqtt_message last = {.retained = true};
	char *last_topic, *payload;

	if (a->stopping)
		return;
	a->stopping = true;
	uv_timer_start(&a->stop_limit, on_stop_limit, STOP_MS, 0);
	uv_unref((uv_handle_t *)&a->stop_limit);
	http_server_stop(a->http);
	if (a->cluster_started)
		a->cluster->ops->stop(a->cluster, NULL, NULL);
	if (a->mqtt) {
		controller_farewell(a->core, &last_topic, &payload);
		last.topic = last_topic;
		last.payload = payload;
		last.len = strlen(payload);
		mqtt_client_stop(a->mqtt, &last, NULL, NULL);
		free(last_topic);
		free(payload);
	}
	uv_close((uv_handle_t *)&a->wake, NULL);
}

void app_free(app *a)
{
	if (!a)
		return;
	mqtt_client_free(a->mqtt);
	uv_close((uv_handle_t *)&a->stop_limit, NULL);
	uv_run(a->loop, UV_RUN_DEFAULT);
	if (a->cluster)
		a->cluster->ops->free(a->cluster);
	controller_free(a->core);
	node_settings_free(a->nodes);
	free(a);
}
