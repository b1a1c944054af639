"""A node gets a certificate for its own name and nobody else's: at a real API server, with real tokens of pods, and the rules of rbac.yaml in force."""

import os
import pathlib
import re
import shutil
import socket
import ssl
import subprocess
import threading
import time
import warnings

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import free_port, program, until
from api import meta
from authorities import system_authorities
from cluster import Authority, openssl
from enrolment import PREFIX, SAN, Enrolment, facts


class EnrolmentCase(Case):
    def setUp(self):
        super().setUp()
        self.e = Enrolment(self)

    def logged(self, cloud, *secrets):
        """Nothing that opens anything is in its log."""
        text = cloud.text()
        for secret in secrets:
            self.assertNotIn(secret, text)
        return text


class Pods(EnrolmentCase):
    def test_its_own_name(self):
        cloud, token = self.e.cloud(), self.e.pod("edge-1")
        pem = self.e.given(self.e.ask("edge-1", token), "edge-1")
        text = facts(pem, "-ext", "basicConstraints,keyUsage,extendedKeyUsage,subjectAltName")
        for expected in ("CA:FALSE", "Digital Signature", "TLS Web Client Authentication"):
            self.assertIn(expected, text)
        self.assertNotIn("Server", text)
        self.assertNotIn("Alternative", text)
        file = self.world.path / "one.crt"
        file.write_text(pem)
        self.assertIn("OK", openssl("verify", "-purpose", "sslclient", "-CAfile", self.e.devices.certificate, file))
        serials = {facts(pem, "-serial"), facts(self.e.given(self.e.ask("edge-1", token), "edge-1"), "-serial")}
        self.assertEqual(len(serials), 2)
        cloud.wait_log("certificate issued node=edge-1 by=pod from=127.0.0.1", 2)
        self.logged(cloud, token)
        self.assertEqual(cloud.metrics()["ilmare_cloud_enrolments_total"], 2)

    def test_what_is_refused(self):
        cloud = self.e.cloud(enrolment_denied="edge-9", enrolment_reserved="operator")
        for node, token, text in (
                ("edge-2", self.e.pod("edge-1"), 'is on node "edge-1"'),
                ("edge-1", self.e.pod("edge-1", account="other"), "of the edge agents' service account"),
                ("edge-1", self.e.pod("edge-1", audience="somebody"), "does not accept the token"),
                ("edge-1", self.e.pod("edge-1", audience=None), "does not accept the token"),
                ("edge-1", self.e.pod("edge-1", bound=False), "not bound to a pod"),
                ("edge-1", self.e.pod("edge-1")[:-4] + "AAAA", "does not accept the token"),
                ("edge-9", self.e.pod("edge-9"), "is denied"),
                ("operator", self.e.pod("operator"), "is not for a device"),
                ("broker", self.e.pod("broker"), "is not for a device")):
            with self.subTest(text=text):
                self.e.refused(self.e.ask(node, token), text)
                self.logged(cloud, token)
        self.assertEqual(cloud.metrics()["ilmare_cloud_enrolments_refused_total"], 9)
        self.assertEqual(len(cloud.logged("enrolment: refused")), 9)

    def test_a_pod_that_is_gone(self):
        self.e.cloud()
        token = self.e.pod("edge-1")
        self.e.given(self.e.ask("edge-1", token), "edge-1")
        self.api.patch("Pod", self.ns, self.e.last_pod, {"status": {"phase": "Succeeded"}}, sub="status")
        self.e.refused(self.e.ask("edge-1", token), "has ended or is being deleted")
        self.api.delete("Pod", self.ns, self.e.last_pod, grace=0)
        status, said = self.e.ask("edge-1", token)  # the API server believes the token for a while yet
        self.assertEqual(status, 403)
        self.assertRegex(said["Message"], "is gone|does not accept the token")

    def test_none_are_taken(self):
        self.e.cloud(enrolment_service_account=None)
        self.e.refused(self.e.ask("edge-1", self.e.pod("edge-1")), "enrolment.serviceAccount")


class Requests(EnrolmentCase):
    def test_what_is_malformed(self):
        cloud = self.e.cloud()
        token, good = self.e.pod("edge-1"), self.e.request("edge-1").csr
        whole = {"v": 1, "node": "edge-1", "csr": good, "token": token}
        other_name, weak = self.e.request("edge-2").csr, self.e.request("edge-1", ("RSA", "-pkeyopt", "rsa_keygen_bits:1024")).csr
        lines = good.splitlines()
        forged = "\n".join([*lines[:-2], lines[-2][:-8] + ("A" * 6) + lines[-2][-2:], lines[-1]]) + "\n"
        for change, text in (({"v": 2}, "request.v"), ({"v": None}, "request.v"), ({"node": "A"}, "request.node"), ({"node": "cloud"}, "request.node"),
                             ({"node": "a" * 65}, "more than 64"), ({"csr": "x"}, "request.csr"), ({"csr": other_name}, "common name"),
                             ({"csr": weak}, "2048"), ({"csr": forged}, "request.csr"), ({"csr": lines[0] + "\n"}, "request.csr"),
                             ({"token": None}, "either a token"), ({"token": "short"}, "fewer than"), ({"token": "a b" * 10}, "printable"),
                             ({"token": "x" * 4097}, "more than"), ({"certificate": good}, "either a token")):
            with self.subTest(change=str(change)[:40]):
                self.e.refused(self.e.post({k: v for k, v in {**whole, **change}.items() if v is not None}), text, 400)
        for body in ("", "{", "[]", "7", '{"v":1,"v":1}', "[" * 100, "\0"):
            with self.subTest(body=body):
                self.assertEqual(self.e.post(body)[0], 400)
        self.assertEqual(self.e.post(b"x" * 20000)[0], 413)
        self.assertEqual(self.e.post("", method="GET")[0], 405)
        self.assertEqual(self.e.post("", path="/")[0], 404)
        self.e.given(self.e.post(whole), "edge-1")
        self.assertTrue(cloud.alive())

    def test_keys_of_all_kinds_and_what_a_request_asks_for(self):
        self.e.cloud()
        token = self.e.pod("edge-1")
        for kind in (("EC", "-pkeyopt", "ec_paramgen_curve:P-384"), ("RSA", "-pkeyopt", "rsa_keygen_bits:2048")):
            self.e.given(self.e.ask("edge-1", token, self.e.request("edge-1", kind)), "edge-1")
        greedy = self.e.request("edge-1", extra=("-addext", "basicConstraints=critical,CA:TRUE", "-addext", "subjectAltName=DNS:broker"),
                                subject="/O=system:masters/CN=edge-1")
        text = facts(self.e.given(self.e.ask("edge-1", token, greedy), "edge-1"), "-text")
        self.assertIn("CA:FALSE", text)
        self.assertNotIn("broker", text)
        self.assertNotIn("masters", text)

    def test_too_many(self):
        """More than the bound of a second's: some are answered 429, and it goes on afterwards."""
        cloud = self.e.cloud()
        seen, lock = [], threading.Lock()

        def many():
            connection = self.e.connect()
            for _ in range(40):
                connection.request("POST", "/enrolment/v1/node", "{}", {"Content-Type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                with lock:
                    seen.append(answer.status)
            connection.close()
        threads = [threading.Thread(target=many) for _ in range(6)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        self.assertEqual(set(seen), {400, 429})
        until(lambda: self.e.post("{}")[0] == 400, "it goes on", interval=0.2)
        self.assertTrue(cloud.alive())

    def test_authority_of_rsa_and_a_chain(self):
        """As Helm makes one; and one that is signed by another: the device gets the certificate in between as well."""
        folder = self.world.path / "rsa"
        folder.mkdir()
        openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", folder / "ca.key", "-out", folder / "ca.crt", "-days", 30, "-subj", "/CN=rsa")
        cloud = self.e.cloud(enrolment_authority_cert=folder / "ca.crt", enrolment_authority_key=folder / "ca.key")
        token = self.e.pod("edge-1")
        file = self.world.path / "one.crt"
        file.write_text(self.e.given(self.e.ask("edge-1", token), "edge-1"))
        self.assertIn("OK", openssl("verify", "-purpose", "sslclient", "-CAfile", folder / "ca.crt", file))
        middle = self.e.devices.sign("/CN=middle", "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\nsubjectKeyIdentifier=hash\n")
        (folder / ".ca.key").write_bytes(middle[1].read_bytes())
        (folder / ".ca.key").rename(folder / "ca.key")
        cloud.wait_log("the authority stays what it was")
        (folder / ".ca.crt").write_bytes(middle[0].read_bytes() + self.e.devices.certificate.read_bytes())
        (folder / ".ca.crt").rename(folder / "ca.crt")
        cloud.wait_log("the authority was exchanged name=middle")
        chain = self.e.given(self.e.ask("edge-1", token), "edge-1")
        self.assertEqual(chain.count("BEGIN CERTIFICATE"), 2)
        file.write_text(chain)
        self.assertIn("OK", openssl("verify", "-purpose", "sslclient", "-CAfile", self.e.devices.certificate, "-untrusted", file, file))

    def test_what_cannot_be_started(self):
        for change, text in (({"enrolment_authority_key": self.e.tls / "tls.key"}, "none of its certificates"),
                             ({"enrolment_authority_cert": self.e.tls / "none"}, "none"),
                             ({"enrolment_key_file": self.e.devices.key}, "not the key of the certificate"),
                             ({"enrolment_authority_cert": self.e.tls / "tls.crt", "enrolment_authority_key": self.e.tls / "tls.key"}, "CA:true")):
            with self.subTest(text=text):
                cloud = self.e.cloud(name="broken", start=False, **change)
                cloud.start(wait=False)
                cloud.wait_log("cannot start error=.*" + re.escape(text))
                self.assertEqual(cloud.process.wait(20), 1)
                cloud.process = None


class Endpoint(EnrolmentCase):
    def test_its_certificate_is_exchanged(self):
        """While a request is under way, which is answered; a pair that does not fit changes nothing."""
        cloud, token = self.e.cloud(), self.e.pod("edge-1")

        def served():
            connection = self.e.connect()
            connection.connect()
            try:
                return connection.sock.getpeercert()["serialNumber"]
            finally:
                connection.close()
        before, end = served(), 'ilmare_certificate_expiry_timestamp_seconds{which="enrolment"}'
        self.assertAlmostEqual(cloud.metrics()[end], time.time() + 30 * 86400, delta=60)
        new = self.e.site.sign("/CN=enrolment", SAN, days=40)
        self.e.install(new[0], self.e.devices.key)
        cloud.wait_log("the endpoint keeps the certificate that it has")
        self.assertEqual(served(), before)
        open_one = self.e.connect()
        open_one.connect()
        self.e.install(*new)
        until(lambda: served() != before, "the new one is served")
        self.assertAlmostEqual(cloud.metrics()[end], time.time() + 40 * 86400, delta=60)
        open_one.request("POST", "/enrolment/v1/node", "{}", {"Content-Type": "application/json"})
        self.assertEqual(open_one.getresponse().status, 400)
        open_one.close()
        self.e.given(self.e.ask("edge-1", token), "edge-1")

    def test_old_versions_of_tls(self):
        self.e.cloud()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_ciphers("ALL:@SECLEVEL=0")
        warnings.simplefilter("ignore", DeprecationWarning)
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", self.e.port)) as plain, self.assertRaises(ssl.SSLError):
            context.wrap_socket(plain)

    def test_the_api_server_is_away(self):
        cloud, token = self.e.cloud(), self.e.pod("edge-1")
        cloud.ready()
        self.e.given(self.e.ask("edge-1", token), "edge-1")
        self.cluster.stop_server()
        try:
            self.e.refused(self.e.ask("edge-1", token), "cannot be asked", 503)
        finally:
            self.cluster.start_server()
        until(lambda: self.e.ask("edge-1", token)[0] == 200, "it goes on")

    def test_rules_that_are_missing(self):
        """It says which, and asks no more than is allowed."""
        token, once = self.e.pod("edge-1"), self.e.one_time("edge-2")
        self.e.one_time("edge-3", seconds=-1)
        cloud = self.e.cloud(kubeconfig=self.e.access())
        for rule, node, proof in ((("tokenreviews", "create"), "edge-1", token), (("pods", "get"), "edge-1", token), (("secrets", "get"), "edge-2", once),
                                  (("secrets", "patch"), "edge-2", once), (("secrets", "delete"), "edge-3", once)):
            with self.subTest(rule=rule):
                self.e.access(rule)
                until(lambda: self.e.ask(node, proof)[0] == 503, "it is refused by the API server")
                cloud.wait_log(rf'cannot {rule[1]} resource \\?"{rule[0]}')
        self.e.access()
        mark = self.cluster.mark()
        until(lambda: self.e.ask("edge-1", token)[0] == 200, "it goes on")
        until(lambda: self.e.ask("edge-2", once)[0] == 200, "it goes on")
        self.e.refused(self.e.ask("edge-3", once), "scripts/enroll-node")
        self.assertIsNone(self.e.secret("edge-3"))
        used = set(self.cluster.requests(mark, self.e.cloud_user))
        self.assertLessEqual({("create", "tokenreviews"), ("get", "pods"), ("get", "secrets"), ("patch", "secrets"), ("delete", "secrets")}, used)


class Tokens(EnrolmentCase):
    def test_once(self):
        """Again with the same key (the answer was lost), by another replica too; not with another key."""
        first, second = self.e.cloud(), self.e.cloud(name="cloud-2", port=free_port())
        token, request = self.e.one_time("edge-7"), self.e.request("edge-7")
        self.e.given(self.e.ask("edge-7", token, request), "edge-7")
        self.e.given(self.e.ask("edge-7", token, request), "edge-7")
        self.e.given(self.e.ask("edge-7", token, request, port=second.options["enrolment_port"]), "edge-7")
        self.e.refused(self.e.ask("edge-7", token), "used with another key")
        self.e.refused(self.e.ask("edge-7", token, port=second.options["enrolment_port"]), "used with another key")
        self.assertEqual(len(meta(self.e.secret("edge-7"), "annotations")["ilmare/enrolment-key"]), 64)
        self.logged(first, token)
        first.wait_log("certificate issued node=edge-7 by=token")

    def test_what_is_refused(self):
        cloud = self.e.cloud()
        self.e.refused(self.e.ask("edge-7", "0" * 64), "none of node edge-7")
        token = self.e.one_time("edge-7")
        self.e.refused(self.e.ask("edge-7", token[:-1] + "x"), "none of node edge-7")
        self.e.refused(self.e.ask("edge-8", token), "none of node edge-8")
        self.assertNotIn("annotations", self.e.secret("edge-7")["metadata"])
        for change in ({"node": "edge-1"}, {"tokenSha256": "x"}, {"tokenSha256": None}, {"node": None}, {"kind": "Opaque"}):
            with self.subTest(change=change):
                self.e.refused(self.e.ask("edge-7", self.e.one_time("edge-7", **change)), "none of node")
                self.assertIsNotNone(self.e.secret("edge-7"))
        self.logged(cloud, token)

    def test_over(self):
        """It opens nothing then, bound or not, and is removed; nothing else is."""
        self.e.cloud()
        self.e.one_time("edge-8", token="a" * 40)
        token = self.e.one_time("edge-7", seconds=-1)
        self.e.refused(self.e.ask("edge-7", token), "time is over")
        self.assertIsNone(self.e.secret("edge-7"))
        self.assertIsNotNone(self.e.secret("edge-8"))
        for expires in ("never", None):
            token = self.e.one_time("edge-7", expires=expires)
            self.e.refused(self.e.ask("edge-7", token), "time is over")
        token = self.e.one_time("edge-7", seconds=-1, kind="Opaque")  # none of ours
        self.e.refused(self.e.ask("edge-7", token), "none of node")
        self.assertIsNotNone(self.e.secret("edge-7"))

    def test_two_at_once(self):
        """Two keys at two replicas: exactly one of them gets certificates."""
        one, two = self.e.cloud(), self.e.cloud(name="cloud-2", port=free_port())
        ports = [one.options["enrolment_port"], two.options["enrolment_port"]]
        for round_ in range(5):
            node = f"edge-{round_}"
            token, requests = self.e.one_time(node), [self.e.request(node) for _ in range(4)]
            answers, barrier = [None] * 4, threading.Barrier(4)

            def ask(i):
                barrier.wait()
                answers[i] = self.e.ask(node, token, requests[i], port=ports[i % 2])
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(4)]
            for each in threads:
                each.start()
            for each in threads:
                each.join()
            self.assertEqual(sorted(status for status, _ in answers), [200, 403, 403, 403])
            winner = [status for status, _ in answers].index(200)
            self.e.given(self.e.ask(node, token, requests[winner]), node)

    def test_none_are_taken(self):
        self.e.cloud(enrolment_secret_prefix=None)
        self.e.refused(self.e.ask("edge-7", self.e.one_time("edge-7")), "enrolment.secretPrefix")
        self.assertIsNotNone(self.e.secret("edge-7"))


class Renewal(EnrolmentCase):
    def begin(self, **options):
        self.cloud = self.e.cloud(**options)
        self.request = self.e.request("edge-1")
        self.certificate = self.e.given(self.e.ask("edge-1", self.e.pod("edge-1"), self.request), "edge-1")

    def test_by_its_certificate(self):
        self.begin()
        self.e.given(self.e.renew("edge-1", self.certificate, self.request.key), "edge-1")
        self.cloud.wait_log("certificate issued node=edge-1 by=certificate")

    def test_what_is_refused(self):
        self.begin(enrolment_denied="edge-9")
        stranger = Authority(self.world.path / "stranger", "Test devices")  # the same name, another key

        def pair(authority, subject, extensions="extendedKeyUsage=clientAuth\n", **more):
            certificate, key = authority.sign(subject, extensions, **more)
            return pathlib.Path(certificate).read_text(), key
        ours = self.e.devices
        der = bytearray(ssl.PEM_cert_to_DER_cert(self.certificate))
        der[-1] ^= 1  # the last byte of the authority's signature
        forged = ssl.DER_cert_to_PEM_cert(bytes(der))
        for node, (certificate, key), text in (
                ("edge-2", (self.certificate, self.request.key), "not that of node edge-2"),
                ("edge-1", (self.certificate, self.e.request("edge-1").key), "not signed by the key"),
                ("edge-1", pair(stranger, "/CN=edge-1"), "not signed by an authority"),
                ("edge-1", (forged, self.request.key), "not signed by an authority"),
                ("edge-1", pair(self.e.site, "/CN=edge-1"), "not signed by an authority"),
                ("edge-1", pair(ours, "/CN=edge-1/CN=edge-2"), "not that of node"),
                ("edge-1", pair(ours, "/CN=edge-1", "extendedKeyUsage=serverAuth\n"), "not one for a client"),
                ("edge-1", pair(ours, "/CN=edge-1", "keyUsage=digitalSignature\n"), "not one for a client"),
                ("edge-1", (ours.certificate.read_text(), ours.key), "not that of node"),
                ("edge-9", pair(ours, "/CN=edge-9"), "is denied"),
                ("broker", pair(ours, "/CN=broker"), "is not for a device")):
            with self.subTest(text=text, node=node):
                self.e.refused(self.e.renew(node, certificate, key), text)
        self.e.refused(self.e.renew("edge-1", self.certificate, self.request.key, signed="another text"), "not signed by the key")

    def test_over(self):
        self.begin(enrolment_lifetime="2s")
        until(lambda: self.e.renew("edge-1", self.certificate, self.request.key)[0] == 403, "it ends", interval=0.3)
        self.e.refused(self.e.renew("edge-1", self.certificate, self.request.key), "out of its time")

    def test_an_authority_before_this_one(self):
        """As long as its certificate is in the file."""
        self.begin()
        new = Authority(self.world.path / "new", "New devices")
        both = self.world.path / "both.crt"
        both.write_text(self.e.devices.certificate.read_text() + new.certificate.read_text())
        self.cloud.stop()
        self.cloud = self.e.cloud(enrolment_authority_cert=both, enrolment_authority_key=new.key)
        renewed = self.e.given(self.e.renew("edge-1", self.certificate, self.request.key), "edge-1")
        self.assertIn("New devices", facts(renewed, "-issuer"))
        both.write_text(new.certificate.read_text())
        self.cloud.wait_log("the authority was exchanged")
        self.e.refused(self.e.renew("edge-1", self.certificate, self.request.key), "not signed by an authority")


class Program(EnrolmentCase):
    """ilmare-certificate."""

    def test_what_it_prints(self):
        def run(*words):
            return subprocess.run([program("ilmare-certificate"), *words], capture_output=True, text=True)
        self.assertIn("--token-file FILE", run("--help").stdout)
        self.assertRegex(run("--version").stdout, r"^ilmare-certificate \d+\.\d+\.\d+\n$")
        man = run("--print-man").stdout
        self.assertTrue(man.startswith(".TH ILMARE-CERTIFICATE 8"))
        if shutil.which("man"):
            done = subprocess.run(["man", "--warnings", "-l", "-"], input=man, capture_output=True, text=True, env={**os.environ, "MANPAGER": "cat"})
            self.assertEqual(done.stderr, "")
        whole = ["--url=https://a", "--node=edge-1", "--dir=/tmp/none", "--token-file=x"]
        for words, text in (([], "are needed"), (whole[:3], "either"), ([*whole, "--renew"], "either"), ([*whole, "--nope"], "no flag --nope"),
                            ([*whole, "--ca"], "needs a value"), ([*whole, "--renew=1"], "takes no value"), ([*whole, "--node", "cloud"], "--node"),
                            ([*whole, "--url=https://a b"], "--url"),
                            ([*whole, "--total-time", "2h"], "--total-time"), ([*whole, "--connect-time", "x"], "--connect-time")):
            with self.subTest(words=words):
                done = run(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(text, done.stderr)

    def test_first_and_again(self):
        self.e.cloud()
        token = self.e.pod("edge-1")
        done = self.e.program("edge-1", token)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        first = self.e.fits("edge-1")
        self.assertEqual(sorted(f.name for f in self.e.folder("edge-1").iterdir()), ["node.pem"])
        self.assertEqual(self.e.program("edge-1", renew=True).returncode, 0)
        second = self.e.fits("edge-1")
        self.assertNotEqual(facts(first, "-pubkey"), facts(second, "-pubkey"))

    def test_the_named_authority_alone_is_believed(self):
        """Whoever has a certificate of one that the system knows gets no token."""
        self.e.cloud()
        prefix = system_authorities(self.world.path / "system", self.e.site.certificate)
        done = self.e.program("edge-1", self.e.pod("edge-1"), ca=self.e.devices.certificate, prefix=prefix)
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("certificate", done.stderr)
        self.assertIsNone(self.e.installed("edge-1"))

    def test_what_goes_wrong(self):
        cloud = self.e.cloud()
        token = self.e.pod("edge-1")
        for more, status, text in (
                ({"token": self.e.pod("edge-2")}, 3, 'is on node "edge-2"'),
                ({"token": ""}, 1, "should be a token"),
                ({"token": token, "ca": self.e.devices.certificate}, 1, "certificate"),
                ({"token": token, "ca": "/none"}, 1, "/none"),
                ({"token": token, "url": f"https://127.0.0.1:{free_port()}"}, 1, "127.0.0.1"),
                ({"token": token, "url": f"https://127.0.0.1:{self.cluster.port}"}, 1, "certificate"),
                ({"token": token, "url": self.e.url + "/x"}, 3, "enrolment is at"),
                ({"token": token, "url": "http://127.0.0.1"}, 2, "--url"),
                ({"renew": True}, 1, "node.pem")):
            with self.subTest(text=text):
                done = self.e.program("edge-1", **more)
                self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
                self.assertIn(text, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
                self.assertNotIn(token, done.stderr)
                self.assertIsNone(self.e.installed("edge-1"))
        self.assertTrue(cloud.alive())


if __name__ == "__main__":
    main()
