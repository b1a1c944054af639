#!/usr/bin/python3
"""The oracle sees what it is there for: each kind of loss, made by hand."""

import json
import pathlib
import sys
import tempfile
import unittest

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "kube"), str(TESTS / "integration")]

import case  # noqa: E402
import oracle  # noqa: E402
import pod_oracle  # noqa: E402
from agents import worker_name  # noqa: E402
from history import Job as Stored  # noqa: E402
from history import Lease, Pod  # noqa: E402


class Job:
    """What a run leaves: rounds given as {number: (from, to)}."""

    def __init__(self, folder, rounds):
        self.folder, self.names, self.wishes = folder, [], []
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

    def test_given_back_before_a_rollback(self):
        back = [state(1, 1, "Deploy", "Ready", (0, "Deploy", "Completed"))]
        self.assertEqual(self.chain({1: (0, 10), 2: (0, 12)}, back, 12), (0, 0))

    def test_not_given_back_before_a_rollback(self):
        back = [state(1, 1, "Deploy", "Ready", (0, "Deploy", "Completed"))]
        self.assertEqual(self.chain({1: (0, 10), 2: (10, 12)}, back, 12), (10, 0))

    def test_given_back_after_a_rollback_of_a_trained_round(self):
        for stage in ("Train", "Eval"):
            with self.subTest(stage):
                back = [state(1, 1, "Deploy", "Ready", (1, stage, "Completed"))]
                self.setUp()
                self.assertEqual(self.chain({1: (0, 10), 2: (0, 12)}, back, 12), (0, 10))

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

    def test_newest(self):
        told = [state(1, 1, "Train", "Waiting"), state(3, 1, "Eval", "Ready"), state(2, 1, "Train", "Completed")]
        self.assertEqual(oracle.newest(told), told[1])
        self.assertEqual(oracle.newest([{}]), {})

    def test_failure_ends_a_round(self):
        counts = oracle.Counts()
        oracle.check_order([state(1, 1, "Eval", "Running"), state(2, 1, "Eval", "Failed"), state(3, 2, "Train", "Waiting")], counts)
        self.assertEqual(counts.backward, 0)
        oracle.check_order([state(1, 1, "Train", "Failed"), state(2, 1, "Eval", "Ready")], counts)
        self.assertEqual(counts.backward, 1)

    def test_workers(self):
        job = Job(self.folder, {})
        counts = oracle.Counts()
        oracle.check_workers(job, [state(1, 1, "Train", "Waiting")], counts)
        self.assertEqual((counts.lost, counts.double), (0, 0))
        job.names = ["a", "b", "a"]
        oracle.check_workers(job, [state(1, 3, "Train", "Waiting", deployed={"round": 2})], counts)
        self.assertEqual((counts.lost, counts.double), (1, 1))
        (self.folder / "models" / "deploy.bin").write_text(worker_name("train", "u", 2))
        counts = oracle.Counts()
        oracle.check_workers(job, [state(1, 3, "Train", "Waiting", deployed={"round": 2})], counts)
        self.assertEqual(counts.lost, 0)

    def went_back(self, job, of, model):
        """Losses and doubles of a job that went back to a round in round 3, and again in round 4 to what round 3 had put in place."""
        (self.folder / "models" / "deploy.bin").write_text(model)
        states = [state(1, 3, "Deploy", "Starting", deployed={"round": 3, "of": of}), state(2, 5, "Train", "Waiting", deployed={"round": 4, "of": 3})]
        counts = oracle.Counts()
        oracle.check_workers(job, states, counts)
        oracle.check_rollbacks(job, states, counts)
        return counts.lost, counts.double

    def test_rollbacks(self):
        job = Job(self.folder, {})
        job.wishes = [1, 3]
        self.assertEqual(self.went_back(job, 1, worker_name("train", "u", 1)), (0, 0))
        self.assertEqual(self.went_back(job, 1, worker_name("train", "u", 3)), (1, 0))
        job.wishes = [0, 3]
        self.assertEqual(self.went_back(job, 0, "deploy"), (0, 0))
        self.assertEqual(self.went_back(job, 1, worker_name("train", "u", 1)), (0, 1))
        job.wishes = [0, 0]
        self.assertEqual(self.went_back(job, 0, "deploy"), (0, 1))
        kept = self.folder / "output" / "deployed" / "3"
        kept.mkdir(parents=True)
        (kept / "version.json").write_text(json.dumps({"round": 3, "of": 0}))
        self.assertEqual(oracle.gone_back(self.folder, []), {3: 0})


UID = "u"
ROUND = [(1, "Train", p) for p in ("Waiting", "Ready", "Starting", "Completed")] + [(1, "Eval", p) for p in ("Waiting", "Ready", "Completed")]


def pod(kind, number=1, uid="p", phase="Running", gone=False, job="j"):
    return Pod(f"{job}-{kind}-{pod_oracle.suffix(kind, UID, number)}", uid, job, kind, phase, gone)


class PodOracle(unittest.TestCase):
    """Of what a cluster held, in the order of its versions."""

    def counted(self, check, *what):
        counts = oracle.Counts()
        check(*what, counts)
        return counts.lost, counts.double, counts.backward

    def alive(self, *pods):
        return self.counted(pod_oracle.check_alive, pods)

    def test_one_after_the_other(self):
        train = [pod("train", phase=p) for p in ("Pending", "Running", "Succeeded")]
        self.assertEqual(self.alive(*train, pod("eval", uid="q"), pod("inference", uid="i")), (0, 0, 0))
        self.assertEqual(self.alive(train[0], pod("train", gone=True), pod("eval", uid="q")), (0, 0, 0))

    def test_two_at_a_time(self):
        self.assertEqual(self.alive(pod("train"), pod("eval", uid="q"), pod("eval", uid="q")), (0, 1, 0))
        self.assertEqual(self.alive(pod("inference"), pod("inference", 2, uid="q")), (0, 1, 0))
        self.assertEqual(self.alive(pod("train"), pod("train", uid="q", job="k")), (0, 0, 0))

    def made(self, pods, entries=ROUND):
        return self.counted(pod_oracle.check_made, pods, [Stored("j", UID, entries[:n]) for n in range(len(entries) + 1)])

    def test_one_for_each_stage(self):
        self.assertEqual(self.made([pod("train"), pod("eval", uid="q")]), (0, 0, 0))

    def test_one_that_was_made_again(self):
        self.assertEqual(self.made([pod("train"), pod("train", gone=True), pod("train", uid="r"), pod("eval", uid="q")]), (0, 1, 0))

    def test_one_that_was_never_made(self):
        self.assertEqual(self.made([pod("train")]), (1, 0, 0))
        # A stage that fails before it has one.
        self.assertEqual(self.made([pod("train")], ROUND[:-1] + [(1, "Eval", "Failed")]), (0, 0, 0))

    def test_one_that_nothing_called_for(self):
        self.assertEqual(self.made([pod("train"), pod("train", 2, uid="r"), pod("eval", uid="q")]), (0, 1, 0))

    def positions(self, *versions):
        return self.counted(pod_oracle.check_positions, [Stored("j", UID, v) for v in versions])

    def test_positions(self):
        self.assertEqual(self.positions([], ROUND[:1], ROUND[:3], ROUND, ROUND[2:]), (0, 0, 0))
        self.assertEqual(self.positions(ROUND, ROUND[:3]), (0, 0, 1))
        self.assertEqual(self.positions(ROUND, []), (0, 0, 1))
        twice = ROUND[:4] + ROUND[3:4]
        self.assertEqual(self.positions(twice, twice), (0, 1, 0))
        self.assertEqual(self.positions([ROUND[1], ROUND[0]]), (0, 0, 1))

    def test_leases(self):
        self.assertEqual(self.counted(pod_oracle.check_leases, [Lease("a", 5), Lease("", 5), Lease("b", 6)]), (0, 0, 0))
        self.assertEqual(self.counted(pod_oracle.check_leases, [Lease("a", 5), Lease("b", 4)]), (0, 0, 1))

    def left(self, *pods, number=4):
        return len(pod_oracle.left_over(pods, [Stored("j", UID, [(number, "Train", "Waiting")])]))

    def test_left_over(self):
        serving, last = pod("inference", 3, uid="i"), pod("eval", 3, phase="Succeeded")
        self.assertEqual(self.left(serving, last), 0)
        self.assertEqual(self.left(last), 1)
        self.assertEqual(self.left(serving, pod("inference", 2, uid="k")), 1)
        self.assertEqual(self.left(serving, pod("train", 1, phase="Succeeded")), 1)
        self.assertEqual(self.left(serving, pod("train", 3)), 1)
        self.assertEqual(self.left(serving, pod("train", 3, phase="Succeeded", job="other")), 1)


if __name__ == "__main__":
    case.main()
