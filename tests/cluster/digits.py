"""The example's job on digits: with dataset, models and output at a store for S3, or in a folder of the node; its workers are pods.

    digits = Digits(Store(world))
    digits.prepare()              the initial model, the first samples' file, the held-out ones
    digits.manifests(pods_on)     what kubectl applies
    digits.feed()                 a batch of 200 samples more
    digits.lost()                 (samples fed, samples that are in no round); fails if one is in two
"""

import collections
import os
import subprocess

import yaml

from agents import ROOT, Process, program, until
from bed import NODE_ADDRESS, WORK

CODE = ROOT / "examples" / "digits"


class Store:
    """A real one, on an address that the device and the pods reach; its objects are files below folder."""

    key, secret, port = "cluster-key", "cluster-secret/with+signs=", 7070

    def __init__(self, world):
        self.folder = WORK / "store"
        self.folder.mkdir()
        (WORK / "iam").mkdir()
        self.process = world.add(Process(world, "store", [os.environ["ILMARE_TEST_S3"], "--access", self.key, "--secret", self.secret, "--port",
                                                          f"{NODE_ADDRESS}:{self.port}", "--iam-dir", WORK / "iam", "posix", self.folder])).start()
        until(lambda: self.ask().returncode == 0, lambda: f"the store answers:\n{self.process.tail()}")
        made = self.ask("-X", "PUT", "--user", f"{self.key}:{self.secret}", "--aws-sigv4", "aws:amz:us-east-1:s3", "-H",
                        "x-amz-content-sha256: UNSIGNED-PAYLOAD", path="/bucket", fail=True)
        assert made.returncode == 0, made

    def ask(self, *options, path="", fail=False):
        return subprocess.run(["curl", "-s", *(["-f"] if fail else []), "-o", "/dev/null", *options, f"http://{NODE_ADDRESS}:{self.port}{path}"])

    def env(self):
        return {"S3_ENDPOINT_URL": f"http://{NODE_ADDRESS}:{self.port}", "ACCESS_KEY_ID": self.key, "SECRET_ACCESS_KEY": self.secret}


class Digits:
    """With a store all is there; without one it is below home, a folder of the node that the pods run on."""

    def __init__(self, store=None, home=None, device="edge-1", ns="default"):
        self.store, self.home, self.device, self.ns = store, home or WORK / "digits", device, ns
        self.where = ["--store", "s3://bucket/digits"] if store else []
        self.output = (store.folder / "bucket" / "digits" if store else self.home) / "output"

    def script(self, name, *arguments):
        done = subprocess.run(["/usr/bin/python3", "-B", CODE / name, *map(str, arguments)], capture_output=True, text=True,
                              env={**os.environ, **(self.store.env() if self.store else {}), "DIGITS_TRANSFER": program("ilmare-transfer")})
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def prepare(self):
        self.script("make_initial.py", self.home, *self.where)

    def feed(self):
        self.script("feed.py", self.home / "data" / "samples.txt", *(["--store", "s3://bucket/digits/data/samples.txt"] if self.store else []))

    def manifests(self, pods_on, seconds=0):
        """The example's own, with what is a cluster's: an image, and the node on which the pods run."""
        transfer = ["--transfer", "/usr/sbin/ilmare-transfer"] if self.store else []
        text = self.script("render.py", self.home, *self.where, *transfer, "--code", "/digits", "--node", self.device, "--train-seconds", seconds)
        things = list(yaml.safe_load_all(text))
        for each in things:
            each["metadata"]["namespace"] = self.ns
        for part in ("trainSpec", "evalSpec", "deploySpec"):
            spec = things[-1]["spec"][part]["template"]["spec"]
            spec["nodeName"] = pods_on
            for container in spec["containers"]:
                container["image"] = "worker:test"
                for each in container.get("env", []):
                    if each["name"] == "DIGITS_INPUT":
                        each["value"] = "/digits/held-out.txt"
        return yaml.safe_dump_all(things)

    def lost(self):
        """(samples fed, samples that are in no round)."""
        fed = collections.Counter((self.home / "data" / "samples.txt").read_text().splitlines())
        found = collections.Counter()
        for folder in (self.output / "data" / "train").iterdir():
            for name in ("data.txt", "eval.txt"):
                if (folder / name).exists():
                    found.update((folder / name).read_text().splitlines())
        twice = found - fed
        assert not twice, f"{sum(twice.values())} samples are in more than one round"
        return sum(fed.values()), sum((fed - found).values())
