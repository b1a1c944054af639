/* See service.h for the contract. A visit is one request from its arrival to its answer: the judge is asked, its question is put to the API server,
 * the answer is added to the facts, and the judge is asked again. */
#include "cloud-agent/enrolment/service.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/cluster/kube/kube.h"
#include "cloud-agent/cluster/kube/limiter.h"
#include "cloud-agent/enrolment/crowd.h"
#include "cloud-agent/enrolment/files.h"
#include "cloud-agent/enrolment/judge.h"
#include "cloud-agent/enrolment/questions.h"
#include "common/clock.h"
#include "common/file.h"
#include "common/http/server.h"
#include "common/json.h"
#include "common/log.h"
#include "common/mem.h"
#include "proto/document.h"

#define ENROLMENT_PATH "/enrolment/v1/node"

/* LOOK_MS: how often the files are looked at. A request may wait for three answers of the API server, 10 s each. */
enum { LOOK_MS = 2000, CONNECTIONS = 128, REQUEST_MS = 10 * 1000, ANSWER_MS = 35 * 1000, LINES_PER_SECOND = 1, LINES_BURST = 50 };

typedef struct visit visit;

struct enrolment {
	uv_loop_t *loop;
	const enrolment_options *options;
	cluster *cluster;
	http_server *http;
	uv_timer_t timer;
	enrol_files files;
	enrol_settings settings;
	char *account; /* that `settings` points into */
	crowd crowd;
	limiter lines; /* of what is said in the log about refused ones */
	visit *visits;
	int under_way;
	bool stopping;
	enrolment_counters counters;
};

struct visit {
	enrolment *e;
	visit *next;
	http_server *server; /* NULL: nobody waits for the answer any more */
	uint64_t id;
	char *peer;
	enrol_request request;
	enrol_facts facts;
	X509_REQ *csr;
	enum enrol_step asked;
};

static void visit_free(visit *v)
{
	visit **link = &v->e->visits;

	while (*link != v)
		link = &(*link)->next;
	*link = v->next;
	v->e->under_way--;
	X509_REQ_free(v->csr);
	enrol_request_fini(&v->request);
	arena_free(v->facts.mem);
	free(v->peer);
	free(v);
}

/* ---- answers ---- */

static void answer_status(const visit *v, int status, const char *text)
{
	if (v->server)
		http_answer_status(v->server, v->id, status, text);
}

static void refused(enrolment *e, const char *node, const char *peer, int status, const char *reason)
{
	e->counters.refused++;
	if (limiter_take(&e->lines, clock_now().mono_ms))
		log_warn("enrolment", "refused", L_STR("node", node), L_STR("from", peer), L_INT("status", status), L_STR("reason", reason));
}

static void sign(visit *v)
{
	enrolment *e = v->e;
	authority_issued issued;
	error err = {0};
	char ends[32], *text;
	cJSON *answer;
	int code = authority_sign(e->files.authority, v->csr, v->request.node, clock_now().unix_ms, e->options->lifetime_ms, &issued, &err);

	if (code != 0) {
		log_error("enrolment", "cannot sign", L_STR("node", v->request.node), L_STR("error", err.text));
		answer_status(v, 503, err.text);
		return;
	}
	time_format(issued.ends_ms, ends);
	answer = cJSON_CreateObject();
	json_put_int(answer, "v", 1);
	json_put_string(answer, "certificate", buf_text(&issued.pem));
	json_put_string(answer, "notAfter", ends);
	text = json_print(answer);
	cJSON_Delete(answer);
	buf_fini(&issued.pem);
	e->counters.issued++;
	log_info("enrolment", "certificate issued", L_STR("node", v->request.node), L_STR("by", enrol_way_word(v->request.way)),
		L_STR("from", v->peer), L_STR("not_after", ends), L_STR("serial", issued.serial));
	if (v->server)
		http_answer(v->server, v->id, 200, "application/json", text, strlen(text));
	free(text);
}

/* ---- a visit ---- */

static void advance(visit *v);

static void on_answer(void *ctx, int code, const char *text, const cJSON *object)
{
	visit *v = ctx;

	if (v->e->stopping) {
		visit_free(v);
		return;
	}
	enrol_question_answered(&v->facts, v->asked, code, text, object);
	if (v->facts.trouble.code != 0)
		log_error("enrolment", "the API server cannot be asked", L_STR("node", v->request.node), L_STR("error", v->facts.trouble.text));
	advance(v);
}

static void ask(visit *v, enum enrol_step step)
{
	enrol_question q;
	cluster_kube_question question;

	v->asked = step;
	enrol_question_make(&v->e->settings, &v->facts, step, &q);
	question = (cluster_kube_question){.method = q.method, .path = q.path, .content_type = q.content_type, .body = q.body};
	cluster_kube_ask(v->e->cluster, &question, on_answer, v);
	file_secret_free(q.body);
}

/* As long as somebody waits; a token is not used up for nobody. */
static void advance(visit *v)
{
	enrol_verdict verdict;

	if (!v->server) {
		visit_free(v);
		return;
	}
	enrol_judge(&v->e->settings, &v->facts, &verdict);
	switch (verdict.step) {
	case ENROL_REVIEW:
	case ENROL_POD:
	case ENROL_SECRET:
	case ENROL_BIND:
	case ENROL_REMOVE:
		ask(v, verdict.step);
		return;
	case ENROL_SIGN:
		sign(v);
		break;
	case ENROL_REFUSE:
		refused(v->e, v->request.node, v->peer, verdict.status, verdict.text);
		answer_status(v, verdict.status, verdict.text);
		break;
	case ENROL_LATER:
		answer_status(v, verdict.status, verdict.text);
		break;
	}
	visit_free(v);
}

/* Takes the request. */
static void visit_begin(enrolment *e, const http_request *r, enrol_request *request, X509_REQ *csr, const char *key)
{
	visit *v = mem_alloc(sizeof *v);

	v->e = e;
	v->next = e->visits;
	e->visits = v;
	e->under_way++;
	v->server = r->server;
	v->id = r->id;
	v->peer = mem_strdup(r->peer);
	v->request = *request;
	v->csr = csr;
	v->facts = (enrol_facts){.request = &v->request, .now_ms = clock_now().unix_ms, .mem = arena_new()};
	memcpy(v->facts.key, key, sizeof v->facts.key);
	if (request->way == ENROL_BY_CERTIFICATE)
		authority_prove(e->files.authority, request, v->facts.now_ms, &v->facts.proof);
	advance(v);
}

/* ---- requests ---- */

static int on_begin(void *ctx, const http_request *r, const char **message)
{
	enrolment *e = ctx;
	int status = 0;

	if (strcmp(r->path, ENROLMENT_PATH) != 0) {
		*message = "there is nothing here; enrolment is at " ENROLMENT_PATH;
		status = 404;
	} else if (strcmp(r->method, "POST") != 0) {
		*message = "only POST is answered here";
		status = 405;
	} else if (e->under_way >= ENROLMENT_UNDER_WAY_MAX || !crowd_take(&e->crowd, r->peer, clock_now().mono_ms)) {
		*message = "too many devices ask at once; try again in some seconds";
		status = 429;
	}
	if (status == 429)
		refused(e, "", r->peer, status, "too many requests");
	return status;
}

static void on_request(void *ctx, const http_request *r)
{
	enrolment *e = ctx;
	enrol_request request;
	X509_REQ *csr = NULL;
	error err = {0};
	char key[DIGEST_HEX_SIZE], claimed[ENROL_NAME_MAX + 1];
	int code = enrol_request_decode(r->body, r->len, &request, claimed, &err);

	if (code == 0 && (code = authority_request(&request, &csr, key, &err)) != 0)
		enrol_request_fini(&request);
	if (code != 0) {
		refused(e, claimed, r->peer, 400, err.text);
		http_answer_status(r->server, r->id, 400, err.text);
	} else if (e->under_way >= ENROLMENT_UNDER_WAY_MAX) { /* that came in while this one was sent */
		enrol_request_fini(&request);
		X509_REQ_free(csr);
		http_answer_status(r->server, r->id, 429, "too many devices ask at once; try again in some seconds");
	} else {
		visit_begin(e, r, &request, csr, key);
	}
}

static void on_gone(void *ctx, uint64_t id)
{
	enrolment *e = ctx;

	for (visit *v = e->visits; v; v = v->next)
		if (v->id == id)
			v->server = NULL;
}

/* ---- life ---- */

static void look(enrolment *e)
{
	char *cert = NULL, *key = NULL;
	error err = {0};
	int code = enrol_files_endpoint(&e->files, &cert, &key, &err);

	if (code == 1)
		code = http_server_renew(&e->http, cert, key, &err) == 0 ? 1 : err.code;
	if (code == 1)
		log_info("enrolment", "the endpoint has a new certificate");
	if (code < 0)
		log_error("enrolment", "the endpoint keeps the certificate that it has", L_STR("error", err.text));
	file_secret_free(cert);
	file_secret_free(key);
	code = enrol_files_authority(&e->files, &err);
	if (code == 1)
		log_info("enrolment", "the authority was exchanged", L_STR("name", authority_name(e->files.authority)));
	if (code < 0)
		log_error("enrolment", "the authority stays what it was", L_STR("error", err.text));
}

static void on_timer(uv_timer_t *timer)
{
	look(timer->data);
}

static void use_settings(enrolment *e)
{
	const enrolment_options *o = e->options;
	char *colon;

	e->settings =
		(enrol_settings){.ns = cluster_kube_namespace(e->cluster), .prefix = o->prefix, .denied = o->denied, .reserved = o->reserved};
	e->account = mem_strdup(o->account);
	colon = e->account ? strchr(e->account, ':') : NULL;
	if (!colon)
		return;
	*colon = 0;
	e->settings.account_ns = e->account;
	e->settings.account_name = colon + 1;
}

static int listen_on(enrolment *e, error *err)
{
	http_events events = {.ctx = e, .begin = on_begin, .request = on_request, .gone = on_gone};
	http_config config;
	char *cert = NULL, *key = NULL;
	int code = enrol_files_endpoint(&e->files, &cert, &key, err);

	http_config_init(&config);
	config.host = e->options->host;
	config.port = (int)e->options->port;
	config.body_max = ENROL_BODY_MAX;
	config.connections = CONNECTIONS;
	config.request_ms = REQUEST_MS;
	config.answer_ms = ANSWER_MS;
	config.secret = true;
	config.certificate = cert;
	config.key = key;
	if (code == 1)
		code = http_server_start(e->loop, &config, &events, &e->http, err);
	file_secret_free(cert);
	file_secret_free(key);
	return code;
}

static void enrolment_free(enrolment *e)
{
	enrol_files_fini(&e->files);
	free(e->account);
	free(e);
}

int enrolment_start(uv_loop_t *loop, const enrolment_options *options, cluster *asked, enrolment **out, error *err)
{
	enrolment *e = mem_alloc(sizeof *e);
	int code;

	e->loop = loop;
	e->options = options;
	e->cluster = asked;
	e->files = (enrol_files){.endpoint_cert = options->cert_file,
		.endpoint_key = options->key_file,
		.authority_cert = options->authority_cert,
		.authority_key = options->authority_key};
	crowd_init(&e->crowd, clock_random_seed(), clock_now().mono_ms);
	limiter_init(&e->lines, LINES_PER_SECOND, LINES_BURST, clock_now().mono_ms);
	use_settings(e);
	code = enrol_files_authority(&e->files, err);
	if (code == 1)
		code = listen_on(e, err);
	if (code < 0) {
		enrolment_free(e);
		return code;
	}
	uv_timer_init(loop, &e->timer);
	e->timer.data = e;
	uv_timer_start(&e->timer, on_timer, LOOK_MS, LOOK_MS);
	log_info("enrolment", "listening", L_STR("host", options->host), L_INT("port", http_server_port(e->http)),
		L_STR("authority", authority_name(e->files.authority)));
	*out = e;
	return 0;
}

static void on_closed(uv_handle_t *handle)
{
	enrolment *e = handle->data;

	if (!e->visits)
		enrolment_free(e);
}

void enrolment_stop(enrolment *e)
{
	if (!e || e->stopping)
		return;
	e->stopping = true;
	http_server_stop(e->http);
	for (visit *v = e->visits; v; v = v->next)
		v->server = NULL;
	uv_close((uv_handle_t *)&e->timer, on_closed);
}

void enrolment_count(const enrolment *e, enrolment_counters *out)
{
	*out = e ? e->counters : (enrolment_counters){0};
}

int enrolment_port(const enrolment *e)
{
	return http_server_port(e->http);
}
