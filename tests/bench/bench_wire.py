#!/usr/bin/python3
"""What a device's link carries: bytes of one full round and of an idle hour, and beside them what the same content takes without our envelope.

    ILMARE_BUILD=build/release tests/bench/bench_wire.py [--rounds 20] [--minutes 4]

Both agents are real, with workers that only report; a proxy counts the bytes of the TCP streams, both ways, and reads the MQTT packets in them.
An hour is 60 keep-alives as they were measured at rest, and one slow timer, which is measured by itself with a short one.

"Without our envelope": of each message that carried something the same members as compact JSON, less those in ENVELOPE, at any depth. What is
left is where the job stands, models with their metrics, sample counts, urls, triggers: what any such system has to say.
"""

import argparse
import collections
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World, until  # noqa: E402
from bench_edge import Proxy, tell  # noqa: E402
from bench_round import metered  # noqa: E402

ENVELOPE = {"v", "ts", "stamp", "node", "job", "roles", "workerEnded", "store", "seq", "sha256", "digest", "uid", "session", "jobs", "datasets",
            "capabilities", "version", "changed", "writer"}
PUBLISH, KEEP_ALIVE = 3, (10, 11, 12, 13)  # also the agent's own probe: an UNSUBSCRIBE from what it never subscribed to


def without(value):
    if isinstance(value, dict):
        return {k: without(v) for k, v in value.items() if k not in ENVELOPE}
    return [without(v) for v in value] if isinstance(value, list) else value


def number(data, at):
    """A variable byte integer, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[at] & 127) << shift
        shift += 7
        at += 1
        if data[at - 1] < 128:
            return value, at


def packets(data):
    """[(type, size, topic, payload)] of a stream that begins with a whole packet and ends with one."""
    found, at = [], 0
    while at < len(data):
        length, body = number(data, at + 1)
        kind, end, topic, payload = data[at] >> 4, body + length, "", b""
        if kind == PUBLISH:
            size = int.from_bytes(data[body:body + 2], "big")
            topic, body = data[body + 2:body + 2 + size].decode(), body + 2 + size
            body += 2 if data[at] & 6 else 0
            properties, body = number(data, body)
            payload = data[body + properties:end]
        found.append((kind, end - at, topic, payload))
        at = end
    return found


class Wire(Proxy):
    def mark(self):
        return len(self.packets)

    def since(self, mark):
        """Packets of both ways, by direction."""
        data = list(self.packets)[mark:]
        return [p for way in (0, 1) for p in packets(b"".join(d for _, w, d in data if w == way))]

    def rest(self, seconds=3):
        """Until nothing comes for a while."""
        def silent():
            before = self.mark()
            time.sleep(seconds)  # that nothing happens is what is looked for
            return self.mark() == before
        until(silent, "the wire comes to rest", 120)


def shares(found):
    """How the bytes of these packets divide."""
    said = collections.Counter()
    for kind, size, topic, payload in found:
        said["all"] += size
        if kind != PUBLISH:
            said["keep-alive" if kind in KEEP_ALIVE else "acknowledgements"] += size
            continue
        said["messages"] += 1
        said["payloads"] += len(payload)
        said["topics"] += len(topic)
        said["headers and properties"] += size - len(payload) - len(topic)
        said["without our envelope"] += len(json.dumps(without(json.loads(payload)), separators=(",", ":"))) if payload else 0
    return said


def tell_all(what, counted):
    """counted: a list of shares; medians."""
    for name in ("all", "messages", "payloads", "without our envelope", "topics", "headers and properties", "acknowledgements"):
        tell(f"{what}: {name}", statistics.median(c[name] for c in counted), "" if name == "messages" else "B")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=4)
    options = parser.parse_args()
    with World() as world:
        _, cloud, whole, wire = metered(world, Wire)
        wire.rest()
        counted = []
        for n in range(1, options.rounds + 1):
            mark = wire.mark()
            whole.feed()
            whole.topics.wait(whole.over(n), f"round {n} is over")
            wire.rest(6)  # the dataset's status comes at most every 5 s
            counted.append(shares(wire.since(mark)))
        tell_all("one round", counted[1:])

        mark, began = wire.mark(), time.monotonic()
        time.sleep(options.minutes * 60)
        hours = (time.monotonic() - began) / 3600
        idle = shares(wire.since(mark))
        tell(f"at rest for {options.minutes:g} minutes: messages", idle["messages"], "")
        tell("an idle hour: keep-alive", idle["keep-alive"] / hours, "B")

        cloud.stop()
        cloud.command.append("--documents-slow-timer=8s")
        cloud.start()
        wire.rest(2)
        mark = wire.mark()
        until(lambda: wire.mark() > mark, "the slow timer", 30)
        wire.rest(2)
        slow = shares(wire.since(mark))
        slow["all"] -= slow["keep-alive"]
        tell_all("the slow timer, once", [slow])
        tell("an idle hour, all", idle["keep-alive"] / hours + slow["all"], "B")


if __name__ == "__main__":
    main()
