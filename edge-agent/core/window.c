/* See window.h. Selecting from an unordered list looks for the highest suitable round once per step: at most five passes, no sorting, no
 * memory.
 */
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

static const window_round *highest_fit(const window *w, const window_round *rounds, size_t n)
{
	const window_round *best = NULL;
	for (size_t i = 0; i < n; i++) {
		if (window_fits(w, &rounds[i]) && (best == NULL || rounds[i].round > best->round))
			best = &rounds[i];
	}
	return best;
}

size_t window_select(const window_round *rounds, size_t n, int64_t present, int64_t out[WINDOW_MAX])
{
	window w = {0};
	for (size_t i = 0; i < n && w.n == 0; i++) {
		if (rounds[i].round == present)
			window_start(&w, &rounds[i]);
	}
	if (w.n == 0)
		return 0;
	for (const window_round *r = highest_fit(&w, rounds, n); r != NULL && window_offer(&w, r);)
		r = highest_fit(&w, rounds, n);
	for (size_t i = 0; i < w.n; i++)
		out[i] = w.rounds[w.n - 1 - i];
	return w.n;
}
