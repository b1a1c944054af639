/* Patches of the status of datasets and models, which are for people alone: one under way at a time, guarded by resourceVersion, at most one in
 * an interval, and later and later while the cluster refuses them. A conflict waits for the newer object, and not for ever.
 *
 * What the status is to be is the caller's: it is worked out anew for each patch, so one that was planned and not sent is simply taken back.
 */
#include <stdlib.h>
#include <string.h>

#include "cloud-agent/core/core.h"

void status_write_init(status_write *w)
{
	*w = (status_write){.patched_at = -1, .wake = MOMENT_NEVER};
}

void status_write_fini(controller *c, status_write *w)
{
	if (w->flight != NULL) {
		w->flight->write = NULL;
		if (!w->flight->sent)
			flight_cancel(c, w->flight);
	}
	free(w->rv);
	free(w->conflict_rv);
}

static void wake_at(controller *c, status_write *w, int64_t mono_ms)
{
	w->wake = mono_ms;
	if (mono_ms < c->due)
		c->due = mono_ms;
}

void status_write_touch(controller *c, status_write *w)
{
	wake_at(c, w, c->now.mono_ms);
}

bool status_write_due(controller *c, status_write *w, bool wanted)
{
	w->wake = MOMENT_NEVER;
	if (w->flight != NULL && !w->flight->sent)
		flight_cancel(c, w->flight);
	if (w->flight != NULL || !wanted)
		return false;
	if (w->conflict_rv != NULL && strcmp(w->conflict_rv, w->rv) != 0) {
		free(w->conflict_rv);
		w->conflict_rv = NULL;
		w->retry_at = 0;
	}
	int64_t next = w->patched_at >= 0 ? w->patched_at + c->cfg.status_interval_ms : 0;
	if (w->retry_at > next)
		next = w->retry_at;
	if (next > c->now.mono_ms) {
		wake_at(c, w, next);
		return false;
	}
	return true;
}

void status_write_patch(controller *c, status_write *w, enum object_kind kind, const char *ns, const char *name, const char *uid,
	const char *node_name, cJSON *status)
{
	flight *f = flight_new(c, CLOUD_PATCH_STATUS, kind, ns, name, node_name);
	f->uid = mem_strdup(uid);
	f->rv = mem_strdup(w->rv);
	f->body = status;
	f->write = w;
	w->flight = f;
}

void status_write_answered(controller *c, flight *f, int code, cJSON *object, int64_t retry_after_ms)
{
	status_write *w = f->write;
	if (w == NULL) {
		cJSON_Delete(object);
		return;
	}
	status_write_touch(c, w);
	if (code == 0) {
		w->retry_at = w->retry_delay = 0;
		w->patched_at = c->now.mono_ms;
		w->done = true;
		if (object != NULL && version_older(object_text(object, "metadata", "resourceVersion"), w->rv))
			cJSON_Delete(object); /* the watch was faster */
		else if (object != NULL)
			controller_object(c, f->object, f->ns, f->name, object, c->now);
		return;
	}
	cJSON_Delete(object);
	if (code == ERROR_CONFLICT) {
		c->count.conflicts++;
		if (strcmp(w->rv, f->rv) == 0) {
			free(w->conflict_rv);
			w->conflict_rv = mem_strdup(f->rv);
		}
	} else {
		c->count.cluster_failures++;
	}
	w->retry_at = c->now.mono_ms + retry_delay(c, &w->retry_delay, retry_after_ms);
}
