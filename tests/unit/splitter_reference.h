/* The splitter's rules once more, written the slow and obvious way over a whole file in memory: what it is compared with in the unit test
 * and in the fuzz target.
 */
#ifndef TESTS_UNIT_SPLITTER_REFERENCE_H
#define TESTS_UNIT_SPLITTER_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "common/mem.h"
#include "edge-agent/dataset/splitter.h"

typedef struct reference {
	int64_t *from, *to; /* of each sample */
	size_t n;
	int64_t skipped, waiting, header_from, header_to;
} reference;

static inline void reference_free(reference *r)
{
	free(r->from);
	free(r->to);
	*r = (reference){0};
}

static inline bool reference_blank(const char *data, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++) {
		if (strchr(" \t\r\n", data[i]) == NULL || data[i] == '\0')
			return false;
	}
	return true;
}

static inline void reference_line(reference *r, const char *data, size_t from, size_t to, int64_t line_max, bool *header, bool *bad)
{
	if ((int64_t)(to - from) > line_max) {
		r->skipped++;
		*bad = *bad || *header;
	} else if (!*bad && !reference_blank(data, from, to)) {
		if (*header) {
			r->header_from = (int64_t)from;
			r->header_to = (int64_t)to;
			*header = false;
		} else {
			r->from = mem_resize_array(r->from, r->n + 1, sizeof *r->from);
			r->to = mem_resize_array(r->to, r->n + 1, sizeof *r->to);
			r->from[r->n] = (int64_t)from;
			r->to[r->n++] = (int64_t)to;
		}
	}
}

static inline void reference_split(reference *r, enum dataset_format format, int64_t line_max, const char *data, size_t len)
{
	size_t line = len >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;
	bool header = format == FORMAT_CSV, bad = false, field_start = true, quoted = false;
	*r = (reference){0};
	for (size_t i = line; i < len; i++) {
		char c = data[i];
		if (format == FORMAT_CSV && quoted && c == '"' && i + 1 < len && data[i + 1] == '"') {
			i++;
			continue;
		}
		if (c == '\n' && (!quoted || (int64_t)(i + 1 - line) > line_max)) {
			reference_line(r, data, line, i + 1, line_max, &header, &bad);
			line = i + 1;
			field_start = true;
			quoted = false;
		} else if (quoted) {
			quoted = c != '"';
		} else {
			quoted = format == FORMAT_CSV && field_start && c == '"';
			field_start = c == ',';
		}
	}
	r->waiting = (int64_t)(len - line);
}

#endif
