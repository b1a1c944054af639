"""A sysroot: what a cross compiler needs of another architecture, as a folder of headers, libraries and their pkg-config files.

Made of the -dev packages among those that scripts/install-deps names, and all that they depend on, in Debian's own versions. It is made once for
each set of packages, kept in ${XDG_CACHE_HOME:-~/.cache}/ilmare/sysroot-ARCH-DIGEST, and older ones are removed, save the one before: a build
that is under way may still read it. The name `sysroot-ARCH` is a link to the newest, which is where cmake/arm64.cmake looks.
"""

import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

from packages import Debian, cache_folder, locked

ROOT = pathlib.Path(__file__).resolve().parent.parent


def wanted():
    """The packages with headers and libraries that the build needs."""
    said = subprocess.run([ROOT / "scripts" / "install-deps", "--list"], check=True, capture_output=True, text=True)
    return sorted(name for name in said.stdout.split() if name.startswith("lib") and name.endswith("-dev") and not name.startswith("libclang"))


def relative_links(root):
    """An absolute link means the root of the other system; here it has to stay below it."""
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            path = pathlib.Path(folder, name)
            if path.is_symlink() and os.readlink(path).startswith("/"):
                target = root / os.readlink(path).lstrip("/")
                path.unlink()
                path.symlink_to(os.path.relpath(target, path.parent))


def merged(root):
    """As on an installed Debian 12: /lib is /usr/lib. Before any package is extracted."""
    for name in ("bin", "sbin", "lib", "lib64"):
        (root / "usr" / name).mkdir(parents=True)
        (root / name).symlink_to(f"usr/{name}")


def make(arch):
    """The folder of the sysroot for `arch`, made if it is not there yet."""
    packages = Debian(arch).fetch(wanted())
    digest = hashlib.sha256("\n".join(p.path.name for p in packages).encode()).hexdigest()[:12]
    cache = cache_folder()
    root, link = cache / f"sysroot-{arch}-{digest}", cache / f"sysroot-{arch}"
    with locked(cache / f"sysroot-{arch}.lock"):
        if not root.exists():
            with tempfile.TemporaryDirectory(prefix=f".sysroot-{arch}.", dir=cache) as temporary:
                new = pathlib.Path(temporary) / "root"
                merged(new)
                for package in packages:
                    package.add_to(new)
                relative_links(new)
                new.rename(root)
        before = cache / os.readlink(link) if link.is_symlink() else root
        if before != root or not link.is_symlink():
            fresh = cache / f".sysroot-{arch}.new"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(root.name)
            fresh.rename(link)
            for old in cache.glob(f"sysroot-{arch}-*"):
                if old not in (root, before):
                    shutil.rmtree(old)
    return root
