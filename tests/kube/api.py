"""A small client of the Kubernetes API for tests: objects are plain dicts, kinds are words ("Pod"), and every wait has an end.

    api.create(pod)                                    api.get("Pod", "ns", "name")          None if there is none
    api.patch("Pod", "ns", "name", {...}, sub="status")  api.list("Pod", "ns")               its items
    api.delete("Pod", "ns", "name", uid=...)           api.table("Pod", "ns")                rows as people see them
    api.wait("Pod", "ns", "name", predicate, "it runs")  the first state that is as wanted; None stands for "it is not there"
    for event in api.watch("Pod", "ns", seconds=20): …   (type, object); ends when the time is over or the server ends it

One client may be used by several threads: each has a connection of its own.
"""

import http.client
import json
import socket
import ssl
import threading
import time
import urllib.parse

from agents import PATIENCE

# kind: (path of its group and version, plural, namespaced)
KINDS = {
    "Namespace": ("/api/v1", "namespaces", False), "Node": ("/api/v1", "nodes", False), "Pod": ("/api/v1", "pods", True),
    "Secret": ("/api/v1", "secrets", True), "ConfigMap": ("/api/v1", "configmaps", True), "Event": ("/api/v1", "events", True),
    "ServiceAccount": ("/api/v1", "serviceaccounts", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "Role": ("/apis/rbac.authorization.k8s.io/v1", "roles", True),
    "RoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "rolebindings", True),
    "ClusterRole": ("/apis/rbac.authorization.k8s.io/v1", "clusterroles", False),
    "ClusterRoleBinding": ("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", False),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "Dataset": ("/apis/sedna.io/v1alpha1", "datasets", True), "Model": ("/apis/sedna.io/v1alpha1", "models", True),
    "IncrementalLearningJob": ("/apis/sedna.io/v1alpha1", "incrementallearningjobs", True),
}
JOB = "IncrementalLearningJob"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


def path_of(kind, ns=None, name=None, sub=None):
    base, plural, namespaced = KINDS[kind]
    parts = [base]
    if namespaced and ns:
        parts += ["namespaces", ns]
    parts.append(plural)
    parts += [urllib.parse.quote(p, safe="") for p in (name, sub) if p]
    return "/".join(parts)


def at(thing, *path, default=None):
    """thing[path[0]][path[1]]…, or default where one of them is not there."""
    for key in path:
        try:
            thing = thing[key]
        except (KeyError, IndexError, TypeError):
            return default
    return thing


def meta(thing, member):
    return at(thing, "metadata", member)


class ApiError(Exception):
    """What the server refused: code, reason ("NotFound"), and its own words as text."""

    def __init__(self, code, status):
        self.code = code
        self.status = status if isinstance(status, dict) else {}
        self.reason = self.status.get("reason", "")
        super().__init__(f"{code} {self.reason}: {self.status.get('message', status)}")


class Api:
    """context: None for plain http. token, or a context that holds a client certificate."""

    def __init__(self, host, port, context=None, token=None):
        self.host, self.port, self.context, self.token = host, port, context, token
        self.local = threading.local()

    def connect(self, timeout):
        if self.context is None:
            return http.client.HTTPConnection(self.host, self.port, timeout=timeout)
        return http.client.HTTPSConnection(self.host, self.port, timeout=timeout, context=self.context)

    def headers(self, accept, content_type=None):
        headers = {"Accept": accept}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        if content_type:
            headers["Content-Type"] = content_type
        return headers

    def raw(self, method, path, body=None, content_type="application/json", accept="application/json", query=None, timeout=PATIENCE):
        """(status, headers, text)."""
        if query:
            path += "?" + urllib.parse.urlencode(query)
        if body is not None and not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        headers = self.headers(accept, content_type if body is not None else None)
        for last in (False, True):
            connection = getattr(self.local, "connection", None)
            fresh = connection is None
            if fresh:
                connection = self.local.connection = self.connect(timeout)
            try:
                connection.request(method, path, body, headers)
                if connection.sock is not None:
                    connection.sock.settimeout(timeout)
                answer = connection.getresponse()
                return answer.status, answer.headers, answer.read().decode()
            except (http.client.HTTPException, OSError) as e:
                self.close()
                if fresh or last or isinstance(e, TimeoutError):  # an idle connection may have been closed by the server meanwhile; a new one was not
                    raise
        raise AssertionError

    def request(self, method, path, body=None, **more):
        status, _, text = self.raw(method, path, body, **more)
        try:
            document = json.loads(text)
        except ValueError:
            document = text
        if status >= 400:
            raise ApiError(status, document)
        return document

    def close(self):
        """This thread's connection."""
        connection = getattr(self.local, "connection", None)
        if connection is not None:
            connection.close()
            self.local.connection = None

    # ---- objects ----

    def get(self, kind, ns, name, sub=None):
        try:
            return self.request("GET", path_of(kind, ns, name, sub))
        except ApiError as e:
            if e.code == 404:
                return None
            raise

    def listed(self, kind, ns=None, **query):
        """(items, resourceVersion); all pages."""
        items, token = [], None
        while True:
            page = self.request("GET", path_of(kind, ns), query={**query, **({"continue": token} if token else {})})
            items += page["items"]
            token = page["metadata"].get("continue")
            if not token:
                break
        base = KINDS[kind][0]
        for item in items:  # a list leaves out what is the same for all
            item.setdefault("kind", kind)
            item.setdefault("apiVersion", base.split("/", 2)[2])
        return items, page["metadata"]["resourceVersion"]

    def list(self, kind, ns=None, **query):
        return self.listed(kind, ns, **query)[0]

    def create(self, thing, ns=None, **query):
        ns = ns or meta(thing, "namespace") or "default"
        return self.request("POST", path_of(thing["kind"], ns), thing, query=query)

    def create_all(self, things):
        return [self.create(each) for each in things]

    def replace(self, thing, sub=None):
        return self.request("PUT", path_of(thing["kind"], meta(thing, "namespace"), thing["metadata"]["name"], sub), thing)

    def patch(self, kind, ns, name, patch, sub=None, how="merge"):
        """how: merge, strategic-merge, json."""
        return self.request("PATCH", path_of(kind, ns, name, sub), patch, content_type=f"application/{how}-patch+json")

    def apply(self, thing, manager="test"):
        """Server-side apply: made, or made to be so."""
        path = path_of(thing["kind"], meta(thing, "namespace") or "default", thing["metadata"]["name"])
        return self.request("PATCH", path, thing, content_type="application/apply-patch+yaml", query={"fieldManager": manager, "force": "true"})

    def delete(self, kind, ns, name, uid=None, grace=None, propagation=None):
        """False if it was not there."""
        options = {"kind": "DeleteOptions", "apiVersion": "v1"}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace is not None:
            options["gracePeriodSeconds"] = grace
        if propagation:
            options["propagationPolicy"] = propagation
        try:
            self.request("DELETE", path_of(kind, ns, name), options)
            return True
        except ApiError as e:
            if e.code == 404:
                return False
            raise

    def table(self, kind, ns=None, name=None):
        """Rows as {column: cell}, as kubectl prints them; {column: priority} with `columns`."""
        answer = self.request("GET", path_of(kind, ns, name), accept=TABLE)
        names = [c["name"] for c in answer["columnDefinitions"]]
        return [dict(zip(names, row["cells"])) for row in answer["rows"]]

    # ---- watching ----

    def watch(self, kind, ns=None, since=None, seconds=PATIENCE, name=None, stop=None, **query):
        """(type, object) as they come, for so many seconds or until the server ends it; since: a resourceVersion, else what there is comes
        first. stop: a StreamStop to end it from another thread. An ERROR event is raised as ApiError."""
        end = time.monotonic() + seconds
        if name:
            query["fieldSelector"] = f"metadata.name={name}"
        if since is None:  # a watch that begins with what there is would need a newer etcd than Debian's
            items, since = self.listed(kind, ns, **query)
            yield from (("ADDED", item) for item in items)
        query = {"watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": max(1, int(seconds) + 1), "resourceVersion": since, **query}
        connection = self.connect(PATIENCE)
        try:
            if stop is not None and not stop.begin(connection):
                return
            connection.request("GET", f"{path_of(kind, ns)}?{urllib.parse.urlencode(query)}", headers=self.headers("application/json"))
            sock = connection.sock
            answer = connection.getresponse()
            if answer.status != 200:
                raise ApiError(answer.status, json.loads(answer.read()))
            while (left := end - time.monotonic()) > 0:
                sock.settimeout(left)
                line = answer.readline()
                if not line:
                    return
                event = json.loads(line)
                if event["type"] == "ERROR":
                    raise ApiError(event["object"].get("code", 0), event["object"])
                yield event["type"], event["object"]
        except (TimeoutError, socket.timeout):
            return
        except (OSError, ValueError, http.client.HTTPException, AttributeError):
            if stop is None or not stop.said:
                raise
        finally:
            connection.close()

    def wait(self, kind, ns, name, predicate, what, patience=PATIENCE):
        """The first state of the object for which predicate(object or None) is true."""
        end = time.monotonic() + patience
        seen = None
        while True:
            items, since = self.listed(kind, ns, fieldSelector=f"metadata.name={name}")
            seen = items[0] if items else None
            if predicate(seen):
                return seen
            try:
                for type_, thing in self.watch(kind, ns, since, max(0.0, end - time.monotonic()), name):
                    if type_ == "BOOKMARK":
                        continue
                    seen = None if type_ == "DELETED" else thing
                    if predicate(seen):
                        return seen
            except (ApiError, OSError, http.client.HTTPException):
                pass  # expired, or the server went: look again, as long as there is time
            if time.monotonic() >= end:
                raise AssertionError(f"not within {patience:g} s: {what}. {kind} {ns}/{name} is now:\n{json.dumps(seen, indent=1)[:6000]}")

    def wait_gone(self, kind, ns, name, patience=PATIENCE, uid=None):
        self.wait(kind, ns, name, lambda o: o is None or (uid and meta(o, "uid") != uid), "it is gone", patience)


class StreamStop:
    """Ends a watch that another thread waits in."""

    def __init__(self):
        self.lock, self.connection, self.said = threading.Lock(), None, False

    def begin(self, connection):
        with self.lock:
            self.connection = connection
            return not self.said

    def stop(self):
        with self.lock:
            self.said = True
            sock = getattr(self.connection, "sock", None)
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def context_for(ca, certificate=None):
    """ca: file; certificate: (certificate file, key file)."""
    context = ssl.create_default_context(cafile=str(ca))
    if certificate:
        context.load_cert_chain(*map(str, certificate))
    return context
