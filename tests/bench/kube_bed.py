"""What the programs bench_kube*.py share: a Kubernetes API server, the agents on it, and what the server can do at most.

    with Bed() as bed:                        a World with a Cluster; a namespace for the agents (bed.ns) and one that they do not follow (bed.spare)
        loop = Loop(bed, …)                   kube_agents.Loop takes it for a test
        bed.cloud(loop)                       ilmare-cloud, of the namespace bed.ns alone, with the settings that a figure names
        bed.rate(20, job)                     {"rate": patches a second, "p50_ms"}: statuses like that job's, so many at a time
        bed.send(lines, 50)                   requests in bulk
    Say(broker)                               publishes to many topics, for nodes that a script plays
    Sightings(bed.api, ns)                    when each condition of each job was first seen through a watch (bed.watch())

Where the machine cannot run a Kubernetes these programs say so and end with status 77.
"""

import argparse
import collections
import json
import pathlib
import socket
import struct
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration"), str(HERE.parent / "kube")]

from bench_edge import over, percentile  # noqa: E402, it knows the way to the integration tests too
from agents import Cloud, World, build_dir, until  # noqa: E402
from api import JOB, StreamStop, at, meta, path_of  # noqa: E402
from cluster import ADMIN, Cluster, tools  # noqa: E402
from kube_agents import condition, conditions  # noqa: E402
from kubelet import Kubelet  # noqa: E402

NO_LIMIT = {"kube_requests_per_second": 10000, "kube_burst": 10000}  # of the cloud agent's own
STAND_IN = HERE.parent / "kube" / "stand_in.py"


def need_kube():
    if tools() is None:
        sys.exit(77)


class Bed:
    def __init__(self, audit=True):
        self.world = World()
        self.cluster = Cluster(self.world, audit=audit)
        self.watchers, self.spares = [], 0

    def __enter__(self):
        self.cluster.start()
        self.api = self.cluster.admin
        self.ns, self.spare = self.cluster.namespace("bench"), self.cluster.namespace("spare")
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.world.print_logs()
        for each in reversed(self.watchers):
            each.close()
        for part in self.world.parts:  # before the server goes
            if isinstance(part, Cloud):
                part.stop()
        self.cluster.close()
        self.world.close()

    def kubelet(self, *nodes, **more):
        kubelet = Kubelet(self.cluster, self.world.path, *nodes, **{"namespaces": {self.ns}, **more})
        kubelet.images["ilmare.test/stand-in:v1"] = ["/usr/bin/python3", "-S", "-B", str(STAND_IN)]
        self.watchers.append(kubelet)
        return kubelet.start()

    def cloud(self, loop, **settings):
        return loop.cloud(**{"kube_namespaces": self.ns, "workers_start_timeout": "10m", **settings})

    def quiet(self, cloud, patience=300):
        """The cloud agent writes and publishes nothing any more, by its own counters."""
        seen = []

        def still():
            m = cloud.metrics()
            seen.append([m[f"ilmare_cloud_{n}_total"] for n in ("patches", "pods_created", "pods_deleted", "documents_published")])
            return len(seen) > 4 and seen[-1] == seen[-5]
        until(still, "the cloud agent comes to rest", patience, 0.5)

    def watch(self):
        self.watchers.append(Sightings(self.api, self.ns))
        return self.watchers[-1]

    # ---- what the server can do ----

    def load(self, *args, text):
        """What kube_load says of it."""
        command = [str(build_dir() / "tests" / "bench" / "kube_load"), args[0], self.cluster.url, str(self.cluster.ca), ADMIN, *map(str, args[1:])]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True)
        assert done.stdout, f"kube_load {args}: status {done.returncode}"
        return json.loads(done.stdout)

    def send(self, requests, at_once):
        """requests: (method, path, body or None)."""
        lines = "".join(f"{method}\t{path}\t{json.dumps(body) if body is not None else ''}\n" for method, path, body in requests)
        done = self.load("send", at_once, text=lines)
        assert done["failed"] == 0, done
        return done

    def create(self, objects, at_once=50):
        return self.send([("POST", path_of(o["kind"], meta(o, "namespace")), o) for o in objects], at_once)

    def rate(self, at_once, like, seconds=5):
        """Guarded patches of complete statuses of jobs that nobody follows: as large as those that the agent writes."""
        names = [f"spare-{i}" for i in range(at_once)]
        fresh = names[self.spares:]
        self.spares = max(self.spares, at_once)
        kind = {k: like[k] for k in ("apiVersion", "kind")}
        self.create([{**kind, "metadata": {"name": n, "namespace": self.spare}, "spec": like["spec"]} for n in fresh]) if fresh else None
        self.send([("PATCH", path_of(JOB, self.spare, n, "status"), {"status": like["status"]}) for n in names], at_once)
        done = self.load("patch", at_once, seconds, text="".join(f"{path_of(JOB, self.spare, n, 'status')}\n" for n in names))
        assert done["failed"] == 0, done
        return {"rate": done["n"] / done["seconds"], **done}


    def pod_writes(self, count, like, at_once):
        """Seconds for so many pods like that one to be created, to be told as Running, and to be deleted."""
        def pod(i):
            spec = {k: v for k, v in like["spec"].items() if k != "serviceAccountName"}
            metadata = {"name": f"spare-{i}", "namespace": self.spare, "labels": meta(like, "labels"), "annotations": meta(like, "annotations")}
            return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
        paths = [path_of("Pod", self.spare, f"spare-{i}") for i in range(count)]
        status = {"status": {k: like["status"][k] for k in ("phase", "conditions", "containerStatuses", "startTime")}}
        return sum(self.send(requests, at_once)["seconds"] for requests in (
            [("POST", path_of("Pod", self.spare), pod(i)) for i in range(count)],
            [("PATCH", f"{path}/status", status) for path in paths],
            [("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}) for path in paths]))



def run_benches(doc, benches, numbers, audited=()):
    """The main of a script: benches, by name, are functions of (bed, args), each with a bed of its own, whose requests are counted if audited;
    numbers: the options beside their names, with their defaults."""
    parser = argparse.ArgumentParser(description=doc.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[*benches, []])
    for option, default in numbers.items():
        parser.add_argument(f"--{option}", type=int, default=default)
    args = parser.parse_args()
    need_kube()
    for name in args.names or benches:
        with Bed(audit=name in audited) as bed:
            benches[name](bed, args)
    if over:
        print(f"over the limit: {', '.join(over)}")
    sys.exit(1 if over else 0)

class Sightings:
    """A watch of the jobs in a thread. seen: {(job, round, stage, phase): monotonic time of the first sight};
    count: {(round, stage, phase): jobs that were there}."""

    def __init__(self, api, ns):
        self.api, self.ns, self.seen, self.positions, self.count = api, ns, {}, {}, collections.Counter()
        self.changed, self.stream = threading.Condition(), StreamStop()
        items, self.since = api.listed(JOB, ns)
        for item in items:
            self.take(item)
        self.thread = threading.Thread(target=self.follow, daemon=True)
        self.thread.start()

    def follow(self):
        while not self.stream.said:  # the server ends it when we are too slow
            for kind, thing in self.api.watch(JOB, self.ns, since=self.since, seconds=3600, stop=self.stream):
                self.since = meta(thing, "resourceVersion")
                if kind not in ("BOOKMARK", "DELETED"):
                    self.take(thing)

    def take(self, thing):
        now, name = time.monotonic(), meta(thing, "name")
        with self.changed:
            for c in map(condition, conditions(thing)[-4:]):
                here = self.positions[name] = (c["round"], c["stage"], c["type"])
                if (name, *here) not in self.seen:
                    self.seen[name, *here] = now
                    self.count[here] += 1
            self.changed.notify_all()

    def wait(self, keys, patience=60):
        """The times at which each of them was seen first."""
        with self.changed:
            missing = [k for k in keys if k not in self.seen]
            end = time.monotonic() + patience
            while missing:
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    there = self.positions.get(missing[0][0])
                    raise AssertionError(f"not within {patience} s: {missing[:3]}, {len(missing)} in all; the first is at {there}")
                missing = [k for k in missing if k not in self.seen]
            return [self.seen[k] for k in keys]

    def close(self):
        self.stream.stop()
        self.thread.join()


class Say:
    """A connection to the broker (MQTT 5, QoS 1) that publishes and nothing else."""

    def __init__(self, broker):
        self.socket, self.number, self.acknowledged = socket.create_connection(("127.0.0.1", broker.port)), 0, 0
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.packet(0x10, self.text("MQTT") + b"\x05\x02\x00\x00\x00" + self.text("bench"))
        assert self.read()[0] == 0x20, "the broker does not take us"
        self.changed = threading.Condition()
        threading.Thread(target=self.follow, daemon=True).start()

    @staticmethod
    def text(value):
        data = value.encode()
        return struct.pack(">H", len(data)) + data

    def packet(self, kind, body):
        length, left = b"", len(body)
        while True:
            left, low = left >> 7, left & 127
            length += bytes([low | (128 if left else 0)])
            if not left:
                break
        self.socket.sendall(bytes([kind]) + length + body)

    def exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            if not more:
                raise ConnectionError
            data += more
        return data

    def read(self):
        kind, length, shift = self.exactly(1)[0], 0, 0
        while True:
            byte = self.exactly(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind, self.exactly(length)

    def follow(self):
        try:
            while True:
                if self.read()[0] == 0x40:
                    with self.changed:
                        self.acknowledged += 1
                        self.changed.notify_all()
        except (OSError, ConnectionError):
            pass

    def publish(self, topic, document, retain=False):
        self.number += 1
        body = self.text(topic) + struct.pack(">H", self.number % 65535 + 1) + b"\x00" + json.dumps(document).encode()
        self.packet(0x33 if retain else 0x32, body)

    def settled(self):
        """The broker has all."""
        with self.changed:
            assert self.changed.wait_for(lambda: self.acknowledged == self.number, 30), "the broker does not acknowledge"

    def close(self):
        self.socket.close()


__all__ = ["NO_LIMIT", "Bed", "Say", "Sightings", "at", "meta", "need_kube", "percentile", "until"]
