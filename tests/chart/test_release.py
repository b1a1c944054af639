"""A release in a real API server: installed, upgraded from the chart before, rolled back, uninstalled, beside another one."""

import base64
import json
import shutil

from chart_case import CHART, HERE, Case, main, setUpModule  # noqa: F401

from api import meta
from cluster import Authority, openssl
from pods import Jobs

PEM = "-----BEGIN CERTIFICATE-----\nMIIBsomebody\n-----END CERTIFICATE-----\n"
BEFORE = next((HERE / "previous").glob("ilmare-*.tgz"))
F = "fleet-ilmare"
# What no release makes or removes: the server's own, and what is told of others.
NOT_OURS = {"events", "leases", "componentstatuses", "endpoints", "endpointslices", "apiservices", "ipaddresses", "flowschemas", "prioritylevelconfigurations"}


class Release(Case):
    def setUp(self):
        super().setUp()
        self.jobs = Jobs(self, self.ns)
        self.jobs.__enter__()
        self.addCleanup(self.jobs.__exit__)
        self.addCleanup(self.remove_all)

    def remove_all(self):
        for each in json.loads(self.helm("list", "--all", "--output", "json")):
            self.helm("uninstall", each["name"])

    # ---- what is there ----

    def everything(self):
        """{(resource, namespace, name)} of all that a client can list."""
        found = set()
        groups = [("/api/v1", self.api.request("GET", "/api/v1"))]
        for group in self.api.request("GET", "/apis")["groups"]:
            path = "/apis/" + group["preferredVersion"]["groupVersion"]
            groups.append((path, self.api.request("GET", path)))
        for path, listed in groups:
            for resource in listed["resources"]:
                if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] not in NOT_OURS:
                    for item in self.api.request("GET", f"{path}/{resource['name']}").get("items") or []:
                        found.add((resource["name"], meta(item, "namespace") or "", meta(item, "name")))
        return found

    def secret(self, end, key="tls.crt", name=F):
        return base64.b64decode(self.api.get("Secret", self.ns, f"{name}-{end}")["data"][key])

    def pem(self):
        """All certificates that there are, by the ends of their Secrets' names."""
        return {end: self.secret(end) for end in ("authority", "cloud-authority", "broker-tls", "enrolment-tls", "cloud-tls", "operator-operator")}

    def install(self, *flags, chart=CHART, name="fleet"):
        return self.helm("install", name, chart, *flags)

    def upgrade(self, *flags, chart=CHART):
        return self.helm("upgrade", "fleet", chart, *flags)

    def crd(self, name="datasets.sedna.io"):
        return self.api.get("CustomResourceDefinition", None, name)

    # ---- tests ----

    def test_a_life(self):
        """The definitions of the chart before are replaced, certificates are kept, and what is left is what NOTES says."""
        before = self.everything()
        self.install(chart=BEFORE)
        was = self.pem()
        self.assertEqual(self.left_of_hooks(), set())

        self.api.patch("CustomResourceDefinition", None, "datasets.sedna.io", [
            {"op": "remove", "path": "/spec/versions/0/additionalPrinterColumns"}], how="json")
        self.api.delete("CustomResourceDefinition", None, "models.sedna.io")
        self.api.wait_gone("CustomResourceDefinition", None, "models.sedna.io")
        notes = self.upgrade()
        self.assertEqual(self.pem(), was)
        self.assertIsNotNone(self.crd("models.sedna.io"), "one that is missing is made")
        self.assertEqual([c["name"] for c in self.crd()["spec"]["versions"][0]["additionalPrinterColumns"]][:2], ["Node", "Format"])
        self.assertEqual(self.left_of_hooks(), set())
        self.assertIn("helm test fleet", notes)
        self.assertIn(f"claim data-{F}-broker-0", notes)

        chart = self.api.get("Deployment", self.ns, f"{F}-cloud")["metadata"]["labels"]["helm.sh/chart"]
        self.helm("rollback", "fleet", "1")
        self.assertEqual(self.pem(), was)
        rolled = self.api.get("Deployment", self.ns, f"{F}-cloud")["metadata"]["labels"]["helm.sh/chart"]
        self.assertNotEqual(rolled, chart)
        self.upgrade()
        self.assertEqual(self.pem(), was)

        self.helm("uninstall", "fleet")
        definitions = {("customresourcedefinitions", "", file.stem + ".sedna.io") for file in (CHART / "crds").iterdir()}
        self.assertEqual(self.everything() - before, definitions - before)
        self.assertEqual(before - self.everything(), set())

    def left_of_hooks(self):
        return {each for each in self.everything() if each[2].endswith("-crds")}

    def test_a_port_of_a_node_is_one_pods(self):
        for replicas, said in ((1, False), (2, True)):
            notes = self.install("--dry-run=client", "--set", f"enrolment.service.hostPort=8443,external.host=a.example,cloud.replicas={replicas}")
            self.assertEqual("a host port is one pod's" in notes, said)

    def test_certificates_are_renewed_by_an_upgrade(self):
        self.install("--set", "crds.upgrade=false")
        was = self.pem()

        # Other hosts: the two that carry them.
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] != now[end]}, {"broker-tls", "enrolment-tls"})
        self.verified("broker-tls", "-verify_ip", "192.0.2.7")
        self.verified("enrolment-tls", "-verify_ip", "192.0.2.7")

        # Old ones: a third of their life is over.
        was = now
        self.api.patch("Secret", self.ns, f"{F}-cloud-tls", {"metadata": {"annotations": {"ilmare/renew-after": "1"}}})
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] != now[end]}, {"cloud-tls"})
        self.verified("cloud-tls", authority="cloud-authority")

        # Another authority: all that it signs.
        was = now
        self.api.delete("Secret", self.ns, f"{F}-authority")
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7,certificates.newAuthorityAt=4")
        now = self.pem()
        self.assertEqual({end for end in was if was[end] == now[end]}, {"cloud-authority", "cloud-tls"})
        self.verified("operator-operator")
        broker = self.api.get("Secret", self.ns, f"{F}-broker-tls")["data"]
        self.assertEqual(base64.b64decode(broker["ca.crt"]), now["authority"])
        self.assertEqual(base64.b64decode(self.api.get("Secret", self.ns, f"{F}-cloud-tls")["data"]["ca.crt"]), now["authority"])
        self.assertEqual(self.api.get("ConfigMap", self.ns, f"{F}-ca")["data"]["ca.crt"].strip().encode(), now["authority"].strip())

        # Two authorities while one takes the other's place: both count, the first signs.
        new, was = Authority(self.world.path / "new", "Ilmare devices 2"), now
        both = new.certificate.read_bytes() + was["authority"]
        self.api.patch("Secret", self.ns, f"{F}-authority", {"data": {
            "tls.crt": base64.b64encode(both).decode(), "tls.key": base64.b64encode(new.key.read_bytes()).decode()}})
        self.upgrade("--set", "crds.upgrade=false,external.host=192.0.2.7")
        for end in ("broker-tls", "enrolment-tls", "operator-operator"):
            self.assertEqual(self.secret(end, "ca.crt").split(), both.split(), end)
            (self.world.path / "crt").write_bytes(self.secret(end))
            openssl("verify", "-CAfile", new.certificate, self.world.path / "crt")

    def test_a_lost_authority_is_no_new_one(self):
        """All devices hang on it, so an upgrade does not make one unasked; the one of before comes back from Helm's own record."""
        flags = ("upgrade", "fleet", CHART, "--set", "crds.upgrade=false")
        self.install("--set", "crds.upgrade=false")
        was = self.pem()
        for loss in (lambda: self.api.delete("Secret", self.ns, f"{F}-authority"),
                     lambda: [self.api.delete(kind, self.ns, f"{F}-{end}") for kind, end in (("Secret", "authority"), ("ConfigMap", "ca"))],
                     lambda: self.api.patch("Secret", self.ns, f"{F}-authority", {"data": {"tls.key": ""}})):
            loss()
            revision = json.loads(self.helm("history", "fleet", "--output", "json"))[-1]["revision"]
            for more in ((), ("--dry-run=server",), ("--set", f"certificates.newAuthorityAt={revision}")):
                message = self.helm(*flags, *more, refused=True)
                self.assertIn(f"the Secret {F}-authority is gone", message)
                self.assertIn(f"helm rollback fleet {revision} --namespace {self.ns}", message)
                self.assertIn(f"--set certificates.newAuthorityAt={revision + 1}", message)
            self.assertEqual(json.loads(self.helm("history", "fleet", "--output", "json"))[-1]["revision"], revision)
            self.helm("rollback", "fleet", str(revision))
            self.assertEqual(self.pem(), was)
            self.helm(*flags)
            self.assertEqual(self.pem(), was)
        # Without a cluster nothing is known, and nothing is refused.
        self.helm(*flags, "--dry-run=client")
        self.helm("template", "fleet", CHART, "--is-upgrade")

        # The cloud agents' authority: all that it signs is made here, unless there is another broker that knows it.
        self.api.delete("Secret", self.ns, f"{F}-cloud-authority")
        self.helm(*flags)
        self.assertEqual({end for end in was if was[end] != self.secret(end)}, {"cloud-authority", "cloud-tls"})
        self.api.delete("Secret", self.ns, f"{F}-cloud-authority")
        elsewhere = self.world.path / "elsewhere.yaml"
        elsewhere.write_text(json.dumps({"broker": {"enabled": False, "external": {
            "addresses": ["mqtts://a.example"], "ca": self.secret("authority").decode(), "clientCertificates": True}}}))
        self.assertIn(f"the Secret {F}-cloud-authority is gone", self.helm(*flags, "--values", elsewhere, refused=True))

    def test_the_first_certificates_of_a_chart_need_no_leave(self):
        """A release that had others before has lost nothing."""
        self.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "theirs", "namespace": self.ns}, "data": {"ca.crt": "x"}})
        self.install("--set", "crds.upgrade=false,certificates.source=existing,certificates.existing.caConfigMap=theirs")
        self.upgrade("--set", "crds.upgrade=false")
        was = self.pem()
        # Not those that are made at a rollback's next upgrade, either.
        self.helm("rollback", "fleet", "1")
        self.assertIsNone(self.api.get("Secret", self.ns, f"{F}-authority"))
        self.upgrade("--set", "crds.upgrade=false")
        self.assertNotEqual(self.secret("authority"), was["authority"])
        self.verified("operator-operator")

    def verified(self, end, *more, authority="authority"):
        folder = self.world.path
        (folder / "ca").write_bytes(self.secret(authority))
        (folder / "crt").write_bytes(self.secret(end))
        (folder / "key").write_bytes(self.secret(end, "tls.key"))
        openssl("verify", "-CAfile", folder / "ca", *more, folder / "crt")
        self.assertEqual(openssl("x509", "-in", folder / "crt", "-noout", "-pubkey"), openssl("pkey", "-in", folder / "key", "-pubout"))

    def test_authorities_can_be_kept(self):
        flags = ("--set", "crds.upgrade=false,certificates.keep=true")
        self.install(*flags)
        was = self.pem()
        self.helm("uninstall", "fleet")
        self.assertEqual({name for kind, ns, name in self.everything() if kind == "secrets" and ns == self.ns}, {f"{F}-authority", f"{F}-cloud-authority"})
        self.install(*flags)
        self.assertEqual([self.pem()[end] for end in ("authority", "cloud-authority")], [was[end] for end in ("authority", "cloud-authority")])
        self.helm("uninstall", "fleet")
        for end in ("authority", "cloud-authority"):
            self.api.delete("Secret", self.ns, f"{F}-{end}")

    def test_authorities_outlive_a_change_of_the_source(self):
        """Helm would remove them as the chart no longer makes them, and no device's certificate would be worth anything."""
        self.install("--set", "crds.upgrade=false")
        was = self.pem()
        flags = ("upgrade", "fleet", CHART, "--set", "crds.upgrade=false,certificates.source=existing")
        for end in ("authority", "cloud-authority"):
            self.assertIn(f"kubectl annotate secret {F}-{end} helm.sh/resource-policy=keep", self.helm(*flags, refused=True))
            self.api.patch("Secret", self.ns, f"{F}-{end}", {"metadata": {"annotations": {"helm.sh/resource-policy": "keep"}}})
        self.helm(*flags)
        for end in ("authority", "cloud-authority"):
            self.assertEqual(self.secret(end), was[end])
        self.assertIsNone(self.api.get("Secret", self.ns, f"{F}-broker-tls"))
        self.helm(*flags)
        self.helm("uninstall", "fleet")
        for end in ("authority", "cloud-authority"):
            self.assertEqual(self.secret(end), was[end])
            self.api.delete("Secret", self.ns, f"{F}-{end}")

    def test_names_that_yaml_takes_for_something_else(self):
        """A number, a truth, nothing: they are names all the same, and the server takes every object."""
        odd = {"rbac": {"serviceAccount": "1e1"}, "image": {"pullSecrets": ["true"]}, "crds": {"upgrade": False},
               "watch": {"namespaces": ["0x1f"]}, "cloud": {"priorityClassName": "null"},
               "broker": {"priorityClassName": "0o7", "operators": ["null", "1e3"], "denied": ["true", "12"],
                          "service": {"type": "LoadBalancer", "loadBalancerIP": "192.0.2.1", "loadBalancerClass": "a.example/b"},
                          "persistence": {"existingClaim": "1.5", "size": "1"}},
               "edge": {"priorityClassName": "123", "nodeLabel": "null", "hostPaths": ["/a, b", "/c #d", "/e}f"], "stateDir": "/s, t", "hotUpdateDir": "/h i"},
               "external": {"host": "1e3"}, "mqtt": {"topicRoot": "null"}}
        file = self.world.path / "odd.yaml"
        file.write_text(json.dumps(odd))
        self.cluster.namespace("0x1f")
        first = self.ns
        for name, ns, f in (("123", "null", "ilmare-123"), ("true", "1e3", "true-ilmare")):
            with self.subTest(release=name, ns=ns):
                self.ns = self.cluster.namespace(ns)
                try:
                    self.install("--values", file, name=name)
                    cloud = self.api.get("Deployment", ns, f"{f}-cloud")
                    self.assertEqual(meta(cloud, "labels")["app.kubernetes.io/instance"], name)
                    spec = cloud["spec"]["template"]["spec"]
                    self.assertEqual((spec["priorityClassName"], spec["serviceAccountName"], spec["imagePullSecrets"]), ("null", "1e1", [{"name": "true"}]))
                    spec = self.api.get("DaemonSet", ns, f"{f}-edge")["spec"]["template"]["spec"]
                    self.assertEqual([v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v], ["/s, t", "/h i", "/a, b", "/c #d", "/e}f"])
                    self.assertEqual([m["mountPath"] for m in spec["containers"][0]["volumeMounts"]][-4:],
                                     ["/rootfs" + path for path in ("/h i", "/a, b", "/c #d", "/e}f")])
                    self.assertEqual(self.api.get("ConfigMap", ns, f"{f}-devices")["data"]["topicRoot"], "null")
                finally:
                    self.remove_all()
                    self.ns = first
        # Certificates of other sources, and another broker's Secrets.
        file.write_text(json.dumps({
            **odd, "certificates": {"source": "existing", "existing": {key: "1e3" for key in ("authority", "cloudAuthority", "broker", "cloud", "enrolment", "test", "caConfigMap")}},
            "broker": {"enabled": False, "external": {"addresses": ["mqtts://a.example"], "cloudAuthSecret": "null", "deviceAuthSecret": "123",
                                                      "ca": PEM}}}))
        self.install("--values", file, name="1.5")
        self.assertEqual(self.api.get("Deployment", self.ns, "ilmare-1-5-cloud")["spec"]["template"]["spec"]["containers"][0]["env"][1]["valueFrom"]["secretKeyRef"],
                         {"name": "null", "key": "username"})

    def test_side_by_side(self):
        """Namespaces that another release follows are refused, in words; others are not, whatever the releases are called."""
        first, second, watched, other = self.ns, self.cluster.namespace(), self.cluster.namespace(), self.cluster.namespace()
        off = ("--set", "crds.upgrade=false")
        self.install(*off, "--set", f"watch.namespaces={{{watched}}}")
        for follows, said in (((), "this one would follow all of them"), (("--set", f"watch.namespaces={{{other},{watched}}}"), f"would follow {watched} as well")):
            self.ns = second
            message = self.helm("install", "fleet", CHART, *off, *follows, refused=True)
            self.assertIn(f'the release "{first}:{F}" follows {watched}', message)
            self.assertIn(said, message)
        self.install(*off, "--set", f"watch.namespaces={{{other}}}")
        self.ns = first
        self.upgrade(*off, "--set", f"watch.namespaces={{{watched}}}")
        self.assertIn("would follow", self.helm("upgrade", "fleet", CHART, *off, "--set", f"watch.namespaces={{{other}}}", refused=True))
        # A second one in the same namespace.
        third = self.cluster.namespace()
        self.install(*off, "--set", f"watch.namespaces={{{third}}}", name="another")
        self.helm("uninstall", "another")
        self.ns = second
        self.helm("uninstall", "fleet")
        self.ns = first
        self.pem()
        self.assertIsNotNone(self.api.get("Deployment", first, f"{F}-cloud"))

    def test_a_hook_that_fails_says_why(self):
        """And leaves nothing: no half of a release's hooks."""
        chart = self.world.path / "broken"
        shutil.copytree(CHART, chart)
        file = chart / "crds" / "datasets.yaml"
        self.install("--set", "crds.upgrade=false")
        file.write_text(file.read_text().replace("type: integer, jsonPath: .status.numberOfSamples", "type: nonsense, jsonPath: .status.numberOfSamples"))
        self.helm("upgrade", "fleet", chart, "--set", "crds.upgrade=true", refused=True)
        self.assertIn("datasets.sedna.io: the API server answers 422", self.jobs.output[None])
        self.assertEqual(self.left_of_hooks(), set())


if __name__ == "__main__":
    main()
