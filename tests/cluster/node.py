"""A Kubernetes of one node: the control plane of tests/kube with a controller manager and a scheduler, and on the node containerd, a kubelet,
kube-proxy and a name server, each as a process of the test's.

    with World() as world:
        node = Node(world, Machine()).start()     Ready: a pod can run
        node.kubectl("get", "pods", "-A")         what it prints
        node.load(archive)                        an image, as its pods see it
        node.stats()                              {(namespace, pod): bytes of memory}, as the kubelet reports it
        node.stop()                               pods first, then the rest; what is left is for Machine to find

The image that holds a pod's network (pause:test) is made here; nothing is pulled. Pods have addresses of their own by the plugin ptp.
"""

import json
import os
import pathlib
import re
import subprocess

import yaml

from agents import PATIENCE, Process, until
from api import at
from bed import API_ADDRESS, NODE_ADDRESS, POD_NETWORK, SERVICE_NETWORK, TOOLS, WORK, sh
from cluster import DIES_WITH_US, Cluster
from images import pause_image

NAME = "node-1"
SOCKET = "/run/containerd/containerd.sock"

CONTAINERD = """
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs",
	"io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp"]
[grpc]
	address = "%(socket)s"
[plugins."io.containerd.grpc.v1.cri"]
	sandbox_image = "docker.io/library/pause:test"
	restrict_oom_score_adj = true
	disable_apparmor = true
	enable_selinux = false
	[plugins."io.containerd.grpc.v1.cri".cni]
		bin_dir = "/usr/lib/cni"
		conf_dir = "/etc/cni/net.d"
	[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
		runtime_type = "io.containerd.runc.v2"
		[plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
			SystemdCgroup = false
"""

NETWORK = {"cniVersion": "0.4.0", "name": "pods", "plugins": [
    {"type": "ptp", "ipMasq": True, "ipam": {"type": "host-local", "ranges": [[{"subnet": POD_NETWORK}]], "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "portmap", "capabilities": {"portMappings": True}}]}

KUBELET = {
    "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration", "cgroupDriver": "cgroupfs", "failCgroupV1": False,
    "failSwapOn": False, "clusterDomain": "cluster.local", "clusterDNS": [NODE_ADDRESS], "resolvConf": "/etc/resolv.conf",
    "enforceNodeAllocatable": [], "oomScoreAdj": 0, "maxPods": 40, "containerRuntimeEndpoint": f"unix://{SOCKET}", "localStorageCapacityIsolation": True,
    "evictionHard": {"memory.available": "1Mi", "nodefs.available": "1Mi", "imagefs.available": "1Mi", "nodefs.inodesFree": "1",
                     "imagefs.inodesFree": "1", "pid.available": "1"},
    "imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99, "registerWithTaints": [], "rotateCertificates": False,
    "nodeStatusUpdateFrequency": "2s", "syncFrequency": "5s", "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": True}},
    "authorization": {"mode": "Webhook"}, "volumePluginDir": "/var/lib/kubelet/plugins-volume"}

COREFILE = """.:53 {
	bind %(address)s
	errors
	ready %(address)s:8181
	kubernetes cluster.local in-addr.arpa {
		kubeconfig %(kubeconfig)s
		ttl 5
	}
}
"""


class Node:
    def __init__(self, world, machine):
        self.world, self.machine = world, machine
        self.folder = WORK / "node"
        self.folder.mkdir()
        self.cluster = self._control_plane()
        self.api = self.cluster.admin
        self.admin_config = self.cluster.kubeconfig(token="admin-token", name="admin.conf")
        self.parts = {}

    def _control_plane(self):
        flags = ["--bind-address=0.0.0.0", f"--advertise-address={NODE_ADDRESS}", f"--service-cluster-ip-range={SERVICE_NETWORK}",
                 "--endpoint-reconciler-type=lease", "--authorization-mode=Node", "--enable-admission-plugins=NodeRestriction",
                 "--kubelet-preferred-address-types=InternalIP", "--service-node-port-range=30000-32767"]
        cluster = Cluster(self.world, flags=flags, crds=False)
        certificate, key = cluster.authority.sign("/CN=kube-apiserver", f"subjectAltName=IP:127.0.0.1,IP:{NODE_ADDRESS},IP:{API_ADDRESS},DNS:localhost,"
                                                  "DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local\n")
        to_kubelet = cluster.certificate("kube-apiserver", "system:masters")
        cluster.server.command += [f"--tls-cert-file={certificate}", f"--tls-private-key-file={key}", f"--kubelet-client-certificate={to_kubelet[0]}",
                                   f"--kubelet-client-key={to_kubelet[1]}", f"--kubelet-certificate-authority={cluster.ca}"]
        return cluster

    # ---- life ----

    def start(self):
        self._containerd()
        self.cluster.start()
        self._controllers()
        self._proxy_and_names()
        self.load(pause_image(self.folder))
        self._kubelet()
        self.wait("Node", None, NAME, lambda o: o and self._is(o, "Ready"), "it is Ready")
        return self

    def _run(self, name, *command, **more):
        self.parts[name] = self.world.add(Process(self.world, name, [*DIES_WITH_US, *command], **more)).start()
        return self.parts[name]

    def _config(self, user, *groups):
        return self.cluster.kubeconfig(certificate=self.cluster.certificate(user, *groups), name=f"{user.replace(':', '-')}.conf")

    def _containerd(self):
        config = self.folder / "containerd.toml"
        config.write_text(CONTAINERD % {"socket": SOCKET})
        networks = pathlib.Path("/etc/cni/net.d")
        networks.mkdir(parents=True, exist_ok=True)
        for each in networks.iterdir():
            each.unlink()
        (networks / "10-pods.conflist").write_text(json.dumps(NETWORK))
        self._run("containerd", "containerd", "--config", config, "--log-level", "info")
        until(lambda: subprocess.run(["ctr", "--address", SOCKET, "version"], capture_output=True).returncode == 0,
              lambda: f"containerd answers:\n{self.parts['containerd'].tail()}")

    def _controllers(self):
        key = self.cluster.folder / "accounts.key"
        self._run("controller-manager", TOOLS["kube-controller-manager"], f"--kubeconfig={self._config('system:kube-controller-manager')}",
                  f"--service-account-private-key-file={key}", f"--root-ca-file={self.cluster.ca}", "--use-service-account-credentials",
                  "--leader-elect=false", "--bind-address=127.0.0.1", "--profiling=false")
        self._run("scheduler", TOOLS["kube-scheduler"], f"--kubeconfig={self._config('system:kube-scheduler')}", "--leader-elect=false",
                  "--bind-address=127.0.0.1", "--profiling=false")

    def _proxy_and_names(self):
        config = self.folder / "proxy.yaml"
        config.write_text(yaml.safe_dump({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "iptables", "clusterCIDR": POD_NETWORK,
            "hostnameOverride": NAME, "clientConnection": {"kubeconfig": str(self._config("system:kube-proxy"))}, "bindAddress": NODE_ADDRESS,
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
            "iptables": {"minSyncPeriod": "200ms"}}))
        self._run("proxy", TOOLS["kube-proxy"], f"--config={config}")
        corefile = self.folder / "Corefile"
        corefile.write_text(COREFILE % {"address": NODE_ADDRESS, "kubeconfig": self.admin_config})
        self._run("names", TOOLS["coredns"], "-conf", corefile)
        until(lambda: subprocess.run(["curl", "-sf", "-o", "/dev/null", f"http://{NODE_ADDRESS}:8181/ready"]).returncode == 0,
              lambda: f"the name server is ready:\n{self.parts['names'].tail()}")

    def _kubelet(self):
        folder = self.folder
        certificate, key = self.cluster.authority.sign(f"/O=system:nodes/CN=system:node:{NAME}", f"subjectAltName=IP:{NODE_ADDRESS},DNS:{NAME}\n")
        config = folder / "kubelet.yaml"
        config.write_text(yaml.safe_dump({**KUBELET, "cgroupRoot": self.machine.cgroup, "tlsCertFile": str(certificate), "tlsPrivateKeyFile": str(key),
                                          "address": NODE_ADDRESS, "authentication": {**KUBELET["authentication"],
                                                                                      "x509": {"clientCAFile": str(self.cluster.ca)}}}))
        self._run("kubelet", TOOLS["kubelet"], f"--config={config}", f"--kubeconfig={self._config(f'system:node:{NAME}', 'system:nodes')}",
                  f"--hostname-override={NAME}", f"--node-ip={NODE_ADDRESS}", "--root-dir=/var/lib/kubelet")

    def stop(self):
        """Pods, then who keeps them, then containerd, then the control plane. What is there afterwards is a leak."""
        for ns in [o["metadata"]["name"] for o in self.api.list("Namespace")]:
            for pod in self.api.list("Pod", ns):
                self.api.delete("Pod", ns, pod["metadata"]["name"], grace=1)
        until(lambda: not (self.pods() or self.ctr("tasks", "ls", "-q").split() or self.machine.mounts() or self.machine.containers()),
              lambda: f"no pod is left:\n{self.pods()}\n{self.ctr('tasks', 'ls')}\n{self.machine.mounts()}\n{self.machine.containers()}\n{self.errors_of('kubelet')}", interval=0.1)
        for name in ("kubelet", "proxy", "names", "scheduler", "controller-manager"):
            self.parts[name].stop()
        # What a kubelet would collect in the next minute.
        containers = self.ctr("containers", "ls", "-q").split()
        if containers:
            self.ctr("containers", "rm", *containers)
        self.parts["containerd"].stop()
        self.cluster.close()

    # ---- what is in it ----

    def ctr(self, *arguments):
        return sh("ctr", "--address", SOCKET, "--namespace", "k8s.io", *arguments)

    def load(self, file):
        self.ctr("images", "import", file)

    def image_sizes(self):
        """{reference: bytes}, as the kubelet sees them."""
        return {name.replace("docker.io/library/", ""): each["sizeBytes"] for each in at(self.api.get("Node", None, NAME), "status", "images") or []
                for name in each["names"] if "@" not in name}

    def pods(self):
        return [f"{o['metadata']['namespace']}/{o['metadata']['name']}" for o in self.api.request("GET", "/api/v1/pods")["items"]]

    def stats(self):
        summary = self.api.request("GET", f"/api/v1/nodes/{NAME}/proxy/stats/summary?only_cpu_and_memory=true")
        return {(each["podRef"]["namespace"], each["podRef"]["name"]): at(each, "memory", "workingSetBytes") for each in summary["pods"]}

    # ---- asking ----

    def kubectl(self, *arguments, stdin=None, check=True):
        done = subprocess.run([TOOLS["kubectl"], f"--kubeconfig={self.admin_config}", *map(str, arguments)], input=stdin, capture_output=True, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"kubectl {' '.join(map(str, arguments))}: status {done.returncode}\n{done.stdout}{done.stderr}\n{self.how_it_is()}")
        return done.stdout if check else done

    @staticmethod
    def _is(thing, condition):
        return any(c["type"] == condition and c["status"] == "True" for c in at(thing, "status", "conditions") or [])

    def wait(self, kind, ns, name, predicate, what, patience=PATIENCE):
        try:
            return self.api.wait(kind, ns, name, predicate, what, patience=patience)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.how_it_is()}") from None

    def wait_pod(self, ns, name, what="Ready", patience=PATIENCE):
        """what: a condition, or a phase."""
        return self.wait("Pod", ns, name, lambda o: o and (self._is(o, what) or at(o, "status", "phase") == what), f"{name} is {what}", patience)

    def logs(self, ns, pod, *more):
        return self.kubectl("logs", "-n", ns, pod, "--all-containers", *more)

    def how_it_is(self):
        """Pods, what was said of them, and the last lines of each: for who reads of a failure."""
        try:
            text = self.kubectl("get", "pods", "-A", "-o", "wide", check=False).stdout
            text += self.kubectl("get", "events", "-A", "--sort-by=.lastTimestamp", check=False).stdout[-5000:]
            for ns in [o["metadata"]["name"] for o in self.api.list("Namespace")]:
                for pod in self.api.list("Pod", ns):
                    name = pod["metadata"]["name"]
                    text += f"---- {ns}/{name}: {json.dumps(pod.get('status', {}).get('containerStatuses'))[:1500]}\n"
                    done = self.kubectl("logs", "-n", ns, name, "--all-containers", "--tail=25", check=False)
                    text += done.stdout + done.stderr
        except Exception as e:  # the server itself may be what is wrong
            text = f"(the API server does not say how it is: {e})"
        for name in ("kubelet", "containerd"):
            if name in self.parts:
                text += f"---- {name}\n" + self.errors_of(name)
        return text

    def errors_of(self, name):
        lines = [line for line in self.parts[name].text().splitlines() if re.match(r"^[EF]\d{4} ", line) or "level=error" in line]
        return "\n".join(line[:600] for line in lines[-12:]) + "\n"
