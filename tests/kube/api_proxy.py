"""A proxy in front of the API server, HTTP/1.1 and TLS with a certificate of the cluster's authority, in which whatever can go wrong goes wrong on request.

    proxy = Proxy(cluster)                        proxy.url for a kubeconfig; .close()
    proxy.fault(r"GET .*/pods\\?", answer(503, retry=2), times=1)      what matches is answered so instead; times None: for ever
    proxy.after(r"POST .*/pods$", cut, times=1)   the request is done, then the answer never comes
    proxy.chunk = 1                               answers in pieces of so many bytes;  proxy.delay = 0.3   seconds before each request
    proxy.refuse(); proxy.accept()                nobody listens there; again
    proxy.hang(r"…watch=1…")                      such streams stay open and bring nothing any more
    proxy.cut(r"…")                               ends such streams now
    proxy.seen                                    ["METHOD path"] in order; proxy.seen_wait(pattern, n)

Each connection has a thread, and a connection of its own to the server.
"""

import json
import re
import socket
import ssl
import threading
import time

from agents import PATIENCE, free_port, until


def status_object(code, reason, message):
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code}


REASONS = {403: "Forbidden", 409: "Conflict", 410: "Expired", 429: "TooManyRequests", 500: "InternalError", 503: "ServiceUnavailable"}


def answer(code, retry=None, body=None):
    """A whole answer, as bytes."""
    text = json.dumps(body or status_object(code, REASONS.get(code, "Unknown"), f"the test says {code}")).encode()
    more = f"Retry-After: {retry}\r\n" if retry is not None else ""
    return f"HTTP/1.1 {code} Test\r\nContent-Type: application/json\r\n{more}Content-Length: {len(text)}\r\n\r\n".encode() + text


def stream(*events):
    """A watch's answer that ends after these (type, object)."""
    text = b"".join(json.dumps({"type": t, "object": o}).encode() + b"\n" for t, o in events)
    return f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n".encode() + text


EXPIRED = stream(("ERROR", status_object(410, "Expired", "too old resource version")))


class Fault:
    def __init__(self, pattern, what, times, after):
        self.pattern, self.what, self.left, self.after, self.met = re.compile(pattern), what, times, after, 0


class Cut(Exception):
    pass


class Connection(threading.Thread):
    def __init__(self, proxy, raw):
        super().__init__(daemon=True)
        self.proxy, self.raw, self.client, self.server, self.request = proxy, raw, None, None, ""
        self.hung = False

    def run(self):
        try:
            self.client = self.proxy.context.wrap_socket(self.raw, server_side=True)
            self.server = self.proxy.upstream()
            self.clients, self.servers = self.client.makefile("rb"), self.server.makefile("rb")
            while self.one():
                pass
        except (OSError, ValueError, Cut):
            pass
        finally:
            self.end()

    def end(self):
        for each in (self.client, self.raw, self.server):
            if each is not None:
                try:
                    each.shutdown(socket.SHUT_RDWR)
                except (OSError, AttributeError):
                    pass
        with self.proxy.lock:
            if self in self.proxy.connections:
                self.proxy.connections.remove(self)

    def close(self):
        for name in ("clients", "servers", "client", "server", "raw"):
            each = getattr(self, name, None)
            if each is not None:
                try:
                    each.close()
                except OSError:
                    pass

    @staticmethod
    def head(file):
        lines, length, chunked = [], 0, False
        while True:
            line = file.readline()
            if not line:
                return None, 0, False
            lines.append(line)
            if line in (b"\r\n", b"\n"):
                return b"".join(lines), length, chunked
            name, _, value = line.decode("latin1").partition(":")
            if name.lower() == "content-length":
                length = int(value)
            chunked = chunked or (name.lower() == "transfer-encoding" and "chunked" in value)

    def one(self):
        head, length, _ = self.head(self.clients)
        if head is None:
            return False
        body = self.clients.read(length) if length else b""
        self.request = head.split(b" HTTP/1.1", 1)[0].decode()
        fault = self.proxy.arrived(self.request)
        if self.proxy.delay:
            time.sleep(self.proxy.delay)
        if fault and not fault.after:
            self.play(fault)
            return True
        self.server.sendall(head + body)
        self.pass_on(fault)
        return True

    def play(self, fault):
        if fault.what is None:
            fault.met += 1
            raise Cut
        data = fault.what(self.request) if callable(fault.what) else fault.what
        fault.met += 1
        self.send(data)

    def send(self, data):
        while self.hung:
            time.sleep(0.01)
            if self.proxy.closing or self.client.fileno() < 0:
                raise Cut
        size = self.proxy.chunk or len(data)
        for at in range(0, len(data), size):
            self.client.sendall(data[at:at + size])

    def pass_on(self, fault):
        head, length, chunked = self.head(self.servers)
        if head is None:
            raise Cut
        if fault:
            if not chunked:
                self.servers.read(length)
            self.proxy.done(self.request)
            self.play(fault)
            return
        self.send(head)
        if not chunked:
            self.send(self.servers.read(length) if length else b"")
            self.proxy.done(self.request)
            return
        while True:
            line = self.servers.readline()
            if not line:
                raise Cut
            size = int(line.split(b";")[0], 16)
            self.send(line + self.servers.read(size + 2))
            if size == 0:
                self.proxy.done(self.request)
                return


class Proxy:
    def __init__(self, cluster, authority=None):
        """authority: another one's certificate."""
        self.cluster, self.faults, self.lock = cluster, [], threading.Lock()
        self.connections, self.seen, self.ended, self.listeners = [], [], [], []
        self.chunk, self.delay, self.closing, self.hanging = 0, 0, False, []
        certificate, key = (authority or cluster.authority).sign("/CN=127.0.0.1", "subjectAltName=IP:127.0.0.1\n")
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(certificate, key)
        self.context.set_alpn_protocols(["http/1.1"])
        self.to_server = ssl.create_default_context(cafile=str(cluster.ca))
        self.port, self.listener = free_port(), None
        self.accept()

    @property
    def url(self):
        return f"https://127.0.0.1:{self.port}"

    def upstream(self):
        return self.to_server.wrap_socket(socket.create_connection(("127.0.0.1", self.cluster.port), PATIENCE * 30), server_hostname="127.0.0.1")

    def accept(self):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(64)
        self.listener = listener
        threading.Thread(target=self._serve, args=(listener,), daemon=True).start()

    def _serve(self, listener):
        while True:
            try:
                raw, _ = listener.accept()
            except OSError:
                return
            connection = Connection(self, raw)
            with self.lock:
                self.connections.append(connection)
            connection.start()

    def refuse(self):
        """Nobody listens any more, and what was open is cut."""
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.cut()

    def cut(self, pattern=""):
        with self.lock:
            chosen = [c for c in self.connections if re.search(pattern, c.request)]
        for each in chosen:
            each.end()
        return len(chosen)

    def hang(self, pattern):
        with self.lock:
            chosen = [c for c in self.connections if re.search(pattern, c.request)]
        for each in chosen:
            each.hung = True
        return len(chosen)

    def fault(self, pattern, what, times=1):
        """what: bytes, a function of the request that makes them, or None: the connection ends."""
        fault = Fault(pattern, what, times, False)
        with self.lock:
            self.faults.append(fault)
        return fault

    def after(self, pattern, what=None, times=1):
        fault = Fault(pattern, what, times, True)
        with self.lock:
            self.faults.append(fault)
        return fault

    def clear(self):
        with self.lock:
            self.faults.clear()
        self.chunk, self.delay = 0, 0

    def arrived(self, request):
        with self.lock:
            self.seen.append(request)
            for fault in self.faults:
                if fault.left != 0 and fault.pattern.search(request):
                    fault.left = None if fault.left is None else fault.left - 1
                    return fault
        return None

    def done(self, request):
        with self.lock:
            self.ended.append(request)
            told = list(self.listeners)
        for each in told:
            each(request)

    def requests(self, pattern):
        with self.lock:
            return [r for r in self.seen if re.search(pattern, r)]

    def wait(self, pattern, n=1):
        until(lambda: len(self.requests(pattern)) >= n, lambda: f"{n} times {pattern}; last: {self.seen[-10:]}")

    def close(self):
        self.closing = True
        self.listener.close()
        self.cut()
