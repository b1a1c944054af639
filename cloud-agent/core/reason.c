/* Why a job stands still, on the job itself: what the state topic and an Event say as a warning is also the reason of its last condition, and of
 * its summary. A job that cannot even begin gets its first condition for it.
 *
 * Only a position that has not ended takes a reason so: of one that has, the reason says how it ended, and stays. There the summary alone says
 * what is in the way of the next round. So whatever reason a condition without an end has is one of ours, and goes when it is no longer true.
 *
 * What is over within a second costs no write (objects that are applied one after the other), what comes and goes one write in a while. It is for
 * people: a write that fails is tried again later and later, and stands in the way of nothing.
 */
#include <string.h>

#include "cloud-agent/core/core.h"

enum { SETTLE_MS = 1000 };

/* Of a round's beginning: how the one before ended. NULL: there is nothing to say. */
const char *waiting_message(arena *mem, const job_view *v)
{
	if (!v->started || !v->has_ended || v->pos.stage != STAGE_TRAIN || v->pos.phase != PHASE_WAITING || v->ended.round != v->pos.round - 1)
		return NULL;
	return ended_message(mem, v->ended, v->ended_reason, v->ended_message);
}

const char *ended_message(arena *mem, position ended, const char *reason, const char *why)
{
	return arena_printf(mem, "round %lld ended with %s/%s%s%s%s%s", (long long)ended.round, stage_name(ended.stage),
		phase_name(ended.phase), reason != NULL && reason[0] != '\0' ? ", " : "", reason != NULL ? reason : "",
		why != NULL && why[0] != '\0' ? ": " : "", why != NULL ? why : "");
}

static bool is_told(const job *j, bool ended, const char *reason, const char *message)
{
	const job_view *v = j->view;
	if (!v->started)
		return reason[0] == '\0';
	if (ended)
		return !v->has_summary || strcmp(reason, v->summary_reason) == 0;
	return strcmp(reason, v->reason) == 0 && (reason[0] == '\0' || strcmp(message, v->message) == 0);
}

/* It holds for long enough, and the last write was long enough ago; else the job is looked at again then. */
static bool is_due(controller *c, job *j, const char *reason)
{
	if (j->tell_since < 0 || strcmp(j->tell_reason, reason) != 0) {
		j->tell_since = c->now.mono_ms;
		text_copy(j->tell_reason, sizeof j->tell_reason, reason);
	}
	int64_t at = j->tell_since + SETTLE_MS;
	if (j->tell_at > at)
		at = j->tell_at;
	if (c->now.mono_ms < at)
		job_wake_at(c, j, at);
	return c->now.mono_ms >= at;
}

bool reason_tell(controller *c, job *j)
{
	const job_view *v = j->view;
	bool ended = v->started && phase_ended(v->pos.phase);
	char message[CONDITION_MESSAGE_MAX + 1];
	const char *reason = j->state_warns ? j->state_reason : ended ? v->reason : "";
	text_copy(message, sizeof message, j->state_warns ? j->state_message : "");
	if (is_told(j, ended, reason, message)) {
		j->tell_since = -1;
		return false;
	}
	if (!is_due(c, j, reason))
		return false;
	change ch = change_begin(v);
	if (v->started) {
		ch.amend = ch.tells = true;
		ch.reason = reason;
		ch.message = reason[0] != '\0' ? message : waiting_message(ch.mem, v);
	} else {
		ch.m = (member){.round = v->first_round};
		change_add(&ch, STAGE_TRAIN, PHASE_WAITING, reason, message);
	}
	flight_patch(c, j, &ch)->tells = TELLS_REASON;
	change_end(&ch);
	return true;
}

void reason_told(controller *c, job *j, int code, int64_t retry_after_ms)
{
	if (code == 0)
		j->tell_delay = 0;
	j->tell_at = c->now.mono_ms + (code == 0 ? c->cfg.status_interval_ms : retry_delay(c, &j->tell_delay, retry_after_ms));
}
