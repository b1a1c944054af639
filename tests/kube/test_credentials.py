"""A device gets the keys of a Secret from a Kubernetes API server, through a secure broker, under the very account of helm/ilmare/rbac.yaml."""

import base64
import sys

from kube_case import HERE, Case, main, setUpModule  # noqa: F401

sys.path.append(str(HERE.parent / "security"))

from agents import until  # noqa: E402
from api import at, meta  # noqa: E402
from kube_agents import KubeCloud, rules  # noqa: E402
from lab import SecureBroker, files_below, pair  # noqa: E402

CANARY = "CANARY-7f3a"


class Credentials(Case):
    def setUp(self):
        super().setUp()
        self.broker = SecureBroker(self.world)
        self.edge = self.broker.edge("edge-1", log_level="debug", credentials_keep="disk")
        folder = self.broker.device("cloud", self.broker.pki.folder("cloud"))
        certificate, key = pair(folder)
        self.cloud = self.world.add(KubeCloud(self.world, self.broker, self.access(), mqtt_brokers=self.broker.cloud_url, log_level="debug",
                                              mqtt_ca_file=folder / "ca.crt", mqtt_cert_file=certificate, mqtt_key_file=key))
        self.broker.install()
        self.broker.start()
        self.topics = self.world.topics(self.broker, "#")
        self.kept = self.edge.state / "credentials.json"

    def access(self, without=None):
        given = rules(without)
        return self.cluster.kubeconfig(token=self.cluster.service_account(self.ns, "ilmare-cloud", given["Role"], given["ClusterRole"]), ns=self.ns)

    def secret(self, key, **more):
        data = {"ACCESS_KEY_ID": "the-id", "SECRET_ACCESS_KEY": key, **more}
        return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "store", "namespace": self.ns, "annotations": {"s3-endpoint": "minio:9000"}},
                "data": {name: base64.b64encode(value.encode()).decode() for name, value in data.items()}}

    def dataset(self):
        spec = {"url": "s3://bucket/train.txt", "format": "txt", "nodeName": "edge-1", "credentialName": "store"}
        return {"apiVersion": "sedna.io/v1alpha1", "kind": "Dataset", "metadata": {"name": "d", "namespace": self.ns}, "spec": spec}

    def holds(self, text):
        until(lambda: self.kept.exists() and text in self.kept.read_text(), lambda: f"{text} is held:\n{self.edge.tail()}\n{self.cloud.tail()}")

    def test_a_device_gets_them_and_a_rotation(self):
        mark = self.cluster.mark()
        self.api.create(self.dataset())
        self.cloud.start()
        self.edge.start()
        wanted = lambda m: m.topic.endswith("/dataset/" + self.ns + "/d") and m.document  # noqa: E731
        self.assertEqual(self.topics.wait(wanted, "the dataset's document").document["credentials"], [{"secret": "store", "urls": ["s3://bucket/train.txt"]}])
        self.api.create(self.secret(f"{CANARY}-1"))
        self.holds(f"{CANARY}-1")
        self.assertIn("https://minio:9000", self.kept.read_text())
        version = meta(self.api.get("Secret", self.ns, "store"), "resourceVersion")
        self.assertEqual(self.topics.find(wanted)[-1].document["credentials"][0]["version"], version)
        self.api.patch("Secret", self.ns, "store", {"stringData": {"SECRET_ACCESS_KEY": f"{CANARY}-2"}})
        self.holds(f"{CANARY}-2")
        # What makes no sense is not handed out, and says why; then it goes on.
        self.api.patch("Secret", self.ns, "store", {"stringData": {"SECRET_ACCESS_KEY": f"{CANARY}-3\n"}})
        self.edge.wait_log(r"credentials: not handed out.*reason=SecretIncomplete")
        self.api.patch("Secret", self.ns, "store", {"stringData": {"SECRET_ACCESS_KEY": f"{CANARY}-4"}})
        self.holds(f"{CANARY}-4")
        self.cloud.stop()
        events = [e for e in self.cluster.audit(mark) if e["user"]["username"].endswith(":ilmare-cloud")]
        self.assertEqual([e["requestURI"] for e in events if at(e, "responseStatus", "code", default=200) in (401, 403)], [])
        self.assertEqual({meta_of["name"] for e in events if e["verb"] == "get" and (meta_of := e["objectRef"])["resource"] == "secrets"}, {"store"})
        self.assertNotIn(CANARY, self.edge.text() + self.cloud.text() + "".join(m.payload for m in self.topics.messages))
        self.broker.stop()
        given = [file for file, data, _ in files_below(self.world.path) if CANARY.encode() in data and self.broker.dir in file.parents]
        self.assertEqual(given, [])

    def test_without_the_rule(self):
        self.cloud.command = [f"--kube-kubeconfig={self.access(('secrets', 'get'))}" if each.startswith("--kube-kubeconfig=") else each
                              for each in self.cloud.command]
        self.api.create(self.secret(CANARY))
        self.api.create(self.dataset())
        self.cloud.start()
        self.edge.start()
        self.edge.wait_log(r'credentials: not handed out.*reason=ClusterDenied.*cannot get resource \\"secrets\\"')
        self.access()
        self.holds(CANARY)


if __name__ == "__main__":
    main()
