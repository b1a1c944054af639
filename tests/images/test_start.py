"""What is in the images runs: each program with its image as the root file system, read-only, as the image's user.

tests/images/run starts this in namespaces of its own (mounts, network, processes), so that a name server on port 53 and mounts disturb nobody, and
nothing is left of them. Programs for amd64 run in their image by chroot. Those for arm64 run by qemu-aarch64, which is a program of this machine
and therefore cannot run there: it gives them the image's files before this machine's, and that is all of a root that they get.
"""

import contextlib
import http.server
import os
import pathlib
import shutil
import socket
import ssl
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import unittest
import zipfile

import unpacked
from unpacked import ARCHS, NAMES, ROOT, image

sys.path[:0] = [str(ROOT / "tests" / "integration")]
sys.dont_write_bytecode = True
from agents import PATIENCE, free_port  # noqa: E402
from case import main  # noqa: E402

# Set by the runner, in namespaces that are nobody else's.
ALONE = os.environ.get("ILMARE_IMAGES_ALONE") == "1"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more)


def setUpModule():
    if not ALONE:
        raise unittest.SkipTest("run by tests/images/run, as root: programs are started in namespaces of their own")
    run("ip", "link", "set", "lo", "up")
    run("mount", "--make-rprivate", "/")


class Box:
    """An image as a root file system, read-only, in the folder `top`. What is bound into it is seen by what starts then."""

    def __init__(self, name, arch, top):
        self.name, self.arch, self.root = name, arch, top / "root"
        self.user = image(name, arch).config["config"]["User"].partition(":")[0]
        image(name, arch).unpack(self.root)
        run("mount", "--bind", self.root, self.root)
        run("mount", "--options", "remount,bind,ro,nosuid,nodev", self.root)
        self.mounts = [self.root]
        self.bind("/proc", "proc")
        if arch == "amd64":
            self.bind("/dev", "dev")

    def bind(self, source, path):
        """`source` appears at `path` of the image."""
        run("mount", "--bind", source, self.root / path)
        self.mounts.append(self.root / path)

    def command(self, *words):
        if self.arch == "amd64":
            return ["chroot", f"--userspec={self.user}:{self.user}", "--groups=", self.root, *words]
        return ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups",
            "qemu-aarch64", "-L", self.root, f"{self.root}{words[0]}", *words[1:]]

    def run(self, *words):
        return subprocess.run(self.command(*words), env={"PATH": os.environ["PATH"]}, capture_output=True, text=True,
            timeout=PATIENCE, check=False)

    def start(self, log, *words):
        with open(log, "wb") as said:
            return subprocess.Popen(self.command(*words), env={"PATH": os.environ["PATH"]}, stdout=said, stderr=said)

    def close(self):
        for path in reversed(self.mounts):
            run("umount", path)


class Started(unittest.TestCase):
    def setUp(self):
        self.top = pathlib.Path(tempfile.mkdtemp(prefix="ilmare-images."))
        self.top.chmod(0o755)
        self.addCleanup(shutil.rmtree, self.top)

    def box(self, name, arch):
        folder = self.top / f"{name}-{arch}"
        folder.mkdir()
        box = Box(name, arch, folder)
        self.addCleanup(box.close)
        return box

    def folder(self, name, owner):
        path = self.top / name
        path.mkdir()
        os.chown(path, owner, owner)
        return path

    def started(self, box, *words):
        """The process, and the path of what it says."""
        log = self.top / f"{box.name}-{box.arch}.log"
        process = box.start(log, *words)

        def end():
            process.kill()
            process.wait()
        self.addCleanup(end)
        return process, log

    def until(self, what, look):
        """Asks until there is an answer."""
        end = time.monotonic() + PATIENCE
        while not (answer := look()):
            self.assertLess(time.monotonic(), end, f"not in time: {what}")
            time.sleep(0.05)
        return answer


class Programs(Started):
    def test_each_says_its_version(self):
        own = {"ilmare-edge": ("ilmare-edge", "ilmare-transfer", "ilmare-certificate"), "ilmare-broker": ("mosquitto_pub", "mosquitto_sub", "mosquitto_rr")}
        for arch in ARCHS:
            for name in NAMES:
                with self.subTest(image=name, arch=arch):
                    box = self.box(name, arch)
                    for program in own.get(name, (name,)):
                        words = (f"/usr/sbin/{program}", "--version") if name != "ilmare-broker" else (f"/usr/bin/{program}", "--version")
                        said = box.run(*words)
                        self.assertRegex(said.stdout, rf"^{program} (version )?\d+\.\d+\.\d+", said.stderr)

    def test_there_is_nothing_to_write_to(self):
        for arch in ARCHS:
            box = self.box("ilmare-edge", arch)
            said = box.run("/usr/sbin/ilmare-edge", "--node=n", f"--state-dir={'' if arch == 'amd64' else box.root}/var/lib/ilmare")
            self.assertNotEqual(said.returncode, 0)
            self.assertIn("Read-only file system", said.stdout + said.stderr)

    def test_time_zones(self):
        for arch in ARCHS:
            with self.subTest(arch=arch):
                box = self.box("ilmare-edge", arch)
                for zone, code in (("Asia/Kolkata", 0), ("Nowhere/Land", 1)):
                    said = box.run("/usr/sbin/ilmare-edge", "--check-config", "--node=n", f"--time-zone={zone}")
                    self.assertEqual(min(said.returncode, 1), code, said.stdout + said.stderr)
                    if code:
                        self.assertIn("is no zone of this system", said.stdout + said.stderr)


class Names(http.server.ThreadingHTTPServer):
    """A web server, with TLS where `context` is given; requests are not told."""
    daemon_threads = True

    def __init__(self, files, context=None):
        class Handler(http.server.SimpleHTTPRequestHandler):
            def __init__(self, *arguments):
                super().__init__(*arguments, directory=files)

            def log_message(self, *_):
                pass
        super().__init__(("127.0.0.1", 0), Handler)
        if context:
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.port = self.server_address[1]
        self.thread = threading.Thread(target=self.serve_forever, args=(0.05,))
        self.thread.start()

    def handle_error(self, *_):
        pass

    def close(self):
        self.shutdown()
        self.thread.join()
        self.server_close()


class NameServer:
    """Answers on port 53 that `name` is 127.0.0.1, and that there is no other name. `asked` counts."""

    def __init__(self, name):
        self.question = b"".join(bytes([len(part)]) + part.encode() for part in name.split(".")) + b"\0"
        self.asked = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 53))
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        while True:
            packet, peer = self.socket.recvfrom(512)
            if not packet:
                return
            end = packet.index(b"\0", 12) + 5
            question = packet[12:end]
            known = question[:-4].lower() == self.question
            self.asked += known
            address = known and question[-4:] == b"\0\1\0\1"
            head = packet[:2] + struct.pack(">HHHHH", 0x8180 if known else 0x8183, 1, 1 if address else 0, 0, 0)
            answer = b"\xc0\x0c\0\1\0\1" + struct.pack(">IH", 60, 4) + bytes([127, 0, 0, 1]) if address else b""
            self.socket.sendto(head + question + answer, peer)

    def close(self):
        with contextlib.closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as end:
            end.sendto(b"", ("127.0.0.1", 53))
        self.thread.join()
        self.socket.close()


class Network(Started):
    """ilmare-transfer as the init container of a pod, fetching from servers here."""

    def setUp(self):
        super().setUp()
        # Of the name server, and of /etc/hosts, as a runtime mounts them.
        (self.top / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:2\n")
        (self.top / "hosts").write_text("127.0.0.1 localhost\n127.0.0.1 from-hosts.test\n")
        self.names = NameServer("from-dns.test")
        self.addCleanup(self.names.close)
        self.files = self.folder("files", 0)
        (self.files / "model").write_text("a model")

    def fetcher(self, arch):
        box = self.box("ilmare-transfer", arch)
        for name in ("resolv.conf", "hosts"):
            box.bind(self.top / name, f"etc/{name}")
        if arch == "arm64":
            # What is not the image's is this machine's, and these are asked for by the C library, before anything else of them is looked at.
            for name in ("resolv.conf", "hosts"):
                self.assertTrue((box.root / "etc" / name).exists())
        return box

    def served(self, context=None):
        server = Names(self.files, context)
        self.addCleanup(server.close)
        return server

    def fetch(self, box, url):
        """The folder into which `url` was fetched, and what the program said."""
        folder = self.folder(f"downloads-{len(list(self.top.iterdir()))}", int(box.user))
        if box.arch == "amd64":
            box.bind(folder, "tmp")
            said = box.run(f"/usr/sbin/{box.name}", url, "/tmp")
        else:
            said = box.run(f"/usr/sbin/{box.name}", url, str(folder))
        return folder, said

    def test_names_and_archives(self):
        with tarfile.open(self.files / "pack.tar.gz", "w:gz") as pack:
            pack.add(self.files / "model", "inside/model")
        with zipfile.ZipFile(self.files / "zip.zip", "w", zipfile.ZIP_DEFLATED) as pack:
            pack.write(self.files / "model", "zipped/model")
        server = self.served()
        for arch in ARCHS:
            box = self.fetcher(arch)
            for url, path in ((f"http://from-hosts.test:{server.port}/model", "model"), (f"http://from-dns.test:{server.port}/model", "model"),
                (f"http://localhost:{server.port}/pack.tar.gz", "inside/model"), (f"http://localhost:{server.port}/zip.zip", "zipped/model")):
                with self.subTest(arch=arch, url=url):
                    asked = self.names.asked
                    folder, said = self.fetch(box, url)
                    self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
                    self.assertEqual((folder / path).read_text(), "a model")
                    self.assertEqual((folder / path).stat().st_uid, 65532)
                    self.assertEqual(self.names.asked > asked, "from-dns" in url)

    def authority(self):
        """A certificate of localhost that signs itself."""
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost", "-keyout", self.top / "key.pem", "-out", self.top / "cert.pem")
        return self.top / "cert.pem", self.top / "key.pem"

    def test_certificates_are_looked_up_in_the_bundle(self):
        cert, key = self.authority()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server = self.served(context)
        url = f"https://localhost:{server.port}/model"
        for arch in ARCHS:
            with self.subTest(arch=arch):
                box = self.fetcher(arch)
                _, said = self.fetch(box, url)
                self.assertNotEqual(said.returncode, 0)
                self.assertIn("self-signed certificate", said.stdout + said.stderr)
                box.bind(cert, BUNDLE)
                folder, said = self.fetch(box, url)
                self.assertEqual(said.returncode, 0, said.stdout + said.stderr)
                self.assertEqual((folder / "model").read_text(), "a model")


class Agents(Started):
    """The edge agent and the broker of the images, with TLS."""

    def open(self, port):
        with contextlib.closing(socket.socket()) as s:
            return s.connect_ex(("127.0.0.1", port)) == 0

    def test_an_edge_agent_says_hello_at_the_broker(self):
        cert, key = Network.authority(self)
        key.chmod(0o644)
        for arch in ARCHS:
            with self.subTest(arch=arch):
                port = free_port()
                config = self.folder(f"config-{arch}", 0)
                for file in (cert, key):
                    shutil.copy(file, config)
                broker, edge = self.box("ilmare-broker", arch), self.box("ilmare-edge", arch)
                at = "" if arch == "amd64" else broker.root
                (config / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n"
                    f"certfile {at}/etc/ilmare/cert.pem\nkeyfile {at}/etc/ilmare/key.pem\n")
                # The authority of the broker is one that the image knows: the bundle is what both trust without being told.
                for box in (broker, edge):
                    box.bind(cert, BUNDLE)
                broker.bind(config, "etc/ilmare")
                state = self.folder(f"state-{arch}", 0)
                edge.bind(state, "var/lib/ilmare")
                server, server_log = self.started(broker, "/usr/sbin/mosquitto", "-c", f"{at}/etc/ilmare/mosquitto.conf")
                self.until("the broker listens", lambda: server.poll() is not None or self.open(port))
                _, agent_log = self.started(edge, "/usr/sbin/ilmare-edge", "--node=n1", f"--mqtt-brokers=mqtts://localhost:{port}", "--observe-port=-1",
                    f"--workers-port={free_port()}", f"--state-dir={'' if arch == 'amd64' else edge.root}/var/lib/ilmare")
                said = broker.run("/usr/bin/mosquitto_sub", "-h", "localhost", "-p", str(port), "--tls-use-os-certs", "-V", "5", "-C", "1",
                    "-W", str(int(PATIENCE)), "-t", "ilmare/v1/presence/n1")
                self.assertEqual(said.returncode, 0, said.stderr + agent_log.read_text() + server_log.read_text())
                self.assertIn('"online":true', said.stdout)
                self.assertTrue(list(state.iterdir()))


if __name__ == "__main__":
    main()
