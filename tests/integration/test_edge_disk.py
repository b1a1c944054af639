#!/usr/bin/python3
"""Disks that are full (of bytes or of files), read-only, or somebody else's: nothing is half done, it is said what is wrong and where, no sample is
lost, and all goes on by itself. The disks are real: a small tmpfs in a mount namespace of the agent's own."""

import os
import shutil

from agents import PATIENCE, Disks, fill, fill_inodes
from case import Case, main
from hand import at, manifest, until

# How a disk is too small, and how to fill it.
BYTES = ("size=256k", fill)
INODES = ("size=2m,nr_inodes=40", fill_inodes)


def give_back(filled):
    """Remove what fill or fill_inodes made."""
    if os.path.isdir(filled):
        for name in os.listdir(filled):
            os.unlink(f"{filled}/{name}")
        os.rmdir(filled)
    else:
        os.unlink(filled)


class Small(Case):
    """An agent and its job, with some of their folders on small disks."""

    def begin(self, options, share=1, **edge):
        """options: by folder, as job.output is known only here: a function of (job, agent)."""
        broker = self.world.broker()
        self.job_ = job = self.job(share=share)
        agent = self.world.edge(broker, start=False, dataset_check_on_arrival="true", **edge)
        hand = self.hand(broker, agent, job)
        self.disks = Disks(agent, options(job, agent))
        hand.run_worker = self.work
        self.hand_ = hand
        return job, agent, hand

    def work(self, job, stage, number, name, body):
        """A worker of the same machine: it sees the agent's disks."""
        if stage == "train":
            folder = self.disks.inside(job.output) / "train" / str(number)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "model.bin").write_text(f"model of round {number}\n")
        self.hand_.deliver(name, body)

    def said(self, job, hand, place):
        """The status says that there is no space, where, and how to look."""
        status = hand.status(job.dataset, lambda s: "o space left" in s.get("error", ""), "the full disk is seen")
        self.assertIn(str(place), status["error"])
        self.assertRegex(status["error"], "df -i")
        return status

    def not_said_any_more(self, job, hand):
        topic = f"ilmare/v1/ns/{job.ns}/dataset/{job.dataset['name']}/node/{hand.node}/status"
        until(lambda: not hand.topics.last(topic).document.get("error"), lambda: f"the problem is over: {hand.topics.last(topic)}")

    def litter(self, folder):
        return [path.name for path in self.disks.inside(folder).rglob(".*")]


class Output(Small):
    def full_at_a_round(self, disk, options):
        """No folder is announced that is not whole, no round is used up; it goes on by itself when there is room."""
        job, edge, hand = self.begin(lambda job, _: {job.output: options})
        hand.work = lambda *_: None
        edge.start().connected()
        filled = disk(self.disks.inside(job.output / "fill"))
        job.append(*(f"{i:05d} " + "x" * 100 for i in range(200)))
        status = self.said(job, hand, job.output)
        self.assertEqual(status["samples"], 200)
        self.assertEqual(job.position, at(1, "Train", "Waiting"))
        self.assertEqual(job.accepted, [])
        self.assertEqual(self.litter(job.output), [])
        self.assertFalse(self.disks.inside(job.folder(1)).exists())
        self.assertTrue(edge.alive())
        give_back(filled)
        report = hand.report(job, "train", "ready", 1)
        self.assertEqual((report["range"]["from"], report["range"]["to"]), (0, 200))
        folder = self.disks.inside(job.folder(1))
        self.assertEqual(len((folder / "data.txt").read_text().splitlines()), 200)
        self.assertEqual(self.litter(job.output), [])
        self.not_said_any_more(job, hand)

    def test_no_bytes_for_a_round(self):
        self.full_at_a_round(fill, BYTES[0])

    def test_no_inodes_for_a_round(self):
        self.full_at_a_round(fill_inodes, INODES[0])

    def full_in_a_round(self, disk, options):
        """Full when the eval data is written, and again when the model is deployed: what is there stays, and the round ends as it would have."""
        job, edge, hand = self.begin(lambda job, _: {job.output: options, job.deploy.parent: options}, share=0.5)
        filled = []
        deliver = hand.deliver

        def deliver_on_full_disks(name, body):
            if body["kind"] == "train":
                filled.append(disk(self.disks.inside(job.output / "fill")))
            else:
                filled.append(disk(self.disks.inside(job.deploy.parent / "fill")))
            return deliver(name, body)

        hand.deliver = deliver_on_full_disks
        edge.start().connected()
        served = self.disks.inside(job.deploy)
        for path in (served, self.disks.inside(job.initial)):
            path.write_text("what was there first")
        samples = [f"{i:05d} " + "x" * 100 for i in range(20)]
        job.append(*samples)
        self.said(job, hand, job.output / "data" / "eval")
        self.assertEqual(job.position, at(1, "Eval", "Waiting"))
        self.assertFalse(self.disks.inside(job.output / "data" / "eval" / "1" / "data.txt").exists())
        give_back(filled[0])
        mark = hand.topics.mark()
        hand.wait(lambda: job.position == at(1, "Deploy", "Ready"), "Deploy/Ready")
        status = hand.status(job.dataset, lambda s: "o space left" in s.get("error", ""), "the full disk of the served model is seen", mark)
        self.assertIn(str(job.deploy.parent), status["error"])
        self.assertEqual(job.position, at(1, "Deploy", "Ready"))
        self.assertEqual(served.read_text(), "what was there first")
        # Between two attempts, not only after the last one.
        until(lambda: not self.litter(job.deploy.parent), lambda: f"left beside the model: {self.litter(job.deploy.parent)}", 3)
        give_back(filled[1])
        hand.wait_round(job, 2)
        self.assertEqual(served.read_text(), "model of round 1\n")
        self.assertEqual(sorted(path.name for path in served.parent.iterdir()), ["deploy.bin", "initial.bin"])
        self.assertEqual(self.litter(job.output), [])
        folder = self.disks.inside(job.folder(1))
        self.assertEqual(sorted((folder / "data.txt").read_text().splitlines() + (folder / "eval.txt").read_text().splitlines()), samples)
        self.not_said_any_more(job, hand)

    def test_no_bytes_in_a_round(self):
        self.full_in_a_round(fill, BYTES[0])

    def test_no_inodes_in_a_round(self):
        self.full_in_a_round(fill_inodes, INODES[0])

    def test_read_only(self):
        job, edge, hand = self.begin(lambda job, _: {job.output: "size=1m,ro"})
        edge.start().connected()
        job.append("a", "b", "c")
        # Before the file has been written it is another error for a moment.
        status = hand.status(job.dataset, lambda s: "Read-only file system" in s.get("error", ""), "it is seen")
        self.assertIn(str(job.output), status["error"])
        self.assertEqual(job.accepted, [])
        self.disks.enter(f"mount -t tmpfs -o remount,rw,size=1m none {job.output}")
        hand.wait_round(job, 2)
        self.assertEqual((self.disks.inside(job.folder(1)) / "data.txt").read_text().splitlines(), ["a", "b", "c"])


class Deploy(Small):
    def test_read_only(self):
        """What serves stays; the round waits in Deploy/Ready and ends when the disk takes the new model."""
        job, edge, hand = self.begin(lambda job, _: {job.deploy.parent: "size=1m"})
        edge.start().connected()
        served = self.disks.inside(job.deploy)
        for path in (served, self.disks.inside(job.initial)):
            path.write_text("what was there first")
        self.disks.enter(f"mount -t tmpfs -o remount,ro,size=1m none {job.deploy.parent}")
        job.append("a", "b", "c")
        hand.wait(lambda: job.position == at(1, "Deploy", "Ready"), "Deploy/Ready")
        status = hand.status(job.dataset, lambda s: "Read-only file system" in s.get("error", ""), "it is seen")
        self.assertIn(str(job.deploy.parent), status["error"])
        self.assertEqual((job.position, served.read_text()), (at(1, "Deploy", "Ready"), "what was there first"))
        self.disks.enter(f"mount -t tmpfs -o remount,rw,size=1m none {job.deploy.parent}")
        hand.wait_round(job, 2)
        self.assertEqual(served.read_text(), "model of round 1\n")
        self.not_said_any_more(job, hand)


class Log(Small):
    def test_no_bytes(self):
        """The agent works on; lines are lost, and it is said how many when there is room again."""
        folder = self.world.path / "log"
        job, edge, hand = self.begin(lambda *_: {folder: "size=64k"}, log_level="debug")
        self.disks.run_before(f"exec >{folder}/edge.log 2>&1")
        edge.start().connected()
        filled = fill(self.disks.inside(folder / "fill"))
        number = 1
        while not edge.metrics()["ilmare_log_lines_lost_total"]:  # what is left of the last page is soon used up
            self.assertLess(number, 20)
            job.append(f"a{number}", f"b{number}")
            number += 1
            hand.wait_round(job, number)
        give_back(filled)
        job.append("c")
        hand.wait_round(job, number + 1)
        said = until(lambda: [line for line in self.disks.inside(folder / "edge.log").read_text().splitlines()
                              if "lines could not be written" in line], "it is said")
        self.assertRegex(said[0], 'lost=[1-9][0-9]* error="No space left on device"')
        self.assertEqual(set(job.used().values()), {1})
        self.assertEqual(len(job.used()), 2 * number - 1)


class Place(Case):
    """What is in the place of the output folder."""

    def test_output_is_not_ours(self):
        """Another user's folder; and a file where a folder should be."""
        if os.geteuid() != 0:
            self.skipTest("needs root to be somebody else")
        broker = self.world.broker()
        os.chmod(self.world.path, 0o777)
        job = self.job(share=1)
        job.output.mkdir()
        os.chmod(job.output, 0o500)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        edge.command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *edge.command]
        os.system(f"chmod -R o+rX {job.dir}; setpriv --reuid=65534 --regid=65534 --clear-groups test -x {edge.command[4]}")
        hand = self.hand(broker, edge, job)
        if os.system(f"setpriv --reuid=65534 --regid=65534 --clear-groups {edge.command[4]} --version >/dev/null 2>&1") != 0:
            self.skipTest("the build folder is closed to other users")
        edge.start().connected()
        job.append("a", "b", "c")
        self.assertIn("ermission", hand.status(job.dataset, lambda s: s.get("error"), "it is seen")["error"])
        os.chmod(job.output, 0o777)
        hand.wait(lambda: job.position["phase"] == "Ready" or job.position["stage"] != "Train", "it goes on")

    def test_file_in_the_place_of_a_folder(self):
        broker = self.world.broker()
        job = self.job(share=1)
        job.output.mkdir()
        (job.output / "data").write_text("not a folder")
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        job.append("a", "b", "c")
        hand.status(job.dataset, lambda s: s.get("error"), "it is seen")
        (job.output / "data").unlink()
        hand.wait_round(job, 2)

    def test_foreign_folder_in_the_place_of_a_round(self):
        """It is moved aside, not written into."""
        broker = self.world.broker()
        job = self.job(share=1)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        job.folder(1).mkdir(parents=True)
        (job.folder(1) / "data.txt").write_text("somebody's\n")
        edge.start().connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        self.assertEqual(job.samples(1), ["a", "b", "c"])
        self.assertEqual(manifest(job, 1)["uid"], job.uid)
        aside = [p for p in job.folder(1).parent.iterdir() if ".aside-" in p.name]
        self.assertEqual([(p / "data.txt").read_text() for p in aside], ["somebody's\n"])


class Store(Small):
    def begin_store(self, options, **more):
        return self.begin(lambda _, edge: {edge.state: options}, **more)

    def test_no_bytes(self):
        """Nothing is acknowledged that is not stored; it goes on by itself when there is room."""
        job, edge, hand = self.begin_store("size=1m")
        job.extra = {"padding": "y" * 150000}  # more than the log's free pages take
        edge.start().connected()
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "the job is stored")
        filled = fill(self.disks.inside(edge.state / "fill"))
        hand.say_job(job)
        hand.say_job(job)
        job.append("a", "b", "c")
        hand.say_job(job)
        until(lambda: edge.metrics()["ilmare_edge_commit_failures_total"] >= 2, "commits fail")
        self.assertEqual(edge.get("/readyz")[0], 503)
        self.assertEqual(job.accepted, [])
        self.assertTrue(edge.is_linked())
        self.assertTrue(edge.logged(f"{edge.state}/edge.db.*full.*df -i"), edge.tail())
        give_back(filled)
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {"a": 1, "b": 1, "c": 1})
        until(lambda: edge.get("/readyz")[0] == 200, "ready again")

    def test_no_inodes(self):
        """Its files are there already: it needs no more of them."""
        job, edge, hand = self.begin_store("size=4m,nr_inodes=20")
        edge.start().connected()
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "the job is stored")
        fill_inodes(self.disks.inside(edge.state / "fill"))
        for number in range(1, 4):
            job.append(f"a{number}", f"b{number}")
            hand.wait_round(job, number + 1)
        self.assertEqual(sorted(job.used().values()), [1] * 6)
        self.assertEqual(edge.metrics()["ilmare_edge_commit_failures_total"], 0)

    def test_read_only_at_start(self):
        """It cannot open its store: it says so and ends; started again when the disk can be written, it has all that it had."""
        job, edge, hand, copy = self.full_at_start("size=1m", lambda folder: f"mount -t tmpfs -o remount,ro,size=1m none {folder}")
        edge.start(wait=False)
        self.assertEqual(edge.process.wait(PATIENCE), 1, edge.tail())
        said = edge.text().splitlines()[-1]
        self.assertIn(f"{edge.state}/", said)
        self.assertIn("Read-only file system", said)
        self.disks.run_before(copy)
        edge.start().connected()
        self.goes_on(job, edge, hand)

    def full_at_start(self, options, filling):
        """A round is over; then it is killed, and its store is on a full disk when it starts again. Returns what ends that."""
        job, edge, hand = self.begin_store(options)
        edge.start().connected()
        job.append("a", "b")
        hand.wait_round(job, 2)
        shutil.copytree(self.disks.inside(edge.state), self.world.path / "kept")
        edge.kill()
        # Its disk goes with its namespace, so the next one begins with a copy.
        copy = f"cp {self.world.path}/kept/edge.db {self.world.path}/kept/edge.db-wal {edge.state}"
        self.disks.run_before(f"{copy}; {filling(edge.state)}")
        return job, edge, hand, copy

    def goes_on(self, job, edge, hand):
        job.append("c")
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {"a": 1, "b": 1, "c": 1})
        self.assertEqual(len(edge.logged("a new store is begun")), 1)

    def test_no_bytes_at_start(self):
        """It starts, is not ready, says why, and goes on by itself."""
        job, edge, hand, _ = self.full_at_start("size=1m", lambda folder: f"cat /dev/zero >{folder}/fill 2>/dev/null || true")
        edge.start()
        edge.wait_log(f"{edge.state}/edge.db.*full.*df -i")
        until(lambda: edge.get("/readyz")[0] == 503, "it is not ready")
        give_back(self.disks.inside(edge.state / "fill"))
        until(lambda: edge.get("/readyz")[0] == 200, "it is ready")
        self.goes_on(job, edge, hand)

    def test_no_inodes_at_start(self):
        """It cannot open its store: it says so and ends; started again when there is room, as a service manager does, it has all that it had."""
        job, edge, hand, copy = self.full_at_start("size=1m,nr_inodes=20",
                                                   lambda folder: f"while touch {folder}/fill$((i=i+1)) 2>/dev/null; do true; done")
        edge.start(wait=False)
        self.assertEqual(edge.process.wait(PATIENCE), 1, edge.tail())
        said = edge.text().splitlines()[-1]
        self.assertIn(f"{edge.state}/edge.db", said)
        self.assertRegex(said, "df -i")
        self.disks.run_before(copy)
        edge.start().connected()
        self.goes_on(job, edge, hand)


if __name__ == "__main__":
    main()
