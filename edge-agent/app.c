/* The edge agent's parts, put together: whatever happens is fed to the core, and a turn (common/turn.h) performs what the core asks for.
 *
 * What messages bring is fed one by one, and followed by one turn a batch, so that it costs one commit. Nothing here decides anything.
 */
#include "edge-agent/app.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/http/endpoint.h"
#include "common/log.h"
#include "common/mem.h"
#include "common/metrics.h"
#include "common/mqtt/agent.h"
#include "common/notify.h"
#include "common/program.h"
#include "common/text.h"
#include "common/turn.h"
#include "common/version.h"
#include "edge-agent/core/agent.h"
#include "edge-agent/credential_file.h"
#include "edge-agent/enrolment.h"
#include "edge-agent/files.h"
#include "edge-agent/observe.h"
#include "edge-agent/store/store.h"
#include "edge-agent/worker-api/worker_api.h"

enum { LISTEN_FDS_START = 3 };

struct app {
	uv_loop_t *loop;
	const edge_options *options;
	notify *notify;
	char session[33];
	store *store;
	edge_agent *agent;
	files *files;
	worker_api *api;
	mqtt_client *mqtt;
	enrolment *enrolment; /* NULL: none */
	certificate_ends *ends;
	turn turn;
	bool stopping;
	uint64_t keys_serial; /* of the keys that file work began with last */
	char *remote_dir, *transfer_program;
	char *presence_topic;
	bool rival;        /* another agent of this name was born; to be acted on after the batch */
	char problem[480]; /* of the last commit; "" if it went well */
	char waits[600];   /* for on_ready */
};

/* ---- performing ---- */

static void commit(app *a, const edge_action *action)
{
	edge_result result = {0};
	error err = {0};

	result.code = store_commit(a->store, action->commit.changes, action->commit.n, &err);
	result.text = err.text;
	text_copy(a->problem, sizeof a->problem, err.text);
	edge_agent_done(a->agent, action->id, &result, clock_now());
}

static void ask(app *a, const edge_action *action)
{
	struct mqtt_message m = {.topic = action->ask.topic,
		.payload = action->ask.payload,
		.len = strlen(action->ask.payload),
		.response_topic = action->ask.response_topic,
		.correlation = action->ask.correlation,
		.correlation_len = action->ask.correlation_len};

	mqtt_agent_once(a->mqtt, m);
}

static void keep(app *a, const edge_action *action)
{
	edge_result result = {0};
	error err = {0};

	result.code = credential_file_write(a->options->state_dir, action->keep.text, &err);
	result.text = err.text;
	edge_agent_done(a->agent, action->id, &result, clock_now());
}

static void perform(app *a, const edge_action *action)
{
	switch (action->kind) {
	case EDGE_COMMIT:
		commit(a, action);
		break;
	case EDGE_REPLY:
		worker_api_reply(a->api, action->reply.post, action->reply.status, action->reply.message);
		break;
	case EDGE_PUBLISH:
		mqtt_agent_say(a->mqtt, action->publish.topic, action->publish.payload, action->publish.retained);
		break;
	case EDGE_ASK:
		ask(a, action);
		break;
	case EDGE_KEEP:
		keep(a, action);
		break;
	case EDGE_LOCATE:
	case EDGE_MEASURE:
	case EDGE_LOOK:
	case EDGE_WRITE:
	case EDGE_WRITE_EVAL:
	case EDGE_DEPLOY:
		files_perform(a->files, action);
		break;
	}
}

static bool next(app *a, edge_action *action)
{
	edge_agent_room(a->agent, mqtt_client_has_room(a->mqtt));
	return edge_agent_next(a->agent, clock_now(), action);
}

static void act(void *ctx)
{
	app *a = ctx;
	edge_action action;

	while (next(a, &action))
		perform(a, &action);
	files_sync(a->files, a->agent);
	if (a->keys_serial != edge_agent_credentials_serial(a->agent))
		files_keys_changed(a->files);
	a->keys_serial = edge_agent_credentials_serial(a->agent);
}

static int64_t wake(void *ctx)
{
	app *a = ctx;

	return edge_agent_wake(a->agent);
}

/* ---- what happens ---- */

/* What the service manager shows of us. Without a certificate there is no link, and the reason is not at the broker. */
static void say_status(app *a)
{
	const char *certificate = a->enrolment ? enrolment_problem(a->enrolment) : NULL;
	char words[512];

	if (a->stopping)
		return;
	if (certificate && mqtt_client_state(a->mqtt) != MQTT_UP)
		text_print(words, sizeof words, "no certificate yet: %s", certificate);
	else
		mqtt_agent_words(a->mqtt, words, sizeof words);
	notify_status(a->notify, words);
}

static void on_problem(void *ctx)
{
	say_status(ctx);
}

static void on_up(void *ctx, bool session_present)
{
	app *a = ctx;

	(void)session_present;
	edge_agent_secure(a->agent, mqtt_client_is_secure(a->mqtt));
	edge_agent_link(a->agent, true, clock_now());
	say_status(a);
	turn_go(&a->turn);
}

static void on_down(void *ctx, const char *reason)
{
	app *a = ctx;

	(void)reason;
	edge_agent_link(a->agent, false, clock_now());
	turn_go(&a->turn);
}

static void on_room(void *ctx)
{
	app *a = ctx;

	turn_go(&a->turn);
}

/* Our own presence topic. The retained birth that greets the first connection may be of a former life of this agent, and says nothing. */
static bool is_rival(const app *a, const struct mqtt_message *m)
{
	return (mqtt_client_counters(a->mqtt)->connects > 1 || !m->retained) &&
		presence_is_rival(m->payload, m->len, a->session, a->options->node);
}

static void on_message(void *ctx, const struct mqtt_message *m)
{
	app *a = ctx;
	error err = {0};
	int code = 0;

	if (strcmp(m->topic, a->presence_topic) == 0)
		a->rival |= is_rival(a, m);
	else if (m->correlation)
		code =
			edge_agent_response(a->agent, m->topic, m->payload, m->len, m->retained, m->correlation, m->correlation_len, clock_now(), &err);
	else
		code = edge_agent_message(a->agent, m->topic, m->payload, m->len, clock_now(), &err);
	if (code != 0)
		log_warn("link", "a message is refused", L_STR("topic", m->topic), L_STR("error", err.text));
}

static void on_batch(void *ctx)
{
	app *a = ctx;

	turn_go(&a->turn);
	if (a->rival) {
		a->rival = false;
		mqtt_client_yield(a->mqtt, "another agent with this node's name is there");
	}
}

static void on_post(void *ctx, uint64_t id, worker_post *post)
{
	app *a = ctx;

	edge_agent_post(a->agent, id, post, clock_now());
	turn_go(&a->turn);
}

static void on_post_gone(void *ctx, uint64_t id)
{
	app *a = ctx;

	edge_agent_post_gone(a->agent, id);
}

static void on_view(void *ctx, const char *url, enum dataset_format format, const dataset_view *view)
{
	app *a = ctx;

	edge_agent_dataset(a->agent, url, format, view, clock_now());
	turn_go(&a->turn);
}

static void on_done(void *ctx, uint64_t id, const edge_result *result)
{
	app *a = ctx;

	edge_agent_done(a->agent, id, result, clock_now());
	turn_go(&a->turn);
}

static enum credential_state keys_for(void *ctx, const char *uid, const char *url, credential_keys *out)
{
	app *a = ctx;

	return edge_agent_credential_for(a->agent, uid, url, out);
}

static bool on_ready(void *ctx, const char **why)
{
	app *a = ctx;

	const char *certificate = a->enrolment ? enrolment_problem(a->enrolment) : NULL;

	*why = a->problem;
	if (a->problem[0] == 0 && certificate) {
		text_print(a->waits, sizeof a->waits, "waits for a certificate: %s", certificate);
		*why = a->waits;
	}
	return a->problem[0] == 0 && !certificate;
}

static void on_metrics(void *ctx, buf *out)
{
	app *a = ctx;

	observe_print(a->agent, a->mqtt, a->enrolment, a->ends, out);
}

/* ---- life ---- */

/* A file that cannot be read costs a question; one that cannot be removed is where it should not be. */
static int restore_credentials(app *a, error *err)
{
	const edge_options *o = a->options;
	error why = {0};
	char *text = NULL;

	if (strcmp(o->credentials_keep, "disk") != 0)
		return credential_file_write(o->state_dir, NULL, err);
	if (credential_file_read(o->state_dir, &text, &why) != 0)
		log_warn("credentials", "what was kept cannot be read; it is asked for anew", L_STR("error", why.text));
	if (text)
		edge_agent_restore_credentials(a->agent, text, strlen(text));
	file_secret_free(text);
	return 0;
}

static int start_core(app *a, error *err)
{
	const edge_options *o = a->options;
	edge_config config;
	static const char *capabilities[] = {"txt", "csv", "local", "s3", "http"};
	char *path;
	bool fresh;
	int code;

	edge_config_init(&config);
	clock_random_id(a->session);
	config.node = o->node;
	config.root = o->mqtt.topic_root;
	config.version = ILMARE_VERSION;
	config.session = a->session;
	config.capabilities = capabilities;
	config.n_capabilities = sizeof capabilities / sizeof capabilities[0];
	config.seed = clock_random_seed();
	config.check_on_arrival = o->check_on_arrival;
	config.retry_min_ms = o->retry_min_ms;
	config.retry_max_ms = o->retry_max_ms;
	config.result_grace_ms = o->result_grace_ms;
	config.status_interval_ms = o->status_ms;
	config.round_bytes_max = o->round_bytes_max;
	config.provisional_max = (size_t)o->provisional_max;
	config.provisional_bytes_max = (size_t)o->provisional_bytes_max;
	config.provisional_ms = o->provisional_ms;
	config.keep_credentials = strcmp(o->credentials_keep, "disk") == 0;
	a->agent = edge_agent_new(&config);

	if (file_make_dirs(o->state_dir, 0700, err) != 0)
		return error_prefix(err, "stateDir");
	path = mem_printf("%s/edge.db", o->state_dir);
	code = store_open(path, o->node, &a->store, &fresh, err);
	if (code == 0)
		code = store_restore(a->store, a->agent, err);
	if (code == 0)
		code = restore_credentials(a, err);
	if (code == 0)
		log_info("store", fresh ? "a new store is begun" : "restored", L_STR("path", path));
	free(path);
	return code;
}

/* As a plain path from the root, whatever is written in the configuration. */
static int find_remote_dir(app *a, error *err)
{
	const char *given = a->options->remote_dir ? a->options->remote_dir : a->options->state_dir;
	int code = file_make_dirs(given, 0700, err);
	char *plain = code == 0 ? realpath(given, NULL) : NULL;

	if (code == 0 && !plain)
		code = error_errno(err, errno, "%s", given);
	if (code == 0)
		a->remote_dir = a->options->remote_dir ? mem_strdup(plain) : mem_printf("%s/remote", plain);
	free(plain);
	return code == 0 ? 0 : error_prefix(err, "remote.dir");
}

/* The socket that the service manager holds for us (systemd's LISTEN_FDS), so that a worker's post waits while the agent restarts. */
static int inherited_socket(void)
{
	const char *pid = getenv("LISTEN_PID"), *n = getenv("LISTEN_FDS");

	if (!pid || !n || strtol(pid, NULL, 10) != (long)getpid() || strtol(n, NULL, 10) < 1)
		return -1;
	unsetenv("LISTEN_PID");
	unsetenv("LISTEN_FDS");
	return LISTEN_FDS_START;
}

static int start_api(app *a, error *err)
{
	const edge_options *o = a->options;
	worker_api_config config = {.observe_host = o->observe.host, .observe_port = (int)o->observe.port};
	worker_api_events events = {.observe = {.ctx = a, .ready = on_ready, .metrics = on_metrics}, .post = on_post, .gone = on_post_gone};
	char *token = NULL;
	int code = o->worker_token_file ? file_read_secret(o->worker_token_file, &token, err) : 0;

	if (code != 0)
		return error_prefix(err, "workers.tokenFile");
	config.token = token;
	http_config_init(&config.http);
	config.http.host = o->worker_host;
	config.http.port = (int)o->worker_port;
	config.http.listen_fd = inherited_socket();
	config.http.body_max = o->worker_body_max;
	config.http.connections = (int)o->worker_connections;
	config.http.request_ms = o->worker_request_ms;
	config.http.answer_ms = 3 * o->worker_request_ms;
	code = worker_api_start(a->loop, &config, &events, &a->api, err);
	if (code == 0) {
		log_info("worker-api", "listening", L_STR("host", o->worker_host), L_INT("port", worker_api_port(a->api)),
			L_INT("observe_port", worker_api_observe_port(a->api)));
		if (config.http.listen_fd < 0 && !endpoint_host_loopback(o->worker_host))
			log_warn("worker-api",
				token ? "insecure: whoever is on the way of a worker's post can read the token, and report for all workers" :
						"insecure: whoever reaches this port can report for this node's workers",
				L_STR("host", o->worker_host));
	}
	file_secret_free(token);
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
	char *will, *filter = topic_edge_filter(a->options->mqtt.topic_root, a->options->node);
	struct mqtt_subscription subscriptions[] = {
		{.filter = filter, .qos = 1, .no_local = true, .retain_as_published = true}, {.qos = 1, .no_local = true}};
	mqtt_options mqtt = a->options->mqtt;
	char *own = a->options->enrolment_url ? enrolment_file(a->options->state_dir) : NULL;
	/* With enrolment one of another node, on a disk that was copied, say, is as good as none: see enrolment.c. */
	mqtt_agent agent = {.client_id = a->options->node,
		.certificate_name = a->options->node,
		.other_name_refused = own != NULL,
		.subscriptions = subscriptions,
		.n_subscriptions = 2};

	edge_agent_will(a->agent, &a->presence_topic, &will);
	agent.presence = subscriptions[1].filter = a->presence_topic;
	agent.will = will;
	if (own)
		mqtt.cert_file = own;
	certificate_ends_add(a->ends, CERTIFICATE_OWN, "which=\"client\"", mqtt.cert_file);
	certificate_ends_add(a->ends, CERTIFICATE_AUTHORITIES, "which=\"authority\"", mqtt.ca_file);
	a->mqtt = mqtt_agent_start(a->loop, &mqtt, &agent, &callbacks, err);
	free(own);
	free(will);
	free(filter);
	return a->mqtt ? 0 : err->code;
}

static void on_certificate(void *ctx)
{
	app *a = ctx;

	mqtt_client_retry(a->mqtt);
}

static void on_enrolment(void *ctx)
{
	app *a = ctx;

	if (a->enrolment) /* else it is just being made, and app_start says how it is */
		say_status(a);
}

static void start_enrolment(app *a)
{
	const edge_options *o = a->options;
	enrolment_config config = {.url = o->enrolment_url,
		.node = o->node,
		.token_file = o->enrolment_token_file,
		.ca_file = o->mqtt.ca_file,
		.state_dir = o->state_dir,
		.seed = clock_random_seed()};
	enrolment_events events = {.ctx = a, .certificate = on_certificate, .changed = on_enrolment};
	char *found = o->enrolment_program ? mem_strdup(o->enrolment_program) : program_beside("ilmare-certificate");

	config.program = found;
	a->enrolment = enrolment_start(a->loop, &config, &events);
	free(found);
}

int app_start(uv_loop_t *loop, const edge_options *options, app **out, error *err)
{
	app *a = mem_alloc(sizeof *a);
	files_events events = {.ctx = a, .view = on_view, .done = on_done, .keys = keys_for};
	int code;

	a->loop = loop;
	a->options = options;
	*out = a;
	a->notify = notify_new(loop);
	a->ends = certificate_ends_new();
	a->transfer_program = options->transfer_program ? mem_strdup(options->transfer_program) : program_beside("ilmare-transfer");
	turn_init(&a->turn, loop, act, wake, a);
	code = start_core(a, err);
	if (code == 0)
		code = find_remote_dir(a, err);
	if (code == 0) {
		files_config config = {.root_dir = options->root_dir,
			.line_max = options->line_max,
			.look_ms = options->look_ms,
			.rounds_kept = options->rounds_kept,
			.deployed_kept = (int)options->deployed_kept,
			.remote_dir = a->remote_dir,
			.transfer_program = a->transfer_program,
			.store = a->store};

		a->files = files_new(loop, &config, &events);
		code = start_api(a, err);
	}
	if (code == 0)
		code = start_link(a, err);
	if (code == 0 && options->enrolment_url)
		start_enrolment(a);
	if (code != 0) {
		app_stop(a);
		return code;
	}
	edge_agent_start(a->agent, clock_now());
	turn_begin(&a->turn);
	return 0;
}

void app_ready(app *a)
{
	if (a->stopping)
		return;
	log_info("main", "started", L_STR("node", a->options->node), L_STR("version", ILMARE_VERSION));
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
	worker_api_stop(a->api);
	enrolment_stop(a->enrolment);
	if (a->files)
		files_stop(a->files);
	if (!a->mqtt)
		return;
	edge_agent_farewell(a->agent, &where, &farewell);
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
	worker_api_free(a->api);
	edge_agent_free(a->agent);
	enrolment_free(a->enrolment);
	certificate_ends_free(a->ends);
	store_close(a->store);
	free(a->presence_topic);
	free(a->transfer_program);
	free(a->remote_dir);
	free(a);
}
