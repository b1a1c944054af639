/* The controller: what is fed goes to the parts, and what they want done comes out, one action at a time.
 *
 * The next action, in this order: a higher epoch was seen, then nothing is published before that is settled; our own birth; documents and
 * clears; writes to the cluster; events. So a position that was read back is published before anything is made of it.
 *
 * Looks at jobs happen here too, and only while all kinds are listed: half of the objects would look like missing ones.
 */
#include "cloud-agent/core/controller.h"

#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"
#include "cloud-agent/core/credential.h"
#include "cloud-agent/core/publisher.h"
#include "common/random.h"

const char *object_kind_name(enum object_kind k)
{
	static const char *const names[] = {KIND_JOB, "Dataset", "Model", "Secret", "Pod", "Node"};
	return (unsigned)k < OBJECT_KINDS ? names[k] : "?";
}

void cloud_config_init(cloud_config *c)
{
	*c = (cloud_config){
		.root = TOPIC_ROOT,
		.version = "0",
		.session = "",
		.slow_ms = 60 * 60 * 1000,
		.backoff_min_ms = 10 * 1000,
		.backoff_max_ms = 360 * 1000,
		.retry_min_ms = 1000,
		.retry_max_ms = 2 * 60 * 1000,
		.start_timeout_ms = 10 * 60 * 1000,
		.reported_running_ms = 5 * 60 * 1000,
		.status_interval_ms = 10 * 1000,
		.max_restarts = 3,
		.conditions_max = 14,
		.metrics_max = 1024,
	};
}

controller *controller_new(const cloud_config *config)
{
	controller *c = mem_alloc(sizeof *c);
	c->cfg = *config;
	c->cfg.root = mem_strdup(config->root);
	c->cfg.version = mem_strdup(config->version);
	c->cfg.session = mem_strdup(config->session);
	c->cfg.client = mem_strdup(config->client);
	c->cfg.lc_server = mem_strdup(config->lc_server);
	c->cfg.storage_image = mem_strdup(config->storage_image);
	c->random = config->seed;
	c->rival_at = c->claim_at = -1;
	c->fence = c->slow_at = c->orphans_at = c->due = MOMENT_NEVER;
	return c;
}

static void event_free(queued_event *e)
{
	free(e->ns);
	free(e->job);
	free(e->uid);
	free(e->reason);
	free(e->message);
	*e = (queued_event){0};
}

void controller_free(controller *c)
{
	if (c == NULL)
		return;
	jobs_fini(c);
	objects_fini(c);
	flights_fini(c);
	docs_fini(c);
	fleet_fini(c);
	dataset_statuses_fini(c);
	credentials_fini(c);
	for (size_t i = 0; i < c->n_events; i++)
		event_free(&c->events[i]);
	event_free(&c->event_out);
	free(c->out_topic);
	free(c->out_payload);
	free((char *)c->cfg.root);
	free((char *)c->cfg.version);
	free((char *)c->cfg.session);
	free((char *)c->cfg.client);
	free((char *)c->cfg.lc_server);
	free((char *)c->cfg.storage_image);
	free(c);
}

/* ---- small things ---- */

double random_unit(controller *c)
{
	return (double)(random_next(&c->random) >> 11) / (double)(UINT64_C(1) << 53);
}

int64_t jitter(controller *c, int64_t ms, double share)
{
	return (int64_t)((double)ms * (1 - share + 2 * share * random_unit(c)));
}

stamp stamp_new(controller *c)
{
	return (stamp){.epoch = c->epoch, .gen = ++c->gen};
}

bool may_write(const controller *c)
{
	return c->leading && c->synced && c->now.mono_ms < c->fence;
}

void event_add(controller *c, const job *j, bool warning, const char *reason, const char *message)
{
	if (c->n_events == EVENTS_MAX)
		return;
	c->events[c->n_events++] = (queued_event){.ns = mem_strdup(j->ns),
		.job = mem_strdup(j->name),
		.uid = mem_strdup(j->uid),
		.reason = mem_strdup(reason),
		.message = mem_strdup(message),
		.warning = warning};
}

/* ---- what happens ---- */

static void pod_vanished(controller *c, const char *ns, const char *name)
{
	for (flight *f = c->flights; f != NULL; f = f->next) {
		if (f->kind == CLOUD_CREATE_POD && f->sent && strcmp(f->ns, ns) == 0 && strcmp(f->name, name) == 0)
			f->vanished = true;
	}
}

void controller_object(controller *c, enum object_kind kind, const char *ns, const char *name, cJSON *object, moment now)
{
	char *key = object_key(ns != NULL ? ns : "", name);
	c->now = now;
	if (kind == OBJECT_POD && object == NULL)
		pod_vanished(c, ns != NULL ? ns : "", name);
	if (kind != OBJECT_JOB) {
		objects_put(c, kind, key, ns, name, object);
		cJSON_Delete(object);
	} else if (object != NULL) {
		job_put(c, key, ns, name, object, false);
	} else {
		job *j = table_get(&c->jobs, key);
		if (j != NULL)
			job_drop(c, j);
	}
	free(key);
}

static void touch_all(controller *c)
{
	jobs_touch_all(c);
	models_touch_all(c);
	for (size_t i = 0; i < c->datasets.n; i++)
		dataset_touch(c, c->datasets.entries[i].value);
}

void controller_synced(controller *c, bool synced, moment now)
{
	c->now = now;
	c->synced = synced;
	if (!synced)
		return;
	touch_all(c);
	c->orphans_due = c->foreign_due = true;
}

void controller_lead(controller *c, int64_t epoch, moment now)
{
	c->now = now;
	if (c->leading && epoch <= c->epoch)
		return;
	epoch_seen(c, c->epoch);
	c->leading = true;
	c->epoch = epoch;
	c->gen = 0;
	if (c->seen_epoch == epoch)
		epoch_taken(c, epoch); /* before anything was published with it */
	c->slow_at = now.mono_ms + jitter(c, c->cfg.slow_ms, 0.2);
	c->birth_due = c->orphans_due = c->foreign_due = true;
	touch_all(c);
	docs_queue_all(c);
	dataset_statuses_again(c);
}

void controller_resign(controller *c, moment now)
{
	c->now = now;
	c->leading = false;
	for (flight *f = c->flights, *next; f != NULL; f = next) {
		next = f->next;
		if (!f->sent)
			flight_cancel(c, f);
	}
	jobs_touch_all(c);
}

void controller_fence(controller *c, int64_t mono_ms)
{
	c->fence = mono_ms;
}

void controller_link(controller *c, bool up, moment now)
{
	c->now = now;
	c->link = up;
	credentials_forget(c); /* who asked will ask again */
	if (!up)
		return;
	c->birth_due = true;
	c->linked_at = now.mono_ms;
	c->links++;
	docs_new_link(c);
	docs_queue_all(c);
	dataset_statuses_again(c);
}

void controller_room(controller *c, bool room)
{
	c->full = !room;
}

int controller_message(controller *c, const char *text, const void *payload, size_t len, bool retained, moment now, error *err)
{
	topic t;
	(void)retained; /* brokers and options differ in when it is set: nothing may rest on it */
	c->now = now;
	int code = topic_parse(c->cfg.root, text, &t, err);
	if (code == 0) {
		switch (t.kind) {
		case TOPIC_REPORT:
			code = report_take(c, &t, payload, len, err);
			break;
		case TOPIC_DATASET_STATUS:
			code = dataset_status_take(c, &t, payload, len, err);
			break;
		case TOPIC_PRESENCE:
			code = fleet_presence(c, &t, payload, len, err);
			break;
		case TOPIC_CREDENTIAL_REQUEST:
			code = credential_asked(c, &t, payload, len, retained, NULL, err);
			break;
		case TOPIC_STATS:
			code = counts_take(c, &t, payload, len, err);
			break;
		case TOPIC_CREDENTIAL_RESPONSE:
			break; /* not subscribed to */
		case TOPIC_STATE:
		case TOPIC_DESIRED:
		case TOPIC_DATASET:
		case TOPIC_INVENTORY:
			publisher_seen(c, &t, payload, len);
			break;
		}
	}
	if (code != 0)
		c->count.messages_refused++;
	return code;
}

int controller_request(controller *c, const char *text, const void *payload, size_t len, bool retained, const message_reply *reply,
	moment now, error *err)
{
	topic t;
	if (topic_parse(c->cfg.root, text, &t, err) != 0 || t.kind != TOPIC_CREDENTIAL_REQUEST)
		return controller_message(c, text, payload, len, retained, now, err);
	c->now = now;
	int code = credential_asked(c, &t, payload, len, retained, reply, err);
	if (code != 0)
		c->count.messages_refused++;
	return code;
}

/* ---- what to do ---- */

static void touch_due(controller *c)
{
	int64_t now = c->now.mono_ms;
	if (now < c->due)
		return;
	c->due = MOMENT_NEVER;
	for (size_t i = 0; i < c->jobs.n; i++) {
		job *j = c->jobs.entries[i].value;
		if (j->wake <= now)
			job_poke(c, j);
		else if (j->wake < c->due)
			c->due = j->wake;
	}
	for (size_t i = 0; i < c->datasets.n; i++) {
		dataset *d = c->datasets.entries[i].value;
		if (d->write.wake <= now)
			dataset_status_look(c, d);
		else if (d->write.wake < c->due)
			c->due = d->write.wake;
	}
	for (size_t i = 0; i < c->models.n; i++) {
		model_object *m = c->models.entries[i].value;
		if (m->write.wake <= now)
			model_status_look(c, m);
		else if (m->write.wake < c->due)
			c->due = m->write.wake;
	}
}

static void settle(controller *c)
{
	touch_due(c);
	while (c->dirty_head != NULL) {
		job *j = c->dirty_head;
		c->dirty_head = j->dirty_next;
		if (c->dirty_head == NULL)
			c->dirty_tail = NULL;
		j->dirty = false;
		job_look(c, j);
	}
	if (c->foreign_due)
		docs_judge_foreign(c);
	if (c->orphans_due || c->now.mono_ms >= c->orphans_at)
		orphans_reap(c);
}

static bool raise_next(controller *c, cloud_action *out)
{
	if (c->seen_epoch <= c->epoch || c->raise_id != 0 || c->now.mono_ms < c->raise_at || c->now.mono_ms < c->rival_until)
		return false;
	c->raise_id = ++c->last_id;
	*out = (cloud_action){.kind = CLOUD_RAISE_EPOCH, .id = c->raise_id};
	out->epoch.above = c->seen_epoch;
	return true;
}

/* What is published counts as told, so it has to be certain that the link takes it. */
static bool may_publish(const controller *c)
{
	return c->link && !c->full && c->seen_epoch <= c->epoch && c->now.mono_ms >= c->rival_until;
}

static bool birth_next(controller *c, cloud_action *out)
{
	if (!c->birth_due)
		return false;
	topic t = {.kind = TOPIC_PRESENCE, .node = PRESENCE_CLOUD};
	c->birth_due = false;
	c->out_topic = topic_format(c->cfg.root, &t);
	c->out_payload = document_presence(c, true, false);
	c->count.published++;
	*out = (cloud_action){.kind = CLOUD_PUBLISH};
	out->publish.topic = c->out_topic;
	out->publish.payload = c->out_payload;
	out->publish.retained = true;
	return true;
}

static bool event_next(controller *c, cloud_action *out)
{
	if (c->n_events == 0)
		return false;
	event_free(&c->event_out);
	c->event_out = c->events[0];
	c->n_events--;
	memmove(&c->events[0], &c->events[1], c->n_events * sizeof c->events[0]);
	*out = (cloud_action){.kind = CLOUD_EVENT};
	out->event.ns = c->event_out.ns;
	out->event.job = c->event_out.job;
	out->event.uid = c->event_out.uid;
	out->event.warning = c->event_out.warning;
	out->event.reason = c->event_out.reason;
	out->event.message = c->event_out.message;
	return true;
}

static void slow_timer(controller *c)
{
	if (c->now.mono_ms < c->slow_at)
		return;
	c->slow_at = c->now.mono_ms + jitter(c, c->cfg.slow_ms, 0.2);
	docs_forget(c, false);
	docs_queue_all(c);
	dataset_statuses_again(c);
}

bool controller_next(controller *c, moment now, cloud_action *out)
{
	c->now = now;
	free(c->out_topic);
	free(c->out_payload);
	c->out_topic = c->out_payload = NULL;
	if (!c->leading || now.mono_ms >= c->fence)
		return false;
	slow_timer(c);
	if (raise_next(c, out))
		return true;
	bool publishes = may_publish(c);
	if (publishes && birth_next(c, out))
		return true;
	if (c->synced) {
		settle(c);
		if ((publishes && (publisher_next(c, out) || dataset_status_clear_next(c, out) || credential_next(c, out))) || flight_next(c, out))
			return true;
	}
	return event_next(c, out);
}

static bool busy_now(const controller *c)
{
	bool publishes = may_publish(c);
	if (c->n_events > 0 || (publishes && c->birth_due))
		return true;
	if (!c->synced)
		return false;
	return flight_waits(c) || c->dirty_head != NULL || c->foreign_due || c->orphans_due ||
		(publishes && (c->queue_head != NULL || c->statuses_due || credential_waits(c)));
}

int64_t controller_wake(const controller *c)
{
	int64_t wake = c->slow_at;
	if (!c->leading || c->now.mono_ms >= c->fence)
		return MOMENT_NEVER;
	if (busy_now(c))
		return c->now.mono_ms;
	int64_t raise_at = c->raise_at > c->rival_until ? c->raise_at : c->rival_until;
	if (c->seen_epoch > c->epoch && c->raise_id == 0 && raise_at < wake)
		wake = raise_at;
	if (c->now.mono_ms < c->rival_until && c->rival_until < wake)
		wake = c->rival_until;
	if (!c->synced)
		return wake;
	for (size_t i = 0; i < c->jobs.n; i++) {
		const job *j = c->jobs.entries[i].value;
		wake = j->wake < wake ? j->wake : wake;
	}
	for (size_t i = 0; i < c->datasets.n; i++) {
		const dataset *d = c->datasets.entries[i].value;
		wake = d->write.wake < wake ? d->write.wake : wake;
	}
	for (size_t i = 0; i < c->models.n; i++) {
		const model_object *m = c->models.entries[i].value;
		wake = m->write.wake < wake ? m->write.wake : wake;
	}
	return c->orphans_at < wake ? c->orphans_at : wake;
}

/* ---- presence, counters ---- */

static void own_presence(const controller *c, bool will, char **text, char **payload)
{
	topic t = {.kind = TOPIC_PRESENCE, .node = PRESENCE_CLOUD};
	*text = topic_format(c->cfg.root, &t);
	*payload = document_presence(c, false, will);
}

void controller_will(const controller *c, char **text, char **payload)
{
	own_presence(c, true, text, payload);
}

void controller_farewell(const controller *c, char **text, char **payload)
{
	own_presence(c, false, text, payload);
}

void controller_counters(const controller *c, cloud_counters *out)
{
	*out = c->count;
	out->jobs = (int64_t)c->jobs.n;
	for (size_t i = 0; i < c->nodes.n; i++) {
		const node *n = c->nodes.entries[i].value;
		out->nodes += n->present;
		out->nodes_online += n->online;
	}
	for (size_t i = 0; i < c->jobs.n; i++) {
		const job *j = c->jobs.entries[i].value;
		out->inferences += j->counts.inferences;
		out->hard_examples += j->counts.hard_examples;
	}
}
