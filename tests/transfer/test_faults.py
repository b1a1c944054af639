"""A server, or what is in between, that does everything wrong: the file is what it was, or all of the new one; nothing is left but parts that can be
gone on with; attempts end."""

import json
import pathlib
import signal
import time

from bed import QUICK, Case, main, until

BIG = 12_000_000


class Store(Case):
    """A strict store behind the proxy."""

    def setUp(self):
        super().setUp()
        self.store = self.strict()
        self.proxy_ = self.proxy(self.store.port)
        self.env = self.store.env(self.proxy_.port)

    def put_there(self, size, key="k"):
        self.store.objects["bucket", key] = data = self.data(size)
        return data

    def asked(self):
        return [headers.get("Range") for _, _, headers in self.proxy_.seen]


class Downloads(Store):
    def get(self, *faults, size=BIG, status=0, always=None):
        data = self.put_there(size)
        self.proxy_.faults, self.proxy_.always, self.proxy_.seen = list(faults), always, []
        done = self.run_it("get", *QUICK, "s3://bucket/k", self.path / "f")
        self.assertEqual(done.status, status, done)
        if status == 0:
            self.assertEqual((self.path / "f").read_bytes(), data)
            self.assertEqual(self.left(self.path), ["f"])
        return done

    def test_an_answer_that_breaks_off_goes_on(self):
        for size in (100_000, BIG):
            self.get(("cut", 50_000), ("cut", 10), ("cut", 0), size=size)
            self.assertEqual(self.asked(), [None, "bytes=50000-", "bytes=50010-", "bytes=50010-"])

    def test_progress_gives_new_attempts_and_none_gives_up(self):
        self.get(*[("cut", 100_000)] * 12, size=2_000_000)
        done = self.get(status=6, always=("cut", 0), size=100_000)
        self.assertEqual(len(self.proxy_.seen), 4)
        self.assertEqual(self.left(self.path), ["f"])
        self.assertIn("s3://bucket/k", done.last["message"])

    def test_a_part_that_is_there_is_not_fetched_again(self):
        self.get(("cut", 9_000_000), status=6, always=("close",))
        kept = self.left(self.path)
        self.assertEqual(len(kept), 2)
        self.assertTrue(all(name.startswith(".ilmare-part-") for name in kept), kept)
        data = self.store.objects["bucket", "k"]
        self.proxy_.faults, self.proxy_.always, self.proxy_.seen = [], None, []
        done = self.good("get", "s3://bucket/k", self.path / "f")
        self.assertEqual((self.asked(), done.last["resumedAt"]), (["bytes=9000000-"], 9_000_000))
        self.assertEqual(self.proxy_.seen[0][2]["If-Match"], self.store.etag("bucket", b"k"))
        self.assertEqual(((self.path / "f").read_bytes(), self.left(self.path)), (data, ["f"]))

    def test_a_part_of_another_version_is_of_no_use(self):
        self.get(("cut", 9_000_000), status=6, always=("close",))
        data = self.put_there(BIG + 1)
        self.proxy_.always, self.proxy_.seen = None, []
        done = self.good("get", "s3://bucket/k", self.path / "f")
        self.assertEqual((self.asked(), done.last["resumedAt"]), (["bytes=9000000-", None], 0))
        self.assertEqual(((self.path / "f").read_bytes(), self.left(self.path)), (data, ["f"]))

    def test_fresh(self):
        self.get(("cut", 9_000_000), status=6, always=("close",))
        self.proxy_.always, self.proxy_.seen = None, []
        self.good("get", "--fresh", "s3://bucket/k", self.path / "f")
        self.assertEqual((self.asked(), self.left(self.path)), ([None], ["f"]))

    def test_a_stall_ends(self):
        self.put_there(100_000)
        self.proxy_.faults = [("stall", 50_000)]
        begin = time.monotonic()
        self.good("get", "--stall-time", "1s", "s3://bucket/k", self.path / "f")
        self.assertLess(time.monotonic() - begin, 15)
        self.assertEqual(self.asked(), [None, "bytes=50000-"])

    def test_lies_about_the_length(self):
        self.get(("longer", 1000), size=100_000)
        self.get(status=6, always=("longer", 1000), size=100_000)
        self.get(("shorter", 1000), size=100_000)
        done = self.get(status=7, always=("shorter", 1000), size=100_000)
        self.assertIn("MD5", done.last["message"])

    def test_a_byte_that_is_another(self):
        self.get(("flip", 5000), size=100_000)
        self.get(status=7, always=("flip", 5000), size=100_000)
        self.assertEqual(len(self.proxy_.seen), 3)
        self.assertEqual(self.left(self.path), ["f"])

    def test_a_page_in_place_of_the_object(self):
        self.get(("page",), size=1000)
        done = self.get(status=7, always=("page",), size=1000)
        self.assertIn("no", done.last["message"])
        self.assertIn("ETag", done.last["message"])

    def test_a_redirect_is_not_followed(self):
        body = b"<Error><Code>PermanentRedirect</Code><Message>go away</Message></Error>"
        for status in (301, 302, 307, 308):
            done = self.get(("status", status, {"Location": f"http://127.0.0.1:{self.store.port}/bucket/k"}, body), status=12)
            self.assertIn("AWS_REGION", done.last["message"])
            self.assertEqual(len(self.proxy_.seen), 1)
        self.assertEqual([r for r in self.store.requests if r[0] == "GET"], [])

    def test_a_server_in_trouble(self):
        slow = b"<Error><Code>SlowDown</Code><Message>too fast</Message></Error>"
        self.get(("status", 503, {}, slow), ("status", 500, {}, b""), ("status", 429, {}, b""), size=1000)
        begin = time.monotonic()
        self.get(("status", 503, {"Retry-After": "3"}, slow), size=1000)
        self.assertGreaterEqual(time.monotonic() - begin, 3)
        done = self.get(status=6, always=("status", 503, {}, slow), size=1000)
        self.assertEqual(len(self.proxy_.seen), 4)
        self.assertIn("SlowDown", done.last["message"])
        for status in (400, 403, 404, 405, 411):
            self.get(status={403: 4, 404: 3}.get(status, 12), always=("status", status, {}, b""), size=1000)
            self.assertEqual(len(self.proxy_.seen), 1)

    def test_more_than_anybody_needs(self):
        self.get(status=13, always=("status", 403, {}, b"<Error>" + b"x" * 100_000))
        self.get(status=13, always=("status", 200, {f"x-{n}": "y" * 1000 for n in range(90)}, b""))

    def test_what_was_appended_goes_on(self):
        data = self.put_there(300_000)
        file = self.file("f", data[:100])
        self.proxy_.faults = [("cut", 1000), ("cut", 0), ("status", 503, {}, b"")]
        self.good("get", *QUICK, "--range", "100", "s3://bucket/k", file)
        self.assertEqual((file.read_bytes(), self.asked()), (data, ["bytes=100-", "bytes=1100-", "bytes=1100-", "bytes=1100-"]))
        # All of it, where the rest was asked for, is not appended.
        file.write_bytes(data[:100])
        self.proxy_.faults = [("status", 200, {"ETag": '"x"'}, data)]
        self.bad(12, "get", "--range", "100", "s3://bucket/k", file)
        self.assertEqual(file.read_bytes(), data[:100])


    def continued(self, data, *faults, here=100_000, always=None):
        file = self.file("f", data[:here])
        self.proxy_.faults, self.proxy_.always, self.proxy_.seen = list(faults), always, []
        return file, self.run_it("get", *QUICK, "--range", here, "--same", "1000", "s3://bucket/k", file)

    def test_what_is_the_same_is_looked_at_once_for_a_version(self):
        data = self.put_there(300_000)
        file, done = self.continued(data, ("cut", 500), ("cut", 1500), ("close",))
        self.assertEqual((done.status, file.read_bytes()), (0, data), done)
        self.assertEqual(self.asked(), ["bytes=99000-", "bytes=99000-", "bytes=100500-", "bytes=100500-"])

    def test_a_source_that_grows_while_it_comes(self):
        data = self.put_there(300_000)

        def grow(method, path):
            if len(self.proxy_.seen) == 2:
                self.store.objects["bucket", "k"] += b"more"
            return True

        self.proxy_.only = grow
        file, done = self.continued(data, ("cut", 1500))
        self.assertEqual((done.status, file.read_bytes()), (0, data + b"more"), done)
        self.assertEqual(self.asked(), ["bytes=99000-", "bytes=100500-", "bytes=99500-"])

    def test_a_source_that_is_replaced_while_it_comes(self):
        data = self.put_there(300_000)

        def replace(method, path):
            if len(self.proxy_.seen) == 2:
                self.put_there(300_000)
            return True

        self.proxy_.only = replace
        file, done = self.continued(data, ("cut", 1500))
        self.assertEqual((done.status, file.read_bytes()), (10, data[:100_000]), done)

    def test_a_byte_that_is_another_is_no_continuation(self):
        data = self.put_there(300_000)
        file, done = self.continued(data, always=("flip", 999))
        self.assertEqual((done.status, file.read_bytes()), (10, data[:100_000]), done)


class Uploads(Store):
    def put(self, *faults, size=1000, status=0, always=None, only=None, flags=()):
        file = self.file("source", self.data(size))
        self.store.objects["bucket", "k"] = before = b"before"
        if "--new" in flags:
            del self.store.objects["bucket", "k"]
        self.proxy_.faults, self.proxy_.always, self.proxy_.seen = list(faults), always, []
        self.proxy_.only = only or (lambda method, path: True)
        done = self.run_it("put", *QUICK, *flags, file, "s3://bucket/k")
        self.assertEqual(done.status, status, done)
        self.assertEqual(self.store.objects.get(("bucket", "k")), file.read_bytes() if status == 0 else before if "--new" not in flags else None)
        self.assertEqual(self.store.parts, {})
        return done

    def test_a_store_that_works_in_silence(self):
        """It puts parts together, or copies: that takes the longer the more it is, and is no stall."""
        file = self.file("source", self.data(40_000_000))
        self.proxy_.only = lambda method, path: method == "POST" and "uploadId" in path
        self.proxy_.faults = [("late", 2.5)]
        self.good("put", *QUICK, "--stall-time", "1s", file, "s3://bucket/k")
        self.assertEqual(len([path for method, path, _ in self.proxy_.seen if method == "POST" and "uploadId" in path]), 1)
        self.proxy_.only = lambda method, path: method == "PUT"
        self.proxy_.faults, self.proxy_.seen = [("late", 2.5)], []
        self.good("copy", *QUICK, "--stall-time", "1s", "s3://bucket/k", "s3://bucket/l")
        self.assertEqual([method for method, _, _ in self.proxy_.seen], ["HEAD", "PUT"])

    def test_a_small_one_is_tried_again(self):
        self.put(("close",), ("status", 503, {}, b""), ("lost",))
        self.put(("lost",), flags=["--new"])
        self.put(status=6, always=("close",))
        self.put(status=4, always=("status", 403, {}, b"<Error><Code>AccessDenied</Code></Error>"))
        self.assertEqual(len(self.proxy_.seen), 1)

    def test_what_is_damaged_on_the_way_is_refused_and_sent_again(self):
        refusal = ("status", 400, {}, b"<Error><Code>XAmzContentSHA256Mismatch</Code></Error>")
        self.put(refusal)
        self.put(always=refusal, status=7)

    def test_parts_are_tried_again(self):
        self.put(("close",), ("lost",), ("refuse_body",), None, ("status", 500, {}, b""), size=40_000_000,
                 only=lambda method, path: method == "PUT")

    def test_parts_are_cleared_after_a_failure(self):
        done = self.put(size=40_000_000, status=6, always=("status", 500, {}, b""), only=lambda method, path: "partNumber=2" in path)
        self.assertIn("s3://bucket/k", done.last["message"])
        self.put(size=40_000_000, status=4, always=("status", 403, {}, b""), only=lambda method, path: "partNumber=3" in path)

    def test_the_end_says_an_error_with_status_200(self):
        end = lambda method, path: method == "POST" and "uploadId" in path  # noqa: E731
        internal = b'<?xml version="1.0"?>\n\n<Error><Code>InternalError</Code><Message>try again</Message></Error>'
        self.put(("status", 200, {}, internal), size=17_000_000, only=end)
        done = self.put(size=17_000_000, only=end, always=("status", 200, {}, internal), status=6)
        self.assertIn("InternalError", done.last["message"])
        self.put(size=17_000_000, only=end, always=("status", 200, {}, b"<Error><Code>InvalidPart</Code></Error>"), status=12)
        self.put(size=17_000_000, only=end, always=("page",), status=7)

    def test_the_answer_to_the_end_is_lost(self):
        end = lambda method, path: method == "POST" and "uploadId" in path  # noqa: E731
        for flags in ([], ["--new"]):
            done = self.put(("lost",), size=17_000_000, only=end, flags=flags)
            self.assertIn("only the answer was lost", done.log)

    def test_a_page_in_place_of_an_answer(self):
        self.put(always=("page",), status=7)
        self.put(always=("page",), size=17_000_000, status=7)

    def test_a_file_that_changes_meanwhile(self):
        file = self.file("source", self.data(40_000_000))
        self.proxy_.only = lambda method, path: "partNumber=2" in path
        self.proxy_.faults = [("status", 503, {"Retry-After": "1"}, b"")]
        process = self.begin("put", file, "s3://bucket/k")
        until(lambda: any("partNumber=2" in path for _, path, _ in self.proxy_.seen), "the second part is under way")
        with open(file, "r+b") as f:
            f.write(b"changed")
        done = self.end(process)
        self.assertEqual(done.status, 10, done)
        self.assertEqual((self.store.objects, self.store.parts), ({}, {}))

    def test_stopped(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            file = self.file("source", self.data(40_000_000))
            self.proxy_.seen, self.proxy_.only = [], lambda method, path: "partNumber=2" in path
            self.proxy_.always = ("status", 503, {"Retry-After": "60"}, b"")
            process = self.begin("put", file, "s3://bucket/k")
            until(lambda: any("partNumber=2" in path for _, path, _ in self.proxy_.seen), "the second part is under way")
            process.send_signal(how)
            begin = time.monotonic()
            done = self.end(process)
            self.assertLess(time.monotonic() - begin, 5)
            self.assertEqual((done.status, done.last["code"]), (9, "cancelled"), done)
            self.assertEqual((self.store.objects, self.store.parts), ({}, {}))


class Stopping(Store):
    def stalled(self, size):
        self.put_there(size)
        self.proxy_.faults = [("stall", size // 2)]
        process = self.begin("get", "s3://bucket/k", self.path / "f")
        self.assertTrue(self.proxy_.stalled.wait(20))
        until(lambda: self.proxy_.stalled.is_set() and self.received(process) >= size // 2, "it has what came")
        return process

    def received(self, process):
        """Bytes that it has read and written, by what the system counts."""
        text = pathlib.Path(f"/proc/{process.pid}/io").read_text()
        return int(text.split("wchar: ")[1].split()[0])

    def test_a_download_that_is_stopped(self):
        process = self.stalled(BIG)
        process.terminate()
        done = self.end(process)
        self.assertEqual((done.status, done.last["code"]), (9, "cancelled"))
        self.assertTrue(all(name.startswith(".ilmare-part-") for name in self.left(self.path)))
        self.assertEqual(self.good("get", "s3://bucket/k", self.path / "f").last["resumedAt"], BIG // 2)

    def test_a_small_download_that_is_killed_leaves_nothing(self):
        process = self.stalled(100_000)
        process.kill()
        self.end(process)
        self.assertEqual(self.left(self.path), [])

    def test_a_download_that_is_killed_goes_on(self):
        process = self.stalled(BIG)
        process.kill()
        process.communicate()
        self.assertEqual(self.good("get", "s3://bucket/k", self.path / "f").last["resumedAt"], BIG // 2)
        self.assertEqual(self.left(self.path), ["f"])

    def test_two_at_a_time(self):
        process = self.stalled(BIG)
        done = self.bad(14, "get", "s3://bucket/k", self.path / "f")
        self.assertIn("another process", done.last["message"])
        process.kill()
        self.end_quietly(process)

    def end_quietly(self, process):
        process.communicate()

    def test_nobody_reads_what_it_says(self):
        """The agent that started it was killed: it ends by itself."""
        process = self.stalled(BIG)
        process.stdout.close()
        process.stdout = None
        self.assertEqual(process.wait(10), 9)
        process.stderr.close()


class Figures(Store):
    def test_progress_is_said(self):
        self.put_there(BIG)
        self.proxy_.faults = [("stall", BIG // 2)]
        process = self.begin("get", "s3://bucket/k", self.path / "f")
        lines = iter(process.stdout.readline, "")
        line = json.loads(next(line for line in lines if '"progress"' in line and json.loads(line)["bytes"] == BIG // 2))
        self.assertEqual(line["size"], BIG)
        process.kill()
        process.communicate()

    def test_progress_of_an_upload_goes_back_with_a_part_that_failed(self):
        file, size = self.file("source", self.data(40_000_000)), 40_000_000
        self.proxy_.only = lambda method, path: "partNumber=2" in path
        self.proxy_.faults = [("status", 503, {"Retry-After": "2"}, b"")]
        done = self.good("put", file, "s3://bucket/k")
        figures = [line["bytes"] for line in done.lines if line["event"] == "progress"]
        self.assertIn(16 << 20, figures)
        self.assertTrue(all(line["bytes"] <= line["size"] == size for line in done.lines if line["event"] == "progress"), done.lines)


if __name__ == "__main__":
    main()
