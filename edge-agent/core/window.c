/* See window.h for the rule. */
#include "edge-agent/core/window.h"

void window_start(window *w, const window_round *present)
{
	*w = (window){.rounds = {present->round}, .n = 1, .last = present->round, .from = present->from};
}

static bool window_fits(const window *w, const window_round *r)
{
	return r->round < w->last && r->to == w->from && r->from < r->to;
}

bool window_offer(window *w, const window_round *r)
{
	if (w->n < WINDOW_MAX && window_fits(w, r)) {
		w->rounds[w->n++] = r->round;
		w->last = r->round;
		w->from = r->from;
	}
	return w->n < WINDOW_MAX && w->from > 0;
}
