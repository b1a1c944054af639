#!/usr/bin/python3
"""Whoever reads a deployed model at a store while others are put into its place, and the agent is killed, gets a whole one."""

from bed import Case, clean_env, main
from deploying import Loop, in_memory
from hand import Job
from test_device import RemoteHand, RemoteJob


class DeployJob(RemoteJob):
    """Of a node that only deploys. What serves is at the store; the rest is of this machine."""

    def __init__(self, case, store):
        Job.__init__(self, case.world)
        self.case, self.store, self.is_folder, self.roles = case, store, False, ["deploy"]
        self.deploy = store.folder / "bucket" / "serving" / "model bin+1.bin"

    def model_name(self, number):
        return "model.bin"


class Readers(Case):
    def setUp(self):
        with in_memory():
            super().setUp()

    def test_an_object(self):
        store = self.gateway()
        broker = self.world.broker()
        job = DeployJob(self, store)
        edge = self.world.edge(broker, start=False, env=clean_env(self.env), deploy_kept="1")
        hand = RemoteHand(self.world, broker, edge, job, auto=False)
        self.addCleanup(hand.close)
        edge.start().connected()
        Loop(self, edge, hand, [job]).run({"name": "object", "object": f"{store.url()}/bucket/serving/model%20bin%2B1.bin", "key": store.key,
                                           "secret": store.secret})
        self.assertEqual(self.left(store.folder / "bucket"), ["serving/model bin+1.bin"])


if __name__ == "__main__":
    main()
