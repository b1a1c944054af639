"""A Kubernetes API server with its etcd, as child processes on loopback.

    with World() as world:                           see tests/integration/agents.py: a folder, and what runs in it
        cluster = Cluster(world).start()             empty but for our custom resources; ready in about 5 s, some 400 MB
        cluster.admin                                an Api (api.py) that may do everything
        ns = cluster.namespace()                     a new one, with what pods need in it
        token = cluster.service_account(ns, "ilmare", cluster_rules=[{"apiGroups": …, "resources": …, "verbs": …}])
        file = cluster.kubeconfig(token=token)       for a program; also certificate=cluster.certificate("somebody"), or server=… of a proxy
        mark = cluster.mark(); …; cluster.requests(mark, user="system:serviceaccount:…")    {(verb, "pods/status"): how often}

There is no controller manager, no scheduler and no kubelet: what of them a test needs plays kubelet.py. All data is gone with the world.
The server may be killed, stopped and started again (cluster.server, cluster.etcd are Processes); `flags` are more of its own.
"""

import base64
import collections
import functools
import itertools
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "integration"))

import yaml  # noqa: E402

from agents import PATIENCE, ROOT, Process, free_port, until  # noqa: E402
from api import Api, ApiError, at, context_for  # noqa: E402
from authorities import openssl  # noqa: E402

CRDS = ROOT / "helm" / "ilmare" / "crds"
ADMIN, OTHER = "admin-token", "ilmare-token"
DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
ISSUER = "https://kubernetes.default.svc"

# What reads, and who: enough to count requests. Watches are long: they count from their beginning.
AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, users: ["system:apiserver"]}
  - {level: Metadata}
"""


@functools.lru_cache(None)
def tools():
    """{"kube-apiserver": path, "etcd": path}, or None where there is nothing to test with; builds what is missing. Raises where that must
    not be (ILMARE_REQUIRE_KUBE=1)."""
    done = subprocess.run([ROOT / "scripts" / "kube-tools"], stdout=subprocess.PIPE, text=True)
    if done.returncode == 77:
        return None
    if done.returncode != 0:
        raise RuntimeError(f"scripts/kube-tools: exit status {done.returncode}")
    return dict(line.split(" ", 1) for line in done.stdout.splitlines())


class Authority:
    """A certificate authority in a folder, and what it signs."""

    def __init__(self, folder, name="test-ca"):
        self.folder = folder
        folder.mkdir()
        self.certificate, self.key = folder / "ca.crt", folder / "ca.key"
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", self.key, "-out", self.certificate,
                "-days", 30, "-subj", f"/CN={name}", "-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign")
        self.numbers = itertools.count(1)

    def sign(self, subject, extensions, days=30):
        """(certificate file, key file). subject: /O=group/CN=name."""
        number = next(self.numbers)
        certificate, key = self.folder / f"{number}.crt", self.folder / f"{number}.key"
        request = openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-subj", subject)
        with tempfile.NamedTemporaryFile("w", dir=self.folder, suffix=".ext") as file:
            file.write(extensions)
            file.flush()
            openssl("x509", "-req", "-CA", self.certificate, "-CAkey", self.key, "-set_serial", number, "-days", days, "-out", certificate,
                    "-extfile", file.name, stdin=request)
        return certificate, key


OF_SEDNA = {"startTime", "completionTime", "conditions", "numberOfSamples", "updateTime", "metrics"}


def definitions(folder=CRDS, as_sedna=False):
    """The custom resources of a folder of YAML files. as_sedna: as lax as Sedna's own are, and no status but Sedna's."""
    def lax(schema):
        if isinstance(schema, list):
            return [lax(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        strict = ("x-kubernetes-validations", "default", "maxLength", "minLength", "maxItems")
        return {k: lax(v) for k, v in schema.items() if k not in strict or k == "properties"}
    found = [each for file in sorted(pathlib.Path(folder).glob("*.yaml")) for each in yaml.safe_load_all(file.read_text())]
    assert found, f"no definitions in {folder}"
    for version in (v for each in found for v in each["spec"]["versions"]) if as_sedna else ():
        version.pop("additionalPrinterColumns")
        schema = version["schema"]["openAPIV3Schema"] = lax(version["schema"]["openAPIV3Schema"])
        status = schema["properties"]["status"]["properties"]
        schema["properties"]["status"]["properties"] = {k: v for k, v in status.items() if k in OF_SEDNA}
    return found


class Cluster:
    """crds: ours, none (False), or "sedna": what a cluster has where Sedna's own are installed. audit: what is asked is written down, for mark() and
    requests(); each request costs a little more."""

    def __init__(self, world, name="kube", flags=(), crds=True, etcd_in_memory=True, audit=True):
        self.world, self.name, self.crds, self.audited = world, name, crds, audit
        self.folder = world.path / name
        self.folder.mkdir()
        programs = tools()
        assert programs, "ask tools() first: this machine has no Kubernetes"
        self.authority = Authority(self.folder / "pki")
        self.ca = self.authority.certificate
        self.port, self.numbers, self.clients = free_port(), itertools.count(1), []
        self.audit_log, self.audit_seen = self.folder / "audit.log", 0
        data = self.folder / "etcd"
        # Each write waits for the disk: nothing that these tests are about.
        self.memory = tempfile.TemporaryDirectory(prefix="ilmare-etcd-", dir="/dev/shm") if etcd_in_memory and os.access("/dev/shm", os.W_OK) else None
        if self.memory:
            data = pathlib.Path(self.memory.name)
        self.etcd = world.add(self._etcd(programs["etcd"], data))
        self.server = world.add(self._server(programs["kube-apiserver"], flags))
        self.admin = self.client(ADMIN)

    def _etcd(self, program, data):
        self.etcd_url = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        return Process(self.world, f"{self.name}-etcd", [
            *DIES_WITH_US, program, "--name=test", f"--data-dir={data}", f"--listen-client-urls={self.etcd_url}",
            f"--advertise-client-urls={self.etcd_url}", f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=test={peer}", "--log-level=warn"], env={"ETCD_UNSUPPORTED_ARCH": os.uname().machine})

    def _server(self, program, flags):
        folder = self.folder
        key = folder / "accounts.key"
        openssl("ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out", key)
        certificate, private = self.authority.sign("/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1,DNS:localhost,DNS:kubernetes.default.svc\n")
        (folder / "audit.yaml").write_text(AUDIT_POLICY)
        audit = [f"--audit-policy-file={folder / 'audit.yaml'}", f"--audit-log-path={self.audit_log}", "--audit-log-mode=blocking"]
        (folder / "tokens.csv").write_text(f'{ADMIN},admin,admin,"system:masters"\n{OTHER},ilmare,ilmare\n')
        return Process(self.world, f"{self.name}-apiserver", [
            *DIES_WITH_US, program, f"--etcd-servers={self.etcd_url}", "--bind-address=127.0.0.1", f"--secure-port={self.port}",
            "--advertise-address=127.0.0.1", "--endpoint-reconciler-type=none", f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={private}", f"--client-ca-file={self.ca}", f"--token-auth-file={folder / 'tokens.csv'}",
            "--authorization-mode=RBAC", f"--service-account-issuer={ISSUER}", f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}", "--service-cluster-ip-range=10.0.0.0/24", "--allow-privileged=true",
            "--profiling=false", *(audit if self.audited else []), *flags])

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    # ---- life ----

    def start(self):
        self.etcd.start()
        self.server.start()
        self.ready()
        self.ensure_account("default")
        if self.crds:
            self.apply_crds(definitions(as_sedna=self.crds == "sedna"))
        return self

    def ready(self):
        def answers():
            assert self.server.alive() and self.etcd.alive(), f"it ended at once:\n{self.etcd.tail()}\n{self.server.tail()}"
            try:
                return self.admin.raw("GET", "/readyz")[0] == 200
            except OSError:
                return False
        until(answers, lambda: f"the API server is ready:\n{self.server.tail()}", max(PATIENCE, 60), 0.02)

    def stop_server(self, how=signal.SIGKILL):
        self.server.end(how)

    def start_server(self):
        self.server.start()
        self.ready()

    def close(self):
        """Called by the world's end as well: nothing of it is left behind."""
        self.server.kill()
        self.etcd.kill()
        if self.memory:
            self.memory.cleanup()
            self.memory = None

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.close()

    # ---- what is in it ----

    def apply_crds(self, crds):
        """Returns when all are served."""
        for each in crds:
            self.admin.apply(each)
        for name in [each["metadata"]["name"] for each in crds]:
            crd = self.admin.wait("CustomResourceDefinition", None, name, lambda o: o and any(
                c["type"] == "Established" and c["status"] == "True" for c in at(o, "status", "conditions") or []), "it is established")
            path = f"/apis/{crd['spec']['group']}/{crd['spec']['versions'][0]['name']}/{crd['spec']['names']['plural']}"
            until(lambda: self.admin.raw("GET", path)[0] == 200, lambda: f"{path} is served")

    def namespace(self, name=None):
        name = name or f"test-{next(self.numbers)}"
        self.admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.ensure_account(name)
        return name

    def ensure_account(self, ns):
        """The account "default", which a controller would make and without which no pod can be made."""
        # A namespace that the server makes by itself may be a moment late.
        self.admin.wait("Namespace", None, ns, lambda o: o is not None, "it is there")
        try:
            self.admin.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": ns}})
        except ApiError as e:
            if e.code != 409:
                raise

    def service_account(self, ns, name, rules=(), cluster_rules=(), seconds=3600):
        """Its token. rules: of a Role in its namespace; cluster_rules: of a ClusterRole."""
        subject = [{"kind": "ServiceAccount", "name": name, "namespace": ns}]
        group = "rbac.authorization.k8s.io"
        self.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name, "namespace": ns}})
        for prefix, given in (("", rules), ("Cluster", cluster_rules)):
            if not given:
                continue
            full = f"{ns}-{name}" if prefix else name
            place = {"name": full} if prefix else {"name": full, "namespace": ns}
            self.admin.apply({"apiVersion": f"{group}/v1", "kind": f"{prefix}Role", "metadata": place, "rules": list(given)})
            self.admin.apply({"apiVersion": f"{group}/v1", "kind": f"{prefix}RoleBinding", "metadata": place, "subjects": subject,
                              "roleRef": {"apiGroup": group, "kind": f"{prefix}Role", "name": full}})
        return self.token(ns, name, seconds)

    def token(self, ns, name, seconds=3600):
        """A new one of a service account, as a kubelet asks for it (at least 600 s)."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": seconds}}
        return self.admin.request("POST", f"/api/v1/namespaces/{ns}/serviceaccounts/{name}/token", body)["status"]["token"]

    def certificate(self, user, *groups, days=30):
        """(certificate file, key file) by which a client is this user."""
        return self.authority.sign("".join(f"/O={g}" for g in groups) + f"/CN={user}", "extendedKeyUsage=clientAuth\n", days)

    # ---- ways in ----

    def client(self, token=None, certificate=None, port=None):
        return Api("127.0.0.1", port or self.port, context_for(self.ca, certificate), token)

    def kubeconfig(self, token=None, certificate=None, server=None, ca=None, inline=False, ns=None, name=None):
        """A new file with one context. inline: certificates in it instead of their files' names."""
        def put(where, key, file):
            if inline:
                where[f"{key}-data"] = base64.b64encode(pathlib.Path(file).read_bytes()).decode()
            else:
                where[key] = str(file)
        there, user = {"server": server or self.url}, {}
        put(there, "certificate-authority", ca or self.ca)
        if token:
            user["token"] = token
        if certificate:
            put(user, "client-certificate", certificate[0])
            put(user, "client-key", certificate[1])
        context = {"cluster": "test", "user": "test", **({"namespace": ns} if ns else {})}
        file = self.folder / (name or f"kubeconfig-{next(self.numbers)}")
        file.write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "test", "clusters": [{"name": "test", "cluster": there}],
            "users": [{"name": "test", "user": user}], "contexts": [{"name": "test", "context": context}]}))
        file.chmod(0o600)
        return file

    def account_folder(self, token, ns, name="serviceaccount"):
        """The three files that a pod finds below /var/run/secrets/kubernetes.io/serviceaccount, in a folder of ours."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        for file, text in (("token", token), ("namespace", ns), ("ca.crt", self.ca.read_text())):
            (folder / f".{file}").write_text(text)
            (folder / f".{file}").rename(folder / file)
        return folder

    # ---- what was asked ----

    def mark(self):
        """For requests(): only what is asked from now on."""
        uri = f"/livez?mark={os.urandom(8).hex()}"
        self.admin.raw("GET", uri)

        def offset():
            with open(self.audit_log, "rb") as log:
                log.seek(self.audit_seen)
                data = log.read()
            here = data.find(f'"{uri}"'.encode())
            if here < 0:
                return None
            self.audit_seen += data.find(b"\n", here) + 1
            return self.audit_seen
        return until(offset, "the audit log is up to date", interval=0.02)

    def audit(self, since=0):
        """Audit events from a mark to now."""
        end, seen = self.mark(), {}
        with open(self.audit_log, "rb") as log:
            log.seek(since)
            lines = log.read(end - since).splitlines()
        for event in map(json.loads, lines):  # a watch has a line at its beginning and one at its end
            if not event["requestURI"].startswith("/livez?mark="):
                seen.setdefault(event["auditID"], event)
        return list(seen.values())

    def requests(self, since=0, user=None):
        """{(verb, resource or resource/subresource): count}; what is no resource has its path instead."""
        count = collections.Counter()
        for event in self.audit(since):
            if user is not None and event["user"]["username"] != user:
                continue
            ref = event.get("objectRef") or {}
            resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource")))) or event["requestURI"].split("?")[0]
            count[event["verb"], resource] += 1
        return count

    def memory_bytes(self):
        """(API server, etcd)."""
        return self.server.status("VmRSS"), self.etcd.status("VmRSS")
