/* See version.h. */
#include "edge-agent/storage/version.h"

#include <stdlib.h>
#include <string.h>

#include "common/buf.h"
#include "common/file.h"
#include "common/json.h"
#include "common/mem.h"
#include "proto/document.h"

char *version_model_name(const char *from)
{
	size_t end = strlen(from);
	while (end > 1 && from[end - 1] == '/')
		end--;
	size_t begin = end;
	while (begin > 0 && from[begin - 1] != '/')
		begin--;
	char *name = mem_strndup(from + begin, end - begin);
	if (strcmp(name, VERSION_FILE) == 0) {
		free(name);
		name = mem_strdup(VERSION_FILE ".model");
	}
	return name;
}

static cJSON *model_part(const version *v)
{
	cJSON *part = cJSON_CreateObject();
	char hex[DIGEST_HEX_SIZE];
	digest_hex(&v->sha256, hex);
	json_put_string(part, "name", v->name);
	json_put_string(part, "sha256", hex);
	json_put_int(part, "bytes", v->bytes);
	if (v->folder)
		json_put_bool(part, "folder", true);
	if (v->format != NULL && v->format[0] != '\0')
		json_put_string(part, "format", v->format);
	if (v->metrics != NULL)
		json_put(part, "metrics", cJSON_Duplicate(v->metrics, 1));
	return part;
}

char *version_encode(const version *v, int64_t unix_ms)
{
	cJSON *root = cJSON_CreateObject();
	char time[32];
	time_format(unix_ms, time);
	json_put_int(root, "v", 1);
	json_put_string(root, "job", v->uid);
	json_put_int(root, "round", v->round);
	json_put_string(root, "time", time);
	if (v->of >= 0)
		json_put_int(root, "of", v->of);
	if (v->name != NULL)
		json_put(root, "model", model_part(v));
	char *text = json_print(root);
	if (text == NULL) { /* metrics nested too deep to be written: all the rest is of more use than nothing */
		cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(root, "model"), "metrics");
		text = json_print(root);
	}
	cJSON_Delete(root);
	return text;
}

/* 1, or what is wrong. */
static int found(int got, const char *name, error *err)
{
	return got == 0 ? error_set(err, ERROR_INVALID, VERSION_FILE ".%s: is missing", name) : got;
}

static int read_model(const cJSON *part, version *out, error *err)
{
	const char *hex = NULL;
	int got = found(json_get_string(part, "model", "name", &out->name, err), "model.name", err);
	if (got == 1 &&
		(out->name[0] == '\0' || strchr(out->name, '/') != NULL || strcmp(out->name, ".") == 0 || strcmp(out->name, "..") == 0 ||
			strcmp(out->name, VERSION_FILE) == 0))
		got = error_set(err, ERROR_INVALID, VERSION_FILE ".model.name: '%.80s' is no name of a model", out->name);
	if (got == 1)
		got = found(json_get_string(part, "model", "sha256", &hex, err), "model.sha256", err);
	if (got == 1 && digest_parse(hex, &out->sha256) != 0)
		got = error_set(err, ERROR_INVALID, VERSION_FILE ".model.sha256: is no digest");
	if (got == 1)
		got = found(json_get_int(part, "model", "bytes", 0, JSON_MAX_INT, &out->bytes, err), "model.bytes", err);
	if (got == 1 && json_get_bool(part, "model", "folder", &out->folder, err) < 0)
		got = ERROR_INVALID;
	if (got == 1 && json_get_string(part, "model", "format", &out->format, err) < 0)
		got = ERROR_INVALID;
	out->metrics = json_member(part, "metrics");
	if (got != 1)
		out->name = NULL;
	return got == 1 ? 0 : got;
}

int version_decode(const char *text, size_t len, version *out, error *err)
{
	int64_t v = 0;
	const cJSON *part = NULL;
	*out = (version){.of = -1};
	int code = json_parse(text, len, VERSION_MAX, &out->tree, err);
	if (code != 0)
		return code;
	int got = found(json_get_int(out->tree, VERSION_FILE, "v", 0, JSON_MAX_INT, &v, err), "v", err);
	if (got == 1 && v != 1)
		return error_set(err, ERROR_UNSUPPORTED, VERSION_FILE ".v: %lld is not known", (long long)v);
	if (got == 1)
		got = found(json_get_int(out->tree, VERSION_FILE, "round", 0, DOCUMENT_MAX_INT, &out->round, err), "round", err);
	if (got == 1 && json_get_int(out->tree, VERSION_FILE, "of", 0, DOCUMENT_MAX_INT, &out->of, err) < 0)
		got = ERROR_INVALID;
	if (got == 1 && json_get_string(out->tree, VERSION_FILE, "job", &out->uid, err) < 0)
		got = ERROR_INVALID;
	if (got == 1 && json_get_object(out->tree, VERSION_FILE, "model", &part, err) < 0)
		got = ERROR_INVALID;
	if (got != 1)
		return got;
	return part != NULL ? read_model(part, out, err) : 0;
}

int version_read(const char *folder, version *out, error *err)
{
	char *path = mem_printf("%s/" VERSION_FILE, folder);
	buf text = {0};
	*out = (version){.of = -1};
	int code = file_read(path, VERSION_MAX, &text, err);
	if (code == 0)
		code = version_decode(buf_text(&text), text.len, out, err);
	buf_fini(&text);
	free(path);
	return code;
}

void version_fini(version *v)
{
	cJSON_Delete(v->tree);
	*v = (version){.of = -1};
}
