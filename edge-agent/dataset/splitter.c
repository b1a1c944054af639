/* See splitter.h. Speed comes from memchr: txt looks for newlines alone; csv for the newline, and for quotes before it. A quote opens a field
 * only at its beginning (as csv readers do), which the byte before it tells. The place of the next newline is remembered while quoted fields
 * before it are walked over, so that no byte is looked at more than a few times, whatever the input.
 */
#include "edge-agent/dataset/splitter.h"

#include <string.h>

enum { BOM_DONE = 4 };
static const char BOM[3] = "\xEF\xBB\xBF";

void splitter_start(splitter *s, enum dataset_format format, int64_t line_max)
{
	*s = (splitter){.format = format, .line_max = line_max, .blank = true};
}

void splitter_resume(splitter *s, enum dataset_format format, int64_t line_max, int64_t offset, int64_t samples)
{
	splitter_start(s, format, line_max);
	if (offset == 0)
		return;
	s->offset = s->line = s->from = offset;
	s->samples = samples;
	s->bom = BOM_DONE;
	s->header_from = s->header_to = -1; /* passed, place not known */
}

int64_t splitter_waiting(const splitter *s)
{
	return s->offset - s->line;
}

bool splitter_has_header(const splitter *s)
{
	return s->format == FORMAT_TXT || s->header_to != 0;
}

static bool all_blank(const char *p, const char *end)
{
	while (p < end && (*p == ' ' || *p == '\t' || *p == '\r'))
		p++;
	return p == end;
}

/* The line has ended before s->offset. True if it was a sample. */
static bool line_ended(splitter *s)
{
	int64_t begin = s->line;
	bool blank = s->blank, sample = false;
	s->line = s->offset;
	s->blank = true;
	s->state = SPLIT_FIELD_START;
	if (s->offset - begin > s->line_max) {
		s->skipped++;
		if (!splitter_has_header(s))
			s->bad_header = true;
	} else if (blank || s->bad_header) {
		return false;
	} else if (!splitter_has_header(s)) {
		s->header_from = begin;
		s->header_to = s->offset;
	} else {
		s->from = begin;
		s->samples++;
		sample = true;
	}
	return sample;
}

/* Bytes [p, to) belong to the line. */
static const char *line_grew(splitter *s, const char *p, const char *to)
{
	if (s->blank)
		s->blank = all_blank(p, to);
	s->offset += to - p;
	return to;
}

/* Eat a byte order mark. Its first bytes without the rest are ordinary text. */
static const char *eat_bom(splitter *s, const char *p, const char *end)
{
	while (p < end && s->bom < 3) {
		if (*p != BOM[s->bom]) {
			if (s->bom > 0) {
				s->blank = false;
				s->state = SPLIT_FIELD;
			}
			s->bom = BOM_DONE;
			return p;
		}
		p++;
		s->offset++;
		s->bom++;
	}
	if (s->bom == 3) {
		s->bom = BOM_DONE;
		s->line = s->offset;
	}
	return p;
}

static bool next_txt(splitter *s, const char *p, const char *end, const char **stop)
{
	while (p < end) {
		const char *newline = memchr(p, '\n', (size_t)(end - p));
		if (newline == NULL) {
			(void)line_grew(s, p, end);
			break;
		}
		p = line_grew(s, p, newline);
		p++;
		s->offset++;
		if (line_ended(s)) {
			*stop = p;
			return true;
		}
	}
	*stop = end;
	return false;
}

/* Outside quotes: up to the byte after a quote that opens a field (state QUOTED), or to `limit` (the newline, or the end of the bytes). */
static const char *walk_fields(splitter *s, const char *p, const char *limit)
{
	bool at_start = s->state == SPLIT_FIELD_START;
	const char *quote = p;
	while (quote < limit && (quote = memchr(quote, '"', (size_t)(limit - quote))) != NULL) {
		if (quote == p ? at_start : quote[-1] == ',') {
			s->state = SPLIT_QUOTED;
			return line_grew(s, p, quote + 1);
		}
		quote++;
	}
	if (limit > p)
		s->state = limit[-1] == ',' ? SPLIT_FIELD_START : SPLIT_FIELD;
	return line_grew(s, p, limit);
}

/* Inside quotes: up to the byte after the next quote (state QUOTE_SEEN), or to a newline past the length limit (*overrun), or to the end. */
static const char *walk_quoted(splitter *s, const char *p, const char *end, bool *overrun)
{
	const char *quote = memchr(p, '"', (size_t)(end - p));
	const char *to = quote == NULL ? end : quote;
	int64_t left = s->line_max - splitter_waiting(s); /* bytes that still fit */
	if (to - p >= left) {
		const char *past = left > 0 ? p + left : p;
		const char *newline = past < to ? memchr(past, '\n', (size_t)(to - past)) : NULL;
		if (newline != NULL) {
			*overrun = true;
			return line_grew(s, p, newline);
		}
	}
	if (quote == NULL)
		return line_grew(s, p, end);
	s->state = SPLIT_QUOTE_SEEN;
	return line_grew(s, p, quote + 1);
}

static bool next_csv(splitter *s, const char *p, const char *end, const char **stop)
{
	const char *newline = NULL; /* the first one at or after p, or end; found again once p has passed it */
	while (p < end) {
		bool ended = false;
		if (s->state == SPLIT_QUOTE_SEEN) {
			s->state = *p == '"' ? SPLIT_QUOTED : SPLIT_FIELD;
			if (*p == '"') {
				p++;
				s->offset++;
				continue;
			}
		}
		if (s->state == SPLIT_QUOTED) {
			p = walk_quoted(s, p, end, &ended);
		} else {
			if (newline == NULL || newline < p) {
				newline = memchr(p, '\n', (size_t)(end - p));
				newline = newline == NULL ? end : newline;
			}
			p = walk_fields(s, p, newline);
			ended = s->state != SPLIT_QUOTED && p == newline && p < end;
		}
		if (!ended)
			continue;
		p++;
		s->offset++;
		if (line_ended(s)) {
			*stop = p;
			return true;
		}
	}
	*stop = end;
	return false;
}

bool splitter_next(splitter *s, const char *data, size_t len, size_t *used)
{
	const char *p = data, *end = data + len, *stop = end;
	if (s->bom < 3)
		p = eat_bom(s, p, end);
	bool found = s->format == FORMAT_CSV ? next_csv(s, p, end, &stop) : next_txt(s, p, end, &stop);
	*used = (size_t)(stop - data);
	return found;
}
