"""The whole loop on a real API server: both agents, a broker, workers as processes of nodes that the test plays. What is asserted is what is
there: objects, files, processes."""

import json

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import until
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

    def check_events(self):
        events = self.loop.events()
        self.assertIn("TrainFailed", events)
        self.assertGreaterEqual({"PodCreated", "TrainCompleted", "EvalCompleted", "DeployCompleted"} & set(events), {"PodCreated", "TrainCompleted"})
        for event in self.api.list("Event", self.ns):
            self.assertEqual((event["involvedObject"]["kind"], event["source"]["component"]), (JOB, "ilmare-cloud"))


if __name__ == "__main__":
    main()
