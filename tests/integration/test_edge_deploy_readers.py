#!/usr/bin/python3
"""Whoever reads a deployed model while others are put into its place, and the agent is killed, reads a whole one: a file, a folder, and what
hot-updated workers find. Each deployment here writes both, in this order: the model into the hot-update folder, the one that serves, the
configuration."""

import json

from case import Case, main
from deploying import Loop, in_memory
from hand import Job


class DeployJob(Job):
    """Of a node that only deploys. Models have two names in turn, so that the configuration of a hot update may name one that is not there."""

    def __init__(self, *args, is_folder, **more):
        super().__init__(*args, hot=True, **more)
        self.is_folder, self.roles = is_folder, ["deploy"]
        if is_folder:
            self.deploy = self.dir / "models" / "serving"

    def model_name(self, number):
        return f"{'saved' if self.is_folder else 'model.bin'}-{number % 2}"


class Readers(Case):
    def setUp(self):
        with in_memory():
            super().setUp()

    def read_while_deployed(self, is_folder):
        root = self.world.path / "root"
        (root / "job").mkdir(parents=True)
        broker = self.world.broker()
        job = DeployJob(self.world, is_folder=is_folder, folder=root / "job")
        edge = self.world.edge(broker, start=False, root_dir=root, deploy_kept="1")
        hand = self.hand(broker, edge, job, auto=False)
        say = hand.say
        hand.say = lambda topic, document: say(topic, json.loads(json.dumps(document).replace(str(root), "")))
        edge.start().connected()
        hot = root / "var/lib/sedna/model-hot-update/default/incrementallearningjob/job"
        Loop(self, edge, hand, [job]).run({"name": "served", "folder" if is_folder else "file": str(job.deploy)}, {"name": "hot", "hot": str(hot)})
        # Nothing is left beside them.
        self.assertEqual(sorted(p.name for p in hot.iterdir()), sorted([job.model_name(0), job.model_name(1), "model_config.json"]))
        self.assertEqual([p.name for p in job.deploy.parent.iterdir() if p.name.startswith(".")], [])

    def test_a_file(self):
        self.read_while_deployed(False)

    def test_a_folder(self):
        self.read_while_deployed(True)


if __name__ == "__main__":
    main()
