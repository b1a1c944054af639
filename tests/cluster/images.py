"""Images made by hand, as archives that containerd imports: nothing is pulled from anywhere.

    archive(path, "worker:v1", tar_of_files([...]), {"Entrypoint": [...]})
"""

import functools
import hashlib
import io
import json
import os
import pathlib
import re
import subprocess
import tarfile

from bed import sh

PAUSE = "#include <unistd.h>\nint main(void)\n{\n\tfor (;;)\n\t\tpause();\n}\n"


# What a statically linked program needs for looking names up.
LIBRARIES = [f"/lib/x86_64-linux-gnu/{each}" for each in ("libc.so.6", "libresolv.so.2", "libnss_dns.so.2", "libnss_files.so.2")]
LIBRARIES.append("/lib64/ld-linux-x86-64.so.2")


def add(tar, source, name):
    """A file, link or folder of this machine, as root's."""
    info = tar.gettarinfo(source, arcname=name)
    if info is None:
        return
    info.uid = info.gid = 0
    info.uname = info.gname = "root"
    if info.isreg():
        with open(source, "rb") as file:
            tar.addfile(info, file)
    else:
        tar.addfile(info)


def archive(path, reference, layers, config=None):
    """path: the archive to be made (docker's format); layers: tar files, lowest first."""
    def digest(file):
        with open(file, "rb") as data:
            return hashlib.file_digest(data, "sha256").hexdigest()
    digests = [digest(each) for each in layers]
    image = json.dumps({"architecture": "amd64", "os": "linux", "config": {"Env": ["PATH=/usr/sbin:/usr/bin:/sbin:/bin"], **(config or {})},
                        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{each}" for each in digests]}}).encode()
    name = hashlib.sha256(image).hexdigest() + ".json"
    manifest = json.dumps([{"Config": name, "RepoTags": [reference], "Layers": [f"{each}/layer.tar" for each in digests]}]).encode()
    with tarfile.open(path, "w") as tar:
        for each, text in ((name, image), ("manifest.json", manifest)):
            info = tarfile.TarInfo(each)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text))
        for each, file in zip(digests, layers):
            tar.add(file, arcname=f"{each}/layer.tar")
    return path


def pause_image(folder):
    """What holds a pod's network: a program that waits."""
    (folder / "pause.c").write_text(PAUSE)
    sh("gcc", "-Os", "-static", "-o", folder / "pause", folder / "pause.c")
    with tarfile.open(folder / "pause.layer", "w") as tar:
        add(tar, folder / "pause", "pause")
    return archive(folder / "pause.tar", "pause:test", [folder / "pause.layer"], {"Entrypoint": ["/pause"]})


def busybox_image(folder):
    """A shell and the usual programs, for what a test wants to look at from within a pod."""
    names = [each for each in sh("busybox", "--list").split() if each != "busybox"]
    with tarfile.open(folder / "busybox.layer", "w") as tar:
        add(tar, os.path.realpath("/bin/busybox"), "bin/busybox")
        for each in LIBRARIES:
            add(tar, os.path.realpath(each), each.strip("/"))
        for each in names:
            info = tarfile.TarInfo(f"bin/{each}")
            info.type, info.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(info)
        info = tarfile.TarInfo("tmp")
        info.type, info.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(info)
    return archive(folder / "busybox.tar", "busybox:test", [folder / "busybox.layer"], {"Cmd": ["/bin/sh"]})
