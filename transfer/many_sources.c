/* Where the work of many.h comes from: the objects below a prefix, or the lines of an index. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "transfer/core/index.h"
#include "transfer/core/relative.h"
#include "transfer/many.h"
#include "transfer/store.h"

enum { READ_STEP = 64 * 1024 };

/* ---- a list ---- */

struct many_listing {
	listing list;
	int64_t seen;
};

many_listing *many_listing_new(client *c, const location *of, const char *prefix)
{
	many_listing *l = mem_alloc(sizeof *l);
	listing_init(&l->list, c, of, prefix);
	return l;
}

void many_listing_free(many_listing *l)
{
	if (l == NULL)
		return;
	listing_fini(&l->list);
	free(l);
}

int64_t many_listing_seen(const many_listing *l)
{
	return l->seen;
}

static int list_next(void *ctx, many_item *item, error *err)
{
	many_listing *l = ctx;
	const char *bucket = l->list.of->bucket, *rest;
	const s3_object *o;
	int code;
	do {
		o = listing_next(&l->list, &code, err);
		if (o == NULL)
			return code;
		l->seen++;
		rest = o->key + strlen(l->list.prefix);
	} while (*rest == '\0'); /* the folder itself */
	code = location_object(bucket, o->key, &item->of, err);
	const char *why = code == 0 ? relative_wrong(rest) : NULL;
	size_t len = strlen(rest);
	item->folder = o->size == 0 && rest[len - 1] == '/';
	if (why == NULL && rest[len - 1] == '/' && !item->folder)
		why = "ends in '/' and is not empty";
	if (why != NULL)
		code =
			error_set(err, ERROR_INVALID, "%s: the key cannot be a file's path, since what is behind the prefix %s", item->of.shown, why);
	if (code != 0) {
		location_fini(&item->of);
		return code;
	}
	item->relative = mem_strdup(rest);
	return 1;
}

many_source many_listing_source(many_listing *l)
{
	return (many_source){.ctx = l, .next = list_next};
}

/* ---- an index ---- */

struct many_index {
	int fd;
	char *name;
	index_reader reader;
	location folder;
	char *prefix; /* of keys */
	char block[READ_STEP];
	size_t at, len;
	bool ended;
};

/* The next event other than INDEX_MORE, or INDEX_MORE at the end of the file. */
static int next_event(many_index *x, error *err)
{
	for (;;) {
		size_t used = 0;
		int event = INDEX_MORE;
		if (x->at < x->len) {
			event = index_next(&x->reader, x->block + x->at, x->len - x->at, &used, err);
			x->at += used;
		} else if (!x->ended) {
			ssize_t n = read(x->fd, x->block, sizeof x->block);
			if (n < 0 && errno != EINTR)
				return error_errno(err, errno, "cannot read the index %s", x->name);
			x->at = 0;
			x->len = n > 0 ? (size_t)n : 0;
			x->ended = n == 0;
			if (x->ended)
				event = index_end(&x->reader, err);
		} else {
			return INDEX_MORE;
		}
		if (event < 0)
			return error_prefix(err, "the index %s", x->name);
		if (event != INDEX_MORE)
			return event;
	}
}

int many_index_new(const char *path, const char *name, many_index **out, error *err)
{
	many_index *x = mem_alloc(sizeof *x);
	int code;
	*out = x;
	x->name = mem_strdup(name);
	index_init(&x->reader);
	x->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (x->fd < 0)
		return error_errno(err, errno, "cannot open %s", path);
	code = next_event(x, err);
	if (code < 0)
		return code;
	code = location_parse(buf_text(&x->reader.word), &x->folder, err);
	if (code == 0 && x->folder.kind != LOCATION_S3)
		code = error_set(err, ERROR_INVALID, "its folder must be an s3:// url");
	if (code != 0)
		return error_prefix(err, "the index %s", name);
	size_t len = strlen(x->folder.key);
	x->prefix = len == 0 || x->folder.key[len - 1] == '/' ? mem_strdup(x->folder.key) : mem_printf("%s/", x->folder.key);
	return 0;
}

void many_index_free(many_index *x)
{
	if (x == NULL)
		return;
	if (x->fd >= 0)
		close(x->fd);
	index_fini(&x->reader);
	location_fini(&x->folder);
	free(x->prefix);
	free(x->name);
	free(x);
}

static int index_item(void *ctx, many_item *item, error *err)
{
	many_index *x = ctx;
	int event = next_event(x, err);
	if (event <= 0)
		return event;
	const char *word = buf_text(&x->reader.word);
	char *key = mem_printf("%s%s", x->prefix, word);
	int code = location_object(x->folder.bucket, key, &item->of, err);
	free(key);
	if (code == 0 && word[strlen(word) - 1] == '/')
		code = error_set(err, ERROR_INVALID, "the index %s names a folder, \"%.100s\"; only files can be named", x->name, word);
	if (code != 0) {
		location_fini(&item->of);
		return code;
	}
	item->relative = mem_strdup(word);
	return 1;
}

many_source many_index_source(many_index *x)
{
	return (many_source){.ctx = x, .next = index_item};
}
