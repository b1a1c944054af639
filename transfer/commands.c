/* See commands.h: each command, from its words to the members of its last line. */
#include "transfer/commands.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/json.h"
#include "common/json_scan.h"
#include "common/log.h"
#include "common/mem.h"
#include "transfer/copy.h"
#include "transfer/core/relative.h"
#include "transfer/download.h"
#include "transfer/fetch.h"
#include "transfer/folder.h"
#include "transfer/list.h"
#include "transfer/move.h"
#include "transfer/remove.h"
#include "transfer/store.h"
#include "transfer/upload.h"

static void put_version(cJSON *line, const char *etag, const char *modified)
{
	/* An ETag that would be changed is of no use to whoever wants to ask with it. */
	if (etag[0] != '\0' && json_utf8_valid(etag, strlen(etag)))
		json_put_string(line, "etag", etag);
	if (modified != NULL && modified[0] != '\0')
		json_put_string(line, "lastModified", modified);
}

static int run_fetch(run *r, error *err)
{
	int code = 0;
	for (int i = 0; i < r->o.n_words && code == 0; i += 2) {
		int64_t files = atomic_load(&r->s.files), bytes = atomic_load(&r->s.bytes);
		code = fetch_pair(r->c, r->o.words[i], r->o.words[i + 1], r->o.fresh, err);
		if (code == 0)
			log_info("fetch", "done", L_STR("into", r->o.words[i + 1]), L_INT("files", atomic_load(&r->s.files) - files),
				L_INT("bytes", atomic_load(&r->s.bytes) - bytes));
	}
	return code;
}

static int run_get(run *r, error *err)
{
	location of;
	int code = location_parse(r->o.words[0], &of, err);
	download d = {.of = &of,
		.path = r->o.words[1],
		.fresh = r->o.fresh,
		.durable = true,
		.etag_is_no_md5 = r->o.etag_is_no_md5,
		.sha256 = r->o.sha256,
		.max_size = r->o.max_size > 0 ? r->o.max_size : 0,
		.if_match = r->o.if_match,
		.same = r->o.same > 0 ? r->o.same : 0};
	if (code == 0 && of.kind == LOCATION_S3 && of.key[0] == '\0')
		code = error_set(err, ERROR_INVALID, "%s: the url names no object", of.shown);
	if (code == 0)
		code = r->o.has_range ? download_rest(r->c, &d, r->o.range, err) : download_file(r->c, &d, err);
	if (code == 0) {
		json_put_int(r->said, "size", d.size);
		json_put_int(r->said, "resumedAt", d.resumed_at);
		put_version(r->said, d.etag, d.modified);
	}
	location_fini(&of);
	return code;
}

static int run_head(run *r, error *err)
{
	location of;
	object_head head;
	int code = location_parse(r->o.words[0], &of, err);
	if (code == 0)
		code = store_head(r->c, &of, r->o.if_none_match, &head, err);
	if (code == 0) {
		json_put_bool(r->said, "changed", head.changed);
		if (head.size >= 0)
			json_put_int(r->said, "size", head.size);
		put_version(r->said, head.etag, head.modified);
	}
	location_fini(&of);
	return code;
}

static int parse_target(const char *text, bool folder, location *of, error *err)
{
	int code = location_parse(text, of, err);
	if (code == 0 && of->kind != LOCATION_S3)
		code = error_set(err, ERROR_INVALID, "%s: only an s3:// url can be %s", of->shown, folder ? "a folder" : "written to");
	if (code == 0 && !folder && of->key[0] == '\0')
		code = error_set(err, ERROR_INVALID, "%s: the url names no object", of->shown);
	return code;
}

static int run_put(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[1], false, &of, err);
	upload u = {.path = r->o.words[0], .to = &of, .only_new = r->o.only_new};
	if (code == 0)
		code = upload_file(r->c, &u, err);
	if (code == 0) {
		json_put_int(r->said, "size", u.size);
		json_put_int(r->said, "parts", u.parts);
		put_version(r->said, u.etag, NULL);
	}
	location_fini(&of);
	return code;
}

static int run_get_folder(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[0], true, &of, err);
	if (code == 0)
		code = fetch_make_folder(r->o.words[1], err);
	if (code == 0)
		code = fetch_folder(r->c, &of, r->o.words[1], r->o.fresh, err);
	/* Durable as a whole: one look at the disk in place of one for each file. */
	int fd = code == 0 ? open(r->o.words[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	if (fd >= 0 && syncfs(fd) != 0)
		code = error_set(err, ERROR_IO, "cannot sync %s", r->o.words[1]);
	if (fd >= 0)
		close(fd);
	if (code == 0) {
		json_put_int(r->said, "files", atomic_load(&r->s.files));
		json_put_int(r->said, "bytes", atomic_load(&r->s.bytes));
	}
	location_fini(&of);
	return code;
}

static int run_put_folder(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[1], true, &of, err);
	folder_sending s = {.folder = r->o.words[0], .to = &of, .last = r->o.last, .only_new = r->o.only_new, .only = r->o.only};
	if (code == 0)
		code = folder_send(r->c, &s, err);
	if (code == 0) {
		json_put_int(r->said, "files", s.files);
		json_put_int(r->said, "bytes", atomic_load(&r->s.bytes));
	}
	location_fini(&of);
	return code;
}

/* ---- what is done at the store ---- */

/* With the '/' behind it that keeps "a/1" apart from "a/10". `all`: it may be the whole bucket. */
static int parse_folder(const char *text, bool all, location *of, error *err)
{
	location given;
	int code = parse_target(text, true, &given, err);
	size_t len = code == 0 ? strlen(given.key) : 0;
	*of = (location){0};
	if (code == 0 && len == 0 && !all)
		code = error_set(err, ERROR_INVALID, "%s: this is the whole bucket, with which this is not done", given.shown);
	else if (code == 0 && !all && s3_has_dots(given.key))
		code = error_set(err, ERROR_INVALID, "%s: the prefix has a part \".\" or \"..\"", given.shown);
	if (code != 0 || len == 0 || given.key[len - 1] == '/') {
		*of = given;
		return code;
	}
	char *key = mem_printf("%s/", given.key);
	code = location_object(given.bucket, key, of, err);
	free(key);
	location_fini(&given);
	return code;
}

static int check_name(const char *flag, const char *name, error *err)
{
	const char *why = name != NULL ? relative_wrong(name) : NULL;
	return why == NULL ? 0 : error_set(err, ERROR_INVALID, "%s: the name %s", flag, why);
}

static int run_list(run *r, error *err)
{
	location of;
	int64_t entries;
	int code = parse_folder(r->o.words[0], true, &of, err);
	if (code == 0)
		code = list_folder(r->c, &of, &entries, err);
	if (code == 0)
		json_put_int(r->said, "entries", entries);
	location_fini(&of);
	return code;
}

static int run_delete(run *r, error *err)
{
	location of;
	int code = parse_target(r->o.words[0], false, &of, err);
	if (code == 0)
		code = remove_object(r->c, &of, err);
	location_fini(&of);
	return code;
}

static int run_delete_folder(run *r, error *err)
{
	location of;
	int64_t removed;
	int code = parse_folder(r->o.words[0], false, &of, err);
	if (code == 0)
		code = check_name("--first", r->o.first, err);
	if (code == 0)
		code = remove_folder(r->c, &of, r->o.first, &removed, err);
	if (code == 0)
		json_put_int(r->said, "removed", removed);
	location_fini(&of);
	return code;
}

static int run_copy(run *r, error *err)
{
	location from, to = {0};
	object_head head;
	char etag[256];
	int code = parse_target(r->o.words[0], false, &from, err);
	if (code == 0)
		code = parse_target(r->o.words[1], false, &to, err);
	if (code == 0 && strcmp(from.bucket, to.bucket) == 0 && strcmp(from.key, to.key) == 0)
		code = error_set(err, ERROR_INVALID, "%s cannot be copied to itself", from.shown);
	if (code == 0)
		code = store_head(r->c, &from, NULL, &head, err);
	if (code == 0)
		code = copy_object(r->c, &from, &to, head.size, etag, err);
	if (code == 0) {
		json_put_int(r->said, "size", head.size);
		put_version(r->said, etag, NULL);
	}
	location_fini(&from);
	location_fini(&to);
	return code;
}

static int run_folders(run *r, int (*act)(client *, move *, error *), move *m, error *err)
{
	location from, to = {0};
	int code = parse_folder(r->o.words[0], false, &from, err);
	if (code == 0)
		code = parse_folder(r->o.words[1], false, &to, err);
	if (code == 0)
		code = check_name("--last", r->o.last, err);
	*m = (move){.from = &from, .to = &to, .last = r->o.last, .etag_is_no_md5 = r->o.etag_is_no_md5};
	if (code == 0)
		code = act(r->c, m, err);
	if (code == 0) {
		json_put_int(r->said, "files", m->copied);
		json_put_int(r->said, "bytes", atomic_load(&r->s.bytes));
	}
	location_fini(&from);
	location_fini(&to);
	return code;
}

static int run_copy_folder(run *r, error *err)
{
	move m;
	return run_folders(r, move_copy, &m, err);
}

static int run_move_folder(run *r, error *err)
{
	move m;
	int code = run_folders(r, move_folder, &m, err);
	if (code == 0)
		json_put_int(r->said, "removed", m.removed);
	return code;
}

static int (*const commands[COMMANDS])(run *, error *) = {
	[COMMAND_FETCH] = run_fetch,
	[COMMAND_GET] = run_get,
	[COMMAND_HEAD] = run_head,
	[COMMAND_PUT] = run_put,
	[COMMAND_GET_FOLDER] = run_get_folder,
	[COMMAND_PUT_FOLDER] = run_put_folder,
	[COMMAND_LIST] = run_list,
	[COMMAND_DELETE] = run_delete,
	[COMMAND_DELETE_FOLDER] = run_delete_folder,
	[COMMAND_COPY] = run_copy,
	[COMMAND_COPY_FOLDER] = run_copy_folder,
	[COMMAND_MOVE_FOLDER] = run_move_folder,
};

int commands_run(run *r, error *err)
{
	return commands[r->o.command](r, err);
}
