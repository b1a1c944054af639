"""Nodes for a Cluster: pods run as local processes, and whatever can go wrong with a pod or a node goes wrong on request.

    kubelet = Kubelet(cluster, world.path, "edge-1", "edge-2").start()        also the scheduler; owners' ends: controllers.Collector
    kubelet.node("edge-3", root="/tmp/x/node", env={"LC_SERVER": …}, labels={…})   paths of the node lie below root here
    kubelet.images["ilmare/transfer"] = ["/path/ilmare-transfer"]              what an image without a command runs; a function runs in place
    kubelet.missing_images.add("nowhere/x")                                    such pods wait in ImagePullBackOff
    kubelet.fault("-train-", "Unschedulable")                                  also ImagePullBackOff, ContainerCreating, StuckTerminating
    kubelet.clear_faults()
    kubelet.evict(ns, name); .oom(ns, name); .unknown(ns, name); .kill(ns, name)
    kubelet.away("edge-1"); .evict_intolerant("edge-1"); .back("edge-1"); .reboot("edge-1"); .remove("edge-1")
    kubelet.starts                                                             all that ever ran: Start(ns, name, uid, container, number, at)
    kubelet.pid(ns, name); kubelet.text(ns, name)                              the process now, and what it has printed
    kubelet.close()

What it does follows the real one: phases, container states and restart counts, back-off by restart policy, hostPath types, init containers,
references to Secrets, grace and then KILL, the object removed only when the process has ended. It works by a watch. A pod has one container
(of several the first one runs). A pod belongs to one of some threads, so what concerns it happens in order.
"""

import collections
import datetime
import heapq
import http.client
import itertools
import queue
import signal
import sys
import threading
import time
import traceback

from agents import PATIENCE, until
from api import ApiError, StreamStop, at, meta
from container import Container, NotYet
from controllers import Scheduler

LOST = (OSError, http.client.HTTPException)  # the server is away
UNREACHABLE = "node.kubernetes.io/unreachable"
NODE_LOST = [{"key": UNREACHABLE, "effect": effect} for effect in ("NoSchedule", "NoExecute")]
AGAIN = 0.1  # seconds to the next look at what nobody announces: a folder, a Secret, a server that is away

Start = collections.namedtuple("Start", "ns name uid container number at")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def tolerates_unreachable(pod):
    """True: without limit. Else it is evicted some time after its node went."""
    for t in at(pod, "spec", "tolerations", default=[]):
        fits = t.get("key") in (UNREACHABLE, None) and t.get("effect") in ("NoExecute", None)
        if fits and t.get("operator", "Equal") == "Exists" and t.get("tolerationSeconds") is None:
            return True
    return False


class Node:
    def __init__(self, name, root, env, labels):
        self.name, self.root, self.env, self.labels = name, root or "", dict(env or {}), dict(labels or {})
        self.away = False


class Pod:
    """What the node knows of a pod. Touched by its shard's thread alone."""

    def __init__(self, thing):
        self.thing = thing
        self.ns, self.name, self.uid = meta(thing, "namespace"), meta(thing, "name"), meta(thing, "uid")
        self.phase, self.reason, self.message = "Pending", None, None
        self.started_at, self.states, self.last_states, self.restarts = None, {}, {}, collections.Counter()
        self.step = 0  # of init containers and the container
        self.running, self.began, self.ended, self.removed, self.gone = None, False, False, False, False
        self.terminating, self.verdict, self.exit_reason, self.told = False, None, None, None
        self.timer = 0  # the newest one counts

    @property
    def node(self):
        return at(self.thing, "spec", "nodeName")

    @property
    def steps(self):
        return [*at(self.thing, "spec", "initContainers", default=[]), self.thing["spec"]["containers"][0]]

    @property
    def policy(self):
        return at(self.thing, "spec", "restartPolicy", default="Always")

    def status(self):
        """As the API holds it."""
        ready = self.phase == "Running" and "running" in self.states.get(self.thing["spec"]["containers"][0]["name"], {})
        initialized = self.step >= len(self.steps) - 1
        conditions = [{"type": t, "status": "True" if v else "False", "lastTransitionTime": self.started_at} for t, v in (
            ("PodScheduled", True), ("Initialized", initialized), ("ContainersReady", ready), ("Ready", ready))]
        first = at(self.thing, "spec", "initContainers", default=[])
        return {"phase": self.phase, "reason": self.reason, "message": self.message, "startTime": self.started_at, "hostIP": "127.0.0.1",
                "conditions": conditions, "containerStatuses": [self.container(c) for c in self.thing["spec"]["containers"]],
                "initContainerStatuses": [self.container(c) for c in first] or None}

    def container(self, spec):
        name = spec["name"]
        if name not in self.states and spec in self.thing["spec"]["containers"]:
            name = self.thing["spec"]["containers"][0]["name"]
        state = self.states.get(name, {"waiting": {"reason": "PodInitializing" if self.step else "ContainerCreating"}})
        return {"name": spec["name"], "image": spec.get("image", ""), "imageID": "", "ready": "running" in state, "started": "running" in state,
                "restartCount": self.restarts[name], "state": state, "lastState": self.last_states.get(name, {})}


class Shard(threading.Thread):
    """The thread that some pods belong to: what happens to them, and their timers, in order."""

    def __init__(self, kubelet, number):
        super().__init__(name=f"kubelet-{number}", daemon=True)
        self.kubelet, self.queue, self.timers, self.order, self.closing = kubelet, queue.SimpleQueue(), [], itertools.count(), False
        self.pods = {}  # by uid

    def put(self, call, *args):
        self.queue.put((call, args))

    def later(self, seconds, call, *args):
        heapq.heappush(self.timers, (time.monotonic() + seconds, next(self.order), call, args))

    def run(self):
        while not self.closing:
            wait = max(0.0, self.timers[0][0] - time.monotonic()) if self.timers else None
            try:
                call, args = self.queue.get(timeout=wait)
            except queue.Empty:
                _, _, call, args = heapq.heappop(self.timers)
            try:
                call(*args)
            except Exception:  # a test must not go on as if nothing was
                self.kubelet.broken.append(traceback.format_exc())
                print(self.kubelet.broken[-1], file=sys.stderr)

    def finish(self):
        self.closing = True


class Kubelet:
    def __init__(self, cluster, folder, *nodes, api=None, shards=4, grace=None, backoff=(0.1, 5.0), root=None, env=None,
                 namespaces=None):
        """folder: where a folder for pods is made. grace: seconds, instead of the pods' own. backoff: first and longest wait before a restart
        (really 10 s and 300 s). root, env: of the nodes named here. namespaces: only pods in these."""
        self.api, self.folder, self.grace, self.backoff = api or cluster.admin, folder / "pods", grace, backoff
        self.folder.mkdir(exist_ok=True)
        self.namespaces = namespaces
        self.nodes, self.images, self.missing_images, self.faults = {}, {}, set(), []
        self.starts, self.broken, self.lock, self.names = [], [], threading.Lock(), {}
        self.shards = [Shard(self, i) for i in range(shards)]
        self.scheduler = Scheduler(self)
        self.stream, self.closing, self.synced = StreamStop(), False, threading.Event()
        self.thread = threading.Thread(target=self._follow, name="kubelet-watch", daemon=True)
        self.first = [(name, root, env) for name in nodes]

    # ---- life ----

    def start(self):
        for name, root, env in self.first:
            self.node(name, root, env)
        for shard in self.shards:
            shard.start()
        self.thread.start()
        assert self.synced.wait(PATIENCE), "the kubelet has no list of pods"
        return self

    def close(self):
        """All processes are ended; the objects stay as they are."""
        if self.closing:
            return
        self.closing = True
        self.stream.stop()
        self.thread.join()
        for shard in self.shards:
            shard.put(self._end_all, shard)
            shard.join()
        assert not self.broken, "".join(self.broken)

    def _end_all(self, shard):
        for pod in shard.pods.values():
            if pod.running:
                pod.running.end(signal.SIGKILL)
        processes = [p.running.process for p in shard.pods.values() if p.running and p.running.process]
        for process in processes:
            process.wait()
        shard.finish()

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # ---- following ----

    def shard_of(self, uid):
        return self.shards[hash(uid) % len(self.shards)]

    def _follow(self):
        while not self.closing:
            try:
                items, since = self.api.listed("Pod")
                known = {meta(i, "uid") for i in items}
                with self.lock:
                    lost = [uid for uid in self.names.values() if uid not in known]
                for uid in lost:
                    self.shard_of(uid).put(self._gone, uid)
                for thing in items:
                    self._see(thing)
                self.synced.set()
                while not self.closing:
                    for kind, thing in self.api.watch("Pod", since=since, seconds=300, stop=self.stream):
                        since = meta(thing, "resourceVersion")
                        if kind == "DELETED":
                            self.shard_of(meta(thing, "uid")).put(self._gone, meta(thing, "uid"))
                        elif kind != "BOOKMARK":
                            self._see(thing)
            except (ApiError, *LOST):
                if not self.closing:
                    time.sleep(AGAIN)  # the server is away, or our place is too old: begin again

    def _see(self, thing):
        if self.namespaces is not None and meta(thing, "namespace") not in self.namespaces:
            return
        with self.lock:
            self.names[meta(thing, "namespace"), meta(thing, "name")] = meta(thing, "uid")
        self.shard_of(meta(thing, "uid")).put(self._changed, thing)

    def _changed(self, thing):
        shard = self.shard_of(meta(thing, "uid"))
        pod = shard.pods.get(meta(thing, "uid"))
        if pod is None:
            if at(thing, "status", "phase") in ("Succeeded", "Failed") and not meta(thing, "deletionTimestamp"):
                return  # from before our time
            pod = shard.pods[meta(thing, "uid")] = Pod(thing)
        pod.thing = thing
        self._sync(pod)

    def _gone(self, uid):
        pod = self.shard_of(uid).pods.pop(uid, None)
        if pod is None:
            return
        pod.gone = True
        with self.lock:
            if self.names.get((pod.ns, pod.name)) == uid:
                del self.names[pod.ns, pod.name]
        if pod.running:
            pod.running.end(signal.SIGKILL)

    def _guarded(self, call, pod):
        """An API call about a pod. A server that is away is asked again; True if it was done, or can never be."""
        try:
            call()
            return True
        except ApiError as e:
            return e.code in (404, 409, 422) or self._again(pod)
        except LOST:
            return self._again(pod)

    def _again(self, pod, seconds=AGAIN):
        if not self.closing:
            pod.timer += 1
            self.shard_of(pod.uid).later(seconds, self._timer, pod, pod.timer)
        return False

    def _timer(self, pod, number):
        if number == pod.timer and not pod.gone:
            self._sync(pod)

    # ---- a pod's life ----

    def faulty(self, thing, kind):
        return any(what == kind and matches(thing) for matches, what in self.faults)

    def _sync(self, pod):
        """Level-triggered: do what the pod's object and our own state call for now."""
        if pod.gone:
            return
        if not pod.node:
            self._guarded(lambda: self.scheduler.place(pod.thing), pod)
            return
        node = self.nodes.get(pod.node)
        if node is None or node.away:
            return
        if meta(pod.thing, "deletionTimestamp"):
            self._terminate(pod)
        elif not pod.began:
            self._run(pod, node)
        self._report(pod)
        if pod.terminating and not pod.running and not pod.removed and not self.faulty(pod.thing, "StuckTerminating"):
            pod.removed = self._guarded(lambda: self.api.delete("Pod", pod.ns, pod.name, uid=pod.uid, grace=0), pod)

    def _run(self, pod, node):
        """Start the present step, or say why not and try again."""
        spec = pod.steps[pod.step]
        pod.started_at = pod.started_at or now()
        folder = self.folder / pod.uid
        folder.mkdir(exist_ok=True)
        shard = self.shard_of(pod.uid)
        try:
            for what in ("ImagePullBackOff", "ContainerCreating"):
                if self.faulty(pod.thing, what):
                    raise NotYet(what, "a test says so")
            run = Container(self, pod.thing, spec, node, folder, folder / f"{spec['name']}.log",
                            lambda status: shard.put(self._exited, pod, run, status))
        except NotYet as e:
            pod.states[spec["name"]] = {"waiting": {"reason": e.reason, "message": e.message}}
            if not self.faulty(pod.thing, e.reason):  # else clear_faults() looks again
                self._again(pod)
            return
        except LOST:
            self._again(pod)
            return
        pod.began, pod.running = True, run
        self.starts.append(Start(pod.ns, pod.name, pod.uid, spec["name"], pod.restarts[spec["name"]], time.monotonic()))
        pod.states[spec["name"]] = {"running": {"startedAt": now()}}
        if pod.step == len(pod.steps) - 1:
            pod.phase = "Running"
        if not run.start():
            pod.exit_reason = "StartError"
            run.done(128)

    def _exited(self, pod, run, status):
        spec = pod.steps[pod.step]
        if pod.running is not run:
            return
        pod.running = None
        reason = pod.exit_reason or ("Completed" if status == 0 else "Error")
        pod.exit_reason = None
        began = pod.states[spec["name"]].get("running", {}).get("startedAt")
        ended = {"terminated": {"exitCode": status, "reason": reason, "startedAt": began, "finishedAt": now()}}
        pod.states[spec["name"]] = ended
        last = pod.step == len(pod.steps) - 1
        if pod.verdict:
            pod.phase, (pod.reason, pod.message) = "Failed", pod.verdict
        elif status == 0 and not last:
            pod.step += 1
            pod.began = pod.terminating
        elif pod.policy == "Never" or pod.terminating or (last and status == 0 and pod.policy == "OnFailure"):
            pod.phase = "Succeeded" if status == 0 and last else "Failed"
        else:
            self._restart(pod, spec, ended)
        pod.ended = pod.phase in ("Succeeded", "Failed")
        self._sync(pod)

    def _restart(self, pod, spec, ended):
        """As the kubelet does: the state is "waiting" meanwhile, with the last one beside it."""
        name = spec["name"]
        delay = min(self.backoff[0] * 2 ** pod.restarts[name], self.backoff[1])
        pod.restarts[name] += 1
        pod.last_states[name] = ended
        pod.states[name] = {"waiting": {"reason": "CrashLoopBackOff", "message": f"back-off {delay:g}s restarting failed container"}}
        self.shard_of(pod.uid).later(delay, self._restarted, pod, pod.restarts[name])

    def _restarted(self, pod, number):
        # Also while the node is away: then nobody hears of it.
        node = self.nodes.get(pod.node)
        if pod.gone or pod.terminating or pod.ended or pod.running or node is None or number != pod.restarts[pod.steps[pod.step]["name"]]:
            return
        pod.began = False
        self._run(pod, node)
        self._report(pod)

    def _terminate(self, pod):
        if pod.terminating or self.faulty(pod.thing, "StuckTerminating"):
            return
        pod.terminating = True
        if pod.running:
            pod.running.end(signal.SIGTERM)
            grace = meta(pod.thing, "deletionGracePeriodSeconds") if self.grace is None else self.grace
            self.shard_of(pod.uid).later(grace or 0, self._kill_late, pod)
        elif not pod.ended:
            pod.phase, pod.ended = "Failed", True

    @staticmethod
    def _kill_late(pod):
        if pod.running:
            pod.running.end(signal.SIGKILL)

    def _report(self, pod):
        node = self.nodes.get(pod.node)
        if node is None or node.away or pod.started_at is None or (pod.running and pod.running.over):
            return  # of one that has ended already its end is told
        status = pod.status()
        if status == pod.told:
            return
        if self._guarded(lambda: self.api.patch("Pod", pod.ns, pod.name, {"metadata": {"uid": pod.uid}, "status": status}, sub="status"), pod):
            pod.told = status

    # ---- what tests ask for ----

    def settle(self):
        """Returns when every thread has done what was asked before."""
        done = [threading.Event() for _ in self.shards]
        for shard, event in zip(self.shards, done):
            shard.put(event.set)
        assert all(event.wait(PATIENCE) for event in done), "the kubelet hangs"

    def _uid(self, ns, name):
        def known():
            with self.lock:
                return self.names.get((ns, name))
        return until(known, f"the kubelet has heard of pod {ns}/{name}")

    def _tell(self, ns, name, call):
        """call(pod) in its thread; its answer."""
        uid, answers = self._uid(ns, name), queue.SimpleQueue()
        shard = self.shard_of(uid)
        shard.put(lambda: answers.put(call(shard.pods[uid]) if uid in shard.pods else None))
        return answers.get(timeout=PATIENCE)

    def pid(self, ns, name):
        """Of the pod's process, or None."""
        return self._tell(ns, name, lambda pod: pod.running.process.pid if pod.running and pod.running.process else None)

    def text(self, ns, name):
        folder = self.folder / self._uid(ns, name)
        return "".join(f.read_text(errors="replace") for f in sorted(folder.glob("*.log")))

    def kill(self, ns, name, how=signal.SIGKILL):
        self._tell(ns, name, lambda pod: pod.running and pod.running.end(how))

    def oom(self, ns, name):
        def do(pod):
            pod.exit_reason = "OOMKilled"
            if pod.running:
                pod.running.end(signal.SIGKILL)
        self._tell(ns, name, do)

    def evict(self, ns, name, message="The node was low on resource: memory."):
        """As a node short of memory does: the pod Failed, and stays as an object."""
        def do(pod):
            pod.verdict = ("Evicted", message)
            if pod.running:
                pod.running.end(signal.SIGKILL)
            else:
                pod.phase, pod.reason, pod.message, pod.began, pod.ended = "Failed", "Evicted", message, True, True
                pod.started_at = pod.started_at or now()
                self._report(pod)
        self._tell(ns, name, do)

    def unknown(self, ns, name):
        """Phase Unknown until the node says something new about it."""
        self._tell(ns, name, lambda pod: self.api.patch("Pod", ns, name, {"status": {"phase": "Unknown"}}, sub="status") and None)

    def fault(self, which, what):
        """which: part of a pod's name, or a function of its object. For pods from now on, StuckTerminating also for those that are."""
        assert what in ("ImagePullBackOff", "ContainerCreating", "Unschedulable", "StuckTerminating"), what
        self.faults.append((which if callable(which) else lambda thing: which in meta(thing, "name"), what))

    def clear_faults(self):
        self.faults.clear()
        self.missing_images.clear()
        self._look(lambda pod: True)

    def _look(self, which, after=None):
        """Another look at those pods, in their threads."""
        def do(shard):
            for pod in list(shard.pods.values()):
                if which(pod):
                    if after:
                        after(pod)
                    self._sync(pod)
        for shard in self.shards:
            shard.put(do, shard)
        if self.shards[0].is_alive():
            self.settle()

    # ---- nodes ----

    def node(self, name, root=None, env=None, labels=None):
        """A Node object, Ready, and from now on pods run there. root: the folder that its / is here."""
        node = Node(name, str(root) if root else "", env, {"kubernetes.io/hostname": name, **(labels or {})})
        thing = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": node.labels}}
        try:
            self.api.create(thing)
        except ApiError as e:
            if e.code != 409:
                raise
        self.api.patch("Node", None, name, {"spec": {"taints": None}})
        self.nodes[name] = node
        self.heartbeat(name)
        self._look(lambda pod: not pod.node or pod.node == name)
        return node

    def heartbeat(self, name, ready="True", reason="KubeletReady"):
        condition = {"type": "Ready", "status": ready, "reason": reason, "message": "", "lastHeartbeatTime": now(), "lastTransitionTime": now()}
        room = {"cpu": "64", "memory": "256Gi", "pods": "5000"}
        self.api.patch("Node", None, name, {"status": {"conditions": [condition], "capacity": room, "allocatable": room}}, sub="status")

    def pods_on(self, name):
        return self.api.list("Pod", fieldSelector=f"spec.nodeName={name}")

    def away(self, name):
        """The node is cut off: what runs goes on, nothing is reported, deletions wait. The control plane marks node and pods, at once."""
        self.nodes[name].away = True
        self.settle()
        self.heartbeat(name, "Unknown", "NodeStatusUnknown")
        self.api.patch("Node", None, name, {"spec": {"taints": NODE_LOST}})
        for thing in self.pods_on(name):
            if at(thing, "status", "phase") == "Running":
                conditions = [{**c, "status": "False", "lastTransitionTime": now()} if c["type"] == "Ready" else c
                              for c in at(thing, "status", "conditions", default=[])]
                self.api.patch("Pod", meta(thing, "namespace"), meta(thing, "name"), {"status": {"conditions": conditions}}, sub="status")

    def evict_intolerant(self, name):
        """What the control plane does after 300 s: pods that do not tolerate the node's state without limit are deleted. Their names."""
        names = []
        for thing in self.pods_on(name):
            if not tolerates_unreachable(thing) and not meta(thing, "deletionTimestamp"):
                self.api.delete("Pod", meta(thing, "namespace"), meta(thing, "name"), uid=meta(thing, "uid"))
                names.append(meta(thing, "name"))
        return names

    def back(self, name):
        """The node is there again: it says how its pods are, and does what was asked meanwhile."""
        self.api.patch("Node", None, name, {"spec": {"taints": None}})
        self.nodes[name].away = False
        self.heartbeat(name)

        def forget(pod):
            pod.told = None
        self._look(lambda pod: pod.node == name, forget)

    def reboot(self, name):
        """All processes of the node are gone at once; the pods are started again as their policy says."""
        def do(pod):
            if pod.running:
                pod.running.end(signal.SIGKILL)
        self._look(lambda pod: pod.node == name, do)

    def remove(self, name):
        """The Node object is deleted, and its pods by force, as the control plane does in time."""
        del self.nodes[name]
        self.settle()
        self.api.delete("Node", None, name)
        for thing in self.pods_on(name):
            self.api.delete("Pod", meta(thing, "namespace"), meta(thing, "name"), uid=meta(thing, "uid"), grace=0)
