"""The parts of a control plane that tests need beside the API server: who gets which node, and what goes with its owner.

    Scheduler(kubelet)                       used by the Kubelet: nodeSelector, required node affinity, taints of the node
    with Collector(cluster): …               pods (or other kinds) go when their owner is gone, also with foreground and orphan deletion
"""

import threading
import time

from agents import PATIENCE
from api import JOB, ApiError, StreamStop, at, meta

FINALIZER = {"foreground": "foregroundDeletion", "orphan": "orphan"}


def expression_holds(e, labels):
    value = labels.get(e["key"])
    return {"In": lambda: value in e.get("values", []), "NotIn": lambda: value not in e.get("values", []), "Exists": lambda: value is not None,
            "DoesNotExist": lambda: value is None}[e["operator"]]()


def fits(pod, node):
    """Whether the template's wishes allow this node (a kubelet.Node)."""
    if any(node.labels.get(k) != v for k, v in at(pod, "spec", "nodeSelector", default={}).items()):
        return False
    terms = at(pod, "spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms", default=[])
    return not terms or any(
        all(expression_holds(e, node.labels) for e in t.get("matchExpressions") or []) and
        all(expression_holds(e, {"metadata.name": node.name}) for e in t.get("matchFields") or []) for t in terms)


class Scheduler:
    def __init__(self, kubelet):
        self.kubelet = kubelet

    def place(self, pod):
        """Bind it, or say on it that no node fits."""
        ns, name = meta(pod, "namespace"), meta(pod, "name")
        if meta(pod, "deletionTimestamp"):
            return
        nodes = [n for n in list(self.kubelet.nodes.values()) if not n.away and fits(pod, n)]
        if self.kubelet.faulty(pod, "Unschedulable") or not nodes:
            said = f"0/{len(self.kubelet.nodes)} nodes are available: none fits the pod's node affinity/selector."
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": said}
            if not any(c.get("reason") == "Unschedulable" for c in at(pod, "status", "conditions", default=[])):
                self.kubelet.api.patch("Pod", ns, name, {"status": {"conditions": [condition]}}, sub="status")
            return
        self.kubelet.api.request("POST", f"/api/v1/namespaces/{ns}/pods/{name}/binding", {
            "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name, "uid": meta(pod, "uid")},
            "target": {"apiVersion": "v1", "kind": "Node", "name": min(nodes, key=lambda n: n.name).name}})


class Collector:
    """One thread for owners, one for each kind of what they own."""

    def __init__(self, cluster, owner=JOB, kinds=("Pod",)):
        self.api, self.owner, self.kinds = cluster.admin, owner, kinds
        self.lock, self.owners, self.owned = threading.Lock(), {}, {}  # uid: owner; (kind, uid): thing
        self.streams = [StreamStop() for _ in range(len(kinds) + 1)]
        self.closing, self.threads, self.broken = False, [], []

    def start(self):
        jobs = [(self.owner, self._owner, self.streams[0])] + [(k, self._thing, s) for k, s in zip(self.kinds, self.streams[1:])]
        for kind, see, stream in jobs:
            ready = threading.Event()
            self.threads.append(threading.Thread(target=self._follow, args=(kind, see, stream, ready), daemon=True))
            self.threads[-1].start()
            assert ready.wait(PATIENCE), f"no list of {kind}"
        return self

    def close(self):
        self.closing = True
        for stream in self.streams:
            stream.stop()
        for thread in self.threads:
            thread.join()
        assert not self.broken, self.broken

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    def _follow(self, kind, see, stream, ready):
        while not self.closing:
            try:
                items, since = self.api.listed(kind)
                self._relisted(kind, items, see)
                ready.set()
                while not self.closing:
                    for what, thing in self.api.watch(kind, since=since, seconds=300, stop=stream):
                        since = meta(thing, "resourceVersion")
                        if what != "BOOKMARK":
                            see(kind, thing, what == "DELETED")
            except ApiError as e:
                if e.code not in (410, 429, 500, 503):
                    self.broken.append(str(e))
                    return
            except OSError:
                pass
            if not self.closing:
                time.sleep(0.1)  # the server is away

    def _relisted(self, kind, items, see):
        uids = {meta(i, "uid") for i in items}
        with self.lock:
            known = self.owners.items() if kind == self.owner else [(uid, t) for (k, uid), t in self.owned.items() if k == kind]
            lost = [thing for uid, thing in known if uid not in uids]
        for thing in lost:
            see(kind, thing, True)
        for thing in items:
            see(kind, thing, False)

    def _refs(self, thing):
        return [r for r in meta(thing, "ownerReferences") or [] if r["kind"] == self.owner]

    def _of(self, uid):
        with self.lock:
            return [(k, t) for (k, _), t in self.owned.items() if any(r["uid"] == uid for r in self._refs(t))]

    def _owner(self, _, thing, gone):
        uid = meta(thing, "uid")
        with self.lock:
            if gone:
                self.owners.pop(uid, None)
            else:
                self.owners[uid] = thing
        if gone:
            for kind, child in self._of(uid):
                self._collect(kind, child)
        elif meta(thing, "deletionTimestamp"):
            self._step(thing)

    def _thing(self, kind, thing, gone):
        key = (kind, meta(thing, "uid"))
        with self.lock:
            if gone:
                self.owned.pop(key, None)
            else:
                self.owned[key] = thing
            owners = [self.owners.get(r["uid"]) for r in self._refs(thing)]
        for owner in owners:
            if owner and meta(owner, "deletionTimestamp"):
                self._step(owner)
        if owners and not any(owners) and not gone:
            self._collect(kind, thing)

    def _collect(self, kind, thing):
        """It goes if none of its owners is there, by the server's word: ours may be late."""
        for ref in self._refs(thing):
            owner = self.api.get(self.owner, meta(thing, "namespace"), ref["name"])
            if owner and meta(owner, "uid") == ref["uid"]:
                return
        if not meta(thing, "deletionTimestamp"):
            self._try(lambda: self.api.delete(kind, meta(thing, "namespace"), meta(thing, "name"), uid=meta(thing, "uid")))

    def _step(self, owner):
        """An owner that waits for its children to go (foreground), or to be let go (orphan)."""
        finalizers, children = meta(owner, "finalizers") or [], self._of(meta(owner, "uid"))
        if FINALIZER["foreground"] in finalizers:
            for kind, child in children:
                if not meta(child, "deletionTimestamp"):
                    self._try(lambda: self.api.delete(kind, meta(child, "namespace"), meta(child, "name"), uid=meta(child, "uid")))
            if not children:
                self._release(owner, FINALIZER["foreground"])
        elif FINALIZER["orphan"] in finalizers:
            for kind, child in children:
                left = [r for r in meta(child, "ownerReferences") if r["uid"] != meta(owner, "uid")]
                self._try(lambda: self.api.patch(kind, meta(child, "namespace"), meta(child, "name"), {"metadata": {"ownerReferences": left}}))
            self._release(owner, FINALIZER["orphan"])

    def _release(self, owner, finalizer):
        left = [f for f in meta(owner, "finalizers") if f != finalizer]
        self._try(lambda: self.api.patch(self.owner, meta(owner, "namespace"), meta(owner, "name"), {"metadata": {"finalizers": left}}))

    @staticmethod
    def _try(call):
        try:
            call()
        except ApiError as e:
            if e.code not in (404, 409):
                raise
