#!/usr/bin/python3
"""The whole loop, and what goes wrong around it: workers that fail or say nothing, rounds that end in every way, messages that come again, late, or
from somebody else, a broker that drops or has kept too much, jobs that are deleted at any moment."""

import json
import pathlib
import random
import shlex
import unittest

from agents import own_mounts, until, worker_name
from case import Case, main
from whole import Whole


class Loop(Case):
    def begin(self, broker=None, edge=None, cloud=None, start=True, **more):
        self.broker = self.world.broker(**(broker or {}))
        self.edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", workers_result_grace="300ms", **(edge or {}))
        self.cloud = self.world.cloud(self.broker, self.edge, start=False, **(cloud or {}))
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud, **more)
        if start:
            self.start()

    def start(self):
        self.edge.start()
        self.cloud.start()
        self.wait(self.whole.at(1, "Train", "Waiting"), "the first position")

    def wait(self, predicate, what, **more):
        return self.whole.topics.wait(predicate, what, **{"patience": 40, **more}).document

    def ended(self, number, stage, reason, since=0):
        """The state that says how this round has ended."""
        def fits(message):
            ended = self.whole.is_state(message) and message.document.get("ended") or {}
            return (ended.get("round"), ended.get("stage")) == (number, stage)
        document = self.wait(fits, f"round {number} has ended in {stage}", since=since)
        self.assertEqual(document["ended"].get("reason", ""), reason, document)
        return document

    def positions(self):
        """Each position that the state topic has shown, once."""
        seen = []
        for message in self.whole.topics.messages:
            if self.whole.is_state(message):
                position = (message.document["round"], message.document["stage"], message.document["phase"])
                if not seen or seen[-1] != position:
                    seen.append(position)
        return seen

    def uid(self):
        return next(m for m in self.whole.topics.messages if self.whole.is_state(m)).document["job"]["uid"]

    def served(self):
        return (self.whole.folder / "models" / "deploy.bin").read_text()

    def check_once(self):
        """No stage ran twice, and the job never went back."""
        self.assertEqual(len(self.whole.started()), len(set(self.whole.started())), self.whole.started())
        positions = self.positions()
        self.assertEqual(len(positions), len(set(positions)), positions)


class Workers(Loop):
    def test_a_worker_that_fails(self):
        """Its exit status and last words are the reason; its samples come back, and the next round takes them (scenario 26)."""
        self.begin(never=True)
        self.whole.tell(train="fail")
        self.whole.feed()
        document = self.wait(self.whole.at(1, "Train", "Failed"), "Train/Failed")
        self.assertEqual(document["reason"], "WorkerFailed")
        for words in ("exit code 3", "the data makes no sense"):
            self.assertIn(words, document["message"])
        self.whole.tell()
        self.wait(self.whole.over(2), "round 2 is over")
        self.assertEqual(self.whole.rounds()[2], self.whole.rounds()[1])
        self.assertEqual(self.served(), worker_name("train", self.uid(), 2))

    def test_a_worker_that_never_reports(self):
        """It ends well and has said nothing: told so after the grace period, no model of another round is evaluated, and its samples come back."""
        self.begin()
        self.whole.feed()
        self.wait(self.whole.over(1), "round 1 is over")
        self.whole.tell(train="silent")
        self.whole.feed()
        document = self.wait(self.whole.at(2, "Train", "Failed"), "Train/Failed")
        self.assertEqual(document["reason"], "ResultsMissing")
        self.assertRegex(document["message"], "(?i)worker.*(end|report)")
        self.whole.tell(eval="silent")
        document = self.wait(self.whole.at(3, "Eval", "Failed"), "Eval/Failed")
        self.assertEqual(document["reason"], "ResultsMissing")
        self.whole.tell()
        self.whole.feed()
        self.wait(self.whole.over(4), "round 4 is over")
        rounds = self.whole.rounds()
        self.assertEqual(rounds[2], rounds[3])
        del rounds[2]
        self.assertEqual(sorted(line for lines in rounds.values() for line in lines), sorted(f"sample {i}" for i in range(30)))
        self.check_once()

    def test_a_result_that_nobody_took(self):
        """The edge agent is away while the worker posts, which gives up and ends well: the same (scenario 22)."""
        self.begin()
        self.whole.tell(train="hasty")
        (self.whole.folder / "hold").touch()
        self.whole.feed()
        until(self.whole.started, "the worker runs")
        self.edge.kill()
        (self.whole.folder / "hold").unlink()
        self.wait(lambda m: self.whole.is_state(m) and m.document["phase"] in ("Starting", "Running") and m.document["reason"] == "WaitingForNode",
                  "it is visible what is awaited")
        self.edge.start()
        document = self.wait(self.whole.at(1, "Train", "Failed"), "Train/Failed")
        self.assertEqual(document["reason"], "ResultsMissing")
        self.whole.tell()
        self.wait(self.whole.over(2), "round 2 is over")
        self.assertEqual(self.served(), worker_name("train", self.uid(), 2))
        self.check_once()

    def test_a_result_that_comes_late(self):
        """The link is down when the worker ends, for as long as it takes: nobody says that there is none, and evaluation begins once."""
        self.begin()
        (self.whole.folder / "hold").touch()
        self.whole.feed()
        self.wait(self.whole.at(1, "Train", "Running"), "Train/Running")
        self.edge.kill()
        self.edge.start()
        self.edge.connected()
        self.broker.stop()
        (self.whole.folder / "hold").unlink()
        until(lambda: self.edge.metrics()["ilmare_edge_posts_total"] == 1, "the result is stored")
        self.broker.start()
        self.whole.restarted()
        self.wait(self.whole.over(1), "round 1 is over")
        self.assertEqual(len(self.whole.started()), 2)


class Outcomes(Loop):
    def rounds_of_every_kind(self, hot):
        """Deployed, refused, failed, deployed: each round finds everything armed again (scenario 20)."""
        self.begin(start=False, hot=hot, never=True)
        lib = self.world.path / "lib"
        if hot:  # the folder of hot updates, which is a fixed one, is this world's
            mounts = own_mounts()
            if mounts is None:
                raise unittest.SkipTest("this kernel lets neither root nor others make mounts of their own")
            lib.mkdir()
            for agent in (self.edge, self.cloud):
                agent.command = [*mounts, "sh", "-c", f'mount --bind {shlex.quote(str(lib))} /var/lib && exec "$@"', "sh", *agent.command]
        self.start()
        config = lib / f"sedna/model-hot-update/default/incrementallearningjob/{self.whole.name}/model_config.json"
        seen = []

        def done(number):
            seen.append((self.served(), json.loads(config.read_text()) if hot else None))
            self.assertEqual(self.served(), worker_name("train", self.uid(), number))

        self.whole.feed()
        self.ended(1, "Deploy", "")
        done(1)
        self.whole.tell(metrics=[0.5, 0.5])
        self.whole.feed()
        self.ended(2, "Deploy", "NotBetter")
        done(1)
        self.whole.tell(train="fail")
        self.whole.feed()
        self.ended(3, "Train", "WorkerFailed")
        done(1)
        self.whole.tell()
        self.ended(4, "Deploy", "")
        done(4)
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(seen[1], seen[2])
        if hot:
            self.assertNotEqual(seen[2][1], seen[3][1])
        state = self.whole.state()
        self.assertEqual(state["deployed"]["round"], 4)
        rounds = self.whole.rounds()
        self.assertEqual(rounds[3], rounds[4])
        self.check_once()

    def test_cold(self):
        self.rounds_of_every_kind(False)

    def test_hot(self):
        self.rounds_of_every_kind(True)

    def test_names_as_long_as_can_be(self):
        """253 characters for each; two jobs whose names differ in the last one only are two (scenario 29)."""
        long = ".".join(["n" * 62] * 4) + "x"
        self.begin(name=long, data_name="d" * 252 + "y", edge={"node": "e" * 253, "name": "edge"})
        other = json.loads(json.dumps(self.whole.objects([0.9, 0.5])))[-1]
        other["metadata"]["name"] = long[:-1] + "z"
        other["spec"]["outputDir"] += ".other"
        (self.cloud.manifests / "other.yaml").write_text(json.dumps(other))
        self.whole.feed()
        self.wait(self.whole.over(1), "round 1 is over")
        self.wait(lambda m: m.topic.endswith(f"/job/{other['metadata']['name']}/state") and m.document["round"] == 2, "the other's round 1 is over")
        self.assertEqual(len(set(self.whole.started())), 4)
        self.whole.check_samples()


class Messages(Loop):
    def reports(self):
        return [(m.topic, m.payload) for m in self.whole.topics.messages if "/node/" in m.topic and "/job/" in m.topic and m.payload
                and m.topic.split("/")[-1] in ("ready", "completed", "failed", "written") and not m.topic.startswith("ilmare/v1/node/")]

    def test_every_report_again_and_out_of_order(self):
        """What is repeated, reordered or comes rounds too late changes nothing (scenarios 34 and 35)."""
        self.begin()
        dice = random.Random(5)
        for number in range(1, 4):
            self.whole.feed()
            for stage in ("Train", "Eval", "Deploy"):
                self.wait(lambda m, s=stage: self.whole.is_state(m) and (m.document["round"], m.document["stage"]) == (number, s)
                          or self.whole.over(number)(m), f"{stage} of round {number}")
                again = self.reports()
                dice.shuffle(again)
                for topic, payload in again[:12]:
                    self.broker.publish(topic, payload)
            self.wait(self.whole.over(number), f"round {number} is over")
        again = self.reports() * 2
        dice.shuffle(again)
        before = self.cloud.metrics()
        for topic, payload in again:
            self.broker.publish(topic, payload)
        until(lambda: self.cloud.metrics()["ilmare_cloud_reports_total"] >= before["ilmare_cloud_reports_total"] + len(again), "all have come")
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_reports_accepted_total"], before["ilmare_cloud_reports_accepted_total"])
        self.assertEqual(len(self.whole.started()), 6)
        self.check_once()
        self.whole.check_samples()

    def test_reports_of_others(self):
        """Of another job object, of a node that has no part in it, of a round that is not there: ignored, counted, and answered."""
        self.begin()
        self.whole.feed()
        self.wait(self.whole.at(2, "Train", "Waiting"), "round 2")
        topic, payload = next(r for r in self.reports() if r[0].endswith("train/ready"))
        document = json.loads(payload)
        document["position"]["round"] = 2
        accepted = self.cloud.metrics()["ilmare_cloud_reports_accepted_total"]
        ignored = self.cloud.metrics()["ilmare_cloud_reports_ignored_total"]
        wrong = [(topic, {**document, "job": {**document["job"], "uid": "another"}}),
                 (topic.replace("/node/edge-1/", "/node/edge-2/"), {**document, "node": "edge-2"}),
                 (topic, {**document, "position": {**document["position"], "round": 7}}),
                 (topic.replace("/train/ready", "/deploy/ready"), {**document, "position": {**document["position"], "stage": "Deploy"}})]
        for each in wrong:
            self.broker.publish(*each)
        until(lambda: self.cloud.metrics()["ilmare_cloud_reports_ignored_total"] >= ignored + len(wrong), "they are counted")
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_reports_accepted_total"], accepted)
        self.assertEqual(self.positions()[-1], (2, "Train", "Waiting"))
        self.whole.feed()
        self.wait(self.whole.over(2), "round 2 is over")
        self.check_once()

    def test_messages_that_are_no_documents(self):
        """Each is refused by the cloud agent with a line that says which and why; the loop goes on."""
        self.begin()
        self.whole.feed()
        self.wait(self.whole.over(1), "round 1 is over")
        topic, payload = next(r for r in self.reports() if r[0].endswith("train/completed"))
        good = json.loads(payload)
        status = "ilmare/v1/ns/default/dataset/d/node/edge-1/status"
        wrong = [(topic, b"\x00\xff\xfe"), (topic, "{"), (topic, "[]"), (topic, {**good, "v": 2}), (topic, {**good, "node": "edge-2"}),
                 (topic, {**good, "position": {**good["position"], "round": 0}}), (topic, {**good, "position": {**good["position"], "round": 1e30}}),
                 (topic, {**good, "job": {**good["job"], "name": "other"}}), (topic, {**good, "output": "none"}),
                 (topic, json.dumps(good)[:-1] + ',"node":"edge-1"}'), (topic, "[" * 100000), (topic.replace("/completed", "/finished"), good),
                 (status, {"v": 1}), (status, "null"), ("ilmare/v1/presence/edge-1", '"online"')]
        before = self.cloud.metrics()["ilmare_cloud_messages_refused_total"]
        for each in wrong:
            self.broker.publish(*each)
        until(lambda: self.cloud.metrics()["ilmare_cloud_messages_refused_total"] >= before + len(wrong), "all are refused")
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_messages_refused_total"], before + len(wrong))
        self.assertTrue(self.cloud.logged(f"a message is refused topic={topic} error="), self.cloud.tail())
        for line in self.cloud.logged("a message is refused .*"):
            self.assertRegex(line, 'topic=ilmare/v1/.* error=".{8,}"')
        self.whole.feed()
        self.wait(self.whole.over(2), "round 2 is over")
        self.whole.check_samples()


class Broker(Loop):
    def test_a_queue_that_drops(self):
        """The broker keeps two messages for a cloud agent that is away and acknowledges all: the reports come again (scenario 41)."""
        self.begin(broker={"config": "max_queued_messages 2\n"})
        (self.whole.folder / "hold").touch()
        self.whole.feed()
        until(self.whole.started, "the worker runs")
        self.cloud.kill()
        for number in range(20):
            self.broker.publish(f"ilmare/v1/ns/default/dataset/d{number}/node/edge-9/status", {"v": 1})
        (self.whole.folder / "hold").unlink()
        until(lambda: self.edge.metrics()["ilmare_edge_posts_total"] == 1, "the result is stored")
        self.cloud.start()
        self.wait(self.whole.over(1), "round 1 is over")
        self.check_once()

    def test_what_is_left_on_the_broker(self):
        """A document of a job that is long gone, random bytes, a node that seems to be online: nothing of it is believed, and what is the cloud
        agent's to clear is gone (scenario 42)."""
        self.begin(start=False)
        stale = {"v": 1, "ts": "2026-01-01T00:00:00Z", "stamp": {"epoch": 5, "gen": 9}, "node": "edge-1",
                 "job": {"namespace": "default", "name": "gone", "uid": "gone-uid"}, "roles": ["dataset", "train"],
                 "position": {"round": 3, "stage": "Train", "phase": "Waiting"}, "workerEnded": False,
                 "dataset": {"namespace": "default", "name": "gone", "uid": "gone-data", "url": "/nowhere/data.txt", "format": "txt", "trainProb": 0.5},
                 "models": {"base": {"format": "bin", "url": "/m"}}, "outputDir": "/nowhere/out",
                 "triggers": {"train": {"checkPeriodSeconds": 1, "condition": {"operator": ">", "threshold": 0, "metric": "num_of_samples"}},
                              "deploy": {"checkPeriodSeconds": 1, "condition": {"operator": ">", "threshold": 0, "metric": "a"}}}}
        left = [("ilmare/v1/node/edge-1/job/default/gone", json.dumps(stale)), ("ilmare/v1/node/edge-1/job/default/bytes", b"\x07" * 40),
                ("ilmare/v1/ns/default/job/gone/state", '{"v":1}'), ("ilmare/v1/node/edge-1/dataset/default/gone", b"\xff" * 40),
                ("ilmare/v1/presence/edge-7", {"v": 1, "ts": "2026-01-01T00:00:00Z", "node": "edge-7", "online": True, "version": "0", "session": "x",
                                               "capabilities": []})]
        for topic, payload in left:
            self.broker.publish(topic, payload, retain=True)
        self.start()
        self.whole.feed()
        self.wait(self.whole.over(1), "round 1 is over")
        self.assertEqual(self.edge.metrics()["ilmare_edge_jobs"], 1)
        self.assertEqual(self.edge.logged("job=gone"), [])
        topics = self.world.topics(self.broker)
        kept = {m.topic for m in topics.messages if m.payload}
        self.assertEqual(kept & {topic for topic, _ in left[:4]}, set())

    def test_a_node_that_comes_for_the_first_time(self):
        """The job was there before it, the cloud agent was restarted meanwhile, and it restarts twice before it has a link (scenario 47)."""
        self.begin(start=False)
        self.cloud.start()
        self.wait(self.whole.at(1, "Train", "Waiting"), "the first position")
        self.whole.feed()
        self.cloud.kill()
        self.cloud.start()
        self.broker.stop()
        for _ in range(2):
            self.edge.start()
            self.edge.kill()
        self.edge.start()
        self.broker.start()
        self.whole.restarted()
        self.wait(self.whole.over(1), "round 1 is over")
        self.assertEqual(self.edge.metrics()["ilmare_edge_jobs"], 1)
        self.check_once()


class Changed(Loop):
    def test_a_job_that_is_changed_while_it_trains(self):
        """The running round ends as it began; what is new holds from the next decision on, and a change that makes no sense changes nothing
        (scenario 25)."""
        self.begin()
        (self.whole.folder / "hold").touch()
        self.whole.feed()
        until(self.whole.started, "the worker runs")

        def other(objects):
            spec = objects["IncrementalLearningJob/j"]["spec"]
            spec["outputDir"] = str(self.whole.folder / "other")
            spec["trainSpec"]["trigger"]["condition"]["threshold"] = 16
            spec["deploySpec"]["trigger"]["condition"]["threshold"] = 0.9

        self.whole.write(other)
        self.wait(lambda m: m.topic == "ilmare/v1/node/edge-1/job/default/j" and m.document and m.document["triggers"]["deploy"]["condition"]["threshold"] == 0.9,
                  "the node knows of it")
        (self.whole.folder / "hold").unlink()
        self.ended(1, "Deploy", "NotBetter")  # by the new threshold: that decision came after the change
        self.assertEqual(sorted(self.whole.rounds()), [1])
        self.whole.feed()
        self.wait(lambda m: self.whole.is_state(m) and m.document["round"] == 2 and (m.document.get("waiting") or {}).get("samples") == 8,
                  "eight samples for training, which would have been enough")
        self.assertEqual(self.positions()[-1], (2, "Train", "Waiting"))

        def nonsense(objects):
            other(objects)
            objects["IncrementalLearningJob/j"]["spec"]["dataset"]["trainProb"] = 2

        self.whole.write(nonsense)
        self.cloud.wait_log(r"a manifest has an error; what it described before stays as it was error=.job.yaml:\d+: spec.dataset.trainProb: ")
        self.whole.feed()
        self.ended(2, "Deploy", "NotBetter")
        first, second = self.whole.folder / "output", self.whole.folder / "other"
        self.assertEqual([p.name for p in (first / "data" / "train").iterdir()], ["1"])
        self.assertEqual([p.name for p in (second / "data" / "train").iterdir()], ["2"])
        lines = [(folder / name).read_text().splitlines() for folder in (first / "data" / "train" / "1", second / "data" / "train" / "2")
                 for name in ("data.txt", "eval.txt")]
        self.assertEqual(sorted(line for each in lines for line in each), sorted(f"sample {i}" for i in range(30)))
        self.check_once()


class Secrets(Loop):
    def test_keys_are_where_they_have_to_be(self):
        """In the environment of the workers and in their spec.json, which only the agent's user can read; in no log, topic, database or command line
        (scenario 72)."""
        secret = "CANARY-7f3a"
        self.begin(edge={"log_level": "debug"}, cloud={"log_level": "debug"},
                   secret={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3", "annotations": {"s3-endpoint": "minio:9000"}},
                           "stringData": {"ACCESS_KEY_ID": "the-id", "SECRET_ACCESS_KEY": secret}})
        self.whole.feed()
        self.wait(self.whole.over(1), "round 1 is over")
        self.assertIn(secret, self.whole.environment.read_text())
        seen = {"topics": "".join(m.payload for m in self.whole.topics.messages)}
        for agent in (self.edge, self.cloud):
            seen |= {f"{agent.name}: {page}": agent.get(page)[1] for page in ("/metrics", "/readyz")}
            seen[f"{agent.name}: log"] = agent.text()
            for path in [p for p in agent.state.rglob("*") if p.is_file()]:
                if path.name == "spec.json":
                    self.assertEqual(path.stat().st_mode & 0o777, 0o600)
                    continue
                seen[str(path)] = path.read_bytes().decode("latin-1")
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                seen[f"{process}: command line"] = (process / "cmdline").read_text(errors="replace")
            except OSError:
                pass
        self.assertEqual([where for where, text in seen.items() if secret in text], [])


class Deleted(Loop):
    """A job that is deleted leaves nothing, wherever it stands (scenario 23)."""

    def gone(self):
        def retained():
            held = {m.topic: m.payload for m in self.whole.topics.messages if not m.topic.startswith("ilmare/v1/ns/") or m.topic.endswith("/state")}
            return [topic for topic, payload in held.items() if payload and "/job/" in topic]
        until(lambda: self.edge.metrics()["ilmare_edge_jobs"] == 0, "the device has forgotten the job", 40)
        until(lambda: not retained(), lambda: f"the broker holds {retained()}")
        until(lambda: not self.processes(), lambda: f"still there: {self.processes()}")

    def processes(self):
        """Workers of this world."""
        found = []
        for each in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (each / "cmdline").read_bytes().decode(errors="replace").split("\0")
            except OSError:
                continue
            if any(word in (str(self.world.path / "worker.py"), str(self.whole.environment)) for word in words):
                found.append(words)
        return found

    def delete_at(self, stage, phase):
        self.begin()
        hold = self.whole.folder / "hold"
        if stage == "Train" and phase != "Waiting":
            hold.touch()
        if (stage, phase) != ("Train", "Waiting"):
            self.whole.feed()
        if stage == "Eval":
            until(self.whole.started, "the train worker runs")
            self.wait(lambda m: self.whole.is_state(m) and m.document["stage"] == "Eval", "Eval")
            hold.touch()
        self.wait(lambda m: self.whole.is_state(m) and (m.document["round"], m.document["stage"], m.document["phase"]) >= (1, stage, phase),
                  f"{stage}/{phase}")
        uid = self.uid()
        (self.cloud.manifests / "job.yaml").unlink()
        self.gone()
        # What comes late is answered, and nothing comes of it.
        body = {"namespace": "default", "ownerName": "j", "ownerKind": "incrementallearningjob", "kind": "train", "status": "completed",
                "results": [{"format": "bin", "url": "/m"}]}
        self.assertIn(self.edge.post(worker_name("train", uid, 1), body)[0], (200, 409))
        before = self.cloud.metrics()
        late = {m.topic: m.payload for m in self.whole.topics.messages if m.topic.endswith("/ready")}
        for topic, payload in late.items():
            self.broker.publish(topic, payload)
        until(lambda: self.cloud.metrics()["ilmare_cloud_reports_total"] >= before["ilmare_cloud_reports_total"] + len(late), "they have come")
        self.gone()
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_pods_created_total"], before["ilmare_cloud_pods_created_total"])

    def test_while_it_waits(self):
        self.delete_at("Train", "Waiting")

    def test_while_it_trains(self):
        self.delete_at("Train", "Running")

    def test_while_it_evaluates(self):
        self.delete_at("Eval", "Running")


if __name__ == "__main__":
    main()
