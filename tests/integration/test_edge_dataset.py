#!/usr/bin/python3
"""Dataset files as they really change: what an edge agent counts, says in the dataset's status, and writes into rounds."""

import os
import time

from agents import is_sanitized
from case import Case, main
from hand import at, until


class Dataset(Case):
    def begin(self, edge=None, start=True, **more):
        self.broker = self.world.broker()
        job = self.job(**more)
        agent = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", **(edge or {}))
        hand = self.hand(self.broker, agent, job)
        if start:
            agent.start().connected()
        return job, agent, hand

    def counted(self, hand, job, n, since=0, **more):
        def fits(status):
            return status["samples"] == n and all(status.get(key) == value for key, value in more.items())
        return hand.status(job.dataset, fits, f"{n} samples {more}", since)

    def test_unterminated_line_waits_and_is_seen(self):
        job, _, hand = self.begin(condition=(">=", 100))
        job.data.write_bytes(b"a.jpg 1\nb.jpg 2")
        self.counted(hand, job, 1, waitingBytes=7)
        with open(job.data, "ab") as file:
            file.write(b"\nimg_00")
            file.flush()
            self.counted(hand, job, 2, waitingBytes=6)
            file.write(b"01.jpg 1\n")
        self.counted(hand, job, 3, waitingBytes=0)
        hand.move(job, job.position, condition=(">=", 2))
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {"a.jpg 1": 1, "b.jpg 2": 1, "img_0001.jpg 1": 1})

    def test_lines_cut_by_the_writers_buffer(self):
        """600-byte lines in writes of 4096 bytes, while rounds go on."""
        job, _, hand = self.begin()
        lines = [f"{i:06d} " + "x" * 592 for i in range(1000)]
        data = "".join(f"{line}\n" for line in lines).encode()
        with open(job.data, "ab", buffering=0) as file:
            for i in range(0, len(data), 4096):
                file.write(data[i:i + 4096])
                if i % (32 * 4096) == 0:
                    hand.wait_round(job, i // (32 * 4096) + 2)
        hand.wait(lambda: sum(job.used().values()) >= len(lines) - 3, "all lines are used")
        used = job.used()
        self.assertLessEqual(set(used), set(lines))
        self.assertEqual(set(used.values()), {1})
        self.assertGreater(len(job.completed_rounds()), 4)

    def test_long_lines(self):
        """Any length up to the limit is a sample; over it a line is left out, visibly, and hides nothing."""
        for size in (65535, 65536, 65537, 70000):
            with self.subTest(size=size):
                job, edge, hand = self.begin(condition=(">=", 16), name=f"job-{size}") if size == 65535 else self.again(f"job-{size}", 16)
                job.append(*(f"before {i}" for i in range(10)), "x" * size, *(f"after {i}" for i in range(10)))
                self.counted(hand, job, 21, skipped=0)
                hand.wait_round(job, 2)
                self.assertEqual(sum(job.used().values()), 21)
        job, edge, hand = self.again("job-16m", 16)
        before = edge.status("RssAnon")
        with open(job.data, "w") as file:
            file.write("".join(f"before {i}\n" for i in range(10)))
            for _ in range(16):
                file.write("x" * (1 << 20))
            file.write("\n" + "".join(f"after {i}\n" for i in range(10)))
        self.counted(hand, job, 20, skipped=1)
        self.assertEqual(len(edge.logged(f"lines longer than dataset.lineMax are left out url={job.data} left_out=1 ")), 1, edge.tail())
        hand.wait_round(job, 2)
        self.assertEqual(job.used(), {f"{what} {i}": 1 for what in ("before", "after") for i in range(10)})
        if not is_sanitized():
            self.assertLess(edge.status("RssAnon") - before, 2 << 20)

    def test_bytes_that_are_no_text(self):
        """NUL, bytes that are not UTF-8, control characters, a terminal's sequences: samples like others, kept to the byte, and no harm to the log."""
        job, edge, hand = self.begin(share=1, condition=(">=", 6))
        lines = [b"nul \x00 in it", b"\xff\xfe\x80 not utf-8", b"\x1b[31mred\x1b[0m", b"tab\tand return\r", b"\x00", bytes(range(1, 10)) + bytes(range(11, 32))]
        hand.work = lambda *_: None  # a worker of ours would take them for text
        job.data.write_bytes(b"".join(line + b"\n" for line in lines))
        hand.wait(lambda: job.position == at(1, "Train", "Ready"), "Train/Ready")
        self.assertEqual((job.folder(1) / "data.txt").read_bytes(), job.data.read_bytes())
        self.assertEqual([c for c in edge.text() if ord(c) < 32 and c != "\n"], [])

    def test_a_quote_that_is_never_closed(self):
        """It swallows what follows up to the limit of a line; that it waits, and then what was left out, is seen, and the rest is there."""
        job, edge, hand = self.begin(edge={"dataset_line_max": "4096"}, format="csv", share=1, condition=(">=", 100))
        job.data.write_text("name,note\n" + "a,1\nb,2\n" + 'c,"open\n' + "".join(f"d{i},x\n" for i in range(50)))
        size = job.data.stat().st_size - len("name,note\na,1\nb,2\n")
        self.counted(hand, job, 2, waitingBytes=size, skipped=0)
        job.append(*(f"e{i:04d},{'y' * 90}" for i in range(200)))
        status = hand.status(job.dataset, lambda s: s["skipped"] == 1, "the record that is too long is left out")
        self.assertGreater(status["samples"], 150)
        hand.wait_round(job, 2)
        rows = job.samples(1)
        self.assertEqual(rows[:2], [("a", "1"), ("b", "2")])
        self.assertEqual(rows[-1][0], "e0199")

    def again(self, name, threshold):
        job = self.job(name=name, condition=(">=", threshold))
        hand = self.hands[-1]
        hand.jobs.append(job)
        hand.say_all()
        return job, hand.edge, hand

    def test_shrunk_in_place_then_grown(self):
        job, edge, hand = self.begin(condition=(">=", 20))
        job.append(*(f"old {i}" for i in range(100)))
        hand.wait_round(job, 2)
        self.counted(hand, job, 100)
        os.truncate(job.data, 0)
        self.counted(hand, job, 0, hand.topics.mark())
        job.append(*(f"new {i}" for i in range(40)))
        self.counted(hand, job, 40)
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {**{f"old {i}": 1 for i in range(100)}, **{f"new {i}": 1 for i in range(40)}})
        self.assertEqual([job.taken[n]["from"] for n in (1, 2)], [0, 100])

    def test_replaced_by_rename_and_by_shorter_content(self):
        job, edge, hand = self.begin(condition=(">=", 50))
        job.append(*(f"used {i}" for i in range(100)))
        hand.wait_round(job, 2)
        job.append(*(f"old {i}" for i in range(40)))  # too few to be taken
        self.counted(hand, job, 140)
        fresh = job.dir / "fresh"
        fresh.write_text("".join(f"new {i}\n" for i in range(30)))
        fresh.rename(job.data)
        # What nobody took before it went is counted.
        self.counted(hand, job, 30, removed=40)
        hand.move(job, job.position, condition=(">=", 1))
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {**{f"used {i}": 1 for i in range(100)}, **{f"new {i}": 1 for i in range(30)}})

    def test_same_content_under_another_inode_is_the_same_dataset(self):
        job, edge, hand = self.begin()
        job.append(*(f"s{i}" for i in range(20)))
        hand.wait_round(job, 2)
        copy = job.dir / "copy"
        copy.write_bytes(job.data.read_bytes() + b"s20\ns21\ns22\n")
        copy.rename(job.data)
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {f"s{i}": 1 for i in range(23)})

    def test_absent_empty_header_and_back(self):
        for format, header in (("csv", "h1,h2\n"), ("txt", "")):
            with self.subTest(format=format):
                broker = self.world.broker(name=f"broker-{format}")
                job = self.job(name=f"job-{format}", format=format, condition=(">=", 1000))
                edge = self.world.edge(broker, start=False, name=f"edge-{format}")
                hand = self.hand(broker, edge, job)
                edge.start().connected()
                self.assertIn("samples", self.counted(hand, job, 0)["error"])
                job.data.touch()
                self.counted(hand, job, 0, hand.topics.mark(), error=None)
                if header:
                    job.data.write_text(header)
                    hand.status(job.dataset, lambda s: s["samples"] == 0 and s["size"] == len(header) or s["waitingBytes"] == 0, "header")
                job.data.write_text(header + "1,2\n3,4\n5,6\n")
                self.counted(hand, job, 3)
                kept = job.data.read_text()
                mark = hand.topics.mark()
                job.data.unlink()
                self.assertTrue(self.counted(hand, job, 0, mark)["error"])
                job.data.write_text(kept + "7,8\n9,10\n")
                self.counted(hand, job, 5, mark, error=None)
                mark = hand.topics.mark()
                job.data.unlink()
                job.data.mkdir()
                hand.status(job.dataset, lambda s: s.get("error"), "a folder is no dataset", mark)
                job.data.rmdir()
                job.data.write_text(header + "1,2\n")
                self.counted(hand, job, 1, mark, error=None)
                self.assertTrue(edge.alive())
                self.assertLess(len(edge.text().splitlines()), 40)

    def test_folder_appears_later_and_is_replaced(self):
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_look_period="200ms")
        hand = self.hand(broker, edge, job)
        folder = job.dir / "in" / "there"
        job.dataset["url"] = str(folder / "samples.txt")
        edge.start().connected()
        hand.status(job.dataset, lambda s: s.get("error"), "the folder is missed")
        folder.mkdir(parents=True)
        job.data = folder / "samples.txt"
        job.append("a", "b", "c")
        hand.wait_round(job, 2)
        folder.rename(job.dir / "gone")
        folder.mkdir()
        job.append("d", "e", "f")
        hand.wait_round(job, 3)
        self.assertEqual(job.used(), {c: 1 for c in "abcdef"})

    def test_status_comes_again_after_an_outage(self):
        job, edge, hand = self.begin(condition=(">=", 1000))
        job.append(*(f"s{i}" for i in range(10)))
        self.counted(hand, job, 10)
        self.broker.kill()
        until(lambda: not edge.is_linked(), "the link is down")
        job.append(*(f"s{i}" for i in range(10, 30)))
        self.broker.forget()
        self.broker.start()
        hand.listen()
        self.counted(hand, job, 30)
        self.assertEqual([m for m in hand.topics.find(lambda m: m.topic.endswith("/status")) if m.document["samples"] == 10], [])

    def test_eval_window_and_share(self):
        """Batches of single samples keep the share; the eval file has each sample once; the window ends."""
        job, edge, hand = self.begin(share=0.5)
        for number in range(1, 9):
            job.append(*(f"r{number} {i}" for i in range(4)))
            hand.wait_round(job, number + 1)
            evals = (job.output / "data" / "eval" / str(number) / "data.txt").read_text().splitlines()
            self.assertEqual(len(evals), len(set(evals)))
            self.assertEqual({line.split()[0] for line in evals}, {f"r{n}" for n in range(max(1, number - 5), number + 1)})
        self.assertEqual(job.used(), {f"r{n} {i}": 1 for n in range(1, 9) for i in range(4)})

    def test_shares(self):
        """0.29 of 100 is 29; none and all are allowed; what is out of range is refused, visibly."""
        self.broker = self.world.broker()
        edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true")
        jobs = []
        for share in (0.29, 0.57, 1, 0):
            jobs.append(self.job(name=f"job-{str(share).replace('.', '-')}", share=share))
            jobs[-1].append(*(f"s{i}" for i in range(100)))
        hand = self.hand(self.broker, edge, *jobs)
        edge.start().connected()
        for job, n in zip(jobs, (29, 57, 100)):
            hand.wait_round(job, 2)
            self.assertEqual((len(job.samples(1)), len(job.samples(1, "eval"))), (n, 100 - n))
        self.assertEqual(jobs[3].position, at(1, "Train", "Waiting"))  # nothing to train on
        for share in (1.0000001, -0.1):
            job = self.job(name="bad", share=share)
            hand.say_job(job)
        edge.wait_log("trainProb", n=2)
        self.assertEqual(edge.metrics()["ilmare_edge_jobs"], 4)

    def test_first_sample_end(self):
        """What was there before the job is none of its samples, also after a round that failed and a kill."""
        job, edge, hand = self.begin(start=False)
        job.append(*(f"old {i}" for i in range(10)))
        job.dataset["firstSample"] = "end"
        job.result = lambda stage, number: "failed" if number == 1 else "completed"
        edge.start().connected()
        self.counted(hand, job, 10)
        # The beginning is durable, and known from the outside, only once something follows from it.
        until(lambda: job.append("new") or job.position["round"] > 1, "round 1 has failed", interval=0.05)
        edge.kill()
        job.append("last")
        edge.start()
        hand.wait(lambda: "last" in job.used(), "the rest is used")
        used = job.used()
        lines = job.data.read_text().splitlines()
        self.assertEqual([sample for sample in used if sample.startswith("old")], [])
        self.assertLessEqual(used["new"], lines.count("new"))
        self.assertEqual(used["last"], 1)

    def test_large_rounds_are_limited(self):
        job, edge, hand = self.begin(edge={"dataset_round_max": "4096"}, share=1)
        lines = [f"{i:04d} " + "x" * 94 for i in range(100)]
        job.append(*lines)
        hand.wait(lambda: sum(job.used().values()) == 100, "all are used in the end")
        self.assertEqual(job.used(), {line: 1 for line in lines})
        for number in job.completed_rounds():
            self.assertLessEqual(job.folder(number).joinpath("data.txt").stat().st_size, 4096)

    def test_check_period(self):
        """Without the option the trigger is looked at every checkPeriodSeconds, not at each sample."""
        self.broker = self.world.broker()
        job = self.job(period=1)
        edge = self.world.edge(self.broker, start=False)
        hand = self.hand(self.broker, edge, job)
        edge.start().connected()
        self.counted(hand, job, 0)
        begin = time.monotonic()
        job.append("a", "b")
        hand.report(job, "train", "ready", 1)
        self.assertLess(time.monotonic() - begin, 1.5)

    def test_two_jobs_share_a_file(self):
        self.broker = self.world.broker()
        edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true")
        one, two = self.job(name="one"), self.job(name="two", share=0.5)
        two.data, two.dataset = one.data, {**one.dataset}
        hand = self.hand(self.broker, edge, one, two)
        edge.start().connected()
        for number in (1, 2, 3):
            one.append(*(f"r{number} {i}" for i in range(10)))
            for job in (one, two):
                hand.wait_round(job, number + 1)
        expected = {f"r{n} {i}": 1 for n in (1, 2, 3) for i in range(10)}
        self.assertEqual((one.used(), two.used()), (expected, expected))


if __name__ == "__main__":
    main()
