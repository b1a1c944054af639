"""What the tests of this folder share. A file of tests begins with

    from kube_case import Case, main, setUpModule  # noqa: F401

and has one cluster for all its tests (Case.cluster), for each test a world of its own, a namespace (self.ns), and what it asks for: self.kubelet(…),
self.collector(). Where a machine cannot run a Kubernetes all are skipped, loudly; with ILMARE_REQUIRE_KUBE=1 that is a failure.
"""

import json
import pathlib
import string
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "integration")]

import yaml  # noqa: E402

import case  # noqa: E402
from agents import World  # noqa: E402
from case import main  # noqa: E402, F401
from cluster import Cluster, tools  # noqa: E402
from api import JOB, at, meta, path_of  # noqa: E402
from controllers import Collector  # noqa: E402
from kubelet import Kubelet  # noqa: E402

STAND_IN = HERE / "stand_in.py"
LEFT = (JOB, "Dataset", "Model", "Pod", "Lease", "Secret", "Event")


def setUpModule():
    if tools() is None:
        raise unittest.SkipTest("no Kubernetes to test with: see the line of scripts/kube-tools above")
    world = World()
    unittest.addModuleCleanup(world.close)
    try:
        Case.cluster = Cluster(world)
        unittest.addModuleCleanup(Case.cluster.close)  # before the world
        Case.cluster.start()
    except BaseException:
        world.print_logs()
        raise


def manifests(file, **tokens):
    """The objects of a YAML file with its ${TOKENS} filled in."""
    return list(yaml.safe_load_all(string.Template(pathlib.Path(file).read_text()).substitute(tokens)))


class Case(case.Case):
    cluster = None

    def setUp(self):
        self.api = self.cluster.admin
        self.ns = self.cluster.namespace()
        self.addCleanup(self.clear, self.ns)  # runs last: what runs would make things again
        super().setUp()
        self.watchers = []
        self.addCleanup(self.end_watchers)  # runs first

    def end_watchers(self):
        if any(test is self for which in ("failures", "errors") for test, _ in getattr(self._outcome.result, which, [])):
            self.print_objects()
        for each in reversed(self.watchers):
            each.close()

    def print_objects(self):
        """How jobs and pods are, for who reads of a failure."""
        for job in self.api.list(JOB, self.ns):
            print(f"---- job {meta(job, 'name')} {json.dumps(job.get('status'), indent=1)[-6000:]}", file=sys.stderr)
        for pod in self.api.list("Pod", self.ns):
            print(f"---- pod {meta(pod, 'name')} node {at(pod, 'spec', 'nodeName')} {json.dumps(pod.get('status'))[:2000]}", file=sys.stderr)

    def own_cluster(self, name, crds):
        """One with other definitions, for the rest of this test."""
        cluster = Cluster(self.world, name, crds=crds)
        self.addCleanup(cluster.close)
        cluster.start()
        usual, Case.cluster = Case.cluster, cluster
        self.addCleanup(setattr, Case, "cluster", usual)
        self.addCleanup(setattr, self, "api", usual.admin)
        self.cluster, self.api = cluster, cluster.admin
        cluster.namespace(self.ns)
        return cluster

    def clear(self, ns):
        """What a test made is nothing that the next one sees."""
        for kind in LEFT:
            self.api.request("DELETE", path_of(kind, ns), {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def kubelet(self, *nodes, **more):
        """For this test's namespace, unless namespaces= says otherwise."""
        kubelet = Kubelet(self.cluster, self.world.path, *nodes, **{"namespaces": {self.ns}, **more})
        kubelet.images["ilmare.test/stand-in:v1"] = ["/usr/bin/python3", "-S", "-B", str(STAND_IN)]
        self.watchers.append(kubelet)
        return kubelet.start()

    def collector(self, **more):
        collector = Collector(self.cluster, **more)
        self.watchers.append(collector)
        return collector.start()

    def pod(self, name, command, node=None, ns=None, **spec):
        """Made, with one container that runs this."""
        spec = {"restartPolicy": "Never", **({"nodeName": node} if node else {}), **spec,
                "containers": [{"name": "main", "image": "ilmare.test/none", "command": command, **spec.pop("container", {})}]}
        return self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": ns or self.ns}, "spec": spec})

    def phase(self, name, phase, **more):
        """Wait until the pod is in it; the pod."""
        return self.api.wait("Pod", self.ns, name, lambda o: o and o["status"].get("phase") == phase, f"{name} is {phase}", **more)
