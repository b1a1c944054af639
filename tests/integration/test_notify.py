#!/usr/bin/python3
"""What a service manager hears of the real agents: a socket of ours stands for its own."""

import os
import re
import signal
import socket
import statistics
import time

from agents import PATIENCE, free_port
from case import Case, main

WATCHDOG = 0.4  # seconds between two signs of life that the manager allows: there is one at each half


class Manager:
    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(path))
        self.env = {"NOTIFY_SOCKET": str(path), "WATCHDOG_USEC": str(int(WATCHDOG * 1e6))}

    def next(self, patience=PATIENCE):
        """The next message, or None."""
        self.socket.settimeout(patience)
        try:
            return self.socket.recv(4096).decode()
        except (TimeoutError, socket.timeout):
            return None

    def wait(self, pattern, patience=PATIENCE):
        """All that came up to and with the first message of this form, without signs of life."""
        heard, end = [], time.monotonic() + patience
        while time.monotonic() < end:
            message = self.next(max(0.001, end - time.monotonic()))
            if message is not None and message != "WATCHDOG=1":
                heard.append(message)
                if re.fullmatch(pattern, message):
                    return heard
        raise AssertionError(f"not within {patience:g} s: /{pattern}/, but {heard}")

    def drain(self):
        self.socket.setblocking(False)
        try:
            while True:
                self.socket.recv(4096)
        except BlockingIOError:
            pass


class Notify(Case):
    def setUp(self):
        super().setUp()
        self.manager = Manager(self.world.path / "manager")
        self.addCleanup(self.manager.socket.close)

    def story(self, agent, broker):
        """From a start without a broker to the end."""
        url = re.escape(broker.url)
        down = rf"STATUS=not connected since \d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\dZ: .*\S"
        agent.start(wait=False)
        heard = self.manager.wait(down)
        self.assertEqual(heard[:2], ["READY=1", f"STATUS=connecting to {broker.url}"])
        broker.start()
        self.manager.wait(rf"STATUS=connected to {url}")
        # Nothing more is said while nothing changes.
        end = time.monotonic() + 3 * WATCHDOG
        while time.monotonic() < end:
            self.assertIn(self.manager.next(0.05), (None, "WATCHDOG=1"))
        broker.stop()
        self.manager.wait(down)
        broker.start()
        self.manager.wait(rf"STATUS=connected to {url}")
        self.assertEqual(agent.end(signal.SIGTERM), 0)
        self.assertEqual(self.manager.wait("STOPPING=1"), ["STOPPING=1"])
        while (message := self.manager.next(0.05)) is not None:
            self.assertEqual(message, "WATCHDOG=1")

    def test_the_edge_agents_story(self):
        broker = self.world.broker()
        broker.stop()
        self.story(self.world.edge(broker, start=False, env=self.manager.env), broker)

    def test_the_cloud_agents_story(self):
        broker = self.world.broker()
        broker.stop()
        self.story(self.world.cloud(broker, start=False, env=self.manager.env), broker)

    def lives(self, agent):
        """Signs come in time from a loop that goes round, and not from one that hangs."""
        agent.start(wait=False)
        self.manager.wait("READY=1")
        times = []
        while len(times) < 5:
            message = self.manager.next()
            self.assertIsNotNone(message, "a sign of life")
            if message == "WATCHDOG=1":
                times.append(time.monotonic())
        # A busy machine may be late once.
        self.assertLess(statistics.median(after - before for before, after in zip(times, times[1:])), WATCHDOG)
        self.assertGreater(times[-1] - times[0], WATCHDOG)  # and not all at once
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, agent.pid, os.WSTOPPED | os.WNOWAIT)
            self.manager.drain()
            self.assertIsNone(self.manager.next(3 * WATCHDOG))
        finally:
            os.kill(agent.pid, signal.SIGCONT)
        self.assertIsNotNone(self.manager.next())
        self.assertEqual(agent.end(signal.SIGTERM), 0)

    def test_the_edge_agents_signs_of_life(self):
        self.lives(self.world.edge(None, start=False, env=self.manager.env))

    def test_the_cloud_agents_signs_of_life(self):
        broker = self.world.broker()
        self.lives(self.world.cloud(broker, start=False, env=self.manager.env))

    def test_a_device_without_a_certificate_says_why(self):
        token, url = self.world.path / "token", f"https://127.0.0.1:{free_port()}"
        edge = self.world.edge(None, start=False, env=self.manager.env, mqtt_brokers=f"mqtts://127.0.0.1:{free_port()}", enrolment_url=url,
                               enrolment_token_file=token)
        edge.start(wait=False)
        self.assertEqual(self.manager.wait("STATUS=.*"), ["READY=1", f"STATUS=no certificate yet: there is no token to ask with: {token}"])
        self.assertEqual(edge.end(signal.SIGTERM), 0)
        self.manager.drain()
        token.write_text("x" * 40 + "\n")
        token.chmod(0o600)
        edge.start(wait=False)
        self.assertEqual(self.manager.wait("STATUS=.*"), ["READY=1", f"STATUS=no certificate yet: asking {url}"])
        said = self.manager.wait("STATUS=.*")[-1]
        self.assertRegex(said, f"^STATUS=no certificate yet: .*{url[8:].replace(':', '.*')}")
        self.assertNotIn("x" * 40, said)
        self.assertEqual(edge.end(signal.SIGTERM), 0)

    def test_a_start_that_fails_is_not_ready(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            edge = self.world.edge(None, start=False, env=self.manager.env, workers_port=taken.getsockname()[1])
            edge.start(wait=False)
            self.assertEqual(edge.process.wait(PATIENCE), 1)
        while (message := self.manager.next(0.05)) is not None:
            self.assertNotEqual(message, "READY=1")

    def test_without_a_manager_nothing_is_different(self):
        edge = self.world.edge(None, start=False, env={"WATCHDOG_USEC": "100000"}, workers_port=free_port(), observe_port=-1)
        edge.start(wait=False)
        edge.wait_log(r"main: started")
        self.assertEqual(edge.logged("notify"), [])
        self.assertEqual(edge.end(signal.SIGTERM), 0)


if __name__ == "__main__":
    main()
