/* Virtual time, chance, and what is said about a run.
 *
 * Events of one moment happen in the order in which they were planned, so that a run depends on its seed alone. The last lines of the log are
 * kept in a ring while somebody may want them (verbose runs print all, replays of a failed seed keep the ring).
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/mem.h"
#include "common/random.h"
#include "tests/sim/sim.h"

enum { RING = 64 };

/* ---- chance ---- */

uint64_t rnd(world *w)
{
	return random_next(&w->random);
}

int64_t rnd_range(world *w, int64_t from, int64_t to)
{
	return from + (int64_t)(rnd(w) % (uint64_t)(to - from + 1));
}

bool chance(world *w, double p)
{
	return p > 0 && (double)(rnd(w) >> 11) / 9007199254740992.0 < p;
}

int64_t rnd_delay(world *w, int64_t mean)
{
	if (mean <= 0 || w->script)
		return mean;
	if (!w->quiet && chance(w, 0.01))
		mean *= 10;
	return mean / 2 + rnd_range(w, 0, mean);
}

void hex_id(world *w, char *out, size_t chars)
{
	for (size_t i = 0; i < chars; i++)
		out[i] = "0123456789abcdef"[rnd(w) & 15];
	out[chars] = '\0';
}

/* ---- the heap ---- */

static bool earlier(const event *a, const event *b)
{
	return a->t != b->t ? a->t < b->t : a->seq < b->seq;
}

static void heap_up(world *w, size_t i)
{
	event e = w->heap[i];

	while (i > 0 && earlier(&e, &w->heap[(i - 1) / 2])) {
		w->heap[i] = w->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	w->heap[i] = e;
}

static void heap_down(world *w)
{
	event e = w->heap[w->n_heap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < w->n_heap) {
		if (child + 1 < w->n_heap && earlier(&w->heap[child + 1], &w->heap[child]))
			child++;
		if (!earlier(&w->heap[child], &e))
			break;
		w->heap[i] = w->heap[child];
		i = child;
	}
	w->heap[i] = e;
}

void at_life(world *w, int64_t t, event_fn fn, void *obj, void *data, const uint64_t *life)
{
	if (w->n_heap == w->cap_heap) {
		w->cap_heap = w->cap_heap == 0 ? 256 : 2 * w->cap_heap;
		w->heap = mem_resize_array(w->heap, w->cap_heap, sizeof(*w->heap));
	}
	w->heap[w->n_heap++] = (event){.t = t < w->now ? w->now : t,
		.seq = ++w->seq,
		.fn = fn,
		.obj = obj,
		.data = data,
		.life = life,
		.expect = life != NULL ? *life : 0};
	heap_up(w, w->n_heap - 1);
}

void at(world *w, int64_t t, event_fn fn, void *obj, void *data)
{
	at_life(w, t, fn, obj, data, NULL);
}

bool world_step(world *w, int64_t until)
{
	event e;

	if (w->n_heap == 0 || w->heap[0].t > until) {
		w->now = until;
		return false;
	}
	e = w->heap[0];
	w->n_heap--;
	if (w->n_heap > 0)
		heap_down(w);
	w->now = e.t;
	w->n_events++;
	if (e.life == NULL || *e.life == e.expect)
		e.fn(w, e.obj, e.data);
	else
		free(e.data); /* NOLINT(clang-analyzer-unix.Malloc): the heap does not hold e any more */
	return true;
}

void world_run(world *w, int64_t ms)
{
	int64_t until = w->now + ms;

	while (world_step(w, until))
		;
}

/* ---- clocks ---- */

moment moment_at(const world *w, int64_t mono_base, int64_t wall_offset)
{
	moment m = {.mono_ms = w->now - mono_base, .unix_ms = w->unix_base + w->now + wall_offset};

	if (m.unix_ms < 0)
		m.unix_ms = 0;
	m.minute = (int)(m.unix_ms / 60000 % 1440);
	return m;
}

/* ---- the log ---- */

static void line(world *w, const char *fmt, va_list args)
{
	char text[320];
	int n = snprintf(text, sizeof(text), "%10.3f  ", (double)w->now / 1000);

	vsnprintf(text + n, sizeof(text) - (size_t)n, fmt, args);
	if (w->verbose)
		puts(text);
	else
		memcpy(w->ring[w->n_ring++ % RING], text, sizeof(text));
}

void say(world *w, const char *fmt, ...)
{
	va_list args;

	if (!w->verbose && w->ring == NULL)
		return;
	va_start(args, fmt);
	line(w, fmt, args);
	va_end(args);
}

void violated(world *w, int guarantee, const char *fmt, ...)
{
	va_list args;

	for (uint64_t i = w->n_ring > RING ? w->n_ring - RING : 0; i < w->n_ring; i++)
		puts(w->ring[i % RING]);
	if (guarantee > 0)
		printf("VIOLATED guarantee %d at %.3f s: ", guarantee, (double)w->now / 1000);
	else
		printf("VIOLATED expectation at %.3f s: ", (double)w->now / 1000);
	va_start(args, fmt);
	vprintf(fmt, args);
	va_end(args);
	printf("\n");
	fflush(stdout);
	_exit(1);
}

void world_init(world *w, uint64_t seed, bool verbose)
{
	*w = (world){.seed = seed, .random = seed * UINT64_C(0x9E3779B97F4A7C15) + 1, .verbose = verbose};
	w->unix_base = INT64_C(1796000000000) + (int64_t)(seed % 1440) * 60000;
	w->next_content = 1;
	w->conditions_max = 14;
	w->slow_ms = HOURS(1);
	w->target_rounds = 20;
	w->broker.up = true;
	w->gc = true;
	w->lease.epoch = 1;
}
