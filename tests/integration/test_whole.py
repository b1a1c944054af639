"""The whole loop with real parts: both agents, a broker, workers as processes. Faults between any two steps lose nothing."""

import contextlib
import hashlib
import json
import random
import sqlite3
import time

from agents import until
from case import Case, main
from whole import Whole


class WholeLoop(Case):
    def setUp(self):
        super().setUp()
        self.broker = self.world.broker(persist="always")
        self.edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true")
        self.cloud = self.world.cloud(self.broker, self.edge, start=False)

    def begin(self, **more):
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud, **more)
        self.edge.start()
        self.cloud.start()
        self.whole.topics.wait(self.whole.at(1, "Train", "Waiting"), "the first position")

    def round(self, number, patience=40):
        self.whole.feed()
        return self.whole.topics.wait(self.whole.over(number), f"round {number} is over", patience=patience).document

    def test_better_models_are_deployed_round_after_round(self):
        self.begin()
        for number in range(1, 4):
            state = self.round(number)
            self.assertEqual(state["deployed"]["round"], number)
            served = (self.whole.folder / "models" / "deploy.bin").read_bytes()
            self.assertEqual(state["deployed"]["sha256"], hashlib.sha256(served).hexdigest())
        self.assertEqual(sorted(self.whole.rounds()), [1, 2, 3])
        self.whole.check_samples()
        # The Model's own status says so too.
        until(lambda: self.status_of("deploy").get("updateTime") == state["deployed"]["since"], lambda: self.status_of("deploy"), patience=40)
        self.assertEqual(self.status_of("deploy")["metrics"], [{"key": "accuracy", "value": "0.9"}])
        self.assertEqual(self.status_of("initial"), {})

    def status_of(self, model):
        """As the agent, which has its database for itself, left it when it was stopped."""
        self.cloud.stop()
        with contextlib.closing(sqlite3.connect(self.cloud.state / "cluster.db")) as database:
            text, = database.execute("SELECT status FROM objects WHERE name = ?", (self.whole.model(model),)).fetchone()
        self.cloud.start()
        return json.loads(text or "{}")

    def test_a_model_that_is_no_better_is_refused(self):
        self.begin(metrics=(0.5, 0.5))
        state = self.round(1)
        self.assertEqual(state["ended"]["reason"], "NotBetter")
        self.assertNotIn("deployed", state)
        self.assertEqual((self.whole.folder / "models" / "deploy.bin").read_text(), "deploy")

    def test_metrics_of_many_classes(self):
        """More numbers than a condition has room for: the trigger takes their mean all the same."""
        self.begin(metrics=([0.9 + i / 1000 for i in range(80)], [0.5 + i / 1000 for i in range(80)]))
        state = self.round(1)
        self.assertEqual((state["ended"]["reason"], state["deployed"]["round"]), ("", 1))
        self.assertTrue(state["metrics"]["new"]["truncated"])

    def test_agents_that_are_killed_at_any_moment(self):
        self.begin()
        rng = random.Random(7)
        positions = [("Train", "Ready"), ("Train", "Running"), ("Eval", "Waiting"), ("Eval", "Ready"), ("Deploy", "Waiting")]
        hold = self.whole.folder / "hold"
        for number in range(1, 6):
            stage, phase = positions[number - 1]
            if phase == "Running":  # what is done sooner is not shown as such
                hold.touch()
            self.whole.feed()
            self.whole.topics.wait(lambda m, n=number, s=stage, p=phase: self.whole.is_state(m) and (m.document["round"], m.document["stage"]) >= (n, ""),
                                   f"round {number} has begun")
            self.whole.topics.wait(self.whole.at(number, stage, phase), f"{number}/{stage}/{phase}", patience=40)
            victims = rng.sample([self.edge, self.cloud], rng.randint(1, 2))
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.start()
            hold.unlink(missing_ok=True)
            self.whole.topics.wait(self.whole.over(number), f"round {number} is over", patience=60)
        self.assertEqual(sorted(self.whole.rounds()), [1, 2, 3, 4, 5])
        self.whole.check_samples()

    def test_credentials_reach_the_workers(self):
        self.begin(secret={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3", "annotations": {"s3-endpoint": "minio:9000"}},
                           "stringData": {"ACCESS_KEY_ID": "the-id", "SECRET_ACCESS_KEY": "the-key"}})
        lines = until(lambda: self.whole.environment.exists() and self.whole.environment.read_text().splitlines(), "the worker has started")
        self.assertLessEqual({"S3_ENDPOINT_URL=https://minio:9000", "ACCESS_KEY_ID=the-id", "SECRET_ACCESS_KEY=the-key"}, set(lines))
        self.round(1)  # its train and eval workers start with them too
        self.assertNotIn("the-key", self.cloud.text() + self.edge.text() + "".join(m.payload for m in self.whole.topics.messages))

    def test_a_key_that_is_missing_is_said(self):
        self.begin(secret={"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": {"ACCESS_KEY_ID": "the-id"}})
        self.cloud.wait_log("the Secret default/s3 has no key SECRET_ACCESS_KEY")
        self.whole.feed()
        failed = self.whole.topics.wait(self.whole.at(1, "Train", "Failed"), "the stage fails").document
        self.assertIn("SECRET_ACCESS_KEY", failed["message"])

    def test_broker_that_forgets_everything(self):
        self.begin()
        self.round(1)
        self.broker.kill()
        self.broker.forget()
        self.whole.feed()
        self.broker.start()
        self.whole.restarted()
        self.whole.topics.wait(self.whole.over(2), "round 2 is over", patience=60)
        self.whole.check_samples()

    def test_a_deleted_job_leaves_nothing(self):
        self.begin()
        self.round(1)
        (self.cloud.manifests / "job.yaml").unlink()
        until(lambda: self.edge.metrics()["ilmare_edge_jobs"] == 0, "the device has forgotten the job")
        retained = {}
        for message in self.whole.topics.messages:
            retained[message.topic] = message.payload
        until(lambda: not [t for t, p in {m.topic: m.payload for m in self.whole.topics.messages}.items() if p and "/job/" in t and "/node/edge-1/" not in t.split("/job/")[1]],
              "the broker holds nothing of it")


class CloudNames(Case):
    def test_two_cloud_agents_of_one_name(self):
        """They throw each other out; both see it, say it, slow down, and go on working."""
        broker = self.world.broker()
        clouds = []
        for name in ("first", "second"):
            manifests = self.world.path / f"{name}.manifests"
            manifests.mkdir()
            clouds.append(self.world.cloud(broker, name=name, local_manifests_dir=manifests, mqtt_reconnect_max="2s"))
            until(clouds[-1].is_linked, f"{name} is connected")

        def connects():
            return sum(cloud.metrics()["ilmare_mqtt_connects_total"] for cloud in clouds)

        for cloud in clouds:
            until(lambda c=cloud: c.metrics()["ilmare_mqtt_takeovers_total"] >= 1, f"{cloud.name} sees it", 30)
            cloud.wait_log("another client with the same name")
        before, begin = connects(), time.monotonic()
        until(lambda: connects() >= before + 3, "they go on trying", 60)
        self.assertGreater(time.monotonic() - begin, 0.5)  # no storm
        for cloud in clouds:
            self.assertTrue(cloud.serves())
        first, second = clouds
        second.stop()
        topics = self.world.topics(broker)
        topics.wait(lambda m: m.topic == "ilmare/v1/presence/cloud" and m.document["online"], "the first one says that it is there")
        until(first.is_linked, "the first one stays", 30)


if __name__ == "__main__":
    main()
