#!/usr/bin/python3
"""A fleet that comes back at once: many nodes, each an MQTT session with a job of its own, a real broker and a real cloud agent. Figures: until
all nodes are in step after they are there for the first time, after the broker was restarted and remembers, and after it forgot everything;
the broker's CPU and the cloud agent's memory meanwhile.

    ILMARE_BUILD=build/release tests/bench/bench_fleet.py [--nodes 2000]

A node is in step when it holds an inventory for its own session and the document of its job. The nodes are played by this process, which speaks
just as much MQTT 5 as that takes, so what it costs is in the times, too. Jobs wait for a credential, so that no worker starts.
"""

import argparse
import json
import pathlib
import resource
import selectors
import socket
import struct
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World  # noqa: E402
from bench_edge import tell  # noqa: E402

PATIENCE = 300
CONNECT, CONNACK, PUBLISH, PUBACK, SUBSCRIBE, SUBACK = 1, 2, 3, 4, 8, 9


def text(value):
    data = value.encode()
    return struct.pack("!H", len(data)) + data


def packet(kind, flags, body):
    length, n = b"", len(body)
    while True:
        n, digit = divmod(n, 128)
        length += bytes([digit | (0x80 if n else 0)])
        if not n:
            return bytes([kind << 4 | flags]) + length + body


class Node:
    def __init__(self, name):
        self.name, self.socket, self.session, self.lives = name, None, None, 0

    def connect(self, port):
        self.lives += 1
        self.session = f"{self.name}-{self.lives}"
        self.received, self.has_inventory, self.has_job = b"", False, False
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.setblocking(False)
        # Protocol 5, no clean start, keep-alive 600 s; the session lasts an hour.
        body = text("MQTT") + bytes([5, 0]) + struct.pack("!H", 600) + bytes([5, 0x11]) + struct.pack("!I", 3600) + text(self.name)
        self.waiting = packet(CONNECT, 0, body)

    def birth(self):
        document = {"v": 1, "ts": "2026-11-30T00:00:00.000Z", "node": self.name, "online": True, "version": "bench", "session": self.session,
                    "capabilities": ["txt"]}
        options = bytes([0x01 | 0x08])  # QoS 1, retained flag as published
        self.waiting += packet(SUBSCRIBE, 2, struct.pack("!H", 1) + b"\0" + text(f"ilmare/v1/node/{self.name}/#") + options)
        body = text(f"ilmare/v1/presence/{self.name}") + struct.pack("!H", 2) + b"\0" + json.dumps(document).encode()
        self.waiting += packet(PUBLISH, 3, body)

    def read(self):
        """False: the broker has closed."""
        try:
            data = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self.received += data
        while self.one():
            pass
        return bool(data)

    def one(self):
        """Take a whole packet; False if none is there."""
        n = shift = 0
        for at in range(1, 5):
            if len(self.received) <= at:
                return False
            n |= (self.received[at] & 0x7f) << shift
            shift += 7
            if not self.received[at] & 0x80:
                break
        if len(self.received) < at + 1 + n:
            return False
        head, body = self.received[0], self.received[at + 1:at + 1 + n]
        self.received = self.received[at + 1 + n:]
        if head >> 4 == CONNACK:
            assert body[1] == 0, f"{self.name}: refused with {body[1]}"
            self.birth()
        elif head >> 4 == PUBLISH:
            self.take(head, body)
        return True

    def take(self, head, body):
        n = struct.unpack_from("!H", body)[0]
        topic, at = body[2:2 + n].decode(), 2 + n
        if head >> 1 & 3:
            self.waiting += packet(PUBACK, 0, body[at:at + 2])
            at += 2
        at += 1 + body[at]  # properties: fewer than 128 bytes here
        if topic.endswith("/inventory"):
            self.has_inventory = json.loads(body[at:]).get("session") == self.session
        elif "/job/" in topic:
            self.has_job = bool(body[at:])

    def write(self):
        try:
            self.waiting = self.waiting[self.socket.send(self.waiting):]
        except BlockingIOError:
            pass


def until_in_step(nodes, port):
    """All connect at once; seconds until all are in step."""
    began = time.monotonic()
    left = set(nodes)
    with selectors.DefaultSelector() as waiting:
        for node in nodes:
            node.connect(port)
            waiting.register(node.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, node)
        while left:
            assert time.monotonic() - began < PATIENCE, f"{len(left)} nodes are not in step"
            for key, events in waiting.select(1):
                node = key.data
                if events & selectors.EVENT_READ:
                    assert node.read(), f"{node.name}: the broker closed the connection"
                    if node.has_inventory and node.has_job:
                        left.discard(node)
                if node.waiting:
                    node.write()
                waiting.modify(node.socket, selectors.EVENT_READ | (selectors.EVENT_WRITE if node.waiting else 0), node)
    return time.monotonic() - began


def thing(kind, name, spec):
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def write_objects(world, cloud, names):
    train = {"operator": ">", "threshold": 10, "metric": "num_of_samples"}
    deploy = {"operator": ">", "threshold": 0, "metric": "accuracy_delta"}
    parts = [thing("Model", "m", {"url": str(world.path / "m.bin"), "format": "bin"})]
    for name in names:
        template = {"spec": {"nodeName": name, "containers": [{"name": "w", "command": ["/bin/true"]}]}}
        parts.append(thing("Dataset", name, {"url": f"/data/{name}.txt", "format": "txt", "nodeName": name}))
        parts.append(thing("IncrementalLearningJob", name, {
            "initialModel": {"name": "m"}, "dataset": {"name": name, "trainProb": 0.8}, "credentialName": "missing",
            "trainSpec": {"template": template, "trigger": {"condition": train}}, "evalSpec": {"template": template},
            "deploySpec": {"model": {"name": "m"}, "trigger": {"condition": deploy}, "template": template}, "outputDir": f"/output/{name}"}))
    for at in range(0, len(parts), 100):
        (cloud.manifests / f"{at}.yaml").write_text("---\n".join(json.dumps(each) + "\n" for each in parts[at:at + 100]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--nodes", type=int, default=2000)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    with World() as world:
        broker = world.broker(persist="stop")
        cloud = world.cloud(broker, start=False)
        names = [f"edge-{i}" for i in range(options.nodes)]
        write_objects(world, cloud, names)
        nodes = [Node(name) for name in names]

        def come(what):
            before, cpu = broker.cpu_seconds(), cloud.cpu_seconds()
            tell(f"{what}: until all {options.nodes} nodes are in step", until_in_step(nodes, broker.port), "s")
            tell("the same: CPU of the broker", broker.cpu_seconds() - before, "s")
            tell("the same: CPU of the cloud agent", cloud.cpu_seconds() - cpu, "s")
            for node in nodes:
                node.socket.close()

        cloud.start()
        come("for the first time")
        come("all again")
        broker.stop()
        broker.start()
        come("the broker restarted")
        broker.kill()
        broker.forget()
        broker.start()
        come("the broker forgot everything")
        tell("private memory of the cloud agent", cloud.status("RssAnon") / 1e6, "MB")


if __name__ == "__main__":
    main()
