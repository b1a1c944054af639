/* See enrolment_plan.h for the contract. */
#include "edge-agent/core/enrolment_plan.h"

#include "common/random.h"

void enrolment_plan_init(enrolment_plan *p, uint64_t seed)
{
	*p = (enrolment_plan){.random = seed};
}

/* The moment from which on a third of its time is left. */
static int64_t due_ms(const enrolment_certificate *c)
{
	return c->ends_ms - (c->ends_ms - c->begins_ms) / 3;
}

enum enrolment_need enrolment_need(const enrolment_certificate *c, int64_t unix_ms)
{
	if (!c->there || unix_ms >= c->ends_ms)
		return ENROLMENT_FIRST;
	if (unix_ms < c->begins_ms)
		return ENROLMENT_CLOCK;
	return unix_ms >= due_ms(c) ? ENROLMENT_RENEWAL : ENROLMENT_NO_NEED;
}

static enum enrolment_way way_of(const enrolment_plan *p, enum enrolment_need need, bool token)
{
	if (need == ENROLMENT_RENEWAL && !(p->certificate_refused && token))
		return ENROLMENT_BY_CERTIFICATE;
	return token ? ENROLMENT_BY_TOKEN : ENROLMENT_WAIT;
}

static int64_t sooner(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void see_jump(enrolment_plan *p, moment now)
{
	int64_t jump = now.unix_ms - now.mono_ms - p->clock_ms;

	if (!p->failed || (jump <= ENROLMENT_JUMP_MS && jump >= -ENROLMENT_JUMP_MS))
		return;
	p->failed = false;
	p->failures = 0;
	/* Many devices may get the time at once. */
	p->not_before = sooner(p->not_before, now.mono_ms + random_below(&p->random, ENROLMENT_WAIT_MIN_MS));
}

enum enrolment_way enrolment_plan_next(enrolment_plan *p, const enrolment_certificate *c, bool token, moment now, int64_t *wake)
{
	enum enrolment_need need = enrolment_need(c, now.unix_ms);
	enum enrolment_way way;

	*wake = MOMENT_NEVER;
	if (p->running != ENROLMENT_WAIT)
		return ENROLMENT_WAIT;
	see_jump(p, now);
	*wake = now.mono_ms + (need == ENROLMENT_CLOCK || p->failed ? ENROLMENT_SOON_MS : ENROLMENT_LOOK_MS);
	if (need == ENROLMENT_NO_NEED) {
		p->failures = 0;
		p->failed = p->certificate_refused = false;
		*wake = sooner(*wake, now.mono_ms + due_ms(c) - now.unix_ms);
	}
	if (need == ENROLMENT_NO_NEED || need == ENROLMENT_CLOCK)
		return ENROLMENT_WAIT;
	if (need == ENROLMENT_RENEWAL) /* from its end on there is another need */
		*wake = sooner(*wake, now.mono_ms + c->ends_ms - now.unix_ms);
	way = way_of(p, need, token);
	if (way == ENROLMENT_WAIT)
		*wake = sooner(*wake, now.mono_ms + ENROLMENT_SOON_MS);
	else if (p->not_before > now.mono_ms)
		*wake = sooner(*wake, p->not_before);
	if (way == ENROLMENT_WAIT || p->not_before > now.mono_ms)
		return ENROLMENT_WAIT;
	p->running = way;
	p->ended_ms = c->there ? c->ends_ms : 0;
	*wake = MOMENT_NEVER;
	return way;
}

/* Between the least and a ceiling that doubles. */
static int64_t after_failure(enrolment_plan *p)
{
	int64_t ceiling = ENROLMENT_WAIT_MAX_MS;

	p->failures++;
	if (p->failures < 20 && (int64_t)ENROLMENT_WAIT_MIN_MS << p->failures < ceiling)
		ceiling = (int64_t)ENROLMENT_WAIT_MIN_MS << p->failures;
	return ENROLMENT_WAIT_MIN_MS + random_below(&p->random, ceiling - ENROLMENT_WAIT_MIN_MS + 1);
}

static int64_t after_refusal(enrolment_plan *p, bool token)
{
	if (p->running == ENROLMENT_BY_CERTIFICATE && token) {
		p->certificate_refused = true;
		return ENROLMENT_WAIT_MIN_MS + random_below(&p->random, ENROLMENT_WAIT_MIN_MS);
	}
	p->certificate_refused = false;
	p->failures++;
	return ENROLMENT_WAIT_MAX_MS - ENROLMENT_WAIT_MAX_MS / 10 + random_below(&p->random, ENROLMENT_WAIT_MAX_MS / 5);
}

void enrolment_plan_ended(enrolment_plan *p, enum enrolment_outcome outcome, const enrolment_certificate *c, bool token, moment now)
{
	int64_t wait = 0;

	if (outcome == ENROLMENT_DONE && (!c->there || c->ends_ms <= p->ended_ms))
		outcome = ENROLMENT_FAILED;
	if (outcome == ENROLMENT_DONE) {
		p->failures = 0;
		p->certificate_refused = false;
	} else {
		wait = outcome == ENROLMENT_FAILED ? after_failure(p) : after_refusal(p, token);
	}
	p->running = ENROLMENT_WAIT;
	p->failed = outcome == ENROLMENT_FAILED;
	p->clock_ms = now.unix_ms - now.mono_ms;
	p->not_before = now.mono_ms + wait;
}
