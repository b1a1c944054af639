#!/usr/bin/python3
"""One cluster, from its first node to the last trace of it. The tests are steps of one story, run in the order of their numbers; after one that
fails no other is run."""

import unittest

from bed import NODE_ADDRESS, Machine, sh  # first: it knows where the others are
from agents import World, until
from case import main
from images import busybox_image
from node import Node


def pod(name, command, **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "default", "labels": {"app": name}}, "spec": {
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 0, **more,
        "containers": [{"name": "main", "image": "busybox:test", "command": ["sh", "-c", command]}]}}


class Story(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.world = World()
        cls.addClassCleanup(cls.world.close)
        cls.machine, cls.broken = Machine(), None
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

    def test_99_nothing_is_left(self):
        self.node.stop()
        self.assertEqual(self.machine.mounts(), [])
        self.assertEqual(self.machine.containers(), [])
        until(lambda: not self.machine.processes(), lambda: f"no process is left: {self.machine.processes()}", 10)


if __name__ == "__main__":
    main()
