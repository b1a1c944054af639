"""What the tests of this folder share: a folder, servers, and ilmare-transfer as a program."""

import json
import os
import pathlib
import random
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import PATIENCE, Process, World, free_port, is_sanitized, program, until  # noqa: E402,F401
from case import main  # noqa: E402,F401

from strict_store import StrictStore  # noqa: E402
from web import BadProxy, Web  # noqa: E402

STORE = os.environ.get("ILMARE_TEST_S3")
QUICK = ["--attempts", "4", "--retry-wait", "20ms"]


def clean_env(env):
    """Nothing of the machine's own settings, and no proxy."""
    kept = {n: v for n, v in os.environ.items() if n not in ("S3_ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "AWS_REGION", "SSL_CERT_FILE")
            and not n.lower().endswith("_proxy")}
    return {**kept, **(env or {})}


class Done:
    """How a run ended: status, the lines of standard output, the log."""

    def __init__(self, process, out, log):
        self.status, self.out, self.log = process.returncode, out, log
        self.lines = [json.loads(line) for line in out.splitlines()]
        self.last = self.lines[-1] if self.lines else None

    def __repr__(self):
        return f"status {self.status}\n{self.out[-2000:]}\n{self.log[-3000:]}"


class Case(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.path = self.world.path
        self.addCleanup(self.world.close)
        self.random = random.Random(1)
        self.env = {}

    def begin(self, *arguments, env=None, stdin=subprocess.DEVNULL, before=(), **more):
        """before: a command that begins this one."""
        return subprocess.Popen([*before, program("ilmare-transfer"), *(a if isinstance(a, bytes) else str(a) for a in arguments)], stdin=stdin,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_env(self.env if env is None else env), **more)

    def end(self, process):
        try:
            out, log = process.communicate(timeout=PATIENCE * 6)
        except subprocess.TimeoutExpired:
            process.kill()
            raise AssertionError(f"does not end: {process.communicate()}") from None
        return Done(process, out, log)

    def run_it(self, *arguments, env=None, **more):
        return self.end(self.begin(*arguments, env=env, **more))

    def good(self, *arguments, env=None, **more):
        done = self.run_it(*arguments, env=env, **more)
        self.assertEqual(done.status, 0, done)
        return done

    def bad(self, status, *arguments, env=None, **more):
        done = self.run_it(*arguments, env=env, **more)
        self.assertEqual(done.status, status, done)
        if done.last is not None:
            self.assertEqual((done.last["event"], done.last["exit"]), ("error", status))
        return done

    def data(self, size):
        return self.random.randbytes(size)

    def file(self, name, data):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return path

    def strict(self, *buckets):
        store = StrictStore(*(buckets or ("bucket",)))
        self.addCleanup(store.close)
        self.env = store.env()
        return store

    def proxy(self, upstream):
        proxy = BadProxy(upstream)
        self.addCleanup(proxy.close)
        return proxy

    def web(self, tls=None):
        folder = self.path / "web"
        folder.mkdir(exist_ok=True)
        web = Web(folder, tls)
        self.addCleanup(web.close)
        return web

    def gateway(self, *buckets, tls=None):
        """The real store; its objects are files below gateway.folder."""
        if not STORE:
            self.skipTest("there is no store for S3 on this machine (see tests/transfer/run)")
        gateway = Gateway(self, tls)
        self.addCleanup(gateway.process.kill)
        self.env = gateway.env()
        for bucket in buckets or ("bucket",):
            gateway.make(bucket)
        return gateway

    def left(self, folder):
        return sorted(str(p.relative_to(folder)) for p in pathlib.Path(folder).rglob("*") if not p.is_dir())


class Gateway:
    key, secret, region = "gateway-key", "gateway-secret/with+signs=", "us-east-1"

    def __init__(self, case, tls=None, more=()):
        self.folder, self.port, self.tls = case.path / "store", free_port(), tls
        self.folder.mkdir()
        (case.path / "iam").mkdir()
        options = [*(["--cert", tls[0], "--key", tls[1]] if tls else []), *more]
        self.process = Process(case.world, "store", [STORE, "--access", self.key, "--secret", self.secret, "--port", f"127.0.0.1:{self.port}", "--iam-dir",
                                                    case.path / "iam", *options, "posix", self.folder])
        self.process.start()
        try:
            self.process.wait_log("service listening on")
            until(self.answers, "the store answers")
        except BaseException:
            self.process.kill()
            raise

    def answers(self):
        return subprocess.run(["curl", "-sk", "-o", "/dev/null", self.url()], check=False).returncode == 0

    def url(self, port=None):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{port or self.port}"

    def make(self, bucket):
        done = subprocess.run(["curl", "-sfk", "-X", "PUT", "--user", f"{self.key}:{self.secret}", "--aws-sigv4", f"aws:amz:{self.region}:s3", "-H",
                               "x-amz-content-sha256: UNSIGNED-PAYLOAD", f"{self.url()}/{bucket}"], capture_output=True, text=True)
        assert done.returncode == 0, done

    def env(self, port=None):
        return {"S3_ENDPOINT_URL": self.url(port), "ACCESS_KEY_ID": self.key, "SECRET_ACCESS_KEY": self.secret}
