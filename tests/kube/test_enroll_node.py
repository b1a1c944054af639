"""scripts/enroll-node: from an operator's command to a device that has its certificate, and nothing that anybody else could use."""

import hashlib
import os
import re
import shutil
import subprocess
import unittest

import yaml

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import PATIENCE, ROOT, build_dir
from api import meta
from enrolment import PREFIX, Enrolment

SCRIPT = ROOT / "scripts" / "enroll-node"


def kubectl():
    """The one that was built for the cluster's tests, or the machine's; None."""
    done = subprocess.run([ROOT / "scripts" / "kube-tools", "--cached", "--cluster"], capture_output=True, text=True)
    built = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    return built.get("kubectl") or shutil.which("kubectl")


@unittest.skipIf(kubectl() is None, "no kubectl")
class EnrollNode(Case):
    def setUp(self):
        super().setUp()
        self.e = Enrolment(self)
        self.bin = self.world.path / "bin"
        self.bin.mkdir()
        (self.bin / "kubectl").symlink_to(kubectl())
        self.kubeconfig = self.cluster.kubeconfig(token="admin-token", ns=self.ns)

    def release(self, name="rel", ns=None, **data):
        """What the chart makes of a release, as far as the script looks at it."""
        ns, f = ns or self.ns, f"{name}-ilmare"

        def labels(component):
            return {"app.kubernetes.io/name": "ilmare", "app.kubernetes.io/instance": name, "app.kubernetes.io/component": component}
        self.api.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"{f}-devices", "namespace": ns, "labels": labels("devices")},
                         "data": {"broker": "mqtts://broker.example.org:8883", "enrolment": self.e.url, "topicRoot": "ilmare/v1", "outside": "true", **data}})
        self.addCleanup(self.api.delete, "ConfigMap", ns, f"{f}-devices")
        pod = {"metadata": {"labels": labels("cloud")}, "spec": {"containers": [{"name": "main", "image": "none"}], "volumes": [
            {"name": "enrolment", "secret": {"secretName": f"{f}-enrolment-tls"}}]}}
        path = f"/apis/apps/v1/namespaces/{ns}/deployments"
        made = self.api.request("POST", path, {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"{f}-cloud", "labels": labels("cloud")},
                                               "spec": {"replicas": 0, "selector": {"matchLabels": labels("cloud")}, "template": pod}})
        self.addCleanup(self.api.request, "DELETE", f"{path}/{f}-cloud")
        self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": f"{f}-enrolment-tls", "namespace": ns},
                         "stringData": {"ca.crt": self.e.site.certificate.read_text()}})
        return meta(made, "uid")

    def run_script(self, *words, status=0, **env):
        done = subprocess.run([SCRIPT, *words], capture_output=True, text=True, timeout=PATIENCE * 2, env={
            **os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{self.bin}:{os.environ['PATH']}", **env})
        self.assertEqual(done.returncode, status, done.stderr)
        return done

    @staticmethod
    def parts(text):
        """(settings, authority, token), as ilmare-enroll takes the file apart."""
        found = [re.search(rf"^# BEGIN ILMARE {name}\n((?:# .*\n)+)# END ILMARE {name}\n", text, re.M)[1] for name in ("AUTHORITY", "TOKEN")]
        return text.split("# BEGIN ILMARE")[0], *(re.sub("^# ", "", each, flags=re.M) for each in found)

    def test_a_device_gets_its_certificate(self):
        uid = self.release()
        done = self.run_script("edge-7", "--valid", "1h")
        settings, authority, token = self.parts(done.stdout)
        token = token.strip()
        self.assertEqual(done.stdout.splitlines()[0], "# Ilmare enrolment file, version 1")
        self.assertEqual(done.stdout.splitlines()[1], "# node: edge-7")
        self.assertRegex(done.stdout.splitlines()[2], r"^# expires: \d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertTrue(done.stdout.endswith("# END ILMARE TOKEN\n"))
        self.assertEqual(authority, self.e.site.certificate.read_text())
        self.assertNotIn(token, done.stderr)
        secret = self.api.get("Secret", self.ns, "rel-ilmare-enrol-edge-7")
        self.assertNotIn(token, str(secret))
        owner = secret["metadata"]["ownerReferences"][0]
        self.assertEqual((owner["kind"], owner["name"], owner["uid"]), ("Deployment", "rel-ilmare-cloud", uid))
        # The settings are ones, and the agent that has them gets in.
        file = self.world.path / "edge.yaml"
        file.write_text(settings)
        checked = subprocess.run([build_dir() / "bin" / "ilmare-edge", "--check-config", f"--config={file}", f"--mqtt-ca-file={self.e.site.certificate}"],
                                 capture_output=True, text=True, env={})
        self.assertEqual(checked.returncode, 0, checked.stderr)
        self.assertIn("enrolment.url: " + self.e.url, checked.stdout)
        self.e.cloud(enrolment_secret_prefix="rel-ilmare-enrol-")
        self.assertEqual(self.e.program("edge-7", token).returncode, 0)
        self.e.fits("edge-7")
        self.e.refused(self.e.ask("edge-8", token), "none of node")

    def test_names_that_yaml_takes_for_something_else(self):
        """They are names on the device, too, for the agent and for any other reader of YAML."""
        self.release(topicRoot="null")
        for name in ("null", "123", "true", "1e3", "0x1f", "1.0", "yes", "0o7", "2026-12-01"):
            with self.subTest(name=name):
                settings = self.parts(self.run_script(name).stdout)[0]
                self.assertEqual((yaml.safe_load(settings)["node"], yaml.safe_load(settings)["mqtt"]["topicRoot"]), (name, "null"))
                file = self.world.path / "edge.yaml"
                file.write_text(settings)
                checked = subprocess.run([build_dir() / "bin" / "ilmare-edge", "--check-config", f"--config={file}",
                                          f"--mqtt-ca-file={self.e.site.certificate}"], capture_output=True, text=True, env={}, check=False)
                self.assertEqual(checked.returncode, 0, checked.stderr)
                self.assertRegex(checked.stdout, f"(?m)^node: {re.escape(name)}  #")
                self.assertRegex(checked.stdout, "(?m)^mqtt.topicRoot: null  #")

    def test_again(self):
        """The token before is void; those that are over are removed, and nothing else."""
        self.release()
        other = self.e.one_time("edge-1", seconds=-5)  # of nobody that the script knows
        first = self.parts(self.run_script("edge-7").stdout)[2].strip()
        self.run_script("edge-8", "--valid=1s")
        ends = self.api.get("Secret", self.ns, "rel-ilmare-enrol-edge-8")
        self.assertIsNotNone(ends)
        self.api.patch("Secret", self.ns, "rel-ilmare-enrol-edge-8", {"stringData": {"expires": "2020-01-01T00:00:00Z"}})
        done = self.run_script("edge-7", "--release", "rel", "--namespace", self.ns)
        self.assertIn("before is void", done.stderr)
        self.assertIsNone(self.api.get("Secret", self.ns, "rel-ilmare-enrol-edge-8"))
        self.assertIsNotNone(self.api.get("Secret", self.ns, PREFIX + "edge-1"))
        self.assertTrue(other)
        self.e.cloud(enrolment_secret_prefix="rel-ilmare-enrol-")
        self.e.refused(self.e.ask("edge-7", first), "none of node")
        self.e.given(self.e.ask("edge-7", self.parts(done.stdout)[2].strip()), "edge-7")

    def test_what_it_says(self):
        for words, text in ((("Edge",), "not a node's name"), (("cloud",), "the name of the cloud"), (("a" * 65,), "65 characters"), (("a", "b"), "one node"),
                            (("a", "--valid", "31d"), "--valid"), (("a", "--valid=x"), "--valid"), (("a", "--nope"), "no option"), (("a", "--valid"), "needs a value"),
                            (("a", "--namespace", ""), "--namespace needs a value"), (("a", "--release="), "--release needs a value"), (("a",), "no release of Ilmare in the namespace of kubectl's context: use"), (("a", "--release", "none"), 'no release "none"')):
            with self.subTest(words=words):
                done = self.run_script(*words, status=1)
                self.assertEqual(done.stdout, "")
                self.assertIn(text, done.stderr)
        self.assertIn("scripts/enroll-node NAME", self.run_script(status=2).stderr)
        self.assertIn("scripts/enroll-node NAME", self.run_script("--help").stdout)
        self.release("one", enrolment="")
        self.assertIn("enrolment.enabled", self.run_script("a", status=1).stderr)
        self.release("two", outside="false", reserved="helm-test anna", denied="edge-9 edge-10")
        for name, text in (("anna", "not for a device"), ("edge-9", "take it off broker.denied")):
            done = self.run_script(name, "--release=two", status=1)
            self.assertEqual(done.stdout, "")
            self.assertIn(text, done.stderr)
            self.assertIsNone(self.api.get("Secret", self.ns, f"two-ilmare-enrol-{name}"))
        self.run_script("edge-1", "--release=two")
        self.assertIn("one two", self.run_script("a", status=1).stderr)
        self.assertIn("external.host", self.run_script("a", "--release=two").stderr)
        self.api.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "two-ilmare-enrol-b", "namespace": self.ns}})
        self.assertIn("stays as it is", self.run_script("b", "--release=two", status=1).stderr)
        self.api.delete("Secret", self.ns, "two-ilmare-enrolment-tls")
        self.assertEqual(self.run_script("c", "--release=two", status=1).stdout, "")

    def test_without_the_right(self):
        """Nothing is printed if the Secret could not be made."""
        self.release()
        token = self.cluster.service_account(self.ns, "reader", rules=[
            {"apiGroups": ["", "apps"], "resources": ["configmaps", "secrets", "deployments"], "verbs": ["get", "list"]}])
        self.kubeconfig = self.cluster.kubeconfig(token=token, ns=self.ns)
        done = self.run_script("edge-7", status=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("cannot be made", done.stderr)

    def test_a_file_is_nobody_elses(self):
        """`>FILE` makes one that others may read."""
        self.release()
        file = self.world.path / "edge-7.yaml"
        with open(file, "w", encoding="utf-8") as out:
            file.chmod(0o644)
            env = {**os.environ, "KUBECONFIG": str(self.kubeconfig), "PATH": f"{self.bin}:{os.environ['PATH']}"}
            subprocess.run([SCRIPT, "edge-7"], stdout=out, stderr=subprocess.DEVNULL, env=env, timeout=PATIENCE * 2, check=True)
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        self.assertTrue(file.read_text().endswith("# END ILMARE TOKEN\n"))

    def test_the_token_is_on_no_command_line(self):
        """Each program that the script runs is watched."""
        self.release()
        log = self.world.path / "commands"
        for each in ("kubectl", "openssl"):
            real = kubectl() if each == "kubectl" else shutil.which(each)
            (self.bin / each).unlink(missing_ok=True)
            (self.bin / each).write_text(f'#!/bin/sh\nprintf "%s\\n" "$0 $*" >>"{log}"\nexec "{real}" "$@"\n')
            (self.bin / each).chmod(0o755)
        token = self.parts(self.run_script("edge-7").stdout)[2].strip()
        said = log.read_text()
        self.assertIn("create -f -", said)
        self.assertNotIn(token, said)
        self.assertNotIn(hashlib.sha256(token.encode()).hexdigest(), said)


if __name__ == "__main__":
    main()
