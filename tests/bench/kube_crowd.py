"""Jobs of one node with a real edge agent, whose workers are played in the process that measures: no start of a program is in the figures.

    crowd = Crowd(bed, 20)                    20 jobs, a dataset each; all are at Train/Waiting
    crowd.instant = True                      a worker posts as soon as its pod is there, and its pod Succeeded; else it waits for…
    tell_posts("idle", crowd, 4, 2)           …this: two rounds from round 4 on, a post's way to its condition beside a status PATCH
"""

import json
import pathlib
import queue
import socket
import time

from kube_bed import meta, percentile  # first: it knows the way to those below

from api import JOB
from bench_edge import tell
from kube_agents import FOLDER, IMAGE, Loop


def job_objects(loop, name, node=None):
    """Dataset, model to deploy and job; the initial model is the loop's."""
    dataset, _, deploy, job = loop.objects()
    for thing in (dataset, deploy, job):
        thing["metadata"]["name"] = name
    dataset["spec"].update(url=f"{FOLDER}/{name}/data.txt", nodeName=node or loop.node)
    deploy["spec"]["url"] = f"{FOLDER}/{name}/deploy.pb"
    spec = job["spec"]
    spec["dataset"]["name"] = spec["deploySpec"]["model"]["name"] = name
    spec["outputDir"] = f"{FOLDER}/{name}/output"
    for part in ("trainSpec", "evalSpec", "deploySpec"):
        spec[part]["template"]["spec"]["nodeName"] = node or loop.node
    return [dataset, deploy, job]


class Crowd:
    def __init__(self, bed, n, **settings):
        self.bed, self.loop, self.names = bed, Loop(bed, dataset_check_on_arrival="true"), [f"signs-{i}" for i in range(n)]
        self.fed, self.waiting, self.instant = 0, queue.SimpleQueue(), False
        self.loop.kubelet.images[IMAGE] = self.worker
        self.loop.files()
        bed.api.create(self.loop.objects()[1])
        for name in self.names:
            folder = self.loop.folder / name
            folder.mkdir()
            (folder / "data.txt").touch()
            (folder / "deploy.pb").write_text("the first model")
            bed.api.create_all(job_objects(self.loop, name))
        self.cloud = bed.cloud(self.loop, **settings)
        self.sightings = bed.watch()
        self.seen((1, "Train", "Waiting"))

    def feed(self, n=10):
        for name in self.names:
            with open(self.loop.folder / name / "data.txt", "a", encoding="utf-8") as file:
                file.write("".join(f"sample-{i}.jpg {i % 4}\n" for i in range(self.fed, self.fed + n)))
        self.fed += n

    def seen(self, position, patience=120):
        return self.sightings.wait([(name, *position) for name in self.names], patience)

    def again(self, **settings):
        """Another cloud agent, in the place of the one that there was."""
        self.cloud.stop()
        self.cloud = self.bed.cloud(self.loop, name=f"cloud-{len(self.loop.clouds)}", **settings).ready()

    # ---- workers: called by the kubelet's threads ----

    def worker(self, container):
        if container.argv[0] == "inference.py":
            container.stop = lambda: container.done(0)
        elif self.instant:
            self.post(container)
            container.done(0)
        else:
            self.waiting.put(container)

    def request(self, container):
        """What the worker posts, as bytes."""
        env, kind = container.env, "train" if container.argv[0] == "train.py" else "eval"
        if kind == "train":
            folder = pathlib.Path(env["MODEL_URL"])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "model.pb").write_text(env["WORKER_NAME"])
            results = [{"format": "pb", "url": self.on_node(folder / "model.pb"), "metrics": None}]
        else:
            results = [{"format": "pb", "url": self.on_node(m), "metrics": {"precision": [p, p]}}
                       for m, p in zip(env["MODEL_URLS"].split(";"), (0.9, 0.5))]
        body = json.dumps({"name": env["WORKER_NAME"], "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"],
                           "ownerKind": "incrementallearningjob", "kind": kind, "status": "completed", "results": results}).encode()
        head = (f"POST /sedna/workers/{env['WORKER_NAME']}/info HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n")
        return head.encode() + body

    def post(self, *containers):
        """All at once, with as little work as can be; the time just before each."""
        requests = [self.request(c) for c in containers]
        sockets = [socket.create_connection(("127.0.0.1", self.loop.edge.port)) for _ in containers]
        began = []
        for s, request in zip(sockets, requests):
            began.append(time.monotonic())
            s.sendall(request)
        for s in sockets:
            with s, s.makefile("rb") as answer:
                line = answer.readline()
                assert b" 200 " in line, line + answer.read()
        return began

    def on_node(self, path):
        return str(path).removeprefix(str(self.loop.root))

    def posts(self, number, at_once):
        """Milliseconds from each post of a round to its condition. Pods end when these are there: a kubelet tells it later than that."""
        took = []
        self.feed()
        for stage, after in (("Train", (number, "Eval", "Starting")), ("Eval", (number + 1, "Train", "Waiting"))):
            self.seen((number, stage, "Running"))
            held = [self.waiting.get(timeout=60) for _ in self.names]
            for group in [held] if at_once else [[each] for each in held]:
                names = [c.env["JOB_NAME"] for c in group]
                began = self.post(*group)
                seen = self.sightings.wait([(name, number, stage, "Completed") for name in names])
                took += [(then - before) * 1000 for then, before in zip(seen, began)]
                for container in group:
                    container.done(0)
                self.sightings.wait([(name, *after) for name in names])
        return took


def patch_once(bed):
    """Milliseconds of one status PATCH of a job that nobody follows."""
    thing = bed.api.get(JOB, bed.spare, "spare-0")
    thing["status"]["conditions"][-1]["message"] = f"at {time.monotonic()}"
    patch = {"metadata": {"resourceVersion": meta(thing, "resourceVersion")}, "status": thing["status"]}
    began = time.monotonic()
    bed.api.patch(JOB, bed.spare, "spare-0", patch, sub="status")
    return (time.monotonic() - began) * 1000


def tell_posts(what, crowd, first, rounds, at_once=False):
    """Beside status PATCHes in turn with them, of statuses as large as theirs: one by one too, or as many at once."""
    bed, took, patches = crowd.bed, [], []
    for number in range(first, first + rounds):
        took += crowd.posts(number, at_once)
        burst = bed.rate(len(crowd.names) if at_once else 1, crowd.loop.job(crowd.names[0]), 0)
        patches += [burst["p50_ms"]] if at_once else [patch_once(bed) for _ in range(2 * len(crowd.names))]
    post, patch = percentile(took, 0.5), percentile(patches, 0.5)
    tell(f"post -> condition, {what}, median", post, "ms")
    tell("  one status PATCH, the same way", patch, "ms")
    tell("  times a PATCH", post / patch, "", 3)


__all__ = ["Crowd", "job_objects", "tell_posts"]
