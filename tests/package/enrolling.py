"""What enrolment takes besides the device: a file as scripts/enroll-node prints it, and the cloud agent's endpoint.

The endpoint is a stand-in: it signs for whoever has the token. Who may have what is tested where the real one is (tests/kube, tests/cluster).
"""

import datetime
import http.server
import json
import pathlib
import ssl
import subprocess
import tempfile
import threading

TOKEN = "3q2-7wAAAAabcdefghijklmnopqrstuvwxyz._~+/="


class Endpoint:
    def __init__(self, pki):
        self.authority = pki.dir / "authority" / "devices" / "1"
        self.asked = 0
        endpoint = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                status, answer = endpoint.answer(request)
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pki.folder("broker") / "broker.crt", pki.folder("broker") / "broker.key")
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://localhost:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def answer(self, request):
        self.asked += 1
        if request.get("token") != TOKEN:
            return 403, {"Status": "Forbidden", "Message": "the token is not known"}
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "csr").write_text(request["csr"])
            (folder / "ext").write_text("extendedKeyUsage = clientAuth\n")
            made = subprocess.run(["openssl", "x509", "-req", "-in", folder / "csr", "-CA", self.authority / "ca.crt", "-CAkey",
                                   self.authority / "ca.key", "-set_serial", "4711", "-days", "30", "-extfile", folder / "ext"],
                                  capture_output=True, text=True, check=True)
        end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(days=30)
        return 200, {"v": 1, "certificate": made.stdout, "notAfter": end.strftime("%Y-%m-%dT%H:%M:%SZ")}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


def commented(text):
    return "".join(f"# {line}\n" for line in text.splitlines())


def enrolment_file(ca, node="edge-7", broker="mqtts://localhost:1", url="https://localhost:1", hours=24, token=TOKEN, more=""):
    end = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(hours=hours)
    return (f"# Ilmare enrolment file, version 1\n# node: {node}\n# expires: {end:%Y-%m-%dT%H:%M:%SZ}\n"
            f"# It is a secret.\n\n# This device's name.\nnode: {node}\n\nmqtt:\n  brokers: [{broker}]\n  caFile: /etc/ilmare/tls/ca.crt\n\n"
            f"enrolment:\n  url: {url}\n  tokenFile: /etc/ilmare/enrolment-token\n{more}\n"
            f"# BEGIN ILMARE AUTHORITY\n{commented(ca)}# END ILMARE AUTHORITY\n# BEGIN ILMARE TOKEN\n# {token}\n# END ILMARE TOKEN\n")
