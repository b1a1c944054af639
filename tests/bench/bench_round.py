#!/usr/bin/python3
"""Figures of whole rounds, both agents and a broker, with workers that only report: CPU and bytes a round, a post's way to the state topic,
memory and CPU at rest.

    ILMARE_BUILD=build/release tests/bench/bench_round.py [--rounds 60] [--seconds 60]

Each line: name, value, unit, and the limit that it has to keep. Exit status 1 if one is over its limit.
"""

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World  # noqa: E402
from bench_edge import Proxy, over, percentile, tell  # noqa: E402
from whole import Whole  # noqa: E402


def cpu_ms(process):
    """To the nanosecond, unlike the ticks of /proc/PID/stat."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e6


def metered(world, make_wire):
    """A broker, both agents and a job at its first position; what the device says and hears goes through make_wire(port of the broker). As by
    default, but for what makes a test quick: when samples are looked at, and how soon one connects."""
    broker = world.broker()
    edge = world.edge(broker, start=False, dataset_check_on_arrival="true", dataset_status_period="5s", outbox_retry_min="2s", outbox_retry_max="10m")
    wire = make_wire(broker.port)
    edge.command = [c.replace(str(broker.port), str(wire.port)) for c in edge.command]
    cloud = world.cloud(broker, edge, start=False)
    whole = Whole(world, broker, edge, cloud)
    edge.start()
    cloud.start()
    whole.topics.wait(whole.at(1, "Train", "Waiting"), "the first position")
    return edge, cloud, whole, wire


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rounds", type=int, default=60)
    parser.add_argument("--seconds", type=int, default=60)
    options = parser.parse_args()
    with World() as world:
        edge, cloud, whole, wire = metered(world, Proxy)
        costs = []
        for number in range(1, options.rounds + 1):
            before = (cpu_ms(edge), cpu_ms(cloud), sum(wire.bytes))
            whole.feed()
            whole.topics.wait(whole.over(number), f"round {number} is over")
            costs.append([now - then for now, then in zip((cpu_ms(edge), cpu_ms(cloud), sum(wire.bytes)), before)])
        steady = costs[1:]
        tell("one round, CPU of the edge agent, median", percentile([c[0] for c in steady], 0.5), "ms", 5)
        tell("one round, CPU of the cloud agent, median", percentile([c[1] for c in steady], 0.5), "ms", 5)
        tell("one round, bytes on the device's wire, median", percentile([c[2] for c in steady], 0.5), "B", 15000)
        tell("the same, round 2", costs[1][2], "B")
        tell(f"the same, round {options.rounds}", costs[-1][2], "B")
        posts = [line.split() for line in (whole.folder / "posts").read_text().splitlines()]
        delays = []
        for kind, at in posts:
            stage = kind.capitalize()
            later = [m for m in whole.topics.messages if m.at >= float(at) and whole.is_state(m) and (m.document.get("ended") or {}).get("stage") == stage]
            if later:
                delays.append((later[0].at - float(at)) * 1000)
        tell("worker's post -> position advanced on the state topic, p50", percentile(delays, 0.5), "ms", 20)
        tell("the same, p99", percentile(delays, 0.99), "ms")
        began = (cpu_ms(edge), cpu_ms(cloud), edge.written(), time.monotonic())
        time.sleep(options.seconds)  # what is measured is that nothing happens
        spent = time.monotonic() - began[3]
        tell("at rest, CPU of the edge agent", (cpu_ms(edge) - began[0]) / spent / 10, "%", 0.1)
        tell("at rest, CPU of the cloud agent", (cpu_ms(cloud) - began[1]) / spent / 10, "%", 0.1)
        tell("at rest, written to disk by the edge agent", edge.written() - began[2], "B", 0)
        for name, process, limit in (("edge", edge, 3), ("cloud", cloud, 5)):
            tell(f"after {options.rounds} rounds, private memory of the {name} agent", process.status("RssAnon") / 1e6, "MB", limit)
            tell(f"after {options.rounds} rounds, resident memory of the {name} agent", process.status("VmRSS") / 1e6, "MB")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
