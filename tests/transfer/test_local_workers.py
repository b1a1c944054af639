#!/usr/bin/python3
"""The local backend: what a worker reads is fetched from a real store before the worker starts."""

import types

from bed import Case, main, until
from whole import Whole


class LocalWorkers(Case):
    def setUp(self):
        super().setUp()
        self.store = self.gateway("models", "other")
        self.broker = self.world.broker()
        self.cloud = self.world.cloud(self.broker)
        self.edge = types.SimpleNamespace(node="edge-1")

    def secret(self, **values):
        data = {"ACCESS_KEY_ID": self.store.key, "SECRET_ACCESS_KEY": self.store.secret, **values}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store", "namespace": "default", "annotations": {
            "s3-endpoint": f"127.0.0.1:{self.store.port}", "s3-usehttps": "0"}}, "stringData": data}

    def job(self, url, secret=None, command=None):
        """A job whose deployed model is there; its inference worker prints what it has and stays."""
        whole = Whole(self.world, self.broker, self.edge, self.cloud, secret=secret or self.secret())
        serve = command or ["/bin/sh", "-c", 'cat "$MODEL_URL" && echo "$MODEL_URL" && exec sleep 1000000']

        def change(objects):
            objects["Model/deploy"]["spec"]["url"] = url
            objects["Model/deploy"]["spec"]["credentialName"] = "store"
            objects["IncrementalLearningJob/j"]["spec"]["deploySpec"]["template"]["spec"]["containers"][0]["command"] = serve
        whole.write(change)
        return whole

    def log(self):
        """What the worker, and what fetched for it, printed."""
        return "".join(path.read_text() for path in (self.cloud.state / "logs").glob("*.log"))

    def put(self, bucket, key, data):
        path = self.store.folder / bucket / key
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)

    def test_a_model_of_the_store(self):
        self.put("models", "a b/serve+1.bin", b"the model\n")
        self.job("s3://models/a b/serve+1.bin")
        until(lambda: "/downloads/models/a b/serve+1.bin\n" in self.log(), self.log)
        self.assertIn("the model\n", self.log())
        folder, = (self.cloud.state / "pods").iterdir()
        self.assertEqual((folder / "downloads/models/a b/serve+1.bin").read_bytes(), b"the model\n")
        self.assertEqual((folder.stat().st_mode & 0o777, (folder / "spec.json").stat().st_mode & 0o777), (0o700, 0o600))
        held = [p for p in self.cloud.state.rglob("*") if p.is_file() and self.store.secret.encode() in p.read_bytes()]
        self.assertEqual(held, [folder / "spec.json"])

    def test_an_archive_and_a_folder(self):
        self.put("models", "m/weights", b"w\n")
        self.put("models", "m/more/labels", b"l\n")
        self.job("s3://models/m", command=["/bin/sh", "-c", 'cat "$MODEL_URL/weights" "$MODEL_URL/more/labels"; echo all; exec sleep 1000000'])
        until(lambda: "w\nl\nall\n" in self.log(), self.log)

    def test_a_failure_shows(self):
        """What is not there keeps the worker from starting, and is said."""
        self.job("s3://models/late.bin")
        self.cloud.wait_log(r"what a worker reads cannot be fetched; it is tried again pod=j-inference-\S+ exit=3 restarts=0")
        self.assertIn("s3://models/late.bin", self.log())
        self.assertNotIn("/downloads/models/late.bin\n", self.log())

    def test_a_wrong_key(self):
        self.put("models", "serve.bin", b"x\n")
        self.job("s3://models/serve.bin", secret=self.secret(SECRET_ACCESS_KEY="wrong"))
        self.cloud.wait_log(r"cannot be fetched; it is tried again pod=\S+ exit=4")


if __name__ == "__main__":
    main()
