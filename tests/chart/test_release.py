"""A release in a real API server: installed, upgraded from the chart before, rolled back, uninstalled, beside another one; and a round of a job with
the real agents and a real mosquitto, each with the files, the account and the rights that the chart gives it."""

import base64
import copy
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess

from chart_case import CHART, HERE, Case, main, one, pod_of, render, setUpModule  # noqa: F401

import yaml

from agents import Http, Process, free_port, until
from api import meta
from cluster import Authority, openssl
from kube_agents import FOLDER, Loop
from pods import Jobs, Placed


class Agent(Process, Http):
    """Whichever of the two."""


BEFORE = next((HERE / "previous").glob("ilmare-*.tgz"))
F = "fleet-ilmare"
# What no release makes or removes: the server's own, and what is told of others.
NOT_OURS = {"events", "leases", "componentstatuses", "endpoints", "endpointslices", "apiservices", "ipaddresses", "flowschemas", "prioritylevelconfigurations"}


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


class Release(Case):
    def setUp(self):
        super().setUp()
        self.jobs = Jobs(self, self.ns)
        self.jobs.__enter__()
        self.addCleanup(self.jobs.__exit__)
        self.addCleanup(self.remove_all)

    def remove_all(self):
        for each in json.loads(self.helm("list", "--all", "--output", "json")):
            self.helm("uninstall", each["name"])

    # ---- what is there ----

    def everything(self):
        """{(resource, namespace, name)} of all that a client can list."""
        found = set()
        groups = [("/api/v1", self.api.request("GET", "/api/v1"))]
        for group in self.api.request("GET", "/apis")["groups"]:
            path = "/apis/" + group["preferredVersion"]["groupVersion"]
            groups.append((path, self.api.request("GET", path)))
        for path, listed in groups:
            for resource in listed["resources"]:
                if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in NOT_OURS:
                    for item in self.api.request("GET", f"{path}/{resource['name']}").get("items") or []:
                        found.add((resource["name"], meta(item, "namespace") or "", meta(item, "name")))
        return found

    def secret(self, end, key="tls.crt", name=F):
        return base64.b64decode(self.api.get("Secret", self.ns, f"{name}-{end}")["data"][key])

    def pem(self):
        """All certificates that there are, by the ends of their Secrets' names."""
        return {end: self.secret(end) for end in ("authority", "cloud-authority", "broker-tls", "enrolment-tls", "cloud-tls", "operator-operator")}

    def install(self, *flags, chart=CHART, name="fleet"):
        return self.helm("install", name, chart, *flags)

    def upgrade(self, *flags, chart=CHART):
        return self.helm("upgrade", "fleet", chart, *flags)

    def crd(self, name="datasets.sedna.io"):
        return self.api.get("CustomResourceDefinition", None, name)

    # ---- tests ----

    def test_a_life(self):
        """The definitions of the chart before are replaced, certificates are kept, and what is left is what NOTES says."""
        before = self.everything()
        self.install(chart=BEFORE)
        was = self.pem()
        self.assertEqual(self.left_of_hooks(), set())

        self.api.patch("CustomResourceDefinition", None, "datasets.sedna.io", [
            {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}], how="json")
        self.api.delete("CustomResourceDefinition", None, "models.sedna.io")
        self.api.wait_gone("CustomResourceDefinition", None, "models.sedna.io")
        notes = self.upgrade()
        self.assertEqual(self.pem(), was)
        self.assertIsNotNone(self.crd("models.sedna.io"), "one that is missing is made")
        self.assertEqual([c["name"] for c in self.crd()["spec"]["versions"][0]["additionalPrinterColumns"]][:2], ["Node", "Format"])
        self.assertEqual(self.left_of_hooks(), set())
        self.assertIn("helm test fleet", notes)
        self.assertIn(f"claim data-{F}-broker-0", notes)

        chart = self.api.get("Deployment", self.ns, f"{F}-cloud")["metadata"]["labels"]["helm.sh/chart"]
        self.helm("rollback", "fleet", "1")
        self.assertEqual(self.pem(), was)
        rolled = self.api.get("Deployment", self.ns, f"{F}-cloud")["metadata"]["labels"]["helm.sh/chart"]
        self.assertNotEqual(rolled, chart)
        self.upgrade()
        self.assertEqual(self.pem(), was)

        self.helm("uninstall", "fleet")
        definitions = {("customresourcedefinitions", "", file.stem + ".sedna.io") for file in (CHART / "crds").iterdir()}
        self.assertEqual(self.everything() - before, definitions - before)
        self.assertEqual(before - self.everything(), set())

    def left_of_hooks(self):
        return {each for each in self.everything() if each[2].endswith("-crds")}

    def test_certificates_are_renewed_by_an_upgrade(self):
        self.install("--set", "crds.upgrade=false")
        was = self.pem()

        # Other hosts: the two that carry them.
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] != now[end]}, {"broker-tls", "enrolment-tls"})
        self.verified("broker-tls", "-verify_ip", "192.0.2.7")
        self.verified("enrolment-tls", "-verify_ip", "192.0.2.7")

        # Old ones: a third of their life is over.
        was = now
        self.api.patch("Secret", self.ns, f"{F}-cloud-tls", {"metadata": {"annotations": {"ilmare/renew-after": "1"}}})
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] != now[end]}, {"cloud-tls"})
        self.verified("cloud-tls", authority="cloud-authority")

        # Another authority: all that it signs.
        was = now
        self.api.delete("Secret", self.ns, f"{F}-authority")
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] == now[end]}, {"cloud-authority", "cloud-tls"})
        self.verified("operator-operator")
        broker = self.api.get("Secret", self.ns, f"{F}-broker-tls")["data"]
        self.assertEqual(base64.b64decode(broker["ca.crt"]), now["authority"])
        self.assertEqual(base64.b64decode(self.api.get("Secret", self.ns, f"{F}-cloud-tls")["data"]["ca.crt"]), now["authority"])
        self.assertEqual(self.api.get("ConfigMap", self.ns, f"{F}-ca")["data"]["ca.crt"].strip().encode(), now["authority"].strip())

        # Two authorities while one takes the other's place: both count, the first signs.
        new, was = Authority(self.world.path / "new", "Ilmare devices 2"), now
        both = new.certificate.read_bytes() + was["authority"]
        self.api.patch("Secret", self.ns, f"{F}-authority", {"data": {
            "tls.crt": base64.b64encode(both).decode(), "tls.key": base64.b64encode(new.key.read_bytes()).decode()}})
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        for end in ("broker-tls", "enrolment-tls", "operator-operator"):
            self.assertEqual(self.secret(end, "ca.crt").split(), both.split(), end)
            (self.world.path / "crt").write_bytes(self.secret(end))
            openssl("verify", "-CAfile", new.certificate, self.world.path / "crt")

    def verified(self, end, *more, authority="authority"):
        folder = self.world.path
        (folder / "ca").write_bytes(self.secret(authority))
        (folder / "crt").write_bytes(self.secret(end))
        (folder / "key").write_bytes(self.secret(end, "tls.key"))
        openssl("verify", "-CAfile", folder / "ca", *more, folder / "crt")
        self.assertEqual(openssl("x509", "-in", folder / "crt", "-noout", "-pubkey"), openssl("pkey", "-in", folder / "key", "-pubout"))

    def test_authorities_can_be_kept(self):
        flags = ("--set", "crds.upgrade=false,certificates.keep=true")
        self.install(*flags)
        was = self.pem()
        self.helm("uninstall", "fleet")
        self.assertEqual({name for kind, ns, name in self.everything() if kind == "secrets" and ns == self.ns}, {f"{F}-authority", f"{F}-cloud-authority"})
        self.install(*flags)
        self.assertEqual([self.pem()[end] for end in ("authority", "cloud-authority")], [was[end] for end in ("authority", "cloud-authority")])
        self.helm("uninstall", "fleet")
        for end in ("authority", "cloud-authority"):
            self.api.delete("Secret", self.ns, f"{F}-{end}")

    def test_side_by_side(self):
        """Namespaces that another release follows are refused, in words; others are not, whatever the releases are called."""
        first, second, watched, other = self.ns, self.cluster.namespace(), self.cluster.namespace(), self.cluster.namespace()
        off = ("--set", "crds.upgrade=false")
        self.install(*off, "--set", f"watch.namespaces={{{watched}}}")
        for follows, said in (((), "this one would follow all of them"), (("--set", f"watch.namespaces={{{other},{watched}}}"), f"would follow {watched} as well")):
            self.ns = second
            message = self.helm("install", "fleet", CHART, *off, *follows, refused=True)
            self.assertIn(f'the release "{first}:{F}" follows {watched}', message)
            self.assertIn(said, message)
        self.install(*off, "--set", f"watch.namespaces={{{other}}}")
        self.ns = first
        self.upgrade(*off, "--set", f"watch.namespaces={{{watched}}}")
        self.assertIn("would follow", self.helm("upgrade", "fleet", CHART, *off, "--set", f"watch.namespaces={{{other}}}", refused=True))
        # A second one in the same namespace.
        third = self.cluster.namespace()
        self.install(*off, "--set", f"watch.namespaces={{{third}}}", name="another")
        self.helm("uninstall", "another")
        self.ns = second
        self.helm("uninstall", "fleet")
        self.ns = first
        self.pem()
        self.assertIsNotNone(self.api.get("Deployment", first, f"{F}-cloud"))

    def test_a_hook_that_fails_says_why(self):
        """And leaves nothing: no half of a release's hooks."""
        chart = self.world.path / "broken"
        shutil.copytree(CHART, chart)
        file = chart / "crds" / "datasets.yaml"
        self.install("--set", "crds.upgrade=false")
        file.write_text(file.read_text().replace("type: integer, jsonPath: .status.numberOfSamples", "type: nonsense, jsonPath: .status.numberOfSamples"))
        self.helm("upgrade", "fleet", chart, "--set", "crds.upgrade=true", refused=True)
        self.assertIn("datasets.sedna.io: the API server answers 422", self.jobs.output[None])
        self.assertEqual(self.left_of_hooks(), set())


class ChartLoop(Loop):
    """The job of sedna_job.yaml in a namespace that a release follows; its node is the test's."""

    def __init__(self, case, edge_port):
        self.case, self.api, self.ns, self.world, self.cluster = case, case.api, case.ns, case.world, case.cluster
        self.root = case.root
        self.folder = pathlib.Path(f"{self.root}{FOLDER}")
        self.folder.mkdir(parents=True, exist_ok=True)
        self.kubelet = case.kubelet(grace=1)
        self.kubelet.node("edge-1", self.root, {"LC_SERVER": f"http://127.0.0.1:{edge_port}"})
        self.node, self.fed, self.name, self.clouds = "edge-1", 0, "signs-demo", []


class Running(Case):
    """The pods' processes, as the chart describes them; the release is in a namespace of its own."""

    def setUp(self):
        super().setUp()
        self.release_ns = self.cluster.namespace()
        self.root = self.world.path / "node"
        self.ports = {name: free_port() for name in ("broker", "cloud", "enrolment", "workers")}
        self.jobs = Jobs(self, self.release_ns, {f"{F}-broker.{self.release_ns}.svc": "127.0.0.1", "8883": str(self.ports["broker"])})
        self.jobs.__enter__()
        self.addCleanup(self.jobs.__exit__)

    def install(self):
        values = {
            "external": {"host": "127.0.0.1", "brokerPort": self.ports["broker"], "enrolmentPort": self.ports["enrolment"]},
            "watch": {"namespaces": [self.ns]}, "metrics": {"dashboard": {"enabled": True}}, "broker": {"operators": ["anna"], "denied": ["edge-9"]},
            "edge": {"workersPort": self.ports["workers"], "hostPaths": [FOLDER], "settings": {
                "mqtt": {"reconnectMin": "50ms", "reconnectMax": "200ms"}, "outbox": {"retryMin": "100ms", "retryMax": "1s"}}},
            "cloud": {"settings": {"mqtt": {"brokers": [f"mqtts://127.0.0.1:{self.ports['cloud']}"], "reconnectMin": "50ms", "reconnectMax": "200ms"},
                                   "observe": {"host": "127.0.0.1"}, "enrolment": {"host": "127.0.0.1", "port": self.ports["enrolment"]},
                                   "workers": {"startTimeout": "20s"}}}}
        self.helm("install", "fleet", CHART, "--values", "-", stdin=yaml.safe_dump(values))
        self.addCleanup(self.helm, "uninstall", "fleet")

    def of(self, kind, end):
        return self.api.get(kind, self.release_ns, f"{F}-{end}")

    def placed(self, kind, end, name):
        pod = copy.deepcopy(pod_of(self.of(kind, end)))
        pod["metadata"]["name"] = name
        return Placed(self.cluster, pod, self.world.path / name, str(self.root))

    def broker(self):
        change = [(rf"^listener {port}$", f"listener {self.ports[name]} 127.0.0.1") for port, name in ((8883, "broker"), (8884, "cloud"))]
        if os.geteuid() == 0:
            change.append((r"^persistence true$", "persistence true\nuser root"))
        broker = self.placed("StatefulSet", "broker", "broker").start(self.world, "mosquitto", change)
        until(lambda: broker.alive() and listens(self.ports["cloud"]), lambda: f"the broker listens:\n{broker.tail()}")
        return broker

    def cloud(self, name, **env):
        placed = self.placed("Deployment", "cloud", name)
        port = free_port()
        cloud = placed.start(self.world, name, env={"KUBECONFIG": str(placed.kubeconfig()), "ILMARE_OBSERVE_PORT": port, **env}, kind=Agent)
        cloud.observe_port = port
        until(lambda: cloud.serves() and cloud.get("/readyz")[0] == 200 and cloud.is_linked(), lambda: f"{name} is ready:\n{cloud.tail()}")
        return cloud

    def edge(self, node="edge-1"):
        """The pod is an object that is bound to the node, so its token is what the kubelet would mount, and its agent enrols by it."""
        self.api.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
        pod = pod_of(self.of("DaemonSet", "edge"))
        pod = self.api.create({**pod, "metadata": {**pod["metadata"], "name": f"{F}-edge-{node}"}, "spec": {**pod["spec"], "nodeName": node}})
        self.addCleanup(self.api.delete, "Pod", self.release_ns, meta(pod, "name"), grace=0)
        placed = Placed(self.cluster, {**pod, "apiVersion": "v1", "kind": "Pod"}, self.world.path / node, str(self.root))
        edge = placed.start(self.world, node, [(r"^rootDir: /rootfs$", f"rootDir: {self.root}")], kind=Agent)
        edge.observe_port = self.ports["workers"]
        until(lambda: edge.serves() and edge.is_linked(), lambda: f"the edge agent is connected:\n{edge.tail()}")
        return edge

    def operator(self, topic, seconds=20):
        """The first message at the topic that an operator with the certificate of the release gets."""
        folder = self.world.path / "anna"
        folder.mkdir(exist_ok=True)
        for key, data in self.of("Secret", "operator-anna")["data"].items():
            (folder / key).write_bytes(base64.b64decode(data))
        done = subprocess.run(["mosquitto_sub", "-h", "127.0.0.1", "-p", str(self.ports["broker"]), "--cafile", folder / "ca.crt", "--cert", folder / "tls.crt",
                               "--key", folder / "tls.key", "-V", "5", "-i", "anna", "-C", "1", "-W", str(seconds), "-t", topic],
                              capture_output=True, text=True, check=False)
        return done.stdout.strip()

    def test_a_round(self):
        self.install()
        broker = self.broker()
        cloud, other = self.cloud(f"{F}-cloud-1"), self.cloud(f"{F}-cloud-2", ILMARE_ENROLMENT_PORT=free_port())
        edge = self.edge()
        loop = ChartLoop(self, self.ports["workers"])
        loop.create()
        loop.serving()
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")
        self.assertEqual(json.loads(self.operator(f"ilmare/v1/ns/{self.ns}/job/signs-demo/state"))["deployed"]["round"], 1)

        said = self.helm("test", "fleet")
        self.assertIn("Phase:          Succeeded", said)
        self.assertIn('"node":"helm-test"', self.jobs.output["presence"])
        self.assertIn("NotFound", self.jobs.output["cloud-agent"])
        self.assertEqual([p for p in self.api.list("Pod", self.release_ns) if "test" in meta(p, "name")], [])
        until(lambda: self.operator("ilmare/v1/node/helm-test/#", seconds=1) == "", "nothing of the test is retained")

        self.shown_by_dashboard(cloud, edge)
        leader = next(c for c in (cloud, other) if "leading epoch" in c.text())
        leader.stop()
        loop.feed()
        self.assertEqual(loop.over(2, patience=60)["type"], "Completed")
        self.assertTrue(broker.alive())

    def shown_by_dashboard(self, cloud, edge):
        """Every metric that it names is one of the agents'."""
        dashboard = json.loads(next(iter(self.of("ConfigMap", "dashboard")["data"].values())))
        known = {name.split("{")[0] for agent in (cloud, edge) for name in agent.metrics()}
        named = set(re.findall(r"\bilmare_\w+", json.dumps([panel.get("targets") for panel in dashboard["panels"]])))
        self.assertGreater(len(named), 20)
        self.assertEqual(named - known, set())


if __name__ == "__main__":
    main()
