"""Going back to an earlier model with the embedded backend: an annotation in the job's manifest, which nobody but the user changes."""

import json

from agents import until
from case import Case, main
from whole import Whole


class Rollback(Case):
    def setUp(self):
        super().setUp()
        self.broker = self.world.broker(persist="always")
        self.edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", deploy_kept="9")
        self.cloud = self.world.cloud(self.broker, self.edge, start=False)
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud)
        self.edge.start()
        self.cloud.start()
        self.whole.topics.wait(self.whole.at(1, "Train", "Waiting"), "the first position")
        self.texts = {}
        for number in range(1, 4):
            self.whole.feed()
            self.over(number)
            self.texts[number] = self.served()

    def over(self, number, patience=40):
        return self.whole.topics.wait(self.whole.over(number), f"round {number} is over", patience=patience).document

    def served(self):
        return (self.whole.folder / "models" / "deploy.bin").read_text()

    def ask(self, round_number):
        """The manifest with the annotation, or (None) without."""
        def change(objects):
            if round_number is not None:
                objects["IncrementalLearningJob/j"]["metadata"]["annotations"] = {"ilmare/rollback-to": round_number}
        self.whole.write(change)

    def version(self, number):
        return json.loads((self.whole.folder / "output" / "deployed" / str(number) / "version.json").read_text())

    def test_once_for_each_wish(self):
        self.ask("1")
        state = self.over(4)
        self.assertEqual(state["ended"]["reason"], "RolledBack")
        self.assertEqual((state["deployed"]["round"], state["deployed"]["of"]), (4, 1))
        self.assertEqual(self.served(), self.texts[1])
        told = self.version(4)
        self.assertEqual((told["of"], told["model"]["sha256"], told["model"]["metrics"]), (1, state["deployed"]["sha256"], {"accuracy": 0.9}))
        # The manifest still has it. It counted.
        self.cloud.kill()
        self.cloud.start()
        self.whole.feed()
        state = self.over(5)
        self.assertEqual((state["ended"]["reason"], state["deployed"]["round"]), ("", 5))
        self.assertNotIn("of", state["deployed"])
        self.whole.check_samples()
        # Another round is another wish, and so is the same one when it was away.
        self.ask("99")
        self.cloud.wait_log("RollbackRefused.*no model of round 99 is kept; kept: 0, ")
        self.ask("4")
        self.assertEqual(self.over(6)["deployed"]["of"], 4)
        self.assertEqual(self.served(), self.texts[1])
        self.ask(None)
        self.whole.feed()
        self.assertEqual(self.over(7)["deployed"]["round"], 7)
        self.ask("4")
        self.assertEqual(self.over(8)["deployed"]["of"], 4)
        self.assertEqual(self.served(), self.texts[1])

    def test_killed_at_any_moment(self):
        """Both agents, after any step; each wish is done once."""
        steps = [lambda: None, lambda: self.cloud.wait_log("DeployReady.*back to the model"),
                 lambda: until(lambda: self.served() == self.texts[1], "it is in place", 20)]
        for number, wait in enumerate(steps, start=4):
            self.ask("1" if number == 4 else f"{number - 2}" if number == 5 else "4")
            wait()
            self.cloud.kill()
            self.edge.kill()
            self.cloud.start()
            self.edge.start()
            state = self.over(number, patience=60)
            self.assertEqual(state["ended"]["reason"], "RolledBack", number)
            self.assertEqual(self.served(), self.texts[3 if number == 5 else 1])
        self.whole.topics.wait(self.whole.at(7, "Train", "Waiting"), "the next round")
        self.whole.feed()
        self.assertEqual(self.over(7)["deployed"]["round"], 7)
        self.whole.check_samples()


if __name__ == "__main__":
    main()
