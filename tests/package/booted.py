"""A machine that has been booted: the overlay of root.py with Debian's systemd as its first process, in namespaces and a cgroup of its own.

    class Some(BootedCase): …               self.root: one machine for all tests of the class
    self.root.run("systemctl", …)           in there, as root
    self.root.show("ilmare-edge", "MainPID")
    self.root.kill(); self.root.close()

systemd finds what it asks of a container: a cgroup (v2) that is all its own, /dev with the usual few, /sys and /proc/sys read-only (so that nothing
of this machine is changed), an identity, and "container" in its environment. Of the services that this machine has for itself none is started. All of
it are children of one process: when that is killed, nothing is left but an empty cgroup, which close() removes.
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from agents import PATIENCE, until
from root import INSIDE, Root

SYSTEMD = "/lib/systemd/systemd"
SCRIPT = r"""
set -e
echo $$ >"$2/cgroup.procs"
exec unshare --fork --kill-child=KILL --pid --mount --propagation private --uts --ipc --net --cgroup sh -ec '
root=$1
mount -t proc proc "$root/proc"
mount -o bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 none "$root/dev"
for name in null zero full random urandom tty; do
	mknod -m 666 "$root/dev/$name" c $(stat -c "0x%t 0x%T" /dev/$name)
done
mkdir "$root/dev/pts" "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs -o mode=1777 none "$root/dev/shm"
exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin container=test chroot "$root" SYSTEMD --unit=multi-user.target
' sh "$1"
""".replace("SYSTEMD", SYSTEMD)


def groups():
    """Where the cgroups of version 2 are, and can be made; None if nowhere."""
    mounts = [line.split() for line in pathlib.Path("/proc/mounts").read_text().splitlines()]
    for folder in (pathlib.Path(each[1]) for each in mounts if each[2] == "cgroup2"):
        if os.access(folder / "cgroup.procs", os.W_OK):
            return folder
    return None


class Booted(Root):
    def __init__(self):
        self.init = self.process = self.group = None
        super().__init__()
        try:
            self.boot()
        except BaseException:
            self.close()
            raise

    def boot(self):
        # What this machine has for itself: brokers, databases, timers.
        self.run_apart("sh", "-c", "rm -rf /etc/systemd/system /etc/resolv.conf /var/log/journal && mkdir /etc/systemd/system && "
                       "echo 0123456789abcdef0123456789abcdef >/etc/machine-id && rm -f /etc/rc?.d/S*")
        self.before = self.snapshot()
        group = groups() / f"ilmare-test-{os.getpid()}"
        group.mkdir()
        self.group = group
        self.console = open(self.dir / "console", "w+b")
        self.process = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", "sh", "-c", SCRIPT, "sh", self.top, self.group], stdin=subprocess.DEVNULL, stdout=self.console,
                                        stderr=self.console)
        self.init = until(self.find_init, lambda: f"{SYSTEMD} runs: {(self.dir / 'console').read_text(errors='replace')}")
        until(lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"),
              lambda: "it is booted: " + self.run("systemctl", "list-jobs", check=False).stdout, interval=0.05)

    def find_init(self):
        """The pid of systemd, as seen from here."""
        if self.process.poll() is not None:
            raise AssertionError(f"it ended at once: {(self.dir / 'console').read_text(errors='replace')}")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().startswith(SYSTEMD.encode()) and self.path("/run/systemd/private").exists():
                return int(pid)
        return None

    def run_apart(self, *command):
        """Before it is booted."""
        return super().run(*command)

    def run(self, *command, check=True, env=None, text=None):
        if self.init is None:
            return super().run(*command, check=check, env=env, text=text)
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", **(env or {})}
        done = subprocess.run(["nsenter", "-t", str(self.init), "-m", "-u", "-i", "-n", "-p", "-C", "-r", "-w", *map(str, command)], env=env,
                              input=text or "", capture_output=True, text=True, timeout=120, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def show(self, unit, name):
        return self.run("systemctl", "show", f"--property={name}", "--value", unit).stdout.strip()

    def main_pid(self, unit):
        return int(self.show(unit, "MainPID"))

    def journal(self, unit):
        return self.run("journalctl", "--no-pager", "-o", "cat", "-u", unit).stdout

    def logged(self, unit, pattern):
        """The journal is written by another process, somewhat later."""
        until(lambda: re.search(pattern, self.journal(unit)), lambda: f"{unit} logs {pattern}: {self.journal(unit)[-3000:]}", interval=0.03)

    def wait(self, unit, name, pattern, patience=PATIENCE):
        """A property that comes to be like this."""
        return until(lambda: re.fullmatch(pattern, self.show(unit, name)),
                     lambda: f"{name} of {unit} is like {pattern}: {self.show(unit, name)}\n{self.run('systemctl', 'status', unit, check=False).stdout}"
                     f"{self.journal(unit)[-3000:]}", patience, interval=0.03)[0]

    def drop_in(self, unit, text, name="test"):
        self.write(f"/etc/systemd/system/{unit}.d/{name}.conf", text)
        self.run("systemctl", "daemon-reload")

    def close(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.console.close()
        if self.group is not None:
            for pid in self.members():
                os.kill(pid, signal.SIGKILL)
            until(lambda: not self.members(), "all has ended")
            for folder, _, _ in os.walk(self.group, topdown=False):
                os.rmdir(folder)
        super().close()

    def members(self):
        return [int(pid) for file in self.group.rglob("cgroup.procs") for pid in file.read_text().split()]


class BootedCase(unittest.TestCase):
    """One machine for all tests of a class: they leave it as they found it, or start from what they need."""

    @classmethod
    def setUpClass(cls):
        missing = next((why for why, there in (("no overlay can be mounted here: takes root", os.environ.get(INSIDE) == "yes"),
                                               ("there is no systemd here", os.path.exists(SYSTEMD) and shutil.which("systemctl")),
                                               ("no cgroup of version 2 can be made here", groups())) if not there), None)
        if not missing:
            try:
                cls.root = Booted()
                cls.addClassCleanup(cls.root.close)
            except (AssertionError, OSError) as error:
                missing = f"systemd does not boot here: {error}"
        if missing and os.environ.get("ILMARE_REQUIRE_PACKAGE"):
            raise AssertionError(f"{missing} (ILMARE_REQUIRE_PACKAGE is set)")
        if missing:
            raise unittest.SkipTest(missing)
