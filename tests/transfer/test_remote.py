"""What is done at the store: lists, removals, copies and moves. What is beside the prefix is never touched; killed at any moment, a folder that is moved is
whole in one place, and doing it again does the rest."""

import hashlib
import os
import signal
import subprocess

from bed import PATIENCE, QUICK, Case, clean_env, main, program
from test_store import KEYS

ODD = [key for key in KEYS if ".." not in key]


class Remote(Case):
    def keys(self, store, prefix=""):
        return sorted(k for _, k in store.objects if k.startswith(prefix))

    def fill(self, store, *keys):
        for key in keys:
            store.objects["bucket", key] = b"data of " + key.encode("utf-8", "surrogateescape")

    def entries(self, *arguments):
        done = self.good("list", *arguments)
        lines = [line for line in done.lines if line["event"] == "entry"]  # and not that it goes on, where it takes long
        self.assertEqual(done.last["entries"], len(lines))
        return [(e["name"] + "/" * e["folder"]) for e in lines], lines


class Lists(Remote):
    def test_a_strict_store(self):
        store = self.strict()
        self.fill(store, "a/1/x", "a/1/y", "a/10/x", "a/1.bin", "a/m.bin", "a/ü +&<\"/x", "a/z%2F", "a/", "ab/x", "a", "a//x")
        names, lines = self.entries("s3://bucket/a/")
        self.assertEqual(names, ["/", "1.bin", "1/", "10/", "m.bin", "z%2F", "ü +&<\"/"])
        self.assertEqual(lines[4], {"event": "entry", "name": "m.bin", "folder": False, "size": 15, "etag": f'"{hashlib.md5(b"data of a/m.bin").hexdigest()}"'})
        self.assertEqual(lines[2], {"event": "entry", "name": "1", "folder": True})
        self.assertEqual(self.entries("s3://bucket/a/1")[0], ["x", "y"])
        self.assertEqual(self.entries("s3://bucket")[0], ["a", "a/", "ab/"])
        self.assertEqual(self.entries("s3://bucket/none/")[0], [])
        self.bad(3, "list", "s3://no-bucket/a/")
        self.bad(2, "list", f"http://127.0.0.1:{store.port}/a/")

    def test_a_real_store_with_pages(self):
        gateway = self.gateway()
        folder = gateway.folder / "bucket" / "many"
        (folder / "sub").mkdir(parents=True)
        names = [f"{n:04}" for n in range(2500)]
        for name in names:
            (folder / name).write_bytes(b"x" * int(name[-1]))
        (folder / "sub" / "x").write_bytes(b"x")
        found, lines = self.entries("s3://bucket/many/")
        self.assertEqual(found, [*names, "sub/"])
        self.assertEqual([e["size"] for e in lines[:-1]], [int(n[-1]) for n in names])

    def test_a_reader_that_goes_away(self):
        self.fill(self.strict(), "a/1", "a/2")
        read, write = os.pipe()
        os.close(read)
        with open(write, "w") as out:
            process = subprocess.Popen([program("ilmare-transfer"), "list", "s3://bucket/a/"], stdout=out, stderr=subprocess.DEVNULL, env=clean_env(self.env))
        self.assertEqual(process.wait(PATIENCE), 9)


class Removals(Remote):
    def test_one(self):
        store = self.strict()
        self.fill(store, *ODD, "a/1", "a/10", "a/1/x", "a/")
        for key in ODD:
            self.good("delete", f"s3://bucket/{key}")
        self.assertEqual(self.keys(store), ["a/", "a/1", "a/1/x", "a/10"])
        for _ in range(2):
            self.good("delete", "s3://bucket/a/1")
            self.assertEqual(self.keys(store), ["a/", "a/1/x", "a/10"])
        self.good("delete", "s3://bucket/a/")
        self.assertEqual(self.keys(store), ["a/1/x", "a/10"])
        for url in ("s3://bucket", "s3://bucket/", "s3://"):
            self.bad(2, "delete", url)
        self.bad(12, "delete", "s3://bucket/b/../a/10")
        self.bad(3, "delete", "s3://no-bucket/k")
        self.assertEqual(self.keys(store), ["a/1/x", "a/10"])

    def test_one_at_a_real_store(self):
        gateway = self.gateway()
        for key in ODD:
            self.good("put", self.file("f", b"x"), f"s3://bucket/{key}")
        for key in ODD * 2:
            self.good("delete", f"s3://bucket/{key}")
        self.assertEqual(self.left(gateway.folder / "bucket"), [])

    def test_a_folder(self):
        store = self.strict()
        beside = ["a", "a/1", "a/10/x", "a/1.bin", "a/1\u0001", "b/a/1/x", "A/1/x"]
        for url in ("s3://bucket/a/1", "s3://bucket/a/1/"):
            self.fill(store, *beside, *(f"a/1/{k}" for k in [*ODD, "", " blank ", "sub/deep/x", "new\nline", "\ufffe", "\udce9"]), "a/1/manifest.json")
            store.log.clear()
            removed = len(self.keys(store, "a/1/")) - 1
            done = self.good("delete-folder", "--first", "manifest.json", url)
            self.assertEqual(done.last, {"event": "done", "removed": removed})
            self.assertEqual(self.keys(store), sorted(beside))
            self.assertEqual(store.log[0], ("removed", "a/1/manifest.json"))
            self.assertEqual(self.good("delete-folder", "--first", "manifest.json", url).last["removed"], 0)
        self.bad(3, "delete-folder", "s3://no-bucket/a/")

    def test_what_is_refused(self):
        store = self.strict()
        self.fill(store, "a/x", "a/../b", "b", "c/../x", "c/z")
        for words in (["s3://bucket"], ["s3://bucket/"], ["s3://bucket/a/.."], ["s3://bucket/."], ["s3://bucket/a/", "--first", "../b"],
                      ["s3://bucket/a/", "--first", ""], ["s3://bucket/a/", "--first", "/x"], ["s3://bucket/a/", "s3://bucket/b/"]):
            self.bad(2, "delete-folder", *words)
        self.bad(12, "delete-folder", "s3://bucket/c/")
        self.assertEqual((len(store.objects), store.log), (5, []))

    def test_a_server_that_lists_something_else(self):
        store = self.strict()
        self.fill(store, "a/x", "b/y")
        proxy = self.proxy(store.port)
        page = b"<ListBucketResult><Contents><Key>b/y</Key><Size>1</Size></Contents></ListBucketResult>"
        proxy.only = lambda method, path: "list-type" in path
        proxy.always = ("status", 200, {}, page)
        for command in (["delete-folder", "s3://bucket/a/"], ["move-folder", "s3://bucket/a/", "s3://bucket/c/"], ["list", "s3://bucket/a/"]):
            self.bad(7, *command, env=store.env(proxy.port))
        self.assertEqual((self.keys(store), store.log), (["a/x", "b/y"], []))

    def test_what_the_store_does_not_remove(self):
        store = self.strict()
        self.fill(store, "a/1", "a/2", "a/3")
        store.kept["a/2"] = "AccessDenied"
        done = self.bad(4, "delete-folder", "s3://bucket/a/")
        self.assertIn("a/2", done.last["message"])
        store.kept["a/2"] = "SlowDown"
        self.bad(6, "delete-folder", *QUICK, "s3://bucket/a/")
        self.assertEqual(self.keys(store), ["a/2"])
        store.kept.clear()
        self.good("delete-folder", "s3://bucket/a/")
        self.assertEqual(self.keys(store), [])

    def test_faults(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        env = store.env(proxy.port)
        proxy.only = lambda method, path: method in ("POST", "DELETE")
        for fault in (("lost",), ("close",), ("refuse_body",), ("status", 503, {}, b""), ("cut", 5)):
            self.fill(store, *(f"a/{n}" for n in range(10)))
            proxy.faults = [fault]
            self.good("delete-folder", *QUICK, "--first", "5", "s3://bucket/a/", env=env)
            self.assertEqual(store.objects, {})
        # One that cannot remove several at once, and a page in place of the answer.
        self.fill(store, *(f"a/{n}" for n in range(10)))
        proxy.only = lambda method, path: method == "POST"
        proxy.always = ("status", 501, {}, b"")
        self.good("delete-folder", "s3://bucket/a/", env=env)
        self.assertEqual(store.objects, {})
        self.fill(store, "a/1")
        proxy.only, proxy.always = lambda method, path: method in ("POST", "DELETE"), ("page",)
        self.bad(7, "delete-folder", "s3://bucket/a/", env=env)
        self.bad(7, "delete", "s3://bucket/a/1", env=env)
        # One that says so, and does not.
        proxy.always = ("status", 200, {}, b"<DeleteResult/>")
        self.assertIn("still lists", self.bad(6, "delete-folder", *QUICK, "s3://bucket/a/", env=env).last["message"])

    def test_a_real_store_with_pages(self):
        gateway = self.gateway()
        bucket = gateway.folder / "bucket"
        for n in range(2500):
            self.file(f"store/bucket/many/{n % 7}/{n}", b"x")
        for name in ODD:
            self.file(f"store/bucket/odd/{name}", b"x")
        self.file("store/bucket/many0/x", b"x")
        self.assertEqual(self.good("delete-folder", "--first", "3/3", "s3://bucket/many").last["removed"], 2499)
        self.assertEqual(self.good("delete-folder", "s3://bucket/odd").last["removed"], len(ODD))
        self.assertEqual(self.left(bucket), ["many0/x"])


class Moves(Remote):
    def test_one_copy(self):
        store = self.strict("bucket", "other")
        for key in ODD:
            self.fill(store, key)
            data = store.objects["bucket", key]
            done = self.good("copy", f"s3://bucket/{key}", f"s3://other/to/{key}").last
            self.assertEqual(done, {"event": "done", "size": len(data), "etag": f'"{hashlib.md5(data).hexdigest()}"'})
            self.assertEqual((store.objects["other", f"to/{key}"], store.objects["bucket", key]), (data, data))
        self.bad(2, "copy", "s3://bucket/a+b", "s3://bucket/a+b")
        self.bad(3, "copy", "s3://bucket/none", "s3://bucket/x")
        self.bad(3, "copy", "s3://bucket/a+b", "s3://none/x")
        self.bad(12, "copy", "s3://bucket/a+b", "s3://bucket/x/../y")

    def test_a_copy_at_a_real_store(self):
        gateway = self.gateway()
        for key in [*ODD, "big"]:
            data = self.data(20_000_000 if key == "big" else 1000)
            self.good("put", self.file("f", data), f"s3://bucket/{key}")
            self.assertEqual(self.good("copy", f"s3://bucket/{key}", f"s3://bucket/to/{key}").last["size"], len(data))
            self.assertEqual((gateway.folder / "bucket" / "to" / key).read_bytes(), data)
        self.assertEqual(self.good("move-folder", "--last", "big", "s3://bucket/to", "s3://bucket/moved").last["removed"], len(ODD) + 1)
        self.assertEqual(self.left(gateway.folder / "bucket"), sorted([*ODD, "big", *(f"moved/{key}" for key in [*ODD, "big"])]))

    def test_a_real_store_with_pages(self):
        gateway = self.gateway()
        for n in range(1200):
            self.file(f"store/bucket/many/{n % 7}/{n}", b"x")
            self.file(f"store/bucket/to/{n % 7}/{n}-stays", b"x")
        self.file("store/bucket/many0/x", b"x")
        for key in ("many/", "many/5/", "many/none/"):  # as other programs make folders
            self.good("put", self.file("f", b""), f"s3://bucket/{key}")
        done = self.good("move-folder", "--last", "3/3", "s3://bucket/many", "s3://bucket/to").last
        self.assertEqual((done["files"], done["removed"]), (1203, 1203))
        self.assertEqual(self.entries("s3://bucket")[0], ["many0/", "to/"])
        self.assertEqual(self.entries("s3://bucket/to")[0], [*(f"{n}/" for n in range(7)), "none/"])
        self.assertEqual(self.left(gateway.folder / "bucket"),
                         sorted(["many0/x", *(f"to/{n % 7}/{n}{end}" for n in range(1200) for end in ("", "-stays"))]))

    def test_too_large(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        listing = b"<ListBucketResult><Contents><Key>a/x</Key><Size>5368709121</Size></Contents></ListBucketResult>"
        env = store.env(proxy.port)
        proxy.only, proxy.always = lambda method, path: "list-type" in path, ("status", 200, {}, listing)
        for command in ("copy-folder", "move-folder"):
            self.assertIn("5 GiB", self.bad(13, command, "s3://bucket/a/", "s3://bucket/b/", env=env).last["message"])
        self.assertEqual(store.log, [])

    def test_folders(self):
        store = self.strict()
        names = [*ODD, "", "new\nline", "sub/deep/x", "z.json", *(f"n{n}" for n in range(10))]
        beside = ["a", "a/1", "a/10/x", "b", "b/2/other"]
        for command in ("copy-folder", "move-folder"):
            store.objects.clear()
            self.fill(store, *beside, *(f"a/1/{n}" for n in names))
            data = {n: store.objects["bucket", f"a/1/{n}"] for n in names}
            store.log.clear()
            done = self.good(command, "--last", "z.json", "s3://bucket/a/1", "s3://bucket/b/2/").last
            self.assertEqual((done["files"], done["bytes"]), (len(names), sum(map(len, data.values()))))
            self.assertEqual({n: store.objects["bucket", f"b/2/{n}"] for n in names}, data)
            left = [f"a/1/{n}" for n in names] if command == "copy-folder" else []
            self.assertEqual(self.keys(store), sorted([*beside, *left, *(f"b/2/{n}" for n in names)]))
            self.assertEqual(store.log[len(names) - 1], ("copied", "b/2/z.json"))
            if command == "move-folder":
                self.assertEqual((done["removed"], store.log[len(names)]), (len(names), ("removed", "a/1/z.json")))
                again = self.good(command, "--last", "z.json", "s3://bucket/a/1", "s3://bucket/b/2/").last
                self.assertEqual((again["files"], again["removed"]), (0, 0))

    def test_without_last(self):
        store = self.strict()
        self.fill(store, "a/1", "a/2", "a/3", "a/4")
        self.assertEqual(self.good("move-folder", "s3://bucket/a", "s3://bucket/b").last, {"event": "done", "files": 4, "bytes": 44, "removed": 4})
        self.assertEqual(self.keys(store), ["b/1", "b/2", "b/3", "b/4"])
        self.assertEqual(self.good("move-folder", "s3://bucket/a", "s3://bucket/b").last["removed"], 0)
        for command in ("copy-folder", "move-folder"):
            self.bad(3, command, "s3://bucket/none", "s3://bucket/nothing")

    def test_what_is_refused(self):
        store = self.strict()
        self.fill(store, "a/x", "a/b/y")
        for words in (["s3://bucket/a/", "s3://bucket/a/"], ["s3://bucket/a", "s3://bucket/a/b"], ["s3://bucket/a/b/", "s3://bucket/a"],
                      ["s3://bucket/", "s3://bucket/c"], ["s3://bucket/a", "s3://bucket"], ["s3://bucket/a", "s3://bucket/../c"],
                      ["s3://bucket/a", "s3://bucket/c", "--last", "../x"], ["s3://bucket/a"]):
            for command in ("copy-folder", "move-folder"):
                self.bad(2, command, *words)
                self.bad(3, command, "--last", "none", "s3://bucket/a", "s3://bucket/c")
        self.assertEqual((self.keys(store), store.log), (["a/b/y", "a/x"], []))
        self.good("copy-folder", "s3://bucket/a/b", "s3://bucket/a/bc")

    def test_what_would_be_lost(self):
        """Nothing is removed that is not the same at the target."""
        store = self.strict()
        proxy = self.proxy(store.port)
        env = store.env(proxy.port)
        # The source lost its last object otherwise than by a move, and the target is an older one.
        self.fill(store, "a/1", "b/1", "b/z")
        store.objects["bucket", "a/1"] = b"data of A/1"
        done = self.bad(3, "move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b")
        self.assertIn("has no object z", done.last["message"])
        del store.objects["bucket", "b/1"]
        self.bad(3, "move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b")
        self.assertEqual((self.keys(store), store.log), (["a/1", "b/z"], []))

        # One that comes while the others are copied.
        self.fill(store, "a/1", "a/2", "a/z")

        def come(method, path):
            if method == "PUT" and path.endswith("/b/z"):
                self.fill(store, "a/0")
            return False

        proxy.only = come
        self.bad(15, "move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b", env=env)
        self.assertEqual(self.keys(store, "a/"), ["a/0", "a/1", "a/2", "a/z"])

        # One that goes before it was copied.
        def go(method, path):
            if method == "PUT" and path.endswith("/b/1"):
                store.objects.pop(("bucket", "a/1"), None)
            return False

        proxy.only = go
        self.bad(15, "move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b", env=env)
        self.fill(store, "a/1")

        # One that is changed meanwhile, also in its size alone.
        for data, etag in ((b"longer data of a/1", '"x-2"'), (b"data of A/1", None)):
            def change(method, path, data=data, etag=etag):
                if method == "PUT" and path.endswith("/b/z"):
                    store.objects["bucket", "a/1"] = data
                    store.etags["bucket", "a/1"] = etag
                return False

            proxy.only = change
            self.bad(15, "move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b", env=env)
            self.assertEqual(self.keys(store, "a/"), ["a/0", "a/1", "a/2", "a/z"])
        self.good("move-folder", "--last", "z", "s3://bucket/a", "s3://bucket/b")
        self.assertEqual(store.objects["bucket", "b/1"], b"data of A/1")
        self.assertEqual(self.keys(store), ["b/0", "b/1", "b/2", "b/z"])

    def test_faults(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        env = store.env(proxy.port)
        store.page = 1000
        failed = b"<Error><Code>InternalError</Code><Message>no</Message></Error>"
        for fault in (("lost",), ("close",), ("status", 200, {}, failed), ("status", 503, {}, b""), ("cut", 5)):
            for method in ("PUT", "GET", "POST", "DELETE", "HEAD"):
                store.objects.clear()
                self.fill(store, *(f"a/{n}" for n in range(3)), "a/z")
                proxy.only = lambda m, path, method=method: m == method
                proxy.faults = [fault] if method in ("PUT", "POST") or fault[1:2] != (200,) else []
                self.good("move-folder", *QUICK, "--last", "z", "s3://bucket/a/", "s3://bucket/b/", env=env)
                self.assertEqual(self.keys(store), ["b/0", "b/1", "b/2", "b/z"])
        proxy.only, proxy.faults, proxy.always = lambda m, path: m == "PUT", [], ("page",)
        self.bad(7, "move-folder", "s3://bucket/b/", "s3://bucket/a/", env=env)
        self.assertEqual(len(self.keys(store, "b/")), 4)


class Kills(Remote):
    """kill -9 when the store has done its n-th change, for every n."""

    def check(self, store, names, before):
        source = {n: store.objects.get(("bucket", f"a/1/{n}")) for n in names}
        target = {n: store.objects.get(("bucket", f"b/{n}")) for n in names}
        self.assertIn(before, (source, target))
        # Whoever goes by the last object never sees a mixture.
        for there in (source, target):
            self.assertTrue(there["z.json"] is None or there == before)

    def test_a_move(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        names = [*(f"{n}" for n in range(5)), "sub/x", "z.json"]
        self.fill(store, *(f"a/1/{n}" for n in names), "a/10/x", "b/other")
        whole = dict(store.objects)
        stale = {("bucket", f"b/{n}"): b"older" for n in names}
        before = {n: store.objects["bucket", f"a/1/{n}"] for n in names}
        killed, again, n = 0, True, 0
        while again:
            n += 1
            store.objects = {**whole, **(stale if n % 2 else {})}
            again = self.kill_at(proxy, n, "move-folder", "--last", "z.json", "--jobs", "2", "s3://bucket/a/1", "s3://bucket/b")
            self.check(store, names, before)
            killed += again
            self.good("move-folder", "--last", "z.json", "s3://bucket/a/1", "s3://bucket/b")
            self.assertEqual({k: v for _, k in store.objects for v in [store.objects["bucket", k]]},
                             {**{f"b/{k}": v for k, v in before.items()}, "a/10/x": b"data of a/10/x", "b/other": b"data of b/other"})
        self.assertGreaterEqual(killed, 10)

    def test_a_removal(self):
        store = self.strict()
        proxy = self.proxy(store.port)
        again, n = True, 0
        while again:
            n += 1
            self.fill(store, *(f"a/1/{k}" for k in range(10)), "a/1/new\nline", "a/1/z.json", "a/10/x")
            again = self.kill_at(proxy, n, "delete-folder", "--first", "z.json", "s3://bucket/a/1")
            self.assertTrue(("bucket", "a/1/z.json") not in store.objects or len(store.objects) == 13)
            self.good("delete-folder", "--first", "z.json", "s3://bucket/a/1")
            self.assertEqual(self.keys(store), ["a/10/x"])
        self.assertGreaterEqual(n, 5)

    def kill_at(self, proxy, n, *arguments):
        """Killed when the n-th changing request was done, with its answer under way; False: it had ended before."""
        count = [0]

        def nth(method, path):
            if method in ("PUT", "POST", "DELETE"):
                count[0] += 1
                return count[0] == n
            return False

        proxy.only, proxy.faults = nth, [("stall", 0)]
        proxy.stalled.clear()
        process = self.begin(*arguments, env=proxy.store.env(proxy.port))
        while process.poll() is None and not proxy.stalled.wait(0.02):
            pass
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        return process.returncode == -signal.SIGKILL

    def proxy(self, upstream):
        proxy = super().proxy(upstream)
        proxy.store = self.store
        return proxy

    def strict(self, *buckets):
        self.store = super().strict(*buckets)
        return self.store


if __name__ == "__main__":
    main()
