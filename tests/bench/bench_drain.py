#!/usr/bin/python3
"""Figures of a fleet that was cut off for long: devices with many jobs, each with a report that nothing has settled yet, reconnect at once. Until
all reports have arrived, until all are settled, and messages per second beside mosquitto_pub with payloads as large.

    ILMARE_BUILD=build/release tests/bench/bench_drain.py [--devices 5] [--jobs 1000] [--memory]

Real agents, broker and files. The jobs of a device share one dataset, and become ready when samples come while the broker is away: a train-ready
report each, which the cloud agent accepts (the job moves to Train/Ready, committed) and settles by its document. The jobs name a Secret that is
missing, so that no worker is started: what is measured is the way of the messages.
"""

import argparse
import contextlib
import json
import pathlib
import sqlite3
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

from agents import World, until  # noqa: E402
from bench_edge import over, tell  # noqa: E402

PATIENCE = 600


def thing(kind, name, spec):
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def write_objects(world, cloud, edges, jobs):
    parts = [thing("Model", "m", {"url": str(world.path / "m.bin"), "format": "bin"})]
    train = {"condition": {"operator": ">=", "threshold": 1, "metric": "num_of_samples"}}
    deploy = {"condition": {"operator": ">", "threshold": 0, "metric": "accuracy_delta"}}
    for edge in edges:
        data = world.path / f"{edge.node}.txt"
        data.touch()
        parts.append(thing("Dataset", edge.node, {"url": str(data), "format": "txt", "nodeName": edge.node}))
        template = {"spec": {"nodeName": edge.node, "containers": [{"name": "w", "command": ["/bin/true"]}]}}
        parts += [thing("IncrementalLearningJob", f"{edge.node}-{i}", {
            "initialModel": {"name": "m"}, "dataset": {"name": edge.node, "trainProb": 1}, "credentialName": "missing",
            "trainSpec": {"template": template, "trigger": train}, "evalSpec": {"template": template},
            "deploySpec": {"model": {"name": "m"}, "trigger": deploy, "template": template},
            "outputDir": str(world.path / "output" / f"{edge.node}-{i}")}) for i in range(jobs)]
    (world.path / "m.bin").write_text("first")
    for at in range(0, len(parts), 100):
        (cloud.manifests / f"{at}.yaml").write_text("---\n".join(json.dumps(each) + "\n" for each in parts[at:at + 100]))


def metrics(process):
    """Also of an agent whose loop is busy for longer than a request may take."""
    until(lambda: process.get("/metrics")[0] == 200, lambda: f"{process.name} answers", PATIENCE)
    return process.metrics()


def total(processes, name):
    return sum(metrics(process)[name] for process in processes)


class Reader:
    """What a subscriber gets that the broker knows already, also while it is away: begin(n) when the broker is back, end() when it has n messages."""

    def __init__(self, world, broker, name, topic):
        self.command = ["mosquitto_sub", *broker.reader(), "-V", "5", "-q", "1", "-c", "-x", "3600", "-i", name, "-t", topic, "-F", "%U"]
        self.times = world.path / f"{name}.times"
        subprocess.run([*self.command, "-E"], check=True)

    def begin(self, n):
        with open(self.times, "wb") as out:
            self.process = subprocess.Popen([*self.command, "-C", str(n)], stdout=out, stdin=subprocess.DEVNULL)

    def end(self):
        """Messages a second, from the first to the last one."""
        assert self.process.wait(PATIENCE) == 0
        times = [float(line) for line in self.times.read_text().split()]
        return (len(times) - 1) / (times[-1] - times[0])


def mosquitto_pub(world, broker, lines):
    """A process for each of {topic: file of lines}: seconds until a subscriber has all, and the rate at which they come to it."""
    reader = Reader(world, broker, "reader-of-lines", "bench/#")
    reader.begin(sum(len(file.read_text().splitlines()) for file in lines.values()))
    began, writers = time.monotonic(), []
    for topic, file in lines.items():
        with open(file, "rb") as stdin:
            writers.append(subprocess.Popen(["mosquitto_pub", *broker.writer(), "-V", "5", "-q", "1", "-l", "-t", topic], stdin=stdin))
    rate = reader.end()
    took = time.monotonic() - began
    for writer in writers:
        assert writer.wait() == 0
    return took, rate


def reports_of(world, edges):
    """From the stores of agents that have ended: {topic: file with the payloads of their reports, one a line}, and how many bytes they are."""
    files, size = {}, 0
    for edge in edges:
        with sqlite3.connect(f"file:{edge.database()}?mode=ro", uri=True) as store:
            payloads = [payload for payload, in store.execute("SELECT payload FROM report")]
        files[f"bench/{edge.node}"] = file = world.path / f"{edge.node}.payloads"
        file.write_text("".join(f"{payload}\n" for payload in payloads))
        size += sum(map(len, payloads))
    return files, size


class Meanwhile:
    """What the agents have used and said since then."""

    def __init__(self, processes):
        self.processes, self.began = processes, time.monotonic()
        self.before = [(process.cpu_seconds(), self.published(process)) for process in processes]

    @staticmethod
    def published(process):
        return metrics(process)["ilmare_mqtt_messages_out_total"]

    def tell(self, what):
        """The rate of messages."""
        took = time.monotonic() - self.began
        tell(what, took, "s")
        messages = 0
        for process, (cpu, published) in zip(self.processes, self.before):
            tell(f"  CPU of {process.name}", process.cpu_seconds() - cpu, "s")
            messages += self.published(process) - published
        tell("  messages published", messages, "")
        tell("  a second", messages / took, "/s")
        return messages / took


def settled(edges):
    return total(edges, "ilmare_edge_outbox_unsettled") == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--devices", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--memory", action="store_true", help="the cloud agent's state in memory: without the disk that its commits wait for")
    options = parser.parse_args()
    n = options.devices * options.jobs
    with contextlib.ExitStack() as ends, World() as world:
        broker = world.broker()
        edges = [world.edge(broker, start=False, node=f"edge-{i + 1}", outbox_retry_min=None, outbox_retry_max=None, dataset_status_period=None,
                            dataset_check_on_arrival="true")
                 for i in range(options.devices)]
        state = ends.enter_context(tempfile.TemporaryDirectory(prefix="ilmare-bench-", dir="/dev/shm")) if options.memory else world.path / "cloud.state"
        cloud = world.cloud(broker, start=False, local_state_dir=state)
        write_objects(world, cloud, edges, options.jobs)
        began = time.monotonic()
        for process in (cloud, *edges):
            process.start()
        until(lambda: total(edges, "ilmare_edge_jobs") == n, lambda: f"{n} jobs: {total(edges, 'ilmare_edge_jobs'):.0f}", PATIENCE, 0.1)
        tell(f"{n} jobs: from nothing until all devices hold theirs", time.monotonic() - began, "s")
        reader = Reader(world, broker, "reader-of-reports", "ilmare/v1/ns/+/job/+/node/+/train/ready")
        broker.stop()
        began = time.monotonic()
        for edge in edges:
            (world.path / f"{edge.node}.txt").write_text("".join(f"sample {i}\n" for i in range(10)))
        until(lambda: total(edges, "ilmare_edge_outbox_unsettled") == n, lambda: f"{n} reports: {total(edges, 'ilmare_edge_outbox_unsettled'):.0f}",
              PATIENCE, 0.1)
        tell("the same, cut off: from ten new samples until each has its report", time.monotonic() - began, "s")

        # The devices alone: all reports out.
        cloud.stop()
        broker.start()
        drain = Meanwhile(edges)
        reader.begin(n)
        rate = reader.end()
        drain.tell("the broker is back, the cloud agent is not: until a subscriber has all reports")
        tell("  reports a second, from the first to the last", rate, "/s")

        # Cut off again, then all of them at once.
        broker.stop()
        cloud.start()
        broker.start()
        whole = Meanwhile([*edges, cloud])
        until(lambda: total([cloud], "ilmare_cloud_reports_total") >= n, "all reports have arrived", PATIENCE, 0.05)
        tell("broker and cloud agent are back: until it has all reports", time.monotonic() - whole.began, "s")
        until(lambda: settled(edges), lambda: f"{total(edges, 'ilmare_edge_outbox_unsettled'):.0f} are left", PATIENCE, 0.05)
        whole.tell("until all are settled")
        tell("private memory of an edge agent", edges[0].status("RssAnon") / 1e6, "MB")
        tell("private memory of the cloud agent", cloud.status("RssAnon") / 1e6, "MB")

        for process in (*edges, cloud):
            process.stop()
        lines, size = reports_of(world, edges)
        tell("a report's payload", size / n, "B")
        took, theirs = mosquitto_pub(world, broker, lines)
        tell(f"mosquitto_pub, {options.devices} at a time, the same payloads: until a subscriber has them", took, "s")
        tell("  a second, from the first to the last", theirs, "/s")
        tell("the devices' reports beside it", rate / theirs * 100, "%")
    sys.exit(1 if over else 0)


if __name__ == "__main__":
    main()
