#!/usr/bin/python3
"""A very large dataset on a small device, for a long time (scenario 13). Not part of the default run:

    ILMARE_BUILD=build/release tests/integration/soak_dataset.py

A file of ILMARE_SOAK_LINES (20,000,000) lines, 100 bytes each, is there; for ILMARE_SOAK_SECONDS (3600) ten lines a second are appended, and a worker
posts each second. The agent lives in a control group of 256 MB where the machine allows to make one, with a keep-alive of 20 s. In the end: memory
below the limit, no lost link, posts answered within a second (99 of 100), and every line counted and waiting or in a round.
"""

import os
import pathlib
import threading
import time

from case import Case, main
from hand import until

LINES = int(os.environ.get("ILMARE_SOAK_LINES", "20000000"))
SECONDS = float(os.environ.get("ILMARE_SOAK_SECONDS", "3600"))
LIMIT = 256 << 20
WIDTH = 100


class Group:
    """A control group with a limit of memory, or nothing, and that is said."""

    def __init__(self):
        self.path = pathlib.Path(f"/sys/fs/cgroup/ilmare-soak-{os.getpid()}")
        try:
            self.path.mkdir()
            (self.path / "memory.max").write_text(str(LIMIT))
        except OSError as error:
            print(f"no control group ({error}): memory is only looked at", flush=True)
            self.remove()
            self.path = None

    def take(self, process):
        if self.path:
            (self.path / "cgroup.procs").write_text(str(process.pid))

    def remove(self):
        try:
            self.path.rmdir()
        except OSError:
            pass


def write_lines(path, first, n):
    """Lines of WIDTH bytes that begin with their number."""
    with open(path, "ab") as file:
        for at in range(first, first + n, 10000):
            file.write(b"".join(b"%09d %s\n" % (i, b"x" * (WIDTH - 11)) for i in range(at, min(at + 10000, first + n))))


class Soak(Case):
    def test_large_dataset(self):
        group = Group()
        self.addCleanup(lambda: group.path and group.remove())
        broker = self.world.broker()
        job = self.job(share=1, condition=(">=", LINES + 100 * 10))  # a round now and then
        write_lines(job.data, 0, LINES)
        edge = self.world.edge(broker, start=False, mqtt_keep_alive="20s", dataset_status_period="1s")
        hand = self.hand(broker, edge, job)
        edge.start()
        group.take(edge.process)
        edge.connected()
        begin = time.monotonic()
        hand.status(job.dataset, lambda s: s["samples"] == LINES, "all lines are counted", patience=600)
        print(f"{LINES} lines counted in {time.monotonic() - begin:.1f} s", flush=True)
        connects = edge.metrics()["ilmare_mqtt_connects_total"]
        took, end, posting = [], time.monotonic() + SECONDS, threading.Event()

        def post():
            body = {"namespace": "a", "ownerName": "b", "ownerKind": "incrementallearningjob", "kind": "inference"}
            while not posting.wait(1):
                at = time.monotonic()
                status, _ = edge.post("inferworker-x", body)
                took.append((time.monotonic() - at, status))

        poster = threading.Thread(target=post, daemon=True)
        poster.start()
        total, most, next_at = LINES, 0, time.monotonic()
        while time.monotonic() < end:
            write_lines(job.data, total, 1)
            total += 1
            most = max(most, edge.status("VmRSS"))
            next_at += 0.1
            time.sleep(max(0, next_at - time.monotonic()))
        posting.set()
        poster.join()
        hand.status(job.dataset, lambda s: s["samples"] == total, "all lines are counted in the end", patience=60)
        took.sort()
        p99 = took[len(took) * 99 // 100][0]
        print(f"{total - LINES} lines appended, {len(took)} posts: p99 {p99 * 1000:.1f} ms, worst {took[-1][0] * 1000:.1f} ms; "
              f"resident at most {most >> 10} kB, private {edge.status('RssAnon') >> 10} kB; CPU {edge.cpu_seconds():.1f} s", flush=True)
        self.assertEqual({status for _, status in took}, {200})
        self.assertLess(p99, 1)
        self.assertLess(most, LIMIT // 4)
        self.assertEqual(edge.metrics()["ilmare_mqtt_connects_total"], connects)
        # No line is lost: taken by rounds that followed one another, or waiting.
        until(lambda: hand.topics.find(lambda m: m.topic.endswith("/status")), "a status")
        at = 0
        for number in job.completed_rounds():
            self.assertEqual(job.taken[number]["from"], at)
            at = job.taken[number]["to"]
        self.assertLessEqual(at, total)
        if SECONDS >= 120:
            self.assertGreater(at, LINES)


if __name__ == "__main__":
    main()
