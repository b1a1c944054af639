/* The endpoint that workers post to: see worker_api.h for the contract.
 *
 * This file knows paths and methods; what a post means is decided by the core, and the answer is given when the core has made it durable.
 * Limits on bodies, headers, time and connections are those of common/http.
 */
#include "edge-agent/worker-api/worker_api.h"

#include <stdlib.h>
#include <string.h>

#include "common/file.h"
#include "common/mem.h"

struct worker_api {
	worker_api_events events;
	http_server *workers, *observe;
	char *token;
	bool apart;
};

enum { TOKEN_MIN = 16, TOKEN_MAX = 256 };

bool worker_token_valid(const char *token)
{
	static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	size_t len = strlen(token);

	return len >= TOKEN_MIN && len <= TOKEN_MAX && strspn(token, letters) == len;
}

/* What is behind the token; NULL if the path does not begin with it. How long that takes tells nothing of the token but its length. */
static const char *behind_token(const worker_api *api, const char *path)
{
	size_t len = api->token ? strlen(api->token) : 0;
	unsigned char differs = 0;

	if (!api->token)
		return path;
	if (strlen(path) <= len || path[0] != '/')
		return NULL;
	for (size_t i = 0; i < len; i++)
		differs |= (unsigned char)(path[i + 1] ^ api->token[i]);
	return differs == 0 ? path + 1 + len : NULL;
}

/* "/sedna/workers/{name}/info": the name, or false. Names over the bound are no worker's. */
static bool worker_path(const char *path, char name[WORKER_NAME_SIZE])
{
	static const char before[] = "/sedna/workers/", after[] = "/info";
	size_t len = strlen(path), fixed = sizeof before - 1 + sizeof after - 1;

	if (len <= fixed || len - fixed >= WORKER_NAME_SIZE || strncmp(path, before, sizeof before - 1) != 0 ||
		strcmp(path + len - (sizeof after - 1), after) != 0)
		return false;
	memcpy(name, path + sizeof before - 1, len - fixed);
	name[len - fixed] = 0;
	return strchr(name, '/') == NULL;
}

static int begin(void *ctx, const http_request *r, const char **message)
{
	const worker_api *api = ctx;
	const char *path = behind_token(api, r->path);
	char name[WORKER_NAME_SIZE];

	if (!api->apart && http_observe_path(r->path))
		return http_observe_begin(r, message);
	if (!path) {
		*message = "the token is missing or wrong: LC_SERVER has to end with /TOKEN, as this agent's workers.tokenFile has it";
		return 403;
	}
	if (!worker_path(path, name)) {
		*message = "there is nothing here; workers POST to /sedna/workers/{name}/info";
		return 404;
	}
	if (strcmp(r->method, "POST") != 0) {
		*message = "use POST";
		return 405;
	}
	return 0;
}

static void request(void *ctx, const http_request *r)
{
	worker_api *api = ctx;
	const char *path = behind_token(api, r->path);
	char name[WORKER_NAME_SIZE];
	worker_post *post = NULL;
	error err = {0};
	int status = 400;

	if (!path || !worker_path(path, name))
		http_observe_answer(&api->events.observe, api->workers, r);
	else if (worker_post_decode(name, r->body, r->len, &post, &status, &err) != 0)
		http_answer_status(api->workers, r->id, status, err.text);
	else
		api->events.post(api->events.observe.ctx, r->id, post);
}

static void gone(void *ctx, uint64_t id)
{
	worker_api *api = ctx;

	api->events.gone(api->events.observe.ctx, id);
}

int worker_api_start(uv_loop_t *loop, const worker_api_config *config, const worker_api_events *events, worker_api **out, error *err)
{
	worker_api *api = mem_alloc(sizeof *api);
	http_events http = {.ctx = api, .begin = begin, .request = request, .gone = gone};
	int code;

	api->events = *events;
	api->apart = config->observe_port >= 0;
	api->token = config->token ? mem_strdup(config->token) : NULL;
	code = http_server_start(loop, &config->http, &http, &api->workers, err);
	if (code == 0 && api->apart)
		code = http_observe_start(loop, config->observe_host, config->observe_port, &api->events.observe, &api->observe, err);
	*out = api;
	return code;
}

void worker_api_reply(worker_api *api, uint64_t id, int status, const char *message)
{
	http_answer_status(api->workers, id, status, message);
}

int worker_api_port(const worker_api *api)
{
	return http_server_port(api->workers);
}

int worker_api_observe_port(const worker_api *api)
{
	return http_server_port(api->observe ? api->observe : api->workers);
}

void worker_api_stop(worker_api *api)
{
	if (!api)
		return;
	http_server_stop(api->workers);
	http_server_stop(api->observe);
	api->workers = api->observe = NULL;
}

void worker_api_free(worker_api *api)
{
	if (api)
		file_secret_free(api->token);
	free(api);
}
