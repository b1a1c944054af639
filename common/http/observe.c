/* /healthz, /readyz and /metrics, the same for both agents: see observe.h for the contract.
 *
 * Healthy means that the loop answers at all; ready is decided by the program, which says why it is not.
 */
#include "common/http/observe.h"

#include <string.h>

bool http_observe_path(const char *path)
{
	return strcmp(path, "/healthz") == 0 || strcmp(path, "/readyz") == 0 || strcmp(path, "/metrics") == 0;
}

int http_observe_begin(const http_request *r, const char **message)
{
	if (strcmp(r->method, "GET") == 0 || strcmp(r->method, "HEAD") == 0)
		return 0;
	*message = "use GET";
	return 405;
}

void http_observe_answer(const http_observe *o, http_server *s, const http_request *r)
{
	const char *why = "";
	buf text = {0};

	if (strcmp(r->path, "/metrics") == 0) {
		o->metrics(o->ctx, &text);
		http_answer(s, r->id, 200, "text/plain; version=0.0.4; charset=utf-8", buf_text(&text), text.len);
		buf_fini(&text);
	} else if (strcmp(r->path, "/readyz") == 0 && !o->ready(o->ctx, &why)) {
		http_answer_status(s, r->id, 503, why);
	} else {
		http_answer_status(s, r->id, 200, "OK");
	}
}

static int begin(void *ctx, const http_request *r, const char **message)
{
	(void)ctx;
	if (http_observe_path(r->path))
		return http_observe_begin(r, message);
	*message = "there is nothing here; look at /healthz, /readyz and /metrics";
	return 404;
}

static void request(void *ctx, const http_request *r)
{
	const http_observe *o = ctx;

	http_observe_answer(o, *o->server, r);
}

int http_observe_start(uv_loop_t *loop, const char *host, int port, http_observe *o, http_server **out, error *err)
{
	http_config config;
	http_events events = {.ctx = o, .begin = begin, .request = request};

	http_config_init(&config);
	config.host = host;
	config.port = port;
	o->server = out;
	return http_server_start(loop, &config, &events, out, err);
}
