/* The store: what was committed is there after a restart, whole or not at all; what is damaged is dropped or set aside, never believed. */
#include "tests/unit/store_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>
#include <unistd.h>

static void round_trip(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	edge_agent *a = restore(s);
	record *r = make_record("u1", 4, 3);
	const record *back;

	assert_true(fresh);
	edge_agent_free(a);
	assert_int_equal(put(s, r, NULL), 0);
	store_close(s);

	s = open_store(p, &fresh);
	assert_false(fresh);
	a = restore(s);
	back = edge_agent_record(a, "u1");
	assert_non_null(back);
	assert_string_equal(back->document, r->document);
	assert_true(back->has_alloc);
	assert_memory_equal(&back->alloc, &r->alloc, sizeof r->alloc);
	assert_int_equal(back->n_rows, 3);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(back->rows[i].position.round, 4 + (int)i);
		assert_int_equal(back->rows[i].seq, 1 + (int)i);
		assert_int_equal(back->rows[i].from, (int)i);
		assert_false(back->rows[i].settled);
		assert_string_equal(back->rows[i].payload, "{\"v\":1}");
	}
	edge_agent_free(a);
	store_close(s);
	record_free(r);
}

static void rows_that_left_the_record_are_dropped(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	record *three = make_record("u1", 4, 3), *one = make_record("u1", 4, 1);
	edge_change drop = {.kind = CHANGE_DROP_JOB, .uid = "u1"};
	size_t rows;

	assert_int_equal(put(s, three, NULL), 0);
	assert_int_equal(put_over(s, three, one, NULL), 0);
	store_close(s);
	assert_int_equal(stored_round(p, "u1", &rows), 4);
	assert_int_equal(rows, 1);
	s = open_store(p, &fresh);
	assert_int_equal(store_commit(s, &drop, 1, NULL), 0);
	store_close(s);
	assert_int_equal(stored_round(p, "u1", &rows), 0);
	record_free(three);
	record_free(one);
}

static void rows_that_changed_are_written(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	record *before = make_record("u1", 4, 4), *after = make_record("u1", 4, 4);
	const record *stored;
	edge_agent *a;

	after->rows[1].settled = true;
	after->rows[2].seq = 9;
	after->rows[2].payload = "{\"v\":1,\"again\":true}";
	after->rows[3].reason = "TrainFailed";
	assert_int_equal(put(s, before, NULL), 0);
	assert_int_equal(put_over(s, before, after, NULL), 0);
	store_close(s);
	s = open_store(p, &fresh);
	a = restore(s);
	stored = edge_agent_record(a, "u1");
	assert_int_equal(stored->n_rows, 4);
	for (size_t i = 0; i < 4; i++) {
		const outbox_row *row = record_row(stored, 4 + (int64_t)i, STAGE_TRAIN, REPORT_READY);

		assert_int_equal(row->settled, i == 1);
		assert_int_equal(row->seq, i == 2 ? 9 : (int)i + 1);
		assert_string_equal(row->payload, after->rows[i].payload);
		assert_string_equal(row->reason ? row->reason : "", i == 3 ? "TrainFailed" : "");
	}
	edge_agent_free(a);
	store_close(s);
	record_free(before);
	record_free(after);
}

static void all_changes_or_none(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	record *r = make_record("u1", 4, 1);
	edge_change changes[] = {{.kind = CHANGE_PUT_JOB, .uid = "u1", .record = r}, {.kind = (enum edge_change_kind)99}};
	size_t rows;

	assert_int_equal(store_commit(s, changes, 2, NULL), ERROR_INTERNAL);
	store_close(s);
	assert_int_equal(stored_round(p, "u1", &rows), 0);
	record_free(r);
}

static void one_process_at_a_time(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh), *second = NULL;
	error err = {0};

	assert_int_equal(store_open(p->path, "edge-1", &second, &fresh, &err), ERROR_EXISTS);
	assert_non_null(strstr(err.text, "is in use by another agent (process"));
	store_close(s);
	assert_int_equal(store_open(p->path, "edge-1", &second, &fresh, &err), 0);
	store_close(second);
}

static bool exists(const struct place *p, const char *suffix)
{
	char *path = mem_printf("%s%s", p->path, suffix);
	bool there = access(path, F_OK) == 0;

	free(path);
	return there;
}

static void another_nodes_store_is_set_aside(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	record *r = make_record("u1", 4, 1);
	edge_agent *a = restore(s);

	assert_int_equal(put(s, r, NULL), 0);
	edge_agent_free(a);
	store_close(s);
	assert_int_equal(store_open(p->path, "edge-2", &s, &fresh, NULL), 0);
	assert_true(fresh);
	assert_true(exists(p, ".node-1"));
	a = restore(s);
	assert_null(edge_agent_record(a, "u1"));
	edge_agent_free(a);
	store_close(s);
	record_free(r);
}

static void sql(const struct place *p, const char *text)
{
	sqlite3 *db;
	char *message = NULL;

	assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
	if (sqlite3_exec(db, text, NULL, NULL, &message) != SQLITE_OK)
		fail_msg("%s: %s", text, message);
	sqlite3_close(db);
}

static void newer_schema_is_left_alone(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	error err = {0};

	store_close(s);
	sql(p, "PRAGMA user_version = 3");
	assert_int_equal(store_open(p->path, "edge-1", &s, &fresh, &err), ERROR_UNSUPPORTED);
	assert_non_null(strstr(err.text, "has schema 3"));
	assert_false(exists(p, ".bad-1"));
	sql(p, "PRAGMA user_version = 2");
	s = open_store(p, &fresh);
	assert_false(fresh);
	store_close(s);
}

static const char *kept_rows(struct place *p)
{
	static char text[400];
	sqlite3 *db;
	sqlite3_stmt *st;

	text[0] = '\0';
	assert_int_equal(sqlite3_open(p->path, &db), SQLITE_OK);
	assert_int_equal(sqlite3_prepare_v2(db, "SELECT namespace || '/' || job || '/' || kind FROM provisional ORDER BY 1", -1, &st, NULL),
		SQLITE_OK);
	while (sqlite3_step(st) == SQLITE_ROW)
		snprintf(text + strlen(text), sizeof text - strlen(text), "%s ", (const char *)sqlite3_column_text(st, 0));
	sqlite3_finalize(st);
	sqlite3_close(db);
	return text;
}

static int64_t kept_by(store *s)
{
	edge_agent *a = restore(s);
	edge_counters counters;

	edge_agent_counters(a, &counters);
	edge_agent_free(a);
	return counters.provisional;
}

static provisional early_result(char *job, enum post_kind kind)
{
	static char worker[] = "w", ns[] = "ns", body[2][300];

	snprintf(body[kind], sizeof body[kind],
		"{\"name\":\"w\",\"namespace\":\"ns\",\"ownerName\":\"job\",\"ownerKind\":\"incrementallearningjob\",\"kind\":\"%s\","
		"\"status\":\"completed\",\"results\":[{\"format\":\"pb\",\"url\":\"/m\"}]}",
		post_kind_word(kind));
	return (provisional){.worker = worker, .ns = ns, .job = job, .kind = kind, .body = body[kind]};
}

static void early_results_of_one_worker(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	char job_name[] = "job", other_name[] = "other";
	provisional train = early_result(job_name, POST_TRAIN);
	provisional eval = early_result(job_name, POST_EVAL);
	provisional other = early_result(other_name, POST_EVAL);
	edge_change put_all[] = {{.kind = CHANGE_PUT_PROVISIONAL, .provisional = &train},
		{.kind = CHANGE_PUT_PROVISIONAL, .provisional = &eval}, {.kind = CHANGE_PUT_PROVISIONAL, .provisional = &other}};
	edge_change drop = {.kind = CHANGE_DROP_PROVISIONAL, .provisional = &eval};

	assert_int_equal(store_commit(s, put_all, 3, NULL), 0);
	assert_int_equal(store_commit(s, put_all, 1, NULL), 0);
	assert_int_equal(kept_by(s), 3);
	assert_int_equal(store_commit(s, &drop, 1, NULL), 0);
	assert_int_equal(kept_by(s), 2);
	store_close(s);
	assert_string_equal(kept_rows(p), "ns/job/train ns/other/eval ");
}

/* Schema 1 held one early result for each worker's name. */
static void a_store_of_schema_1_is_taken_over(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	char job_name[] = "job";
	provisional early = early_result(job_name, POST_TRAIN);
	edge_change put_early = {.kind = CHANGE_PUT_PROVISIONAL, .provisional = &early};

	assert_int_equal(store_commit(s, &put_early, 1, NULL), 0);
	store_close(s);
	sql(p,
		"ALTER TABLE provisional RENAME TO newer;"
		"CREATE TABLE provisional(worker TEXT PRIMARY KEY, namespace TEXT NOT NULL, job TEXT NOT NULL, body TEXT NOT NULL,"
		" uptime INTEGER NOT NULL, sum INTEGER NOT NULL);"
		"INSERT INTO provisional SELECT worker, namespace, job, body, uptime, sum FROM newer; DROP TABLE newer;"
		"INSERT INTO provisional VALUES('x', 'ns', 'damaged', '{', 0, 0); PRAGMA user_version = 1");
	s = open_store(p, &fresh);
	assert_false(fresh);
	assert_int_equal(kept_by(s), 1);
	put_early.kind = CHANGE_DROP_PROVISIONAL;
	assert_int_equal(store_commit(s, &put_early, 1, NULL), 0);
	assert_int_equal(kept_by(s), 0);
	store_close(s);
	s = open_store(p, &fresh);
	assert_int_equal(kept_by(s), 0);
	store_close(s);
}

/* A file of 0 bytes holds no store yet: somebody made it, or a run ended before it wrote anything. */
static void an_empty_file_is_a_new_store(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s;

	assert_int_equal(file_write(p->path, "", 0, 0600, NULL), 0);
	s = open_store(p, &fresh);
	assert_true(fresh);
	store_close(s);
	s = open_store(p, &fresh);
	assert_false(fresh);
	store_close(s);
}

static void foreign_file_is_set_aside(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s;

	sql(p, "CREATE TABLE recipes(name TEXT)");
	s = open_store(p, &fresh);
	assert_true(fresh);
	assert_true(exists(p, ".bad-1"));
	store_close(s);
	assert_int_equal(file_write(p->path, "this is no database at all", 26, 0600, NULL), 0);
	s = open_store(p, &fresh);
	assert_true(fresh);
	assert_true(exists(p, ".bad-2"));
	store_close(s);
}

/* A row that was changed on the disk without SQLite's noticing is as good as lost; the others are not. */
static void a_damaged_row_is_dropped_alone(void **state)
{
	struct place *p = *state;
	static const struct {
		const char *damage;
		int64_t round;
		size_t rows;
	} cases[] = {
		{"UPDATE report SET payload = '{\"v\":2}' WHERE round = 5", 4, 2},
		{"UPDATE report SET settled = 1 WHERE round = 4", 4, 2},
		{"UPDATE report SET stage = 'Bake' WHERE round = 6", 4, 2},
		{"UPDATE job SET document = replace(document, '\"round\":4', '\"round\":9')", 0, 0},
		{"UPDATE job SET state = '{'", 0, 0},
		{"UPDATE meta SET value = 'edge-1' WHERE key = 'store'", 4, 3},
	};

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		bool fresh;
		store *s = open_store(p, &fresh);
		record *r = make_record("u1", 4, 3);
		size_t rows;

		edge_agent_free(restore(s));
		assert_int_equal(put(s, r, NULL), 0);
		store_close(s);
		sql(p, cases[i].damage);
		assert_int_equal(stored_round(p, "u1", &rows), cases[i].round);
		assert_int_equal(rows, cases[i].rows);
		record_free(r);
	}
}

static void read_all(const char *path, buf *out)
{
	buf_clear(out);
	if (access(path, F_OK) == 0)
		assert_int_equal(file_read(path, 64 << 20, out, NULL), 0);
}

/* Random bytes over each page in turn: it opens all the same, with the record or as new, and never with half of one. */
static void damaged_pages(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	record *r = make_record("u1", 4, 3);
	buf whole = {0};
	int set_aside = 0;

	edge_agent_free(restore(s));
	assert_int_equal(put(s, r, NULL), 0);
	store_close(s);
	read_all(p->path, &whole);
	assert_true(whole.len >= 4096 * 3);
	for (size_t page = 0; page * 4096 < whole.len; page++) {
		char *bad = mem_strndup("", 0);
		size_t rows;
		int64_t round;

		bad = mem_resize(bad, whole.len);
		memcpy(bad, whole.data, whole.len);
		for (size_t i = 0; i < 64; i++)
			bad[page * 4096 + (page ? 0 : 100) + i] = (char)(i * 73 + page);
		assert_int_equal(file_write(p->path, bad, whole.len, 0600, NULL), 0);
		round = stored_round(p, "u1", &rows);
		assert_true(round == 0 || round == 4);
		assert_true(rows <= 3);
		if (exists(p, ".bad-1"))
			set_aside++;
		free(bad);
	}
	assert_true(set_aside > 0);
	buf_fini(&whole);
	record_free(r);
}

/* A power cut: the WAL ends anywhere. What is read is one of the commits, and of one commit all. */
static void the_wal_ends_anywhere(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	char *wal_path = mem_printf("%s-wal", p->path), *shm_path = mem_printf("%s-shm", p->path);
	buf db = {0}, wal = {0};
	int64_t last = 0, seen = 0;
	record *before = NULL;

	edge_agent_free(restore(s));
	for (int64_t round = 1; round <= 6; round++) {
		record *r = make_record("u1", round, (int)round);

		assert_int_equal(put_over(s, before, r, NULL), 0);
		record_free(before);
		before = r;
	}
	record_free(before);
	read_all(p->path, &db);
	read_all(wal_path, &wal);
	store_close(s);
	assert_true(wal.len > 4096 * 6);
	/* Inside frames (24 + 4096 bytes each) as well as at their ends. */
	for (size_t cut = 32; cut <= wal.len; cut += 1373) {
		size_t rows;
		int64_t round;

		assert_int_equal(file_write(p->path, db.data, db.len, 0600, NULL), 0);
		assert_int_equal(file_write(wal_path, wal.data, cut, 0600, NULL), 0);
		unlink(shm_path);
		round = stored_round(p, "u1", &rows);
		assert_true(round >= last && round <= 6);
		assert_int_equal(rows, (size_t)round); /* as many rows as its round: of one commit all */
		seen += round != last;
		last = round;
		assert_false(exists(p, ".bad-1"));
	}
	assert_true(last >= 5 && seen >= 4);
	buf_fini(&db);
	buf_fini(&wal);
	free(wal_path);
	free(shm_path);
}

/* However much is written, the WAL is emptied again and again: it has a bound of its own, whatever the disk's. */
static void the_wal_stays_small(void **state)
{
	enum { COMMITS = 150, LARGEST = 512 * 1024 };
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	char *wal_path = mem_printf("%s-wal", p->path);
	record *before = NULL;
	off_t last = 0;
	int emptied = 0;

	edge_agent_free(restore(s));
	for (int64_t round = 1; round <= COMMITS; round++) {
		record *r = make_record("u1", round, 6);
		struct stat st;

		assert_int_equal(put_over(s, before, r, NULL), 0);
		record_free(before);
		before = r;
		assert_int_equal(stat(wal_path, &st), 0);
		assert_true(st.st_size <= LARGEST);
		emptied += st.st_size == last;
		last = st.st_size;
	}
	assert_true(emptied > COMMITS / 2); /* it is written over from its beginning: nearly no commit makes it longer */
	record_free(before);
	store_close(s);
	free(wal_path);
}

/* ---- a disk that is full ---- */

static int writes_left;
static ssize_t (*real_pwrite)(int, const void *, size_t, off_t);

static ssize_t failing_pwrite(int fd, const void *data, size_t len, off_t offset)
{
	if (writes_left == 0) {
		errno = ENOSPC;
		return -1;
	}
	if (writes_left > 0)
		writes_left--;
	return real_pwrite(fd, data, len, offset);
}

static void a_full_disk_at_every_write(void **state)
{
	struct place *p = *state;
	sqlite3_vfs *vfs = sqlite3_vfs_find(NULL);
	const char *name = vfs->xGetSystemCall(vfs, "pwrite64") ? "pwrite64" : "pwrite";
	bool fresh;
	store *s = open_store(p, &fresh);
	record *before = make_record("u1", 1, 1), *after = make_record("u1", 2, 2);
	int failures = 0, code;
	size_t rows;

	real_pwrite = (ssize_t(*)(int, const void *, size_t, off_t))vfs->xGetSystemCall(vfs, name);
	edge_agent_free(restore(s));
	assert_int_equal(put(s, before, NULL), 0);
	vfs->xSetSystemCall(vfs, name, (sqlite3_syscall_ptr)failing_pwrite);
	for (int n = 0;; n++) {
		error err = {0};

		writes_left = n;
		code = put_over(s, before, after, &err);
		writes_left = -1;
		if (code == 0)
			break;
		assert_int_equal(code, ERROR_NO_SPACE);
		failures++;
		/* Usable, and as before: the same record is put without any write that changes it. */
		assert_int_equal(put_over(s, before, before, NULL), 0);
	}
	vfs->xSetSystemCall(vfs, name, NULL);
	assert_true(failures > 0);
	store_close(s);
	assert_int_equal(stored_round(p, "u1", &rows), 2);
	assert_int_equal(rows, 2);
	record_free(before);
	record_free(after);
}

static bool keep_csv(void *ctx, const char *url, enum dataset_format format)
{
	(void)ctx;
	(void)url;
	return format == FORMAT_CSV;
}

static void scan_states(void **state)
{
	struct place *p = *state;
	bool fresh;
	store *s = open_store(p, &fresh);
	char *text;

	assert_int_equal(store_scan_load(s, "/a", FORMAT_TXT, &text, NULL), 0);
	assert_null(text);
	assert_int_equal(store_scan_save(s, "/a", FORMAT_TXT, "one", NULL), 0);
	assert_int_equal(store_scan_save(s, "/a", FORMAT_CSV, "two", NULL), 0);
	assert_int_equal(store_scan_save(s, "/a", FORMAT_TXT, "three", NULL), 0);
	store_close(s);
	s = open_store(p, &fresh);
	assert_int_equal(store_scan_load(s, "/a", FORMAT_TXT, &text, NULL), 0);
	assert_string_equal(text, "three");
	free(text);
	assert_int_equal(store_scan_prune(s, keep_csv, NULL, NULL), 0);
	assert_int_equal(store_scan_load(s, "/a", FORMAT_TXT, &text, NULL), 0);
	assert_null(text);
	assert_int_equal(store_scan_load(s, "/a", FORMAT_CSV, &text, NULL), 0);
	assert_string_equal(text, "two");
	free(text);
	store_close(s);
	sql(p, "UPDATE scan SET state = 'zwei'");
	s = open_store(p, &fresh);
	assert_int_equal(store_scan_load(s, "/a", FORMAT_CSV, &text, NULL), 0);
	assert_null(text);
	store_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(round_trip, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(rows_that_left_the_record_are_dropped, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(rows_that_changed_are_written, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(all_changes_or_none, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(one_process_at_a_time, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(another_nodes_store_is_set_aside, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(newer_schema_is_left_alone, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(early_results_of_one_worker, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(a_store_of_schema_1_is_taken_over, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(an_empty_file_is_a_new_store, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(foreign_file_is_set_aside, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(a_damaged_row_is_dropped_alone, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(damaged_pages, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(the_wal_ends_anywhere, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(the_wal_stays_small, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(a_full_disk_at_every_write, place_setup, place_teardown),
		cmocka_unit_test_setup_teardown(scan_states, place_setup, place_teardown),
	};

	mem_init();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
