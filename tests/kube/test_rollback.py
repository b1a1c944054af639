"""Going back to an earlier model on a real API server: an annotation, as kubectl sets it, and what comes of it. See docs/rollback.md."""

import json
import re
import signal

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import until
from api import JOB, meta
from api_proxy import Proxy
from kube_agents import FOLDER, Loop, condition, conditions

ASK, TAKEN = "ilmare/rollback-to", "ilmare/rollback"


class Steps:
    """What the tests do; self.loop is theirs."""

    def rounds(self, *numbers):
        """Rounds that deploy; the texts of their models."""
        texts = {}
        for number in numbers:
            self.loop.feed()
            ended = self.loop.over(number)
            self.assertEqual((ended["type"], ended.get("reason")), ("Completed", None))
            texts[number] = self.served()
        return texts

    def served(self):
        return (self.loop.folder / "models" / "deploy" / "saved_model.pb").read_text()

    def ask(self, value):
        self.api.patch(JOB, self.ns, self.loop.name, {"metadata": {"annotations": {ASK: value}}})

    def annotations(self):
        return {k: v for k, v in (meta(self.loop.job(), "annotations") or {}).items() if k in (ASK, TAKEN)}

    def taken(self):
        until(lambda: not self.annotations(), lambda: f"the annotation is gone: {self.annotations()}")

    def refused(self, value, why):
        """An Event that says why, and nothing else."""
        before = conditions(self.loop.job())
        self.ask(value)
        until(lambda: any(why in m for m in self.loop.events().get("RollbackRefused", [])), lambda: f"{why}: {self.loop.events()}")
        self.taken()
        now = conditions(self.loop.job())
        self.assertEqual([(c["stage"], c["type"]) for c in now], [(c["stage"], c["type"]) for c in before])

    def deployed(self):
        return condition(conditions(self.loop.job())[-1])["document"]["ilmare"]["deployed"]

    def base_of(self, number):
        """What the train pod of that round went on from."""
        found = [{e["name"]: e.get("value") for e in p["spec"]["containers"][0]["env"]} for p in self.loop.pods("train")]
        return next(env["BASE_MODEL_URL"] for env in found if env["WORKER_NAME"] == self.loop.worker("train", number))

    def back_and_on(self):
        loop = self.loop
        loop.create()
        cloud = loop.cloud()
        loop.serving()
        self.refused("0", "no model of round 0 is kept; kept: none")
        texts = self.rounds(1, 2, 3)
        self.assertEqual(len(set(texts.values())), 3)
        before = loop.serving()
        self.ask("1")
        ended = loop.over(4)
        self.assertEqual((ended["stage"], ended["type"], ended["reason"]), ("Deploy", "Completed", "RolledBack"))
        self.assertEqual(ended["message"], "back to the model of round 1")
        self.taken()
        self.assertEqual(self.served(), texts[1])
        pod = loop.serving()
        self.assertNotEqual(meta(pod, "uid"), meta(before, "uid"))
        until(lambda: texts[1].strip() in loop.kubelet.text(self.ns, meta(pod, "name")), "the new pod serves it")
        self.assertEqual((self.deployed()["round"], self.deployed()["of"]), (4, 1))
        self.refused("9", "no model of round 9 is kept; kept: 0, 1, 2, 3, 4")
        self.refused("soon", "'soon' is not the number of a round")
        self.refused("1", "the model of round 1 is the one that serves")
        # Training goes on from there, with another agent, too.
        cloud.stop()
        cloud.start()
        self.rounds(5)
        self.assertEqual(self.base_of(5), f"/home/data{FOLDER}/output/train/1")
        loop.check_samples()
        # And back to what was there first.
        self.ask("0")
        self.assertEqual(loop.over(6)["reason"], "RolledBack")
        self.assertEqual(self.served(), "the first model")
        self.taken()


class Rollback(Steps, Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)

    def test_back_and_on(self):
        self.back_and_on()
        self.assertEqual(self.loop.job()["status"]["deployedRound"], 6)
        self.assertEqual(self.loop.job()["status"]["deployedVersions"], [6, 5, 4, 0])
        told = json.loads((self.loop.folder / "output" / "deployed" / "4" / "version.json").read_text())
        self.assertEqual((told["round"], told["of"], told["job"]), (4, 1, meta(self.loop.job(), "uid")))
        self.assertEqual(told["model"]["metrics"], {"precision": [0.9, 0.8]})  # as evaluated in round 1

    def test_hot(self):
        """The worker that serves loads it, as it loads any model."""
        loop = self.loop
        loop.create(deploySpec__model={"name": "signs-deploy", "hotUpdateEnabled": True, "pollPeriodSeconds": 1})
        loop.cloud()
        first = loop.serving()
        texts = self.rounds(1, 2)
        self.ask("1")
        self.assertEqual(loop.over(3)["reason"], "RolledBack")
        self.assertEqual(self.served(), texts[1])
        folder = loop.root / f"var/lib/sedna/model-hot-update/{self.ns}/incrementallearningjob/signs-demo"
        config = json.loads((folder / "model_config.json").read_text())["model_config"]
        self.assertEqual(config["model_update_time"], "round-3")
        self.assertEqual((folder / config["model_path"].rsplit("/", 1)[-1]).read_text(), texts[1])
        self.assertEqual(meta(loop.serving(), "uid"), meta(first, "uid"))
        until(lambda: loop.kubelet.text(self.ns, meta(first, "name")).count(f"serves {texts[1].strip()}") == 2, "it served it twice")
        self.assertEqual((self.deployed()["round"], self.deployed()["of"]), (3, 1))

    def test_what_is_not_there_any_more(self):
        """What serves goes on serving, the reason is said, and the job goes on."""
        loop = self.loop
        loop.create()
        loop.cloud()
        loop.serving()
        texts = self.rounds(1, 2, 3)
        version = next(p for p in (loop.folder / "output" / "deployed" / "1").iterdir() if p.name != "version.json")
        version.write_text("not what was deployed")
        self.ask("1")
        ended = loop.over(4)
        self.assertEqual((ended["stage"], ended["type"], ended["reason"]), ("Deploy", "Failed", "VersionDamaged"))
        self.taken()
        version.unlink()
        self.ask("1")
        ended = loop.over(5)
        self.assertEqual((ended["stage"], ended["type"], ended["reason"]), ("Deploy", "Failed", "VersionMissing"))
        self.assertEqual(self.served(), texts[3])
        self.assertNotIn(str(loop.root), ended["message"])
        self.assertEqual(self.deployed()["round"], 3)
        until(lambda: any("VersionMissing" in m for m in loop.events().get("DeployFailed", [])), "an Event says so")
        loop.at(6, "Train", "Waiting", patience=60)
        self.rounds(6)
        loop.check_samples()


class Killed(Steps, Case):
    def test_at_each_write_of_a_rollback(self):
        """The cloud agent is killed when the write is done: another one goes on, and the wish is done once."""
        self.loop = loop = Loop(self)
        proxy = Proxy(self.cluster)
        self.addCleanup(proxy.close)
        access = loop.access(server=proxy.url)
        loop.create()
        cloud = loop.cloud(kubeconfig=access)
        loop.serving()
        texts = self.rounds(1, 2, 3)
        texts[4] = texts[1]
        job = r"PATCH .*/incrementallearningjobs/signs-demo"
        # Taken, decided, cleaned up: the third is the second of its kind.
        steps = [(job + "$", 1, "1"), (job + "/status", 1, "3"), (job + "$", 2, "4")]
        for number, (pattern, nth, to) in enumerate(steps, 4):
            with self.subTest(pattern=pattern, nth=nth):
                count = []

                def kill(request, cloud=cloud, pattern=pattern, nth=nth, count=count):
                    if re.search(pattern, request):
                        count.append(request)
                        if len(count) == nth:
                            cloud.process.kill()
                proxy.listeners[:] = [kill]
                self.ask(to)
                until(lambda: len(count) >= nth, f"it writes {pattern} {nth} times")
                proxy.listeners.clear()
                cloud.end(signal.SIGKILL)
                self.api.delete("Lease", self.ns, "ilmare-cloud")
                cloud.start()
                self.assertEqual(loop.over(number)["reason"], "RolledBack")
                self.taken()
                self.assertEqual(self.served(), texts[int(to)])
        loop.at(7, "Train", "Waiting")
        self.assertEqual(self.deployed()["round"], 6)
        self.rounds(7)
        loop.check_samples()


class OfSedna(Steps, Case):
    def test_definitions_of_sedna(self):
        """They keep nothing of ours but the conditions, which is enough."""
        self.own_cluster("sedna", crds="sedna")
        self.loop = Loop(self)
        self.back_and_on()
        self.assertNotIn("deployedVersions", self.loop.job()["status"])
        self.end_watchers()


if __name__ == "__main__":
    main()
