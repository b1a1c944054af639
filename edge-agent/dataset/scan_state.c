/* scanner_save and scanner_restore: what a scanner knows, as JSON. All of it is said about the end of the last sample, so an unterminated
 * line is simply read again. Device and inode are 64-bit numbers and travel as text.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "edge-agent/dataset/scanner_internal.h"

enum { STATE_VERSION = 1, STATE_MAX = 16 * 1024 };

static void put_u64(cJSON *obj, const char *name, uint64_t value)
{
	char text[24];
	snprintf(text, sizeof text, "%" PRIu64, value);
	json_put_string(obj, name, text);
}

static void put_digest(cJSON *obj, const char *name, const digest *d)
{
	char hex[DIGEST_HEX_SIZE];
	digest_hex(d, hex);
	json_put_string(obj, name, hex);
}

static void put_mark(cJSON *obj, const mark *m)
{
	json_put_int(obj, "size", m->size);
	json_put_int(obj, "samples", m->samples);
	put_digest(obj, "digest", &m->digest);
	put_digest(obj, "block", &m->block);
}

void scanner_save(const scanner *s, buf *out)
{
	cJSON *obj = cJSON_CreateObject(), *list = cJSON_CreateArray();
	int64_t from, to;
	digest tail_digest = s->saved.tail;
	if (s->walk != NULL)
		digest_of(s->walk->end_tail.bytes, s->walk->end_tail.n, &tail_digest);
	scanner__header(s, &from, &to);
	json_put_int(obj, "v", STATE_VERSION);
	json_put_string(obj, "format", dataset_format_name(s->format));
	json_put_int(obj, "lineMax", s->line_max);
	put_u64(obj, "device", s->device);
	put_u64(obj, "inode", s->inode);
	json_put_int(obj, "generation", s->generation);
	put_mark(obj, scanner__end(s));
	json_put_int(obj, "skipped", s->walk != NULL ? s->walk->end_skipped : s->saved.skipped);
	json_put_int(obj, "headerFrom", from);
	json_put_int(obj, "headerTo", to);
	put_digest(obj, "tail", &tail_digest);
	for (size_t i = 0; i < s->marks.n; i++) {
		if (s->marks.at[i].state != MARK_HOLDS)
			continue;
		cJSON *one = cJSON_CreateObject();
		put_mark(one, &s->marks.at[i].mark);
		cJSON_AddItemToArray(list, one);
	}
	json_put(obj, "marks", list);
	char *text = json_print(obj);
	buf_puts(out, text);
	free(text);
	cJSON_Delete(obj);
}

static int missing(error *err, const char *name)
{
	return error_set(err, ERROR_INVALID, "saved state of a dataset: %s is missing", name);
}

static int get_int(const cJSON *obj, const char *name, int64_t *out, error *err)
{
	int r = json_get_int(obj, "state", name, 0, JSON_MAX_INT, out, err);
	return r == 0 ? missing(err, name) : r < 0 ? r : 0;
}

static int get_u64(const cJSON *obj, const char *name, uint64_t *out, error *err)
{
	const char *text;
	char *end;
	int r = json_get_string(obj, "state", name, &text, err);
	if (r <= 0)
		return r == 0 ? missing(err, name) : r;
	errno = 0;
	*out = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0')
		return error_set(err, ERROR_INVALID, "saved state of a dataset: %s is not a number", name);
	return 0;
}

static int get_digest(const cJSON *obj, const char *name, digest *out, error *err)
{
	const char *text;
	int r = json_get_string(obj, "state", name, &text, err);
	if (r <= 0)
		return r == 0 ? missing(err, name) : r;
	if (digest_parse(text, out) != 0)
		return error_set(err, ERROR_INVALID, "saved state of a dataset: %s is not a digest", name);
	return 0;
}

static int get_mark(const cJSON *obj, mark *out, error *err)
{
	int code = get_int(obj, "size", &out->size, err);
	if (code == 0)
		code = get_int(obj, "samples", &out->samples, err);
	if (code == 0)
		code = get_digest(obj, "digest", &out->digest, err);
	if (code == 0)
		code = get_digest(obj, "block", &out->block, err);
	return code;
}

static int get_marks(const cJSON *obj, marks *out, error *err)
{
	const cJSON *array, *one;
	int r = json_get_array(obj, "state", "marks", &array, err);
	if (r <= 0)
		return r == 0 ? missing(err, "marks") : r;
	cJSON_ArrayForEach(one, array) {
		if (out->n == MARKS_MAX)
			return error_set(err, ERROR_INVALID, "saved state of a dataset: too many marks");
		int code = get_mark(one, &out->at[out->n].mark, err);
		if (code != 0)
			return code;
		out->at[out->n++].state = MARK_HOLDS;
	}
	return 0;
}

static int check_kind(const scanner *s, const cJSON *obj, error *err)
{
	const char *format;
	int64_t version, line_max;
	int code = get_int(obj, "v", &version, err);
	if (code == 0)
		code = get_int(obj, "lineMax", &line_max, err);
	if (code != 0)
		return code;
	int r = json_get_string(obj, "state", "format", &format, err);
	if (r <= 0)
		return r == 0 ? missing(err, "format") : r;
	if (version != STATE_VERSION || line_max != s->line_max || strcmp(format, dataset_format_name(s->format)) != 0)
		return error_set(err, ERROR_INVALID, "saved state of a dataset: of another version, format or line limit");
	return 0;
}

static int decode(const scanner *s, const cJSON *obj, scanner *out, error *err)
{
	int code = check_kind(s, obj, err);
	if (code == 0)
		code = get_u64(obj, "device", &out->device, err);
	if (code == 0)
		code = get_u64(obj, "inode", &out->inode, err);
	if (code == 0)
		code = get_int(obj, "generation", &out->generation, err);
	if (code == 0)
		code = get_mark(obj, &out->saved.end, err);
	if (code == 0)
		code = get_int(obj, "skipped", &out->saved.skipped, err);
	if (code == 0)
		code = get_int(obj, "headerFrom", &out->saved.header_from, err);
	if (code == 0)
		code = get_int(obj, "headerTo", &out->saved.header_to, err);
	if (code == 0)
		code = get_digest(obj, "tail", &out->saved.tail, err);
	return code == 0 ? get_marks(obj, &out->marks, err) : code;
}

int scanner_restore(scanner *s, const char *text, size_t len, error *err)
{
	cJSON *obj = NULL;
	int code = json_parse(text, len, STATE_MAX, &obj, err);
	if (code != 0)
		return code;
	scanner *found = mem_alloc(sizeof *found);
	code = decode(s, obj, found, err);
	if (code == 0) {
		s->device = found->device;
		s->inode = found->inode;
		s->generation = found->generation;
		s->saved = found->saved;
		s->marks = found->marks;
		s->begun = true;
		walk_free(s->walk);
		s->walk = NULL;
	}
	free(found);
	cJSON_Delete(obj);
	return code;
}
