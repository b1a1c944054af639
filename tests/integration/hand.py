"""The cloud agent played by hand: documents as docs/protocol.md has them, published with mosquitto_pub, so that an edge agent can be tested alone.

A Job is what a cluster would store: position, trained models with the cursor, deployed model. A Hand answers births with an inventory and
documents. If it is `auto` it also judges reports by the table of rule 3, moves the job, and plays the workers: models are small files, results are
posted until they are taken, as Sedna's library does. What it accepted is in job.accepted, in order; nothing else is remembered.
"""

import collections
import csv
import hashlib
import json
import threading
import time
import urllib.error
import uuid
import http.client

from agents import PATIENCE, until, worker_name

ORDER = {"Train": 0, "Eval": 1, "Deploy": 2}
RANK = {"Waiting": 0, "Ready": 1, "Starting": 2, "Running": 3, "Completed": 4, "Failed": 4}


def rank(position):
    return position["round"], ORDER[position["stage"]], RANK[position["phase"]]


def at(number, stage, phase):
    return {"round": number, "stage": stage, "phase": phase}


class Job:
    def __init__(self, world, name="job", ns="default", format="txt", share=0.8, condition=(">=", 1), period=1, hot=False, folder=None):
        self.name, self.ns, self.format, self.share, self.hot = name, ns, format, share, hot
        self.uid = str(uuid.uuid4())
        self.dir = folder or world.path / name
        self.dir.mkdir(exist_ok=True)
        self.data = self.dir / f"samples.{format}"
        self.dataset = {"namespace": ns, "name": f"{name}-data", "uid": str(uuid.uuid4()), "url": str(self.data), "format": format}
        self.output = self.dir / "output"
        (self.dir / "models").mkdir(exist_ok=True)
        self.initial, self.deploy = self.dir / "models" / "initial.bin", self.dir / "models" / "deploy.bin"
        for file in (self.initial, self.deploy):
            file.write_text("what was there first")
        self.roles = ["dataset", "train", "eval", "deploy"]
        self.period, self.condition = period, condition
        self.position = at(1, "Train", "Waiting")
        self.worker_ended = False
        self.trained = self.deployed = self.eval_results = None
        self.taken = {}  # range of the accepted ready, by round
        self.accepted = []  # (round, stage, what, report)
        self.better = lambda number: True  # is the model of this round better?
        self.result = lambda stage, number: "completed"  # what the worker does: completed, or failed (its pod fails)
        self.extra = {}

    def trigger(self, condition):
        operator, threshold = condition[:2]
        metric = condition[2] if len(condition) > 2 else "num_of_samples"
        return {"checkPeriodSeconds": self.period, "condition": {"operator": operator, "threshold": threshold, "metric": metric}}

    def model(self, number):
        return {"format": "bin", "url": str(self.output / "train" / str(number) / "model.bin")}

    def document(self, stamp, node):
        models = {"base": self.trained["models"][-1] if self.trained else {"format": "bin", "url": str(self.initial)}}
        deploy = {"format": "bin", "url": str(self.deploy)}
        if self.position["stage"] != "Train":
            models["eval"] = [self.trained["models"][0], deploy]
        if self.position["stage"] == "Deploy":
            models["deploy"] = [{"from": self.trained["models"][0], "to": deploy}]
        document = {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "stamp": stamp, "node": node,
                    "job": {"namespace": self.ns, "name": self.name, "uid": self.uid}, "roles": self.roles, "position": dict(self.position),
                    "workerEnded": self.worker_ended, "dataset": {**self.dataset, "trainProb": self.share}, "models": models,
                    "triggers": {"train": self.trigger(self.condition), "deploy": self.trigger((">", 0, "accuracy_delta"))},
                    "outputDir": str(self.output)}
        if self.trained:
            document["trained"] = self.trained
        if self.deployed:
            document["deployed"] = self.deployed
        if self.eval_results and self.position["stage"] == "Deploy":
            document["evalResults"] = self.eval_results
        if self.hot:
            document["hotUpdate"] = {"pollPeriodSeconds": 1}
        document.update(self.extra)
        return document

    # ---- what is on disk ----

    def append(self, *lines):
        with open(self.data, "a") as file:
            file.write("".join(f"{line}\n" for line in lines))

    def folder(self, number):
        return self.output / "data" / "train" / str(number)

    def samples(self, number, what="data"):
        path = self.folder(number) / f"{what}.{self.format}"
        if self.format == "csv":
            with open(path, newline="") as file:
                return [tuple(row) for row in list(csv.reader(file, strict=True))[1:]]
        return path.read_text().splitlines()

    def completed_rounds(self):
        return [number for number, stage, what, _ in self.accepted if (stage, what) == ("train", "completed")]

    def used(self):
        """How often each sample is in a round that completed training."""
        found = collections.Counter()
        for number in self.completed_rounds():
            for what in ("data", "eval"):
                found.update(self.samples(number, what))
        return found


class Hand:
    def __init__(self, world, broker, edge, *jobs, auto=True, epoch=1000, datasets=()):
        self.world, self.broker, self.edge, self.auto = world, broker, edge, auto
        self.node = edge.node
        self.epoch, self.gen, self.session = epoch, 0, None
        self.jobs, self.datasets = list(jobs), list(datasets)
        self.lock, self.moved = threading.RLock(), threading.Condition()
        self.births, self.workers, self.answers, self.closing = 0, {}, [], False
        self.topics = None
        self.listen()

    def listen(self):
        """Begin (again: with a new broker's life) to follow the topics."""
        self.topics = self.world.topics(self.broker, listener=self.on_message)
        return self

    def close(self):
        self.closing = True
        for thread in list(self.workers.values()):
            thread.join()

    # ---- saying ----

    def stamp(self):
        with self.lock:
            self.gen += 1
            return {"epoch": self.epoch, "gen": self.gen}

    def say(self, topic, document):
        life = self.broker.life
        try:
            self.broker.publish(f"ilmare/v1/node/{self.node}/{topic}", document, retain=True)
        except AssertionError:
            if life is not None and self.broker.alive() and self.broker.life == life:
                raise
            # It went away meanwhile: the next birth brings all documents.

    def say_inventory(self, session=None):
        with self.lock:
            uids = [job.dataset["uid"] for job in self.jobs] + [each["uid"] for each in self.datasets]
            document = {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "stamp": self.stamp(), "node": self.node, "jobs": [j.uid for j in self.jobs],
                        "datasets": uids}
            if session or self.session:
                document["session"] = session or self.session
            self.say("inventory", document)

    def say_dataset(self, dataset):
        with self.lock:
            self.say(f"dataset/{dataset['namespace']}/{dataset['name']}",
                     {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "stamp": self.stamp(), "node": self.node, "dataset": dataset})

    def say_job(self, job):
        with self.lock:
            self.say(f"job/{job.ns}/{job.name}", job.document(self.stamp(), self.node))

    def say_all(self):
        with self.lock:
            self.say_inventory()
            for each in [job.dataset for job in self.jobs] + self.datasets:
                self.say_dataset(each)
            for job in self.jobs:
                self.say_job(job)

    def remove(self, job):
        with self.lock:
            self.jobs.remove(job)
            self.say(f"job/{job.ns}/{job.name}", "")
            self.say(f"dataset/{job.ns}/{job.dataset['name']}", "")
            self.say_inventory()

    def move(self, job, position, **changes):
        """Put the job there, and say so."""
        with self.lock:
            job.position = position
            for key, value in changes.items():
                setattr(job, key, value)
            self.say_job(job)
        with self.moved:
            self.moved.notify_all()

    # ---- hearing ----

    def on_message(self, message):
        words = message.topic.split("/")[2:]
        if words[:2] == ["presence", self.node] and message.document and message.document["online"]:
            with self.lock:
                self.session = message.document["session"]
                self.say_all()
                self.births += 1
            with self.moved:
                self.moved.notify_all()
        elif self.auto and len(words) == 8 and words[2] == "job" and words[6] != "infer" and message.document:
            for job in self.jobs:
                if (job.ns, job.name) == (words[1], words[3]):
                    self.judge(job, words[6], words[7], message.document)

    def judge(self, job, stage, what, report):
        with self.lock:
            number, phase = job.position["round"], job.position["phase"]
            fits = (report["job"]["uid"] == job.uid and report["position"]["round"] == number
                    and job.position["stage"].lower() == stage and RANK[phase] < RANK["Completed"])
            step = fits and getattr(self, f"on_{stage}_{what}", None)
            if step and step(job, report, phase) is not False:
                with self.moved:
                    self.moved.notify_all()
            else:
                self.say_job(job)

    def accept(self, job, stage, what, report):
        job.accepted.append((job.position["round"], stage, what, report))

    def next_round(self, job):
        job.worker_ended = False
        self.move(job, at(job.position["round"] + 1, "Train", "Waiting"))

    def on_train_ready(self, job, report, phase):
        if phase != "Waiting":
            return False
        self.accept(job, "train", "ready", report)
        job.taken[job.position["round"]] = report["range"]
        self.move(job, at(job.position["round"], "Train", "Ready"))
        self.work(job, "train")

    def on_train_completed(self, job, report, phase):
        if phase == "Waiting":
            return False
        number = job.position["round"]
        self.accept(job, "train", "completed", report)
        end = report["range"]["end"] if "range" in report else job.taken[number]["end"]
        trained = {"round": number, "models": [{k: m[k] for k in ("format", "url")} for m in report["output"]["models"]], "cursor": end}
        self.move(job, at(number, "Eval", "Waiting"), trained=trained)

    def on_eval_ready(self, job, report, phase):
        if phase != "Waiting":
            return False
        self.accept(job, "eval", "ready", report)
        self.move(job, at(job.position["round"], "Eval", "Ready"))
        self.work(job, "eval")

    def on_eval_completed(self, job, report, phase):
        if phase == "Waiting":
            return False
        self.accept(job, "eval", "completed", report)
        self.move(job, at(job.position["round"], "Deploy", "Waiting"), eval_results=report["output"]["models"])

    def on_deploy_ready(self, job, report, phase):
        if phase != "Waiting":
            return False
        self.accept(job, "deploy", "ready", report)
        self.move(job, at(job.position["round"], "Deploy", "Ready"))

    def on_deploy_written(self, job, report, phase):
        if phase != "Ready":
            return False
        self.accept(job, "deploy", "written", report)
        job.deployed = {"round": job.position["round"], "sha256": report["sha256"]}
        if job.hot:
            self.move(job, at(job.position["round"], "Deploy", "Running"))
            self.work(job, "deploy")
        else:
            self.next_round(job)

    def on_deploy_completed(self, job, report, phase):
        if phase == "Ready" and not job.hot:
            return False
        self.accept(job, "deploy", "completed", report)
        self.next_round(job)

    def failed(self, job, report, phase):
        self.accept(job, report["position"]["stage"].lower(), "failed", report)
        self.next_round(job)

    on_train_failed = on_eval_failed = on_deploy_failed = failed

    def wait(self, done, what, patience=PATIENCE):
        with self.moved:
            if not self.moved.wait_for(done, patience):
                raise AssertionError(f"not within {patience:g} s: {what}. Jobs: " + ", ".join(
                    f"{job.name} {job.position} after {[a[:3] for a in job.accepted[-4:]]}" for job in self.jobs) + f"\n{self.edge.tail()}")

    def wait_round(self, job, number, patience=PATIENCE):
        """The round before it has ended."""
        self.wait(lambda: job.position["round"] >= number, f"round {number} of {job.name}", patience)

    def report(self, job, stage, what, number=None, since=0, patience=PATIENCE):
        """The next such report, accepted or not."""
        topic = f"ilmare/v1/ns/{job.ns}/job/{job.name}/node/{self.node}/{stage}/{what}"
        return self.topics.wait(lambda m: m.topic == topic and (number is None or m.document["position"]["round"] == number),
                                f"{stage}/{what} of round {number}", since, patience).document

    def status(self, dataset, check, what, since=0, patience=PATIENCE):
        topic = f"ilmare/v1/ns/{dataset['namespace']}/dataset/{dataset['name']}/node/{self.node}/status"
        return self.topics.wait(lambda m: m.topic == topic and m.document and check(m.document), what, since, patience).document

    # ---- workers ----

    def body(self, job, stage, **more):
        """What the worker of the present stage posts when all went well."""
        number = job.position["round"]
        results = []
        if stage == "train":
            results = [job.model(number)]
        elif stage == "eval":
            results = [{**job.trained["models"][0], "metrics": {"accuracy": 0.9 if job.better(number) else 0.1}},
                       {"format": "bin", "url": str(job.deploy), "metrics": {"accuracy": 0.5}}]
        return {"namespace": job.ns, "ownerName": job.name, "ownerKind": "incrementallearningjob", "kind": stage, "status": "completed",
                "results": results, **more}

    def worker(self, job, stage):
        """Name of the worker of the present stage."""
        if stage == "deploy":
            return worker_name("inference", job.uid, 0)
        return worker_name(stage, job.uid, job.position["round"])

    def work(self, job, stage):
        name, number = self.worker(job, stage), job.position["round"]
        if job.result(stage, number) == "failed":
            # The pod fails; the cloud agent says so by the next round alone.
            job.accepted.append((number, stage, "failed", None))
            self.next_round(job)
            return
        body = self.body(job, stage)
        thread = threading.Thread(target=self.run_worker, args=(job, stage, number, name, body), daemon=True)
        thread.start()
        self.workers[name] = thread

    def run_worker(self, job, stage, number, name, body):
        if stage == "train":
            path = job.output / "train" / str(number)
            try:
                path.mkdir(parents=True, exist_ok=True)
                (path / "model.bin").write_text(f"model of round {number}\n" + job.folder(number).joinpath(f"data.{job.format}").read_text())
            except FileNotFoundError:
                if not self.closing:
                    raise
        self.deliver(name, body)

    def deliver(self, name, body):
        """Post until it is taken or refused for good: (status, document)."""
        while not self.closing:
            try:
                answer = self.edge.post(name, body)
            except (urllib.error.URLError, ConnectionError, http.client.HTTPException, ValueError, TimeoutError):
                time.sleep(0.02)  # the agent is not there; nothing announces when it is
                continue
            if answer[0] != 503:
                self.answers.append((name, answer[0]))
                return answer
            time.sleep(0.02)
        return None


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def tree(path):
    """All files below a folder with their bytes."""
    return {str(each.relative_to(path)): each.read_bytes() for each in sorted(path.rglob("*")) if each.is_file()}


def manifest(job, number):
    return json.loads((job.folder(number) / "manifest.json").read_text())


__all__ = ["Hand", "Job", "at", "rank", "sha256", "tree", "manifest", "until"]
