/* What the tests of the store share: a place for one, records that are put into it, and what it holds when it is opened again. */
#ifndef TESTS_UNIT_STORE_KIT_H
#define TESTS_UNIT_STORE_KIT_H

#include "tests/unit/unit.h"

#include "edge-agent/store/store.h"

struct place {
	char *dir, *path;
};

static inline int place_setup(void **state)
{
	struct place *p = mem_alloc(sizeof *p);

	p->dir = unit_folder();
	p->path = mem_printf("%s/edge.db", p->dir);
	*state = p;
	return 0;
}

static inline int place_teardown(void **state)
{
	struct place *p = *state;

	unit_folder_remove(p->dir);
	free(p->path);
	free(p);
	return 0;
}

static inline record *make_record(const char *uid, int64_t round, int rows)
{
	record *r = record_new();
	error err = {0};
	desired d = {.ts = "2026-11-30T04:00:00.000Z",
		.stamp = {.epoch = 7, .gen = round},
		.node = "edge-1",
		.job = {.ns = "default", .name = "helmet", .uid = uid},
		.roles = ROLE_DATASET,
		.position = {.round = round, .stage = STAGE_TRAIN, .phase = PHASE_WAITING},
		.has_dataset = true,
		.dataset = {.ns = "default", .name = "d", .uid = "d1", .url = "/data/d.txt", .format = FORMAT_TXT},
		.train_prob = 0.5,
		.train = {.check_period_s = 60},
		.deploy = {.check_period_s = 60},
		.output_dir = "/out"};
	char *text = desired_encode(&d);

	if (record_set_document(r, text, strlen(text), &err) != 0)
		fail_msg("%s", err.text);
	free(text);
	r->has_alloc = true;
	r->alloc.round = round;
	r->alloc.range = (sample_range){.from = 3, .to = 5, .end = {.sample = 5, .size = 50}};
	r->alloc.begin = (cursor){.sample = 3, .size = 30};
	r->rows = arena_alloc(r->mem, (size_t)rows * sizeof *r->rows);
	r->n_rows = (size_t)rows;
	for (int i = 0; i < rows; i++)
		r->rows[i] = (outbox_row){.position = {.round = round + i, .stage = STAGE_TRAIN, .phase = PHASE_READY},
			.what = REPORT_READY,
			.seq = i + 1,
			.from = i,
			.payload = "{\"v\":1}"};
	return r;
}

static inline int put_over(store *s, const record *base, const record *r, error *err)
{
	edge_change change = {.kind = CHANGE_PUT_JOB, .uid = r->desired->job.uid, .record = r, .base = base};

	return store_commit(s, &change, 1, err);
}

static inline int put(store *s, const record *r, error *err)
{
	return put_over(s, NULL, r, err);
}

static inline store *open_store(const struct place *p, bool *fresh)
{
	error err = {0};
	store *s = NULL;

	if (store_open(p->path, "edge-1", &s, fresh, &err) != 0)
		fail_msg("%s", err.text);
	return s;
}

static inline edge_agent *restore(store *s)
{
	edge_config config;
	edge_agent *a;
	error err = {0};

	edge_config_init(&config);
	config.node = "edge-1";
	config.session = "s";
	config.version = "1";
	config.seed = 1;
	a = edge_agent_new(&config);
	if (store_restore(s, a, &err) != 0)
		fail_msg("%s", err.text);
	return a;
}

/* The round that the store holds for uid after it was closed and opened again; 0: it holds none. */
static inline int64_t stored_round(const struct place *p, const char *uid, size_t *rows)
{
	bool fresh;
	store *s = open_store(p, &fresh);
	edge_agent *a = restore(s);
	const record *r = edge_agent_record(a, uid);
	int64_t round = r ? r->desired->position.round : 0;

	*rows = r ? r->n_rows : 0;
	edge_agent_free(a);
	store_close(s);
	return round;
}

#endif
