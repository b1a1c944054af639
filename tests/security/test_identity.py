"""Who gets in, and what the agent says when it does not: one readable line, whatever is wrong. Then it gets in by itself as soon as it is right.

Also what happens without TLS: refused off loopback unless it is said that it is meant, and then said at each start.
"""

import re
import subprocess

from lab import Pki, install, openssl, pair
from agents import PATIENCE, Process, free_port, program, until
from secure_case import SecureCase, main

TOO_LATE = ("20250101000000Z", "20250201000000Z")
TOO_EARLY = ("20450101000000Z", "20460101000000Z")
NOT_ACCEPTED = r"localhost:\d+ refuses TLS: it does not accept this agent.s certificate: "


class Identity(SecureCase):
    def start(self, edge):
        self.broker.install()
        self.broker.start()
        return edge.start()

    def stays_out(self, edge, text):
        """It says this, goes on trying, and works meanwhile."""
        edge.wait_log(text)
        line = next(line for line in edge.text().splitlines() if "cannot connect" in line and re.search(text, line))
        self.assertLess(len(line), 420, line)
        attempts = edge.metrics()["ilmare_mqtt_attempts_total"]
        until(lambda: edge.metrics()["ilmare_mqtt_attempts_total"] > attempts + 1, "it tries again")
        self.assertFalse(edge.is_linked())
        self.assertEqual(edge.get("/healthz")[0], 200)

    def gets_in_with(self, edge, folder):
        install(folder, edge.tls)
        edge.connected()

    def test_its_own_certificate(self):
        self.start(self.broker.edge("edge-1")).connected()

    def test_none(self):
        edge = self.start(self.broker.edge("edge-1", mqtt_cert_file=None, mqtt_key_file=None))
        self.stays_out(edge, r"refuses TLS: it asks for a certificate, and mqtt.certFile names none that it takes")

    def test_expired(self):
        edge = self.start(self.broker.edge("edge-1", folder=self.pki.issue_with_dates("edge-1", *TOO_LATE)))
        self.stays_out(edge, NOT_ACCEPTED + r"it ended at 2025-02-01 00:00 UTC \(this machine's clock: ")
        self.pki.run("renew", "edge-1")
        self.gets_in_with(edge, self.pki.folder("edge-1"))

    def test_not_valid_yet(self):
        edge = self.start(self.broker.edge("edge-1", folder=self.pki.issue_with_dates("edge-1", *TOO_EARLY)))
        self.stays_out(edge, NOT_ACCEPTED + r"it begins at 2045-01-01 00:00 UTC \(this machine's clock: ")

    def test_revoked(self):
        edge = self.broker.edge("edge-1")
        self.pki.run("revoke", "edge-1")
        self.start(edge)
        self.stays_out(edge, r"refuses TLS: this agent's certificate was revoked")
        self.pki.run("node", "edge-1")  # the name itself is not spoilt
        self.broker.install()
        self.broker.reload()
        self.gets_in_with(edge, self.pki.folder("edge-1"))
        edge.wait_log("connected")

    def test_of_another_authority(self):
        other = Pki(self.world.path / "other")
        self.more_pki = [other]
        edge = self.broker.edge("edge-1", folder=other.node("edge-1"), mqtt_ca_file=self.pki.folder("broker") / "ca.crt")
        self.start(edge)
        self.stays_out(edge, r'refuses TLS: it does not know who signed this agent.s certificate \(\\"Ilmare devices 1\\"\)')

    def test_a_broker_of_another_authority(self):
        other = Pki(self.world.path / "other")
        self.more_pki = [other]
        edge = self.broker.edge("edge-1", mqtt_ca_file=other.folder("broker") / "ca.crt")
        edge.env = {"SSL_CERT_FILE": self.pki.folder("broker") / "ca.crt"}  # whom this machine trusts otherwise counts as little
        self.start(edge)
        self.stays_out(edge, r"the certificate of localhost:\d+ is not accepted: ")

    def test_a_broker_of_another_name(self):
        self.pki.dir.joinpath("hosts").write_text("DNS:elsewhere.example\n")
        self.pki.run("renew", "broker")
        edge = self.start(self.broker.edge("edge-1"))
        self.stays_out(edge, r"the certificate of localhost:\d+ is not accepted: hostname mismatch")

    def test_a_key_that_is_not_the_certificates(self):
        _, key = pair(self.pki.node("edge-2"))
        edge = self.start(self.broker.edge("edge-1", mqtt_key_file=key))
        self.stays_out(edge, r"the key in \S+ is not that of the certificate in \S+/edge-1.crt")

    def test_a_key_with_a_passphrase(self):
        """Nobody is there to be asked for it: the terminal would wait, and keep the agent from ending."""
        edge = self.broker.edge("edge-1")
        closed = edge.tls / "closed.key"
        openssl("pkcs8", "-topk8", "-passout", "pass:abcd", "-in", edge.tls / "edge-1.key", "-out", closed)
        closed.rename(edge.tls / "edge-1.key")
        self.start(edge)
        self.stays_out(edge, r"/edge-1.key holds no key in PEM form that can be read without a passphrase")
        self.assertNotIn("Enter", edge.text())
        self.gets_in_with(edge, self.pki.folder("edge-1"))

    def test_a_broker_with_an_old_version_or_no_certificate(self):
        """Not even if this machine's own settings would allow it."""
        weak = self.world.path / "weak.cnf"
        weak.write_text("openssl_conf = o\n[o]\nssl_conf = s\n[s]\nsystem_default = d\n[d]\nMinProtocol = TLSv1\nCipherString = ALL:@SECLEVEL=0\n")
        certificate, key = pair(self.pki.folder("broker"))
        folder = self.pki.node("edge-1")
        for name, shakes, how in (("new", True, ["-tls1_2"]), ("old", False, ["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]),
                                  ("nobody", False, ["-tls1_2", "-cipher", "aNULL:@SECLEVEL=0"])):
            port = free_port()
            server = Process(self.world, name, ["openssl", "s_server", "-www", "-state", "-accept", port, "-cert", certificate, "-key", key, *how],
                             env={"OPENSSL_CONF": weak})
            self.world.add(server).start().wait_log("ACCEPT")
            edge = self.broker.edge("edge-1", folder, name=f"edge-{name}", mqtt_brokers=f"mqtts://localhost:{port}")
            edge.env = {"OPENSSL_CONF": weak}
            edge.start()
            if shakes:
                server.wait_log("SSL_accept:SSLv3/TLS write finished")
            else:
                edge.wait_log('cannot connect error="TLS with .*(protocol|handshake failure)', 2)
            edge.stop()

    def test_a_file_that_is_no_certificate(self):
        edge = self.broker.edge("edge-1")
        (edge.tls / "edge-1.crt").write_text("nothing\n")
        self.start(edge)
        self.stays_out(edge, r"/edge-1.crt holds no certificate in PEM form")
        self.gets_in_with(edge, self.pki.folder("edge-1"))

    def test_one_that_ends_soon(self):
        """It works, and is warned of at each connection, a month ahead."""
        edge = self.start(self.broker.edge("edge-1", folder=self.pki.node("edge-1", "--days", "29"))).connected()
        edge.wait_log(r"warn .*certificate ends soon.* file=\S+/edge-1.crt days=2[89]")
        self.pki.run("renew", "edge-1", "--days", "32")
        install(self.pki.folder("edge-1"), edge.tls)
        self.broker.stop()
        said = len(edge.logged("certificate ends soon"))
        self.broker.start()
        until(lambda: edge.metrics()["ilmare_mqtt_connects_total"] == 2, "connected again")
        self.assertEqual(len(edge.logged("certificate ends soon")), said)

    def test_another_nodes_certificate(self):
        """It opens the door, and then nothing: neither is this node's word taken, nor does it hear what is meant for it."""
        edge = self.start(self.broker.edge("edge-1", folder=self.pki.node("edge-2")))
        edge.wait_log(r"the certificate is another's: .* certificate=edge-2 name=edge-1")
        edge.wait_log(r"publish refused topic=ilmare/v1/presence/edge-1 .*not authorized \(0x87\)")
        listener = self.world.topics(self.broker)
        self.broker.publish("ilmare/v1/node/edge-1/inventory", "{}")
        self.refused_once_more(edge)
        self.assertEqual(listener.find(lambda m: "presence/edge-1" in m.topic), [])
        self.assertEqual(edge.metrics()["ilmare_mqtt_messages_in_total"], 0)

    def test_a_connected_node_that_is_revoked_loses_its_rights_at_once(self):
        edge = self.start(self.broker.edge("edge-1")).connected()
        listener = self.world.topics(self.broker)
        self.pki.run("revoke", "edge-1")
        self.broker.install()
        self.broker.reload()
        self.refused_once_more(edge)
        heard, since = edge.metrics()["ilmare_mqtt_messages_in_total"], listener.mark()
        self.broker.publish("ilmare/v1/node/edge-1/inventory", "{}")
        listener.wait(lambda m: m.topic.endswith("edge-1/inventory"), "said to all who may hear it", since)
        self.refused_once_more(edge)  # had the broker sent it, it would have come before this
        self.assertEqual(edge.metrics()["ilmare_mqtt_messages_in_total"], heard)
        self.broker.stop()
        self.broker.start()
        self.stays_out(edge, r"refuses TLS: this agent's certificate was revoked")

    def refused_once_more(self, edge):
        """It announces itself until it is answered; nobody answers here."""
        refused = edge.metrics()["ilmare_mqtt_refused_publishes_total"]
        until(lambda: edge.metrics()["ilmare_mqtt_refused_publishes_total"] > refused, "a publish is refused")

    def test_a_node_may_not_be_called_what_would_be_more_than_itself(self):
        for name in ("#", "+", "edge-1/../edge-2", "a/b", "cloud", "EDGE", "x" * 254, "edge 1", "$SYS", ""):
            done = subprocess.run([program("ilmare-edge"), "--check-config", f"--node={name}", f"--state-dir={self.world.path}/x"],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 2, name)


class Plaintext(SecureCase):
    """What is meant for the network of a machine that others cannot reach."""

    def test_without_tls_only_to_this_machine(self):
        done = subprocess.run([program("ilmare-edge"), "--node=edge-1", "--mqtt-brokers=mqtt://192.0.2.1:1883", f"--state-dir={self.world.path}/x"],
                              capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("without TLS, and not on this machine", done.stderr)

    def test_a_worker_port_that_others_reach_is_said_at_every_start(self):
        token = self.world.path / "token"
        token.write_text("0123456789abcdef\n")
        for name, host, file, said in (("none", "127.0.0.1", None, None), ("open", "0.0.0.0", None, "whoever reaches this port can report"),
                                       ("token", "0.0.0.0", token, "whoever is on the way .* can read the token")):
            edge = self.world.edge(None, name=name, start=False, workers_host=host, workers_token_file=file)
            for n in (1, 2):
                edge.start()
                self.assertEqual(len(edge.logged(f"warn  worker-api: insecure: {said or ''}")), n if said else 0)
                edge.stop()

    def test_insecure_is_said_at_every_start(self):
        edge = self.broker.edge("edge-1", mqtt_brokers="mqtt://192.0.2.1:1883", mqtt_insecure="true")
        for n in (1, 2):
            edge.start()
            edge.wait_log(r"warn .*without TLS", n)
            edge.stop()


if __name__ == "__main__":
    main()
