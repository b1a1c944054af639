#!/usr/bin/python3
"""The command line of ilmare-edge: what it prints, what it says about mistakes, and how it ends."""

import os
import random
import re
import signal
import subprocess
import time

from agents import build_dir, program
from case import Case, main
from hand import until
from settings import Settings

VALUES_THAT_ARE_WRONG = {
    "node": "UPPER", "timeZone": "Mars/Olympus", "workers.host": "nohost", "observe.host": "nohost", "rootDir": "relative/path", "logLevel": "loud", "mqtt.brokers": "[http://x]", "mqtt.topicRoot": "a/+/b",
    "mqtt.passwordFile": "/none", "mqtt.keyFile": "/none", "mqtt.insecure": "perhaps", "mqtt.keepAlive": "0s", "mqtt.sessionExpiry": "-1s",
    "mqtt.willDelay": "ten", "mqtt.reconnectMin": "0", "mqtt.reconnectMax": "1000d", "outbox.retryMin": "1ms", "outbox.retryMax": "2y",
    "workers.tokenFile": "/none", "workers.port": "70000", "workers.bodyMax": "2MiB", "workers.connections": "0", "workers.requestTime": "1ms", "workers.resultGrace": "x",
    "observe.port": "-2", "dataset.checkOnArrival": "1.5", "dataset.lookPeriod": "1ms", "dataset.statusPeriod": "1ms", "dataset.lineMax": "1",
    "dataset.roundMax": "1", "dataset.roundsKept": "-1", "deploy.kept": "0", "credentials.keep": "cloud", "provisional.max": "0", "provisional.bytesMax": "1", "provisional.keep": "1s",
    "enrolment.url": "http://x",
}
ANY_TEXT = {"stateDir", "remote.dir", "remote.program", "mqtt.username", "mqtt.caFile", "mqtt.certFile", "enrolment.tokenFile", "enrolment.program"}
RULES_BETWEEN = {"mqtt.reconnectMax": {"reconnectMin": "3s", "reconnectMax": "2s"}, "outbox.retryMax": {"retryMin": "3s", "retryMax": "2s"},
                 "mqtt.keyFile": {"x": None, "keyFile": "/k"}, "mqtt.passwordFile": {"x": None, "passwordFile": "/dev/null"}}


class Config(Settings, Case):
    PROGRAM, NEEDED = "ilmare-edge", "node: edge-1\n"
    WRONG, ANY_TEXT, RULES_BETWEEN = VALUES_THAT_ARE_WRONG, ANY_TEXT, RULES_BETWEEN

    def test_the_supervisor_prints(self):
        for flag, expected in (("--help", "Usage: ilmare-worker"), ("--version", "ilmare-worker ")):
            done = subprocess.run([program("ilmare-worker"), flag], capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(expected, done.stdout)
        self.assertEqual(subprocess.run([program("ilmare-worker")], capture_output=True).returncode, 2)

    def test_what_is_built_can_be_installed(self):
        there = self.world.path / "installed"
        subprocess.run(["cmake", "--install", str(build_dir()), "--prefix", str(there)], check=True, capture_output=True)
        for path in ("sbin/ilmare-edge", "sbin/ilmare-cloud", "libexec/ilmare/ilmare-worker"):
            self.assertIn("0.", subprocess.run([there / path, "--version"], capture_output=True, text=True, check=True).stdout)
        for name in ("ilmare-edge", "ilmare-cloud"):
            self.assertTrue((there / f"share/man/man8/{name}.8").read_text().startswith(".TH"))

    def test_the_example_is_a_configuration(self):
        example = self.run_agent("--print-example", status=0).stdout
        for key in self.keys():
            self.assertIn(key.split(".")[-1] + ":", example)
        path = self.config(example)
        self.assertIn("node:", self.run_agent("--config", path, "--check-config", env={"ILMARE_NODE": "x"}, status=0).stdout)
        # Every setting of it that has a value is accepted as it stands.
        filled = re.sub(r"^#( *\w+:(?: .*)?)$", r"\1", example, flags=re.M).replace("node: \n", "node: edge-1\n")
        filled = "\n".join(line for line in filled.splitlines() if not re.fullmatch(r"  \w+: |(timeZone|rootDir): ", line))
        self.run_agent("--config", self.config(filled), "--check-config", status=0)

    def test_a_mistyped_variable_is_warned_of(self):
        wrong = {"ILMARE_WORKER_PORT": "1", "ILMARE_NODE": "edge-1"}
        self.assertIn("ILMARE_WORKER_PORT: there is no such setting; did you mean ILMARE_WORKERS_PORT?", self.run_agent("--check-config", env=wrong, status=0).stdout)
        state = self.world.path / "file"
        state.write_text("not a folder")
        said = self.run_agent(f"--state-dir={state}/x", env=wrong, status=1).stderr
        self.assertIn("variable=ILMARE_WORKER_PORT did_you_mean=ILMARE_WORKERS_PORT", said)

    def test_variables_of_the_other_agent_are_no_mistakes(self):
        for one, other in (("edge", "cloud"), ("cloud", "edge")):
            text = " ".join(subprocess.run([program(f"ilmare-{other}"), "--help"], capture_output=True, text=True, check=True).stdout.split())
            names = set(re.findall(r"Variable: (ILMARE_\w+)", text))
            self.assertGreater(len(names), 30)
            own = set(re.findall(r"Variable: (ILMARE_\w+)", " ".join(
                subprocess.run([program(f"ilmare-{one}"), "--help"], capture_output=True, text=True, check=True).stdout.split())))
            env = {name: "x" for name in names - own}
            done = subprocess.run([program(f"ilmare-{one}"), "--check-config"], env={**env, "NODENAME": "a"}, capture_output=True, text=True, check=True)
            self.assertNotIn("no such setting", done.stdout)

    def test_mistakes_of_the_cloud_agent_are_named_with_their_line(self):
        for key, value in {"lcServer": "not a url", "name": "''", "nodes": "{e1: {lcServer: nourl}}", "cluster": "moon"}.items():
            path = self.config(f"# a line before it\n{key}: {value}\n")
            for flags in (["--check-config"], []):
                done = subprocess.run([program("ilmare-cloud"), "--config", path, *flags], capture_output=True, text=True, timeout=20)
                self.assertEqual(done.returncode, 2)
                self.assertRegex(done.stderr, rf"(?m)agent\.yaml:2:(\d+:)? {key}: ")
        path = self.config("observe:\n  host: nohost\nrounds: {backoffMax: 1s}\nnodes: {e1: {lcServer: 'http://x', y: z}, BAD: {}}\n")
        done = subprocess.run([program("ilmare-cloud"), "--config", path, "--lc-server=localhost:9100"], capture_output=True, text=True, timeout=20)
        for expected in (":2: observe.host: ", ":3: rounds.backoffMax: ", ":4: nodes: e1.y", ':4: nodes: "BAD"', "--lc-server: lcServer: "):
            self.assertIn(expected, done.stderr)

    def test_mistakes_are_named_together(self):
        path = self.config("node: edge-1\nworkers:\n  port: abc\n  nonsense: 1\nwhat: {}\nlogLevel: [info]\n")
        said = self.run_agent("--config", path, "--deploy-kept=0", "--nope", env={"ILMARE_OBSERVE_PORT": "zz"}, status=2).stderr
        for expected in (f"{path}:3:", f"{path}:4:", f"{path}:5:", f"{path}:6:", "--deploy-kept", "--nope", "ILMARE_OBSERVE_PORT"):
            self.assertIn(expected, said)
        for text, expected in (("node: [\n", ":2:"), ("node: a\nnode: b\n", ":2:"), ("- a\n", ":1:"), ("\tnode: a\n", ":1:"), ("a: *b\n", ":1:")):
            self.assertIn(expected, self.run_agent("--config", self.config(text), status=2).stderr)
        self.assertIn("/nowhere.yaml", self.run_agent("--config", "/nowhere.yaml", status=2).stderr)
        self.assertIn("node", self.run_agent(status=2).stderr)

    def test_precedence(self):
        path = self.config("node: from-file\nworkers: {port: 1111}\n")
        shown = lambda *flags, **env: self.run_agent("--config", path, "--check-config", *flags, env=env, status=0).stdout
        self.assertIn("node: from-file", shown(NODENAME="from-nodename"))
        self.assertIn("node: from-variable", shown(ILMARE_NODE="from-variable"))
        self.assertIn("node: from-flag", shown("--node=from-flag", ILMARE_NODE="from-variable"))
        self.assertIn("workers.port: 1111", shown(BIND_PORT="2222"))
        path.write_text("")
        self.assertIn("node: from-nodename", shown(NODENAME="from-nodename", HOSTNAME="from-hostname"))
        self.assertIn("node: from-hostname", shown(HOSTNAME="from-hostname"))
        self.assertIn("workers.port: 2222", shown(NODENAME="a", BIND_PORT="2222"))
        self.assertIn("rootDir: /rootfs", shown(NODENAME="a", ROOTFS_MOUNT_DIR="/rootfs"))

    def test_a_broker_that_everybody_could_read(self):
        for flags in (("--check-config",), ()):
            said = self.run_agent("--node=a", "--mqtt-brokers=mqtt://broker.example", *flags, status=2).stderr
            self.assertIn("mqtts://", said)
        self.run_agent("--node=a", "--mqtt-brokers=mqtt://broker.example", "--mqtt-insecure", "--check-config", status=0)

    def test_what_cannot_be_started(self):
        state = self.world.path / "file"
        state.write_text("not a folder")
        done = self.run_agent("--node=a", f"--state-dir={state}/x", status=1)
        self.assertIn("stateDir", done.stderr)


class Ends(Case):
    def test_term_at_random_moments(self):
        """Whatever it is at, it ends within five seconds with status 0."""
        seed = int(os.environ.get("ILMARE_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed}", flush=True)
        dice = random.Random(seed)
        broker = self.world.broker()
        job = self.job()
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        worst, samples = 0, []
        for i in range(40):
            fresh = [f"run {i} sample {k}" for k in range(dice.randrange(1, 4))]
            samples += fresh
            job.append(*fresh)
            edge.start(wait=False)
            # A signal before its handler is there kills any program; the log says when it is.
            edge.wait_log("main: started", n=i + 1)
            time.sleep(dice.random() ** 3 * 0.4)  # any moment
            begin = time.monotonic()
            self.assertEqual(edge.end(dice.choice((signal.SIGTERM, signal.SIGINT))), 0)
            worst = max(worst, time.monotonic() - begin)
        print(f"took {worst * 1000:.0f} ms at most", flush=True)
        self.assertLess(worst, 5)
        # Two, of which one trains at least: a single last one that evaluates waits for more.
        samples += ["last", "very last"]
        job.append("last", "very last")
        edge.start()
        hand.wait(lambda: sum(job.used().values()) == len(samples), "all samples are used")
        self.assertEqual(job.used(), {sample: 1 for sample in samples})

    def test_term_while_the_broker_does_not_answer(self):
        """Frozen, not closed: the farewell cannot be delivered."""
        broker = self.world.broker()
        edge = self.world.edge(broker).connected()
        os.kill(broker.pid, signal.SIGSTOP)
        try:
            begin = time.monotonic()
            self.assertEqual(edge.stop(), 0)
            self.assertLess(time.monotonic() - begin, 5.5)
        finally:
            os.kill(broker.pid, signal.SIGCONT)

    def test_term_in_the_middle_of_a_large_file(self):
        broker = self.world.broker()
        job = self.job(share=1)
        with open(job.data, "wb") as file:
            line = b"x" * 999 + b"\n"
            for _ in range(200):
                file.write(line * 1000)
        edge = self.world.edge(broker, start=False, dataset_check_on_arrival="true")
        hand = self.hand(broker, edge, job)
        edge.start()
        hand.wait(lambda: hand.births >= 1, "it is there")
        until(lambda: edge.metrics()["ilmare_edge_jobs"] == 1, "it reads")
        begin = time.monotonic()
        self.assertEqual(edge.stop(), 0)
        self.assertLess(time.monotonic() - begin, 5)
        edge.start()
        report = hand.report(job, "train", "ready", 1, patience=60)
        self.assertEqual(report["range"]["to"], 200000)

    def test_farewell(self):
        broker = self.world.broker()
        topics = self.world.topics(broker, "ilmare/v1/presence/#")
        edge = self.world.edge(broker, mqtt_will_delay="1s").connected()
        birth = topics.wait(lambda m: m.document and m.document["online"], "the birth").document
        edge.stop()
        farewell = topics.wait(lambda m: m.document and not m.document["online"], "the farewell").document
        self.assertEqual(farewell["session"], birth["session"])
        mark = topics.mark()
        edge.start().connected()
        again = topics.wait(lambda m: m.document and m.document["online"], "the birth", mark).document
        self.assertNotEqual(again["session"], birth["session"])
        edge.kill()
        topics.wait(lambda m: m.document and not m.document["online"] and m.document["session"] == again["session"], "the will", mark)


if __name__ == "__main__":
    main()
