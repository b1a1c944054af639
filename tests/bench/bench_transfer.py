#!/usr/bin/python3
"""Figures of ilmare-transfer beside curl alone, with a real store for S3 on this machine: a large object up and down, and an index of many.

    ILMARE_BUILD=build/release ILMARE_TEST_S3=STORE tests/bench/bench_transfer.py [--size 1000000000] [--files 1000000] [--rounds 3]

STORE is the program that tests/transfer/run builds. Time on the clock, CPU time and peak memory are those of the one process; each figure is the
median of the rounds. The objects of the index are 200 bytes each; what is behind them at the store are a few files with many names.
"""

import argparse
import hashlib
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "transfer"), str(HERE.parent / "integration")]

import bed  # noqa: E402
from agents import World, program  # noqa: E402

LINKS = 50_000  # names that one file may have


class Bed(unittest.TestCase):
    """What the store of the tests wants to know."""

    def __init__(self):
        super().__init__()
        self.world = World()
        self.path = self.world.path


def peak_of(pid):
    """Peak of memory in MB so far; 0 once it has ended."""
    try:
        text = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^VmHWM:\s*(\d+)", text, re.M)
    return int(found[1]) / 1024 if found else 0


def measured(command, env):
    """Seconds on the clock, seconds of CPU, peak of memory in MB. What the system says of a child that has ended counts this process's memory too."""
    peak, begin = 0, time.monotonic()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([str(c) for c in command], env=env, stdout=subprocess.DEVNULL, stderr=log)
        pid = 0
        while pid == 0:
            peak = max(peak, peak_of(process.pid))
            time.sleep(0.01)
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        took = time.monotonic() - begin
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            log.seek(0)
            raise AssertionError(f"{command}: {process.returncode}\n{log.read().decode()}")
    return took, usage.ru_utime + usage.ru_stime, peak


def median(rounds, command, env, before=lambda: None):
    runs = []
    for _ in range(rounds):
        before()
        runs.append(measured(command, env))
    return [statistics.median(figures) for figures in zip(*runs)]


def say(what, figures, size=None):
    took, cpu, memory = figures
    rate = f", {size / took / 1e6:6.0f} MB/s" if size else ""
    print(f"{what:34} {took:7.2f} s{rate}, CPU {cpu:6.2f} s, peak {memory:5.1f} MB", flush=True)


def large(gateway, path, size, rounds, env):
    source, target = path / "source", path / "target"
    with open(source, "wb") as file:
        for _ in range(size // 1_000_000):
            file.write(os.urandom(1_000_000))
    transfer = program("ilmare-transfer")
    sign = ["--user", f"{gateway.key}:{gateway.secret}", "--aws-sigv4", f"aws:amz:{gateway.region}:s3", "-H", "x-amz-content-sha256: UNSIGNED-PAYLOAD"]
    curl = ["curl", "-sf", *sign]

    def gone():
        target.unlink(missing_ok=True)
    say("up, curl", median(rounds, [*curl, "-T", source, f"{gateway.url()}/bucket/curl"], env), size)
    say("up, ilmare-transfer put", median(rounds, [transfer, "put", source, "s3://bucket/ours"], env), size)
    say("down, curl", median(rounds, [*curl, "-o", target, f"{gateway.url()}/bucket/curl"], env, gone), size)
    say("down, get (in one piece: MD5)", median(rounds, [transfer, "get", "s3://bucket/curl", target], env, gone), size)
    assert hashlib.file_digest(open(target, "rb"), "md5").digest() == hashlib.file_digest(open(source, "rb"), "md5").digest()
    say("down, get (of parts)", median(rounds, [transfer, "get", "s3://bucket/ours", target], env, gone), size)
    source.unlink()
    target.unlink()


def many(gateway, path, files, env):
    folder = gateway.folder / "bucket" / "many"
    for n in range(files):
        if n % 1000 == 0:
            (folder / str(n // 1000)).mkdir(parents=True)
        name = folder / str(n // 1000) / f"{n}.png"
        if n % LINKS == 0:
            first = name
            first.write_bytes(b"x" * 200)
        else:
            os.link(first, name)
    index = path / "index"
    with open(index, "w") as file:
        file.write("s3://bucket/many\n")
        file.writelines(f"{n // 1000}/{n}.png\n" for n in range(files))
    transfer = program("ilmare-transfer")
    measured([transfer, "put", index, "s3://bucket/index"], env)
    figures = measured([transfer, "@s3://bucket/index", path / "fetched"], env)
    say(f"an index of {files}", figures)
    print(f"{'':34} {files / figures[0]:.0f} objects/s")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=1_000_000_000)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if not bed.STORE:
        sys.exit("name the store's program in ILMARE_TEST_S3; tests/transfer/run builds it")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    case, gateway = Bed(), None
    try:
        gateway = bed.Gateway(case, more=["--keep-alive"])
        gateway.make("bucket")
        env = bed.clean_env(gateway.env())
        if options.size:
            large(gateway, case.path, options.size, options.rounds, env)
        if options.files:
            many(gateway, case.path, options.files, env)
    finally:
        if gateway:
            gateway.process.kill()
        case.world.close()


if __name__ == "__main__":
    main()
