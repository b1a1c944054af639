#!/usr/bin/python3
"""A device whose files are remote, when what it meets there is odd: names, sizes, leftovers, disks, and stops at any moment."""

import contextlib
import json
import os
import re
import shutil
import time

from bed import clean_env, main
from agents import PATIENCE, Disks, is_sanitized, until
from hand import at, manifest, sha256, tree
from test_device import Device, RemoteHand, RemoteJob


class Models(Device):
    def rollback(self, job, hand, number, of, name):
        url = job.output / "deployed" / str(of) / name
        job.extra = {"rollback": {"round": of, "sha256": sha256(url)}}
        document = job.document

        def with_rollback(stamp, node):
            made = document(stamp, node)
            if "rollback" in job.extra:
                made["models"]["deploy"] = [{"from": {"format": "bin", "url": job.remote(str(url))}, "to": {"format": "bin", "url": job.remote(str(job.deploy))}}]
                made.pop("evalResults", None)
            return made
        job.document = with_rollback
        hand.move(job, at(number, "Deploy", "Ready"))
        written = lambda: [report for *where, report in job.accepted if where == [number, "deploy", "written"]]
        hand.wait(written, "it is rolled back")
        return written()[0]

    def check_rollback(self, hot):
        """A version tells what it is, also one that a rollback made, and the worker gets the model."""
        root = self.path / "root"
        root.mkdir()
        job, edge, hand = self.device(condition=(">=", 1), share=1, hot=hot, edge={"root_dir": root})
        for number in (1, 2):
            job.append(f"s{number}")
            hand.wait_round(job, number + 1)
        first = job.output / "deployed" / "1" / "model.bin"
        written = self.rollback(job, hand, 3, 1, "model.bin")
        self.assertEqual(job.deploy.read_bytes(), first.read_bytes())
        told = json.loads((job.output / "deployed" / "3" / "version.json").read_text())
        self.assertEqual((told["of"], told["model"]["sha256"], told["model"].get("metrics"), told["model"].get("format")),
                         (1, sha256(first), {"accuracy": 0.9}, "bin"))
        self.assertEqual([each["round"] for each in written["versions"]], [3, 2, 1, 0])
        return root / "var/lib/sedna/model-hot-update/default/incrementallearningjob/job", first

    def test_a_rollback(self):
        self.check_rollback(False)

    def test_a_rollback_of_a_hot_worker(self):
        folder, first = self.check_rollback(True)
        self.assertEqual((folder / "model.bin").read_bytes(), first.read_bytes())
        self.assertIn("round-3", (folder / "model_config.json").read_text())

    def named(self, *names, **more):
        """Rounds whose trained models have these names."""
        job, edge, hand = self.device(condition=(">=", 1), share=1, **more)
        job.model = lambda number: {"format": "bin", "url": str(job.output / "train" / str(number)) + "/" + names[number - 1]}
        job.save = lambda number, samples: job.put(job.output / "train" / str(number) / names[number - 1], b"%d" % number)
        for number in range(1, len(names) + 1):
            job.append(f"s{number}")
            hand.wait_round(job, number + 1)
        return job

    def test_names(self):
        job = self.named("version.json", "a b+c=d#e?f%2F\u00e9", "x" * 200)
        self.assertEqual(job.deploy.read_bytes(), b"3")
        self.assertEqual([name for name in self.left(job.output / "deployed") if not name.endswith("/version.json")],
                         ["0/deploy.bin", "1/version.json.model", "2/a b+c=d#e?f%2F\u00e9", "3/" + "x" * 200])

    def test_a_model_that_is_named_as_the_configuration(self):
        root = self.path / "root"
        root.mkdir()
        self.named("model_config.json", hot=True, edge={"root_dir": root})
        folder = root / "var/lib/sedna/model-hot-update/default/incrementallearningjob/job"
        self.assertEqual((folder / "model_config.json.model").read_bytes(), b"1")
        self.assertEqual(json.loads((folder / "model_config.json").read_text())["model_config"]["model_path"],
                         "/model-hot-update/model_config.json.model")

    def refused(self, job, hand):
        job.append("s")
        hand.wait(lambda: job.accepted and job.accepted[-1][1:3] == ("deploy", "failed"), "it is refused")
        return job.accepted[-1][3]["message"]

    def test_a_name_that_no_file_can_have(self):
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        url = str(job.output / "train" / "1") + "/.."
        job.model = lambda number: {"format": "bin", "url": url}
        job.save = lambda number, samples: job.put(job.output / "train" / "1" / "other" / "m", b"1")
        self.assertEqual(self.refused(job, hand), f"{job.remote(url)}: no file can have the name that this ends in")

    def test_a_target_at_a_web_server(self):
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        job.deploy = "http://127.0.0.1:1/m.bin"
        self.assertEqual(self.refused(job, hand), f"{job.deploy} is neither a path from the root nor an s3:// url, and one of them is needed here")

    def test_a_model_at_a_web_server(self):
        """Its query is a signature: it is in no name, and in no log."""
        web = self.web()
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        (web.folder / "m.bin").write_bytes(b"from the web")
        job.model = lambda number: {"format": "bin", "url": f"{web.url}/m.bin?signature={'a' * 400}"}
        job.append("s")
        hand.wait_round(job, 2)
        self.assertEqual(job.deploy.read_bytes(), b"from the web")
        self.assertEqual(self.left(job.output / "deployed" / "1"), ["m.bin", "version.json"])
        self.assertFalse(edge.logged("signature"))

    def test_versions_that_tell_nothing(self):
        """The model is in place whatever lies beside the versions."""
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        job.put(job.output / "deployed" / "7" / "version.json", b"{" + b" " * 300_000 + b"}")
        job.put(job.output / "deployed" / "8" / "version.json", b"{")
        job.put(job.output / "deployed" / "1" / "of another job", b"x")
        job.append("s")
        hand.wait_round(job, 2)
        self.assertEqual(self.left(job.output / "deployed" / "1"), ["model.bin", "version.json"])
        self.assertEqual([each["round"] for each in job.accepted[-1][3]["versions"]], [1, 0])

    def test_a_manifest_that_is_none(self):
        """It is not fetched to its end, and moved aside."""
        job, edge, hand = self.device(condition=(">=", 1), share=1)
        job.put(job.output / "data" / "train" / "1" / "manifest.json", b" " * 5_000_000)
        job.append("s")
        hand.wait_round(job, 2)
        self.assertEqual((job.output / "data" / "train" / f"1.aside-{job.uid[:8]}-1" / "manifest.json").stat().st_size, 5_000_000)
        self.assertEqual(manifest(job, 1)["uid"], job.uid)

    def test_an_answer_that_is_none(self):
        """In place of a manifest a page of something in between: nothing is known of the round, so it stays where it is."""
        store = self.gateway()
        proxy = self.proxy(store.port)
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">=", 1), share=1)
        hand.work = lambda job, stage: None
        job.append("a")
        hand.wait(lambda: job.position["phase"] == "Ready", "round 1 is ready")
        before = tree(job.folder(1))
        edge.kill()
        shutil.rmtree(edge.state)
        proxy.only = lambda method, path: method == "GET" and path.endswith("/manifest.json")
        proxy.always = ("page",)
        hand.move(job, at(1, "Train", "Waiting"))
        edge.start().connected()
        asked = lambda: len([path for method, path, _ in proxy.seen if proxy.only(method, path)])
        before_that = asked()
        until(lambda: asked() > before_that + 10, "it is asked for again and again")
        proxy.always = None
        hand.wait(lambda: job.position["phase"] == "Ready", "round 1 is ready again")
        self.assertEqual(tree(job.folder(1)), before)
        self.assertEqual([path.name for path in (job.output / "data" / "train").iterdir()], ["1"])


class Settings(Device):
    def state_dir(self, text):
        job, edge, hand = self.device(condition=(">=", 1), share=1, edge={"state_dir": text})
        job.append("s")
        hand.wait_round(job, 2)

    def test_slashes_in_the_name_of_a_folder(self):
        self.state_dir(f"{self.path}//state/")

    def test_a_folder_that_is_relative(self):
        self.state_dir(os.path.relpath(self.path / "state"))

    def test_a_program_that_is_not_there(self):
        self.device(condition=(">=", 1), edge={"remote_program": "/nowhere/ilmare-transfer"})
        self.fails(r"there is no program /nowhere/ilmare-transfer \(remote.program\)")

    def test_a_url_that_looks_like_a_flag(self):
        job, edge, hand = self.device(condition=(">=", 1))
        with hand.lock:
            job.dataset["url"] = "--fresh://x"
            hand.say_all()
        self.fails("--fresh://x is no url")

    def test_a_copy_that_is_being_fetched_when_nothing_names_it_any_more(self):
        store = self.gateway()
        proxy = self.proxy(store.port)
        proxy.only = lambda method, path: method == "GET" and path.endswith("samples.txt")
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">", 10 ** 9))
        proxy.always = ("stall", 9_000_000)
        job.put(job.data, self.random.randbytes(6_000_000).hex().encode() + b"\n")
        self.assertTrue(proxy.stalled.wait(PATIENCE))
        folder = edge.state / "remote" / "datasets"
        self.assertEqual(len(list(folder.iterdir())), 1)
        hand.remove(job)
        until(lambda: not self.children(), "the child is gone")
        until(lambda: not list(folder.iterdir()), "its copy is gone")


class Slow(Device):
    def test_a_network_that_is_slower_than_the_looks(self):
        """The next look is always wanted before the last one has ended; rounds go on nevertheless."""
        store = self.gateway()
        proxy = self.proxy(store.port)
        proxy.only = lambda method, path: method == "HEAD" and path.endswith("samples.txt")
        proxy.always = ("late", 0.3)
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">=", 1), share=0.5)
        for number in (1, 2):
            job.append(f"a{number}", f"b{number}")
            hand.wait_round(job, number + 1)


class Stopped(Device):
    """Told to stop, or killed, while the store does not answer: it ends soon, nothing is left running, and the next one goes on."""

    def check(self, *phases, prepare=lambda job: None):
        store = self.gateway()
        proxy = self.proxy(store.port)
        proxy.only = lambda method, path: False
        job, edge, hand = self.device(store=store, env=store.env(proxy.port), condition=(">=", 1), share=0.5)
        prepare(job)
        number = 0
        for phase in phases:
            for how in ("stop", "kill"):
                number += 1
                proxy.stalled.clear()
                proxy.only = lambda method, path, phase=phase: re.search(phase, f"{method} {path}") is not None
                proxy.always = ("hang",)
                job.append(f"a{number}", f"b{number}")
                self.assertTrue(proxy.stalled.wait(PATIENCE), f"{phase}\n{edge.tail()}")
                begin = time.monotonic()
                getattr(edge, how)()
                until(lambda: not self.children(), "the child is gone")
                took = time.monotonic() - begin
                if how == "stop" and not is_sanitized():
                    self.assertLess(took, 5, phase)
                proxy.always = None
                edge.start().connected()
                hand.wait_round(job, number + 1, PATIENCE * 2)
        self.assertEqual(set(job.used().values()), {1})
        return job

    def test_rounds(self):
        self.check(r"^HEAD .*/samples.txt", r"^GET .*/train/\d+/manifest.json", r"^PUT .*/data/train/\d+/data.txt", r"^PUT .*/train/\d+/manifest.json",
                   r"^GET .*prefix=job%2Foutput%2Fdata%2Ftrain", r"^PUT .*/data/eval/\d+/data.txt")

    def test_deployments(self):
        self.check(r"^GET .*/train/\d+/model.bin", r"^PUT .*/deployed/\d+/model.bin", r"^PUT .*/deployed/\d+/version.json", r"^PUT .*/models/deploy.bin")

    def test_parts(self):
        """Not even that what was sent of a large model is cleared at a store that does not answer takes long."""
        big = self.random.randbytes(17 * 1024 * 1024)

        def prepare(job):
            job.save = lambda number, samples: job.put(job.output / "train" / str(number) / "model.bin", big + samples)
        self.check(r"/models/deploy.bin\?.*partNumber|^DELETE .*/models/deploy.bin", prepare=prepare)


class Disk(Device):
    def test_a_disk_that_is_full(self):
        """What is kept here for what is remote has no room: each piece of work waits, says why, and goes on when there is."""
        place = self.path / "remote"
        store = self.store = self.gateway()
        self.broker = self.world.broker()
        self.job = job = RemoteJob(self, store, condition=(">=", 1), share=0.5)
        self.edge = edge = self.world.edge(self.broker, start=False, env=clean_env(self.env), remote_dir=place, dataset_check_on_arrival="true",
                                           dataset_look_period="100ms")
        disks = Disks(edge, {place: "size=8m"})
        self.hand = hand = RemoteHand(self.world, self.broker, edge, job)
        self.addCleanup(hand.close)
        edge.start().connected()
        full = disks.inside(place / "full")

        def fill():
            with contextlib.suppress(OSError), open(full, "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 4096)
        job.append(*(f"line {i} {'x' * 90}" for i in range(1000)))
        hand.wait_round(job, 2)
        # The dataset's copy.
        fill()
        since = hand.topics.mark()
        job.append(*(f"more {i} {'x' * 90}" for i in range(10000)))
        self.fails("No space left on device", since)
        full.unlink()
        hand.wait_round(job, 3)
        # What comes after the training.
        big = self.random.randbytes(1_500_000)
        job.save = lambda number, samples: (fill(), job.put(job.output / "train" / str(number) / "model.bin", big))
        job.append("one", "two")
        edge.wait_log("round=3 stage=.* error=.*No space left on device")
        full.unlink()
        hand.wait_round(job, 4)
        self.assertEqual(job.deploy.read_bytes(), big)
        self.assertEqual(set(job.used().values()), {1})


if __name__ == "__main__":
    main()
