/* See manifest.h. */
#include "edge-agent/dataset/manifest.h"

#include <string.h>

#include "common/json.h"

static void put_digest(cJSON *obj, const char *name, const digest *d)
{
	char hex[DIGEST_HEX_SIZE];
	digest_hex(d, hex);
	json_put_string(obj, name, hex);
}

static cJSON *encode_cursor(const cursor *c)
{
	cJSON *obj = cJSON_CreateObject();
	json_put_int(obj, "sample", c->sample);
	json_put_int(obj, "size", c->size);
	put_digest(obj, "digest", &c->digest);
	return obj;
}

char *manifest_encode(const manifest *m)
{
	cJSON *obj = cJSON_CreateObject(), *files = cJSON_CreateObject();
	json_put_int(obj, "v", MANIFEST_VERSION);
	json_put_string(obj, "uid", m->uid);
	json_put_int(obj, "round", m->round);
	json_put_string(obj, "format", dataset_format_name(m->format));
	json_put_int(obj, "from", m->from);
	json_put_int(obj, "to", m->to);
	json_put(obj, "before", encode_cursor(&m->before));
	json_put(obj, "after", encode_cursor(&m->after));
	json_put_double(obj, "trainProb", m->train_prob);
	json_put_int(obj, "train", m->train);
	json_put_int(obj, "eval", m->eval);
	for (size_t i = 0; i < m->n_files; i++) {
		cJSON *file = cJSON_CreateObject();
		json_put_int(file, "samples", m->files[i].samples);
		json_put_int(file, "bytes", m->files[i].bytes);
		put_digest(file, "sha256", &m->files[i].sha256);
		json_put(files, m->files[i].name, file);
	}
	json_put(obj, "files", files);
	char *text = json_print(obj);
	cJSON_Delete(obj);
	return text;
}

static int needed(int got, const char *where, const char *name, error *err)
{
	if (got == 0)
		return error_set(err, ERROR_INVALID, "%s.%s is missing", where, name);
	return got < 0 ? got : 0;
}

static int get_int(const cJSON *obj, const char *where, const char *name, int64_t min, int64_t *out, error *err)
{
	return needed(json_get_int(obj, where, name, min, JSON_MAX_INT, out, err), where, name, err);
}

static int get_digest(const cJSON *obj, const char *where, const char *name, digest *out, error *err)
{
	const char *text = NULL;
	int code = needed(json_get_string(obj, where, name, &text, err), where, name, err);
	if (code == 0 && digest_parse(text, out) != 0)
		code = error_set(err, ERROR_INVALID, "%s.%s is not a SHA-256 digest in hex", where, name);
	return code;
}

static int get_cursor(const cJSON *obj, const char *name, cursor *out, error *err)
{
	const cJSON *c = NULL;
	int code = needed(json_get_object(obj, "manifest", name, &c, err), "manifest", name, err);
	if (code == 0)
		code = get_int(c, name, "sample", 0, &out->sample, err);
	if (code == 0)
		code = get_int(c, name, "size", 0, &out->size, err);
	if (code == 0)
		code = get_digest(c, name, "digest", &out->digest, err);
	return code;
}

static int get_head(const cJSON *obj, manifest *out, error *err)
{
	const char *uid = NULL, *format = NULL;
	int64_t version;
	int code = get_int(obj, "manifest", "v", 0, &version, err);
	if (code != 0)
		return code;
	if (version != MANIFEST_VERSION)
		return error_set(err, ERROR_UNSUPPORTED, "manifest version %lld is not known here", (long long)version);
	code = needed(json_get_string(obj, "manifest", "uid", &uid, err), "manifest", "uid", err);
	if (code == 0 && (*uid == '\0' || strlen(uid) > TEXT_MAX_UID))
		code = error_set(err, ERROR_INVALID, "manifest.uid is empty or too long");
	if (code == 0) {
		memcpy(out->uid, uid, strlen(uid) + 1);
		code = needed(json_get_string(obj, "manifest", "format", &format, err), "manifest", "format", err);
	}
	if (code == 0 && !dataset_format_parse(format, &out->format))
		code = error_set(err, ERROR_INVALID, "manifest.format \"%.16s\" is not txt or csv", format);
	return code;
}

static int get_range(const cJSON *obj, manifest *out, error *err)
{
	int code = get_int(obj, "manifest", "round", 1, &out->round, err);
	if (code == 0)
		code = get_int(obj, "manifest", "from", 0, &out->from, err);
	if (code == 0)
		code = get_int(obj, "manifest", "to", 0, &out->to, err);
	if (code == 0)
		code = get_cursor(obj, "before", &out->before, err);
	if (code == 0)
		code = get_cursor(obj, "after", &out->after, err);
	if (code == 0)
		code = needed(json_get_double(obj, "manifest", "trainProb", &out->train_prob, err), "manifest", "trainProb", err);
	if (code == 0)
		code = get_int(obj, "manifest", "train", 0, &out->train, err);
	if (code == 0)
		code = get_int(obj, "manifest", "eval", 0, &out->eval, err);
	return code;
}

static bool name_fits(const char *name)
{
	if (*name == '\0' || *name == '.' || strlen(name) > MANIFEST_NAME_MAX)
		return false;
	for (const char *p = name; *p != '\0'; p++) {
		if (*p == '/' || *p < ' ' || *p > '~')
			return false;
	}
	return true;
}

static int get_files(const cJSON *obj, manifest *out, error *err)
{
	const cJSON *files = NULL, *one;
	int code = needed(json_get_object(obj, "manifest", "files", &files, err), "manifest", "files", err);
	if (code != 0)
		return code;
	cJSON_ArrayForEach(one, files) {
		if (out->n_files == MANIFEST_FILES_MAX)
			return error_set(err, ERROR_INVALID, "manifest.files lists more than %d files", MANIFEST_FILES_MAX);
		manifest_file *f = &out->files[out->n_files];
		if (!name_fits(one->string))
			return error_set(err, ERROR_INVALID, "manifest.files: \"%.32s\" is not the name of a file of the round", one->string);
		memcpy(f->name, one->string, strlen(one->string) + 1);
		code = get_int(one, f->name, "samples", 0, &f->samples, err);
		if (code == 0)
			code = get_int(one, f->name, "bytes", 0, &f->bytes, err);
		if (code == 0)
			code = get_digest(one, f->name, "sha256", &f->sha256, err);
		if (code != 0)
			return code;
		out->n_files++;
	}
	return 0;
}

static int check(const manifest *m, error *err)
{
	if (m->from > m->to || m->before.sample != m->from || m->after.sample != m->to || m->before.size > m->after.size)
		return error_set(err, ERROR_INVALID, "manifest: the range of samples contradicts itself");
	if (m->train > m->to - m->from || m->eval != m->to - m->from - m->train)
		return error_set(err, ERROR_INVALID, "manifest: train and eval do not add up to the range");
	return 0;
}

int manifest_decode(const char *data, size_t len, manifest *out, error *err)
{
	cJSON *obj = NULL;
	memset(out, 0, sizeof *out);
	int code = json_parse(data, len, MANIFEST_BYTES_MAX, &obj, err);
	if (code == 0 && !cJSON_IsObject(obj))
		code = error_set(err, ERROR_INVALID, "manifest: not an object");
	if (code == 0)
		code = get_head(obj, out, err);
	if (code == 0)
		code = get_range(obj, out, err);
	if (code == 0)
		code = get_files(obj, out, err);
	if (code == 0)
		code = check(out, err);
	cJSON_Delete(obj);
	return code;
}

const manifest_file *manifest_find(const manifest *m, const char *name)
{
	for (size_t i = 0; i < m->n_files; i++) {
		if (strcmp(m->files[i].name, name) == 0)
			return &m->files[i];
	}
	return NULL;
}
