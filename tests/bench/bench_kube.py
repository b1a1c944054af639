#!/usr/bin/python3
"""Figures of a job on a Kubernetes API server, with both agents and a broker: requests and size of a round, a post's way to a condition, 20 jobs.

    ILMARE_BUILD=build/release tests/bench/bench_kube.py [--rounds 50] [NAME…]

Each line: name, value, unit, and the limit that it has to keep. Exit status 1 if one is over its limit. Names: round, post, jobs.
What is compared with the API server itself is measured beside it, in the same run. The nodes are played by tests/kube/kubelet.py.
"""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bench_edge import tell  # noqa: E402
from kube_bed import NO_LIMIT, at, percentile, run_benches, until  # noqa: E402, first: it knows the way to those below
from kube_agents import IMAGE, Loop  # noqa: E402
from kube_crowd import Crowd, tell_posts  # noqa: E402

BURST_S = 6  # until the default kube.burst is there again
WARM = 3  # rounds until what a round leaves behind goes as fast as it comes


# ---- round ----

def written(counts):
    return {k: n for k, n in counts.items() if k[1] != "leases" and not k[1].startswith("events")}


def at_rest(bed, loop, mark):
    """Nothing was asked for a while; what was, by (verb, resource)."""
    seen = []

    def still():
        seen.append(written(bed.cluster.requests(mark, loop.user)))
        return len(seen) > 3 and seen[-1] == seen[-4]
    until(still, "the cloud agent comes to rest", 30, 0.5)
    return bed.cluster.requests(mark, loop.user)


def size_of(job):
    return len(json.dumps(job, separators=(",", ":")))


def one_round(bed, loop, number):
    loop.feed()
    ended = loop.over(number, patience=60)
    assert ended["type"] == "Completed" and not ended.get("reason"), ended
    loop.at(number + 1, "Train", "Waiting")
    loop.serving()


def counted_round(bed, loop, number):
    """Its requests, until nothing more follows from it."""
    at_rest(bed, loop, bed.cluster.mark())
    mark = bed.cluster.mark()
    one_round(bed, loop, number)
    until(lambda: at(bed.api.get("Dataset", bed.ns, "traffic-signs"), "status", "numberOfSamples") == loop.fed, "its number is told")
    return at_rest(bed, loop, mark)


def round_(bed, args):
    loop = Loop(bed, dataset_check_on_arrival="true")
    loop.create()
    bed.cloud(loop)
    loop.serving()
    counted, sizes = [], []
    for number in range(1, args.rounds + 1):
        if WARM < number <= WARM + 5:
            counted.append(counted_round(bed, loop, number))
        else:
            one_round(bed, loop, number)
        sizes.append(size_of(loop.job()))
    loop.image(["/bin/sh", "-c", 'sleep 3; exec "$0" "$@"', *loop.kubelet.images[IMAGE]])
    slow = counted_round(bed, loop, args.rounds + 1)

    slow_writes = sum(n for (_, resource), n in slow.items() if resource.endswith("/status"))

    def most(fits):
        return max(sum(n for k, n in each.items() if fits(*k)) for each in counted)
    print(f"# requests of round {WARM + 5}: " + ", ".join(f"{v} {r} {n}" for (v, r), n in sorted(counted[-1].items())))
    tell("a round: status writes", most(lambda v, r: r.endswith("/status")), "", 12)
    tell("  of them of the job itself", most(lambda v, r: r == "incrementallearningjobs/status"), "")
    tell("  with workers that run for 3 s", slow_writes, "", 12)
    tell("a round: pods created", most(lambda v, r: (v, r) == ("create", "pods")), "", 3)
    tell("a round: pods deleted", most(lambda v, r: (v, r) == ("delete", "pods")), "", 3)
    tell("a round: GETs", most(lambda v, r: v in ("get", "list")), "", 0)
    tell("a round: all but Events and the Lease", max(sum(written(each).values()) for each in counted), "")
    tell("a round: Events", most(lambda v, r: r.startswith("events")), "")
    tell("the job's object after 1 round", sizes[0], "B", 16384)
    tell(f"the job's object after {args.rounds} rounds", sizes[-1], "B", 16384)
    tell(f"the job's object, largest of {args.rounds} rounds", max(sizes), "B", 16384)


# ---- post ----

def post(bed, args):
    crowd = Crowd(bed, 20)
    crowd.instant = True
    for number in range(1, WARM + 1):  # statuses are as large as they become
        crowd.feed()
        crowd.seen((number + 1, "Train", "Waiting"))
    crowd.instant = False
    tell_posts("20 jobs at once", crowd, WARM + 1, 5, at_once=True)
    tell_posts("one at a time", crowd, WARM + 6, 1)


# ---- jobs ----

def jobs(bed, args):
    crowd, number = Crowd(bed, 20), 0
    crowd.instant = True
    for what, settings in (("default limit of requests", {}), ("no limit of requests", NO_LIMIT)):
        if settings:
            crowd.again(**settings)
        took = []
        for _ in range(WARM + 5):
            bed.quiet(crowd.cloud)
            time.sleep(BURST_S if not settings else 0)  # nothing tells that the limiter has filled up again
            number += 1
            before, began = crowd.cloud.metrics()["ilmare_cloud_patches_total"], time.monotonic()
            crowd.feed()
            took.append(max(crowd.seen((number + 1, "Train", "Waiting"))) - began)
        writes = crowd.cloud.metrics()["ilmare_cloud_patches_total"] - before
        median = percentile(took[WARM:], 0.5)
        rate = bed.rate(20, crowd.loop.job(crowd.names[0]))["rate"]
        tell(f"20 jobs at once, a round each, {what}, median", median, "s", 3)
        tell("  slowest of 5", max(took[WARM:]), "s")
        tell("  status writes in the last of them", writes, "")
        tell("  the API server's own patches a second, 20 at once", rate, "")
        pods = bed.pod_writes(60, crowd.loop.pods("inference")[0], 20)
        tell("  60 pods made, told as Running and deleted, by itself", pods, "s")
        tell("  the API server alone, for as many of all these", writes / rate + pods, "s")


if __name__ == "__main__":
    run_benches(__doc__, {"round": round_, "post": post, "jobs": jobs}, {"rounds": 50}, audited=("round",))
