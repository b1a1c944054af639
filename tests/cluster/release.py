"""A release of the chart: installed, tested, changed, removed with the real Helm; and what an operator hears at its broker.

    release = Release(node)
    seconds = release.install(values)        until all that it has is ready
    release.everything()                     names of all objects in the cluster that are not Kubernetes' own
    with release.listen() as topics: …       mosquitto_sub with the operator's certificate
"""

import base64
import json
import os
import pathlib
import socket
import subprocess
import threading
import time

from agents import PATIENCE, ROOT, Topics, until
from bed import NODE_ADDRESS, TOOLS, WORK, sh
from node import NAME as NODE

CHART = ROOT / "helm" / "ilmare"
BROKER_PORT, ENROLMENT_PORT = 30883, 30443

# How the device reaches the cluster, and nothing else: the default is that it does not. Ports are named because the device has to be told
# them before there is a Service (Kubernetes would choose them at random).
OUTSIDE = {"external": {"host": NODE_ADDRESS}, "broker": {"service": {"type": "NodePort", "nodePort": BROKER_PORT}},
           "enrolment": {"service": {"type": "NodePort", "nodePort": ENROLMENT_PORT}}}

# Objects that are there without anybody having asked for them, or that are about something else.
NOT_COUNTED = {"events", "events.events.k8s.io", "leases.coordination.k8s.io", "endpoints", "endpointslices.discovery.k8s.io", "nodes",
               "componentstatuses", "apiservices.apiregistration.k8s.io", "controllerrevisions.apps", "replicasets.apps"}


def is_open(address, port):
    try:
        socket.create_connection((address, port), 1).close()
        return True
    except OSError:
        return False


class Release:
    def __init__(self, node, name="ilmare", ns="ilmare"):
        self.node, self.name, self.ns = node, name, ns
        self.full = name if "ilmare" in name else f"{name}-ilmare"
        self.env = {**os.environ, "KUBECONFIG": str(node.admin_config), "HELM_CACHE_HOME": str(WORK / "helm"), "HELM_CONFIG_HOME": str(WORK / "helm"),
                    "HELM_DATA_HOME": str(WORK / "helm")}
        self.values = WORK / "values.json"
        self.said = ""

    def helm(self, *arguments, check=True):
        done = subprocess.run([TOOLS["helm"], *map(str, arguments), "--namespace", self.ns], capture_output=True, text=True, env=self.env)
        if check and done.returncode != 0:
            raise AssertionError(f"helm {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}{done.stderr}\n{self.node.how_it_is()}")
        return done.stdout + done.stderr if check else done

    def install(self, values, chart=CHART):
        """Seconds from the command to the last pod that is ready."""
        self.volume()
        self.values.write_text(json.dumps(values))
        begin = time.monotonic()
        self.said = self.helm("install", self.name, chart, "--create-namespace", "--values", self.values, "--wait", "--timeout", f"{PATIENCE:.0f}s")
        return time.monotonic() - begin

    def upgrade(self, values, chart=CHART):
        self.values.write_text(json.dumps(values))
        return self.helm("upgrade", self.name, chart, "--values", self.values, "--wait", "--timeout", f"{PATIENCE:.0f}s")

    def volume(self):
        """What a provisioner would make for the broker's claim: a folder of the node. It is root's; the pod's fsGroup has to open it."""
        folder = pathlib.Path("/var/lib/broker-volume")
        folder.mkdir(mode=0o755)
        self.node.api.request("POST", "/api/v1/persistentvolumes", {
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "broker"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "local": {"path": str(folder)},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                    {"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]}]}}}})

    def secret(self, name):
        found = self.node.api.get("Secret", self.ns, f"{self.full}-{name}")
        assert found, f"there is no Secret {self.full}-{name}"
        return {key: base64.b64decode(value) for key, value in found["data"].items()}

    def pods(self, component):
        text = self.node.kubectl("get", "pods", "-n", self.ns, "-l", f"app.kubernetes.io/component={component},app.kubernetes.io/instance={self.name}",
                                 "-o", "json")
        return {o["metadata"]["name"]: o for o in json.loads(text)["items"] if not o["metadata"].get("deletionTimestamp")}

    def leader(self):
        """The name of its pod, "" if nobody leads. The holder is that name and a number of the process."""
        lease = self.node.api.get("Lease", self.ns, f"{self.full}-cloud")
        return (lease and lease["spec"].get("holderIdentity") or "").rpartition("_")[0]

    def listen(self, name="operator"):
        return Operator(self, name)

    def enroll_node(self, name):
        """The file for a new device."""
        folder = WORK / "bin"
        if not folder.exists():
            folder.mkdir()
            (folder / "kubectl").symlink_to(TOOLS["kubectl"])
        return sh(ROOT / "scripts" / "enroll-node", name, "--namespace", self.ns, "--release", self.name,
                  env={**self.env, "PATH": f"{folder}:{os.environ['PATH']}"})

    def everything(self):
        """{kind/namespace/name} of what is in the cluster."""
        kinds = [each for each in self.node.kubectl("api-resources", "--verbs=list", "-o", "name").split() if each not in NOT_COUNTED]
        text = self.node.kubectl("get", ",".join(kinds), "-A", "--ignore-not-found", "-o", "json")
        return {f"{o['kind']}/{o['metadata'].get('namespace', '')}/{o['metadata']['name']}" for o in json.loads(text)["items"]}


class Operator(Topics):
    """Somebody with an operator's certificate, at the broker's outside address, by a cable of their own.

    mosquitto_sub ends if its first connection is refused, and tries for minutes if it leads nowhere, as the port of a node may while the broker's
    pod is a new one. So it is begun when the port is open, again if it has ended, and has begun when it has heard something: presence is retained.
    """

    def __init__(self, release, name):
        folder = WORK / f"operator-{name}"
        folder.mkdir(mode=0o700, exist_ok=True)
        for key, value in release.secret(f"operator-{name}").items():
            (folder / key).write_bytes(value)
        command = ["mosquitto_sub", "-h", NODE_ADDRESS, "-p", BROKER_PORT, "--cafile", folder / "ca.crt", "--cert", folder / "tls.crt",
                   "--key", folder / "tls.key", "-V", "5", "-q", "1", "--retain-as-published", "-F", "%r %t %x", "-t", "ilmare/v1/#"]
        self.command, self.process = [*map(str, command)], None
        self.messages, self.changed, self.listener, self.ready = [], threading.Condition(), None, threading.Event()
        until(self._hears, lambda: f"an operator hears what is retained; mosquitto_sub's status: {self.process and self.process.poll()}", interval=0.1)

    def _hears(self):
        if self.process is None or self.process.poll() is not None:
            if not is_open(NODE_ADDRESS, BROKER_PORT):
                return False
            if self.process:
                self.end()
            self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self.thread = threading.Thread(target=self._read, args=(None,), daemon=True)
            self.thread.start()
        return self.messages

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()
