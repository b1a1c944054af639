#!/usr/bin/python3
"""The oracle sees what it is there for: each kind of loss, made by hand."""

import json
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import case  # noqa: E402
import oracle  # noqa: E402
from agents import worker_name  # noqa: E402


class Job:
    """What a run leaves: rounds given as {number: (from, to)}."""

    def __init__(self, folder, rounds):
        self.folder, self.names = folder, []
        for number, (begin, end) in rounds.items():
            place = folder / "output" / "data" / "train" / str(number)
            place.mkdir(parents=True)
            (place / "manifest.json").write_text(json.dumps({"from": begin, "to": end}))
            (place / "data.txt").write_text("".join(f"sample {i}\n" for i in range(begin + 1, end)))
            (place / "eval.txt").write_text(f"sample {begin}\n")
        (folder / "models").mkdir()
        (folder / "models" / "deploy.bin").write_text("deploy")

    def started(self):
        return self.names


def state(gen, number, stage, phase, ended=None, **more):
    document = {"stamp": {"epoch": 7, "gen": gen}, "ts": f"t{gen}", "job": {"uid": "u"}, "round": number, "stage": stage, "phase": phase, **more}
    if ended:
        document["ended"] = dict(zip(("round", "stage", "phase"), ended))
    return document


class Oracle(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ilmare-test-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def chain(self, rounds, states, fed):
        counts = oracle.Counts()
        oracle.check_chain(Job(self.folder, rounds).folder, states, fed, counts)
        return counts.lost, counts.double

    def test_rounds_that_follow(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (10, 30)}, [], 30), (0, 0))

    def test_a_gap(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (12, 30)}, [], 30), (2, 0))

    def test_an_overlap(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (8, 30)}, [], 30), (0, 2))

    def test_the_last_ones(self):
        self.assertEqual(self.chain({1: (0, 10)}, [], 15), (5, 0))

    def test_given_back_after_failure(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (0, 12)}, [state(1, 2, "Train", "Waiting", (1, "Train", "Failed"))], 12), (0, 0))

    def test_given_back_after_success(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (0, 12)}, [state(1, 1, "Eval", "Ready")], 12), (0, 10))

    def test_not_given_back_after_failure(self):
        self.assertEqual(self.chain({1: (0, 10), 2: (10, 12)}, [state(1, 2, "Train", "Waiting", (1, "Train", "Failed"))], 12), (10, 0))

    def test_files(self):
        job = Job(self.folder, {1: (0, 10)})
        counts = oracle.Counts()
        oracle.check_files(job, counts)
        self.assertEqual((counts.lost, counts.double), (0, 0))
        with open(self.folder / "output" / "data" / "train" / "1" / "eval.txt", "a", encoding="utf-8") as file:
            file.write("sample 3\nsample 99\n")
        oracle.check_files(job, counts)
        self.assertEqual((counts.lost, counts.double), (0, 2))
        (self.folder / "output" / "data" / "train" / "1" / "eval.txt").write_text("")
        counts = oracle.Counts()
        oracle.check_files(job, counts)
        self.assertEqual((counts.lost, counts.double), (1, 0))

    def test_order(self):
        forward = [state(1, 1, "Train", "Waiting"), state(3, 1, "Eval", "Ready"), state(2, 1, "Train", "Completed")]
        counts = oracle.Counts()
        oracle.check_order(forward, counts)
        self.assertEqual(counts.backward, 0)
        oracle.check_order(forward + [state(4, 1, "Eval", "Waiting")], counts)
        self.assertEqual(counts.backward, 1)

    def test_failure_ends_a_round(self):
        counts = oracle.Counts()
        oracle.check_order([state(1, 1, "Eval", "Running"), state(2, 1, "Eval", "Failed"), state(3, 2, "Train", "Waiting")], counts)
        self.assertEqual(counts.backward, 0)
        oracle.check_order([state(1, 1, "Train", "Failed"), state(2, 1, "Eval", "Ready")], counts)
        self.assertEqual(counts.backward, 1)

    def test_workers(self):
        job = Job(self.folder, {})
        counts = oracle.Counts()
        oracle.check_workers(job, state(1, 1, "Train", "Waiting"), counts)
        self.assertEqual((counts.lost, counts.double), (0, 0))
        job.names = ["a", "b", "a"]
        oracle.check_workers(job, state(1, 3, "Train", "Waiting", deployed={"round": 2}), counts)
        self.assertEqual((counts.lost, counts.double), (1, 1))
        (self.folder / "models" / "deploy.bin").write_text(worker_name("train", "u", 2))
        counts = oracle.Counts()
        oracle.check_workers(job, state(1, 3, "Train", "Waiting", deployed={"round": 2}), counts)
        self.assertEqual(counts.lost, 0)


if __name__ == "__main__":
    case.main()
