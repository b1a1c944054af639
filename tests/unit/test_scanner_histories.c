/* The scanner against a slow reference, through random histories of a file: appended to, cut anywhere, emptied, replaced, and restarts of the agent.
 *
 * A history is some forty real files, which costs a disk more than the scanner: 60 here; ILMARE_TEST_HISTORIES says how many, and among the
 * integration tests it is 1,000. */
#include "tests/unit/scanner_kit.h"

#include "tests/unit/splitter_reference.h"

enum { HISTORIES_DEFAULT = 60 };

typedef struct history {
	uint32_t seed;
	const char *path;
	enum dataset_format format;
	scanner *scanner;
	buf content;        /* what is in the file */
	int next;           /* number of the next sample to be written */
	buf pending;        /* of it, what was not written yet */
	int64_t generation; /* as seen last */
	dataset_point cursor;
	buf before_cursor; /* the bytes that the cursor stands for */
	int last_taken;    /* number of the last sample taken */
} history;

static uint32_t draw(history *h, uint32_t n)
{
	h->seed = h->seed * 1664525u + 1013904223u;
	return (h->seed >> 8) % n;
}

static void write_sample(history *h)
{
	h->next++;
	if (h->format == FORMAT_CSV && draw(h, 3) == 0)
		buf_printf(&h->pending, "%d,\"two\nlines, \"\"%d\"\"\"\r\n", h->next, h->next);
	else
		buf_printf(&h->pending, "%d,%.*s\n", h->next, (int)draw(h, 40), "a path of some length, and a label of it");
	if (draw(h, 10) == 0)
		buf_puts(&h->pending, "\n");
}

/* Append a part of what is pending, cut anywhere. */
static void append_some(history *h)
{
	for (uint32_t n = draw(h, 8); n > 0; n--)
		write_sample(h);
	size_t len = draw(h, 3) == 0 ? h->pending.len : draw(h, (uint32_t)h->pending.len + 1);
	kit_put(h->path, O_APPEND, buf_text(&h->pending), len);
	buf_add(&h->content, buf_text(&h->pending), len);
	unit_drop(&h->pending, len);
}

/* A new file or the same one emptied; samples not taken are gone. */
static void start_over(history *h, bool in_place)
{
	buf_clear(&h->content);
	buf_clear(&h->pending);
	if (h->format == FORMAT_CSV)
		buf_puts(&h->content, "number,text\n");
	if (in_place)
		kit_rewrite(h->path, buf_text(&h->content));
	else
		kit_replace(h->path, buf_text(&h->content), h->content.len);
}

static void restart(history *h, bool with_state)
{
	if (with_state) {
		h->scanner = kit_restarted(h->path, h->format, h->scanner);
	} else {
		scanner_free(h->scanner);
		h->scanner = scanner_new(h->path, h->format, LINE_MAX_DEFAULT);
	}
}

static void assert_view_is_right(history *h, const scan_view *v, const reference *r)
{
	int64_t size = r->n > 0 ? r->to[r->n - 1] : 0;
	digest d;
	chain *c = chain_new();
	chain_add(c, buf_text(&h->content), (size_t)size);
	chain_value(c, &d);
	chain_free(c);
	assert_int_equal(v->end.samples, r->n);
	assert_int_equal(v->end.size, size);
	assert_true(digest_equal(&v->end.digest, &d));
	assert_int_equal(v->waiting_bytes, r->waiting);
	assert_int_equal(v->file_size, h->content.len);
}

/* Where reading goes on in the file, by the digest, compared with where it must by the bytes. */
static dataset_point find_cursor(history *h)
{
	dataset_point at = {0};
	bool matched = kit_locate_all(h->scanner, &h->cursor, &at) == LOCATE_MATCHED;
	bool same =
		h->content.len >= h->before_cursor.len && memcmp(buf_text(&h->content), buf_text(&h->before_cursor), h->before_cursor.len) == 0;
	assert_int_equal(matched, same);
	if (!matched)
		return (dataset_point){0};
	assert_int_equal(at.size, h->cursor.size);
	assert_int_equal(at.samples, h->cursor.samples);
	return at;
}

static void take_round(history *h, const reference *r)
{
	dataset_point begin = find_cursor(h), end;
	error err = {0};
	int64_t limit = draw(h, 2) == 0 ? 0 : (int64_t)draw(h, 200) + 1;
	if (scanner_range_end(h->scanner, begin.size, begin.samples, limit, NULL, &end, &err) != 0)
		fail_msg("%s", err.text);
	assert_true(limit == 0 || end.size - begin.size <= limit || end.samples <= begin.samples + 1);
	assert_true(end.samples > begin.samples || begin.samples == (int64_t)r->n);
	for (int64_t i = begin.samples; i < end.samples; i++) {
		int number = atoi(buf_text(&h->content) + r->from[i]);
		assert_true(number > h->last_taken); /* nothing twice */
		h->last_taken = number;
	}
	assert_int_equal(end.size, end.samples > 0 ? r->to[end.samples - 1] : 0);
	h->cursor = end;
	buf_clear(&h->before_cursor);
	buf_add(&h->before_cursor, buf_text(&h->content), (size_t)end.size);
}

static void step(history *h)
{
	switch (draw(h, 12)) {
	case 0:
		start_over(h, draw(h, 2) == 0);
		break;
	case 1: /* another file with the same beginning */
		kit_replace(h->path, buf_text(&h->content), h->content.len);
		break;
	case 2:
		restart(h, true);
		break;
	case 3:
		restart(h, false);
		break;
	default:
		append_some(h);
	}
	if (draw(h, 3) == 0)
		return; /* several things between two looks */
	reference r;
	scan_view v;
	do {
		assert_int_equal(scanner_look(h->scanner, 1 + draw(h, 300)), 0);
		scanner_view(h->scanner, &v);
	} while (v.more);
	reference_split(&r, h->format, LINE_MAX_DEFAULT, buf_text(&h->content), h->content.len);
	assert_view_is_right(h, &v, &r);
	if (draw(h, 2) == 0)
		take_round(h, &r);
	reference_free(&r);
}

/* The last samples, which nothing takes away, must all be taken, in order, and the very last one too. */
static void finish(history *h)
{
	reference r;
	kit_put(h->path, O_APPEND, buf_text(&h->pending), h->pending.len);
	buf_add(&h->content, buf_text(&h->pending), h->pending.len);
	reference_split(&r, h->format, LINE_MAX_DEFAULT, buf_text(&h->content), h->content.len);
	(void)kit_look(h->scanner);
	int before;
	do {
		before = h->last_taken;
		take_round(h, &r);
	} while (h->last_taken > before);
	assert_int_equal(h->cursor.samples, r.n);
	reference_free(&r);
}

static void random_histories(void **state)
{
	fixture *f = *state;
	const char *many = getenv("ILMARE_TEST_HISTORIES");
	uint32_t n_histories = many != NULL ? (uint32_t)strtoul(many, NULL, 10) : HISTORIES_DEFAULT;
	for (uint32_t i = 0; i < n_histories; i++) {
		history h = {.seed = i, .path = f->path, .format = i % 2 == 0 ? FORMAT_TXT : FORMAT_CSV};
		h.scanner = scanner_new(f->path, h.format, LINE_MAX_DEFAULT);
		start_over(&h, true);
		for (int n = 0; n < 40; n++)
			step(&h);
		finish(&h);
		scanner_free(h.scanner);
		buf_fini(&h.content);
		buf_fini(&h.pending);
		buf_fini(&h.before_cursor);
	}
}

int main(void)
{
	mem_init();
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_histories, kit_setup, kit_teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
