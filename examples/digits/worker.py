"""What every worker of this example needs to know of the world: variables and one HTTP endpoint.

A worker is started with its orders in environment variables and answers with one POST to the edge agent of its
node. Nothing of Ilmare is imported or linked: this file, the standard library and numpy are all there is, so it
can be copied into an image of your own and changed.

Design:
- Worker reads the variables once and refuses to start when one is missing, naming it.
- A url without a scheme is a path. In a container the node's folders are mounted below DATA_PATH_PREFIX; what is
  reported is the path on the node, so the prefix is cut off again (Worker.path_on_node).
- report() makes five attempts, three seconds apart. Only 200 with a JSON body is success. An answer that cannot
  change by asking again (400, 409, 413, 422 with a JSON body) ends the attempts at once.
- run() turns every way to fail into a line on standard error, a `failed` report and an exit status.

Invariant: nothing is reported before the files it speaks of are complete on disk.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

ATTEMPTS = 5
PAUSE_SECONDS = 3.0
ANSWER_LIMIT = 64 * 1024
FINAL_ANSWERS = (400, 409, 413, 422)
DEFAULT_PREFIX = "/home/data"


class WorkerError(Exception):
    """The worker cannot do what it was asked to; the text says why."""


class ReportError(WorkerError):
    """The agent did not take a report. `status` is its last HTTP status, None without one."""

    def __init__(self, message, status=None):
        super().__init__(message)
        self.status = status


def log(text, **fields):
    """One line: constant text, then key=value."""
    pairs = "".join(f" {key}={value}" for key, value in fields.items())
    print(f"{text}{pairs}", file=sys.stderr, flush=True)


def ask(url, message, timeout):
    """One POST. Returns (status, text); status is None when there was no HTTP answer, and 200 only with a JSON body."""
    request = urllib.request.Request(url, json.dumps(message).encode(), {"Content-Type": "application/json"}, method="POST")
    # The agent is on this node: a proxy that the image's environment names must not get in between.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=timeout) as answer:
            status, body = answer.status, answer.read(ANSWER_LIMIT)
    except urllib.error.HTTPError as error:
        with error:
            status, body = error.code, error.read(ANSWER_LIMIT)
    except (OSError, http.client.HTTPException) as error:
        return None, str(error)
    text = body.decode(errors="replace")
    try:
        answer = json.loads(text)
    except ValueError:
        return None, f"status {status} with a body that is not JSON"
    return status, answer.get("Message", text) if isinstance(answer, dict) else text


def post(url, message, attempts=ATTEMPTS, pause=PAUSE_SECONDS, timeout=60.0):
    """POST until it is taken. Raises ReportError after the last attempt or at an answer that is final."""
    status, text = None, "not tried"
    for attempt in range(1, attempts + 1):
        status, text = ask(url, message, timeout)
        if status == 200:
            return
        log("report not taken", attempt=attempt, status=status, answer=json.dumps(text))
        if status in FINAL_ANSWERS:
            break
        if attempt < attempts:
            time.sleep(pause)
    raise ReportError(f"{url}: report not taken: {text}", status)


class Worker:
    """Identity and orders of this worker. kind: train, eval or inference."""

    def __init__(self, kind, environ=os.environ):
        self.kind = kind
        self.environ = environ
        self.name = self.need("WORKER_NAME")
        self.namespace = self.need("NAMESPACE")
        self.job = self.need("JOB_NAME")
        self.server = environ.get("LC_SERVER") or "http://localhost:9100"
        # Set but empty means that paths are the node's own; only an unset variable has the default.
        self.prefix = environ.get("DATA_PATH_PREFIX", DEFAULT_PREFIX).rstrip("/")

    def need(self, name):
        value = self.environ.get(name, "")
        if not value:
            raise WorkerError(f"environment variable {name} is missing or empty")
        return value

    def seconds(self, name, default):
        text = self.environ.get(name) or str(default)
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0.0 <= value < 1e9:
            raise WorkerError(f"environment variable {name}: {text!r} is not a number of seconds")
        return value

    def local_path(self, name):
        """The path in variable `name`, which is read and so has to be local; empty string if it is not set."""
        return require_local(name, self.environ.get(name, ""))

    def path_on_node(self, path):
        """The same file as the node calls it: without the folder that the node's folders are mounted below."""
        if self.prefix and path.startswith(self.prefix + "/"):
            return path[len(self.prefix):]
        return path

    def report(self, status=None, results=(), kind=None, owner_info=None, **limits):
        """Send one report; `limits` go to post(). Returns when the agent has taken it, raises ReportError otherwise."""
        message = {
            "name": self.name,
            "namespace": self.namespace,
            "ownerName": self.job,
            "ownerKind": "incrementallearningjob",
            "kind": kind or self.kind,
            "results": list(results),
        }
        if status is not None:
            message["status"] = status
        if owner_info is not None:
            message["ownerInfo"] = owner_info
        name = urllib.parse.quote(self.name, safe="")
        post(f"{self.server.rstrip('/')}/sedna/workers/{name}/info", message, **limits)


def require_local(name, url):
    if "://" in url:
        raise WorkerError(f"{name}: {url}: this example reads local paths only")
    return url


def failure_asked(environ):
    """The way to fail that DIGITS_FAIL asks for ("" none). "how:/path" holds only while the path exists."""
    how, _, path = environ.get("DIGITS_FAIL", "").partition(":")
    if how not in ("", "exit", "silent"):
        raise WorkerError(f"DIGITS_FAIL: {how!r} is neither exit nor silent")
    return how if not path or os.path.exists(path) else ""


def run(kind, work):
    """Body of a worker that ends: calls work(worker) and exits.

    0: reported, or the agent said that this worker's round is over (409). 1: anything else; started again by the
    restart policy, a worker then does the same work again from the same base model.
    """
    worker = None
    try:
        worker = Worker(kind)
        how = failure_asked(worker.environ)
        if how == "silent":
            log("ending without a report, as DIGITS_FAIL asks", worker=worker.name)
            sys.exit(0)
        if how == "exit":
            raise WorkerError("failing as DIGITS_FAIL asks")
        work(worker)
    except ReportError as error:
        log("error: report refused", reason=error)
        sys.exit(0 if error.status == 409 else 1)
    except (WorkerError, OSError) as error:
        log("error: worker failed", kind=kind, reason=error)
        if worker is not None:
            tell_failure(worker)
        sys.exit(1)


def tell_failure(worker):
    """Once only: a failure is decided by the exit status, the report is for whoever looks."""
    try:
        worker.report("failed", attempts=1, timeout=5.0)
    except ReportError:
        pass
