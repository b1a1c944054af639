"""Deployments in a row while somebody reads what is deployed, and the agent is killed now and then.

A Loop plays the part of a cloud agent that does nothing but deploy: its jobs stand at Deploy/Ready of one round after the other, each with a model that
proves itself (reader.py). Each deployment is over when it is reported and has been read.
"""

import contextlib
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time

from agents import PATIENCE, is_sanitized
from hand import at, sha256
from reader import model_file, model_folder


DEPLOYMENTS, KILLS = (60, 20) if is_sanitized() else (200, 60)


@contextlib.contextmanager
def in_memory():
    """Temporary folders are made in memory if that can be: a killed process has written what it wrote, so nothing here has to wait for a disk."""
    before = tempfile.tempdir
    if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK):
        tempfile.tempdir = "/dev/shm"
    try:
        yield
    finally:
        tempfile.tempdir = before


class Reader:
    """reader.py as a process, and what it says."""

    def __init__(self, *targets):
        program = pathlib.Path(__file__).with_name("reader.py")
        self.process = subprocess.Popen([sys.executable, "-B", program, *map(json.dumps, targets)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.saw, self.bad, self.reads, self.changed = {}, [], {}, threading.Condition()
        self.thread = threading.Thread(target=self.listen, daemon=True)
        self.thread.start()

    def listen(self):
        for line in self.process.stdout:
            said = json.loads(line)
            with self.changed:
                if "bad" in said:
                    self.bad.append((said["name"], said["bad"]))
                elif "saw" in said:
                    self.saw[said["name"]] = said["saw"]
                else:
                    self.reads[said["name"]] = said["reads"]
                self.changed.notify_all()

    def wait(self, number):
        """Until it has read the model of this round at each target."""
        def done():
            return self.bad or (self.saw and all(saw == number for saw in self.saw.values()))
        with self.changed:
            if not self.changed.wait_for(done, PATIENCE):
                raise AssertionError(f"the models of round {number} are not read: {self.saw}")
        self.check()

    def check(self):
        if self.bad:
            raise AssertionError(f"read what is no whole model, {len(self.bad)} times: {self.bad[:5]}")

    def end(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            self.process.wait()
        self.thread.join()
        self.process.stdout.close()


class Loop:
    def __init__(self, case, edge, hand, jobs):
        self.case, self.edge, self.hand, self.jobs = case, edge, hand, jobs
        seed = int(os.environ.get("ILMARE_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}; ILMARE_TEST_SEED={seed} repeats the moments", flush=True)
        self.dice, self.took = random.Random(seed), []

    def trained(self, job, number):
        """The model of a round, as its worker left it."""
        path = job.output / "train" / str(number) / job.model_name(number)
        if job.is_folder:
            files = {path / name: data for name, data in model_folder(number).items()}
        else:
            files = {path: model_file(number)}
        for file, data in files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
        return {"format": "bin", "url": str(path)}

    def deploy(self, number, kill=False):
        since, begin = self.hand.topics.mark(), time.monotonic()
        with self.hand.lock:
            for job in self.jobs:
                cursor = {"sample": number, "size": 0, "digest": "0" * 64}
                job.trained = {"round": number, "models": [self.trained(job, number)], "cursor": cursor}
                job.position = at(number, "Deploy", "Ready")
                self.hand.say_job(job)
        if kill:
            # A moment at random, from before it has begun to after it is done, is what is tested.
            time.sleep(self.dice.uniform(0, 1.2 * statistics.median(self.took)) if self.took else 0)
            self.edge.kill()
            self.edge.start(wait=False)
        for job in self.jobs:
            written = self.hand.report(job, "deploy", "written", number, since)
            job.deployed = {"round": number, "sha256": written["sha256"]}
            if not job.is_folder:
                self.case.assertEqual(written["sha256"], sha256(job.deploy))
        if not kill:
            self.took.append(time.monotonic() - begin)

    def run(self, *targets, deployments=DEPLOYMENTS, kills=KILLS):
        """All of it. The kills are spread evenly over the deployments."""
        self.deploy(1)
        reader = Reader(*targets)
        self.case.addCleanup(reader.end)
        reader.wait(1)
        for number in range(2, deployments + 1):
            self.deploy(number, kill=number * kills // deployments > (number - 1) * kills // deployments)
            reader.wait(number)
        reader.end()
        reader.check()
        self.case.assertGreaterEqual(min(reader.reads.values()), deployments)
        return reader
