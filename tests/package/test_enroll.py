#!/usr/bin/python3
"""From one file to a device in service: ilmare-enroll, with the real agent, a real broker with TLS both ways, and an endpoint that signs."""

import datetime
import os
import pathlib
import re
import signal
import stat
import subprocess
import tempfile

import root
from agents import PATIENCE, ROOT, World, until
from case import main
from enrolling import TOKEN, Endpoint, enrolment_file
from lab import Pki, SecureBroker
from root import RootCase, package

FILE = "/root/edge-7.yaml"
# A cluster's answers, as far as scripts/enroll-node asks; tests/kube asks a real one.
KUBECTL = """#!/bin/sh
case "$*" in
*"get configmaps "*) echo "ilmare ilmare-devices default" ;;
*"get configmap "*broker*) echo mqtts://broker.example.org:8883 ;;
*"get configmap "*enrolment*) echo https://broker.example.org:8443 ;;
*"get configmap "*topicRoot*) echo ilmare/v1 ;;
*"get configmap "*outside*) echo true ;;
*"get configmap "*) ;;
*"get deployments "*) echo "ilmare-cloud 1234 ilmare-enrolment-tls" ;;
*"get secret ilmare-enrolment-tls"*) base64 -w 0 "$AUTHORITY" ;;
*"get secret"*) ;;
*create*) cat >/dev/null ;;
*) exit 1 ;;
esac
"""
CA = "-----BEGIN CERTIFICATE-----\nMIIBszCC\nAVmgAw==\n-----END CERTIFICATE-----\n"


class Enroll(RootCase):
    def setUp(self):
        super().setUp()
        self.root.install(package("ilmare-edge"))
        self.said = ""

    def enroll(self, *words, status, text=None, command=("ilmare-enroll",), **more):
        """What it says."""
        done = self.root.run(*command, *words, check=False, text=text, **more)
        self.said += done.stdout + done.stderr
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertNotIn(TOKEN, done.stdout + done.stderr)
        self.assertEqual(list(self.root.path("/tmp").glob("tmp.*")), [], "what it needs in between is gone")
        return done.stdout + done.stderr

    def placed(self):
        return sorted(str(p.relative_to(self.root.path("/etc/ilmare"))) for p in self.root.path("/etc/ilmare").rglob("*"))

    def check_placed(self, text, ca):
        """Each with its owner and mode."""
        user = int(self.root.run("id", "-u", "ilmare").stdout)
        for name, owner, mode, content in (("edge.yaml", 0, 0o644, text.partition("# BEGIN ILMARE")[0]), ("tls/ca.crt", 0, 0o644, ca),
                                           ("enrolment-token", user, 0o600, f"{TOKEN}\n")):
            file = self.root.path(f"/etc/ilmare/{name}")
            info = file.stat()
            self.assertEqual((info.st_uid, stat.S_IMODE(info.st_mode), file.read_text()), (owner, mode, content), name)
        for name in ("", "tls"):
            self.assertEqual(stat.S_IMODE(self.root.path(f"/etc/ilmare/{name}").stat().st_mode), 0o755)


class Refused(Enroll):
    """Whatever is wrong with it: said, and nothing is changed."""

    def refuse(self, text, *patterns, words=()):
        self.root.write(FILE, text, 0o600)
        said = self.enroll(*words, FILE, status=1)
        for pattern in patterns:
            self.assertRegex(said, pattern)
        self.assertEqual(self.placed(), [])

    def test_what_is_wrong_with_a_file(self):
        good = enrolment_file(CA)
        for change, by, *patterns in (
                (r"\A", "x\n", rf"{FILE}: is not an enrolment file; .*scripts/enroll-node"),
                (r"(?s)\A.*\Z", "", "is not an enrolment file"),
                ("version 1", "version 2", r"is of version 2, and this ilmare-enroll reads version 1: install a newer package"),
                (r"# END ILMARE TOKEN\n", "", "its end is missing: copy it again"),
                (r"(?s)# BEGIN ILMARE TOKEN.*", "", "its end is missing: copy it again"),
                ("# node: edge-7", "# node: Edge 7", f"{FILE}:2: no name of a node"),
                (r"# expires: \S+", "# expires: tomorrow", f"{FILE}:3: no time at which it expires"),
                (r"# expires: \S+", "# expires: 2026-19-39T22:00:00Z", f"{FILE}:3: .* is no time"),
                (r"# expires: \S+", "# expires: 2026-11-01T00:00:00Z",
                 r"has expired at 2026-11-01T00:00:00Z .*clock.*make a new file: scripts/enroll-node edge-7"),
                ("# BEGIN ILMARE AUTHORITY\n", "", '"# BEGIN ILMARE AUTHORITY"'),
                ("(# BEGIN ILMARE TOKEN\n)", r"\1\1", '"# BEGIN ILMARE TOKEN"'),
                ("# MIIB", "# M:IB", "the block AUTHORITY is not made of certificates"),
                ("# -----END CERTIFICATE-----\n", "", "the block AUTHORITY is not made of certificates"),
                (r"(?s)(# BEGIN ILMARE AUTHORITY\n).*(# END ILMARE AUTHORITY)", r"\1\2", "the block AUTHORITY is not made of certificates"),
                (f"# {re.escape(TOKEN)}\n", "# short\n", "the block TOKEN is not one line with a token"),
                (f"# {re.escape(TOKEN)}\n", f"# {TOKEN}\n# {TOKEN}\n", "the block TOKEN is not one line with a token"),
                (f"# {re.escape(TOKEN)}\n", f"# {'x' * 30} y\n", "the block TOKEN is not one line with a token"),
                ("# It is a secret", f"# {TOKEN}", "the token is among the settings"),
                ("\nnode: edge-7", "\nnode: edge-8", 'node is "edge-8" and should be "edge-7"'),
                ("/tls/ca.crt", "/other.crt", 'mqtt.caFile is "/etc/ilmare/other.crt" and should be "/etc/ilmare/tls/ca.crt"'),
                ("/enrolment-token", "/token", 'enrolment.tokenFile is "/etc/ilmare/token"'),
                (r"  url: \S+\n", "", "enrolment.url is missing"),
                ("url: https", "url: http", f"{FILE}:\\d+: enrolment.url", "its settings cannot be used"),
                ("mqtts://", "mqtt://192.0.2.1:1, mqtts://", f"{FILE}:\\d+: mqtt.brokers: .*without TLS"),
                ("  caFile:", "  coFile: x\n  caFile:", f"{FILE}:\\d+:\\d+: mqtt.coFile: there is no such setting")):
            with self.subTest(change=change, by=by):
                text, n = re.subn(change, by, good, count=1)
                self.assertEqual(n, 1)
                self.refuse(text, *patterns)
        self.refuse(good + "#" * 70000 + "\n", "is larger than an enrolment file can be")

    def test_a_name_is_a_name(self):
        """Whatever the file is called, nothing of it is a command; what is wrong is said."""
        for name in ("/root/a|b&c.yaml", "/root/a|e\n#.yaml", "/root/$(touch x).yaml"):
            self.root.write(name, enrolment_file(CA).replace("  caFile:", "  coFile: x\n  caFile:"), 0o600)
            said = self.enroll(name, status=1)
            self.assertIn("mqtt.coFile: there is no such setting", said)
            self.assertNotIn("unknown option", said)

    def test_files_that_are_none(self):
        self.assertIn("there is no such file", self.enroll("/root/none.yaml", status=1))
        self.assertIn("is not a file", self.enroll("/root", status=1))
        self.assertIn("standard input: is not an enrolment file", self.enroll("-", status=1, text=""))

    def test_words_that_are_wrong(self):
        for words in ((), ("--wait", FILE), ("--wait=x", FILE), ("--wait",), ("--other", FILE), (FILE, FILE), ("--wait=99999", FILE)):
            self.assertRegex(self.enroll(*words, status=2), "usage: ilmare-enroll|ilmare-enroll --help|number of seconds")
        self.assertIn("--replace", self.enroll("--help", status=0))

    def test_only_root(self):
        self.root.write("/tmp/edge-7.yaml", enrolment_file(CA), 0o644)
        said = self.enroll("/tmp/edge-7.yaml", status=1, command=("setpriv", "--reuid=nobody", "--clear-groups", "ilmare-enroll"))
        self.assertIn("sudo ilmare-enroll /tmp/edge-7.yaml", said)

    def test_a_machine_without_the_user(self):
        self.root.run("userdel", "ilmare")
        self.refuse(enrolment_file(CA), "no user ilmare")

    def test_the_environment_has_no_part_in_it(self):
        self.root.write(FILE, enrolment_file(CA), 0o600)
        self.enroll(FILE, status=0, env={"ILMARE_NODE": "other", "ILMARE_MQTT_BROKERS": "nonsense", "LC_ALL": "fr_FR.UTF-8"})


class InPlace(Enroll):
    """Where no systemd runs."""

    def test_files_owners_and_modes(self):
        text = enrolment_file(CA)
        self.root.write(FILE, text, 0o600)
        said = self.enroll(FILE, status=0)
        self.assertIn("all is in place for node edge-7. No systemd runs here", said)
        self.assertEqual(self.placed(), ["edge.yaml", "enrolment-token", "tls", "tls/ca.crt"])
        self.check_placed(text, CA)

    def test_from_standard_input_and_another_systems_line_ends(self):
        text = enrolment_file(CA)
        self.enroll("-", status=0, text=text.replace("\n", "\r\n"))
        self.check_placed(text, CA)
        self.assertIn("there already", self.enroll("-", status=0, text="\ufeff" + text + "\n\n"))  # as an editor may leave it
        self.assertIn("there already", self.enroll("-", status=0, text=text.removesuffix("\n")))
        self.check_placed(text, CA)

    def test_what_enroll_node_prints(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        here = pathlib.Path(folder.name)
        (here / "kubectl").write_text(KUBECTL)
        (here / "kubectl").chmod(0o755)
        authority = Pki(here / "pki").dir / "authority" / "devices" / "1" / "ca.crt"
        # A name that YAML would take for nothing at all.
        done = subprocess.run([ROOT / "scripts" / "enroll-node", "null"], capture_output=True, text=True, check=False, timeout=PATIENCE,
                              env={**os.environ, "PATH": f"{here}:{os.environ['PATH']}", "AUTHORITY": str(authority)})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.enroll("-", status=0, text=done.stdout)
        self.assertIn("for node null", self.said)
        self.assertEqual(self.root.path("/etc/ilmare/tls/ca.crt").read_text(), authority.read_text())
        self.assertRegex(done.stdout, "\n# " + self.root.path("/etc/ilmare/enrolment-token").read_text())
        self.assertIn("brokers: [\"mqtts://broker.example.org:8883\"]", self.root.path("/etc/ilmare/edge.yaml").read_text())

    def test_the_same_file_again(self):
        text = enrolment_file(CA)
        self.root.write(FILE, text, 0o600)
        self.enroll(FILE, status=0)
        self.root.path("/etc/ilmare/enrolment-token").unlink()
        self.assertIn("these settings are there already", self.enroll(FILE, status=0))
        self.check_placed(text, CA)

    def test_settings_that_are_there_already(self):
        self.root.write("/etc/ilmare/edge.yaml", 'node: "edge-1"\n')
        self.root.write("/var/lib/ilmare/tls/node.pem", "old")
        text = enrolment_file(CA)
        self.root.write(FILE, text, 0o600)
        said = self.enroll(FILE, status=1)
        self.assertRegex(said, r"has settings already \(/etc/ilmare/edge.yaml, node edge-1\): with --replace")
        self.assertEqual(self.placed(), ["edge.yaml"])
        said = self.enroll("--replace", FILE, status=0)
        self.check_placed(text, CA)
        kept = dict(re.findall(r"is kept: (\S+)(\.before-\d{8}T\d{6}Z)", said))
        self.assertEqual(sorted(kept), ["/etc/ilmare/edge.yaml", "/var/lib/ilmare/tls"])
        self.assertEqual(self.root.path("/etc/ilmare/edge.yaml" + kept["/etc/ilmare/edge.yaml"]).read_text(), 'node: "edge-1"\n')
        self.assertEqual(self.root.path("/var/lib/ilmare/tls" + kept["/var/lib/ilmare/tls"] + "/node.pem").read_text(), "old")
        self.assertFalse(self.root.path("/var/lib/ilmare/tls").exists())

    def test_a_disk_that_is_full(self):
        """Nothing of what was there is changed, and nothing is left."""
        self.root.write(FILE, enrolment_file(CA), 0o600)
        self.enroll(FILE, status=0)
        self.root.write("/var/lib/ilmare/tls/node.pem", "old")
        was = {name: self.root.path(f"/etc/ilmare/{name}").read_text() for name in ("edge.yaml", "enrolment-token", "tls/ca.crt")}
        self.root.write(FILE, enrolment_file(CA).replace("edge-7", "edge-8"), 0o600)
        full = 'cp() { case $2 in *enrolment-token.new) set -- "$1" /dev/full ;; esac; command cp "$@"; }'
        script = self.root.path("/usr/sbin/ilmare-enroll").read_text().replace("set -eu\n", f"set -eu\n{full}\n", 1)
        self.root.write("/usr/sbin/enroll-full", script, 0o755)
        said = self.enroll("--replace", FILE, status=1, command=("/usr/sbin/enroll-full",))
        self.assertRegex(said, "No space left(.*\n)+.*enrolment-token.new cannot be written .*nothing was changed")
        self.assertEqual({name: self.root.path(f"/etc/ilmare/{name}").read_text() for name in was}, was)
        self.assertEqual(self.placed(), ["edge.yaml", "enrolment-token", "tls", "tls/ca.crt"])
        self.assertTrue(self.root.path("/var/lib/ilmare/tls/node.pem").exists())

    def test_one_at_a_time(self):
        self.root.write(FILE, enrolment_file(CA), 0o600)
        said = self.enroll("/run/ilmare-enroll.lock", "ilmare-enroll", FILE, status=1, command=("flock",))
        self.assertIn("another ilmare-enroll is at work on this device", said)
        self.assertEqual(self.placed(), [])
        self.enroll(FILE, status=0)

    def test_a_line_that_is_cut(self):
        """The hang-up comes with the end of what is read: nothing of the token is left in /tmp."""
        for end, status in ((signal.SIGHUP, 129), (signal.SIGINT, 130), (signal.SIGTERM, 130)):
            with subprocess.Popen(["chroot", self.root.top, "ilmare-enroll", "-"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                                  env={"PATH": os.environ["PATH"]}) as process:  # no TMPDIR
                process.stdin.write(enrolment_file(CA))
                process.stdin.flush()
                until(lambda: list(self.root.path("/tmp").glob("tmp.*/taken")), "it reads")
                process.send_signal(end)
                process.stdin.close()
                self.assertEqual(process.wait(PATIENCE), status)
            self.assertEqual((list(self.root.path("/tmp").glob("tmp.*")), self.placed()), ([], []))

    def test_a_name_in_the_state_leads_nowhere(self):
        """The folder of state is the service's own user's, who may have put anything there."""
        self.root.write("/etc/ilmare/edge.yaml", "node: edge-1\n")
        self.root.write("/var/lib/ilmare/tls/node.pem", "old")
        self.root.path("/etc/elsewhere").mkdir()
        now = datetime.datetime.now(datetime.timezone.utc)
        for seconds in range(60):
            mark = now + datetime.timedelta(seconds=seconds)
            self.root.path(f"/var/lib/ilmare/tls.before-{mark:%Y%m%dT%H%M%SZ}").symlink_to("/etc/elsewhere")
        self.root.write(FILE, enrolment_file(CA), 0o600)
        self.assertIn("was not finished: run it again, with --replace", self.enroll("--replace", FILE, status=1))
        self.assertEqual(list(self.root.path("/etc/elsewhere").iterdir()), [])


class InService(Enroll):
    def setUp(self):
        super().setUp()
        self.root.manage()
        self.world = World()
        self.addCleanup(self.world.close)

    def journal(self):
        return self.root.path("/run/manager/journal").read_text()

    def begin(self):
        self.broker = SecureBroker(self.world).start()
        self.endpoint = Endpoint(self.broker.pki)
        self.addCleanup(self.endpoint.close)
        self.ca = (self.broker.pki.folder("broker") / "ca.crt").read_text()

    def file(self, **more):
        # A port of its own, as other agents run on this machine.
        text = enrolment_file(self.ca, broker=self.broker.url, url=self.endpoint.url, more="workers:\n  port: 0\n", **more)
        self.root.write(FILE, text, 0o600)
        return text

    def check_connected(self, said):
        self.assertIn(f"node edge-7 is connected to {self.broker.url}\n", said)
        self.assertRegex(said, r"ReadWritePaths=/data")
        topics = self.world.topics(self.broker, "ilmare/v1/presence/edge-7")
        topics.wait(lambda m: m.document and m.document["online"], "edge-7 is present")

    def test_one_file_and_the_device_is_there(self):
        self.begin()
        text = self.file()
        said = self.enroll(FILE, status=0)
        self.check_connected(said)
        self.assertIn(f"{FILE} is not needed any more", said)
        self.check_placed(text, self.ca)
        pem = self.root.path("/var/lib/ilmare/tls/node.pem")
        self.assertEqual(stat.S_IMODE(pem.stat().st_mode), 0o600)
        self.assertNotIn(TOKEN, self.journal())
        self.assertEqual(self.endpoint.asked, 1)
        # Again: the certificate that is there does.
        self.check_connected(self.enroll(FILE, status=0))
        self.assertEqual(self.endpoint.asked, 1)

    def test_a_new_file_in_place_of_the_old(self):
        self.begin()
        self.file()
        self.enroll(FILE, status=0)
        self.file(hours=48)
        self.enroll(FILE, status=1)
        self.check_connected(self.enroll("--replace", FILE, status=0))
        self.assertEqual(self.endpoint.asked, 2)

    def test_a_token_that_is_not_taken(self):
        self.begin()
        other = "x" * 40
        self.file(token=other)
        said = self.enroll("--wait", "2", FILE, status=3)
        self.assertRegex(said, r"node edge-7 is started, but not connected after 2 s: no certificate yet: .*the token is not known")
        self.assertNotIn(other, said + self.journal())

    def test_a_broker_that_is_away(self):
        self.begin()
        self.broker.stop()
        self.file()
        said = self.enroll("--wait=2", FILE, status=3)
        self.assertRegex(said, rf"not connected after 2 s: not connected since \S+: .*{self.broker.port}")
        self.assertRegex(said, "It goes on trying")
        self.broker.start()
        self.check_connected(self.enroll(FILE, status=0))

    def test_a_service_that_does_not_start(self):
        self.ca, self.broker = CA, None
        self.root.write(FILE, enrolment_file(CA, more="workers:\n  tokenFile: /etc/ilmare/none\n"), 0o600)
        self.assertRegex(self.enroll(FILE, status=1), "workers.tokenFile: .*none")
        self.root.write(FILE, enrolment_file(CA, more="stateDir: /proc/ilmare\nworkers:\n  port: 0\n"), 0o600)
        self.assertRegex(self.enroll(FILE, status=1), "does not start: see journalctl -u ilmare-edge.service; all files are in place")

    def test_without_waiting(self):
        self.root.write(FILE, enrolment_file(CA, more="workers:\n  port: 0\n"), 0o600)
        self.assertIn("node edge-7 is started", self.enroll("--wait=0", FILE, status=0))


if __name__ == "__main__":
    root.enter()
    main()
