"""Jobs of one node with a real edge agent, whose workers are played in the process that measures: no start of a program is in the figures.

    crowd = Crowd(bed, 20)                    20 jobs, a dataset each; all are at Train/Waiting
    crowd.instant = True                      a worker posts as soon as its pod is there, and its pod Succeeded; else it waits for…
    crowd.posts(3, at_once=True)              …this: a round, in which each stage's workers post together. Milliseconds from post to condition
    post_beside_patch(bed, crowd, 1, 10)      medians of posts one by one, and of one status PATCH by the same client, in turn
"""

import pathlib
import queue
import threading
import time

from kube_bed import Sightings, at, meta, percentile  # first: it knows the way to those below

from api import JOB
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


def together(calls):
    """All at once, each in a thread; their results."""
    barrier, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(i, call):
        barrier.wait()
        results[i] = call()
    threads = [threading.Thread(target=run, args=each) for each in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


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
        else:
            self.waiting.put(container)

    def post(self, container):
        """(job, stage, the time just before)."""
        env, kind = container.env, "train" if container.argv[0] == "train.py" else "eval"
        if kind == "train":
            folder = pathlib.Path(env["MODEL_URL"])
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "model.pb").write_text(env["WORKER_NAME"])
            results = [{"format": "pb", "url": self.on_node(folder / "model.pb"), "metrics": None}]
        else:
            results = [{"format": "pb", "url": self.on_node(m), "metrics": {"precision": [p, p]}}
                       for m, p in zip(env["MODEL_URLS"].split(";"), (0.9, 0.5))]
        began = time.monotonic()
        status, said = self.loop.edge.post(env["WORKER_NAME"], {
            "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"], "ownerKind": "incrementallearningjob", "kind": kind,
            "status": "completed", "results": results})
        assert status == 200, said
        container.done(0)
        return env["JOB_NAME"], kind.capitalize(), began

    def on_node(self, path):
        return str(path).removeprefix(str(self.loop.root))

    def posts(self, number, at_once):
        took = []
        self.feed()
        for stage in ("Train", "Eval"):
            self.seen((number, stage, "Running"))
            held = [self.waiting.get(timeout=60) for _ in self.names]
            for group in [held] if at_once else [[each] for each in held]:
                for job, which, began in together([lambda c=c: self.post(c) for c in group]):
                    took.append((self.sightings.wait([(job, number, which, "Completed")])[0] - began) * 1000)
        self.seen((number + 1, "Train", "Waiting"))
        return took


def patch_once(bed):
    """Milliseconds of one status PATCH by the client that posts."""
    thing = bed.api.get(JOB, bed.spare, "spare-0")
    thing["status"]["conditions"][-1]["message"] = f"at {time.monotonic()}"
    patch = {"metadata": {"resourceVersion": meta(thing, "resourceVersion")}, "status": thing["status"]}
    began = time.monotonic()
    bed.api.patch(JOB, bed.spare, "spare-0", patch, sub="status")
    return (time.monotonic() - began) * 1000


def post_beside_patch(bed, crowd, first, rounds):
    took, patches = [], []
    bed.rate(1, crowd.loop.job(crowd.names[0]), 0)
    for number in range(first, first + rounds):
        took += crowd.posts(number, False)
        patches += [patch_once(bed) for _ in range(2 * len(crowd.names))]
    return percentile(took, 0.5), percentile(patches, 0.5)


__all__ = ["Crowd", "Sightings", "at", "job_objects", "post_beside_patch"]
