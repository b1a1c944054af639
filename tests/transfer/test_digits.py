#!/usr/bin/python3
"""The digits example's scripts with a real store: what they prepare, feed and train ends up there, and reads back."""

import os
import pathlib
import shutil
import subprocess
import sys

from bed import Case, clean_env, main, program

EXAMPLES = pathlib.Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

from digits_support import CODE, Endpoint, model, variables  # noqa: E402


class Digits(Case):
    def setUp(self):
        super().setUp()
        self.store = self.gateway("digits")
        self.env["DIGITS_TRANSFER"] = program("ilmare-transfer")
        self.home = self.path / "home"

    def script(self, name, *arguments, env=None):
        done = subprocess.run(["/usr/bin/python3", "-B", os.path.join(CODE, name), *map(str, arguments)], env=env or clean_env(self.env),
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def worker(self, name, **urls):
        with Endpoint() as endpoint:
            self.script(name, env=variables(endpoint.url, **self.env, **{key: str(url) for key, url in urls.items()}))
            return endpoint.next()[1]["results"]

    def test_a_round(self):
        self.script("make_initial.py", self.home, "--store", "s3://digits/a b")
        self.script("feed.py", self.home / "data" / "samples.txt", "--count", "40", "--images", "--store", "s3://digits/a b/data/samples.txt")
        there = self.store.folder / "digits" / "a b"
        self.assertEqual((there / "data" / "samples.txt").read_bytes(), (self.home / "data" / "samples.txt").read_bytes())
        self.assertEqual(self.left(there / "models"), ["deploy.npz", "initial.npz"])
        # What the agents write, and what is fetched for the worker.
        lines = (there / "data" / "samples.txt").read_text().splitlines()
        round_folder = there / "output" / "data" / "train" / "1"
        round_folder.mkdir(parents=True)
        (round_folder / "data.txt").write_text("\n".join(lines) + "\n")
        (round_folder / "dataIndex.txt").write_text("\n".join(["s3://digits/a b/data", *(line.split()[1] for line in lines)]) + "\n")
        downloads = self.path / "downloads"
        urls = ["s3://digits/a b/models/initial.npz", "s3://digits/a b/output/data/train/1/data.txt"]
        pairs = [word for url in urls for word in (url, str(downloads / os.path.dirname(url[5:])))]
        index = "digits/a b/output/data/train/1/dataIndex.txt"
        self.good(*pairs, f"@s3://{index}", downloads / os.path.dirname(index))
        shutil.rmtree(self.home / "data")  # nothing of it is read
        (result,) = self.worker("train.py", BASE_MODEL_URL=downloads / urls[0][5:], TRAIN_DATASET_URL=downloads / urls[1][5:],
                                ORIGINAL_DATASET_URL=downloads / index, MODEL_URL="s3://digits/a b/output/train/1")
        self.assertEqual(result["url"], "s3://digits/a b/output/train/1/model.npz")
        self.assertEqual(result["metrics"]["samples"], 40)
        model.load(there / "output" / "train" / "1" / "model.npz")
        # Again, after a crash say: the same object.
        before = (there / "output" / "train" / "1" / "model.npz").read_bytes()
        self.worker("train.py", BASE_MODEL_URL=downloads / urls[0][5:], TRAIN_DATASET_URL=downloads / urls[1][5:],
                    ORIGINAL_DATASET_URL=downloads / index, MODEL_URL="s3://digits/a b/output/train/1")
        self.assertEqual((there / "output" / "train" / "1" / "model.npz").read_bytes(), before)


if __name__ == "__main__":
    main()
