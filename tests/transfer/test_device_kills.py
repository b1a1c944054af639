#!/usr/bin/python3
"""kill -9 of an edge agent between any two requests to the store, in a round of which everything is there: dataset, models, outputs.

In each of the places of a round at which the agent is at work (until it says ready for training, for evaluation, until the model is deployed) it is
killed when the store has done the first request of its life, but before it knows; then when the second is done; and so on, until a life is long enough
and the round goes on. After each kill the store is looked at: what is there is whole.
"""

import json
import shutil
import threading

from test_device import Device, main
from hand import sha256

ROUND = 8  # the one with kills: from the seventh on old rounds are removed
KEPT = range(ROUND - 5, ROUND + 1)


class Kills(Device):
    def where(self):
        return self.job.position["stage"], self.job.position["phase"]

    def is_last(self, method, path):
        """Called for each request: does the agent's life end with it?"""
        if not self.living or (method == "HEAD" and path.endswith("samples.txt")):
            return False  # looks at the dataset go on all the time
        place = self.where()
        self.requests[place] = self.requests.get(place, 0) + 1
        self.living = self.requests[place] <= self.kills.get(place, 0)
        return not self.living

    def kill(self):
        place = self.where()
        self.kills[place] = self.kills.get(place, 0) + 1
        self.edge.kill()
        self.forget()
        self.wrong += self.halves()
        with self.hand.moved:
            self.killed.set()
            self.hand.moved.notify_all()

    def forget(self):
        """The copy of the last round, which the eval data are made of, so that each life has as much to do as the one before."""
        for copy in (self.edge.state / "remote" / "outputs").glob(f"*/data/train/{ROUND - 1}"):
            shutil.rmtree(copy)

    def halves(self):
        """What is told at the store, and is not there whole: rounds by their manifest, versions by their record, the model that serves. An old round
        is no more looked for, and may be half removed."""
        digests = {}
        for path in (self.job.output / "data" / "train").glob("*/manifest.json"):
            if int(path.parent.name) not in KEPT:
                continue
            digests.update({path.with_name(name): told["sha256"] for name, told in json.loads(path.read_text())["files"].items()})
        for path in (self.job.output / "deployed").glob("*/version.json"):
            model = json.loads(path.read_text())["model"]
            digests[path.with_name(model["name"])] = model["sha256"]
        wrong = [str(path) for path, digest in digests.items() if not path.exists() or sha256(path) != digest]
        return wrong + [f"served: {self.job.deploy}"] * (self.job.deploy.read_bytes() not in self.models())

    def models(self):
        return [path.read_bytes() for path in self.job.output.glob("train/*/model.bin")]

    def live(self, done):
        """One life after the other until done()."""
        while not done():
            self.requests.clear()
            self.killed.clear()
            self.living = True
            self.edge.start(wait=False)
            self.hand.wait(lambda: self.killed.is_set() or done(), "it is killed, or the round is over")

    def round_with_kills(self, how):
        self.living, self.killed, self.kills, self.requests, self.wrong = False, threading.Event(), {}, {}, []
        store = self.gateway()
        proxy = self.proxy(store.port)
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">=", 8), edge={"deploy_kept": 1, "dataset_rounds_kept": 1})
        proxy.only, proxy.always = self.is_last, (how, self.kill)
        written = []

        def append(number):
            written.extend(f"images/{number}-{i}.png {i}" for i in range(10))
            job.append(*written[-10:])
        for number in range(1, ROUND):
            append(number)
            hand.wait_round(job, number + 1)
        edge.kill()
        self.forget()
        append(ROUND)
        self.live(lambda: job.position["round"] > ROUND)
        print(f"killed {self.kills}", flush=True)
        self.check(job, written)

    def check(self, job, written):
        self.assertEqual(self.wrong, [])
        self.assertGreater(sum(self.kills.values()), 30)
        steps = [entry[:3] for entry in job.accepted]
        self.assertEqual(len(steps), len(set(steps)))
        self.assertEqual({path.name: path.read_bytes() for path in (job.output / "deployed" / str(ROUND)).iterdir()}.keys(), {"model.bin", "version.json"})
        self.assertEqual(sha256(job.deploy), job.accepted[-1][3]["sha256"])
        self.assertEqual(self.left(job.output), sorted(
            [f"data/eval/{n}/{name}" for n in KEPT for name in ("data.txt", "dataIndex.txt")] +
            [f"data/train/{n}/{name}" for n in KEPT for name in ("data.txt", "dataIndex.txt", "eval.txt", "manifest.json")] +
            [f"deployed/0/{name}" for name in ("deploy.bin", "version.json")] + [f"deployed/{ROUND}/{name}" for name in ("model.bin", "version.json")] +
            [f"train/{n}/model.bin" for n in range(1, ROUND + 1)]))
        # Each sample once, in the round that it was there for; and the eval data are those of the window.
        evals = []
        for n in KEPT:
            self.assertEqual(sorted(job.samples(n) + job.samples(n, "eval")), sorted(written[10 * n - 10:10 * n]))
            evals += job.samples(n, "eval")
        self.assertEqual((job.output / "data" / "eval" / str(ROUND) / "data.txt").read_text().splitlines(), evals)

    def test_before_a_request(self):
        self.round_with_kills("instead")

    def test_after_a_request(self):
        self.round_with_kills("done")


if __name__ == "__main__":
    main()
