/* See fetch.h.
 *
 *   s3://bucket/a/m.pb       D/m.pb; if there is no such object: all below bucket/a/m.pb/, as D/m.pb/…
 *   s3://bucket/a/           all below, as D/…
 *   @s3://bucket/a/index     D/index, and the files that it names, each at D/ + its name
 *   http://host/a/m.pb       D/m.pb
 *   …/m.tar, .tar.gz, .zip   what is in it, below D
 */
#include "transfer/fetch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/file.h"
#include "common/log.h"
#include "common/mem.h"
#include "transfer/core/relative.h"
#include "transfer/download.h"
#include "transfer/many.h"
#include "transfer/unpack.h"

int fetch_make_folder(const char *path, error *err)
{
	char *clean = mem_strdup(path);
	size_t len = strlen(clean);
	while (len > 1 && clean[len - 1] == '/')
		clean[--len] = '\0';
	int code = file_make_dirs(clean, 0755, err);
	free(clean);
	return code;
}

int fetch_folder(client *c, const location *of, const char *folder, bool fresh, error *err)
{
	size_t len = strlen(of->key);
	char *prefix = len == 0 || of->key[len - 1] == '/' ? mem_strdup(of->key) : mem_printf("%s/", of->key);
	many_listing *list = many_listing_new(c, of, prefix);
	many_source source = many_listing_source(list);
	many_result result = {0};
	int code = many_fetch(client_session(c), &source, folder, fresh, &result, err);
	if (code == 0 && many_listing_seen(list) == 0)
		code = error_set(err, ERROR_NOT_FOUND, "%s: there is neither such an object nor one whose key begins with \"%.120s\"", of->shown,
			prefix);
	many_listing_free(list);
	free(prefix);
	return code;
}

static int fetch_index(client *c, const location *of, const char *path, const char *folder, bool fresh, error *err)
{
	many_index *index = NULL;
	many_result result = {0};
	download d = {.of = of, .path = path, .fresh = fresh};
	int code = download_file(c, &d, err);
	if (code == 0)
		code = many_index_new(path, of->shown, &index, err);
	if (code == 0) {
		many_source source = many_index_source(index);
		code = many_fetch(client_session(c), &source, folder, fresh, &result, err);
	}
	many_index_free(index);
	return code;
}

static int fetch_one(client *c, const location *of, const char *path, const char *folder, bool fresh, error *err)
{
	download d = {.of = of, .path = path, .fresh = fresh};
	/* An earlier run looked for a folder of this name and found nothing in it. */
	rmdir(path);
	int code = download_file(c, &d, err);
	if (code == ERROR_NOT_FOUND && of->kind == LOCATION_S3 && strstr(err->text, "NoSuchBucket") == NULL)
		return fetch_folder(c, of, path, fresh, err);
	if (code != 0)
		return code;
	atomic_fetch_add(&client_session(c)->files, 1);
	enum archive_kind kind = archive_kind_of(of->text, of->kind == LOCATION_HTTP);
	int64_t entries = 0;
	if (kind == ARCHIVE_NONE)
		return 0;
	code = unpack(kind, path, folder, &entries, err);
	if (code == 0)
		log_info("fetch", "unpacked", L_STR("archive", of->shown), L_INT("entries", entries));
	return code;
}

int fetch_pair(client *c, const char *source, const char *destination, bool fresh, error *err)
{
	location of;
	bool index = source[0] == '@';
	char *path = NULL;
	int code = location_parse(source + index, &of, err);
	if (code != 0)
		goto done;
	const char *name = location_name(&of);
	if (index && of.kind != LOCATION_S3)
		code = error_set(err, ERROR_INVALID, "%s: only an s3:// url can be an index", of.shown);
	else if (name[0] == '\0' && (of.kind == LOCATION_HTTP || index))
		code = error_set(err, ERROR_INVALID, "%s: the url names no file", of.shown);
	else if (name[0] != '\0' && relative_wrong(name) != NULL)
		code =
			error_set(err, ERROR_INVALID, "%s: the last part of the url %s, so no file can have this name", of.shown, relative_wrong(name));
	if (code == 0)
		code = fetch_make_folder(destination, err);
	if (code != 0)
		goto done;
	path = mem_printf("%s/%s", destination, name);
	if (index)
		code = fetch_index(c, &of, path, destination, fresh, err);
	else if (of.kind == LOCATION_S3 && (of.key[0] == '\0' || name[0] == '\0'))
		code = fetch_folder(c, &of, path, fresh, err);
	else
		code = fetch_one(c, &of, path, destination, fresh, err);
done:
	free(path);
	location_fini(&of);
	return code;
}
