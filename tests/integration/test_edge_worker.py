#!/usr/bin/python3
"""What workers post: the table of answers, repeats, results that come before their documents, restarts in between, and clients that mean harm."""

import http.client
import json
import os
import random
import socket
import subprocess
import time

from agents import Disks, fill, is_sanitized, program, worker_name
from case import Case, main
from hand import at, until


class Answers(Case):
    def begin(self, edge=None, disk=None, **more):
        """disk: the size of a disk of its own for the store."""
        self.broker = self.world.broker()
        job = self.job(**more)
        agent = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true", **(edge or {}))
        self.disks = Disks(agent, {agent.state: disk}) if disk else None
        hand = self.hand(self.broker, agent, job)
        hand.work = lambda *_: None
        agent.start().connected()
        return job, agent, hand

    def to_train_ready(self, job, hand):
        job.append("a", "b", "c")
        hand.wait(lambda: job.position == at(1, "Train", "Ready"), "Train/Ready")
        until(lambda: hand.edge.metrics()["ilmare_edge_outbox_unsettled"] == 0, "the document is here")

    def answered(self, answer, status):
        """The status, and the two-member body that Sedna's library needs."""
        self.assertEqual(answer[0], status, answer)
        self.assertEqual(set(answer[1]), {"Status", "Message"})
        self.assertEqual(answer[1]["Status"], status)
        if status == 200:
            self.assertEqual(answer[1]["Message"], "OK")

    def test_token(self):
        """Workers that know nothing of tokens have it in the path of LC_SERVER; without it nothing is taken. It is in no log."""
        file = self.world.path / "token"
        file.write_text("R3o-5tJhX_0qkd8W\nmore\n")
        job, edge, hand = self.begin({"workers_token_file": file})
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), {**hand.body(job, "train"), "status": "running"}
        path = f"/sedna/workers/{name}/info"
        self.answered(edge.post(name, good), 403)
        self.answered(edge.post(name, good, path=f"/R3o-5tJhX_0qkd8w{path}"), 403)
        self.assertEqual(edge.metrics()["ilmare_edge_posts_total"], 0)
        self.answered(edge.post(name, good, path=f"/R3o-5tJhX_0qkd8W{path}"), 200)
        self.assertNotIn("R3o", edge.text())

    def test_table(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        for status, what in (
                (400, {"name": "another"}), (400, {"namespace": 7}), (400, {"results": "none"}), (400, {"results": [3]}),
                (422, {"ownerKind": "federatedlearningjob"}), (422, {"ownerKind": ""}), (422, {"kind": "federated"}), (422, {"results": []}),
                (422, {"results": [{"format": "bin"}]})):
            with self.subTest(what=what):
                self.answered(edge.post(name, {**good, **what}), status)
        for raw in (b"", b"{", b"[]", b"null", b"\xff\xfe", b'"text"', b"{}", b'{"name":"a","name":"b"}', b"[" * 100000):
            with self.subTest(raw=raw[:20]):
                self.answered(edge.post(name, None, raw=raw), 400)
        for path, status in (("/", 404), ("/sedna//workers", 404), (f"/sedna/workers/{name}/info/", 404), (f"/sedna/workers/{name}", 404),
                             ("/sedna/workers//info", 404), ("/sedna/workers/a%2Fb/info", 404), (f"/sedna/workers/{'x' * 255}/info", 404),
                             (f"/sedna/workers/{name}/info?x=1", 200)):
            with self.subTest(path=path):
                self.answered(edge.post(name, {**good, "status": "running"}, path=path), status)
        self.answered(edge.post(name, {**good, "name": "w\u00e4"}, path="/sedna/workers/w%C3%A4/info"), 400)
        for method in ("GET", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"):
            with self.subTest(method=method):
                connection = http.client.HTTPConnection("127.0.0.1", edge.port, timeout=10)
                connection.request(method, f"/sedna/workers/{name}/info", json.dumps({**good, "name": name}))
                answer = connection.getresponse()
                self.assertEqual(answer.status, 405)
                body = answer.read()
                if method != "HEAD":
                    self.assertEqual(json.loads(body)["Status"], 405)
                connection.close()
        self.answered(edge.post(name, None, raw=b" " * ((1 << 20) + 1)), 413)
        self.answered(edge.post(name, {**good, "ownerInfo": {"x": "y" * ((1 << 20) - 4096)}, "status": "running"}), 200)
        self.assertEqual(job.accepted[1:], [])

    def test_spellings(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/json; charset=utf-8"}, {"Content-Type": ""}):
            self.answered(edge.post(name, {**good, "status": "running"}, headers=headers), 200)
        good["ownerKind"] = "IncrementalLearningJob"
        good["results"][0].update(metrics=None, format="")
        self.answered(edge.post(name, good), 200)
        hand.wait(lambda: job.position["stage"] == "Eval", "the result counts")

    def test_http_versions_and_connections(self):
        """No Content-Type, HTTP/1.0, several requests on one connection, Expect, a chunked body, one byte at a time."""
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name = hand.worker(job, "train")
        body = json.dumps({"name": name, **hand.body(job, "train"), "status": "running"}).encode()
        line = f"POST /sedna/workers/{name}/info HTTP/1.1\r\nHost: x\r\n".encode()
        length = f"Content-Length: {len(body)}\r\n".encode()
        with socket.create_connection(("127.0.0.1", edge.port), 10) as s:
            file = s.makefile("rb")
            for _ in range(3):
                s.sendall(line + length + b"\r\n" + body)
                self.assertEqual(read_answer(file)[0], 200)
            s.sendall(2 * (line + length + b"\r\n" + body))
            self.assertEqual((read_answer(file)[0], read_answer(file)[0]), (200, 200))
            s.sendall(line + length + b"Expect: 100-continue\r\n\r\n")
            self.assertEqual(file.readline(), b"HTTP/1.1 100 Continue\r\n")
            file.readline()
            s.sendall(body)
            self.assertEqual(read_answer(file)[0], 200)
            s.sendall(line + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"1\r\n%c\r\n" % c for c in body) + b"0\r\n\r\n")
            self.assertEqual(read_answer(file)[0], 200)
            for c in line + length + b"\r\n" + body:
                s.sendall(bytes([c]))
            self.assertEqual(read_answer(file)[0], 200)
        with socket.create_connection(("127.0.0.1", edge.port), 10) as s:
            s.sendall(line.replace(b"HTTP/1.1", b"HTTP/1.0") + length + b"\r\n" + body)
            file = s.makefile("rb")
            self.assertEqual(read_answer(file)[0], 200)
            self.assertEqual(file.read(), b"")

    def test_repeats_count_once(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        for _ in range(5):
            self.answered(edge.post(name, good), 200)
        hand.wait(lambda: job.position["stage"] == "Eval", "the result counts")
        self.answered(edge.post(name, good), 200)
        edge.kill()
        edge.start()
        self.answered(edge.post(name, good), 200)
        # A repeat with another word is still one: the first that was stored stays.
        self.answered(edge.post(name, {**good, "results": [{"format": "bin", "url": "/elsewhere"}]}), 200)
        self.assertEqual(job.trained["models"], [job.model(1)])
        hand.move(job, at(2, "Train", "Waiting"))
        self.answered(edge.post(name, good), 200)
        self.assertEqual([entry[1:3] for entry in job.accepted].count(("train", "completed")), 1)

    def test_over(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        # A result would count if it came before the document: its commit, the next one, is awaited.
        until(lambda: edge.metrics()["ilmare_edge_outbox_unsettled"] == 0, "Train/Ready is known")
        commits = edge.metrics()["ilmare_edge_commits_total"]
        hand.move(job, at(2, "Train", "Waiting"))
        until(lambda: edge.metrics()["ilmare_edge_commits_total"] > commits, "the next round is known")
        self.answered(edge.post(name, good), 409)
        edge.kill()
        edge.start()
        self.answered(edge.post(name, good), 409)
        self.assertEqual([entry[2] for entry in job.accepted if entry[2] == "completed"], [])

    def test_inference_workers_are_never_refused(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name = worker_name("inference", job.uid, 0)
        info = {"startTime": "2026-11-30 10:00:00", "inferenceNumber": 12, "hardExampleNumber": 3, "uploadCloudRatio": 0.25}
        body = {"namespace": job.ns, "ownerName": job.name, "ownerKind": "incrementallearningjob", "kind": "inference", "results": [],
                "ownerInfo": info}
        self.answered(edge.post(name, body), 200)
        stats = hand.topics.wait(lambda m: m.topic.endswith("/infer/stats"), "the counters").document
        self.assertEqual((stats["inferences"], stats["hardExamples"], stats["uploadRatio"]), (12, 3, 0.25))
        for status in ("completed", "failed"):
            self.answered(edge.post(name, {**body, "kind": "deploy", "status": status}), 200)
        self.answered(edge.post("inferworker-unknown", {**body, "ownerName": "nobody"}), 200)

    def test_failed_worker_may_succeed_yet(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        self.answered(edge.post(name, {**good, "status": "failed", "results": []}), 200)
        self.answered(edge.post(name, good), 200)
        hand.wait(lambda: job.position["stage"] == "Eval", "the result counts")

    def test_before_its_document(self):
        """Stored, kept through a restart, reported once a document expects the worker; bounded."""
        job, edge, hand = self.begin(edge={"provisional_max": 4})
        self.to_train_ready(job, hand)
        eval_name, body = worker_name("eval", job.uid, 1), hand.body(job, "train")
        results = [{**job.model(1), "metrics": {"accuracy": 0.9}}, {"format": "bin", "url": str(job.deploy), "metrics": {"accuracy": 0.5}}]
        early = {**body, "kind": "eval", "results": results}
        self.answered(edge.post(eval_name, early), 200)
        self.answered(edge.post(eval_name, early), 200)
        for i in range(3):
            self.answered(edge.post(f"train-worker-{i}", {**body, "ownerName": f"job-{i}"}), 200)
        self.answered(edge.post("train-worker-9", {**body, "ownerName": "job-9"}), 503)
        self.assertEqual(edge.metrics()["ilmare_edge_provisional"], 4)
        edge.kill()
        edge.start()
        self.assertEqual(edge.metrics()["ilmare_edge_provisional"], 4)
        self.answered(edge.post("train-worker-1", {**body, "ownerName": "job-1"}), 200)
        edge.connected()
        self.answered(edge.post(hand.worker(job, "train"), body), 200)
        hand.wait_round(job, 2)  # eval needs no post any more
        self.assertEqual([entry[1:3] for entry in job.accepted].count(("eval", "completed")), 1)
        until(lambda: edge.metrics()["ilmare_edge_provisional"] == 3, "what was used is gone")

    def test_job_deleted_or_made_again(self):
        job, edge, hand = self.begin()
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        hand.remove(job)
        again = self.job(folder=job.dir)
        hand.jobs.append(again)
        hand.say_all()
        hand.wait(lambda: again.position["phase"] == "Ready", "the new job trains")
        self.answered(edge.post(name, good), 200)  # of an unknown worker: kept, and never the new job's
        self.assertNotEqual(name, hand.worker(again, "train"))
        self.assertEqual(again.position, at(1, "Train", "Ready"))
        self.answered(edge.post(name, {**good, "namespace": "other"}), 200)

    def test_for_another_job(self):
        """The worker of one job speaks for another one, which is here too: neither takes it, whatever is answered; the right word counts."""
        job, edge, hand = self.begin()
        other = self.job(name="other")
        hand.jobs.append(other)
        hand.say_all()
        self.to_train_ready(job, hand)
        other.append("a", "b", "c")
        hand.wait(lambda: other.position == at(1, "Train", "Ready"), "Train/Ready of the other")
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        self.answered(edge.post(name, {**good, "ownerName": "other"}), 200)
        self.answered(edge.post(name, {**good, "kind": "eval"}), 200)
        self.answered(edge.post(hand.worker(other, "train"), good), 200)
        self.assertEqual([entry[2] for each in (job, other) for entry in each.accepted], ["ready", "ready"])
        self.assertEqual(edge.metrics()["ilmare_edge_outbox_unsettled"], 0)
        self.answered(edge.post(name, good), 200)
        hand.wait(lambda: job.position["stage"] == "Eval", "the result counts")
        self.assertEqual(job.trained["models"], [job.model(1)])
        self.assertEqual(other.position, at(1, "Train", "Ready"))

    def test_no_answer_before_the_commit(self):
        """The store cannot commit: no 200. When it can, the same post is taken."""
        job, edge, hand = self.begin(edge={"workers_request_time": "300ms"}, disk="size=400k")
        self.to_train_ready(job, hand)
        name, good = hand.worker(job, "train"), hand.body(job, "train")
        filled = fill(self.disks.inside(edge.state / "fill"))
        # The log of SQLite may have room left; what is too large for it cannot be stored.
        large = {**good, "ownerInfo": {"x": "y" * 300000}}
        self.answered(edge.post(name, large), 503)
        self.assertTrue(edge.alive())
        self.assertEqual(edge.get("/readyz")[0], 503)
        self.assertGreater(edge.metrics()["ilmare_edge_commit_failures_total"], 0)
        os.unlink(filled)
        until(lambda: edge.post(name, good)[0] == 200, "the same post is taken")
        hand.wait(lambda: job.position["stage"] == "Eval", "the result counts")
        until(lambda: edge.get("/readyz")[0] == 200, "ready again")


def read_answer(file):
    """(status, headers, body) of one answer."""
    status = int(file.readline().split()[1])
    headers = {}
    while (line := file.readline().strip()):
        key, _, value = line.partition(b":")
        headers[key.lower()] = value.strip()
    return status, headers, file.read(int(headers.get(b"content-length", 0)))


class Hostile(Case):
    """Scenario 74: others are answered within a second, memory stays, descriptors come back."""

    def setUp(self):
        super().setUp()
        self.broker = self.world.broker()
        self.edge = self.world.edge(self.broker, workers_request_time="2s").connected()
        self.descriptors = self.edge.descriptors()
        self.memory = self.edge.status("RssAnon")

    def good_post(self):
        begin = time.monotonic()
        answer = self.edge.post("inferworker-x", {"namespace": "a", "ownerName": "b", "ownerKind": "incrementallearningjob", "kind": "inference"})
        took = time.monotonic() - begin
        self.assertEqual(answer[0], 200)
        self.assertLess(took, 1)
        return took

    def check(self):
        self.good_post()
        until(lambda: self.edge.descriptors() <= self.descriptors + 1, lambda: f"{self.edge.descriptors()} descriptors, {self.descriptors} before")
        if not is_sanitized():
            self.assertLess(self.edge.status("RssAnon") - self.memory, 3 << 20)
        self.assertTrue(self.edge.is_linked())

    def raw(self, data, patience=10):
        """Everything that is answered until the other side closes."""
        with socket.create_connection(("127.0.0.1", self.edge.port), patience) as s:
            try:
                s.sendall(data)
                answer = b""
                while (part := s.recv(65536)):
                    answer += part
                return answer
            except ConnectionError:
                return answer if "answer" in locals() else b""

    def test_a_thousand_slow_clients(self):
        slow = []
        for i in range(1000):
            s = socket.socket()
            s.setblocking(False)
            s.connect_ex(("127.0.0.1", self.edge.port))
            slow.append(s)
            if i % 50 == 0:
                self.good_post()
        deadline = time.monotonic() + 6
        worst = 0
        while time.monotonic() < deadline:
            for s in slow[:: 7]:
                try:
                    s.send(b"P")
                except OSError:
                    pass
            worst = max(worst, self.good_post())
        if not is_sanitized():
            self.assertLess(self.edge.status("RssAnon") - self.memory, 3 << 20)
        print(f"a post beside 1,000 slow clients took {worst * 1000:.0f} ms at most", flush=True)
        for s in slow:
            s.close()
        self.check()

    def test_slow_requests_end(self):
        """Whether it is the line, the headers or the body that does not come: over after the time for a request, with 408."""
        line = b"POST /sedna/workers/a/info HTTP/1.1\r\nHost: x\r\n"
        for begun in (b"P", line, line + b"Content-Length: 10\r\n\r\n12345", line + b"Transfer-Encoding: chunked\r\n\r\n5\r\n123"):
            begin = time.monotonic()
            answer = self.raw(begun)
            self.assertIn(b"408", answer.split(b"\r\n")[0], begun)
            self.assertEqual(json.loads(answer.split(b"\r\n\r\n", 1)[1])["Status"], 408)
            self.assertLess(time.monotonic() - begin, 4)
        self.check()

    def test_an_idle_connection_is_closed_without_a_word(self):
        body = json.dumps({"name": "inferworker-x", "namespace": "a", "ownerName": "b", "ownerKind": "incrementallearningjob", "kind": "inference"})
        answer = self.raw(f"POST /sedna/workers/inferworker-x/info HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        self.assertEqual(answer.count(b"HTTP/1.1 "), 1, answer)
        self.assertIn(b"200", answer.split(b"\r\n")[0])

    def test_sizes_and_lengths(self):
        line = b"POST /sedna/workers/a/info HTTP/1.1\r\nHost: x\r\n"
        ten = b"0123456789"
        for what, status in (
                (line + b"Content-Length: 10737418240\r\n\r\n", 413),
                (line + b"Content-Length: 99999999999999999999999\r\n\r\n", (400, 413)),
                (line + b"Content-Length: -5\r\n\r\n", 400),
                (line + b"Content-Length: x\r\n\r\n", 400),
                (line + b"Content-Length: 10\r\nContent-Length: 3\r\n\r\n" + ten, 400),
                (line + b"Content-Length: 10\r\nTransfer-Encoding: chunked\r\n\r\n" + ten, 400),
                (line + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
                (b"POST /" + b"x" * 100000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", (404, 413, 414, 431)),
                (line + b"X: " + b"y" * 100000 + b"\r\n\r\n", (413, 431)),
                (line + b"".join(b"X%d: y\r\n" % i for i in range(10000)) + b"\r\n", (413, 431)),
                (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + os.urandom(200), (400, 408)),
                (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", (400, 404, 505)),
                (b"GET /sedna/workers/%00/info HTTP/1.1\r\nHost: x\r\n\r\n", (400, 404, 405)),
                (b"POST /sedna/workers/../../etc/info HTTP/1.1\r\nHost: x\r\n\r\n", (400, 404))):
            with self.subTest(what=what[:90]):
                answer = self.raw(what)
                # A reset before the answer is read is as good: nothing was taken.
                if answer:
                    self.assertIn(int(answer.split(b" ")[1]), status if isinstance(status, tuple) else (status,), answer[:200])
        self.check()

    def test_endless_chunks(self):
        sent = 0
        with socket.create_connection(("127.0.0.1", self.edge.port), 10) as s:
            s.sendall(b"POST /sedna/workers/a/info HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
            begin = time.monotonic()
            try:
                while time.monotonic() - begin < 5:
                    s.sendall(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
                    sent += 0x10000
            except OSError:
                pass
        print(f"ended after {time.monotonic() - begin:.1f} s and {sent >> 20} MiB", flush=True)
        self.assertLess(sent, 16 << 20)
        self.check()

    def test_random_bytes(self):
        dice = random.Random(4)
        begin = b"POST /sedna/workers/a/info HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\n"
        for i in range(200):
            data = bytearray(begin + bytes(dice.randrange(256) for _ in range(20)))
            for _ in range(dice.randrange(1, 6)):
                data[dice.randrange(len(data))] = dice.randrange(256)
            with socket.create_connection(("127.0.0.1", self.edge.port), 10) as s:
                s.sendall(data)
                if i % 10 == 0:
                    s.shutdown(socket.SHUT_WR)
        self.check()

    def test_clients_that_leave(self):
        """Gone before the answer, in the middle of the body, right after connecting; many at a time."""
        body = json.dumps({"name": "train-worker-q", "namespace": "a", "ownerName": "b", "ownerKind": "incrementallearningjob", "kind": "train",
                           "status": "completed", "results": [{"format": "", "url": "/m"}]}).encode()
        whole = b"POST /sedna/workers/train-worker-q/info HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        for i in range(300):
            s = socket.create_connection(("127.0.0.1", self.edge.port), 10)
            s.sendall(whole[:len(whole) * (i % 4) // 3])
            if i % 3 == 0:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")  # a reset
            s.close()
        self.check()
        self.assertEqual(self.edge.metrics()["ilmare_edge_provisional"], 1)


class Sockets(Case):
    def test_inherited_socket_waits_for_the_agent(self):
        """The service manager holds the socket: a post made while the agent restarts is answered by the next one."""
        broker = self.world.broker()
        listener = socket.create_server(("127.0.0.1", 0))
        edge = self.world.edge(broker, start=False)
        edge.port = edge.observe_port = listener.getsockname()[1]
        holder = ["/usr/bin/python3", "-c", "import os, sys\nos.dup2(int(sys.argv[1]), 3)\nos.set_inheritable(3, True)\n"
                  "os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')\nos.execv(sys.argv[2], sys.argv[2:])", str(listener.fileno())]
        edge.command = holder + edge.command
        edge.more["pass_fds"] = [listener.fileno()]
        edge.start()
        edge.stop()
        waiting = subprocess.Popen(["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{edge.port}/healthz"],
                                   stdout=subprocess.PIPE)
        edge.start()
        self.assertEqual(waiting.communicate(timeout=20)[0], b"200")
        listener.close()

    def test_observing_on_a_port_of_its_own(self):
        broker = self.world.broker()
        edge = self.world.edge(broker, start=False, observe_port=0)
        edge.start(wait=False)
        edge.observe_port = int(edge.wait_log(r"observe_port=(\d+)")[0])
        until(edge.serves, "it is served")
        self.assertIn("ilmare_edge_jobs", edge.metrics())
        self.assertEqual(edge.get("/sedna/workers/a/info")[0], 404)
        edge.observe_port = edge.port
        self.assertEqual(edge.get("/metrics")[0], 404)

    def test_taken_port(self):
        broker = self.world.broker()
        with socket.create_server(("127.0.0.1", 0)) as taken:
            edge = self.world.edge(broker, start=False, workers_port=taken.getsockname()[1])
            edge.start(wait=False)
            self.assertEqual(edge.process.wait(10), 1)
            self.assertRegex(edge.text(), "port [0-9]+: it is in use")
        self.assertTrue(program("ilmare-edge"))


if __name__ == "__main__":
    main()
