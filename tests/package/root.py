"""A machine to install on: this one under an overlay, so that dpkg runs for real and nothing of it is changed.

    class Some(RootCase): …                 self.root: a new Root for each test; enter() has to be called before main()
    self.root.run("dpkg", "-i", deb)        in there, as root; check=False to look at returncode and output oneself
    self.root.path("/etc/ilmare")           where a file of it is for us
    self.root.manage()                      from now on a service manager runs there: manager.py beside this file
    self.root.changed()                     paths that are there since the beginning, or are others, or are gone

The mounts belong to this process (enter() makes it one with a mount namespace of its own) and go with it.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))
sys.path.insert(0, str(HERE.parent / "security"))

from agents import PATIENCE, ROOT  # noqa: E402

PACKAGES = ROOT / "build" / "packages"
NATIVE = subprocess.run(["dpkg", "--print-architecture"], capture_output=True, text=True, check=True).stdout.strip()
INSIDE = "ILMARE_PACKAGE_MOUNTS"


def package(name, arch=NATIVE):
    found = sorted(PACKAGES.glob(f"{name}_*_{arch}.deb"), key=lambda p: p.stat().st_mtime)
    if not found:
        raise FileNotFoundError(f"{PACKAGES}/{name}_*_{arch}.deb: run scripts/build-packages --arch {arch}")
    return found[-1]


def enter():
    """Run this program again with mounts of its own; without, if that is not possible here."""
    if os.environ.get(INSIDE) is None:
        attempt = ["unshare", "-m", "--propagation", "private"]
        works = os.geteuid() == 0 and subprocess.run([*attempt, "sh", "-c", "mount -t tmpfs none /mnt && mkdir /mnt/u /mnt/w /mnt/r && "
                                                      "mount -t overlay o -o lowerdir=/,upperdir=/mnt/u,workdir=/mnt/w /mnt/r"],
                                                     capture_output=True, check=False).returncode == 0
        os.environ[INSIDE] = "yes" if works else "no"
        if works:
            os.execvp(attempt[0], [*attempt, sys.executable, "-B", *sys.argv])


class Root:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="ilmare-root."))
        self.mount("-t", "tmpfs", "none", self.dir)
        self.upper, self.top = self.dir / "upper", self.dir / "root"
        for each in (self.upper, self.dir / "work", self.top):
            each.mkdir()
        self.dir.chmod(0o755)
        self.mount("-t", "overlay", "none", "-o", f"lowerdir=/,upperdir={self.upper},workdir={self.dir}/work", self.top)
        self.mount("-t", "proc", "none", self.top / "proc")
        self.mount("--rbind", "/dev", self.top / "dev")
        for name in ("run", "tmp"):
            self.mount("-t", "tmpfs", "none", self.top / name)
        self.path("/tmp").chmod(0o1777)
        # A machine where it is in use already, or has been.
        if list(self.path("/var/lib/dpkg/info").glob("ilmare-*.list")):
            self.run("dpkg", "--purge", "ilmare-cloud", "ilmare-edge", check=False)
        # Without auto-update the index of man pages is not made anew each time.
        self.run("sh", "-c", "rm -rf /etc/ilmare /var/lib/ilmare /usr/sbin/policy-rc.d /var/lib/man-db/auto-update; "
                 "! getent passwd ilmare >/dev/null || userdel ilmare")
        self.before = self.snapshot()

    @staticmethod
    def mount(*words):
        subprocess.run(["mount", *map(str, words)], check=True, capture_output=True, timeout=PATIENCE)

    def path(self, inside):
        return self.top / inside.lstrip("/")

    def run(self, *command, check=True, env=None, text=None):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", **(env or {})}
        done = subprocess.run(["chroot", str(self.top), *map(str, command)], env=env, input=text or "", capture_output=True, text=True,
                              timeout=120, check=False)
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def give(self, file, name=None):
        """A file of ours in there; its path."""
        name = name or f"/tmp/{pathlib.Path(file).name}"
        shutil.copyfile(file, self.path(name))
        return name

    def dpkg(self, *words):
        return self.run("dpkg", *words)

    def install(self, *debs):
        return self.dpkg("-i", *[self.give(deb) for deb in debs])

    def write(self, name, text, mode=0o644):
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def snapshot(self):
        """Of all files that are others than this machine's, what they are. A folder that this machine has, too, is none of them."""
        seen = {}
        for folder, folders, files in os.walk(self.upper):
            for name in folders + files:
                path = pathlib.Path(folder) / name
                inside = f"/{path.relative_to(self.upper)}"
                if name in files or not os.path.isdir(inside):
                    info = path.lstat()
                    seen[inside] = (info.st_mode, info.st_uid, info.st_size if name in files else 0)
        return seen

    def changed(self):
        """Save what dpkg itself writes down, and caches."""
        now = self.snapshot()
        return sorted(path for path in {*now, *self.before} if now.get(path) != self.before.get(path) and
                      not path.startswith(("/var/lib/dpkg", "/var/log", "/var/cache", "/root")))

    def manage(self):
        """systemd's place, taken by manager.py, with the commands that the package uses."""
        if not self.path("/usr/bin/systemctl.real").exists():
            self.run("mv", "/usr/bin/systemctl", "/usr/bin/systemctl.real")
            shutil.copyfile(HERE / "manager.py", self.path("/usr/bin/systemctl"))
            self.path("/usr/bin/systemctl").chmod(0o755)
        self.path("/run/systemd/system").mkdir(parents=True, exist_ok=True)
        self.path("/run/manager").mkdir(exist_ok=True)

    def asked(self):
        """What the manager was told to do with services, so far; and it is forgotten."""
        calls = self.path("/run/manager/calls")
        text = calls.read_text() if calls.exists() else ""
        calls.unlink(missing_ok=True)
        return text.splitlines()

    def close(self):
        if self.path("/run/manager").exists():
            self.run("systemctl", "stop", "ilmare-edge.service", check=False)
        for mount in (self.top, self.dir):
            subprocess.run(["umount", "-R", "-l", str(mount)], check=False, capture_output=True)
        self.dir.rmdir()


class RootCase(unittest.TestCase):
    def setUp(self):
        if os.environ.get(INSIDE) != "yes":
            if os.environ.get("ILMARE_REQUIRE_PACKAGE"):
                self.fail("no overlay can be mounted here (ILMARE_REQUIRE_PACKAGE is set)")
            raise unittest.SkipTest("no overlay can be mounted here: takes root")
        self.root = Root()
        self.addCleanup(self.root.close)
