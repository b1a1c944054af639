#!/usr/bin/python3
"""What installing, upgrading and removing does to a machine."""

import pathlib
import re
import subprocess
import tempfile

import root
from case import main
from root import RootCase, package

EDGE, CLOUD = "ilmare-edge.service", "ilmare-cloud.service"
SETTINGS, STATE = "/etc/ilmare/edge.yaml", "/var/lib/ilmare/edge.db"
USER_FILES = {f"/etc/{name}{end}" for name in ("group", "gshadow", "passwd", "shadow") for end in ("", "-")} | {"/etc/.pwd.lock"}


def older(deb, folder):
    """The same package with a lower version."""
    tree, made = folder / "tree", folder / f"older-{deb.name}"
    subprocess.run(["dpkg-deb", "-R", deb, tree], check=True)
    control = tree / "DEBIAN" / "control"
    text, n = re.subn(r"(?m)^Version: .*$", "Version: 0.0.9-1", control.read_text())
    assert n == 1
    control.write_text(text)
    subprocess.run(["dpkg-deb", "--root-owner-group", "-b", tree, made], check=True, capture_output=True)
    return made


class Install(RootCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.deb = package("ilmare-edge")

    def is_enabled(self, unit=EDGE):
        done = self.root.run("systemctl.real" if self.root.path("/usr/bin/systemctl.real").exists() else "systemctl", "--root=/", "is-enabled",
                             unit, check=False)
        return done.stdout.strip()

    def services(self):
        """What the manager was asked for, but to read units anew."""
        return [call for call in self.root.asked() if call != "daemon-reload"]

    def use(self):
        """As on a device that is in service."""
        self.root.write(SETTINGS, "node: edge-1\n")
        self.root.write(STATE, "state\n", 0o600)

    def check_kept(self):
        self.assertEqual(self.root.path(SETTINGS).read_text(), "node: edge-1\n")
        self.assertEqual(self.root.path(STATE).read_text(), "state\n")

    def test_a_machine_without_systemd_running(self):
        """A container, or the root of an image that is being made."""
        self.root.install(self.deb)
        user = self.root.run("getent", "passwd", "ilmare").stdout.strip().split(":")
        self.assertEqual((user[5], user[6]), ("/", "/usr/sbin/nologin"))
        self.assertGreater(1000, int(user[2]))
        self.assertEqual(self.is_enabled(), "enabled")
        self.assertEqual(self.is_enabled("ilmare-edge.socket"), "disabled")
        self.assertTrue(self.root.path("/etc/ilmare").is_dir())
        self.assertIn("usage", self.root.run("ilmare-enroll", "--help").stdout)
        self.assertIn("--remote-program", self.root.run("ilmare-edge", "--help").stdout)

    def test_units_are_right_where_they_are_installed(self):
        self.root.install(self.deb, package("ilmare-cloud"))
        for unit, most in ((EDGE, 20), (CLOUD, 25)):
            done = self.root.run("systemd-analyze", "verify", f"/lib/systemd/system/{unit}", check=False)
            said = [line for line in (done.stdout + done.stderr).splitlines() if "ilmare" in line]
            self.assertEqual((done.returncode, said), (0, []), done.stderr)
            self.root.run("systemd-analyze", "security", "--offline=true", "--no-pager", f"--threshold={most}", f"/lib/systemd/system/{unit}")

    def test_it_is_not_started_before_there_are_settings(self):
        self.root.manage()
        self.root.install(self.deb)
        self.assertEqual(self.services(), [f"start {EDGE}"])
        self.assertEqual(self.root.path("/run/manager/state").read_text(), "inactive")

    def test_it_is_started_if_there_are(self):
        self.root.manage()
        self.root.write(SETTINGS, "node: edge-1\nworkers:\n  port: 0\n")
        self.root.install(self.deb)
        self.assertEqual(self.services(), [f"start {EDGE}"])
        self.assertEqual(self.root.path("/run/manager/state").read_text(), "active")
        self.assertRegex(self.root.path("/run/manager/status").read_text(), "^(connecting to|not connected since)")
        self.root.dpkg("-r", "ilmare-edge")
        self.assertEqual(self.services()[0].split()[0], "stop")
        self.assertEqual(self.root.path("/run/manager/state").read_text(), "inactive")

    def test_a_policy_that_forbids_starts_is_respected(self):
        self.root.manage()
        self.use()
        self.root.write("/usr/sbin/policy-rc.d", "#!/bin/sh\nexit 101\n", 0o755)
        self.root.install(self.deb)
        self.root.install(self.deb)
        self.assertEqual(self.services(), [])

    def test_upgrade(self):
        self.root.manage()
        self.root.install(older(self.deb, self.folder))
        self.assertIn("Version: 0.0.9-1", self.root.dpkg("-s", "ilmare-edge").stdout)
        self.use()
        self.root.asked()
        self.root.install(self.deb)
        self.check_kept()
        self.assertEqual(self.services(), [f"restart {EDGE}"])
        self.assertNotIn("0.0.9", self.root.dpkg("-s", "ilmare-edge").stdout)

    def test_what_the_administrator_switched_off_stays_off(self):
        self.root.manage()
        self.root.install(older(self.deb, self.folder))
        self.root.run("systemctl", "disable", EDGE)
        self.root.asked()
        self.root.install(self.deb)
        self.assertEqual((self.services(), self.is_enabled()), ([], "disabled"))

    def test_what_the_administrator_masked_stays_masked(self):
        self.root.manage()
        self.root.install(older(self.deb, self.folder))
        self.root.run("systemctl", "mask", EDGE)
        self.root.install(self.deb)
        self.assertEqual(self.is_enabled(), "masked")

    def test_the_same_version_again(self):
        self.root.install(self.deb)
        self.use()
        before = self.root.changed()
        self.root.install(self.deb)
        self.check_kept()
        self.assertEqual(self.root.changed(), before)

    def test_removed_and_installed_again(self):
        self.root.manage()
        self.root.install(self.deb)
        self.use()
        self.root.asked()
        self.root.dpkg("-r", "ilmare-edge")
        self.assertEqual(self.services(), [f"stop ilmare-edge.socket {EDGE}"])
        self.check_kept()
        self.assertFalse(self.root.path("/usr/sbin/ilmare-edge").exists())
        self.root.install(self.deb)
        self.check_kept()
        self.assertEqual((self.services(), self.is_enabled()), ([f"restart {EDGE}"], "enabled"))

    def test_nothing_but_the_user_is_left_after_a_purge(self):
        for manage in (False, True):
            if manage:
                self.root.manage()
                self.root.before = self.root.snapshot()
            self.root.install(self.deb)
            self.use()
            self.root.write("/etc/ilmare/enrolment-token", "x", 0o600)
            self.root.dpkg("-r", "ilmare-edge")
            self.assertIn(SETTINGS, self.root.changed())
            self.root.dpkg("-P", "ilmare-edge")
            self.assertEqual([path for path in self.root.changed() if path not in USER_FILES], [])
            self.root.run("getent", "passwd", "ilmare")

    def test_purged_at_once(self):
        self.root.manage()
        self.root.install(self.deb)
        self.use()
        self.root.dpkg("-P", "ilmare-edge")
        self.assertEqual([path for path in self.root.changed() if "ilmare" in path], [])

    def test_without_systemds_program_for_users(self):
        self.root.run("rm", "/usr/bin/systemd-sysusers")
        self.root.install(self.deb)
        user = self.root.run("getent", "passwd", "ilmare").stdout.strip().split(":")
        self.assertEqual((user[5], user[6]), ("/", "/usr/sbin/nologin"))
        self.root.run("getent", "group", "ilmare")
        self.root.install(self.deb)

    def test_both_packages(self):
        self.root.manage()
        done = self.root.run("dpkg", "-i", self.root.give(package("ilmare-cloud")), check=False)
        self.assertNotEqual(done.returncode, 0, "it depends on the other")
        self.root.install(self.deb, package("ilmare-cloud"))
        self.assertEqual(self.is_enabled(CLOUD), "enabled")
        self.use()
        self.root.write("/etc/ilmare/cloud.yaml", "name: cloud\n")
        self.root.write("/var/lib/ilmare-cloud/x", "x")
        self.root.dpkg("-r", "ilmare-cloud")
        self.check_kept()
        self.root.dpkg("-P", "ilmare-edge")
        self.assertEqual([p.name for p in self.root.path("/etc/ilmare").iterdir()], ["cloud.yaml"])
        self.assertTrue(self.root.path("/var/lib/ilmare-cloud/x").exists())
        self.root.dpkg("-P", "ilmare-cloud")
        self.assertEqual([path for path in self.root.changed() if "ilmare" in path], [])


if __name__ == "__main__":
    root.enter()
    main()
