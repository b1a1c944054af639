/* A cluster that is put back from an older backup, as an operator does it: everything that talks to it is stopped meanwhile.
 *
 * Jobs, datasets and models are as they were, with spec, status and uid; jobs made since are gone, deleted ones are back. Pods are not brought
 * back: those that the backup has and that still exist stay as they are, all others are gone. So positions go back, and what a job's rounds did
 * since then never happened, as far as the cluster knows: that is what its track is set back to as well.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

typedef struct object_copy {
	object *o;
	cJSON *json; /* NULL for a pod: it was there */
} object_copy;

typedef struct cluster_copy {
	object_copy *objects;
	size_t n_objects;
	track *tracks;
	size_t n_tracks;
	job_setup jobs[SIM_JOBS_MAX];
	int64_t epoch;
} cluster_copy;

static bool is_put_back(const object *o)
{
	return o->kind == OBJECT_JOB || o->kind == OBJECT_DATASET || o->kind == OBJECT_MODEL;
}

/* ---- the backup ---- */

static round_track *rounds_copy(const track *t)
{
	round_track *rounds = mem_resize_array(NULL, t->n_rounds + 1, sizeof(*rounds));

	if (t->n_rounds > 0)
		memcpy(rounds, t->rounds, t->n_rounds * sizeof(*rounds));
	return rounds;
}

void cluster_backup(world *w)
{
	cluster_copy *copy = mem_alloc(sizeof(*copy));

	say(w, "cluster: backed up");
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json == NULL || (o->kind != OBJECT_POD && !is_put_back(o)))
			continue;
		copy->objects = mem_resize_array(copy->objects, copy->n_objects + 1, sizeof(*copy->objects));
		copy->objects[copy->n_objects++] = (object_copy){.o = o, .json = o->kind != OBJECT_POD ? cJSON_Duplicate(o->json, 1) : NULL};
	}
	copy->tracks = mem_alloc((w->n_tracks + 1) * sizeof(*copy->tracks));
	copy->n_tracks = w->n_tracks;
	for (size_t i = 0; i < w->n_tracks; i++) {
		copy->tracks[i] = *w->tracks[i];
		copy->tracks[i].rounds = rounds_copy(w->tracks[i]);
	}
	memcpy(copy->jobs, w->jobs, sizeof(copy->jobs));
	copy->epoch = w->lease.epoch;
	w->cluster_copy = copy; /* an older one is not needed any more; what it holds ends with the process */
}

/* ---- back to it ---- */

static const object_copy *copy_of(const cluster_copy *copy, const object *o)
{
	for (size_t i = 0; i < copy->n_objects; i++) {
		if (copy->objects[i].o == o)
			return &copy->objects[i];
	}
	return NULL;
}

static void object_back(world *w, object *o, const object_copy *kept)
{
	if (o->kind == OBJECT_POD) {
		if (o->json != NULL && kept == NULL)
			pod_gone(w, o->pod);
		return;
	}
	if (!is_put_back(o))
		return;
	cJSON_Delete(o->json);
	o->json = kept != NULL ? cJSON_Duplicate(kept->json, 1) : NULL;
	if (o->json != NULL)
		object_changed(w, o);
}

/* What its rounds did since then never happened. */
static void rounds_back(track *t, const track *before)
{
	for (size_t i = 0; i < t->n_rounds; i++) {
		const round_track none = {0}, *then = i < before->n_rounds ? &before->rounds[i] : &none;
		round_track *r = &t->rounds[i];

		memcpy(r->creates, then->creates, sizeof(r->creates));
		r->trained = then->trained;
		r->decided = then->decided;
		r->back = then->back;
		r->back_to = then->back_to;
		r->has_sha256 = then->has_sha256;
		r->sha256 = then->sha256;
	}
}

static void track_back(world *w, track *t, const track *before)
{
	rounds_back(t, before);
	t->alive = before->alive;
	t->placed = before->placed;
	t->pos = before->pos;
	t->since = w->now;
	t->has_cursor = before->has_cursor;
	t->cursor = before->cursor;
	t->has_deployed = before->has_deployed;
	t->has_sha256 = before->has_sha256;
	t->deployed_round = before->deployed_round;
	t->sha256 = before->sha256;
	t->n_asks = before->n_asks;
	t->n_decided = before->n_decided;
	memcpy(t->asks, before->asks, sizeof(t->asks));
	memcpy(t->ask_id, before->ask_id, sizeof(t->ask_id));
	t->displaced = t->set_back = true;
	track_rebuild(w, t);
}

bool cluster_restore(world *w)
{
	const cluster_copy *copy = w->cluster_copy;

	if (copy == NULL)
		return false;
	for (size_t i = 0; i < SIM_CLOUDS; i++)
		cloud_crash(w, &w->clouds[i], -1);
	say(w, "cluster: put back from its backup");
	memcpy(w->jobs, copy->jobs, sizeof(w->jobs));
	for (size_t i = 0; i < w->n_tracks; i++) {
		if (i < copy->n_tracks)
			track_back(w, w->tracks[i], &copy->tracks[i]);
		else
			w->tracks[i]->alive = false;
	}
	for (object *o = w->objects, *next; o != NULL; o = next) {
		next = o->next;
		object_back(w, o, copy_of(copy, o));
	}
	for (size_t i = 0; i < copy->n_objects; i++) {
		/* It is in the backup, but was deleted since: it may be made again if its creation is not in the conditions. */
		if (copy->objects[i].o->pod != NULL && copy->objects[i].o->json == NULL)
			pod_taken(w, copy->objects[i].o->pod);
	}
	for (size_t i = 0; i < w->n_jobs; i++)
		w->jobs[i].edited_at = w->now;
	w->lease.epoch = copy->epoch;
	w->restores++;
	return true;
}
