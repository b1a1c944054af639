"""A device outside the cluster: a Debian of its own with the package installed, in the device's network namespace.

    device = Device(machine, world)
    device.install(deb)                  dpkg -i, in a root that is an overlay of this machine's /usr, /etc and /var/lib
    device.run("ilmare-enroll", file)    as root there; what it prints
    device.start()                       the agent, as its unit would start it: the user ilmare, its state folder, no more
    device.stop(), device.remove()

There is no systemd: ilmare-enroll puts all in place and says what to start.
"""

import os
import pathlib
import subprocess

from agents import Process, until
from bed import WORK, sh

AGENT = "/usr/sbin/ilmare-edge"


class Device:
    def __init__(self, machine, world, name="edge-1"):
        self.machine, self.world, self.name = machine, world, name
        self.folder = WORK / "device"
        self.root = self.folder / "root"
        self.mounts = []
        self.agent = None

    def install(self, package):
        self.root.mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (self.root / name).symlink_to(f"usr/{name}")
        for where in ("usr", "etc", "var/lib"):
            upper, work = self.folder / f"{where}-upper".replace("/", "-"), self.folder / f"{where}-work".replace("/", "-")
            for each in (upper, work, self.root / where):
                each.mkdir(parents=True)
            self._mount("-t", "overlay", "-o", f"lowerdir=/{where},upperdir={upper},workdir={work}", "overlay", self.root / where)
        for where, mode in (("tmp", 0o1777), ("run", 0o755), ("data", 0o755), ("dev", 0o755), ("proc", 0o755), ("var/log", 0o755), ("var/cache", 0o755)):
            (self.root / where).mkdir(exist_ok=True)
            (self.root / where).chmod(mode)
        (self.root / "var" / "run").symlink_to("/run")
        self._mount("--rbind", "/dev", self.root / "dev")
        self._mount("-t", "proc", "proc", self.root / "proc")
        (self.root / "tmp" / "package.deb").write_bytes(pathlib.Path(package).read_bytes())
        self.run("dpkg", "--install", "/tmp/package.deb")

    def _mount(self, *arguments):
        sh("mount", *arguments)
        self.mounts.append(arguments[-1])
        if arguments[0] == "--rbind":
            sh("mount", "--make-rslave", arguments[-1])

    def inside(self, *command, user=None):
        """A command in its root and its network."""
        return self.machine.device(["chroot", *(["--userspec", f"{user}:{user}"] if user else []), self.root, *command])

    def run(self, *command, check=True):
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
        done = subprocess.run(self.inside(*command), capture_output=True, text=True, env=env, stdin=subprocess.DEVNULL)
        if check and done.returncode != 0:
            raise AssertionError(f"on the device: {' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def add_settings(self):
        """What whoever has this device changes by hand: a cut cable is noticed within a quarter of a minute, and the dataset is looked at often."""
        file = self.root / "etc" / "ilmare" / "edge.yaml"
        text = file.read_text().replace("\nmqtt:\n", "\nmqtt:\n  keepAlive: 10s\n  willDelay: 1s\n  reconnectMax: 5s\n")
        assert "keepAlive" in text, text
        file.write_text(f"{text}\ndataset:\n  lookPeriod: 1s\n")

    def start(self):
        state = self.root / "var" / "lib" / "ilmare"
        if not state.exists():  # StateDirectory= of the unit
            state.mkdir(mode=0o700)
            self.run("chown", "ilmare:ilmare", "/var/lib/ilmare")
        if self.agent is None:
            self.agent = self.world.add(Process(self.world, "device", self.inside(AGENT, user="ilmare")))
        self.agent.start()

    def stop(self):
        return self.agent.stop() if self.agent else None

    def presence(self, topics, online=True, since=0, after=""):
        """The first message that says so; `after`: and that was written later than at this time, as the messages give it."""
        return topics.wait(lambda m: m.topic == f"ilmare/v1/presence/{self.name}" and m.document and m.document["online"] == online
                           and m.document.get("ts", "") >= after,
                           lambda: f"{self.name} is {'on' if online else 'off'}line:\n{self.agent.tail() if self.agent else ''}", since=since)

    def remove(self):
        """Unmounted; its files are in the work folder."""
        self.stop()
        for each in reversed(self.mounts):
            until(lambda each=each: subprocess.run(["umount", "-R", each], capture_output=True).returncode == 0, f"{each} can be unmounted")
        self.mounts = []


def installed_size(package):
    """(bytes of the file, bytes when installed)."""
    return os.path.getsize(package), 1024 * int(sh("dpkg-deb", "--field", package, "Installed-Size"))
