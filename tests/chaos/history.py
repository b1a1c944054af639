"""What a cluster ever held: each version of each pod, job and Lease of a namespace, in the order in which they were written.

It is read from etcd by a watch that begins with the first revision, so that no death of the API server and no gap of a list hides anything. The
API server has to store JSON (FLAGS).

    history = History(cluster, "default")      follows in a thread;  history.complete()     all that was written before this call is there
    history.pods: [Pod]; history.jobs: [Job]; history.leases: [Lease]
"""

import base64
import collections
import http.client
import json
import sys
import threading
import time
import traceback
import urllib.parse

from agents import PATIENCE
from api import at, meta
from kube_agents import WORKER_LABEL, condition, conditions

FLAGS = ("--storage-media-type=application/json",)
JOB_LABEL = "incrementallearningjob.sedna.io/name"
PREFIX, END = "/registry/", "/registry0"
MARK = "/registry/ilmare-end"  # of no kind that the API server knows

# One version. gone: it was deleted. phase: as its status says; kind: train, eval, inference.
Pod = collections.namedtuple("Pod", "name uid job kind phase gone")
# entries: [(round, stage, type)] of its conditions, the oldest first.
Job = collections.namedtuple("Job", "name uid entries")
Lease = collections.namedtuple("Lease", "holder epoch")


def pod_of(thing, gone=False):
    labels = meta(thing, "labels") or {}
    return Pod(meta(thing, "name"), meta(thing, "uid"), labels.get(JOB_LABEL), labels.get(WORKER_LABEL), at(thing, "status", "phase"), gone)


def job_of(thing):
    return Job(meta(thing, "name"), meta(thing, "uid"), [(c["round"], c["stage"], c["type"]) for c in map(condition, conditions(thing))])


def lease_of(thing):
    return Lease(at(thing, "spec", "holderIdentity"), int(at(thing, "metadata", "annotations", "ilmare/epoch", default=0)))


def b64(text):
    return base64.b64encode(text.encode()).decode()


class History:
    def __init__(self, cluster, ns):
        self.address = urllib.parse.urlparse(cluster.etcd_url).netloc
        self.pods, self.jobs, self.leases, self.there = [], [], [], {}
        self.wanted = {f"{PREFIX}pods/{ns}/": self.pod, f"{PREFIX}sedna.io/incrementallearningjobs/{ns}/": self.job, f"{PREFIX}leases/{ns}/": self.lease}
        self.revision, self.marks, self.changed, self.broken = 0, 0, threading.Condition(), None
        threading.Thread(target=self.follow, daemon=True).start()

    def ask(self, path, body, timeout=PATIENCE):
        connection = http.client.HTTPConnection(self.address, timeout=timeout)
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        return connection, connection.getresponse()

    def follow(self):
        """Until etcd is gone for good. A watch that broke goes on where it was."""
        while True:
            try:
                request = {"key": b64(PREFIX), "range_end": b64(END), "start_revision": str(self.revision + 1)}
                _, answer = self.ask("/v3/watch", {"create_request": request}, timeout=None)
                for line in answer:
                    self.take(json.loads(line)["result"])
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)  # nobody says when etcd is there again
            except Exception:  # the test must not go on as if nothing was
                with self.changed:
                    self.broken = traceback.format_exc()
                    self.changed.notify_all()
                print(self.broken, file=sys.stderr)
                return

    def take(self, result):
        assert not result.get("canceled"), f"etcd has forgotten what was before: {result}"
        for event in result.get("events", ()):
            key = base64.b64decode(event["kv"]["key"]).decode()
            self.revision = int(event["kv"]["mod_revision"])
            if key == MARK:
                with self.changed:
                    self.marks += 1
                    self.changed.notify_all()
            for prefix, keep in self.wanted.items():
                if key.startswith(prefix):
                    keep(key, json.loads(base64.b64decode(event["kv"]["value"])) if event.get("type") != "DELETE" else None)

    def pod(self, key, thing):
        if thing is None:
            self.pods.append(self.there.pop(key)._replace(gone=True))
            return
        version = pod_of(thing)
        if self.there.get(key) != version:
            self.there[key] = version
            self.pods.append(version)

    def job(self, _, thing):
        if thing is not None:
            version = job_of(thing)
            if not self.jobs or self.jobs[-1] != version:
                self.jobs.append(version)

    def lease(self, _, thing):
        if thing is not None:
            version = lease_of(thing)
            if not self.leases or self.leases[-1] != version:
                self.leases.append(version)

    def complete(self):
        with self.changed:
            wanted = self.marks + 1
        connection, answer = self.ask("/v3/kv/put", {"key": b64(MARK), "value": b64("")})
        assert answer.status == 200, answer.read()
        connection.close()
        with self.changed:
            assert self.changed.wait_for(lambda: self.broken or self.marks >= wanted, PATIENCE), "etcd tells its history"
            assert not self.broken, self.broken
