#!/usr/bin/python3
"""The digits job from its first sample to its sixth round, with two faults on the way, told as it happens.

Starts a broker, both agents and the job in a folder of its own, feeds six batches of samples, and follows the topics of the job as anybody
could with mosquitto_sub. While round 2 trains the edge agent is killed with -9; while round 3 trains the broker is away; batch 4 has wrong
labels. At the end every sample that was fed is looked for in the folders of the rounds.
"""

import argparse
import collections
import hashlib
import json
import os
import pathlib
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BATCH = 200
BATCHES = [False, False, False, True, False, False]  # True: scrambled labels
KILL_EDGE_IN, STOP_BROKER_IN = 2, 3
LIMIT = 170  # seconds for everything
USUAL_PORT = 18883


class Failed(Exception):
    pass


def free_port(wanted=0):
    for port in (wanted, 0):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return s.getsockname()[1]
            except OSError:
                continue
    raise Failed("there is no free port")


def accepts(port):
    with socket.socket() as s:
        s.settimeout(1)
        return s.connect_ex(("127.0.0.1", port)) == 0


class Story:
    """What is printed: one line an event, with the seconds since the start."""

    def __init__(self):
        self.start = time.monotonic()

    def tell(self, text=""):
        print(f"{time.monotonic() - self.start:6.1f}s  {text}" if text else "", flush=True)


class Demo:
    def __init__(self, options):
        self.options = options
        self.bin = pathlib.Path(options.bin).resolve()
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="ilmare-demo-"))
        self.story = Story()
        self.processes = {}
        self.events = queue.Queue()
        self.job = {}
        self.deployed = self.refused = self.failed = 0
        self.broker_port = free_port(USUAL_PORT)
        self.worker_port = free_port()
        self.cloud_port = free_port()

    # ---- processes ----

    def start(self, name, command, **more):
        log = open(self.home / f"{name}.log", "ab")
        self.processes[name] = subprocess.Popen(command, stdout=more.pop("stdout", log), stderr=log, stdin=subprocess.DEVNULL, **more)
        log.close()
        return self.processes[name]

    def stop(self, name, how=signal.SIGTERM):
        process = self.processes.pop(name)
        if process.poll() is None:
            process.send_signal(how)
        try:
            status = process.wait(timeout=15)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        if name in ("edge", "cloud") and how == signal.SIGTERM and status != 0:
            raise Failed(f"{name} ended with status {status} when it was told to stop:\n{(self.home / (name + '.log')).read_text()[-1500:]}")

    def start_broker(self):
        path = self.home / "mosquitto.conf"
        if not path.exists():
            text = (ROOT / "broker-config" / "laptop.conf").read_text()
            text = text.replace("listener 1883 ", f"listener {self.broker_port} ")
            text = text.replace("persistence_location /var/lib/mosquitto/", f"persistence_location {self.home}/broker/")
            (self.home / "broker").mkdir(mode=0o777)
            os.chmod(self.home, 0o711)
            os.chmod(self.home / "broker", 0o777)  # mosquitto leaves root behind
            path.write_text(text)
        mosquitto = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", str(path)]
        process = self.start("broker", [self.options.broker, str(self.broker_port)] if self.options.broker else mosquitto)
        while not accepts(self.broker_port):
            if process.poll() is not None:
                raise Failed(f"the broker ended at once:\n{(self.home / 'broker.log').read_text()[-800:]}")
            time.sleep(0.02)

    def start_edge(self):
        self.start("edge", [self.bin / "ilmare-edge", "--node=edge-1", f"--state-dir={self.home}/edge",
                            f"--mqtt-brokers=mqtt://127.0.0.1:{self.broker_port}", f"--workers-port={self.worker_port}",
                            "--mqtt-will-delay=1s", "--mqtt-reconnect-max=2s"])

    def start_cloud(self):
        self.start("cloud", [self.bin / "ilmare-cloud", f"--local-manifests-dir={self.home}/manifests",
                             f"--local-state-dir={self.home}/cloud", f"--mqtt-brokers=mqtt://127.0.0.1:{self.broker_port}",
                             f"--lc-server=http://127.0.0.1:{self.worker_port}", f"--observe-port={self.cloud_port}", "--local-stop-workers",
                             "--mqtt-reconnect-max=2s", "--rounds-backoff-min=2s"])

    def follow(self):
        """A subscriber of its own for each life of the broker; its lines become events."""
        process = self.start("follow", ["mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.broker_port), "-F", "%t %p",
                                        "-t", "ilmare/v1/ns/default/#", "-t", "ilmare/v1/presence/#"],
                             stdout=subprocess.PIPE, text=True)

        def read():
            for line in process.stdout:
                name, _, payload = line.rstrip("\n").partition(" ")
                self.events.put((name, json.loads(payload) if payload else None))

        threading.Thread(target=read, daemon=True).start()

    # ---- what happens ----

    def wait(self, done, what):
        """Take events until done() says so."""
        while not done():
            left = LIMIT - (time.monotonic() - self.story.start)
            if left <= 0:
                raise Failed(f"{what} did not happen within {LIMIT} s of the start; the job is at "
                             f"{self.job.get('round')}/{self.job.get('stage')}/{self.job.get('phase')} {self.job.get('reason', '')}")
            for name, process in self.processes.items():
                if process.poll() is not None and name != "follow":
                    raise Failed(f"{name} ended by itself (status {process.returncode}); its log:\n"
                                 f"{(self.home / (name + '.log')).read_text()[-1500:]}")
            try:
                name, document = self.events.get(timeout=min(left, 0.5))
            except queue.Empty:
                continue
            self.tell_event(name, document)

    def tell_event(self, name, document):
        if document is None:
            return
        if name.startswith("ilmare/v1/presence/"):
            self.story.tell(f"{document['node']}: {'online' if document['online'] else 'offline'}")
        elif name.endswith("/job/digits/state"):
            before, self.job = self.job, document
            if document.get("ended") and document["ended"] != before.get("ended"):
                self.tell_end(document)
            if self.where(document) != self.where(before) and self.where(document) != self.where(document.get("ended") or {}):
                reason = f"  ({document['reason']})" if document["reason"] else ""
                self.story.tell(f"round {document['round']}  {document['stage']:6} {document['phase']}{reason}")
        elif name.endswith("/train/ready") and "range" in document:
            taken = document["range"]
            self.story.tell(f"  edge: samples {taken['from']}..{taken['to'] - 1} are in data/train/{document['position']['round']}")

    @staticmethod
    def where(position):
        return [position.get(key) for key in ("round", "stage", "phase")]

    def tell_end(self, state):
        """One message may say that a stage has ended and that the next one has begun."""
        ended = state["ended"]
        text = f"round {ended['round']}  {ended['stage']:6} {ended['phase']}"
        if ended["phase"] == "Failed":
            self.failed += 1
            text += f": {ended['reason']}"
        elif ended["stage"] == "Eval":
            text += "".join(f"   {which} {value:.3f}" for which, value in self.accuracies(state))
        elif ended["stage"] == "Deploy" and ended["reason"] == "NotBetter":
            self.refused += 1
            text += "   REFUSED: not better than the model that serves"
        elif ended["stage"] == "Deploy":
            self.deployed += 1
            text += f"   DEPLOYED: {state['deployed']['sha256'][:12]}"
        self.story.tell(text)

    @staticmethod
    def accuracies(state):
        for which in ("new", "old"):
            value = (state.get("metrics") or {}).get(which) or {}
            if "accuracy" in value:
                yield which, value["accuracy"]

    def at(self, *wanted):
        return lambda: self.where(self.job) == list(wanted)

    def over(self, number):
        return lambda: self.where(self.job.get("ended") or {}) == [number, "Deploy", "Completed"]

    # ---- the rounds ----

    def prepare(self):
        run = lambda *command, **more: subprocess.run(["/usr/bin/python3", "-B", *map(str, command)], check=True, **more)
        run(HERE / "make_initial.py", self.home, stdout=subprocess.DEVNULL)
        (self.home / "manifests").mkdir()
        with open(self.home / "manifests" / "digits.yaml", "wb") as file:
            run(HERE / "render.py", self.home, "--train-seconds", "2", stdout=file)

    def feed(self, scramble):
        command = ["/usr/bin/python3", "-B", HERE / "feed.py", self.home / "data" / "samples.txt", "--count", str(BATCH), "--quiet"]
        subprocess.run(command + (["--scramble"] if scramble else []), check=True)

    def kill_edge(self):
        self.story.tell("  !! the edge agent is killed with -9")
        self.stop("edge", signal.SIGKILL)
        time.sleep(3)  # an outage has to last
        self.story.tell("  !! the edge agent is started again")
        self.start_edge()

    def stop_broker(self):
        self.story.tell("  !! the broker is stopped")
        self.stop("broker")
        self.stop("follow")
        time.sleep(5)  # an outage has to last
        self.story.tell("  !! the broker is started again")
        self.start_broker()
        self.follow()

    def round(self, number, scramble):
        self.story.tell()
        self.story.tell(f"{BATCH} samples arrive{' with WRONG LABELS' if scramble else ''}")
        self.feed(scramble)
        if number in (KILL_EDGE_IN, STOP_BROKER_IN):
            self.wait(self.at(number, "Train", "Ready"), f"the worker of round {number}")
            (self.kill_edge if number == KILL_EDGE_IN else self.stop_broker)()
        before = self.failed
        self.wait(lambda: self.failed > before or self.over(number)(), f"the end of round {number}")
        if self.failed > before:
            raise Failed(f"round {number} failed in {self.job['ended']['stage']}: {self.job['ended']['reason']} {self.job['message']}")

    # ---- the end ----

    def count_lost(self):
        """Samples that were fed and are not in exactly one round's folder."""
        fed = collections.Counter((self.home / "data" / "samples.txt").read_text().splitlines())
        found = collections.Counter()
        for folder in (self.home / "output" / "data" / "train").iterdir():
            for name in ("data.txt", "eval.txt"):
                found.update((folder / name).read_text().splitlines())
        twice = sum((found - fed).values())
        if twice:
            raise Failed(f"{twice} samples are in more than one round")
        return sum(fed.values()), sum((fed - found).values())

    def check(self):
        served = hashlib.sha256((self.home / "models" / "deploy.npz").read_bytes()).hexdigest()
        if served != self.job["deployed"]["sha256"]:
            raise Failed(f"models/deploy.npz is {served[:12]}, but the job names {self.job['deployed']['sha256'][:12]}")
        scrambled = sum(BATCHES)
        if self.deployed != len(BATCHES) - scrambled or self.refused != scrambled:
            raise Failed(f"{self.deployed} models were deployed and {self.refused} refused; "
                         f"expected {len(BATCHES) - scrambled} and {scrambled}")
        samples, lost = self.count_lost()
        if lost:
            raise Failed(f"{lost} of {samples} samples are in no round")
        return samples

    def follow_lines(self):
        port = "" if self.broker_port == 1883 else f" -p {self.broker_port}"
        return [f"mosquitto_sub -h 127.0.0.1{port} -v -t 'ilmare/v1/ns/default/job/digits/#'   # the story of the job",
                f"mosquitto_sub -h 127.0.0.1{port} -v -t 'ilmare/v1/node/edge-1/#'             # what the device is told",
                f"mosquitto_sub -h 127.0.0.1{port} -v -t 'ilmare/v1/presence/#'                # who is there"]

    def run(self):
        print("Follow along in another terminal:")
        for line in self.follow_lines():
            print("   ", line)
        print(f"Everything is in {self.home}\n", flush=True)
        self.prepare()
        self.start_broker()
        self.follow()
        self.start_edge()
        self.start_cloud()
        self.wait(self.at(1, "Train", "Waiting"), "the job's first position")
        for number, scramble in enumerate(BATCHES, 1):
            self.round(number, scramble)
        samples = self.check()
        return f"demo: ok rounds={len(BATCHES)} deployed={self.deployed} refused={self.refused} samples={samples} lost=0"

    def keep(self):
        print(f"\nEverything goes on running. The manifests, logs and models are in {self.home}")
        print(f"    another batch:  /usr/bin/python3 -B {HERE}/feed.py {self.home}/data/samples.txt")
        print(f"    edge metrics:   curl http://127.0.0.1:{self.worker_port}/metrics")
        print(f"    cloud metrics:  curl http://127.0.0.1:{self.cloud_port}/metrics")
        print("Ctrl-C stops it.", flush=True)
        try:
            while True:
                self.tell_event(*self.events.get())
        except KeyboardInterrupt:
            print()

    def end(self, failed):
        """Stop everything; False if an agent did not end as it should."""
        well = True
        for name in ("cloud", "edge", "follow", "broker"):
            if name in self.processes:
                try:
                    self.stop(name)
                except (Failed, subprocess.TimeoutExpired) as problem:
                    print(f"demo: FAILED: {problem}", file=sys.stderr)
                    well = False
        if failed or not well or self.options.keep_files:
            print(f"logs and files are in {self.home}", file=sys.stderr)
        else:
            shutil.rmtree(self.home, ignore_errors=True)
        return well


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--bin", required=True, help=argparse.SUPPRESS)
    parser.add_argument("--broker", help=argparse.SUPPRESS)  # a program to run with a port, instead of mosquitto
    parser.add_argument("--keep", action="store_true", help="go on running afterwards, until Ctrl-C")
    parser.add_argument("--keep-files", action="store_true", help="leave the folder of this run")
    demo = Demo(parser.parse_args())
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))
    failed = True
    try:
        line = demo.run()
        failed = False
        if demo.options.keep:
            demo.keep()
    except Failed as problem:
        print(f"demo: FAILED: {problem}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: stopped", file=sys.stderr)
        return 130
    finally:
        stopped_well = demo.end(failed)
    if not stopped_well:
        return 1
    print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
