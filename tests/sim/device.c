/* A device: a disk, a store, and the process of an edge agent around the real core.
 *
 * The process is the core and what the shell would keep in memory. A crash frees it and leaves disk and store as they are; what was under way
 * has happened or has not. A store may be lost, or put back from an older copy; a re-imaged device has lost all but, perhaps, its dataset.
 */
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

moment device_moment(const device *d)
{
	return moment_at(d->w, d->mono_base, d->wall_offset);
}

/* ---- performing ---- */

static void commit_done(world *w, void *obj, void *data)
{
	device *d = obj;
	edge_action *a = data;
	edge_result r = {0};

	edge_agent_done(d->agent, a->id, &r, device_moment(d));
	free(a);
	device_pump_soon(w, d);
}

static void commit_failed(world *w, device *d, edge_action *a)
{
	edge_result r = {.code = d->disk_full ? ERROR_NO_SPACE : ERROR_IO, .text = "the store does not take it"};

	edge_agent_done(d->agent, a->id, &r, device_moment(d));
	free(a);
	device_pump_soon(w, d);
}

static void commit_now(world *w, void *obj, void *data)
{
	device *d = obj;
	edge_action *a = data;

	if (d->disk_full || chance(w, w->k.commit_fail)) {
		commit_failed(w, d, a);
		return;
	}
	saved_apply(&d->store, a->commit.changes, a->commit.n);
	for (size_t i = 0; i < a->commit.n; i++)
		say(w, "%s: committed change %d of %s", d->name, (int)a->commit.changes[i].kind, a->commit.changes[i].uid);
	at_life(w, w->now + rnd_range(w, 0, w->k.commit_ms), commit_done, d, a, &d->life);
}

static void perform(world *w, device *d, const edge_action *a)
{
	edge_action *copy;

	switch (a->kind) {
	case EDGE_REPLY:
		device_reply(w, d, a->reply.post, a->reply.status, a->reply.message);
		return;
	case EDGE_PUBLISH:
		say(w, "%s publishes %s", d->name, a->publish.topic);
		client_publish(w, d->link, a->publish.topic, a->publish.payload, a->publish.retained);
		return;
	case EDGE_ASK: /* no link of the simulator is secure */
	case EDGE_KEEP:
		return;
	case EDGE_COMMIT:
		copy = mem_alloc(sizeof(*copy));
		*copy = *a;
		at_life(w, w->now + rnd_range(w, 0, w->k.commit_ms), commit_now, d, copy, &d->life);
		return;
	case EDGE_LOCATE:
	case EDGE_MEASURE:
	case EDGE_LOOK:
	case EDGE_WRITE:
	case EDGE_WRITE_EVAL:
	case EDGE_DEPLOY:
		device_file_action(w, d, a);
		return;
	}
}

/* ---- the turn ---- */

static void wake(world *w, void *obj, void *data);

static void pump(world *w, device *d)
{
	edge_action a;
	int64_t next;

	while (d->agent != NULL && edge_agent_next(d->agent, device_moment(d), &a)) {
		perform(w, d, &a);
		if (chance(w, w->k.crash_edge))
			device_crash(w, d, rnd_range(w, 100, SECONDS(30)));
	}
	if (d->agent == NULL)
		return;
	device_files_sync(w, d);
	next = edge_agent_wake(d->agent);
	if (next == MOMENT_NEVER)
		return;
	next = next < 0 ? w->now : next + d->mono_base;
	if (next <= w->now)
		next = w->now + 1;
	if (d->wake_at > w->now && d->wake_at <= next)
		return;
	d->wake_at = next;
	at_life(w, next, wake, d, NULL, &d->life);
}

static void wake(world *w, void *obj, void *data)
{
	device *d = obj;

	(void)data;
	if (!d->pump_due && w->now >= d->wake_at)
		pump(w, d);
}

static void pump_now(world *w, void *obj, void *data)
{
	device *d = obj;

	(void)data;
	d->pump_due = false;
	pump(w, d);
}

void device_pump_soon(world *w, device *d)
{
	if (d->pump_due || d->agent == NULL)
		return;
	d->pump_due = true;
	at_life(w, w->now, pump_now, d, NULL, &d->life);
}

/* ---- the link ---- */

static void on_up(world *w, void *obj)
{
	device *d = obj;

	edge_agent_link(d->agent, true, device_moment(d));
	device_pump_soon(w, d);
}

static void on_down(world *w, void *obj)
{
	device *d = obj;

	if (d->agent == NULL)
		return;
	edge_agent_link(d->agent, false, device_moment(d));
	device_pump_soon(w, d);
}

static void on_message(world *w, void *obj, const msg *m)
{
	device *d = obj;
	error err = {0};

	say(w, "%s receives %s %.150s", d->name, m->topic, m->payload);
	if (edge_agent_message(d->agent, m->topic, m->payload, m->len, device_moment(d), &err) != 0)
		violated(w, 0, "%s refuses a message on %s: %s", d->name, m->topic, err.text);
	device_pump_soon(w, d);
}

/* ---- the process ---- */

static void restore(device *d)
{
	saved *s = &d->store;

	edge_agent_restore_meta(d->agent, &s->meta);
	for (size_t i = 0; i < s->n_jobs; i++)
		edge_agent_restore_job(d->agent, record_copy(s->jobs[i]));
	for (size_t i = 0; i < s->n_datasets; i++)
		edge_agent_restore_dataset(d->agent, s->datasets[i], strlen(s->datasets[i]));
	for (size_t i = 0; i < s->n_early; i++)
		edge_agent_restore_provisional(d->agent, &s->early[i]);
}

void device_start(world *w, device *d)
{
	char session[33], *where, *payload;

	if (d->agent != NULL || !d->powered)
		return;
	d->life++;
	hex_id(w, session, 32);
	if (d->store.meta.store[0] == '\0') {
		strncpy(d->store.meta.node, d->name, sizeof(d->store.meta.node) - 1);
		hex_id(w, d->store.meta.store, 32);
	}
	d->config.session = session;
	d->config.seed = rnd(w);
	d->config.check_on_arrival = w->check_on_arrival;
	d->agent = edge_agent_new(&d->config);
	d->pump_due = false;
	d->wake_at = 0;
	restore(d);
	edge_agent_start(d->agent, device_moment(d));
	edge_agent_will(d->agent, &where, &payload);
	say(w, "%s: agent starts, session %.6s, store %.6s with %zu jobs", d->name, session, d->store.meta.store, d->store.n_jobs);
	client_start(w, d->link, where, payload);
	device_pump_soon(w, d);
}

static void start_again(world *w, void *obj, void *data)
{
	(void)data;
	device_start(w, obj);
}

static void end(world *w, device *d, bool clean)
{
	d->life++;
	client_stop(w, d->link, clean);
	device_posts_lost(w, d);
	edge_agent_free(d->agent);
	d->agent = NULL;
	d->restarts++;
}

void device_crash(world *w, device *d, int64_t down_ms)
{
	if (d->agent != NULL) {
		say(w, "%s: agent crashes", d->name);
		end(w, d, false);
	}
	if (down_ms >= 0)
		at_life(w, w->now + down_ms, start_again, d, NULL, &d->life);
}

void device_stop(world *w, device *d)
{
	char *where, *payload;

	if (d->agent == NULL)
		return;
	say(w, "%s: agent stops", d->name);
	edge_agent_farewell(d->agent, &where, &payload);
	client_publish(w, d->link, where, payload, true);
	free(where);
	free(payload);
	end(w, d, true);
}

void device_init(world *w, device *d, const char *name)
{
	static const client_events events = {.up = on_up, .down = on_down, .message = on_message};
	char **filters = mem_alloc(sizeof(*filters));

	*d = (device){.w = w, .powered = true, .lan = true, .life = 1};
	strncpy(d->name, name, sizeof(d->name) - 1);
	d->link = client_new(w, name, d, &events);
	filters[0] = topic_edge_filter(TOPIC_ROOT, name);
	client_filters(d->link, filters, 1);
	edge_config_init(&d->config);
	d->config.node = d->name;
	d->config.version = "sim";
}

/* ---- faults ---- */

void device_network(world *w, device *d, bool up)
{
	if (d->lan == up)
		return;
	say(w, "%s: network %s", d->name, up ? "up" : "down");
	d->lan = up;
	client_network(w, d->link, up);
	if (up)
		pod_flush(w, d);
}

void device_power(world *w, device *d, bool on)
{
	if (d->powered == on)
		return;
	say(w, "%s: power %s", d->name, on ? "on" : "off");
	d->powered = on;
	if (!on) {
		device_crash(w, d, -1);
		pod_power(w, d, false);
		return;
	}
	d->mono_base = w->now;
	device_start(w, d);
	pod_power(w, d, true);
}

void device_lose_store(world *w, device *d)
{
	bool was_up = d->agent != NULL;

	device_crash(w, d, -1);
	say(w, "%s: store lost", d->name);
	saved_fini(&d->store);
	if (was_up)
		device_start(w, d);
}

void device_backup(world *w, device *d)
{
	say(w, "%s: store backed up", d->name);
	if (d->has_backup)
		saved_fini(&d->backup);
	saved_copy(&d->backup, &d->store);
	d->has_backup = d->store.meta.store[0] != '\0';
}

void device_restore(world *w, device *d)
{
	if (!d->has_backup)
		return;
	device_crash(w, d, -1);
	say(w, "%s: store restored", d->name);
	saved_fini(&d->store);
	saved_copy(&d->store, &d->backup);
	device_start(w, d);
}

/* Pods, store and folders are gone; the first models are put back by whoever installs the device. */
void device_reimage(world *w, device *d, bool dataset_kept)
{
	device_power(w, d, false);
	say(w, "%s: re-imaged", d->name);
	for (object *o = w->objects, *next; o != NULL; o = next) {
		next = o->next;
		if (o->pod != NULL && o->json != NULL && o->pod->node == d) {
			pod_taken(w, o->pod);
			pod_gone(w, o->pod);
		}
	}
	saved_fini(&d->store);
	disk_wipe(&d->disk);
	for (size_t i = 0; i < w->n_jobs; i++) {
		if (w->jobs[i].deploy_node == d && disk_of(w, d, w->jobs[i].deploy_url) == &d->disk)
			model_put(&d->disk, w->jobs[i].deploy_url, 1);
	}
	model_put(&d->disk, "/models/initial.bin", 1);
	for (size_t i = 0; i < w->n_tracks; i++) {
		if (w->tracks[i]->job->deploy_node == d && disk_of(w, d, w->tracks[i]->job->deploy_url) == &d->disk)
			w->tracks[i]->reimaged = true;
	}
	for (size_t i = 0; i < w->n_files && !dataset_kept; i++) {
		if (w->files[i].node == d)
			file_truncate(w, &w->files[i], 0);
	}
	device_power(w, d, true);
}
