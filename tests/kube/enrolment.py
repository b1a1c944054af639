"""What the tests of enrolment share: authorities, an ilmare-cloud that serves it under its own service account, pods whose tokens a kubelet would
have projected, one-time tokens, and who asks.

    e = Enrolment(case)                       case: a kube_case.Case
    cloud = e.cloud()                         serves e.url
    token = e.pod("edge-1")                   of a pod on that node, bound to it
    e.ask("edge-1", token)                    (status, document), with a key of its own or csr=…
    e.one_time("edge-2")                      a token that scripts/enroll-node could have made
    e.program("edge-1", token=token)          ilmare-certificate, to its end: a CompletedProcess; e.folder("edge-1")
"""

import base64
import datetime
import hashlib
import http.client
import itertools
import json
import os
import pathlib
import ssl
import subprocess

from agents import PATIENCE, ROOT, free_port, program, until
from cluster import Authority, openssl
from kube_agents import KubeCloud, rules

AUDIENCE = "ilmare-enrolment"
PREFIX = "ilmare-enrolment-"
ACCOUNT = "ilmare-edge"
SAN = "subjectAltName=IP:127.0.0.1,DNS:localhost\nextendedKeyUsage=serverAuth\n"


class Request:
    """A key and a request for a certificate, as PEM."""

    def __init__(self, folder, name, kind=("EC", "-pkeyopt", "ec_paramgen_curve:P-256"), subject=None, extra=()):
        self.key = folder / f"{os.urandom(4).hex()}.key"
        openssl("genpkey", "-algorithm", *kind, "-out", self.key)
        self.csr = openssl("req", "-new", "-key", self.key, "-subj", subject or f"/CN={name}", *extra)


def facts(pem, *what):
    """What openssl says of a certificate."""
    return openssl("x509", "-noout", *what, stdin=pem).strip()


def rfc3339(seconds):
    return (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Enrolment:
    def __init__(self, case):
        self.case, self.api, self.ns, self.world, self.cluster = case, case.api, case.ns, case.world, case.cluster
        self.path = self.world.path
        self.parts()
        self.tls = self.path / "endpoint"
        self.tls.mkdir()
        self.install(*self.site.sign("/CN=enrolment", SAN))
        self.port, self.numbers = free_port(), itertools.count(1)
        for account in (ACCOUNT, "other"):
            self.api.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": self.ns}})

    def parts(self):
        """The broker, the authority of devices, and that of the endpoint."""
        self.broker = self.world.broker()
        self.devices = Authority(self.path / "devices", "Test devices")
        self.site = Authority(self.path / "site", "Test site")

    def install(self, certificate, key):
        """The endpoint's, as a mounted Secret is exchanged."""
        for source, name in ((certificate, "tls.crt"), (key, "tls.key")):
            (self.tls / f".{name}").write_bytes(pathlib.Path(source).read_bytes())
            (self.tls / f".{name}").rename(self.tls / name)

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def access(self, without=None, server=None):
        given = rules(without)
        self.cloud_user = f"system:serviceaccount:{self.ns}:ilmare-cloud"
        token = self.cluster.service_account(self.ns, "ilmare-cloud", given["Role"], given["ClusterRole"])
        return self.cluster.kubeconfig(token=token, ns=self.ns, server=server)

    def cloud(self, name="cloud", kubeconfig=None, start=True, port=None, **options):
        cloud = KubeCloud(self.world, self.broker, kubeconfig or self.access(), name=name,
                          **{"enrolment_port": port or self.port, "enrolment_host": "127.0.0.1", "enrolment_cert_file": self.tls / "tls.crt",
                             "enrolment_key_file": self.tls / "tls.key", "enrolment_authority_cert": self.devices.certificate,
                             "enrolment_authority_key": self.devices.key, "enrolment_service_account": f"{self.ns}:{ACCOUNT}",
                             "enrolment_secret_prefix": PREFIX, **options})
        self.world.add(cloud)
        return cloud.start() if start else cloud

    # ---- tokens ----

    def pod(self, node, account=ACCOUNT, audience=AUDIENCE, bound=True, seconds=3600):
        """The token of a new pod; its name is self.last_pod."""
        self.last_pod = f"edge-{next(self.numbers)}"
        pod = self.api.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.last_pod, "namespace": self.ns}, "spec": {
            "nodeName": node, "serviceAccountName": account, "containers": [{"name": "main", "image": "none"}]}})
        spec = {"expirationSeconds": seconds, "audiences": [audience] if audience else None}
        if bound:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": self.last_pod, "uid": pod["metadata"]["uid"]}
        return self.api.request("POST", f"/api/v1/namespaces/{self.ns}/serviceaccounts/{account}/token",
                                {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})["status"]["token"]

    def secret(self, node):
        return self.api.get("Secret", self.ns, PREFIX + node)

    def one_time(self, of, seconds=3600, kind="ilmare/enrolment", token=None, **change):
        token = token or os.urandom(32).hex()
        data = {"node": of, "tokenSha256": hashlib.sha256(token.encode()).hexdigest(), "expires": rfc3339(seconds), **change}
        self.api.delete("Secret", self.ns, PREFIX + of)
        self.api.create({"apiVersion": "v1", "kind": "Secret", "type": kind, "metadata": {"name": PREFIX + of, "namespace": self.ns},
                         "data": {k: base64.b64encode(v.encode()).decode() for k, v in data.items() if v is not None}})
        return token

    # ---- who asks ----

    def context(self):
        return ssl.create_default_context(cafile=str(self.site.certificate))

    def connect(self, port=None):
        return http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=PATIENCE, context=self.context())

    def post(self, body, port=None, method="POST", path="/enrolment/v1/node"):
        """(status, document)."""
        connection = self.connect(port)
        try:
            connection.request(method, path, body if isinstance(body, (bytes, str)) else json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()

    def request(self, name, *args, **more):
        return Request(self.path, name, *args, **more)

    def ask(self, node, token, request=None, port=None, **members):
        return self.post({"v": 1, "node": node, "csr": (request or self.request(node)).csr, "token": token, **members}, port)

    def renew(self, node, certificate, key, request=None, signed=None):
        """By the certificate (PEM) and its key (file)."""
        request = request or self.request(node)
        done = subprocess.run(["openssl", "dgst", "-sha256", "-sign", str(key)], input=(signed or request.csr).encode(), capture_output=True, check=True)
        return self.post({"v": 1, "node": node, "csr": request.csr, "certificate": certificate,
                          "signature": base64.b64encode(done.stdout).decode()})

    def refused(self, answer, text, status=403):
        self.case.assertEqual(answer[0], status, answer)
        self.case.assertEqual(answer[1]["Status"], status)
        self.case.assertIn(text, answer[1]["Message"])

    def given(self, answer, node):
        """The certificate of an answer, which is one for this node and nothing else."""
        self.case.assertEqual(answer[0], 200, answer)
        pem = answer[1]["certificate"]
        self.case.assertEqual(facts(pem, "-subject", "-nameopt", "RFC2253"), f"subject=CN={node}")
        return pem

    def folder(self, node):
        return self.path / f"{node}.tls"

    def program(self, node, token=None, renew=False, url=None, ca=None, prefix=(), start=False, more=(), **popen):
        """ilmare-certificate; start: as a Popen that runs."""
        file = self.path / f"{node}.token"
        if token is not None:
            file.write_text(token + "\n")
        command = [*prefix, program("ilmare-certificate"), "--url", url or self.url, "--node", node, "--ca", str(ca or self.site.certificate),
                   "--dir", str(self.folder(node)), *(["--renew"] if renew else ["--token-file", str(file)]), *more]
        if start:
            return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **popen)
        return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, **popen)

    def installed(self, node):
        """(certificate, key) in node.pem, as text; None if it is not there."""
        file = self.folder(node) / "node.pem"
        if not file.exists():
            return None
        text = file.read_text()
        at = text.index("-----BEGIN PRIVATE KEY")
        return text[:at], text[at:]

    def fits(self, node):
        """node.pem holds a certificate of this node and its own key, and is nobody else's to read."""
        certificate, key = self.installed(node)
        file = self.path / "check.key"
        file.write_text(key)
        self.case.assertEqual(openssl("x509", "-noout", "-pubkey", stdin=certificate), openssl("pkey", "-in", file, "-pubout"))
        file.unlink()
        self.case.assertEqual(facts(certificate, "-subject", "-nameopt", "RFC2253"), f"subject=CN={node}")
        self.case.assertEqual((self.folder(node) / "node.pem").stat().st_mode & 0o777, 0o600)
        return certificate


__all__ = ["ROOT", "Enrolment", "facts", "rfc3339", "until"]
