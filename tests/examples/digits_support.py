"""What the tests of examples/digits share: an endpoint that stands in for the edge agent, and how scripts are started.

Importing this makes the example's own modules importable and keeps them from writing caches into its folder.
"""

import http.server
import importlib.util
import json
import math
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

sys.dont_write_bytecode = True
CODE = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "examples", "digits"))
sys.path.insert(0, CODE)

import model  # noqa: E402
import worker  # noqa: E402

TRAIN_PROB = 0.8
OK = (200, b'{"Status":200,"Message":"OK"}')

# What the modules would say while tests make them fail is of no use to whoever reads the tests' output.
worker.log = model.log = lambda *_, **__: None


class Endpoint:
    """Takes worker reports. `answers` are given first, one each; then 200. `messages` holds (path, document)."""

    def __init__(self, *answers):
        self.messages = queue.Queue()
        waiting = list(answers)
        messages = self.messages

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                messages.put((self.path, json.loads(body)))
                status, answer = waiting.pop(0) if waiting else OK
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def next(self):
        return self.messages.get(timeout=20)

    def taken(self):
        """All documents that have come so far."""
        documents = []
        while not self.messages.empty():
            documents.append(self.messages.get()[1])
        return documents


def variables(endpoint_url, **more):
    base = {"PATH": "/usr/bin:/bin", "NAMESPACE": "default", "JOB_NAME": "digits", "WORKER_NAME": "train-worker-abcde",
            "LC_SERVER": endpoint_url, "DATA_PATH_PREFIX": ""}
    base.update(more)
    return {name: value for name, value in base.items() if value is not None}


def script(name, *arguments, env=None):
    return subprocess.run(["/usr/bin/python3", "-B", os.path.join(CODE, name), *arguments], env=env,
                          capture_output=True, text=True, timeout=60, check=False)


def load_script(name):
    spec = importlib.util.spec_from_file_location("script_" + name[:-3], os.path.join(CODE, name))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def trains(number):
    return math.floor((number + 1) * TRAIN_PROB + 1e-9) > math.floor(number * TRAIN_PROB + 1e-9)


def read_lines(path):
    with open(path, encoding="ascii") as file:
        return file.readlines()


class Folder(unittest.TestCase):
    """Each test has an empty folder, gone afterwards."""

    def setUp(self):
        self.home = tempfile.mkdtemp(prefix="digits-")
        self.addCleanup(shutil.rmtree, self.home)

    def path(self, *parts):
        return os.path.join(self.home, *parts)

    def write(self, text, *parts):
        path = self.path(*parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        return path
