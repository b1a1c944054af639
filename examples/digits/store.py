"""Files to an object store: what workers and scripts of this example send to s3:// urls.

The work is done by ilmare-transfer, a program of its own, which is looked for in PATH unless DIGITS_TRANSFER names it. It takes the store's address
and key from the environment (S3_ENDPOINT_URL, ACCESS_KEY_ID, SECRET_ACCESS_KEY), where a worker has them; they never stand on a command line.

What a worker reads needs none of this: remote files have been fetched before it starts, and its variables hold local paths.
"""

import json
import os
import subprocess

from worker import WorkerError

EXISTS = 14


def is_remote(url):
    return "://" in url


def require_s3(name, url):
    if not url.startswith("s3://"):
        raise WorkerError(f"{name}: {url}: only local paths and s3:// urls can be written to")
    return url


def join(url, *names):
    return "/".join((url.rstrip("/"), *names))


def transfer(*arguments, accepted=()):
    """Run it. Returns its last line, decoded; None if it ended with one of the accepted statuses. Raises WorkerError otherwise."""
    program = os.environ.get("DIGITS_TRANSFER") or "ilmare-transfer"
    try:
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, check=False)
    except OSError as error:
        raise WorkerError(f"{program}: {error.strerror}; it is needed for s3:// urls (in PATH, or named by DIGITS_TRANSFER)") from error
    if done.returncode in accepted:
        return None
    lines = done.stdout.splitlines()
    try:
        last = json.loads(lines[-1]) if lines else {}
    except ValueError:
        last = {}
    if done.returncode != 0:
        raise WorkerError(f"{program} {arguments[0]}: status {done.returncode}: {last.get('message', 'it did not say why')}")
    return last


def put(path, url, only_new=False):
    """Send a file. With only_new one that is there stays, and the answer is False."""
    flags = ["--new"] if only_new else []
    return transfer("put", *flags, path, url, accepted=(EXISTS,) if only_new else ()) is not None


def put_folder(path, url):
    """Send all files below a folder."""
    transfer("put-folder", path, url)
