#!/usr/bin/python3
"""The packages' services under the systemd that devices have: booted.py beside this file boots it."""

import json
import pathlib
import re
import signal
import tempfile
import types

import root
from agents import until
from booted import BootedCase
from case import main
from enrolling import enrolment_file
from lab import Pki
from root import package
from test_install import older
from whole import WORKER, Whole

EDGE, CLOUD, BROKER = "ilmare-edge.service", "ilmare-cloud.service", "broker.service"
NODE, URL = "edge-7", "mqtt://127.0.0.1:1883"
QUICK = "mqtt:\n  reconnectMin: 50ms\n  reconnectMax: 200ms\n"
SETTINGS = f"node: {NODE}\n{QUICK}  brokers: [{URL}]\ndataset:\n  statusPeriod: 100ms\n"
CLOUD_SETTINGS = f"{QUICK}  brokers: [{URL}]\nlocal:\n  manifestsDir: /etc/ilmare/manifests\nlcServer: http://127.0.0.1:9100\n"
# Run in the agent's place: each attempt and the error that it gets. Those at the end are allowed.
PROBE = r"""
import ctypes, errno, json, mmap, os, pathlib, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(name, *args):
    if getattr(libc, name)(*args) < 0:
        raise OSError(ctypes.get_errno(), name)
def write(path):
    open(path, "w").close()
attempts = {
    "write /etc": lambda: write("/etc/ilmare/probe"), "write /usr": lambda: write("/usr/probe"), "write /var": lambda: write("/var/lib/probe"),
    "write /srv": lambda: write("/srv/open/probe"), "write /home": lambda: write("/home/open/probe"), "cgroup": lambda: os.mkdir("/sys/fs/cgroup/x"),
    "tunable": lambda: write("/proc/sys/kernel/hostname"), "disk": lambda: os.stat("/dev/disk-of-the-machine"),
    "init": lambda: os.stat("/proc/1/cmdline"), "load": lambda: os.stat("/proc/loadavg"), "others' tmp": lambda: os.stat("/tmp/of-the-machine"),
    "modules": lambda: os.listdir("/usr/lib/modules"), "log": lambda: os.open("/dev/kmsg", os.O_RDONLY),
    "executable": lambda: mmap.mmap(-1, 4096, prot=7), "packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM),
    "vsock": lambda: socket.socket(40, socket.SOCK_STREAM), "namespace": lambda: call("unshare", 0x10000000),
    "suid": lambda: (write("/var/lib/ilmare/s"), os.chmod("/var/lib/ilmare/s", 0o4755)), "realtime": lambda: os.sched_setscheduler(0, 1, os.sched_param(1)),
    "personality": lambda: call("personality", 0x0400000), "chroot": lambda: os.chroot("/"), "mount": lambda: call("mount", b"x", b"/tmp", b"tmpfs", 0, 0),
    "hostname": lambda: socket.sethostname("x"), "nice": lambda: call("setpriority", 0, 0, 5), "reboot": lambda: call("reboot", 0),
    "state": lambda: write("/var/lib/ilmare/probe"), "own tmp": lambda: write("/tmp/probe"), "opened": lambda: write("/data/probe"),
    "inet": lambda: socket.socket(), "netlink": lambda: socket.socket(16, socket.SOCK_RAW), "read": lambda: open("/etc/ilmare/edge.yaml").read()}
found = {}
for name, attempt in attempts.items():
    try:
        attempt()
        found[name] = "done"
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
found["umask"] = os.umask(0)
found["status"] = pathlib.Path("/proc/self/status").read_text()
pathlib.Path("/var/lib/ilmare/found").write_text(json.dumps(found))
"""
ALLOWED = ("state", "own tmp", "opened", "inet", "netlink", "read")
REFUSED = {"write /etc": "EROFS", "write /usr": "EROFS", "write /var": "EROFS", "write /srv": "EROFS", "write /home": "EROFS", "cgroup": "EROFS",
           "disk": "ENOENT", "log": "ENOENT", "init": "ENOENT", "load": "ENOENT", "tunable": "ENOENT", "others' tmp": "ENOENT", "modules": "EACCES",
           "packets": "EAFNOSUPPORT", "vsock": "EAFNOSUPPORT"}


class Machine(BootedCase):
    """With the edge agent's package, and a broker that is a service, too."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root.install(package("ilmare-edge"))

    def setUp(self):
        self.addCleanup(self.clean)

    def clean(self):
        self.root.run("systemctl", "stop", EDGE, CLOUD, BROKER, check=False)
        self.root.run("sh", "-c", "systemctl disable --now ilmare-edge.socket; rm -rf /etc/systemd/system/ilmare-*.d /etc/ilmare/* /var/lib/ilmare/*",
                      check=False)
        self.root.run("systemctl", "daemon-reload")
        self.root.run("systemctl", "reset-failed", check=False)

    def broker(self, *words):
        self.root.run("systemd-run", "--quiet", "--collect", f"--unit={BROKER}", "mosquitto", *(words or ("-p", "1883")))

    def settings(self, more=""):
        self.root.write("/etc/ilmare/edge.yaml", SETTINGS + more)

    def start(self, more=""):
        self.settings(more)
        self.root.run("systemctl", "start", EDGE)
        self.assertEqual(self.root.show(EDGE, "ActiveState"), "active")
        return self.root.main_pid(EDGE)

    def is_connected(self):
        self.root.wait(EDGE, "StatusText", f"connected to {URL}")


class Service(Machine):
    def test_enabled_and_waiting_for_settings(self):
        self.assertEqual(self.root.run("systemctl", "is-enabled", EDGE).stdout.strip(), "enabled")
        self.root.run("systemctl", "start", EDGE)
        self.assertEqual((self.root.show(EDGE, "ActiveState"), self.root.show(EDGE, "ConditionResult")), ("inactive", "no"))

    def test_systemd_has_nothing_to_say(self):
        done = self.root.run("systemd-analyze", "verify", "/lib/systemd/system/ilmare-edge.service", "/lib/systemd/system/ilmare-edge.socket")
        self.assertEqual(done.stdout + done.stderr, "")
        said = self.root.run("systemd-analyze", "security", "--no-pager", "--threshold=20", EDGE).stdout
        self.assertRegex(said, r"Overall exposure level for ilmare-edge.service: 1\.\d OK")
        print(said.strip().splitlines()[-1])

    def test_active_once_it_is_ready(self):
        self.root.run("mkfifo", "/run/gate")
        self.root.drop_in(EDGE, "[Service]\nExecStart=\nExecStart=/bin/sh -c 'read word </run/gate; exec /usr/sbin/ilmare-edge'\n")
        self.settings()
        self.root.run("systemctl", "start", "--no-block", EDGE)
        self.root.wait(EDGE, "SubState", "start")
        self.assertEqual(self.root.run("systemctl", "is-active", EDGE, check=False).stdout.strip(), "activating")
        self.root.run("sh", "-c", "echo go >/run/gate")
        self.root.wait(EDGE, "ActiveState", "active")
        self.assertRegex(self.root.show(EDGE, "StatusText"), "connect")

    def test_the_link_shows_in_the_status(self):
        self.start()
        self.root.wait(EDGE, "StatusText", r"not connected since \S+Z: .*refused.*")
        self.broker()
        self.is_connected()
        self.assertRegex(self.root.run("systemctl", "status", EDGE).stdout, rf'Active: active \(running\)[^$]*Status: "connected to {URL}"')
        self.root.run("systemctl", "stop", BROKER)
        self.root.wait(EDGE, "StatusText", r"not connected since \S+Z: .*")
        self.root.run("systemctl", "stop", EDGE)
        self.assertEqual((self.root.show(EDGE, "ActiveState"), self.root.show(EDGE, "Result")), ("inactive", "success"))

    def test_enrolled_by_one_file(self):
        """The certificate is there already; tests/package/test_enroll.py is about getting it."""
        with tempfile.TemporaryDirectory() as folder:
            pki = Pki(pathlib.Path(folder) / "pki")
            node, broker = pki.node(NODE), pki.folder("broker")
            ca = (broker / "ca.crt").read_text()
            for name in ("broker.crt", "broker.key", "ca.crt"):
                self.root.write(f"/run/broker/{name}", (broker / name).read_text())
            pem = (node / f"{NODE}.crt").read_text() + (node / f"{NODE}.key").read_text()
        self.root.write("/root/edge-7.yaml", enrolment_file(ca, broker="mqtts://localhost:8883"), 0o600)
        done = self.root.run("ilmare-enroll", "--wait=1", "/root/edge-7.yaml", check=False)
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertRegex(done.stdout + done.stderr, f"node {NODE} is started, but not connected after 1 s: no certificate yet: .*")
        self.root.write("/var/lib/ilmare/tls/node.pem", pem, 0o600)
        self.root.run("chown", "-R", "ilmare:", "/var/lib/ilmare/tls")
        self.root.write("/run/broker/config", "listener 8883 127.0.0.1\nallow_anonymous true\ncafile /run/broker/ca.crt\n"
                        "certfile /run/broker/broker.crt\nkeyfile /run/broker/broker.key\nuser root\n")
        self.broker("-c", "/run/broker/config")
        done = self.root.run("ilmare-enroll", "--wait=10", "/root/edge-7.yaml", check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr + self.root.journal(EDGE)[-3000:])
        self.assertIn(f"node {NODE} is connected to mqtts://localhost:8883\n", done.stdout + done.stderr)

    def test_what_it_cannot_do(self):
        """A copy of the unit with another program in it."""
        unit = self.root.path("/lib/systemd/system/ilmare-edge.service").read_text()
        for line, new in ((r"ExecStart=.*", "ExecStart=/usr/bin/python3 -B /usr/local/probe.py"), ("Type=.*", "Type=oneshot"), ("Restart=.*", ""),
                          ("WatchdogSec=.*", ""), (r"UMask=", "ReadWritePaths=/data\nUMask=")):
            unit, n = re.subn(rf"(?m)^{line}", new, unit)
            self.assertEqual(n, 1, line)
        self.settings()
        self.root.write("/etc/systemd/system/probe.service", unit)
        self.root.write("/usr/local/probe.py", PROBE)
        self.root.run("sh", "-c", "mkdir -p /usr/lib/modules /data /srv/open /home/open && chmod 777 /data /srv/open /home/open && touch /tmp/of-the-machine && "
                      "mknod -m 666 /dev/disk-of-the-machine b 7 250 && systemctl daemon-reload && systemctl start probe")
        found = json.loads(self.root.path("/var/lib/ilmare/found").read_text())
        status, umask = found.pop("status"), found.pop("umask")
        self.assertEqual({name: found.pop(name) for name in ALLOWED}, {name: "done" for name in ALLOWED})
        self.assertEqual({name: found.pop(name) for name in REFUSED}, REFUSED)
        self.assertEqual(set(found.values()), {"EPERM"}, found)
        self.assertEqual(umask, 0o022)
        self.check_rights(status)
        self.assertEqual(self.root.path("/var/lib/ilmare").stat().st_mode & 0o777, 0o700)

    def check_rights(self, status):
        user = self.root.run("id", "-u", "ilmare").stdout.strip()
        self.assertRegex(status, rf"(?m)^Uid:\s+{user}\s+{user}\s+{user}\s+{user}$")
        for name, value in (("CapEff", "0+"), ("CapBnd", "0+"), ("CapAmb", "0+"), ("NoNewPrivs", "1"), ("Seccomp", "2")):
            self.assertRegex(status, rf"(?m)^{name}:\s+{value}$")

    def test_killed_and_hung(self):
        self.root.drop_in(EDGE, "[Service]\nRestartSec=50ms\nWatchdogSec=2\n")
        self.broker()
        pid = self.start()
        self.check_rights(self.root.run("cat", f"/proc/{pid}/status").stdout)
        self.assertEqual(self.root.run("cat", f"/proc/{pid}/oom_score_adj").stdout.strip(), "0")
        for restarts, how, said in ((1, signal.SIGKILL, "status=9/KILL"), (2, signal.SIGSTOP, r"Watchdog timeout \(limit 2s\)!")):
            self.is_connected()
            self.root.run("kill", f"-{int(how)}", pid)
            self.root.wait(EDGE, "NRestarts", str(restarts))
            self.root.wait(EDGE, "ActiveState", "active")
            self.root.logged(EDGE, said)
            self.assertNotEqual(self.root.main_pid(EDGE), pid)
            pid = self.root.main_pid(EDGE)
        self.is_connected()

    def test_settings_that_cannot_be_used(self):
        """It is not tried again, and starts when they are mended."""
        self.root.drop_in(EDGE, "[Service]\nRestartSec=50ms\n")
        self.settings("nonsense: 1\n")
        done = self.root.run("systemctl", "start", EDGE, check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual((self.root.show(EDGE, "ActiveState"), self.root.show(EDGE, "ExecMainStatus"), self.root.show(EDGE, "NRestarts")),
                         ("failed", "2", "0"))
        self.root.logged(EDGE, r"/etc/ilmare/edge.yaml:\d+:\d+: nonsense: there is no such setting")
        self.start()

    def test_what_may_get_better_is_tried_again(self):
        self.root.drop_in(EDGE, "[Service]\nRestartSec=50ms\nStartLimitBurst=5\n")
        self.settings("workers:\n  port: 9100\n")
        self.root.run("systemd-run", "--quiet", "--collect", "--unit=other", "python3", "-c",
                      "import socket, time; s = socket.create_server(('127.0.0.1', 9100)); time.sleep(1000)")
        until(lambda: self.root.run("sh", "-c", "ss -Htln sport = 9100").stdout, "the port is taken")
        self.root.run("systemctl", "start", "--no-block", EDGE)
        self.root.wait(EDGE, "NRestarts", r"[7-9]|\d\d+")
        self.root.run("systemctl", "stop", "other")
        self.root.wait(EDGE, "ActiveState", "active")

    def test_the_socket_holds_the_port(self):
        self.settings()
        self.root.run("systemctl", "enable", "--now", "ilmare-edge.socket")
        ask = ["curl", "-s", "-m", "10", "http://127.0.0.1:9100/healthz"]
        self.assertEqual(self.root.run("systemctl", "is-active", EDGE, check=False).stdout.strip(), "inactive")
        self.root.run(*ask)
        self.assertEqual(self.root.show(EDGE, "ActiveState"), "active")
        self.root.drop_in(EDGE, "[Service]\nRestartSec=300ms\n")
        self.root.run("kill", "-9", self.root.main_pid(EDGE))
        self.root.run(*ask)
        self.assertEqual(self.root.show(EDGE, "NRestarts"), "1")


class Loop(Machine):
    """Both agents as services, and a job whose workers are the cloud agent's children."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root.install(package("ilmare-cloud"))

    def job(self):
        job = Whole.__new__(Whole)
        job.folder, job.world, job.edge = pathlib.Path("/data/job"), types.SimpleNamespace(path=pathlib.Path("/data")), types.SimpleNamespace(node=NODE)
        job.hot, job.never, job.name, job.data_name, job.prefix, job.secret = False, False, "j", "d", [], None
        job.samples, job.environment = job.folder / "data" / "samples.txt", job.folder / "environment"
        objects = {each["kind"]: each for each in job.objects([0.9, 0.5])}
        # Serves one model until the end of time, and says again and again that what it has is still there: shared memory, /tmp.
        serve = ("import os, pathlib, tempfile, time\nmodel, n = pathlib.Path(os.environ['MODEL_URL']).read_text(), 0\n"
                 "shared = pathlib.Path('/dev/shm/ilmare-test')\nshared.touch()\nwhile 1:\n"
                 "    shared.read_text()\n    tempfile.NamedTemporaryFile().close()\n    n += 1\n"
                 "    pathlib.Path('/data/job/alive').write_text(f'{n} {model}')\n    time.sleep(0.05)\n")
        inference = objects["IncrementalLearningJob"]["spec"]["deploySpec"]["template"]["spec"]["containers"][0]
        inference["command"] = ["/usr/bin/python3", "-B", "-c", serve]
        for name in ("data/samples.txt", "models/initial.bin", "models/deploy.bin", "output/none"):
            self.root.write(f"{job.folder}/{name}", name if "bin" in name else "")
        self.root.write("/data/worker.py", WORKER)
        self.root.write("/etc/ilmare/manifests/job.yaml", "---\n".join(json.dumps(each) + "\n" for each in job.objects([0.9, 0.5])[:-1]
                                                                      + [objects["IncrementalLearningJob"]]))
        self.root.run("chown", "-R", "ilmare:", "/data")
        return job

    def alive(self):
        """(number, model), the last that the inference worker wrote."""
        file = self.root.path("/data/job/alive")
        number, _, model = (file.read_text() if file.exists() else "").partition(" ")
        return int(number or 0), model

    def workers(self):
        return self.root.run("pgrep", "-f", "ilmare-test").stdout.split()

    def begin(self):
        job = self.job()
        self.broker()
        self.root.write("/etc/ilmare/cloud.yaml", CLOUD_SETTINGS)
        self.root.drop_in(CLOUD, "[Service]\nReadWritePaths=/data\nRestartSec=50ms\nWatchdogSec=2\n")
        self.root.run("systemctl", "start", CLOUD)
        return job

    def feed(self, job):
        with open(self.root.path(str(job.samples)), "a", encoding="utf-8") as file:
            file.write("".join(f"sample {i}\n" for i in range(10)))

    def status(self):
        """What the broker keeps of the edge agent's."""
        return self.root.run("mosquitto_sub", "-W", "1", "-t", "ilmare/v1/#", "-F", "%t %p", check=False).stdout

    def model(self):
        return self.root.path("/data/job/models/deploy.bin").read_text()

    def test_systemd_has_nothing_to_say(self):
        done = self.root.run("systemd-analyze", "verify", "/lib/systemd/system/ilmare-cloud.service")
        self.assertEqual(done.stdout + done.stderr, "")
        said = self.root.run("systemd-analyze", "security", "--no-pager", "--threshold=27", CLOUD).stdout
        print(said.strip().splitlines()[-1])
        self.assertEqual(self.root.show(CLOUD, "OOMPolicy"), "continue")

    def test_a_round_and_workers_that_outlive_the_agent(self):
        job = self.begin()
        # A folder that is not opened to the edge agent shows at the job.
        self.start()
        self.is_connected()
        self.feed(job)
        self.root.logged(EDGE, "Read-only file system")
        until(lambda: "DatasetProblem" in self.status(), "it shows at the job")
        self.root.drop_in(EDGE, "[Service]\nReadWritePaths=/data\n")
        self.root.run("systemctl", "restart", EDGE)
        until(lambda: re.match("train-worker", self.model()), lambda: f"a round: {self.root.journal(EDGE)[-3000:]} {self.root.journal(CLOUD)[-3000:]}")
        until(lambda: self.alive()[1] == self.model(), "the inference worker has it")
        workers = self.workers()
        # Both have the same user: the last process of it but the workers is to end, too.
        self.root.run("systemctl", "stop", EDGE)
        for how in (["systemctl", "restart", CLOUD], ["kill", "-9"], ["kill", "-STOP"]):
            before = self.root.main_pid(CLOUD)
            self.root.run(*how, *([str(before)] if how[0] == "kill" else []))
            until(lambda: self.root.main_pid(CLOUD) not in (0, before) and self.root.show(CLOUD, "ActiveState") == "active", f"{how}: it is there again",
                  interval=0.05)
            self.assertEqual(self.workers(), workers, f"after {how}\n{self.root.journal(CLOUD)[-3000:]}")
            seen = self.alive()[0]
            until(lambda: self.alive()[0] > seen + 2, f"after {how} the worker works on", patience=5)
        before = self.model()
        self.root.run("systemctl", "start", EDGE)
        self.feed(job)
        until(lambda: self.model() != before, "another round")


class Life(Machine):
    """From installation to purge."""

    def test_upgrade_remove_purge(self):
        with tempfile.TemporaryDirectory() as folder:
            old = older(package("ilmare-edge"), pathlib.Path(folder))
            self.root.dpkg("-P", "ilmare-edge")
            self.root.install(old)
            first = self.start()
        self.root.install(package("ilmare-edge"))
        self.assertEqual(self.root.show(EDGE, "ActiveState"), "active")
        self.assertEqual(self.root.show(EDGE, "NRestarts"), "0")
        self.assertNotEqual(self.root.main_pid(EDGE), first)
        self.root.run("systemctl", "stop", EDGE)
        self.root.run("systemctl", "disable", EDGE)
        self.root.install(package("ilmare-edge"))
        self.assertEqual(self.root.run("systemctl", "is-enabled", EDGE, check=False).stdout.strip(), "disabled")
        self.root.run("systemctl", "enable", "--now", EDGE, "ilmare-edge.socket", check=False)
        self.root.dpkg("-r", "ilmare-edge")
        self.assertEqual(self.root.run("pgrep", "-x", "ilmare-edge", check=False).stdout, "")
        self.assertEqual(self.root.run("systemctl", "is-active", EDGE, "ilmare-edge.socket", check=False).stdout.split(), ["inactive"] * 2)
        self.assertTrue(self.root.path("/var/lib/ilmare/edge.db").exists())
        self.root.dpkg("-P", "ilmare-edge")
        self.assertEqual([path for path in self.root.changed() if "ilmare" in path], [])


if __name__ == "__main__":
    root.enter()
    main()
