"""Real processes for tests: a mosquitto, agents, and somebody who listens.

    with World() as world:                       a temporary folder, gone at the end with all that was started
        broker = world.broker()                  on a free loopback port; stop, kill, start again, with or without its state
        topics = world.topics(broker)            what is published, as it comes; wait(predicate) instead of sleeping
        edge = world.edge(broker)                an ilmare-edge; kill, stop, start again on the same store and port
        cloud = world.cloud(broker, edge)        an ilmare-cloud with the local backend

Everything here waits for what can be observed, up to a deadline, and fails with what was seen instead. Programs come from the build folder that
the variable ILMARE_BUILD names (build/debug otherwise). What a hand-played cloud agent says is in hand.py.
"""

import base64
import contextlib
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PATIENCE = float(os.environ.get("ILMARE_TEST_PATIENCE", "20"))  # seconds that anything may take before a test gives up on it
OTHER_BROKER = os.environ.get("ILMARE_TEST_BROKER")  # a program to run with a port, instead of mosquitto


def build_dir():
    return (ROOT / os.environ.get("ILMARE_BUILD", "build/debug")).resolve()


def program(name):
    path = build_dir() / "bin" / name
    if not path.exists():
        raise FileNotFoundError(f"{path}: build it first, or name another build folder in ILMARE_BUILD")
    return str(path)


def is_sanitized():
    """Sanitizers cost memory and time: figures mean nothing then."""
    try:
        return re.search(r"^ILMARE_SANITIZE:\w+=.+", (build_dir() / "CMakeCache.txt").read_text(), re.M) is not None
    except FileNotFoundError:
        return False


# Not of those that the system gives to whoever asks for any, nor of a node's or a cluster's own: what is free here stays free.
PORTS = range(12000, 30000)
reserved = []  # until this process ends


def free_port():
    """A loopback TCP port that no other test of this machine is given as long as this one runs (child.c does the same)."""
    for port in random.sample(PORTS, len(PORTS)):
        name, s = socket.socket(socket.AF_UNIX), socket.socket()
        with s:
            try:
                name.bind(f"\0ilmare-test-port-{port}")
                s.bind(("127.0.0.1", port))
            except OSError:
                name.close()
                continue
        reserved.append(name)
        return port
    raise AssertionError(f"no port of {PORTS} is free")


def until(check, what, patience=PATIENCE, interval=0.005):
    """The first true value of check(), looked at again and again: for what nobody announces."""
    end = time.monotonic() + patience
    while True:
        value = check()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {patience:g} s: {what() if callable(what) else what}")
        time.sleep(interval)


def worker_name(kind, uid, number):
    """Both agents compute it the same way; kind: train, eval, inference."""
    suffix = base64.b32encode(hashlib.sha256(f"{uid}/{number}/{kind}".encode()).digest()).decode().lower()[:10]
    return {"train": "train-worker-", "eval": "eval-worker-", "inference": "inferworker-"}[kind] + suffix


class Process:
    """A program with its output in a file. One object lives through several starts."""

    def __init__(self, world, name, command, env=None, **more):
        self.world, self.name, self.command, self.env, self.more = world, name, [str(c) for c in command], env, more
        self.log = world.path / f"{name}.log"
        self.process = None

    def start(self):
        assert not self.alive(), f"{self.name} runs already"
        env = dict(os.environ, **{k: str(v) for k, v in (self.env or {}).items()})
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=env, **self.more)
        return self

    def alive(self):
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self):
        return self.process.pid

    def end(self, how, patience=PATIENCE):
        """The exit status; None if it did not run."""
        if self.process is None:
            return None
        if self.process.poll() is None:
            self.process.send_signal(how)
        try:
            status = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise AssertionError(f"{self.name} did not end within {patience:g} s of signal {how}:\n{self.tail()}") from None
        self.process = None
        return status

    def stop(self, patience=PATIENCE):
        return self.end(signal.SIGTERM, patience)

    def kill(self):
        return self.end(signal.SIGKILL)

    def text(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def tail(self, size=3000):
        return self.text()[-size:]

    def logged(self, pattern):
        return re.findall(pattern, self.text())

    def wait_log(self, pattern, n=1, patience=PATIENCE):
        return until(lambda: (found := self.logged(pattern)) and len(found) >= n and found,
                     lambda: f"{self.name} logs /{pattern}/ {n} times:\n{self.tail()}", patience)

    def status(self, key):
        """A line of /proc/PID/status in bytes (RssAnon, VmRSS) or as a number (Threads)."""
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name == key:
                words = value.split()
                return int(words[0]) * (1024 if words[1:] == ["kB"] else 1)
        raise KeyError(key)

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def written(self):
        """Bytes that it caused to be sent to the disk."""
        text = pathlib.Path(f"/proc/{self.pid}/io").read_text()
        return int(re.search(r"^write_bytes: (\d+)", text, re.M)[1])


def fill(path):
    """Take all the room that its disk has."""
    with open(path, "wb", buffering=0) as file:
        try:
            while file.write(b"x" * 4096):
                pass
        except OSError:
            pass
    return path


def fill_inodes(folder):
    """Take all the names that its disk has, with empty files in a new folder."""
    os.mkdir(folder)
    try:
        for number in itertools.count():
            open(f"{folder}/{number}", "wb").close()
    except OSError:
        return folder


def own_mounts():
    """What stands before a command whose mounts are its own: as root, or in a user namespace. None where the kernel allows neither."""
    for flags in ([["-m"]] if os.geteuid() == 0 else []) + [["-Urm"]]:
        command = ["unshare", *flags]
        if subprocess.run([*command, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode == 0:
            return command
    return None


class Disks:
    """Small disks of a process's own, on folders of the machine: Disks(edge, {folder: "size=256k"}). Others see them below inside()."""

    def __init__(self, process, options):
        self.process, self.namespace = process, own_mounts()
        if self.namespace is None:
            raise unittest.SkipTest("this kernel lets neither root nor others mount a tmpfs in a namespace of their own")
        for folder in options:
            folder.mkdir(parents=True, exist_ok=True)
        self.command = process.command
        self.mounts = "; ".join(f"mount -t tmpfs -o {each} none {shlex.quote(str(folder))}" for folder, each in options.items())
        self.run_before(":")

    def run_before(self, script):
        """Each next start makes the disks anew and runs this there first."""
        self.process.command = [*self.namespace, "sh", "-c", f'set -e; {self.mounts}; {script}; exec "$@"', "sh", *self.command]

    def inside(self, path):
        return pathlib.Path(f"/proc/{self.process.pid}/root{path}")

    def enter(self, script):
        flags = ["-U", "--preserve-credentials"] if "-Urm" in self.namespace else []
        subprocess.run(["nsenter", "-t", str(self.process.pid), *flags, "-m", "sh", "-c", script], check=True)


class Broker(Process):
    """persist: "stop" keeps its state through stop() alone, "always" also through kill() (it saves after each change). also: addresses beside
    loopback. With ILMARE_TEST_BROKER another program, run as PROGRAM PORT, which keeps nothing and knows no config."""

    def __init__(self, world, name="mosquitto", persist="stop", config="", also=()):
        self.port, self.lives, self.life = free_port(), 0, None  # life: its number, None from when it is told to end to when it listens again
        self.dir = world.path / name
        self.dir.mkdir()
        lines = [f"listener {self.port} 127.0.0.1", "allow_anonymous true", "persistence true", f"persistence_location {self.dir}/",
                 "log_dest stderr", "log_type all" if os.environ.get("ILMARE_TEST_VERBOSE") else "log_type notice",
                 "log_type error", "log_type warning", "max_inflight_messages 0", "max_queued_messages 0", "set_tcp_nodelay true"]
        lines += [f"listener {self.port} {address}" for address in also]
        if persist == "always":
            lines += ["autosave_on_changes true", "autosave_interval 1"]
        if os.geteuid() == 0:
            lines.append("user root")  # else it gives root up, and with it this folder
        (self.dir / "mosquitto.conf").write_text("\n".join(lines + [config]) + "\n")
        command = [shutil.which("mosquitto") or "/usr/sbin/mosquitto", "-c", self.dir / "mosquitto.conf"]
        if OTHER_BROKER:
            if config or also:
                raise unittest.SkipTest("the other broker knows no mosquitto.conf")
            command = [OTHER_BROKER, self.port]
        super().__init__(world, name, command)

    @property
    def url(self):
        return f"mqtt://127.0.0.1:{self.port}"

    def start(self):
        super().start()
        until(self.hangs_up, "the broker answers")
        self.lives += 1
        self.life = self.lives
        return self

    def hangs_up(self):
        """On who talks nonsense. That it listens would not do: mosquitto does so before it can be told anything, so a SIGHUP ends it, and a
        SIGTERM may be forgotten."""
        assert self.alive(), f"the broker ended at once:\n{self.tail()}"
        with socket.socket() as s:
            s.settimeout(PATIENCE)
            try:
                s.connect(("127.0.0.1", self.port))
                s.sendall(bytes(16))
                while s.recv(1024):
                    pass
            except ConnectionRefusedError:
                return False
            except ConnectionError:
                pass
        return True

    def end(self, how, patience=PATIENCE):
        self.life = None
        return super().end(how, patience)

    # How mosquitto's own clients get in, to say something and to listen, and a topic that they may say and hear something on.

    def writer(self):
        return ["-h", "127.0.0.1", "-p", str(self.port)]

    def reader(self):
        return self.writer()

    def mark(self):
        return f"test/{os.urandom(6).hex()}"

    def forget(self):
        """It has lost its state; call it while stopped."""
        assert not self.alive()
        for file in self.dir.glob("*.db*"):
            file.unlink()

    def publish(self, topic, payload, retain=False):
        """payload: bytes, text, or a document. Returns after the broker has it."""
        if not isinstance(payload, (bytes, str)):
            payload = json.dumps(payload)
        data = payload.encode() if isinstance(payload, str) else payload
        command = ["mosquitto_pub", *self.writer(), "-V", "5", "-q", "1", "-t", topic]
        command += ["-s"] if data else ["-n"]
        done = subprocess.run(command + (["-r"] if retain else []), input=data, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 0, f"mosquitto_pub {topic}: {done.stderr.decode()}"


class Message:
    def __init__(self, topic, retained, payload, at):
        self.topic, self.retained, self.payload, self.at = topic, retained, payload, at
        try:
            self.document = json.loads(payload) if payload else None
        except (ValueError, RecursionError):
            self.document = None

    def __repr__(self):
        return f"{self.topic} {self.payload[:300]}"


class Topics:
    """All messages below a filter from its start on; each life of a broker needs one of its own."""

    def __init__(self, world, broker, filters=("ilmare/v1/#",), listener=None):
        self.messages, self.changed, self.listener = [], threading.Condition(), listener
        mark = broker.mark()
        broker.publish(mark, "here", retain=True)
        command = ["mosquitto_sub", *broker.reader(), "-V", "5", "-q", "1", "--retain-as-published", "-F", "%r %t %x"]
        for each in (*filters, mark):
            command += ["-t", each]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.ready = threading.Event()
        self.thread = threading.Thread(target=self._read, args=(mark,), daemon=True)
        self.thread.start()
        assert self.ready.wait(PATIENCE), "the subscription did not become active"
        broker.publish(mark, "", retain=True)

    def _read(self, mark):
        for line in self.process.stdout:
            retained, topic, payload = line.decode(errors="replace").rstrip("\n").split(" ", 2)
            payload = bytes.fromhex(payload).decode(errors="replace")
            if topic == mark:
                self.ready.set()
                continue
            message = Message(topic, retained == "1", payload, time.monotonic())
            with self.changed:
                self.messages.append(message)
                self.changed.notify_all()
            if self.listener:
                self.listener(message)

    def mark(self):
        """For since: only what comes from now on."""
        return len(self.messages)

    def find(self, predicate, since=0):
        return [m for m in list(self.messages)[since:] if predicate(m)]

    def wait(self, predicate, what, since=0, patience=PATIENCE):
        end = time.monotonic() + patience
        at = since
        with self.changed:
            while True:
                while at < len(self.messages):
                    if predicate(self.messages[at]):
                        return self.messages[at]
                    at += 1
                left = end - time.monotonic()
                if left <= 0:
                    break
                self.changed.wait(left)
        seen = "\n".join(map(repr, self.messages[since:][-12:]))
        raise AssertionError(f"not within {patience:g} s: {what() if callable(what) else what}. Seen last:\n{seen}")

    def last(self, topic):
        """The newest message there, or None."""
        found = self.find(lambda m: m.topic == topic)
        return found[-1] if found else None

    def end(self):
        self.process.kill()
        self.process.wait()
        self.thread.join()
        self.process.stdout.close()


class Http:
    """The HTTP side that both agents have."""

    def get(self, path):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.observe_port}{path}", timeout=PATIENCE) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, answer.read().decode()

    def metrics(self):
        """All values by name; with labels the name is as printed."""
        status, text = self.get("/metrics")
        assert status == 200, text
        return {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line and not line.startswith("#")}

    def serves(self):
        try:
            return self.get("/healthz")[0] == 200
        except (urllib.error.URLError, ConnectionError, http.client.HTTPException, TimeoutError):
            assert self.alive(), f"{self.name} ended:\n{self.tail()}"
            return False

    def is_linked(self):
        return self.metrics().get("ilmare_mqtt_connected") == 1


class Edge(Process, Http):
    """options: settings by key with _ for . and -, as flags: workers_request_time="1s" becomes --workers-request-time=1s."""

    def __init__(self, world, broker, node="edge-1", name=None, env=None, user=None, prefix=(), **options):
        name = name or node
        self.node, self.port = node, free_port()
        self.observe_port = self.port
        self.state = world.path / f"{name}.state"
        self.options = {"node": node, "state_dir": self.state, "workers_port": self.port, "mqtt_reconnect_min": "50ms",
                        "mqtt_reconnect_max": "200ms", "mqtt_will_delay": "0", "outbox_retry_min": "100ms", "outbox_retry_max": "1s",
                        "dataset_status_period": "100ms",
                        "mqtt_brokers": broker.url if broker else f"mqtt://127.0.0.1:{free_port()}"}
        self.options.update(options)
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in self.options.items() if value is not None]
        super().__init__(world, name, [*prefix, program("ilmare-edge"), *flags], env)

    def start(self, wait=True):
        super().start()
        if wait:
            until(self.serves, lambda: f"{self.name} answers:\n{self.tail()}")
        return self

    def connected(self, patience=PATIENCE):
        until(self.is_linked, lambda: f"{self.name} is connected:\n{self.tail()}", patience)
        return self

    def post(self, worker, body, path=None, raw=None, headers=None, timeout=PATIENCE):
        """(status, document) of a worker's post. body: what it says beside its name, or all of it with raw."""
        data = raw if raw is not None else json.dumps({"name": worker, **body}).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path or f'/sedna/workers/{worker}/info'}", data,
                                         {"Content-Type": "application/json", **(headers or {})}, method="POST")
        try:
            with urllib.request.urlopen(request, timeout=timeout) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as answer:
            with answer:
                return answer.code, json.load(answer)

    def database(self):
        return self.state / "edge.db"


class Cloud(Process, Http):
    """With the local backend; put manifests into `manifests` and models where they say."""

    def __init__(self, world, broker, edge=None, name="cloud", env=None, lc_server=None, **options):
        self.manifests, self.state = world.path / "manifests", world.path / f"{name}.state"
        self.manifests.mkdir(exist_ok=True)
        self.observe_port = free_port()
        self.options = {"local_manifests_dir": self.manifests, "local_state_dir": self.state, "mqtt_brokers": broker.url,
                        "lc_server": lc_server or f"http://127.0.0.1:{edge.port if edge else 9100}", "observe_port": self.observe_port,
                        "mqtt_reconnect_min": "50ms", "mqtt_reconnect_max": "200ms", "rounds_backoff_min": "200ms",
                        "local_stop_workers": "true"}
        self.options.update(options)
        flags = [f"--{key.replace('_', '-')}={value}" for key, value in self.options.items() if value is not None]
        super().__init__(world, name, [program("ilmare-cloud"), *flags], env)

    def start(self, wait=True):
        super().start()
        if wait:
            until(self.serves, lambda: f"{self.name} answers:\n{self.tail()}")
        return self


class World:
    """A folder, and what runs in it. On failure the logs are printed."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="ilmare-test-"))
        self.parts = []

    def add(self, part):
        self.parts.append(part)
        return part

    def broker(self, **more):
        return self.add(Broker(self, **more)).start()

    def topics(self, broker, *filters, listener=None):
        return self.add(Topics(self, broker, filters or ("ilmare/v1/#",), listener))

    def edge(self, broker, start=True, **more):
        edge = self.add(Edge(self, broker, **more))
        return edge.start() if start else edge

    def cloud(self, broker, edge=None, start=True, **more):
        cloud = self.add(Cloud(self, broker, edge, **more))
        return cloud.start() if start else cloud

    def print_logs(self):
        for part in self.parts:
            if isinstance(part, Process):
                print(f"---- {part.name}\n{part.tail(6000)}", file=sys.stderr)

    def check_sanitizers(self):
        """A sanitizer's report is a failure wherever it stands."""
        for part in self.parts:
            if isinstance(part, Process) and re.search(r"AddressSanitizer|LeakSanitizer|runtime error:|ThreadSanitizer", part.text()):
                raise AssertionError(f"{part.name}:\n{part.tail(8000)}")

    def close(self):
        with contextlib.ExitStack() as ends:  # whatever one of them does, all are ended
            ends.callback(shutil.rmtree, self.path, ignore_errors=True)
            ends.callback(self.check_sanitizers)
            for part in self.parts:
                ends.callback(self.end, part)

    @staticmethod
    def end(part):
        if isinstance(part, Topics):
            part.end()
        elif isinstance(part, Process):
            status = part.end(signal.SIGTERM if isinstance(part, Cloud) else signal.SIGKILL)
            if isinstance(part, Cloud) and status not in (0, None):
                raise AssertionError(f"{part.name} ended with status {status} when it was told to stop:\n{part.tail(4000)}")

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.print_logs()
        self.close()
