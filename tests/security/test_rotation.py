"""Certificates and authorities are exchanged under running agents: no restart of theirs, nothing lost. Also the whole loop over mutual TLS as such."""

import ssl

from lab import Client, install, openssl
from agents import until
from secure_case import SecureCase, main


class Rotation(SecureCase):
    def install_everywhere(self):
        for name, agent in (("edge-1", self.edge), ("cloud", self.cloud)):
            install(self.pki.folder(name), agent.tls)
        self.broker.install()

    def restart_broker(self):
        """As an operator does for new files. Samples come and workers report while it is away."""
        before = [agent.metrics()["ilmare_mqtt_connects_total"] for agent in (self.edge, self.cloud)]
        self.broker.stop()
        self.whole.topics.end()  # mosquitto_sub would come again, and throw out the next one of its name
        self.whole.feed(5)
        self.broker.start()
        for agent, connects in zip((self.edge, self.cloud), before):
            until(lambda a=agent, n=connects: a.metrics()["ilmare_mqtt_connects_total"] > n and a.is_linked(),
                  lambda a=agent: f"{a.name} is connected again:\n{a.tail()}")
        self.whole.restarted()

    def feed_and_wait(self, number):
        self.whole.feed(5)
        return self.whole.topics.wait(self.whole.over(number), f"round {number} is over", patience=60).document

    def serials(self):
        return {name: openssl("x509", "-in", self.pki.folder(name) / f"{name}.crt", "-noout", "-serial") for name in ("edge-1", "cloud", "broker")}

    def test_the_whole_loop_with_certificates(self):
        self.begin()
        for number in (1, 2, 3):
            self.assertEqual(self.round(number)["deployed"]["round"], number)
        self.whole.check_samples()
        for agent in (self.edge, self.cloud):
            metrics = agent.metrics()
            refused = {name: value for name, value in metrics.items() if "refused" in name}
            self.assertTrue(refused)
            self.assertEqual(set(refused.values()), {0.0}, refused)

    def ends(self):
        """That the agents tell when their certificates end, and what those tell themselves."""
        for name, agent in (("edge-1", self.edge), ("cloud", self.cloud)):
            told = agent.metrics()
            for which, file in (("client", agent.tls / f"{name}.crt"), ("authority", agent.tls / "ca.crt")):
                end = openssl("x509", "-in", file, "-noout", "-enddate").strip().removeprefix("notAfter=")
                self.assertEqual(told[f'ilmare_certificate_expiry_timestamp_seconds{{which="{which}"}}'], ssl.cert_time_to_seconds(end), (name, which))

    def test_certificates_are_renewed(self):
        self.begin()
        self.ends()
        self.round(1)
        pids, before = (self.edge.pid, self.cloud.pid), self.serials()
        for name in ("broker", "cloud", "edge-1"):
            self.pki.run("renew", name)
        self.assertTrue(all(before[name] != serial for name, serial in self.serials().items()))
        self.install_everywhere()
        self.ends()
        self.restart_broker()
        self.assertEqual(self.feed_and_wait(2)["deployed"]["round"], 2)
        self.whole.check_samples()
        self.assertEqual((self.edge.pid, self.cloud.pid), pids)

    def test_a_new_authority(self):
        """Both are known first, then everything is signed by the new one, then the old one is forgotten."""
        self.begin()
        self.round(1)
        pids = (self.edge.pid, self.cloud.pid)
        stolen = self.broker.device("stolen", self.pki.folder("edge-1"))

        self.pki.run("new-ca")
        self.install_everywhere()
        self.restart_broker()
        self.assertEqual(self.feed_and_wait(2)["deployed"]["round"], 2)

        self.assertIn("renew it first", self.pki.refused("drop-ca"))
        for name in ("broker", "cloud", "edge-1", "watcher"):
            self.pki.run("renew", name)
        self.install_everywhere()
        self.restart_broker()
        self.assertEqual(self.feed_and_wait(3)["deployed"]["round"], 3)
        self.assertTrue(Client(self.broker, stolen, ca=self.edge.tls / "ca.crt", id="x").publish("ilmare/v1/ns/a/dataset/b/node/edge-1/status", "")[0])

        self.pki.run("drop-ca")
        self.install_everywhere()
        self.restart_broker()
        self.assertEqual(self.feed_and_wait(4)["deployed"]["round"], 4)
        inside, said = Client(self.broker, stolen, ca=self.edge.tls / "ca.crt").gets_in()
        self.assertFalse(inside, said)
        self.assertEqual(sorted(self.whole.rounds()), [1, 2, 3, 4])
        self.whole.check_samples()
        self.assertEqual((self.edge.pid, self.cloud.pid), pids)

    def test_a_reload_of_the_broker_is_enough(self):
        """New files of the broker's are taken at a reload, and nobody's connection suffers."""
        self.begin()
        until(lambda: self.edge.is_linked() and self.cloud.is_linked(), "both are connected")
        before = [agent.metrics()["ilmare_mqtt_connects_total"] for agent in (self.edge, self.cloud)]
        self.pki.run("new-ca")
        self.pki.run("renew", "broker")
        self.broker.install()
        self.broker.reload()
        self.pki.run("node", "edge-9")  # signed by the new authority
        new = Client(self.broker, self.pki.folder("edge-9"))
        until(lambda: new.gets_in()[0], "who is signed by the new authority gets in")
        self.assertEqual(self.round(1)["deployed"]["round"], 1)
        self.assertEqual([agent.metrics()["ilmare_mqtt_connects_total"] for agent in (self.edge, self.cloud)], before)


if __name__ == "__main__":
    main()
