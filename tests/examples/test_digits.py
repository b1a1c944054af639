#!/usr/bin/python3
"""Tests of examples/digits: the scripts as they are, against a local HTTP endpoint that stands in for the edge agent.

The driver (Rounds) plays the part of the agents for one job: it splits samples by the same rule, writes the files
of a round, starts train.py and eval.py with the variables that a worker gets, and decides by accuracy_delta. So the
series of batches that the demo feeds is known to hold (better, better, better, refused, better, better) without
any agent. Prints `N passed, N failed` last.
"""

import hashlib
import http.server
import importlib.util
import json
import math
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
from unittest import mock

import yaml

sys.dont_write_bytecode = True
CODE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits")
CODE = os.path.normpath(CODE)
sys.path.insert(0, CODE)

import feed  # noqa: E402
import model  # noqa: E402
import stream  # noqa: E402
import worker  # noqa: E402

TRAIN_PROB = 0.8
SERIES = [(200, False), (200, False), (200, False), (200, True), (200, False), (200, False)]
# A round is won or lost by at least so many evaluation samples: no rounding of another machine turns it.
MARGIN = 6
worker.log = model.log = lambda *_, **__: None
OK = (200, b'{"Status":200,"Message":"OK"}')


class Endpoint:
    """Takes worker reports. `answers` are given first, one each; then 200. `messages` holds (path, document)."""

    def __init__(self, *answers):
        self.messages = queue.Queue()
        waiting = list(answers)
        messages = self.messages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.put((self.path, json.loads(body)))
                status, answer = waiting.pop(0) if waiting else OK
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def next(self):
        return self.messages.get(timeout=20)

    def taken(self):
        """All documents that have come so far."""
        documents = []
        while not self.messages.empty():
            documents.append(self.messages.get()[1])
        return documents


def variables(endpoint_url, **more):
    base = {"PATH": "/usr/bin:/bin", "NAMESPACE": "default", "JOB_NAME": "digits", "WORKER_NAME": "train-worker-abcde",
            "LC_SERVER": endpoint_url, "DATA_PATH_PREFIX": ""}
    base.update(more)
    return {name: value for name, value in base.items() if value is not None}


def script(name, *arguments, env=None):
    return subprocess.run(["/usr/bin/python3", "-B", os.path.join(CODE, name), *arguments], env=env,
                          capture_output=True, text=True, timeout=60, check=False)


def trains(number):
    return math.floor((number + 1) * TRAIN_PROB + 1e-9) > math.floor(number * TRAIN_PROB + 1e-9)


def read_lines(path):
    with open(path, encoding="ascii") as file:
        return file.readlines()


class Folder(unittest.TestCase):
    """Each test has an empty folder, gone afterwards."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="digits-")
        self.addCleanup(shutil.rmtree, self.home)

    def path(self, *parts):
        return os.path.join(self.home, *parts)

    def write(self, text, *parts):
        path = self.path(*parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path


class Rounds:
    """One job as the agents would run it."""

    def __init__(self, home):
        self.home = home
        self.data = os.path.join(home, "data", "samples.txt")
        self.base = self.deployed = os.path.join(home, "models", "initial.npz")
        self.used = 0
        self.window = []

    def round(self, number):
        """One round over the lines that are new. Returns (samples in the window, right new, right old, seconds)."""
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


class PostTest(unittest.TestCase):
    def post(self, *answers, attempts=5):
        with Endpoint(*answers) as endpoint:
            try:
                worker.post(endpoint.url, {"a": 1}, attempts=attempts, pause=0.0)
                return len(endpoint.taken()), None
            except worker.ReportError as error:
                return len(endpoint.taken()), error

    def test_first_answer_ok(self):
        self.assertEqual(self.post(), (1, None))

    def test_tried_again_until_taken(self):
        busy = (503, b'{"Status":503,"Message":"full"}')
        self.assertEqual(self.post(busy, busy, (408, b"{}")), (4, None))

    def test_a_body_that_is_not_json_is_a_failure(self):
        count, error = self.post(*[(200, b"OK")] * 5)
        self.assertEqual(count, 5)
        self.assertIn("not JSON", str(error))
        self.assertIsNone(error.status)

    def test_five_attempts_in_all(self):
        count, error = self.post(*[(500, b"{}")] * 9)
        self.assertEqual((count, error.status), (5, 500))

    def test_final_answers_are_not_asked_again(self):
        for status in (400, 409, 413, 422):
            count, error = self.post((status, b'{"Status":409,"Message":"over"}'))
            self.assertEqual((count, error.status), (1, status))

    def test_a_final_status_of_somebody_else_is_asked_again(self):
        self.assertEqual(self.post((400, b"<html>proxy</html>")), (2, None))

    def test_nobody_listens(self):
        with Endpoint() as endpoint:
            url = endpoint.url
        with self.assertRaises(worker.ReportError) as caught:
            worker.post(url, {}, attempts=2, pause=0.0)
        self.assertIsNone(caught.exception.status)

    def test_attempts_are_three_seconds_apart(self):
        with mock.patch.object(worker.time, "sleep") as sleep, Endpoint(*[(503, b"{}")] * 5) as endpoint:
            with self.assertRaises(worker.ReportError):
                worker.post(endpoint.url, {})
        self.assertEqual([call.args for call in sleep.call_args_list], [(3.0,)] * 4)

    def test_proxies_of_the_environment_are_not_used(self):
        with mock.patch.dict(os.environ, {"http_proxy": "http://127.0.0.1:1", "no_proxy": ""}):
            self.assertEqual(self.post(attempts=1), (1, None))


class PrefixTest(unittest.TestCase):
    def on_node(self, prefix, path):
        return worker.Worker("train", variables("", DATA_PATH_PREFIX=prefix)).path_on_node(path)

    def test_cut_at_the_front_only(self):
        self.assertEqual(self.on_node("/home/data", "/home/data/output/train/1/model.npz"), "/output/train/1/model.npz")
        self.assertEqual(self.on_node("/home/data/", "/home/data/a/home/data/b"), "/a/home/data/b")

    def test_another_folder_of_the_same_beginning(self):
        self.assertEqual(self.on_node("/home/data", "/home/database/m"), "/home/database/m")

    def test_empty_means_as_it_is_and_unset_means_the_default(self):
        self.assertEqual(self.on_node("", "/home/data/m"), "/home/data/m")
        self.assertEqual(self.on_node(None, "/home/data/m"), "/m")


class ModelTest(Folder):
    def test_file_survives_and_is_the_same_each_time(self):
        one, two = self.path("one.npz"), self.path("deep", "two.npz")
        model.save(model.new_network(), one)
        model.save(model.load(one), two)
        self.assertEqual(model.sha256_of(one), model.sha256_of(two))
        self.assertEqual(os.listdir(self.path("deep")), ["two.npz"])

    def test_damaged_files_are_refused_with_their_name(self):
        path = self.path("m.npz")
        model.save(model.new_network(), path)
        with open(path, "rb") as file:
            good = file.read()
        for cut in list(range(0, 600, 7)) + list(range(600, len(good) - 1, 1009)):
            for bad in (good[:cut], good[:cut] + bytes([good[cut] ^ 0x55]) + good[cut + 1:]):
                with open(path, "wb") as file:
                    file.write(bad)
                try:
                    model.load(path)
                except worker.WorkerError as error:
                    self.assertIn(path, str(error))

    def test_pickles_and_other_shapes_are_refused(self):
        path = self.path("m.npz")
        arrays = dict(model.new_network().arrays)
        for name, value in (("w1", model.np.array([object()])), ("b1", model.np.zeros(3)), ("b2", model.np.full(10, model.np.nan))):
            model.np.savez(path, **{**arrays, name: value})
            with self.assertRaises(worker.WorkerError):
                model.load(path)

    def test_bad_lines_are_left_out(self):
        good = "3" + " 16" * 64 + "\n"
        bad = ["\n", "3 4\n", "x" + good[1:], "10" + good[1:], good.replace("16", "17", 1), "\0\n", good.rstrip() + " 1\n"]
        pixels, labels = model.read_samples(self.write(good + "".join(bad) + good.rstrip(), "d.txt"))
        self.assertEqual((labels.tolist(), pixels.shape, pixels.max()), ([3, 3], (2, 64), 1.0))

    def test_no_samples_no_accuracy(self):
        pixels, labels = model.read_samples(self.write("", "d.txt"))
        self.assertEqual(model.new_network().measure(pixels, labels), {"samples": 0})


class WorkerScriptTest(Folder):
    def setUp(self):
        super().setUp()
        s = stream.Stream()
        self.data = self.write("".join(map(s.line, s.rest[:50])), "data.txt")
        self.base = self.path("base.npz")
        model.save(model.new_network(), self.base)
        self.out = self.path("out", "7")

    def train(self, endpoint, **more):
        given = {"BASE_MODEL_URL": self.base, "MODEL_URL": self.out, "TRAIN_DATASET_URL": self.data, **more}
        return script("train.py", env=variables(endpoint.url, **given))

    def test_train_report(self):
        with Endpoint() as endpoint:
            self.assertEqual(self.train(endpoint).returncode, 0)
            path, document = endpoint.next()
        self.assertEqual(path, "/sedna/workers/train-worker-abcde/info")
        (result,) = document.pop("results")
        self.assertEqual(document, {"name": "train-worker-abcde", "namespace": "default", "ownerName": "digits", "kind": "train",
                                    "ownerKind": "incrementallearningjob", "status": "completed"})
        self.assertEqual((result["format"], result["url"]), ("npz", self.out + "/model.npz"))
        self.assertEqual(set(result["metrics"]), {"accuracy", "loss", "samples"})
        self.assertTrue(os.path.exists(result["url"]))

    def test_paths_in_a_container_are_reported_as_the_nodes(self):
        with Endpoint() as endpoint:
            self.train(endpoint, DATA_PATH_PREFIX=self.home)
            self.assertEqual(endpoint.next()[1]["results"][0]["url"], "/out/7/model.npz")
            script("eval.py", env=variables(endpoint.url, DATA_PATH_PREFIX=self.home, TEST_DATASET_URL=self.data,
                                            MODEL_URLS=f"{self.out};{self.base}"))
            urls = [result["url"] for result in endpoint.next()[1]["results"]]
        self.assertEqual(urls, ["/out/7/model.npz", "/base.npz"])

    def test_again_gives_the_same_file(self):
        digests = []
        with Endpoint() as endpoint:
            for _ in range(2):
                self.assertEqual(self.train(endpoint).returncode, 0)
                digests.append(model.sha256_of(self.out))
        self.assertEqual(digests[0], digests[1])
        self.assertNotEqual(digests[0], model.sha256_of(self.base))

    def test_a_base_model_may_be_missing_but_not_damaged(self):
        with Endpoint() as endpoint:
            self.assertEqual(self.train(endpoint, BASE_MODEL_URL=None).returncode, 0)
            self.assertEqual(self.train(endpoint, BASE_MODEL_URL=self.path("none.npz")).returncode, 0)
            done = self.train(endpoint, BASE_MODEL_URL=self.data)
            self.assertEqual(done.returncode, 1)
            self.assertIn("not a model of this example", done.stderr)
            self.assertEqual([d["status"] for d in endpoint.taken()], ["completed", "completed", "failed"])

    def test_no_usable_sample_fails(self):
        with Endpoint() as endpoint:
            done = self.train(endpoint, TRAIN_DATASET_URL=self.write("nothing\n", "bad.txt"))
            self.assertEqual((done.returncode, endpoint.next()[1]["status"]), (1, "failed"))

    def test_a_missing_variable_is_named(self):
        done = script("train.py", env=variables("http://127.0.0.1:1", JOB_NAME=None))
        self.assertEqual(done.returncode, 1)
        self.assertIn("JOB_NAME is missing", done.stderr)

    def test_round_over_ends_without_another_try(self):
        with Endpoint((409, b'{"Status":409,"Message":"round 3 is over"}')) as endpoint:
            done = self.train(endpoint)
            self.assertEqual((done.returncode, len(endpoint.taken())), (0, 1))
            self.assertIn("round 3 is over", done.stderr)

    def test_failing_on_request(self):
        flag = self.path("flag")
        with Endpoint() as endpoint:
            self.assertEqual(self.train(endpoint, DIGITS_FAIL="exit:" + flag).returncode, 0)
            self.write("", "flag")
            self.assertEqual(self.train(endpoint, DIGITS_FAIL="exit:" + flag).returncode, 1)
            self.assertEqual(self.train(endpoint, DIGITS_FAIL="exit").returncode, 1)
            self.assertEqual(self.train(endpoint, DIGITS_FAIL="silent").returncode, 0)
            self.assertEqual([d["status"] for d in endpoint.taken()], ["completed", "failed", "failed"])

    def test_training_lasts_as_long_as_asked(self):
        with Endpoint() as endpoint, mock.patch.dict(os.environ, variables(
                endpoint.url, DIGITS_TRAIN_SECONDS="1000", MODEL_URL=self.out, TRAIN_DATASET_URL=self.data)):
            train = load_script("train.py")
            with mock.patch.object(train.time, "sleep") as sleep:
                train.work(worker.Worker("train"))
        self.assertTrue(900 < sleep.call_args_list[0].args[0] <= 1000)

    def test_remote_urls_are_refused(self):
        with Endpoint() as endpoint:
            done = self.train(endpoint, MODEL_URL="s3://bucket/out")
        self.assertEqual(done.returncode, 1)
        self.assertIn("local paths only", done.stderr)

    def test_nothing_to_evaluate_with_is_no_error(self):
        with Endpoint() as endpoint:
            done = script("eval.py", env=variables(endpoint.url, MODEL_URLS=f"{self.base};{self.base}",
                                                   TEST_DATASET_URL=self.write("", "empty.txt")))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([r["metrics"] for r in endpoint.next()[1]["results"]], [{"samples": 0}] * 2)


def load_script(name):
    spec = importlib.util.spec_from_file_location("script_" + name[:-3], os.path.join(CODE, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class InferTest(Folder):
    def setUp(self):
        super().setUp()
        s = stream.Stream()
        self.data = self.write("".join(map(s.line, s.held_out)), "held-out.txt")
        self.endpoint = Endpoint()
        self.endpoint.__enter__()
        self.addCleanup(self.endpoint.__exit__)

    def start(self, **more):
        env = variables(self.endpoint.url, WORKER_NAME="inferworker-abcde", MODEL_URL=self.path("m.npz"), DIGITS_INPUT=self.data, **more)
        process = subprocess.Popen(["/usr/bin/python3", "-B", os.path.join(CODE, "infer.py")], env=env,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def line_with(self, process, text):
        for line in process.stderr:
            if text in line:
                return line
        self.fail(f"infer.py ended without saying {text!r}")

    def end(self, process):
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 0)

    def test_waits_for_its_model_serves_counts_and_ends(self):
        process = self.start(HEM_PARAMETERS='[{"key":"threshold","value":"1.1"}]')
        self.line_with(process, "waiting for model")
        model.save(model.new_network(), self.path("m.npz"))
        self.assertIn(model.sha256_of(self.path("m.npz")), self.line_with(process, "serving model"))
        path, document = self.endpoint.next()
        self.assertEqual(path, "/sedna/workers/inferworker-abcde/info")
        self.assertEqual((document["kind"], document["results"], "status" in document), ("inference", [], False))
        info = document["ownerInfo"]
        self.assertEqual((info["inferenceNumber"], info["hardExampleNumber"], info["uploadCloudRatio"]), (150, 150, 1.0))
        self.assertTrue(info["startTime"] <= info["updateTime"])
        self.end(process)

    def test_counters_come_again_and_again(self):
        model.save(model.new_network(), self.path("m.npz"))
        process = self.start(DIGITS_REPORT_SECONDS="1")
        self.assertEqual([self.endpoint.next()[1]["kind"] for _ in range(2)], ["inference"] * 2)
        self.end(process)

    def test_ends_while_waiting(self):
        process = self.start()
        self.line_with(process, "waiting for model")
        self.end(process)

    def config(self, file, version):
        beside = self.write(json.dumps({"model_config": {"model_path": f"/model-hot-update/{file}", "model_update_time": version}}), "hot", "t")
        os.replace(beside, self.path("hot", "model_config.json"))

    def deploy_report(self):
        while True:
            document = self.endpoint.next()[1]
            if document["kind"] == "deploy":
                return document

    def test_hot_update(self):
        model.save(model.new_network(), self.path("m.npz"))
        os.makedirs(self.path("hot"))
        process = self.start(MODEL_HOT_UPDATE="true", MODEL_HOT_UPDATE_CONFIG=self.path("hot", "model_config.json"),
                             MODEL_POLL_PERIOD_SECONDS="1")
        first = self.line_with(process, "serving model")
        network = model.new_network()
        network.arrays["b2"] += 1.0
        model.save(network, self.path("hot", "new.npz"))
        self.config("new.npz", "1")
        self.assertEqual(self.deploy_report()["status"], "completed")
        second = self.line_with(process, "serving model")
        self.assertIn(model.sha256_of(self.path("hot", "new.npz")), second)
        self.assertNotEqual(first, second)
        self.config("missing.npz", "2")
        self.assertEqual(self.deploy_report()["status"], "failed")
        self.line_with(process, "the old one goes on serving")
        self.end(process)


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
    result = unittest.TextTestRunner(verbosity=2, stream=sys.stdout).run(unittest.defaultTestLoader.loadTestsFromModule(sys.modules[__name__]))
    # A subtest that failed counts for the test it is part of.
    failed = len({str(getattr(test, "test_case", test)) for test, _ in result.failures + result.errors})
    print(f"{result.testsRun - failed} passed, {failed} failed")
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
