/* Traces 6 to 8, 11 and 14: which jobs a device has, whoever says so. */
#include <stdlib.h>
#include <string.h>

#include "tests/sim/trace.h"

/* ---- 6: an older inventory deletes a job that was created again ---- */

void trace_6(world *w)
{
	device *d = &w->devices[0];
	hold *h;

	script_begin(w, 1, 1);
	world_run(w, SECONDS(2));
	h = broker_hold(w, NULL, d->link, "/inventory", "");
	client_network(w, w->clouds[0].link, false);
	client_network(w, w->clouds[0].link, true);
	world_run(w, SECONDS(2));
	EXPECT(w, h->n > 0 && strstr(h->held[0]->payload, script_track(w)->uid) != NULL);
	job_delete(w, &w->jobs[0]);
	job_create(w, &w->jobs[0]);
	script_until(w, 1, STAGE_TRAIN, PHASE_WAITING);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) != NULL);
	broker_release_first(w, h);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) != NULL);
	EXPECT(w, edge_agent_record(d->agent, w->tracks[0]->uid) == NULL);
	broker_release(w, h);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) != NULL);
	trace_end(w);
}

void trace_6_other_order(world *w)
{
	device *d = &w->devices[0];
	hold *h;

	script_begin(w, 1, 1);
	world_run(w, SECONDS(2));
	job_delete(w, &w->jobs[0]);
	h = broker_hold(w, NULL, d->link, "/job/default/job-a", "");
	job_create(w, &w->jobs[0]);
	script_until(w, 1, STAGE_TRAIN, PHASE_WAITING);
	world_run(w, SECONDS(2));
	broker_release(w, h);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) != NULL);
	trace_end(w);
}

/* ---- 7: an inventory that did not change ---- */

static void no_job_yet(world *w)
{
	setup_script(w, 1);
	device_start(w, &w->devices[0]);
	cloud_start(w, &w->clouds[0]);
	world_run(w, SECONDS(5));
}

void trace_7a(world *w)
{
	hold *h;

	no_job_yet(w);
	job_create(w, &w->jobs[0]);
	h = broker_hold(w, w->clouds[0].link, NULL, "/inventory", script_track(w)->uid);
	script_until(w, 1, STAGE_TRAIN, PHASE_WAITING);
	world_run(w, SECONDS(1));
	EXPECT(w, script_record(w, 0) != NULL);
	broker_lose(w, h);
	job_delete(w, &w->jobs[0]);
	world_run(w, SECONDS(2));
	EXPECT(w, script_record(w, 0) == NULL);
	trace_end(w);
}

void trace_7b(world *w)
{
	cloud *a = &w->clouds[0];
	hold *h;
	char *where;

	no_job_yet(w);
	job_create(w, &w->jobs[0]);
	h = broker_hold(w, a->link, NULL, "/inventory", script_track(w)->uid);
	script_until(w, 1, STAGE_TRAIN, PHASE_WAITING);
	world_run(w, SECONDS(1));
	broker_lose(w, h);
	cloud_crash(w, a, -1);
	job_delete(w, &w->jobs[0]);
	where = script_topic(w, TOPIC_DESIRED, 0);
	script_publish(w, where, ""); /* a deposed leader has cleared it */
	free(where);
	cloud_start(w, a);
	world_run(w, SECONDS(5));
	EXPECT(w, script_record(w, 0) == NULL);
	trace_end(w);
}

/* ---- 8: an incomplete list ---- */

static void incomplete(world *w, enum object_kind missing)
{
	cloud *a = &w->clouds[0];
	hold *h;
	int64_t creates;

	setup_script(w, 1);
	file_append(w, &w->files[0], 1);
	h = broker_hold(w, w->devices[0].link, NULL, "/train/ready", "");
	script_start(w);
	script_wait_folder(w, 1, 1);
	world_run(w, SECONDS(1));
	cloud_crash(w, a, -1);
	cloud_start(w, a);
	a->watch_life++; /* the script lists */
	a->inventories = a->clears = 0;
	creates = a->creates;
	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json != NULL && o->kind != missing)
			controller_object(a->c, o->kind, o->ns, o->name, cJSON_Duplicate(o->json, 1), cloud_moment(a));
	}
	broker_release(w, h);
	world_run(w, MINUTES(90));
	EXPECT(w, a->leading && a->inventories == 0 && a->clears == 0 && a->creates == creates);
	EXPECT(w, script_record(w, 0) != NULL && script_record(w, 0)->n_rows > 0);
	cloud_feed_all(w, a);
	controller_synced(a->c, true, cloud_moment(a));
	cloud_pump_soon(w, a);
	script_round(w, 1);
	trace_end(w);
}

void trace_8_jobs(world *w)
{
	incomplete(w, OBJECT_JOB);
}

void trace_8_datasets(world *w)
{
	incomplete(w, OBJECT_DATASET);
}

void trace_8_models(world *w)
{
	incomplete(w, OBJECT_MODEL);
}

void trace_8_empty(world *w)
{
	char *where;

	script_begin(w, 1, 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	world_run(w, SECONDS(1));
	client_network(w, w->clouds[0].link, false);
	where = script_topic(w, TOPIC_INVENTORY, 0);
	script_publish(w, where, "");
	free(where);
	world_run(w, SECONDS(5));
	EXPECT(w, script_record(w, 0) != NULL && script_record(w, 0)->n_rows > 0);
	trace_end(w);
}

/* ---- 11: a new store acts on a retained document of a deleted job ---- */

static void new_store(world *w, bool deleted, bool older_broker)
{
	device *d = &w->devices[0];
	cloud *a = &w->clouds[0];

	script_begin(w, 1, 0);
	world_run(w, SECONDS(2));
	broker_save(w);
	if (older_broker) {
		device_crash(w, d, 0);
		world_run(w, SECONDS(2));
	}
	client_network(w, a->link, false);
	if (older_broker)
		broker_restart(w, 1);
	if (deleted)
		job_delete(w, &w->jobs[0]);
	device_lose_store(w, d);
	file_append(w, &w->files[0], 1);
	world_run(w, MINUTES(5));
	EXPECT(w, client_up(d->link) && edge_agent_record(d->agent, w->tracks[0]->uid) == NULL && d->store.n_jobs == 0);
	EXPECT(w, script_folder(w, 1) == NULL);
	client_network(w, a->link, true);
	if (deleted) {
		world_run(w, MINUTES(5));
		EXPECT(w, edge_agent_record(d->agent, w->tracks[0]->uid) == NULL && script_folder(w, 1) == NULL);
	} else {
		script_round(w, 1);
	}
	trace_end(w);
}

void trace_11a(world *w)
{
	new_store(w, true, false);
}

void trace_11b(world *w)
{
	new_store(w, true, true);
}

void trace_11c(world *w)
{
	new_store(w, false, false);
}

/* ---- 14: a node without objects ---- */

static void no_objects(world *w, bool broker_lost)
{
	device *d = &w->devices[0];
	cloud *a = &w->clouds[0];
	char *where;

	script_begin(w, 1, 1);
	script_until(w, 1, STAGE_TRAIN, PHASE_READY);
	world_run(w, SECONDS(1));
	client_network(w, d->link, false);
	cloud_crash(w, a, -1);
	job_delete(w, &w->jobs[0]);
	object_delete(w, object_find(w, OBJECT_DATASET, "data-0"));
	if (broker_lost)
		broker_restart(w, 0);
	cloud_start(w, a);
	world_run(w, SECONDS(30));
	client_network(w, d->link, true);
	world_run(w, SECONDS(30));
	where = script_topic(w, TOPIC_INVENTORY, 0);
	EXPECT(w, broker_retained(w, where) != NULL && strstr(broker_retained(w, where)->payload, "\"jobs\":[]") != NULL);
	free(where);
	EXPECT(w, d->store.n_jobs == 0 && d->store.n_datasets == 0);
	trace_end(w);
}

void trace_14a(world *w)
{
	no_objects(w, false);
}

void trace_14b(world *w)
{
	no_objects(w, true);
}

void trace_14c(world *w)
{
	device *d = &w->devices[0];
	char *where;

	setup_script(w, 1);
	device_start(w, d);
	cloud_start(w, &w->clouds[0]);
	world_run(w, SECONDS(5));
	object_delete(w, object_find(w, OBJECT_DATASET, "data-0"));
	device_crash(w, d, -1);
	world_run(w, MINUTES(5));
	where = script_topic(w, TOPIC_INVENTORY, 0);
	EXPECT(w, broker_retained(w, where) != NULL);
	free(where);
	where = script_topic(w, TOPIC_PRESENCE, 0);
	script_publish(w, where, "");
	free(where);
	world_run(w, SECONDS(5));
	where = script_topic(w, TOPIC_INVENTORY, 0);
	EXPECT(w, broker_retained(w, where) == NULL);
	free(where);
	EXPECT(w, w->broker.n_retained == 1); /* the cloud's presence: what the device said of its dataset is gone too */
}
