"""A parent that is killed takes its transfer along, also while that waits for a server that says nothing."""

import json
import os
import select
import signal
import subprocess
import sys

from bed import PATIENCE, Case, clean_env, main, program

# Starts the program with a pipe as its standard input, says which process it is, and does nothing.
PARENT = """
import signal, subprocess, sys
child = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=open(sys.argv[1], "w"), stderr=subprocess.DEVNULL)
print(child.pid, flush=True)
signal.pause()
"""


class Parents(Case):
    def setUp(self):
        super().setUp()
        self.store = self.strict()
        self.proxy_ = self.proxy(self.store.port)
        self.env = self.store.env(self.proxy_.port)

    def killed_while_it_stalls(self, *arguments):
        out = self.path / "out"
        parent = subprocess.Popen([sys.executable, "-c", PARENT, str(out), program("ilmare-transfer"), *map(str, arguments), "--until-stdin-ends"],
                                  stdout=subprocess.PIPE, env=clean_env(self.env))
        with parent.stdout:
            child = os.pidfd_open(int(parent.stdout.readline()))
        try:
            self.assertTrue(self.proxy_.stalled.wait(PATIENCE))
            self.assertEqual(select.select([child], [], [], 0)[0], [])
            parent.send_signal(signal.SIGKILL)
            parent.wait()
            # The stall itself would last a minute.
            self.assertEqual(select.select([child], [], [], PATIENCE)[0], [child])
        finally:
            os.close(child)
            parent.kill()
            parent.wait()
        last = json.loads(out.read_text().splitlines()[-1])
        out.unlink()
        self.assertEqual((last["event"], last["exit"]), ("error", 9))

    def test_a_download(self):
        self.store.objects["bucket", "k"] = self.data(100_000)
        self.proxy_.faults = [("stall", 50_000)]
        self.killed_while_it_stalls("get", "s3://bucket/k", self.path / "f")
        self.assertEqual(self.left(self.path), [])

    def test_an_upload(self):
        source = self.file("source", self.data(40_000_000))
        self.proxy_.only = lambda method, path: "partNumber=2" in path
        self.proxy_.faults = [("hang",)]
        self.killed_while_it_stalls("put", source, "s3://bucket/k")
        self.assertEqual((self.store.objects, self.store.parts), ({}, {}))

    def test_a_move(self):
        """Of several objects at a time."""
        objects = {("bucket", f"a/{n}"): b"data" for n in range(20)}
        self.store.objects.update(objects)
        self.proxy_.only = lambda method, path: method == "PUT"
        self.proxy_.always = ("hang",)
        self.killed_while_it_stalls("move-folder", "s3://bucket/a", "s3://bucket/b")
        self.assertEqual(self.store.objects, objects)

    def test_a_wait(self):
        """Between two attempts."""
        self.proxy_.faults = [("status", 503, {"Retry-After": "100"}, b"")]
        self.proxy_.only = lambda method, path: self.proxy_.stalled.set() or True
        self.killed_while_it_stalls("head", "s3://bucket/k")

    def test_what_comes_is_not_looked_at(self):
        self.store.objects["bucket", "k"] = b"data"
        process = self.begin("get", "s3://bucket/k", self.path / "f", "--until-stdin-ends", stdin=subprocess.PIPE)
        process.stdin.write("x" * 10_000)
        process.stdin.flush()
        self.assertEqual(process.wait(PATIENCE), 0)
        process.communicate()

    def test_one_that_has_ended_already(self):
        self.proxy_.always = ("hang",)
        for close in (False, True):
            process = self.begin("head", "s3://bucket/k", "--until-stdin-ends", preexec_fn=(lambda: os.close(0)) if close else None)
            self.assertEqual(self.end(process).status, 9)


if __name__ == "__main__":
    main()
