#!/usr/bin/python3
"""Figures of large datasets, txt and csv: how fast they are split into samples, beside `wc -l` and Python's csv module on the same file, and what the
edge agent takes for reading all of it, and for a round of all of it.

    ILMARE_BUILD=build/release tests/bench/bench_split.py [--samples 10000000] [--rounds 3]

Files are in ${TMPDIR:-/tmp}, and in memory (read once before). Each program is run in turn with the others; time on the clock and CPU time are those of
the fastest of the rounds. `splits` is the agent's splitter alone (bench_dataset FILE FORMAT), `reads` all that it does with a new file: splitting, and
the digest that tells it again. The agent's peak of memory is that of its resident and its private memory, less what it had without the file.
"""

import argparse
import os
import pathlib
import re
import resource
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World, build_dir, until  # noqa: E402
from hand import Hand, Job  # noqa: E402

KINDS = {"txt": ("txt", "images/%09d.png 7\n"), "csv": ("csv", "%09d,2.5,17,0.25,-3.125,label\n"),
         "quoted": ("csv", "%09d,\"a, b\",17,\"he said \"\"hi\"\"\",0.5\n")}
COUNT = "import csv, sys\nn = 0\nfor row in csv.reader(open(sys.argv[1], newline='')): n += 1\nprint(n)"


def write(path, kind, samples):
    format, line = KINDS[kind]
    with open(path, "w") as file:
        file.write("n,a,b,c,d,e\n" if format == "csv" else "")
        for at in range(0, samples, 10000):
            file.write("".join(line % i for i in range(at, min(at + 10000, samples))))
    return path.stat().st_size


def run(command):
    """Seconds on the clock and of CPU, and what it said."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    said = subprocess.run([str(part) for part in command], check=True, capture_output=True, text=True).stdout
    took, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, said


def tell(what, size, took, cpu, more=""):
    rates = [size / seconds / 1e6 for seconds in (took, max(cpu, 0.01))]
    print(f"{what:42} {took:7.2f} s, CPU {cpu:6.2f} s, {rates[0]:7.0f} MB/s, of CPU {rates[1]:7.0f} MB/s{more}", flush=True)


def programs(path, kind, size, rounds):
    commands = {"wc -l": ["wc", "-l", path], "python3 csv.reader": ["/usr/bin/python3", "-c", COUNT, path]}
    best = {}
    for _ in range(rounds):
        for name, command in commands.items():
            took, cpu, _ = run(command)
            best[name] = min(best.get(name, (1e9, 0)), (took, cpu))
        for name, took, cpu in re.findall(r"^(\w+) ([\d.]+) s ([\d.]+) s", run([build_dir() / "tests/bench/bench_dataset", path, KINDS[kind][0]])[2], re.M):
            best[name] = min(best.get(name, (1e9, 0)), (float(took), float(cpu)))
    for name, (took, cpu) in best.items():
        tell(f"{kind}, {name}", size, took, cpu)


class Peak:
    """Of the agent's memory from here on, in MB beyond what it has now."""

    def __init__(self, edge):
        self.edge, self.resident, self.private, self.most, self.over = edge, edge.status("VmRSS"), edge.status("RssAnon"), 0, threading.Event()
        pathlib.Path(f"/proc/{edge.pid}/clear_refs").write_text("5")
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()

    def look(self):
        while not self.over.wait(0.01):
            self.most = max(self.most, self.edge.status("RssAnon"))

    def end(self):
        self.over.set()
        self.thread.join()
        return f"{(self.edge.status('VmHWM') - self.resident) / 1e6:.1f} MB resident, {(self.most - self.private) / 1e6:.1f} MB private more"


def agent(world, kind, path, size, samples):
    broker = world.broker(name=f"broker-{kind}")
    job = Job(world, name=f"job-{kind}", format=KINDS[kind][0], condition=(">", 1e12))
    edge = world.edge(broker, start=False, name=f"edge-{kind}", dataset_check_on_arrival="true", dataset_round_max=8 << 30, dataset_status_period="50ms")
    hand = Hand(world, broker, edge, job, auto=False)
    edge.start().connected()
    until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "the job is there")
    peak, cpu, begin = Peak(edge), edge.cpu_seconds(), time.monotonic()
    os.link(path, job.data)
    hand.status(job.dataset, lambda s: s["samples"] == samples, "all are counted", patience=300)
    tell(f"{kind}, the agent reads all", size, time.monotonic() - begin, edge.cpu_seconds() - cpu, f", {peak.end()}")
    peak, cpu, begin = Peak(edge), edge.cpu_seconds(), time.monotonic()
    hand.move(job, job.position, condition=(">=", 1))
    hand.report(job, "train", "ready", 1, patience=300)
    tell(f"{kind}, the agent makes a round of all", size, time.monotonic() - begin, edge.cpu_seconds() - cpu, f", {peak.end()}")
    edge.stop()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with World() as world:
        for kind in KINDS:
            path = world.path / f"samples-{kind}"
            size = write(path, kind, options.samples)
            print(f"{kind}: {options.samples} samples, {size / 1e6:.0f} MB; load {os.getloadavg()[0]:.1f}", flush=True)
            programs(path, kind, size, options.rounds)
            agent(world, kind, path, size, options.samples)
            path.unlink()


if __name__ == "__main__":
    main()
