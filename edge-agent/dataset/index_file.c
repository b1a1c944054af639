/* See index_file.h. A word that is longer than any name is none; its bytes are not kept. */
#include "edge-agent/dataset/index_file.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/mem.h"
#include "edge-agent/dataset/sink.h"
#include "transfer/core/relative.h"

enum { WORD_MAX = 2048, EXTENSION_MAX = 16 };

struct index_file {
	sink *sink;
	bool csv;
	bool too_long; /* the word that has not ended */
	buf word, last;
};

int index_file_new(index_file **out, const char *path, const char *folder_url, enum dataset_format format, error *err)
{
	index_file *f = mem_alloc(sizeof *f);
	f->csv = format == FORMAT_CSV;
	*out = f;
	int code = sink_new(&f->sink, path, err);
	if (code == 0)
		code = sink_add(f->sink, folder_url, strlen(folder_url), err);
	return code == 0 ? sink_add(f->sink, "\n", 1, err) : code;
}

static bool is_number(const char *word)
{
	char *end;
	(void)strtod(word, &end);
	return *end == '\0';
}

bool index_word_is_file(const char *word, size_t len)
{
	char text[WORD_MAX + 1];
	if (len == 0 || len > WORD_MAX || word[0] == '#')
		return false;
	memcpy(text, word, len);
	text[len] = '\0';
	const char *slash = strrchr(text, '/'), *name = slash == NULL ? text : slash + 1, *dot = strrchr(name, '.');
	size_t extension = dot == NULL ? 0 : strlen(dot + 1);
	if (extension == 0 || extension > EXTENSION_MAX || dot == name)
		return false;
	for (const char *p = dot + 1; *p != '\0'; p++)
		if (!isalnum((unsigned char)*p))
			return false;
	return !is_number(text) && relative_wrong(text) == NULL;
}

static int word_ended(index_file *f, error *err)
{
	int code = 0;
	bool again = f->last.len == f->word.len && memcmp(buf_text(&f->last), buf_text(&f->word), f->word.len) == 0;
	if (!f->too_long && !again && index_word_is_file(buf_text(&f->word), f->word.len)) {
		buf_clear(&f->last);
		buf_add(&f->last, f->word.data, f->word.len);
		buf_putc(&f->word, '\n');
		code = sink_add(f->sink, f->word.data, f->word.len, err);
	}
	buf_clear(&f->word);
	f->too_long = false;
	return code;
}

static bool separates(const index_file *f, char c)
{
	return isspace((unsigned char)c) || (f->csv && (c == ',' || c == '"'));
}

int index_file_add(index_file *f, const char *data, size_t len, error *err)
{
	int code = 0;
	for (size_t i = 0; i < len && code == 0;) {
		size_t n = 0;
		while (i + n < len && !separates(f, data[i + n]))
			n++;
		f->too_long |= f->word.len + n > WORD_MAX;
		if (f->too_long)
			buf_clear(&f->word);
		else if (n > 0)
			buf_add(&f->word, data + i, n);
		i += n;
		if (i < len) {
			code = f->word.len > 0 || f->too_long ? word_ended(f, err) : 0;
			i++;
		}
	}
	return code;
}

int index_file_end(index_file *f, manifest_file *out, error *err)
{
	int code = f->word.len > 0 ? word_ended(f, err) : 0;
	*out = (manifest_file){.name = INDEX_FILE_NAME};
	return code == 0 ? sink_end(f->sink, out, err) : code;
}

void index_file_free(index_file *f)
{
	if (f == NULL)
		return;
	sink_free(f->sink);
	buf_fini(&f->word);
	buf_fini(&f->last);
	free(f);
}
