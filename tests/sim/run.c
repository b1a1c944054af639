/* Whole runs: a seed, and one job for thousands of rounds. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/mem.h"
#include "tests/sim/sim.h"

enum { BOUNDS_EVERY_MS = 3 * 60 * 1000 };

static bool rounds_done(const world *w, const dataset_file *f)
{
	for (size_t i = 0; i < w->n_tracks; i++) {
		const track *t = w->tracks[i];

		if (t->alive && !t->job->timer && t->pos.round <= w->target_rounds && (f == NULL || &w->files[t->job->file] == f))
			return false;
	}
	return true;
}

/* Samples come until every job that reads them has had its rounds. */
static void feed(world *w, void *obj, void *data)
{
	dataset_file *f = obj;

	(void)data;
	if (w->quiet)
		return;
	if (!rounds_done(w, f))
		file_append(w, f, rnd_range(w, 1, 12));
	at(w, w->now + rnd_range(w, SECONDS(1), SECONDS(chance(w, 0.1) ? 900 : 90)), feed, f, NULL);
}

static world *new_world(uint64_t seed, bool verbose, bool ring)
{
	world *w = mem_alloc(sizeof(*w));

	world_init(w, seed, verbose);
	if (ring)
		w->ring = mem_alloc(64 * sizeof(*w->ring));
	return w;
}

/* Results that came before their document, of a job that is gone by now: they have a day. */
static bool keeps_early(const world *w)
{
	for (size_t i = 0; i < w->n_devices; i++) {
		if (w->devices[i].store.n_early > 0)
			return true;
	}
	return false;
}

void world_settle(world *w)
{
	int64_t end = w->now + HOURS(24);

	while (!world_settled(w) && w->now < end)
		world_run(w, MINUTES(1));
	world_run(w, w->slow_ms * 6 / 5 + MINUTES(11));
	if (!world_settled(w))
		violated(w, 4, "the world does not stay settled");
	if (keeps_early(w))
		world_run(w, HOURS(25));
	final_checks(w);
}

int sim_random(uint64_t seed, int64_t rounds, bool verbose)
{
	world *w = new_world(seed, verbose, !verbose && getenv("ILMARE_SIM_RING") != NULL);
	int64_t end;

	w->target_rounds = rounds > 3 ? rnd_range(w, 3, rounds) : rounds;
	setup_random(w);
	faults_plan(w);
	for (size_t i = 0; i < w->n_files; i++)
		at(w, rnd_range(w, 0, SECONDS(20)), feed, &w->files[i], NULL);
	end = w->target_rounds * MINUTES(6);
	while (w->now < end && !(rounds_done(w, NULL) && w->now > w->faults_until)) {
		world_run(w, BOUNDS_EVERY_MS);
		bounds_check(w);
	}
	faults_end(w);
	world_settle(w);
	if (verbose) {
		for (size_t i = 0; i < w->n_tracks; i++)
			printf("%s: round %lld, %lld trained, %lld failed, %s\n", w->tracks[i]->uid, (long long)w->tracks[i]->pos.round,
				(long long)w->tracks[i]->completed, (long long)w->tracks[i]->failed, w->tracks[i]->alive ? "alive" : "deleted");
		printf("%llu events, %.1f h\n", (unsigned long long)w->n_events, (double)w->now / 3600000);
	}
	return 0;
}

void sim_long(int64_t rounds)
{
	world *w = new_world(1, false, false);
	job_setup *j = &w->jobs[0];
	size_t rows = 0, retained = 0;

	setup_script(w, 1);
	w->script = false;
	w->sedna_crds = true;
	j->manifest_bytes = 2000;
	job_create(w, j);
	device_start(w, &w->devices[0]);
	cloud_start(w, &w->clouds[0]);
	w->k.work_ms = SECONDS(2);
	while (w->tracks[0]->pos.round <= rounds) {
		int64_t round = w->tracks[0]->pos.round;

		file_append(w, &w->files[0], 3);
		w->k.work_fail = round % 7 == 0 ? 1 : 0;
		while (w->tracks[0]->pos.round == round && w->now < HOURS(24 * 300))
			world_run(w, SECONDS(5));
		bounds_check(w);
		for (size_t i = 0; i < w->devices[0].store.n_jobs; i++)
			rows = w->devices[0].store.jobs[i]->n_rows > rows ? w->devices[0].store.jobs[i]->n_rows : rows;
		retained = w->broker.n_retained > retained ? w->broker.n_retained : retained;
	}
	printf("%lld rounds, %lld of them failed: object at most %lld bytes and %d conditions, store at most %zu reports, broker at most %zu "
		   "retained messages\n",
		(long long)rounds, (long long)w->tracks[0]->failed, (long long)w->tracks[0]->bytes_max, w->tracks[0]->conditions_max, rows,
		retained);
}
