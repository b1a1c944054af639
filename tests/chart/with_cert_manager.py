"""By hand: the chart with certificates of a real cert-manager: issued, mounted, renewed.

    ILMARE_TEST_CERT_MANAGER=FOLDER tests/chart/run BUILD_DIR tests/chart/with_cert_manager.py

FOLDER has `crds/*.yaml`, from deploy/crds of its sources, and `controller`: the program of its image cert-manager-controller, or one that runs its controllers
(package pkg/controller) and takes the same flags. It is a process beside the API server, and may do everything there. Not part of any step of
scripts/test, which judge what the chart renders for it without it (test_render.py).
"""

import os
import pathlib
import subprocess
import time
import unittest

import test_running
from chart_case import CHART, main, setUpModule  # noqa: F401

import yaml

from agents import Process, until
from api import at, meta
from cluster import DIES_WITH_US, openssl
from container import bytes_of
from test_running import F, ChartLoop

FOLDER = os.environ.get("ILMARE_TEST_CERT_MANAGER")


def shown(pem, *what):
    return openssl("x509", "-noout", *what, stdin=pem.decode()).strip()


@unittest.skipIf(FOLDER is None, "ILMARE_TEST_CERT_MANAGER is not set")
class CertManager(test_running.Running):
    def setUp(self):
        super().setUp()
        files = sorted(pathlib.Path(FOLDER, "crds").glob("*.yaml"))
        self.cluster.apply_crds([each for file in files for each in yaml.safe_load_all(file.read_text()) if each])
        self.manager = self.world.add(Process(self.world, "cert-manager", [
            *DIES_WITH_US, pathlib.Path(FOLDER, "controller"), f"--kubeconfig={self.kubeconfig}", "--leader-elect=false"])).start()

    def ready(self):
        """All Certificates of the release; each has what it asked for."""
        def missing():
            return [meta(each, "name") for each in self.api.list("Certificate", self.release_ns) if not any(
                c["type"] == "Ready" and c["status"] == "True" and c.get("observedGeneration") == meta(each, "generation")
                for c in at(each, "status", "conditions", default=[]))]
        until(lambda: not missing(), lambda: f"{missing()} are ready:\n{self.manager.tail()}")
        return {meta(each, "name")[len(F) + 1:]: each for each in self.api.list("Certificate", self.release_ns)}

    def other_edge(self, node):
        """On a node of its own."""
        usual, self.root = self.root, self.world.path / f"root-{node}"
        try:
            return self.edge(node)
        finally:
            self.root = usual

    def broker_again(self):
        """What "kubectl rollout restart" does."""
        self.running.stop()
        self.running = self.broker()

    def secret(self, end):
        return bytes_of(self.api, "Secret", self.release_ns, f"{F}-{end}")

    def renewed(self, end):
        """What "cmctl renew" does: the condition Issuing."""
        before = self.secret(end)["tls.crt"]
        thing = self.of("Certificate", end)
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        conditions = [*at(thing, "status", "conditions"), {
            "type": "Issuing", "status": "True", "reason": "ManuallyTriggered", "message": "by hand", "lastTransitionTime": now,
            "observedGeneration": meta(thing, "generation")}]
        self.api.patch("Certificate", self.release_ns, meta(thing, "name"), {"status": {"conditions": conditions}}, sub="status")
        until(lambda: self.secret(end)["tls.crt"] != before, lambda: f"{end} is renewed:\n{self.manager.tail()}")
        return self.secret(end)

    def test_from_the_chart(self):
        """The authorities' keys are kept, so a device gets in by the certificate that it had before."""
        self.install(certificates={"source": "chart"})
        self.running, cloud, edge = self.broker(), self.cloud(f"{F}-cloud-1"), self.edge("edge-4")
        edge.stop()
        kept = {end: self.secret(end)["tls.key"] for end in ("authority", "cloud-authority")}
        words = ["upgrade", "fleet", CHART, "--reuse-values", "--set", "certificates.source=cert-manager"]
        self.assertIn("keep", self.helm(*words, refused=True))
        for end in kept:
            self.api.patch("Secret", self.release_ns, f"{F}-{end}", {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}})
        self.helm(*words)
        self.ready()
        self.assertEqual({end: self.secret(end)["tls.key"] for end in kept}, kept)
        cloud.stop()
        self.broker_again()
        self.cloud(f"{F}-cloud-2")
        edge.start()
        until(lambda: edge.serves() and edge.is_linked(), lambda: f"the edge agent is back:\n{edge.tail()}")
        self.assertEqual(edge.text().count("a new certificate"), 1)

    def test_it(self):
        self.install(certificates={"source": "cert-manager"}, external={
            "host": "127.0.0.1", "alternatives": ["broker.example", "2001:db8::1"], "brokerPort": self.ports["broker"], "enrolmentPort": self.ports["enrolment"]})
        certificates = self.ready()
        self.assertEqual(set(certificates), {"authority", "cloud-authority", "cloud-tls", "ca", "enrolment-tls", "broker-tls", "operator-anna", "test-tls"})
        for end, thing in certificates.items():
            with self.subTest(end):
                data = self.secret(end)
                self.assertEqual(set(data) & {"ca.crt", "tls.crt", "tls.key"}, {"ca.crt", "tls.crt", "tls.key"})
                authority = self.secret("cloud-authority" if end.startswith("cloud") else "authority")["tls.crt"]
                self.assertEqual(data["ca.crt"], authority)
                self.assertIn(f"CN = {thing['spec']['commonName']}", shown(data["tls.crt"], "-subject"))

        self.running = self.broker()
        cloud = self.cloud(f"{F}-cloud-1")
        edge = self.edge()
        loop = ChartLoop(self, self.ports["workers"])
        loop.create()
        loop.serving()
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")
        self.assertIn("Phase:          Succeeded", self.helm("test", "fleet"))
        self.assertTrue(self.operator(f"ilmare/v1/ns/{self.ns}/job/signs-demo/state"))

        # The authorities keep their keys, so nobody has to know of it: neither the broker, which read the old certificates, nor who has a new one.
        before = {end: self.secret(end)["tls.key"] for end in ("authority", "cloud-authority")}
        for end, key in before.items():
            self.renewed(end)
            self.assertEqual(self.secret(end)["tls.key"], key)
        for end in ("enrolment-tls", "cloud-tls", "operator-anna"):
            self.assertEqual(self.renewed(end)["ca.crt"], self.secret("cloud-authority" if end.startswith("cloud") else "authority")["tls.crt"])
        cloud.stop()
        cloud = self.cloud(f"{F}-cloud-2")
        edge.stop()
        second = self.other_edge("edge-2")
        self.assertTrue(second.alive(), second.tail())
        self.assertTrue(self.operator(f"ilmare/v1/ns/{self.ns}/job/signs-demo/state"))

        # And a new certificate of the broker: it is started with it, and all come back.
        serial = shown(self.renewed("broker-tls")["tls.crt"], "-serial")
        self.broker_again()
        for each in (cloud, second):
            until(each.is_linked, lambda each=each: f"{each.name} is back:\n{each.tail()}")
        second.stop()
        edge.start()
        until(lambda: edge.serves() and edge.is_linked(), lambda: f"the edge agent is back:\n{edge.tail()}")
        served = subprocess.run(["openssl", "s_client", "-connect", f"127.0.0.1:{self.ports['broker']}"], stdin=subprocess.DEVNULL, capture_output=True,
                                text=True, check=False).stdout
        self.assertEqual(shown(served.encode(), "-serial"), serial)
        loop.feed()
        self.assertEqual(loop.over(2)["type"], "Completed")

        # Another way in: new certificates, which the broker reads once it is started again.
        self.assertNotIn("other.example", shown(self.secret("broker-tls")["tls.crt"], "-ext", "subjectAltName"))
        self.helm("upgrade", "fleet", CHART, "--reuse-values", "--set-json", 'external.alternatives=["other.example"]')
        for end in ("broker-tls", "enrolment-tls"):
            until(lambda end=end: "other.example" in shown(self.secret(end)["tls.crt"], "-ext", "subjectAltName"), f"{end} is for the new host")

        # A Secret that somebody has removed is made again: of an authority with another key, and nobody tells those whose certificates hang on it.
        for end in ("broker-tls", "authority"):
            self.api.delete("Secret", self.release_ns, f"{F}-{end}")
            until(lambda end=end: self.api.get("Secret", self.release_ns, f"{F}-{end}"), f"the Secret {end} is made again")
        self.assertNotEqual(self.secret("authority")["tls.key"], before["authority"])
        self.ready()
        self.assertNotEqual(self.secret("broker-tls")["ca.crt"], self.secret("authority")["tls.crt"])
        # The way out that docs/helm.md tells: all are renewed, and devices enrol again.
        for end in ("ca", "enrolment-tls", "broker-tls", "operator-anna", "test-tls"):
            self.assertEqual(self.renewed(end)["ca.crt"], self.secret("authority")["tls.crt"])
        edge.stop()
        cloud.stop()
        self.broker_again()
        self.cloud(f"{F}-cloud-3")
        self.other_edge("edge-3")


def load_tests(loader, *_):
    """Not those of the class that it builds on."""
    return unittest.TestSuite([CertManager("test_it"), CertManager("test_from_the_chart")])


if __name__ == "__main__":
    main()
