#!/usr/bin/python3
"""Figures of the packages, for docs/benchmarks.md: sizes, and how long it takes until a device is there. Needs scripts/build-packages --arch all.

    tests/package/figures.py
"""

import statistics
import subprocess
import time

import root
from agents import World
from enrolling import Endpoint, enrolment_file
from lab import SecureBroker
from root import Root, package

TIMES = 5


def field(deb, name):
    return subprocess.run(["dpkg-deb", "-f", deb, name], capture_output=True, text=True, check=True).stdout.strip()


def timed(act):
    begin = time.monotonic()
    act()
    return time.monotonic() - begin


def in_service(world, broker, endpoint):
    """Seconds of: dpkg -i, ilmare-enroll to its end, and systemctl restart to presence at the broker, with the certificate that is there."""
    device = Root()
    try:
        deb = device.give(package("ilmare-edge"))
        installed = timed(lambda: device.run("dpkg", "-i", deb))
        device.manage()
        ca = (broker.pki.folder("broker") / "ca.crt").read_text()
        text = enrolment_file(ca, broker=broker.url, url=endpoint.url, more="workers:\n  port: 0\n")
        enrolled = timed(lambda: device.run("ilmare-enroll", "-", text=text))
        device.run("systemctl", "stop", "ilmare-edge.service")
        topics = world.topics(broker, "ilmare/v1/presence/edge-7")
        mark = topics.mark()

        def start():
            device.run("systemctl", "start", "ilmare-edge.service")
            topics.wait(lambda m: m.document and m.document["online"], "it is present", since=mark)
        return installed, enrolled, timed(start)
    finally:
        device.close()


def main():
    for name in ("ilmare-edge", "ilmare-cloud"):
        for arch in ("amd64", "arm64"):
            deb = package(name, arch)
            print(f"{name} {arch}: {deb.stat().st_size / 1000:.0f} kB, installed {field(deb, 'Installed-Size')} KiB")
    with World() as world:
        broker = SecureBroker(world).start()
        endpoint = Endpoint(broker.pki)
        runs = [in_service(world, broker, endpoint) for _ in range(TIMES)]
        endpoint.close()
    for what, seconds in zip(("dpkg -i", "ilmare-enroll, until it is connected", "start, until its presence is heard"), zip(*runs)):
        print(f"{what}: median {statistics.median(seconds):.2f} s, worst {max(seconds):.2f} s")


if __name__ == "__main__":
    root.enter()
    main()
