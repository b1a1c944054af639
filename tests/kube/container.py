"""One container of a pod as a process of this machine: what its environment, its paths and its end are. Used by kubelet.py.

There is no image and no mount: the command runs as it stands here, and where a variable, the command or an argument names a path below a mount,
it gets the path of this machine instead (mounts of the node's folders: below the node's root; emptyDir, Secret: folders of the pod's own).
DATA_PATH_PREFIX becomes the node's root, so that a script that cuts it from paths, as Sedna's library does, tells the path on the node.
"""

import base64
import os
import pathlib
import re
import shutil
import signal
import subprocess
import threading

from api import at, meta

DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL", "--"]
PREFIX = "DATA_PATH_PREFIX"


class NotYet(Exception):
    """Why a container cannot be started now: reason as the kubelet says it, and a message."""

    def __init__(self, reason, message):
        super().__init__(message)
        self.reason, self.message = reason, message


def bytes_of(api, kind, ns, name, optional=False):
    """{key: bytes} of a Secret or ConfigMap."""
    thing = api.get(kind, ns, name)
    if thing is None:
        if optional:
            return {}
        raise NotYet("CreateContainerConfigError", f'{kind.lower()} "{name}" not found')
    data = {k: v.encode() for k, v in (thing.get("stringData") or {}).items()}
    for key, value in (thing.get("data") or {}).items():
        data[key] = base64.b64decode(value) if kind == "Secret" else value.encode()
    return data


class Mounts:
    """Where the volumes of a pod are on this machine."""

    def __init__(self, api, pod, root, folder):
        self.api, self.ns, self.root, self.folder = api, meta(pod, "namespace"), root, folder
        self.volumes = {v["name"]: v for v in at(pod, "spec", "volumes", default=[])}

    def host_path(self, volume):
        path, kind = volume["hostPath"]["path"], volume["hostPath"].get("type") or ""
        here = pathlib.Path(self.root + path)
        if kind == "DirectoryOrCreate":
            here.mkdir(parents=True, exist_ok=True)
        if (kind == "Directory" and not here.is_dir()) or (kind == "File" and not here.is_file()):
            raise NotYet("ContainerCreating", f'MountVolume.SetUp failed for volume "{volume["name"]}": hostPath type check failed: '
                         f"{path} is not a {kind.lower()}")
        return str(here)

    def of(self, name):
        volume = self.volumes[name]
        if "hostPath" in volume:
            return self.host_path(volume)
        here = self.folder / "volumes" / name
        here.mkdir(parents=True, exist_ok=True)
        for kind, member, key in (("Secret", "secret", "secretName"), ("ConfigMap", "configMap", "name")):
            if member in volume:
                for file, data in bytes_of(self.api, kind, self.ns, volume[member][key], volume[member].get("optional")).items():
                    (here / file).write_bytes(data)
        return str(here)

    def table(self, container):
        """{path in the container: path here}."""
        found = {}
        for mount in container.get("volumeMounts") or []:
            here = self.of(mount["name"])
            if mount.get("subPath"):
                here = os.path.join(here, mount["subPath"])
            found[mount["mountPath"].rstrip("/") or "/"] = here
        return found


def mapped(text, table):
    """text with each path below a mount replaced; only whole paths, the longest mount first."""
    if not table or not text:
        return text
    names = "|".join(re.escape(p) for p in sorted(table, key=len, reverse=True))
    return re.sub(rf"(?<![\w./-])({names})(?=[/;,:\"'\s]|$)", lambda m: table[m[1]], text)


def expand(text, env):
    """$(NAME) as Kubernetes does; $$(NAME) is $(NAME)."""
    return re.sub(r"\$\$|\$\((\w[\w.-]*)\)", lambda m: "$" if m[0] == "$$" else env.get(m[1], m[0]), text)


def field(pod, path):
    label = re.fullmatch(r"metadata\.(labels|annotations)\['(.*)'\]", path)
    if label:
        return at(pod, "metadata", label[1], label[2], default="")
    if path in ("status.hostIP", "status.podIP"):
        return "127.0.0.1"
    return str(at(pod, *path.split("."), default=""))


def value_of(api, pod, entry):
    source = entry.get("valueFrom")
    if not source:
        return entry.get("value") or ""
    for kind, member in (("Secret", "secretKeyRef"), ("ConfigMap", "configMapKeyRef")):
        if member in source:
            ref = source[member]
            data = bytes_of(api, kind, meta(pod, "namespace"), ref["name"], ref.get("optional"))
            if ref["key"] in data:
                return data[ref["key"]].decode()
            if ref.get("optional"):
                return None
            raise NotYet("CreateContainerConfigError", f"couldn't find key {ref['key']} in {kind} {meta(pod, 'namespace')}/{ref['name']}")
    if "fieldRef" in source:
        return field(pod, source["fieldRef"]["fieldPath"])
    return "0"


def environment(api, pod, container, node_name):
    env = {"PATH": os.environ.get("PATH", "/usr/bin:/bin"), "LANG": "C.UTF-8", "HOSTNAME": node_name}
    if "TMPDIR" in os.environ:
        env["TMPDIR"] = os.environ["TMPDIR"]
    for entry in container.get("env") or []:
        value = value_of(api, pod, entry)
        if value is not None:
            env[entry["name"]] = expand(value, env)
    return env


class Container:
    """A container about to run. done(status) is called once, from any thread: an exit status, 128 + the signal if one ended it."""

    def __init__(self, kubelet, pod, spec, node, folder, log, done):
        api = kubelet.api
        self.pod, self.spec, self.log, self._done = pod, spec, log, done
        table = Mounts(api, pod, node.root, folder).table(spec)
        env = environment(api, pod, spec, node.name)
        self.env = {k: mapped(v, table) for k, v in env.items()}
        self.env.setdefault("HOME", str(folder))
        if PREFIX in env:
            self.env[PREFIX] = node.root
        self.env.update(node.env)
        program = self.image(kubelet)
        command = spec.get("command") or (program if isinstance(program, list) else [])
        self.entry = program if callable(program) and not spec.get("command") else None
        self.argv = [mapped(expand(a, env), table) for a in [*command, *(spec.get("args") or [])]]
        self.cwd = mapped(spec.get("workingDir") or "", table) or str(folder)
        self.process, self.stop, self.lock, self.over = None, None, threading.Lock(), False

    def image(self, kubelet):
        """What stands for the image: a command, a function, or nothing if the pod brings its command."""
        name = self.spec.get("image") or ""
        if name in kubelet.missing_images or (name not in kubelet.images and not self.spec.get("command")):
            raise NotYet("ImagePullBackOff", f'Back-off pulling image "{name}": ErrImagePull: not found')
        return kubelet.images.get(name)

    def done(self, status):
        with self.lock:
            if self.over:
                return
            self.over = True
        self._done(status)

    def start(self):
        """False if there is no such program."""
        if self.entry is not None:
            self.entry(self)
            return True
        if not self.argv or shutil.which(self.argv[0], path=self.env["PATH"]) is None or not os.path.isdir(self.cwd):
            return False
        with open(self.log, "ab") as log:
            # A session of its own, so that what it starts ends with it.
            self.process = subprocess.Popen([*DIES_WITH_US, *self.argv], stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.env,
                                            cwd=self.cwd, start_new_session=True)
        threading.Thread(target=self._wait, daemon=True).start()
        return True

    def _wait(self):
        status = self.process.wait()
        self._signal_all(signal.SIGKILL)
        self.done(status if status >= 0 else 128 - status)

    def _signal_all(self, how):
        try:
            os.killpg(self.process.pid, how)
        except ProcessLookupError:
            pass

    def end(self, how=signal.SIGTERM):
        """Ask it to end; done() says when it has."""
        if self.process is not None:
            self._signal_all(how)
        elif self.stop is not None and how == signal.SIGTERM:
            self.stop()
        else:
            self.done(128 + how)
