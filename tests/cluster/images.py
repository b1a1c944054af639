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


# ---- images of Debian packages ----

# What no program of an image reads.
NO_USE = re.compile(r"^/usr/share/(doc|man|locale|info|lintian|bash-completion|pixmaps|applications|doc-base|reportbug)/|/tests/|\.(a|h|pyi|c)$|^/\.$")
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


@functools.lru_cache(None)
def installed():
    """{package: (what it depends on, as a list of alternatives each)}; what is provided stands for who provides it."""
    found = {}
    rows = sh("dpkg-query", "-W", "-f", "${Package}\\t${db:Status-Status}\\t${Architecture}\\t${Pre-Depends}, ${Depends}\\t${Provides}\\n").splitlines()
    for name, status, arch, depends, provides in (row.split("\t") for row in rows):
        if status != "installed" or arch not in ("amd64", "all"):
            continue
        needs = [[re.split(r"[ (:]", each.strip())[0] for each in part.split("|")] for part in depends.split(",") if part.strip()]
        found[name] = needs
        for each in provides.split(","):
            if each.strip():
                found.setdefault(re.split(r"[ (]", each.strip())[0], [[name]])
    return found


def closure(packages, without=()):
    """The packages and all that they depend on."""
    todo, done = list(packages), set()
    while todo:
        name = todo.pop()
        if name in done or name in without or name not in installed():
            continue
        done.add(name)
        todo += [next((each for each in choice if each in installed()), choice[0]) for choice in installed()[name]]
    return sorted(done)


def links_to(path):
    """A path, and what it leads to by links, as they are after the links of the merged /usr."""
    found = set()
    while True:
        path = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        found.add(path)
        if not os.path.islink(path):
            return found
        path = os.path.join(os.path.dirname(path), os.readlink(path))


def libraries_of(programs):
    """What the loader finds for them here."""
    lines = "".join(sh("ldd", each) for each in programs)
    return set().union(*(links_to(each) for each in re.findall(r"(/\S+) \(0x", lines)))


def files_of(packages):
    """Paths of what they installed, as they are after the links of the merged /usr; and of the alternatives that libraries are."""
    paths = set()
    for name in packages:
        done = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True)
        for path in done.stdout.splitlines() if done.returncode == 0 else ():
            if os.path.lexists(path) and not NO_USE.search(path) and (os.path.islink(path) or not os.path.isdir(path)):
                paths.add(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
    # The libraries that are a choice: whichever this machine has chosen.
    for name in ("libblas.so.3", "liblapack.so.3"):
        paths |= links_to(f"/usr/lib/x86_64-linux-gnu/{name}") if os.path.exists(f"/usr/lib/x86_64-linux-gnu/{name}") else set()
    return sorted(paths)


def worker_image(folder, programs, code):
    """worker:test: Debian's python3 with numpy, the files of `code` in /digits, and programs of ours with their libraries in /usr/sbin.

    It is made of the installed packages' files: two seconds, 130 MB, and a container like those that people build; with the node's /usr mounted
    into an empty image the job's manifest would need volumes that no user writes."""
    packages = closure(["python3", "python3-numpy"], without=("debconf", "dpkg", "perl", "perl-base"))
    files = set(files_of(packages)) | libraries_of([*programs, "/usr/lib/x86_64-linux-gnu/libblas.so.3", "/usr/lib/x86_64-linux-gnu/liblapack.so.3"])
    with tarfile.open(folder / "worker.layer", "w") as tar:
        for name, target in LINKS.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            tar.addfile(info)
        for path in sorted(files):
            add(tar, path, path.strip("/"))
        for path in programs:
            add(tar, path, f"usr/sbin/{os.path.basename(path)}")
        for path in code:
            add(tar, path, f"digits/{path.name}")
        info = tarfile.TarInfo("tmp")
        info.type, info.mode = tarfile.DIRTYPE, 0o1777
        tar.addfile(info)
    return archive(folder / "worker.tar", "worker:test", [folder / "worker.layer"])
