"""The pods of a release as processes: the real agents and a real mosquitto, each with the files, the account and the rights that the chart gives it,
enrol nodes and devices and complete rounds of a job."""

import base64
import copy
import json
import os
import pathlib
import re
import socket
import subprocess
import unittest

from chart_case import CHART, Case, main, pod_of, setUpModule  # noqa: F401

import yaml

from agents import ROOT, Http, Process, free_port, program, until
from api import meta
from cluster import Authority
from kube_agents import FOLDER, Loop
from pods import Jobs, Placed
from test_enroll_node import kubectl

F = "fleet-ilmare"


class Agent(Process, Http):
    """Whichever of the two."""


def listens(port):
    with socket.socket() as s:
        return s.connect_ex(("127.0.0.1", port)) == 0


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

    def install(self, **more):
        """more: values beside or instead of those that a machine without a cluster's network needs."""
        values = {
            "external": {"host": "127.0.0.1", "brokerPort": self.ports["broker"], "enrolmentPort": self.ports["enrolment"]},
            "watch": {"namespaces": [self.ns]}, "metrics": {"dashboard": {"enabled": True}}, "broker": {"operators": ["anna"], "denied": ["edge-9"]},
            "edge": {"workersPort": self.ports["workers"], "hostPaths": [FOLDER], "settings": {
                "mqtt": {"reconnectMin": "50ms", "reconnectMax": "200ms"}, "outbox": {"retryMin": "100ms", "retryMax": "1s"}}},
            "cloud": {"settings": {"mqtt": {"brokers": [f"mqtts://127.0.0.1:{self.ports['cloud']}"], "reconnectMin": "50ms", "reconnectMax": "200ms"},
                                   "observe": {"host": "127.0.0.1"}, "enrolment": {"host": "127.0.0.1", "port": self.ports["enrolment"]},
                                   "workers": {"startTimeout": "20s"}}}, **more}
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

        self.observed(cloud, edge)
        leader = next(c for c in (cloud, other) if "leading epoch" in c.text())
        leader.stop()
        loop.feed()
        self.assertEqual(loop.over(2, patience=60)["type"], "Completed")
        self.assertTrue(broker.alive())

    def test_another_broker(self):
        """With passwords, and an authority that is not the chart's: devices check it and the enrolment with one file."""
        folder = self.world.path / "other"
        authority = Authority(folder, "Somebody else")
        certificate, key = authority.sign("/CN=other", "subjectAltName=IP:127.0.0.1\n")
        users = {"ilmare-cloud": "one", "ilmare-edge": "two"}
        for name, password in users.items():
            subprocess.run(["mosquitto_passwd", *([] if (folder / "passwords").exists() else ["-c"]), "-b", folder / "passwords", name, password], check=True)
            data = {"username": name, "password": f"{password}\n"}
            self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": self.release_ns}, "stringData": data})
        (folder / "mosquitto.conf").write_text(
            f"listener {self.ports['broker']} 127.0.0.1\ncafile {authority.certificate}\ncertfile {certificate}\nkeyfile {key}\nallow_anonymous false\n"
            f"password_file {folder}/passwords\n{'user root' if os.geteuid() == 0 else ''}\n")
        other = self.world.add(Process(self.world, "other", ["/usr/sbin/mosquitto", "-c", folder / "mosquitto.conf"])).start()
        until(lambda: other.alive() and listens(self.ports["broker"]), lambda: f"the broker listens:\n{other.tail()}")
        external = {"addresses": [f"mqtts://127.0.0.1:{self.ports['broker']}"], "ca": authority.certificate.read_text(),
                    "cloudAuthSecret": "ilmare-cloud", "deviceAuthSecret": "ilmare-edge"}
        cloud = {"settings": {"observe": {"host": "127.0.0.1"}, "enrolment": {"host": "127.0.0.1", "port": self.ports["enrolment"]}}}
        self.install(broker={"enabled": False, "external": external}, cloud=cloud)
        self.assertEqual([o for kind in ("StatefulSet", "Pod") for o in self.api.list(kind, self.release_ns)], [])
        self.cloud(f"{F}-cloud-1")
        self.edge("edge-2")
        self.assertEqual({name for name in users if f"u'{name}'" in other.text()}, set(users), other.tail())

    @unittest.skipIf(kubectl() is None, "no kubectl")
    def test_a_device_outside(self):
        """A device that is no node, with the file that enroll-node makes of this release and nothing else."""
        self.install()
        self.broker()
        self.cloud(f"{F}-cloud-1")
        name, programs = "press-7", self.world.path / "bin"
        programs.mkdir()
        (programs / "kubectl").symlink_to(kubectl())
        done = subprocess.run([ROOT / "scripts" / "enroll-node", name, "--namespace", self.release_ns, "--release", "fleet"],
                              env={**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{programs}:{os.environ['PATH']}"}, capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        folder, port = self.world.path / name, free_port()
        for block, file in (("AUTHORITY", "tls/ca.crt"), ("TOKEN", "enrolment-token")):
            lines = re.search(rf"# BEGIN ILMARE {block}\n(.*?)# END ILMARE", done.stdout, re.S)[1]
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(re.sub(r"^# ", "", lines, flags=re.M))
        (folder / "edge.yaml").write_text(done.stdout.replace("/etc/ilmare/", f"{folder}/"))
        device = self.world.add(Agent(self.world, name, [program("ilmare-edge"), f"--config={folder}/edge.yaml", f"--state-dir={folder}/state",
                                                         f"--workers-port={port}"])).start()
        device.observe_port = port
        until(lambda: device.serves() and device.is_linked(), lambda: f"the device is connected:\n{device.tail()}")

    def observed(self, cloud, edge):
        """Every metric that the dashboard and the documentation name is one of the agents', every label one that they print, or that Prometheus gives to pods;
        and the agents print none of those themselves: it would be called exported_… there."""
        printed = [name for agent in (cloud, edge) for name in agent.metrics()]
        known = {name.split("{")[0] for name in printed}
        dashboard = next(iter(self.of("ConfigMap", "dashboard")["data"].values()))
        for text in (dashboard, *(file.read_text() for file in sorted((ROOT / "docs").glob("*.md")))):
            self.assertEqual(set(re.findall(r"\bilmare_(?:cloud|edge|mqtt|log)_\w+", text)) - known, set())
        own, given = {label for name in printed for label in re.findall(r"(\w+)=", name)}, {"namespace", "pod", "instance", "job"}
        self.assertEqual(own & given, set())
        targets = [target for panel in json.loads(dashboard)["panels"] for target in panel.get("targets", ())]
        self.assertGreater(len(targets), 20)
        for target in targets:
            expression, legend = target["expr"], target.get("legendFormat", "")
            used = {*re.findall(r"(\w+) *(?:=~|!~|!=|=)", expression), *re.findall(r"\{\{ *(\w+)", legend)}
            used |= {label for part in re.findall(r"\b(?:by|on|without|ignoring) *\(([^)]*)\)", expression) for label in re.findall(r"\w+", part)}
            self.assertLessEqual(used, own | given, expression)


if __name__ == "__main__":
    main()
