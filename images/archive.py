"""Layers and images as files: the same content is the same bytes, whoever makes it, wherever and when.

A layer is a tar with everything in order, owned by root (0, without names), all of one time: SOURCE_DATE_EPOCH, else
1970, which is what lets a layer that has not changed be the same layer in the next version. An image is a docker-archive: the layers, the
configuration named by its digest, and manifest.json; `docker load`, `podman load`, `ctr images import`, kind, k3s, skopeo and buildah read it.
"""

import hashlib
import io
import json
import os
import tarfile
import time


def epoch():
    return int(os.environ.get("SOURCE_DATE_EPOCH") or 0)


class Entry:
    """What is at one path of an image. `data`: bytes of a file, `link`: target of a symbolic link, neither: a folder."""

    def __init__(self, data=None, link=None, mode=None):
        self.data, self.link = data, link
        self.mode = mode if mode is not None else 0o644 if data is not None else 0o777 if link is not None else 0o755


def folder_of(path):
    return path.rpartition("/")[0]


def with_folders(entries):
    """`entries` (path without a leading slash -> Entry), and the folders above each that are not named."""
    every = dict(entries)
    for path in entries:
        while path := folder_of(path):
            every.setdefault(path, Entry())
    return every


def write_member(tar, path, data=None, link=None, mode=0o644):
    info = tarfile.TarInfo(path)
    info.mode, info.mtime = mode, epoch()
    if link is not None:
        info.type, info.linkname = tarfile.SYMTYPE, link
    elif data is None:
        info.type = tarfile.DIRTYPE
    else:
        info.size = len(data)
    tar.addfile(info, None if data is None else io.BytesIO(data))


def layer(entries):
    """The bytes of the layer with these entries."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.GNU_FORMAT) as tar:
        for path, entry in sorted(with_folders(entries).items()):
            write_member(tar, path, entry.data, entry.link, entry.mode)
    return out.getvalue()


def write_tree(top, entries):
    """The same entries as files below the folder `top`, which is made."""
    top.mkdir(parents=True)
    for path, entry in sorted(with_folders(entries).items()):
        real = top / path
        if entry.link is not None:
            real.symlink_to(entry.link)
            continue
        if entry.data is None:
            real.mkdir()
        else:
            real.write_bytes(entry.data)
        real.chmod(entry.mode)


def digest(data):
    return hashlib.sha256(data).hexdigest()


def timestamp():
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch()))


def configuration(arch, layers, config):
    """The image's JSON. `layers`: pairs of what a layer is for, and its digest."""
    return {
        "architecture": arch,
        "config": config,
        "created": timestamp(),
        "history": [{"created": timestamp(), "created_by": "scripts/build-images", "comment": what} for what, _ in layers],
        "os": "linux",
        "rootfs": {"diff_ids": [f"sha256:{name}" for _, name in layers], "type": "layers"},
        **({"variant": "v8"} if arch == "arm64" else {}),
    }


def compact(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def write_image(path, tag, arch, layers, config):
    """`layers`: pairs of what a layer is for, and its bytes. The file appears whole or not at all."""
    named = [(what, digest(data)) for what, data in layers]
    about = compact(configuration(arch, named, config))
    manifest = [{"Config": f"{digest(about)}.json", "RepoTags": [tag], "Layers": [f"{name}.tar" for _, name in named]}]
    members = {f"{digest(about)}.json": about, "manifest.json": compact(manifest)}
    members.update((f"{name}.tar", data) for (_, name), (_, data) in zip(named, layers))
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with tarfile.open(fresh, mode="w", format=tarfile.GNU_FORMAT) as tar:
            for name, data in sorted(members.items()):
                write_member(tar, name, data)
        fresh.rename(path)
    finally:
        fresh.unlink(missing_ok=True)
