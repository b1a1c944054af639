"""Several cloud agents, one of which leads; and one that is killed at any step of a round. In the end the world is as if nothing had been."""

import signal
import time

from kube_case import Case, main, setUpModule  # noqa: F401

from agents import until
from api import at
from kube_agents import Loop
from api_proxy import Proxy, answer

LEASE_S = 15


class Several(Case):
    def setUp(self):
        super().setUp()
        self.loop = Loop(self)

    def two(self, server=None, **options):
        """Both ready, the first leads. Each has an account of its own, so that the audit log tells them apart. server: the first one's."""
        first = self.loop.cloud("cloud-a", kubeconfig=self.loop.access(account="cloud-a", server=server), **options)
        first.wait_log("leading epoch")
        second = self.loop.cloud("cloud-b", kubeconfig=self.loop.access(account="cloud-b"), **options)
        for each in (first, second):
            each.ready()
        self.assertNotIn("leading epoch", second.text())
        return first, second

    def holder(self):
        return at(self.api.get("Lease", self.ns, "ilmare-cloud"), "spec", "holderIdentity")

    def epoch(self):
        return int(at(self.api.get("Lease", self.ns, "ilmare-cloud"), "metadata", "annotations", "ilmare/epoch"))

    def in_training(self):
        """A round whose training hangs until release()."""
        self.loop.create()
        self.loop.serving()
        (self.loop.folder / "hold").touch()
        script = f"while [ -e {self.loop.folder}/hold ]; do sleep 0.05; done; exec \"$0\" \"$@\""
        self.loop.image(["/bin/sh", "-c", script, *self.loop.kubelet.images["ilmare.test/stand-in:v1"]])
        self.loop.feed()
        self.loop.at(1, "Train", "Running")

    def release(self):
        (self.loop.folder / "hold").unlink()

    def check_one_of_each(self, rounds=1):
        self.loop.check_samples()
        for kind in ("train", "eval"):
            names = self.loop.started(kind)
            self.assertEqual(len(names), rounds, names)
        self.loop.serving()

    def test_the_leader_is_stopped(self):
        """It gives the Lease back: the other one leads at once."""
        first, second = self.two()
        self.in_training()
        epoch, began = self.epoch(), time.monotonic()
        first.stop()
        second.wait_log("leading epoch")
        self.assertLess(time.monotonic() - began, LEASE_S)
        self.assertTrue(self.holder().startswith("cloud-b_"))
        self.assertGreater(self.epoch(), epoch)
        self.release()
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.check_one_of_each()

    def test_the_leader_is_stopped_while_it_renews(self):
        """The renewal is done, and its answer comes late, or never: the Lease is given back all the same."""
        proxy = Proxy(self.cluster)
        self.addCleanup(proxy.close)
        first, second = self.two(proxy.url)

        def stopping(request):
            first.process.send_signal(signal.SIGTERM)
            first.wait_log("main: stopping")
            return answer(504)
        fault = proxy.after(r"PUT .*/leases/", stopping)
        until(lambda: fault.met, "it renews")
        began = time.monotonic()
        first.stop()
        self.assertIn("the Lease is given back", first.text())
        second.wait_log("leading epoch")
        self.assertLess(time.monotonic() - began, LEASE_S / 2)

    def test_other_times(self):
        """Of the Lease: short ones, so it is taken over soon, and not before."""
        first, second = self.two(kube_lease_duration="5s", kube_lease_renew_deadline="3s", kube_lease_retry_period="500ms")
        self.assertEqual(at(self.api.get("Lease", self.ns, "ilmare-cloud"), "spec", "leaseDurationSeconds"), 5)
        began = time.monotonic()
        first.kill()
        second.wait_log("leading epoch")
        self.assertGreater(time.monotonic() - began, 5 - 1)
        self.assertLess(time.monotonic() - began, LEASE_S - 5)

    def test_the_leader_is_killed(self):
        first, second = self.two()
        self.in_training()
        began = time.monotonic()
        first.kill()
        self.release()  # what is reported while nobody leads counts
        second.wait_log("leading epoch", patience=2 * LEASE_S)
        self.assertGreater(time.monotonic() - began, LEASE_S - 3)  # never before the Lease is over
        self.assertEqual(self.loop.over(1)["type"], "Completed")
        self.check_one_of_each()

    def test_a_leader_that_slept(self):
        """Stopped for longer than the Lease lasts and continued when another one leads: it writes nothing more."""
        first, second = self.two()
        self.in_training()
        first.process.send_signal(signal.SIGSTOP)
        try:
            second.wait_log("leading epoch", patience=2 * LEASE_S)
            mark, messages = self.cluster.mark(), self.world.topics(self.loop.broker)
            self.release()
            self.assertEqual(self.loop.over(1)["type"], "Completed")
        finally:
            first.process.send_signal(signal.SIGCONT)
        first.wait_log("could not be renewed in time|another one leads|resign")
        self.loop.feed()
        self.assertEqual(self.loop.over(2)["type"], "Completed")
        epoch = self.epoch()
        old = [m for m in messages.messages if m.document and not m.retained and str(at(m.document, "writer", "epoch", default=epoch)) != str(epoch)]
        self.assertEqual(old, [])
        written = {user: {(e["verb"], e["objectRef"]["resource"]) for e in self.cluster.audit(mark) if e["user"]["username"] == self.loop.user_of(user)
                          and e["verb"] not in ("get", "list", "watch")} for user in ("cloud-a", "cloud-b")}
        self.assertEqual(written["cloud-a"], set())
        self.assertIn(("create", "pods"), written["cloud-b"])
        self.assertTrue(self.holder().startswith("cloud-b_"))
        self.check_one_of_each(rounds=2)


class Killed(Case):
    """The cloud agent is killed right after each kind of write was done; the answer never comes to it."""

    WRITES = (r"POST .*/pods$", r"PATCH .*/incrementallearningjobs/signs-demo/status", r"DELETE .*/pods/signs-demo-inference",
              r"PATCH .*/datasets/traffic-signs/status", r"PUT .*/leases/")

    def setUp(self):
        super().setUp()
        self.loop = Loop(self)
        self.proxy = Proxy(self.cluster)
        self.addCleanup(self.proxy.close)

    def test_at_each_write_of_a_round(self):
        """One agent after the other, each killed at its n-th write: together they bring the rounds to their end."""
        loop = self.loop
        access = loop.access(server=self.proxy.url)
        loop.create()
        cloud = loop.cloud(kubeconfig=access)
        loop.serving()
        for number, pattern in enumerate(self.WRITES, 1):
            with self.subTest(pattern=pattern):
                fault = self.proxy.after(pattern, lambda request, cloud=cloud: cloud.process.kill() or b"", times=1)
                loop.feed()
                until(lambda: fault.met, f"it writes {pattern}")
                cloud.end(signal.SIGKILL)
                # Whoever comes next has to wait for the Lease of the one that was killed: that is another test.
                self.api.delete("Lease", self.ns, "ilmare-cloud")
                cloud.start()
                self.assertEqual(loop.over(number)["type"], "Completed")
        rounds = len(self.WRITES)
        loop.serving()
        loop.check_samples()
        for kind in ("train", "eval"):
            self.assertEqual(len(loop.started(kind)), rounds, loop.started(kind))

    def test_at_each_status_patch(self):
        """A round has so many of them; killed after the first, the second, …"""
        loop = self.loop
        access = loop.access(server=self.proxy.url)
        loop.create()
        cloud = loop.cloud(kubeconfig=access)
        loop.serving()
        pattern = r"PATCH .*/incrementallearningjobs/signs-demo/status"
        for number, skip in enumerate((1, 3, 5, 7), 1):
            count = []

            def kill(request, cloud=cloud, skip=skip, count=count):
                if request.startswith("PATCH") and "incrementallearningjobs" in request:
                    count.append(request)
                    if len(count) == skip:
                        cloud.process.kill()
            self.proxy.listeners[:] = [kill]
            loop.feed()
            until(lambda: len(count) >= skip, f"it writes {skip} times")
            self.proxy.listeners.clear()
            cloud.end(signal.SIGKILL)
            self.api.delete("Lease", self.ns, "ilmare-cloud")
            cloud.start()
            self.assertEqual(loop.over(number)["type"], "Completed")
        self.assertTrue(self.proxy.requests(pattern))
        loop.serving()
        loop.check_samples()
        for kind in ("train", "eval"):
            self.assertEqual(len(loop.started(kind)), 4, loop.started(kind))


if __name__ == "__main__":
    main()
