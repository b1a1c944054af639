#!/usr/bin/python3
"""Chaos (chaos.py) with the cloud agent on a real API server: two of them, one of which leads, each with a way of its own to the server. Beside all
that goes wrong there, the API server is killed and begun again on what etcd holds, cannot be reached or not heard, answers with errors, cuts its
watches; etcd stops for a while; the leader stops for longer than its Lease lasts.

    tests/chaos/kube_chaos.py [--seed N] [--seconds 100]

ILMARE_BUILD: the build to try (build/debug). Nodes are played by tests/kube/kubelet.py, which runs each pod as a process in the device's place.
What etcd ever held is judged beside what is left: pod_oracle.py.
"""

import http.client
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "kube"), str(HERE.parent / "integration")]

import chaos  # noqa: E402
import history  # noqa: E402
import pod_oracle  # noqa: E402
from agents import until  # noqa: E402
from api import JOB, ApiError  # noqa: E402
from api_proxy import Cut, Proxy, answer  # noqa: E402
from cluster import Cluster, tools  # noqa: E402
from hosts import DIRECTIONS  # noqa: E402
from kube_agents import KubeCloud, rules  # noqa: E402
from kubelet import Kubelet  # noqa: E402

IMAGE = "ilmare.test/chaos:v1"  # never run: containers bring their command
WRITES, ALL = r"^(POST|PUT|PATCH|DELETE) ", ""
WATCHES = r"[?&]watch=1"

# The Lease is short, so that it is lost often.
LEASE = {"kube_lease_duration": "5s", "kube_lease_renew_deadline": "3s", "kube_lease_retry_period": "500ms", "kube_watch_silence": "10s"}


class Link(Proxy):
    """A cloud agent's way to the API server, which can lose what goes in one direction or in both without a word."""

    def __init__(self, cluster):
        self.silent = set()
        super().__init__(cluster)

    def lose(self, direction):
        """up: requests do not arrive; what watches bring still does. down: what was asked is done, and no answer comes."""
        made = (self.fault if direction in ("up", "both") else self.after)(ALL, lambda _: self.silence(made), times=None)
        self.silent.add(made)
        if direction != "up":
            self.hang(ALL)
        return made

    def silence(self, fault):
        while fault in self.silent and not self.closing:
            time.sleep(0.01)
        raise Cut

    def find(self, fault):
        """What was lost stays lost, but a stream that nothing was missing from brings the rest."""
        self.silent.discard(fault)
        self.end(fault)
        with self.lock:
            for each in self.connections if not self.silent else ():
                each.hung = False

    def end(self, fault):
        with self.lock:
            if fault in self.faults:
                self.faults.remove(fault)


class KubeJob(chaos.Job):
    """Its manifests are objects of the API server."""

    def __init__(self, api, ns, *args, **more):
        self.api, self.ns = api, ns
        super().__init__(*args, **more)

    def template(self, kind, metrics):
        template = super().template(kind, metrics)
        template["spec"]["containers"][0]["image"] = IMAGE
        return template

    def objects(self, metrics):
        found = super().objects(metrics)
        for each in found:
            each["metadata"]["namespace"] = self.ns
        found[-1]["spec"]["deploySpec"]["template"]["spec"]["containers"][0]["image"] = IMAGE
        return found

    def write(self, _):
        self.api.create_all(self.objects(self.metrics))

    def send_wish(self, of):
        """Perhaps in vain: the API server may be away."""
        try:
            self.api.patch(JOB, self.ns, self.name, {"metadata": {"annotations": {"ilmare/rollback-to": of}}})
        except (ApiError, OSError, http.client.HTTPException):
            pass


class KubeChaos(chaos.Chaos):
    FAULTS = {**chaos.FAULTS, "kill_api": 2, "lose_api": 3, "refuse_api": 2, "api_fails": 3, "cut_watches": 2, "stop_etcd": 1, "stop_cloud": 2}
    name = "chaos kube"

    def make_clouds(self, lc_server):
        cluster = self.cluster = Cluster(self.world, flags=history.FLAGS, audit=False)
        self.ends.callback(cluster.close)
        cluster.start()
        self.ns = cluster.namespace()
        self.history = history.History(cluster, self.ns)
        self.kubelet = Kubelet(cluster, self.world.path, grace=1, namespaces={self.ns})
        self.ends.callback(self.kubelet.close)
        self.kubelet.start()
        for edge in self.edges:
            self.kubelet.node(edge.node, env={"LC_SERVER": lc_server})
        self.links = [Link(cluster) for _ in range(2)]
        for link in self.links:
            self.ends.callback(link.close)
        clouds = [self.make_cloud(f"cloud-{name}", link, lc_server) for name, link in zip("ab", self.links)]
        self.ends.callback(self.stop_all, clouds)
        return clouds

    def make_cloud(self, name, link, lc_server):
        given = rules()
        token = self.cluster.service_account(self.ns, name, given["Role"], given["ClusterRole"])
        access = self.cluster.kubeconfig(token=token, ns=self.ns, server=link.url)
        return self.world.add(KubeCloud(self.world, self.broker, access, name=name, lc_server=lc_server, mqtt_keep_alive="5s", **LEASE))

    def make_job(self, edge, **names):
        return KubeJob(self.cluster.admin, self.ns, self.world, self.broker, edge, self.clouds[0], never=True, **names)

    def stop_all(self, clouds):
        for process in (self.cluster.etcd, *clouds):
            if process.alive():
                process.process.send_signal(signal.SIGCONT)
        for cloud in clouds:
            status = cloud.stop()
            assert status in (0, None), f"{cloud.name} ended with status {status} when it was told to stop"

    # ---- faults ----

    def leader(self):
        """The number of the one that leads, or did last."""
        epochs = [max(map(int, cloud.logged(r"leading epoch=(\d+)")), default=0) for cloud in self.clouds]
        return epochs.index(max(epochs))

    def chosen(self, dice):
        """The leader, two times of three."""
        return self.leader() if dice * 31 % 1 < 2 / 3 else 1 - self.leader()

    def kill_cloud(self, _, dice):
        cloud = self.clouds[self.chosen(dice)]
        if self.kill(cloud, dice * 4):
            self.say(f"{cloud.name}: killed, away for {dice * 4:.1f} s")

    def stop_cloud(self, _, dice):
        cloud, seconds = self.clouds[self.leader()], 1 + dice * 9
        if cloud.alive():
            self.say(f"{cloud.name}: stopped for {seconds:.1f} s, its Lease lasts 5 s")
            cloud.process.send_signal(signal.SIGSTOP)
            self.after(seconds, lambda: cloud.alive() and cloud.process.send_signal(signal.SIGCONT))

    def kill_api(self, _, dice):
        if self.cluster.server.alive():
            self.say(f"API server: killed, begun again after {dice * 5:.1f} s")
            self.cluster.server.kill()
            self.after(dice * 5, self.api_again)

    def api_again(self):
        if not self.cluster.server.alive():
            self.cluster.server.start()

    def lose_api(self, _, dice):
        number, direction, seconds = self.chosen(dice), DIRECTIONS[int(dice * 3)], 0.5 + (dice * 97 % 1) * 9
        self.say(f"{self.clouds[number].name}: its way to the API server loses all ({direction}) for {seconds:.1f} s")
        lost = self.links[number].lose(direction)
        self.after(seconds, lambda: self.links[number].find(lost))

    def refuse_api(self, _, dice):
        """Of both."""
        if all(link.listener.fileno() >= 0 for link in self.links):
            self.say(f"API server: nobody can connect to it for {dice * 6:.1f} s")
            for link in self.links:
                link.refuse()
            self.after(dice * 6, lambda: [link.accept() for link in self.links])

    def api_fails(self, _, dice):
        number, code, seconds = self.chosen(dice), (500, 429, 409, 503, 504)[int(dice * 5)], 0.3 + (dice * 97 % 1) * 5
        which = WRITES if code == 409 or dice * 13 % 1 < 0.5 else ALL
        self.say(f"{self.clouds[number].name}: the API server answers {'its writes' if which else 'all'} with {code} for {seconds:.1f} s")
        fault = self.links[number].fault(which, answer(code, retry=1 if code == 429 else None), times=None)
        self.after(seconds, lambda: self.links[number].end(fault))

    def cut_watches(self, _, dice):
        cut = [link.cut(WATCHES) for link in self.links]
        self.say(f"API server: {sum(cut)} watches cut")

    def stop_etcd(self, _, dice):
        self.say(f"etcd: stopped for {1 + dice * 5:.1f} s")
        self.cluster.etcd.process.send_signal(signal.SIGSTOP)
        self.after(1 + dice * 5, lambda: self.cluster.etcd.process.send_signal(signal.SIGCONT))

    # ---- the end ----

    def heal(self):
        super().heal()
        self.cluster.ready()

    def settle(self):
        super().settle()
        self.said = []

        def all_gone():
            try:
                self.said = self.left_over()
            except (ApiError, OSError) as e:
                self.said = [str(e)]
            return not self.said
        try:
            until(all_gone, "no pod is left over", chaos.LONGEST, 0.2)
        except AssertionError:
            pass  # counted

    def left_over(self):
        pods = [history.pod_of(each) for each in self.cluster.admin.list("Pod", self.ns)]
        return pod_oracle.left_over(pods, [history.job_of(each) for each in self.cluster.admin.list(JOB, self.ns)])

    def judge(self):
        counts = super().judge()
        self.history.complete()
        for check, what in ((pod_oracle.check_alive, [self.history.pods]), (pod_oracle.check_made, [self.history.pods, self.history.jobs]),
                            (pod_oracle.check_positions, [self.history.jobs]), (pod_oracle.check_leases, [self.history.leases])):
            check(*what, counts)
        for text in self.said:
            counts.add("left", 1, text)
        made = {p.uid for p in self.history.pods}
        self.say(f"{len(made)} pods made, {len(self.history.jobs)} versions of jobs, {len({e.epoch for e in self.history.leases})} times one began to lead")
        return counts


if __name__ == "__main__":
    if tools() is None:
        sys.exit("chaos kube: no Kubernetes to test with: scripts/kube-tools says above why")
    chaos.main(KubeChaos, 100)
