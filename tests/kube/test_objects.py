"""What the objects of a job make of its pods, and what becomes of the objects, on a real API server: hot update, remote files and their Secrets,
statuses of Models, objects that are too large, and the same name again in any phase."""

import json
import pathlib
from datetime import datetime

from kube_case import HERE, Case, main, setUpModule  # noqa: F401

from agents import until
from api import JOB, ApiError, at, meta
from kube_agents import FOLDER, Loop, conditions, path_taken, position, rules

FETCHER = "ilmare.test/fetcher:v1"


def env_of(container):
    """{name: value}; of a reference to a Secret: (Secret, key)."""
    def value(entry):
        ref = at(entry, "valueFrom", "secretKeyRef")
        return (ref["name"], ref["key"]) if ref else entry.get("value")
    return {e["name"]: value(e) for e in container.get("env") or []}


def mounts_of(pod, container):
    """{path in the container: (kind, what, read-only)} of our own volumes."""
    volumes = {v["name"]: v for v in pod["spec"]["volumes"]}

    def source(name):
        volume = volumes[name]
        return ("hostPath", volume["hostPath"]["path"], volume["hostPath"]["type"]) if "hostPath" in volume else ("emptyDir",)
    return {m["mountPath"]: (*source(m["name"]), m.get("readOnly", False)) for m in container["volumeMounts"] if m["name"].startswith("ilmare-")}


class Objects(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)

    def secret(self, name, *keys, annotations=None, **data):
        return self.api.create({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.ns, "annotations": annotations or {}},
            "type": "Opaque", "stringData": data or {key: f"{key} of {name}" for key in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY")}})

    def round(self, number):
        self.loop.feed()
        ended = self.loop.over(number)
        self.assertEqual((ended["type"], ended["stage"]), ("Completed", "Deploy"))
        return ended

    def says(self, reason, text):
        until(lambda: any(text in m for m in self.loop.events().get(reason, [])), lambda: f"{reason} {text}: {self.loop.events()}")


class Models(Objects):
    def model(self, name="signs-deploy"):
        return self.api.get("Model", self.ns, name)

    def deployed(self):
        """What the job says of it."""
        return json.loads(self.loop.job()["status"]["conditions"][-1]["data"])["ilmare"]["deployed"]

    def test_status(self):
        """When it was replaced, and what its evaluation said; not touched by a round that deploys nothing."""
        self.loop.create()
        self.loop.cloud()
        self.loop.serving()
        self.round(1)
        self.api.wait("Model", self.ns, "signs-deploy", lambda o: at(o, "status", "updateTime") == self.deployed()["since"], "it is said")
        self.assertEqual(self.model()["status"]["metrics"], [{"key": "precision", "value": "[0.9,0.8]"}])
        row = self.api.table("Model", self.ns, "signs-deploy")[0]
        self.assertEqual((row["Metric"], row["Value"]), ("precision", "[0.9,0.8]"))
        self.assertRegex(row["Updated"], r"^\d+m?s$")
        before = self.model()
        self.loop.metrics(0.4, 0.5)
        self.round(2)
        self.assertEqual(self.model(), before)
        self.assertNotIn("status", self.model("signs-initial"))

    def test_status_of_a_model_to_compare_with(self):
        """It is replaced with the one that serves. Each is said once, also by a cloud agent that begins anew."""
        compare = json.loads(json.dumps(self.loop.objects()[2]))
        compare["metadata"]["name"], compare["spec"]["url"] = "signs-compare", f"{FOLDER}/models/compare.pb"
        objects = self.loop.objects()
        objects[-1]["spec"]["evalSpec"]["initialEvalModel"] = {"name": "signs-compare"}
        self.loop.files()
        (self.loop.folder / "models" / "compare.pb").write_text("to compare with")
        self.loop.create(*objects, compare)
        cloud = self.loop.cloud()
        self.loop.serving()
        self.round(1)
        for name in ("signs-deploy", "signs-compare"):
            self.api.wait("Model", self.ns, name, lambda o: at(o, "status", "updateTime") == self.deployed()["since"], f"{name} says so")
        self.assertIn("learned from", (self.loop.folder / "models" / "compare.pb").read_text())
        mark = self.cluster.mark()
        cloud.stop()
        cloud.start()
        cloud.ready()
        self.loop.metrics(0.4, 0.5)
        self.round(2)
        self.assertNotIn(("patch", "models/status"), self.cluster.requests(mark, user=self.loop.user))


class HotUpdate(Objects):
    def test_loads_by_itself(self):
        """The pod has the folder and what it needs to know, and stays the same whatever is deployed."""
        objects = self.loop.objects()
        objects[-1]["spec"]["deploySpec"]["model"].update(hotUpdateEnabled=True, pollPeriodSeconds=1)
        self.loop.create(*objects)
        self.loop.cloud()
        first = self.loop.serving()
        container = first["spec"]["containers"][0]
        folder = f"/var/lib/sedna/model-hot-update/{self.ns}/incrementallearningjob/signs-demo"
        self.assertEqual(mounts_of(first, container)["/model-hot-update"], ("hostPath", folder, "DirectoryOrCreate", False))
        env = env_of(container)
        self.assertEqual((env["MODEL_HOT_UPDATE"], env["MODEL_HOT_UPDATE_CONFIG"], env["MODEL_POLL_PERIOD_SECONDS"]),
                         ("true", "/model-hot-update/model_config.json", "1"))
        self.assertEqual(env["MODEL_URL"], f"/home/data{FOLDER}/models/deploy/saved_model.pb")
        times = set()
        for number in (1, 2):
            self.assertNotIn("reason", self.round(number))  # it said that it has loaded it
            steps = [phase for n, stage, phase, _ in path_taken(self.loop.job()) if (n, stage) == (number, "Deploy")]
            self.assertEqual(steps, ["Waiting", "Ready", "Running", "Completed"])
            config = json.loads((self.loop.root / folder[1:] / "model_config.json").read_text())["model_config"]
            file = pathlib.PurePosixPath(config["model_path"])
            self.assertEqual(str(file.parent), "/model-hot-update")
            self.assertIn("learned from", (self.loop.root / folder[1:] / file.name).read_text())
            self.assertNotIn("/", config["model_update_time"])
            times.add(config["model_update_time"])
            self.assertEqual(meta(self.loop.serving(), "uid"), meta(first, "uid"))
        self.assertEqual(len(times), 2)
        until(lambda: self.loop.kubelet.text(self.ns, meta(first, "name")).count("serves train-worker") == 2, "it served both")
        self.assertNotIn("MODEL_HOT_UPDATE", env_of(self.loop.pods("train")[0]["spec"]["containers"][0]))


class Remote(Objects):
    def setUp(self):
        super().setUp()
        self.loop.kubelet.images[FETCHER] = ["/usr/bin/python3", "-S", "-B", str(HERE / "fetcher.py")]

    def test_model_and_its_secret(self):
        """A base model at an object store: fetched by an init container with the Secret of its own."""
        self.secret("of-the-model", annotations={"s3-endpoint": "minio.test:9000", "s3-usehttps": "0"})
        objects = self.loop.objects()
        objects[1]["spec"].update(url="s3://bucket/models/base", credentialName="of-the-model")
        self.loop.create(*objects)
        self.loop.cloud(kube_storage_image=FETCHER)
        self.loop.serving()
        self.round(1)
        pod = self.loop.pods("train")[0]
        fetcher, worker = pod["spec"]["initContainers"][0], pod["spec"]["containers"][0]
        self.assertEqual(len(pod["spec"]["initContainers"]), 1)
        self.assertEqual((fetcher["image"], fetcher["args"]), (FETCHER, ["s3://bucket/models/base", "/downloads/bucket/models"]))
        self.assertEqual(fetcher["resources"], {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}})
        self.assertEqual(env_of(fetcher), {"S3_ENDPOINT_URL": "http://minio.test:9000", "ACCESS_KEY_ID": ("of-the-model", "ACCESS_KEY_ID"),
                                           "SECRET_ACCESS_KEY": ("of-the-model", "SECRET_ACCESS_KEY")})
        self.assertEqual(mounts_of(pod, fetcher), {"/downloads": ("emptyDir", False)})
        self.assertEqual(env_of(worker)["BASE_MODEL_URL"], "/downloads/bucket/models/base")
        self.assertNotIn("ACCESS_KEY_ID", env_of(worker))  # the job and its dataset name no Secret
        self.assertEqual(mounts_of(pod, worker)["/downloads"], ("emptyDir", True))
        self.assertEqual(mounts_of(pod, worker)[f"/home/data{FOLDER}/output/train"], ("hostPath", f"{FOLDER}/output/train", "Directory", False))
        self.assertEqual(env_of(worker)["MODEL_URL"], f"/home/data{FOLDER}/output/train/1")
        self.assertIn("s3://bucket/models/base", self.loop.kubelet.text(self.ns, meta(pod, "name")))

    def ready(self, **urls):
        """What an edge agent would report if it read the samples from an object store; there is none on that node. Nobody says it twice, so the
        cloud agent has to listen: its birth comes after its subscriptions."""
        births = self.loop.world.topics(self.loop.broker, "ilmare/v1/presence/cloud")
        births.wait(lambda m: m.document is not None and m.document["online"], "the cloud agent is on the broker")
        job = self.loop.job()
        end = {"sample": 10, "size": 100, "digest": "0" * 64}
        topic = f"ilmare/v1/ns/{self.ns}/job/signs-demo/node/edge-2/train/ready"
        self.loop.broker.publish(topic, {
            "v": 1, "ts": "2026-11-30T00:00:00Z", "job": {"namespace": self.ns, "name": "signs-demo", "uid": meta(job, "uid")}, "node": "edge-2",
            "position": {"round": 1, "stage": "Train", "phase": "Ready"}, "store": "x", "seq": 1,
            "input": {"models": [{"format": "ckpt", "url": f"{FOLDER}/models/base"}], "outputDir": "s3://bucket/out/train/1", **urls},
            "range": {"from": 0, "to": 10, "end": end}})

    def test_dataset_and_output(self):
        """All at object stores, one Secret for each: the index of the dataset is what is fetched, what is written is passed on."""
        for name in ("of-the-job", "of-the-data"):
            self.secret(name, annotations={"s3-endpoint": f"{name}.test"})
        objects = self.loop.objects(outputDir="s3://bucket/out", credentialName="of-the-job")
        objects[0]["spec"].update(url="s3://data/set/index.txt", nodeName="edge-2", credentialName="of-the-data")
        for part in ("trainSpec", "evalSpec"):
            objects[-1]["spec"][part]["template"]["spec"]["nodeName"] = "edge-2"
        self.loop.kubelet.node("edge-2", self.loop.root)
        self.loop.create(*objects)
        self.loop.cloud(kube_storage_image=FETCHER)
        self.loop.at(1, "Train", "Waiting")
        self.ready(dataURL="s3://bucket/out/data/train/1/data.txt", dataIndexURL="s3://bucket/out/data/train/1/dataIndex.txt")
        pod = until(lambda: self.loop.pods("train"), "its pod is made")[0]
        of_job, = pod["spec"]["initContainers"]  # the dataset itself is not asked for
        self.assertEqual(of_job["args"], ["s3://bucket/out/data/train/1/data.txt", "/downloads/bucket/out/data/train/1",
                                          "@s3://bucket/out/data/train/1/dataIndex.txt", "/downloads/bucket/out/data/train/1"])
        self.assertEqual(env_of(of_job)["ACCESS_KEY_ID"], ("of-the-job", "ACCESS_KEY_ID"))
        self.assertEqual(env_of(of_job)["S3_ENDPOINT_URL"], "https://of-the-job.test")
        env = env_of(pod["spec"]["containers"][0])
        self.assertEqual(env["MODEL_URL"], "s3://bucket/out/train/1")
        self.assertEqual(env["TRAIN_DATASET_URL"], "/downloads/bucket/out/data/train/1/data.txt")
        self.assertEqual(env["ORIGINAL_DATASET_URL"], "/downloads/bucket/out/data/train/1/dataIndex.txt")
        self.assertEqual((env["ACCESS_KEY_ID"], env["S3_ENDPOINT_URL"]), (("of-the-job", "ACCESS_KEY_ID"), "https://of-the-job.test"))


class Secrets(Objects):
    def value_account(self, *verbs):
        """The usual rules without "get" of Secrets, and these verbs for them."""
        given = rules(("secrets", "get"))
        cluster_rules = [*given["ClusterRole"], *([{"apiGroups": [""], "resources": ["secrets"], "verbs": list(verbs)}] if verbs else [])]
        token = self.cluster.service_account(self.ns, "by-value", given["Role"], cluster_rules)
        return self.cluster.kubeconfig(token=token, ns=self.ns)

    def test_by_value(self):
        """kube.credentials=value: without the right to get Secrets it is said which rule is missing; with it the pods have the keys, and no log."""
        self.secret("keys", annotations={"s3-endpoint": "minio.test"})
        self.loop.create(credentialName="keys")
        cloud = self.loop.cloud(kubeconfig=self.value_account(), kube_credentials="value")
        self.says("ClusterDenied", 'cannot get resource "secrets"')
        self.value_account("get")
        serving = self.loop.serving(40)
        env = env_of(serving["spec"]["containers"][0])
        self.assertEqual((env["ACCESS_KEY_ID"], env["SECRET_ACCESS_KEY"]), ("ACCESS_KEY_ID of keys", "SECRET_ACCESS_KEY of keys"))
        self.assertEqual(env["S3_ENDPOINT_URL"], "https://minio.test")
        self.round(1)
        self.assertEqual(env_of(self.loop.pods("train")[0]["spec"]["containers"][0])["SECRET_ACCESS_KEY"], "SECRET_ACCESS_KEY of keys")
        self.assertNotIn("of keys", cloud.text() + json.dumps(self.loop.job()) + json.dumps(self.loop.events()))

    def test_without_a_key(self):
        """By value it is the agent that misses it."""
        self.secret("keys", ACCESS_KEY_ID="id", annotations={"s3-endpoint": "minio.test"})
        self.loop.create(credentialName="keys")
        self.loop.cloud(kubeconfig=self.value_account("get"), kube_credentials="value")
        self.says("PodRefused", "Secret keys has no key SECRET_ACCESS_KEY")
        self.api.patch("Secret", self.ns, "keys", {"stringData": {"SECRET_ACCESS_KEY": "key"}})
        self.loop.serving(40)

    def test_without_annotations(self):
        """It may be all that a worker needs; that there is no address is said."""
        self.secret("keys")
        self.loop.create(credentialName="keys")
        self.loop.cloud()
        env = env_of(self.loop.serving()["spec"]["containers"][0])
        self.assertEqual(env["ACCESS_KEY_ID"], ("keys", "ACCESS_KEY_ID"))
        self.assertNotIn("S3_ENDPOINT_URL", env)
        self.says("SecretIncomplete", "Secret keys has no annotation s3-endpoint")
        self.round(1)


class Reasons(Objects):
    """What stands in the way is on the job: kubectl get shows it."""

    def reason(self):
        return conditions(self.loop.job())[-1].get("reason")

    def shows(self, reason, text):
        job = self.loop.wait(lambda o: at(conditions(o), -1, "reason") == reason and text in conditions(o)[-1]["message"], f"{reason} {text}")
        self.assertEqual(self.api.table(JOB, self.ns)[0]["Reason"], reason)
        return job

    def over(self):
        self.loop.wait(lambda o: conditions(o) and "reason" not in conditions(o)[-1], "nothing is in the way")
        self.assertIsNone(self.api.table(JOB, self.ns)[0]["Reason"])

    def test_missing(self):
        dataset, initial, deploy, job = self.loop.objects()
        self.loop.files()
        self.loop.cloud()
        self.api.create_all([initial, deploy, job])
        self.assertEqual(position(self.shows("MissingDataset", "there is no Dataset traffic-signs in namespace")), (1, "Train", "Waiting"))
        self.assertEqual(self.loop.pods(), [])
        self.api.create(dataset)
        self.over()
        self.loop.serving()
        self.round(1)
        self.api.delete("Model", self.ns, "signs-deploy")
        self.shows("MissingModel", "there is no Model signs-deploy")
        self.api.create(deploy)
        self.over()
        self.round(2)

    def test_serving_pod_that_is_refused(self):
        """Its template has something that the API server does not take."""
        objects = self.loop.objects()
        objects[-1]["spec"]["deploySpec"]["template"]["spec"]["containers"][0]["volumeMounts"].append({"name": "nowhere", "mountPath": "/x"})
        self.loop.create(*objects)
        self.loop.cloud()
        self.shows("PodRefused", "nowhere")
        mark = self.cluster.mark()
        self.loop.feed()  # training goes on meanwhile
        self.loop.wait(lambda o: (1, "Train", "Completed") in [p[:3] for p in path_taken(o)], "it is trained")
        self.assertLess(self.cluster.requests(mark, user=self.loop.user)["create", "pods"], 8)
        self.api.patch(JOB, self.ns, "signs-demo", {"spec": self.loop.objects()[-1]["spec"]})
        self.loop.serving()
        self.assertEqual(self.loop.over(1)["type"], "Completed")

    def test_node_away(self):
        self.loop.kubelet.fault("-train-", "ContainerCreating")
        self.loop.create()
        self.loop.cloud()
        self.loop.serving()
        self.loop.feed()
        self.loop.at(1, "Train", "Starting")
        self.loop.kubelet.away("edge-1")
        self.shows("NodeUnreachable", "edge-1")
        self.loop.kubelet.clear_faults()
        self.loop.kubelet.back("edge-1")
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.assertNotIn("NodeUnreachable", [p[3] for p in path_taken(self.loop.job())])


class Lax(Objects):
    """Sedna's definitions let much through, and drop what ours has beside the conditions."""

    WRONG = (("dataset.trainProb", 7.5, "InvalidSpec", "spec.dataset.trainProb: 7.5 is not between 0 and 1"),
             ("dataset.name", "", "InvalidSpec", "spec.dataset.name: '' is not a name"),
             ("dataset.name", "relative", "InvalidDataset", "Dataset relative: spec.url: 'x.txt' is neither a path from the root nor"),
             ("dataset.name", "json", "InvalidDataset", "Dataset json: spec.format: 'json' is neither txt nor csv"),
             ("dataset.name", "nowhere", "InvalidDataset", "Dataset nowhere: spec.nodeName: 'No Where' is not a node's name"),
             ("initialModel.name", "ftp", "InvalidModel", "Model ftp: spec.url: 'ftp://x/y' is neither a path from the root nor"),
             ("trainSpec.trigger.condition.operator", "bigger", "InvalidSpec", "'bigger' is not known; allowed are gt or >"),
             ("trainSpec.trigger.condition.metric", "samples", "InvalidSpec", "must be num_of_samples"),
             ("trainSpec.trigger.timer", {"start": "25:00", "end": "26:00"}, "InvalidSpec", "'25:00' is not a time from 0:00 to 24:00"),
             ("trainSpec.trigger.checkPeriodSeconds", 0, "InvalidSpec", "must be a whole number from 1 to"),
             ("trainSpec.template.spec.nodeName", "edge-9", "LocalPathOnOtherNode", "training is to run on node edge-9"),
             ("deploySpec.trigger.condition.metric", "a[", "InvalidSpec", "metric 'a[': the index in [ ] must be a number from 0"),
             ("outputDir", "output", "InvalidSpec", "spec.outputDir: 'output' is neither a path from the root nor an s3:// url"))

    def setUp(self):
        Case.setUp(self)
        self.own_cluster("sedna", crds="sedna")
        self.loop = Loop(self)

    def test_reason_on_the_object(self):
        loop = self.loop
        dataset, initial, deploy, job = loop.objects()
        loop.create()
        for name, url, form, node in (("relative", "x.txt", "txt", "edge-1"), ("json", "/x.json", "json", "edge-1"), ("nowhere", "/x", "txt", "No Where")):
            self.api.create({**dataset, "metadata": {"name": name, "namespace": self.ns}, "spec": {"url": url, "format": form, "nodeName": node}})
        self.api.create({**initial, "metadata": {"name": "ftp", "namespace": self.ns}, "spec": {"url": "ftp://x/y", "format": "ckpt"}})
        for number, (path, value, _, _) in enumerate(self.WRONG):
            thing = json.loads(json.dumps(job))
            thing["metadata"]["name"], thing["spec"]["outputDir"] = f"wrong-{number}", f"{FOLDER}/output-{number}"
            *way, last = path.split(".")
            part = thing["spec"]
            for key in way:
                part = part[key]
            part[last] = value
            self.api.create(thing)
        mark = self.cluster.mark()
        cloud = loop.cloud()
        for number, (path, _, reason, text) in enumerate(self.WRONG):
            with self.subTest(path=path):
                last = loop.wait(lambda o, r=reason: at(conditions(o), -1, "reason") == r, f"wrong-{number} says {reason}", name=f"wrong-{number}")
                self.assertIn(text, conditions(last)[-1]["message"])
        loop.serving()
        self.round(1)  # others go on
        self.assertEqual(len(loop.pods("train")), 1)
        # Each was told once, and is not told again by an agent that begins anew.
        cloud.stop()
        cloud.start()
        cloud.ready()
        loop.metrics(0.4, 0.5)
        self.round(2)
        told = [at(e, "objectRef", "name") for e in self.cluster.audit(mark) if e["verb"] == "patch" and at(e, "objectRef", "name", default="").startswith("wrong")
                and e["objectRef"]["resource"] != "events"]
        self.assertEqual(sorted(told), sorted(f"wrong-{n}" for n in range(len(self.WRONG))))
        self.end_watchers()


class TooLarge(Objects):
    def largest(self, thing):
        """Made so that less than 200 bytes more would not be stored: a variable of its training has the length for it."""
        variable = thing["spec"]["trainSpec"]["template"]["spec"]["containers"][0]["env"][0]
        fits, too_many = 1024 * 1024, 2 * 1024 * 1024
        while too_many - fits > 200:
            variable["value"] = "x" * ((fits + too_many) // 2)
            try:
                self.api.create(thing)
                self.api.delete(thing["kind"], self.ns, meta(thing, "name"))
                fits = len(variable["value"])
            except ApiError as e:
                self.assertIn("too large", str(e))
                too_many = len(variable["value"])
        variable["value"] = "x" * fits
        return self.api.create(thing)

    def test_others_go_on(self):
        """An object that the server cannot store with its status: said, not tried again and again, and no other job's matter."""
        big = self.loop.objects()[-1]
        big["metadata"]["name"] = "big"
        big["spec"]["outputDir"] = f"{FOLDER}/big"
        self.loop.create(*self.loop.objects()[:-1])
        self.largest(big)
        mark = self.cluster.mark()
        cloud = self.loop.cloud()
        self.loop.name = "big"
        self.says("ClusterFailure", "as large as the cluster allows")
        self.loop.name = "signs-demo"
        self.api.create(self.loop.objects()[-1])
        self.loop.serving()
        self.round(1)

        def refused():
            return [datetime.fromisoformat(e["requestReceivedTimestamp"]).timestamp() for e in self.cluster.audit(mark)
                    if at(e, "objectRef", "name") == "big" and e["verb"] == "patch" and at(e, "responseStatus", "code") == 500]
        times = until(lambda: len(found := refused()) >= 4 and found, "it is tried again", interval=0.2)
        for number, (before, after) in enumerate(zip(times, times[1:])):
            self.assertGreater(after - before, 0.75 * 2 ** number)
        self.assertEqual(cloud.get("/healthz")[0], 200)
        # With less in it, it goes on by itself.
        self.api.patch(JOB, self.ns, "big", {"spec": {"trainSpec": self.loop.objects()[-1]["spec"]["trainSpec"]}})
        self.loop.wait(lambda o: at(o, "status", "phase") == "Completed" or len(path_taken(o)) > 1, "it goes on", name="big")


class Again(Objects):
    PHASES = (("Train", "Starting"), ("Train", "Running"), ("Eval", "Running"), ("Deploy", "Starting"))

    def hold(self, stage):
        """Workers of that stage alone run until something ends them."""
        for kind in ("train", "eval"):
            (self.loop.folder / f"hold-{kind}").unlink(missing_ok=True)
        (self.loop.folder / f"hold-{stage.lower()}").touch()

    def release_pods(self, stage, phase):
        """The old ones may go; the next job comes to this position, and no further."""
        self.hold(stage if phase == "Running" else "none")
        self.loop.kubelet.clear_faults()
        if phase == "Starting":
            self.loop.kubelet.fault({"Train": "-train-", "Deploy": "-inference-"}[stage], "ContainerCreating")

    def test_made_again_in_each_phase(self):
        """Deleted and made again under its name at once: the new one begins anew when the pods of the old one have ended, and ends a round."""
        self.collector()
        script = f"while [ -e {self.loop.folder}/hold-${{0%.py}} ]; do sleep 0.05; done; exec /usr/bin/python3 -S -B {HERE}/stand_in.py \"$0\""
        self.loop.image(["/bin/sh", "-c", script])
        self.loop.create(outputDir=f"{FOLDER}/output-0")
        self.loop.cloud()
        self.loop.serving()
        self.release_pods(*self.PHASES[0])
        self.loop.feed()  # which each of the jobs takes anew
        for number, (stage, phase) in enumerate(self.PHASES, 1):
            with self.subTest(stage=stage, phase=phase):
                before = meta(self.loop.job(), "uid")
                self.loop.at(1, stage, phase)
                if stage == "Deploy":  # the replacement is under way until this one is alone, and waits
                    until(lambda: [meta(p, "annotations")["ilmare/round"] for p in self.loop.pods("inference")] == ["1"], "it is replaced", 40)
                for pod in self.loop.pods():
                    self.loop.kubelet.fault(meta(pod, "name"), "StuckTerminating")
                self.api.delete(JOB, self.ns, "signs-demo")
                self.api.create(self.loop.objects(outputDir=f"{FOLDER}/output-{number}")[-1])
                self.assertNotEqual(meta(self.loop.job(), "uid"), before)
                self.loop.at(1, "Train", "Waiting")
                self.says("WaitingForEarlierJob", "an earlier job of this name")
                self.assertEqual({meta(p, "ownerReferences")[0]["uid"] for p in self.loop.pods()}, {before})
                self.release_pods(*(self.PHASES[number] if number < len(self.PHASES) else (None, None)))
                until(lambda: all(meta(p, "ownerReferences")[0]["uid"] != before for p in self.loop.pods()), "the old pods are gone", 40)
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.loop.serving()
        self.assertEqual(len(self.loop.rounds(self.loop.folder / f"output-{len(self.PHASES)}")[1]), self.loop.fed)


if __name__ == "__main__":
    main()
