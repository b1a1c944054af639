#!/usr/bin/python3
"""Property: whatever a dataset file goes through, and whatever becomes of the agent and of its rounds, the sample files of the rounds that completed
training hold together what the file held, and nothing twice.

A history appends samples (whole, or cut anywhere), rotates the file (renamed, and a new one begun; or copied, and emptied), puts the same bytes under
another inode, and kills the agent, in any order; every fourth round fails. Half of the rotations wait until all is used, as a careful user's do. What the
others take out of the file before a round took it may be missing afterwards, but nothing else may, and nothing may be there twice.

The scanner alone is tested so in tests/unit/test_scanner_histories.c, rounds alone in tests/unit/test_round.c, both cores in tests/sim.
"""

import csv
import io
import os
import random
import shutil
import time

from case import Case, main
from deploying import in_memory

DECK = ["append"] * 60 + ["cut"] * 20 + ["rename", "copy and empty"] * 7 + ["another inode"] * 6 + ["kill"] * 20 + ["wait"] * 8


class History:
    def __init__(self, case, format):
        seed = int(os.environ.get("ILMARE_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}; ILMARE_TEST_SEED={seed} repeats it but for the moments at which the agents act", flush=True)
        self.dice = random.Random(seed)
        broker = case.world.broker()
        self.job = case.job(format=format, share=0.5)
        self.job.result = lambda stage, number: "failed" if (stage, number % 4) == ("train", 2) else "completed"
        self.edge = case.world.edge(broker, start=False, dataset_check_on_arrival="true", dataset_look_period="100ms")
        self.hand = case.hand(broker, self.edge, self.job)
        self.samples, self.held, self.lost = [], [], set()  # all ever written; those in the file; those that it may have lost
        self.rest = b""  # of what is being written
        self.job.data.write_bytes(self.head())
        self.edge.start().connected()

    # ---- the file ----

    def head(self):
        return b"name,\"a note\"\r\n" if self.job.format == "csv" else b""

    def text(self, n):
        """n new samples as they are in the file."""
        out = io.StringIO()
        for number in range(len(self.samples), len(self.samples) + n):
            if self.job.format == "csv":
                sample = (f"s{number}", self.dice.choice(["", "plain", "two\nlines", "two\r\nlines, \"quoted\"", ",", "\"", "\n"]))
                csv.writer(out, lineterminator=self.dice.choice(["\n", "\r\n"])).writerow(sample)
            else:
                sample = f"images/{number}.png {'x' * self.dice.randrange(60)}"
                out.write(f"{sample}\n")
            self.samples.append(sample)
            self.held.append(sample)
        return out.getvalue().encode()

    def write(self, data):
        with open(self.job.data, "ab", buffering=0) as file:
            file.write(data)

    def end_line(self):
        self.write(self.rest)
        self.rest = b""

    def append(self, n=None):
        data, self.rest = self.rest + self.text(n or self.dice.randrange(1, 12)), b""
        self.write(data)

    def cut(self):
        data = self.rest + self.text(self.dice.randrange(1, 12))
        at = self.dice.randrange(len(data))
        self.write(data[:at])
        self.rest = data[at:]

    def rotate(self, new_file):
        self.end_line()
        if self.dice.random() < 0.5:
            self.wait_until_used()
        else:
            self.lost |= set(self.held) - set(self.job.used())
        # Half of them are longer than the one before as soon as they are there.
        n, self.held = self.dice.choice([0, len(self.held) + 2]), []
        new_file(self.head() + self.text(n))

    def rename(self, data):
        self.job.data.rename(f"{self.job.data}.1")
        new = self.job.dir / "new"
        new.write_bytes(data)
        new.rename(self.job.data)

    def copy_and_empty(self, data):
        shutil.copy(self.job.data, f"{self.job.data}.1")
        self.job.data.write_bytes(data)

    def another_inode(self):
        copy = self.job.dir / "copy"
        shutil.copy(self.job.data, copy)
        copy.rename(self.job.data)

    # ---- the agent ----

    def kill(self):
        time.sleep(self.dice.uniform(0, 0.15))  # a moment at random is what is tested
        self.edge.kill()

    def wait_until_used(self):
        """All but what a file lost. Of any two samples one trains, so two more take along what would wait for its turn."""
        if not self.edge.alive():
            self.edge.start(wait=False)
        self.append(2)
        expected = set(self.samples) - self.lost
        self.hand.wait(lambda: expected <= set(self.job.used()), "all samples are used")

    def step(self, what):
        if not self.edge.alive() and self.dice.random() < 0.5:
            self.edge.start(wait=False)
        if what in ("rename", "copy and empty"):
            self.rotate(self.rename if what == "rename" else self.copy_and_empty)
        else:
            {"append": self.append, "cut": self.cut, "another inode": self.another_inode, "kill": self.kill,
             "wait": self.wait_until_used}[what]()

    def run(self):
        deck = list(DECK)
        self.dice.shuffle(deck)
        for what in deck:
            self.step(what)
        self.end_line()
        self.wait_until_used()


class Histories(Case):
    def setUp(self):
        with in_memory():
            super().setUp()

    def check(self, format):
        history = History(self, format)
        history.run()
        job, used = history.job, history.job.used()
        self.assertEqual({sample: n for sample, n in used.items() if n != 1}, {})
        self.assertLessEqual(set(used), set(history.samples))
        self.assertLessEqual(set(history.samples) - set(used), history.lost)
        rounds = job.completed_rounds()
        print(f"{len(history.samples)} samples, {len(used)} used in {len(rounds)} rounds of {job.position['round'] - 1}", flush=True)
        self.assertGreater(job.position["round"] - 1, len(rounds))
        steps = [entry[:3] for entry in job.accepted]
        self.assertEqual(len(steps), len(set(steps)))

    def test_txt(self):
        self.check("txt")

    def test_csv(self):
        self.check("csv")


if __name__ == "__main__":
    main()
