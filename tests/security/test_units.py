"""What is installed beside the programs: units for systemd that are right, that take away what the services do not need, and no more."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

import sandbox
from lab import ROOT, SecureBroker
from agents import PATIENCE, build_dir, own_mounts, program
from case import Case, main
from test_notify import Manager
from whole import Whole

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "package"))

from enrolling import TOKEN, Endpoint  # noqa: E402

UNITS = build_dir() / "systemd"


class Units(Case):
    def unit(self, name):
        """As installed, but with a program and a user that this machine has."""
        text = (UNITS / f"{name}.service").read_text()
        text, n = re.subn(r"(?m)^ExecStart=.*/(\S+)$", lambda m: f"ExecStart={program(m[1])}", text)
        self.assertEqual(n, 1)
        text = text.replace("User=ilmare", "User=daemon").replace("Group=ilmare", "Group=daemon")
        file = self.world.path / f"{name}.service"
        file.write_text(text)
        return file

    def analyze(self, *words):
        done = subprocess.run(["systemd-analyze", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_they_are_units(self):
        files = [self.unit(name) for name in ("ilmare-edge", "ilmare-cloud")]
        socket = self.world.path / "ilmare-edge.socket"
        socket.write_text((ROOT / "systemd" / "ilmare-edge.socket").read_text())
        self.assertEqual(self.analyze("verify", "--man=no", *files, socket), (0, ""))

    def test_they_close_what_they_can(self):
        """systemd's own measure: 0 is a service that can do nothing, 10 one that can do everything."""
        for name, most in (("ilmare-edge", 20), ("ilmare-cloud", 25)):
            code, said = self.analyze("security", "--offline=true", "--no-pager", f"--threshold={most}", self.unit(name))
            self.assertEqual(code, 0, said)

    def test_nobody_is_root(self):
        self.assertIn("\nu ilmare - ", (ROOT / "systemd" / "ilmare.sysusers").read_text())
        for name in ("ilmare-edge", "ilmare-cloud"):
            service = sandbox.settings(UNITS / f"{name}.service")
            self.assertEqual((service["User"], service["Group"]), (["ilmare"], ["ilmare"]))

    def test_they_are_watched_and_wait_for_settings(self):
        for name in ("edge", "cloud"):
            unit = UNITS / f"ilmare-{name}.service"
            service = sandbox.settings(unit)
            self.assertEqual((service["Type"], service["Restart"]), (["notify"], ["always"]))
            self.assertIn(int(service["WatchdogSec"][0]), range(60, 300))
            # It is the agent itself that speaks to the manager, and no child of it.
            self.assertNotIn("NotifyAccess", service)
            self.assertIn(f"\nConditionPathExists=/etc/ilmare/{name}.yaml\n", unit.read_text())

    def test_folders_are_those_of_the_defaults(self):
        for name, setting in (("ilmare-edge", "stateDir"), ("ilmare-cloud", "local.stateDir")):
            folder = sandbox.settings(UNITS / f"{name}.service")["StateDirectory"][0]
            done = subprocess.run([program(name), "--check-config", "--node=n"] if name == "ilmare-edge" else [program(name), "--check-config"],
                                  capture_output=True, text=True, timeout=PATIENCE, check=False)
            self.assertRegex(done.stdout, rf"(?m)^\s*{re.escape(setting)}\W.*/var/lib/{folder}\b")

    def sandbox(self, *writable):
        if os.geteuid() != 0 or own_mounts() is None:
            raise unittest.SkipTest("only root can take rights away like this")
        self.world.path.chmod(0o755)
        return ["unshare", "-m", "/usr/bin/python3", "-B", HERE / "sandbox.py", UNITS / "ilmare-edge.service", *writable, "--"]

    def test_the_bounds_of_the_next_test_hold(self):
        (self.world.path / "here").mkdir()
        (self.world.path / "there").mkdir()
        for folder in self.world.path.iterdir():
            folder.chmod(0o777)
        for script, status in (("1", 0), (f"open('{self.world.path}/here/x', 'w')", 0), (f"open('{self.world.path}/there/x', 'w')", 30),
                               ("open('/x', 'w')", 30), ("import mmap; mmap.mmap(-1, 4096, prot=7)", -31), ("import os; os.chroot('/')", -31),
                               ("import socket; socket.socket(socket.AF_PACKET, socket.SOCK_RAW)", -31), ("import socket; socket.socket()", 0)):
            script = f"import sys\ntry: exec({script!r})\nexcept OSError as error: sys.exit(error.errno)"
            done = subprocess.run([*self.sandbox(self.world.path / "here"), "/usr/bin/python3", "-c", script], capture_output=True, text=True,
                                  timeout=PATIENCE, check=False)
            self.assertEqual(done.returncode, status, f"{script}: {done.stderr}")

    def test_the_whole_loop_within_the_edge_units_bounds(self):
        broker = self.world.broker()
        state, job = self.world.path / "edge-1.state", self.world.path / "job"
        for folder in (state, job):
            folder.mkdir()
        edge = self.world.edge(broker, start=False, prefix=self.sandbox(state, job), dataset_check_on_arrival="true")
        cloud = self.world.cloud(broker, edge, start=False)
        whole = Whole(self.world, broker, edge, cloud)
        for folder in (state, job, *(folder for folder in job.rglob("*") if folder.is_dir())):
            os.chown(folder, sandbox.UID, sandbox.GID)
        edge.start()
        cloud.start()
        self.assertEqual(edge.status("Uid"), sandbox.UID)
        self.assertEqual((edge.status("NoNewPrivs"), edge.status("Seccomp")), (1, 2))
        for each in ("CapEff", "CapBnd"):
            self.assertRegex(pathlib.Path(f"/proc/{edge.pid}/status").read_text(), rf"(?m)^{each}:\s+0+$")
        for number in (1, 2):
            whole.feed()
            state = whole.topics.wait(whole.over(number), f"round {number} is over", patience=60).document
            self.assertEqual(state["deployed"]["round"], number)
        whole.check_samples()
        self.assertEqual(edge.stop(), 0)

    def test_a_certificate_within_the_edge_units_bounds(self):
        """The child that asks for it has them, too; and the manager is heard of it."""
        broker = SecureBroker(self.world).start()
        endpoint = Endpoint(broker.pki)
        self.addCleanup(endpoint.close)
        manager = Manager(self.world.path / "manager")
        self.addCleanup(manager.socket.close)
        (self.world.path / "manager").chmod(0o777)
        state, token, authority = (self.world.path / name for name in ("edge-1.state", "token", "ca.crt"))
        state.mkdir()
        token.write_text(f"{TOKEN}\n")
        authority.write_bytes((broker.pki.folder("broker") / "ca.crt").read_bytes())
        for each in (state, token):
            os.chown(each, sandbox.UID, sandbox.GID)
        token.chmod(0o600)
        authority.chmod(0o644)
        edge = self.world.edge(broker, start=False, prefix=self.sandbox(state), env=manager.env, mqtt_ca_file=authority,
                               enrolment_url=endpoint.url, enrolment_token_file=token)
        edge.start(wait=False)
        heard = manager.wait(rf"STATUS=connected to {re.escape(broker.url)}")
        self.assertEqual(heard[0], "READY=1")
        self.assertEqual((state / "tls" / "node.pem").stat().st_mode & 0o777, 0o600)
        self.assertEqual(edge.stop(), 0)


if __name__ == "__main__":
    main()
