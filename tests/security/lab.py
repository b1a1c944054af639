"""A broker as broker-config/production.conf has it, the certificates that broker-config/certificates makes, and who comes with them.

    broker = SecureBroker(world)            certificates of an installation in world.path/certificates, and a mosquitto with them
    pki = broker.pki                        pki.node("edge-1"): its folder; pki.run("revoke", "edge-1")
    edge = broker.edge("edge-1")            an ilmare-edge with its own certificate; broker.cloud(edge) likewise
    client = Client(broker, folder, …)      mosquitto's clients with the certificate of a folder, for what an agent would not do
"""

import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

from agents import PATIENCE, ROOT, Broker, Process, free_port  # noqa: E402

CONFIG = ROOT / "broker-config"


class Pki:
    """One installation's certificates."""

    def __init__(self, folder, *hosts):
        self.dir = pathlib.Path(folder)
        self.run("init", *(hosts or ("localhost", "127.0.0.1")))

    def run(self, *words):
        done = subprocess.run([CONFIG / "certificates", "-d", self.dir, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode == 0, f"certificates {' '.join(words)}: {done.stderr}"
        return done.stdout

    def refused(self, *words):
        """What it says when it does not do that."""
        done = subprocess.run([CONFIG / "certificates", "-d", self.dir, *words], capture_output=True, text=True, timeout=PATIENCE, check=False)
        assert done.returncode != 0, f"certificates {' '.join(words)}: did it: {done.stdout}"
        return done.stderr

    def folder(self, name):
        for each in (name, f"nodes/{name}", f"operators/{name}"):
            if (self.dir / "out" / each).is_dir():
                return self.dir / "out" / each
        raise FileNotFoundError(name)

    def node(self, name, *flags):
        self.run("node", name, *flags)
        return self.folder(name)

    def operator(self, name):
        self.run("operator", name)
        return self.folder(name)

    def issue_with_dates(self, name, begin, end):
        """A node's certificate for any time (YYYYMMDDHHMMSSZ), as the script would have made it then."""
        folder = self.node(name)
        authority = self.dir / "authority" / "devices" / "1"
        config = self.dir / "dated.cnf"
        config.write_text(f"[ca]\ndefault_ca = a\n[a]\ndatabase = {authority}/index\nnew_certs_dir = {authority}/issued\n"
                          f"certificate = {authority}/ca.crt\nprivate_key = {authority}/ca.key\nrand_serial = yes\nunique_subject = no\n"
                          "default_md = sha256\npolicy = p\n[p]\ncommonName = supplied\n[client]\nextendedKeyUsage = clientAuth\n"
                          "[req]\ndistinguished_name = n\nprompt = no\n[n]\n")
        openssl("req", "-new", "-config", config, "-key", folder / f"{name}.key", "-subj", f"/CN={name}", "-out", self.dir / "dated.csr")
        openssl("ca", "-batch", "-notext", "-config", config, "-extensions", "client", "-startdate", begin, "-enddate", end,
                "-in", self.dir / "dated.csr", "-out", folder / f"{name}.crt")
        return folder

    def secrets(self):
        """The lines of every private key: none of them belongs anywhere else."""
        lines = set()
        for file in self.dir.rglob("*.key"):
            lines.update(line for line in file.read_text().splitlines() if line and not line.startswith("-----"))
        return lines


def openssl(*words):
    done = subprocess.run(["openssl", *map(str, words)], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, f"openssl {' '.join(map(str, words))}: {done.stderr}"
    return done.stdout


def pair(folder):
    """(certificate, key) in a folder that a machine got."""
    key = next(folder.glob("*.key"))
    return key.with_suffix(".crt"), key


class SecureBroker(Broker):
    """change: [(pattern, replacement)] in production.conf, beside what a test has to change: ports, folders, and the user."""

    def __init__(self, world, pki=None, change=(), name="mosquitto"):
        self.port, self.cloud_port, self.lives, self.life = free_port(), free_port(), 0, None
        self.dir = world.path / name
        self.dir.mkdir()
        self.pki = pki or Pki(world.path / "certificates")
        self.files = self.dir / "tls"
        text = (CONFIG / "production.conf").read_text()
        for pattern, replacement in ((r"/etc/mosquitto/ilmare/", f"{self.files}/"), (r"/var/lib/mosquitto/", f"{self.dir}/"),
                                     (r"^listener 8883$", f"listener {self.port} 127.0.0.1"),
                                     (r"^listener 8884$", f"listener {self.cloud_port} 127.0.0.1"), *change):
            text, n = re.subn(pattern, replacement, text, flags=re.M)
            assert n, f"production.conf has no {pattern}"
        if os.geteuid() == 0:
            text += "user root\n"  # else it gives root up, and with it the test's folder
        (self.dir / "mosquitto.conf").write_text(text)
        self.watcher = self.pki.operator("watcher")
        self.install()
        Process.__init__(self, world, name, [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", self.dir / "mosquitto.conf"])
        world.add(self)

    def install(self):
        """What certificates made for the broker, each put in place by rename."""
        self.files.mkdir(exist_ok=True)
        install(self.pki.folder("broker"), self.files)
        acl = self.files / "acl"
        text = acl.read_text()
        for user, right in (("cloud", "write"), ("watcher", "read")):
            assert f"\nuser {user}\n" in text
            text = text.replace(f"\nuser {user}\n", f"\nuser {user}\ntopic {right} test/#\n")  # for mark(): the cloud agent keeps its own topics clean
        acl.write_text(text)

    def reload(self):
        """As systemctl reload does. It says nothing: wait for what is to change."""
        self.process.send_signal(signal.SIGHUP)

    @property
    def url(self):
        return f"mqtts://localhost:{self.port}"

    @property
    def cloud_url(self):
        return f"mqtts://localhost:{self.cloud_port}"

    def writer(self):
        return flags(self.cloud_port, self.pki.folder("cloud"))

    def reader(self):
        return flags(self.port, self.watcher)

    def edge(self, node="edge-1", folder=None, **more):
        """With a folder of its own, as a device has: files are put there by install()."""
        folder = self.device(node, folder or self.pki.node(node))
        certificate, key = pair(folder)
        options = {"mqtt_ca_file": folder / "ca.crt", "mqtt_cert_file": certificate, "mqtt_key_file": key, **more}
        edge = self.world.edge(self, node=node, start=False, **options)
        edge.tls = folder
        return edge

    def cloud(self, edge, **more):
        folder = self.device("cloud", self.pki.folder("cloud"))
        certificate, key = pair(folder)
        options = {"mqtt_ca_file": folder / "ca.crt", "mqtt_cert_file": certificate, "mqtt_key_file": key, **more}
        cloud = self.world.cloud(self, edge, start=False, mqtt_brokers=self.cloud_url, **options)
        cloud.tls = folder
        return cloud

    def device(self, name, folder):
        target = self.world.path / f"{name}.tls"
        target.mkdir(exist_ok=True)
        install(folder, target)
        return target


def files_below(folder):
    """(file, what is in it, its mode). Agents that run may take one away at any moment: nobody can look at it a second time."""
    for path, _, names in os.walk(folder):
        for name in names:
            file = pathlib.Path(path) / name
            try:
                if not file.is_file():
                    continue
                with open(file, "rb") as opened:
                    found = file, opened.read(), stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
            except FileNotFoundError:
                continue
            yield found


def canary():
    """What no other process of this machine has on its command line, not even a test that runs at the same time."""
    return f"CANARY-{os.urandom(6).hex()}"


def install(source, target):
    for file in source.iterdir():
        shutil.copy(file, target / f".{file.name}.new")
        (target / f".{file.name}.new").rename(target / file.name)


def flags(port, folder, ca=None, with_certificate=True):
    certificate, key = pair(folder)
    own = ["--cert", str(certificate), "--key", str(key)] if with_certificate else []
    return ["-h", "localhost", "-p", str(port), "--cafile", str(ca or folder / "ca.crt"), *own]


class Client:
    """What somebody with a certificate does by hand. id: a client id, if it is to claim one."""

    def __init__(self, broker, folder, port=None, id=None, **how):
        self.broker = broker
        self.flags = [*flags(port or broker.port, folder, **how), "-V", "5", *(["-i", id] if id else [])]

    def publish(self, topic, payload, retain=False, more=()):
        """(taken, what the client said)."""
        command = ["mosquitto_pub", *self.flags, "-q", "1", "-t", topic, "-m", payload, *(["-r"] if retain else []), *more, "-d"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
        said = done.stdout + done.stderr
        answer = re.search(r"received PUBACK \(Mid: \d+, RC:(\d+)\)", said)
        return answer is not None and int(answer[1]) < 128, said

    def listen(self, *filters, until_topic, more=()):
        """Topics that come until until_topic does: the last message that anyone sent."""
        command = ["mosquitto_sub", *self.flags, "-q", "1", "-F", "%t", "-W", str(int(PATIENCE)), *more]
        for each in filters:
            command += ["-t", each]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        topics = []
        try:
            for line in process.stdout:
                topics.append(line.rstrip("\n"))
                if topics[-1] == until_topic:
                    return topics
        finally:
            process.kill()
            process.wait()
            process.stdout.close()
        raise AssertionError(f"{until_topic} did not come; {topics} did")

    def gets_in(self):
        """Whether the broker takes the connection, and what the client said."""
        taken, said = self.publish("nobody/may/say/this", "x")
        return "received CONNACK (0)" in said, said
