"""Both agents with a broker between them, and a job whose workers do nothing but report: for what concerns the whole loop."""

import json
import pathlib

WORKER = r"""
import json, os, pathlib, sys, time, urllib.request
kind, metrics = sys.argv[1], json.loads(sys.argv[2])
env = os.environ
folder = pathlib.Path(sys.argv[3])
with open(folder / "started", "a") as started:
    started.write(env["WORKER_NAME"] + "\n")
told = json.loads((folder / "told").read_text()) if (folder / "told").exists() else {}
if told.get(kind) == "silent":
    sys.exit(0)
if told.get(kind) == "fail":
    print("the data makes no sense", file=sys.stderr)
    sys.exit(3)
metrics = told.get("metrics", metrics)
urls = [env["MODEL_URL"] + "/model.bin"] if kind == "train" else env["MODEL_URLS"].split(";")
if kind == "train":
    pathlib.Path(env["MODEL_URL"]).mkdir(parents=True, exist_ok=True)
    pathlib.Path(urls[0]).write_text(env["WORKER_NAME"])
while (folder / "hold").exists():
    time.sleep(0.01)
results = [{"format": "bin", "url": u, "metrics": {"accuracy": metrics[i]}} for i, u in enumerate(urls)]
body = {"name": env["WORKER_NAME"], "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"],
        "ownerKind": "incrementallearningjob", "kind": kind, "status": "completed", "results": results}
for attempt in range(1 if told.get(kind) == "hasty" else 60):
    before = time.monotonic()
    try:
        request = urllib.request.Request(f"{env['LC_SERVER']}/sedna/workers/{env['WORKER_NAME']}/info", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        json.load(urllib.request.urlopen(request, timeout=10))
        break
    except OSError:
        time.sleep(0.2)
else:
    sys.exit(0 if told.get(kind) == "hasty" else "nobody takes the result")
(folder / "posts").open("a").write(f"{kind} {before}\n")
"""


# Serves, in that it says so each time that the file of a hot update names another model.
HOT = r"""
import json, os, time, urllib.request
env, seen = os.environ, None
while True:
    try:
        with open(env["MODEL_HOT_UPDATE_CONFIG"]) as file:
            config = json.load(file)["model_config"]
    except OSError:
        config = None
    if config and config != seen:
        body = {"name": env["WORKER_NAME"], "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"],
                "ownerKind": "incrementallearningjob", "kind": "deploy", "status": "completed", "results": []}
        request = urllib.request.Request(f"{env['LC_SERVER']}/sedna/workers/{env['WORKER_NAME']}/info", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        try:
            json.load(urllib.request.urlopen(request, timeout=10))
            seen = config
        except OSError:
            pass
    time.sleep(0.05)
"""


class Whole:
    """metrics: accuracy of new and old model that each evaluation reports. Every 10 samples make a round. secret: a Secret manifest that the
    job names. hot: models are updated in place. never: workers that fail are not started again. name, data_name: of the job and of its
    Dataset. folder: where its data and models are. prefix: words before a worker's command. The inference worker leaves its environment in
    `environment`."""

    def __init__(self, world, broker, edge, cloud, metrics=(0.9, 0.5), secret=None, hot=False, never=False, name="j", data_name="d", folder="job",
                 prefix=()):
        self.world, self.broker, self.edge, self.cloud = world, broker, edge, cloud
        self.hot, self.never, self.name, self.data_name, self.prefix = hot, never, name, data_name, list(prefix)
        self.folder = world.path / folder
        self.environment, self.secret = self.folder / "environment", secret
        for name in ("data", "models", "output"):
            (self.folder / name).mkdir(parents=True)
        self.samples = self.folder / "data" / "samples.txt"
        self.samples.touch()
        for name in ("initial", "deploy"):
            (self.folder / "models" / f"{name}.bin").write_text(name)
        (world.path / "worker.py").write_text(WORKER)
        (world.path / "hot.py").write_text(HOT)
        self.topics = world.topics(broker)
        self.fed = 0
        self.metrics = list(metrics)
        self.write(lambda objects: None)

    def template(self, kind, metrics):
        command = [*self.prefix, "/usr/bin/python3", "-S", "-B", str(self.world.path / "worker.py"), kind, json.dumps(metrics), str(self.folder)]
        policy = {"restartPolicy": "Never"} if self.never else {}
        return {"spec": {"nodeName": self.edge.node, **policy, "containers": [{"name": kind, "command": command}]}}

    def objects(self, metrics):
        def thing(kind, name, spec):
            return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}
        condition = {"operator": ">=", "threshold": 8, "metric": "num_of_samples"}
        deploy = {"operator": ">", "threshold": 0, "metric": "accuracy_delta"}
        serve = ["/bin/sh", "-c", 'env > "$0.new" && mv "$0.new" "$0" && exec sleep 1000000', str(self.environment)]
        if self.hot:
            serve = ["/usr/bin/python3", "-S", "-B", str(self.world.path / "hot.py")]
        inference = {"spec": {"nodeName": self.edge.node, "containers": [{"name": "i", "command": serve}]}}
        credential = {"credentialName": self.secret["metadata"]["name"]} if self.secret else {}
        return [self.secret] * bool(self.secret) + [thing("Dataset", self.data_name, {"url": str(self.samples), "format": "txt", "nodeName": self.edge.node}),
                thing("Model", self.model("initial"), {"url": str(self.folder / "models" / "initial.bin"), "format": "bin"}),
                thing("Model", self.model("deploy"), {"url": str(self.folder / "models" / "deploy.bin"), "format": "bin"}),
                thing("IncrementalLearningJob", self.name, {
                    "initialModel": {"name": self.model("initial")}, "dataset": {"name": self.data_name, "trainProb": 0.8},
                    "trainSpec": {"template": self.template("train", metrics), "trigger": {"checkPeriodSeconds": 1, "condition": condition}},
                    "evalSpec": {"template": self.template("eval", metrics)},
                    "deploySpec": {"model": {"name": self.model("deploy"), "hotUpdateEnabled": self.hot, "pollPeriodSeconds": 1}, "trigger": {"checkPeriodSeconds": 1, "condition": deploy},
                                   "template": inference},
                    "outputDir": str(self.folder / "output"), **credential})]

    def model(self, name):
        """Name of a Model: jobs beside the usual one have models of their own."""
        return name if self.folder.name == "job" else f"{self.folder.name}-{name}"

    def write(self, change):
        """The manifests, with a change to the objects as they are by default: {kind/name: object}."""
        objects = {f"{each['kind']}/{each['metadata']['name']}": each for each in self.objects(self.metrics)}
        change(objects)
        new = self.cloud.manifests / f"{self.folder.name}.new"
        new.write_text("---\n".join(json.dumps(each) + "\n" for each in objects.values()))
        new.rename(self.cloud.manifests / f"{self.folder.name}.yaml")

    def feed(self, n=10):
        with open(self.samples, "a", encoding="utf-8") as file:
            file.write("".join(f"sample {i}\n" for i in range(self.fed, self.fed + n)))
        self.fed += n

    def tell(self, **told):
        """What workers do from now on: train="fail" (exit status 3), "silent" (exit status 0 without a word), "hasty" (one attempt to post);
        metrics=[new, old]; nothing: as they should."""
        (self.folder / "told").write_text(json.dumps(told))

    def started(self):
        """Names of the train and eval workers that ever started, in order."""
        return (self.folder / "started").read_text().split() if (self.folder / "started").exists() else []

    def is_state(self, message):
        return message.topic.endswith(f"/job/{self.name}/state") and message.document is not None

    def over(self, number):
        """A predicate: the state that says that this round's deployment has ended."""
        return lambda m: self.is_state(m) and (m.document.get("ended") or {}).get("stage") == "Deploy" and m.document["ended"]["round"] >= number

    def at(self, *position):
        return lambda m: self.is_state(m) and [m.document[k] for k in ("round", "stage", "phase")] == list(position)

    def restarted(self):
        """A new life of the broker: subscribe again."""
        self.topics = self.world.topics(self.broker)

    def state(self):
        return [m for m in self.topics.messages if self.is_state(m)][-1].document

    def rounds(self):
        """{round: samples in its folder}, as the disk says."""
        found = {}
        for folder in sorted(pathlib.Path(self.folder / "output" / "data" / "train").iterdir()):
            if folder.name.isdigit():
                found[int(folder.name)] = [line for name in ("data.txt", "eval.txt") for line in (folder / name).read_text().splitlines()]
        return found

    def check_samples(self):
        """Every sample that was fed is in exactly one round."""
        taken = sorted(line for lines in self.rounds().values() for line in lines)
        fed = sorted(f"sample {i}" for i in range(self.fed))
        assert taken == fed, f"lost {sorted(set(fed) - set(taken))[:5]}, {len(taken) - len(set(taken))} twice"
