/* A job object, read once per resourceVersion.
 *
 * The position is that of the last condition, and its `ilmare` member is complete: round, failures in a row, cursor, node, pod uid, deployed
 * model. Three things are found further back, and are what trimming keeps: the inputs of the present round, the results of the last Eval,
 * and the models of the trained rounds that a later stage may read. So nothing here depends on how much of the list is left.
 *
 * A list whose last condition has no member of ours was written by Sedna: its rounds are those of the folders in its inputs.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"

enum { DATA_MAX = 256 * 1024 };

static void delete_tree(void *tree)
{
	cJSON_Delete(tree);
}

const cJSON *condition_data(arena *mem, const cJSON *condition)
{
	const cJSON *text = json_member(condition, "data");
	cJSON *tree;
	if (!cJSON_IsString(text) || json_parse(text->valuestring, strlen(text->valuestring), DATA_MAX, &tree, NULL) != 0)
		return NULL;
	arena_own(mem, tree, delete_tree);
	return tree;
}

/* The same, from the cache if it was parsed before. */
static const cJSON *read_data(job_view *v, const cJSON *condition)
{
	const cJSON *text = json_member(condition, "data");
	data_cache *cache = v->cache;
	if (cache == NULL || !cJSON_IsString(text))
		return condition_data(v->mem, condition);
	for (size_t i = 0; i < cache->n; i++) {
		if (strcmp(cache->entries[i].text, text->valuestring) == 0) {
			cache->entries[i].used = true;
			return cache->entries[i].tree;
		}
	}
	cJSON *tree;
	if (cache->n == sizeof cache->entries / sizeof cache->entries[0])
		return condition_data(v->mem, condition);
	if (json_parse(text->valuestring, strlen(text->valuestring), DATA_MAX, &tree, NULL) != 0)
		return NULL;
	cache->entries[cache->n++] = (struct data_entry){.text = mem_strdup(text->valuestring), .tree = tree, .used = true};
	return tree;
}

static void entry_free(struct data_entry *e)
{
	free(e->text);
	cJSON_Delete(e->tree);
}

void data_cache_fini(data_cache *cache)
{
	for (size_t i = 0; i < cache->n; i++)
		entry_free(&cache->entries[i]);
	*cache = (data_cache){0};
}

void data_cache_sweep(data_cache *cache)
{
	size_t n = 0;
	for (size_t i = 0; i < cache->n; i++) {
		if (!cache->entries[i].used) {
			entry_free(&cache->entries[i]);
			continue;
		}
		cache->entries[n] = cache->entries[i];
		cache->entries[n++].used = false;
	}
	cache->n = n;
}

static bool read_cursor(const cJSON *obj, const char *name, cursor *out)
{
	const cJSON *value = json_member(obj, name);
	return value != NULL && cursor_decode(value, name, out, NULL) == 0;
}

static int64_t read_round(const cJSON *obj, int64_t min)
{
	int64_t round = -1;
	return json_get_int(obj, "ilmare", "round", min, DOCUMENT_MAX_INT, &round, NULL) == 1 ? round : -1;
}

static void read_deployed(member *m, const cJSON *obj)
{
	const cJSON *deployed = json_member(obj, "deployed");
	int64_t round = read_round(deployed, 0);
	const char *hex = NULL;
	if (round < 0)
		return;
	m->has_deployed = true;
	m->deployed.round = round;
	json_get_string(deployed, "", "url", &m->deployed.url, NULL);
	json_get_string(deployed, "", "since", &m->deployed.since, NULL);
	json_get_string(deployed, "", "evalURL", &m->deployed.eval_url, NULL);
	m->deployed.back = json_get_int(deployed, "", "of", 0, DOCUMENT_MAX_INT, &m->deployed.of, NULL) == 1;
	m->deployed.has_sha256 = json_get_string(deployed, "", "sha256", &hex, NULL) == 1 && digest_parse(hex, &m->deployed.sha256) == 0;
}

static void read_rollback(member *m, const cJSON *obj)
{
	const cJSON *rollback = json_member(obj, "rollback");
	const char *hex = NULL;
	json_get_string(rollback, "", "id", &m->rollback.id, NULL);
	json_get_string(rollback, "", "refused", &m->rollback.refused, NULL);
	m->rollback.under_way = json_get_int(rollback, "", "to", 0, DOCUMENT_MAX_INT, &m->rollback.to, NULL) == 1 &&
		json_get_string(rollback, "", "sha256", &hex, NULL) == 1 && digest_parse(hex, &m->rollback.sha256) == 0;
	if (m->rollback.id == NULL)
		m->rollback.refused = NULL;
}

/* False if there is no member of ours. The versions are read where they count. */
static bool read_member(const cJSON *data, member *m)
{
	const cJSON *obj = json_member(data, "ilmare");
	*m = (member){.round = read_round(obj, 1)};
	if (m->round < 1)
		return false;
	json_get_int(obj, "ilmare", "failures", 0, DOCUMENT_MAX_INT, &m->failures, NULL);
	m->has_cursor = read_cursor(obj, "cursor", &m->cursor);
	json_get_string(obj, "ilmare", "node", &m->node, NULL);
	json_get_string(obj, "ilmare", "podUID", &m->pod_uid, NULL);
	json_get_string(obj, "ilmare", "dataset", &m->dataset, NULL);
	read_deployed(m, obj);
	read_rollback(m, obj);
	return true;
}

static void read_models(job_view *v, const cJSON *part, model **out, size_t *n)
{
	const cJSON *list = json_member(part, "models");
	int size = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	*n = 0;
	if (size == 0)
		return;
	*out = arena_alloc(v->mem, (size_t)size * sizeof **out);
	const cJSON *entry;
	cJSON_ArrayForEach(entry, list) {
		if (model_decode(v->mem, entry, "models", &(*out)[*n], NULL) == 0)
			(*n)++;
	}
}

static void read_input(job_view *v, const cJSON *data, stage_input *out)
{
	const cJSON *input = json_member(data, "input");
	if (!cJSON_IsObject(input))
		return;
	out->there = true;
	read_models(v, input, &out->models, &out->n);
	json_get_string(input, "", "dataURL", &out->data_url, NULL);
	json_get_string(input, "", "dataIndexURL", &out->data_index_url, NULL);
	json_get_string(input, "", "outputDir", &out->output_dir, NULL);
	out->has_next = read_cursor(json_member(data, "range"), "end", &out->next);
}

static void read_results(job_view *v, const cJSON *data, int64_t round, results *out)
{
	*out = (results){.there = true, .round = round};
	read_models(v, json_member(data, "output"), &out->models, &out->n);
}

/* The number that ends a path ".../train/12"; 0 if there is none. */
static int64_t round_of_path(const char *path)
{
	const char *name = strrchr(path, '/');
	int64_t round = 0;
	if (name == NULL || name[1] == '\0')
		return 0;
	for (name++; *name != '\0'; name++) {
		if (*name < '0' || *name > '9' || round > INT32_MAX)
			return 0;
		round = round * 10 + (*name - '0');
	}
	return round;
}

static int64_t highest_round(job_view *v)
{
	int64_t highest = 0;
	const cJSON *condition;
	cJSON_ArrayForEach(condition, v->conditions) {
		const cJSON *dir = json_member(json_member(condition_data(v->mem, condition), "input"), "outputDir");
		int64_t round = cJSON_IsString(dir) ? round_of_path(dir->valuestring) : 0;
		if (round > highest)
			highest = round;
	}
	return highest;
}

/* The data of a condition, and its round into its note. Conditions of Sedna's are of some earlier round: which one no longer matters once a
 * round of ours has begun. */
static const cJSON *read_noted(job_view *v, const cJSON *condition, condition_note *note)
{
	member m;
	const cJSON *data = read_data(v, condition);
	note->round = read_member(data, &m) ? m.round : (v->started ? v->pos.round : v->first_round) - 1;
	return data;
}

static bool is(const condition_note *note, enum stage stage, enum phase phase)
{
	return note->stage == (int)stage && note->phase == (int)phase;
}

/* Results of train rounds: the last, the one that was evaluated last, the deployed one. From the end, so that the newest counts. */
static void read_trained(job_view *v, const cJSON *condition, condition_note *note)
{
	const cJSON *data = read_noted(v, condition, note);
	bool wanted_evaluated = v->evaluated.there && note->round == v->evaluated.round && !v->trained_evaluated.there;
	bool wanted_deployed = v->m.has_deployed && note->round == v->m.deployed.round && !v->trained_deployed.there;
	results r;
	if (v->trained.there && !wanted_evaluated && !wanted_deployed)
		return;
	read_results(v, data, note->round, &r);
	if (!v->trained.there)
		v->trained = r;
	if (wanted_evaluated)
		v->trained_evaluated = r;
	if (wanted_deployed)
		v->trained_deployed = r;
}

static void read_round_input(job_view *v, const cJSON *condition, condition_note *note, stage_input *out)
{
	const cJSON *data = read_noted(v, condition, note);
	if (v->started && note->round == v->pos.round)
		read_input(v, data, out);
}

static void read_history(job_view *v)
{
	const cJSON **list = arena_alloc(v->mem, v->n_conditions * sizeof *list);
	bool train_seen = false, eval_seen = false;
	size_t i = 0;
	const cJSON *condition;
	cJSON_ArrayForEach(condition, v->conditions) {
		list[i++] = condition;
	}
	/* The evaluated round has to be known before the trained ones are looked through. */
	for (i = v->n_conditions; i-- > 0 && !v->evaluated.there;) {
		if (is(&v->notes[i], STAGE_EVAL, PHASE_COMPLETED)) {
			const cJSON *data = read_noted(v, list[i], &v->notes[i]);
			read_results(v, data, v->notes[i].round, &v->evaluated);
		}
	}
	for (i = v->n_conditions; i-- > 0 && !v->has_ended;) {
		const condition_note *note = &v->notes[i];
		if (note->phase < 0 || !phase_ended((enum phase)note->phase))
			continue;
		read_noted(v, list[i], &v->notes[i]);
		v->has_ended = note->round >= 1;
		v->ended = (position){.round = note->round, .stage = (enum stage)note->stage, .phase = (enum phase)note->phase};
		v->ended_reason = object_text(list[i], NULL, "reason");
		v->ended_message = object_text(list[i], NULL, "message");
	}
	/* Of the inputs the newest counts, if it is of the present round. */
	for (i = v->n_conditions; i-- > 0;) {
		condition_note *note = &v->notes[i];
		if (is(note, STAGE_TRAIN, PHASE_COMPLETED)) {
			read_trained(v, list[i], note);
		} else if (is(note, STAGE_TRAIN, PHASE_READY) && !train_seen) {
			train_seen = true;
			read_round_input(v, list[i], note, &v->train_input);
		} else if (is(note, STAGE_EVAL, PHASE_READY) && !eval_seen) {
			eval_seen = true;
			read_round_input(v, list[i], note, &v->eval_input);
		}
	}
}

static void read_notes(job_view *v)
{
	const cJSON *condition;
	size_t i = 0;
	v->notes = arena_alloc(v->mem, v->n_conditions * sizeof *v->notes);
	cJSON_ArrayForEach(condition, v->conditions) {
		enum stage stage;
		enum phase phase;
		bool known =
			stage_parse(object_text(condition, NULL, "stage"), &stage) && phase_parse(object_text(condition, NULL, "type"), &phase);
		v->notes[i++] = (condition_note){.stage = known ? (int)stage : -1, .phase = known ? (int)phase : -1, .round = -1};
	}
}

static void read_position(job_view *v, const cJSON *last)
{
	const condition_note *note = &v->notes[v->n_conditions - 1];
	const cJSON *data = read_data(v, last);
	v->since = object_text(last, NULL, "lastTransitionTime");
	v->reason = object_text(last, NULL, "reason");
	v->message = object_text(last, NULL, "message");
	if (time_parse(v->since, &v->since_unix) != 0)
		v->since_unix = 0;
	if (!read_member(data, &v->m) || note->stage < 0)
		return;
	versions_read(v->mem, json_member(data, "ilmare"), &v->m);
	v->started = true;
	v->pos = (position){.round = v->m.round, .stage = (enum stage)note->stage, .phase = (enum phase)note->phase};
}

/* The folder of the job below which a round's samples lie: its input's outputDir without "/train/{round}". */
static const char *round_folder(job_view *v)
{
	const char *dir = v->train_input.there ? v->train_input.output_dir : NULL;
	if (dir == NULL)
		return NULL;
	char *tail = mem_printf("/train/%lld", (long long)v->pos.round);
	size_t len = strlen(dir), cut = strlen(tail);
	const char *folder = NULL;
	if (len > cut && strcmp(dir + len - cut, tail) == 0)
		folder = arena_strndup(v->mem, dir, len - cut);
	free(tail);
	return folder;
}

static const char *annotation(const cJSON *object, const char *name)
{
	const char *text = NULL;
	json_get_string(json_member(json_member(object, "metadata"), "annotations"), "", name, &text, NULL);
	return text;
}

job_view *job_view_new(const cJSON *object, data_cache *cache)
{
	arena *mem = arena_new();
	job_view *v = arena_alloc(mem, sizeof *v);
	v->mem = mem;
	v->cache = cache;
	v->deleting = object_text(object, "metadata", "deletionTimestamp")[0] != '\0';
	v->created = object_text(object, "metadata", "creationTimestamp");
	v->since = v->reason = v->message = "";
	v->has_summary = object_text(object, "status", "phase")[0] != '\0';
	v->summary_reason = object_text(object, "status", "reason");
	job_spec_read(v, object);
	v->rollback_to = annotation(object, ANNOTATION_ROLLBACK);
	v->rollback_taken = annotation(object, ANNOTATION_TAKEN);
	v->has_start_time = object_text(object, "status", "startTime")[0] != '\0';
	v->conditions = json_member(json_member(object, "status"), "conditions");
	if (!cJSON_IsArray(v->conditions) || v->conditions->child == NULL)
		v->conditions = NULL;
	if (v->conditions != NULL) {
		v->n_conditions = (size_t)cJSON_GetArraySize(v->conditions);
		read_notes(v);
		read_position(v, cJSON_GetArrayItem(v->conditions, (int)v->n_conditions - 1));
	}
	if (!v->started)
		v->first_round = 1 + highest_round(v);
	if (v->conditions != NULL)
		read_history(v);
	v->round_dir = round_folder(v);
	return v;
}

void job_view_free(job_view *v)
{
	if (v != NULL)
		arena_free(v->mem);
}
