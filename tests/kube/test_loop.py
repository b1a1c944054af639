"""The whole loop on a real API server: both agents, a broker, workers as processes of nodes that the test plays. What is asserted is what is
there: objects, files, processes."""

import json
import os
import re
import subprocess

from kube_case import Case, main, setUpModule  # noqa: F401

import yaml

from agents import ROOT, until
from api import JOB, at, meta
from kube_agents import FOLDER, IMAGE, Loop, conditions, path_taken


class WholeLoop(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)

    def served(self):
        return (self.loop.folder / "models" / "deploy" / "saved_model.pb").read_text()

    def test_four_rounds(self):
        """Deployed, refused, failed in training, deployed: as Sedna's users see it."""
        loop = self.loop
        loop.create()
        loop.cloud()
        loop.at(1, "Train", "Waiting")
        first = loop.serving()
        self.serves(first, "serves the first model")
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")
        self.assertIn("learned from 8 samples", self.served())
        second = loop.serving()
        self.assertNotEqual(meta(first, "uid"), meta(second, "uid"))
        self.check_pods(second)

        loop.metrics(0.5, 0.5)
        loop.feed()
        refused = loop.over(2)
        self.assertEqual((refused["stage"], refused["type"], refused["reason"]), ("Deploy", "Completed", "NotBetter"))
        self.assertEqual(meta(loop.serving(), "uid"), meta(second, "uid"))

        loop.image(["/bin/sh", "-c", "echo no use >&2; exit 3"])
        loop.feed()
        failed = loop.over(3)
        self.assertEqual((failed["stage"], failed["type"]), ("Train", "Failed"))
        loop.image()
        loop.metrics(0.9, 0.5)
        self.assertEqual(loop.over(4)["type"], "Completed")
        last = loop.serving()
        self.assertNotEqual(meta(last, "uid"), meta(second, "uid"))
        self.serves(last, "learned from")
        self.check_order(loop.job())
        self.check_counts(last)
        self.check_events()
        loop.check_samples(failed=[3])  # whose samples the next round takes again

    def serves(self, pod, text):
        """It says so itself, a moment after it is Running."""
        until(lambda: text in self.loop.kubelet.text(self.ns, meta(pod, "name")), lambda: f"{meta(pod, 'name')} says {text!r}")

    def check_pods(self, serving):
        """Names, labels, variables and owners as compatibility wants them."""
        job = self.loop.job()
        for pod in self.loop.pods():
            self.assertEqual(meta(pod, "ownerReferences"), [{
                "apiVersion": "sedna.io/v1alpha1", "kind": JOB, "name": "signs-demo", "uid": meta(job, "uid"), "controller": True,
                "blockOwnerDeletion": True}])
            labels = meta(pod, "labels")
            self.assertEqual(labels["incrementallearningjob.sedna.io/name"], "signs-demo")
            self.assertEqual(labels["incrementallearningjob.sedna.io/uid"], meta(job, "uid"))
            self.assertTrue(pod["spec"]["hostNetwork"])
            self.assertEqual(pod["spec"]["nodeName"], "edge-1")
        by_kind = {meta(p, "labels")["incrementallearningjob.sedna.io/worker-type"]: p for p in self.loop.pods()}
        self.assertEqual(sorted(by_kind), ["eval", "inference", "train"])
        env = {e["name"]: e.get("value") for e in by_kind["train"]["spec"]["containers"][0]["env"]}
        self.assertEqual(env["WORKER_NAME"], self.loop.worker("train", 1))
        self.assertEqual((env["NAMESPACE"], env["JOB_NAME"], env["batch_size"]), (self.ns, "signs-demo", "32"))
        self.assertEqual(env["BASE_MODEL_URL"], f"/home/data{FOLDER}/models/base")
        self.assertEqual(env["DATA_PATH_PREFIX"], "/home/data")
        env = {e["name"]: e.get("value") for e in serving["spec"]["containers"][0]["env"]}
        self.assertEqual((env["HEM_NAME"], env["HE_saved_url"]), ("IBT", "/he_saved_url"))
        self.assertEqual(json.loads(env["HEM_PARAMETERS"])[0], {"key": "threshold_img", "value": "0.9"})
        self.assertEqual(serving["spec"]["containers"][0]["image"], IMAGE)

    def check_order(self, job):
        """The last round's conditions, in the order of the stages, and the summary that is printed."""
        last = [p[1:3] for p in path_taken(job) if p[0] == 4]
        self.assertEqual(last[-1], ("Deploy", "Completed"))
        self.assertEqual([stage for stage, _ in last], sorted((s for s, _ in last), key=["Train", "Eval", "Deploy"].index))
        self.assertTrue(all(c["status"] == "True" for c in conditions(job)))
        self.assertEqual((job["status"]["deployedRound"], job["status"]["lastMetric"]), (4, "precision 0.9 (0.5)"))

    def check_counts(self, serving):
        """What the inference worker counts, in the job's status."""
        name = {e["name"]: e.get("value") for e in serving["spec"]["containers"][0]["env"]}["WORKER_NAME"]
        answer = self.loop.edge.post(name, {
            "namespace": self.ns, "ownerName": "signs-demo", "ownerKind": "incrementallearningjob", "kind": "inference", "results": [],
            "ownerInfo": {"inferenceNumber": 1234, "hardExampleNumber": 56, "uploadCloudRatio": 0.05}})
        self.assertEqual(answer[0], 200)
        self.loop.wait(lambda o: at(o, "status", "inference"), "it is in the status")
        counted = at(self.loop.job(), "status", "inference")
        self.assertEqual((counted["inferences"], counted["hardExamples"]), (1234, 56))

    def check_events(self):
        events = self.loop.events()
        self.assertIn("TrainFailed", events)
        self.assertGreaterEqual({"PodCreated", "TrainCompleted", "EvalCompleted", "DeployCompleted"} & set(events), {"PodCreated", "TrainCompleted"})
        for event in self.api.list("Event", self.ns):
            self.assertEqual((event["involvedObject"]["kind"], event["source"]["component"]), (JOB, "ilmare-cloud"))



class Objects(Case):
    """Objects that come late, change, go, and come again."""

    def setUp(self):
        super().setUp()
        self.loop = Loop(self)
        self.loop.files()

    def round(self, number, **more):
        self.loop.feed()
        ended = self.loop.over(number, **more)
        self.assertEqual(ended["type"], "Completed")
        return ended

    def test_any_order_of_creation(self):
        """What is missing is said, and when it appears the job goes on by itself."""
        dataset, initial, deploy, job = self.loop.objects(credentialName="keys")
        self.loop.cloud()
        self.api.create(job)
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys", "namespace": self.ns},
                  "stringData": {"ACCESS_KEY_ID": "id", "SECRET_ACCESS_KEY": "the-key"}}
        for reason, thing, name in (("MissingDataset", dataset, "traffic-signs"), ("MissingModel", deploy, "signs-initial"),
                                    ("MissingModel", initial, "signs-initial"), ("MissingSecret", secret, "keys")):
            until(lambda: any(name in m for m in self.loop.events().get(reason, [])), lambda: f"{reason} {name}: {self.loop.events()}")
            self.api.create(thing)
        self.loop.serving()
        self.round(1)
        pod = self.loop.pods("train")[0]
        entry = next(e for e in pod["spec"]["containers"][0]["env"] if e["name"] == "SECRET_ACCESS_KEY")
        self.assertEqual(entry["valueFrom"]["secretKeyRef"], {"name": "keys", "key": "SECRET_ACCESS_KEY"})
        self.assertNotIn("the-key", json.dumps(self.loop.pods()) + self.world.parts[-1].text())

    def gone(self):
        """Nothing of it is left in the cluster, and the device has forgotten it."""
        until(lambda: not self.loop.pods(), lambda: f"its pods are gone: {[meta(p, 'name') for p in self.loop.pods()]}", 30)
        until(lambda: self.loop.edge.metrics()["ilmare_edge_jobs"] == 0, "the device has forgotten it")

    def test_deleted_in_several_phases_and_made_again(self):
        self.collector()
        self.loop.cloud()
        hold = self.loop.folder / "hold"
        script = f"while [ -e {hold} ]; do sleep 0.05; done; exec \"$0\" \"$@\""
        usual = self.loop.kubelet.images[IMAGE]
        uids = set()
        for number, position in enumerate([("Train", "Waiting"), ("Train", "Running"), ("Deploy", "Completed")]):
            self.loop.create(*self.loop.objects(outputDir=f"{FOLDER}/output{number}"))
            uids.add(meta(self.loop.job(), "uid"))
            self.loop.serving()
            if position[1] == "Running":
                hold.touch()
                self.loop.image(["/bin/sh", "-c", script, *usual])
            if position != ("Train", "Waiting"):
                self.loop.feed()
            self.loop.at(1, *position)
            for thing in (self.loop.objects()[::-1] if number % 2 else self.loop.objects()):
                self.api.delete(thing["kind"], self.ns, meta(thing, "name"))
            hold.unlink(missing_ok=True)
            self.loop.image()
            self.gone()
        self.assertEqual(len(uids), 3)

    def test_made_again_under_its_name_at_once(self):
        """Another uid: it begins anew, and none of its pods is of the one before."""
        self.collector()
        self.loop.create()
        self.loop.cloud()
        self.loop.serving()
        self.round(1)
        before = meta(self.loop.job(), "uid")
        self.api.delete(JOB, self.ns, "signs-demo")
        self.api.create(self.loop.objects(outputDir=f"{FOLDER}/again")[-1])
        self.assertNotEqual(meta(self.loop.job(), "uid"), before)
        until(lambda: self.loop.pods() and all(meta(p, "ownerReferences")[0]["uid"] != before for p in self.loop.pods()), "the old pods are gone", 30)
        self.loop.serving()
        self.loop.feed()
        self.assertEqual(self.loop.over(1)["type"], "Completed")

    def test_two_jobs_of_one_dataset(self):
        """Each takes every sample, into a folder of its own."""
        objects = self.loop.objects()
        other = json.loads(json.dumps(objects[-1]))
        other["metadata"]["name"] = "signs-too"
        other["spec"]["outputDir"] = f"{FOLDER}/too"
        deploy = json.loads(json.dumps(objects[2]))
        deploy["metadata"]["name"], deploy["spec"]["url"] = "deploy-too", f"{FOLDER}/models/deploy/too.pb"
        (self.loop.folder / "models" / "deploy" / "too.pb").write_text("the first model")
        other["spec"]["deploySpec"]["model"]["name"] = "deploy-too"
        self.loop.create(*objects, deploy, other)
        self.loop.cloud()
        self.loop.at(1, "Train", "Waiting")
        self.loop.at(1, "Train", "Waiting", name="signs-too")
        self.round(1)
        self.assertEqual(self.loop.over(1, name="signs-too")["type"], "Completed")
        self.loop.check_samples()
        self.assertEqual(sorted(self.loop.rounds(self.loop.folder / "too")[1]), sorted(self.loop.rounds()[1]))
        self.api.wait("Dataset", self.ns, "traffic-signs", lambda o: at(o, "status", "numberOfSamples") == self.loop.fed, "its status")

    def test_changed_in_the_middle_of_a_round(self):
        """The stage that runs goes on as it began; the next one is made by the new spec."""
        self.loop.create()
        self.loop.cloud()
        self.loop.serving()
        hold = self.loop.folder / "hold"
        hold.touch()
        usual = self.loop.kubelet.images[IMAGE]
        self.loop.image(["/bin/sh", "-c", f"while [ -e {hold} ]; do sleep 0.05; done; exec \"$0\" \"$@\"", *usual])
        self.loop.feed()
        self.loop.at(1, "Train", "Running")
        spec = self.loop.objects()[-1]["spec"]
        for part in ("trainSpec", "evalSpec"):
            spec[part]["template"]["spec"]["containers"][0]["env"] = [{"name": "input_shape", "value": "64,64"}]
        self.api.patch(JOB, self.ns, "signs-demo", {"spec": {k: spec[k] for k in ("trainSpec", "evalSpec")}})
        hold.unlink()
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        shapes = {kind: [e["value"] for e in self.loop.pods(kind)[0]["spec"]["containers"][0]["env"] if e["name"] == "input_shape"]
                  for kind in ("train", "eval")}
        self.assertEqual(shapes, {"train": ["352,640"], "eval": ["64,64"]})
        self.assertEqual(len(self.loop.started("train")), 1)


class Digits(Case):
    def test_example(self):
        """As it is but for an image, which stands for its scripts: real models, trained and better each round."""
        code, home = ROOT / "examples" / "digits", self.world.path / "digits"

        def script(name, *args):
            return subprocess.run(["/usr/bin/python3", "-B", code / name, *map(str, args)], check=True, capture_output=True, text=True).stdout
        script("make_initial.py", home)
        objects = list(yaml.safe_load_all(script("render.py", home)))
        for thing in objects:
            thing["metadata"]["namespace"] = self.ns
        for part in ("trainSpec", "evalSpec", "deploySpec"):
            objects[-1]["spec"][part]["template"]["spec"]["containers"][0]["image"] = "ilmare.test/digits:v1"
        loop = Loop(self, rooted=False)
        loop.name = "digits"
        self.api.create_all(objects)
        loop.cloud(workers_start_timeout="2m")
        first = loop.serving()
        for number in (1, 2):
            script("feed.py", home / "data" / "samples.txt")
            self.assertEqual(loop.over(number, patience=120)["type"], "Completed")
            accuracy, before = map(float, re.fullmatch(r"accuracy ([\d.]+) \(([\d.]+)\)", loop.job()["status"]["lastMetric"]).groups())
            self.assertEqual(loop.job()["status"].get("deployedRound") == number, accuracy > before)
        self.assertGreaterEqual(loop.job()["status"]["deployedRound"], 1)
        self.assertNotEqual(meta(loop.serving(), "uid"), meta(first, "uid"))


class Long(Case):
    def test_many_rounds(self):
        """The job's object stays small, and one pod serves at the end. ILMARE_TEST_ROUNDS: how many (20)."""
        rounds = int(os.environ.get("ILMARE_TEST_ROUNDS", "20"))
        loop = Loop(self)
        loop.create()
        loop.cloud()
        loop.serving()
        largest = 0
        for number in range(1, rounds + 1):
            loop.feed()
            self.assertEqual(loop.over(number)["type"], "Completed")
            largest = max(largest, len(json.dumps(loop.job(), separators=(",", ":"))))
        self.assertLess(largest, 16 * 1024)
        loop.serving()
        self.assertLessEqual(len(loop.pods("train")), 2)
        loop.check_samples()
        print(f"{rounds} rounds; the largest object had {largest} bytes", flush=True)


class OfSedna(Case):
    def test_definitions_of_sedna(self):
        """Lax, and without our members of the status: what is needed is in the conditions. Also with a cloud agent that begins anew."""
        self.own_cluster("sedna", crds="sedna")
        loop = Loop(self)
        loop.create()
        cloud = loop.cloud()
        loop.serving()
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")
        self.assertNotIn("deployedRound", loop.job()["status"])
        cloud.stop()
        cloud.start()
        loop.metrics(0.5, 0.5)
        loop.feed()
        self.assertEqual(loop.over(2)["reason"], "NotBetter")
        loop.serving()
        loop.check_samples()
        # What such a schema lets through: said on the job, and others go on.
        wrong = loop.objects(dataset={"name": "traffic-signs", "trainProb": 7.5})[-1]
        wrong["metadata"]["name"] = "wrong"
        self.api.create(wrong)
        until(lambda: any("trainProb" in e.get("message", "") for e in self.api.list("Event", self.ns) if at(e, "involvedObject", "name") == "wrong"),
              "an Event says what is wrong")
        loop.feed()
        self.assertEqual(loop.over(3)["reason"], "NotBetter")
        self.end_watchers()


if __name__ == "__main__":
    main()
