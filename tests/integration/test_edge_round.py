#!/usr/bin/python3
"""Rounds of an edge agent whose cloud agent is played by hand: what it writes, reports, deploys, and where it goes on."""

import json

from case import Case, main
from hand import at, manifest, sha256, until
from agents import worker_name


class Rounds(Case):
    def begin(self, **more):
        self.broker = self.world.broker()
        options = more.pop("edge", {})
        job = self.job(**more)
        edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", **options)
        hand = self.hand(self.broker, edge, job)
        edge.start().connected()
        return job, edge, hand

    def test_txt(self):
        job, _, hand = self.begin(condition=(">=", 8))
        job.append(*(f"sample {i}" for i in range(10)))
        hand.wait_round(job, 2)
        self.assertEqual([a[1:3] for a in job.accepted], [("train", "ready"), ("train", "completed"), ("eval", "ready"), ("eval", "completed"),
                                                          ("deploy", "ready"), ("deploy", "written")])
        ready = job.accepted[0][3]
        self.assertEqual(ready["input"]["dataURL"], str(job.folder(1) / "data.txt"))
        self.assertEqual(ready["input"]["models"], [{"format": "bin", "url": str(job.initial)}])
        self.assertEqual(ready["input"]["outputDir"], str(job.output / "train" / "1"))
        self.assertEqual((ready["range"]["from"], ready["range"]["to"]), (0, 10))
        # Sample n trains if floor((n+1)p) > floor(np): with 0.8 all but 0 and 5.
        self.assertEqual(job.samples(1, "eval"), ["sample 0", "sample 5"])
        self.assertEqual(job.samples(1), [f"sample {i}" for i in range(10) if i not in (0, 5)])
        self.assertEqual((job.output / "data" / "eval" / "1" / "data.txt").read_text(), "sample 0\nsample 5\n")
        self.assertEqual(manifest(job, 1)["uid"], job.uid)
        written = job.accepted[-1][3]
        self.assertEqual(written["sha256"], sha256(job.deploy))
        self.assertEqual(job.deploy.read_bytes(), (job.output / "train" / "1" / "model.bin").read_bytes())
        # The second round begins where the first ended, and its eval data has the window.
        job.append(*(f"sample {i}" for i in range(10, 20)))
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {f"sample {i}": 1 for i in range(20)})
        self.assertEqual((job.output / "data" / "eval" / "2" / "data.txt").read_text().splitlines(),
                         ["sample 0", "sample 5", "sample 10", "sample 15"])

    def test_csv(self):
        """Records, not lines; a header once in each file; no record is split (scenarios 1 and 11)."""
        job, _, hand = self.begin(format="csv", condition=(">", 10))
        rows = [("alice", "line1\nline2"), ("bob", 'he said "hi"')] + [(f"name {i}", f"a, b {i}") for i in range(18)]
        with open(job.data, "w", newline="") as file:
            file.write("name,notes\r\n" + "".join('{},"{}"\r\n'.format(a, b.replace('"', '""')) for a, b in rows))
        hand.wait_round(job, 2)
        self.assertEqual((len(job.samples(1)), len(job.samples(1, "eval"))), (16, 4))
        self.assertEqual(job.used(), {row: 1 for row in rows})
        for what in ("data", "eval"):
            self.assertEqual((job.folder(1) / f"{what}.csv").read_bytes().count(b"name,notes\r\n"), 1)

    def test_not_better_keeps_the_model(self):
        job, _, hand = self.begin()
        job.better = lambda number: number != 1
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        last = job.accepted[-1]
        self.assertEqual(last[1:3], ("deploy", "completed"))
        self.assertEqual(last[3]["reason"], "NotBetter")
        self.assertIn("accuracy_delta", last[3]["message"])
        self.assertEqual(job.deploy.read_text(), "what was there first")
        job.append("d", "e", "f")
        hand.wait_round(job, 3)
        self.assertEqual(job.accepted[-1][2], "written")
        # What was there first stays available.
        self.assertEqual((job.output / "deployed" / "0").is_dir(), True)
        self.assertIn("what was there first", [p.read_text() for p in (job.output / "deployed" / "0").rglob("*") if p.is_file()])

    def test_failed_round_gives_its_samples_back(self):
        job, _, hand = self.begin()
        job.result = lambda stage, number: "failed" if (stage, number) in (("train", 1), ("eval", 3)) else "completed"
        job.append(*(f"s{i}" for i in range(10)))
        hand.wait_round(job, 3)
        self.assertEqual(job.completed_rounds(), [2])
        self.assertEqual(job.used(), {f"s{i}": 1 for i in range(10)})
        # A failed evaluation does not: training of that round completed.
        job.append(*(f"s{i}" for i in range(10, 15)))
        hand.wait_round(job, 4)
        job.append(*(f"s{i}" for i in range(15, 20)))
        hand.wait_round(job, 5)
        self.assertEqual(job.completed_rounds(), [2, 3, 4])
        self.assertEqual(job.used(), {f"s{i}": 1 for i in range(20)})

    def test_missing_results_are_reported_and_their_worker_is_refused(self):
        job, edge, hand = self.begin(edge={"workers_result_grace": "200ms"})
        job.result = None
        hand.work = lambda *_: None
        job.append("a", "b", "c")
        hand.wait(lambda: job.position == at(1, "Train", "Ready"), "Train/Ready")
        name, body = hand.worker(job, "train"), hand.body(job, "train")
        hand.move(job, at(1, "Train", "Running"), worker_ended=True)
        hand.wait_round(job, 2)
        self.assertEqual(job.accepted[-1][2], "failed")
        self.assertEqual(job.accepted[-1][3]["reason"], "ResultsMissing")
        self.assertEqual(edge.post(name, body)[0], 409)

    def test_old_rounds_go(self):
        """With dataset.roundsKept; but the five that the eval data are made of stay with the present one, also where fewer are wanted."""
        job, edge, hand = self.begin(share=0.5, edge={"dataset_rounds_kept": 7})
        numbers = lambda kind: sorted(int(path.name) for path in (job.output / "data" / kind).iterdir() if path.name.isdigit())
        for number in range(1, 11):
            job.append(f"a{number}", f"b{number}")
            hand.wait_round(job, number + 1)
        for kind in ("train", "eval"):
            self.assertEqual(numbers(kind), list(range(4, 11)))
        edge.stop()
        edge.command = [part.replace("rounds-kept=7", "rounds-kept=1") for part in edge.command]
        edge.start().connected()
        job.append("a11", "b11")
        hand.wait_round(job, 12)
        self.assertEqual(numbers("train"), list(range(6, 12)))
        self.assertEqual(len((job.output / "data" / "eval" / "11" / "data.txt").read_text().splitlines()), 6)

    def test_hot_update(self):
        """The model and, last, the file that names it; the worker's word ends the stage."""
        root = self.world.path / "root"
        job_dir = root / "job"
        job_dir.mkdir(parents=True)
        broker = self.world.broker()
        job = self.job(hot=True, folder=job_dir)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true", root_dir=root)
        hand = self.hand(broker, edge, job)
        # The agent sees the node's files below a prefix, which is in no document.
        strip = lambda value: json.loads(json.dumps(value).replace(str(root), ""))
        say, body = hand.say, hand.body
        hand.say = lambda topic, document: say(topic, strip(document))
        hand.body = lambda *args, **more: strip(body(*args, **more))
        edge.start().connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        self.assertEqual([a[2] for a in job.accepted[-3:]], ["ready", "written", "completed"])
        folder = root / "var/lib/sedna/model-hot-update/default/incrementallearningjob/job"
        config = json.loads((folder / "model_config.json").read_text())["model_config"]
        self.assertEqual(config["model_path"], "/model-hot-update/model.bin")
        self.assertNotIn("/", config["model_update_time"])
        self.assertEqual((folder / "model.bin").read_bytes(), (job.output / "train" / "1" / "model.bin").read_bytes())
        self.assertEqual((folder / "model.bin").read_bytes(), job.deploy.read_bytes())
        job.data.unlink()
        hand.status(job.dataset, lambda s: s.get("error"), "the file is missed")
        for message in hand.topics.find(lambda m: "/ns/" in m.topic):
            self.assertNotIn(str(root), message.payload)
        # The worker's name stays that of round 0 through hot updates.
        self.assertEqual(hand.answers[-1], (worker_name("inference", job.uid, 0), 200))
        job.append("d", "e", "f")
        hand.wait_round(job, 3)
        again = json.loads((folder / "model_config.json").read_text())["model_config"]
        self.assertNotEqual(config["model_update_time"], again["model_update_time"])
        # No longer hot: whoever is updated hot again is not to find that model.
        job.hot = False
        job.append("g", "h", "i")
        hand.wait_round(job, 4)
        self.assertEqual(job.accepted[-1][2], "written")
        self.assertFalse((folder / "model_config.json").exists())

    def test_works_on_while_the_broker_is_away(self):
        job, edge, hand = self.begin()
        hand.work = lambda *_: None
        job.append("a", "b", "c")
        hand.wait(lambda: job.position == at(1, "Train", "Ready"), "Train/Ready")
        until(lambda: edge.metrics()["ilmare_edge_outbox_unsettled"] == 0, "the report is settled")
        self.broker.stop()
        until(lambda: not edge.is_linked(), "the link is down")
        self.assertEqual(edge.post(hand.worker(job, "train"), hand.body(job, "train"))[0], 200)
        self.assertEqual(edge.metrics()["ilmare_edge_outbox_unsettled"], 1)
        self.broker.forget()
        self.broker.start()
        hand.listen()
        hand.wait(lambda: job.position["stage"] == "Eval", "the result arrives")

    def test_deleted_job_leaves_nothing(self):
        job, edge, hand = self.begin()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        hand.remove(job)
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 0, "the job is gone")
        edge.stop()
        edge.start().connected()
        self.assertEqual(edge.metrics()["ilmare_edge_jobs"], 0)
        self.assertEqual(edge.metrics()["ilmare_edge_datasets"], 0)
        self.assertNotIn(job.uid.encode(), edge.database().read_bytes())


if __name__ == "__main__":
    main()
