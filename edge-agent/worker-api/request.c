/* One HTTP request: which path, its body, the hand-over of a post, the answer. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "edge-agent/worker-api/server_internal.h"

static enum MHD_Result queue(struct MHD_Connection *connection, int status, const char *type, const char *text, size_t len)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(len, (void *)(uintptr_t)text, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
		MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, strstr(text, "POST") ? "POST" : "GET, HEAD");
	result = MHD_queue_response(connection, (unsigned)status, response);
	MHD_destroy_response(response);
	return result;
}

/* The two members that Sedna's library reads. */
static enum MHD_Result queue_status(struct MHD_Connection *connection, int status, const char *message)
{
	cJSON *body = cJSON_CreateObject();
	char *text;
	enum MHD_Result result;

	json_put_int(body, "Status", status);
	json_put_string(body, "Message", message);
	text = json_print(body);
	cJSON_Delete(body);
	result = queue(connection, status, "application/json", text, strlen(text));
	free(text);
	return result;
}

/* "/sedna/workers/{name}/info": the name, or false. */
static bool worker_path(const char *url, char *name, size_t size)
{
	static const char before[] = "/sedna/workers/", after[] = "/info";
	size_t len = strlen(url), fixed = sizeof before - 1 + sizeof after - 1;

	if (len <= fixed || len - fixed >= size || strncmp(url, before, sizeof before - 1) != 0 ||
	    strcmp(url + len - (sizeof after - 1), after) != 0)
		return false;
	memcpy(name, url + sizeof before - 1, len - fixed);
	name[len - fixed] = 0;
	return strchr(name, '/') == NULL;
}

static enum MHD_Result observe(http_daemon *d, struct MHD_Connection *connection, const char *url)
{
	const char *why = "";
	enum MHD_Result result;
	buf text = {0};

	if (strcmp(url, "/healthz") == 0)
		return queue_status(connection, 200, "OK");
	if (strcmp(url, "/readyz") == 0)
		return d->api->events.ready(d->api->events.ctx, &why) ? queue_status(connection, 200, "OK") : queue_status(connection, 503, why);
	d->api->events.metrics(d->api->events.ctx, &text);
	result = queue(connection, 200, "text/plain; version=0.0.4; charset=utf-8", buf_text(&text), text.len);
	buf_fini(&text);
	return result;
}

static bool observe_path(const char *url)
{
	return strcmp(url, "/healthz") == 0 || strcmp(url, "/readyz") == 0 || strcmp(url, "/metrics") == 0;
}

static request *request_new(http_daemon *d, struct MHD_Connection *connection, http_connection *c)
{
	request *r = mem_alloc(sizeof *r);

	r->daemon = d;
	r->mhd = connection;
	r->connection = c;
	r->next = d->api->requests;
	d->api->requests = r;
	if (c)
		c->request = r;
	return r;
}

static http_connection *connection_of(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static bool announces_too_much(struct MHD_Connection *connection, int64_t max)
{
	const char *length = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);

	return length && strtoll(length, NULL, 10) > max;
}

/* The headers are there. Sets r->status where the answer is known already. */
static void begin(request *r, const char *url, const char *method)
{
	http_daemon *d = r->daemon;
	bool reads = strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;

	if (r->connection && r->connection->over) {
		r->status = 503;
		r->message = mem_strdup("too many connections; try again");
	} else if (d->observe && observe_path(url)) {
		r->status = reads ? 0 : 405;
		r->message = reads ? NULL : mem_strdup("use GET");
	} else if (!d->workers || !worker_path(url, r->worker, sizeof r->worker)) {
		r->status = 404;
		r->message = mem_strdup("there is nothing here; workers POST to /sedna/workers/{name}/info");
	} else if (strcmp(method, MHD_HTTP_METHOD_POST) != 0) {
		r->status = 405;
		r->message = mem_strdup("use POST");
	} else if (announces_too_much(r->mhd, d->api->config.body_max)) {
		r->status = 413;
		r->message = mem_printf("the body is over %lld bytes", (long long)d->api->config.body_max);
	}
}

/* The body is complete: suspended, then handed over; the answer may come before this returns. */
static enum MHD_Result hand_over(request *r)
{
	worker_api *api = r->daemon->api;
	worker_post *post = NULL;
	error err = {0};
	int http = 400;

	if (worker_post_decode(r->worker, buf_text(&r->body), r->body.len, &post, &http, &err) != 0)
		return queue_status(r->mhd, http, err.text);
	buf_fini(&r->body);
	r->id = ++api->last_id;
	r->suspended = true;
	if (r->connection)
		r->connection->deadline = (int64_t)uv_now(api->loop) + api->config.answer_ms;
	MHD_suspend_connection(r->mhd);
	api->events.post(api->events.ctx, r->id, post);
	return MHD_YES;
}

enum MHD_Result request__handle(void *cls, struct MHD_Connection *connection, const char *url, const char *method, const char *version,
                                const char *data, size_t *size, void **context)
{
	http_daemon *d = cls;
	request *r = *context;

	(void)version;
	if (!r) {
		*context = r = request_new(d, connection, connection_of(connection));
		begin(r, url, method);
		/* An answer that is known is given now only if it refuses the body; else MHD wants the body read first. */
		return r->status ? queue_status(connection, r->status, r->message) : MHD_YES;
	}
	if (*size > 0) {
		if (r->worker[0] && r->body.len + *size <= (size_t)d->api->config.body_max)
			buf_add(&r->body, data, *size);
		else if (r->worker[0] && !r->status) {
			r->status = 413;
			r->message = mem_printf("the body is over %lld bytes", (long long)d->api->config.body_max);
			buf_fini(&r->body);
		}
		*size = 0;
		return MHD_YES;
	}
	if (r->status)
		return queue_status(connection, r->status, r->message);
	return r->worker[0] ? hand_over(r) : observe(d, connection, url);
}

void request__completed(void *cls, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode code)
{
	request *r = *context;
	worker_api *api;

	(void)cls;
	(void)connection;
	if (!r)
		return;
	api = r->daemon->api;
	for (request **p = &api->requests; *p; p = &(*p)->next)
		if (*p == r) {
			*p = r->next;
			break;
		}
	if (r->connection) {
		r->connection->request = NULL;
		r->connection->deadline = (int64_t)uv_now(api->loop) + api->config.request_ms;
	}
	if (r->id && !r->status && code != MHD_REQUEST_TERMINATED_COMPLETED_OK)
		api->events.gone(api->events.ctx, r->id);
	buf_fini(&r->body);
	free(r->message);
	free(r);
	*context = NULL;
}

void request__answer(request *r, int status, const char *message)
{
	r->status = status;
	r->message = mem_strdup(message);
	r->suspended = false;
	if (r->connection)
		r->connection->deadline = (int64_t)uv_now(r->daemon->api->loop) + r->daemon->api->config.request_ms;
	MHD_resume_connection(r->mhd);
}

void request__give_up(request *r)
{
	worker_api *api = r->daemon->api;
	uint64_t id = r->id;

	request__answer(r, 503, "this could not be made durable in due time; try again");
	api->events.gone(api->events.ctx, id);
}

void worker_api_reply(worker_api *api, uint64_t id, int status, const char *message)
{
	for (request *r = api->requests; r; r = r->next) {
		if (r->id != id || !r->suspended)
			continue;
		request__answer(r, status, message);
		server__run(r->daemon);
		return;
	}
}
