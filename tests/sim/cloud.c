/* A cloud agent: the process around the real core, its watches, and its part in the lease.
 *
 * A healthy leader renews its lease all the time, so its fence is always some seconds ahead; from the moment at which it cannot (stalled, or the API
 * server is away for it) the fence stands still. When it wakes past its fence, what it then wants to write must be nothing. The lease
 * can be taken by another one, or again by the same, five seconds after the fence; the epoch grows each time.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

enum { RENEW_MS = 2000, DEADLINE_MS = 10 * 1000, EXPIRES_MS = 15 * 1000 };

moment cloud_moment(const cloud *c)
{
	return moment_at(c->w, c->mono_base, c->wall_offset);
}

bool cloud_healthy(const cloud *c)
{
	return c->c != NULL && c->stalled_until <= c->w->now && c->api_down_until <= c->w->now;
}

cloud *leader(world *w)
{
	return w->lease.holder != NULL && w->lease.holder->leading ? w->lease.holder : NULL;
}

/* ---- the lease ---- */

/* It renews, or has the time to. */
static bool leads_surely(const cloud *c)
{
	return c->leading && c->w->lease.holder == c && cloud_healthy(c) && (!c->frozen || c->w->now < c->fence);
}

static void renewed(world *w, cloud *c)
{
	if (!leads_surely(c))
		return;
	c->frozen = false;
	c->fence = w->now + DEADLINE_MS;
	w->lease.expires = w->now + EXPIRES_MS;
	controller_fence(c->c, c->fence - c->mono_base);
}

/* From now on it cannot renew. */
static void fence_stands(world *w, cloud *c)
{
	int64_t last;

	if (!c->leading || w->lease.holder != c)
		return;
	last = w->now - (w->script ? 0 : rnd_range(w, 0, RENEW_MS));
	if (c->frozen)
		return;
	c->frozen = true;
	c->fence = last + DEADLINE_MS;
	w->lease.expires = last + EXPIRES_MS;
	controller_fence(c->c, c->fence - c->mono_base);
}

void cloud_resign(world *w, cloud *c)
{
	if (!c->leading)
		return;
	say(w, "%s no longer leads", c->name);
	c->leading = false;
	controller_resign(c->c, cloud_moment(c));
	cloud_pump_soon(w, c);
}

void cloud_lead(world *w, cloud *c)
{
	int64_t clock = cloud_moment(c).unix_ms / 1000;

	w->lease.holder = c;
	w->lease.epoch = w->lease.epoch + 1 > clock ? w->lease.epoch + 1 : clock;
	c->leading = true;
	c->frozen = false;
	say(w, "%s leads, epoch %lld", c->name, (long long)w->lease.epoch);
	controller_lead(c->c, w->lease.epoch, cloud_moment(c));
	renewed(w, c);
	cloud_pump_soon(w, c);
}

static void try_lead(world *w, void *obj, void *data);

static void try_later(world *w, cloud *c, int64_t t)
{
	if (c->retry_due)
		return;
	c->retry_due = true;
	at_life(w, t, try_lead, c, NULL, &c->life);
}

static void try_lead(world *w, void *obj, void *data)
{
	cloud *c = obj, *holder = w->lease.holder;

	(void)data;
	c->retry_due = false;
	if (leads_surely(c))
		return;
	if (c->leading && c->stalled_until <= w->now && w->now >= c->fence)
		cloud_resign(w, c);
	if (!cloud_healthy(c)) {
		try_later(w, c, (c->stalled_until > c->api_down_until ? c->stalled_until : c->api_down_until) + rnd_range(w, 1, 2000));
		return;
	}
	if (c->leading)
		cloud_resign(w, c);
	if (holder != NULL && holder != c && leads_surely(holder))
		return; /* whoever changes that says so */
	if (holder != NULL && holder != c && w->now < w->lease.expires)
		try_later(w, c, w->lease.expires + (w->script ? 1 : rnd_range(w, 1, 2000)));
	else
		cloud_lead(w, c);
}

/* Somebody's health changed: those who wait for the lease look at it when it may be free. */
static void lease_looks(world *w, int64_t t)
{
	for (size_t i = 0; i < SIM_CLOUDS; i++) {
		if (w->clouds[i].c != NULL)
			try_later(w, &w->clouds[i], t + (w->script ? 0 : rnd_range(w, 0, 1000)));
	}
}

/* ---- performing ---- */

static void raise_epoch(world *w, cloud *c, const cloud_action *a)
{
	int code = 0;

	say(w, "%s has seen a higher epoch, %lld", c->name, (long long)a->epoch.above);
	if (c->api_down_until > w->now) {
		code = ERROR_OFFLINE;
	} else if (w->lease.holder != c) {
		cloud_resign(w, c);
		code = ERROR_CONFLICT;
	} else {
		if (w->lease.epoch < a->epoch.above)
			w->lease.epoch = a->epoch.above;
		cloud_lead(w, c);
	}
	controller_done(c->c, a->id, code, NULL, NULL, 0, cloud_moment(c));
}

static void perform(world *w, cloud *c, const cloud_action *a)
{
	switch (a->kind) {
	case CLOUD_PATCH_STATUS:
		track_write_allowed(w, c, "patch");
		c->patches++;
		api_patch(w, c, a);
		return;
	case CLOUD_PATCH_ANNOTATIONS:
		track_write_allowed(w, c, "annotate");
		c->patches++;
		api_annotate(w, c, a);
		return;
	case CLOUD_CREATE_POD:
		track_write_allowed(w, c, "create");
		c->creates++;
		api_create(w, c, a);
		return;
	case CLOUD_DELETE_POD:
		track_write_allowed(w, c, "delete");
		c->deletes++;
		api_delete(w, c, a);
		return;
	case CLOUD_PUBLISH:
		track_write_allowed(w, c, "publish");
		c->publishes++;
		c->clears += a->publish.payload[0] == '\0';
		c->inventories += strstr(a->publish.topic, "/inventory") != NULL && a->publish.payload[0] != '\0';
		say(w, "%s publishes %s %.260s", c->name, a->publish.topic, a->publish.payload);
		track_publish(w, c, a->publish.topic, a->publish.payload);
		client_publish(w, c->link, a->publish.topic, a->publish.payload, a->publish.retained);
		return;
	case CLOUD_EVENT:
		say(w, "%s: event %s %s: %s", c->name, a->event.job, a->event.reason, a->event.message);
		return;
	case CLOUD_CREDENTIAL: /* no link of the simulator is secure, and nobody asks */
		controller_answered(c->c, false, cloud_moment(c));
		return;
	case CLOUD_RAISE_EPOCH:
		raise_epoch(w, c, a);
		return;
	}
}

static void wake(world *w, void *obj, void *data);

static void pump(world *w, cloud *c)
{
	cloud_action a;
	int64_t next;

	renewed(w, c);
	while (c->c != NULL && controller_next(c->c, cloud_moment(c), &a)) {
		perform(w, c, &a);
		if (chance(w, w->k.crash_cloud))
			cloud_crash(w, c, rnd_range(w, 500, SECONDS(30)));
	}
	if (c->c == NULL)
		return;
	next = controller_wake(c->c);
	if (next == MOMENT_NEVER)
		return;
	next += c->mono_base;
	if (next <= w->now)
		next = w->now + 1;
	if (c->wake_at > w->now && c->wake_at <= next)
		return;
	c->wake_at = next;
	at_life(w, next, wake, c, NULL, &c->life);
}

static void wake(world *w, void *obj, void *data)
{
	cloud *c = obj;

	(void)data;
	if (c->stalled_until > w->now)
		at_life(w, c->stalled_until + 1, wake, c, NULL, &c->life);
	else if (!c->pump_due && w->now >= c->wake_at)
		pump(w, c);
}

static void pump_now(world *w, void *obj, void *data)
{
	cloud *c = obj;

	(void)data;
	if (c->stalled_until > w->now) {
		at_life(w, c->stalled_until + 1, pump_now, c, NULL, &c->life);
		return;
	}
	c->pump_due = false;
	pump(w, c);
}

void cloud_pump_soon(world *w, cloud *c)
{
	if (c->pump_due || c->c == NULL)
		return;
	c->pump_due = true;
	at_life(w, w->now, pump_now, c, NULL, &c->life);
}

/* ---- the link ---- */

static void on_up(world *w, void *obj)
{
	cloud *c = obj;

	controller_link(c->c, true, cloud_moment(c));
	cloud_pump_soon(w, c);
}

static void on_down(world *w, void *obj)
{
	cloud *c = obj;

	if (c->c == NULL)
		return;
	controller_link(c->c, false, cloud_moment(c));
	cloud_pump_soon(w, c);
}

static void message(world *w, cloud *c, const msg *m)
{
	error err = {0};

	say(w, "%s receives %s %.200s", c->name, m->topic, m->payload);
	if (controller_message(c->c, m->topic, m->payload, m->len, m->retained && w->retain_as_published, cloud_moment(c), &err) != 0)
		violated(w, 0, "%s refuses a message on %s: %s", c->name, m->topic, err.text);
	cloud_pump_soon(w, c);
}

static void late_message(world *w, void *obj, void *data)
{
	cloud *c = obj;

	if (c->c != NULL)
		message(w, c, data);
	msg_drop(data);
}

static void on_message(world *w, void *obj, const msg *m)
{
	cloud *c = obj;

	if (c->stalled_until > w->now) {
		((msg *)m)->refs++;
		at(w, c->stalled_until + 1, late_message, c, (msg *)m);
		return;
	}
	message(w, c, m);
}

/* ---- lists ---- */

void cloud_feed_all(world *w, cloud *c)
{
	unsigned bit = 1u << c->index;

	for (object *o = w->objects; o != NULL; o = o->next) {
		if (o->json == NULL && (o->known & bit) != 0 && object_find(w, o->kind, o->name) == NULL)
			controller_object(c->c, o->kind, o->ns, o->name, NULL, cloud_moment(c));
		else if (o->json != NULL)
			controller_object(c->c, o->kind, o->ns, o->name, cJSON_Duplicate(o->json, 1), cloud_moment(c));
		o->known = o->json != NULL ? o->known | bit : o->known & ~bit;
	}
}

static void listed(world *w, void *obj, void *data)
{
	cloud *c = obj;
	int64_t later = c->stalled_until > c->api_down_until ? c->stalled_until : c->api_down_until;

	(void)data;
	if (later > w->now) {
		at_life(w, later + 1, listed, c, NULL, &c->watch_life);
		return;
	}
	/* What was on its way is older than the list. */
	c->watch_life++;
	cloud_feed_all(w, c);
	controller_synced(c->c, true, cloud_moment(c));
	say(w, "%s has listed everything", c->name);
	cloud_pump_soon(w, c);
}

void cloud_relist(world *w, cloud *c, int64_t delay_ms)
{
	c->watch_life++;
	controller_synced(c->c, false, cloud_moment(c));
	at_life(w, w->now + delay_ms, listed, c, NULL, &c->watch_life);
	cloud_pump_soon(w, c);
}

/* ---- the process ---- */

void cloud_start(world *w, cloud *c)
{
	char session[33], *where, *payload;

	if (c->c != NULL)
		return;
	c->life++;
	c->enabled = true;
	hex_id(w, session, 32);
	c->config.session = session;
	c->config.seed = rnd(w);
	c->config.nodes_listed = w->nodes_listed;
	c->config.conditions_max = w->conditions_max;
	c->config.slow_ms = w->slow_ms;
	c->config.starting_hold_ms = w->nodes_listed ? 10000 : 0;
	c->config.running_hold_ms = w->nodes_listed ? 2000 : 0;
	c->c = controller_new(&c->config);
	c->pump_due = c->leading = c->retry_due = false;
	c->wake_at = 0;
	c->mono_base = w->now;
	for (object *o = w->objects; o != NULL; o = o->next)
		o->known &= ~(1u << c->index);
	say(w, "%s starts", c->name);
	controller_will(c->c, &where, &payload);
	client_start(w, c->link, where, payload);
	cloud_relist(w, c, rnd_delay(w, 100));
	try_later(w, c, w->now + rnd_delay(w, 200));
}

static void start_again(world *w, void *obj, void *data)
{
	(void)data;
	cloud_start(w, obj);
}

void cloud_crash(world *w, cloud *c, int64_t down_ms)
{
	if (c->c != NULL) {
		say(w, "%s crashes", c->name);
		fence_stands(w, c);
		c->life++;
		c->watch_life++;
		client_stop(w, c->link, false);
		controller_free(c->c);
		c->c = NULL;
		c->leading = false;
		c->stalled_until = 0;
		c->restarts++;
		lease_looks(w, w->lease.expires);
	}
	if (down_ms >= 0)
		at_life(w, w->now + down_ms, start_again, c, NULL, &c->life);
}

static void awake(world *w, void *obj, void *data)
{
	(void)data;
	cloud_pump_soon(w, obj);
}

void cloud_stall(world *w, cloud *c, int64_t ms)
{
	if (!cloud_healthy(c))
		return;
	say(w, "%s stalls for %lld ms", c->name, (long long)ms);
	fence_stands(w, c);
	c->stalled_until = w->now + ms;
	at_life(w, c->stalled_until + 1, awake, c, NULL, &c->life);
	if (ms >= DEADLINE_MS - RENEW_MS) {
		try_later(w, c, c->stalled_until + (w->script ? 1000 : rnd_range(w, 1, 1000)));
		lease_looks(w, w->lease.expires);
	}
}

void cloud_api_down(world *w, cloud *c, int64_t ms)
{
	if (!cloud_healthy(c))
		return;
	say(w, "%s: the API server is away for %lld ms", c->name, (long long)ms);
	fence_stands(w, c);
	c->api_down_until = w->now + ms;
	at_life(w, c->api_down_until + 1, awake, c, NULL, &c->life);
	if (ms >= DEADLINE_MS - RENEW_MS) {
		try_later(w, c, c->fence + 1);
		lease_looks(w, w->lease.expires);
	}
}

void cloud_init(world *w, cloud *c, int index)
{
	static const client_events events = {.up = on_up, .down = on_down, .message = on_message};
	char **filters = topic_cloud_filters(TOPIC_ROOT);
	size_t n = 0;

	*c = (cloud){.w = w, .index = index, .life = 1, .watch_life = 1};
	snprintf(c->name, sizeof(c->name), "cloud-%c", 'A' + index);
	c->link = client_new(w, c->name, c, &events);
	while (filters[n] != NULL)
		n++;
	client_filters(c->link, filters, n);
	cloud_config_init(&c->config);
	c->config.version = "sim";
}
