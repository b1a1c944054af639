/* Status patches, many in a transaction: see patches.h for the contract. */
#include "cloud-agent/cluster/local/patches.h"

#include <stdlib.h>
#include <string.h>

#include "common/mem.h"

enum { TOGETHER_MAX = 256 }; /* a few milliseconds of a loop that has other things to do */

typedef struct result {
	int code;
	error err;
	cJSON *object;
} result;

struct patches {
	objects *store;
	patch_answer answer;
	void *ctx;
	uv_idle_t soon; /* unlike a timer without a time, once in a turn of the loop, whatever its answers bring */
	patch_request *waiting;
	size_t n, room;
	void (*closed)(void *ctx);
	void *closed_ctx;
};

static int patch_one(const patches *p, const patch_request *r, result *out)
{
	out->code = objects_patch_status(p->store, r->kind, r->ns, r->name, r->uid, r->version, r->status, &out->object, NULL, &out->err);
	return out->code;
}

static void results_clear(result *results, size_t n)
{
	for (size_t i = 0; i < n; i++)
		cJSON_Delete(results[i].object);
	memset(results, 0, n * sizeof *results);
}

/* An answer to one, which leaves nothing behind that must not be committed. */
static bool is_answer(int code)
{
	return code == 0 || code == ERROR_CONFLICT || code == ERROR_NOT_FOUND;
}

static void patch_all(const patches *p, const patch_request *requests, size_t n, result *results)
{
	int code = n > 1 ? objects_begin(p->store, NULL) : ERROR_LIMIT;
	if (code == 0) {
		for (size_t i = 0; i < n && code == 0; i++) {
			int own = patch_one(p, &requests[i], &results[i]);
			code = is_answer(own) ? 0 : own;
		}
		code = objects_end(p->store, code, NULL);
	}
	if (code == 0)
		return;
	results_clear(results, n);
	for (size_t i = 0; i < n; i++)
		patch_one(p, &requests[i], &results[i]);
}

/* Answers may bring more patches: those wait for the next turn. */
static void patch_some(patches *p)
{
	size_t n = p->n < TOGETHER_MAX ? p->n : TOGETHER_MAX;
	patch_request *requests = mem_alloc(n * sizeof *requests);
	result *results = mem_alloc(n * sizeof *results);
	memcpy(requests, p->waiting, n * sizeof *requests);
	p->n -= n;
	memmove(p->waiting, p->waiting + n, p->n * sizeof *p->waiting);
	patch_all(p, requests, n, results);
	for (size_t i = 0; i < n; i++)
		p->answer(p->ctx, requests[i].id, results[i].code, &results[i].err, results[i].object);
	free(results);
	free(requests);
}

static void on_soon(uv_idle_t *idle)
{
	patches *p = idle->data;
	patch_some(p);
	if (p->n == 0)
		uv_idle_stop(&p->soon);
}

patches *patches_new(uv_loop_t *loop, objects *store, patch_answer answer, void *ctx)
{
	patches *p = mem_alloc(sizeof *p);
	p->store = store;
	p->answer = answer;
	p->ctx = ctx;
	uv_idle_init(loop, &p->soon);
	p->soon.data = p;
	return p;
}

void patches_add(patches *p, const patch_request *request)
{
	if (p->n == p->room) {
		p->room = p->room > 0 ? 2 * p->room : 16;
		p->waiting = mem_resize_array(p->waiting, p->room, sizeof *p->waiting);
	}
	p->waiting[p->n++] = *request;
	uv_idle_start(&p->soon, on_soon);
}

static void on_closed(uv_handle_t *handle)
{
	patches *p = handle->data;
	void (*closed)(void *ctx) = p->closed;
	void *ctx = p->closed_ctx;
	free(p->waiting);
	free(p);
	closed(ctx);
}

void patches_free(patches *p, void (*closed)(void *ctx), void *ctx)
{
	while (p->n > 0)
		patch_some(p);
	p->closed = closed;
	p->closed_ctx = ctx;
	uv_close((uv_handle_t *)&p->soon, on_closed);
}
