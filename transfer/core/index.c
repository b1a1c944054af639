/* The index reader: see index.h for the contract. A state machine over bytes. */
#include "transfer/core/index.h"

#include <stdbool.h>
#include <string.h>

#include "transfer/core/relative.h"

enum {
	BEFORE,     /* at the beginning of a line, or in blanks there, before the folder */
	COMMENT,    /* in a line for people, before the folder */
	IN_FOLDER,  /* in the folder's line */
	LINE_BEGIN, /* at the beginning of a line, after the folder */
	HASH,       /* behind a '#' at the beginning of a line */
	REMARK,     /* in a remark after the folder */
	BLANK,      /* between words */
	IN_WORD,
	ENDED
};

void index_init(index_reader *r)
{
	*r = (index_reader){.state = BEFORE, .line = 1};
}

void index_fini(index_reader *r)
{
	buf_fini(&r->word);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\v' || c == '\f';
}

static int word_done(index_reader *r, bool folder, error *err)
{
	if (folder) {
		while (r->word.len > 0 && is_blank(r->word.data[r->word.len - 1]))
			r->word.data[--r->word.len] = '\0';
		return INDEX_FOLDER;
	}
	const char *why = relative_wrong(buf_text(&r->word));
	if (why != NULL)
		return error_set(err, ERROR_INVALID, "line %lld: \"%.120s\" %s", (long long)r->line, buf_text(&r->word), why);
	return INDEX_FILE;
}

/* One byte. INDEX_MORE while no word has ended. */
static int step(index_reader *r, char c, error *err)
{
	bool newline = c == '\n';
	switch (r->state) {
	case BEFORE:
		if (newline || is_blank(c))
			return INDEX_MORE;
		r->state = c == '#' ? COMMENT : IN_FOLDER;
		break;
	case COMMENT:
		if (newline)
			r->state = BEFORE;
		return INDEX_MORE;
	case IN_FOLDER:
		if (newline) {
			r->state = LINE_BEGIN;
			return word_done(r, true, err);
		}
		break;
	case LINE_BEGIN:
	case BLANK:
		if (newline || is_blank(c)) {
			r->state = newline ? LINE_BEGIN : r->state;
			return INDEX_MORE;
		}
		r->state = r->state == LINE_BEGIN && c == '#' ? HASH : IN_WORD;
		break;
	case HASH:
		if (newline || is_blank(c)) {
			buf_clear(&r->word);
			r->state = newline ? LINE_BEGIN : REMARK;
			return INDEX_MORE;
		}
		r->state = IN_WORD;
		break;
	case REMARK:
		if (newline)
			r->state = LINE_BEGIN;
		return INDEX_MORE;
	default: /* IN_WORD */
		if (newline || is_blank(c)) {
			r->state = newline ? LINE_BEGIN : BLANK;
			return word_done(r, false, err);
		}
		break;
	}
	if (r->state == COMMENT)
		return INDEX_MORE;
	if (c == '\0' || r->word.len == INDEX_WORD_MAX)
		return error_set(err, ERROR_INVALID, "line %lld: %s", (long long)r->line, c == '\0' ? "it has a NUL byte" : "a name is too long");
	buf_putc(&r->word, c);
	return INDEX_MORE;
}

int index_next(index_reader *r, const char *data, size_t len, size_t *used, error *err)
{
	bool fresh = true;
	for (size_t i = 0; i < len; i++) {
		/* A new word begins where the last one was handed over; one that goes on from the piece before is kept. */
		if (fresh && (r->state == BLANK || r->state == LINE_BEGIN || r->state == BEFORE))
			buf_clear(&r->word);
		fresh = false;
		int event = step(r, data[i], err);
		*used = i + 1;
		if (event < 0)
			return event;
		if (event != INDEX_MORE) {
			if (data[i] == '\n')
				r->line++;
			return event;
		}
		if (data[i] == '\n')
			r->line++;
	}
	*used = len;
	return INDEX_MORE;
}

int index_end(index_reader *r, error *err)
{
	int state = r->state;
	r->state = ENDED;
	if (state == IN_FOLDER || state == IN_WORD)
		return word_done(r, state == IN_FOLDER, err);
	if (state == BEFORE || state == COMMENT)
		return error_set(err, ERROR_INVALID, "it names no folder: its first line that does not begin with '#' must be one");
	return INDEX_MORE;
}
