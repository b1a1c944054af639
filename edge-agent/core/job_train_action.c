/* Train/Waiting on the dataset node, the other half: which file action comes next, and what its result means.
 *
 *     LOOK (once a round) → LOCATE the cursor in the present file → trigger → MEASURE → (commit) → WRITE → (commit)
 *
 * Where the cursor is in the file is known for one generation of the file; a located generation that the watcher has not seen yet waits for
 * the watcher, so the two never chase each other. What the file lost before a round took it is counted (rule 9).
 */
#include <stdlib.h>
#include <string.h>

#include "edge-agent/core/job_train.h"
#include "edge-agent/core/split.h"

/* ---- actions ---- */

static running *round_action(edge_agent *a, job *j, edge_action *out, enum edge_action_kind kind)
{
	const desired *d = j->rec->desired;
	running *run = agent__run(a, j, out, kind);

	out->round.uid = run->uid;
	out->round.output_dir = run->output_dir;
	out->round.url = arena_strdup(run->mem, d->has_dataset ? d->dataset.url : NULL);
	out->round.round = d->position.round;
	out->round.format = d->dataset.format;
	out->round.train_prob = d->train_prob;
	return run;
}

void train__look(edge_agent *a, job *j, edge_action *out, bool for_result)
{
	round_action(a, j, out, EDGE_LOOK)->for_result = for_result;
}

static void write_action(edge_agent *a, job *j, edge_action *out)
{
	round_action(a, j, out, EDGE_WRITE);
	out->round.alloc = j->rec->alloc;
	out->round.line = j->located.line;
	out->round.offset = j->located.offset;
	/* Rule 7 lets a folder be moved aside at Train/Waiting; that the job stands there is certain only in a document of this session. */
	out->round.may_move_aside = job__in_session(a, j->rec);
}

static void sample_action(edge_agent *a, job *j, edge_action *out, enum edge_action_kind kind, const cursor *at, int64_t bytes_max)
{
	const desired *d = j->rec->desired;
	running *run = agent__run(a, j, out, kind);

	run->cursor = *at;
	run->url = arena_strdup(run->mem, d->dataset.url);
	run->format = d->dataset.format;
	out->sample.url = run->url;
	out->sample.format = run->format;
	out->sample.cursor = *at;
	out->sample.line = kind == EDGE_MEASURE ? j->located.line : 0;
	out->sample.offset = kind == EDGE_MEASURE ? j->located.offset : 0;
	out->sample.bytes_max = bytes_max;
}

/* ---- the trigger ---- */

static void check(edge_agent *a, job *j, moment now)
{
	const desired *d = j->rec->desired;
	int64_t from = j->located.begin.sample;
	int64_t waiting = j->file->view.samples - j->located.line;
	int64_t to_train = waiting > 0 ? split_count(from, from + waiting, d->train_prob) : 0;
	error why;

	j->check_dirty = false;
	j->check_at = now.mono_ms + agent__period_ms(d->train.check_period_s);
	j->answered = trigger_train(&d->train, to_train, now.minute, &why);
	/* A round needs something to train on, whatever the condition says about none. */
	if (to_train == 0 && j->answered != TRIGGER_UNKNOWN)
		j->answered = TRIGGER_NO;
	j->fired = j->answered == TRIGGER_YES;
	if (j->answered == TRIGGER_UNKNOWN)
		job__complain(a, j, why.text);
	else if (!j->fired || j->problem.attempts == 0)
		job__problem_clear(a, j);
}

/* Looking costs nothing, but it is a wakeup: without news, and with no window to wait for, the answer would be the same. */
static bool trigger_fires(edge_agent *a, job *j, moment now)
{
	bool at_once = a->config.check_on_arrival && j->check_dirty;

	if (j->fired)
		return true;
	if (!j->check_dirty && j->answered != TRIGGER_OUTSIDE)
		return false;
	if (now.mono_ms < j->check_at && !at_once) {
		agent__wake_at(a, j->check_at);
		return false;
	}
	check(a, j, now);
	if (j->answered == TRIGGER_OUTSIDE)
		agent__wake_at(a, j->check_at);
	return j->fired;
}

static bool is_located(const job *j, const cursor *want)
{
	const located *l = &j->located;

	return l->valid && l->generation >= j->file->view.generation && (cursor_equal(&l->asked, want) || cursor_equal(&l->begin, want));
}

bool train__action(edge_agent *a, job *j, moment now, edge_action *out)
{
	const record *r = j->rec;
	cursor want;

	if (!train__at_waiting(r) || record_row(r, r->desired->position.round, STAGE_TRAIN, REPORT_READY) != NULL)
		return false;
	if (!r->desired->has_base) {
		job__complain(a, j, "the document names no model to train from");
		return false;
	}
	if (!train__is_looked(j, r)) {
		train__look(a, j, out, false);
		return true;
	}
	if (j->file == NULL || !j->file->view.looked || j->file->view.error != NULL)
		return false;
	want = r->has_alloc ? r->alloc.begin : job__cursor(r);
	if (!is_located(j, &want))
		sample_action(a, j, out, EDGE_LOCATE, &want, 0);
	else if (j->located.generation != j->file->view.generation)
		return false;
	else if (r->has_alloc)
		write_action(a, j, out);
	else if (train__needs_base(r))
		sample_action(a, j, out, EDGE_MEASURE, &j->located.begin, 0);
	else if (trigger_fires(a, j, now))
		sample_action(a, j, out, EDGE_MEASURE, &j->located.begin, a->config.round_bytes_max);
	else
		return false;
	return true;
}

/* ---- results ---- */

static void located_result(job *j, const running *run, const edge_result *result)
{
	const record *r = j->rec;
	bool matched = result->code == 0 && result->locate.matched;

	j->located.valid = result->code == 0;
	if (result->code != 0)
		return;
	j->located.matched = matched;
	j->located.generation = result->locate.generation;
	j->located.asked = run->cursor;
	j->located.begin = matched ? run->cursor : (cursor){.sample = run->cursor.sample};
	j->located.line = matched ? result->locate.line : 0;
	j->located.offset = matched ? result->locate.offset : 0;
	j->check_dirty = true;
	j->fired = false;
	if (!matched) {
		if (r->has_alloc && cursor_equal(&run->cursor, &r->alloc.begin))
			j->outcome.alloc_gone = true;
		/* All of the file is new, so what waited in the old one is gone. */
		if (j->seen && j->seen_generation != result->locate.generation && j->seen_end > run->cursor.sample)
			j->removed += j->seen_end - run->cursor.sample;
		j->seen = false;
	}
	files__note_seen(j);
}

static void measured_result(job *j, const running *run, const edge_result *result)
{
	located *l = &j->located;

	if (result->code != 0) {
		l->valid &= result->code != ERROR_CHANGED;
		return;
	}
	if (!l->valid || result->measure.generation != l->generation || !cursor_equal(&run->cursor, &l->begin)) {
		l->valid = false;
		return;
	}
	if (train__needs_base(j->rec)) {
		j->outcome.base_measured = true;
		j->outcome.base_end = result->measure.end;
	} else if (result->measure.end.sample > run->cursor.sample) {
		j->outcome.measured = true;
		j->outcome.measured_begin = run->cursor;
		j->outcome.measured_end = result->measure.end;
	} else {
		l->valid = false;
	}
}

static void written_result(job *j, const running *run, const edge_result *result)
{
	if (result->code == 0) {
		looked__set(&j->look, run->round, run->output_dir, &result->round.manifest);
		j->look.just_written = true;
		return;
	}
	/* Look again before the next try: the folder may be what stood in the way. */
	looked__clear(&j->look);
	if (result->code == ERROR_CHANGED) {
		j->outcome.alloc_gone = j->rec->has_alloc;
		j->located.valid = false;
	}
}

static void look_result(job *j, const running *run, const edge_result *result)
{
	const edge_manifest *m = result->round.found ? &result->round.manifest : NULL;

	if (result->code != 0)
		return;
	if (!run->for_result)
		looked__set(&j->look, run->round, run->output_dir, m);
	else if (j->rec->desired->position.round == run->round && j->rec->desired->position.stage == STAGE_TRAIN)
		looked__set(&j->result_look, run->round, run->output_dir, m);
}

/* False: the job was given another dataset meanwhile, in which the places of the old one mean nothing. */
static bool reads_file(const job *j, const running *run)
{
	return j->file != NULL && j->file->format == run->format && strcmp(j->file->url, run->url) == 0;
}

void train__result(edge_agent *a, job *j, const running *run, const edge_result *result, moment now)
{
	(void)a;
	(void)now;
	if (run->url != NULL && !reads_file(j, run))
		return;
	if (run->kind == EDGE_LOCATE)
		located_result(j, run, result);
	else if (run->kind == EDGE_MEASURE)
		measured_result(j, run, result);
	else if (run->kind == EDGE_WRITE)
		written_result(j, run, result);
	else
		look_result(j, run, result);
	/* A measurement that nothing follows from asks the trigger again, in its own time. */
	if (run->kind == EDGE_MEASURE && result->code == 0) {
		j->fired = false;
		j->check_dirty = true;
	}
}
