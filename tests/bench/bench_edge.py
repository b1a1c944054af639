#!/usr/bin/python3
"""Figures of ilmare-edge alone, its cloud agent played by hand: latency, memory, CPU, disk and network.

    ILMARE_BUILD=build/release tests/bench/bench_edge.py [--seconds 60] [--samples 10000000] [--repeats 200] [NAME…]

Each line: name, value, unit, and the limit that it has to keep. Exit status 1 if one is over its limit. Names: arrival, period, idle, large.
"""

import argparse
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World, is_sanitized, until  # noqa: E402
from hand import Hand, Job, at  # noqa: E402

over = []


def tell(name, value, unit, limit=None):
    fits = limit is None or value <= limit
    over.extend([] if fits else [name])
    print(f"{name:52} {value:12.3f} {unit:8}" + ("" if limit is None else f" limit {limit:g}" + ("" if fits else "  OVER")), flush=True)


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


class Proxy:
    """Counts what goes through, both ways."""

    def __init__(self, port):
        self.target, self.bytes, self.packets = port, [0, 0], []
        self.server = socket.create_server(("127.0.0.1", 0))
        self.port = self.server.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.server.accept()
            broker = socket.create_connection(("127.0.0.1", self.target))
            for s in (client, broker):
                s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for way, (source, sink) in enumerate(((client, broker), (broker, client))):
                threading.Thread(target=self.pump, args=(way, source, sink), daemon=True).start()

    def pump(self, way, source, sink):
        while True:
            try:
                data = source.recv(65536)
            except OSError:
                data = b""
            if not data:
                sink.close()
                return
            self.bytes[way] += len(data)
            self.packets.append((time.monotonic(), way, data))
            sink.sendall(data)


def begin(world, jobs, proxy=False, auto=True, **options):
    broker = world.broker()
    edge = world.edge(broker, start=False, **{"mqtt_will_delay": "30s", "dataset_status_period": "5s", **options})
    counter = None
    if proxy:
        counter = Proxy(broker.port)
        edge.command = [c.replace(str(broker.port), str(counter.port)) for c in edge.command]
    hand = Hand(world, broker, edge, *jobs, auto=auto)
    edge.start().connected()
    until(lambda: edge.metrics()["ilmare_edge_jobs"] == len(jobs), "the jobs are there")
    return edge, hand, counter


def latency(world, args, name, limit, **options):
    """Sample appended → train ready on the wire; then the job begins its next round without anybody's work."""
    job = Job(world, name=name, share=1)
    edge, hand, _ = begin(world, [job], auto=False, **options)
    took = []
    n = args.repeats if options else max(20, args.repeats // 8)
    cursor = None
    for number in range(1, n + 1):
        # Let the document settle, and the present period begin anywhere.
        until(lambda: edge.metrics()["ilmare_edge_outbox_unsettled"] == 0, "settled")
        time.sleep(((number * 7919) % 1000) / 1000 * (0.05 if options else 1))
        mark, began = hand.topics.mark(), time.monotonic()
        job.append(f"sample {number}")
        topic = f"/{name}/node/edge-1/train/ready"
        message = hand.topics.wait(lambda m: m.topic.endswith(topic) and m.document["position"]["round"] == number, "ready", mark)
        took.append(message.at - began)
        cursor = message.document["range"]["end"]
        model = {"format": "bin", "url": "/m"}
        hand.move(job, at(number + 1, "Train", "Waiting"), trained={"round": number, "models": [model], "cursor": cursor})
    hand.close()
    what = "check at arrival" if options else "checkPeriodSeconds 1"
    tell(f"sample appended -> train ready, {what}, p50", percentile(took, 0.5) * 1000, "ms")
    tell(f"sample appended -> train ready, {what}, p99", percentile(took, 0.99) * 1000, "ms", limit)


def idle(world, args):
    jobs = []
    for i in range(10):
        jobs.append(Job(world, name=f"idle-{i}", condition=(">=", 1000), period=60))
        jobs[-1].append(*(f"sample {k}" for k in range(100)))
    edge, hand, proxy = begin(world, jobs, proxy=True, auto=False, mqtt_keep_alive="60s")
    for job in jobs:
        hand.status(job.dataset, lambda s: s["samples"] == 100, "counted")
    # What the start brought has to come to rest: nothing written and nothing sent for a while.
    def rest():
        before = (edge.written(), sum(proxy.bytes))
        time.sleep(6)
        return (edge.written(), sum(proxy.bytes)) == before
    until(rest, "it comes to rest", 60)
    cpu, written, sent = edge.cpu_seconds(), edge.written(), len(proxy.packets)
    began = time.monotonic()
    time.sleep(args.seconds)
    seconds = time.monotonic() - began
    packets = proxy.packets[sent:]
    # PINGREQ and PINGRESP, and the agent's own probe, which asks to unsubscribe from what it never subscribed to.
    probes = sum(len(data) for _, _, data in packets if data[0] in (0xc0, 0xd0, 0xa2, 0xb0))
    other = sum(len(data) for _, _, data in packets) - probes
    limit = not is_sanitized()
    tell("idle, ten jobs: RssAnon", edge.status("RssAnon") / 1e6, "MB", 3 if limit else None)
    tell("idle, ten jobs: RSS", edge.status("VmRSS") / 1e6, "MB")
    tell("idle, ten jobs: threads", edge.status("Threads"), "")
    tell(f"idle, ten jobs, {seconds:.0f} s: CPU", (edge.cpu_seconds() - cpu) / seconds * 100, "%", 0.1 if limit else None)
    tell(f"idle, ten jobs, {seconds:.0f} s: written to disk", edge.written() - written, "bytes", 0)
    tell(f"idle, ten jobs, {seconds:.0f} s: keep-alive on the wire", probes, "bytes")
    tell(f"idle, ten jobs, {seconds:.0f} s: else on the wire", other, "bytes", 0)
    hand.close()


def large(world, args):
    job = Job(world, name="large", share=1, condition=(">=", args.samples + 10**9))
    with open(job.data, "wb", buffering=1 << 20) as file:
        for i in range(0, args.samples, 10000):
            file.write(b"".join(b"images/%08d.jpg %d\n" % (k, k % 10) for k in range(i, min(i + 10000, args.samples))))
    size = job.data.stat().st_size
    edge, hand, _ = begin(world, [], auto=False, dataset_check_on_arrival="true", dataset_round_max="1GiB",
                          dataset_status_period="100ms")
    small = edge.status("RssAnon")
    edge.stop()
    hand.jobs.append(job)
    hand.epoch += 1
    began = time.monotonic()
    edge.start().connected()
    hand.status(job.dataset, lambda s: s["samples"] == args.samples, "counted", patience=600)
    tell(f"{args.samples} samples ({size / 1e6:.0f} MB): first reading", time.monotonic() - began, "s")
    tell("  RssAnon while there", edge.status("RssAnon") / 1e6, "MB", 3)
    tell("  RssAnon more than without a file", (edge.status("RssAnon") - small) / 1e6, "MB")
    model = {"format": "bin", "url": "/m"}
    took, ready = [], []
    # From here on a round takes what was appended; the cursor stands at the end of what was there.
    job.extra = {}
    first = hand.topics.mark()
    hand.move(job, job.position, condition=(">=", 1))
    end = hand.topics.wait(lambda m: m.topic.endswith("/train/ready"), "the first round", first, 600).document["range"]["end"]
    number = 2
    hand.move(job, at(number, "Train", "Waiting"), trained={"round": 1, "models": [model], "cursor": end}, condition=(">=", 1000))
    for i in range(10):
        until(lambda: edge.metrics()["ilmare_edge_outbox_unsettled"] == 0, "settled")
        time.sleep(0.3)
        mark, began = hand.topics.mark(), time.monotonic()
        job.append(*(f"images/new-{i}-{k:05d}.jpg 1" for k in range(1000)))
        message = hand.topics.wait(lambda m: m.topic.endswith("/train/ready") and m.document["position"]["round"] == number, "ready", mark, 60)
        ready.append(message.at - began)
        assert message.document["range"]["to"] - message.document["range"]["from"] == 1000
        number += 1
        hand.move(job, at(number, "Train", "Waiting"),
                  trained={"round": number - 1, "models": [model], "cursor": message.document["range"]["end"]})
    tell("  1000 appended -> accounted, written and reported, p50", percentile(ready, 0.5) * 1000, "ms")
    tell("  1000 appended -> accounted, written and reported, max", max(ready) * 1000, "ms", 200)
    tell("  RssAnon at the end", edge.status("RssAnon") / 1e6, "MB", 3)
    edge.kill()
    began = time.monotonic()
    edge.start().connected()
    mark = hand.topics.mark()
    until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "restored")
    job.append("one more")
    hand.status(job.dataset, lambda s: s["samples"] == args.samples + 10001, "counted", mark, 60)
    tell("  killed and started again -> all counted", time.monotonic() - began, "s")
    hand.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=["arrival", "period", "idle", "large", []])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--samples", type=int, default=10_000_000)
    parser.add_argument("--repeats", type=int, default=200)
    args = parser.parse_args()
    for name in args.names or ["arrival", "period", "idle", "large"]:
        with World() as world:
            if name == "arrival":
                latency(world, args, name, 50, dataset_check_on_arrival="true")
            elif name == "period":
                latency(world, args, name, 1100)
            else:
                globals()[name](world, args)
    if over:
        print(f"over the limit: {', '.join(over)}")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
