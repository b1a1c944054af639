#!/usr/bin/python3
"""By hand: the whole story with network policies in force, and who is shut out by them.

    ILMARE_TEST_POLICIES=PROGRAM tests/cluster/run BUILD_DIR

PROGRAM is kube-router (github.com/cloudnativelabs/kube-router/v2/cmd/kube-router, built with Go), of which only the part that enforces policies is run,
in the node's own network namespace: it needs iptables, ipset and the kernel's sets. Not part of any step of scripts/test. What kube-router lets through
whatever policies say: connections from the node itself, and so those by a node port, which come from it as far as a pod sees.
"""

import os
import unittest

import test_story
from bed import API_ADDRESS, SERVICE_NETWORK, sh
from agents import until
from api import at
from case import main
from node import NAME as NODE
from test_story import VALUES, Story

# One connection each: the answer is a line "open HOST:PORT" or "shut HOST:PORT".
ASK = """until [ -e /tmp/go ]; do sleep 0.1; done
for each in {targets}; do
	if nc -w 3 ${{each%:*}} ${{each##*:}} </dev/null >/dev/null 2>&1; then echo open $each; else echo shut $each; fi
done"""


class Policies(Story):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        Story.broken = None
        # Policies see where a connection to the API server ends, not the Service.
        VALUES["networkPolicy"] = {"apiServerPorts": [443, cls.node.cluster.port]}
        cls.node._run("policies", os.environ["ILMARE_TEST_POLICIES"], "--run-router=false", "--run-service-proxy=false", "--run-firewall=true",
                      f"--kubeconfig={cls.node.admin_config}", f"--hostname-override={NODE}", f"--service-cluster-ip-range={SERVICE_NETWORK}",
                      "--metrics-port=0", "--health-port=0", "--iptables-sync-period=10s")

    def asked(self, name, targets, ns="default", labels=None):
        """{target: "open" or "shut"}, as a pod of these labels finds them. It is never ready, so that no Service sends anybody to it."""
        pod = test_story.pod(name, ASK.format(targets=" ".join(targets)))
        pod["metadata"].update(namespace=ns, labels=labels or {"app": name})
        self.node.api.create(pod)
        try:
            # What a pod may do is decided a moment after it runs.
            self.node.wait_pod(ns, name, "Running")
            address = at(self.node.api.get("Pod", ns, name), "status", "podIP")
            until(lambda: f" {address}/32 " in sh("iptables-save", "-t", "filter"), lambda: f"there are rules for {address}:\n{self.node.parts['policies'].tail()}")
            self.node.kubectl("exec", "-n", ns, name, "--", "touch", "/tmp/go")
            self.node.wait_pod(ns, name, "Succeeded")
            return {line.split()[1]: line.split()[0] for line in self.node.logs(ns, name).splitlines()}
        finally:
            self.node.kubectl("delete", "pod", "-n", ns, name)

    def address(self, service, port):
        """No name: a pod that may not ask for names would be shut out by that."""
        return self.node.kubectl("get", "service", "-n", self.release.ns, service, "-o", "jsonpath={.spec.clusterIP}") + f":{port}"

    def labels(self, component):
        return {key: value for key, value in next(iter(self.release.pods(component).values()))["metadata"]["labels"].items() if key.startswith("app.kubernetes.io/")}

    def test_04_strangers(self):
        ns, full = self.release.ns, self.release.full
        until(lambda: sh("iptables-save").count("KUBE-NWPLCY-") > 2, lambda: f"policies are in force:\n{self.node.parts['policies'].tail()}")
        devices, agents, metrics, enrolment = (self.address(f"{full}-{name}", port) for name, port in (
            ("broker", 8883), ("broker", 8884), ("metrics", 9101), ("enrolment", 8443)))
        server = f"{API_ADDRESS}:443"
        everything = [devices, agents, metrics, enrolment, server]
        usual = {devices: "open", agents: "shut", metrics: "open", enrolment: "open", server: "open"}
        self.assertEqual(self.asked("stranger", everything), usual)
        self.assertEqual(self.asked("stranger", everything, ns), usual)
        self.assertEqual(self.asked("stranger", everything, labels=self.labels("cloud")), usual)  # of another namespace
        # Not asked for what their own policy lets in: kube-router takes that for let out as well, between two pods of one policy.
        self.assertEqual(self.asked("as-cloud", [devices, agents, server], ns, self.labels("cloud")), {devices: "shut", agents: "open", server: "open"})
        self.assertEqual(self.asked("as-broker", everything[1:], ns, self.labels("broker")), dict.fromkeys(everything[1:], "shut"))

        nobody = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}}}]
        self.release.upgrade({**VALUES, "networkPolicy": {**VALUES["networkPolicy"], "devicesFrom": nobody, "metricsFrom": nobody}})
        until(lambda: set(self.asked("stranger", everything[:4]).values()) == {"shut"}, "all is shut")
        self.assertEqual(self.asked("friend", everything, "kube-system"), usual)
        self.release.upgrade(VALUES)
        until(lambda: self.asked("stranger", everything) == usual, "all is as before")

    def test_99_nothing_is_left(self):
        self.node.parts["policies"].stop()
        super().test_99_nothing_is_left()


def load_tests(loader, *_):
    return loader.loadTestsFromTestCase(Policies)


if __name__ == "__main__":
    main()
