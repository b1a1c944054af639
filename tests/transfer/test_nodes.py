#!/usr/bin/python3
"""Hot update on another node than the one that trains and evaluates: what they share is an object store."""

import json

from bed import Case, clean_env, main, program
from agents import until, worker_name

WORKER = r"""
import json, os, subprocess, sys, urllib.request
kind, env = sys.argv[1], os.environ
if kind == "train":
    open("model.bin", "w").write(env["WORKER_NAME"])
    subprocess.run([sys.argv[2], "put", "model.bin", env["MODEL_URL"] + "/model.bin"], check=True, stdout=subprocess.DEVNULL)
    results = [{"format": "bin", "url": env["MODEL_URL"] + "/model.bin", "metrics": {}}]
else:
    results = [{"format": "bin", "url": url, "metrics": {"accuracy": value}} for url, value in zip(env["MODEL_URLS"].split(";"), (0.9, 0.5))]
body = {"name": env["WORKER_NAME"], "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"], "ownerKind": "incrementallearningjob", "kind": kind,
        "status": "completed", "results": results}
request = urllib.request.Request(f"{env['LC_SERVER']}/sedna/workers/{env['WORKER_NAME']}/info", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
json.load(urllib.request.urlopen(request, timeout=10))
"""


class Nodes(Case):
    def manifests(self, cloud):
        def thing(kind, name, spec):
            return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}

        def template(name, node, command):
            return {"spec": {"nodeName": node, "containers": [{"name": name, "command": command, "workingDir": str(self.path)}]}}
        script = str(self.file("worker.py", WORKER.encode()))
        worker = lambda kind: template(kind, "edge-1", ["/usr/bin/python3", "-B", script, kind, program("ilmare-transfer")])
        trigger = lambda metric: {"checkPeriodSeconds": 1, "condition": {"operator": ">", "threshold": 0, "metric": metric}}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": "default", "annotations": {
            "s3-endpoint": self.env["S3_ENDPOINT_URL"].removeprefix("http://"), "s3-usehttps": "0"}},
            "stringData": {key: self.env[key] for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}}
        objects = [secret, thing("Dataset", "d", {"url": "s3://bucket/samples.txt", "format": "txt", "nodeName": "edge-1", "credentialName": "keys"}),
                   thing("Model", "initial", {"url": "s3://bucket/initial.bin", "format": "bin", "credentialName": "keys"}),
                   thing("Model", "serve", {"url": "s3://bucket/serve.bin", "format": "bin", "credentialName": "keys"}),
                   thing("IncrementalLearningJob", "j", {
                       "initialModel": {"name": "initial"}, "dataset": {"name": "d", "trainProb": 0.8},
                       "trainSpec": {"template": worker("train"), "trigger": trigger("num_of_samples")}, "evalSpec": {"template": worker("eval")},
                       "deploySpec": {"model": {"name": "serve", "hotUpdateEnabled": True, "pollPeriodSeconds": 1}, "trigger": trigger("accuracy_delta"),
                                      "template": template("i", "edge-2", ["/bin/sleep", "1000"])},
                       "outputDir": "s3://bucket/out", "credentialName": "keys"})]
        new = cloud.manifests / "new"
        new.touch(0o600)
        new.write_text("---\n".join(json.dumps(each) + "\n" for each in objects))
        new.rename(cloud.manifests / "all.yaml")

    def test_a_hot_update_elsewhere(self):
        store = self.gateway()
        broker = self.world.broker()
        topics = self.world.topics(broker)
        root = self.path / "root-of-edge-2"
        root.mkdir()
        near = self.world.edge(broker, node="edge-1", env=clean_env(self.env), dataset_look_period="100ms")
        far = self.world.edge(broker, node="edge-2", env=clean_env(self.env), root_dir=root)
        cloud = self.world.cloud(broker, near, start=False, env=clean_env({}))
        for name in ("initial.bin", "serve.bin"):
            self.good("put", self.file(name, name.encode()), f"s3://bucket/{name}")
        self.manifests(cloud)
        cloud.start()
        uid = topics.wait(lambda m: m.topic == "ilmare/v1/node/edge-2/job/default/j" and m.document, "edge-2 has a part in the job").document["job"]["uid"]
        folder = root / "var/lib/sedna/model-hot-update/default/incrementallearningjob/j"
        times = []
        for number in (1, 2):
            lines = b"".join(b"s%d\n" % i for i in range(10 * number))
            self.good("put", self.file("samples.txt", lines), "s3://bucket/samples.txt")
            topics.wait(lambda m: m.topic.endswith("/node/edge-2/deploy/written") and m.document["position"]["round"] == number, f"round {number} is in place",
                        patience=60)
            config = json.loads((folder / "model_config.json").read_text())["model_config"]
            self.assertEqual(config["model_path"], "/model-hot-update/model.bin")
            times.append(config["model_update_time"])
            expected = (store.folder / "bucket" / "out" / "train" / str(number) / "model.bin").read_bytes()
            self.assertEqual((folder / "model.bin").read_bytes(), expected)
            self.assertEqual((store.folder / "bucket" / "serve.bin").read_bytes(), expected)
            body = {"namespace": "default", "ownerName": "j", "ownerKind": "incrementallearningjob", "kind": "deploy", "status": "completed", "results": []}
            self.assertEqual(far.post(worker_name("inference", uid, 0), body)[0], 200)
            topics.wait(lambda m: m.topic.endswith("/job/j/state") and m.document and m.document["round"] == number + 1, f"round {number} ends", patience=60)
        self.assertEqual(len(set(times)), 2)
        self.assertFalse((root / "var/lib/ilmare").exists())
        until(lambda: not any((far.state / "remote" / "deploys").iterdir()), "nothing of it is left")


if __name__ == "__main__":
    main()
