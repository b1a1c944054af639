"""A store for S3 in memory that is stricter than any real one: the path and the query have to be written as they are signed, every header that is
signed has to be there, the digest has to be that of the body, and the clock is looked at. Written from the description of the signature alone.

    store = StrictStore()           on a free loopback port
    store.offset = -1200            its clock, in seconds beside ours
    store.objects["bucket", "key"]  bytes
    store.requests                  (method, path, status), in order
    store.log                       ("copied" or "removed", key), in order
    store.kept["key"] = "Code"      a removal of several does not remove it, and says that

A request in absolute form, as to a proxy, is for the bucket in the host's name.
"""

import base64
import calendar
import hashlib
import hmac
import http.server
import threading
import time
import urllib.parse
import xml.etree.ElementTree
import xml.sax.saxutils

UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
SKEW = 900


def encode(raw, slash):
    return "".join(chr(b) if chr(b) in UNRESERVED or (slash and b == 0x2F) else f"%{b:02X}" for b in raw)


def decode(text):
    return urllib.parse.unquote_to_bytes(text)


class Refused(Exception):
    def __init__(self, status, code, message=""):
        super().__init__(code)
        self.status, self.code, self.message = status, code, message


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def now(self):
        return time.time() + self.server.store.offset

    def date_time_string(self, timestamp=None):
        return super().date_time_string(self.now())

    # ---- the signature ----

    def check(self, path, query, body):
        store = self.server.store
        if path != encode(decode(path), True):
            raise Refused(403, "SignatureDoesNotMatch", "the path is not written as it is signed")
        pairs = [p.split("=", 1) for p in query.split("&")] if query else []
        if any(len(p) != 2 or any(t != encode(decode(t), False) for t in p) for p in pairs) or pairs != sorted(pairs):
            raise Refused(403, "SignatureDoesNotMatch", "the query is not written as it is signed")
        given = self.headers.get("Authorization", "")
        if not given.startswith("AWS4-HMAC-SHA256 "):
            raise Refused(403, "AccessDenied", "not signed")
        fields = dict(f.strip().split("=", 1) for f in given.removeprefix("AWS4-HMAC-SHA256 ").split(","))
        key, day, region, service, kind = fields["Credential"].split("/")
        stamp, digest = self.headers["X-Amz-Date"], self.headers["x-amz-content-sha256"]
        if key != store.key:
            raise Refused(403, "InvalidAccessKeyId")
        if (region, service, kind) != (store.region, "s3", "aws4_request") or day != stamp[:8]:
            raise Refused(400, "AuthorizationHeaderMalformed")
        if abs(calendar.timegm(time.strptime(stamp, "%Y%m%dT%H%M%SZ")) - self.now()) > SKEW:
            raise Refused(403, "RequestTimeTooSkewed", "the difference is too large")
        if digest != hashlib.sha256(body).hexdigest():
            raise Refused(400, "XAmzContentSHA256Mismatch")
        names = fields["SignedHeaders"].split(";")
        needed = {"host"} | {n.lower() for n in self.headers if n.lower().startswith("x-amz-")}
        if names != sorted(names) or not needed <= set(names):
            raise Refused(403, "AccessDenied", "not all headers are signed")
        lines = "".join(f"{n}:{' '.join(self.headers[n].split())}\n" for n in names)
        request = "\n".join([self.command, path, query, lines, ";".join(names), digest])
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, f"{day}/{region}/{service}/{kind}", hashlib.sha256(request.encode()).hexdigest()])
        secret = ("AWS4" + store.secret).encode()
        for part in (day, region, service, kind):
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        if not hmac.compare_digest(hmac.new(secret, text.encode(), hashlib.sha256).hexdigest(), fields["Signature"]):
            raise Refused(403, "SignatureDoesNotMatch")

    # ---- answers ----

    def answer(self, status, body=b"", **headers):
        self.server.store.requests.append((self.command, self.path, status))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if "Content_Length" not in headers:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def xml(self, status, inside):
        self.answer(status, f'<?xml version="1.0" encoding="UTF-8"?>\n{inside}'.encode())

    def handle_any(self):
        store = self.server.store
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        target, host = self.path, None
        if target.startswith("http://"):
            host, _, rest = target[7:].partition("/")
            target = "/" + rest
        path, _, query = target.partition("?")
        try:
            self.check(path, query, body)
            raw = decode(path)
            if host is not None and host.endswith(".s3.amazonaws.com"):
                bucket, key = host.removesuffix(".s3.amazonaws.com"), raw[1:]
            else:
                bucket, _, key = (p if isinstance(p, str) else p for p in raw[1:].partition(b"/"))
                bucket = bucket.decode()
            if bucket not in store.buckets:
                raise Refused(404, "NoSuchBucket")
            arguments = {n: decode(v) for n, v in (p.split("=", 1) for p in query.split("&") if p)}
            with store.lock:
                self.act(bucket, key, arguments, body)
        except Refused as e:
            escaped = xml.sax.saxutils.escape(e.message)
            self.xml(e.status, f"<Error><Code>{e.code}</Code><Message>{escaped}</Message></Error>")

    do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = handle_any

    def act(self, bucket, key, arguments, body):
        if self.command in ("GET", "HEAD"):
            if "list-type" in arguments:
                return self.list(bucket, arguments)
            if "uploads" in arguments:
                return self.uploads(bucket, arguments)
            return self.read(bucket, key)
        if self.command == "DELETE":
            if "uploadId" in arguments:
                self.server.store.parts.pop(arguments["uploadId"].decode(), None)
            else:
                self.server.store.remove(bucket, key.decode("utf-8", "surrogateescape"))
            return self.answer(204)
        if "delete" in arguments:
            return self.remove(bucket, body)
        if "x-amz-copy-source" in self.headers:
            return self.copy(bucket, key)
        return self.upload(bucket, key, arguments, body)

    def read(self, bucket, key):
        data = self.server.store.objects.get((bucket, key.decode("utf-8", "surrogateescape")))
        if data is None:
            raise Refused(404, "NoSuchKey")
        etag = self.server.store.etag(bucket, key)
        if self.headers.get("If-Match", etag) != etag:
            raise Refused(412, "PreconditionFailed")
        if self.headers.get("If-None-Match") == etag:
            return self.answer(304, ETag=etag)
        modified = self.date_time_string()
        wanted = self.headers.get("Range")
        if wanted:
            first = int(wanted.removeprefix("bytes=").rstrip("-"))
            if first >= len(data):
                return self.answer(416, Content_Range=f"bytes */{len(data)}")
            return self.answer(206, data[first:], ETag=etag, Last_Modified=modified,
                               Content_Range=f"bytes {first}-{len(data) - 1}/{len(data)}")
        length = {"Content_Length": str(len(data))} if self.command == "HEAD" else {}
        return self.answer(200, data, ETag=etag, Last_Modified=modified, **length)

    def list(self, bucket, arguments):
        store = self.server.store
        text = {n: v.decode("utf-8", "surrogateescape") for n, v in arguments.items()}
        prefix, after, delimiter = text.get("prefix", ""), decode(text.get("continuation-token", "")), text.get("delimiter")
        found = {}  # an object, or None for a folder
        for b, k in list(store.objects):
            if b == bucket and k.startswith(prefix):
                rest = k[len(prefix):]
                if delimiter and delimiter in rest:
                    found[prefix + rest[:rest.index(delimiter) + 1]] = None
                else:
                    found[k] = store.objects[b, k]
        raw = lambda k: k.encode("utf-8", "surrogateescape")  # noqa: E731
        names = sorted((k for k in found if raw(k) > after), key=raw)
        page = names[:store.page]
        quoted = (lambda k: urllib.parse.quote_plus(raw(k), safe="/")) if "encoding-type" in arguments else xml.sax.saxutils.escape
        escaped = lambda k: xml.sax.saxutils.escape(store.etag(bucket, raw(k)), {'"': "&quot;"})  # noqa: E731
        out = "".join(f"<Contents><Key>{quoted(k)}</Key><ETag>{escaped(k)}</ETag><Size>{len(found[k])}</Size></Contents>"
                      for k in page if found[k] is not None)
        out += "".join(f"<CommonPrefixes><Prefix>{quoted(k)}</Prefix></CommonPrefixes>" for k in page if found[k] is None)
        if "encoding-type" in arguments:
            out += "<EncodingType>url</EncodingType>"
        more = len(names) > len(page)
        out += f"<IsTruncated>{str(more).lower()}</IsTruncated>"
        if more:
            out += f"<NextContinuationToken>{urllib.parse.quote(raw(page[-1]))}</NextContinuationToken>"
        self.xml(200, f'<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{out}</ListBucketResult>')

    def remove(self, bucket, body):
        if self.headers.get("Content-MD5") != base64.b64encode(hashlib.md5(body).digest()).decode():
            raise Refused(400, "InvalidDigest")
        keys = [e.text for e in xml.etree.ElementTree.fromstring(body).iter() if e.tag.endswith("}Key")]
        if not 0 < len(keys) <= 1000:
            raise Refused(400, "MalformedXML")
        out = ""
        for key in keys:
            if key in self.server.store.kept:
                out += f"<Error><Key>{xml.sax.saxutils.escape(key)}</Key><Code>{self.server.store.kept[key]}</Code><Message>no</Message></Error>"
            else:
                self.server.store.remove(bucket, key)
        self.xml(200, f'<DeleteResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{out}</DeleteResult>')

    def copy(self, bucket, key):
        store, source = self.server.store, self.headers["x-amz-copy-source"]
        if source != encode(decode(source), True) or not source.startswith("/"):
            raise Refused(400, "InvalidArgument", "the source is not written as it is signed")
        of, _, name = decode(source)[1:].decode("utf-8", "surrogateescape").partition("/")
        if (of, name) not in store.objects:
            raise Refused(404, "NoSuchKey")
        target = key.decode("utf-8", "surrogateescape")
        store.objects[bucket, target] = store.objects[of, name]
        store.etags.pop((bucket, target), None)
        store.log.append(("copied", target))
        etag = xml.sax.saxutils.escape(store.etag(bucket, key))
        self.xml(200, f"<CopyObjectResult><LastModified>2026-11-30T00:00:00.000Z</LastModified><ETag>{etag}</ETag></CopyObjectResult>")

    def uploads(self, bucket, arguments):
        prefix = arguments.get("prefix", b"").decode()
        out = ""
        for name, (b, key, begun, _) in self.server.store.parts.items():
            if b == bucket and key.startswith(prefix):
                when = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(begun))
                out += f"<Upload><Key>{xml.sax.saxutils.escape(key)}</Key><UploadId>{name}</UploadId><Initiated>{when}</Initiated></Upload>"
        self.xml(200, f"<ListMultipartUploadsResult>{out}</ListMultipartUploadsResult>")

    def upload(self, bucket, key, arguments, body):
        store, name = self.server.store, key.decode("utf-8", "surrogateescape")
        if "uploads" in arguments:
            store.count += 1
            store.parts[f"upload-{store.count}"] = (bucket, name, self.now(), {})
            return self.xml(200, f"<InitiateMultipartUploadResult><UploadId>upload-{store.count}</UploadId></InitiateMultipartUploadResult>")
        if "uploadId" in arguments:
            upload = store.parts.get(arguments["uploadId"].decode())
            if upload is None:
                raise Refused(404, "NoSuchUpload")
            if "partNumber" in arguments:
                upload[3][int(arguments["partNumber"])] = body
                return self.answer(200, ETag=f'"{hashlib.md5(body).hexdigest()}"')
        if self.headers.get("If-None-Match") == "*" and (bucket, name) in store.objects:
            raise Refused(412, "PreconditionFailed")
        if "uploadId" in arguments:
            parts = [upload[3][n] for n in sorted(upload[3])]
            store.objects[bucket, name] = b"".join(parts)
            etag = f'"{hashlib.md5(b"".join(hashlib.md5(p).digest() for p in parts)).hexdigest()}-{len(parts)}"'
            store.etags[bucket, name] = etag
            del store.parts[arguments["uploadId"].decode()]
            escaped = xml.sax.saxutils.escape(etag)
            return self.xml(200, f"<CompleteMultipartUploadResult><ETag>{escaped}</ETag></CompleteMultipartUploadResult>")
        store.objects[bucket, name] = body
        store.etags.pop((bucket, name), None)
        return self.answer(200, ETag=store.etag(bucket, key))


class Quiet(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass  # a client that goes away in the middle is nothing to speak of


class StrictStore:
    key, secret, region = "the-key", "the-secret+with/signs", "eu-test-1"

    def __init__(self, *buckets):
        self.buckets, self.objects, self.etags, self.parts, self.requests = set(buckets), {}, {}, {}, []
        self.offset, self.count, self.page, self.lock = 0, 0, 3, threading.Lock()
        self.kept, self.log = {}, []
        self.server = Quiet(("127.0.0.1", 0), Handler)
        self.server.store = self
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()

    def remove(self, bucket, key):
        self.objects.pop((bucket, key), None)
        self.log.append(("removed", key))

    def etag(self, bucket, key):
        name = key.decode("utf-8", "surrogateescape")
        return self.etags.get((bucket, name)) or f'"{hashlib.md5(self.objects[bucket, name]).hexdigest()}"'

    def env(self, port=None):
        return {"S3_ENDPOINT_URL": f"http://127.0.0.1:{port or self.port}", "ACCESS_KEY_ID": self.key, "SECRET_ACCESS_KEY": self.secret,
                "AWS_REGION": self.region}

    def close(self):
        self.server.shutdown()
        self.server.server_close()
