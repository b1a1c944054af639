"""What must be true of a run, whatever was done to it: nothing lost, nothing twice, nothing backward.

Judged from what is left: the samples that were fed, the folders of the rounds on the device's disk, the workers that ran, the served model,
and each document that was on the state topic.
"""

import json

from agents import worker_name

STAGES, PHASES = ("Train", "Eval", "Deploy"), ("Waiting", "Ready", "Starting", "Running", "Completed")


def order(document):
    """A place in the order of positions; a failure of any stage ends its round."""
    if document["phase"] == "Failed":
        return document["round"], len(STAGES), 0
    return document["round"], STAGES.index(document["stage"]), PHASES.index(document["phase"])


def stamp(document):
    return (document["stamp"]["epoch"], document["stamp"]["gen"]) if document else (0, 0)


def newest(states):
    return max(states, key=stamp)


BAD = ("lost", "double", "backward", "left")


class Counts:
    """left: pods that should be gone."""

    def __init__(self):
        self.lost = self.double = self.backward = self.left = 0
        self.says = []

    def add(self, name, n, text):
        if n:
            setattr(self, name, getattr(self, name) + n)
            self.says.append(f"{name}: {text}")


def manifests(folder):
    """{round: its manifest}, of the rounds that are on the disk."""
    found = {}
    for path in sorted((folder / "output" / "data" / "train").glob("[0-9]*/manifest.json")):
        found[int(path.parent.name)] = json.loads(path.read_text())
    return found


def covered(folder):
    """Samples up to which rounds have taken them: the end of the last one."""
    rounds = manifests(folder)
    return rounds[max(rounds)]["to"] if rounds else 0


def trained(states):
    """Rounds whose training has ended well, and those where it has failed or come to nothing, as far as the state topic told."""
    well, failed = set(), set()
    for document in states:
        ended = document.get("ended") or {}
        if ended.get("stage") == "Train":
            (well if ended["phase"] == "Completed" else failed).add(ended["round"])
        if document["stage"] == "Eval" or (document["stage"] == "Deploy" and ended.get("round") == document["round"]):
            well.add(document["round"])
        elif document["stage"] == "Deploy":
            failed.add(document["round"])  # a rollback has ended it before its training was over
    return well, failed


def check_chain(folder, states, fed, counts):
    """Rounds follow each other: each begins where the one before ended, or where it began if its training failed."""
    rounds = manifests(folder)
    well, failed = trained(states)
    at, before = 0, None
    for number in sorted(rounds):
        m = rounds[number]
        if m["from"] != at and before is not None and m["from"] == rounds[before]["from"]:
            at = m["from"]
            if before in well:
                counts.add("double", rounds[before]["to"] - at, f"round {number} takes samples of round {before}, which was trained on: {at}…")
            elif before not in failed:
                counts.says.append(f"note: round {before} gave its samples back; that it failed was not seen")
        elif before is not None and before in failed and before not in well:
            counts.add("lost", at - rounds[before]["from"], f"round {before} failed and round {number} does not take its samples")
        if m["from"] > at:
            counts.add("lost", m["from"] - at, f"round {number} begins at {m['from']}, the one before ended at {at}")
        elif m["from"] < at:
            counts.add("double", at - m["from"], f"round {number} begins at {m['from']}, the one before ended at {at}")
        at, before = m["to"], number
    counts.add("lost", max(0, fed - at), f"no round has taken samples {at} to {fed}")


def check_files(whole, counts):
    """Each round's files hold just the samples that its manifest says."""
    for number, m in manifests(whole.folder).items():
        folder = whole.folder / "output" / "data" / "train" / str(number)
        lines = [line for name in ("data.txt", "eval.txt") for line in (folder / name).read_text().splitlines()]
        wanted = {f"sample {i}" for i in range(m["from"], m["to"])}
        counts.add("lost", len(wanted - set(lines)), f"round {number} lacks {sorted(wanted - set(lines))[:3]}")
        counts.add("double", len(lines) - len(set(lines)) + len(set(lines) - wanted), f"round {number} holds more than its samples")


def check_order(states, counts):
    """In the order of their stamps."""
    last = None
    for document in sorted(states, key=stamp):
        if last is not None and order(document) < order(last):
            counts.add("backward", 1, f"{position(last)} at {last['ts']}, then {position(document)} at {document['ts']}")
        last = document


def position(document):
    return f"{document['round']}/{document['stage']}/{document['phase']}"


def check_workers(whole, states, counts):
    """Each worker ran once; the served model is that of the round that was deployed last."""
    started, last = whole.started(), newest(states)
    counts.add("double", len(started) - len(set(started)), f"workers that ran twice: {sorted(n for n in set(started) if started.count(n) > 1)[:3]}")
    number = (last.get("deployed") or {}).get("round")
    model = model_of(last["job"]["uid"], number, gone_back(whole.folder, states))
    served = (whole.folder / "models" / "deploy.bin").read_text()
    counts.add("lost", served != model, f"served is {served!r}, deployed last was {model!r}, of round {number}")


def gone_back(folder, states):
    """{round: the round whose model it went back to}, as the state topic and the versions on the disk tell."""
    told = [(d["deployed"]["round"], d["deployed"]["of"]) for d in states if "of" in (d.get("deployed") or {})]
    kept = [json.loads(path.read_text()) for path in (folder / "output" / "deployed").glob("[0-9]*/version.json")]
    return dict(told + [(v["round"], v["of"]) for v in kept if "of" in v])


def model_of(uid, number, back):
    """What a round's deployment put in place: what its training made, or, of a rollback, what that earlier round had put there."""
    while number in back:
        number = back[number]
    return worker_name("train", uid, number) if number else "deploy"


def check_rollbacks(whole, states, counts):
    """Each wish counts once at most, and nothing else goes back."""
    back = list(gone_back(whole.folder, states).values())
    for of in sorted(set(back)):
        n, asked = back.count(of), whole.wishes.count(of)
        counts.add("double", max(0, n - asked), f"gone back to round {of} {n} times, asked for {asked} times")
