"""Both agents on a real API server: a broker, an ilmare-edge for each node, ilmare-cloud with --cluster=kube, and the job of sedna_job.yaml.

    loop = Loop(self)                         self: a kube_case.Case. Broker, node edge-1 with its agent, a kubelet; nothing of the cloud yet
    cloud = loop.cloud()                      under a ServiceAccount with the rules of helm/ilmare/rbac.yaml; of several each has its own name
    loop.create()                             the manifests, and the files that they name; loop.feed(10): samples
    loop.at(2, "Eval", "Running")             waits; the job as it is then. loop.over(2): round 2 has ended, however
    loop.metrics(new, old); loop.image(…)     what workers do from now on
    loop.check()                              what must hold at all times: one pod for each stage, one that serves, no sample lost or twice

Paths of the manifests are those of the node; here they lie below its root, which is the edge agent's rootDir too.
"""

import copy
import json
import pathlib

import yaml

from agents import PATIENCE, ROOT, Cloud, until, worker_name
from api import JOB, at, meta
from kube_case import HERE, manifests

RBAC = ROOT / "helm" / "ilmare" / "rbac.yaml"
FOLDER = "/srv/signs"  # on the node
IMAGE = "ilmare.test/stand-in:v1"
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
WORKER_LABEL = "incrementallearningjob.sedna.io/worker-type"
HANGS = ["/bin/sh", "-c", "exec sleep 1000000"]


def rules(without=None):
    """{"ClusterRole": rules, "Role": rules}, but for one (resource, verb)."""
    found = {each["kind"]: copy.deepcopy(each["rules"]) for each in yaml.safe_load_all(RBAC.read_text())}
    if without:
        resource, verb = without
        for kind, all_of in found.items():
            split = [{**rule, "resources": [r], "verbs": [v for v in rule["verbs"] if (r, v) != (resource, verb)]}
                     for rule in all_of for r in rule["resources"]]
            found[kind] = [rule for rule in split if rule["verbs"]]
    return found


def each_rule():
    """All (resource, verb) there are."""
    return sorted({(r, v) for all_of in rules().values() for rule in all_of for r in rule["resources"] for v in rule["verbs"]})


class KubeCloud(Cloud):
    """options as agents.Cloud's."""

    def __init__(self, world, broker, kubeconfig, **options):
        more = {"cluster": "kube", "kube_kubeconfig": kubeconfig, "local_manifests_dir": None, "local_state_dir": None,
                "local_stop_workers": None, **options}
        super().__init__(world, broker, **more)
        self.command = [*DIES_WITH_US, *self.command, f"--name={self.name}"]

    def ready(self, patience=PATIENCE):
        until(lambda: self.get("/readyz")[0] == 200, lambda: f"{self.name} is ready: {self.get('/readyz')}\n{self.tail()}", patience)
        return self


def conditions(job):
    return at(job, "status", "conditions", default=[])


def path_taken(job):
    """[(round, stage, phase, reason)] of all conditions there are, the oldest first."""
    return [(c["round"], c["stage"], c["type"], c.get("reason") or "") for c in map(condition, conditions(job))]


def condition(entry):
    """With its round, which is in the data."""
    data = json.loads(entry["data"]) if entry.get("data") else {}
    return {**entry, "round": data.get("ilmare", data).get("round"), "document": data}


def position(job):
    found = conditions(job)
    if not found:
        return None
    last = condition(found[-1])
    return last["round"], last["stage"], last["type"]


class Loop:
    """names: nodes with an edge agent each; the manifests are of the first. rooted: False: the node's paths are those of this machine."""

    def __init__(self, case, names=("edge-1",), rooted=True, **edge_options):
        self.case, self.api, self.ns, self.world, self.cluster = case, case.api, case.ns, case.world, case.cluster
        self.root = self.world.path / "node"
        self.folder = pathlib.Path(f"{self.root}{FOLDER}")
        self.folder.mkdir(parents=True)
        self.broker = self.world.broker()
        self.edges = {name: self.world.edge(self.broker, node=name, root_dir=self.root if rooted else None, **edge_options) for name in names}
        self.edge = self.edges[names[0]]
        self.kubelet = case.kubelet(grace=1)
        for name, edge in self.edges.items():
            self.kubelet.node(name, self.root if rooted else None, {"LC_SERVER": f"http://127.0.0.1:{edge.port}"})
        self.node = names[0]
        self.fed, self.name, self.clouds = 0, "signs-demo", []
        self.token = None

    # ---- the cloud agent ----

    def access(self, without=None, server=None, account="ilmare-cloud"):
        """A kubeconfig of a ServiceAccount with the rules of rbac.yaml."""
        given = rules(without)
        self.token = self.cluster.service_account(self.ns, account, given["Role"], given["ClusterRole"])
        return self.cluster.kubeconfig(token=self.token, ns=self.ns, server=server)

    @property
    def user(self):
        return self.user_of("ilmare-cloud")

    def user_of(self, account):
        return f"system:serviceaccount:{self.ns}:{account}"

    def cloud(self, name="cloud", start=True, kubeconfig=None, **options):
        cloud = KubeCloud(self.world, self.broker, kubeconfig or self.access(), name=name,
                          **{"workers_start_timeout": "20s", **options})
        self.clouds.append(self.world.add(cloud))
        return cloud.start() if start else cloud

    # ---- the job ----

    def objects(self, **members):
        """The manifests; members: of the job's spec by dotted path with _ for ., replaced."""
        found = manifests(HERE / "sedna_job.yaml", NS=self.ns, NODE=self.node, ROOT=FOLDER)
        for path, value in members.items():
            *way, last = path.split("__")
            part = found[-1]["spec"]
            for key in way:
                part = part[key]
            part[last] = value
        return found

    def files(self):
        (self.folder / "data").mkdir(exist_ok=True)
        (self.folder / "models" / "deploy").mkdir(parents=True, exist_ok=True)
        (self.folder / "models" / "base").mkdir(exist_ok=True)
        (self.folder / "models" / "base" / "checkpoint").write_text("from nothing")
        (self.folder / "models" / "deploy" / "saved_model.pb").write_text("the first model")
        self.samples.touch()

    def create(self, *objects, **members):
        self.files()
        return self.api.create_all(objects or self.objects(**members))

    @property
    def samples(self):
        return self.folder / "data" / "signs.txt"

    def feed(self, n=10):
        with open(self.samples, "a", encoding="utf-8") as file:
            file.write("".join(f"sample-{i}.jpg {i % 4}\n" for i in range(self.fed, self.fed + n)))
        self.fed += n

    def metrics(self, new=0.9, old=0.5):
        self._env("STAND_IN_METRICS", json.dumps([{"precision": [new, new]}, {"precision": [old, old]}]))

    def _env(self, name, value):
        for node in self.kubelet.nodes.values():
            node.env[name] = value

    def image(self, command=None):
        """What containers run from now on instead; None: what they should."""
        if not hasattr(self, "usual"):
            self.usual = self.kubelet.images[IMAGE]
        self.kubelet.images[IMAGE] = command or self.usual

    # ---- the world ----

    def job(self, name=None):
        return self.api.get(JOB, self.ns, name or self.name)

    def wait(self, predicate, what, patience=40, name=None):
        return self.api.wait(JOB, self.ns, name or self.name, lambda o: o and predicate(o), what, patience)

    def at(self, *wanted, **more):
        """Waits until the job is there or has been there, as its conditions tell."""
        return self.wait(lambda o: wanted in [p[:3] for p in path_taken(o)], f"the job is at {wanted}", **more)

    def over(self, number, **more):
        """The round has ended; its last condition."""
        def last(job):
            return [c for c in map(condition, conditions(job)) if c["round"] == number and
                    (c["type"] == "Failed" or (c["stage"], c["type"]) == ("Deploy", "Completed"))]
        return last(self.wait(lambda o: last(o), f"round {number} has ended", **more))[-1]

    def pods(self, kind=None):
        """Those of the job that are there; kind: train, eval, inference."""
        return [p for p in self.api.list("Pod", self.ns) if kind is None or at(p, "metadata", "labels", WORKER_LABEL) == kind]

    def serving(self, patience=PATIENCE):
        """The pod that serves, running and alone."""
        def alone():
            found = self.pods("inference")
            return len(found) == 1 and at(found[0], "status", "phase") == "Running" and not meta(found[0], "deletionTimestamp") and found[0]
        return until(alone, lambda: f"one pod serves: {[(meta(p, 'name'), p['status'].get('phase')) for p in self.pods('inference')]}", patience)

    def events(self):
        """{reason: [message]} of the job."""
        found = {}
        for event in self.api.list("Event", self.ns):
            if at(event, "involvedObject", "name") == self.name:
                found.setdefault(event["reason"], []).append(event.get("message", ""))
        return found

    def started(self, kind):
        """Names of the pods of that kind whose container ever ran, each as often as there was another pod."""
        seen = {s.uid: s.name for s in self.kubelet.starts if f"-{kind}-" in s.name or s.name.startswith(kind)}
        return sorted(seen.values())

    def rounds(self, folder=None):
        """{round: samples in its folder}, as the disk says."""
        found = {}
        base = pathlib.Path(folder or self.folder / "output") / "data" / "train"
        for each in sorted(base.iterdir()) if base.exists() else ():
            if each.name.isdigit():
                found[int(each.name)] = [line for name in ("data.txt", "eval.txt") for line in (each / name).read_text().splitlines()]
        return found

    def check_samples(self, failed=()):
        """Every sample that was fed is in exactly one round but those that failed."""
        taken = sorted(line.split()[0].rsplit("/", 1)[-1] for number, lines in self.rounds().items() if number not in failed for line in lines)
        fed = sorted(f"sample-{i}.jpg" for i in range(self.fed))
        assert taken == fed, f"lost {sorted(set(fed) - set(taken))[:5]}, {len(taken) - len(set(taken))} twice"

    def worker(self, kind, number):
        return worker_name(kind, meta(self.job(), "uid"), number)
