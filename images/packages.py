"""Debian packages of any architecture, had without changing this machine.

apt-get works on folders of its own: an empty list of installed packages, its own indexes and its own cache, with the package sources, keys and
pins of this machine. So `dpkg --add-architecture` is not needed, nor root, and packages that are installed here make no difference to what is
found. What is downloaded has been checked against the archive's signature by apt itself.

Everything is kept in ${XDG_CACHE_HOME:-~/.cache}/ilmare/debian-ARCH. Indexes are fetched anew when they are older than a day; where that fails,
because there is no network say, the old ones go on being used, and packages that are in the cache already need no network at all.

Invariant: who holds the lock of the folder is the only one that runs apt there. A package that has once been extracted is read by others at the
same time, so what is extracted goes to a folder of the caller's.
"""

import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

INDEX_AGE = 24 * 3600

# Commands that this machine runs after each apt-get (they empty its own cache, and tell its desktop) are not for us.
CONFIG = """\
#clear DPkg::Post-Invoke;
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear APT::Architectures;
APT::Architecture "{arch}";
APT::Architectures {{ "{arch}"; }};
APT::Install-Recommends "false";
APT::Sandbox::User "";
Acquire::Languages "none";
Acquire::Retries "3";
Dir::State "{folder}/state/";
Dir::State::status "{folder}/status";
Dir::Cache "{folder}/cache/";
Debug::NoLocking "true";
"""


class Failure(Exception):
    """What a person reads: what is wrong, where, and what to do."""


def cache_folder():
    base = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    return pathlib.Path(base) / "ilmare"


def native_arch():
    if not shutil.which("dpkg"):
        raise Failure("this machine has no dpkg; Debian 12, or one like it, is needed to take packages apart (or use images/Dockerfile)")
    return subprocess.run(["dpkg", "--print-architecture"], check=True, capture_output=True, text=True).stdout.strip()


@contextlib.contextmanager
def locked(path):
    """Holds the lock file `path` exclusively; waits for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="ascii") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


class Package:
    """A .deb in the cache. `name` without the architecture."""

    def __init__(self, name, version, arch, path):
        self.name, self.version, self.arch, self.path = name, version, arch, path

    def control(self):
        """The package's control paragraph, as text that ends in a newline."""
        said = subprocess.run(["dpkg-deb", "--field", self.path], check=True, capture_output=True, text=True)
        return said.stdout.rstrip("\n") + "\n"

    def extract(self, folder):
        """Files below `folder`, control files in `folder`/DEBIAN. Owners are not kept."""
        subprocess.run(["dpkg-deb", "--raw-extract", self.path, folder], check=True)

    def add_to(self, folder):
        """Files below `folder`, where those of other packages are already."""
        # Not dpkg-deb --extract: it would put a folder in the place of a link to one (/lib).
        files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", self.path], stdout=subprocess.PIPE)
        subprocess.run(["tar", "--extract", "--keep-directory-symlink", "--no-same-owner", "--directory", folder], stdin=files.stdout, check=True)
        files.stdout.close()
        if files.wait():
            raise Failure(f"{self.path} cannot be read: remove it, and it will be downloaded again")


class Debian:
    """Packages for `arch`."""

    def __init__(self, arch):
        self.arch = arch
        self.folder = cache_folder() / f"debian-{arch}"
        self.config = self.folder / "apt.conf"

    def _apt(self, *arguments):
        # LC_ALL: what it says is read below.
        return subprocess.run(["apt-get", "-q", "-c", self.config, *arguments], capture_output=True, text=True,
            env={**os.environ, "LC_ALL": "C"}, check=False)

    def _prepare(self):
        for name in ("state/lists/partial", "cache/archives/partial"):
            (self.folder / name).mkdir(parents=True, exist_ok=True)
        (self.folder / "status").write_bytes(b"")
        self.config.write_text(CONFIG.format(arch=self.arch, folder=self.folder), encoding="utf-8")
        stamp = self.folder / "updated"
        if stamp.exists() and time.time() - stamp.stat().st_mtime < INDEX_AGE:
            return
        said = self._apt("update")
        if said.returncode == 0 and "\nErr:" not in said.stdout:
            stamp.touch()
        elif stamp.exists():
            print(f"packages: the indexes for {self.arch} cannot be renewed, older ones are used: {last_line(said.stderr)}", file=sys.stderr)
        else:
            raise Failure(f"the indexes of Debian packages for {self.arch} cannot be had (apt-get update): {last_line(said.stderr)}")

    def fetch(self, names):
        """`names` and all that they depend on, from the cache or downloaded: a list of Package, sorted by name."""
        with locked(self.folder / "lock"):
            self._prepare()
            install = ("install", "--yes", "--no-install-recommends", *names)
            plan = self._apt("--simulate", *install)
            if plan.returncode:
                raise Failure(f"Debian packages for {self.arch}: {last_line(plan.stderr)}; packages wanted: {' '.join(names)}")
            said = self._apt("--download-only", *install)
            if said.returncode:
                raise Failure(f"Debian packages for {self.arch} cannot be downloaded: {last_line(said.stderr)}")
        packages = []
        for name, version, arch in re.findall(r"^Inst (\S+) \((\S+) .*\[(\S+)\]\)", plan.stdout, re.M):
            name = name.partition(":")[0]
            path = self.folder / "cache" / "archives" / f"{name}_{version.replace(':', '%3a')}_{arch}.deb"
            if not path.exists():
                raise Failure(f"{path} is missing though apt-get has downloaded it")
            packages.append(Package(name, version, arch, path))
        return sorted(packages, key=lambda p: p.name)


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E:")]
    return (errors or lines or ["no reason was given"])[-1]
