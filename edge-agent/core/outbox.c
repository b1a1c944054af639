/* When reports go out, and go out again.
 *
 * A row that is not settled is published at once when it has been committed, and then after a random time within a window that doubles from
 * retry_min to retry_max (full jitter: many devices that come back together do not keep in step). A new link makes all of them due, from the
 * smallest window on. Documents settle rows or make them wait again, but never bring a publish forward. The lowest seq goes first.
 *
 * Bound: a row a (round, stage, what), RECORD_MAX_ROWS a job; there is no other queue.
 */
#include <string.h>

#include "edge-agent/core/agent_internal.h"

static row_memory *memory_find(job *j, int64_t seq)
{
	for (size_t i = 0; i < j->n_rows; i++) {
		if (j->rows[i].seq == seq)
			return &j->rows[i];
	}
	return NULL;
}

void outbox__sync(job *j, moment now)
{
	row_memory rows[RECORD_MAX_ROWS];
	size_t n = 0;

	for (size_t i = 0; j->rec != NULL && i < j->rec->n_rows && n < RECORD_MAX_ROWS; i++) {
		const row_memory *known = memory_find(j, j->rec->rows[i].seq);

		rows[n++] = known != NULL ? *known : (row_memory){.seq = j->rec->rows[i].seq, .due = now.mono_ms};
	}
	memcpy(j->rows, rows, n * sizeof(*rows));
	j->n_rows = n;
}

void outbox__link_up(job *j, moment now)
{
	for (size_t i = 0; i < j->n_rows; i++) {
		j->rows[i].attempts = 0;
		j->rows[i].due = now.mono_ms;
	}
}

int64_t outbox__delay(edge_agent *a, int attempts)
{
	int64_t window = a->config.retry_min_ms;

	for (int i = 0; i < attempts && window < a->config.retry_max_ms; i++)
		window *= 2;
	if (window > a->config.retry_max_ms)
		window = a->config.retry_max_ms;
	return 1 + agent__random(a, window);
}

/* In steps of a sixteenth of the smallest window: what a thousand rows come to is then a few turns, not one for each. */
static void schedule(edge_agent *a, row_memory *m, moment now)
{
	int64_t step = a->config.retry_min_ms >= 16 ? a->config.retry_min_ms / 16 : 1;

	m->due = (now.mono_ms + outbox__delay(a, m->attempts++)) / step * step;
	if (m->due <= now.mono_ms)
		m->due += step;
}

static char *report_topic(const edge_agent *a, const job *j, const outbox_row *row)
{
	topic t = {.kind = TOPIC_REPORT, .stage = row->position.stage, .what = row->what};

	strncpy(t.ns, j->ns, sizeof(t.ns) - 1);
	strncpy(t.name, j->name, sizeof(t.name) - 1);
	strncpy(t.node, a->node, sizeof(t.node) - 1);
	return topic_format(a->root, &t);
}

bool outbox__publish(edge_agent *a, moment now, edge_action *out)
{
	const outbox_row *first = NULL;
	job *owner = NULL;

	for (size_t i = 0; i < a->n_jobs; i++) {
		job *j = a->jobs[i];

		for (size_t k = 0; j->rec != NULL && k < j->rec->n_rows; k++) {
			const outbox_row *row = &j->rec->rows[k];
			const row_memory *m = row->settled ? NULL : memory_find(j, row->seq);

			if (m == NULL)
				continue;
			if (m->due > now.mono_ms) {
				agent__wake_at(a, m->due);
			} else if (first == NULL || row->seq < first->seq) {
				first = row;
				owner = j;
			}
		}
	}
	if (first == NULL)
		return false;
	schedule(a, memory_find(owner, first->seq), now);
	agent__publish(a, out, report_topic(a, owner, first), mem_strdup(first->payload), false);
	return true;
}
