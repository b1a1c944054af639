"""broker-config/certificates by itself: what it makes, what it refuses, what it never does."""

import datetime
import pathlib
import re
import stat
import subprocess
import tempfile
import unittest

import lab
from lab import Pki, openssl
from case import main
from agents import PATIENCE


class Certificates(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="ilmare-test-")
        self.addCleanup(folder.cleanup)
        self.pki = Pki(pathlib.Path(folder.name) / "a folder", "broker.example", "192.0.2.7", "2001:db8::1")

    def text(self, name, *what):
        return openssl("x509", "-in", self.pki.folder(name) / f"{name}.crt", "-noout", *(what or ("-text",)))

    def days(self, name):
        """Its lifetime."""
        begin, end = (datetime.datetime.strptime(line.split("=")[1], "%b %d %H:%M:%S %Y %Z")
                      for line in self.text(name, "-startdate", "-enddate").splitlines())
        return (end - begin).days

    def everything(self):
        return {str(file): file.read_bytes() for file in self.pki.dir.rglob("*") if file.is_file() and file.name != ".lock"}

    def nothing_changes(self, *words):
        before = self.everything()
        said = self.pki.refused(*words)
        self.assertEqual(self.everything(), before)
        self.assertNotIn("PRIVATE", said)
        return said

    def test_who_may_be_what(self):
        self.pki.node("edge-1")
        server, client = self.text("broker"), self.text("edge-1")
        self.assertIn("TLS Web Server Authentication", server)
        self.assertNotIn("TLS Web Client Authentication", server)
        self.assertIn("DNS:broker.example, IP Address:192.0.2.7, IP Address:2001:DB8:0:0:0:0:0:1", server)
        self.assertIn("TLS Web Client Authentication", client)
        self.assertNotIn("TLS Web Server Authentication", client)
        for text in (server, client):
            self.assertIn("NIST CURVE: P-256", text)
            self.assertIn("CA:FALSE", text)
            self.assertIn("ecdsa-with-SHA256", text)
        self.assertRegex(client, r"Subject: CN ?= ?edge-1\n")

    def test_lifetimes(self):
        self.pki.node("edge-1")
        self.pki.node("edge-2", "--days", "30")
        self.assertEqual([self.days(name) for name in ("broker", "cloud", "edge-1", "edge-2")], [365, 365, 730, 30])

    def test_modes(self):
        self.pki.node("edge-1")
        self.pki.operator("anna")
        for file in self.pki.dir.rglob("*"):
            mode = stat.S_IMODE(file.stat().st_mode)
            with self.subTest(file=file):
                if file.is_dir():
                    self.assertEqual(mode, 0o700)
                elif file.suffix == ".key":
                    self.assertEqual(mode, 0o600)
                elif self.pki.dir / "out" in file.parents:
                    self.assertEqual(mode, 0o644)
                else:
                    self.assertEqual(mode & 0o077, 0)
        keys = [file.read_bytes() for file in self.pki.dir.rglob("*.key")]
        self.assertEqual(len(keys), len(set(keys)))
        self.assertEqual(len(keys), 6)  # two authorities, broker, cloud, edge-1, anna

    def test_names_that_are_refused(self):
        for name in ("#", "+", "a/b", "../x", "..", ".", "a..b", "-a", "a-", "a.", "A", "ä", "x" * 65, "cloud", "broker", "a b", "*", "$x", "a\nb", "a=b", ""):
            with self.subTest(name=name):
                self.nothing_changes("node", name)
                self.nothing_changes("operator", name)
                self.nothing_changes("revoke", name) if name not in ("cloud", "broker") else None
        self.pki.node("x" * 64)
        self.pki.node("a.b-c.0")

    def test_what_is_there_is_not_overwritten(self):
        self.pki.node("edge-1")
        self.assertIn("already", self.nothing_changes("node", "edge-1"))
        self.assertIn("already", self.nothing_changes("operator", "edge-1"))  # one name, one right
        self.assertIn("already", self.nothing_changes("init", "broker.example"))
        key = (self.pki.folder("edge-1") / "edge-1.key").read_bytes()
        self.pki.run("renew", "edge-1")
        self.assertNotEqual((self.pki.folder("edge-1") / "edge-1.key").read_bytes(), key)
        self.assertIn(key, [file.read_bytes() for file in (self.pki.dir / "old").rglob("*.key")])

    def test_wrong_words(self):
        for words in (("frob",), ("node",), ("node", "a", "b"), ("renew", "nobody"), ("revoke", "nobody"), ("node", "a", "--days", "0"),
                      ("node", "a", "--days", "x"), ("node", "a", "--frob"), ("list", "x"), ("-d",)):
            with self.subTest(words=words):
                said = self.nothing_changes(*words)
                self.assertRegex(said, r"^certificates: .+\n$")
        before_init = subprocess.run([lab.CONFIG / "certificates", "-d", self.pki.dir / "none", "node", "a"], capture_output=True, text=True, check=False)
        self.assertIn("begin with \"init\"", before_init.stderr)
        self.assertFalse((self.pki.dir / "none").exists())
        for host in ("", "a b", "a,DNS:evil", "a;b", "$(x)"):
            done = subprocess.run([lab.CONFIG / "certificates", "-d", self.pki.dir / "none", "init", host], capture_output=True, text=True, check=False)
            self.assertNotEqual(done.returncode, 0, host)

    def test_help(self):
        for flag in ("--help", "-h"):
            done = subprocess.run([lab.CONFIG / "certificates", flag], capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, 0)
            for word in ("init", "node", "operator", "renew", "revoke", "new-ca", "drop-ca", "list", "--days"):
                self.assertIn(word, done.stdout)
        self.assertEqual(subprocess.run([lab.CONFIG / "certificates"], capture_output=True, check=False).returncode, 2)

    def test_revoke(self):
        old = [(self.pki.node("edge-1") / "edge-1.crt").read_text()]
        self.pki.run("renew", "edge-1")
        old.append((self.pki.folder("edge-1") / "edge-1.crt").read_text())
        kept = self.pki.node("edge-2") / "edge-2.crt"
        self.pki.run("revoke", "edge-1")
        broker = self.pki.folder("broker")
        for n, text in enumerate(old):
            file = self.pki.dir / f"revoked-{n}.crt"
            file.write_text(text)
            done = subprocess.run(["openssl", "verify", "-crl_check", "-CAfile", broker / "ca.crt", "-CRLfile", broker / "ca.crl", file],
                                  capture_output=True, text=True, check=False)
            self.assertIn("certificate revoked", done.stderr)
        openssl("verify", "-crl_check", "-CAfile", broker / "ca.crt", "-CRLfile", broker / "ca.crl", kept)
        self.assertIn("user edge-1\ntopic deny #\n", (broker / "acl").read_text())
        self.assertRegex(self.pki.run("list"), r"edge-1 +revoked")
        self.assertIn("no certificate", self.nothing_changes("renew", "edge-1"))
        self.pki.node("edge-1")  # the device is back, with a new key
        self.assertNotIn("user edge-1\n", (broker / "acl").read_text())
        self.assertNotIn("revoked", self.pki.run("list"))

    def test_list(self):
        self.pki.node("edge-1")
        self.pki.operator("anna")
        said = self.pki.run("list")
        for name, kind in (("broker", ""), ("cloud", ""), ("edge-1", "node"), ("anna", "operator")):
            self.assertRegex(said, rf"(?m)^{name} +{kind} *until \w+ +\d+ [\d:]+ \d+ GMT$")

    def test_no_key_is_ever_printed(self):
        said = self.pki.run("node", "edge-1") + self.pki.run("operator", "anna") + self.pki.run("renew", "edge-1") + self.pki.run("revoke", "edge-1")
        said += self.pki.run("new-ca") + self.pki.run("list")
        self.assertFalse([line for line in self.pki.secrets() if line in said])

    def test_the_root_of_the_topics_is_said_in_one_place(self):
        lines = [line for line in (lab.CONFIG / "production.acl").read_text().splitlines() if re.match(r"(topic|pattern) ", line)]
        self.assertTrue(lines and all("ilmare/v1/" in line for line in lines), lines)


if __name__ == "__main__":
    main()
