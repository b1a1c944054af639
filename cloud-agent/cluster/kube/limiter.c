/* See limiter.h for the contract. */
#include "cloud-agent/cluster/kube/limiter.h"

enum { TOKEN = 1000 };

void limiter_init(limiter *l, int64_t rate, int64_t burst, int64_t mono_ms)
{
	*l = (limiter){.rate = rate, .burst = burst, .milli = burst * TOKEN, .at = mono_ms};
}

static void fill(limiter *l, int64_t mono_ms)
{
	int64_t passed = mono_ms - l->at, full = l->burst * TOKEN;

	if (passed > 0) {
		/* A token a second is a thousandth of one a millisecond. */
		l->milli = passed >= full / l->rate + 1 ? full : l->milli + passed * l->rate;
		if (l->milli > full)
			l->milli = full;
		l->at = mono_ms;
	}
}

bool limiter_take(limiter *l, int64_t mono_ms)
{
	fill(l, mono_ms);
	if (l->milli < TOKEN)
		return false;
	l->milli -= TOKEN;
	return true;
}

static int64_t when(const limiter *l, int64_t milli)
{
	return l->milli >= milli ? l->at : l->at + (milli - l->milli + l->rate - 1) / l->rate;
}

int64_t limiter_next(const limiter *l)
{
	return when(l, TOKEN);
}

static int64_t spare(const limiter *l)
{
	return (l->burst / 2 + 1) * TOKEN;
}

bool limiter_spare(limiter *l, int64_t mono_ms)
{
	fill(l, mono_ms);
	return l->milli >= spare(l);
}

int64_t limiter_next_spare(const limiter *l)
{
	return when(l, spare(l));
}
