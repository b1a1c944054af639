"""Where a device is: in a network namespace of its own behind a router, if this machine lets us make one; else behind a proxy.

    broker's side (this host) ---- router ---- device

Both ways to place it can lose what is sent in one direction or in both, without a word to either side, as a radio link does. A proxy cannot
drop packets: it stops reading, which for TCP comes to the same until buffers are full.
"""

import os
import selectors
import socket
import subprocess
import threading

DIRECTIONS = ("up", "down", "both")  # seen from the device


def command(*words):
    done = subprocess.run(words, capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(f"{' '.join(words)}: {done.stderr.strip()}")


def can_have_namespaces():
    if os.geteuid() != 0:
        return False
    name = f"ilmare-try-{os.getpid()}"
    try:
        command("ip", "netns", "add", name)
    except OSError:
        return False
    try:
        # A rule that drops is what cutting needs.
        command("ip", "-n", name, "rule", "add", "from", "192.0.2.1", "blackhole")
        return True
    except OSError:
        return False
    finally:
        command("ip", "netns", "del", name)


class Namespace:
    """number: from 0, different for each device of this machine. Addresses are those that are kept for benchmarks (RFC 2544)."""

    def __init__(self, number):
        self.name, self.router = f"ilmare-{os.getpid()}-{number}", f"ilmare-{os.getpid()}-r{number}"
        base = f"198.18.{(os.getpid() * 4 + number) % 250}"
        self.host, self.address, outer = f"{base}.1", f"{base}.6", f"il{os.getpid() % 100000}h{number}"
        self.rules = []
        self.made = []
        try:
            for name in (self.name, self.router):
                command("ip", "netns", "add", name)
                self.made.append(name)
                command("ip", "-n", name, "link", "set", "lo", "up")
            command("ip", "link", "add", outer, "type", "veth", "peer", "name", "out", "netns", self.router)
            command("ip", "-n", self.router, "link", "add", "in", "type", "veth", "peer", "name", "eth0", "netns", self.name)
            for where, link, address in (((), outer, f"{self.host}/30"), (("-n", self.router), "out", f"{base}.2/30"),
                                         (("-n", self.router), "in", f"{base}.5/30"), (("-n", self.name), "eth0", f"{self.address}/30")):
                command("ip", *where, "addr", "add", address, "dev", link)
                command("ip", *where, "link", "set", link, "up")
            command("ip", "-n", self.name, "route", "add", "default", "via", f"{base}.5")
            command("ip", "route", "add", f"{base}.4/30", "via", f"{base}.2")
            command("ip", "netns", "exec", self.router, "sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward")
        except OSError:
            self.close()
            raise
        self.prefix = ("ip", "netns", "exec", self.name)

    def broker(self, port):
        """Address of the broker as the device sees it."""
        return f"mqtt://{self.host}:{port}"

    def cut(self, direction):
        self.heal()
        for rule in {"up": ["from"], "down": ["to"], "both": ["from", "to"]}[direction]:
            self.rules.append((rule, self.address, "blackhole"))
            command("ip", "-n", self.router, "rule", "add", *self.rules[-1])

    def heal(self):
        while self.rules:
            command("ip", "-n", self.router, "rule", "del", *self.rules.pop())

    def close(self):
        for name in self.made:  # the links go with it
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


class Relay:
    """The device's connections to the broker go through this process."""

    prefix = ()

    def __init__(self, _number):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.target, self.dropped, self.lock = None, frozenset(), threading.Lock()
        self.pairs = []
        threading.Thread(target=self.accept, daemon=True).start()

    def broker(self, port):
        self.target = port
        return f"mqtt://127.0.0.1:{self.listener.getsockname()[1]}"

    def accept(self):
        while True:
            try:
                device, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(device,), daemon=True).start()

    def serve(self, device):
        try:
            far = socket.create_connection(("127.0.0.1", self.target), timeout=5)
        except OSError:
            device.close()
            return
        with device, far, selectors.DefaultSelector() as waiting:
            waiting.register(device, selectors.EVENT_READ, (far, "up"))
            waiting.register(far, selectors.EVENT_READ, (device, "down"))
            try:
                while True:
                    for key, _ in waiting.select(0.05):
                        other, direction = key.data
                        if direction in self.dropped:
                            threading.Event().wait(0.02)  # not read: it waits in the kernel, as a lost packet does at its sender
                            continue
                        data = key.fileobj.recv(65536)
                        if not data:
                            return
                        other.sendall(data)
            except OSError:
                return

    def cut(self, direction):
        self.dropped = frozenset(("up", "down") if direction == "both" else (direction,))

    def heal(self):
        self.dropped = frozenset()

    def close(self):
        self.listener.close()
