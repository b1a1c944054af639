/* Indexes: the same events whatever pieces they are read in, and no name that leads out of a folder. The first byte is the size of a piece. */
#include <stdlib.h>
#include <string.h>

#include "transfer/core/index.h"
#include "transfer/core/relative.h"

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static int read_in(const char *text, size_t len, size_t piece, buf *out)
{
	index_reader r;
	int event = INDEX_MORE;
	index_init(&r);
	for (size_t at = 0; at < len && event >= 0;) {
		size_t end = at + piece < len ? at + piece : len, used = 0;
		event = index_next(&r, text + at, end - at, &used, NULL);
		if (event >= 0 && used == 0)
			abort();
		at += used;
		if (event > 0)
			buf_printf(out, "%d:%s\n", event, buf_text(&r.word));
		if (event == INDEX_FILE && relative_wrong(buf_text(&r.word)) != NULL)
			abort();
	}
	while (event >= 0 && (event = index_end(&r, NULL)) > 0)
		buf_printf(out, "%d:%s\n", event, buf_text(&r.word));
	index_fini(&r);
	return event;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
	buf whole = {0}, pieces = {0};
	if (size == 0)
		return 0;
	int a = read_in((const char *)data + 1, size - 1, size, &whole);
	int b = read_in((const char *)data + 1, size - 1, 1 + (size_t)data[0], &pieces);
	if (a != b || strcmp(buf_text(&whole), buf_text(&pieces)) != 0)
		abort();
	buf_fini(&whole);
	buf_fini(&pieces);
	return 0;
}
