"""The whole loop through a broker on the device (broker-config/bridge.conf) that is bridged to the fleet's with the device's certificate."""

import os
import re

from lab import CONFIG, pair
from agents import Broker, Process, free_port, until
from secure_case import SecureCase, main
from whole import Whole


class LocalBroker(Broker):
    def __init__(self, world, fleet, node, folder):
        self.port, self.lives, self.life = free_port(), 0, None
        self.dir = world.path / "local"
        self.dir.mkdir()
        certificate, key = pair(folder)
        text = (CONFIG / "bridge.conf").read_text()
        for pattern, replacement in ((r"^listener 1883", f"listener {self.port}"), (r"/var/lib/mosquitto/", f"{self.dir}/"),
                                     (r"^address .*", f"address localhost:{fleet.port}"), (r"/etc/mosquitto/ilmare/ca.crt", f"{folder}/ca.crt"),
                                     (r"/etc/mosquitto/ilmare/NODE.crt", str(certificate)), (r"/etc/mosquitto/ilmare/NODE.key", str(key)),
                                     (r"^restart_timeout .*", "restart_timeout 1"), (r"^(?!#)(.*)NODE", rf"\1{node}")):
            text, n = re.subn(pattern, replacement, text, flags=re.M)
            assert n, f"bridge.conf has no {pattern}"
        if os.geteuid() == 0:
            text += "user root\n"
        (self.dir / "mosquitto.conf").write_text(text)
        Process.__init__(self, world, "local", ["/usr/sbin/mosquitto", "-c", self.dir / "mosquitto.conf"])
        world.add(self)


class Bridge(SecureCase):
    def test_rounds_through_a_bridge_that_is_cut(self):
        folder = self.broker.device("edge-1", self.pki.node("edge-1"))
        self.broker.install()
        self.broker.start()
        self.local = LocalBroker(self.world, self.broker, "edge-1", folder)
        self.local.start()
        self.edge = self.world.edge(self.local, node="edge-1", start=False, dataset_check_on_arrival="true")
        self.cloud = self.broker.cloud(self.edge)
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud)
        self.edge.start()
        self.cloud.start()
        self.whole.topics.wait(self.whole.at(1, "Train", "Waiting"), "the first position")
        told = self.world.topics(self.local, "ilmare/v1/node/edge-1/job/#")
        self.assertEqual(self.round(1)["deployed"]["round"], 1)
        told.wait(lambda m: m.document and m.document["position"]["round"] == 2, "the device has been told of the next round")
        told.end()
        # The fleet's broker is away; the device works on.
        self.broker.stop()
        self.whole.topics.end()
        self.whole.feed(5)
        self.whole.feed(5)
        until(lambda: self.edge.logged(r"round=2 stage=Train what=ready"), "the next round has begun on the device")
        self.broker.start()
        self.whole.restarted()
        self.whole.topics.wait(self.whole.over(2), "round 2 is over", patience=60)
        # The device's broker is away, and so is its link.
        self.local.stop()
        self.whole.feed()
        self.local.start()
        self.assertEqual(self.whole.topics.wait(self.whole.over(3), "round 3 is over", patience=60).document["deployed"]["round"], 3)
        self.whole.check_samples()
        # But for who asked whether it answers.
        self.assertEqual(self.local.logged("(?im)^(?!.*Client <unknown> disconnected).*(?:error|denied|not authori[sz]ed).*"), [])
        self.assertEqual(self.broker.logged(r"New client connected .*u'edge-1'")[:1] and self.broker.logged("already connected"), [])


if __name__ == "__main__":
    main()
