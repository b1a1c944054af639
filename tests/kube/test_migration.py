"""Taking over from Sedna: its definitions, its jobs where they stand, its pods. docs/migrate-from-sedna.md tells users the same."""

import json

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import until
from api import JOB, meta
from kube_agents import FOLDER, IMAGE, WORKER_LABEL, Loop

ROUND = f"{FOLDER}/output/train/3"
ROUND_3 = {"models": [{"format": "pb", "url": f"{ROUND}/saved_model.pb"}, {"format": "ckpt", "url": ROUND}]}
INPUT_3 = {"models": [{"format": "ckpt", "url": f"{FOLDER}/models/base"}], "dataURL": f"{FOLDER}/output/data/train/3/data.txt", "outputDir": ROUND}


def story(*entries):
    """Conditions as Sedna writes them: no round, and data only where there is input or output."""
    return [{"type": phase, "status": "True", "stage": stage, "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z",
             **({"data": json.dumps(data)} if data else {})} for stage, phase, data in entries]


TRAINED = (("Train", "Waiting", None), ("Train", "Ready", {"input": INPUT_3}), ("Train", "Starting", None), ("Train", "Running", None),
           ("Train", "Completed", {"output": ROUND_3}), ("Eval", "Waiting", None))


class Migration(Case):
    def setUp(self):
        super().setUp()
        self.own_cluster("sedna", crds="sedna")
        self.loop = Loop(self)

    def of_sedna(self, *entries, pods=(), annotations=None):
        """The job as Sedna left it after three rounds on thirty samples, with pods of its own."""
        *others, job = self.loop.objects()
        job["metadata"]["annotations"] = annotations or {}
        *_, job = self.loop.create(*others, job)
        self.loop.feed(30)
        round_3 = self.loop.folder / "output" / "train" / "3"
        round_3.mkdir(parents=True)
        (round_3 / "checkpoint").write_text("round 3 of Sedna")
        (round_3 / "saved_model.pb").write_text("round 3 of Sedna")
        self.api.patch(JOB, self.ns, self.loop.name, {"status": {"startTime": "2026-01-01T00:00:00Z", "conditions": story(*entries)}}, sub="status")
        return [self.pod_of_sedna(job, kind, f"{self.loop.name}-{kind}-x7k2p") for kind in pods]

    def pod_of_sedna(self, job, kind, name):
        """With a random end of the name, as Sedna's are."""
        labels = {"incrementallearningjob.sedna.io/name": meta(job, "name"), "incrementallearningjob.sedna.io/uid": meta(job, "uid"), WORKER_LABEL: kind}
        owner = {"apiVersion": "sedna.io/v1alpha1", "kind": JOB, "name": meta(job, "name"), "uid": meta(job, "uid"), "controller": True}
        return self.api.create({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": self.ns, "labels": labels, "ownerReferences": [owner]},
            "spec": {"nodeName": self.loop.node, "restartPolicy": "OnFailure", "containers": [{
                "name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]}]}})

    def taken_over(self):
        self.loop.cloud()
        self.loop.at(4, "Train", "Waiting")

    def finished(self, pods):
        """Round 4 ends well; of the pods that were Sedna's none is left, and one pod serves."""
        self.assertEqual(self.loop.over(4)["type"], "Completed")
        serving = self.loop.serving()
        self.assertNotIn(meta(serving, "uid"), [meta(p, "uid") for p in pods])
        for pod in pods:
            self.api.wait_gone("Pod", self.ns, meta(pod, "name"))

    def base_of_round_4(self):
        pod = until(lambda: self.loop.pods("train") or None, "the train pod is there")[0]
        return next(e["value"] for e in pod["spec"]["containers"][0]["env"] if e["name"] == "BASE_MODEL_URL")

    def test_in_the_middle_of_an_evaluation(self):
        """What is in the file counts as new: which of it Sedna had used is known to Sedna's own database alone. The model that round 3 trained goes on."""
        pods = self.of_sedna(*TRAINED, ("Eval", "Ready", {"input": INPUT_3}), ("Eval", "Running", None), pods=("eval", "inference"))
        self.taken_over()
        self.assertTrue(self.base_of_round_4().endswith("/output/train/3"))
        self.finished(pods)
        self.assertEqual({number: len(lines) for number, lines in self.loop.rounds().items()}, {4: 30})

    def test_only_what_comes_from_now_on(self):
        """With ilmare/first-sample: end, set before the cloud agent first sees the job."""
        pods = self.of_sedna(*TRAINED, ("Eval", "Completed", {"output": ROUND_3}), ("Deploy", "Waiting", None), pods=("inference",),
                             annotations={"ilmare/first-sample": "end"})
        self.taken_over()
        until(lambda: "\nilmare_edge_jobs 1\n" in self.loop.edge.get("/metrics")[1], lambda: self.loop.edge.get("/metrics")[1])
        self.api.wait("Dataset", self.ns, "traffic-signs", lambda o: (o.get("status") or {}).get("numberOfSamples") == 30, "the device has looked at the file")
        self.assertEqual(self.loop.rounds(), {})
        self.loop.feed(10)
        self.finished(pods)
        self.assertEqual([line.split()[0] for line in sorted(self.loop.rounds()[4])], sorted(f"sample-{i}.jpg" for i in range(30, 40)))

    def test_a_training_that_runs(self):
        """Sedna's worker is ended: its report would go to nobody. The samples are there for round 4."""
        pods = self.of_sedna(*TRAINED[:4], pods=("train", "inference"))
        self.taken_over()
        self.finished(pods)
        self.assertEqual(len(self.loop.rounds()[4]), 30)

    def test_at_rest(self):
        """A job between two rounds."""
        pods = self.of_sedna(*TRAINED, ("Eval", "Completed", {"output": ROUND_3}), ("Deploy", "Completed", None), ("Train", "Waiting", None), pods=("inference",))
        self.taken_over()
        self.finished(pods)


if __name__ == "__main__":
    main()
