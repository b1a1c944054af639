"""Passwords and object-store keys are where they have to be, and nowhere else: not in a log at any level, on a command line, in a topic, a store, a
metric, or a file that others may read. (Private keys: every test of SecureCase looks for them.)
"""

import pathlib
import stat
import subprocess

from lab import canary, files_below
from secure_case import Case, SecureCase, main
from agents import PATIENCE, program, until

CANARY = canary()


def holding(folder, *but):
    """Files below it that hold the canary, and their modes."""
    return {file: mode for file, data, mode in files_below(folder) if file not in but and CANARY.encode() in data}


class Passwords(Case):
    """A broker that asks for a password instead of a certificate."""

    def test_a_password_stays_in_its_file(self):
        users = self.world.path / "users"
        subprocess.run(["mosquitto_passwd", "-b", "-c", users, "edge-1", "right"], check=True, capture_output=True)
        broker = self.world.broker(config=f"password_file {users}\n")
        # "allow_anonymous true" of the test's broker is for the test's own clients; a name with a wrong password is refused all the same.
        password = self.world.path / "password"
        password.write_text(CANARY + "\n")
        password.chmod(0o600)
        edge = self.world.edge(broker, mqtt_username="edge-1", mqtt_password_file=password, log_level="debug")
        edge.wait_log(r"the broker refused the connection: .*(0x86|0x87)", 2)
        self.look(edge, password)
        edge.stop()
        subprocess.run(["mosquitto_passwd", "-b", users, "edge-1", CANARY], check=True, capture_output=True)
        broker.stop()
        broker.start()
        edge.start().connected()
        self.look(edge, password)
        done = subprocess.run([*edge.command, "--check-config"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 0)
        self.assertIn(str(password), done.stdout)
        self.assertNotIn(CANARY, done.stdout + done.stderr)

    def look(self, edge, password):
        self.assertEqual(holding(self.world.path, password), {})
        for what in ("cmdline", "environ"):
            self.assertNotIn(CANARY.encode(), pathlib.Path(f"/proc/{edge.pid}/{what}").read_bytes())
        for path in ("/metrics", "/healthz", "/readyz"):
            self.assertNotIn(CANARY, edge.get(path)[1])

    def test_a_password_in_a_url_is_refused_without_being_repeated(self):
        for url in (f"mqtts://user:{CANARY}@broker.example", f"user:{CANARY}@broker.example"):
            done = subprocess.run([program("ilmare-edge"), "--node=n", f"--mqtt-brokers={url}"], capture_output=True, text=True, timeout=PATIENCE,
                                  check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("do not belong into the url", done.stderr)
            self.assertNotIn(CANARY, done.stderr + done.stdout)


class ObjectStore(SecureCase):
    def test_keys_of_an_object_store_reach_the_worker_and_nobody_else(self):
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3", "annotations": {"s3-endpoint": "minio:9000"}},
                  "stringData": {"ACCESS_KEY_ID": "the-id", "SECRET_ACCESS_KEY": CANARY}}
        self.begin(secret=secret)
        until(lambda: self.whole.environment.exists() and CANARY in self.whole.environment.read_text(), "the worker has it")
        self.round(1)
        for agent in (self.edge, self.cloud):
            self.assertNotIn(CANARY, agent.text())
            self.assertNotIn(CANARY, agent.get("/metrics")[1])
            for what in ("cmdline", "environ"):
                self.assertNotIn(CANARY.encode(), pathlib.Path(f"/proc/{agent.pid}/{what}").read_bytes())
        self.assertNotIn(CANARY, "".join(m.payload for m in self.whole.topics.messages))
        self.broker.stop()  # it writes what it holds
        given = {self.whole.environment, *self.cloud.manifests.iterdir()}
        for file, mode in holding(self.world.path, *given).items():
            with self.subTest(file=file):
                self.assertIn(self.cloud.state, file.parents)  # what a worker is started with
                self.assertEqual(mode & 0o077, 0)
                self.assertEqual(stat.S_IMODE(self.cloud.state.stat().st_mode), 0o700)
        self.broker.start()


if __name__ == "__main__":
    main()
