"""Images as the tests see them: read from the archives with nothing of what made them, and unpacked as a container runtime does.

Archives are those in the folder that ILMARE_IMAGES names (build/images otherwise).
"""

import functools
import hashlib
import io
import json
import os
import pathlib
import tarfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NAMES = ("ilmare-cloud", "ilmare-edge", "ilmare-transfer", "ilmare-broker")
ARCHS = ("amd64", "arm64")
EVERY = [(name, arch) for arch in ARCHS for name in NAMES]


def folder():
    return (ROOT / os.environ.get("ILMARE_IMAGES", "build/images")).resolve()


class Image:
    """`members`: names in the archive in order; `manifest` and `config`: JSON; `layers`: bytes; `files`: path -> (TarInfo, bytes or None)."""

    def __init__(self, path):
        self.path = path
        blobs = {}
        with tarfile.open(path) as archive:
            self.infos = archive.getmembers()
            for info in self.infos:
                blobs[info.name] = archive.extractfile(info).read()
        self.manifest = json.loads(blobs["manifest.json"])
        self.config_name = self.manifest[0]["Config"]
        self.config_bytes = blobs[self.config_name]
        self.config = json.loads(self.config_bytes)
        self.layer_names = self.manifest[0]["Layers"]
        self.layers = [blobs[name] for name in self.layer_names]
        self.strangers = set(blobs) - {"manifest.json", self.config_name, *self.layer_names}
        self.files = {}
        self.layer_infos = []
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                infos = tar.getmembers()
                self.layer_infos.append(infos)
                for info in infos:
                    self.files[info.name] = (info, tar.extractfile(info).read() if info.isreg() else None)

    def digests(self):
        return [hashlib.sha256(layer).hexdigest() for layer in self.layers]

    def resolve(self, path):
        """The path of what is at `path` after all links, or None."""
        parts, done, hops = path.strip("/").split("/"), [], 0
        while parts:
            part = parts.pop(0)
            if part == "..":
                done = done[:-1]
                continue
            if part in ("", "."):
                continue
            info = self.files.get("/".join([*done, part]), (None,))[0]
            if info is None:
                return None
            if info.issym():
                hops += 1
                if hops > 40:
                    return None
                if info.linkname.startswith("/"):
                    done = []
                parts = info.linkname.strip("/").split("/") + parts
                continue
            done.append(part)
        return "/".join(done)

    def read(self, path):
        """Bytes of a file, through links."""
        at = self.resolve(path)
        return None if at is None else self.files[at][1]

    def unpack(self, top):
        """The root file system below the folder `top`, as a runtime makes it: with the files that it mounts things over."""
        top.mkdir()
        for layer in self.layers:
            with tarfile.open(fileobj=io.BytesIO(layer)) as tar:
                tar.extractall(top)
        (top / "etc/hosts").write_text("127.0.0.1 localhost\n")
        (top / "etc/resolv.conf").touch()
        for name in ("proc", "dev"):
            (top / name).mkdir(exist_ok=True)
        return top


@functools.lru_cache(maxsize=None)
def image(name, arch):
    path = folder() / f"{name}-{arch}.tar"
    if not path.exists():
        raise FileNotFoundError(f"{path}: run scripts/build-images --arch all first, or name another folder in ILMARE_IMAGES")
    return Image(path)
