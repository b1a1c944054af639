#!/usr/bin/python3
"""A device whose datasets, models and outputs are remote: an edge agent, a real store for S3, a web server, and a cloud agent played by hand."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import time
import uuid

from bed import Case, clean_env, main
from agents import PATIENCE, until
from hand import Hand, Job, manifest, sha256, tree


class RemoteJob(Job):
    """What is below the store's folder is an object of it: documents name its url instead of its path."""

    def __init__(self, case, store, name="job", **more):
        folder = store.folder / "bucket" / name
        super().__init__(case.world, name=name, folder=folder, **more)
        self.case, self.store = case, store
        self.dataset["url"] = self.remote(self.dataset["url"])

    def put(self, path, data):
        temporary = self.case.file(f"put-{self.name}", data)
        self.case.good("put", temporary, self.remote(str(path)))

    def remote(self, text):
        return text.replace(f"{self.store.folder}/", "s3://")

    def save(self, number, samples):
        self.put(self.output / "train" / str(number) / "model.bin", b"model of round %d\n" % number + samples)

    def document(self, stamp, node):
        return json.loads(self.remote(json.dumps(super().document(stamp, node))))

    def append(self, *lines):
        before = self.data.read_bytes() if self.data.exists() else b""
        self.put(self.data, before + "".join(f"{line}\n" for line in lines).encode())


class RemoteHand(Hand):
    def body(self, job, stage, **more):
        return json.loads(job.remote(json.dumps(super().body(job, stage, **more))))

    def run_worker(self, job, stage, number, name, body):
        if stage == "train":
            samples = (job.folder(number) / f"data.{job.format}").read_bytes()
            job.save(number, samples)
        self.deliver(name, body)


class Device(Case):
    def device(self, *, job=RemoteJob, store=None, env=None, edge=None, **more):
        self.store = store or self.gateway()
        self.broker = self.world.broker()
        self.job = job(self, self.store, **more)
        options = {"dataset_check_on_arrival": "true", "dataset_look_period": "100ms", **(edge or {})}
        self.edge = self.world.edge(self.broker, start=False, env=clean_env(env or self.env), **options)
        self.hand = RemoteHand(self.world, self.broker, self.edge, self.job)
        self.addCleanup(self.hand.close)
        self.edge.start().connected()
        return self.job, self.edge, self.hand

    def sees(self, samples, since=0, **more):
        def check(d):
            return d["samples"] == samples and "error" not in d and all(d[key] == value for key, value in more.items())
        return self.hand.status(self.job.dataset, check, f"{samples} samples, {more}", since)

    def fails(self, pattern, since=0):
        return self.hand.status(self.job.dataset, lambda d: re.search(pattern, d.get("error", "")), f"an error: {pattern}", since)

    def children(self):
        found = []
        for path in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (path / "cmdline").read_bytes().split(b"\0")
                if command[0].endswith(b"ilmare-transfer") and str(self.world.path).encode() in b" ".join(command):
                    found.append(int(path.name))
        return found


class WebJob(RemoteJob):
    """Its dataset is at a web server; the rest is of this machine."""

    def __init__(self, case, web, **more):
        Job.__init__(self, case.world, **more)
        self.case, self.data = case, web.folder / "samples.txt"
        self.dataset["url"] = f"{web.url}/samples.txt"

    def remote(self, text):
        return text

    append = Job.append


class Dataset(Device):
    def test_it_is_followed(self):
        """At a store: it grows, waits for the end of a line, is replaced by a shorter and by another one, goes, and comes back."""
        job, edge, hand = self.device(condition=(">", 1000))
        self.fails("says 404")
        job.put(job.data, b"a\nb\nc")
        self.sees(2, waitingBytes=1)
        job.put(job.data, b"a\nb\ncc\nd\n")
        self.sees(4, waitingBytes=0)
        job.put(job.data, b"x\n")
        self.sees(1)
        job.put(job.data, b"y\nzz\n")
        self.sees(2)
        since = hand.topics.mark()
        job.data.unlink()
        self.fails("says 404", since)
        since = hand.topics.mark()
        job.put(job.data, b"y\nzz\nz\n")
        self.sees(3, since)

    def test_a_folder_is_none(self):
        job, edge, hand = self.device(condition=(">", 1000))
        job.put(job.data / "inside", b"a\n")
        self.fails("samples.txt is a folder; its url must name a file")

    def grown(self, web, job, requests):
        """What was asked of the server for a file that grew by a line."""
        del web.requests[:]
        job.append("one more")
        self.sees(requests + 1)
        return [headers.get("Range") for method, path, headers in web.requests if method == "GET"]

    def test_what_grew_is_not_read_again(self):
        web = self.web()
        job, edge, hand = self.device(job=WebJob, store=web, env={"PATH": os.environ["PATH"]}, condition=(">", 100000))
        job.append(*(f"sample {i}" for i in range(1000)))
        size = job.data.stat().st_size
        self.sees(1000)
        self.assertEqual(self.grown(web, job, 1000), [f"bytes={size - 4096}-"])
        # Without ETags, by time and length.
        web.etags = False
        size = job.data.stat().st_size
        self.assertEqual(self.grown(web, job, 1001), [f"bytes={size - 4096}-"])
        # With weak ones: they say nothing of bytes, and no condition for a part can be made of them.
        del web.requests[:]
        web.etags = web.weak = True
        until(lambda: [method for method, path, headers in web.requests][-1:] == ["HEAD"] and "GET" in str(web.requests), "they are known")
        size = job.data.stat().st_size
        self.assertEqual(self.grown(web, job, 1002), [f"bytes={size - 4096}-"])
        web.etags = web.weak = False
        # A server without parts, and one that tells no length either.
        web.ranges = False
        self.assertEqual(self.grown(web, job, 1003)[-1], None)
        web.chunked = True
        self.grown(web, job, 1004)
        # Nothing changed: nothing is asked but that.
        del web.requests[:]
        until(lambda: len(web.requests) > 3, "it is looked at")
        self.assertEqual({method for method, path, headers in web.requests}, {"HEAD"})
        # Another beginning of a file that is longer is another file.
        web.ranges = web.etags = True
        text = job.data.read_bytes()
        job.data.write_bytes(b"z" * len(text) + b"\nnew\n")
        self.sees(2)

    def test_what_is_read_is_what_is_there(self):
        """Property: whatever happens to the file between looks, the copy is the file in the end; and what is kept of it survives kill -9."""
        web = self.web()
        job, edge, hand = self.device(job=WebJob, store=web, env={"PATH": os.environ["PATH"]}, condition=(">", 100000))
        data = b""
        for step in range(40):
            how = self.random.choice(["append", "append", "append", "cut", "replace", "same size", "etags", "ranges", "kill"])
            if how == "append":
                data += b"".join(b"%d\n" % self.random.randrange(10 ** 6) for _ in range(self.random.randrange(1, 3000)))
            elif how == "cut":
                data = data[:self.random.randrange(len(data) + 1)]
            elif how == "replace":
                data = b"".join(b"%d\n" % self.random.randrange(10 ** 6) for _ in range(self.random.randrange(3000)))
            elif how == "same size" and web.etags and data:
                place = self.random.randrange(len(data))
                data = data[:place] + b"#" + data[place + 1:]
            elif how in ("etags", "ranges"):
                setattr(web, how, not getattr(web, how))
            elif how == "kill":
                edge.kill()
            # Under another name first: a server reads what is there. Another time, where time and length are all that tells.
            new = job.data.with_name("new")
            new.write_bytes(data)
            os.utime(new, (10 ** 9 + step, 10 ** 9 + step))
            new.rename(job.data)
            if how == "kill":
                edge.start()

            def is_copied():
                copies = list((edge.state / "remote" / "datasets").glob("*/data"))
                return len(copies) == 1 and copies[0].read_bytes() == data
            until(is_copied, lambda how=how: f"step {step}, {how}: {len(data)} bytes are copied\n{edge.tail()}")
        hand.status(job.dataset, lambda d: d["samples"] == data.count(b"\n"), "all samples are counted", hand.topics.mark() - 1)

    def test_a_store_that_is_away(self):
        store = self.gateway()
        proxy = self.proxy(store.port)
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">", 1000))
        job.append("a", "b", "c")
        self.sees(3)
        since = hand.topics.mark()
        proxy.always = ("status", 403, {}, b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>")
        self.fails("AccessDenied", since)
        proxy.always = None
        self.sees(3, since)

    def test_a_child_ends_with_its_parent(self):
        """While the store stalls: on SIGTERM in no time, on SIGKILL as well, and the copy is gone on with."""
        store = self.gateway()
        proxy = self.proxy(store.port)
        job = None
        proxy.only = lambda method, path: method == "GET" and path.endswith("samples.txt")
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">", 10 ** 9))
        for how in ("stop", "kill"):
            proxy.stalled.clear()
            proxy.always = ("stall", 9_000_000)
            job.put(job.data, self.random.randbytes(6_000_000).hex().encode() + b"\n")
            self.assertTrue(proxy.stalled.wait(PATIENCE))
            self.assertEqual(len(self.children()), 1)
            begin = time.monotonic()
            getattr(edge, how)()
            until(lambda: not self.children(), "the child is gone")
            self.assertLess(time.monotonic() - begin, 5)
            proxy.always = None
            edge.start().connected()
            copy = edge.state / "remote" / "datasets"
            until(lambda: [p.stat().st_size for p in copy.glob("*/data")] == [12_000_001], "it is here after all")

    def test_copies_that_nothing_names_go(self):
        job, edge, hand = self.device(condition=(">", 1000))
        job.append("a")
        self.sees(1)
        folder = edge.state / "remote" / "datasets"
        self.assertEqual(len(list(folder.iterdir())), 1)
        hand.remove(job)
        until(lambda: not list(folder.iterdir()), "its copy is gone")


class Rounds(Device):
    def test_everything_at_a_store(self):
        job, edge, hand = self.device(condition=(">=", 8))
        job.append(*(f"images/{i}.png {i}" for i in range(10)))
        hand.wait_round(job, 2)
        ready = {stage: report for _, stage, what, report in job.accepted if what == "ready"}
        output = "s3://bucket/job/output"
        self.assertEqual(ready["train"]["input"], {
            "models": [{"format": "bin", "url": "s3://bucket/job/models/initial.bin"}], "dataURL": f"{output}/data/train/1/data.txt",
            "dataIndexURL": f"{output}/data/train/1/dataIndex.txt", "outputDir": f"{output}/train/1"})
        self.assertEqual(ready["eval"]["input"]["dataIndexURL"], f"{output}/data/eval/1/dataIndex.txt")
        self.assertEqual(self.left(job.output), [
            "data/eval/1/data.txt", "data/eval/1/dataIndex.txt", "data/train/1/data.txt", "data/train/1/dataIndex.txt", "data/train/1/eval.txt",
            "data/train/1/manifest.json", "deployed/0/deploy.bin", "deployed/0/version.json", "deployed/1/model.bin", "deployed/1/version.json",
            "train/1/model.bin"])
        self.assertEqual(job.samples(1, "eval"), ["images/0.png 0", "images/5.png 5"])
        self.assertEqual((job.folder(1) / "dataIndex.txt").read_text(), "s3://bucket/job\n" + "".join(f"images/{i}.png\n" for i in range(10) if i % 5))
        self.assertEqual((job.output / "data" / "eval" / "1" / "dataIndex.txt").read_text(), "s3://bucket/job\nimages/0.png\nimages/5.png\n")
        self.assertEqual(job.accepted[-1][3]["sha256"], sha256(job.deploy))
        self.assertEqual([each["round"] for each in job.accepted[-1][3]["versions"]], [1, 0])
        self.assertEqual(job.deploy.read_bytes(), (job.output / "train" / "1" / "model.bin").read_bytes())
        self.assertEqual(list((edge.state / "remote" / "deploys").iterdir()), [])
        counts = edge.metrics()
        self.assertEqual(counts["ilmare_edge_transfer_failures_total"], 0)
        self.assertGreater(counts["ilmare_edge_transfers_total"], 10)
        # The dataset and the models that came, the round and the models that went; what was asked for again, at most the manifests.
        moved = sum(path.stat().st_size for path in (job.output).rglob("*") if path.is_file())
        self.assertGreater(counts["ilmare_edge_transfer_bytes_total"], moved)
        self.assertLess(counts["ilmare_edge_transfer_bytes_total"], 4 * moved)

    def test_old_versions_and_rounds_go_at_the_store(self):
        job, edge, hand = self.device(condition=(">=", 1), share=0.5, edge={"dataset_rounds_kept": 1})
        others = [job.output / "data" / "train" / name for name in ("0/data.txt", "1/mine.txt", "2/data.csv")]
        for path in others:
            job.put(path, b"somebody's own")
        for number in range(1, 10):
            job.append(f"a{number}", f"b{number}")
            hand.wait_round(job, number + 1)
        numbers = lambda folder: sorted(int(path.name) for path in folder.iterdir() if any(path.iterdir()))
        self.assertEqual(numbers(job.output / "deployed"), [0, 7, 8, 9])
        self.assertEqual(numbers(job.output / "data" / "train"), [0, 1, 2, *range(4, 10)])
        self.assertEqual([path for path in sorted((job.output / "data" / "train").glob("[012]/*"))], others)
        self.assertEqual(numbers(job.output / "data" / "eval"), list(range(4, 10)))
        here, = (edge.state / "remote" / "outputs").iterdir()
        self.assertEqual(numbers(here / "data" / "train"), list(range(4, 10)))

    def test_a_device_that_lost_everything(self):
        """Its rounds are at the store, and so it goes on."""
        job, edge, hand = self.device(condition=(">=", 4), format="csv")
        job.put(job.data, b"name,n\n" + b"".join(b"a%d,%d\n" % (i, i) for i in range(8)))
        hand.wait_round(job, 2)
        job.result = lambda stage, number: "failed" if (stage, number) == ("train", 2) else "completed"
        job.append(*(f"b{i},{i}" for i in range(8)))
        hand.wait_round(job, 4)
        hand.work = lambda job, stage: None
        job.append(*(f"c{i},{i}" for i in range(8)))
        hand.wait(lambda: (job.position["round"], job.position["phase"]) == (4, "Ready"), "round 4 is ready")
        edge.kill()
        shutil.rmtree(edge.state)
        del hand.work
        edge.start().connected()
        hand.work(job, "train")
        hand.wait_round(job, 5)
        self.assertEqual(job.used(), {(f"{c}{i}", str(i)): 1 for c in "abc" for i in range(8)})
        # The eval data have the rounds of the device before it too: the first, and not the second, which failed.
        rows = (job.output / "data" / "eval" / "4" / "data.csv").read_text().splitlines()
        self.assertEqual(rows[0], "name,n")
        self.assertEqual({row[0] for row in rows[1:]}, {"a", "b", "c"})

    def test_rounds_of_another_job_are_moved_aside(self):
        job, edge, hand = self.device(condition=(">=", 1))
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        before = tree(job.folder(1))
        hand.remove(job)
        again = RemoteJob(self, self.store, condition=(">=", 1))
        again.uid = str(uuid.uuid4())
        hand.jobs.append(again)
        hand.say_all()
        hand.wait_round(again, 2)
        self.assertEqual(manifest(again, 1)["uid"], again.uid)
        aside, = (job.output / "data" / "train").glob("1.aside-*-1")
        self.assertEqual(tree(aside), before)

    def test_a_model_that_is_a_folder(self):
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        job.model = lambda number: {"format": "pb", "url": str(job.output / "train" / str(number) / "saved")}
        job.deploy = job.dir / "models" / "serving"

        def save(number, samples):
            for name in (["a", "b/c"] if number == 1 else ["b/c", "b/d"]):
                job.put(job.output / "train" / str(number) / "saved" / name, b"%d" % number + name.encode() + samples)
        job.save = save
        for number in (1, 2):
            job.append(f"s{number}")
            hand.wait_round(job, number + 1)
            saved = tree(job.output / "train" / str(number) / "saved")
            self.assertEqual(tree(job.deploy), saved)
            self.assertEqual(tree(job.output / "deployed" / str(number) / "saved"), saved)
        self.assertTrue(edge.logged("a folder at an object store is replaced file by file"))

    def test_nothing_lost_nothing_twice(self):
        """Property: whatever the dataset goes through and whenever the agent or its network is killed, each sample is used once."""
        store = self.gateway()
        proxy = self.proxy(store.port)
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">=", 3), edge={"outbox_retry_max": "300ms"})
        job.result = lambda stage, number: "failed" if self.random.random() < 0.2 else "completed"
        names = iter(range(10 ** 6))
        written = []
        for step in range(25):
            new = [f"s{next(names)}" for _ in range(self.random.randrange(1, 8))]
            written += new
            job.append(*new)
            how = self.random.choice(["", "kill", "refuse", "lost", "wait"])
            if how == "kill":
                time.sleep(self.random.uniform(0, 0.3))  # a moment at random is what is tested
                edge.kill()
                edge.start()
            elif how in ("refuse", "lost"):
                fault = ("close",) if how == "refuse" else ("lost",)
                with proxy.lock:
                    proxy.faults += [fault] * self.random.randrange(1, 6)
            elif how == "wait":
                hand.wait(lambda: sum(job.used().values()) > len(written) - 10, "most are used", PATIENCE * 2)
        job.result = lambda stage, number: "completed"
        job.condition = (">=", 1)
        with proxy.lock:
            del proxy.faults[:]
        for step in range(10):  # so that the last ones, of which none may train, are not the last
            job.append(f"end{step}")
        hand.say_all()
        hand.wait(lambda: all(job.used()[name] for name in written), "all are used", PATIENCE * 3)
        self.assertEqual({count for count in job.used().values()}, {1})


if __name__ == "__main__":
    main()
