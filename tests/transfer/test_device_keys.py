#!/usr/bin/python3
"""A device that has no keys of its own: it gets them of a Secret, over TLS, and goes on with the new ones when they are replaced, whatever it is doing."""

import json
import os
import sys

from bed import Case, clean_env, main, program
from agents import until

sys.path.insert(0, str(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "security")))

from lab import SecureBroker, canary, files_below  # noqa: E402
from test_nodes import WORKER  # noqa: E402


class Keys(Case):
    def setUp(self):
        super().setUp()
        self.store = self.strict("bucket", "data")
        self.store.region = "us-east-1"  # of whoever is told no other one: workers, too
        self.broker = SecureBroker(self.world)
        self.edge = self.broker.edge("edge-1", env=clean_env({}), dataset_look_period="100ms",
                                     dataset_check_on_arrival="true")
        self.cloud = self.broker.cloud(self.edge)
        self.cloud.env = clean_env({})
        self.broker.start()
        self.topics = self.world.topics(self.broker, "ilmare/v1/ns/#")
        self.store.objects["bucket", "initial.bin"] = self.store.objects["bucket", "serve.bin"] = b"what was there first"

    def rotate(self):
        """From now on the store knows no other key."""
        self.store.key, self.store.secret = f"key-{len(self.secrets)}", canary()
        self.secrets.append(self.store.secret)

    secrets = ()

    def tell(self):
        """The Secret has the keys that the store knows."""
        def thing(kind, name, spec):
            return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}

        def template(name, command):
            return {"spec": {"nodeName": "edge-1", "containers": [{"name": name, "command": command, "workingDir": str(self.path)}]}}
        script = str(self.file("worker.py", WORKER.encode()))
        worker = lambda kind: template(kind, ["/usr/bin/python3", "-B", script, kind, program("ilmare-transfer")])
        trigger = lambda metric: {"checkPeriodSeconds": 1, "condition": {"operator": ">", "threshold": 0, "metric": metric}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default", "annotations": {
            "s3-endpoint": f"127.0.0.1:{self.store.port}", "s3-usehttps": "0"}},
            "stringData": {"ACCESS_KEY_ID": self.store.key, "SECRET_ACCESS_KEY": self.store.secret}}
        objects = [secret, thing("Dataset", "d", {"url": "s3://data/samples.txt", "format": "txt", "nodeName": "edge-1", "credentialName": "keys"}),
                   thing("Model", "initial", {"url": "s3://bucket/initial.bin", "format": "bin", "credentialName": "keys"}),
                   thing("Model", "serve", {"url": "s3://bucket/serve.bin", "format": "bin", "credentialName": "keys"}),
                   thing("IncrementalLearningJob", "j", {
                       "initialModel": {"name": "initial"}, "dataset": {"name": "d", "trainProb": 0.5},
                       "trainSpec": {"template": worker("train"), "trigger": trigger("num_of_samples")}, "evalSpec": {"template": worker("eval")},
                       "deploySpec": {"model": {"name": "serve"}, "trigger": trigger("accuracy_delta"), "template": template("i", ["/bin/sleep", "1000"])},
                       "outputDir": "s3://bucket/out", "credentialName": "keys"})]
        new = self.cloud.manifests / "new"
        new.touch(0o600)
        new.write_text("---\n".join(json.dumps(each) + "\n" for each in objects))
        new.rename(self.cloud.manifests / "all.yaml")

    def grow(self, number):
        self.store.objects["data", "samples.txt"] = b"".join(b"sample %d\n" % i for i in range(10 * number))

    def over(self, number):
        """Its workers too: what they fetch is not what this is about."""
        self.topics.wait(lambda m: m.topic.endswith("/job/j/state") and m.document and m.document["round"] == number + 1, f"round {number} is over", patience=60)

    def refuses(self, pattern, since):
        """The device meets the store's refusal, and says so."""
        self.topics.wait(lambda m: m.topic.endswith("/status") and m.document and pattern in m.document.get("error", ""), pattern, since)

    def test_keys_that_are_replaced(self):
        self.secrets = []
        self.rotate()
        self.grow(1)
        self.edge.start()
        self.tell()
        self.cloud.start()
        self.over(1)
        for number in (2, 3):
            # Revoked before anybody tells the device.
            since = self.topics.mark()
            self.rotate()
            self.grow(number)
            self.refuses("InvalidAccessKeyId", since)
            self.tell()
            self.over(number)
        samples = [line for number in (1, 2, 3) for what in ("data", "eval")
                   for line in self.store.objects["bucket", f"out/data/train/{number}/{what}.txt"].splitlines()]
        self.assertEqual(sorted(samples), sorted(self.store.objects["data", "samples.txt"].splitlines()))
        for secret in self.secrets:
            for agent in (self.edge, self.cloud):
                self.assertNotIn(secret, agent.text())
            for file, data, _ in files_below(self.edge.state):
                self.assertNotIn(secret.encode(), data, file)

    def test_keys_that_are_replaced_in_the_middle(self):
        """Of whatever it is doing: what is under way began with the old ones."""
        self.secrets = []
        self.rotate()
        self.grow(1)
        self.edge.start()
        self.tell()
        self.cloud.start()
        self.over(1)
        for number in range(2, 6):
            self.grow(number)
            self.rotate()
            self.tell()
            self.over(number)
        self.assertEqual(self.store.objects["bucket", "serve.bin"], self.store.objects["bucket", "out/train/5/model.bin"])


if __name__ == "__main__":
    main()
