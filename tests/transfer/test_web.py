"""Plain http and https: read only, no credentials, redirects within bounds, conditions, servers that know less."""

import ssl
import subprocess

from bed import QUICK, Case, main

from authorities import system_authorities


class Pages(Case):
    def setUp(self):
        super().setUp()
        self.site = self.web()

    def page(self, name, size=1000):
        return self.file(f"web/{name}", self.data(size)).read_bytes()

    def test_any_name(self):
        for name in ("a b", "ü/日本", "a%20b", "a+b=c&d", "x'(y)"):
            with self.subTest(name=name):
                data = self.page(name)
                self.good("get", f"{self.site.url}/{name.replace('%', '%25')}", self.path / "f")
                self.assertEqual((self.path / "f").read_bytes(), data)

    def test_nothing_secret_is_sent(self):
        self.page("f")
        self.good("get", f"{self.site.url}/f", self.path / "f", env={"ACCESS_KEY_ID": "canary", "SECRET_ACCESS_KEY": "canary"})
        self.assertNotIn("canary", str(self.site.requests))
        self.assertNotIn("Authorization", str(self.site.requests))

    def test_conditions(self):
        self.page("f", 5000)
        head = self.good("head", f"{self.site.url}/f").last
        self.assertEqual((head["size"], head["changed"]), (5000, True))
        self.assertIn("lastModified", head)
        self.assertEqual(self.good("head", "--if-none-match", head["etag"], f"{self.site.url}/f").last, {"event": "done", "changed": False})
        self.site.etags = False
        self.assertNotIn("etag", self.good("head", f"{self.site.url}/f").last)

    def test_redirects(self):
        data, other = self.page("f"), self.web()
        self.site.redirects = {"/1": "/2", "/2": f"{other.url}/f", "/loop": "/loop", "/file": "file:///etc/passwd", "/3": "/1"}
        self.good("get", f"{self.site.url}/3", self.path / "f")
        self.assertEqual((self.path / "f").read_bytes(), data)
        for name in ("loop", "file"):
            self.assertIn("redirect", self.bad(12, "get", f"{self.site.url}/{name}", self.path / "g").last["message"])
        self.assertFalse((self.path / "g").exists())

    def test_never_from_https_to_http(self):
        key, certificate = self.certificate("here")
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        data, safe = self.page("f"), self.web(tls)
        safe.redirects = {"/down": f"{self.site.url}/f", "/same": "/f"}
        env = {"SSL_CERT_FILE": str(certificate)}
        self.good("get", f"{safe.url}/same", self.path / "f", env=env)
        self.assertEqual((self.path / "f").read_bytes(), data)
        self.bad(12, "get", f"{safe.url}/down", self.path / "g", env=env)
        self.bad(4, "get", f"{safe.url}/f", self.path / "g")

    def test_a_named_authority_is_the_only_one(self):
        """Not beside the system's: who names one wants nobody else to be able to stand in for the store."""
        (key, certificate), other = self.certificate("here"), self.certificate("elsewhere")[1]
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate, key)
        data, safe = self.page("f"), self.web(tls)
        system = {"before": system_authorities(self.path / "system", certificate)}
        for env in ({}, {"SSL_CERT_FILE": ""}, {"SSL_CERT_FILE": str(certificate)}):
            self.good("get", f"{safe.url}/f", self.path / "f", env=env, **system)
            self.assertEqual((self.path / "f").read_bytes(), data)
            (self.path / "f").unlink()
        done = self.bad(4, "get", f"{safe.url}/f", self.path / "f", env={"SSL_CERT_FILE": str(other)}, **system)
        self.assertIn("SSL_CERT_FILE", done.last["message"])
        self.assertFalse((self.path / "f").exists())

    def certificate(self, name):
        """A key, and a certificate of 127.0.0.1 that it has signed itself."""
        key, certificate = self.path / f"{name}.key", self.path / f"{name}.crt"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", f"/O={name}/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        return key, certificate

    def test_pages_in_place_of_files(self):
        proxy = self.proxy(self.site.port)
        proxy.always = ("page",)
        done = self.bad(7, "get", *QUICK, f"http://127.0.0.1:{proxy.port}/model.pb", self.path / "f")
        self.assertIn("page", done.last["message"])
        self.good("get", f"http://127.0.0.1:{proxy.port}/index.html?x=1", self.path / "f")

    def test_what_is_said(self):
        self.assertIn("404", self.bad(3, "get", f"{self.site.url}/nothing?token=canary", self.path / "f").last["message"])
        for url in (f"http://user:canary@127.0.0.1:{self.site.port}/f", "ftp://h/canary", "canary"):
            done = self.run_it("get", url, self.path / "f")
            self.assertEqual(done.status, 2)
            self.assertNotIn("user:canary", done.out + done.log)
        self.assertNotIn("canary", self.run_it("get", *QUICK, f"{self.site.url}/nothing?token=canary", self.path / "f").log)
        self.bad(2, "put", self.file("x", b"x"), f"{self.site.url}/x")

    def test_a_server_without_ranges_or_etags(self):
        proxy = self.proxy(self.site.port)
        data = self.page("f", 12_000_000)
        for ranges, etags, n in ((True, False, 1), (False, True, 1), (False, False, 1)):
            with self.subTest(ranges=ranges, etags=etags):
                self.site.ranges, self.site.etags = ranges, etags
                proxy.faults = [("cut", 9_000_000)] * n
                self.good("get", *QUICK, f"http://127.0.0.1:{proxy.port}/f", self.path / "f")
                self.assertEqual((self.path / "f").read_bytes(), data)
                proxy.faults, proxy.always = [("cut", 9_000_000)], ("close",)
                self.bad(6, "get", *QUICK, f"http://127.0.0.1:{proxy.port}/f", self.path / "g")
                proxy.always = None
                self.good("get", *QUICK, f"http://127.0.0.1:{proxy.port}/f", self.path / "g")
                self.assertEqual((self.path / "g").read_bytes(), data)
                self.assertEqual([n for n in self.left(self.path) if "ilmare" in n], [])

    def test_without_a_length(self):
        data = self.page("f", 200_000)
        self.site.chunked = True
        self.good("get", f"{self.site.url}/f", self.path / "f")
        self.assertEqual((self.path / "f").read_bytes(), data)

    def test_the_rest(self):
        data = self.page("f", 5000)
        file = self.file("f", data[:1000])
        self.good("get", "--range", "1000", f"{self.site.url}/f", file)
        self.assertEqual(file.read_bytes(), data)
        self.good("get", "--range", "5000", f"{self.site.url}/f", file)
        proxy = self.proxy(self.site.port)
        for self.site.etags in (True, False):
            file.write_bytes(data[:1000])
            proxy.faults, proxy.seen = [("cut", 700)], []
            self.good("get", *QUICK, "--range", "1000", "--same", "300", f"http://127.0.0.1:{proxy.port}/f", file)
            self.assertEqual(file.read_bytes(), data)
            # A version that has no name is looked at again.
            self.assertEqual([h["Range"] for _, _, h in proxy.seen], ["bytes=700-", "bytes=1400-" if self.site.etags else "bytes=1100-"])
        file.write_bytes(data[:999] + b"??")
        self.bad(10, "get", "--range", "1001", "--same", "2", f"{self.site.url}/f", file)
        self.site.ranges = False
        self.bad(12, "get", "--range", "1001", "--same", "2", f"{self.site.url}/f", file)
        self.assertEqual(file.read_bytes(), data[:999] + b"??")
        file.write_bytes(data[:1000])
        self.good("get", "--range", "1000", "--same", "1000", f"{self.site.url}/f", file)
        self.assertEqual(file.read_bytes(), data)
        self.site.chunked = True
        file.write_bytes(data + b"?")
        self.bad(10, "get", "--range", "5001", "--same", "9999", f"{self.site.url}/f", file)
        file.write_bytes(data[:1000])
        self.bad(12, "get", "--range", "1000", f"{self.site.url}/f", file)
        self.assertEqual(file.read_bytes(), data[:1000])


if __name__ == "__main__":
    main()
