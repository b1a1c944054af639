#!/usr/bin/python3
"""Inference worker: serves the deployed model until it is told to end.

Reads MODEL_URL; waits for the file if it is not there yet. DIGITS_INPUT may name a file of samples: they are
classified with each model that is loaded, which gives something to see (accuracy) and to count. Every 30 s the
counters are reported (`kind: inference`, no status).

Cold deployment: the process is ended with SIGTERM and started again; it loads what is then at MODEL_URL.
Hot update (MODEL_HOT_UPDATE=true): model_config.json is looked at every MODEL_POLL_PERIOD_SECONDS; when its
model_update_time is another than the last one seen, the named file is loaded and a `deploy` report says how that
went. The first look after a start loads and reports too. A model that cannot be loaded leaves the old one serving.

Invariant: from its first line on, SIGTERM ends the process with status 0, whatever it is doing.
"""

import json
import os
import signal
import time

import model
import worker

REPORT_SECONDS = 30
HARD_BELOW = 0.8


def utc_now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def hard_threshold(environ):
    """Below this probability of the likeliest digit an example counts as hard (parameter `threshold` of HEM_PARAMETERS)."""
    try:
        parameters = json.loads(environ.get("HEM_PARAMETERS") or "[]") or []
        given = {entry["key"]: entry["value"] for entry in parameters}
        return float(given.get("threshold", HARD_BELOW))
    except (ValueError, TypeError, KeyError) as error:
        raise worker.WorkerError(f"HEM_PARAMETERS: not a list of key and value: {error}") from error


class Server:
    """The model that serves, and what it has done."""

    def __init__(self, me):
        self.me = me
        self.threshold = hard_threshold(me.environ)
        self.input = me.local_path("DIGITS_INPUT")
        self.started = utc_now()
        self.network = None
        self.inferences = 0
        self.hard = 0

    def load(self, path):
        """Serve the model at `path`. On an error the one before stays."""
        digest = model.sha256_of(path)
        self.network = model.load(path)
        worker.log("serving model", file=path, sha256=digest, **self.classify_input())

    def classify_input(self):
        if not self.input:
            return {}
        pixels, labels = model.read_samples(self.input)
        if len(labels) == 0:
            return {"samples": 0}
        best = self.network.probabilities(pixels)
        self.inferences += len(labels)
        self.hard += int((best.max(axis=1) < self.threshold).sum())
        return {"accuracy": round(float((best.argmax(axis=1) == labels).mean()), 4), "samples": len(labels)}

    def report_counters(self):
        """One attempt: the next report holds the same counters and more."""
        counters = {
            "startTime": self.started,
            "updateTime": utc_now(),
            "inferenceNumber": self.inferences,
            "hardExampleNumber": self.hard,
            "uploadCloudRatio": round(self.hard / self.inferences, 4) if self.inferences else 0.0,
        }
        try:
            self.me.report(owner_info=counters, attempts=1, timeout=5.0)
        except worker.ReportError:
            pass  # said by post() already


class HotUpdate:
    """Looks at model_config.json and loads the model that it names."""

    def __init__(self, server):
        environ = server.me.environ
        self.server = server
        self.on = environ.get("MODEL_HOT_UPDATE", "").lower() == "true"
        self.config = environ.get("MODEL_HOT_UPDATE_CONFIG") or "/model-hot-update/model_config.json"
        self.period = max(1.0, server.me.seconds("MODEL_POLL_PERIOD_SECONDS", 60)) if self.on else None
        self.seen = None

    def look(self):
        if not os.path.exists(self.config):
            return
        try:
            with open(self.config, encoding="utf-8") as file:
                named = json.load(file)["model_config"]
            path, version = named["model_path"], named["model_update_time"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            worker.log("hot update: cannot read", file=self.config, reason=error)
            return
        if version == self.seen:
            return
        self.seen = version
        # The file names the path inside a container; without one the model is beside the file.
        if not os.path.exists(path):
            path = os.path.join(os.path.dirname(self.config), os.path.basename(path))
        try:
            self.server.load(path)
            status = "completed"
        except (OSError, worker.WorkerError) as error:
            worker.log("hot update: model not loaded, the old one goes on serving", file=path, reason=error)
            status = "failed"
        try:
            self.server.me.report(status, kind="deploy")
        except worker.ReportError as error:
            # Counts as not seen: the next look loads and reports again.
            self.seen = None
            worker.log("hot update: report refused", reason=error)


def wait_for(path):
    if not os.path.exists(model.model_file(path)):
        worker.log("waiting for model", file=path)
    while not os.path.exists(model.model_file(path)):
        time.sleep(1.0)


def serve(me):
    server = Server(me)
    every = max(1.0, me.seconds("DIGITS_REPORT_SECONDS", REPORT_SECONDS))
    path = worker.require_local("MODEL_URL", me.need("MODEL_URL"))
    wait_for(path)
    server.load(path)
    hot = HotUpdate(server)
    report_at = look_at = time.monotonic()
    while True:
        if time.monotonic() >= report_at:
            report_at = time.monotonic() + every
            server.report_counters()
        if hot.on and time.monotonic() >= look_at:
            look_at = time.monotonic() + hot.period
            hot.look()
        wake_at = min(report_at, look_at) if hot.on else report_at
        time.sleep(max(0.0, wake_at - time.monotonic()))


def end(_number, _frame):
    # Nothing is open for writing. An exception would have to pass through whatever runs now, a print of the log
    # (which must not be entered twice) or a destructor (which swallows it); this cannot be held up.
    os.write(2, b"ending as told\n")
    os._exit(0)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    worker.run("inference", serve)
