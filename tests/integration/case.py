"""What the tests of this folder share: a world for each test, and a last line that scripts/test understands."""

import sys
import unittest

from agents import World


class Case(unittest.TestCase):
    def setUp(self):
        self.world = World()
        self.hands = []
        self.addCleanup(self.end)

    def end(self):
        for hand in self.hands:
            hand.closing = True
        failed = [text for which in ("failures", "errors") for test, text in getattr(self._outcome.result, which, []) if test is self]
        if failed or sys.exc_info()[0]:
            self.world.print_logs()
        for hand in self.hands:
            hand.close()
        self.world.close()

    def hand(self, *args, **more):
        from hand import Hand
        self.hands.append(Hand(self.world, *args, **more))
        return self.hands[-1]

    def job(self, *args, **more):
        from hand import Job
        return Job(self.world, *args, **more)


class Result(unittest.TextTestResult):
    def __init__(self, *args):
        super().__init__(*args)
        self.passed = 0

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1


def main():
    """Run the module's tests; flags and names as unittest takes them."""
    runner = unittest.TextTestRunner(resultclass=Result, verbosity=2, stream=sys.stdout)
    result = unittest.main(module="__main__", testRunner=runner, exit=False).result
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    print(f"{result.passed} passed, {failed} failed, {len(result.skipped)} skipped")
    sys.exit(1 if failed else 0)
