/* See kube.h for the contract. */
#include "cloud-agent/cluster/kube/kube.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "cloud-agent/cluster/kube/resource.h"
#include "common/clock.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"

/* Of an answer that is gathered; between a leader's last request and the moment when another may lead; for giving the Lease back. */
enum { ANSWER_MAX = 64 * 1024 * 1024, ARRIVE_MS = 500, RELEASE_MS = 5000 };
/* Objects read, until memory is given back. */
enum { CHURN_MAX = 500 };

int kube__answer(const transport_answer *answer, cJSON **object, error *err)
{
	if (answer->code != 0)
		return error_set(err, answer->code, "%s", answer->text);
	if (answer->status / 100 != 2)
		return resource_error(answer->status, answer->body, answer->len, err);
	if (object == NULL)
		return 0;
	if (json_parse(answer->body, answer->len, ANSWER_MAX, object, err) != 0)
		return error_prefix(err, "the API server's answer");
	return 0;
}

/* ---- the turn ---- */

void kube__go(kube *k)
{
	if (k->started)
		turn_go(&k->turn);
}

/* What lists and many writes took is in the allocator's hands, in pieces, and would stay there. */
static void give_back(kube *k)
{
	if (k->churn < CHURN_MAX || k->first != NULL || !k->synced)
		return;
	k->churn = 0;
	malloc_trim(0);
}

static void act(void *ctx)
{
	kube *k = ctx;

	kube__lead_act(k);
	kube__read_act(k);
	kube__write_act(k);
	give_back(k);
}

static int64_t wake(void *ctx)
{
	const kube *k = ctx;
	int64_t at = kube__lead_wake(k), read = kube__read_wake(k), write = kube__write_wake(k);

	if (read < at)
		at = read;
	return write < at ? write : at;
}

/* ---- life ---- */

static int start(cluster *c, error *err)
{
	kube *k = (kube *)c;

	(void)err;
	log_info("kube", "begins", L_STR("server", access_server(k->access)), L_STR("as", access_name(k->access)));
	k->started = true;
	turn_begin(&k->turn);
	return 0;
}

static void on_limit_closed(uv_handle_t *handle)
{
	kube *k = handle->data;

	if (k->stopped)
		k->stopped(k->stopped_ctx);
}

static void finish(kube *k)
{
	if (k->closed)
		return;
	k->closed = true;
	if (k->lease_call)
		transport_cancel(k->lease_call);
	k->lease_call = NULL;
	transport_close(k->transport);
	uv_close((uv_handle_t *)&k->stop_limit, on_limit_closed);
}

static void on_stop_limit(uv_timer_t *timer)
{
	finish(timer->data);
}

static void stop(cluster *c, void (*stopped)(void *ctx), void *ctx)
{
	kube *k = (kube *)c;

	k->stopped = stopped;
	k->stopped_ctx = ctx;
	k->started = false;
	turn_end(&k->turn);
	kube__write_fini(k);
	kube__asked_fini(k);
	kube__read_fini(k);
	uv_timer_start(&k->stop_limit, on_stop_limit, RELEASE_MS, 0);
	kube__lead_release(k, finish);
}

static const char *trouble(const cluster *c)
{
	const char *problem = kube__read_problem((const kube *)c);

	return problem[0] != 0 ? problem : NULL;
}

static const char *unled(const cluster *c)
{
	const char *problem = lease_trouble(((const kube *)c)->lease, clock_now());

	return problem[0] != 0 ? problem : NULL;
}

static void kube_free(cluster *c)
{
	kube *k = (kube *)c;

	transport_free(k->transport);
	lease_free(k->lease);
	recorder_free(k->recorder);
	access_free(k->access);
	free(k);
}

static const cluster_ops ops = {.start = start,
	.patch_status = kube__patch_status,
	.patch_annotations = kube__patch_annotations,
	.create_pod = kube__create_pod,
	.delete_pod = kube__delete_pod,
	.event = kube__event,
	.read_secret = kube__read_secret,
	.raise_epoch = kube__raise_epoch,
	.trouble = trouble,
	.unled = unled,
	.stop = stop,
	.free = kube_free};

static int64_t or (int64_t value, int64_t otherwise)
{
	return value != 0 ? value : otherwise;
}

static const char *or_text(const char *text, const char *otherwise)
{
	return text != NULL && text[0] != 0 ? text : otherwise;
}

static void make_parts(kube *k, const cluster_kube_config *config)
{
	char *agent = mem_printf("ilmare-cloud/%s", or_text(config->version, "0"));
	transport_config http = {.server = access_server(k->access),
		.agent = agent,
		.identity = access_identity,
		.identity_ctx = k->access,
		.connect_ms = or (config->connect_ms, 5000),
		.answer_max = ANSWER_MAX};
	lease_config held = {.ns = or_text(config->lease_namespace, access_namespace(k->access)),
		.name = or_text(config->lease, "ilmare-cloud"),
		.identity = or_text(config->identity, "ilmare-cloud"),
		.duration_ms = or (config->lease_ms, 15000),
		.renew_ms = or (config->lease_renew_ms, 10000),
		.retry_ms = or (config->lease_retry_ms, 2000),
		.seed = config->seed};

	k->transport = transport_new(k->loop, &http);
	k->lease = lease_new(&held);
	k->write_ms = held.duration_ms - held.renew_ms - ARRIVE_MS;
	k->recorder = recorder_new("ilmare-cloud", held.identity, config->seed);
	limiter_init(&k->limiter, or (config->requests_per_second, 50), or (config->burst, 300), clock_now().mono_ms);
	k->credentials_by_value = config->credentials_by_value;
	kube__read_init(k, config);
	free(agent);
}

cluster *cluster_kube_new(uv_loop_t *loop, const cluster_kube_config *config, const cluster_events *events, cluster_done done,
	void *done_ctx, error *err)
{
	kube *k = mem_alloc(sizeof *k);
	int code;

	k->base = (cluster){.ops = &ops, .events = *events, .done = done, .done_ctx = done_ctx};
	k->loop = loop;
	code = access_open(config->kubeconfig, config->context, &k->access, err);
	if (code != 0) {
		free(k);
		return NULL;
	}
	turn_init(&k->turn, loop, act, wake, k);
	uv_timer_init(loop, &k->stop_limit);
	k->stop_limit.data = k;
	make_parts(k, config);
	return &k->base;
}
