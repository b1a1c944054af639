/* See marks.h. */
#include "edge-agent/dataset/marks.h"

#include <string.h>

static void to_front(marks *m, size_t i)
{
	marks copy = *m;
	m->at[0] = copy.at[i];
	memcpy(&m->at[1], &copy.at[0], i * sizeof copy.at[0]);
}

void marks_want(marks *m, int64_t size, const digest *d)
{
	size_t i = 0;
	while (i < m->n && !(m->at[i].mark.size == size && digest_equal(&m->at[i].mark.digest, d)))
		i++;
	if (i == m->n) {
		if (m->n < MARKS_MAX)
			m->n++;
		i = m->n - 1;
		m->at[i].state = MARK_WANTED;
		m->at[i].mark = (mark){.size = size, .digest = *d};
	}
	to_front(m, i);
}

void marks_add(marks *m, const mark *known)
{
	if (known->size == 0)
		return;
	marks_want(m, known->size, &known->digest);
	m->at[0].state = MARK_HOLDS;
	m->at[0].mark = *known;
}

const mark *marks_before(const marks *m, int64_t size)
{
	const mark *best = NULL;
	for (size_t i = 0; i < m->n; i++) {
		const mark *one = &m->at[i].mark;
		if (m->at[i].state == MARK_HOLDS && one->size <= size && (best == NULL || one->size > best->size))
			best = one;
	}
	return best;
}

int64_t marks_next(const marks *m, int64_t at)
{
	int64_t next = INT64_MAX;
	for (size_t i = 0; i < m->n; i++) {
		if (m->at[i].state == MARK_WANTED && m->at[i].mark.size > at && m->at[i].mark.size < next)
			next = m->at[i].mark.size;
	}
	return next;
}

void marks_decide(marks *m, const walk *w)
{
	for (size_t i = 0; i < m->n; i++) {
		if (m->at[i].state != MARK_WANTED || m->at[i].mark.size != w->splitter.offset)
			continue;
		bool holds = w->end.size == m->at[i].mark.size && digest_equal(&w->end.digest, &m->at[i].mark.digest);
		m->at[i].state = holds ? MARK_HOLDS : MARK_REFUTED;
		if (holds)
			m->at[i].mark = w->end;
	}
}

void marks_reset(marks *m)
{
	for (size_t i = 0; i < m->n; i++)
		m->at[i].state = MARK_WANTED;
}
