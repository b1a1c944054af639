#!/usr/bin/python3
"""An edge agent that is killed at any moment, or whose store is lost, old, damaged or somebody else's: each sample is used exactly once, no round's
folder is written twice, and the rounds go on."""

import os
import random
import shutil
import sqlite3
import threading
import time

from case import Case, main
from hand import sha256, tree


class Crash(Case):
    def begin(self, edge=None, **more):
        self.broker = self.world.broker()
        job = self.job(**more)
        agent = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", **(edge or {}))
        hand = self.hand(self.broker, agent, job)
        return job, agent, hand

    def watch_folders(self, job, hand, seen):
        """Folders of rounds, as they were when first reported."""
        for number, stage, what, _ in list(job.accepted):
            if (stage, what) == ("train", "ready") and number not in seen:
                seen[number] = tree(job.folder(number))

    def check(self, job, hand, samples, seen):
        self.assertEqual(job.used(), {sample: 1 for sample in samples})
        for number, files in seen.items():
            self.assertEqual(tree(job.folder(number)), files, f"the folder of round {number} has changed")
        # Nothing of an attempt is left over.
        left = [p.name for p in (job.output / "data" / "train").iterdir() if p.name.startswith(".")]
        self.assertEqual(left, [])
        # Every accepted step once, and each training that completed has the range of its folder.
        steps = [entry[:3] for entry in job.accepted]
        self.assertEqual(len(steps), len(set(steps)))
        self.assertEqual(job.deployed["sha256"], sha256(job.deploy))

    def test_killed_at_random_moments(self):
        """Feeds a few samples at a time while the agent is killed every few milliseconds of its life."""
        seed = int(os.environ.get("ILMARE_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}; ILMARE_TEST_SEED={seed} repeats the moments", flush=True)
        dice = random.Random(seed)
        job, edge, hand = self.begin(hot=dice.random() < 0.3)
        job.better = lambda number: number % 3 != 0
        samples, seen = [], {}
        for number in range(1, 9):
            fresh = [f"round {number} sample {i}" for i in range(dice.randrange(2, 12))]
            samples += fresh
            job.append(*fresh)
            kills = 0
            while job.position["round"] <= number and kills < 12:
                edge.start(wait=False)
                # From before it has opened its store to after a whole round.
                time.sleep(dice.choice((0.005, 0.02, 0.05, 0.1, 0.2, 0.35)) * dice.random() * 2)
                edge.kill()
                kills += 1
                self.watch_folders(job, hand, seen)
            edge.start(wait=False)
            hand.wait_round(job, number + 1)
            self.watch_folders(job, hand, seen)
            edge.kill()
        self.check(job, hand, samples, seen)
        self.assertEqual([status for _, status in hand.answers if status not in (200, 409)], [])

    def test_killed_between_all_steps(self):
        """Each commit, rename and publication of a round is a place to die: killed n milliseconds after its start, n growing."""
        job, edge, hand = self.begin()
        samples, seen = [], {}
        step = 0.004
        for number in range(1, 4):
            fresh = [f"round {number} sample {i}" for i in range(5)]
            samples += fresh
            job.append(*fresh)
            for n in range(1, 40):
                if job.position["round"] > number:
                    break
                edge.start(wait=False)
                time.sleep(step * n)
                edge.kill()
            edge.start(wait=False)
            hand.wait_round(job, number + 1)
            self.watch_folders(job, hand, seen)
            edge.kill()
        self.check(job, hand, samples, seen)


class Store(Case):
    """What happens to the store between two lives of the agent."""

    def rounds(self, harm, begin_at, job_options=None):
        """Two good rounds, then harm(edge) at a position of the third, then two more."""
        broker = self.world.broker()
        job = self.job(**(job_options or {}))
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        samples = []

        def feed(number):
            fresh = [f"round {number} sample {i}" for i in range(10)]
            samples.extend(fresh)
            job.append(*fresh)

        old = self.world.path / "old"
        for number in (1, 2):
            feed(number)
            hand.wait_round(job, number + 1)
            if number == 1:
                edge.stop()
                shutil.copytree(edge.state, old)
                edge.start()
        work, held = hand.work, threading.Event()
        hand.work = lambda *args: held.set() if args[1].capitalize() == begin_at else work(*args)
        feed(3)
        hand.wait(lambda: held.is_set() and job.position["round"] == 3, f"round 3 at {begin_at}")
        before = tree(job.folder(3))
        edge.kill()
        harm(edge, old)
        feed(4)
        edge.start().connected()
        hand.work = work
        hand.work(job, begin_at.lower())
        hand.wait_round(job, 5)
        self.assertEqual(job.used(), {sample: 1 for sample in samples})
        self.assertEqual(tree(job.folder(3)), before)
        self.assertEqual(len({entry[:3] for entry in job.accepted}), len(job.accepted))
        self.assertEqual(job.deployed["sha256"], sha256(job.deploy))
        return job, edge, hand

    def lose(self, edge, old):
        shutil.rmtree(edge.state)

    def restore(self, edge, old):
        shutil.rmtree(edge.state)
        shutil.copytree(old, edge.state)

    def garbage(self, edge, old):
        for part in edge.state.iterdir():
            if part.suffix != ".lock":
                part.write_bytes(os.urandom(max(4096, part.stat().st_size)))

    def damage_a_page(self, edge, old):
        with sqlite3.connect(edge.database()) as database:
            database.execute("pragma wal_checkpoint(truncate)")
        database.close()
        with open(edge.database(), "r+b") as file:
            file.seek(4096)
            file.write(os.urandom(64))

    def test_lost_while_training(self):
        self.rounds(self.lose, "Train")

    def test_lost_while_evaluating(self):
        self.rounds(self.lose, "Eval")

    def test_older_copy_while_training(self):
        self.rounds(self.restore, "Train")

    def test_older_copy_while_evaluating(self):
        self.rounds(self.restore, "Eval", {"format": "txt", "share": 0.5})

    def test_garbage(self):
        _, edge, _ = self.rounds(self.garbage, "Train")
        self.assertEqual([p.name for p in edge.state.iterdir() if ".bad-" in p.name and not p.name.endswith(("-wal", "-shm"))], ["edge.db.bad-1"])
        self.assertTrue(edge.logged("damaged"))

    def test_damaged_page(self):
        self.rounds(self.damage_a_page, "Train")

    def test_lost_wal(self):
        def lose_wal(edge, old):
            for part in edge.state.glob("edge.db-*"):
                part.unlink()
        self.rounds(lose_wal, "Train")

    def test_of_another_node(self):
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        edge.stop()
        other = self.world.edge(broker, start=False, node="edge-2", state_dir=edge.state)
        other.start().connected()
        self.assertEqual(other.metrics()["ilmare_edge_jobs"], 0)
        self.assertTrue((edge.state / "edge.db.node-1").exists())
        self.assertTrue(other.logged("made for another node"))

    def test_two_on_one_store(self):
        broker = self.world.broker()
        edge = self.world.edge(broker)
        other = self.world.edge(broker, start=False, name="other", state_dir=edge.state)
        other.start(wait=False)
        self.assertEqual(other.process.wait(10), 1)
        self.assertIn("is in use by another agent (process", other.text())
        self.assertTrue(edge.serves())

    def test_newer_schema_is_not_touched(self):
        broker = self.world.broker()
        edge = self.world.edge(broker)
        edge.stop()
        database = sqlite3.connect(edge.database())
        database.execute("pragma user_version = 99")
        database.commit()
        database.close()
        before = edge.database().read_bytes()
        edge.start(wait=False)
        self.assertEqual(edge.process.wait(10), 1)
        self.assertIn("schema 99", edge.text())
        self.assertEqual(edge.database().read_bytes(), before)

    def test_locked_by_somebody(self):
        """Somebody reads the database with the sqlite3 tool while the agent starts: it says so, and does not hang."""
        broker = self.world.broker()
        edge = self.world.edge(broker)
        edge.stop()
        database = sqlite3.connect(edge.database(), isolation_level=None)
        database.execute("begin immediate")
        edge.start(wait=False)
        self.assertEqual(edge.process.wait(15), 1)
        self.assertRegex(edge.text(), "locked")
        database.close()
        edge.process = None
        edge.start()

    def test_wal_stays_small(self):
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        for number in range(1, 31):
            job.append(f"a{number}", f"b{number}")
            hand.wait_round(job, number + 1)
        sizes = {p.name: p.stat().st_size for p in edge.state.iterdir()}
        self.assertLess(sum(sizes.values()), 3 << 20, sizes)
        self.assertLess(sizes["edge.db"], 256 << 10, sizes)


if __name__ == "__main__":
    main()
