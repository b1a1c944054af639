"""ilmare-edge gets its certificate by itself: at a real API server, against a real mosquitto as broker-config/production.conf has it, whose authority of
devices is the cloud agent's. Certificates live for seconds here, so that their renewal can be waited for."""

import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
import sys
import time
import unittest

from kube_case import HERE, Case, main, setUpModule  # noqa: F401

sys.path.append(str(HERE.parent / "security"))

import agents  # noqa: E402
from agents import until  # noqa: E402
from api_proxy import Proxy  # noqa: E402
from cluster import Authority  # noqa: E402
from enrolment import Enrolment, facts  # noqa: E402
from lab import SecureBroker, pair  # noqa: E402

FAKETIME = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"))), None)


def authority_in(folder):
    """One that somebody else made: its files are ca.crt and ca.key."""
    a = Authority.__new__(Authority)
    a.folder, a.certificate, a.key, a.numbers = folder, folder / "ca.crt", folder / "ca.key", itertools.count(1)
    return a


class Site(Enrolment):
    """One authority for the devices, the broker and the endpoint, as the chart has it."""

    def parts(self):
        self.broker = SecureBroker(self.world)
        self.devices = self.site = authority_in(self.broker.pki.dir / "authority" / "devices" / "1")
        self.broker.start()
        folder = self.broker.device("cloud", self.broker.pki.folder("cloud"))
        self.cloud_tls = (folder / "ca.crt", *pair(folder))

    def cloud(self, **more):
        ca, certificate, key = self.cloud_tls
        return super().cloud(**{"mqtt_brokers": self.broker.cloud_url, "mqtt_ca_file": ca, "mqtt_cert_file": certificate, "mqtt_key_file": key, **more})

    def edge(self, node="edge-1", token=None, start=True, **more):
        file = self.path / f"{node}.token"
        if token is not None:
            file.write_text(token + "\n")
        edge = self.world.edge(self.broker, node=node, start=False, **{
            "mqtt_ca_file": self.site.certificate, "enrolment_url": self.url, "enrolment_token_file": file, **more})
        edge.pem = edge.state / "tls" / "node.pem"
        return edge.start() if start else edge


class EdgeCase(Case):
    def setUp(self):
        super().setUp()
        self.e = Site(self)

    def waits(self, edge, text):
        def says():
            status, said = edge.get("/readyz")
            return status == 503 and "waits for a certificate: " in said and text in said
        until(says, lambda: f"{edge.name}: {edge.get('/readyz')}\n{edge.tail()}")

    def ready(self, edge, patience=agents.PATIENCE):
        until(lambda: edge.get("/readyz")[0] == 200, lambda: f"{edge.name}: {edge.get('/readyz')}\n{edge.tail()}", patience)
        return edge.connected()

    def serial(self, edge):
        return facts(edge.pem.read_text(), "-serial")


class Devices(EdgeCase):
    def test_from_nothing_and_renewed(self):
        """A pod's token, a certificate, the link; then new ones in time, which the next connection uses; a key of its own each time."""
        edge = self.e.edge(token=self.e.pod("edge-1"))
        self.waits(edge, self.e.url)
        cloud = self.e.cloud(enrolment_lifetime="5s")
        self.ready(edge)
        self.assertEqual(edge.pem.stat().st_mode & 0o777, 0o600)
        first, key = self.serial(edge), edge.pem.read_text().split("PRIVATE KEY")[1]
        end = 'ilmare_certificate_expiry_timestamp_seconds{which="client"}'
        ended = edge.metrics()[end]
        self.assertAlmostEqual(ended, time.time(), delta=60)
        until(lambda: self.serial(edge) != first, "it is renewed")
        until(lambda: edge.metrics()[end] > ended, "the end is a later one")
        self.assertNotIn(key, edge.pem.read_text())
        cloud.wait_log("certificate issued node=edge-1 by=certificate")
        until(lambda: edge.metrics()["ilmare_edge_enrolments_total"] >= 2, "it is counted")
        self.assertTrue(edge.is_linked())
        self.e.broker.stop()
        self.e.broker.start()
        self.ready(edge)
        for text in (edge.text(), cloud.text()):
            self.assertNotIn("PRIVATE", text)
            self.assertNotIn((self.e.path / "edge-1.token").read_text().strip(), text)

    def test_a_one_time_token_lasts(self):
        """From the first certificate on it is not needed: renewals go by the certificate."""
        edge = self.e.edge("edge-7", self.e.one_time("edge-7", seconds=4), start=False)
        cloud = self.e.cloud(enrolment_lifetime="5s")
        self.ready(edge.start())
        cloud.wait_log("certificate issued node=edge-7 by=token")
        cloud.wait_log("certificate issued node=edge-7 by=certificate", 2)
        self.assertTrue(edge.is_linked())
        self.assertEqual(edge.metrics()["ilmare_edge_enrolment_failures_total"], 0)

    def test_refused(self):
        """It says why, and goes on trying; with another token it comes in."""
        self.e.cloud()
        edge = self.e.edge(token=self.e.pod("edge-2"))
        self.waits(edge, 'is on node \\"edge-2\\"')
        self.assertEqual(edge.metrics()["ilmare_edge_enrolment_failures_total"], 1)
        self.assertEqual(len(edge.logged("enrolment: refused node=edge-1")), 1)
        edge.stop()
        (self.e.path / "edge-1.token").write_text(self.e.pod("edge-1") + "\n")
        self.ready(edge.start())

    def test_no_token_yet(self):
        self.e.cloud()
        edge = self.e.edge()
        self.waits(edge, "there is no token to ask with")
        (self.e.path / "edge-1.token").write_text(self.e.pod("edge-1") + "\n")
        self.ready(edge)

    def test_denied_while_it_runs(self):
        """No renewal, by the certificate or the token; the link is there as long as the broker lets it."""
        cloud = self.e.cloud(enrolment_lifetime="5s", start=False)
        cloud.start()
        edge = self.ready(self.e.edge(token=self.e.pod("edge-1")))
        cloud.stop()
        self.e.cloud(name="cloud-2", enrolment_lifetime="5s", enrolment_denied="edge-1")
        edge.wait_log("refused node=edge-1 error=.*is denied", 2)
        self.assertTrue(edge.is_linked())
        self.waits(edge, "is denied")  # once the one that it has is over

    def test_taken_away(self):
        """Who removes the certificate gets a new one; one of another node is none."""
        self.e.cloud()
        edge = self.ready(self.e.edge(token=self.e.pod("edge-1")))
        edge.stop()
        text = edge.pem.read_text()
        edge.pem.unlink()
        self.ready(edge.start())
        self.assertNotEqual(edge.pem.read_text(), text)
        edge.stop()
        self.assertEqual(self.e.program("edge-2", self.e.pod("edge-2")).returncode, 0)
        shutil.copy(self.e.folder("edge-2") / "node.pem", edge.pem)
        self.ready(edge.start())
        self.assertIn("edge-1", facts(edge.pem.read_text(), "-subject"))
        self.assertEqual(set(re.findall(r"client connected from \S+ as (edge-\S+)", self.e.broker.text())), {"edge-1"})

    def test_no_program(self):
        self.e.cloud()
        edge = self.e.edge(token=self.e.pod("edge-1"), enrolment_program="/none/ilmare-certificate")
        self.waits(edge, "cannot run /none/ilmare-certificate")
        self.assertTrue(edge.alive())


class Killed(EdgeCase):
    def silent(self):
        """(url, socket): an endpoint that takes connections and says nothing."""
        server = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(server.close)
        server.settimeout(agents.PATIENCE)
        return f"https://127.0.0.1:{server.getsockname()[1]}", server

    def children(self, name="ilmare-certific"):
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/comm") as comm, open(f"/proc/{pid}/cmdline") as line:
                    if comm.read().strip() == name and str(self.world.path) in line.read():
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def test_the_agent(self):
        """Killed, it leaves no child behind; stopped, it does not wait for it."""
        url, server = self.silent()
        for how in (signal.SIGKILL, signal.SIGTERM):
            with self.subTest(how=how):
                edge = self.e.edge(name=f"edge-{how}", node="edge-1", token=self.e.pod("edge-1"), enrolment_url=url)
                connection, _ = server.accept()
                self.assertEqual(len(self.children()), 1)
                edge.end(how)
                until(lambda: not self.children(), "the child ends")
                connection.close()

    def test_the_child(self):
        """Killed while it waits, it is followed by another one, with the same key: what the endpoint did for the first counts."""
        self.e.cloud()
        url, server = self.silent()
        token = self.e.one_time("edge-7")
        asks = self.e.program("edge-7", token, url=url, start=True)
        connection, _ = server.accept()
        key = (self.e.folder("edge-7") / "node.key.new").read_text()
        asks.kill()
        asks.communicate()
        connection.close()
        self.assertEqual(self.e.program("edge-7", token).returncode, 0)
        self.assertEqual(self.e.installed("edge-7")[1], key)

    def test_the_cloud_agent_after_it_has_bound_a_token(self):
        """The device gets its certificate from the next one, and nobody else does."""
        proxy = Proxy(self.cluster)
        self.addCleanup(proxy.close)
        cloud = self.e.cloud(kubeconfig=self.e.access(server=proxy.url))
        cloud.ready()
        proxy.after(r"PATCH .*/secrets/", lambda request: cloud.process.kill() or b"")
        token = self.e.one_time("edge-7")
        done = self.e.program("edge-7", token)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(self.e.secret("edge-7")["metadata"]["annotations"])
        cloud.kill()
        self.e.cloud(name="cloud-2")
        self.e.refused(self.e.ask("edge-7", token), "used with another key")
        self.assertEqual(self.e.program("edge-7", token).returncode, 0)
        self.e.fits("edge-7")


@unittest.skipIf(FAKETIME is None or agents.is_sanitized(), "libfaketime is not there, or cannot be combined with sanitizers")
class Clocks(EdgeCase):
    def test_wrong_at_the_start(self):
        """A device without a battery begins in 2001: it says so, and that is all that it can do. With the right time it comes in."""
        self.e.cloud()
        edge = self.e.edge(token=self.e.pod("edge-1"), start=False)
        control = self.e.path / "time"
        control.write_text("@2001-01-01 00:00:00")
        edge.env = {**(edge.env or {}), "LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": control, "FAKETIME_NO_CACHE": "1",
                    "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        edge.start()
        self.waits(edge, "clock: 2001-01-01")
        control.write_text("+0")
        self.ready(edge)

    def test_ahead(self):
        """A certificate that looks as if it were over is no reason to lose it: nothing is exchanged until there is a better one."""
        self.e.cloud()
        edge = self.ready(self.e.edge(token=self.e.pod("edge-1")))
        edge.stop()
        before = edge.pem.read_text()
        edge.env = {**(edge.env or {}), "LD_PRELOAD": FAKETIME, "FAKETIME": "+4000d", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
        edge.start()
        self.waits(edge, "certificate")
        edge.stop()
        self.assertEqual(edge.pem.read_text(), before)
        edge.env = {}
        self.ready(edge.start())
        self.assertEqual(edge.pem.read_text(), before)


if __name__ == "__main__":
    main()
