/* A job's state beside its document and its rows, as the JSON text that the store keeps:
 *
 *     {"v":1,"base":{cursor},"alloc":{"round","from","to","end":{cursor},"begin":{cursor},"written"},"removed":n}
 *
 * What is absent is not there; unknown members are ignored, so that an older program can read what a
 * newer one of the same version wrote. What cannot be read is refused as a whole: the store then drops the job, and the cloud sends it again.
 */
#include <string.h>

#include "common/json.h"
#include "edge-agent/core/record.h"

enum { STATE_VERSION = 1, STATE_MAX = 16 * 1024 };

static cJSON *alloc_encode(const allocation *al)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "round", al->round);
	json_put_int(o, "from", al->range.from);
	json_put_int(o, "to", al->range.to);
	json_put(o, "end", cursor_encode(&al->range.end));
	json_put(o, "begin", cursor_encode(&al->begin));
	json_put_bool(o, "written", al->written);
	return o;
}

char *record_state_encode(const record *r)
{
	cJSON *root = cJSON_CreateObject();
	char *text;

	json_put_int(root, "v", STATE_VERSION);
	if (r->has_base)
		json_put(root, "base", cursor_encode(&r->base));
	if (r->has_alloc)
		json_put(root, "alloc", alloc_encode(&r->alloc));
	json_put_int(root, "removed", r->removed);
	text = json_print(root);
	cJSON_Delete(root);
	return text;
}

/* A getter that found nothing where something must be. */
static int needed(int got, const char *where, const char *name, error *err)
{
	if (got == 0)
		return error_set(err, ERROR_INVALID, "%s.%s is missing", where, name);
	return got < 0 ? got : 0;
}

static int int_decode(const cJSON *o, const char *where, const char *name, int64_t min, int64_t *out, error *err)
{
	return needed(json_get_int(o, where, name, min, JSON_MAX_INT, out, err), where, name, err);
}

/* 1 if it is there, 0 if not. */
static int member_decode(const cJSON *obj, const char *where, const char *name, cursor *out, error *err)
{
	const cJSON *o;
	int code = json_get_object(obj, where, name, &o, err);

	if (code <= 0)
		return code;
	code = cursor_decode(o, name, out, err);
	return code == 0 ? 1 : code;
}

static int alloc_decode(const cJSON *o, allocation *al, error *err)
{
	int code;

	if ((code = int_decode(o, "alloc", "round", 1, &al->round, err)) != 0 ||
		(code = int_decode(o, "alloc", "from", 0, &al->range.from, err)) != 0 ||
		(code = int_decode(o, "alloc", "to", al->range.from, &al->range.to, err)) != 0 ||
		(code = needed(member_decode(o, "alloc", "end", &al->range.end, err), "alloc", "end", err)) != 0 ||
		(code = needed(member_decode(o, "alloc", "begin", &al->begin, err), "alloc", "begin", err)) != 0 ||
		(code = needed(json_get_bool(o, "alloc", "written", &al->written, err), "alloc", "written", err)) != 0)
		return code;
	if (al->begin.sample != al->range.from || al->range.end.sample != al->range.to)
		return error_set(err, ERROR_INVALID, "alloc: its cursors are not at the ends of its range");
	return 0;
}

static int state_decode(record *r, const cJSON *root, error *err)
{
	const cJSON *o;
	int64_t version;
	int code = int_decode(root, "state", "v", 0, &version, err);

	if (code != 0)
		return code;
	if (version != STATE_VERSION)
		return error_set(err, ERROR_UNSUPPORTED, "state.v is %lld; this program knows %d", (long long)version, STATE_VERSION);
	if ((code = int_decode(root, "state", "removed", 0, &r->removed, err)) != 0 ||
		(code = member_decode(root, "state", "base", &r->base, err)) < 0)
		return code;
	r->has_base = code == 1;
	if ((code = json_get_object(root, "state", "alloc", &o, err)) <= 0)
		return code;
	r->has_alloc = true;
	return alloc_decode(o, &r->alloc, err);
}

int record_state_decode(record *r, const char *text, error *err)
{
	cJSON *root = NULL;
	int code = json_parse(text, strlen(text), STATE_MAX, &root, err);

	if (code == 0)
		code = state_decode(r, root, err);
	cJSON_Delete(root);
	if (code != 0) {
		r->has_base = r->has_alloc = false;
		r->removed = 0;
	}
	return code;
}
