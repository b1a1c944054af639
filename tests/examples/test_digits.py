#!/usr/bin/python3
"""Tests of examples/digits: the scripts as they are, against a local HTTP endpoint that stands in for the edge agent.

The driver (Rounds) plays the part of the agents for one job: it splits samples by the same rule, writes the files
of a round, starts train.py and eval.py with the variables that a worker gets, and decides by accuracy_delta. So the
series of batches that the demo feeds is known to hold (better, better, better, refused, better, better) without
any agent. Runs the tests of digits_workers.py and digits_store.py too and prints `N passed, N failed` last.
"""

import hashlib
import os
import sys
import unittest
from unittest import mock

import yaml

from digits_support import TRAIN_PROB, Endpoint, Folder, read_lines, script, trains, variables

import digits_store
import digits_workers
import feed
import model
import stream

SERIES = [(200, False), (200, False), (200, False), (200, True), (200, False), (200, False)]
# A round is won or lost by at least so many evaluation samples: no rounding of another machine turns it.
MARGIN = 6


class Rounds:
    """One job as the agents would run it."""

    def __init__(self, home):
        self.home = home
        self.data = os.path.join(home, "data", "samples.txt")
        self.base = self.deployed = os.path.join(home, "models", "initial.npz")
        self.used = 0
        self.window = []

    def round(self, number):
        """One round over the lines that are new. Returns (samples in the window, right by the new model, right by the old)."""
        lines = read_lines(self.data)
        train = [lines[i] for i in range(self.used, len(lines)) if trains(i)]
        self.window = (self.window + [[lines[i] for i in range(self.used, len(lines)) if not trains(i)]])[-6:]
        self.used = len(lines)
        train_file = self.write(f"data/train/{number}/data.txt", train)
        eval_file = self.write(f"data/eval/{number}/data.txt", sum(self.window, []))
        new = self.worker("train.py", BASE_MODEL_URL=self.base, MODEL_URL=os.path.join(self.home, "output/train", str(number)),
                          TRAIN_DATASET_URL=train_file, ORIGINAL_DATASET_URL=self.data)[0]["url"]
        results = self.worker("eval.py", MODEL_URLS=f"{new};{self.deployed}", TEST_DATASET_URL=eval_file)
        assert [result["url"] for result in results] == [new, self.deployed], results
        counts = [round(result["metrics"]["accuracy"] * result["metrics"]["samples"]) for result in results]
        delta = results[0]["metrics"]["accuracy"] - results[1]["metrics"]["accuracy"]
        self.base = self.deployed if delta < 0 else new
        if delta > 0:
            self.deployed = new
        return results[0]["metrics"]["samples"], *counts

    def write(self, name, lines):
        path = os.path.join(self.home, "output", name)
        os.makedirs(os.path.dirname(path))
        with open(path, "w", encoding="ascii") as file:
            file.writelines(lines)
        return path

    def worker(self, name, **urls):
        with Endpoint() as endpoint:
            done = script(name, env=variables(endpoint.url, **urls))
            assert done.returncode == 0, done.stderr
            documents = endpoint.taken()
        assert len(documents) == 1 and documents[0]["status"] == "completed", documents
        return documents[0]["results"]


class SeriesTest(Folder):
    def test_good_batches_deploy_and_a_scrambled_one_is_refused(self):
        self.assertEqual(script("make_initial.py", self.home).returncode, 0)
        rounds = Rounds(self.home)
        for number, (count, scramble) in enumerate(SERIES, 1):
            fed = script("feed.py", rounds.data, "--count", str(count), *(["--scramble"] if scramble else []))
            self.assertEqual(fed.returncode, 0, fed.stderr)
            window, new, old = rounds.round(number)
            print(f"  round {number}: {'scrambled ' if scramble else ''}{count} samples, window {window}: new {new} right, deployed {old}")
            with self.subTest(round=number):
                self.assertGreaterEqual(old - new if scramble else new - old, MARGIN)
        pixels, labels = model.read_samples(os.path.join(self.home, "data", "held-out.txt"))
        self.assertGreater(model.load(rounds.deployed).measure(pixels, labels)["accuracy"], 0.9)


class StreamTest(Folder):
    def test_every_sample_is_in_exactly_one_list(self):
        s = stream.Stream()
        self.assertEqual(sorted(s.held_out + s.initial + s.rest), list(range(1797)))

    def test_same_seed_same_order(self):
        one, two, other = stream.Stream(5), stream.Stream(5), stream.Stream(6)
        self.assertEqual((one.held_out, one.initial, one.rest), (two.held_out, two.initial, two.rest))
        self.assertNotEqual(one.rest, other.rest)

    def test_each_stretch_brings_one_new_digit(self):
        s = stream.Stream()
        seen = set(int(s.labels[n]) for n in s.initial)
        for k in range(6):
            digits = set(int(s.labels[n]) for n in s.rest[k * 200:(k + 1) * 200])
            self.assertEqual(digits - seen, {4 + k})
            seen |= digits

    def test_feed_goes_on_where_the_file_ends(self):
        path = self.path("data.txt")
        for count in ("3", "4"):
            self.assertEqual(script("feed.py", path, "--count", count).returncode, 0)
        s = stream.Stream()
        self.assertEqual(read_lines(path), [s.line(n) for n in s.rest[:7]])
        printed = script("feed.py", "--offset", "3", "--count", "4").stdout
        self.assertEqual(printed, "".join(read_lines(path)[3:]))

    def test_scrambled_labels_are_all_wrong_and_pixels_are_not_touched(self):
        right = script("feed.py", "--offset", "600", "--count", "200").stdout.splitlines()
        wrong = script("feed.py", "--offset", "600", "--count", "200", "--scramble").stdout.splitlines()
        self.assertEqual([line[1:] for line in right], [line[1:] for line in wrong])
        self.assertFalse([pair for pair in zip(right, wrong) if pair[0][0] == pair[1][0]])
        self.assertEqual(len(set(line[0] for line in wrong)), 10)

    def test_past_the_end_nothing_is_written(self):
        path = self.path("data.txt")
        done = script("feed.py", path, "--offset", "1500", "--count", "200")
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("the samples end at 1587", done.stderr)
        self.assertFalse(os.path.exists(path))

    def test_held_out_lines_are_never_fed(self):
        held_out = script("feed.py", "--held-out").stdout.splitlines()
        fed = script("feed.py", "--count", "1587").stdout.splitlines()
        self.assertEqual(len(held_out), 150)
        self.assertFalse(set(held_out) & set(fed))

    def test_a_batch_is_one_write(self):
        calls = []
        write = os.write
        with mock.patch.object(os, "write", lambda fd, data: calls.append(len(data)) or write(fd, data)):
            feed.append(self.path("data.txt"), "x" * 100000)
        self.assertEqual(calls, [100000])


class ManifestTest(Folder):
    def rendered(self, *arguments):
        done = script("render.py", self.home, *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("${", done.stdout)
        return {(d["kind"], d["metadata"]["name"]): d["spec"] for d in yaml.safe_load_all(done.stdout)}

    def test_manifests_name_what_make_initial_prepares(self):
        self.assertEqual(script("make_initial.py", self.home).returncode, 0)
        found = self.rendered("--node", "edge-7", "--train-seconds", "2.5")
        job = found["IncrementalLearningJob", "digits"]
        data = found["Dataset", job["dataset"]["name"]]
        self.assertEqual((data["nodeName"], os.path.getsize(data["url"])), ("edge-7", 0))
        for name in (job["initialModel"]["name"], job["deploySpec"]["model"]["name"]):
            self.assertEqual(found["Model", name]["format"], model.FORMAT)
            model.load(found["Model", name]["url"])
        self.assertTrue(os.path.isdir(job["outputDir"]))
        for spec in ("trainSpec", "evalSpec", "deploySpec"):
            (container,) = job[spec]["template"]["spec"]["containers"]
            self.assertTrue(os.path.exists(container["command"][-1]))
        self.assertIn({"name": "DIGITS_TRAIN_SECONDS", "value": "2.5"}, job["trainSpec"]["template"]["spec"]["containers"][0]["env"])

    def test_a_batch_of_the_series_fires_the_trigger(self):
        job = self.rendered()["IncrementalLearningJob", "digits"]
        self.assertEqual(job["dataset"]["trainProb"], TRAIN_PROB)
        position = 0
        for count, _ in SERIES:
            given = sum(trains(n) for n in range(position, position + count))
            self.assertGreaterEqual(given, job["trainSpec"]["trigger"]["condition"]["threshold"])
            position += count

    def test_make_initial_keeps_what_is_there(self):
        self.assertEqual(script("make_initial.py", self.home).returncode, 0)
        self.write("kept", "models", "deploy.npz")
        self.write("kept", "data", "samples.txt")
        self.assertEqual(script("make_initial.py", self.home).returncode, 0)
        self.assertEqual(read_lines(self.path("models", "deploy.npz")), ["kept"])
        self.assertEqual(script("make_initial.py", self.home, "--force").returncode, 0)
        with open(self.path("models", "deploy.npz"), "rb") as file:
            self.assertEqual(hashlib.sha256(file.read()).hexdigest(), model.sha256_of(self.path("models", "initial.npz")))
        self.assertEqual(read_lines(self.path("data", "samples.txt")), ["kept"])

    def test_paths_that_would_break_the_yaml_are_refused(self):
        self.assertNotEqual(script("render.py", self.path('a"b')).returncode, 0)


def main():
    load = unittest.defaultTestLoader.loadTestsFromModule
    tests = unittest.TestSuite(map(load, (sys.modules[__name__], digits_workers, digits_store)))
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(tests)
    # A subtest that failed counts for the test it is part of.
    failed = len({str(getattr(test, "test_case", test)) for test, _ in result.failures + result.errors})
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
