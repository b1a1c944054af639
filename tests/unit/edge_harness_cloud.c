/* The bench's other half: what the cloud and the workers send, and looking at what came back. */
#include "tests/unit/edge_harness.h"

/* ---- the cloud ---- */

stamp bench_stamp(bench *b)
{
	b->stamp.gen++;
	return b->stamp;
}

int bench_message(bench *b, const char *to, const char *payload)
{
	error err;

	return edge_agent_message(b->agent, to, payload, strlen(payload), b->now, &err);
}

desired bench_desired(const char *uid, int64_t round, enum stage stage, enum phase phase)
{
	static model eval_models[2] = {{.format = "pb", .url = "/out/train/new.pb"}, {.format = "pb", .url = "/models/old.pb"}};
	static deploy_copy copies[1] = {{{.format = "pb", .url = "/out/train/new.pb"}, {.format = "pb", .url = "/models/deploy.pb"}}};
	desired d = {
		.ts = "2026-11-30T04:00:00.000Z",
		.node = NODE,
		.job = {.ns = "ns", .name = "job", .uid = uid},
		.roles = ROLE_DATASET | ROLE_TRAIN | ROLE_EVAL | ROLE_DEPLOY,
		.position = {.round = round, .stage = stage, .phase = phase},
		.has_dataset = true,
		.dataset = {.ns = "ns", .name = "ds", .uid = "ds-1", .url = URL, .format = FORMAT_TXT},
		.train_prob = 1,
		.base = {.format = "pb", .url = "/models/initial.pb"},
		.has_base = true,
		.eval_models = eval_models,
		.n_eval_models = 2,
		.copies = copies,
		.n_copies = 1,
		.train = {.check_period_s = 60, .has_condition = true, .op = OP_GE, .threshold = 1, .metric = "num_of_samples"},
		.deploy = {.check_period_s = 60, .has_condition = true, .op = OP_GT, .threshold = 0, .metric = "acc_delta"},
		.output_dir = OUT,
		.poll_period_s = 60,
	};

	return d;
}

void bench_send_at(bench *b, desired *d, stamp s)
{
	char to[128];
	char *text;

	d->stamp = s;
	text = desired_encode(d);
	snprintf(to, sizeof(to), TOPIC_ROOT "/node/" NODE "/job/%s/%s", d->job.ns, d->job.name);
	assert_int_equal(bench_message(b, to, text), 0);
	free(text);
}

void bench_send(bench *b, desired *d)
{
	bench_send_at(b, d, bench_stamp(b));
	bench_turn(b);
}

static void inventory_send(bench *b, stamp s, const char *session, const char **uids, size_t n)
{
	inventory inv = {.ts = "2026-11-30T04:00:00.000Z", .node = NODE, .stamp = s, .session = session, .jobs = uids, .n_jobs = n};
	const char *datasets[] = {"ds-1"};
	char *text;

	inv.datasets = datasets;
	inv.n_datasets = n > 0 ? 1 : 0;
	text = inventory_encode(&inv);
	assert_int_equal(bench_message(b, TOPIC_ROOT "/node/" NODE "/inventory", text), 0);
	free(text);
}

void bench_inventory(bench *b, const char *session, const char *first, ...)
{
	const char *uids[16];
	size_t n = 0;
	va_list args;

	va_start(args, first);
	for (const char *uid = first; uid != NULL; uid = va_arg(args, const char *))
		uids[n++] = uid;
	va_end(args);
	inventory_send(b, bench_stamp(b), session != NULL ? session : b->session, uids, n);
}

void bench_inventory_at(bench *b, stamp s, const char *session, const char *uid)
{
	inventory_send(b, s, session, &uid, uid != NULL ? 1 : 0);
}

void bench_dataset_doc(bench *b, const char *uid, const char *name, const char *url)
{
	dataset_doc d = {.ts = "2026-11-30T04:00:00.000Z",
		.node = NODE,
		.stamp = bench_stamp(b),
		.dataset = {.ns = "ns", .name = name, .uid = uid, .url = url, .format = FORMAT_TXT}};
	char to[128];
	char *text = dataset_doc_encode(&d);

	snprintf(to, sizeof(to), TOPIC_ROOT "/node/" NODE "/dataset/ns/%s", name);
	assert_int_equal(bench_message(b, to, text), 0);
	free(text);
	bench_turn(b);
	bench_view(b);
	bench_turn(b);
}

void bench_ready(bench *b)
{
	b->linked = true;
	edge_agent_link(b->agent, true, b->now);
	bench_inventory(b, NULL, U1, NULL);
	bench_turn(b);
	assert_true(edge_agent_in_session(b->agent));
}

/* ---- workers ---- */

void bench_worker(enum worker_kind kind, const char *uid, int64_t round, char out[WORKER_NAME_SIZE])
{
	worker_name(kind, uid, round, out);
}

uint64_t bench_post(bench *b, enum post_kind kind, enum post_status status, const char *worker)
{
	return bench_post_of(b, kind, status, worker, "job");
}

uint64_t bench_post_of(bench *b, enum post_kind kind, enum post_status status, const char *worker, const char *job)
{
	static const char *const kinds[] = {"train", "eval", "deploy", "inference"};
	static const char *const statuses[] = {"", "running", "completed", "failed"};
	char body[1024];
	worker_post *post;
	error err;
	int http;

	snprintf(body, sizeof(body),
		"{\"name\":\"%s\",\"namespace\":\"ns\",\"ownerName\":\"%s\",\"ownerKind\":\"incrementallearningjob\",\"kind\":\"%s\","
		"\"status\":\"%s\",\"results\":[{\"format\":\"pb\",\"url\":\"/out/train/new.pb\",\"metrics\":{\"acc\":0.9}}],"
		"\"ownerInfo\":{\"inferenceNumber\":5,\"hardExampleNumber\":2}}",
		worker, job, kinds[kind], statuses[status]);
	if (worker_post_decode(worker, body, strlen(body), &post, &http, &err) != 0)
		fail_msg("%s", err.text);
	assert_true(b->next_post + 1 < BENCH_MAX);
	edge_agent_post(b->agent, ++b->next_post, post, b->now);
	return b->next_post;
}

int bench_completed(bench *b, enum worker_kind kind, int64_t round)
{
	char name[WORKER_NAME_SIZE];
	uint64_t id;

	bench_worker(kind, U1, round, name);
	id = bench_post(b, kind == WORKER_TRAIN ? POST_TRAIN : POST_EVAL, POST_COMPLETED, name);
	bench_turn(b);
	return b->replies[id];
}

/* ---- looking ---- */

const record *bench_job(const bench *b, const char *uid)
{
	for (size_t i = 0; i < b->n_jobs; i++) {
		if (strcmp(b->jobs[i]->desired->job.uid, uid) == 0)
			return b->jobs[i];
	}
	return NULL;
}

const outbox_row *bench_row(const bench *b, int64_t round, enum stage stage, enum report_what what)
{
	const record *r = bench_job(b, U1);

	return r != NULL ? record_row(r, round, stage, what) : NULL;
}

static bool ends(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

int bench_said(const bench *b, const char *topic_end)
{
	int n = 0;

	for (size_t i = 0; i < b->n_out; i++)
		n += ends(b->out[i].topic, topic_end);
	return n;
}

const said *bench_last(const bench *b, const char *topic_end)
{
	for (size_t i = b->n_out; i-- > 0;) {
		if (ends(b->out[i].topic, topic_end))
			return &b->out[i];
	}
	return NULL;
}

report *bench_report(const bench *b, int64_t round, enum stage stage, enum report_what what)
{
	const outbox_row *row = bench_row(b, round, stage, what);
	report *rep;
	error err;

	assert_non_null(row);
	if (report_decode(row->payload, strlen(row->payload), stage, what, &rep, &err) != 0)
		fail_msg("%s", err.text);
	return rep;
}

const folder *bench_folder(const bench *b, int64_t round)
{
	for (size_t i = 0; i < b->n_folders; i++) {
		if (!b->folders[i].moved_aside && b->folders[i].round == round)
			return &b->folders[i];
	}
	return NULL;
}
