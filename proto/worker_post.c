/* The body of a worker's post: read with the patience that scripts of many versions need, and with bounds.
 *
 * The answers are part of the contract: a worker's library tries five times and then gives up, so what can be understood is taken.
 * 400: this is not such a body. 413: it is, and holds more than can be kept. 422: it is, and says nothing that we could use.
 * Metrics and ownerInfo are whatever a script returned; what is too big or too deep to travel on is left out and marked with
 * `"truncated":true`, for the models matter more. Invariant: what was decoded fits into a report and comes back from worker_post_encode.
 */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/document_internal.h"
#include "proto/worker.h"

enum {
	POST_METRICS_MAX = 64 * 1000, /* bytes of compact JSON, all results together */
	POST_INFO_MAX = 16 * 1000,
	POST_VALUE_DEPTH = 16,         /* a report nests a few levels around it */
	POST_RESULTS_MAX = 200 * 1000, /* the whole, encoded: a report must stay under DOCUMENT_MAX */
	HTTP_BAD_REQUEST = 400,
	HTTP_TOO_LARGE = 413,
	HTTP_UNPROCESSABLE = 422,
};

static const char *const kind_words[] = {
	[POST_TRAIN] = "train", [POST_EVAL] = "eval", [POST_DEPLOY] = "deploy", [POST_INFERENCE] = "inference"};
static const char *const status_words[] = {
	[POST_NO_STATUS] = "", [POST_RUNNING] = "running", [POST_COMPLETED] = "completed", [POST_FAILED] = "failed"};

enum { N_KINDS = sizeof(kind_words) / sizeof(kind_words[0]), N_STATUSES = sizeof(status_words) / sizeof(status_words[0]) };

typedef struct posting {
	reading r;
	int http; /* of the failure, if it is not 400 */
} posting;

static void refuse(posting *p, int http, const char *name, const char *why)
{
	if (p->r.code != 0)
		return;
	p->http = http;
	read__fail(&p->r, "body", name, "%s", why);
}

static int find_word(const char *const *words, size_t n, const char *word)
{
	for (size_t i = 0; word != NULL && i < n; i++) {
		if (strcmp(words[i], word) == 0)
			return (int)i;
	}
	return -1;
}

/* ---- values of any shape ---- */

static int depth_of(const cJSON *value)
{
	int deepest = 0;
	const cJSON *child;

	cJSON_ArrayForEach(child, value) {
		int depth = depth_of(child);

		if (depth > deepest)
			deepest = depth;
	}
	return deepest + 1;
}

/* Bytes as compact JSON; SIZE_MAX for what is nested deeper than `depth`. */
static size_t size_of(const cJSON *value, int depth)
{
	char *text = depth_of(value) <= depth ? json_print(value) : NULL;
	size_t size = text != NULL ? strlen(text) : SIZE_MAX;

	free(text);
	return size;
}

static void own_tree(void *tree)
{
	cJSON_Delete(tree);
}

/* The value, or those of its members that fit into `room` bytes together with the mark; so what was cut once is not cut again. */
static const cJSON *fitting(reading *r, const cJSON *value, size_t room)
{
	cJSON *kept;
	const cJSON *member;

	if (value == NULL || size_of(value, POST_VALUE_DEPTH) <= room)
		return value;
	kept = cJSON_CreateObject();
	arena_own(r->mem, kept, own_tree);
	room -= sizeof("{,\"truncated\":true}");
	for (member = cJSON_IsObject(value) ? value->child : NULL; member != NULL; member = member->next) {
		size_t size = size_of(member, POST_VALUE_DEPTH - 1);
		size_t name = 6 * strlen(member->string) + 4; /* escapes, quotes, colon, comma */

		if (strcmp(member->string, "truncated") == 0 || size > room || name > room - size)
			continue;
		room -= size + name;
		write__copy(kept, member->string, member);
	}
	json_put_bool(kept, "truncated", true);
	return kept;
}

/* ---- members ---- */

static void read_names(posting *p, const cJSON *root, const char *worker, worker_post *post)
{
	const char *kind;

	post->worker = read__name(&p->r, root, "body", "name", name_valid, "a worker's name");
	if (post->worker != NULL && strcmp(post->worker, worker) != 0)
		refuse(p, HTTP_BAD_REQUEST, "name", "it is not the name in the path");
	post->ns = read__name(&p->r, root, "body", "namespace", name_valid_ns, "a namespace");
	post->job = read__name(&p->r, root, "body", "ownerName", name_valid, "a job's name");
	kind = read__prose(&p->r, root, "body", "ownerKind", OPTIONAL, WORKER_BODY_MAX);
	if (kind == NULL || (strcmp(kind, "incrementallearningjob") != 0 && strcmp(kind, "IncrementalLearningJob") != 0))
		refuse(p, HTTP_UNPROCESSABLE, "ownerKind", "only incrementallearningjob is known");
}

static void read_kind_and_status(posting *p, const cJSON *root, worker_post *post)
{
	int kind = find_word(kind_words, N_KINDS, read__prose(&p->r, root, "body", "kind", OPTIONAL, WORKER_BODY_MAX));
	const char *text = read__prose(&p->r, root, "body", "status", OPTIONAL, WORKER_BODY_MAX);
	int status = find_word(status_words, N_STATUSES, text == NULL ? "" : text);

	if (kind < 0)
		refuse(p, HTTP_UNPROCESSABLE, "kind", "known are train, eval, deploy, inference");
	else if (status < 0 || (status == POST_NO_STATUS && kind != POST_INFERENCE))
		refuse(p, HTTP_UNPROCESSABLE, "status", "known are running, completed, failed");
	if (p->r.code != 0)
		return;
	post->kind = (enum post_kind)kind;
	post->status = (enum post_status)status;
}

static bool has_url(reading *r, const cJSON *entry, const char *where)
{
	const char *url = read__prose(r, entry, where, "url", OPTIONAL, WORKER_BODY_MAX);

	return url != NULL && *url != '\0';
}

static void read_results(posting *p, const cJSON *root, worker_post *post)
{
	reading *r = &p->r;
	size_t n;
	const cJSON *array = read__array(r, root, "body", "results", OPTIONAL, WORKER_BODY_MAX, &n);
	const cJSON *entry;
	size_t i = 0;

	if (n > DOCUMENT_MAX_MODELS)
		refuse(p, HTTP_TOO_LARGE, "results", "there are more than 32");
	if (array == NULL || n == 0 || r->code != 0)
		return;
	post->results = arena_alloc(r->mem, n * sizeof(*post->results));
	cJSON_ArrayForEach(entry, array) {
		const char *where = path__entry(r, "body", "results", i++);
		model *m = &post->results[post->n_results];

		if (!cJSON_IsObject(entry)) {
			refuse(p, HTTP_BAD_REQUEST, "results", "an entry is not an object");
			return;
		}
		if (!has_url(r, entry, where))
			continue;
		read__model(r, entry, where, m);
		m->metrics = fitting(r, m->metrics, POST_METRICS_MAX / n);
		post->n_results++;
	}
}

static void check_useful(posting *p, const worker_post *post)
{
	bool makes_models = post->kind == POST_TRAIN || post->kind == POST_EVAL;
	char *text;
	size_t size;

	if (p->r.code != 0)
		return;
	if (makes_models && post->status == POST_COMPLETED && post->n_results == 0)
		refuse(p, HTTP_UNPROCESSABLE, "results", "completed, but there is no result with a url");
	text = worker_post_encode(post);
	size = strlen(text);
	free(text);
	if (size > POST_RESULTS_MAX)
		refuse(p, HTTP_TOO_LARGE, "results", "they are too long to travel on");
}

static const cJSON *parse(posting *p, const char *data, size_t len)
{
	cJSON *root = NULL;
	int code = json_parse(data, len, WORKER_BODY_MAX, &root, p->r.err);

	if (code != 0) {
		(void)error_prefix(p->r.err, "body");
		p->http = len > WORKER_BODY_MAX ? HTTP_TOO_LARGE : HTTP_BAD_REQUEST;
		p->r.code = code;
		return NULL;
	}
	arena_own(p->r.mem, root, own_tree);
	if (!cJSON_IsObject(root))
		p->r.code = error_set(p->r.err, ERROR_INVALID, "body: this is not a JSON object");
	return root;
}

int worker_post_decode(const char *worker, const char *data, size_t len, worker_post **out, int *http, error *err)
{
	posting p = {.r = {.mem = arena_new(), .err = err}, .http = HTTP_BAD_REQUEST};
	const cJSON *root = parse(&p, data, len);
	worker_post *post = arena_alloc(p.r.mem, sizeof(*post));
	int code;

	post->mem = p.r.mem;
	read_names(&p, root, worker, post);
	read_kind_and_status(&p, root, post);
	read_results(&p, root, post);
	post->owner_info = fitting(&p.r, read__object(&p.r, root, "body", "ownerInfo", OPTIONAL), POST_INFO_MAX);
	check_useful(&p, post);
	code = read__end(&p.r);
	*out = code == 0 ? post : NULL;
	if (code != 0)
		*http = p.http;
	return code;
}

const char *post_kind_word(enum post_kind k)
{
	return (unsigned)k < N_KINDS ? kind_words[k] : "?";
}

char *worker_post_encode(const worker_post *post)
{
	cJSON *root = cJSON_CreateObject();

	assert((unsigned)post->kind < N_KINDS && (unsigned)post->status < N_STATUSES);
	json_put_string(root, "name", post->worker);
	json_put_string(root, "namespace", post->ns);
	json_put_string(root, "ownerName", post->job);
	json_put_string(root, "ownerKind", "incrementallearningjob");
	json_put_string(root, "kind", kind_words[post->kind]);
	if (post->status != POST_NO_STATUS)
		json_put_string(root, "status", status_words[post->status]);
	write__models(root, "results", post->results, post->n_results);
	write__copy(root, "ownerInfo", post->owner_info);
	return write__end(root);
}

void worker_post_free(worker_post *post)
{
	if (post != NULL)
		arena_free(post->mem);
}
