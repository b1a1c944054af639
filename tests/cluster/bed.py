"""The machine that the cluster runs on: namespaces, folders, two networks and the link between them.

tests/cluster/run starts the tests in mount, network, process and IPC namespaces of their own. Machine() makes of them something like a
freshly installed node:

    /run             empty, in memory
    /etc, /var/lib   an overlay each: what is written there is in the work folder
    /var/log, /srv, /var/lib/{containerd,kubelet}   folders of the work folder, since an overlay cannot lie on an overlay
    /proc/sys/…      the six values that a kubelet sets for the whole machine are files of ours, which have them already

The node's network is that of the test's own namespace: 10.77.1.1 is the node's address. Outside is a second one, the device's (10.77.0.2), behind
a pair of interfaces: link(False) cuts the cable, on the node's side, so that the device sees no carrier and nothing else changes.

    machine = Machine(world)
    machine.device(["curl", …])      a command in front of which stands what takes it into the device's network
    machine.link(False)
"""

import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "kube"), str(HERE.parent / "integration"), str(HERE.parent / "transfer")]

WORK = pathlib.Path(os.environ["ILMARE_CLUSTER_WORK"])
TOOLS = dict(line.split(" ", 1) for line in os.environ["ILMARE_CLUSTER_TOOLS"].splitlines())
NODE_ADDRESS, LINK_ADDRESS, DEVICE_ADDRESS = "10.77.1.1", "10.77.0.1", "10.77.0.2"
POD_NETWORK, SERVICE_NETWORK, API_ADDRESS = "10.78.0.0/16", "10.79.0.0/24", "10.79.0.1"

# What a kubelet writes to the machine's kernel if it is not so.
KERNEL = {"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
          "kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000"}


def sh(*command, **more):
    """What it prints. Fails with what it says."""
    done = subprocess.run([str(each) for each in command], capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    return done.stdout


def overlay(where, name):
    for each in ("upper", "work"):
        (WORK / name / each).mkdir(parents=True)
    sh("mount", "-t", "overlay", "-o", f"lowerdir={where},upperdir={WORK / name / 'upper'},workdir={WORK / name / 'work'}", "overlay", where)


class Machine:
    def __init__(self):
        self.name = WORK.name
        self.cgroup = f"/{self.name}"
        self._mounts()
        self._network()
        self._cgroups()

    def _mounts(self):
        sh("mount", "--make-rprivate", "/")
        sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
        pathlib.Path("/run/lock").mkdir()
        overlay("/etc", "etc")
        overlay("/var/lib", "var-lib")
        for where in ("/var/lib/containerd", "/var/lib/kubelet", "/var/log", "/srv"):
            own = WORK / where.strip("/").replace("/", "-")
            own.mkdir()
            pathlib.Path(where).mkdir(exist_ok=True)
            sh("mount", "--bind", own, where)
        (WORK / "kernel").mkdir()
        for name, value in KERNEL.items():
            if pathlib.Path("/proc/sys", name).exists():
                file = WORK / "kernel" / name.replace("/", "-")
                file.write_text(value + "\n")
                sh("mount", "--bind", file, f"/proc/sys/{name}")
        # Pods may be given mounts that others see; the machine outside sees none of them.
        sh("mount", "--make-rshared", "/")
        pathlib.Path("/etc/hosts").write_text(f"127.0.0.1 localhost\n{NODE_ADDRESS} node-1\n")
        pathlib.Path("/etc/resolv.conf").write_text("# a node that cannot resolve anything\n")

    def _network(self):
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "address", "add", f"{NODE_ADDRESS}/32", "dev", "lo")
        # A connection needs a route before it is sent elsewhere as one to a Service; what is for nobody ends here.
        sh("ip", "route", "add", "default", "dev", "lo")
        sh("ip", "netns", "add", "device")
        sh("ip", "link", "add", "link0", "type", "veth", "peer", "name", "eth0", "netns", "device")
        sh("ip", "address", "add", f"{LINK_ADDRESS}/24", "dev", "link0")
        sh("ip", "link", "set", "link0", "up")
        for command in (["link", "set", "lo", "up"], ["address", "add", f"{DEVICE_ADDRESS}/24", "dev", "eth0"], ["link", "set", "eth0", "up"],
                        ["route", "add", "default", "via", LINK_ADDRESS]):
            sh("ip", "-n", "device", *command)
        pathlib.Path("/proc/sys/net/ipv4/ip_forward").write_text("1")

    def _cgroups(self):
        """One of our own in each hierarchy: all pods are below it."""
        for each in self.hierarchies():
            (each / self.name).mkdir(exist_ok=True)
        cpuset = pathlib.Path("/sys/fs/cgroup/cpuset")
        for name in ("cpuset.cpus", "cpuset.mems"):
            if (cpuset / name).exists():
                (cpuset / self.name / name).write_text((cpuset / name).read_text())

    @staticmethod
    def hierarchies():
        top = pathlib.Path("/sys/fs/cgroup")
        if (top / "cgroup.controllers").exists():
            return [top]
        lines = pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
        return [pathlib.Path(line.split()[4]) for line in lines if line.split(" - ")[1].split()[0] == "cgroup"]

    def device(self, command):
        return ["ip", "netns", "exec", "device", *map(str, command)]

    def link(self, up):
        sh("ip", "link", "set", "link0", "up" if up else "down")

    def mounts(self):
        """Of containers and pods: none once all is stopped."""
        lines = [line.split()[4] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]
        own = {"/run", "/run/netns", "/run/netns/device", "/var/lib/containerd", "/var/lib/kubelet"}
        return sorted(each for each in lines if each.startswith(("/run/", "/var/lib/containerd", "/var/lib/kubelet", str(WORK))) and each not in own)

    def containers(self):
        """Control groups of pods."""
        return [path for each in self.hierarchies() for path, _, _ in os.walk(each / self.name) if "/pod" in path]

    def processes(self):
        """{pid: command line} of this process namespace, without the test's own and the shell's."""
        found = {}
        for each in pathlib.Path("/proc").iterdir():
            if each.name.isdigit() and int(each.name) not in (1, os.getpid()):
                try:
                    line = (each / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                except OSError:
                    continue
                if line:
                    found[int(each.name)] = line
        return found
