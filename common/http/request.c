/* One HTTP request: its headers, its body, the hand-over, the answer. */
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "common/http/server_internal.h"
#include "common/json.h"
#include "common/mem.h"

/* Bodies up to this many times the limit are read, and thrown away, before they are refused. */
enum { TOO_LARGE_READ = 2 };

static char *status_body(int status, const char *message)
{
	cJSON *body = cJSON_CreateObject();
	char *text;

	json_put_int(body, "Status", status);
	json_put_string(body, "Message", message);
	text = json_print(body);
	cJSON_Delete(body);
	return text;
}

static void set_answer(request *r, int status, const char *type, const char *body, size_t len)
{
	r->status = status;
	r->type = mem_strdup(type);
	r->answer = mem_strndup(body, len);
	r->answer_len = len;
}

static void set_answer_status(request *r, int status, const char *message)
{
	char *body = status_body(status, message);

	set_answer(r, status, "application/json", body, strlen(body));
	free(body);
}

static enum MHD_Result queue_answer(request *r)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(r->answer_len, r->answer, MHD_RESPMEM_MUST_COPY);
	enum MHD_Result result;

	MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, r->type);
	result = MHD_queue_response(r->mhd, (unsigned)r->status, response);
	MHD_destroy_response(response);
	return result;
}

static connection *connection_of(struct MHD_Connection *mhd)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT);

	return info ? info->socket_context : NULL;
}

static void note_peer(request *r)
{
	const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
	const struct sockaddr *from = info ? info->client_addr : NULL;
	socklen_t len = from && from->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);

	if (!from || getnameinfo(from, len, r->peer, sizeof r->peer, NULL, 0, NI_NUMERICHOST) != 0)
		r->peer[0] = 0;
}

static void body_free(request *r)
{
	if (r->server->config.secret && r->body.data)
		explicit_bzero(r->body.data, r->body.cap);
	buf_fini(&r->body);
}

static request *request_new(http_server *s, struct MHD_Connection *mhd, const char *url, const char *method)
{
	request *r = mem_alloc(sizeof *r);

	r->server = s;
	r->mhd = mhd;
	r->id = ++s->last_id;
	r->path = mem_strdup(url);
	r->method = method;
	r->connection = connection_of(mhd);
	note_peer(r);
	r->next = s->requests;
	s->requests = r;
	if (r->connection)
		r->connection->request = r;
	return r;
}

static void too_large(request *r)
{
	char *message = mem_printf("the body is over %lld bytes", (long long)r->server->config.body_max);

	set_answer_status(r, 413, message);
	free(message);
	body_free(r);
}

static enum MHD_Result count_length(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
	(void)kind;
	(void)value;
	*(int *)cls += strcasecmp(key, MHD_HTTP_HEADER_CONTENT_LENGTH) == 0 || strcasecmp(key, MHD_HTTP_HEADER_TRANSFER_ENCODING) == 0;
	return MHD_YES;
}

/* Said in two ways, its end is for each reader where he thinks: what follows could be taken for a request of its own. */
static bool is_length_ambiguous(request *r)
{
	int n = 0;

	MHD_get_connection_values(r->mhd, MHD_HEADER_KIND, count_length, &n);
	return n > 1;
}

/* The headers are there. The answer is set if it is known already. */
static void begin(request *r)
{
	http_server *s = r->server;
	const char *length = MHD_lookup_connection_value(r->mhd, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH), *message = "";
	http_request view = {.server = s, .id = r->id, .method = r->method, .path = r->path, .peer = r->peer};
	int status;

	if (r->connection && r->connection->over) {
		set_answer_status(r, 503, "too many connections; try again");
		return;
	}
	if (is_length_ambiguous(r)) {
		set_answer_status(r, 400, "the length of the body is given more than once");
		return;
	}
	status = s->events.begin(s->events.ctx, &view, &message);
	if (status)
		set_answer_status(r, status, message);
	else if (length && strtoll(length, NULL, 10) > TOO_LARGE_READ * s->config.body_max)
		too_large(r);
}

/* Suspended first, then handed over: the answer may come from inside. */
static enum MHD_Result hand_over(request *r)
{
	http_server *s = r->server;
	http_request view = {
		.server = s, .id = r->id, .method = r->method, .path = r->path, .peer = r->peer, .body = buf_text(&r->body), .len = r->body.len};

	r->suspended = true;
	if (r->connection)
		r->connection->deadline = (int64_t)uv_now(s->loop) + s->config.answer_ms;
	MHD_suspend_connection(r->mhd);
	s->events.request(s->events.ctx, &view);
	body_free(r);
	return MHD_YES;
}

/* A client that is told in the midst of sending gets a reset rather than the answer: what is a little too large is read to its end. */
static enum MHD_Result take_body(request *r, const char *data, size_t *size)
{
	size_t max = (size_t)r->server->config.body_max;

	r->received += *size;
	if (!r->status && r->received <= max)
		buf_add(&r->body, data, *size);
	else if (!r->status)
		too_large(r);
	*size = 0;
	return r->received <= TOO_LARGE_READ * max ? MHD_YES : MHD_NO;
}

enum MHD_Result request__handle(void *cls, struct MHD_Connection *mhd, const char *url, const char *method, const char *version,
	const char *data, size_t *size, void **context)
{
	http_server *s = cls;
	request *r = *context;

	(void)version;
	if (!r) {
		*context = r = request_new(s, mhd, url, method);
		begin(r);
		/* Refused before its body is read. */
		return r->status ? queue_answer(r) : MHD_YES;
	}
	if (*size > 0)
		return take_body(r, data, size);
	if (s->stopping && !r->status)
		set_answer_status(r, 503, HTTP_STOPPING);
	return r->status ? queue_answer(r) : hand_over(r);
}

void request__completed(void *cls, struct MHD_Connection *mhd, void **context, enum MHD_RequestTerminationCode code)
{
	http_server *s = cls;
	request *r = *context;

	(void)mhd;
	(void)code;
	if (!r)
		return;
	for (request **p = &s->requests; *p; p = &(*p)->next)
		if (*p == r) {
			*p = r->next;
			break;
		}
	if (r->connection) {
		r->connection->request = NULL;
		r->connection->served = true;
		r->connection->deadline = (int64_t)uv_now(s->loop) + s->config.request_ms;
	}
	if (r->suspended && s->events.gone)
		s->events.gone(s->events.ctx, r->id);
	body_free(r);
	free(r->path);
	free(r->type);
	free(r->answer);
	free(r);
	*context = NULL;
}

static void resume(request *r)
{
	r->suspended = false;
	if (r->connection)
		r->connection->deadline = (int64_t)uv_now(r->server->loop) + r->server->config.request_ms;
	MHD_resume_connection(r->mhd);
}

void request__answer(request *r, int status, const char *type, const char *body, size_t len)
{
	set_answer(r, status, type, body, len);
	resume(r);
}

void request__answer_status(request *r, int status, const char *message)
{
	set_answer_status(r, status, message);
	resume(r);
}

void request__give_up(request *r)
{
	http_server *s = r->server;
	uint64_t id = r->id;

	request__answer_status(r, 503, "this could not be done in due time; try again");
	if (s->events.gone)
		s->events.gone(s->events.ctx, id);
}

static request *request_find(http_server *s, uint64_t id)
{
	for (request *r = s->requests; r; r = r->next)
		if (r->id == id && r->suspended)
			return r;
	return NULL;
}

void http_answer(http_server *s, uint64_t id, int status, const char *type, const char *body, size_t len)
{
	request *r = request_find(s, id);

	if (!r)
		return;
	request__answer(r, status, type, body, len);
	server__run(s);
}

void http_answer_status(http_server *s, uint64_t id, int status, const char *message)
{
	char *body = status_body(status, message);

	http_answer(s, id, status, "application/json", body, strlen(body));
	free(body);
}
