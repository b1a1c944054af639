"""The bed itself: our custom resources say yes and no as they shall, and the nodes that we play do what nodes do. The agents are not here."""

import copy
import http.server
import json
import os
import pathlib
import queue
import signal
import threading
import unittest

from kube_case import HERE, Case, main, manifests, setUpModule  # noqa: F401

from agents import until
from api import JOB, ApiError, at, meta, path_of
from cluster import definitions
from container import expand, mapped

LOOP = ["/bin/sh", "-c", "trap 'exit 0' TERM; sleep 1000000 & wait"]


def put(thing, path, value):
    """thing with path ("spec.dataset.trainProb") set, or removed by a value of ..."""
    whole = part = copy.deepcopy(thing)
    *way, last = path.split(".")
    for key in way:
        part = part.setdefault(key, {})
    if value is ...:
        del part[last]
    else:
        part[last] = value
    return whole


class CustomResources(Case):
    def setUp(self):
        super().setUp()
        self.dataset, self.initial, self.deploy, self.job = manifests(HERE / "sedna_job.yaml", NS=self.ns, NODE="edge-1", ROOT="/data")

    def trial(self, thing):
        """Created as a trial: nothing stays."""
        return self.api.create(thing, dryRun="All", fieldValidation="Strict")

    def good(self, thing, path, *values):
        for value in values:
            with self.subTest(path=path, value=value):
                self.trial(put(thing, path, value))

    def bad(self, thing, path, *values, says):
        for value in values:
            with self.subTest(path=path, value=value):
                with self.assertRaises(ApiError) as caught:
                    self.trial(put(thing, path, value))
                self.assertEqual(caught.exception.code, 422)
                self.assertIn(path, str(caught.exception))
                self.assertIn(says, str(caught.exception))

    def test_sample_is_taken_whole(self):
        """What Sedna's users apply comes back as it was, defaults apart, and no member is unknown."""
        for thing in (self.dataset, self.initial, self.deploy, self.job):
            made = self.api.create(thing, fieldValidation="Strict")
            self.assertEqual(made["spec"], thing["spec"])

    def test_defaults(self):
        for path in ("spec.trainSpec.trigger.checkPeriodSeconds", "spec.deploySpec.trigger.checkPeriodSeconds", "spec.deploySpec.model.pollPeriodSeconds"):
            self.assertEqual(at(self.trial(put(self.job, path, ...)), *path.split(".")), 60)
        self.assertIs(self.trial(put(self.job, "spec.deploySpec.model.hotUpdateEnabled", ...))["spec"]["deploySpec"]["model"]["hotUpdateEnabled"], False)

    def test_share(self):
        self.good(self.job, "spec.dataset.trainProb", 0, 1, 0.0, 1.0, 0.29, 1e-9)
        self.bad(self.job, "spec.dataset.trainProb", -0.1, 1.1, 80, says="must be from 0 to 1")
        self.bad(self.job, "spec.dataset.trainProb", "0.8", says="must be of type number")
        self.bad(self.job, "spec.dataset.trainProb", None, says="Required value")

    def test_operators(self):
        for place in ("spec.trainSpec.trigger.condition.operator", "spec.deploySpec.trigger.condition.operator"):
            self.good(self.job, place, "gt", ">", "ge", ">=", "eq", "=", "==", "ne", "!=", "le", "<=", "lt", "<")
            self.bad(self.job, place, "GT", "=>", "", "<>", says="must be one of gt or >, ge or >=")

    def test_times(self):
        for place in ("spec.trainSpec.trigger.timer.start", "spec.trainSpec.trigger.timer.end"):
            self.good(self.job, place, "0:00", "9:05", "09:05", "19:59", "23:59", "24:00")
            self.bad(self.job, place, "24:01", "25:00", "9:5", "9", "9:60", "", "09:05:00", " 9:05", "9am", says="must be a time from 0:00 to 24:00")
        self.good(self.job, "spec.deploySpec.trigger.timer", {"start": "22:00", "end": "6:00"})
        self.bad(self.job, "spec.deploySpec.trigger.timer", {"start": "22:00"}, says="Required value")

    def test_periods(self):
        for place in ("spec.trainSpec.trigger.checkPeriodSeconds", "spec.deploySpec.trigger.checkPeriodSeconds", "spec.deploySpec.model.pollPeriodSeconds"):
            self.good(self.job, place, 1, 60, 31622400)
            self.bad(self.job, place, 0, -1, 31622401, says="must be from 1 second to 366 days")

    def test_metrics(self):
        self.bad(self.job, "spec.trainSpec.trigger.condition.metric", "accuracy", "", says="must be num_of_samples")
        place = "spec.deploySpec.trigger.condition.metric"
        self.good(self.job, place, "accuracy", "accuracy_delta", "precision_delta[0]", "top 5 [ 12 ]", "f1-score")
        self.bad(self.job, place, "", " ", "a[", "a[x]", "a]", "[0]", "a[0]b", "a[0][1]", says="must be the name of a metric")

    def test_references(self):
        for place in ("spec.dataset.name", "spec.initialModel.name", "spec.deploySpec.model.name"):
            self.good(self.job, place, "a", "a.b-c", "7", "a" * 253)
            self.bad(self.job, place, "", "A", "a_b", "-a", "a-", "a/b", says="must be the name of an object")
            self.bad(self.job, place, "a" * 254, says="253")
        self.good(self.job, "spec.evalSpec.initialEvalModel", {}, {"name": ""}, {"name": "other"})
        self.bad(self.job, "spec.evalSpec.initialEvalModel.name", "A", says="must be empty or the name of an object")

    def test_output(self):
        self.good(self.job, "spec.outputDir", "/output", "/a/.b/..c/d.", "/a b/c/", "/a//", "s3://bucket/prefix", "s3://bucket//a/../b")
        self.bad(self.job, "spec.outputDir", "output", "", "./output", "http://host/output", says="must be a folder of the device from its root")
        self.bad(self.job, "spec.outputDir", "/", "//", "/a//b", "//a", "/a/./b", "/a/../b", "/a/..", "/a/.", "/./a", "/../a", "/..", "/a ",
                 says="must be a plain path")

    def test_required(self):
        for path in ("spec", "spec.dataset", "spec.dataset.name", "spec.dataset.trainProb", "spec.initialModel", "spec.initialModel.name",
                     "spec.trainSpec", "spec.trainSpec.template", "spec.trainSpec.trigger", "spec.evalSpec", "spec.evalSpec.template",
                     "spec.deploySpec", "spec.deploySpec.model", "spec.deploySpec.model.name", "spec.deploySpec.trigger",
                     "spec.deploySpec.template", "spec.outputDir", "spec.trainSpec.trigger.condition.operator",
                     "spec.trainSpec.trigger.condition.threshold", "spec.trainSpec.trigger.condition.metric",
                     "spec.trainSpec.template.spec", "spec.trainSpec.template.spec.containers"):
            self.bad(self.job, path, ..., says="Required value")
        for path in ("spec.url", "spec.format", "spec.nodeName"):
            self.bad(self.dataset, path, ..., says="Required value")
        for path in ("spec.url", "spec.format"):
            self.bad(self.initial, path, ..., says="Required value")
        self.bad(self.job, "spec.trainSpec.trigger.condition.threshold", "0.3", says="must be of type number")
        self.bad(self.job, "spec.trainSpec.trigger.condition.threshold", None, says="Required value")

    def test_optional(self):
        for path in ("spec.trainSpec.trigger.timer", "spec.trainSpec.trigger.condition", "spec.deploySpec.trigger.condition",
                     "spec.deploySpec.hardExampleMining", "spec.deploySpec.hardExampleMining.parameters"):
            self.good(self.job, path, ...)
        self.good(self.job, "spec.credentialName", "secret", "")
        self.good(self.job, "spec.deploySpec.hardExampleMining.parameters", None, [])
        self.good(self.initial, "spec.device_soc_versions", None, [], ["Ascend310"])
        self.good(self.initial, "spec.credentialName", "secret")

    def test_dataset(self):
        self.good(self.dataset, "spec.format", "txt", "csv")
        self.bad(self.dataset, "spec.format", "json", "", "TXT", says="must be txt")
        for thing in (self.dataset, self.initial):
            self.good(thing, "spec.url", "/data/x.txt", "s3://bucket/x.txt", "http://host/x.txt", "https://host:8443/x.txt")
            self.bad(thing, "spec.url", "data/x.txt", "ftp://host/x.txt", "S3://bucket/x", says="must be a path from the node's root")
        self.bad(self.dataset, "spec.url", "", says="at least 1 char")
        self.good(self.dataset, "spec.nodeName", "edge-1", "a", "10.0.0.1", "rpi.site-7.example")
        self.bad(self.dataset, "spec.nodeName", "Edge", "a b", "-a", "a/b", "cloud", says="must be the name of a node")

    def test_templates_are_taken_whole(self):
        """With everything that a pod may have, and what this version of the API does not know."""
        template = {"metadata": {"creationTimestamp": None, "labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]},
                    "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1, "memory": "1Gi"}}, "newThing": {"deep": [1, {"er": True}]}}],
                             "tolerations": [{"operator": "Exists"}], "affinity": {"nodeAffinity": {}}, "restartPolicy": "Never",
                             "initContainers": [{"name": "i", "image": "x"}], "hostAliases": [{"ip": "127.0.0.1", "hostnames": ["x"]}]}}
        for place in ("spec.trainSpec.template", "spec.evalSpec.template", "spec.deploySpec.template"):
            made = self.trial(put(self.job, place, template))
            self.assertEqual(at(made, *place.split(".")), template)
        self.bad(self.job, "spec.evalSpec.template.spec.containers", [], says="at least 1 item")

    def test_mended_field_by_field(self):
        """What an older definition let through can still be changed elsewhere, and its status be written."""
        name = "incrementallearningjobs.sedna.io"
        crd = self.api.get("CustomResourceDefinition", None, name)
        lax = copy.deepcopy(crd)
        lax["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}

        def change(to):
            del to["metadata"]["resourceVersion"]
            self.api.patch("CustomResourceDefinition", None, name, {"spec": to["spec"]})
        job = put(put(self.job, "spec.dataset.trainProb", 7), "spec.trainSpec.trigger.condition.operator", "GT")

        def taken(thing):
            try:
                return self.api.create(thing)
            except ApiError as e:
                self.assertEqual(e.code, 422)
                return None

        def refused():
            try:
                self.trial(put(job, "metadata.name", "other"))
                return False
            except ApiError as e:
                self.assertEqual(e.code, 422)
                return True
        change(lax)
        try:
            made = until(lambda: taken(job), "the lax definition is in use")
        finally:
            change(crd)
        until(refused, "ours is in use again")
        status = {"conditions": [{"type": "Waiting", "status": "True", "stage": "Train", "reason": "InvalidSpec"}], "round": 1}
        made = self.api.patch(JOB, self.ns, meta(made, "name"), {"status": status}, sub="status")
        self.assertEqual(made["status"], status)
        self.api.patch(JOB, self.ns, meta(made, "name"), {"spec": {"dataset": {"trainProb": 0.7}}})
        self.api.patch(JOB, self.ns, meta(made, "name"), {"spec": {"trainSpec": {"trigger": {"condition": {"operator": ">"}}}}})

    def test_definitions_of_sedna(self):
        """The ones that stand for Sedna's own are valid, and have none of our rules and members."""
        for crd in definitions(as_sedna=True):
            made = self.api.request("PATCH", path_of(crd["kind"], None, meta(crd, "name")), crd, content_type="application/apply-patch+yaml",
                                    query={"fieldManager": "test", "force": "true", "dryRun": "All"})
            text = json.dumps(made["spec"]["versions"][0])
            for word in ("x-kubernetes-validations", '"default"', "lastMetric", "deployedRound"):
                self.assertNotIn(word, text)
            self.assertIn("x-kubernetes-preserve-unknown-fields" if meta(crd, "name").startswith("incremental") else '"updateTime"', text)

    def test_status(self):
        """A subresource of its own, with every member that is written there; nothing else stays."""
        self.api.create(self.job)
        condition = {"type": "Completed", "status": "True", "stage": "Deploy", "lastHeartbeatTime": "2026-01-02T03:04:05Z",
                     "lastTransitionTime": "2026-01-02T03:04:05Z", "reason": "NotBetter", "message": "m", "data": "{}"}
        status = {"startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:04:05Z", "conditions": [condition], "round": 7,
                  "stage": "Deploy", "phase": "Completed", "reason": "NotBetter", "lastMetric": "precision 0.93 (0.91)", "deployedRound": 5}
        made = self.api.patch(JOB, self.ns, "signs-demo", {"status": {**status, "unknown": 1}, "spec": {"outputDir": "/x"}}, sub="status")
        self.assertEqual(made["status"], status)
        self.assertEqual(made["spec"], self.job["spec"])
        self.assertEqual(meta(made, "generation"), 1)
        with self.assertRaises(ApiError) as caught:
            self.api.patch(JOB, self.ns, "signs-demo", {"status": {"conditions": [put(condition, "type", "Finished")]}}, sub="status")
        self.assertIn('"Waiting"', str(caught.exception))
        self.api.create(self.dataset)
        made = self.api.patch("Dataset", self.ns, "traffic-signs", {"status": {"numberOfSamples": 5, "updateTime": "2026-01-02T03:04:05Z"}}, sub="status")
        self.assertEqual(made["status"]["numberOfSamples"], 5)
        self.api.create(self.deploy)
        metrics = [{"key": "precision", "value": "0.93"}]
        made = self.api.patch("Model", self.ns, "signs-deploy", {"status": {"metrics": metrics}}, sub="status")
        self.assertEqual(made["status"]["metrics"], metrics)

    def test_columns(self):
        """What kubectl get shows."""
        self.api.create_all([self.dataset, self.initial, self.job])
        row = self.api.table(JOB, self.ns)[0]
        self.assertEqual([row["Round"], row["Stage"], row["Phase"], row["Metric"]], [None] * 4)
        self.api.patch(JOB, self.ns, "signs-demo", {"status": {"round": 3, "stage": "Eval", "phase": "Running", "lastMetric": "precision 0.9 (0.8)",
                                                               "deployedRound": 2, "reason": "NodeUnreachable",
                                                               "inference": {"inferences": 900, "hardExamples": 7}}}, sub="status")
        row = self.api.table(JOB, self.ns)[0]
        age = row.pop("Age")
        self.assertRegex(age, r"^\d+s$")
        self.assertEqual(row, {"Name": "signs-demo", "Round": 3, "Stage": "Eval", "Phase": "Running", "Metric": "precision 0.9 (0.8)", "Deployed": 2,
                               "Reason": "NodeUnreachable", "Hard": 7, "Dataset": "traffic-signs"})
        self.api.patch("Dataset", self.ns, "traffic-signs", {"status": {"numberOfSamples": 41}}, sub="status")
        row = self.api.table("Dataset", self.ns)[0]
        self.assertEqual([row["Node"], row["Samples"], row["Format"]], ["edge-1", 41, "txt"])
        row = self.api.table("Model", self.ns)[0]
        self.assertEqual([row["Format"], row["Metric"], row["Value"], row["Updated"]], ["ckpt", None, None, None])
        metrics = [{"key": "precision", "value": "[0.9,0.8]"}, {"key": "recall", "value": "0.7"}]
        self.api.patch("Model", self.ns, "signs-initial", {"status": {"updateTime": "2026-01-02T03:04:05.678Z", "metrics": metrics}}, sub="status")
        row = self.api.table("Model", self.ns)[0]
        self.assertEqual([row["Metric"], row["Value"]], ["precision", "[0.9,0.8]"])
        self.assertRegex(row["Updated"], r"^\d+d$")

    def test_names(self):
        found = {r["name"]: r for r in self.api.request("GET", "/apis/sedna.io/v1alpha1")["resources"]}
        self.assertEqual(found["incrementallearningjobs"]["shortNames"], ["il"])
        for name in ("datasets", "models", "incrementallearningjobs"):
            self.assertIn("ilmare", found[name]["categories"])
            self.assertIn(f"{name}/status", found)


class Pods(Case):
    """Each test has nodes of its own name, since the pods of other tests may still be there."""

    def setUp(self):
        super().setUp()
        self.node = f"node-{self.ns}"
        self.bed = self.kubelet(self.node, backoff=(0.01, 0.05))

    def exit_code(self, pod, last=False):
        return at(pod, "status", "containerStatuses", 0, "lastState" if last else "state", "terminated", "exitCode")

    def waits(self, name, reason):
        return self.api.wait("Pod", self.ns, name, lambda o: at(o, "status", "containerStatuses", 0, "state", "waiting", "reason") == reason,
                             f"{name} waits: {reason}")

    def test_runs_and_ends(self):
        self.pod("good", ["/bin/sh", "-c", "echo $GREETING $0", "x"], self.node, container={"env": [{"name": "GREETING", "value": "hello"}]})
        pod = self.phase("good", "Succeeded")
        self.assertEqual(self.exit_code(pod), 0)
        self.assertEqual(self.bed.text(self.ns, "good"), "hello x\n")
        self.pod("bad", ["/bin/sh", "-c", "exit 7"], self.node)
        self.assertEqual(self.exit_code(self.phase("bad", "Failed")), 7)
        self.pod("none", ["/no/such/program"], self.node)
        self.assertEqual(at(self.phase("none", "Failed"), "status", "containerStatuses", 0, "state", "terminated", "reason"), "StartError")

    def test_restarts(self):
        """OnFailure until it succeeds, counted; Always also then."""
        self.pod("third", ["/bin/sh", "-c", 'echo x >> "$HOME/n"; [ "$(wc -l < "$HOME/n")" -eq 3 ]'], self.node, restartPolicy="OnFailure")
        pod = self.phase("third", "Succeeded")
        self.assertEqual(at(pod, "status", "containerStatuses", 0, "restartCount"), 2)
        self.assertEqual(self.exit_code(pod, last=True), 1)
        self.assertEqual([s.number for s in self.bed.starts], [0, 1, 2])
        self.pod("always", ["/bin/true"], self.node, restartPolicy="Always")
        self.api.wait("Pod", self.ns, "always", lambda o: at(o, "status", "containerStatuses", 0, "restartCount", default=0) >= 2, "it restarts")
        self.api.delete("Pod", self.ns, "always")
        self.api.wait_gone("Pod", self.ns, "always")

    def test_is_terminated_with_grace(self):
        self.pod("polite", ["/bin/sh", "-c", "trap 'echo bye; exit 3' TERM; echo up; sleep 1000 & wait"], self.node)
        self.phase("polite", "Running")
        until(lambda: "up" in self.bed.text(self.ns, "polite"), "it is up")
        pid, file = self.bed.pid(self.ns, "polite"), self.bed.folder / self.api.get("Pod", self.ns, "polite")["metadata"]["uid"] / "main.log"
        self.api.delete("Pod", self.ns, "polite")
        self.api.wait_gone("Pod", self.ns, "polite")
        self.assertIn("bye", file.read_text())
        self.assertFalse(os.path.exists(f"/proc/{pid}"))
        self.pod("stubborn", ["/bin/sh", "-c", "trap '' TERM; echo up; while :; do sleep 1000; done"], self.node, terminationGracePeriodSeconds=1)
        self.phase("stubborn", "Running")
        until(lambda: "up" in self.bed.text(self.ns, "stubborn"), "it is up")
        self.api.delete("Pod", self.ns, "stubborn")
        self.api.wait_gone("Pod", self.ns, "stubborn")
        self.pod("forced", LOOP, self.node)
        self.phase("forced", "Running")
        pid = self.bed.pid(self.ns, "forced")
        self.api.delete("Pod", self.ns, "forced", grace=0)
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the process is gone")

    def test_environment_and_mounts(self):
        """Variables from everywhere; paths of the container become those of this machine."""
        root = self.world.path / "root"
        (root / "data" / "in").mkdir(parents=True)
        (root / "data" / "in" / "file").write_text("content\n")
        self.bed.node("rooted-" + self.ns, root=root, env={"LC_SERVER": "http://localhost:1"})
        self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": self.ns}, "stringData": {"KEY": "se/cret"}})
        env = [{"name": "IN", "value": "/home/data/data/in/file;/home/data/data/in"}, {"name": "DATA_PATH_PREFIX", "value": "/home/data"},
               {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "KEY"}}}, {"name": "S3", "value": "s3://x/home/data/data/in"},
               {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}, {"name": "BOTH", "value": "$(KEY)-$(NONE)"},
               {"name": "LC_SERVER", "value": "http://localhost:9100"}, {"name": "EMPTY", "value": "/downloads/x"}]
        mounts = [{"name": "in", "mountPath": "/home/data/data/in"}, {"name": "d", "mountPath": "/downloads"}, {"name": "s", "mountPath": "/s"}]
        volumes = [{"name": "in", "hostPath": {"path": "/data/in", "type": "Directory"}}, {"name": "d", "emptyDir": {}}, {"name": "s", "secret": {"secretName": "s"}}]
        fetch = {"name": "fetch", "image": "fetch", "args": ["/downloads/x"], "volumeMounts": mounts}
        self.bed.images["fetch"] = ["/bin/sh", "-c", 'echo fetched > "$0"']
        self.pod("p", ["/bin/sh", "-c", 'env; cat "${IN%;*}" "$EMPTY" "$0"; echo', "/s/KEY"], "rooted-" + self.ns,
                 container={"env": env, "volumeMounts": mounts}, volumes=volumes, initContainers=[fetch])
        pod = self.phase("p", "Succeeded")
        self.assertEqual(at(pod, "status", "initContainerStatuses", 0, "state", "terminated", "exitCode"), 0)
        text = self.bed.text(self.ns, "p")
        for line in (f"IN={root}/data/in/file;{root}/data/in", f"DATA_PATH_PREFIX={root}", "KEY=se/cret", "S3=s3://x/home/data/data/in",
                     f"NODE=rooted-{self.ns}", "BOTH=se/cret-$(NONE)", "LC_SERVER=http://localhost:1", "content", "fetched", "se/cret"):
            self.assertIn(line, text.splitlines())

    def test_what_is_missing_is_waited_for(self):
        folder = self.world.path / "late"
        volume = {"volumes": [{"name": "v", "hostPath": {"path": str(folder), "type": "Directory"}}]}
        self.pod("mount", ["/bin/true"], self.node, container={"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, **volume)
        self.waits("mount", "ContainerCreating")
        folder.mkdir()
        self.phase("mount", "Succeeded")
        self.pod("secret", ["/bin/true"], self.node, container={"env": [{"name": "K", "valueFrom": {"secretKeyRef": {"name": "late", "key": "K"}}}]})
        self.waits("secret", "CreateContainerConfigError")
        self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "late", "namespace": self.ns}, "stringData": {"K": "v"}})
        self.phase("secret", "Succeeded")

    def test_image_that_cannot_be_pulled(self):
        self.bed.fault("slow", "ImagePullBackOff")
        self.pod("slow", ["/bin/true"], self.node)
        self.assertEqual(self.waits("slow", "ImagePullBackOff")["status"]["phase"], "Pending")
        self.bed.clear_faults()
        self.phase("slow", "Succeeded")
        self.pod("args-only", None, self.node)
        self.waits("args-only", "ImagePullBackOff")
        self.bed.images["ilmare.test/none"] = ["/bin/true"]
        self.phase("args-only", "Succeeded")

    def test_scheduler(self):
        """By selector and affinity; what fits no node says so, and is placed when one comes."""
        self.bed.node("gpu-" + self.ns, labels={"gpu": self.ns})
        self.pod("selected", ["/bin/true"], nodeSelector={"gpu": self.ns})
        self.assertEqual(self.phase("selected", "Succeeded")["spec"]["nodeName"], "gpu-" + self.ns)
        self.pod("unhappy", ["/bin/true"], nodeSelector={"tpu": self.ns})

        def unschedulable(o):
            return any(c["type"] == "PodScheduled" and c.get("reason") == "Unschedulable" for c in at(o, "status", "conditions", default=[]))
        self.api.wait("Pod", self.ns, "unhappy", unschedulable, "it is unschedulable")
        self.bed.node("tpu-" + self.ns, labels={"tpu": self.ns})
        self.phase("unhappy", "Succeeded")
        self.bed.fault("never", "Unschedulable")
        self.pod("never", ["/bin/true"])
        self.api.wait("Pod", self.ns, "never", unschedulable, "it is unschedulable")
        self.bed.clear_faults()
        self.phase("never", "Succeeded")

    def test_evicted(self):
        self.pod("victim", LOOP, self.node, restartPolicy="Always")
        self.phase("victim", "Running")
        pid = self.bed.pid(self.ns, "victim")
        self.bed.evict(self.ns, "victim")
        self.assertEqual(self.phase("victim", "Failed")["status"]["reason"], "Evicted")
        self.assertFalse(os.path.exists(f"/proc/{pid}"))

    def test_out_of_memory(self):
        self.pod("big", LOOP, self.node, restartPolicy="OnFailure")
        self.phase("big", "Running")
        self.bed.oom(self.ns, "big")
        pod = self.api.wait("Pod", self.ns, "big", lambda o: at(o, "status", "containerStatuses", 0, "restartCount") == 1, "it is restarted")
        self.assertEqual(at(pod, "status", "containerStatuses", 0, "lastState", "terminated", "reason"), "OOMKilled")
        self.assertEqual(self.exit_code(pod, last=True), 137)

    def test_unknown(self):
        self.pod("lost", LOOP, self.node)
        self.phase("lost", "Running")
        self.bed.unknown(self.ns, "lost")
        self.phase("lost", "Unknown")
        self.bed.kill(self.ns, "lost", signal.SIGTERM)
        self.phase("lost", "Succeeded")

    def test_stuck_terminating(self):
        self.pod("stuck", LOOP, self.node)
        self.phase("stuck", "Running")
        self.bed.fault("stuck", "StuckTerminating")
        self.api.delete("Pod", self.ns, "stuck")
        self.bed.settle()
        self.assertIsNotNone(meta(self.api.get("Pod", self.ns, "stuck"), "deletionTimestamp"))
        self.assertIsNotNone(self.bed.pid(self.ns, "stuck"))
        self.bed.clear_faults()
        self.api.wait_gone("Pod", self.ns, "stuck")

    def test_node_away(self):
        """Nothing is heard of it, and nothing reaches it, until it is back; what ended meanwhile is told then."""
        done = self.world.path / "go"
        for name in ("runs", "ends", "deleted"):
            self.pod(name, LOOP if name != "ends" else ["/bin/sh", "-c", f"while [ ! -e {done} ]; do sleep 0.02; done"], self.node,
                     tolerations=[{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}] if name != "deleted" else [])
            self.phase(name, "Running")
        pid = self.bed.pid(self.ns, "ends")
        self.bed.away(self.node)
        node = self.api.get("Node", None, self.node)
        self.assertEqual(at(node, "status", "conditions", 0, "status"), "Unknown")
        self.assertEqual({t["key"] for t in node["spec"]["taints"]}, {"node.kubernetes.io/unreachable"})
        self.assertEqual(self.bed.evict_intolerant(self.node), ["deleted"])
        done.touch()
        until(lambda: not os.path.exists(f"/proc/{pid}"), "the process has ended")
        self.bed.settle()
        pods = {meta(p, "name"): p for p in self.api.list("Pod", self.ns)}
        self.assertEqual({n: p["status"]["phase"] for n, p in pods.items()}, dict.fromkeys(("runs", "ends", "deleted"), "Running"))
        self.assertIsNotNone(meta(pods["deleted"], "deletionTimestamp"))
        self.pod("late", ["/bin/true"], self.node)
        self.bed.back(self.node)
        for name in ("ends", "late"):
            self.phase(name, "Succeeded")
        self.api.wait_gone("Pod", self.ns, "deleted")
        ready = [c["status"] for c in self.phase("runs", "Running")["status"]["conditions"] if c["type"] == "Ready"]
        self.assertEqual(ready, ["True"])

    def test_node_reboots_and_goes(self):
        self.pod("again", LOOP, self.node, restartPolicy="Always")
        self.phase("again", "Running")
        self.bed.reboot(self.node)
        self.api.wait("Pod", self.ns, "again", lambda o: at(o, "status", "containerStatuses", 0, "restartCount") == 1 and
                      at(o, "status", "phase") == "Running", "it was started again")
        self.bed.remove(self.node)
        self.api.wait_gone("Pod", self.ns, "again")
        self.assertIsNone(self.api.get("Node", None, self.node))

    def test_function_instead_of_a_process(self):
        def entry(container):
            container.stop = lambda: container.done(0)
            if container.env.get("END"):
                container.done(int(container.env["END"]))
        self.bed.images["ilmare.test/none"] = entry
        self.pod("ends", None, self.node, container={"env": [{"name": "END", "value": "4"}]})
        self.assertEqual(self.exit_code(self.phase("ends", "Failed")), 4)
        self.pod("serves", None, self.node)
        self.phase("serves", "Running")
        self.api.delete("Pod", self.ns, "serves")
        self.api.wait_gone("Pod", self.ns, "serves")


class Owners(Case):
    def setUp(self):
        super().setUp()
        self.node = f"node-{self.ns}"
        self.bed = self.kubelet(self.node)
        self.collector()
        job = manifests(HERE / "sedna_job.yaml", NS=self.ns, NODE=self.node, ROOT="/data")[-1]
        self.job = self.api.create(job)

    def child(self, name):
        self.pod(name, LOOP, self.node)
        ref = {"apiVersion": "sedna.io/v1alpha1", "kind": JOB, "name": "signs-demo", "uid": meta(self.job, "uid"), "controller": True,
               "blockOwnerDeletion": True}
        self.api.patch("Pod", self.ns, name, {"metadata": {"ownerReferences": [ref]}})
        self.phase(name, "Running")

    def test_background(self):
        self.child("a")
        self.pod("other", LOOP, self.node)
        self.phase("other", "Running")
        self.api.delete(JOB, self.ns, "signs-demo", propagation="Background")
        self.api.wait_gone("Pod", self.ns, "a")
        self.child_of_nobody()
        self.assertEqual([meta(p, "name") for p in self.api.list("Pod", self.ns)], ["other"])

    def child_of_nobody(self):
        """Made when its owner is gone already, or has another uid."""
        self.api.create(manifests(HERE / "sedna_job.yaml", NS=self.ns, NODE=self.node, ROOT="/data")[-1])
        ref = {"apiVersion": "sedna.io/v1alpha1", "kind": JOB, "name": "signs-demo", "uid": meta(self.job, "uid")}
        self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "late", "namespace": self.ns, "ownerReferences": [ref]},
                         "spec": {"containers": [{"name": "c", "image": "ilmare.test/none", "command": LOOP}], "nodeName": self.node}})
        self.api.wait_gone("Pod", self.ns, "late")

    def test_foreground(self):
        self.child("a")
        self.bed.fault("a", "StuckTerminating")
        self.api.delete(JOB, self.ns, "signs-demo", propagation="Foreground")
        self.api.wait("Pod", self.ns, "a", lambda o: meta(o, "deletionTimestamp"), "it is to go")
        self.assertIsNotNone(self.api.get(JOB, self.ns, "signs-demo"))
        self.bed.clear_faults()
        self.api.wait_gone(JOB, self.ns, "signs-demo")
        self.assertIsNone(self.api.get("Pod", self.ns, "a"))

    def test_orphan(self):
        self.child("a")
        self.api.delete(JOB, self.ns, "signs-demo", propagation="Orphan")
        self.api.wait_gone(JOB, self.ns, "signs-demo")
        pod = self.api.get("Pod", self.ns, "a")
        self.assertFalse(meta(pod, "ownerReferences"))
        self.assertEqual(pod["status"]["phase"], "Running")


class StandIn(Case):
    """The training project's stand-in, in pods as they are made for it, with somebody who listens instead of an edge agent."""

    def setUp(self):
        super().setUp()
        self.posts = queue.SimpleQueue()
        posts = self.posts

        class Listener(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                posts.put((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
                self.send_response(200)
                self.end_headers()
                self.wfile.write(b'{"Status":200,"Message":"OK"}')

            def log_message(self, *_):
                pass
        server = http.server.HTTPServer(("127.0.0.1", 0), Listener)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        self.root = self.world.path / "root"
        self.bed = self.kubelet("n-" + self.ns, root=self.root, env={"LC_SERVER": f"http://127.0.0.1:{server.server_port}"})
        for name, text in (("models/base", "b"), ("output/data/train/1/data.txt", "a\nb\n"), ("output/data/eval/1/data.txt", "c\n")):
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text)
        (self.root / "output/train").mkdir()

    def worker(self, kind, script, env, folders):
        """env: variables that hold paths of the node."""
        fixed = {"NAMESPACE": self.ns, "JOB_NAME": "j", "WORKER_NAME": f"{kind}-worker-x", "LC_SERVER": "http://localhost:9100", "DATA_PATH_PREFIX": "/home/data"}
        placed = {k: ";".join("/home/data" + p for p in v.split(";")) for k, v in env.items()}
        self.pod(kind, None, "n-" + self.ns, container={
            "image": "ilmare.test/stand-in:v1", "args": [script], "env": [{"name": k, "value": v} for k, v in {**fixed, **placed}.items()],
            "volumeMounts": [{"name": f"v{i}", "mountPath": "/home/data" + f} for i, f in enumerate(folders)]},
            volumes=[{"name": f"v{i}", "hostPath": {"path": f, "type": "Directory"}} for i, f in enumerate(folders)])

    def report(self, kind):
        self.phase(kind, "Succeeded")
        path, body = self.posts.get(timeout=1)
        self.assertEqual(path, f"/sedna/workers/{kind}-worker-x/info")
        self.assertEqual((body["kind"], body["status"], body["ownerName"], body["namespace"]), (kind, "completed", "j", self.ns))
        return [(r["format"], r["url"], r["metrics"]) for r in body["results"]]

    def test_round(self):
        self.worker("train", "train.py", {"BASE_MODEL_URL": "/models/base", "MODEL_URL": "/output/train/1", "TRAIN_DATASET_URL": "/output/data/train/1/data.txt"},
                    ["/models", "/output/train", "/output/data/train/1"])
        self.assertEqual(self.report("train"), [("pb", "/output/train/1/saved_model.pb", None), ("ckpt", "/output/train/1", None)])
        self.assertIn("2 samples", (self.root / "output/train/1/saved_model.pb").read_text())
        self.worker("eval", "eval.py", {"MODEL_URLS": "/output/train/1/saved_model.pb;/models/base", "TEST_DATASET_URL": "/output/data/eval/1/data.txt"},
                    ["/models", "/output/train/1", "/output/data/eval/1"])
        self.assertEqual(self.report("eval"), [("pb", "/output/train/1/saved_model.pb", {"precision": [0.9, 0.8]}),
                                               ("pb", "/models/base", {"precision": [0.5, 0.4]})])
        self.worker("inference", "inference.py", {"MODEL_URL": "/output/train/1/saved_model.pb"}, ["/output/train/1"])
        until(lambda: "serves train-worker-x learned from 2 samples" in self.bed.text(self.ns, "inference"), "it serves")
        self.api.delete("Pod", self.ns, "inference")
        self.api.wait_gone("Pod", self.ns, "inference")


class Ways(Case):
    """Who may do what, and what is counted."""

    RULES = [{"apiGroups": ["sedna.io"], "resources": ["datasets"], "verbs": ["list", "watch"]}]

    def test_accounts(self):
        token = self.cluster.service_account(self.ns, "agent", cluster_rules=self.RULES)
        user, mark = f"system:serviceaccount:{self.ns}:agent", self.cluster.mark()
        client = self.cluster.client(token)
        since = client.listed("Dataset")[1]
        self.assertEqual(list(client.watch("Dataset", since=since, seconds=0.1)), [])
        with self.assertRaises(ApiError) as caught:
            client.list("Pod")
        self.assertEqual(caught.exception.code, 403)
        self.assertEqual(dict(self.cluster.requests(mark, user)), {("list", "datasets"): 1, ("watch", "datasets"): 1, ("list", "pods"): 1})

    def test_certificates(self):
        client = self.cluster.client(certificate=self.cluster.certificate("somebody", "system:masters"))
        self.assertEqual(client.get("Namespace", None, self.ns)["metadata"]["name"], self.ns)
        with self.assertRaises(ApiError) as caught:
            self.cluster.client("wrong").list("Pod")
        self.assertEqual(caught.exception.code, 401)

    def test_kubeconfig(self):
        import yaml
        pair = self.cluster.certificate("somebody")
        for inline in (False, True):
            text = yaml.safe_load(self.cluster.kubeconfig(certificate=pair, inline=inline).read_text())
            user = text["users"][0]["user"]
            self.assertEqual("client-key-data" in user, inline)
            self.assertEqual("client-key" in user, not inline)
        folder = self.cluster.account_folder("t", self.ns)
        self.assertEqual(sorted(f.name for f in pathlib.Path(folder).iterdir()), ["ca.crt", "namespace", "token"])

    def test_waiting_gives_up(self):
        with self.assertRaises(AssertionError) as caught:
            self.api.wait("Pod", self.ns, "none", lambda o: o, "a pod comes", patience=0.2)
        self.assertIn("a pod comes", str(caught.exception))

    def test_server_goes_and_comes_back(self):
        """What was there is there again, and nodes go on."""
        node = f"node-{self.ns}"
        bed = self.kubelet(node)
        self.pod("p", LOOP, node)
        self.phase("p", "Running")
        self.cluster.stop_server()
        pid = bed.pid(self.ns, "p")
        bed.kill(self.ns, "p")
        until(lambda: not os.path.exists(f"/proc/{pid}"), "it has ended")
        self.cluster.start_server()
        self.phase("p", "Failed")


class Texts(unittest.TestCase):
    """Paths and references in words, without a cluster."""

    def test_mapped(self):
        table = {"/home/data/a": "/x", "/home/data/a/b": "/y", "/d": "/z"}
        for text, want in (("/home/data/a", "/x"), ("/home/data/a/c", "/x/c"), ("/home/data/a/b/c", "/y/c"), ("/home/data/ab", "/home/data/ab"),
                           ("/d;/home/data/a", "/z;/x"), ("s3://b/d", "s3://b/d"), ("@/d/x", "@/z/x"), ('["/d"]', '["/z"]'), ("", ""), ("/dd", "/dd")):
            self.assertEqual(mapped(text, table), want, text)

    def test_expand(self):
        for text, want in (("$(A)", "1"), ("$$(A)", "$(A)"), ("$(B)", "$(B)"), ("$A", "$A"), ("x$(A)y$(A)", "x1y1")):
            self.assertEqual(expand(text, {"A": "1"}), want)

    def test_manifest_has_every_token(self):
        text = json.dumps(manifests(HERE / "sedna_job.yaml", NS="n", NODE="o", ROOT="/r"))
        self.assertNotIn("${", text)


if __name__ == "__main__":
    main()
