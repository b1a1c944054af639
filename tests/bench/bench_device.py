#!/usr/bin/python3
"""Figures of a large model that an edge agent fetches from, and sends to, an object store, beside curl alone.

    ILMARE_BUILD=build/release ILMARE_TEST_S3=STORE tests/bench/bench_device.py [--size 1000000000] [--rounds 3]

STORE is the program that tests/transfer/run builds. A deployment is what the agent is asked for: from the store to this machine, from this machine to
the store, and on this machine. It keeps a version of the model in its output folder as well, syncs what it writes, and reads it again, so its time is
that of more than the transfer. Each is measured `rounds` times, in turn with the others; the median counts. The agent's peak of memory is that of its
resident and its private memory, less what it had at rest; that of ilmare-transfer, which is a process of its own, is that of the largest one.
"""

import argparse
import hashlib
import os
import pathlib
import statistics
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "transfer"), str(HERE.parent / "integration"), str(HERE)]

import bed  # noqa: E402
from bench_split import Peak  # noqa: E402
from bench_transfer import Bed, measured, peak_of  # noqa: E402
from agents import until  # noqa: E402
from hand import Hand, Job, at  # noqa: E402


class Transfers:
    """The largest peak of any ilmare-transfer that the agent runs from here on."""

    def __init__(self, edge):
        self.edge, self.most, self.over = edge, 0, threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.02):
            for task in pathlib.Path(f"/proc/{self.edge.pid}/task").iterdir():
                try:
                    for child in (task / "children").read_text().split():
                        self.most = max(self.most, peak_of(int(child)))
                except OSError:
                    pass  # it has ended

    def end(self):
        self.over.set()
        self.thread.join()
        return self.most


class Way:
    """A job that deploys the same model again and again, from one place to another."""

    def __init__(self, world, name, source, target):
        self.job, self.source, self.target, self.number = Job(world, name=name), source, target, 0
        self.job.roles = ["deploy"]
        self.job.model = lambda number: {"format": "bin", "url": source}
        self.took, self.cpu, self.memory, self.child = [], [], [], []


def document_of(job, document, target):
    def fit(stamp, node):
        made = document(stamp, node)
        for each in made["models"].get("deploy", []):
            each["to"]["url"] = target
        return made
    job.document = fit


def deploy(hand, edge, way, change):
    change()
    way.number += 1
    job, since = way.job, hand.topics.mark()
    job.trained = {"round": way.number, "models": [job.model(way.number)], "cursor": {"sample": way.number, "size": 0, "digest": "0" * 64}}
    peak, children, cpu, begin = Peak(edge), Transfers(edge), edge.cpu_seconds(), time.monotonic()
    hand.move(job, at(way.number, "Deploy", "Ready"))
    hand.report(job, "deploy", "written", way.number, since, patience=600)
    way.took.append(time.monotonic() - begin)
    way.cpu.append(edge.cpu_seconds() - cpu)
    way.memory.append(peak.end())
    way.child.append(children.end())


def fill(path, size):
    with open(path, "wb") as file:
        for _ in range(size // 1_000_000):
            file.write(os.urandom(1_000_000))


def measure(case, gateway, env, size, rounds):
    source, fetched = case.path / "source.bin", case.path / "fetched"
    fill(source, size)
    transfer = bed.program("ilmare-transfer")
    curl = ["curl", "-sf", "--user", f"{gateway.key}:{gateway.secret}", "--aws-sigv4", f"aws:amz:{gateway.region}:s3", "-H",
            "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    put = [transfer, "put", source, "s3://bucket/source.bin"]
    measured(put, env)
    broker = case.world.broker()
    ways = [Way(case.world, "down", "s3://bucket/source.bin", str(case.path / "down" / "model.bin")),
            Way(case.world, "up", str(source), "s3://bucket/up/model.bin"),
            Way(case.world, "here", str(source), str(case.path / "here" / "model.bin"))]
    for way in ways:
        document_of(way.job, way.job.document, way.target)
    edge = case.world.edge(broker, start=False, env=env, deploy_kept="1")
    hand = Hand(case.world, broker, edge, *(way.job for way in ways), auto=False)
    edge.start().connected()
    until(lambda: edge.metrics()["ilmare_edge_jobs"] == len(ways), "the jobs are there")
    beside = {"up, curl": [], "up, ilmare-transfer put": [], "down, curl": [], "down, ilmare-transfer get": []}

    def change():
        """Another model each time: the same one would not be written again."""
        with open(source, "r+b") as file:
            file.write(os.urandom(1_000_000))
    for _ in range(rounds):
        change()
        beside["up, curl"].append(measured([*curl, "-T", source, f"{gateway.url()}/bucket/curl"], env))
        beside["up, ilmare-transfer put"].append(measured(put, env))
        for name, command in (("curl", [*curl, "-o", fetched, f"{gateway.url()}/bucket/curl"]),
                              ("ilmare-transfer get", [transfer, "get", "s3://bucket/source.bin", fetched])):
            fetched.unlink(missing_ok=True)
            beside[f"down, {name}"].append(measured(command, env))
        fetched.unlink()
        for way in ways:
            deploy(hand, edge, way, change if way.job.name != "down" else lambda: None)
        print(f"load {os.getloadavg()[0]:.1f}", flush=True)
    for name, runs in beside.items():
        took, cpu, memory = (statistics.median(figures) for figures in zip(*runs))
        print(f"{name:34} {took:7.2f} s, {size / took / 1e6:6.0f} MB/s, CPU {cpu:6.2f} s, peak {memory:5.1f} MB", flush=True)
    for way in ways:
        took, cpu = statistics.median(way.took), statistics.median(way.cpu)
        print(f"{'the agent, ' + way.job.name:34} {took:7.2f} s, {size / took / 1e6:6.0f} MB/s, CPU {cpu:6.2f} s, its peak {' | '.join(way.memory)}; "
              f"ilmare-transfer {max(way.child):.1f} MB", flush=True)
    assert digest(case.path / "here" / "model.bin") == digest(source)


def digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not bed.STORE:
        sys.exit("name the store's program in ILMARE_TEST_S3; tests/transfer/run builds it")
    case, gateway = Bed(), None
    try:
        gateway = bed.Gateway(case, more=["--keep-alive"])
        gateway.make("bucket")
        measure(case, gateway, bed.clean_env(gateway.env()), options.size, options.rounds)
    finally:
        if gateway:
            gateway.process.kill()
        case.world.close()


if __name__ == "__main__":
    main()
