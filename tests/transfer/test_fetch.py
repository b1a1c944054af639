"""The init container of a worker: what ends up where the worker's variables say, archives, indexes, and that it can be killed and run again."""

import gzip
import io
import os
import pathlib
import signal
import tarfile
import time
import zipfile

from bed import QUICK, Case, main, until


def tar(entries, mode="w"):
    """entries: (name, bytes) or a TarInfo."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for entry in entries:
            if isinstance(entry, tarfile.TarInfo):
                archive.addfile(entry)
            else:
                info = tarfile.TarInfo(entry[0])
                info.size = len(entry[1])
                archive.addfile(info, io.BytesIO(entry[1]))
    return out.getvalue()


def link(name, target, kind=tarfile.SYMTYPE):
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


def zipped(entries):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries:
            archive.writestr(name, data)
    return out.getvalue()


def worker_path(downloads, url):
    """Where the cloud agent tells the worker to look, and the folder that it gives to the init container (cloud-agent/core/pod_volumes.c)."""
    seen = f"{downloads}/{url.partition('://')[2]}"
    return pathlib.Path(seen), seen.rpartition("/")[0]


class Places(Case):
    def setUp(self):
        super().setUp()
        self.store = self.strict("bucket", "out")
        self.downloads = self.path / "downloads"

    def there(self, **objects):
        for key, data in objects.items():
            self.store.objects["bucket", key] = data

    def put_there(self, names, bucket="bucket"):
        for name in names:
            self.store.objects[bucket, name] = name.encode()

    def fetch(self, *urls, status=0):
        arguments = [word for url in urls for word in (url, worker_path(self.downloads, url.removeprefix("@"))[1])]
        done = self.run_it(*QUICK, *arguments)
        self.assertEqual(done.status, status, done)
        self.assertEqual(done.out, "")
        return done

    def test_a_model_a_folder_and_a_bucket(self):
        self.put_there(["models/a/model.pb", "models/b/saved_model.pb", "models/b/variables/1", "models/bb/other"])
        site = self.web()
        self.file("web/base/m.ckpt", b"from the web")
        urls = ["s3://bucket/models/a/model.pb", "s3://bucket/models/b", f"{site.url}/base/m.ckpt?version=2"]
        self.fetch(*urls)
        self.assertEqual(worker_path(self.downloads, urls[0])[0].read_text(), "models/a/model.pb")
        self.assertEqual(self.left(worker_path(self.downloads, urls[1])[0]), ["saved_model.pb", "variables/1"])
        self.assertEqual(worker_path(self.downloads, urls[2])[0].read_text(), "from the web")
        self.fetch("s3://bucket/models/b/")
        self.assertEqual(self.left(worker_path(self.downloads, "s3://bucket/models/b/")[0]), ["saved_model.pb", "variables/1"])

    def test_a_bucket(self):
        self.put_there(["a", "b/c"])
        for url in ("s3://bucket", "s3://bucket/"):
            self.fetch(url)
            self.assertEqual(self.left(worker_path(self.downloads, url)[0]), ["a", "b/c"])

    def test_a_remote_dataset(self):
        """As a worker's script puts them together: the folder of ORIGINAL_DATASET_URL and a field of a sample."""
        names = [f"images/{n // 10}/{n}.png" for n in range(50)]
        self.put_there([f"dataset/{n}" for n in [*names, "images/unused.png"]])
        train, index = "s3://out/data/train/1/data.txt", "s3://out/data/train/1/dataIndex.txt"
        self.store.objects["out", "data/train/1/data.txt"] = "".join(f"{n} {k}\n" for k, n in enumerate(names)).encode()
        self.store.objects["out", "data/train/1/dataIndex.txt"] = ("# made for a test\ns3://bucket/dataset\n" + "\n".join(names) + "\n").encode()
        self.fetch(train, "@" + index)
        original = worker_path(self.downloads, index)[0]
        self.assertTrue(original.exists())
        for line in worker_path(self.downloads, train)[0].read_text().splitlines():
            name = line.split()[0]
            self.assertEqual((original.parent / name).read_text(), f"dataset/{name}")
        self.assertEqual(len(self.left(self.downloads)), 52)

    def test_an_index_that_is_wrong(self):
        for text, status in (("", 2), ("# only this\n", 2), ("s3://bucket/d\n../x\n", 2), ("s3://bucket/d\n/x\n", 2), ("http://h/d\nx\n", 2), ("/local\nx\n", 2),
                             ("s3://bucket/d\nimages/\n", 2), ("s3://nobody/d\nx.png\n", 3), ("s3://bucket/d\nnothing.png a\n", 3)):
            with self.subTest(text=text):
                self.put_there(["d/a"])
                self.store.objects["out", "i/index"] = text.encode()
                done = self.fetch("@s3://out/i/index", status=status)
                self.assertIn("index" if status == 2 else "not there", done.log)
        # What is there was fetched all the same, and the missing one is named.
        self.assertIn("nothing.png", done.log)
        self.assertEqual((self.downloads / "out/i/a").read_text(), "d/a")

    def test_what_cannot_be_done(self):
        self.fetch("s3://bucket/nothing", status=3)
        self.fetch("s3://nobody/nothing", status=3)
        self.fetch("@http://127.0.0.1:1/index", status=2)
        self.fetch("http://127.0.0.1:1/", status=2)
        self.fetch("s3://bucket/..", status=2)
        self.fetch("s3://bucket/" + "n" * 300, status=2)
        self.assertEqual(self.run_it().status, 2)
        self.assertEqual(self.run_it("s3://bucket/k").status, 2)
        self.assertEqual(self.run_it("/local/path", "/x").status, 2)

    def test_what_was_not_there_at_first(self):
        """What the first run left of it is in nobody's way."""
        self.fetch("s3://bucket/late", status=3)
        self.put_there(["late"])
        self.fetch("s3://bucket/late")
        self.assertEqual((self.downloads / "bucket" / "late").read_text(), "late")

    def test_the_first_failure_ends_it(self):
        self.put_there(["a"])
        self.fetch("s3://bucket/nothing", "s3://bucket/a", status=3)
        self.assertEqual(self.left(self.downloads), [])

    def test_archives(self):
        inside = [("model/weights", b"w" * 5000), ("./model/config.json", b"{}"), ("readme", b"r")]
        self.there(**{"m/x.tar.gz": gzip.compress(tar(inside)), "m/y.tar": tar(inside), "m/z.zip": zipped(inside), "m/t.tgz": b"kept as it is"})
        for name in ("x.tar.gz", "y.tar", "z.zip"):
            self.good(f"s3://bucket/m/{name}", self.path / name)
            self.assertEqual(self.left(self.path / name), ["model/config.json", "model/weights", "readme"])
            self.assertEqual((self.path / name / "model/weights").read_bytes(), b"w" * 5000)
        self.good("s3://bucket/m/t.tgz", self.path / "t")
        self.assertEqual(self.left(self.path / "t"), ["t.tgz"])
        # Again, over what is there: as when a container is started again.
        self.good("s3://bucket/m/x.tar.gz", self.path / "x.tar.gz")
        self.file("web/a.zip", zipped(inside))
        self.good(f"{self.web().url}/a.zip?signature=x", self.path / "w")
        self.assertEqual(len(self.left(self.path / "w")), 3)

    def test_archives_with_links_inside(self):
        self.there(**{"a.tar": tar([("d/e/file", b"data"), link("d/soft", "e/file"), link("d/e/up", "../e/file"), link("hard", "d/e/file", tarfile.LNKTYPE)])})
        self.good("s3://bucket/a.tar", self.path / "x")
        for name in ("d/soft", "d/e/up", "hard"):
            self.assertEqual((self.path / "x" / name).read_text(), "data")

    def test_archives_that_lead_out(self):
        outside = self.file("outside", b"untouched")
        device = tarfile.TarInfo("device")
        device.type, device.devmajor, device.devminor = tarfile.CHRTYPE, 1, 3
        pipe = tarfile.TarInfo("pipe")
        pipe.type = tarfile.FIFOTYPE
        cases = {
            "absolute": tar([(str(outside), b"evil")]),
            "dots": tar([("../outside", b"evil")]),
            "dots inside": tar([("a/../../outside", b"evil")]),
            "link to outside": tar([link("l", str(outside)), ("l", b"evil")]),
            "link up": tar([link("l", "../outside")]),
            "through a link": tar([link("l", ".."), ("l/outside", b"evil")]),
            "up by way of a link": tar([link("s", "."), link("t", "s/s/../../outside"), ("t", b"evil")]),
            "hard link": tar([link("h", str(outside), tarfile.LNKTYPE)]),
            "hard link up": tar([link("h", "../outside", tarfile.LNKTYPE)]),
            "device": tar([device]),
            "pipe": tar([pipe]),
            "zip": None,
        }
        for name, data in cases.items():
            with self.subTest(name=name):
                self.there(**({"a.zip": zipped([("../outside", b"evil")])} if data is None else {"a.tar": data}))
                done = self.run_it(*QUICK, f"s3://bucket/a.{'zip' if data is None else 'tar'}", self.path / "into" / name)
                self.assertEqual(done.status, 7, done)
                self.assertEqual(outside.read_bytes(), b"untouched")
                self.assertEqual([n for n in self.left(self.path / "into" / name) if n not in ("l", "s")], [])

    def test_a_link_that_is_there_already_is_not_written_through(self):
        (self.path / "elsewhere").mkdir()
        (self.path / "x").mkdir()
        os.symlink(self.path / "elsewhere", self.path / "x/d")
        self.there(**{"a.tar": tar([("d/file", b"data")])})
        self.run_it(*QUICK, "s3://bucket/a.tar", self.path / "x")
        self.assertEqual(self.left(self.path / "elsewhere"), [])

    def test_archives_that_are_damaged_or_too_large(self):
        good = gzip.compress(tar([("f", self.data(100_000))]))
        for name, data in (("a.tar.gz", good[:50_000]), ("a.tar.gz", b"not an archive"), ("a.zip", good), ("a.tar.gz", b""), ("a.zip", zipped([]))):
            with self.subTest(name=name, size=len(data)):
                self.there(**{name: data})
                done = self.run_it(*QUICK, f"s3://bucket/{name}", self.path / "x")
                self.assertEqual(done.status, 7, done)
        holes = tarfile.TarInfo("big")
        holes.size = 3 << 30
        head = holes.tobuf(tarfile.GNU_FORMAT)
        packed = gzip.compress(head)
        zeros = gzip.compress(bytes(64 << 20), 9)
        self.there(**{"bomb.tar.gz": packed + zeros * 48})
        done = self.run_it(*QUICK, "s3://bucket/bomb.tar.gz", self.path / "y")
        # Its archive is about a thousandth of its content.
        self.assertEqual(done.status, 13, done)
        self.assertLess(sum(f.stat().st_blocks * 512 for f in (self.path / "y").rglob("*")), 2 << 30)

    def test_no_special_bits(self):
        info = tarfile.TarInfo("tool")
        info.mode, info.uid = 0o4755, 12345
        self.there(**{"a.tar": tar([info])})
        self.good("s3://bucket/a.tar", self.path / "x")
        st = (self.path / "x/tool").stat()
        self.assertEqual((st.st_mode & 0o7777, st.st_uid), (0o755, os.geteuid()))

    def test_killed_and_run_again(self):
        """At many moments: what is there is whole, and in the end all of it is."""
        names = [f"d/{n}" for n in range(300)]
        for name in names:
            self.store.objects["bucket", name] = name.encode() * 500
        self.store.objects["bucket", "big"] = big = self.data(20_000_000)
        self.store.page = 1000
        for round_ in range(25):
            process = self.begin("s3://bucket/d", self.downloads, "s3://bucket/big", self.downloads)
            time.sleep(self.random.uniform(0.005, 0.25))  # a moment at random is what is tested
            process.send_signal(signal.SIGKILL)
            process.communicate()
            for name in self.left(self.downloads):
                if ".ilmare-part-" not in name:
                    self.assertEqual((self.downloads / name).read_bytes(), big if name == "big" else name.encode() * 500, round_)
        self.good("s3://bucket/d", self.downloads, "s3://bucket/big", self.downloads)
        self.assertEqual(self.left(self.downloads), sorted([*names, "big"]))

    def test_stopped(self):
        proxy = self.proxy(self.store.port)
        self.put_there([f"d/{n}" for n in range(100)])
        self.store.page = 1000
        proxy.only, proxy.always = lambda method, path: path.endswith("/d/50"), ("stall", 1)
        process = self.begin("s3://bucket/d", self.downloads, env=self.store.env(proxy.port))
        self.assertTrue(proxy.stalled.wait(20))
        until(lambda: len(self.left(self.downloads)) >= 40, "others are fetched meanwhile")
        process.terminate()
        done = self.end(process)
        self.assertEqual(done.status, 9, done)
        self.assertEqual([n for n in self.left(self.downloads) if "ilmare" in n or n == "d/50"], [])


class Real(Case):
    def test_with_a_real_store(self):
        gateway = self.gateway("bucket", "out")
        for n in range(30):
            path = gateway.folder / "bucket" / "dataset" / "images" / f"{n}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"image {n}")
        index = "s3://bucket/dataset\n" + " ".join(f"images/{n}.png" for n in range(0, 30, 2))
        self.good("put", self.file("i", index.encode()), "s3://out/1/dataIndex.txt")
        self.good("put", self.file("m", gzip.compress(tar([("saved/model", b"m")]))), "s3://out/models/base.tar.gz")
        self.good("@s3://out/1/dataIndex.txt", self.path / "d/out/1", "s3://bucket/dataset", self.path / "d/bucket", "s3://out/models/base.tar.gz",
                  self.path / "d/out/models")
        self.assertEqual(len(self.left(self.path / "d/bucket/dataset/images")), 30)
        self.assertEqual(len(self.left(self.path / "d/out/1/images")), 15)
        self.assertEqual((self.path / "d/out/models/saved/model").read_text(), "m")
        self.assertTrue(gateway.process.alive())


if __name__ == "__main__":
    main()
