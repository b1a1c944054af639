#!/usr/bin/python3
"""The digits example with dataset, models, and everything that the job writes at an object store: both agents, real workers, a real store."""

import os
import subprocess
import sys

from bed import Case, clean_env, main, program
from agents import PATIENCE, ROOT

DIGITS = ROOT / "examples" / "digits"
sys.path.insert(0, str(DIGITS))


class Digits(Case):
    def script(self, name, *arguments):
        done = subprocess.run(["/usr/bin/python3", "-B", DIGITS / name, *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE * 5,
                              env=clean_env({**self.env, "DIGITS_TRANSFER": program("ilmare-transfer")}))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def right(self, model):
        """How many of the samples that are never fed the model is right about."""
        from model import Model, read_samples  # needs numpy
        x, y = read_samples(self.home / "data" / "held_out.txt")
        return float((Model.load(model).predict(x) == y).mean())

    def test_three_rounds_and_back(self):
        store = self.gateway()
        url, self.home = "s3://bucket/digits", self.path / "digits"
        broker = self.world.broker()
        topics = self.world.topics(broker)
        edge = self.world.edge(broker, env=clean_env(self.env), dataset_look_period="200ms")
        cloud = self.world.cloud(broker, edge, start=False, env=clean_env({}), local_stop_workers="true")
        self.script("make_initial.py", self.home, "--store", url)
        manifest = self.script("render.py", self.home, "--store", url, "--transfer", program("ilmare-transfer"))
        (cloud.manifests / "digits.yaml").write_text(manifest)
        os.chmod(cloud.manifests / "digits.yaml", 0o600)
        cloud.start()
        data = self.home / "data" / "samples.txt"
        serving = store.folder / "bucket" / "digits" / "models" / "deploy.npz"
        first = serving.read_bytes()
        for number, more in ((1, ["--images"]), (2, ["--scramble"]), (3, [])):
            self.script("feed.py", data, "--store", f"{url}/data/samples.txt", *more)
            state = topics.wait(lambda m: m.topic.endswith("/job/digits/state") and m.document and m.document["round"] == number + 1,
                                lambda: f"round {number} ends:\n{edge.tail()}\n{cloud.tail()}", patience=PATIENCE * 3).document
            self.assertEqual(state["deployed"]["round"], 1 if number < 3 else 3)
        self.assertNotEqual(serving.read_bytes(), first)
        output = store.folder / "bucket" / "digits" / "output"
        self.assertEqual(serving.read_bytes(), next((output / "train" / "3").glob("*.npz")).read_bytes())
        self.assertGreater(len((output / "data" / "train" / "1" / "dataIndex.txt").read_text().splitlines()), 100)
        # Back to what was there first, and to round 1, by an annotation.
        for back, expected in ((0, first), (1, next((output / "deployed" / "1").glob("*.npz")).read_bytes())):
            (cloud.manifests / "new").write_text(manifest.replace("kind: IncrementalLearningJob\nmetadata:\n", "kind: IncrementalLearningJob\nmetadata:\n"
                                                                  f"  annotations:\n    ilmare/rollback-to: \"{back}\"\n"))
            (cloud.manifests / "new").rename(cloud.manifests / "digits.yaml")
            number += 1
            topics.wait(lambda m: m.topic.endswith("/job/digits/state") and m.document and m.document.get("deployed", {}).get("round") == number,
                        f"back to {back}", patience=PATIENCE * 3)
            self.assertEqual(serving.read_bytes(), expected)


if __name__ == "__main__":
    main()
