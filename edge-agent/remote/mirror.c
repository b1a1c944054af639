/* See mirror.h. */
#include "edge-agent/remote/mirror.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"

enum { KNOWN_MAX = 16 * 1024, TRIES = 3 };

/* SAME: bytes that are compared before appending. ATTEMPTS: of one look; the next look is another. */
#define SAME "4096"
#define ATTEMPTS "3"

/* What a server says of a version. */
typedef struct version {
	bool changed;   /* `head`: another one than was asked about */
	int64_t size;   /* -1: unknown */
	char *etag;     /* NULL: none */
	char *modified; /* Last-Modified as it was written; NULL: none */
} version;

static void version_fini(version *v)
{
	free(v->etag);
	free(v->modified);
	*v = (version){.size = -1};
}

static void version_read(version *v, const cJSON *from)
{
	const char *text;
	version_fini(v);
	json_get_int(from, "version", "size", 0, JSON_MAX_INT, &v->size, NULL);
	if (json_get_string(from, "version", "etag", &text, NULL) == 1)
		v->etag = mem_strdup(text);
	if (json_get_string(from, "version", "lastModified", &text, NULL) == 1)
		v->modified = mem_strdup(text);
}

static void on_version(void *ctx, const cJSON *event)
{
	version *v = ctx;
	bool changed = true;
	json_get_bool(event, "event", "changed", &changed, NULL);
	version_read(v, event);
	v->changed = changed;
}

/* ---- files ---- */

static char *known_path(const char *path)
{
	return mem_printf("%s.json", path);
}

/* What the copy is of, if its size is still what it was then. */
static void known_read(const char *path, int64_t size, version *out)
{
	char *file = known_path(path);
	buf text = {0};
	cJSON *obj = NULL;
	version_fini(out);
	if (file_read(file, KNOWN_MAX, &text, NULL) == 0 && json_parse(buf_text(&text), text.len, KNOWN_MAX, &obj, NULL) == 0)
		version_read(out, obj);
	if (out->size != size)
		version_fini(out);
	cJSON_Delete(obj);
	buf_fini(&text);
	free(file);
}

static int known_write(const char *path, const version *v, error *err)
{
	char *file = known_path(path);
	cJSON *obj = cJSON_CreateObject();
	json_put_int(obj, "size", v->size);
	json_put_string(obj, "etag", v->etag);
	json_put_string(obj, "lastModified", v->modified);
	char *text = json_print(obj);
	int code = file_write(file, text, strlen(text), 0600, err);
	free(text);
	cJSON_Delete(obj);
	free(file);
	return code;
}

/* So that the dataset's status tells when the object was changed, not when it was fetched. */
static void set_time(const char *path, const char *modified)
{
	struct tm tm = {0};
	if (modified == NULL || strptime(modified, "%a, %d %b %Y %H:%M:%S GMT", &tm) == NULL)
		return;
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = timegm(&tm)}};
	(void)utimensat(AT_FDCWD, path, times, 0);
}

static int64_t size_of(const char *path)
{
	struct stat st;
	return stat(path, &st) == 0 ? (int64_t)st.st_size : 0;
}

/* ---- the look ---- */

static bool same_text(const char *a, const char *b)
{
	return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

static int head(const transfer *t, const char *url, const char *etag, version *out, error *err)
{
	const char *args[] = {"head", "--attempts", ATTEMPTS, url, NULL, NULL, NULL};
	if (etag != NULL) {
		args[4] = "--if-none-match";
		args[5] = etag;
	}
	return transfer_run(t, url, args, on_version, out, err);
}

static void on_count(void *ctx, const cJSON *event)
{
	const char *kind = "";
	json_get_string(event, "event", "event", &kind, NULL);
	*(bool *)ctx |= strcmp(kind, "entry") == 0;
}

/* An object store says of a folder that there is no such object. */
static int explain_missing(const transfer *t, const char *url, error *err)
{
	bool any = false;
	char *below = mem_printf("%s/", url);
	const char *args[] = {"list", "--attempts", ATTEMPTS, below, NULL};
	if (strncmp(url, "s3://", 5) == 0)
		(void)transfer_run(t, url, args, on_count, &any, NULL);
	free(below);
	return any ? error_set(err, ERROR_INVALID, "dataset %s is a folder; its url must name a file", url) : err->code;
}

/* What is known goes first: it may be of as many bytes as what comes, and would then be taken for known of that. */
static int fetch_whole(const transfer *t, const char *url, const char *path, version *out, error *err)
{
	char *file = known_path(path);
	(void)unlink(file);
	free(file);
	const char *args[] = {"get", "--attempts", ATTEMPTS, url, path, NULL};
	return transfer_run(t, url, args, on_version, out, err);
}

static int fetch_rest(const transfer *t, const char *url, const char *path, int64_t from, const char *etag, version *out, error *err)
{
	char *start = mem_printf("%lld", (long long)from);
	const char *args[] = {"get", "--attempts", ATTEMPTS, "--same", SAME, "--range", start, url, path, NULL, NULL, NULL};
	if (etag != NULL && strncmp(etag, "W/", 2) != 0) {
		args[9] = "--if-match";
		args[10] = etag;
	}
	int code = transfer_run(t, url, args, on_version, out, err);
	free(start);
	return code;
}

/* Nothing but a longer object, or one of which only the length is known, can hold what the copy holds. */
static bool may_have_grown(const version *now, int64_t have, const version *known)
{
	bool unversioned = now->etag == NULL && now->modified == NULL && known->etag == NULL;
	return have > 0 && (now->size > have || (now->size == have && unversioned));
}

static int fetch(const transfer *t, const char *url, const char *path, version *now, int64_t have, const version *known, error *err)
{
	char *etag = mem_strdup(now->etag);
	int code = may_have_grown(now, have, known) ? fetch_rest(t, url, path, have, etag, now, err) : ERROR_UNSUPPORTED;
	if (code == ERROR_CHANGED) {
		/* Either it is another version by now, which may well have grown too, or its beginning is not that of the copy. */
		error ignored = {0};
		version again = {.size = -1};
		bool moved = head(t, url, NULL, &again, &ignored) == 0 && !same_text(again.etag, etag);
		version_fini(now);
		*now = again;
		code = moved ? ERROR_CHANGED : ERROR_UNSUPPORTED;
	}
	if (code == ERROR_UNSUPPORTED) /* a server without parts is one, too */
		code = fetch_whole(t, url, path, now, err);
	free(etag);
	return code;
}

static int take(const char *path, version *now, error *err)
{
	now->size = size_of(path);
	int code = known_write(path, now, err);
	set_time(path, now->modified);
	return code;
}

static int look(const transfer *t, const char *url, const char *path, error *err)
{
	int64_t have = size_of(path);
	version known = {.size = -1}, now = {.size = -1};
	known_read(path, have, &known);
	int code = head(t, url, known.etag, &now, err);
	bool same = !now.changed || (now.etag == NULL && now.modified != NULL && now.size == have && same_text(now.modified, known.modified));
	if (code == ERROR_NOT_FOUND)
		code = explain_missing(t, url, err);
	else if (code == 0 && !same)
		code = fetch(t, url, path, &now, have, &known, err);
	if (code == 0 && !same)
		code = take(path, &now, err);
	version_fini(&known);
	version_fini(&now);
	return code;
}

int mirror_update(const transfer *t, const char *url, const char *path, error *err)
{
	char *folder = file_parent(path);
	error why = {0};
	size_t len = strlen(url);
	int code = len > 0 && url[len - 1] == '/' ? error_set(&why, ERROR_INVALID, "dataset %s is a folder; its url must name a file", url) :
												file_make_dirs(folder, 0700, &why);
	for (int i = 0; i < TRIES && (i == 0 || code == ERROR_CHANGED); i++)
		code = code != 0 && i == 0 ? code : look(t, url, path, &why);
	free(folder);
	if (code == ERROR_CHANGED)
		code = error_set(&why, ERROR_OFFLINE, "dataset %s changes faster than it can be read", url);
	return code == 0 ? 0 : error_set(err, code, "%s", why.text);
}
