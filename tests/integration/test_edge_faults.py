#!/usr/bin/python3
"""What surrounds an edge agent fails: the broker, the disk, a second agent of the same name, messages that are no documents."""

import json
import os
import random
import time
import unittest

from agents import fill, is_sanitized
from case import Case, main
from hand import at, manifest, until

IN_OWN_MOUNTS = ["unshare", "-m", "sh", "-c"]


class Link(Case):
    def test_broker_away_from_the_start(self):
        """Starts, counts, takes posts, and catches up when the broker comes."""
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        broker.stop()
        broker.forget()
        edge.start()
        self.assertEqual(edge.get("/readyz")[0], 200)
        self.assertEqual(edge.post("train-worker-x", {"namespace": "a", "ownerName": "b", "ownerKind": "incrementallearningjob", "kind": "train",
                                                      "status": "completed", "results": [{"format": "", "url": "/m"}]})[0], 200)
        until(lambda: edge.metrics()["ilmare_mqtt_attempts_total"] > 3, "it tries")
        job.append("a", "b", "c")
        broker.start()
        hand = self.hand(broker, edge, job)
        hand.wait_round(job, 2)
        self.assertEqual(edge.metrics()["ilmare_edge_provisional"], 1)

    def test_rounds_through_restarts_of_the_broker(self):
        """Stopped, killed, with its state lost; each time the rounds go on and each sample is used once."""
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        samples = []
        for number, (end, forget) in enumerate(((broker.stop, False), (broker.kill, False), (broker.stop, True), (broker.kill, True)), 1):
            fresh = [f"round {number} {i}" for i in range(5)]
            samples += fresh
            job.append(*fresh)
            hand.wait(lambda: job.position["stage"] != "Train" or job.position["round"] > number, "the round has begun")
            end()
            if forget:
                broker.forget()
            until(lambda: not edge.is_linked(), "the link is down")
            broker.start()
            hand.listen()
            edge.connected()
            # A cloud agent publishes all documents when it is connected again.
            hand.say_all()
            hand.wait_round(job, number + 1)
        self.assertEqual(job.used(), {sample: 1 for sample in samples})

    def test_two_agents_of_one_name(self):
        """They throw each other out; both see it, say it, slow down, and go on working."""
        broker = self.world.broker()
        first = self.world.edge(broker, name="first", mqtt_reconnect_max="2s").connected()
        second = self.world.edge(broker, name="second", mqtt_reconnect_max="2s")
        for edge in (first, second):
            until(lambda: edge.metrics()["ilmare_mqtt_takeovers_total"] >= 1, f"{edge.name} sees it", 30)
            edge.wait_log("another client with the same name")
        connects = [edge.metrics()["ilmare_mqtt_connects_total"] for edge in (first, second)]
        begin = time.monotonic()
        until(lambda: sum(edge.metrics()["ilmare_mqtt_connects_total"] for edge in (first, second)) >= sum(connects) + 3, "they go on trying", 60)
        self.assertGreater(time.monotonic() - begin, 0.5)  # no storm
        for edge in (first, second):
            self.assertTrue(edge.serves())
        second.stop()
        first.connected(30)
        until(lambda: first.is_linked(), "the first one stays")

    def test_broker_that_refuses(self):
        """Neither subscription nor birth is allowed: said, and the agent stays up; work goes on when it is allowed again."""
        broker = self.world.broker()
        (broker.dir / "acl").write_text("topic read nothing\n")
        broker.stop()
        config = broker.dir / "mosquitto.conf"
        open_text = config.read_text()
        config.write_text(open_text + f"acl_file {broker.dir}/acl\n")
        broker.start()
        edge = self.world.edge(broker)
        edge.wait_log("refuse")
        self.assertTrue(edge.serves())
        broker.stop()
        config.write_text(open_text)
        broker.start()
        job = self.job()
        hand = self.hand(broker, edge, job)
        job.append("a", "b")
        hand.wait_round(job, 2, 40)

    def test_messages_that_are_no_documents(self):
        """Each is refused with one line that says why, and nothing is lost by it."""
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true", log_level="info")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "the job is here")
        good = job.document({"epoch": 5000, "gen": 1}, "edge-1")
        base = "ilmare/v1/node/edge-1"
        dice = random.Random(7)
        wrong = [
            (f"{base}/job/default/job", os.urandom(200)), (f"{base}/job/default/job", "{"), (f"{base}/job/default/job", "[]"),
            (f"{base}/job/default/job", {**good, "v": 2}), (f"{base}/job/default/job", {k: v for k, v in good.items() if k != "v"}),
            (f"{base}/job/default/job", {**good, "node": "edge-2"}), (f"{base}/job/default/other", good),
            (f"{base}/job/default/job", {**good, "position": at(0, "Train", "Waiting")}),
            (f"{base}/job/default/job", {**good, "position": at(1, "Test", "Waiting")}),
            (f"{base}/job/default/job", {**good, "stamp": {"epoch": 1.5, "gen": 1}}),
            (f"{base}/job/default/job", json.dumps(good)[:-1] + ',"node":"edge-1"}'),
            (f"{base}/job/default/job", json.dumps({**good, "x": None}).replace("null", "[" * 500 + "]" * 500)),
            (f"{base}/inventory", {"v": 1, "ts": "2026-01-01T00:00:00Z", "stamp": {"epoch": 5000, "gen": 1}, "node": "edge-1"}),
            (f"{base}/inventory", {"v": 9, "ts": "2026-01-01T00:00:00Z", "stamp": {"epoch": 5000, "gen": 1}, "node": "edge-1", "jobs": [], "datasets": []}),
            (f"{base}/dataset/default/x", "null"), (f"{base}/nothing/like/this", good), (f"{base}/job/DEFAULT/job", good),
            (f"{base}/job/default/../job", good), (f"{base}/job", good),
        ]
        for topic, payload in wrong:
            broker.publish(topic, payload)
        metrics = until(lambda: (m := edge.metrics())["ilmare_edge_messages_refused_total"] >= len(wrong) and m, "all are refused")
        self.assertEqual(metrics["ilmare_edge_messages_refused_total"], len(wrong))
        # The first of a kind are logged one by one, a storm of them is thinned.
        self.assertTrue(0 < len(edge.logged("a message is refused")) <= len(wrong))
        self.assertTrue(edge.logged(r"a message is refused topic=ilmare/v1/node/edge-1/job/default/job error="))
        for _ in range(50):
            text = bytearray(json.dumps(good).encode())
            for _ in range(dice.randrange(1, 30)):
                text[dice.randrange(len(text))] = dice.randrange(256)
            broker.publish(f"{base}/job/default/job", bytes(text).replace(b'"epoch"', b'"epocx"'))
        broker.publish(f"{base}/job/default/job", b" " * (200 << 10))
        until(lambda: edge.metrics()["ilmare_edge_messages_total"] >= len(wrong) + 51, "all have come")
        # Over the payload limit: the broker, told of the limit, or the agent drops it.
        broker.publish(f"{base}/job/default/job", b" " * (300 << 10))
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        self.assertEqual(edge.metrics()["ilmare_edge_jobs"], 1)
        self.assertTrue(edge.is_linked())


class Disk(Case):
    """Output folders and stores on disks of their own, in a mount namespace of the agent's."""

    def begin(self, mount, edge=None):
        """mount: a script of the namespace, with $1 as the folder that it mounts."""
        if os.geteuid() != 0 or os.system("unshare -m true 2>/dev/null") != 0:
            self.skipTest("mounts need root and a kernel that allows private mount namespaces")
        self.broker = self.world.broker()
        job = self.job(share=1)
        agent = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", **(edge or {}))
        hand = self.hand(self.broker, agent, job)
        agent.command = [*IN_OWN_MOUNTS, f'set -e; {mount}; shift; exec "$@"', "sh", "folder", *agent.command]
        return job, agent, hand

    def enter(self, edge, script):
        status = os.system(f"nsenter -m -t {edge.pid} sh -c '{script}'")
        self.assertEqual(status, 0, script)

    def test_full_output(self):
        """No folder is announced that is not whole, no round is used up; it goes on by itself when there is room."""
        output = self.world.path / "job" / "output"
        output.mkdir(parents=True)
        job, edge, hand = self.begin(f"mount -t tmpfs -o size=256k none {output}")
        hand.work = lambda *_: None  # a worker would not see the folder
        edge.start().connected()
        inside = f"/proc/{edge.pid}/root"
        filled = fill(inside + str(output / "fill"))
        job.append(*(f"{i:05d} " + "x" * 100 for i in range(200)))
        status = hand.status(job.dataset, lambda s: "space" in s.get("error", ""), "the full disk is seen")
        self.assertEqual(status["samples"], 200)
        self.assertEqual(job.position, at(1, "Train", "Waiting"))
        self.assertEqual(job.accepted, [])
        self.assertTrue(edge.alive())
        os.unlink(filled)
        report = hand.report(job, "train", "ready", 1)
        self.assertEqual((report["range"]["from"], report["range"]["to"]), (0, 200))
        folder = inside + str(job.folder(1))
        self.assertEqual(len(open(f"{folder}/data.txt").read().splitlines()), 200)
        self.assertEqual([n for n in os.listdir(os.path.dirname(folder)) if n.startswith(".")], [])
        hand.status(job.dataset, lambda s: not s.get("error"), "the problem is over", hand.topics.mark() - 1)

    def test_read_only_output(self):
        output = self.world.path / "job" / "output"
        output.mkdir(parents=True)
        job, edge, hand = self.begin(f"mount --bind {output} {output}; mount -o remount,ro,bind {output}")
        edge.start().connected()
        job.append("a", "b", "c")
        hand.status(job.dataset, lambda s: s.get("error"), "it is seen")
        self.assertEqual(job.accepted, [])
        self.enter(edge, f"mount -o remount,rw,bind {output}")
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {"a": 1, "b": 1, "c": 1})

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

    def test_full_store(self):
        """Nothing is acknowledged that is not stored; it goes on by itself when there is room."""
        state = self.world.path / "edge-1.state"
        state.mkdir()
        job, edge, hand = self.begin(f"mount -t tmpfs -o size=1m none {state}")
        job.extra = {"padding": "y" * 150000}  # more than the log's free pages take
        job.period = 1
        edge.start().connected()
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "the job is stored")
        filled = fill(f"/proc/{edge.pid}/root{state}/fill")
        hand.say_job(job)
        hand.say_job(job)
        job.append("a", "b", "c")
        hand.say_job(job)
        until(lambda: edge.metrics()["ilmare_edge_commit_failures_total"] >= 2, "commits fail")
        self.assertEqual(edge.get("/readyz")[0], 503)
        self.assertEqual(job.accepted, [])
        self.assertTrue(edge.is_linked())
        os.unlink(filled)
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {"a": 1, "b": 1, "c": 1})
        until(lambda: edge.get("/readyz")[0] == 200, "ready again")

    def test_deploy_fails_and_keeps_the_old_model(self):
        """The trained model is missing: Failed, with a reason, and what is deployed stays."""
        broker = self.world.broker()
        job = self.job(share=1)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        body = hand.body
        hand.body = lambda j, stage, **more: {**body(j, stage, **more), **({"results": [{"format": "bin", "url": str(job.dir / "nowhere")}]}
                                                                            if stage == "train" and j.position["round"] == 1 else {})}
        edge.start().connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        self.assertEqual((job.accepted[-1][2], job.accepted[-1][3]["reason"]), ("failed", "ModelMissing"))
        self.assertEqual(job.deploy.read_text(), "what was there first")
        job.append("d")
        hand.wait_round(job, 3)
        self.assertEqual(job.accepted[-1][2], "written")


class Models(Case):
    def test_reader_sees_one_model_or_the_other(self):
        """The smaller model over a larger one, read all the time; mode kept; a kill in the middle leaves no part of it."""
        broker = self.world.broker()
        job = self.job(share=1)
        size = 4 << 20
        old = b"o" * (5 * size)
        job.deploy.write_bytes(old)
        os.chmod(job.deploy, 0o640)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        new = b"n" * size
        run_worker = hand.run_worker

        def worker(j, stage, number, name, body):
            if stage == "train":
                path = j.output / "train" / str(number)
                path.mkdir(parents=True, exist_ok=True)
                (path / "model.bin").write_bytes(new)
                hand.deliver(name, body)
            else:
                run_worker(j, stage, number, name, body)

        hand.run_worker = worker
        edge.start().connected()
        job.append("a", "b")
        hand.wait(lambda: job.position["stage"] == "Deploy", "Deploy")
        kills, seen = 0, set()
        dice = random.Random(3)
        while job.position["round"] == 1:
            if kills < 12:
                time.sleep(dice.random() * 0.08)  # any moment of the copy
                edge.kill()
                kills += 1
                data = job.deploy.read_bytes()
                seen.add(data[:1] if data in (old, new) else b"torn")
                edge.start(wait=False)
            data = job.deploy.read_bytes()
            seen.add(data[:1] if data in (old, new) else b"torn")
        self.assertLessEqual(seen, {b"o", b"n"})
        self.assertEqual(job.deploy.read_bytes(), new)
        self.assertEqual(job.deploy.stat().st_mode & 0o777, 0o640)
        self.assertEqual([p.name for p in job.deploy.parent.iterdir() if p.name not in ("deploy.bin", "initial.bin")], [])

    def test_folders(self):
        """A model that is a folder replaces one that is a folder."""
        broker = self.world.broker()
        job = self.job(share=1)
        job.deploy.unlink()
        job.deploy.mkdir()
        (job.deploy / "old").write_text("old")
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)

        def worker(j, stage, number, name, body):
            if stage == "train":
                path = j.output / "train" / str(number) / "model.bin" / "variables"
                path.mkdir(parents=True, exist_ok=True)
                (path / "weights").write_text(f"weights {number}")
            hand.deliver(name, body)

        hand.run_worker = worker
        edge.start().connected()
        for number in (1, 2):
            job.append("a", "b")
            hand.wait_round(job, number + 1)
            self.assertEqual([str(p.relative_to(job.deploy)) for p in job.deploy.rglob("*") if p.is_file()], ["variables/weights"])
            self.assertEqual((job.deploy / "variables" / "weights").read_text(), f"weights {number}")


class Noise(Case):
    @unittest.skipIf(is_sanitized(), "a figure")
    def test_log_of_a_lasting_fault_is_short(self):
        """A fault that lasts is said once, and again when it changes; not with each try."""
        broker = self.world.broker()
        job = self.job(share=1)
        job.output.write_text("a file in the place of the folder")
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start().connected()
        job.append("a", "b", "c")
        until(lambda: edge.metrics()["ilmare_edge_file_failures_total"] >= 3, "it is tried again", 30)
        self.assertEqual(len(edge.logged("cannot go on")), 1, edge.text())
        hand.close()


if __name__ == "__main__":
    main()
