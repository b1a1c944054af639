"""More documents at once than the link's queue holds."""

import json

from agents import until
from case import Case, main

JOBS = 1200


def thing(kind, name, spec):
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


class ManyJobs(Case):
    def test_every_document_reaches_the_broker(self):
        """Their credential is missing, so that no pod starts; the documents are there all the same."""
        broker = self.world.broker()
        cloud = self.world.cloud(broker, start=False)
        topics = self.world.topics(broker)
        template = {"spec": {"nodeName": "edge-1", "containers": [{"name": "w", "command": ["/bin/true"]}]}}
        train = {"operator": ">", "threshold": 10, "metric": "num_of_samples"}
        deploy = {"operator": ">", "threshold": 0, "metric": "accuracy_delta"}
        parts = [thing("Dataset", "d", {"url": str(self.world.path / "d.txt"), "format": "txt", "nodeName": "edge-1"}),
                 thing("Model", "m", {"url": str(self.world.path / "m.bin"), "format": "bin"})]
        for number in range(JOBS):
            parts.append(thing("IncrementalLearningJob", f"j{number}", {
                "initialModel": {"name": "m"}, "dataset": {"name": "d", "trainProb": 0.8}, "credentialName": "missing",
                "trainSpec": {"template": template, "trigger": {"condition": train}}, "evalSpec": {"template": template},
                "deploySpec": {"model": {"name": "m"}, "trigger": {"condition": deploy}, "template": template},
                "outputDir": str(self.world.path / "output" / str(number))}))
        for at in range(0, len(parts), 100):
            (cloud.manifests / f"{at}.yaml").write_text("---\n".join(json.dumps(each) + "\n" for each in parts[at:at + 100]))
        cloud.start()

        def held(is_wanted):
            """What the broker holds, by topic."""
            newest = {m.topic: m.document for m in list(topics.messages) if is_wanted(m.topic)}
            return {topic: document for topic, document in newest.items() if document}

        def desired():
            return held(lambda topic: "/node/edge-1/job/" in topic)

        def states():
            return held(lambda topic: topic.endswith("/state"))

        until(lambda: len(desired()) == JOBS, lambda: f"{JOBS} documents: {len(desired())}", 90, 0.2)
        until(lambda: sum(s["reason"] == "MissingSecret" for s in states().values()) == JOBS, lambda: f"{JOBS} states: {len(states())}", 60, 0.2)
        inventory = topics.last("ilmare/v1/node/edge-1/inventory").document
        self.assertEqual(sorted(inventory["jobs"]), sorted(d["job"]["uid"] for d in desired().values()))
        self.assertGreater(sum(len(json.dumps(d)) for d in desired().values()), 1 << 20)
        self.assertNotIn("cannot publish", cloud.text())


if __name__ == "__main__":
    main()
