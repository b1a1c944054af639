/* The pieces that documents are made of: stamps, references, models, cursors, digests. Each piece's reader and writer stand together. */
#include <string.h>

#include "proto/document_internal.h"

/* ---- stamps and positions ---- */

int stamp_compare(stamp a, stamp b)
{
	if (a.epoch != b.epoch)
		return a.epoch < b.epoch ? -1 : 1;
	if (a.gen != b.gen)
		return a.gen < b.gen ? -1 : 1;
	return 0;
}

stamp read__stamp(reading *r, const cJSON *obj, const char *where)
{
	const cJSON *o = read__object(r, obj, where, "stamp", NEEDED);
	const char *path = path__member(r, where, "stamp");
	stamp s = {0, 0};

	read__int(r, o, path, "epoch", NEEDED, 0, DOCUMENT_MAX_EPOCH, &s.epoch);
	read__int(r, o, path, "gen", NEEDED, 0, DOCUMENT_MAX_INT, &s.gen);
	return s;
}

void write__stamp(cJSON *obj, stamp s)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "epoch", s.epoch);
	json_put_int(o, "gen", s.gen);
	json_put(obj, "stamp", o);
}

position read__position(reading *r, const cJSON *obj, const char *where, int64_t min_round)
{
	position p = {0, STAGE_TRAIN, PHASE_WAITING};
	const char *text;

	read__int(r, obj, where, "round", NEEDED, min_round, DOCUMENT_MAX_INT, &p.round);
	text = read__text(r, obj, where, "stage", NEEDED, TEXT_MAX_WORD);
	if (text != NULL && !stage_parse(text, &p.stage))
		read__fail(r, where, "stage", "'%s' is not one of Train, Eval, Deploy", text);
	text = read__text(r, obj, where, "phase", NEEDED, TEXT_MAX_WORD);
	if (text != NULL && !phase_parse(text, &p.phase))
		read__fail(r, where, "phase", "'%s' is not one of Waiting, Ready, Starting, Running, Completed, Failed", text);
	return p;
}

void write__position(cJSON *obj, position p)
{
	json_put_int(obj, "round", p.round);
	json_put_string(obj, "stage", stage_name(p.stage));
	json_put_string(obj, "phase", phase_name(p.phase));
}

/* ---- who and what ---- */

bool uid_valid(const char *s)
{
	size_t len = strnlen(s, TEXT_MAX_UID + 1);

	return len > 0 && len <= TEXT_MAX_UID && *s != '.' &&
		strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") == len;
}

const char *read__node(reading *r, const cJSON *obj, const char *where)
{
	return read__name(r, obj, where, "node", name_valid_node, "a node's name");
}

const char *read__ts(reading *r, const cJSON *obj, const char *where, enum need need)
{
	return read__text(r, obj, where, "ts", need, TEXT_MAX_TIME);
}

job_ref read__job(reading *r, const cJSON *obj, const char *where)
{
	const cJSON *o = read__object(r, obj, where, "job", NEEDED);
	const char *path = path__member(r, where, "job");

	return (job_ref){
		.ns = read__name(r, o, path, "namespace", name_valid_ns, "a namespace"),
		.name = read__name(r, o, path, "name", name_valid, "a job's name"),
		.uid = read__name(r, o, path, "uid", uid_valid, "a uid"),
	};
}

static void put_reference(cJSON *obj, const char *ns, const char *name, const char *uid)
{
	json_put_string(obj, "namespace", ns);
	json_put_string(obj, "name", name);
	json_put_string(obj, "uid", uid);
}

void write__job(cJSON *obj, const job_ref *job)
{
	cJSON *o = cJSON_CreateObject();

	put_reference(o, job->ns, job->name, job->uid);
	json_put(obj, "job", o);
}

static const char *const format_names[] = {[FORMAT_TXT] = "txt", [FORMAT_CSV] = "csv"};

const char *dataset_format_name(enum dataset_format f)
{
	return (unsigned)f < sizeof(format_names) / sizeof(format_names[0]) ? format_names[f] : "?";
}

bool dataset_format_parse(const char *name, enum dataset_format *out)
{
	for (unsigned i = 0; i < sizeof(format_names) / sizeof(format_names[0]); i++) {
		if (strcmp(name, format_names[i]) == 0) {
			*out = (enum dataset_format)i;
			return true;
		}
	}
	return false;
}

void read__dataset_id(reading *r, const cJSON *obj, const char *where, dataset_ref *out)
{
	out->ns = read__name(r, obj, where, "namespace", name_valid_ns, "a namespace");
	out->name = read__name(r, obj, where, "name", name_valid, "a dataset's name");
	out->uid = read__name(r, obj, where, "uid", uid_valid, "a uid");
}

void read__dataset(reading *r, const cJSON *obj, const char *where, dataset_ref *out)
{
	const char *format;

	read__dataset_id(r, obj, where, out);
	out->url = read__word(r, obj, where, "url", NEEDED, TEXT_MAX_URL);
	format = read__text(r, obj, where, "format", NEEDED, TEXT_MAX_WORD);
	if (format != NULL && !dataset_format_parse(format, &out->format))
		read__fail(r, where, "format", "'%s' is not one of txt, csv", format);
}

cJSON *write__dataset_id(const dataset_ref *d)
{
	cJSON *o = cJSON_CreateObject();

	put_reference(o, d->ns, d->name, d->uid);
	return o;
}

/* ---- digests and cursors ---- */

bool read__digest(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, digest *out)
{
	const char *hex = read__text(r, obj, where, name, need, DIGEST_HEX_SIZE);

	if (hex == NULL)
		return false;
	if (digest_parse(hex, out) != 0) {
		read__fail(r, where, name, "'%s' is not a SHA-256 digest in hex", hex);
		return false;
	}
	return true;
}

void write__digest(cJSON *obj, const char *name, const digest *d)
{
	char hex[DIGEST_HEX_SIZE];

	digest_hex(d, hex);
	json_put_string(obj, name, hex);
}

bool cursor_equal(const cursor *a, const cursor *b)
{
	return a->sample == b->sample && a->size == b->size && digest_equal(&a->digest, &b->digest);
}

static void read_cursor(reading *r, const cJSON *obj, const char *where, cursor *out)
{
	read__int(r, obj, where, "sample", NEEDED, 0, DOCUMENT_MAX_INT, &out->sample);
	read__int(r, obj, where, "size", NEEDED, 0, DOCUMENT_MAX_INT, &out->size);
	(void)read__digest(r, obj, where, "digest", NEEDED, &out->digest);
}

bool read__cursor(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, cursor *out)
{
	const cJSON *o = read__object(r, obj, where, name, need);

	if (o == NULL)
		return false;
	read_cursor(r, o, path__member(r, where, name), out);
	return r->code == 0;
}

int cursor_decode(const cJSON *obj, const char *where, cursor *out, error *err)
{
	reading r = {.err = err};

	read_cursor(&r, obj, where, out);
	return r.code;
}

cJSON *cursor_encode(const cursor *c)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "sample", c->sample);
	json_put_int(o, "size", c->size);
	write__digest(o, "digest", &c->digest);
	return o;
}

void write__cursor(cJSON *obj, const char *name, const cursor *c)
{
	json_put(obj, name, cursor_encode(c));
}

/* ---- models ---- */

void read__model(reading *r, const cJSON *obj, const char *where, model *out)
{
	*out = (model){.format = read__text(r, obj, where, "format", OPTIONAL, TEXT_MAX_WORD)};
	if (out->format == NULL)
		out->format = "";
	out->url = read__word(r, obj, where, "url", NEEDED, TEXT_MAX_URL);
	out->socs = read__strings(r, obj, where, "device_soc_versions", OPTIONAL, DOCUMENT_MAX_SOCS, NULL, &out->n_socs);
	out->metrics = read__any(r, obj, "metrics");
}

int model_decode(arena *mem, const cJSON *obj, const char *where, model *out, error *err)
{
	reading r = {.mem = mem, .err = err};

	read__model(&r, obj, where, out);
	return r.code;
}

model *read__models(reading *r, const cJSON *obj, const char *where, const char *name, enum need need, size_t *n)
{
	const cJSON *array = read__array(r, obj, where, name, need, DOCUMENT_MAX_MODELS, n);
	model *models;
	const cJSON *entry;
	size_t i = 0;

	if (array == NULL || *n == 0)
		return NULL;
	models = arena_alloc(r->mem, *n * sizeof(*models));
	cJSON_ArrayForEach(entry, array) {
		if (!cJSON_IsObject(entry)) {
			read__fail(r, where, name, "entry %zu is not an object", i);
			break;
		}
		read__model(r, entry, path__entry(r, where, name, i), &models[i]);
		i++;
	}
	return models;
}

cJSON *model_encode(const model *m)
{
	cJSON *o = cJSON_CreateObject();

	json_put_string(o, "format", m->format);
	json_put_string(o, "url", m->url);
	if (m->n_socs > 0)
		write__strings(o, "device_soc_versions", m->socs, m->n_socs);
	write__copy(o, "metrics", m->metrics);
	return o;
}

void write__models(cJSON *obj, const char *name, const model *models, size_t n)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < n; i++)
		cJSON_AddItemToArray(array, model_encode(&models[i]));
	json_put(obj, name, array);
}

/* ---- versions ---- */

model_version *read__versions(reading *r, const cJSON *obj, const char *where, const char *name, size_t *n)
{
	const cJSON *array = read__array(r, obj, where, name, OPTIONAL, DOCUMENT_MAX_VERSIONS, n);
	model_version *versions;
	const cJSON *entry;
	size_t i = 0;

	if (array == NULL || *n == 0)
		return NULL;
	versions = arena_alloc(r->mem, *n * sizeof(*versions));
	cJSON_ArrayForEach(entry, array) {
		const char *path = path__entry(r, where, name, i);

		if (!cJSON_IsObject(entry)) {
			read__fail(r, where, name, "entry %zu is not an object", i);
			break;
		}
		read__int(r, entry, path, "round", NEEDED, 0, DOCUMENT_MAX_INT, &versions[i].round);
		(void)read__digest(r, entry, path, "sha256", NEEDED, &versions[i].sha256);
		versions[i].url = read__word(r, entry, path, "url", NEEDED, TEXT_MAX_URL);
		i++;
	}
	return versions;
}

void write__versions(cJSON *obj, const char *name, const model_version *versions, size_t n)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < n; i++) {
		cJSON *o = cJSON_CreateObject();

		json_put_int(o, "round", versions[i].round);
		write__digest(o, "sha256", &versions[i].sha256);
		json_put_string(o, "url", versions[i].url);
		cJSON_AddItemToArray(array, o);
	}
	json_put(obj, name, array);
}
