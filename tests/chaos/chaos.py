#!/usr/bin/python3
"""Real agents and a real broker while everything goes wrong that can: links cut (one way or both, without a word), the broker and both agents
killed with -9, the broker's memory lost, the device's store put back to an older copy, its clock moved by years, the broker's ACL refusing
the device, workers failing; and now and then somebody asks for an earlier model. In the end all is healed, and an oracle counts what was lost, what happened twice, and what went backward.

    tests/chaos/chaos.py [--seed N] [--seconds 240]

ILMARE_BUILD: the build to try (build/debug). The same seed makes the same faults at the same times. The last line has the counts. With the cloud
agent on a Kubernetes API server, which has faults of its own: kube_chaos.py.
"""

import argparse
import contextlib
import pathlib
import random
import shutil
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "integration"))

import oracle  # noqa: E402
from agents import Edge, World, build_dir, free_port, until  # noqa: E402
from hosts import DIRECTIONS, Namespace, Relay, can_have_namespaces  # noqa: E402
from whole import Whole  # noqa: E402

DEVICES = 2
LONGEST = 120  # seconds that healing may take
PORT = 9100    # of the workers on each device: they find it at the same address

# What may happen, and how often beside the others. Each is a method of Chaos.
FAULTS = {"cut": 6, "kill_edge": 3, "kill_cloud": 3, "kill_broker": 2, "broker_forgets": 1, "old_store": 1, "clock": 2, "refuse": 1, "workers": 3,
          "roll_back": 2}


def schedule(seed, seconds, faults):
    """[(second, device, fault, random number)], the whole run; and samples for a device: fault "feed"."""
    dice = random.Random(seed)
    events, at = [], 1.0
    names, weights = zip(*faults.items())
    while at < seconds:
        events.append((at, dice.randrange(DEVICES), dice.choices(names, weights)[0], dice.random()))
        at += dice.expovariate(1 / 1.2)
    for device in range(DEVICES):
        at = 0.0
        while at < seconds:
            events.append((at, device, "feed", dice.random()))
            at += dice.expovariate(1 / 1.5)
    return sorted(events)


class Device(Edge):
    """An edge agent in its place, with a clock of its own."""

    def __init__(self, world, broker, place, number, single):
        self.place = place
        self.clock = world.path / f"clock-{number}"
        self.clock.write_text("+0")
        faketime = next(iter(pathlib.Path("/usr/lib").glob("*-linux-gnu/faketime/libfaketimeMT.so.1")))
        env = {"LD_PRELOAD": faketime, "FAKETIME_TIMESTAMP_FILE": self.clock, "FAKETIME_DONT_FAKE_MONOTONIC": 1, "FAKETIME_CACHE_DURATION": 1,
               "ASAN_OPTIONS": "verify_asan_link_order=0"}
        node = f"edge-{number + 1}"
        super().__init__(world, broker, node=node, env=env, prefix=place.prefix, mqtt_brokers=place.broker(broker.port), mqtt_insecure="true",
                         mqtt_username=node, mqtt_keep_alive="5s", workers_result_grace="2s", workers_port=single or PORT)
        self.port = single or PORT

    def get(self, path):
        done = subprocess.run([*self.place.prefix, "curl", "-s", "-m", "5", "-w", "\n%{http_code}", f"http://127.0.0.1:{self.port}{path}"],
                              capture_output=True, text=True)
        body, _, status = done.stdout.rpartition("\n")
        if done.returncode != 0:
            raise ConnectionError(f"curl: {done.returncode}")
        return int(status), body


class Job(Whole):
    """Remembers which rounds it was asked to go back to; wish is the last of them."""

    def __init__(self, *args, **more):
        self.wishes = []
        super().__init__(*args, **more)

    @property
    def wish(self):
        return self.wishes[-1] if self.wishes else None

    def ask(self, of):
        """In the manifest, where the same value again is no new wish: False then. Asked for in vain if another one comes before it is taken."""
        if of == self.wish:
            return False
        self.wishes.append(of)
        self.send_wish(str(of))
        return True

    def send_wish(self, of):
        def change(objects):
            objects[f"IncrementalLearningJob/{self.name}"]["metadata"]["annotations"] = {"ilmare/rollback-to": of}
        self.write(change)


class Chaos:
    """With the local backend. What another one does differently: FAULTS, make_clouds(), make_job(), kill_cloud(), and more to heal and to judge."""

    FAULTS, name = FAULTS, "chaos"

    def __init__(self, world, places, ends):
        """ends: an ExitStack that is unwound before the world ends."""
        self.world, self.places, self.ends, self.began, self.done, self.states = world, places, ends, time.monotonic(), 0, {}
        self.healing = []  # (second, what to do), in any order
        self.acl = world.path / "acl"
        self.allow(range(len(places)))
        self.broker = world.broker(persist="always", config=f"acl_file {self.acl}", also=[p.host for p in places if isinstance(p, Namespace)])
        single = None if isinstance(places[0], Namespace) else free_port()
        self.edges = [world.add(Device(world, self.broker, place, number, single)) for number, place in enumerate(self.places)]
        self.clouds = self.make_clouds(f"http://127.0.0.1:{single or PORT}")
        self.jobs = [self.make_job(edge, name=f"job-{edge.node}", data_name=f"data-{edge.node}", folder=f"job-{edge.node}", prefix=edge.place.prefix)
                     for edge in self.edges]
        self.watch()
        for process in (*self.edges, *self.clouds):
            process.start()

    def make_clouds(self, lc_server):
        return [self.world.cloud(self.broker, start=False, lc_server=lc_server, mqtt_keep_alive="5s")]

    def make_job(self, edge, **names):
        return Job(self.world, self.broker, edge, self.clouds[0], never=True, **names)

    def say(self, text):
        print(f"{time.monotonic() - self.began:7.1f}s  {text}", flush=True)

    # ---- what was told ----

    def watch(self):
        self.topics = self.world.topics(self.broker, "ilmare/v1/ns/+/job/+/state", listener=self.heard)

    def heard(self, message):
        if message.document is not None:
            self.states.setdefault(message.topic.split("/")[-2], []).append(message.document)

    def at(self, job):
        """Where it stands; nowhere while the newest that was told is not what the topic holds: a cloud agent that was stopped says what it had
        begun to say when it goes on, and the one that leads says it anew."""
        told = self.states.get(job.name, [{}])
        return told[-1] if told[-1] == oracle.newest(told) else {}

    # ---- faults ----

    def after(self, seconds, what):
        self.healing.append((time.monotonic() - self.began + seconds, what))

    def feed(self, number, dice):
        self.jobs[number].feed(1 + int(dice * 12))

    def cut(self, number, dice):
        direction, seconds = DIRECTIONS[int(dice * 3)], 0.3 + (dice * 997 % 1) ** 3 * 20
        self.say(f"{self.edges[number].node}: link cut ({direction}) for {seconds:.1f} s")
        self.places[number].cut(direction)
        self.after(seconds, self.places[number].heal)

    def kill(self, process, seconds):
        if not process.alive():
            return False
        process.kill()
        self.after(seconds, lambda: process.alive() or process.start(wait=False))
        return True

    def kill_edge(self, number, dice):
        if self.kill(self.edges[number], dice * 4):
            self.say(f"{self.edges[number].node}: killed, away for {dice * 4:.1f} s")

    def kill_cloud(self, _, dice):
        if self.kill(self.clouds[0], dice * 4):
            self.say(f"cloud agent: killed, away for {dice * 4:.1f} s")

    def kill_broker(self, _, dice, forget=False):
        if not self.broker.alive():
            return
        self.say(f"broker: killed{', all it knew lost' if forget else ''}, away for {dice * 3:.1f} s")
        self.broker.kill()
        self.topics.end()
        if forget:
            self.broker.forget()
        self.after(dice * 3, self.broker_again)

    def broker_forgets(self, number, dice):
        self.kill_broker(number, dice, forget=True)

    def broker_again(self):
        if not self.broker.alive():
            self.broker.start()
            self.watch()

    def old_store(self, number, dice):
        """The first time a copy is made; then it is put back."""
        edge = self.edges[number]
        old = self.world.path / f"{edge.node}.old"
        if not edge.alive():
            return
        edge.kill()
        if old.exists():
            self.say(f"{edge.node}: killed, its store as it was {time.monotonic() - self.began - float((old / 'at').read_text()):.1f} s ago")
            shutil.rmtree(edge.state)
            (old / "at").unlink()
            old.rename(edge.state)
        else:
            self.say(f"{edge.node}: killed, its store copied")
            shutil.copytree(edge.state, old)
            (old / "at").write_text(str(time.monotonic() - self.began))
        self.after(dice, lambda: edge.alive() or edge.start(wait=False))

    def clock(self, number, dice):
        days = (0, -20000, 365, -365, 3650)[int(dice * 5)]
        self.say(f"{self.edges[number].node}: clock moved by {days} days")
        new = self.edges[number].clock.with_suffix(".new")
        new.write_text(f"{days:+d}d")
        new.rename(self.edges[number].clock)

    def allow(self, numbers):
        """The broker's ACL: everything for all, but for a device that is not among these nothing."""
        lines = ["topic readwrite #"]
        for number, _ in enumerate(self.places):
            lines += [f"user edge-{number + 1}"] + ["topic readwrite #"] * (number in numbers)
        self.acl.write_text("\n".join(lines) + "\n")

    def refuse(self, number, dice):
        self.say(f"broker: refuses {self.edges[number].node} all topics for {dice * 5:.1f} s")
        self.allow([n for n, _ in enumerate(self.places) if n != number])
        self.reload()
        self.after(dice * 5, lambda: (self.allow(range(len(self.places))), self.reload()))

    def reload(self):
        if self.broker.alive():
            self.broker.process.send_signal(1)

    def workers(self, number, dice):
        stage, how = ("train", "eval")[int(dice * 2)], ("fail", "silent", "hasty")[int(dice * 97 % 3)]
        self.say(f"{self.edges[number].node}: {stage} workers {how} for {dice * 3:.1f} s")
        self.jobs[number].tell(**{stage: how})
        self.after(dice * 3, self.jobs[number].tell)

    def roll_back(self, number, dice):
        """To a version that serves or does not, or to a round that never deployed anything."""
        job = self.jobs[number]
        kept = oracle.newest(self.states.get(job.name, [{}])).get("versions") or []
        of = [*kept, 1000][int(dice * (len(kept) + 1))]
        if job.ask(of):
            self.say(f"{job.name}: asked to go back to round {of}")

    # ---- the run ----

    def sleep_until(self, second):
        """And heal what is due meanwhile."""
        while True:
            now = time.monotonic() - self.began
            for due in [h for h in self.healing if h[0] <= now]:
                self.healing.remove(due)
                due[1]()
            if now >= second:
                return
            time.sleep(min([second] + [h[0] for h in self.healing]) - now if self.healing else second - now)

    def run(self, events):
        self.began = time.monotonic()
        for at, number, fault, dice in events:
            self.sleep_until(at)
            if number < len(self.edges):
                getattr(self, fault)(number, dice)
                self.done += fault != "feed"

    def heal(self):
        self.say("all is healed")
        self.healing.sort(key=lambda h: h[0])
        for _, what in self.healing:
            what()
        self.healing.clear()
        for job in self.jobs:
            job.tell()
        for job in self.jobs:
            job.feed()

    def in_step(self, job, edge):
        at = self.at(job)
        return (oracle.covered(job.folder) == job.fed and at.get("stage") == "Train" and at["phase"] == "Waiting" and edge.is_linked()
                and edge.metrics()["ilmare_edge_outbox_unsettled"] == 0)

    def settle(self):
        for job, edge in zip(self.jobs, self.edges):
            until(lambda job=job, edge=edge: self.in_step(job, edge),
                  lambda job=job: f"{job.name} is in step: {oracle.covered(job.folder)} of {job.fed} samples taken, it stands at {self.at(job)}",
                  LONGEST, 0.1)
            self.say(f"{job.name} is in step")
        for job, edge in zip(self.jobs, self.edges):
            self.go_back(job, edge)

    def go_back(self, job, edge):
        """With nothing in the way a wish is done: what serves is another model then, and the job goes on."""
        state = oracle.newest(self.states[job.name])
        back = oracle.gone_back(job.folder, self.states[job.name])
        served, *others = [oracle.model_of(state["job"]["uid"], of, back) for of in ((state.get("deployed") or {}).get("round"), *(state.get("versions") or []))]
        wanted = [of for of, model in zip(state.get("versions") or [], others) if model != served and of != job.wish]
        if wanted and job.ask(wanted[-1]):
            until(lambda: (oracle.newest(self.states[job.name]).get("deployed") or {}).get("of") == wanted[-1] and self.in_step(job, edge),
                  lambda: f"{job.name} goes back to round {wanted[-1]}: it stands at {oracle.newest(self.states[job.name])}", LONGEST, 0.1)
            self.say(f"{job.name} has gone back to round {wanted[-1]}")

    def judge(self):
        counts = oracle.Counts()
        for job in self.jobs:
            states = self.states[job.name]
            oracle.check_chain(job.folder, states, job.fed, counts)
            oracle.check_files(job, counts)
            oracle.check_order(states, counts)
            oracle.check_workers(job, states, counts)
            oracle.check_rollbacks(job, states, counts)
        return counts


def make_places():
    """One at a time, so that each is closed even if the next cannot be made."""
    if can_have_namespaces():
        yield from (Namespace(number) for number in range(DEVICES))
    else:
        print("no network namespaces here: one device, behind a proxy", flush=True)
        yield Relay(0)


def main(kind=Chaos, seconds=240):
    """kind: a Chaos."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=seconds)
    options = parser.parse_args()
    again = f"replay: ILMARE_BUILD={build_dir()} {sys.argv[0]} --seed {options.seed} --seconds {options.seconds:g}"
    with contextlib.ExitStack() as places, World() as world, contextlib.ExitStack() as ends:
        try:
            chaos = kind(world, [places.enter_context(contextlib.closing(place)) for place in make_places()], ends)
            chaos.run(schedule(options.seed, options.seconds, kind.FAULTS))
            chaos.heal()
            chaos.settle()
            counts = chaos.judge()
            for line in counts.says:
                print(line)
            bad = any(getattr(counts, name) for name in oracle.BAD)
            rounds = sum(len(oracle.manifests(job.folder)) for job in chaos.jobs)
            samples = sum(job.fed for job in chaos.jobs)
            if bad:
                world.print_logs()
                print(again)
            print(f"{chaos.name}: {'failed' if bad else 'ok'} seed={options.seed} seconds={options.seconds:g} faults={chaos.done} rounds={rounds} "
                  f"samples={samples} {' '.join(f'{name}={getattr(counts, name)}' for name in oracle.BAD)}", flush=True)
        except BaseException:
            print(again, flush=True)
            raise
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
