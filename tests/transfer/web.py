"""A real HTTP server (ranges, ETags, conditions, redirects), and a proxy that does everything wrong.

    web = Web(folder)                 serves the files of a folder
    web.ranges = web.etags = False    as simpler servers do
    web.weak = True                   its ETags are no strong ones
    web.redirects["/a"] = url
    proxy = BadProxy(port)            in front of any server of this machine
    proxy.faults = [...]              for the next requests that `only` is about, one after the other; None: none. The last may be repeated: proxy.always
    proxy.seen                        (method, path, headers)

Faults: ("cut", n) the answer ends after n bytes of the body; ("stall", n) it never goes on after them; ("status", code, headers, body) in place of
the server's answer; ("page",) 200 with a page; ("longer", n) and ("shorter", n) lie about the length; ("lost",) the server does it, and its
answer is lost; ("late", s) or comes after some seconds; ("close",) nobody answers; ("refuse_body",) closed while the body is being sent; ("hang",) what was sent is
taken and nothing comes back; ("flip", n) byte n is another one; ("instead", f) f() is called, and nobody
answers; ("done", f) f() is called when the server has done it, and the answer is lost.
"""

import email.utils
import hashlib
import http.client
import http.server
import threading
import urllib.parse

from strict_store import Quiet


class WebHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        web = self.server.web
        path = urllib.parse.unquote(self.path.partition("?")[0])
        web.requests.append((self.command, self.path, dict(self.headers)))
        if path in web.redirects:
            return self.answer(302, b"", Location=web.redirects[path])
        file = web.folder / path.lstrip("/")
        if not file.is_file():
            return self.answer(404, b"<html>nothing here</html>", Content_Type="text/html")
        data = file.read_bytes()
        headers = {"Last_Modified": email.utils.formatdate(file.stat().st_mtime, usegmt=True)}
        etag = f'{"W/" if web.weak else ""}"{hashlib.sha256(data).hexdigest()[:20]}"'
        if web.etags:
            headers["ETag"] = etag
            if self.headers.get("If-None-Match") == etag:
                return self.answer(304, b"", **headers)
            if "If-Match" in self.headers and (web.weak or self.headers["If-Match"] != etag):
                return self.answer(412, b"")
        wanted = self.headers.get("Range")
        if wanted and web.ranges:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            if first >= len(data):
                return self.answer(416, b"", Content_Range=f"bytes */{len(data)}")
            return self.answer(206, data[first:], Content_Range=f"bytes {first}-{len(data) - 1}/{len(data)}", **headers)
        if web.chunked and self.command == "GET":
            return self.chunked(data, headers)
        return self.answer(200, data, **headers)

    def answer(self, status, data, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            try:
                self.wfile.write(data)
            except OSError:
                pass  # the client was killed

    def chunked(self, data, headers):
        self.send_response(200)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for at in range(0, len(data), 50000):
            piece = data[at:at + 50000]
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")


class Server:
    def __init__(self, handler, tls=None):
        self.server = Quiet(("127.0.0.1", 0), handler)
        if tls:
            self.server.socket = tls.wrap_socket(self.server.socket, server_side=True)
        self.port = self.server.server_address[1]
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05})

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Web(Server):
    def __init__(self, folder, tls=None):
        super().__init__(WebHandler, tls)
        self.folder, self.ranges, self.etags, self.chunked, self.redirects, self.requests = folder, True, True, False, {}, []
        self.weak = False
        self.server.web = self
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self.thread.start()


class BadHandler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def forward(self, body):
        upstream = http.client.HTTPConnection("127.0.0.1", self.server.proxy.upstream, timeout=60)
        upstream.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if name.lower() not in ("connection", "expect"):
                upstream.putheader(name, value)
        upstream.putheader("Connection", "close")
        upstream.endheaders(body or None)
        answer = upstream.getresponse()
        data = answer.read()
        upstream.close()
        return answer.status, [(n, v) for n, v in answer.getheaders() if n.lower() not in ("connection", "transfer-encoding", "content-length", "server",
                                                                                          "date")], data, answer.getheader("Content-Length"), answer.getheader("Date")

    def send(self, status, headers, data, length=None, date=None):
        self.send_response_only(status)
        self.send_header("Date", date or self.date_time_string())
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data) if length is None else length))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)
            self.wfile.flush()

    def handle_any(self):
        proxy = self.server.proxy
        with proxy.lock:
            proxy.seen.append((self.command, self.path, dict(self.headers)))
            fault = None
            if proxy.only(self.command, self.path):
                fault = proxy.faults.pop(0) if proxy.faults else proxy.always
        try:
            self.act(fault)
        except OSError:
            self.close_connection = True  # the client has gone

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any

    def act(self, fault):
        kind = fault[0] if fault else None
        length = int(self.headers.get("Content-Length") or 0)
        if kind == "refuse_body":
            self.rfile.read(min(length, 100000))
            self.close_connection = True
            return
        body = self.rfile.read(length)
        if kind in ("close", "instead"):
            if kind == "instead":
                fault[1]()
            self.close_connection = True
            return
        if kind == "hang":
            self.server.proxy.stalled.set()
            self.server.proxy.closing.wait(60)
            self.close_connection = True
            return
        if kind == "status":
            return self.send(fault[1], list(fault[2].items()), fault[3])
        if kind == "page":
            return self.send(200, [("Content-Type", "text/html")], b"<html><body>Please sign in</body></html>")
        status, headers, data, said, date = self.forward(body)
        if kind == "done":
            fault[1]()
            self.close_connection = True
            return
        if kind == "late":
            self.server.proxy.closing.wait(fault[1])
        if self.command == "HEAD" and said is not None:
            return self.send(status, headers, b"", said, date)
        if kind == "lost":
            self.close_connection = True
        elif kind == "cut":
            self.send(status, headers, data[:fault[1]], len(data), date)
            self.close_connection = True
        elif kind == "stall":
            self.send(status, headers, data[:fault[1]], len(data), date)
            self.server.proxy.stalled.set()
            self.server.proxy.closing.wait(60)
            self.close_connection = True
        elif kind == "longer":
            self.send(status, headers, data, len(data) + fault[1], date)
            self.close_connection = True
        elif kind == "shorter":
            self.send(status, headers, data[:len(data) - fault[1]], None, date)
        elif kind == "flip":
            self.send(status, headers, data[:fault[1]] + bytes([data[fault[1]] ^ 1]) + data[fault[1] + 1:], None, date)
        else:
            self.send(status, headers, data, None, date)


class BadProxy(Server):
    def __init__(self, upstream):
        super().__init__(BadHandler)
        self.upstream, self.faults, self.always, self.seen = upstream, [], None, []
        self.only = lambda method, path: True
        self.lock, self.stalled, self.closing = threading.Lock(), threading.Event(), threading.Event()
        self.server.proxy = self
        self.thread.start()

    def close(self):
        self.closing.set()
        super().close()
