/* The device in memory: see edge_harness.h. */
#include "tests/unit/edge_harness.h"

#include "common/log.h"

/* ---- life ---- */

static void session_new(bench *b)
{
	snprintf(b->session, sizeof(b->session), "session-%d", ++b->sessions);
	b->config.session = b->session;
}

static void agent_begin(bench *b)
{
	session_new(b);
	b->agent = edge_agent_new(&b->config);
	edge_agent_restore_meta(b->agent, &b->meta);
	for (size_t i = 0; i < b->n_jobs; i++)
		edge_agent_restore_job(b->agent, record_copy(b->jobs[i]));
	for (size_t i = 0; i < b->n_datasets; i++)
		edge_agent_restore_dataset(b->agent, b->datasets[i], strlen(b->datasets[i]));
	for (size_t i = 0; i < b->n_kept; i++)
		edge_agent_restore_provisional(b->agent, &b->kept[i]);
	if (b->keys_kept != NULL)
		edge_agent_restore_credentials(b->agent, b->keys_kept, strlen(b->keys_kept));
	edge_agent_start(b->agent, b->now);
	b->watched = false;
	if (b->linked)
		edge_agent_link(b->agent, true, b->now);
}

static void store_begin(bench *b)
{
	memset(&b->meta, 0, sizeof(b->meta));
	snprintf(b->meta.node, sizeof(b->meta.node), NODE);
	snprintf(b->meta.store, sizeof(b->meta.store), "store-%d", b->sessions);
}

void bench_init_with(bench *b, void (*change)(edge_config *c))
{
	mem_init();
	log_init("test", LOG_ERROR);
	memset(b, 0, sizeof(*b));
	edge_config_init(&b->config);
	b->config.node = NODE;
	b->config.version = "1.0";
	b->config.seed = 7;
	if (change != NULL)
		change(&b->config);
	b->now = (moment){.mono_ms = 1000, .unix_ms = INT64_C(1796008260000), .minute = 600};
	b->generation = b->version = 1;
	b->stamp = (stamp){.epoch = 100};
	store_begin(b);
	agent_begin(b);
}

void bench_init(bench *b)
{
	bench_init_with(b, NULL);
}

static void store_end(bench *b)
{
	for (size_t i = 0; i < b->n_jobs; i++)
		record_free(b->jobs[i]);
	for (size_t i = 0; i < b->n_datasets; i++) {
		free(b->dataset_uids[i]);
		free(b->datasets[i]);
	}
	for (size_t i = 0; i < b->n_kept; i++) {
		free(b->kept[i].worker);
		free(b->kept[i].ns);
		free(b->kept[i].job);
		free(b->kept[i].body);
	}
	b->n_jobs = b->n_datasets = b->n_kept = 0;
	store_meta_fini(&b->meta);
}

void bench_quiet(bench *b)
{
	for (size_t i = 0; i < b->n_out; i++) {
		free(b->out[i].topic);
		free(b->out[i].payload);
	}
	b->n_out = 0;
}

void bench_fini(bench *b)
{
	edge_agent_free(b->agent);
	store_end(b);
	bench_quiet(b);
	free(b->question.topic);
	free(b->question.payload);
	free(b->question.response_topic);
	free(b->keys_kept);
}

void bench_restart(bench *b)
{
	edge_agent_free(b->agent);
	b->n_held = 0;
	agent_begin(b);
}

void bench_lose_store(bench *b)
{
	store_end(b);
	store_begin(b);
	bench_restart(b);
}

/* ---- the store ---- */

static size_t job_index(const bench *b, const char *uid)
{
	size_t i = 0;

	while (i < b->n_jobs && strcmp(b->jobs[i]->desired->job.uid, uid) != 0)
		i++;
	return i;
}

static void job_drop(bench *b, const char *uid)
{
	size_t i = job_index(b, uid);

	if (i == b->n_jobs)
		return;
	record_free(b->jobs[i]);
	b->jobs[i] = b->jobs[--b->n_jobs];
}

static void dataset_drop(bench *b, const char *uid)
{
	for (size_t i = 0; i < b->n_datasets; i++) {
		if (strcmp(b->dataset_uids[i], uid) != 0)
			continue;
		free(b->dataset_uids[i]);
		free(b->datasets[i]);
		b->dataset_uids[i] = b->dataset_uids[--b->n_datasets];
		b->datasets[i] = b->datasets[b->n_datasets];
		return;
	}
}

static void kept_drop(bench *b, const provisional *p)
{
	for (size_t i = 0; i < b->n_kept; i++) {
		if (!provisional_same(&b->kept[i], p))
			continue;
		free(b->kept[i].worker);
		free(b->kept[i].ns);
		free(b->kept[i].job);
		free(b->kept[i].body);
		b->kept[i] = b->kept[--b->n_kept];
		return;
	}
}

static void meta_put(bench *b, const store_meta *m)
{
	store_meta_fini(&b->meta);
	b->meta = *m;
	b->meta.jobs = mem_alloc((m->n_jobs + 1) * sizeof(char *));
	b->meta.datasets = mem_alloc((m->n_datasets + 1) * sizeof(char *));
	for (size_t i = 0; i < m->n_jobs; i++)
		b->meta.jobs[i] = mem_strdup(m->jobs[i]);
	for (size_t i = 0; i < m->n_datasets; i++)
		b->meta.datasets[i] = mem_strdup(m->datasets[i]);
}

static void change_apply(bench *b, const edge_change *c)
{
	switch (c->kind) {
	case CHANGE_PUT_JOB:
		job_drop(b, c->uid);
		b->jobs[b->n_jobs++] = record_copy(c->record);
		break;
	case CHANGE_DROP_JOB:
		job_drop(b, c->uid);
		break;
	case CHANGE_PUT_META:
		meta_put(b, c->meta);
		break;
	case CHANGE_PUT_DATASET:
		dataset_drop(b, c->uid);
		b->dataset_uids[b->n_datasets] = mem_strdup(c->uid);
		b->datasets[b->n_datasets++] = mem_strdup(c->text);
		break;
	case CHANGE_DROP_DATASET:
		dataset_drop(b, c->uid);
		break;
	case CHANGE_PUT_PROVISIONAL:
		kept_drop(b, c->provisional);
		b->kept[b->n_kept++] = (provisional){.worker = mem_strdup(c->provisional->worker),
			.ns = mem_strdup(c->provisional->ns),
			.job = mem_strdup(c->provisional->job),
			.kind = c->provisional->kind,
			.body = mem_strdup(c->provisional->body),
			.uptime_ms = c->provisional->uptime_ms};
		break;
	case CHANGE_DROP_PROVISIONAL:
		kept_drop(b, c->provisional);
		break;
	}
}

/* ---- the world ---- */

cursor bench_cursor(const bench *b, int64_t sample, int64_t line)
{
	cursor c = {.sample = sample, .size = line * SAMPLE_BYTES};
	char text[64];

	if (line == 0)
		return c;
	snprintf(text, sizeof(text), "%lld/%lld", (long long)b->version, (long long)c.size);
	digest_of(text, strlen(text), &c.digest);
	return c;
}

static folder *folder_find(bench *b, const char *output_dir, int64_t round)
{
	for (size_t i = 0; i < b->n_folders; i++) {
		folder *f = &b->folders[i];

		if (!f->moved_aside && f->round == round && strcmp(f->output_dir, output_dir) == 0)
			return f;
	}
	return NULL;
}

static void locate(bench *b, const edge_action *x, edge_result *out)
{
	int64_t line = x->sample.cursor.size / SAMPLE_BYTES;
	cursor here = bench_cursor(b, x->sample.cursor.sample, line);

	out->locate.generation = b->generation;
	out->locate.matched = line <= b->samples && cursor_equal(&here, &x->sample.cursor);
	if (out->locate.matched) {
		out->locate.line = line;
		out->locate.offset = x->sample.cursor.size;
	}
}

static void measure(bench *b, const edge_action *x, edge_result *out)
{
	int64_t n = b->samples - x->sample.line;

	if (x->sample.bytes_max > 0 && n > x->sample.bytes_max / SAMPLE_BYTES)
		n = x->sample.bytes_max / SAMPLE_BYTES;
	assert_int_equal(x->sample.offset, x->sample.line * SAMPLE_BYTES);
	out->measure.generation = b->generation;
	out->measure.end = bench_cursor(b, x->sample.cursor.sample + n, x->sample.line + n);
}

static void folder_write(bench *b, const edge_action *x, edge_result *out)
{
	const allocation *al = &x->round.alloc;
	folder *f = folder_find(b, x->round.output_dir, x->round.round);
	cursor end = bench_cursor(b, al->range.to, x->round.line + al->range.to - al->range.from);

	if (f != NULL && strcmp(f->manifest.uid, x->round.uid) == 0 && f->manifest.begin.sample == al->begin.sample) {
		out->round.manifest = f->manifest;
		return;
	}
	if (f != NULL && !x->round.may_move_aside) {
		*out = (edge_result){.code = ERROR_EXISTS, .text = "the folder is another one's"};
		return;
	}
	if (!cursor_equal(&end, &al->range.end)) {
		*out = (edge_result){.code = ERROR_CHANGED};
		return;
	}
	if (f != NULL)
		f->moved_aside = true;
	f = &b->folders[b->n_folders++];
	*f = (folder){.round = x->round.round, .written = 1};
	snprintf(f->output_dir, sizeof(f->output_dir), "%s", x->round.output_dir);
	snprintf(f->manifest.uid, sizeof(f->manifest.uid), "%s", x->round.uid);
	f->manifest.round = x->round.round;
	f->manifest.range = al->range;
	f->manifest.begin = al->begin;
	out->round.manifest = f->manifest;
}

static void look(bench *b, const edge_action *x, edge_result *out)
{
	const folder *f = folder_find(b, x->round.output_dir, x->round.round);

	out->round.found = f != NULL;
	if (f != NULL)
		out->round.manifest = f->manifest;
}

static void deploy(bench *b, const edge_action *x, edge_result *out)
{
	assert_true(x->deploy.n > 0);
	snprintf(b->in_place, sizeof(b->in_place), "%s", x->deploy.copies[0].from.url);
	b->copies++;
	digest_of(b->in_place, strlen(b->in_place), &out->deploy.sha256);
	b->back = x->deploy.back;
	b->of = x->deploy.of;
	b->of_sha256 = x->deploy.of_sha256;
	out->deploy.versions = b->versions;
	out->deploy.n_versions = b->n_versions;
}

/* ---- actions ---- */

static void said_add(bench *b, const edge_action *x)
{
	assert_true(b->n_out < sizeof(b->out) / sizeof(b->out[0]));
	assert_true(strlen(x->publish.payload) <= DOCUMENT_MAX);
	b->out[b->n_out++] =
		(said){.topic = mem_strdup(x->publish.topic), .payload = mem_strdup(x->publish.payload), .retained = x->publish.retained};
}

static edge_result perform(bench *b, const edge_action *x)
{
	edge_result out = {0};

	switch (x->kind) {
	case EDGE_COMMIT:
		for (size_t i = 0; i < x->commit.n; i++)
			change_apply(b, &x->commit.changes[i]);
		b->commits++;
		break;
	case EDGE_REPLY:
		assert_int_equal(b->replies[x->reply.post], 0);
		b->replies[x->reply.post] = x->reply.status;
		break;
	case EDGE_PUBLISH:
		said_add(b, x);
		break;
	case EDGE_ASK:
		assert_true(x->ask.correlation_len <= sizeof(b->question.correlation));
		b->question.n++;
		mem_replace(&b->question.topic, x->ask.topic);
		mem_replace(&b->question.payload, x->ask.payload);
		mem_replace(&b->question.response_topic, x->ask.response_topic);
		memcpy(b->question.correlation, x->ask.correlation, x->ask.correlation_len);
		b->question.correlation_len = x->ask.correlation_len;
		break;
	case EDGE_KEEP:
		mem_replace(&b->keys_kept, x->keep.text);
		b->keeps++;
		break;
	case EDGE_LOCATE:
		locate(b, x, &out);
		break;
	case EDGE_MEASURE:
		measure(b, x, &out);
		break;
	case EDGE_LOOK:
		look(b, x, &out);
		break;
	case EDGE_WRITE:
		folder_write(b, x, &out);
		break;
	case EDGE_WRITE_EVAL:
		b->evals++;
		break;
	case EDGE_DEPLOY:
		deploy(b, x, &out);
		break;
	}
	return out;
}

static void action_end(bench *b, const edge_action *x, int code)
{
	edge_result result = {.code = code, .text = code != 0 ? "it did not work" : NULL};

	if (code == 0)
		result = perform(b, x);
	if (x->kind != EDGE_REPLY && x->kind != EDGE_PUBLISH)
		edge_agent_done(b->agent, x->id, &result, b->now);
}

void bench_end_held(bench *b, size_t i, int code)
{
	assert_true(i < b->n_held && !b->held[i].ended);
	b->held[i].ended = true;
	action_end(b, &b->held[i].action, code);
}

/* True if the agent was ended here. */
static bool crashes(bench *b, const edge_action *x)
{
	if (++b->steps != b->crash_at)
		return false;
	if (b->fault_commit) {
		b->fail_count[EDGE_COMMIT] = 3;
		return false;
	}
	if (!b->crash_before)
		(void)perform(b, x);
	if (b->fault_store)
		bench_lose_store(b);
	else
		bench_restart(b);
	return true;
}

/* As the shell does: a file that is newly watched is looked at. */
static bool watch_begins(bench *b)
{
	const char *url;
	enum dataset_format format;
	bool watched = false, began;

	for (size_t i = 0; edge_agent_watch(b->agent, i, &url, &format); i++)
		watched |= strcmp(url, URL) == 0 && format == FORMAT_TXT;
	began = watched && !b->watched;
	b->watched = watched;
	if (began)
		bench_view(b);
	return began;
}

static void actions_run(bench *b)
{
	edge_action x;

	for (int n = 0; edge_agent_next(b->agent, b->now, &x); n++) {
		assert_true(n < 1000); /* a turn ends */
		b->asked[x.kind]++;
		b->last = x;
		if (crashes(b, &x))
			continue;
		if (b->hold[x.kind]) {
			b->held[b->n_held++] = (held){.action = x};
		} else if (b->fail_count[x.kind] > 0) {
			b->fail_count[x.kind]--;
			action_end(b, &x, b->fail_code[x.kind]);
		} else {
			action_end(b, &x, 0);
		}
	}
}

void bench_turn(bench *b)
{
	do {
		actions_run(b);
	} while (!b->blind && watch_begins(b));
	assert_true(edge_agent_wake(b->agent) > b->now.mono_ms); /* a deadline that has passed would have been acted on */
}

int64_t bench_wake(bench *b)
{
	int64_t at = edge_agent_wake(b->agent);

	return at == MOMENT_NEVER ? -1 : at - b->now.mono_ms;
}

void bench_sleep(bench *b, int64_t ms)
{
	int64_t end = b->now.mono_ms + ms;

	bench_turn(b);
	for (;;) {
		int64_t at = edge_agent_wake(b->agent);
		int64_t to = at < end ? at : end;

		b->now.unix_ms += to - b->now.mono_ms;
		b->now.mono_ms = to;
		bench_turn(b);
		if (to == end)
			return;
	}
}

/* ---- the dataset ---- */

void bench_view(bench *b)
{
	dataset_view v = {.looked = true,
		.generation = b->generation,
		.samples = b->samples,
		.size = b->samples * SAMPLE_BYTES,
		.changed_ms = b->changed_ms,
		.error = b->file_error};

	edge_agent_dataset(b->agent, URL, FORMAT_TXT, &v, b->now);
}

void bench_append(bench *b, int64_t n)
{
	b->samples += n;
	b->changed_ms = b->now.unix_ms;
	bench_view(b);
}

void bench_replace(bench *b, int64_t n)
{
	b->generation++;
	b->version++;
	b->samples = n;
	b->changed_ms = b->now.unix_ms;
	bench_view(b);
}
