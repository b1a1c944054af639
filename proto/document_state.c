/* The state of a job, for people and monitors. */
#include "proto/document_internal.h"

static void read_waiting(reading *r, const cJSON *root, job_state *s)
{
	const cJSON *o = read__object(r, root, "state", "waiting", OPTIONAL);

	s->waiting_samples = -1;
	if (o == NULL)
		return;
	s->has_waiting = true;
	read__int(r, o, "state.waiting", "samples", OPTIONAL, 0, DOCUMENT_MAX_INT, &s->waiting_samples);
	s->waiting_trigger = read__text(r, o, "state.waiting", "trigger", OPTIONAL, TEXT_MAX_MESSAGE);
}

static void read_ended(reading *r, const cJSON *root, job_state *s)
{
	const cJSON *o = read__object(r, root, "state", "ended", OPTIONAL);

	if (o == NULL)
		return;
	s->has_ended = true;
	s->ended = read__position(r, o, "state.ended", 1);
	s->ended_reason = read__text(r, o, "state.ended", "reason", NEEDED, TEXT_MAX_REASON);
	s->ended_message = read__prose(r, o, "state.ended", "message", NEEDED, TEXT_MAX_MESSAGE);
	if (!phase_ended(s->ended.phase))
		read__fail(r, "state.ended", "phase", "'%s' is no end", phase_name(s->ended.phase));
}

static void read_metrics(reading *r, const cJSON *root, job_state *s)
{
	const cJSON *o = read__object(r, root, "state", "metrics", OPTIONAL);

	s->metrics_new = read__any(r, o, "new");
	s->metrics_old = read__any(r, o, "old");
}

static void read_deployed(reading *r, const cJSON *root, job_state *s)
{
	const cJSON *o = read__object(r, root, "state", "deployed", OPTIONAL);

	if (o == NULL)
		return;
	s->has_deployed = true;
	read__int(r, o, "state.deployed", "round", NEEDED, 0, DOCUMENT_MAX_INT, &s->deployed_round);
	s->has_deployed_sha256 = read__digest(r, o, "state.deployed", "sha256", OPTIONAL, &s->deployed_sha256);
	s->deployed_since = read__text(r, o, "state.deployed", "since", OPTIONAL, TEXT_MAX_TIME);
	s->has_deployed_of = read__int(r, o, "state.deployed", "of", OPTIONAL, 0, DOCUMENT_MAX_INT, &s->deployed_of);
}

static void read_versions(reading *r, const cJSON *root, job_state *s)
{
	const cJSON *array = read__array(r, root, "state", "versions", OPTIONAL, DOCUMENT_MAX_VERSIONS, &s->n_versions), *entry;
	size_t i = 0;

	if (array == NULL || s->n_versions == 0)
		return;
	s->versions = arena_alloc(r->mem, s->n_versions * sizeof(*s->versions));
	cJSON_ArrayForEach(entry, array) {
		double n = cJSON_IsNumber(entry) ? entry->valuedouble : -1;

		if (!(n >= 0 && n <= (double)DOCUMENT_MAX_INT) || (double)(int64_t)n != n) {
			read__fail(r, "state", "versions", "entry %zu is not the number of a round", i);
			return;
		}
		s->versions[i++] = (int64_t)n;
	}
}

int job_state_decode(const char *data, size_t len, job_state **out, error *err)
{
	reading r;
	const cJSON *root = read__begin(&r, "state", data, len, err);
	job_state *s = arena_alloc(r.mem, sizeof(*s));
	int code;

	s->mem = r.mem;
	s->ts = read__ts(&r, root, "state", NEEDED);
	s->stamp = read__stamp(&r, root, "state");
	s->job = read__job(&r, root, "state");
	s->position = read__position(&r, root, "state", 0);
	s->since = read__text(&r, root, "state", "since", NEEDED, TEXT_MAX_TIME);
	s->reason = read__text(&r, root, "state", "reason", NEEDED, TEXT_MAX_REASON);
	s->message = read__prose(&r, root, "state", "message", NEEDED, TEXT_MAX_MESSAGE);
	read_ended(&r, root, s);
	read_waiting(&r, root, s);
	read_metrics(&r, root, s);
	read_deployed(&r, root, s);
	read_versions(&r, root, s);
	read__int(&r, root, "state", "failures", NEEDED, 0, DOCUMENT_MAX_INT, &s->failures);
	code = read__end(&r);
	*out = code == 0 ? s : NULL;
	return code;
}

static void write_waiting(cJSON *root, const job_state *s)
{
	cJSON *o = cJSON_CreateObject();

	if (s->waiting_samples >= 0)
		json_put_int(o, "samples", s->waiting_samples);
	write__prose(o, "trigger", s->waiting_trigger, TEXT_MAX_MESSAGE);
	json_put(root, "waiting", o);
}

static void write_ended(cJSON *root, const job_state *s)
{
	cJSON *o = cJSON_CreateObject();

	write__position(o, s->ended);
	write__prose(o, "reason", s->ended_reason == NULL ? "" : s->ended_reason, TEXT_MAX_REASON);
	write__prose(o, "message", s->ended_message == NULL ? "" : s->ended_message, TEXT_MAX_MESSAGE);
	json_put(root, "ended", o);
}

static void write_metrics(cJSON *root, const job_state *s)
{
	cJSON *o = cJSON_CreateObject();

	write__copy(o, "new", s->metrics_new);
	write__copy(o, "old", s->metrics_old);
	json_put(root, "metrics", o);
}

static void write_deployed(cJSON *root, const job_state *s)
{
	cJSON *o = cJSON_CreateObject();

	json_put_int(o, "round", s->deployed_round);
	if (s->has_deployed_sha256)
		write__digest(o, "sha256", &s->deployed_sha256);
	json_put_string(o, "since", s->deployed_since);
	if (s->has_deployed_of)
		json_put_int(o, "of", s->deployed_of);
	json_put(root, "deployed", o);
}

static void write_versions(cJSON *root, const job_state *s)
{
	cJSON *array = cJSON_CreateArray();

	for (size_t i = 0; i < s->n_versions; i++)
		cJSON_AddItemToArray(array, cJSON_CreateNumber((double)s->versions[i]));
	json_put(root, "versions", array);
}

char *job_state_encode(const job_state *s)
{
	cJSON *root = write__begin(s->ts);

	write__stamp(root, s->stamp);
	write__job(root, &s->job);
	write__position(root, s->position);
	json_put_string(root, "since", s->since);
	write__prose(root, "reason", s->reason == NULL ? "" : s->reason, TEXT_MAX_REASON);
	write__prose(root, "message", s->message == NULL ? "" : s->message, TEXT_MAX_MESSAGE);
	if (s->has_ended)
		write_ended(root, s);
	if (s->has_waiting)
		write_waiting(root, s);
	if (s->metrics_new != NULL || s->metrics_old != NULL)
		write_metrics(root, s);
	if (s->has_deployed)
		write_deployed(root, s);
	if (s->n_versions > 0)
		write_versions(root, s);
	json_put_int(root, "failures", s->failures);
	return write__end(root);
}

void job_state_free(job_state *s)
{
	if (s != NULL)
		arena_free(s->mem);
}
