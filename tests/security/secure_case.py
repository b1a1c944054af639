"""A test case with a secure broker. Afterwards no key, and no part of one, is in any log, store or folder of the agents and the broker."""

from lab import SecureBroker, files_below  # first: it finds the integration tests' modules

from case import Case, main  # noqa: F401
from whole import Whole


class SecureCase(Case):
    config = ()  # changes of production.conf

    def setUp(self):
        super().setUp()
        self.addCleanup(self.check_secrets)  # before Case.end: the files are still there
        self.broker = SecureBroker(self.world, change=self.config)
        self.pki = self.broker.pki

    def check_secrets(self):
        keys = [line.encode() for pki in {self.pki, *getattr(self, "more_pki", ())} for line in pki.secrets()]
        self.assertTrue(keys)
        for file, data, _ in files_below(self.world.path):
            if file.suffix == ".key" or any(pki.dir in file.parents for pki in (self.pki, *getattr(self, "more_pki", ()))):
                continue
            found = [key for key in keys if key in data]
            self.assertFalse(found, f"{file} holds a line of a private key")

    def begin(self, **more):
        """A whole loop: self.edge ("edge-1"), self.cloud, self.whole."""
        self.edge = self.broker.edge("edge-1", dataset_check_on_arrival="true")
        self.cloud = self.broker.cloud(self.edge)
        self.broker.install()
        self.broker.start()
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud, **more)
        self.edge.start()
        self.cloud.start()
        self.whole.topics.wait(self.whole.at(1, "Train", "Waiting"), "the first position")

    def round(self, number):
        self.whole.feed()
        return self.whole.topics.wait(self.whole.over(number), f"round {number} is over", patience=60).document
