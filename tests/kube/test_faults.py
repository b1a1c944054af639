"""A job that goes on whatever the way to the API server is like: a proxy in front of it fails in every way that is known. After each fault the
world is right: the round ends, one pod serves, one pod ran for each stage, no sample is lost or taken twice."""

import re

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import own_mounts, until
from api import at, meta
from api_proxy import EXPIRED, Proxy, answer
from cluster import Authority, definitions
from kube_agents import Loop

JOBS = "incrementallearningjobs"
KINDS = (JOBS, "datasets", "models", "secrets", "pods", "nodes")
LIST, WATCH = r"^GET .*/{}(\?(?!.*watch=1).*)?$", r"^GET .*/{}\?.*watch=1"


class Faults(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)
        self.proxy = Proxy(self.cluster)
        self.addCleanup(self.proxy.close)
        self.rounds = 0

    def begin(self, **options):
        self.loop.create()
        self.cloud = self.loop.cloud(kubeconfig=self.loop.access(server=self.proxy.url), **options)
        self.loop.serving(40)

    def round(self, patience=60):
        """One more, which deploys."""
        self.rounds += 1
        self.loop.feed()
        self.assertEqual(self.loop.over(self.rounds, patience=patience)["type"], "Completed")

    def right(self):
        self.loop.serving()
        self.loop.check_samples()
        for kind in ("train", "eval"):
            self.assertEqual(len(self.loop.started(kind)), self.rounds, self.loop.started(kind))

    # ---- reading ----

    def test_watch_that_is_too_old(self):
        """410 as the status of a watch, and in its stream: listed anew."""
        self.begin()
        for what in (answer(410), EXPIRED):
            for kind in KINDS:
                lists = len(self.proxy.requests(LIST.format(kind)))
                fault = self.proxy.fault(WATCH.format(kind), what)
                self.proxy.cut(WATCH.format(kind))
                until(lambda: fault.met, f"the watch of {kind} is asked for")
                self.proxy.wait(LIST.format(kind), lists + 1)
            self.cloud.ready()
            self.round()
        self.right()

    def test_lists_that_fail(self):
        for kind, what in zip(KINDS, (answer(500), answer(503, retry=1), answer(429, retry=1), answer(403), None, answer(504))):
            self.proxy.fault(LIST.format(kind), what)
        self.begin()
        self.cloud.ready()
        self.round()
        self.right()

    def test_objects_that_change_while_nothing_is_seen(self):
        """All watches hang or are cut; what was deleted and made meanwhile is found by the next list."""
        self.begin()
        self.proxy.refuse()
        before = self.loop.serving()
        self.api.delete("Pod", self.ns, meta(before, "name"), grace=0)
        self.loop.feed()
        self.proxy.accept()
        self.rounds = 1
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.right()

    def test_watches_that_are_silently_dead(self):
        """They stay open and bring nothing, no bookmark either: begun anew after a while, and what was missed is seen. Nothing is wrong: some
        servers have no bookmarks for what never changes."""
        self.begin(kube_watch_silence="3s")
        hung = self.proxy.hang(r"watch=1")
        self.assertGreaterEqual(hung, len(KINDS))
        self.round()
        self.right()
        self.assertNotIn("nothing comes", self.loop.clouds[0].text())

    def test_streams_that_are_cut_again_and_again(self):
        self.begin()
        for _ in range(3):
            self.loop.feed()
            for kind in KINDS:
                self.proxy.cut(WATCH.format(kind))
            self.rounds += 1
            self.assertEqual(self.loop.over(self.rounds)["type"], "Completed")
        self.right()

    def test_one_byte_at_a_time(self):
        self.proxy.chunk = 1
        self.begin()
        self.round()
        self.right()

    def test_delays(self):
        self.proxy.delay = 0.3
        self.begin()
        self.round()
        self.right()

    # ---- writing ----

    def test_writes_that_fail(self):
        """Each answer that there is, for the first of each kind of write and for the second."""
        self.begin(kube_requests_per_second="1000")
        for what in (answer(500), answer(503, retry=1), answer(429, retry=1), answer(409), answer(504), None):
            for verb in ("PATCH .*/status", "POST .*/pods", "DELETE .*/pods"):
                self.proxy.fault(f"^{verb}", what)
            self.round()
        self.right()

    def test_writes_whose_answers_are_lost(self):
        """They were done. A pod that is there already is ours, a status that was written is not written twice."""
        self.begin()
        for what in (None, answer(500), answer(504)):
            for verb in (r"PATCH .*/status", r"POST .*/pods$", r"DELETE .*/pods/"):
                self.proxy.after(f"^{verb}", what)
            self.round()
        self.right()

    def test_too_many_requests(self):
        """What the server says is kept to: nothing of that kind for so long."""
        self.begin()
        fault = self.proxy.fault(r"^PATCH .*/incrementallearningjobs/", answer(429, retry=3))
        self.loop.feed()
        until(lambda: fault.met, "it writes")
        seen = len(self.proxy.requests(r"^PATCH .*/incrementallearningjobs/"))
        with self.assertRaises(AssertionError):
            until(lambda: len(self.proxy.requests(r"^PATCH .*/incrementallearningjobs/")) > seen, "too early", 2)
        self.rounds = 1
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.right()

    def test_server_that_is_away(self):
        """Connections are refused in the middle of a round, for longer than the Lease lasts; then it goes on, once."""
        self.begin()
        self.loop.feed()
        self.loop.at(1, "Train", "Ready")
        self.proxy.refuse()
        self.cloud.wait_log("could not be renewed in time", patience=40)
        self.assertEqual(self.cloud.get("/healthz")[0], 200)
        self.proxy.accept()
        self.rounds = 1
        self.assertEqual(self.loop.over(1, patience=60)["type"], "Completed")
        self.right()

    # ---- who we are ----

    def test_token_that_is_replaced(self):
        """In a file, as a kubelet does it: the new one is used, and the old one is not missed."""
        self.loop.access()
        folder = self.cluster.account_folder(self.loop.token, self.ns, f"account-{self.ns}")
        file = self.cluster.kubeconfig(ns=self.ns, name=f"with-token-file-{self.ns}")
        file.write_text(re.sub(r"user: \{\}|user: null", f"user: {{tokenFile: {folder / 'token'}}}", file.read_text()))
        self.assertIn("tokenFile", file.read_text())
        self.loop.create()
        cloud = self.loop.cloud(kubeconfig=file)
        self.loop.serving()
        (folder / "token").write_text("nonsense")
        cloud.wait_log("401")
        self.cluster.account_folder(self.cluster.token(self.ns, "ilmare-cloud"), self.ns, f"account-{self.ns}")
        self.round()
        self.right()

    def test_service_account_of_a_pod(self):
        """Three files in the folder where a pod has them, and two variables."""
        if own_mounts() is None:
            self.skipTest("this kernel lets neither root nor others mount a tmpfs in a namespace of their own")
        self.loop.access()
        folder = self.cluster.account_folder(self.loop.token, self.ns, f"account-{self.ns}")
        self.loop.create()
        cloud = self.loop.cloud(start=False, kubeconfig="")
        cloud.command = [each for each in cloud.command if not each.startswith("--kube-kubeconfig")]
        there = "/run/secrets/kubernetes.io/serviceaccount"
        script = f'set -e; mount -t tmpfs none /run; mkdir -p {there}; mount --bind {folder} {there}; exec "$@"'
        cloud.command = [*own_mounts(), "sh", "-c", script, "sh", *cloud.command]
        cloud.env = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.cluster.port)}
        cloud.start()
        self.loop.serving()
        self.round()
        self.right()

    def test_wrong_authority(self):
        other = Authority(self.world.path / "other")
        file = self.cluster.kubeconfig(token="x", ca=other.certificate)
        cloud = self.loop.cloud(kubeconfig=file)
        cloud.wait_log("certificate")
        until(lambda: (said := cloud.get("/readyz"))[0] == 503 and "certificate" in said[1], lambda: cloud.get("/readyz"))
        cloud.wait_log("Is the certificate authority that is given the API server's")
        self.assertNotIn("verbs", cloud.text())  # no rule of RBAC would help

    def test_kubeconfig_that_points_nowhere(self):
        self.proxy.refuse()
        cloud = self.loop.cloud(kubeconfig=self.loop.access(server=self.proxy.url))
        said = until(lambda: cloud.get("/readyz"), "it serves")
        until(lambda: "cannot be read" in cloud.get("/readyz")[1], lambda: cloud.get("/readyz"))
        self.assertEqual(said[0], 503)
        self.proxy.accept()
        cloud.ready(60)

    def test_kubeconfig_that_is_not_there(self):
        cloud = self.loop.cloud(start=False, kubeconfig="/nowhere/config")
        cloud.start(wait=False)
        self.assertNotEqual(cloud.process.wait(20), 0)
        self.assertIn("/nowhere/config", cloud.text())
        cloud.process = None


class Definitions(Case):
    """A cluster in which nobody has installed the custom resources yet."""

    def test_installed_later(self):
        cluster = self.own_cluster("bare", crds=False)
        loop = Loop(self)
        cloud = loop.cloud()
        until(lambda: "kubectl apply -f helm/ilmare/crds/" in cloud.get("/readyz")[1], lambda: cloud.get("/readyz"))
        cluster.apply_crds(definitions())
        cloud.ready(60)
        loop.create()
        loop.serving()
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")
        self.assertEqual(at(loop.job(), "status", "deployedRound"), 1)
        self.end_watchers()


if __name__ == "__main__":
    main()
