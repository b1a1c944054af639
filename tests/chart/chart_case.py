"""What the tests of the chart share: Helm, what it renders, and the kinds that it makes.

    objects = render(set_={"external.host": "a.example"}, values={…}, release="rel", ns="somewhere")      a list of dicts, hooks too
    refused(…) -> what Helm says instead
    one(objects, "Deployment", "-cloud")                    the object of that kind whose name ends so
    with cluster.kubeconfig(…): helm("install", …, kubeconfig=…)

A file of tests begins with `from chart_case import Case, main, setUpModule`; see tests/kube/kube_case.py for what a Case has.
"""

import functools
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kube"), str(HERE.parent / "integration")]

import yaml  # noqa: E402

import kube_case  # noqa: E402
from agents import ROOT  # noqa: E402
from api import KINDS  # noqa: E402
from cluster import ADMIN  # noqa: E402
from kube_case import Case as KubeCase, main  # noqa: E402, F401

CHART = ROOT / "helm" / "ilmare"
LONGEST = 60  # seconds that one run of Helm may take

KINDS.update({
    "Service": ("/api/v1", "services", True), "PersistentVolumeClaim": ("/api/v1", "persistentvolumeclaims", True),
    "Deployment": ("/apis/apps/v1", "deployments", True), "StatefulSet": ("/apis/apps/v1", "statefulsets", True),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True), "Job": ("/apis/batch/v1", "jobs", True),
    "PodDisruptionBudget": ("/apis/policy/v1", "poddisruptionbudgets", True),
    "NetworkPolicy": ("/apis/networking.k8s.io/v1", "networkpolicies", True),
    "Certificate": ("/apis/cert-manager.io/v1", "certificates", True), "Issuer": ("/apis/cert-manager.io/v1", "issuers", True),
    "ServiceMonitor": ("/apis/monitoring.coreos.com/v1", "servicemonitors", True),
    "PodMonitor": ("/apis/monitoring.coreos.com/v1", "podmonitors", True),
})


@functools.lru_cache(None)
def helm_program():
    """None where there is no Helm to test with."""
    done = subprocess.run([ROOT / "scripts" / "helm-tool"], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"scripts/helm-tool: exit status {done.returncode}")
    return done.stdout.strip()


def setUpModule():
    if helm_program() is None:
        raise unittest.SkipTest("no Helm to test with: see the line of scripts/helm-tool above")
    kube_case.setUpModule()


def helm_runs(*words, kubeconfig="/nonexistent", stdin=None):
    """The finished process. Its cache and configuration are its own, and gone with it."""
    with tempfile.TemporaryDirectory(prefix="ilmare-helm-") as home:
        env = {"HOME": home, "KUBECONFIG": str(kubeconfig), "PATH": "/usr/bin:/bin"}
        return subprocess.run([helm_program(), *map(str, words)], env=env, input=stdin, capture_output=True, text=True, timeout=LONGEST, check=False)


def helm(*words, **more):
    done = helm_runs(*words, **more)
    assert done.returncode == 0, f"helm {' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


def settings(set_, values):
    """Flags and standard input for values."""
    words = [word for key, value in (set_ or {}).items() for word in ("--set-json" if isinstance(value, (list, dict)) else "--set", f"{key}={text(value)}")]
    return (words + ["--values", "-"], yaml.safe_dump(values)) if values else (words, None)


def text(value):
    if isinstance(value, (list, dict)):
        return json.dumps(value)
    return str(value).lower() if isinstance(value, bool) else value


def rendered(set_=None, values=None, release="rel", ns="default", chart=CHART, more=()):
    words, stdin = settings(set_, values)
    return helm_runs("template", release, chart, "--namespace", ns, *words, *more, stdin=stdin)


def render(*args, **more):
    done = rendered(*args, **more)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def refused(*args, **more):
    done = rendered(*args, **more)
    assert done.returncode != 0, "it is taken"
    return done.stderr


def one(objects, kind, end=""):
    found = [o for o in objects if o["kind"] == kind and o["metadata"]["name"].endswith(end)]
    assert len(found) == 1, f"{len(found)} of kind {kind} end in {end!r}: {[o['metadata']['name'] for o in objects if o['kind'] == kind]}"
    return found[0]


def pod_of(thing):
    """The Pod that it is or makes, with labels."""
    if thing["kind"] == "Pod":
        return thing
    template = thing["spec"]["template"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**template["metadata"], "name": "x", "namespace": thing["metadata"]["namespace"]},
            "spec": template["spec"]}


class Case(KubeCase):
    release_ns = None  # where the release is, if not in the test's namespace

    def helm(self, *words, refused=False, **more):
        """Helm at this cluster, in this test's namespace; what it printed. refused: what it says when it does not do that."""
        done = helm_runs(*words, "--namespace", self.release_ns or self.ns, kubeconfig=self.kubeconfig, **more)
        if refused:
            self.assertNotEqual(done.returncode, 0, f"helm {words} did it: {done.stdout}")
            return done.stderr
        self.assertEqual(done.returncode, 0, f"helm {words}: {done.stderr}")
        return done.stdout

    @property
    def kubeconfig(self):
        if not hasattr(Case, "file") or not Case.file.exists():
            Case.file = self.cluster.kubeconfig(token=ADMIN)
        return Case.file
