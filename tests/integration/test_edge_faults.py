#!/usr/bin/python3
"""What surrounds an edge agent fails: the broker, a second agent of the same name, messages that are no documents, a model that is missing. Disks
are in test_edge_disk.py."""

import json
import os
import random
import subprocess
import time
import unittest

from agents import is_sanitized
from case import Case, main
from hand import at, until


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


    def test_a_log_that_cannot_be_written(self):
        """Its disk is full: the agent works on."""
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true", log_level="debug")
        hand = self.hand(broker, edge, job)
        edge.command = ["sh", "-c", 'exec "$@" >/dev/full 2>&1', "sh", *edge.command]
        edge.start().connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {"a": 1, "b": 1, "c": 1})
        self.assertEqual(edge.stop(), 0)


class Secrets(Case):
    def test_the_password_is_nowhere(self):
        """Refused and then accepted, at the highest level of the log: not in it, not in the store, not in a topic, not in what ps shows."""
        secret = "CANARY-7f3a"
        broker = self.world.broker(config="")
        broker.stop()
        config = (broker.dir / "mosquitto.conf")
        passwords = broker.dir / "passwords"
        subprocess.run(["mosquitto_passwd", "-b", "-c", str(passwords), "edge-1", "another"], check=True, capture_output=True)
        config.write_text(config.read_text().replace("allow_anonymous true", f"allow_anonymous true\npassword_file {passwords}"))
        broker.start()
        file = self.world.path / "password"
        file.write_text(secret + "\n")
        file.chmod(0o600)
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true", log_level="debug", mqtt_username="edge-1", mqtt_password_file=file)
        hand = self.hand(broker, edge, job)
        edge.start()
        edge.wait_log("(?i)not authori|refus|password")
        broker.stop()
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), "edge-1", secret], check=True, capture_output=True)
        broker.start()
        hand.listen()
        edge.connected()
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        seen = [edge.text(), open(f"/proc/{edge.pid}/cmdline").read(), open(f"/proc/{edge.pid}/environ").read(), edge.get("/metrics")[1]]
        seen += [message.payload for message in hand.topics.messages]
        seen += [path.read_bytes().decode("latin-1") for path in edge.state.iterdir()]
        self.assertFalse([text for text in seen if secret in text])


if __name__ == "__main__":
    main()
