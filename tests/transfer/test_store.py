"""A real store for S3 and a strict one: keys of all kinds, addresses, parts, conditions, errors that say what to do."""

import hashlib
import os
import pathlib
import subprocess

from bed import Case, is_sanitized, main

KEYS = ["a b.txt", "a+b", "dt=2026-01-01/x", "c~d", "e*f", "g(h)!'", "i#j", "k?l", "m%2Fn", "o&p", "ü/日本.txt", "a,b;c:d@e$f", "x\"y<z>|^`{}\\", "%", "%zz", "..a/b..",
        "tab\there", "-dash", "#", "?a=b&c=d"]
LIBFAKETIME = next(iter(sorted(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))), None)


class Keys(Case):
    def round_trip(self, key):
        data = self.data(1000)
        source, back = self.file("source", data), self.path / "back"
        url = f"s3://bucket/{key}"
        sent = self.good("put", source, url)
        self.assertEqual(sent.last["size"], 1000)
        head = self.good("head", url).last
        self.assertEqual((head["size"], head["etag"]), (1000, f'"{hashlib.md5(data).hexdigest()}"'))
        self.good("get", url, back)
        self.assertEqual(back.read_bytes(), data)
        return data

    def test_any_key_at_a_real_store(self):
        gateway = self.gateway()
        for key in KEYS:
            with self.subTest(key=key):
                data = self.round_trip(key)
                self.assertEqual((gateway.folder / "bucket" / key).read_bytes(), data)

    def test_any_key_at_a_strict_store(self):
        store = self.strict()
        for key in [*KEYS, "/double//slash", "trailing/", "/", "k" * 1024, "ü" * 512, "new\nline"]:
            with self.subTest(key=key):
                data = self.round_trip(key)
                self.assertEqual(store.objects["bucket", key], data)

    def test_a_key_with_parts_that_are_dots(self):
        """Never another object's. Newer versions of libcurl do not make such a request at all."""
        store = self.strict()
        source = self.file("source", b"data")
        for key in ("./a/../b", "..", "a/."):
            with self.subTest(key=key):
                done = self.run_it("put", source, f"s3://bucket/{key}")
                if done.status == 12:
                    self.assertIn("libcurl", done.last["message"])
                    self.assertEqual(store.objects, {})
                else:
                    self.round_trip(key)

    def test_a_key_that_is_too_long(self):
        self.strict()
        self.bad(2, "put", self.file("f", b"x"), "s3://bucket/" + "k" * 1025)

    def test_a_bucket_with_dots(self):
        gateway = self.gateway("my.bucket")
        self.good("put", self.file("f", b"data"), "s3://my.bucket/k")
        self.assertEqual((gateway.folder / "my.bucket" / "k").read_bytes(), b"data")


class Addresses(Case):
    def test_as_operators_write_them(self):
        gateway = self.gateway()
        source = self.file("f", b"data")
        for text in (f"http://127.0.0.1:{gateway.port}", f"http://127.0.0.1:{gateway.port}/", f"http://localhost:{gateway.port}"):
            with self.subTest(text=text):
                self.good("put", source, "s3://bucket/k", env={**self.env, "S3_ENDPOINT_URL": text})
        for text in ("http://127.0.0.1:0", f"http://user:canary@127.0.0.1:{gateway.port}", "http://h/path"):
            with self.subTest(text=text):
                done = self.bad(2, "put", source, "s3://bucket/k", env={**self.env, "S3_ENDPOINT_URL": text})
                self.assertIn("S3_ENDPOINT_URL", done.last["message"])
                self.assertNotIn("canary", done.log + done.out)

    def test_a_bucket_in_the_name_of_the_host(self):
        store = self.strict()
        env = {**self.env, "S3_ENDPOINT_URL": "http://s3.amazonaws.com", "http_proxy": f"http://127.0.0.1:{store.port}"}
        self.good("put", self.file("f", b"data"), "s3://bucket/a b", env=env)
        self.assertEqual(store.objects["bucket", "a b"], b"data")
        self.assertEqual(store.requests[-1][1], "http://bucket.s3.amazonaws.com/a%20b")
        self.good("get", "s3://bucket/a b", self.path / "back", env=env)

    def test_https_with_an_authority_of_its_own(self):
        key, certificate = self.path / "key.pem", self.path / "cert.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", certificate,
                        "-days", "2", "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
        gateway = self.gateway(tls=(certificate, key))
        source = self.file("f", self.data(5000))
        done = self.bad(4, "put", source, "s3://bucket/k")
        self.assertIn("SSL_CERT_FILE", done.last["message"])
        env = {**self.env, "SSL_CERT_FILE": str(certificate)}
        self.good("put", source, "s3://bucket/k", env=env)
        # Without a scheme it is https.
        self.good("get", "s3://bucket/k", self.path / "back", env={**env, "S3_ENDPOINT_URL": f"127.0.0.1:{gateway.port}"})
        self.assertEqual((self.path / "back").read_bytes(), source.read_bytes())


class Uploads(Case):
    def test_in_parts(self):
        gateway = self.gateway()
        for size in (16 << 20, (16 << 20) + 1, 40_000_000):
            source = self.file("source", self.data(size))
            sent = self.good("put", source, "s3://bucket/model").last
            self.assertEqual((sent["size"], sent["parts"]), (size, 0 if size == 16 << 20 else -(-size // (16 << 20))))
            self.assertEqual((gateway.folder / "bucket" / "model").read_bytes(), source.read_bytes())
            self.good("get", "s3://bucket/model", self.path / "back")
            self.assertEqual((self.path / "back").read_bytes(), source.read_bytes())

    def test_an_empty_file(self):
        self.gateway()
        self.good("put", self.file("f", b""), "s3://bucket/empty")
        self.assertEqual(self.good("get", "s3://bucket/empty", self.path / "back").last["size"], 0)
        self.assertEqual((self.path / "back").read_bytes(), b"")

    def test_only_if_it_is_new(self):
        gateway = self.gateway()
        for name, size in (("small", 1000), ("large", 17_000_000)):
            first, second = self.file("first", self.data(size)), self.file("second", self.data(size))
            self.good("put", "--new", first, f"s3://bucket/{name}")
            self.bad(14, "put", "--new", second, f"s3://bucket/{name}")
            self.assertEqual((gateway.folder / "bucket" / name).read_bytes(), first.read_bytes())
            self.good("put", second, f"s3://bucket/{name}")

    def test_what_cannot_be_sent(self):
        self.strict()
        self.bad(3, "put", self.path / "nothing", "s3://bucket/k")
        self.bad(2, "put", self.path, "s3://bucket/k")
        self.bad(2, "put", self.file("f", b"x"), "http://127.0.0.1:1/k")
        self.bad(2, "put", self.file("f", b"x"), "s3://bucket")

    def test_a_folder(self):
        store = self.strict()
        for name in ("b/2", "a", "b/1", "manifest.json", "b+c"):
            self.file(f"round/{name}", name.encode())
        self.good("put-folder", "--last", "manifest.json", "--new", self.path / "round", "s3://bucket/data/1")
        self.assertEqual([path.rpartition("/data/1/")[2] for _, path, _ in store.requests], ["a", "b%2Bc", "b/1", "b/2", "manifest.json"])
        self.assertEqual(store.objects["bucket", "data/1/b+c"], b"b+c")
        self.file("round/a", b"other")
        self.bad(14, "put-folder", "--last", "manifest.json", "--new", self.path / "round", "s3://bucket/data/1")
        self.bad(3, "put-folder", "--last", "nothing", self.path / "round", "s3://bucket/data/2")
        os.symlink("/etc/passwd", self.path / "round/link")
        self.bad(2, "put-folder", self.path / "round", "s3://bucket/data/3")
        self.assertFalse([key for _, key in store.objects if key.startswith("data/3")])


    def test_a_folder_and_nothing_else(self):
        gateway = self.gateway()
        folder = self.path / "model"
        for name in ("a", "sub/b", "sub/c d+é"):
            self.file(f"model/{name}", name.encode())
        for key in ("m/old", "m/sub/old", "m/sub/b", "m/0/" + "x" * 200, "m/zz", "m10/kept", "m.kept", "kept"):
            self.good("put", self.file("old", b"old"), f"s3://bucket/{key}")
        for n in range(30):
            self.file(f"many/{n:04}", b"old")
        self.good("put-folder", self.path / "many", "s3://bucket/m/many")
        self.good("put-folder", "--only", folder, "s3://bucket/m")
        left = [name for name in self.left(gateway.folder / "bucket")]
        self.assertEqual(left, ["kept", "m.kept", "m/a", "m/sub/b", "m/sub/c d+é", "m10/kept"])
        self.bad(2, "put-folder", "--only", folder, "s3://bucket")
        self.bad(2, "put-folder", "--only", folder, "s3://bucket/")
        self.assertEqual(self.left(gateway.folder / "bucket"), left)

    def test_a_folder_and_nothing_else_of_many_pages(self):
        store = self.strict()
        for n in range(2500):
            store.objects["bucket", f"m/{n:05}"] = b"old"
        self.file("model/02000", b"new")
        self.good("put-folder", "--only", self.path / "model", "s3://bucket/m")
        self.assertEqual([key for key in store.objects], [("bucket", "m/02000")])

    def test_what_a_killed_upload_left_is_removed_after_a_day(self):
        store = self.strict()
        store.parts = {"old": ("bucket", "model", store_time(store) - 90000, {1: b"x"}), "new": ("bucket", "model", store_time(store) - 80000, {}),
                       "other": ("bucket", "model2", store_time(store) - 90000, {})}
        self.good("put", self.file("f", self.data(17_000_000)), "s3://bucket/model")
        self.assertEqual(set(store.parts), {"new", "other"})


def store_time(store):
    import time
    return time.time() + store.offset


class Downloads(Case):
    def test_a_folder_in_pages(self):
        store = self.strict()
        for name in ("a", "b/c", "b/d e", "f/g/h+i", "j", "k%2Fl"):
            store.objects["bucket", f"data/{name}"] = name.encode()
        store.objects["bucket", "data/"] = store.objects["bucket", "data/empty/"] = b""
        store.objects["bucket", "database"] = b"another"
        done = self.good("get-folder", "s3://bucket/data", self.path / "back")
        self.assertEqual(self.left(self.path / "back"), ["a", "b/c", "b/d e", "f/g/h+i", "j", "k%2Fl"])
        self.assertEqual((self.path / "back/f/g/h+i").read_text(), "f/g/h+i")
        self.assertTrue((self.path / "back/empty").is_dir())
        self.assertEqual(done.last["files"], 7)

    def test_keys_that_are_no_paths(self):
        for key in ("data/../../x", "data/./x", "data/a\nb", "data/full/"):
            with self.subTest(key=key):
                store = self.strict()
                store.objects["bucket", key] = b"x"
                self.bad(2, "get-folder", "s3://bucket/data", self.path / "back")
                self.assertEqual(self.left(self.path / "back"), [])

    def test_what_was_appended(self):
        store = self.strict()
        file = self.path / "dataset"
        store.objects["bucket", "d"] = b"one\ntwo\n"
        first = self.good("get", "--range", "0", "s3://bucket/d", file).last
        self.assertEqual(file.read_bytes(), b"one\ntwo\n")
        store.objects["bucket", "d"] += b"three\n"
        etag = self.good("head", "--if-none-match", first["etag"], "s3://bucket/d").last["etag"]
        done = self.good("get", "--range", "8", "--if-match", etag, "s3://bucket/d", file).last
        self.assertEqual((file.read_bytes(), done["size"], done["etag"]), (b"one\ntwo\nthree\n", 14, etag))
        self.assertFalse(self.good("head", "--if-none-match", etag, "s3://bucket/d").last["changed"])
        self.good("get", "--range", "14", "s3://bucket/d", file)  # nothing is behind it
        self.bad(10, "get", "--range", "14", "--if-match", first["etag"], "s3://bucket/d", file)
        store.objects["bucket", "d"] = b"short\n"
        self.bad(10, "get", "--range", "14", "s3://bucket/d", file)
        self.bad(2, "get", "--range", "5", "s3://bucket/d", file)
        self.assertEqual(file.read_bytes(), b"one\ntwo\nthree\n")

    def appended(self, same, before, now, at=None, flags=()):
        """What a file that holds `before` becomes, or the status."""
        store = self.store
        store.objects["bucket", "d"] = now
        file = self.file("dataset", before)
        done = self.run_it("get", "--range", len(before) if at is None else at, "--same", same, *flags, "s3://bucket/d", file)
        if done.status == 0:
            self.assertEqual((done.last["size"], done.last["etag"]), (len(now), store.etag("bucket", b"d")))
            return file.read_bytes()
        self.assertEqual(file.read_bytes(), before)
        return done.status

    def test_only_what_goes_on_with_what_is_here(self):
        self.store = self.strict()
        before = self.data(100_000)
        other = before[:50_000] + b"?" + before[50_001:]
        for same in (1, 5, 99_999, 100_000, 100_001, 1 << 20):
            with self.subTest(same=same):
                self.assertEqual(self.appended(same, before, before + b"new"), before + b"new")
                self.assertEqual(self.appended(same, before, before), before)
                self.assertEqual(self.appended(same, before, before[:-1]), 10)
                self.assertEqual(self.appended(same, before, b""), 10)
                self.assertEqual(self.appended(same, before, before[:-1] + b"?" + self.data(1000)), 10)
                self.assertEqual(self.appended(same, before, other + b"new"), 10 if same >= 50_000 else before + b"new")
                self.assertEqual(self.appended(same, b"", b"new"), b"new")
        self.assertEqual(self.appended(5, before, before + b"x", flags=("--if-match", f'"{hashlib.md5(before + b"x").hexdigest()}"')), before + b"x")
        self.assertEqual(self.appended(5, before, before + b"x", flags=("--if-match", '"other"')), 10)
        self.assertEqual(self.appended(5, before, before + b"x", at=5), 2)

    def test_what_was_appended_at_a_real_store(self):
        gateway = self.gateway()
        file = self.path / "dataset"
        self.good("put", self.file("f", b"one\n"), "s3://bucket/d")
        self.good("get", "--range", "0", "s3://bucket/d", file)
        self.good("put", self.file("f", b"one\ntwo\n"), "s3://bucket/d")
        etag = self.good("head", "s3://bucket/d").last["etag"]
        self.good("get", "--range", "4", "--if-match", etag, "s3://bucket/d", file)
        self.assertEqual(file.read_bytes(), b"one\ntwo\n")
        self.good("get", "--range", "8", "--if-match", etag, "s3://bucket/d", file)
        self.bad(10, "get", "--range", "8", "--if-match", '"other"', "s3://bucket/d", file)
        self.good("put", self.file("f", b"one\ntwo\nthree\n"), "s3://bucket/d")
        for same in (3, 100):
            file.write_bytes(b"one\ntwo\n")
            self.good("get", "--range", "8", "--same", same, "s3://bucket/d", file)
            self.good("get", "--range", "14", "--same", same, "s3://bucket/d", file)
            self.assertEqual(file.read_bytes(), b"one\ntwo\nthree\n")
        self.good("put", self.file("f", b"one\ntwo\nThree\nfour\n"), "s3://bucket/d")
        self.bad(10, "get", "--range", "14", "--same", 6, "s3://bucket/d", file)
        self.good("put", self.file("f", b"one\n"), "s3://bucket/d")
        self.bad(10, "get", "--range", "14", "--same", 6, "s3://bucket/d", file)
        self.assertEqual(file.read_bytes(), b"one\ntwo\nthree\n")
        self.assertTrue(gateway.process.alive())

    def test_a_digest(self):
        self.strict().objects["bucket", "k"] = b"data"
        self.good("get", "--sha256", hashlib.sha256(b"data").hexdigest(), "s3://bucket/k", self.path / "f")
        self.bad(7, "get", "--sha256", hashlib.sha256(b"other").hexdigest(), "s3://bucket/k", self.path / "g")
        self.assertFalse((self.path / "g").exists())


    def test_a_size_that_is_too_much(self):
        self.strict().objects["bucket", "k"] = b"data"
        self.good("get", "--max-size", 4, "s3://bucket/k", self.path / "f")
        self.assertIn("more than 3 bytes", self.bad(13, "get", "--max-size", 3, "s3://bucket/k", self.path / "g").last["message"])
        web = self.web()
        web.chunked = True
        (web.folder / "big").write_bytes(b"x" * 200_000)
        self.bad(13, "get", "--max-size", 100_000, f"{web.url}/big", self.path / "g")
        self.assertEqual(self.left(self.path), ["f", "web/big"])


class Refusals(Case):
    def test_what_is_said(self):
        self.gateway()
        self.assertIn("NoSuchBucket", self.bad(3, "get", "s3://nobody/k", self.path / "f").last["message"])
        self.bad(3, "get", "s3://bucket/nothing", self.path / "f")
        self.bad(3, "head", "s3://bucket/nothing")
        wrong = self.bad(4, "get", "s3://bucket/k", self.path / "f", env={**self.env, "SECRET_ACCESS_KEY": "canary-secret"})
        self.assertIn("SECRET_ACCESS_KEY does not belong to ACCESS_KEY_ID", wrong.last["message"])
        self.assertNotIn("canary-secret", wrong.log + wrong.out)
        self.assertIn("ACCESS_KEY_ID", self.bad(4, "get", "s3://bucket/k", self.path / "f", env={**self.env, "ACCESS_KEY_ID": "nobody"}).last["message"])
        unsigned = {"S3_ENDPOINT_URL": self.env["S3_ENDPOINT_URL"]}
        self.assertIn("not signed", self.bad(4, "get", "s3://bucket/k", self.path / "f", env=unsigned).last["message"])
        self.bad(2, "get", "s3://bucket/k", self.path / "f", env={**unsigned, "ACCESS_KEY_ID": "half"})
        self.bad(2, "get", "s3://bucket/k", self.path / "f", env={**self.env, "SECRET_ACCESS_KEY": "with\nnewline"})
        self.assertEqual(self.left(self.path / "store" / "bucket"), [])

    def test_what_is_said_is_utf_8(self):
        self.strict()
        for key in (b"\xff\xfe", "ü".encode() * 400, b"x" * 151 + "ü".encode() * 200):
            done = self.bad(3, "get", b"s3://bucket/" + key, self.path / "f")  # what is not UTF-8 could not be read here
            self.assertIn("s3://bucket/", done.last["message"])

    def test_a_wrong_region(self):
        self.strict()
        self.assertIn("AWS_REGION", self.bad(4, "head", "s3://bucket/k", env={**self.env, "AWS_REGION": "elsewhere"}).last["message"] +
                      self.bad(4, "get", "s3://bucket/k", self.path / "f", env={**self.env, "AWS_REGION": "elsewhere"}).last["message"])

    def test_nobody_is_there(self):
        env = {**self.strict().env(), "S3_ENDPOINT_URL": "http://127.0.0.1:1"}
        done = self.bad(6, "head", "--attempts", "2", "s3://bucket/k", env=env)
        self.assertIn("onnect", done.last["message"])

    def test_no_room(self):
        self.strict().objects["bucket", "k"] = self.data(300_000)
        done = self.run_it("get", "s3://bucket/k", self.path / "f", preexec_fn=limit_file_size)
        self.assertEqual(done.status, 5, done)
        self.assertEqual(self.left(self.path), [])

    def test_no_folder(self):
        self.strict().objects["bucket", "k"] = b"x"
        self.bad(3, "get", "s3://bucket/k", self.path / "no/f")
        self.file("file", b"")
        self.bad(11, "get", "s3://bucket/k", self.path / "file/f")
        (self.path / "folder").mkdir()
        self.bad(11, "get", "s3://bucket/k", self.path / "folder")
        self.assertEqual(self.left(self.path), ["file"])


def limit_file_size():
    import resource
    import signal
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


class Clocks(Case):
    def test_a_clock_that_is_off(self):
        if LIBFAKETIME is None or is_sanitized():
            self.skipTest("libfaketime is not there, or cannot be combined with sanitizers")
        for off in ("-20m", "+20m", "-56y"):
            with self.subTest(off=off):
                store = self.strict()
                env = {**self.env, "LD_PRELOAD": str(LIBFAKETIME), "FAKETIME": off, "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
                done = self.good("put", self.file("f", self.data(17_000_000)), "s3://bucket/k", env=env)
                self.assertIn("secondsOff", done.log)
                self.assertEqual([status for _, _, status in store.requests].count(403), 1)
                self.good("head", "s3://bucket/k", env=env)
                self.good("get", "s3://bucket/k", self.path / "back", env=env)

    def test_a_store_whose_clock_runs_away(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        self.env = store.env(proxy.port)
        skewed = b"<Error><Code>RequestTimeTooSkewed</Code><Message>no</Message></Error>"
        proxy.always = ("status", 403, {"Content-Type": "application/xml"}, skewed)
        done = self.bad(8, "get", "s3://bucket/k", self.path / "f")
        self.assertIn("clock", done.last["message"])


if __name__ == "__main__":
    main()
