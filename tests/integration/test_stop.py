#!/usr/bin/python3
"""Agents that are told to stop while something else happens: they end soon, with status 0, and leave nothing undone that a start would not do.
Under the thread sanitizer, what these tests are run for too, this is the way through all callbacks of the link."""

import contextlib
import os
import random
import signal
import threading
import time

from agents import is_sanitized, until
from case import Case, main
from whole import Whole

LIMIT = 30 if is_sanitized() else 5  # seconds


class Stop(Case):
    def begin(self):
        self.broker = self.world.broker(persist="always")
        self.edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true")
        # Workers go on without it, or each of its stops would make a round fail.
        self.cloud = self.world.cloud(self.broker, self.edge, start=False, local_stop_workers="false")
        self.addCleanup(self.end_workers)
        self.whole = Whole(self.world, self.broker, self.edge, self.cloud)
        self.edge.start()
        self.cloud.start()

    def end_workers(self):
        """The cloud agent's last stop."""
        self.cloud.stop()
        self.cloud.command = [word.replace("--local-stop-workers=false", "--local-stop-workers=true") for word in self.cloud.command]
        self.cloud.start()
        self.cloud.stop()

    def stop(self, agent, statuses=(0,)):
        begin = time.monotonic()
        self.assertIn(agent.stop(), statuses, agent.tail())
        self.assertLess(time.monotonic() - begin, LIMIT)

    @contextlib.contextmanager
    def frozen(self):
        """The broker takes connections, and says nothing."""
        os.kill(self.broker.pid, signal.SIGSTOP)
        yield
        os.kill(self.broker.pid, signal.SIGCONT)

    def taken(self):
        """All samples are in rounds."""
        try:
            self.whole.check_samples()
        except (AssertionError, OSError):
            return False
        return True

    def finish(self):
        """After all of it: no sample is lost, no worker ran twice, and both end well."""
        until(self.taken, lambda: f"every sample is in a round: {self.whole.fed} samples; rounds of {[len(each) for each in self.whole.rounds().values()]}")
        started = self.whole.started()
        self.assertEqual(len(set(started)), len(started), "a worker ran twice")
        self.stop(self.edge)
        self.stop(self.cloud)

    def test_at_any_moment_of_a_round(self):
        self.begin()
        dice = random.Random(7)
        for turn in range(12):
            self.whole.feed()
            time.sleep(dice.uniform(0, 0.4))
            agent = (self.edge, self.cloud)[turn % 2]
            self.stop(agent)
            agent.start()
        self.finish()

    def test_while_it_connects(self):
        """Told to stop as soon as it has begun, with a broker that answers, one that does not, and none."""
        self.begin()
        for agent in (self.edge, self.cloud):
            for what in (contextlib.nullcontext, self.frozen, self.away):
                for pause in (0, 0.01, 0.1):
                    self.stop(agent)
                    with what():
                        agent.start(wait=False)
                        time.sleep(pause)
                        self.stop(agent, (0, -signal.SIGTERM))  # or it had not begun
                    agent.start()
        self.whole.feed()
        self.finish()

    @contextlib.contextmanager
    def away(self):
        self.broker.stop()
        yield
        self.broker.start()

    def test_with_a_link_that_is_half_open(self):
        """The broker is there and says nothing: neither the disconnect nor what is on its way is answered."""
        self.begin()
        self.whole.feed()
        for agent in (self.edge, self.cloud):
            until(agent.is_linked, "it is connected")
            with self.frozen():
                self.whole.feed()
                self.stop(agent)
            agent.start()
        self.finish()

    def test_while_the_broker_comes_and_goes(self):
        self.begin()
        over = threading.Event()

        def restart():
            while not over.is_set():
                self.broker.kill()
                self.broker.start()
                over.wait(0.15)

        thread = threading.Thread(target=restart)
        thread.start()
        try:
            dice = random.Random(8)
            for turn in range(8):
                self.whole.feed()
                time.sleep(dice.uniform(0, 0.5))
                agent = (self.edge, self.cloud)[turn % 2]
                self.stop(agent)
                agent.start()
        finally:
            over.set()
            thread.join()
        self.finish()


if __name__ == "__main__":
    main()
