"""What must be true of all that a cluster ever held (history.py), whatever was done to it: a stage's pod is made once, one at a time is alive, no
position moves backward, none is left over in the end."""

import collections

from agents import worker_name
from oracle import order

STAGE = {"train": "Train", "eval": "Eval"}
OVER = ("Succeeded", "Failed")
KEPT = 2  # a worker's pod stays until its job is so many rounds further


def suffix(kind, uid, number):
    return worker_name(kind, uid, number).rsplit("-", 1)[1]


def place(entry):
    number, stage, phase = entry
    return order({"round": number, "stage": stage, "phase": phase})


def check_alive(pods, counts):
    """At most one pod that trains or evaluates, and one that serves, for each job, at any time."""
    alive = collections.defaultdict(dict)
    for pod in pods:
        there = alive[pod.job, pod.kind == "inference"]
        if pod.gone or pod.phase in OVER:
            there.pop(pod.uid, None)
            continue
        others = [name for uid, name in there.items() if uid != pod.uid]
        counts.add("double", len(others) if pod.uid not in there else 0, f"{pod.name} is made while {others} is alive")
        there[pod.uid] = pod.name


def check_made(pods, jobs, counts):
    """Each stage that came as far had one pod, and there is no pod that no stage called for."""
    made = collections.defaultdict(set)
    for pod in pods:
        if pod.kind in STAGE:
            made[pod.job, pod.kind, pod.name.rsplit("-", 1)[1]].add(pod.uid)
    for (_, kind, name), uids in made.items():
        counts.add("double", len(uids) - 1, f"{len(uids)} {kind} pods {name} were made")
    called = {}
    for job in jobs:
        for number, stage, phase in job.entries:
            for kind in (k for k, s in STAGE.items() if s == stage and phase in ("Ready", "Starting", "Running", "Completed")):
                key = (job.name, kind, suffix(kind, job.uid, number))
                called[key] = called.get(key, False) or phase != "Ready"
    for key in set(made) - set(called):
        counts.add("double", 1, f"pod {key} was made, and its stage was never ready")
    for key in (k for k, has_pod in called.items() if has_pod and k not in made):
        counts.add("lost", 1, f"pod {key} was never made, and its stage went on")


def check_positions(jobs, counts):
    """As they are stored: no condition twice, none before an earlier one, and no version of a job behind the one before."""
    newest, double = {}, set()
    for job in jobs:
        if not job.entries:
            counts.add("backward", job.uid in newest, f"{job.name} has lost its conditions, it was at {newest.get(job.uid)}")
            continue
        for before, after in zip(job.entries, job.entries[1:]):
            if place(after) <= place(before) and (job.uid, before, after) not in double:
                double.add((job.uid, before, after))
                counts.add("double" if after == before else "backward", 1, f"{job.name}: {after} comes after {before}")
        last = job.entries[-1]
        if job.uid in newest and place(last) < place(newest[job.uid]):
            counts.add("backward", 1, f"{job.name}: from {newest[job.uid]} to {last}")
        newest[job.uid] = last


def check_leases(leases, counts):
    """Each time that another one leads, its epoch is above all before; and no epoch falls."""
    for before, after in zip(leases, leases[1:]):
        counts.add("backward", after.epoch < before.epoch, f"epoch {before.epoch}, then {after.epoch}")


def left_over(pods, jobs):
    """Of the pods that there are now: what should be gone, and what is missing, in words. jobs: the newest version of each."""
    said = []
    for job in jobs:
        number = job.entries[-1][0]
        kept = {f"{kind}-{suffix(kind, job.uid, n)}" for kind in STAGE for n in range(max(1, number - KEPT), number + 1)}
        mine = [p for p in pods if p.job == job.name]
        said += [f"{p.name} is of a round that is long over" for p in mine if p.kind in STAGE and not p.name.endswith(tuple(kept))]
        said += [f"{p.name} is still {p.phase}, {job.name} is at {job.entries[-1]}" for p in mine if p.kind in STAGE and p.phase not in OVER]
        serving = [(p.name, p.phase) for p in mine if p.kind == "inference"]
        if [phase for _, phase in serving] != ["Running"]:
            said.append(f"{job.name} should have one pod that serves: {serving}")
    known = {job.name for job in jobs}
    return said + [f"{p.name} is nobody's" for p in pods if p.job not in known]
