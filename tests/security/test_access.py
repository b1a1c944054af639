"""What somebody with the key of one device, of an operator, or of the cloud agent can and cannot do at the broker. docs/security.md names these."""

import json
import subprocess
import time

from lab import Client, pair
from agents import PATIENCE, Process, free_port, until
from secure_case import SecureCase, main

ROOT = "ilmare/v1"
# What is said about edge-1, by the cloud agent and by edge-1 itself.
CLOUDS = [f"{ROOT}/ns/default/job/j/state", f"{ROOT}/node/edge-1/job/default/j", f"{ROOT}/node/edge-1/dataset/default/d",
          f"{ROOT}/node/edge-1/inventory", f"{ROOT}/node/edge-1/credential/response", f"{ROOT}/presence/cloud"]
NODES = [f"{ROOT}/ns/default/job/j/node/edge-1/train/ready", f"{ROOT}/ns/default/job/j/node/edge-1/infer/stats",
         f"{ROOT}/ns/default/dataset/d/node/edge-1/status", f"{ROOT}/node/edge-1/credential/request", f"{ROOT}/presence/edge-1"]


class Access(SecureCase):
    def setUp(self):
        super().setUp()
        self.nodes = {name: self.pki.node(name) for name in ("edge-1", "edge-2")}
        self.anna = self.pki.operator("anna")
        self.broker.install()
        self.broker.start()
        self.cloud = Client(self.broker, self.pki.folder("cloud"), port=self.broker.cloud_port)
        self.victim, self.attacker = (Client(self.broker, self.nodes[name]) for name in ("edge-1", "edge-2"))

    def say_everything(self, retain):
        for topic in CLOUDS:
            taken, said = self.cloud.publish(topic, "{}", retain)
            self.assertTrue(taken, said)
        for topic in NODES:
            self.assertTrue(self.victim.publish(topic, "{}", retain)[0], topic)

    def refused(self, client, topics):
        listener = self.world.topics(self.broker)
        for topic in topics:
            taken, said = client.publish(topic, "{}", retain=True)
            self.assertFalse(taken, f"{topic}: {said}")
            self.assertIn("RC:135", said)  # not authorized
        self.last_word(listener)
        self.assertFalse(set(topics) & {m.topic for m in listener.messages})

    def last_word(self, listener):
        """All that was said before has been heard, or never will be."""
        self.assertTrue(self.cloud.publish(f"{ROOT}/ns/zz/job/zz/state", "{}")[0])
        listener.wait(lambda m: m.topic.endswith("/zz/state"), "what was said last")

    def test_a_node_cannot_read_what_is_not_its_own(self):
        own = f"{ROOT}/node/edge-2/inventory"
        self.say_everything(retain=True)
        filters = ["#", "$SYS/#", f"{ROOT}/node/edge-1/#", f"{ROOT}/presence/+", f"{ROOT}/ns/default/job/j/node/edge-1/+/+"]
        command = ["mosquitto_sub", *self.attacker.flags, "-q", "1", "-F", "%t %p"] + [word for each in filters for word in ("-t", each)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        heard = iter(process.stdout.readline, "")
        try:
            self.cloud.publish(own, "first", retain=True)
            self.assertEqual(next(heard), f"{own} first\n")  # it has subscribed, and gets what is retained
            self.say_everything(retain=False)
            self.cloud.publish(own, "second")
            for line in heard:
                self.assertIn(own, line)
                if line == f"{own} second\n":
                    break
        finally:
            process.kill()
            process.wait()
            process.stdout.close()

    def test_a_node_cannot_say_what_is_not_its_own(self):
        self.refused(self.attacker, NODES)

    def test_a_node_cannot_speak_for_the_cloud_agent(self):
        self.refused(self.attacker, [*CLOUDS, f"{ROOT}/node/edge-2/job/default/j", f"{ROOT}/node/edge-2/inventory"])

    def test_a_node_cannot_use_the_broker_for_other_things(self):
        self.refused(self.attacker, ["other", f"{ROOT}/other", f"{ROOT}/ns/default/job/j/node/edge-2/train", f"{ROOT}/presence/edge-2/more",
                                     f"{ROOT}/ns/default/job/j/node/edge-2/train/ready/more", f"{ROOT}/ns/default/dataset/d/node/edge-2/other"])

    def test_a_node_can_say_its_own(self):
        for topic in NODES:
            self.assertTrue(self.victim.publish(topic, "{}")[0], topic)

    def test_a_node_cannot_leave_a_will_in_another_name(self):
        will = ["--will-topic", f"{ROOT}/presence/edge-1", "--will-payload", "{}", "--will-qos", "1"]
        process = subprocess.Popen(["mosquitto_sub", *self.attacker.flags, *will, "-t", f"{ROOT}/node/edge-2/#"], stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        listener = self.world.topics(self.broker)
        try:
            until(lambda: process.poll() is not None or self.broker.logged(r"u'edge-2'"), "taken or refused")
        finally:
            process.kill()
            process.wait()
        self.last_word(listener)
        self.assertEqual(listener.find(lambda m: m.topic == f"{ROOT}/presence/edge-1"), [])

    def test_an_operator_reads_everything_but_credentials(self):
        secret = f"{ROOT}/node/edge-1/credential/response"
        self.assertTrue(self.cloud.publish(secret, "the-key", retain=True)[0])  # which nobody does
        self.assertIn(secret, self.victim.listen(f"{ROOT}/node/edge-1/#", until_topic=secret))
        listener = self.world.topics(self.broker, f"{ROOT}/#", secret)  # an operator
        self.cloud.publish(secret, "the-key")
        self.say_everything(retain=False)
        self.last_word(listener)
        heard = {m.topic for m in listener.messages}
        self.assertLessEqual({topic for topic in CLOUDS + NODES if "/credential/" not in topic}, heard)
        self.assertFalse([topic for topic in heard if "/credential/" in topic])

    def test_an_operator_cannot_write(self):
        own = [topic.replace("edge-1", "anna") for topic in NODES]
        self.refused(Client(self.broker, self.anna), [*CLOUDS, *NODES, *own, "other"])

    def test_the_cloud_agent_cannot_report_for_a_node(self):
        self.refused(self.cloud, [NODES[0], NODES[1], NODES[3], NODES[4]])

    def test_certificates_of_devices_and_operators_do_not_open_the_cloud_agents_listener(self):
        for folder in (*self.nodes.values(), self.anna):
            inside, said = Client(self.broker, folder, port=self.broker.cloud_port).gets_in()
            self.assertFalse(inside, said)
        inside, said = Client(self.broker, self.pki.folder("cloud")).gets_in()
        self.assertFalse(inside, said)
        self.assertTrue(self.attacker.gets_in()[0])  # the certificate as such is fine
        self.assertTrue(self.cloud.gets_in()[0])

    def test_nobody_without_a_certificate_gets_in(self):
        for port in (self.broker.port, self.broker.cloud_port):
            inside, said = Client(self.broker, self.nodes["edge-1"], port=port, with_certificate=False).gets_in()
            self.assertFalse(inside, said)

    def test_too_much_is_refused(self):
        topic = f"{ROOT}/ns/default/job/j/node/edge-2/train/ready"
        self.assertTrue(self.attacker.publish(topic, "x" * 100000)[0])
        big = self.world.path / "big"
        big.write_bytes(b"x" * 450000)
        done = subprocess.run(["mosquitto_pub", *self.attacker.flags, "-q", "1", "-t", topic, "-f", str(big), "-d"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertIn("Client edge-2 received CONNACK (0)", done.stdout)
        self.assertNotIn("received PUBACK", done.stdout)
        done = subprocess.run(["mosquitto_pub", *self.attacker.flags, "-q", "2", "-t", topic, "-m", "x", "-d"], capture_output=True, text=True,
                              timeout=PATIENCE, check=False)
        self.assertNotIn("PUBCOMP", done.stdout)

    def test_old_versions_and_weak_ciphers_of_tls_are_refused(self):
        certificate, key = pair(self.nodes["edge-1"])
        for port, folder in ((self.broker.port, self.nodes["edge-1"]), (self.broker.cloud_port, self.pki.folder("cloud"))):
            certificate, key = pair(folder)

            def shake(*how, port=port, certificate=certificate, key=key):
                done = subprocess.run(["openssl", "s_client", "-connect", f"localhost:{port}", "-CAfile", self.nodes["edge-1"] / "ca.crt",
                                       "-cert", certificate, "-key", key, *how], input="", capture_output=True, text=True, timeout=PATIENCE, check=False)
                return done.stdout + done.stderr

            self.assertIn("New, TLSv1.2", shake("-tls1_2"))
            self.assertIn("New, TLSv1.3", shake("-tls1_3"))
            self.assertIn("alert protocol version", shake("-tls1_1", "-cipher", "ALL:@SECLEVEL=0"))
            self.assertIn("alert handshake failure", shake("-tls1_2", "-cipher", "ECDHE-ECDSA-AES128-SHA"))


class Running(SecureCase):
    """With real agents."""

    def test_a_node_cannot_take_over_a_session(self):
        """Not with another's client id, nor with the cloud agent's."""
        attacker = self.pki.node("edge-2")
        self.begin()
        for agent in (self.edge, self.cloud):
            until(agent.is_linked, "connected")
        before = [agent.metrics()["ilmare_mqtt_connects_total"] for agent in (self.edge, self.cloud)]
        for name in ("edge-1", "ilmare-cloud"):
            self.assertTrue(Client(self.broker, attacker, id=name).gets_in()[0])
            self.assertTrue(Client(self.broker, attacker, id=name).publish(f"{ROOT}/presence/edge-2", "{}")[0])
        self.assertEqual(self.round(1)["deployed"]["round"], 1)
        self.assertEqual(before, [agent.metrics()["ilmare_mqtt_connects_total"] for agent in (self.edge, self.cloud)])
        self.assertEqual(self.broker.logged(r"already connected"), [])

    def test_lies_about_another_node_change_nothing(self):
        """In a document on its own topic, a node can name another node; and it can speak of a job that is not its business."""
        attacker = Client(self.broker, self.pki.node("edge-2"))
        self.begin()
        self.round(1)
        truth = self.whole.topics.find(lambda m: m.topic.endswith("/node/edge-1/train/ready"))[-1]
        refused = self.cloud.metrics()["ilmare_cloud_messages_refused_total"]
        for what, position in (("train/failed", {"round": 2, "stage": "Train", "phase": "Failed"}),
                               ("deploy/failed", {"round": 1, "stage": "Deploy", "phase": "Failed"})):
            for node in ("edge-1", "edge-2"):
                lie = dict(truth.document, node=node, position=position, reason="Lie", message="")
                lie.pop("input")
                lie.pop("range")
                self.assertTrue(attacker.publish(f"{ROOT}/ns/default/job/j/node/edge-2/{what}", json.dumps(lie))[0])
        until(lambda: self.cloud.metrics()["ilmare_cloud_messages_refused_total"] >= refused + 2, "the two in another's name are refused")
        self.assertIn("edge-1", " ".join(self.cloud.logged(r"a message is refused.*edge-2.*")))
        state = self.round(2)
        self.assertEqual((state["deployed"]["round"], state["failures"]), (2, 0))
        self.assertNotIn("Lie", "".join(m.payload for m in self.whole.topics.find(self.whole.is_state)))
        self.whole.check_samples()

    def test_a_node_cannot_use_up_the_epochs(self):
        """Nodes remember the highest epoch that they saw, and the cloud agent goes above it. One that could name any would end them for all."""
        attacker = Client(self.broker, self.pki.node("edge-2"))
        self.begin()
        self.round(1)
        before = self.whole.state()["stamp"]["epoch"]
        birth = {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "node": "edge-2", "online": True, "version": "0.1.0", "session": "0" * 32}
        for epoch in ((1 << 40) - 1, (1 << 40) - 2, before + 20 * 365 * 86400):
            self.assertTrue(attacker.publish(f"{ROOT}/presence/edge-2", json.dumps(dict(birth, epoch=epoch)), retain=True)[0])
        self.cloud.wait_log(r"a message is refused .*presence/edge-2", 3)
        self.assertTrue(attacker.publish(f"{ROOT}/presence/edge-2", json.dumps(dict(birth, epoch=before + 5)), retain=True)[0])
        self.whole.topics.wait(lambda m: self.whole.is_state(m) and m.document["stamp"]["epoch"] == before + 6, "what may be true is believed")
        self.cloud.stop()
        self.cloud.start()
        self.assertEqual(self.round(2)["deployed"]["round"], 2)
        self.assertLess(self.whole.state()["stamp"]["epoch"], before + 1000)

    def test_a_node_cannot_keep_the_cloud_agent_busy_with_epochs(self):
        """Each one above its own that is believed makes it say everything anew. So they are believed less and less often."""
        attacker = Client(self.broker, self.pki.node("edge-2"))
        self.begin()
        self.round(1)
        before = self.whole.state()["stamp"]["epoch"]
        birth = {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "node": "edge-2", "online": True, "version": "0.1.0", "session": "0" * 32}
        begin = time.monotonic()
        pipe = subprocess.Popen(["mosquitto_pub", *attacker.flags, "-q", "1", "-t", f"{ROOT}/presence/edge-2", "-l"], stdin=subprocess.PIPE, text=True)
        for n in range(1, 101):
            seen = self.cloud.metrics()["ilmare_mqtt_messages_in_total"]
            print(json.dumps(dict(birth, epoch=before + 1000 * n)), file=pipe.stdin, flush=True)
            until(lambda n=seen: self.cloud.metrics()["ilmare_mqtt_messages_in_total"] > n, "it has seen that")
        pipe.communicate()
        self.assertEqual(self.round(2)["deployed"]["round"], 2)
        took = time.monotonic() - begin
        # Its own, one at once, and then after 1 s, 2 s, 4 s, …
        self.assertIn(len(self.cloud.logged(r"cloud: leading epoch")), range(2, 4 + int(took).bit_length()))

    def test_a_device_cannot_pretend_to_be_the_broker(self):
        """Not even one that is called as the broker's machine is."""
        false = self.world.path / "false"
        false.mkdir()
        certificate, key = pair(self.pki.node("localhost"))
        port = free_port()
        (false / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\ncafile {self.broker.files}/ca.crt\n"
                                              f"certfile {certificate}\nkeyfile {key}\nuser root\n")
        self.world.add(Process(self.world, "false", ["/usr/sbin/mosquitto", "-c", false / "mosquitto.conf"])).start()
        edge = self.broker.edge("edge-1", mqtt_brokers=f"mqtts://localhost:{port}")
        edge.start()
        edge.wait_log(r"certificate of localhost:\d+ is not accepted: unsuitable certificate purpose")
        self.assertFalse(edge.is_linked())


if __name__ == "__main__":
    main()
