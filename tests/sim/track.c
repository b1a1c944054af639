/* What must hold at every moment: guarantees 1 to 3, where the world shows them at once.
 *
 * A track follows one job uid through what the cluster holds. It is told of each write to a status, each pod that is made, each document that is
 * published and each model that is put in place, and compares them with what was before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json.h"
#include "common/mem.h"
#include "tests/sim/sim.h"

enum { LAST_CONDITIONS = 5 };

track *track_new(world *w, job_setup *j, const char *uid)
{
	track *t = mem_alloc(sizeof(*t));

	strncpy(t->uid, uid, sizeof(t->uid) - 1);
	t->job = j;
	t->alive = true;
	t->since = w->now;
	t->first_content = model_get(disk_of(w, j->deploy_node, j->deploy_url), j->deploy_url);
	w->tracks = mem_resize_array(w->tracks, w->n_tracks + 1, sizeof(*w->tracks));
	w->tracks[w->n_tracks++] = t;
	return t;
}

track *track_of(const world *w, const char *uid)
{
	for (size_t i = w->n_tracks; i-- > 0;) {
		if (strcmp(w->tracks[i]->uid, uid) == 0)
			return w->tracks[i];
	}
	return NULL;
}

round_track *track_round(track *t, int64_t round)
{
	for (size_t i = t->n_rounds; i-- > 0;) {
		if (t->rounds[i].round == round)
			return &t->rounds[i];
	}
	t->rounds = mem_resize_array(t->rounds, t->n_rounds + 1, sizeof(*t->rounds));
	t->rounds[t->n_rounds] = (round_track){.round = round};
	return &t->rounds[t->n_rounds++];
}

/* ---- reading ---- */

static cJSON *data_of(const cJSON *condition)
{
	const cJSON *text = json_member(condition, "data");

	return cJSON_IsString(text) ? cJSON_Parse(text->valuestring) : NULL;
}

static int64_t int_of(const cJSON *obj, const char *name)
{
	const cJSON *n = json_member(obj, name);

	return cJSON_IsNumber(n) ? (int64_t)n->valuedouble : -1;
}

static bool stage_phase(const cJSON *condition, position *out)
{
	const cJSON *stage = json_member(condition, "stage"), *type = json_member(condition, "type");

	return cJSON_IsString(stage) && cJSON_IsString(type) && stage_parse(stage->valuestring, &out->stage) &&
		phase_parse(type->valuestring, &out->phase);
}

bool condition_position(const cJSON *job, position *out)
{
	const cJSON *list = json_member(json_member(job, "status"), "conditions");
	int n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	const cJSON *last = n > 0 ? cJSON_GetArrayItem(list, n - 1) : NULL;
	cJSON *data = data_of(last);
	bool there = last != NULL && stage_phase(last, out);

	out->round = int_of(json_member(data, "ilmare"), "round");
	cJSON_Delete(data);
	return there && out->round > 0;
}

/* The first "round", "stage" and "phase" of a document: encoders write them in this order, the position before all else that has a round. */
bool payload_position(const char *payload, position *out)
{
	const char *p = strstr(payload, "\"position\":{"), *stage, *phase;
	char word[16] = "";

	p = strstr(p != NULL ? p : payload, "\"round\":");
	if (p == NULL)
		return false;
	out->round = strtoll(p + 8, NULL, 10);
	stage = strstr(p, "\"stage\":\"");
	phase = strstr(p, "\"phase\":\"");
	if (stage == NULL || phase == NULL)
		return false;
	strncpy(word, stage + 9, sizeof(word) - 1);
	word[strcspn(word, "\"")] = '\0';
	if (!stage_parse(word, &out->stage))
		return false;
	strncpy(word, phase + 9, sizeof(word) - 1);
	word[strcspn(word, "\"")] = '\0';
	return phase_parse(word, &out->phase);
}

/* ---- guarantee 1 ---- */

static uint8_t *used_mark(sample_track *s, uint32_t id)
{
	if (id >= s->cap) {
		size_t cap = ((size_t)id + 1024) * 2;

		s->used = mem_resize(s->used, cap);
		memset(s->used + s->cap, 0, cap - s->cap);
		s->cap = cap;
	}
	return &s->used[id];
}

static void use(world *w, track *t, const round_track *r, uint32_t id)
{
	sample_track *s = &t->samples[r->file];
	uint8_t *used = used_mark(s, id);

	if (*used != 0 && id >= w->files[r->file].exempt && id >= s->exempt)
		violated(w, 1, "%s: sample %u of %s was trained before round %lld too", t->uid, id, w->files[r->file].url, (long long)r->round);
	*used = 1;
}

void track_rebuild(world *w, track *t)
{
	for (size_t i = 0; i < w->n_files; i++) {
		if (t->samples[i].used != NULL)
			memset(t->samples[i].used, 0, t->samples[i].cap);
	}
	for (size_t i = 0; i < t->n_rounds; i++) {
		const round_track *r = &t->rounds[i];

		for (size_t k = 0; r->trained && k < r->n_ids; k++)
			*used_mark(&t->samples[r->file], r->ids[k]) = 1;
	}
}

static void trained(world *w, track *t, round_track *r)
{
	const folder *f = folder_find(disk_of(w, t->job->dataset_node, r->dir), r->dir, r->round);
	bool whole = f != NULL && strcmp(f->uid, t->uid) == 0;

	r->trained = true;
	t->completed++;
	if (r->n_read == 0)
		violated(w, 1, "%s: round %lld completed training, but no worker has read its samples", t->uid, (long long)r->round);
	if (whole && (r->n_read != (size_t)(f->range.to - f->range.from) || memcmp(r->read, f->ids, r->n_read * sizeof(*r->read)) != 0))
		violated(w, 1, "%s: round %lld was trained with other samples than its folder holds", t->uid, (long long)r->round);
	r->n_ids = r->n_read;
	free(r->ids);
	r->ids = mem_alloc(r->n_ids * sizeof(*r->ids));
	memcpy(r->ids, r->read, r->n_ids * sizeof(*r->ids));
	for (size_t i = 0; i < r->n_ids; i++)
		use(w, t, r, r->ids[i]);
	r->from = whole ? f->range.from : -1;
	r->to = whole ? f->range.to : -1;
}

/* ---- guarantee 3 ---- */

static void check_deployed(world *w, const track *t)
{
	const job_setup *j = t->job;
	uint64_t content;
	digest d;

	if (!t->alive || !t->placed || t->reimaged || t->displaced || t->unchecked ||
		(t->pos.stage == STAGE_DEPLOY && t->pos.phase == PHASE_READY))
		return;
	content = model_get(disk_of(w, j->deploy_node, j->deploy_url), j->deploy_url);
	d = content_digest(content);
	if (t->has_deployed ? t->has_sha256 && !digest_equal(&d, &t->sha256) : content != t->first_content)
		violated(w, 3, "%s: content %llu is at %s, which is not the model that the cluster names (round %lld)", t->uid,
			(unsigned long long)content, j->deploy_url, (long long)(t->has_deployed ? t->deployed_round : 0));
}

void track_deploy(world *w, device *d, const char *uid, const char *url, uint64_t content)
{
	for (size_t i = 0; i < w->n_tracks; i++) {
		track *t = w->tracks[i];

		if (!t->alive || t->job->deploy_node != d || strcmp(t->job->deploy_url, url) != 0)
			continue;
		t->reimaged = false;
		if (strcmp(t->uid, uid) != 0 && !t->has_deployed)
			t->first_content = content; /* by the job that had this name before, when it was still known there */
		check_deployed(w, t);
	}
}

/* ---- the status ---- */

/* What a round deployed is what it says later, and a rollback puts in place what the round that it goes back to had deployed. */
static void check_version(world *w, track *t, const cJSON *deployed)
{
	round_track *r = track_round(t, t->deployed_round), *source;
	int64_t of = int_of(deployed, "of");

	if (of != (r->back ? r->back_to : -1))
		violated(w, 3, "%s: round %lld is said to have gone back to %lld, but was to go to %lld", t->uid, (long long)t->deployed_round,
			(long long)of, (long long)(r->back ? r->back_to : -1));
	if (!t->has_sha256)
		return;
	r = track_round(t, t->deployed_round);
	r->has_sha256 = true;
	r->sha256 = t->sha256;
	if (of <= 0)
		return;
	source = track_round(t, of);
	r = track_round(t, t->deployed_round);
	if (source->has_sha256 && !digest_equal(&source->sha256, &r->sha256))
		violated(w, 3, "%s: round %lld went back to round %lld, but another model is in place", t->uid, (long long)t->deployed_round,
			(long long)of);
}

static void read_deployed(world *w, track *t, const cJSON *member)
{
	const cJSON *deployed = json_member(member, "deployed"), *hex = json_member(deployed, "sha256");

	if (deployed == NULL)
		return;
	if (!t->has_deployed || t->deployed_round != int_of(deployed, "round"))
		t->displaced = false;
	t->has_deployed = true;
	t->deployed_round = int_of(deployed, "round");
	t->has_sha256 = cJSON_IsString(hex) && digest_parse(hex->valuestring, &t->sha256) == 0;
	check_version(w, t, deployed);
}

/* ---- rollbacks that were asked for ---- */

bool job_asks(const object *o)
{
	const cJSON *annotations = json_member(json_member(o->json, "metadata"), "annotations");

	return json_member(annotations, "ilmare/rollback-to") != NULL || json_member(annotations, "ilmare/rollback") != NULL;
}

void track_ask(world *w, track *t, const char *value)
{
	snprintf(t->asks[t->n_asks++], sizeof(t->asks[0]), "%s", value);
	t->asked_at = w->now;
}

static bool is_kept(const cJSON *member, int64_t round)
{
	const cJSON *version;

	cJSON_ArrayForEach(version, json_member(member, "versions")) {
		if (int_of(version, "round") == round)
			return true;
	}
	return false;
}

/* Each is decided once, in their order: it is done, or there is a reason not to. */
static void read_rollback(world *w, track *t, const cJSON *member, position p)
{
	const cJSON *rollback = json_member(member, "rollback"), *id = json_member(rollback, "id"), *why = json_member(rollback, "refused");
	const cJSON *deployed = json_member(member, "deployed");
	const char *asked = t->asks[t->n_decided < SIM_ASKS_MAX ? t->n_decided : 0];
	int64_t to = int_of(rollback, "to"), round = strtoll(asked, NULL, 10);
	round_track *r;

	bool again = id != NULL && strcmp(id->valuestring, t->ask_id) == 0, held = t->ask_held;

	t->ask_held = id != NULL;
	if (to >= 0 && (id == NULL || again) && !track_round(t, p.round)->back && !t->set_back)
		violated(w, 3, "%s: round %lld goes back to round %lld, which was not decided", t->uid, (long long)p.round, (long long)to);
	if (again && !held && !t->set_back)
		violated(w, 3, "%s: a rollback is decided once more", t->uid);
	if (id == NULL || again)
		return;
	if (t->n_decided >= t->n_asks)
		violated(w, 3, "%s: a rollback is decided that nobody asked for", t->uid);
	snprintf(t->ask_id, sizeof(t->ask_id), "%s", id->valuestring);
	t->n_decided++;
	if (why != NULL) {
		bool serves = deployed != NULL && (int_of(deployed, "round") == round || int_of(deployed, "of") >= 0);

		say(w, "%s: refused: %s", t->uid, why->valuestring);
		if (asked[0] >= '0' && asked[0] <= '9' && is_kept(member, round) && !serves && strstr(why->valuestring, "serves") == NULL)
			violated(w, 3, "%s: a rollback to round %s is refused, but it is kept", t->uid, asked);
		return;
	}
	if (p.stage != STAGE_DEPLOY || p.phase != PHASE_READY || to != round)
		violated(w, 3, "%s: a rollback to round %s was asked for, but it goes to %lld", t->uid, asked, (long long)to);
	t->n_back++;
	r = track_round(t, p.round);
	r->back = true;
	r->back_to = to;
}

static void read_cursor(world *w, track *t, const cJSON *member)
{
	const cJSON *c = json_member(member, "cursor");
	cursor now;

	if (c == NULL || cursor_decode(c, "cursor", &now, NULL) != 0)
		return;
	if (t->has_cursor && now.sample < t->cursor.sample && !t->unchecked)
		violated(w, 1, "%s: the cursor went back from %lld to %lld", t->uid, (long long)t->cursor.sample, (long long)now.sample);
	t->has_cursor = true;
	t->cursor = now;
}

static void read_trained(world *w, track *t, const cJSON *member)
{
	round_track *r = track_round(t, int_of(member, "round"));
	const cJSON *c = json_member(member, "cursor");
	int64_t before = t->has_cursor ? t->cursor.sample : 0;

	if (r->trained)
		return;
	trained(w, t, r);
	if (c == NULL)
		violated(w, 1, "%s: round %lld completed training, but no cursor says what it used", t->uid, (long long)r->round);
	if (r->to >= 0 && int_of(c, "sample") != r->to)
		violated(w, 1, "%s: the cursor is %lld, but the folder of round %lld ends at %lld", t->uid, (long long)int_of(c, "sample"),
			(long long)r->round, (long long)r->to);
	if (r->from >= 0 && r->from != before && !t->unchecked)
		violated(w, 1, "%s: round %lld begins at sample %lld, but %lld are used", t->uid, (long long)r->round, (long long)r->from,
			(long long)before);
}

static void moved(world *w, track *t, position p)
{
	char from[48], to[48];
	int order = t->placed ? position_compare(p, t->pos) : 1;

	position_format(t->pos, from);
	position_format(p, to);
	if (!t->unchecked && (order < 0 || (order == 0 && p.phase != t->pos.phase)))
		violated(w, 3, "%s went from %s back to %s", t->uid, from, to);
	if (order == 0)
		return;
	say(w, "%s (%s) is at %s", t->job->name, t->uid, to);
	t->pos = p;
	t->placed = true;
	t->since = w->now;
}

/* A better model is deployed and a worse one is not, as long as nobody has changed what that means since the stage began. */
static void check_decision(world *w, track *t, const cJSON *condition, const cJSON *member_of, position p)
{
	const cJSON *reason = json_member(condition, "reason");
	bool no = p.phase == PHASE_COMPLETED && reason != NULL && strcmp(reason->valuestring, "NotBetter") == 0;
	round_track *r = track_round(t, p.round);

	if (r->decided || (p.phase != PHASE_READY && !no) || json_member(json_member(member_of, "rollback"), "to") != NULL)
		return;
	r->decided = true;
	t->not_better += no;
	if (r->answer >= 0 && r->told_at > t->job->edited_at && !t->set_back && r->answer != !no)
		violated(w, 3, "%s: round %lld is %s, but the trigger has to say %s", t->uid, (long long)p.round, no ? "not better" : "deployed",
			r->answer != 0 ? "yes" : "no");
}

void track_eval(world *w, const pod *p, int answer)
{
	track *t = track_of(w, p->job_uid);
	round_track *r = t != NULL ? track_round(t, p->round) : NULL;

	if (r == NULL)
		return;
	r->answer = r->told_at > 0 && r->answer != answer ? -1 : answer;
	r->told_at = w->now;
}

static bool one_condition(world *w, track *t, const cJSON *condition, bool last)
{
	position p;
	bool is_trained;
	cJSON *data;
	const cJSON *member;

	if (!stage_phase(condition, &p))
		return false;
	is_trained = p.stage == STAGE_TRAIN && p.phase == PHASE_COMPLETED;
	if (!last && !is_trained && p.stage != STAGE_DEPLOY)
		return false;
	data = data_of(condition);
	member = json_member(data, "ilmare");
	p.round = int_of(member, "round");
	if (p.round > 0 && is_trained)
		read_trained(w, t, member);
	if (p.round > 0 && p.stage == STAGE_DEPLOY)
		check_decision(w, t, condition, member, p);
	if (p.round > 0 && last) {
		const cJSON *why = json_member(condition, "reason");

		if (why != NULL)
			say(w, "reason: %s", why->valuestring);
		t->failed += p.phase == PHASE_FAILED && position_compare(p, t->pos) > 0;
		read_cursor(w, t, member);
		read_rollback(w, t, member, p);
		read_deployed(w, t, member);
		moved(w, t, p);
	}
	cJSON_Delete(data);
	return true;
}

void track_status(world *w, object *o)
{
	const cJSON *list, *condition;
	track *t = o->track;
	int n, i = 0;

	if (o->kind != OBJECT_JOB || t == NULL)
		return;
	list = json_member(json_member(o->json, "status"), "conditions");
	n = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
	if (n > t->conditions_max)
		t->conditions_max = n;
	cJSON_ArrayForEach(condition, list) {
		if (++i > n - LAST_CONDITIONS)
			one_condition(w, t, condition, i == n);
	}
	check_deployed(w, t);
}

/* ---- pods ---- */

void track_create(world *w, const cloud *c, const pod *p)
{
	track *t = track_of(w, p->job_uid);
	round_track *r;

	(void)c;
	if (t == NULL)
		violated(w, 5, "pod %s is made for nobody", p->o->name);
	if (p->kind == WORKER_INFERENCE)
		return;
	r = track_round(t, p->round);
	if (++r->creates[p->kind == WORKER_EVAL] > 1 && !t->unchecked)
		violated(w, 2, "%s: a second pod for round %lld: %s", t->uid, (long long)p->round, p->o->name);
	for (const object *o = w->objects; o != NULL; o = o->next) {
		const pod *q = o->pod;
		const track *other = q != NULL && q != p && q->kind != WORKER_INFERENCE && pod_alive(q) ? track_of(w, q->job_uid) : NULL;

		if (other != NULL && strcmp(other->job->output_dir, t->job->output_dir) == 0)
			violated(w, 2, "pod %s is made while %s is alive, with the same output folder", p->o->name, o->name);
	}
}

/* ---- documents ---- */

void track_write_allowed(world *w, const cloud *c, const char *what)
{
	if (!c->leading || w->lease.holder != c)
		violated(w, 2, "%s does not lead, and plans to %s", c->name, what);
	if (c->frozen && w->now >= c->fence)
		violated(w, 2, "%s is past its fence, and plans to %s", c->name, what);
}

void track_publish(world *w, cloud *c, const char *where, const char *payload)
{
	char shown[48], held[48];
	position p;

	if (payload[0] == '\0' || strstr(where, "/job/") == NULL || !payload_position(payload, &p))
		return;
	for (size_t i = w->n_tracks; i-- > 0;) {
		const track *t = w->tracks[i];

		if (strstr(payload, t->uid) == NULL)
			continue;
		if (t->unchecked || p.round == 0 || (t->placed && position_compare(p, t->pos) <= 0))
			return;
		position_format(p, shown);
		position_format(t->pos, held);
		violated(w, 3, "%s publishes %s for %s, but the cluster holds %s", c->name, shown, t->uid, t->placed ? held : "nothing");
	}
	violated(w, 5, "%s publishes on %s for nobody", c->name, where);
}
