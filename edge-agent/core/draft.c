/* Drafts: the record that a job should have next. Copied at the first edit, so a job with nothing to change costs nothing. */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/agent_internal.h"

const record *draft__view(const draft *d)
{
	return d->next != NULL ? d->next : d->base;
}

record *draft__edit(draft *d)
{
	if (d->next == NULL)
		d->next = record_copy(d->base);
	return d->next;
}

static enum phase phase_of(enum report_what what)
{
	switch (what) {
	case REPORT_READY:
		return PHASE_READY;
	case REPORT_COMPLETED:
		return PHASE_COMPLETED;
	case REPORT_FAILED:
		return PHASE_FAILED;
	case REPORT_WRITTEN:
		break;
	}
	return PHASE_STARTING;
}

void draft__report(draft *d, const report *rep, enum stage stage, enum report_what what, int64_t from)
{
	record *r = draft__edit(d);
	outbox_row row = {.what = what, .from = from, .reason = rep->reason};
	report full = *rep;
	char ts[32];
	char *payload;

	time_format(d->now.unix_ms, ts);
	row.position = (position){.round = r->desired->position.round, .stage = stage, .phase = phase_of(what)};
	row.seq = ++d->a->commit.seq;
	full.ts = ts;
	full.node = d->a->node;
	full.job = r->desired->job;
	full.position = row.position;
	full.what = what;
	full.store = d->a->meta.store;
	full.seq = row.seq;
	payload = report_encode(&full);
	row.payload = payload;
	record_add_row(r, &row);
	free(payload);
}

void draft__fail(draft *d, enum stage stage, const char *reason, const char *message)
{
	report rep = {.reason = reason, .message = message};

	draft__report(d, &rep, stage, REPORT_FAILED, stage == STAGE_DEPLOY ? deploy__of(draft__view(d)) : -1);
}
