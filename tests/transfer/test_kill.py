"""kill -9 at many moments, with a real store: an object or a file is what it was before, or all of the new one."""

import signal
import time

from bed import Case, main

MOMENTS = 30


class Kills(Case):
    def killed(self, *arguments, longest):
        process = self.begin(*arguments)
        time.sleep(self.random.uniform(0.001, longest))  # a moment at random is what is tested
        process.send_signal(signal.SIGKILL)
        process.communicate()

    def how_long(self, *arguments):
        begin = time.monotonic()
        self.good(*arguments)
        return time.monotonic() - begin

    def test_uploads(self):
        gateway = self.gateway()
        contents = [self.data(size) for size in (40_000_000, 1000, 20_000_000)]
        files = [self.file(f"source{n}", data) for n, data in enumerate(contents)]
        longest = self.how_long("put", files[0], "s3://bucket/model") * 1.2
        for n in range(MOMENTS):
            self.killed("put", files[n % 3], "s3://bucket/model", longest=longest)
            # The store may still be at work on what it was sent; whatever it shows is whole.
            self.assertIn((gateway.folder / "bucket" / "model").read_bytes(), contents)
            self.good("get", "s3://bucket/model", self.path / "back")
            self.assertIn((self.path / "back").read_bytes(), contents)
        self.good("put", files[1], "s3://bucket/last")
        self.assertEqual((gateway.folder / "bucket" / "last").read_bytes(), contents[1])

    def test_downloads(self):
        self.gateway()
        contents = [self.data(30_000_000), self.data(1000)]
        keys = ["s3://bucket/a", "s3://bucket/b"]
        for key, data in zip(keys, contents):
            self.good("put", self.file("source", data), key)
        target = self.path / "to" / "model"
        target.parent.mkdir()
        longest = self.how_long("get", keys[0], target) * 1.2
        for n in range(MOMENTS):
            self.killed("get", keys[n % 2], target, longest=longest)
            self.assertIn(target.read_bytes(), contents)
            left = [name for name in self.left(target.parent) if name != "model"]
            self.assertTrue(all(name.startswith(".ilmare-part-") for name in left), left)
            if n % 5 == 4:
                for key, data in zip(keys, contents):
                    self.good("get", key, target)
                    self.assertEqual(target.read_bytes(), data)
                self.assertEqual(self.left(target.parent), ["model"])

    def test_moves(self):
        gateway = self.gateway()
        names = [*(f"d{n % 3}/{n}" for n in range(60)), "manifest.json"]
        for n in names:
            self.file(f"a/1/{n}", b"data of " + n.encode())
        self.file("store/bucket/a/10/x", b"beside")
        self.good("put-folder", self.path / "a" / "1", "s3://bucket/a/1")
        before = {n: b"data of " + n.encode() for n in names}
        places, longest, killed = ["a/1", "b/1"], None, 0
        for n in range(MOMENTS // 2):
            source, target = places[n % 2], places[1 - n % 2]
            words = ["move-folder", "--last", "manifest.json", f"s3://bucket/{source}", f"s3://bucket/{target}"]
            if longest is None:
                longest = self.how_long(*words) * 1.2
                continue
            self.killed(*words, longest=longest)
            there = [{k: v for k in names if (v := self.content(gateway.folder / "bucket" / place / k)) is not None} for place in (source, target)]
            self.assertIn(before, there)
            killed += there[1] != before or bool(there[0])
            self.good(*words)
            self.assertEqual(self.left(gateway.folder / "bucket"), sorted([*(f"{target}/{k}" for k in names), "a/10/x"]))
        self.assertGreater(killed, 0)

    def content(self, path):
        return path.read_bytes() if path.is_file() else None


if __name__ == "__main__":
    main()
