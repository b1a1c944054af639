"""What the kubelet and two controllers would make of the chart's objects, played for tests that need a pod's process and no container.

    pod = Placed(cluster, pod_of(statefulset), folder)       its volumes, as folders: ConfigMaps, Secrets, parts of them, tokens of its account
    pod.start(world, "mosquitto", change=[(pattern, text)])  its process; paths of mounts in the command and in files of ConfigMaps are those of folders
    pod.command("presence") -> (argv, env)

    with Jobs(case, ns): …                                       what hooks create is run: Jobs by the real program, with the token of the pod's account,
                                                             and the Pod of "helm test", init containers first
"""

import os
import re
import shutil
import subprocess
import threading
import time

from agents import Process, program
from api import ApiError, at, meta
from container import DIES_WITH_US, bytes_of, environment, mapped

PROGRAMS = {"ilmare-cloud": "ilmare-cloud", "ilmare-edge": "ilmare-edge"}


class Placed:
    def __init__(self, cluster, pod, folder, root=""):
        self.cluster, self.pod, self.folder, self.root = cluster, pod, folder, root
        self.ns, self.api = meta(pod, "namespace"), cluster.admin
        self.spec = pod["spec"]
        self.folder.mkdir(parents=True, exist_ok=True)
        mounts = [m for c in self.containers() for m in c.get("volumeMounts", [])]
        volumes = {v["name"]: v for v in self.spec.get("volumes", [])}
        self.table = {}
        for mount in mounts:
            volume = volumes.get(mount["name"], {})
            here = self.root + volume["hostPath"]["path"] if "hostPath" in volume else str(self.folder / mount["name"])
            os.makedirs(here, exist_ok=True)
            self.table[mount["mountPath"]] = here + ("/" + mount["subPath"] if mount.get("subPath") else "")
        self.write()

    def containers(self):
        return [*self.spec.get("initContainers", []), *self.spec["containers"]]

    def write(self, change=()):
        """What its volumes hold now; again after an upgrade. change: [(pattern, replacement)] in files of ConfigMaps."""
        for volume in self.spec.get("volumes", []):
            for source in volume["projected"]["sources"] if "projected" in volume else [volume]:
                for name, data in self.files(source, change).items():
                    file = self.folder / volume["name"] / name
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(data)
                    file.chmod(0o600)

    def files(self, source, change):
        if "serviceAccountToken" in source:
            wanted = source["serviceAccountToken"]
            return {wanted["path"]: self.token(wanted["audience"], wanted["expirationSeconds"]).encode()}
        for kind, member in (("Secret", "secret"), ("ConfigMap", "configMap")):
            if member in source:
                data = bytes_of(self.api, kind, self.ns, source[member].get("secretName") or source[member]["name"])
                if "items" in source[member]:
                    data = {item["path"]: data[item["key"]] for item in source[member]["items"]}
                if kind == "ConfigMap":
                    data = {name: self.here(text.decode(), change).encode() for name, text in data.items()}
                return data
        return {}

    def here(self, text, change):
        text = mapped(text, self.table)
        for pattern, replacement in change:
            text, n = re.subn(pattern, replacement, text, flags=re.M)
        return text

    def token(self, audience, seconds):
        """Bound to the pod, as the kubelet asks for it."""
        bound = {"apiVersion": "v1", "kind": "Pod", "name": meta(self.pod, "name"), "uid": meta(self.pod, "uid")}
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
                "spec": {"expirationSeconds": seconds, "audiences": [audience], "boundObjectRef": bound}}
        account = self.spec["serviceAccountName"]
        return self.api.request("POST", f"/api/v1/namespaces/{self.ns}/serviceaccounts/{account}/token", body)["status"]["token"]

    def kubeconfig(self):
        """As if the token of its account were mounted."""
        assert self.spec.get("automountServiceAccountToken"), "this pod has no token for the API server"
        return self.cluster.kubeconfig(token=self.cluster.token(self.ns, self.spec["serviceAccountName"]), ns=self.ns)

    def command(self, name=None):
        container = next(c for c in self.containers() if name in (None, c["name"]))
        command = list(container.get("command") or [self.entry(container["image"])])
        command[0] = shutil.which(os.path.basename(command[0]), path="/usr/sbin:/usr/bin") or command[0]
        argv = [mapped(word, self.table) for word in [*command, *container.get("args", [])]]
        return argv, environment(self.api, self.pod, container, self.spec.get("nodeName", ""))

    @staticmethod
    def entry(image):
        return program(PROGRAMS[image.rsplit("/", 1)[-1].split(":")[0]])

    def start(self, world, name, change=(), env=None, kind=Process):
        self.write(change)
        argv, own = self.command()
        return world.add(kind(world, name, [*DIES_WITH_US, *argv], env={**own, **(env or {})})).start()


def now():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


class Jobs:
    """hosts: {name: address} put in place of names in the commands of test pods, since nothing here resolves them."""

    def __init__(self, case, ns, hosts=None):
        self.case, self.api, self.ns, self.hosts = case, case.cluster.admin, ns, hosts or {}
        self.done, self.output, self.over = set(), {}, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()

    def run(self):
        while not self.over.wait(0.02):
            for kind, act in (("Job", self.job), ("Pod", self.test)):
                for thing in self.api.list(kind, self.ns):
                    if meta(thing, "uid") not in self.done and (kind == "Job" or at(thing, "metadata", "annotations", "helm.sh/hook") == "test"):
                        self.done.add(meta(thing, "uid"))
                        self.guarded(act, thing)

    @staticmethod
    def guarded(act, thing):
        try:
            act(thing)
        except ApiError as e:  # gone meanwhile
            if e.code != 404:
                raise

    def finish(self, placed, name):
        argv, env = placed.command(name)
        argv = [self.hosts.get(word, word) for word in argv]
        done = subprocess.run(argv, env={**env, **self.access(placed)}, capture_output=True, text=True, timeout=60, check=False)
        self.output[name] = done.stdout + done.stderr
        return done.returncode

    @staticmethod
    def access(placed):
        return {"KUBECONFIG": str(placed.kubeconfig())} if placed.spec.get("automountServiceAccountToken") else {}

    def folder(self, thing):
        return self.case.world.path / "played" / meta(thing, "uid")

    def job(self, job):
        pod = {"metadata": {"name": "x", "namespace": self.ns}, "spec": job["spec"]["template"]["spec"]}
        good = self.finish(Placed(self.case.cluster, pod, self.folder(job)), None) == 0
        kinds = [("SuccessCriteriaMet", "Complete"), ("FailureTarget", "Failed")][not good]
        conditions = [{"type": kind, "status": "True", "lastTransitionTime": now(), "reason": "Played"} for kind in kinds]
        status = {"startTime": now(), "conditions": conditions, ("succeeded" if good else "failed"): 1, "uncountedTerminatedPods": {}}
        if good:
            status["completionTime"] = now()
        self.api.patch("Job", self.ns, meta(job, "name"), {"status": status}, sub="status")

    def test(self, pod):
        placed = Placed(self.case.cluster, pod, self.folder(pod))
        good = all(self.finish(placed, container["name"]) == 0 for container in placed.containers())
        self.api.patch("Pod", self.ns, meta(pod, "name"), {"status": {"phase": "Succeeded" if good else "Failed"}}, sub="status")
