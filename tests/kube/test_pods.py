"""What can go wrong with pods and nodes of a real API server: each has an end within a stated time, a reason, and no pod too many."""

from kube_case import HERE, Case, main, setUpModule  # noqa: F401

from agents import until
from api import JOB, at, meta
from kube_agents import FOLDER, Loop, position

START_S = 3  # workers.startTimeout


class Pods(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self, workers_result_grace="1s")

    def begin(self, **options):
        self.loop.create()
        self.cloud = self.loop.cloud(workers_start_timeout=f"{START_S}s", rounds_backoff_min="1s", **options)
        self.loop.serving()

    def held(self, stage="train"):
        """Workers of that stage wait until release(); the others do not."""
        (self.loop.folder / f"hold-{stage}").touch()
        script = f"while [ -e {self.loop.folder}/hold-${{0%.py}} ]; do sleep 0.05; done; exec /usr/bin/python3 -S -B {HERE}/stand_in.py \"$0\""
        self.loop.image(["/bin/sh", "-c", script])

    def release(self, stage="train"):
        (self.loop.folder / f"hold-{stage}").unlink()

    def running(self, kind="train", number=1):
        self.loop.at(number, kind.capitalize(), "Running")
        return meta(self.loop.pods(kind)[-1], "name")

    def fails(self, number, reason, message=None):
        ended = self.loop.over(number)
        self.assertEqual((ended["type"], ended["reason"]), ("Failed", reason))
        if message:
            self.assertIn(message, ended["message"])
        return ended

    def goes_on(self, number):
        self.loop.kubelet.clear_faults()
        self.loop.image()
        self.assertEqual(self.loop.over(number, patience=60)["type"], "Completed")
        self.loop.serving()

    # ---- the worker does not start ----

    def test_image_that_cannot_be_pulled(self):
        self.begin()
        self.loop.kubelet.fault("-train-", "ImagePullBackOff")
        self.loop.feed()
        self.fails(1, "ImagePull", "a test says so")
        self.goes_on(2)

    def test_folder_that_is_not_there(self):
        """A host path that the node does not have: the pod stays in ContainerCreating."""
        self.begin()
        self.loop.kubelet.fault("-train-", "ContainerCreating")
        self.loop.feed()
        self.fails(1, "StartTimeout")
        self.goes_on(2)

    def test_no_node_fits(self):
        objects = self.loop.objects()
        spec = objects[-1]["spec"]["trainSpec"]["template"]["spec"]
        del spec["nodeName"]
        spec["nodeSelector"] = {"gpu": "yes"}
        self.loop.create(*objects)
        self.loop.cloud(workers_start_timeout=f"{START_S}s", rounds_backoff_min="200ms")
        self.loop.serving()
        self.loop.feed()
        self.fails(1, "Unschedulable", "0/1 nodes are available")
        self.loop.kubelet.node("edge-1", self.loop.root, self.loop.kubelet.nodes["edge-1"].env, {"gpu": "yes"})
        self.goes_on(2)

    def test_template_that_the_server_refuses(self):
        objects = self.loop.objects()
        objects[-1]["spec"]["trainSpec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "nowhere", "mountPath": "/x"}]
        self.loop.create(*objects)
        self.loop.cloud()
        self.loop.serving()
        self.loop.feed()
        ended = self.fails(1, "PodRefused", "nowhere")
        self.assertIn("volumeMounts", ended["message"])
        until(lambda: any("nowhere" in m for m in self.loop.events().get("TrainFailed", [])), "an Event has the server's words")
        self.api.patch(JOB, self.ns, "signs-demo", {"spec": self.loop.objects()[-1]["spec"]})
        self.loop.wait(lambda o: at(o, "status", "deployedRound"), "it goes on", 60)

    def test_name_that_is_taken(self):
        """Somebody else's pod has the name that ours would have: it stays, and the job says so."""
        self.loop.kubelet.fault("-inference-", "ContainerCreating")
        cloud = self.loop.cloud()
        self.loop.create()
        name = until(lambda: self.loop.pods("inference") and meta(self.loop.pods("inference")[0], "name"), "the name is known")
        cloud.stop()
        self.api.delete("Pod", self.ns, name, grace=0)
        foreign = self.pod(name, ["/bin/sh", "-c", "exec sleep 1000000"], node="edge-1")
        self.loop.kubelet.clear_faults()
        cloud.start()
        until(lambda: any(name in m for m in self.loop.events().get("PodNameTaken", [])), "an Event says so")
        self.assertEqual(meta(self.api.get("Pod", self.ns, name), "uid"), meta(foreign, "uid"))

    def test_names_of_253_characters(self):
        objects = self.loop.objects()
        name = ".".join(["a" * 62] * 4)[:250] + "bcd"
        objects[-1]["metadata"]["name"] = self.loop.name = name
        self.assertEqual(len(name), 253)
        self.loop.create(*objects)
        self.loop.cloud()
        serving = self.loop.serving()
        self.assertEqual(meta(serving, "ownerReferences")[0]["name"], name)
        self.loop.feed()
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        for pod in self.loop.pods():
            self.assertLessEqual(len(meta(pod, "labels")["incrementallearningjob.sedna.io/name"]), 63)
        until(lambda: "DeployCompleted" in self.loop.events() or "TrainCompleted" in self.loop.events(), "Events of it can be made")

    # ---- the worker does not end as it should ----

    def test_eviction(self):
        self.begin()
        self.held()
        self.loop.feed()
        self.loop.kubelet.evict(self.ns, self.running())
        self.fails(1, "WorkerFailed", "low on resource: memory")
        self.goes_on(2)

    def test_out_of_memory(self):
        """Restarted in place as its policy says; too often is the end."""
        self.begin(workers_max_restarts="1")
        self.held()
        self.loop.feed()
        self.loop.kubelet.oom(self.ns, self.running())
        ended = self.fails(1, "WorkerKeepsFailing")
        self.assertIn("OOMKilled", ended.get("message", ""))
        self.goes_on(2)

    def test_deleted_by_somebody(self):
        """The worker is gone without a result: its node says so."""
        self.begin()
        self.held()
        self.loop.feed()
        self.api.delete("Pod", self.ns, self.running(), grace=0)
        self.assertEqual(self.loop.over(1)["type"], "Failed")
        self.goes_on(2)

    def test_stuck_terminating(self):
        self.begin()
        self.held()
        self.loop.feed()
        name = self.running()
        self.loop.kubelet.fault(name, "StuckTerminating")
        self.api.delete("Pod", self.ns, name)
        until(lambda: "PodLost" in self.loop.events(), "it is given up", 30)
        self.loop.kubelet.clear_faults()
        self.fails(1, "PodLost")
        self.goes_on(2)

    def test_unknown(self):
        self.begin()
        self.held()
        self.loop.feed()
        self.loop.kubelet.unknown(self.ns, self.running())
        self.fails(1, "PodLost")
        self.goes_on(2)

    def test_serving_pod_ends(self):
        """It is made again, whatever the reason was."""
        self.begin()
        for fault in (self.loop.kubelet.evict, lambda ns, name: self.api.delete("Pod", ns, name, grace=0)):
            before = self.loop.serving()
            fault(self.ns, meta(before, "name"))
            until(lambda: meta(before, "uid") not in [meta(p, "uid") for p in self.loop.pods("inference")], "it is replaced")
            self.loop.serving()

    # ---- nodes ----

    def test_node_away_in_training(self):
        """The stage waits, and the result that the device brings along with its link counts."""
        self.begin()
        self.held()
        self.loop.feed()
        name = self.running()
        uid = meta(self.loop.pods("train")[0], "uid")
        self.loop.kubelet.away("edge-1")
        self.assertEqual(self.loop.kubelet.evict_intolerant("edge-1"), [])  # 300 s later
        self.loop.broker.stop()
        self.release()
        until(lambda: self.loop.kubelet.pid(self.ns, name) is None, "the training has ended on the device")
        self.assertEqual(position(self.loop.job()), (1, "Train", "Running"))
        until(lambda: "NodeUnreachable" in self.loop.events(), "it is said")
        self.loop.broker.start()
        self.loop.kubelet.back("edge-1")
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.assertEqual(meta([p for p in self.loop.pods("train") if meta(p, "name") == name][0], "uid"), uid)
        self.assertEqual(self.loop.started("train"), [name])

    def test_node_away_before_the_worker_starts(self):
        """Longer than workers.startTimeout: no failure, since nobody could have started it."""
        self.begin()
        self.loop.kubelet.fault("-train-", "ContainerCreating")
        self.loop.feed()
        self.loop.at(1, "Train", "Starting")
        self.loop.kubelet.away("edge-1")
        self.loop.kubelet.clear_faults()
        until(lambda: "NodeUnreachable" in self.loop.events(), "it is said")
        with self.assertRaises(AssertionError):
            self.loop.over(1, patience=START_S + 2)
        self.loop.kubelet.back("edge-1")
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.assertEqual(len(self.loop.started("train")), 1)

    def test_serving_pod_on_a_node_that_is_away(self):
        """To be replaced while its node cannot be asked: no second one beside it, and nothing else stands still."""
        self.begin()
        before = self.loop.serving()
        self.held("eval")
        self.loop.feed()
        self.running("eval")
        self.loop.kubelet.fault(meta(before, "name"), "StuckTerminating")
        self.release("eval")
        self.loop.at(1, "Deploy", "Ready")
        gone = until(lambda: at(self.api.get("Pod", self.ns, meta(before, "name")), "metadata", "deletionTimestamp"), "the old one is to go")
        self.assertTrue(gone)
        second = [dict(o, metadata={**o["metadata"], "name": f"{meta(o, 'name')}-2"}) for o in self.loop.objects()]
        second[0]["spec"]["url"] = f"{FOLDER}/data/other.txt"
        (self.loop.folder / "data" / "other.txt").touch()
        second[-1]["spec"].update(outputDir=f"{FOLDER}/other", initialModel={"name": "signs-initial-2"},
                                  dataset={"name": "traffic-signs-2", "trainProb": 0.8})
        second[-1]["spec"]["deploySpec"]["model"]["name"] = "signs-deploy-2"
        self.api.create_all(second)
        self.loop.wait(position, "another job begins", name="signs-demo-2")
        ours = [p for p in self.loop.pods("inference") if meta(p, "ownerReferences")[0]["name"] == "signs-demo"]
        self.assertEqual([meta(p, "uid") for p in ours], [meta(before, "uid")])
        self.loop.kubelet.clear_faults()
        until(lambda: [at(p, "status", "phase") for p in self.loop.pods("inference") if meta(p, "ownerReferences")[0]["name"] == "signs-demo" and
                       meta(p, "uid") != meta(before, "uid")] == ["Running"], "the new one serves")

    def test_node_that_has_left(self):
        self.begin()
        self.held()
        self.loop.feed()
        self.running()
        self.loop.kubelet.remove("edge-1")
        self.fails(1, "ResultsMissing")


if __name__ == "__main__":
    main()
