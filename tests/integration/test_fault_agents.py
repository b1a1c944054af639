#!/usr/bin/python3
"""The system refuses one call of a running agent, or one piece of memory: whole agents, a real broker, real workers, and a library below the agent
that fails the n-th call of a kind (faults.py).

Of each kind a few calls, evenly over those that a round makes; every single one with the variable ILMARE_TEST_FAULTS (minutes)."""

import errno
import os
import unittest

from agents import is_sanitized, until
from case import Case, main
from faults import FOREVER, MEMORY, MKDIR, OPEN, READ, RENAME, SYNC, TRUNCATE, UNLINK, WRITE, Faults
from whole import Whole

ALL = "ILMARE_TEST_FAULTS" in os.environ
FILES = {"open": (OPEN, errno.EMFILE), "read": (READ, errno.EIO), "write": (WRITE, errno.ENOSPC), "sync": (SYNC, errno.EIO),
         "rename": (RENAME, errno.EACCES), "mkdir": (MKDIR, errno.EDQUOT), "unlink": (UNLINK, errno.EROFS), "truncate": (TRUNCATE, errno.EIO)}
NO_MEMORY = 70  # the exit status that says so


def numbers(seen, most):
    """Of 1 … seen, `most` of them, or all."""
    return range(1, seen + 1, 1 if ALL else max(1, seen // most))


class Faulty(Case):
    """Both agents with a job; `faults` and `agent`: of the one that is to suffer."""

    def begin(self, which):
        self.broker = self.world.broker()
        edge = self.world.edge(self.broker, start=False, dataset_check_on_arrival="true")
        cloud = self.world.cloud(self.broker, edge, start=False)
        self.agent = {"edge": edge, "cloud": cloud}[which]
        self.faults = Faults(self.agent)
        self.whole = Whole(self.world, self.broker, edge, cloud)
        self.agents = [edge.start(), cloud.start()]
        edge.connected()
        self.number = 0
        self.round()

    def over(self):
        return self.whole.topics.find(self.whole.over(self.number))

    def round(self):
        """Ten samples make a round, and no fault makes it fail."""
        self.number += 1
        self.whole.feed()
        self.wait()

    def wait(self):
        message = self.whole.topics.wait(self.whole.over(self.number), f"round {self.number} is over; {self.faults.failed} failed, the last in {self.faults.who}")
        self.assertEqual(message.document["ended"]["round"], self.number, "a round was lost")

    def seen(self, kind):
        """So many such calls are made in a round."""
        self.faults.arm(kind, 0, FOREVER)
        self.round()
        return self.faults.seen

    def finish(self):
        """Each sample is in one round, each worker ran once, the last model is in place, and nothing is left behind in memory."""
        self.faults.disarm()
        self.round()
        self.whole.check_samples()
        started = self.whole.started()
        self.assertEqual(len(set(started)), len(started), "a worker ran twice")
        self.assertEqual(len(started), 2 * self.number)
        self.assertEqual((self.whole.folder / "models" / "deploy.bin").read_text(), [name for name in started if name.startswith("train")][-1])
        for agent in self.agents:
            self.assertEqual(agent.stop(), 0)


class Files(Faulty):
    """It stays up, says what it could not do, and goes on by itself."""

    def fail_one_by_one(self, which):
        self.begin(which)
        pid, failed = self.agent.pid, set()
        for kind, errnum in FILES.values():
            for n in numbers(self.seen(kind), 2):
                self.faults.arm(kind, errnum, n)
                self.round()
                failed |= {errnum} if self.faults.failed else set()
                self.faults.disarm()
        self.assertEqual(self.agent.pid, pid)
        self.assertTrue(self.agent.alive())
        text = self.agent.text()
        # SQLite has words of its own for two of them.
        words = {errno.EIO: "disk I/O error", errno.ENOSPC: "disk is full"}
        for errnum in failed - {errno.EROFS}:  # what cannot be removed now is removed later, without a word
            self.assertTrue(os.strerror(errnum) in text or words.get(errnum, "\0") in text, f"nothing is said of: {os.strerror(errnum)}")
        self.assertGreaterEqual(len(failed), 4)
        self.finish()

    def test_edge(self):
        self.fail_one_by_one("edge")

    def test_cloud(self):
        self.fail_one_by_one("cloud")

    def refuse_all(self, which, kinds, errnum):
        """Nothing goes for a while, from the middle of a round on."""
        self.begin(which)
        self.number += 1
        self.faults.arm(kinds, errnum, 5, FOREVER)
        self.whole.feed()
        until(lambda: self.faults.failed > 2, "calls are refused again and again")
        self.assertTrue(self.agent.alive())
        self.assertTrue(self.agent.serves())
        self.assertEqual(self.over(), [])
        self.faults.disarm()
        self.wait()
        self.finish()

    def test_cloud_without_room(self):
        self.refuse_all("cloud", WRITE | MKDIR, errno.ENOSPC)

    def test_cloud_without_descriptors(self):
        self.refuse_all("cloud", OPEN, errno.EMFILE)

    def test_edge_without_descriptors(self):
        self.refuse_all("edge", OPEN, errno.EMFILE)


@unittest.skipIf(is_sanitized(), "memory is the sanitizer's")
class Memory(Faulty):
    """It ends, says why, and finds everything whole when it is started again."""

    def ended(self, mark):
        status = self.agent.end(0)
        self.assertEqual(status, NO_MEMORY, f"{self.faults.who}:\n{self.agent.tail()}")
        self.assertIn("out of memory", self.agent.text()[mark:])

    def fail_at_start(self, which):
        self.begin(which)
        self.agent.stop()
        self.faults.arm(MEMORY, errno.ENOMEM, FOREVER)
        self.agent.start()
        until(self.agent.is_linked, "it is connected")
        seen = self.faults.seen
        self.agent.stop()
        ended = 0
        for n in numbers(seen, 24):
            mark = len(self.agent.text())
            self.faults.arm(MEMORY, errno.ENOMEM, n)
            self.agent.start(wait=False)
            until(lambda: self.faults.failed or self.linked(), f"it connects, or the allocation {n} fails")
            if self.faults.failed:
                self.ended(mark)
                ended += 1
            else:  # it asked for a little less this time
                self.agent.stop()
        self.assertGreater(ended, 12)
        self.faults.disarm()
        self.agent.start().connected() if which == "edge" else self.agent.start()
        self.finish()

    def linked(self):
        try:
            return self.agent.is_linked()
        except (OSError, AssertionError):
            return False

    def test_edge_at_start(self):
        self.fail_at_start("edge")

    def test_cloud_at_start(self):
        self.fail_at_start("cloud")

    def fail_in_a_round(self, which):
        self.begin(which)
        ended = 0
        for n in numbers(self.seen(MEMORY), 8):
            mark = len(self.agent.text())
            self.faults.arm(MEMORY, errno.ENOMEM, n)
            self.number += 1
            self.whole.feed()
            until(lambda: self.faults.failed or self.over(), f"the round is over, or the allocation {n} fails")
            if self.faults.failed:
                self.ended(mark)
                ended += 1
                self.faults.disarm()
                self.agent.start()
            self.wait()
        self.assertGreater(ended, 4)
        self.finish()

    def test_edge_in_a_round(self):
        self.fail_in_a_round("edge")

    def test_cloud_in_a_round(self):
        self.fail_in_a_round("cloud")


if __name__ == "__main__":
    main()
