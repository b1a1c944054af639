/* Writing conditions: what one patch appends, bounded, and what is left of the list.
 *
 * Every condition that we write carries the complete `ilmare` member, so the last one alone tells round, failures, cursor, node and deployed
 * model. The versions that are kept are in the last condition alone: they go from it when another follows. Steps that follow from each other without any act of ours in between go into one patch.
 *
 * Trimming keeps, whatever the limit: the last condition; the present round's inputs (Train/Ready, Eval/Ready); the last Eval/Completed; and
 * the Train/Completed of the last trained round, of the round that was evaluated last, and of the deployed one (the base model of a later
 * round may be any of them). Of the rest the oldest go first.
 */
#include "cloud-agent/core/core.h"
#include "cloud-agent/core/rollback.h"

#include <stdlib.h>
#include <string.h>

#include "proto/metric.h"

change change_begin(const job_view *v)
{
	change ch = {.mem = arena_new(), .m = v->m};
	if (v->rollback_taken == NULL)
		ch.m.rollback.id = ch.m.rollback.refused = NULL; /* it is no longer there, so it cannot be taken again */
	return ch;
}

void change_end(change *ch)
{
	arena_free(ch->mem);
	ch->mem = NULL;
}

void change_add(change *ch, enum stage stage, enum phase phase, const char *reason, const char *message)
{
	ch->steps[ch->n++] = (step){.stage = stage, .phase = phase, .reason = reason, .message = message, .m = ch->m};
}

static void put_rollback(const member *m, cJSON *obj)
{
	cJSON *rollback = cJSON_CreateObject();
	char hex[DIGEST_HEX_SIZE];
	json_put_string(rollback, "id", m->rollback.id);
	json_put_string(rollback, "refused", m->rollback.refused);
	if (m->rollback.under_way) {
		digest_hex(&m->rollback.sha256, hex);
		json_put_int(rollback, "to", m->rollback.to);
		json_put_string(rollback, "sha256", hex);
	}
	json_put(obj, "rollback", rollback);
}

static cJSON *member_encode(const member *m)
{
	cJSON *obj = cJSON_CreateObject();
	json_put_int(obj, "v", 1);
	json_put_int(obj, "round", m->round);
	json_put_int(obj, "failures", m->failures);
	if (m->has_cursor)
		json_put(obj, "cursor", cursor_encode(&m->cursor));
	json_put_string(obj, "node", m->node);
	json_put_string(obj, "podUID", m->pod_uid);
	json_put_string(obj, "dataset", m->dataset);
	if (m->has_deployed) {
		char hex[DIGEST_HEX_SIZE];
		cJSON *deployed = cJSON_CreateObject();
		json_put_int(deployed, "round", m->deployed.round);
		json_put_string(deployed, "url", m->deployed.url);
		if (m->deployed.has_sha256) {
			digest_hex(&m->deployed.sha256, hex);
			json_put_string(deployed, "sha256", hex);
		}
		json_put_string(deployed, "since", m->deployed.since);
		json_put_string(deployed, "evalURL", m->deployed.eval_url);
		if (m->deployed.back)
			json_put_int(deployed, "of", m->deployed.of);
		json_put(obj, "deployed", deployed);
	}
	if (m->rollback.id != NULL || m->rollback.under_way)
		put_rollback(m, obj);
	if (m->n_versions > 0)
		versions_put(m, obj);
	return obj;
}

/* {"input","range","output","truncated","ilmare"}: what is in `parts` (input and range, or output) is copied. */
static void put_data(cJSON *condition, const cJSON *input, const cJSON *output, const member *m)
{
	cJSON *data = cJSON_CreateObject();
	const cJSON *part;
	if (input != NULL) {
		cJSON_ArrayForEach(part, input) {
			json_put(data, part->string, cJSON_Duplicate(part, 1));
		}
	}
	if (output != NULL) {
		cJSON_ArrayForEach(part, output) {
			json_put(data, part->string, cJSON_Duplicate(part, 1));
		}
	}
	json_put(data, "ilmare", member_encode(m));
	char *text = json_print(data);
	cJSON_DeleteItemFromObjectCaseSensitive(condition, "data");
	json_put_string(condition, "data", text != NULL ? text : "{}");
	free(text);
	cJSON_Delete(data);
}

static void put_text(cJSON *condition, const char *name, const char *value, size_t size)
{
	char text[CONDITION_MESSAGE_MAX + 1];
	cJSON_DeleteItemFromObjectCaseSensitive(condition, name);
	if (value == NULL || value[0] == '\0')
		return;
	text_copy(text, size, value);
	json_put_string(condition, name, text);
}

/* Reason and message of a condition that has not ended. */
static void tell(cJSON *condition, const char *reason, const char *message)
{
	put_text(condition, "reason", reason, TEXT_MAX_REASON + 1);
	put_text(condition, "message", message, CONDITION_MESSAGE_MAX + 1);
}

static cJSON *step_encode(const step *s, bool last, const char *time)
{
	member m = s->m;
	cJSON *condition = cJSON_CreateObject();
	json_put_string(condition, "type", phase_name(s->phase));
	json_put_string(condition, "status", "True");
	json_put_string(condition, "stage", stage_name(s->stage));
	json_put_string(condition, "lastHeartbeatTime", time);
	json_put_string(condition, "lastTransitionTime", time);
	tell(condition, s->reason, s->message);
	if (!last)
		m.n_versions = 0;
	put_data(condition, s->input, s->output, &m);
	return condition;
}

/* ---- trimming ---- */

typedef struct listed {
	cJSON *condition;
	condition_note note;
	bool keep;
} listed;

static int64_t round_of(arena *mem, listed *l)
{
	if (l->note.round < 0) {
		l->note.round = 0;
		json_get_int(json_member(condition_data(mem, l->condition), "ilmare"), "", "round", 1, DOCUMENT_MAX_INT, &l->note.round, NULL);
	}
	return l->note.round;
}

static bool is(const listed *l, enum stage stage, enum phase phase)
{
	return l->note.stage == (int)stage && l->note.phase == (int)phase;
}

/* The newest input of a stage, if it is of the present round. */
static void mark_input(arena *mem, listed *list, size_t n, enum stage stage, int64_t present)
{
	for (size_t i = n; i-- > 0;) {
		if (is(&list[i], stage, PHASE_READY)) {
			list[i].keep = list[i].keep || round_of(mem, &list[i]) == present;
			return;
		}
	}
}

static int64_t mark_evaluated(arena *mem, listed *list, size_t n)
{
	for (size_t i = n; i-- > 0;) {
		if (is(&list[i], STAGE_EVAL, PHASE_COMPLETED)) {
			list[i].keep = true;
			return round_of(mem, &list[i]);
		}
	}
	return -1;
}

static void mark(listed *list, size_t n, const member *last)
{
	arena *mem = arena_new();
	int64_t evaluated = mark_evaluated(mem, list, n), deployed = last->has_deployed && !last->deployed.back ? last->deployed.round : -1;
	bool trained = false, of_evaluated = false, of_deployed = false;
	list[n - 1].keep = true;
	mark_input(mem, list, n, STAGE_TRAIN, last->round);
	mark_input(mem, list, n, STAGE_EVAL, last->round);
	for (size_t i = n; i-- > 0;) {
		if (!is(&list[i], STAGE_TRAIN, PHASE_COMPLETED))
			continue;
		int64_t round = round_of(mem, &list[i]);
		bool want_evaluated = round == evaluated && !of_evaluated, want_deployed = round == deployed && !of_deployed;
		list[i].keep = list[i].keep || !trained || want_evaluated || want_deployed;
		trained = true;
		of_evaluated = of_evaluated || want_evaluated;
		of_deployed = of_deployed || want_deployed;
	}
	arena_free(mem);
}

static size_t condition_size(const cJSON *condition)
{
	size_t size = 64;
	const cJSON *part;
	cJSON_ArrayForEach(part, condition) {
		const char *text = cJSON_IsString(part) ? part->valuestring : "";
		size_t len = strlen(text);
		size += strlen(part->string) + (cJSON_IsString(part) ? 6 : 14) + len;
		for (size_t i = 0; i < len; i++)
			size += (text[i] == '"') | (text[i] == '\\'); /* data is JSON inside a JSON string */
	}
	return size;
}

static bool over(size_t left, size_t bytes, const condition_limits *limits)
{
	return left > (size_t)limits->max || bytes > CONDITIONS_BYTES_MAX || limits->compact;
}

/* Drop from the list what is over the limits, never what later stages read. */
static void trim(cJSON *list, listed *all, size_t n, const member *last, const condition_limits *limits)
{
	size_t left = n, bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += condition_size(all[i].condition);
	if (!over(left, bytes, limits))
		return;
	mark(all, n, last);
	for (size_t i = 0; i < n && over(left, bytes, limits); i++) {
		if (all[i].keep)
			continue;
		bytes -= condition_size(all[i].condition);
		left--;
		cJSON_Delete(cJSON_DetachItemViaPointer(list, all[i].condition));
	}
}

/* ---- models ---- */

static size_t printed_size(const cJSON *value)
{
	char *text = value != NULL ? json_print(value) : NULL;
	size_t size = text != NULL ? strlen(text) : 0;
	free(text);
	return size;
}

/* What the trigger takes from the metrics of model i: never a list, so it is small. */
static cJSON *metrics_cut(const model *models, size_t n, size_t i, const trigger *t)
{
	metric_expr expr;
	cJSON *kept = cJSON_CreateObject();
	if (t->has_condition && metric_parse(t->metric, &expr, NULL) == 0)
		metric_keep(&expr, models[i].metrics, n == 2 ? models[1 - i].metrics : NULL, i > 0, kept);
	json_put_bool(kept, "truncated", true);
	return kept;
}

cJSON *models_bounded(const model *models, size_t n, const trigger *t, size_t metrics_max, bool *truncated)
{
	cJSON *list = cJSON_CreateArray();
	size_t bytes = 0;
	for (size_t i = 0; i < n; i++)
		bytes += printed_size(models[i].metrics);
	*truncated = bytes > metrics_max;
	for (size_t i = 0; i < n; i++) {
		model m = models[i];
		cJSON *cut = *truncated && m.metrics != NULL ? metrics_cut(models, n, i, t) : NULL;
		if (cut != NULL)
			m.metrics = cut;
		cJSON_AddItemToArray(list, model_encode(&m));
		cJSON_Delete(cut);
	}
	return list;
}

/* ---- the patch ---- */

/* What was in the way is no longer, if the job goes on. */
static void tell_last(const job_view *v, cJSON *list, const change *ch, const char *time)
{
	cJSON *last = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
	if (ch->tells) {
		tell(last, ch->reason, ch->message);
		put_text(last, "lastHeartbeatTime", time, CONDITION_MESSAGE_MAX + 1);
	} else {
		tell(last, NULL, waiting_message(ch->mem, v));
	}
}

/* The last condition with a new member: nothing else of it changes. */
static void amend_last(cJSON *list, const member *m)
{
	arena *mem = arena_new();
	cJSON *last = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
	const cJSON *data = condition_data(mem, last);
	cJSON *rest = data != NULL ? cJSON_Duplicate(data, 1) : NULL;
	cJSON_DeleteItemFromObjectCaseSensitive(rest, "ilmare");
	put_data(last, rest, NULL, m);
	cJSON_Delete(rest);
	arena_free(mem);
}

/* The last condition is not the last any more. */
static void strip_last(cJSON *list)
{
	arena *mem = arena_new();
	cJSON *last = cJSON_GetArrayItem(list, cJSON_GetArraySize(list) - 1);
	const cJSON *data = condition_data(mem, last);
	cJSON *rest = cJSON_Duplicate(data, 1);
	cJSON_DeleteItemFromObjectCaseSensitive(cJSON_GetObjectItemCaseSensitive(rest, "ilmare"), "versions");
	char *text = json_print(rest);
	if (text != NULL)
		cJSON_ReplaceItemInObjectCaseSensitive(last, "data", cJSON_CreateString(text));
	free(text);
	cJSON_Delete(rest);
	arena_free(mem);
}

cJSON *change_patch(const job_view *v, const change *ch, const condition_limits *limits, int64_t unix_ms)
{
	char time[32];
	cJSON *status = cJSON_CreateObject(), *condition;
	cJSON *list = v->conditions != NULL ? cJSON_Duplicate(v->conditions, 1) : cJSON_CreateArray();
	size_t n = 0;
	time_format(unix_ms, time);
	if (!v->has_start_time)
		json_put_string(status, "startTime", time);
	if (ch->amend)
		amend_last(list, &ch->m);
	if (v->started && !phase_ended(v->pos.phase) && (ch->tells || (ch->n > 0 && v->reason[0] != '\0')))
		tell_last(v, list, ch, time);
	if (ch->n > 0 && v->started && v->m.n_versions > 0)
		strip_last(list);
	for (size_t i = 0; i < ch->n; i++)
		cJSON_AddItemToArray(list, step_encode(&ch->steps[i], i + 1 == ch->n, time));
	listed *all = mem_alloc((v->n_conditions + ch->n + 1) * sizeof *all);
	cJSON_ArrayForEach(condition, list) {
		const step *s = n >= v->n_conditions ? &ch->steps[n - v->n_conditions] : NULL;
		all[n].condition = condition;
		all[n].note = s == NULL ? v->notes[n] : (condition_note){.stage = (int)s->stage, .phase = (int)s->phase, .round = s->m.round};
		n++;
	}
	if (n > 0)
		trim(list, all, n, ch->n > 0 ? &ch->steps[ch->n - 1].m : &ch->m, limits);
	free(all);
	json_put(status, "conditions", list);
	summary_put(v, ch, status);
	return status;
}
