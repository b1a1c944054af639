"""The rules of helm/ilmare/rbac.yaml are all that is needed, and each of them is: where one is missing, what is said names it."""

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import until
from api import JOB, at, meta
from kube_agents import Loop, each_rule

KINDS = ("incrementallearningjobs", "datasets", "models", "secrets", "pods", "nodes")


class Rules(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)

    def missing(self, resource, verb):
        """A cloud agent without this rule, and with a job."""
        self.loop.create()
        return self.loop.cloud(kubeconfig=self.loop.access((resource, verb)))

    def said(self, cloud, verb, resource):
        """In its log: the server's own words, as RBAC puts them."""
        base, _, sub = resource.partition("/")
        cloud.wait_log(rf'cannot {verb} resource \\?"{base}{"/" + sub if sub else ""}\\?"')

    def granted(self, cloud, check):
        """With the rule it goes on by itself."""
        self.loop.access()
        check()

    def test_what_is_read(self):
        """readyz names the rule; the agent goes on when it is there."""
        for resource in KINDS:
            with self.subTest(resource=resource):
                cloud = self.loop.cloud(name=f"without-{resource}", kubeconfig=self.loop.access((resource, "list")))
                reason = until(lambda: (text := cloud.get("/readyz"))[0] == 503 and resource in text[1] and text[1], "it says why")
                self.assertIn("list and watch", reason)
                self.assertIn(f'cannot list resource \\"{resource}\\"' if '\\"' in reason else f'cannot list resource "{resource}"', reason)
                self.loop.access()
                cloud.ready()
                cloud.stop()

    def test_watch(self):
        for resource in KINDS:
            with self.subTest(resource=resource):
                cloud = self.loop.cloud(name=f"without-{resource}", kubeconfig=self.loop.access((resource, "watch")))
                self.said(cloud, "watch", resource)
                cloud.stop()

    def test_lease(self):
        for verb in ("get", "create", "update"):
            with self.subTest(verb=verb):
                if verb != "update":
                    self.api.delete("Lease", self.ns, "ilmare-cloud")
                cloud = self.loop.cloud(name=f"without-{verb}", kubeconfig=self.loop.access(("leases", verb)))
                self.said(cloud, verb, "leases")
                self.assertIn("needed are the verbs get, create and update", cloud.text())
                until(lambda: (answer := cloud.get("/readyz"))[0] == 503 and f"cannot {verb} resource" in answer[1], lambda: cloud.get("/readyz"))
                self.loop.access()
                cloud.wait_log("leading epoch")
                cloud.ready()
                cloud.kill()

    def test_status_of_jobs(self):
        cloud = self.missing("incrementallearningjobs/status", "patch")
        self.said(cloud, "patch", "incrementallearningjobs/status")
        until(lambda: any("incrementallearningjobs/status" in m for m in self.loop.events().get("ClusterDenied", [])), "an Event says so")
        self.granted(cloud, lambda: self.loop.at(1, "Train", "Waiting"))

    def test_annotations_of_jobs(self):
        cloud = self.missing("incrementallearningjobs", "patch")
        self.loop.at(1, "Train", "Waiting")
        self.api.patch(JOB, self.ns, "signs-demo", {"metadata": {"annotations": {"ilmare/rollback-to": "7"}}})
        self.said(cloud, "patch", "incrementallearningjobs")
        until(lambda: any("ilmare/rollback-to" in m for m in self.loop.events().get("ClusterDenied", [])), "an Event says so")
        self.loop.feed()
        self.loop.over(1)  # which is no reason to stand still
        self.granted(cloud, lambda: self.loop.wait(lambda o: "ilmare/rollback-to" not in (meta(o, "annotations") or {}), "it is taken"))

    def test_status_of_datasets(self):
        cloud = self.missing("datasets/status", "patch")
        self.loop.feed()
        self.said(cloud, "patch", "datasets/status")
        self.loop.over(1)  # which is no reason to stand still
        self.granted(cloud, lambda: self.api.wait("Dataset", self.ns, "traffic-signs", lambda o: at(o, "status", "numberOfSamples") == 10,
                                                  "its status is written"))

    def test_status_of_models(self):
        cloud = self.missing("models/status", "patch")
        self.loop.serving()
        self.loop.feed()
        self.said(cloud, "patch", "models/status")
        self.loop.over(1)  # which is no reason to stand still
        self.granted(cloud, lambda: self.api.wait("Model", self.ns, "signs-deploy", lambda o: at(o, "status", "updateTime"), "its status is written"))

    def test_pods_created(self):
        cloud = self.missing("pods", "create")
        self.said(cloud, "create", "pods")
        until(lambda: any('create resource "pods"' in m for m in self.loop.events().get("ClusterDenied", [])), "an Event says so")
        self.granted(cloud, self.loop.serving)

    def test_pods_deleted(self):
        cloud = self.missing("pods", "delete")
        self.loop.serving()
        self.loop.feed()
        self.said(cloud, "delete", "pods")
        self.loop.at(1, "Deploy", "Completed")

    def test_events(self):
        """Refused, they are missing, and that is all. (Nothing here has to be said twice, so the rule to count one is not tried.)"""
        cloud = self.loop.cloud(name="without-create", kubeconfig=self.loop.access(("events", "create")))
        self.loop.create()
        self.loop.serving()
        self.said(cloud, "create", "events")
        cloud.stop()

    def test_nothing_is_asked_that_is_not_allowed(self):
        """A round, under the very account: the audit log knows of no request that was refused, and each rule was used."""
        mark = self.cluster.mark()
        self.loop.create()
        cloud = self.loop.cloud()
        self.loop.serving()
        self.loop.feed()
        self.loop.over(1)
        self.loop.metrics(0.5, 0.5)
        self.loop.feed()
        self.loop.over(2)
        self.api.patch(JOB, self.ns, "signs-demo", {"metadata": {"annotations": {"ilmare/rollback-to": "7"}}})
        self.loop.wait(lambda o: not meta(o, "annotations"), "it is refused")
        self.api.delete(JOB, self.ns, "signs-demo")
        cloud.stop()
        events = [e for e in self.cluster.audit(mark) if e["user"]["username"] == self.loop.user]
        refused = [(e["verb"], e["requestURI"]) for e in events if at(e, "responseStatus", "code", default=200) in (401, 403)]
        self.assertEqual(refused, [])
        used = {(e["objectRef"]["resource"] + ("/" + e["objectRef"]["subresource"] if e["objectRef"].get("subresource") else ""), e["verb"])
                for e in events if e.get("objectRef")}
        # A pod that is there already is fetched, a repeated Event is counted, a Secret is read for a device: none of it has to happen here. Rules of
        # enrolment are tried in test_enrolment.py.
        self.assertLessEqual(used, set(each_rule()))
        self.assertLessEqual(set(each_rule()) - used, {("pods", "get"), ("events", "patch"), ("secrets", "get"), ("tokenreviews", "create"),
                                                                   ("secrets", "patch"), ("secrets", "delete")})


if __name__ == "__main__":
    main()
