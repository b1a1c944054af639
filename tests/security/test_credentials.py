"""Keys of an object store go to a device that is named, over TLS, when it asks; and nowhere else: not to another device, an operator or the cloud
agent's own key at the broker, not over a plain link, not into a log at any level, a topic, a store, a metric, a command line or the broker's file.
"""

import json
import os
import pathlib
import select
import signal
import stat
import subprocess

from lab import Client, canary, files_below  # first: it finds the integration tests' modules
from agents import PATIENCE, is_sanitized, until
from secure_case import Case, SecureCase, main

ROOT = "ilmare/v1"
CANARY = canary()
REQUEST, RESPONSE = (f"{ROOT}/node/edge-1/credential/{what}" for what in ("request", "response"))


def thing(kind, name, spec):
    return {"apiVersion": "sedna.io/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": "default"}, "spec": spec}


def secret(name, key):
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "annotations": {"s3-endpoint": "minio:9000", "s3-usehttps": "0"}},
            "stringData": {"ACCESS_KEY_ID": f"id-of-{name}", "SECRET_ACCESS_KEY": key}}


def job(node, out):
    def template(name):
        return {"spec": {"nodeName": node, "containers": [{"name": name, "command": ["/bin/sleep", "1000"]}]}}
    condition = {"operator": ">=", "threshold": 8, "metric": "num_of_samples"}
    return thing("IncrementalLearningJob", "j", {
        "initialModel": {"name": "initial"}, "dataset": {"name": "d", "trainProb": 0.8},
        "trainSpec": {"template": template("t"), "trigger": {"condition": condition}},
        "evalSpec": {"template": template("e")},
        "deploySpec": {"model": {"name": "serve"}, "trigger": {"condition": dict(condition, metric="accuracy")}, "template": template("i")},
        "outputDir": out, "credentialName": "models"})


def objects(key, node="edge-1"):
    """Dataset d and job j of a node, each with a Secret of its own."""
    return [secret("images", f"{key}-images"), secret("models", f"{key}-models"),
            thing("Dataset", "d", {"url": "s3://bucket/train.txt", "format": "txt", "nodeName": node, "credentialName": "images"}),
            thing("Model", "initial", {"url": "s3://bucket/initial.bin", "format": "bin"}),
            thing("Model", "serve", {"url": "s3://bucket/serve.bin", "format": "bin"}), job(node, "s3://bucket/out")]


def write(cloud, things):
    new = cloud.manifests / "all.new"
    new.write_text("---\n".join(json.dumps(each) + "\n" for each in things))
    new.rename(cloud.manifests / "all.yaml")


def held(edge, n):
    until(lambda: edge.metrics()["ilmare_edge_credentials_held"] == n, lambda: f"{n} Secrets are held:\n{edge.tail()}")


def request(node, uid, name="j", kind="job", which="models"):
    return json.dumps({"v": 1, "ts": "2026-01-01T00:00:00.000Z", "node": node, "secret": which,
                       "of": {"kind": kind, "namespace": "default", "name": name, "uid": uid}})


def ask(flags, topic, response, payload, patience=PATIENCE):
    """The answer as text; "" if none came in time."""
    command = ["mosquitto_rr", *flags, "-V", "5", "-t", topic, "-e", response, "-m", payload, "-D", "PUBLISH", "correlation-data", "by-hand",
               "-W", str(int(patience))]
    return subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False).stdout


class Granted(SecureCase):
    def setUp(self):
        super().setUp()
        self.edge = self.broker.edge("edge-1", log_level="debug")
        self.cloud = self.broker.cloud(self.edge, log_level="debug")
        self.other = self.pki.node("edge-2")
        # An operator beside the one whom self.topics is: two connections of one name would throw each other out.
        self.anna = self.pki.operator("anna")
        self.broker.install()
        self.broker.start()
        write(self.cloud, objects(CANARY))

    def begin(self):
        self.topics = self.world.topics(self.broker, "#")  # an operator, who may read all there is to read
        self.cloud.start()
        self.edge.start()
        held(self.edge, 2)

    def check_nowhere(self, *but):
        """In no file, log, metric, topic that an operator sees, command line or environment, but in the manifests and these files."""
        for agent in (self.edge, self.cloud):
            self.assertNotIn(CANARY, agent.get("/metrics")[1])
            for what in ("cmdline", "environ"):
                self.assertNotIn(CANARY.encode(), pathlib.Path(f"/proc/{agent.pid}/{what}").read_bytes())
        for process in pathlib.Path("/proc").iterdir():
            try:
                if process.name.isdigit():
                    self.assertNotIn(CANARY.encode(), (process / "cmdline").read_bytes())
            except OSError:
                pass  # it has ended
        self.assertEqual([m for m in self.topics.messages if CANARY in m.payload or "/credential/" in m.topic], [])
        self.broker.stop()  # it writes what it holds
        given = {self.cloud.manifests / "all.yaml", *but}
        # What a worker of the local backend is started with: a file of its own, for nobody else.
        for file, data, mode in files_below(self.world.path):
            if CANARY.encode() in data and file not in given:
                self.assertIn(self.cloud.state, file.parents, file)
                self.assertEqual(mode & 0o077, 0, file)
        self.broker.start()

    def uid(self, kind="job"):
        topic = f"{ROOT}/node/edge-1/" + ("job/default/j" if kind == "job" else "dataset/default/d")
        document = self.topics.wait(lambda m: m.topic == topic and m.document, "its document").document
        return document[kind]["uid"]

    def test_a_device_that_is_named_gets_them(self):
        self.begin()
        document = self.topics.wait(lambda m: m.topic.endswith("/job/default/j") and m.document, "the job's document").document
        self.assertEqual({each["secret"]: each["urls"] for each in document["credentials"]},
                         {"images": ["s3://bucket/train.txt"], "models": ["s3://bucket/out", "s3://bucket/serve.bin"]})
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_credentials_given_total"], 2)
        self.assertTrue(self.edge.logged(r"credentials: held namespace=default secret=images"))
        self.assertTrue(self.cloud.logged(r"credentials: handed out node=edge-1 namespace=default secret=models"))
        self.check_nowhere()

    def test_nobody_else_hears_them(self):
        """Another device, an operator, and who has the cloud agent's key."""
        self.begin()
        flags = {"edge-2": Client(self.broker, self.other).flags, "operator": Client(self.broker, self.anna).flags,
                 "cloud": Client(self.broker, self.pki.folder("cloud"), port=self.broker.cloud_port).flags}
        last = f"{ROOT}/node/edge-2/inventory"
        heard = {}
        for who, how in flags.items():
            command = ["mosquitto_sub", *how, "-q", "1", "-F", "%t %p", "-t", "#", "-t", last, "-W", str(int(3 * PATIENCE))]
            heard[who] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            self.addCleanup(heard[who].stdout.close)
            self.addCleanup(heard[who].wait)
            self.addCleanup(heard[who].kill)
        # It listens as soon as it has heard something. Nothing retained would do: the cloud agent clears what is not its own.
        for who, process in heard.items():
            def hears(out=process.stdout):
                self.broker.publish(last, "begin")
                return select.select([out], [], [], 0.2)[0] and "begin" in out.readline()
            until(hears, f"{who} listens")
        given = self.cloud.metrics()["ilmare_cloud_credentials_given_total"]
        self.edge.stop()
        self.edge.start()
        held(self.edge, 2)
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_credentials_given_total"], given + 2)
        for who, process in heard.items():
            self.broker.publish(last, "end")
            lines = []
            while not lines or not lines[-1].endswith(" end\n"):
                lines.append(process.stdout.readline())
                self.assertTrue(lines[-1], f"{who} heard no end: {lines}")
            self.assertFalse([line for line in lines if CANARY in line or "credential/response" in line], who)
            asks = [line for line in lines if "credential/request" in line]
            self.assertEqual(bool(asks), who == "cloud", asks)

    def test_a_device_that_is_not_named_gets_a_reason(self):
        self.begin()
        client = Client(self.broker, self.other)
        topic, response = (f"{ROOT}/node/edge-2/credential/{what}" for what in ("request", "response"))
        birth = {"v": 1, "ts": "2026-01-01T00:00:00.000Z", "node": "edge-2", "online": True, "version": "0.1.0", "session": "0" * 32}
        self.assertTrue(client.publish(f"{ROOT}/presence/edge-2", json.dumps(birth), retain=True)[0])
        until(lambda: self.cloud.metrics()["ilmare_cloud_nodes"] == 2, "the cloud agent knows it")
        for kind, name, which in (("job", "j", "models"), ("dataset", "d", "images")):
            answer = json.loads(ask(client.flags, topic, response, request("edge-2", self.uid(kind), name, kind, which)))
            self.assertEqual((answer["reason"], answer["node"]), ("NotNamed", "edge-2"))
        # In another's name, to another's topic, for another to be told: refused by the broker, or by the cloud agent, and no answer.
        before = self.cloud.metrics()["ilmare_cloud_messages_refused_total"]
        for where, whose in ((topic, "edge-1"), (REQUEST, "edge-1")):
            self.assertEqual(ask(client.flags, where, response, request(whose, self.uid()), patience=1), "")
        self.assertFalse(client.publish(REQUEST, "{}")[0])
        self.assertEqual(ask(client.flags, topic, RESPONSE, request("edge-2", self.uid()), patience=1), "")
        until(lambda: self.cloud.metrics()["ilmare_cloud_messages_refused_total"] == before + 2, "the two that came were refused")
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_credentials_given_total"], 2)
        self.check_nowhere()

    def test_an_operator_cannot_ask(self):
        self.begin()
        anna = Client(self.broker, self.anna)
        for topic in (REQUEST, RESPONSE, f"{ROOT}/node/anna/credential/request"):
            self.assertFalse(anna.publish(topic, "{}")[0], topic)
        self.assertFalse(Client(self.broker, self.pki.folder("cloud"), port=self.broker.cloud_port).publish(REQUEST, "{}")[0])
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_credentials_asked_total"], 2)

    def test_a_rotation_reaches_the_device(self):
        self.begin()
        write(self.cloud, objects(f"{CANARY}-new"))
        self.edge.wait_log(r"credentials: held ", 4)
        self.assertEqual(len(self.edge.logged(r"credentials: changed ")), 2)
        # The same again is no change, whatever becomes of the agents.
        asked = self.edge.metrics()["ilmare_edge_credentials_asked_total"]
        write(self.cloud, [*objects(f"{CANARY}-new"), secret("unused", "x")])
        marked = self.topics.mark()
        self.cloud.stop()
        self.cloud.start()
        self.topics.wait(lambda m: m.topic.endswith("/job/default/j") and m.document, "the cloud agent says it again", since=marked)
        self.assertEqual(self.edge.metrics()["ilmare_edge_credentials_asked_total"], asked)
        # One that is taken away is not asked for; one that comes back is.
        write(self.cloud, [each for each in objects(f"{CANARY}-new") if each["metadata"]["name"] != "images"])
        self.topics.wait(lambda m: m.topic.endswith("/dataset/default/d") and m.document and "version" not in m.document["credentials"][0],
                         "the Secret is gone", since=marked, patience=60)
        write(self.cloud, objects(f"{CANARY}-other"))
        self.edge.wait_log(r"credentials: held ", 6)
        self.check_nowhere()

    def test_rules_of_before_are_said_to_be_in_the_way(self):
        """A broker whose access rules do not know of credentials yet drops the question without a word."""
        acl = self.broker.files / "acl"
        whole = acl.read_text()
        acl.write_text("\n".join(line for line in whole.split("\n") if "/credential/" not in line or "deny" in line))
        self.broker.reload()
        self.topics = self.world.topics(self.broker, "#")
        self.cloud.start()
        self.edge.start()
        self.edge.wait_log(r"credentials: no answer so far")
        self.assertEqual(self.cloud.metrics()["ilmare_cloud_credentials_asked_total"], 0)
        acl.write_text(whole)
        self.broker.reload()
        held(self.edge, 2)

    def test_on_the_disk_if_it_is_asked_for(self):
        self.edge.command.append("--credentials-keep=disk")
        self.begin()
        kept = self.edge.state / "credentials.json"
        until(lambda: kept.exists() and f"{CANARY}-images" in kept.read_text() and f"{CANARY}-models" in kept.read_text(), "both are kept")
        self.assertEqual(stat.S_IMODE(kept.stat().st_mode), 0o600)
        self.check_nowhere(kept)
        # A device that starts without a link goes on with what it has.
        self.edge.kill()
        self.broker.kill()
        self.edge.start()
        held(self.edge, 2)
        self.assertEqual(self.edge.metrics()["ilmare_edge_credentials_asked_total"], 0)
        # One that others could read is not believed.
        self.edge.stop()
        kept.chmod(0o644)
        self.edge.start()
        self.assertEqual(self.edge.metrics()["ilmare_edge_credentials_held"], 0)
        self.assertTrue(self.edge.logged(r"only this user can read"))
        self.assertFalse(kept.exists())
        self.broker.start()
        held(self.edge, 2)
        until(kept.exists, "kept again")
        # Switched off: nothing is left of it.
        self.edge.stop()
        (self.edge.state / "credentials.json.new").write_text("half")
        self.edge.command[-1] = "--credentials-keep=memory"
        self.edge.start()
        self.assertEqual([file.name for file in self.edge.state.iterdir() if file.name.startswith("credentials")], [])
        held(self.edge, 2)

    def test_what_was_replaced_is_overwritten(self):
        """What is over is overwritten: keys of before are nowhere in the memory of the device's agent once they were replaced."""
        if not os.access("/proc/self/mem", os.R_OK) or os.geteuid() != 0:
            self.skipTest("another process's memory is not to be read here")
        if is_sanitized():
            self.skipTest("a sanitizer keeps what was freed, in more memory than there is")
        self.begin()
        write(self.cloud, objects("second"))
        self.edge.wait_log(r"credentials: held ", 4)
        # A transfer that was begun with them has them until it ends.
        until(lambda: self.in_memory(self.edge, f"{CANARY}-images") == 0, "the keys of before are nowhere", interval=0.1)
        self.assertGreater(self.in_memory(self.edge, "second-images"), 0)  # else this finds nothing at all

    def in_memory(self, process, text):
        """How often it is in the writable memory of a process."""
        found = 0
        process.process.send_signal(signal.SIGSTOP)
        try:
            with open(f"/proc/{process.pid}/maps", encoding="utf-8") as maps, open(f"/proc/{process.pid}/mem", "rb", buffering=0) as memory:
                for line in maps:
                    begin, end = (int(part, 16) for part in line.split()[0].split("-"))
                    if line.split()[1].startswith("rw") and "[v" not in line:
                        memory.seek(begin)
                        found += memory.read(end - begin).count(text.encode())
        finally:
            process.process.send_signal(signal.SIGCONT)
        return found


class Plain(Case):
    """A broker without TLS, as on a laptop."""

    def test_nothing_is_asked_for_or_handed_out(self):
        broker = self.world.broker()
        topics = self.world.topics(broker)
        edge = self.world.edge(broker, node="edge-1", log_level="debug")
        cloud = self.world.cloud(broker, edge, start=False, log_level="debug")
        write(cloud, objects(CANARY))
        cloud.start()
        edge.wait_log(r"credentials: not asked for: the link to the broker is not TLS")
        self.assertEqual(edge.metrics()["ilmare_edge_credentials_wanted"], 2)
        document = topics.wait(lambda m: m.topic.endswith("/job/default/j") and m.document, "the job's document").document
        answer = json.loads(ask(broker.writer(), REQUEST, RESPONSE, request("edge-1", document["job"]["uid"])))
        self.assertEqual(answer["reason"], "LinkNotSecure")
        counts = edge.metrics()
        self.assertEqual((counts["ilmare_edge_credentials_asked_total"], counts["ilmare_edge_credentials_held"]), (0, 0))
        self.assertEqual(len([m for m in topics.messages if m.topic == REQUEST]), 1)  # ours
        self.assertNotIn(CANARY, "".join(m.payload for m in topics.messages) + edge.text() + cloud.text())


if __name__ == "__main__":
    main()
