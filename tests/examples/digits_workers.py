"""Tests of the workers of examples/digits: reports, paths, model file, train.py, eval.py and infer.py, each as a process."""

import json
import os
import signal
import subprocess
import unittest
from unittest import mock

from digits_support import CODE, Endpoint, Folder, load_script, script, variables

import model
import stream
import worker


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

    def test_other_shapes_are_refused(self):
        path = self.path("m.npz")
        arrays = dict(model.new_network().arrays)
        for name, value in (("w1", model.np.zeros((32, 64))), ("b1", model.np.zeros(3)), ("b2", model.np.full(10, model.np.nan))):
            model.np.savez(path, **{**arrays, name: value})
            with self.assertRaises(worker.WorkerError):
                model.load(path)

    def test_a_pickle_in_the_file_is_not_run(self):
        class Evil:
            def __init__(self, folder):
                self.folder = folder

            def __reduce__(self):
                return os.mkdir, (self.folder,)

        model.np.savez(self.path("m.npz"), **{**model.new_network().arrays, "w1": model.np.array([Evil(self.path("made"))])})
        with self.assertRaises(worker.WorkerError):
            model.load(self.path("m.npz"))
        self.assertFalse(os.path.exists(self.path("made")))

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

    def test_nothing_to_evaluate_with_is_no_error(self):
        with Endpoint() as endpoint:
            done = script("eval.py", env=variables(endpoint.url, MODEL_URLS=f"{self.base};{self.base}",
                                                   TEST_DATASET_URL=self.write("", "empty.txt")))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([r["metrics"] for r in endpoint.next()[1]["results"]], [{"samples": 0}] * 2)


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
        self.assertEqual(self.kinds(2), ["inference"] * 2)
        self.end(process)

    def test_ends_while_waiting(self):
        process = self.start()
        self.line_with(process, "waiting for model")
        self.end(process)

    def config(self, file, version):
        named = {"model_path": f"/model-hot-update/{file}", "model_update_time": version}
        beside = self.write(json.dumps({"model_config": named}), "hot", "t")
        os.replace(beside, self.path("hot", "model_config.json"))

    def kinds(self, count):
        return [self.endpoint.next()[1]["kind"] for _ in range(count)]

    def deploy_report(self):
        while True:
            document = self.endpoint.next()[1]
            if document["kind"] == "deploy":
                return document

    def test_hot_update(self):
        model.save(model.new_network(), self.path("m.npz"))
        os.makedirs(self.path("hot"))
        process = self.start(MODEL_HOT_UPDATE="true", MODEL_HOT_UPDATE_CONFIG=self.path("hot", "model_config.json"),
                             MODEL_POLL_PERIOD_SECONDS="1", DIGITS_REPORT_SECONDS="1")
        first = self.line_with(process, "serving model")
        network = model.new_network()
        network.arrays["b2"] += 1.0
        model.save(network, self.path("hot", "new.npz"))
        self.config("new.npz", "1")
        self.assertEqual(self.deploy_report()["status"], "completed")
        second = self.line_with(process, "serving model")
        self.assertIn(model.sha256_of(self.path("hot", "new.npz")), second)
        self.assertNotEqual(first, second)
        self.assertEqual(self.kinds(3), ["inference"] * 3, "loaded again though nothing has changed")
        self.config("missing.npz", "2")
        self.assertEqual(self.deploy_report()["status"], "failed")
        self.line_with(process, "the old one goes on serving")
        self.end(process)
