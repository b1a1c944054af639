"""What the chart renders: that the API server would take every object of a matrix of values, that wrong values are refused in words, and that
nothing changes unseen."""

import base64
import copy
import difflib
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from chart_case import CHART, Case, helm, main, one, pod_of, refused, render, setUpModule  # noqa: F401

import yaml

import golden
from agents import ROOT, program
from api import KINDS

OUTSIDE = {"external.host": "192.0.2.7", "external.alternatives": ["broker.example", "2001:db8::1"]}
PEM = "-----BEGIN CERTIFICATE-----\nMIIBsomebody\n-----END CERTIFICATE-----\n"
ELSEWHERE = {"broker.enabled": False, "broker.external.addresses": ["mqtts://broker.example:8883"], "broker.external.ca": PEM}
MATRIX = {
    "default": {},
    "node ports": {**OUTSIDE, "broker.service.type": "NodePort", "broker.service.nodePort": 30883, "enrolment.service.type": "NodePort",
                   "enrolment.service.nodePort": 30443, "edge.metrics.enabled": True},
    "load balancers": {**OUTSIDE, "broker.service.type": "LoadBalancer", "enrolment.service.type": "LoadBalancer",
                       "broker.service.externalTrafficPolicy": "Local", "broker.service.loadBalancerSourceRanges": ["192.0.2.0/24"],
                       "broker.service.annotations": {"a.example/b": "c"}},
    "host ports": {**OUTSIDE, "broker.service.hostPort": 8883, "enrolment.service.hostPort": 8443},
    "another broker": {**ELSEWHERE, "broker.external.cloudAuthSecret": "one", "broker.external.deviceAuthSecret": "two"},
    "another broker with certificates": {**ELSEWHERE, "broker.external.clientCertificates": True},
    "another broker without enrolment": {"broker.enabled": False, "broker.external.addresses": ["mqtts://broker.example"], "enrolment.enabled": False},
    "another broker with its own authority": {**ELSEWHERE, "enrolment.enabled": False},
    "another broker without TLS": {"broker.enabled": False, "broker.external.addresses": ["mqtt://broker.example"], "broker.external.insecure": True,
                                   "enrolment.enabled": False},
    "two namespaces": {"watch.namespaces": ["one", "two"], "rbac.readSecrets": False},
    "no rules": {"rbac.create": False, "rbac.serviceAccount": "given"},
    "cert-manager": {**OUTSIDE, "certificates.source": "cert-manager"},
    "existing certificates": {"certificates.source": "existing", "certificates.existing.broker": "mine", "broker.revocationLists": True},
    "existing certificates under our names": {"certificates.source": "existing"},
    "small": {"cloud.replicas": 1, "broker.persistence.enabled": False, "edge.enabled": False, "enrolment.enabled": False, "test.enabled": False,
              "networkPolicy.enabled": False, "crds.upgrade": False, "metrics.annotations": False, "broker.operators": []},
    "large": {"cloud.replicas": 3, "metrics.serviceMonitor.enabled": True, "metrics.serviceMonitor.interval": "15s", "metrics.dashboard.enabled": True,
              "metrics.serviceMonitor.labels": {"release": "prometheus"}, "edge.metrics.enabled": True, "broker.operators": ["anna", "monitor-1"],
              "broker.denied": ["edge-9"], "enrolment.denied": ["edge-8"], "certificates.keep": True, "broker.persistence.keep": False,
              "broker.persistence.storageClass": "-", "broker.extraConfig": "log_type all", "broker.extraAcl": "user x\ntopic read y",
              "mqtt.topicRoot": "site/ilmare"},
    "placed": {key: value for part in ("cloud", "broker", "edge") for key, value in {
        f"{part}.nodeSelector": {"disk": "ssd"}, f"{part}.tolerations": [{"key": "a", "operator": "Exists"}], f"{part}.priorityClassName": "high",
        f"{part}.hostAliases": [{"ip": "192.0.2.1", "hostnames": ["a.example"]}], f"{part}.podAnnotations": {"a": "b"},
        f"{part}.podLabels": {"c": "d"}}.items()} | {"cloud.affinity": {"nodeAffinity": {}}, "image.pullSecrets": ["key"], "image.registry": "r.example/x"},
    "another user at the edge": {"edge.runAsUser": 1000, "edge.runAsGroup": 1000, "edge.supplementalGroups": [44], "edge.hostPaths": [],
                                 "edge.hotUpdateDir": "", "edge.nodeLabel": "", "edge.maxUnavailable": "20%"},
    "settings": {"cloud.settings": {"workers": {"startTimeout": "20m"}, "kube": {"burst": 1000}}, "edge.settings": {"timeZone": "Europe/Paris"}},
    "names": {"broker.persistence.existingClaim": "there", "fullnameOverride": "signs"},
    "one folder for two": {"edge.hostPaths": ["/data", "/hot"], "edge.hotUpdateDir": "/hot"},
}


def minimal(group, plural, kind, required):
    """A definition that knows what an object of somebody else's needs at least."""
    spec = {"type": "object", "required": required, "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "required": ["spec"], "properties": {"spec": spec}}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}}


OTHERS = [minimal("cert-manager.io", "certificates", "Certificate", ["secretName", "issuerRef", "commonName", "usages"]),
          minimal("cert-manager.io", "issuers", "Issuer", []),
          minimal("monitoring.coreos.com", "servicemonitors", "ServiceMonitor", ["selector", "endpoints"]),
          minimal("monitoring.coreos.com", "podmonitors", "PodMonitor", ["selector", "podMetricsEndpoints"])]


def without_comments(text):
    return [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def definitions_of_others():
    """Those above, or with ILMARE_TEST_DEFINITIONS=FOLDER:FOLDER the real ones, from YAML files there: for trying by hand. They are deploy/crds of cert-manager's
    sources, and example/prometheus-operator-crd of prometheus-operator's."""
    folders = os.environ.get("ILMARE_TEST_DEFINITIONS")
    if folders is None:
        return OTHERS
    names = {each["metadata"]["name"] for each in OTHERS}
    files = [pathlib.Path(folder, f"{group}_{plural}.yaml") for folder in folders.split(":") for plural, group in (name.split(".", 1) for name in sorted(names))]
    found = [each for file in files if file.exists() for each in yaml.safe_load_all(file.read_text()) if each and each["metadata"]["name"] in names]
    assert {each["metadata"]["name"] for each in found} == names, f"{folders} has only {[each['metadata']['name'] for each in found]}"
    return found


class Matrix(Case):
    @classmethod
    def setUpClass(cls):
        cls.cluster.apply_crds(definitions_of_others())
        cls.objects = {name: render(values, release="rel", ns="default") for name, values in MATRIX.items()}

    def setUp(self):
        super().setUp()
        for name in ("one", "two"):
            if self.api.get("Namespace", None, name) is None:
                self.cluster.namespace(name)

    def dry_run(self, thing, ns=None):
        self.api.create(thing, ns, dryRun="All", fieldValidation="Strict")

    def test_the_server_takes_every_object(self):
        for name, objects in self.objects.items():
            for thing in objects:
                with self.subTest(values=name, kind=thing["kind"], name=thing["metadata"]["name"]):
                    self.assertIn(thing["kind"], KINDS)
                    self.dry_run(thing)

    def test_every_namespaced_object_says_its_namespace_and_release(self):
        for name, objects in self.objects.items():
            for thing in objects:
                with self.subTest(values=name, kind=thing["kind"], name=thing["metadata"]["name"]):
                    if KINDS[thing["kind"]][2]:
                        self.assertIn(thing["metadata"]["namespace"], ("default", "one", "two"))
                    labels = thing["metadata"]["labels"]
                    self.assertEqual((labels["app.kubernetes.io/instance"], labels["app.kubernetes.io/managed-by"]), ("rel", "Helm"))

    def test_a_name_is_made_once(self):
        for name, objects in self.objects.items():
            seen = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in objects]
            self.assertEqual(sorted(set(map(str, seen))), sorted(map(str, seen)), name)

    def test_pods_keep_to_the_restricted_standard(self):
        """The server's own admission says so. The edge agent cannot: it is on the node's network and mounts its folders."""
        ns = "restricted"
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": ns, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        self.cluster.ensure_account(ns)
        for name, objects in self.objects.items():
            for thing in objects:
                if thing["kind"] not in ("Pod", "Deployment", "StatefulSet", "Job") or "hostPort" in json.dumps(thing):
                    continue
                pod = copy.deepcopy(pod_of(thing))
                pod["metadata"]["namespace"] = ns
                pod["spec"].pop("serviceAccountName", None)
                pod["spec"].pop("priorityClassName", None)
                if thing["kind"] == "StatefulSet" and not any(v["name"] == "data" for v in pod["spec"]["volumes"]):
                    pod["spec"]["volumes"].append({"name": "data", "emptyDir": {}})
                with self.subTest(values=name, kind=thing["kind"]):
                    self.dry_run(pod)
        edge = copy.deepcopy(pod_of(one(self.objects["default"], "DaemonSet")))
        edge["metadata"]["namespace"] = ns
        edge["spec"].pop("serviceAccountName")
        with self.assertRaisesRegex(Exception, "violates PodSecurity"):
            self.dry_run(edge)

    def test_what_is_referred_to_is_there(self):
        """Every Secret, ConfigMap and account that a pod names is made by the same rendering, where the chart makes the certificates."""
        for name, objects in self.objects.items():
            if name in ("cert-manager", "no rules") or "existing" in name:
                continue
            made = {(o["kind"], o["metadata"]["name"]) for o in objects} | {("Secret", n) for n in ("one", "two")}
            for thing in objects:
                if thing["kind"] not in ("Pod", "Deployment", "StatefulSet", "DaemonSet", "Job"):
                    continue
                spec = pod_of(thing)["spec"]
                named = [("ServiceAccount", spec["serviceAccountName"])] if "serviceAccountName" in spec else []
                for volume in spec["volumes"]:
                    for source in [volume, *volume.get("projected", {}).get("sources", [])]:
                        named += [("Secret", source["secret"].get("secretName") or source["secret"]["name"])] if "secret" in source else []
                        named += [("ConfigMap", source["configMap"]["name"])] if "configMap" in source else []
                with self.subTest(values=name, kind=thing["kind"]):
                    self.assertLessEqual(set(named), made)

    def test_agents_take_their_configuration(self):
        for name, objects in self.objects.items():
            for kind, end, file, agent in (("ConfigMap", "-cloud", "cloud.yaml", "ilmare-cloud"), ("ConfigMap", "-edge", "edge.yaml", "ilmare-edge")):
                for thing in objects:
                    if thing["kind"] == kind and thing["metadata"]["name"].endswith(end):
                        with self.subTest(values=name, agent=agent):
                            path = self.world.path / file
                            secret = self.world.path / "password"
                            secret.write_text("x\n")
                            path.write_text(thing["data"][file].replace("/etc/ilmare/broker-auth/password", str(secret)))
                            env = {"PATH": "/usr/bin:/bin", "NODENAME": "edge-1", "ILMARE_NAME": "rel-cloud-1"}
                            if "passwordFile" in thing["data"][file]:
                                env["ILMARE_MQTT_USERNAME"] = "somebody"  # from the Secret
                            done = subprocess.run([program(agent), f"--config={path}", "--check-config"], env=env, capture_output=True, text=True, check=False)
                            self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_longest_names(self):
        """Helm takes 53 characters; two that differ at the end alone stay apart."""
        names = [("a" * 52 + end, "n" * 63) for end in "xy"]
        both = [render({**MATRIX["node ports"], "broker.operators": ["o" * 64]}, release=release, ns=ns) for release, ns in names]
        self.api.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n" * 63}})
        self.cluster.ensure_account("n" * 63)
        for objects in both:
            for thing in objects:
                with self.subTest(kind=thing["kind"], name=thing["metadata"]["name"]):
                    self.dry_run(thing)
                    if thing["kind"] in ("StatefulSet", "DaemonSet", "Deployment", "Job"):
                        # with a revision's digest it is a label
                        self.assertLessEqual(len(thing["metadata"]["name"]), 52)
        places = [{(o["kind"], o["metadata"]["name"]) for o in objects} for objects in both]
        self.assertFalse(places[0] & places[1])

    def test_rbac_is_what_the_file_says(self):
        """One truth: the rules bound to the account are those of rbac.yaml, whatever way they are cut."""
        def pairs(rules):
            return {(g, r, v) for rule in rules for g in rule["apiGroups"] for r in rule["resources"] for v in rule["verbs"]}
        wanted = {each["kind"]: pairs(each["rules"]) for each in yaml.safe_load_all((CHART / "rbac.yaml").read_text())}
        for name in ("default", "two namespaces"):
            roles = [o for o in self.objects[name] if o["kind"] in ("ClusterRole", "Role") and "helm.sh/hook" not in o["metadata"].get("annotations", {})]
            cluster = pairs([rule for o in roles if o["kind"] == "ClusterRole" for rule in o["rules"]])
            left_out = {("", "secrets", "get")} if name == "two namespaces" else set()
            self.assertEqual(cluster, wanted["ClusterRole"] - left_out, name)
            self.assertEqual(pairs(one(self.objects[name], "Role")["rules"]), wanted["Role"], name)
        wide = [o for o in self.objects["two namespaces"] if o["kind"] == "ClusterRoleBinding" and "helm.sh/hook" not in o["metadata"].get("annotations", {})]
        role = one([o for o in self.objects["two namespaces"] if o["kind"] == "ClusterRole"], "ClusterRole", wide[0]["roleRef"]["name"])
        self.assertEqual({r for rule in role["rules"] for r in rule["resources"]}, {"nodes", "tokenreviews"})
        self.assertEqual({o["metadata"]["namespace"] for o in self.objects["two namespaces"] if o["kind"] == "RoleBinding"}, {"one", "two", "default"})
        lease = [rule for rule in one(self.objects["default"], "Role")["rules"] if rule.get("resourceNames") and "leases" in rule["resources"]]
        settings = yaml.safe_load(one(self.objects["default"], "ConfigMap", "-cloud")["data"]["cloud.yaml"])
        self.assertEqual([rule["resourceNames"] for rule in lease], [[settings["kube"]["lease"]]])

    def test_edge_pods_have_what_they_need_and_no_more(self):
        spec = pod_of(one(self.objects["default"], "DaemonSet"))["spec"]
        security = spec["containers"][0]["securityContext"]
        self.assertEqual(security["capabilities"], {"drop": ["ALL"], "add": ["CHOWN", "DAC_OVERRIDE", "FOWNER"]})
        self.assertTrue(security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"] and not spec["automountServiceAccountToken"])
        self.assertEqual(sorted(v["hostPath"]["path"] for v in spec["volumes"] if "hostPath" in v),
                         ["/data", "/var/lib/ilmare", "/var/lib/sedna/model-hot-update"])
        self.assertFalse([v for v in spec["volumes"] if "secret" in v], "an edge node gets to read no Secret")
        self.assertIn({"serviceAccountToken": {"path": "token", "audience": "ilmare-enrolment", "expirationSeconds": 31536000}},
                      [s for v in spec["volumes"] if "projected" in v for s in v["projected"]["sources"]])
        other = pod_of(one(self.objects["another user at the edge"], "DaemonSet"))["spec"]
        self.assertEqual(other["containers"][0]["securityContext"]["capabilities"], {"drop": ["ALL"]})
        self.assertTrue(other["securityContext"]["runAsNonRoot"])
        self.assertEqual([v["hostPath"]["path"] for v in other["volumes"] if "hostPath" in v], ["/var/lib/ilmare"])

    def test_devices_trust_enrolment_and_broker(self):
        """By one file, whether they are nodes of the cluster or told by enroll-node."""
        for name, count in (("default", 1), ("another broker", 2)):
            files = [one(self.objects[name], "ConfigMap", "ilmare-ca")["data"]["ca.crt"],
                     base64.b64decode(one(self.objects[name], "Secret", "-enrolment-tls")["data"]["ca.crt"]).decode()]
            self.assertEqual([text.count("BEGIN CERTIFICATE") for text in files], [count, count], name)
        self.assertEqual(one(self.objects["another broker"], "ConfigMap", "-broker-ca")["data"]["ca.crt"].strip(), PEM.strip())

    def test_addresses(self):
        """Devices are told the way in that there is."""
        for name, broker, enrolment in (
                ("default", "mqtts://rel-ilmare-broker.default.svc:8883", "https://rel-ilmare-enrolment.default.svc:8443"),
                ("node ports", "mqtts://192.0.2.7:30883", "https://192.0.2.7:30443"),
                ("load balancers", "mqtts://192.0.2.7:8883", "https://192.0.2.7:8443"),
                ("host ports", "mqtts://192.0.2.7:8883", "https://192.0.2.7:8443"),
                ("another broker", "mqtts://broker.example:8883", "https://rel-ilmare-enrolment.default.svc:8443")):
            with self.subTest(values=name):
                told = one(self.objects[name], "ConfigMap", "-devices")["data"]
                self.assertEqual((told["broker"], told["enrolment"]), (broker, enrolment))
                self.assertEqual(told["outside"], "false" if "svc:" in enrolment else "true")
                edge = yaml.safe_load(one(self.objects[name], "ConfigMap", "-edge")["data"]["edge.yaml"])
                self.assertEqual((edge["mqtt"]["brokers"], edge["enrolment"]["url"]), ([broker], enrolment))
        # Names that enroll-node refuses are those that the cloud agent would refuse.
        told = one(self.objects["large"], "ConfigMap", "-devices")["data"]
        cloud = yaml.safe_load(one(self.objects["large"], "ConfigMap", "-cloud")["data"]["cloud.yaml"])["enrolment"]
        self.assertEqual((told["reserved"].split(), told["denied"].split()), (cloud["reserved"], cloud["denied"]))


class Texts(unittest.TestCase):
    """Without a cluster."""

    def test_lint(self):
        self.assertIn("0 chart(s) failed", helm("lint", "--strict", CHART))

    def test_golden(self):
        for case in golden.CASES:
            kept = (golden.FOLDER / f"{case}.yaml").read_text().splitlines()
            difference = list(difflib.unified_diff(kept, golden.shown(case).splitlines(), f"golden/{case}.yaml", "rendered", lineterm="", n=2))
            self.assertEqual(difference, [], "\n".join(["if this is meant: tests/chart/golden.py"] + difference[:80]))

    def test_copies(self):
        for name in ("production.conf", "production.acl"):
            self.assertEqual((CHART / "files" / name).read_text(), (ROOT / "broker-config" / name).read_text(),
                             f"cp broker-config/{name} helm/ilmare/files/")

    def test_versions(self):
        chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
        version = re.search(r"^project\(ilmare VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
        self.assertEqual((chart["version"], chart["appVersion"]), (version, version))

    def test_mosquitto_conf(self):
        """Of production.conf nothing is lost but lists of revoked certificates, and nothing is added."""
        production = without_comments((ROOT / "broker-config" / "production.conf").read_text())
        here = without_comments(one(render(), "ConfigMap", "-broker")["data"]["mosquitto.conf"])
        self.assertEqual(here, [line for line in production if not line.startswith("crlfile")])
        objects = render({"broker.persistence.enabled": False, "broker.maxConnections": 5, "broker.memoryLimit": 20000000,
                          "broker.extraConfig": "log_type all", "certificates.source": "existing", "broker.revocationLists": True})
        changed = without_comments(one(objects, "ConfigMap", "-broker")["data"]["mosquitto.conf"])
        self.assertEqual([line for line in changed if line not in production],
                         ["persistence false", "memory_limit 20000000", "max_connections 5", "log_type all"])
        self.assertEqual(sum(line.startswith("crlfile") for line in changed), 2)

    def test_access_rules(self):
        """They are those that broker-config/certificates writes."""
        with tempfile.TemporaryDirectory() as folder:
            for words in (["init", "a.example"], ["operator", "anna"], ["node", "edge-9"], ["revoke", "edge-9"]):
                subprocess.run([ROOT / "broker-config" / "certificates", "-d", folder, *words], check=True, capture_output=True)
            with open(f"{folder}/out/broker/acl", encoding="utf-8") as file:
                wanted = without_comments(file.read())
        objects = render({"broker.operators": ["anna"], "broker.denied": ["edge-9"]})
        self.assertEqual(without_comments(one(objects, "ConfigMap", "-broker")["data"]["acl"]), wanted)
        objects = render({"broker.operators": ["anna"], "broker.denied": ["edge-9"], "mqtt.topicRoot": "a/b"})
        self.assertEqual(without_comments(one(objects, "ConfigMap", "-broker")["data"]["acl"]), [line.replace("ilmare/v1", "a/b") for line in wanted])

    def test_new_pods_when_what_they_read_changes(self):
        def sums(**values):
            objects = render(values)
            return [pod_of(one(objects, kind, end))["metadata"]["annotations"]["checksum/config"]
                    for kind, end in (("StatefulSet", ""), ("Deployment", ""), ("DaemonSet", ""))]
        usual = sums()
        for values, changed in (({"broker.denied": ["x"]}, [True, True, False]), ({"edge.settings": {"logLevel": "debug"}}, [False, False, True]),
                                ({"broker.maxConnections": 7}, [True, False, False])):
            self.assertEqual([a != b for a, b in zip(usual, sums(**values))], changed, values)

    def test_certificates_carry_the_hosts(self):
        objects = render({"external.host": "192.0.2.7", "external.alternatives": ["b.example", "2001:db8::1"]})
        for end in ("-broker-tls", "-enrolment-tls"):
            pem = base64.b64decode(one(objects, "Secret", end)["data"]["tls.crt"])
            said = subprocess.run(["openssl", "x509", "-noout", "-text"], input=pem, capture_output=True, check=True).stdout.decode()
            name = end[1:-4]
            for each in (f"DNS:rel-ilmare-{name}.default.svc,", "DNS:b.example", "IP Address:192.0.2.7", "IP Address:2001:DB8:0:0:0:0:0:1"):
                self.assertIn(each, said, end)
            self.assertIn("Public Key Algorithm: id-ecPublicKey", said)


class Values(unittest.TestCase):
    """What is refused, and in which words."""

    def test_wrong_values(self):
        for values, said in (
                ({"broker.service.type": "Nodeport"}, r"broker[./]service[./]type.*one of .*ClusterIP"),
                ({"brokers.enabled": True}, r"additional properties 'brokers' not allowed"),
                ({"broker.persistence.sise": "1Gi"}, r"broker/persistence.*additional properties 'sise' not allowed"),
                ({"cloud.replicas": "two"}, r"cloud/replicas.*got string, want integer"),
                ({"cloud.replicas": 100}, r"cloud/replicas.*maximum.*20"),
                ({"external.host": "mqtts://a.example"}, r"external/host.*does not match pattern"),
                ({"edge.hostPaths": ["data"]}, r"edge/hostPaths/0.*does not match pattern"),
                ({"edge.hostPaths": ["/data/../etc"]}, r"edge/hostPaths/0.*not"),
                ({"edge.hostPaths": "/data"}, r"edge/hostPaths.*got string, want array"),
                ({"certificates.source": "self"}, r"certificates/source.*one of 'chart', 'existing', 'cert-manager'"),
                ({"broker.external.addresses": ["broker.example"]}, r"broker/external/addresses/0.*does not match pattern"),
                ({"broker.operators": ["Anna"]}, r"broker/operators/0.*does not match pattern"),
                ({"enrolment.lifetime": "1y"}, r"enrolment/lifetime.*does not match pattern"),
                ({"mqtt.topicRoot": "ilmare/#"}, r"mqtt/topicRoot.*does not match pattern"),
                ({"fullnameOverride": "1signs"}, r"fullnameOverride.*does not match pattern"),
                ({"certificates.newAuthorityAt": True}, r"certificates/newAuthorityAt.*got boolean, want integer"),
                ({"watch.namespaces": ["a", "a"]}, r"watch/namespaces.*equal"),
                ({"broker.service.nodePort": 70000}, r"broker/service/nodePort.*maximum.*65,?535"),
                ({"broker.resources.limits.memory": "1 GB"}, r"broker/resources/limits/memory.*does not match pattern"),
                ({"broker.resources.limits.memory": "100ki"}, r"broker/resources/limits/memory.*does not match pattern"),
                ({"broker.persistence.size": "1.2.3Gi"}, r"broker/persistence/size.*does not match pattern"),
                ({"image.registry": "https://registry.example"}, r"image/registry.*does not match pattern"),
                ({"image.registry": "registry.example/Ilmare"}, r"image/registry.*does not match pattern"),
                ({"broker.image.repository": "mosquitto:2.0"}, r"broker/image/repository.*does not match pattern"),
                ({"external.host": "a..example"}, r"external/host.*does not match pattern"),
                ({"edge.maxUnavailable": "0%"}, r"edge/maxUnavailable.*does not match pattern"),
                ({"mqtt.topicRoot": "caf\u00e9"}, r"mqtt/topicRoot.*does not match pattern")):
            with self.subTest(values=values):
                self.assertRegex(refused(values), said)

    def test_values_that_look_odd_and_are_fine(self):
        for values in ({"image.registry": "localhost:5000/"}, {"image.registry": "[2001:db8::1]:5000/ilmare"}, {"external.host": "Host-1.Example"},
                       {"broker.image.repository": "r.example:5000/library/eclipse-mosquitto"}, {"broker.resources.limits.memory": "2000Ki"},
                       {"external.host": "1.2.3.4"}, {"external.host": "4.example"}, {"edge.hostPaths": ["/data", "/var/lib/ilmare-jobs"]},
                       {"broker.persistence.size": "1.5Gi"}, {"edge.maxUnavailable": "100%"}):
            with self.subTest(values=values):
                render({"certificates.source": "existing", **values})

    def test_null(self):
        """What has to be something is missed by name when it is null (a mapping all of whose lines are comments is null, too); else null is nothing."""
        schema = json.loads((CHART / "values.schema.json").read_text())
        needed, optional = [], []

        def walk(part, value, path):
            part = schema["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part
            for key, inner in value.items():
                (needed if key in part.get("required", ()) else optional).append((*path, key))
                if isinstance(inner, dict) and {"properties", "$ref"} & set(part["properties"][key]):
                    walk(part["properties"][key], inner, (*path, key))

        def nested(paths):
            values = {}
            for path, value in paths:
                at = values
                for key in path[:-1]:
                    at = at.setdefault(key, {})
                at[path[-1]] = value
            return values

        def default(path, value):
            for key in path:
                value = value[key]
            return value
        defaults = yaml.safe_load((CHART / "values.yaml").read_text())
        walk(schema, defaults, ())
        has_none = {("edge", "nodeLabel"), ("edge", "hotUpdateDir")}
        self.assertEqual({p for p in optional if isinstance(default(p, defaults), (str, int)) and default(p, defaults)} - has_none, set(), "not required")
        leaves = [p for p in optional if not isinstance(default(p, defaults), dict)]
        self.assertGreater(len(leaves), 50)
        some = [(("certificates", "source"), "existing")]
        self.assertEqual(render(values=nested([*some, *((p, None) for p in leaves)])),
                         render(values=nested([*some, *((p, type(default(p, defaults))()) for p in leaves)])))
        for path in (("certificates", "days"), ("external",), ("edge", "workersPort"), ("broker", "image", "repository"), ("metrics", "dashboard")):
            self.assertIn(f"missing property '{path[-1]}'", refused(values=nested([(path, None)])))

    def test_values_that_contradict_each_other(self):
        for values, said in (
                ({"broker.enabled": False}, "broker.external.addresses names no other broker. Set it, for example"),
                ({"broker.external.addresses": ["mqtts://a.example"]}, "Set broker.enabled=false to use the other one"),
                ({"broker.enabled": False, "broker.external.addresses": ["mqtts://a.example"]}, "--set-file broker.external.ca=FILE"),
                ({"certificates.source": "cert-manager", **ELSEWHERE}, "Use certificates.source=chart or existing"),
                ({"broker.enabled": False, "broker.external.addresses": ["mqtt://a.example"]}, "mqtt://a.example is a broker without TLS"),
                ({"broker.service.type": "NodePort", "broker.service.hostPort": 8883}, "Devices need one way in"),
                ({"enrolment.service.nodePort": 30443}, "Set enrolment.service.type=NodePort"),
                ({"broker.operators": ["cloud"]}, 'an operator cannot be called "cloud"'),
                ({"broker.denied": ["edge-1", "cloud"]}, "would shut the cloud agents out"),
                ({"enrolment.denied": ["cloud"]}, "would shut the cloud agents out"),
                ({"broker.service.hostPort": 8443, "enrolment.service.hostPort": 8443}, "broker.service.hostPort and enrolment.service.hostPort are both 8443"),
                ({"broker.service.type": "NodePort", "broker.service.nodePort": 30443, "enrolment.service.type": "NodePort",
                  "enrolment.service.nodePort": 30443}, "broker.service.nodePort and enrolment.service.nodePort are both 30443"),
                ({"external.host": "a.example", "external.brokerPort": 443, "external.enrolmentPort": 443}, "at one port, a.example:443"),
                ({"external.host": "a.example", "broker.service.hostPort": 8443}, "at one port, a.example:8443"),
                ({"edge.metrics.enabled": True, "edge.metrics.port": 9100}, "edge.workersPort and edge.metrics.port are both 9100"),
                ({"external.host": "1.2.3.400"}, "1.2.3.400 is no IPv4 address"),
                ({"external.alternatives": ["1.2.3"], "certificates.source": "cert-manager"}, "1.2.3 is no IPv4 address"),
                ({"certificates.days": 400, "certificates.authorityDays": 100}, "certificates.days (400) is more than certificates.authorityDays (100)"),
                ({"broker.revocationLists": True}, "broker.revocationLists needs certificates.source=existing"),
                ({"edge.hostPaths": ["/data", "/var/lib"]}, "/var/lib is open to them"),
                ({"edge.stateDir": "/data"}, "edge.stateDir is /data. Keep the two apart"),
                ({"edge.hotUpdateDir": "/var/lib/ilmare/hot"}, "/var/lib/ilmare/hot is open to them")):
            with self.subTest(values=values):
                self.assertIn(said, refused(values))

    def test_the_schema_knows_every_value(self):
        """And values.yaml has a default for all that it knows."""
        schema = json.loads((CHART / "values.schema.json").read_text())

        def resolve(part):
            return schema["definitions"][part["$ref"].rsplit("/", 1)[1]] if "$ref" in part else part

        def known(part, path=""):
            part = resolve(part)
            for key, inner in part.get("properties", {}).items():
                yield f"{path}{key}"
                yield from known(inner, f"{path}{key}.")

        def given(value, path=""):
            for key, inner in value.items():
                yield f"{path}{key}"
                if isinstance(inner, dict):
                    yield from given(inner, f"{path}{key}.")
        free = r"(^global$|\.(labels|resources)\.|tolerations)"
        in_schema = {k for k in known(schema) if not re.search(free, k)}
        in_values = {k for k in given(yaml.safe_load((CHART / "values.yaml").read_text())) if not re.search(free, k)}
        self.assertEqual(in_values - in_schema, set(), "not in the schema")
        # What only a Service of one kind has is in both services.
        self.assertEqual(in_schema - in_values, set(), "not in values.yaml")

    def test_every_value_is_used(self):
        templates = "".join(f.read_text() for f in (CHART / "templates").rglob("*") if f.is_file())
        values = yaml.safe_load((CHART / "values.yaml").read_text())

        def leaves(value):
            for key, inner in value.items():
                yield key
                if isinstance(inner, dict):
                    yield from leaves(inner)
        for key in set(leaves(values)) - {"cpu", "memory", "requests", "limits", "grafana_dashboard"}:
            self.assertRegex(templates, rf"(\.{key}\b|\"{key}\")", key)


if __name__ == "__main__":
    main()
