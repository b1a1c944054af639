#!/usr/bin/python3
"""One cluster, from its first node to the last trace of it. The tests are steps of one story, run in the order of their numbers; after one that
fails no other is run."""

import json
import os
import pathlib
import time
import unittest

from bed import NODE_ADDRESS, WORK, Machine, sh  # first: it knows where the others are
from agents import ROOT, World, program, until, worker_name
from api import at
from case import main
from device import Device, installed_size
from digits import CODE, Digits, Store
from images import busybox_image, worker_image
from node import NAME as NODE
from node import Node
from release import ENROLMENT_PORT, OUTSIDE, Release


# Beside the way in: /data is not to be made on the machine that runs this test.
VALUES = {**OUTSIDE, "edge": {"hostPaths": ["/srv/data"]}}


STATE = "ilmare/v1/ns/default/job/digits/state"


def tell(text):
    print(f"FIGURE {text}", flush=True)


def pod(name, command, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **more,
        "containers": [{"name": "main", "image": "busybox:test", "command": ["sh", "-c", command]}]}}


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)
        cls.machine, cls.broken, cls.topics = Machine(), None, None
        cls.node = Node(cls.world, cls.machine)
        try:
            cls.node.start()
        except BaseException:
            cls.world.print_logs()
            raise

    def setUp(self):
        if Story.broken:
            self.skipTest(f"{Story.broken} has failed")
        Story.broken = self.id().split(".")[-1]

    def tearDown(self):
        if not any(test is self for which in ("failures", "errors") for test, _ in getattr(self._outcome.result, which, [])):
            Story.broken = None

    def test_01_a_node(self):
        """A pod runs, is found by the name of its Service from another pod, and by the node's port from outside."""
        node = self.node
        node.load(busybox_image(node.folder))
        node.api.create(pod("web", "echo hello >/tmp/index.html; exec httpd -f -p 8080 -h /tmp"))
        node.kubectl("expose", "pod", "web", "--port=80", "--target-port=8080", "--type=NodePort")
        node.wait_pod("default", "web")
        node.api.create(pod("asker", "until wget -q -O - http://web.default.svc.cluster.local; do sleep 0.1; done"))
        node.wait_pod("default", "asker", "Succeeded")
        self.assertIn("hello", node.logs("default", "asker"))
        port = node.kubectl("get", "service", "web", "-o", "jsonpath={.spec.ports[0].nodePort}")
        self.assertEqual(sh(*self.machine.device(["curl", "-s", f"http://{NODE_ADDRESS}:{port}"])), "hello\n")
        node.kubectl("delete", "pod,service", "web", "--wait=true")
        node.kubectl("delete", "pod", "asker")

    def test_02_images(self):
        """Those of scripts/build-images, and one for the workers. Nothing can be pulled here."""
        for name in ("cloud", "edge", "transfer", "broker"):
            self.node.load(ROOT / "build" / "images" / f"ilmare-{name}-amd64.tar")
        Story.digits = Digits(Store(self.world))
        self.digits.prepare()
        self.node.load(worker_image(self.node.folder, [program("ilmare-transfer")], [*sorted(CODE.glob("*.py")), self.digits.home / "data" / "held-out.txt"]))

    def test_03_install(self):
        Story.before = Release(self.node).everything()
        Story.release = Release(self.node)
        seconds = self.release.install(VALUES)
        tell(f"helm install, until all is ready: {seconds:.1f} s")
        self.assertEqual({len(self.release.pods("cloud")), len(self.release.pods("broker"))}, {1, 2})

    def test_04_helm_test(self):
        self.assertIn("Phase:          Succeeded", self.release.helm("test", self.release.name, "--timeout", "120s"))

    def test_05_a_device(self):
        """From the package and one file to a device that is connected, with a certificate that it asked for itself."""
        package = next((ROOT / "build" / "packages").glob("ilmare-edge_*_amd64.deb"))
        tell("the package: %d bytes, installed %d" % installed_size(package))
        self.listen()
        Story.device = Device(self.machine, self.world)
        self.addClassCleanup(self.device.remove)
        self.device.install(package)
        (self.device.root / "tmp" / "edge-1.yaml").write_text(self.release.enroll_node("edge-1"))
        said = self.device.run("ilmare-enroll", "/tmp/edge-1.yaml")
        self.assertIn("all is in place for node edge-1", said)
        self.device.add_settings()
        begin = time.monotonic()
        self.device.start()
        seconds = self.device.presence(self.topics).at - begin
        tell(f"a device, from its first start to its first message: {seconds:.1f} s (certificate included)")
        certificate = self.device.run("cat", "/var/lib/ilmare/tls/node.pem")
        self.assertIn("CN = edge-1", sh("openssl", "x509", "-noout", "-subject", input=certificate))

    def listen(self):
        """Whoever listened before is replaced."""
        if self.topics:
            self.topics.end()
        Story.topics = self.release.listen()
        self.addClassCleanup(self.topics.end)

    def over(self, number, ns="default", deployed=True):
        """Wait until this round of the digits is over, well, and its model serves."""
        def ended(m):
            return m.topic == f"ilmare/v1/ns/{ns}/job/digits/state" and m.document and m.document["round"] > number
        try:
            state = self.topics.wait(ended, f"round {number} ends").document
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.device.agent.tail()}\n{self.node.how_it_is()}") from None
        if deployed:
            self.assertEqual(at(state, "deployed", "round"), number, f"{json.dumps(state)}\n{self.device.agent.tail()}\n{self.node.how_it_is()}")

    def online(self, name, since=0):
        self.topics.wait(lambda m: m.topic == f"ilmare/v1/presence/{name}" and m.document and m.document["online"], f"{name} is online", since=since)

    def certificate(self):
        """Of the cluster's node: whose, and which."""
        return sh("openssl", "x509", "-noout", "-subject", "-serial", "-in", "/var/lib/ilmare/tls/node.pem")

    def test_06_an_edge_node(self):
        """The node gets the label, and with it an agent, which gets a certificate by its pod's own token: workers on it report to that one."""
        self.node.kubectl("label", "node", NODE, "node-role.kubernetes.io/edge=")
        pod = until(lambda: next(iter(self.release.pods("edge")), None), lambda: f"there is an edge pod:\n{self.node.how_it_is()}")
        self.node.wait_pod(self.release.ns, pod)
        self.online(NODE)
        self.assertIn(f"CN = {NODE}", self.certificate())

    def test_07_three_rounds(self):
        """Real pods train on the node with what the device outside collects; in the second round its link is cut."""
        node, digits = self.node, self.digits
        node.kubectl("apply", "-f", "-", stdin=digits.manifests(NODE, 5))
        digits.feed()
        self.over(1)
        since = self.topics.mark()
        digits.feed()
        node.wait("Pod", "default", self.worker("train", 2), lambda o: o and at(o, "status", "phase") == "Running", "round 2 trains")
        self.machine.link(False)
        self.device.presence(self.topics, online=False, since=since)
        self.topics.wait(lambda m: m.topic == STATE and m.document and (m.document["round"], m.document["stage"]) == (2, "Eval"),
                         "round 2 is trained, and its evaluation waits for the device", since=since)
        digits.feed()
        self.machine.link(True)
        self.device.presence(self.topics, since=since)
        self.over(2)
        self.over(3)
        self.assertEqual(digits.lost(), (600, 0))
        shown = node.kubectl("get", "il")
        self.assertRegex(shown, r"digits +4 ")
        self.assertTrue(self.topics.find(lambda m: "/job/digits/node/edge-1/" in m.topic))
        said = node.kubectl("get", "events", "-o", "custom-columns=R:.reason,O:.involvedObject.name")
        for kind in ("train", "eval", "inference"):
            self.assertRegex(said, rf"Started +digits-{kind}")

    def worker(self, kind, number, job="digits", ns="default"):
        """The name of its pod."""
        uid = self.node.api.get("IncrementalLearningJob", ns, job)["metadata"]["uid"]
        return f"{job}-{kind}-{worker_name(kind, uid, number).rsplit('-', 1)[1]}"

    def test_12_figures(self):
        for name, size in sorted(self.node.image_sizes().items()):
            tell(f"image {name}: {size / 1e6:.1f} MB")
        for (ns, name), used in sorted(self.node.stats().items()):
            if used:
                tell(f"memory of {ns}/{name}: {used / 1e6:.1f} MB")

    def test_08_folders_of_a_node(self):
        """A job whose dataset, models and output are on the node itself; its agent's pod is deleted, and comes back as what it was."""
        node, release = self.node, self.release
        local = Digits(home=pathlib.Path("/srv/data/digits"), device=NODE, ns="factory")
        local.prepare()
        node.kubectl("create", "namespace", "factory")
        node.kubectl("apply", "-f", "-", stdin=local.manifests(NODE))
        local.feed()
        self.over(1, "factory")
        self.assertEqual(local.lost(), (200, 0))
        since, certificate, pod = self.topics.mark(), self.certificate(), next(iter(release.pods("edge")))
        node.kubectl("delete", "pod", "-n", release.ns, pod)
        again = until(lambda: next((each for each in release.pods("edge") if each != pod), None), "there is a new edge pod")
        node.wait_pod(release.ns, again)
        self.online(NODE, since)
        self.assertEqual(self.certificate(), certificate)
        local.feed()
        self.over(2, "factory")

    def test_09_no_other_name(self):
        """The token of a node's pod is good for the name of that node alone."""
        release = self.release
        pod, object_ = next(iter(release.pods("edge").items()))
        token = self.node.kubectl("create", "token", "-n", release.ns, f"{release.full}-edge", "--audience=ilmare-enrolment", "--bound-object-kind=Pod",
                                  f"--bound-object-name={pod}", f"--bound-object-uid={object_['metadata']['uid']}").strip()
        (WORK / "enrolment-ca.crt").write_bytes(release.secret("enrolment-tls")["ca.crt"])
        for name, expected in ((NODE, 200), ("edge-1", 403), ("node-2", 403)):
            request = sh("openssl", "req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", WORK / "other.key",
                         "-subj", f"/CN={name}")
            said = sh("curl", "-s", "--cacert", WORK / "enrolment-ca.crt", "-H", "Content-Type: application/json", "-d", "@-", "-w", "%{http_code}",
                      f"https://{NODE_ADDRESS}:{ENROLMENT_PORT}/enrolment/v1/node",
                      input=json.dumps({"v": 1, "node": name, "csr": request, "token": token}))
            self.assertEqual(int(said[-3:]), expected, said)

    def test_10_parts_that_die(self):
        """The leader is killed, and the broker's pod; all goes on."""
        node, release = self.node, self.release
        first = release.leader()
        self.assertIn(first, release.pods("cloud"))
        begin = time.monotonic()
        node.kubectl("delete", "pod", "-n", release.ns, first, "--grace-period=0", "--force")
        until(lambda: release.leader() not in (first, ""), lambda: f"another one leads, and not {release.leader()}:\n{node.how_it_is()}")
        tell(f"another cloud agent leads after {time.monotonic() - begin:.1f} s")
        self.digits.feed()
        self.over(4)
        before, broker = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime()), release.pods("broker")
        node.kubectl("delete", "pod", "-n", release.ns, *broker)
        node.wait_pod(release.ns, *broker)
        self.listen()
        self.device.presence(self.topics, after=before)
        self.digits.feed()
        self.over(5)
        self.assertEqual(self.digits.lost(), (1000, 0))

    def test_11_upgrade_and_rollback(self):
        """A definition that is older becomes the chart's; a value changes, and changes back."""
        node, release = self.node, self.release
        name = "datasets.sedna.io"
        columns = node.api.get("CustomResourceDefinition", None, name)["spec"]["versions"][0]["additionalPrinterColumns"]
        node.api.patch("CustomResourceDefinition", None, name, [{"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}], how="json")
        release.upgrade({**VALUES, "cloud": {"podLabels": {"test": "changed"}}})
        self.assertEqual(node.api.get("CustomResourceDefinition", None, name)["spec"]["versions"][0]["additionalPrinterColumns"], columns)
        self.assertEqual({o["metadata"]["labels"].get("test") for o in release.pods("cloud").values()}, {"changed"})
        release.helm("rollback", release.name, "1", "--wait", "--timeout", "120s")
        self.assertEqual({o["metadata"]["labels"].get("test") for o in release.pods("cloud").values()}, {None})
        self.digits.feed()
        self.over(6)

    def test_90_uninstall(self):
        """What is left is what the user keeps on purpose, and what Kubernetes puts into every namespace."""
        self.node.kubectl("delete", "il,datasets,models", "--all", "-A", "--wait=true")
        self.node.kubectl("delete", "secret", "digits-store")
        self.node.kubectl("delete", "namespace", "factory", "--wait=true")
        said = self.release.helm("uninstall", self.release.name, "--wait")
        ns, full = self.release.ns, self.release.full
        kept = {f"Namespace//{ns}", f"ServiceAccount/{ns}/default", f"ConfigMap/{ns}/kube-root-ca.crt", f"PersistentVolumeClaim/{ns}/data-{full}-broker-0",
                "PersistentVolume//broker", *(f"CustomResourceDefinition//{each}.sedna.io" for each in ("datasets", "models", "incrementallearningjobs"))}
        until(lambda: self.release.everything() - self.before <= kept, lambda: f"only what is kept is left, and {self.release.everything() - self.before - kept}:"
              f"\n{said}", interval=0.5)
        self.assertEqual(self.release.everything() - self.before, kept)

    def test_99_nothing_is_left(self):
        self.topics.end()
        self.device.remove()
        self.digits.store.process.stop()
        self.node.stop()
        self.assertEqual(self.machine.mounts(), [])
        self.assertEqual(self.machine.containers(), [])
        until(lambda: not self.machine.processes(), lambda: f"no process is left: {self.machine.processes()}", 10)


if __name__ == "__main__":
    main()
