#!/usr/bin/python3
"""The smallest service manager: what systemctl is asked for in tests/package, for one unit at a time, with the protocol that systemd speaks.

It reads User, ExecStart, StateDirectory, WatchdogSec and ConditionPathExists of the unit, runs the program with a NOTIFY_SOCKET, waits for READY
and keeps the status text. enable, is-enabled and the like are the real one's, which can do that without systemd. Every call is written down in
/run/manager/calls.
"""

import os
import pathlib
import pwd
import re
import signal
import socket
import subprocess
import sys
import time

RUN = pathlib.Path("/run/manager")
START_LIMIT = 20.0


def settings(unit):
    text = pathlib.Path(f"/lib/systemd/system/{unit}").read_text()
    return dict(re.findall(r"(?m)^(\w+)=(.*)$", text))


def put(name, text):
    new = RUN / f".{name}"
    new.write_text(text)
    new.rename(RUN / name)


def get(name):
    try:
        return (RUN / name).read_text()
    except FileNotFoundError:
        return ""


def run_service(unit, service):
    """In the place of this process, until the program has ended."""
    user = pwd.getpwnam(service["User"])
    state = pathlib.Path("/var/lib") / service["StateDirectory"]
    state.mkdir(exist_ok=True)
    os.chown(state, user.pw_uid, user.pw_gid)
    state.chmod(0o700)
    address = str(RUN / "notify")
    pathlib.Path(address).unlink(missing_ok=True)
    ear = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ear.bind(address)
    os.chmod(address, 0o777)
    env = {"PATH": os.environ["PATH"], "NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(int(service["WatchdogSec"]) * 1000000)}
    with open(RUN / "journal", "a", encoding="utf-8") as journal:
        child = subprocess.Popen(service["ExecStart"].split(), env=env, user=user.pw_uid, group=user.pw_gid, extra_groups=[],
                                 stdin=subprocess.DEVNULL, stdout=journal, stderr=journal)
    put("pid", str(child.pid))
    ear.settimeout(0.05)
    while child.poll() is None:
        try:
            message = ear.recv(4096).decode()
        except (TimeoutError, socket.timeout):
            continue
        if message == "READY=1":
            put("state", "active")
        if message.startswith("STATUS="):
            put("status", message[len("STATUS="):])
    put("state", "inactive" if child.returncode == 0 else "failed")
    (RUN / "pid").unlink()


def start(unit):
    service = settings(unit)
    if "ConditionPathExists" in service and not os.path.exists(service["ConditionPathExists"]):
        put("state", "inactive")
        return 0
    put("state", "activating")
    put("status", "")
    if os.fork() == 0:
        os.setsid()
        null = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(null, fd)
        run_service(unit, service)
        os._exit(0)
    end = time.monotonic() + START_LIMIT
    while get("state") == "activating" and time.monotonic() < end:
        time.sleep(0.01)
    return 0 if get("state") == "active" else 1


def stop():
    pid = get("pid")
    if not pid:
        return 0
    os.kill(int(pid), signal.SIGTERM)
    end = time.monotonic() + START_LIMIT
    while get("pid") and time.monotonic() < end:
        time.sleep(0.01)
    return 0


def main(words):
    flags = [w for w in words if w.startswith("-") and w != "--"]
    verb, *units = [w for w in words if not w.startswith("-")]
    with open(RUN / "calls", "a", encoding="utf-8") as calls:
        if verb in ("start", "stop", "restart", "daemon-reload"):
            calls.write(" ".join([verb, *units]) + "\n")
    unit = next((u for u in units if u.endswith(".service")), None)
    if verb in ("stop", "restart"):
        code = stop()
        return start(unit) if verb == "restart" else code
    if verb == "start":
        return 0 if get("state") == "active" else start(unit)
    if verb == "is-active":
        return 0 if get("state") == "active" else 3
    if verb == "is-failed":
        return 0 if get("state") == "failed" else 1
    if verb == "show" and "--property=StatusText" in flags:
        print(get("status"))
        return 0
    if verb in ("daemon-reload", "reset-failed"):
        return 0
    return subprocess.run(["/usr/bin/systemctl.real", "--root=/", *[w for w in words if w != "--system"]], check=False).returncode


sys.exit(main(sys.argv[1:]))
