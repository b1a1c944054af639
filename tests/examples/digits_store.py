"""Tests of examples/digits with an object store. What sends files is a stand-in here, which keeps objects as files of a folder; with the real
program and a real store it is tests/transfer/test_digits.py.
"""

import os

import yaml

from digits_support import Endpoint, Folder, read_lines, script, variables

import model
import worker

STAND_IN = """#!/usr/bin/python3 -B
import json, os, pathlib, shutil, sys
if "KEY" in " ".join(sys.argv) or not os.environ.get("SECRET_ACCESS_KEY"):
    sys.exit(99)
command, *words = sys.argv[1:]
if os.path.exists("{home}/down"):
    print(json.dumps({{"event": "error", "code": "network", "exit": 6, "message": "nobody is there"}}))
    sys.exit(6)
new = words[0] == "--new"
source, target = words[new:]
assert target.startswith("s3://")
target = pathlib.Path("{home}/objects", target[5:])
if new and target.exists():
    sys.exit(14)
with open("{home}/sent", "a") as sent:
    sent.write(f"{{command}} {{words[-1]}}\\n")
target.parent.mkdir(parents=True, exist_ok=True)
(shutil.copytree if command == "put-folder" else shutil.copy)(source, target)
print(json.dumps({{"event": "done"}}))
"""


class Store(Folder):
    def setUp(self):
        super().setUp()
        self.program = self.write(STAND_IN.format(home=self.home), "transfer")
        os.chmod(self.program, 0o755)
        self.env = {"DIGITS_TRANSFER": self.program, "S3_ENDPOINT_URL": "http://store:9000", "ACCESS_KEY_ID": "KEY-id",
                    "SECRET_ACCESS_KEY": 'KEY"secret'}

    def object(self, *parts):
        return self.path("objects", *parts)

    def good(self, name, *arguments):
        done = script(name, *arguments, env={"PATH": "/usr/bin:/bin", **self.env})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def sent(self):
        return read_lines(self.path("sent"))


class WorkersTest(Store):
    def setUp(self):
        super().setUp()
        self.good("feed.py", self.path("d.txt"), "--count", "50")

    def train(self, endpoint, **more):
        given = {"TRAIN_DATASET_URL": self.path("d.txt"), "MODEL_URL": "s3://bucket/out/train/3", "TMPDIR": self.path("tmp"), **self.env,
                 **more}
        os.makedirs(self.path("tmp"), exist_ok=True)
        return script("train.py", env=variables(endpoint.url, **given))

    def test_the_model_is_sent_before_it_is_reported(self):
        with Endpoint() as endpoint:
            for url in ("s3://bucket/out/train/3", "s3://bucket/out/train/3/"):
                done = self.train(endpoint, MODEL_URL=url)
                self.assertEqual(done.returncode, 0, done.stderr)
                (result,) = endpoint.next()[1]["results"]
                self.assertEqual((result["format"], result["url"]), ("npz", "s3://bucket/out/train/3/model.npz"))
        model.load(self.object("bucket/out/train/3/model.npz"))
        self.assertEqual(os.listdir(self.path("tmp")), [])

    def test_a_store_that_is_away_fails_the_worker(self):
        self.write("", "down")
        with Endpoint() as endpoint:
            done = self.train(endpoint)
            self.assertEqual((done.returncode, endpoint.next()[1]["status"]), (1, "failed"))
        self.assertIn("nobody is there", done.stderr)
        self.assertNotIn("KEY", done.stderr)

    def test_without_the_program(self):
        with Endpoint() as endpoint:
            done = self.train(endpoint, DIGITS_TRANSFER=self.path("nowhere"))
        self.assertEqual(done.returncode, 1)
        self.assertIn("it is needed for s3:// urls", done.stderr)

    def test_other_remote_urls_are_refused(self):
        with Endpoint() as endpoint:
            self.assertIn("only local paths and s3://", self.train(endpoint, MODEL_URL="http://host/out").stderr)
            self.assertIn("local paths only", self.train(endpoint, TRAIN_DATASET_URL="s3://bucket/data.txt").stderr)


class ImagesTest(Store):
    """Samples that name the files of their images."""

    def setUp(self):
        super().setUp()
        self.data = self.path("data", "samples.txt")
        os.makedirs(self.path("data"))

    def feed(self, *more):
        return self.good("feed.py", self.data, "--count", "5", "--images", *more)

    def test_the_same_samples(self):
        self.feed()
        self.feed()
        self.good("feed.py", self.path("plain.txt"), "--count", "10")
        plain, images = model.read_samples(self.path("plain.txt")), model.read_samples(self.data, model.images_of(self.data))
        self.assertTrue((plain[0] == images[0]).all() and (plain[1] == images[1]).all())
        self.assertEqual(len(images[1]), 10)

    def test_images_are_in_the_store_before_the_samples_that_name_them(self):
        self.feed("--store", "s3://bucket/d/samples.txt")
        self.feed("--store", "s3://bucket/d/samples.txt")
        self.assertEqual(self.sent(), ["put-folder s3://bucket/d/images/0000\n", "put s3://bucket/d/samples.txt\n",
                                       "put-folder s3://bucket/d/images/0005\n", "put s3://bucket/d/samples.txt\n"])
        self.assertEqual(read_lines(self.object("bucket/d/samples.txt")), read_lines(self.data))
        for line in read_lines(self.data):
            model.read_image(self.object("bucket/d", line.split()[1]))

    def test_an_index(self):
        """As a worker of a remote dataset finds it: the index, and beside it what it names."""
        self.feed()
        names = [line.split()[1] for line in read_lines(self.data)]
        index = self.write("# made by a test\ns3://bucket/d\n" + "\n".join(names[:3]) + "\n# more\n" + " ".join(names[3:]), "data", "dataIndex.txt")
        self.assertEqual(model.read_index(index), ("s3://bucket/d", names))
        self.assertEqual(len(model.read_samples(self.data, model.images_of(index))[1]), 5)
        with Endpoint() as endpoint:
            given = {"TRAIN_DATASET_URL": self.data, "ORIGINAL_DATASET_URL": index, "MODEL_URL": self.path("out")}
            self.assertEqual(script("train.py", env=variables(endpoint.url, **given)).returncode, 0)
            self.assertEqual(endpoint.next()[1]["results"][0]["metrics"]["samples"], 5)
            given = {"TEST_DATASET_URL": self.data, "ORIGINAL_DATASET_URL": index, "MODEL_URLS": self.path("out", "model.npz")}
            self.assertEqual(script("eval.py", env=variables(endpoint.url, **given)).returncode, 0)
            self.assertEqual(endpoint.next()[1]["results"][0]["metrics"]["samples"], 5)
            os.remove(self.path("data", names[4]))
            done = script("train.py", env=variables(endpoint.url, TRAIN_DATASET_URL=self.data, ORIGINAL_DATASET_URL=index, MODEL_URL=self.path("o")))
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"1 of 5 files are not there, {names[4]}", done.stderr)

    def test_an_index_of_nothing_else(self):
        index = self.write("s3://bucket/d\n", "dataIndex.txt")
        self.assertEqual(model.read_index(index), ("s3://bucket/d", []))
        with self.assertRaises(worker.WorkerError):
            model.read_index(self.write("# only this\n", "empty.txt"))

    def test_names_that_lead_out_and_files_that_are_no_images(self):
        self.write("P2\n8 8\n16\n" + "1 " * 63, "data", "short.pgm")
        self.write("P5\n8 8\n16\n", "data", "other.pgm")
        good = self.write("P2\n# by hand\n8 8\n16\n" + "16 " * 64, "data", "good.pgm")
        lines = ["1 ../x.pgm", f"1 {good}", "1 short.pgm", "1 other.pgm", "x good.pgm", "7 good.pgm"]
        pixels, labels = model.read_samples(self.write("\n".join(lines), "data", "samples.txt"), self.path("data"))
        self.assertEqual((labels.tolist(), pixels.min()), ([7], 1.0))


class PreparationTest(Store):
    def test_make_initial_sends_and_keeps(self):
        self.good("make_initial.py", self.path("home"), "--store", "s3://bucket/d/")
        self.assertEqual(sorted(os.listdir(self.object("bucket/d/models"))), ["deploy.npz", "initial.npz"])
        self.assertEqual(os.path.getsize(self.object("bucket/d/data/samples.txt")), 0)
        self.write("kept", "objects/bucket/d/data/samples.txt")
        self.write("kept", "objects/bucket/d/models/deploy.npz")
        self.good("make_initial.py", self.path("home"), "--store", "s3://bucket/d")
        self.assertEqual(read_lines(self.object("bucket/d/models/deploy.npz")), ["kept"])
        self.good("make_initial.py", self.path("home"), "--store", "s3://bucket/d", "--force")
        model.load(self.object("bucket/d/models/deploy.npz"))
        self.assertEqual(read_lines(self.object("bucket/d/data/samples.txt")), ["kept"])

    def test_manifests(self):
        text = self.good("render.py", self.home, "--store", "s3://bucket/d/", "--transfer", "/opt/ilmare-transfer")
        self.assertNotIn("${", text)
        found = {(d["kind"], d["metadata"]["name"]): d for d in yaml.safe_load_all(text)}
        secret = found["Secret", "digits-store"]
        self.assertEqual(secret["metadata"]["annotations"], {"s3-endpoint": "store:9000", "s3-usehttps": "0"})
        self.assertEqual(secret["stringData"], {"ACCESS_KEY_ID": "KEY-id", "SECRET_ACCESS_KEY": 'KEY"secret'})
        job = found["IncrementalLearningJob", "digits"]["spec"]
        self.assertEqual(job["outputDir"], "s3://bucket/d/output")
        objects = [found["Dataset", "digits"]["spec"], found["Model", "digits-initial"]["spec"], found["Model", "digits-deploy"]["spec"]]
        self.assertEqual([each["url"] for each in objects], ["s3://bucket/d/data/samples.txt", "s3://bucket/d/models/initial.npz",
                                                             "s3://bucket/d/models/deploy.npz"])
        self.assertEqual({each["credentialName"] for each in [*objects, job]}, {"digits-store"})
        (container,) = job["trainSpec"]["template"]["spec"]["containers"]
        self.assertIn({"name": "DIGITS_TRANSFER", "value": "/opt/ilmare-transfer"}, container["env"])

    def test_both_manifests_tell_of_the_same_job(self):
        """But for the urls, the keys, and what sends the model."""
        specs = []
        for more in ((), ("--store", "s3://bucket/d")):
            documents = yaml.safe_load_all(self.good("render.py", self.home, *more).replace("s3://bucket/d/", self.home + "/"))
            found = {(d["kind"], d["metadata"]["name"]): d["spec"] for d in documents if d["kind"] != "Secret"}
            env = found["IncrementalLearningJob", "digits"]["trainSpec"]["template"]["spec"]["containers"][0]["env"]
            env[:] = [each for each in env if each["name"] != "DIGITS_TRANSFER"]
            for spec in found.values():
                spec.pop("credentialName", None)
            specs.append(found)
        self.assertEqual(*specs)

    def test_what_the_store_needs_is_named(self):
        self.env.pop("ACCESS_KEY_ID")
        done = script("render.py", self.home, "--store", "s3://bucket/d", env={"PATH": "/usr/bin:/bin", **self.env})
        self.assertEqual(done.returncode, 1)
        self.assertIn("ACCESS_KEY_ID", done.stderr)
        self.assertNotEqual(script("render.py", self.home, "--store", "/d").returncode, 0)
