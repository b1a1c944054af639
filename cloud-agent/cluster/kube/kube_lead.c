/* The Lease's requests, and what their answers mean for the core: it leads, with which epoch, and until when. */
#include <stdlib.h>

#include "cloud-agent/cluster/kube/kube_internal.h"
#include "common/clock.h"
#include "common/log.h"

static void tell(kube *k)
{
	const cluster_events *to = &k->base.events;
	bool leads = lease_leads(k->lease);
	int64_t epoch = leads ? lease_epoch(k->lease) : 0;

	if (leads && lease_fence(k->lease) != k->fence) {
		k->fence = lease_fence(k->lease);
		to->fence(to->ctx, k->fence);
	}
	if (leads && (!k->leading || epoch != k->epoch)) {
		/* What is known may be older than what the leader before us did. */
		if (!k->leading)
			kube__read_again(k);
		k->leading = true;
		k->epoch = epoch;
		to->lead(to->ctx, epoch);
	} else if (!leads && k->leading) {
		k->leading = false;
		to->resign(to->ctx);
	}
	if (k->raising && (!leads || epoch > k->raise_above)) {
		uint64_t id = k->raise_id;

		k->raising = false;
		k->base.done(k->base.done_ctx, id, leads ? 0 : ERROR_CONFLICT, leads ? "" : "another agent holds the Lease", NULL, 0);
	}
}

static void release(kube *k);

static void on_answer(void *ctx, const transport_answer *answer)
{
	kube *k = ctx;
	error err = {0};
	cJSON *object = NULL;
	int code = kube__answer(answer, &object, &err);

	k->lease_call = NULL;
	lease_answer(k->lease, code, err.text, object, clock_now());
	cJSON_Delete(object);
	if (k->stopped_lease)
		release(k);
	else
		kube__go(k);
}

static transport_call *ask(kube *k, lease_request *wanted)
{
	transport_request request = {.method = wanted->method,
		.path = wanted->path,
		.body = wanted->body,
		.content_type = "application/json",
		.total_ms = lease_timeout(k->lease),
		.ctx = k,
		.done = on_answer};
	transport_call *call = transport_begin(k->transport, &request);

	free(wanted->path);
	free(wanted->body);
	return call;
}

void kube__lead_act(kube *k)
{
	lease_request wanted;

	if (lease_next(k->lease, clock_now(), &wanted))
		k->lease_call = ask(k, &wanted);
	tell(k);
}

int64_t kube__lead_wake(const kube *k)
{
	return lease_wake(k->lease);
}

void kube__raise_epoch(cluster *c, uint64_t id, int64_t above)
{
	kube *k = (kube *)c;

	k->raising = true;
	k->raise_id = id;
	k->raise_above = above;
	lease_raise(k->lease, above);
	kube__go(k);
}

/* ---- the end ---- */

static void release(kube *k)
{
	lease_request wanted;

	if (lease_next(k->lease, clock_now(), &wanted)) {
		k->lease_call = ask(k, &wanted);
	} else if (lease_over(k->lease)) {
		if (lease_released(k->lease))
			log_info("kube", "the Lease is given back");
		k->stopped_lease(k);
	}
}

void kube__lead_release(kube *k, void (*done)(kube *k))
{
	k->stopped_lease = done;
	lease_release(k->lease);
	release(k);
}
