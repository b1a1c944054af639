#!/usr/bin/python3
"""Figures of the cloud agent with many jobs on a Kubernetes API server: creation to Train/Waiting, reports into conditions, memory, restart.

    ILMARE_BUILD=build/release tests/bench/bench_kube_many.py [--jobs 1000] [--nodes 100] [NAME…]

Each line: name, value, unit, and the limit that it has to keep. Exit status 1 if one is over its limit. Names: many, limited.
The edge agents of the nodes are played: their births and reports are published by this script, as proto/ has them. Their pods are objects that
stay as they were made. One node more has a real edge agent, with one job, for a post's way to its condition. `limited`: creation once more, with
the limit of requests that the cloud agent has by default.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from bench_edge import over, tell  # noqa: E402
from kube_bed import NO_LIMIT, Say, meta, run_benches, until  # noqa: E402, first: it knows the way to those below
from api import JOB  # noqa: E402
from kube_crowd import Crowd, job_objects, tell_posts  # noqa: E402

AT_ONCE = 20
END = {"sample": 10, "size": 200, "digest": "00" * 32}


def tell_least(name, value, unit, least):
    """A figure that has to be high."""
    over.extend([] if value >= least else [name])
    print(f"{name:52} {value:12.3f} {unit:8} at least {least:g}" + ("" if value >= least else "  UNDER"), flush=True)


class Fleet:
    """Jobs job-0, job-1, … on nodes whose agents this script plays."""

    def __init__(self, bed, args, **settings):
        self.bed, self.api = bed, bed.api
        self.crowd = Crowd(bed, 1, **settings)
        self.loop, self.sightings = self.crowd.loop, self.crowd.sightings
        self.nodes = [f"node-{i}" for i in range(args.nodes)]
        self.names = [f"job-{i}" for i in range(args.jobs)]
        self.node_of = {name: self.nodes[i % args.nodes] for i, name in enumerate(self.names)}
        self.say = Say(self.loop.broker)
        self.seq = 0
        bed.create([{"apiVersion": "v1", "kind": "Node", "metadata": {"name": n}} for n in self.nodes])
        ready = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]}}
        bed.send([("PATCH", f"/api/v1/nodes/{n}/status", ready) for n in self.nodes], 50)
        for node in self.nodes:
            self.say.publish(f"ilmare/v1/presence/{node}", {
                "v": 1, "ts": "2026-01-01T00:00:00.000Z", "node": node, "online": True, "version": "0.1.0", "session": f"s-{node}",
                "capabilities": ["txt", "csv", "hot-update"]}, retain=True)
        self.say.settled()

    def create(self):
        """Seconds from the first creation of a job to the last Train/Waiting, and to the last answer to a creation."""
        objects = [job_objects(self.loop, name, self.node_of[name]) for name in self.names]
        self.bed.create([o for of_job in objects for o in of_job[:-1]])
        began = time.monotonic()
        created = self.bed.create([of_job[-1] for of_job in objects], 50)["seconds"]
        seen = self.sightings.wait([(name, 1, "Train", "Waiting") for name in self.names], 120)
        self.uids = {meta(o, "name"): meta(o, "uid") for o in self.api.list(JOB, self.bed.ns, limit=500)}
        return max(seen) - began, created

    def report(self, name, stage, what, phase, **more):
        self.seq += 1
        node = self.node_of[name]
        self.say.publish(f"ilmare/v1/ns/{self.bed.ns}/job/{name}/node/{node}/{stage.lower()}/{what}", {
            "v": 1, "ts": "2026-01-01T00:00:00.000Z", "job": {"namespace": self.bed.ns, "name": name, "uid": self.uids[name]}, "node": node,
            "position": {"round": 1, "stage": stage, "phase": phase}, "store": "bench", "seq": self.seq, **more})

    def folder(self, name):
        return f"/srv/signs/{name}/output"

    def ready(self, name):
        out = self.folder(name)
        self.report(name, "Train", "ready", "Ready", range={"from": 0, "to": 10, "end": END}, input={
            "models": [{"format": "ckpt", "url": "/srv/signs/models/base"}], "dataURL": f"{out}/data/train/1/data.txt", "outputDir": f"{out}/train/1"})

    def completed(self, name):
        model = {"url": f"{self.folder(name)}/train/1/model", "metrics": {"loss": 0.1}}
        self.report(name, "Train", "completed", "Completed", range={"from": 0, "to": 10, "end": END},
                    output={"models": [{"format": "pb", **model}, {"format": "ckpt", **model}]})

    def stream(self, send, position, at_once):
        """Seconds until all were there, with so many reports under way at a time."""
        began, count, changed = time.monotonic(), self.sightings.count, self.sightings.changed
        there = count[position]
        for i, name in enumerate(self.names):
            with changed:
                assert changed.wait_for(lambda: i - (count[position] - there) < at_once, 60), f"{position}: {count[position] - there} of {i}"
            send(name)
        return max(self.sightings.wait([(name, *position) for name in self.names], 120)) - began

    def in_step(self, how):
        """The agent ends (how) and begins again: seconds until all that it has to say is said anew, and the requests that it took."""
        topics = self.bed.world.topics(self.loop.broker, "ilmare/v1/node/+/job/#", "ilmare/v1/ns/+/job/+/state")
        first = topics.wait(lambda m: m.topic.endswith(f"/job/{self.names[0]}/state"), "a state")
        epoch, told = first.document["stamp"]["epoch"], {}

        def said():
            for m in topics.messages[said.upto:]:
                if m.document and m.document["stamp"]["epoch"] > epoch:
                    told.setdefault(m.topic, m.at)
                said.upto += 1
            return len(told) >= 2 * (len(self.names) + 1)
        said.upto = 0
        how()
        mark, began = self.bed.cluster.mark(), time.monotonic()
        self.crowd.cloud.start(wait=False)
        until(said, lambda: f"all is said anew: {len(told)}", 120, 0.02)
        return max(told.values()) - began, self.bed.cluster.requests(mark, self.loop.user)


def many(bed, args):
    fleet = Fleet(bed, args, **NO_LIMIT)
    crowd, n = fleet.crowd, len(fleet.names)
    tell_posts("idle", crowd, 1, 10)
    seconds, created = fleet.create()
    bed.quiet(crowd.cloud)
    like = fleet.loop.job(fleet.names[0])
    rate = bed.rate(AT_ONCE, like)["rate"]
    tell(f"{n} jobs, {len(fleet.nodes)} nodes: creation -> Train/Waiting", seconds, "s")
    tell("  of it until the last job was created", created, "s")
    tell("  jobs a second", n / seconds, "")
    tell(f"  the API server's own patches a second, {AT_ONCE} at once", rate, "")
    tell(f"{n} jobs: private memory", crowd.cloud.status("RssAnon") / 1e6, "MB", 40)
    tell_posts(f"{n} jobs present", crowd, 11, 10)
    reports(bed, fleet, n)
    restart(fleet, n)


def reports(bed, fleet, n):
    seconds = fleet.stream(fleet.ready, (1, "Train", "Ready"), n)
    fleet.sightings.wait([(name, 1, "Train", "Starting") for name in fleet.names], 120)
    bed.quiet(fleet.crowd.cloud)
    tell(f"{n} train-ready at once: all conditions there", seconds, "s")
    before = bed.rate(AT_ONCE, fleet.loop.job(fleet.names[0]))["rate"]
    rate = n / fleet.stream(fleet.completed, (1, "Train", "Completed"), AT_ONCE)
    after = bed.rate(AT_ONCE, fleet.loop.job(fleet.names[0]))["rate"]
    own = (before + after) / 2
    tell(f"reports a second into conditions, {AT_ONCE} at a time", rate, "")
    tell("  the API server's own patches a second, before", before, "")
    tell("  the same, after", after, "")
    tell_least("  reports a second, of that", rate / own * 100, "%", 50)
    tell(f"{n} jobs: private memory after reports", fleet.crowd.cloud.status("RssAnon") / 1e6, "MB")


def restart(fleet, n):
    for what, how in (("stopped", fleet.crowd.cloud.stop), ("killed", fleet.crowd.cloud.kill)):
        seconds, counts = fleet.in_step(how)
        tell(f"{n} jobs: {what} and begun again -> in step", seconds, "s")
        print("# " + ", ".join(f"{v} {r} {k}" for (v, r), k in sorted(counts.items())))
        tell("  requests", sum(counts.values()), "")
        tell("  private memory", fleet.crowd.cloud.status("RssAnon") / 1e6, "MB")


def limited(bed, args):
    fleet = Fleet(bed, args)
    seconds, _ = fleet.create()
    tell(f"{args.jobs} jobs, default limit: creation -> Train/Waiting", seconds, "s")
    tell("  jobs a second", args.jobs / seconds, "")


if __name__ == "__main__":
    run_benches(__doc__, {"many": many, "limited": limited}, {"jobs": 1000, "nodes": 100}, audited=("many", "limited"))
