"""ilmare-cloud --apply: the custom resources of a cluster become ours, whatever was there, with no more rights than that needs."""

import copy
import os
import subprocess

from kube_case import HERE, Case, main, manifests, setUpModule  # noqa: F401

from agents import program
from api import JOB, at, meta, path_of
from authorities import system_authorities
from cluster import CRDS, Authority, definitions

FILES = sorted(CRDS.glob("*.yaml"))
RULES = [{"apiGroups": ["apiextensions.k8s.io"], "resources": ["customresourcedefinitions"], "verbs": ["get", "create", "patch"]}]


class Apply(Case):
    def apply(self, *files, kubeconfig=None, prefix=()):
        env = {**os.environ, "KUBECONFIG": str(kubeconfig or self.kubeconfig())}
        command = [*prefix, program("ilmare-cloud"), "--apply", *map(str, files or FILES)]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)

    def kubeconfig(self, rules=RULES):
        return self.cluster.kubeconfig(token=self.cluster.service_account(self.ns, "crds", cluster_rules=rules))

    def good(self, said):
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        self.assertEqual(said.stdout.split("\n")[:-1], [f"{each['metadata']['name']}: applied" for each in definitions()])

    def there(self, name="incrementallearningjobs.sedna.io"):
        return self.api.get("CustomResourceDefinition", None, name)

    def test_a_cluster_without(self):
        self.own_cluster("empty", crds=False)
        self.good(self.apply())
        for each in definitions():
            name = each["metadata"]["name"]
            made = self.api.wait("CustomResourceDefinition", None, name, lambda o: o and any(
                c["type"] == "Established" and c["status"] == "True" for c in at(o, "status", "conditions") or []), "it is established")
            self.assertEqual(made["spec"]["versions"], self.normal(each))

    def normal(self, definition):
        """As the server gives it back."""
        path = path_of("CustomResourceDefinition", None, definition["metadata"]["name"])
        query = {"fieldManager": "test", "force": "true", "dryRun": "All"}
        return self.api.request("PATCH", path, definition, content_type="application/apply-patch+yaml", query=query)["spec"]["versions"]

    def test_over_those_of_sedna(self):
        """They were applied by somebody else; jobs that are there stay as they are, and have the new columns and members."""
        self.own_cluster("sedna", crds="sedna")
        *_, job = self.api.create_all(manifests(HERE / "sedna_job.yaml", NS=self.ns, NODE="edge-1", ROOT="/data"))
        self.assertNotIn("additionalPrinterColumns", self.there()["spec"]["versions"][0])
        self.good(self.apply())
        version = self.there()["spec"]["versions"][0]
        self.assertIn("round", version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"])
        self.assertTrue(version["additionalPrinterColumns"])
        after = self.api.get(JOB, self.ns, meta(job, "name"))
        self.assertEqual((after["metadata"]["uid"], after["spec"]["trainSpec"]), (job["metadata"]["uid"], job["spec"]["trainSpec"]))

    def test_what_is_so_already_stays(self):
        self.good(self.apply())
        first = [meta(self.there(each["metadata"]["name"]), "resourceVersion") for each in definitions()]
        self.good(self.apply())
        self.assertEqual([meta(self.there(each["metadata"]["name"]), "resourceVersion") for each in definitions()], first)

    def test_a_right_that_is_missing(self):
        for verb in ("patch", "create"):
            with self.subTest(verb=verb):
                if verb == "create":
                    self.own_cluster("bare", crds=False)
                rules = copy.deepcopy(RULES)
                rules[0]["verbs"].remove(verb)
                said = self.apply(kubeconfig=self.kubeconfig(rules))
                self.assertEqual((said.returncode, said.stdout), (1, ""))
                self.assertRegex(said.stderr, rf'^ilmare-cloud: --apply: datasets.sedna.io: the API server answers 403: .*cannot {verb} resource .*\n$')

    def test_what_the_server_refuses(self):
        """And what was named after it is not sent."""
        wrong = self.world.path / "wrong.yaml"
        wrong.write_text(FILES[0].read_text().replace("type: integer", "type: whole"))
        said = self.apply(wrong, FILES[1])
        self.assertEqual((said.returncode, said.stdout), (1, ""))
        self.assertRegex(said.stderr, r"datasets\.sedna\.io: the API server answers 422: .*Unsupported value: \"whole\"")

    def test_nobody_answers(self):
        config = self.cluster.kubeconfig(token="none", server="https://127.0.0.1:1")
        said = self.apply(kubeconfig=config)
        self.assertEqual(said.returncode, 1)
        self.assertIn("datasets.sedna.io: ", said.stderr)

    def test_the_named_authority_alone_is_believed(self):
        """Whoever has a certificate of one that the system knows is not the API server."""
        other = Authority(self.world.path / "other", "Another").certificate
        token = self.cluster.service_account(self.ns, "crds", cluster_rules=RULES)
        prefix = system_authorities(self.world.path / "system", self.cluster.ca)
        for inline in (False, True):
            said = self.apply(kubeconfig=self.cluster.kubeconfig(token=token, ca=other, inline=inline), prefix=prefix)
            self.assertEqual(said.returncode, 1, said.stdout)
            self.assertIn("certificate", said.stderr)

    def test_files_that_are_none(self):
        """Nothing is sent when one of several cannot be used."""
        other = self.world.path / "other.yaml"
        other.write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n")
        torn = self.world.path / "torn.yaml"
        torn.write_text("kind: {")
        nameless = self.world.path / "nameless.yaml"
        nameless.write_text("apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: 'a/../b'}\n")
        empty = self.world.path / "empty.yaml"
        empty.write_text("# nothing\n")
        for file, why in ((other, "other.yaml:1: not a CustomResourceDefinition"), (torn, "torn.yaml:2:1: "), (nameless, "metadata.name"),
                          (empty, "there is nothing in it"), (self.world.path / "absent.yaml", "No such file")):
            with self.subTest(file=file.name):
                said = self.apply(FILES[0], file)
                self.assertEqual((said.returncode, said.stdout), (2, ""))
                self.assertIn(why, said.stderr)
        said = subprocess.run([program("ilmare-cloud"), "--apply"], capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stderr), (2, "ilmare-cloud: --apply: no file is named\n"))
        said = subprocess.run([program("ilmare-cloud"), "--cluster=kube", "--apply", FILES[0]], capture_output=True, text=True)
        self.assertEqual((said.returncode, said.stdout), (2, ""))
        self.assertIn("--apply stands first", said.stderr)


if __name__ == "__main__":
    main()
