#!/usr/bin/python3
"""Somebody who reads deployed models again and again, in a process of its own, and looks whether each is whole.

    python3 reader.py TARGET…       a TARGET is one word of JSON:
        {"name", "file": path}      a model that is a file
        {"name", "folder": path}    a model that is a folder: opened once, and all is read below that descriptor
        {"name", "hot": folder}     a hot-update folder: its model_config.json, then the model that this names
        {"name", "object": url, "key", "secret"}    an object at a store for S3

Models prove themselves (model_file, model_folder): digests of everything, and the number of the round, are in them. It says on its output, a line of
JSON each: {"name", "saw": round} for each round that it had not seen there, {"name", "bad": why}, and when its input ends {"reads": n} for each target.
Rounds that go backward are bad, and so is a configuration that names what is older than itself.

What reads a folder that is replaced meanwhile finds files gone, or fewer of them, in the one that it holds; it has read a whole one if the path still
leads to what it has opened when it is done (docs/writing-a-worker.md). That is the one case in which it reads again.
"""

import datetime
import hashlib
import hmac
import http.client
import json
import os
import select
import sys
import urllib.parse


class Bad(Exception):
    pass


class Replaced(Exception):
    pass


# ---- models ----

def filling(number, part, size):
    word = b"%d of %d. " % (part, number)
    return (word * (size // len(word) + 1))[:size]


def model_file(number):
    """Now larger, now smaller than what is copied at a time, and than the one before."""
    data = filling(number, 0, (700_000, 1_000, 300_000)[number % 3] + number)
    return b"%d %s\n" % (number, hashlib.sha256(data).hexdigest().encode()) + data


def model_folder(number):
    """Its files, by name: some that all rounds have, some that only this one has."""
    names = ["saved.pb", f"variables/data-{number}", "words"][:3 - number % 2]
    files = {name: filling(number, i, 1000 + 150_000 * i + number) for i, name in enumerate(names)}
    files["list"] = json.dumps({"round": number, "files": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}}).encode()
    return files


def check_file(data):
    head, _, rest = data.partition(b"\n")
    try:
        number, digest = head.split()
    except ValueError:
        raise Bad(f"begins with {head[:60]!r} and has {len(data)} bytes") from None
    if hashlib.sha256(rest).hexdigest().encode() != digest:
        raise Bad(f"of round {int(number)}, {len(data)} bytes: not those that it says")
    return int(number)


def check_folder(files):
    try:
        told = json.loads(files.pop("list"))
    except (KeyError, ValueError):
        raise Bad(f"tells nothing: {sorted(files)}") from None
    found = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    if found != told["files"]:
        raise Bad(f"of round {told['round']}: {sorted(found.items() ^ told['files'].items())}")
    return told["round"]


# ---- reading ----

def read_file(path):
    with open(path, "rb", buffering=0) as file:
        return check_file(file.read())


def read_below(fd):
    files = {}
    for folder, _, names, at in os.fwalk(".", dir_fd=fd):
        for name in names:
            with open(name, "rb", opener=lambda n, flags, at=at: os.open(n, flags, dir_fd=at)) as file:
                files[os.path.normpath(os.path.join(folder, name))] = file.read()
    return files


def read_folder(path):
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        try:
            return check_folder(read_below(fd))
        except (Bad, FileNotFoundError) as error:
            if os.stat(path).st_ino != os.fstat(fd).st_ino:
                raise Replaced from error
            raise
    finally:
        os.close(fd)


def read_hot(folder):
    with open(f"{folder}/model_config.json", encoding="utf-8") as file:
        config = json.load(file)["model_config"]
    path = f"{folder}/{os.path.basename(config['model_path'])}"
    number = read_folder(path) if os.path.isdir(path) else read_file(path)
    if number < int(config["model_update_time"].removeprefix("round-")):
        raise Bad(f"{config} is there before its model: that is of round {number}")
    return number


class Store:
    """GET, signed (Signature version 4), over a connection that is kept."""

    def __init__(self, key, secret):
        self.key, self.secret, self.connection = key, secret, None

    def sign(self, host, path):
        stamp = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
        headers = {"host": host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": stamp}
        lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
        request = "\n".join(["GET", path, "", lines, ";".join(headers), "UNSIGNED-PAYLOAD"])
        scope = [stamp[:8], "us-east-1", "s3", "aws4_request"]
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, "/".join(scope), hashlib.sha256(request.encode()).hexdigest()])
        secret = ("AWS4" + self.secret).encode()
        for part in scope:
            secret = hmac.new(secret, part.encode(), hashlib.sha256).digest()
        headers["Authorization"] = (f"AWS4-HMAC-SHA256 Credential={self.key}/{'/'.join(scope)}, SignedHeaders=host;x-amz-content-sha256;x-amz-date, "
                                    f"Signature={hmac.new(secret, text.encode(), hashlib.sha256).hexdigest()}")
        return headers

    def read(self, url):
        parts = urllib.parse.urlsplit(url)
        if self.connection is None:
            self.connection = http.client.HTTPConnection(parts.netloc, timeout=60)
        try:
            self.connection.request("GET", parts.path, headers=self.sign(parts.netloc, parts.path))
            answer = self.connection.getresponse()
            data = answer.read()
        except (http.client.RemoteDisconnected, ConnectionError):  # it keeps no connection for ever
            self.connection.close()
            self.connection = None
            raise Replaced from None
        if answer.status != 200:
            raise Bad(f"{answer.status}: {data[:300]!r}")
        return check_file(data)


LOOKS = 2000


def look(path):
    """That it is there at all moments, of which a read sees but one."""
    for _ in range(LOOKS):
        os.stat(path)


def reader_of(target):
    if "object" in target:
        store = Store(target["key"], target["secret"])
        return lambda: store.read(target["object"])
    kind, = set(target) - {"name"}
    path = target[kind]
    if kind == "hot":
        return lambda: read_hot(path)

    def read():
        look(path)
        return (read_file if kind == "file" else read_folder)(path)
    return read


def main():
    targets = [(target["name"], reader_of(target)) for target in map(json.loads, sys.argv[1:])]
    last, reads = dict.fromkeys((name for name, _ in targets), -1), 0

    def say(name, **what):
        print(json.dumps({"name": name, **what}), flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        for name, read in targets:
            try:
                number = read()
                if number < last[name]:
                    raise Bad(f"round {number} after {last[name]}")
            except Replaced:
                continue
            except (Bad, OSError) as error:
                say(name, bad=f"after round {last[name]}: {error}")
                continue
            if number > last[name]:
                last[name] = number
                say(name, saw=number)
        reads += 1
    for name, _ in targets:
        say(name, reads=reads)


if __name__ == "__main__":
    main()
