"""What is in each image, and in which layer.

An image holds its programs, the shared libraries that they ask for (and those ask for, and so on: NEEDED of the ELF files), the dynamic loader,
and what each image has: certificates of public authorities, time zones, users, name services, the release's name, licences. Nothing else: no
shell, no package manager. Libraries are those of Debian packages, taken out of the packages; of each package that gave a file there are its licence
(/usr/share/doc/NAME/copyright) and its control paragraph (/var/lib/dpkg/status.d/NAME), so that scanners know what is inside.

A package's files are in one layer, which the images that need it share: the same layer for the packages that the same images need. What only
one image needs is in that image's own layer, with its programs. The first layer is that of all images, which also has what some need if that is
too little to be worth a layer.

Paths have no leading slash and are those of a merged /usr: what a package ships as /lib/x is usr/lib/x, and lib is a link to usr/lib.
"""

import os
import pathlib

import archive
import elf
from archive import Entry
from packages import Failure

ROOT = pathlib.Path(__file__).resolve().parent.parent
USER = 65532
TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

# Packages that the libraries come from; what they depend on comes with them. Newer Debian releases provide these names as well.
LIBRARIES = ["libarchive13", "libcjson1", "libcurl4", "libmicrohttpd12", "libpaho-mqtt1.3", "libsqlite3-0", "libssl3", "libuv1", "libyaml-0-2"]
COMMON = ["base-files", "ca-certificates", "tzdata"]
BROKER = ["mosquitto", "mosquitto-clients"]


class Image:
    """`programs`: our own, `debian`: paths of programs of packages, {triplet} for the folder of libraries."""

    def __init__(self, title, entry, user=USER, programs=(), debian=()):
        self.title, self.entry, self.user, self.programs, self.debian = title, entry, user, programs, debian


IMAGES = {
    "ilmare-cloud": Image("Ilmare's cloud agent", "/usr/sbin/ilmare-cloud", programs=("ilmare-cloud",)),
    # As root: it writes files of other users on the device. Which capabilities it keeps is for who starts it to say.
    "ilmare-edge": Image("Ilmare's edge agent", "/usr/sbin/ilmare-edge", user=0,
        programs=("ilmare-edge", "ilmare-transfer", "ilmare-certificate")),
    "ilmare-transfer": Image("Fetches what workers of Ilmare read", "/usr/sbin/ilmare-transfer", programs=("ilmare-transfer",)),
    "ilmare-broker": Image("Mosquitto of Debian, with its clients", "/usr/sbin/mosquitto", debian=(
        "usr/sbin/mosquitto", "usr/bin/mosquitto_pub", "usr/bin/mosquitto_sub", "usr/bin/mosquitto_rr",
        "usr/lib/{triplet}/mosquitto_dynamic_security.so")),
}
PROGRAMS = sorted({program for image in IMAGES.values() for program in image.programs})

PASSWD = f"""\
root:x:0:0:root:/:/usr/sbin/nologin
nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin
ilmare:x:{USER}:{USER}:ilmare:/nonexistent:/usr/sbin/nologin
"""
GROUP = f"root:x:0:\nnogroup:x:65534:\nilmare:x:{USER}:\n"
NSSWITCH = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\nservices: files\nprotocols: files\n"
BUNDLE = "etc/ssl/certs/ca-certificates.crt"
SMALL = 1 << 20  # bytes; less of what some images share is in the layer of all
MERGED = ("bin", "sbin", "lib", "lib64")


def merged(path):
    return f"usr/{path}" if path.partition("/")[0] in MERGED else path


class Files:
    """The files of all packages of an architecture: path -> (package, where it was extracted to)."""

    def __init__(self, arch, packages, folder):
        self.triplet = TRIPLETS[arch]
        self.arch = arch
        self.packages = {p.name: p for p in packages}
        self.at = {}
        for package in packages:
            top = folder / package.name
            top.mkdir(parents=True)
            package.extract(top)
            for parent, folders, files in os.walk(top):
                for name in folders + files:
                    path = pathlib.Path(parent, name)
                    below = path.relative_to(top).as_posix()
                    if below.partition("/")[0] != "DEBIAN" and (path.is_symlink() or not path.is_dir()):
                        self.at[merged(below)] = (package.name, path)

    def target(self, path):
        """The path that the link at `path` means, or None if it is no link."""
        _, real = self.at[path]
        if not real.is_symlink():
            return None
        to = os.readlink(real)
        return merged(os.path.normpath(to.lstrip("/") if to.startswith("/") else os.path.join(os.path.dirname(path), to)))

    def chain(self, path, wanted_by):
        """`path` and what it leads to; the last one is a file."""
        found = []
        while path is not None:
            if path not in self.at:
                raise Failure(f"{wanted_by} needs /{path}, which no package in images/contents.py has: add the one that does")
            found.append(path)
            path = self.target(path)
        return found

    def entry(self, path):
        _, real = self.at[path]
        to = self.target(path)
        if to is not None:
            return Entry(link=os.path.relpath(to, os.path.dirname(path) or "."))
        return Entry(data=real.read_bytes(), mode=0o755 if real.stat().st_mode & 0o111 else 0o644)

    def library(self, name, wanted_by):
        return self.chain(f"usr/lib/{self.triplet}/{name}", wanted_by)

    def needed(self, programs):
        """Paths of all that the ELF files `programs` (real path, path in the image) need to start."""
        wanted, todo = set(), list(programs)
        while todo:
            real, name = todo.pop()
            about = elf.read(real)
            if about is None or about.arch != self.arch:
                raise Failure(f"{name} is not a program for {self.arch}: {real}")
            chains = [self.library(library, f"/{name}") for library in about.needed]
            if about.interpreter:
                chains.append(self.chain(merged(about.interpreter.lstrip("/")), f"/{name}"))
            for chain in chains:
                if chain[-1] not in wanted:
                    todo.append((self.at[chain[-1]][1], chain[-1]))
                wanted.update(chain)
        return wanted

    def below(self, package, folder):
        return {path for path, (owner, _) in self.at.items() if owner == package and path.startswith(f"{folder}/")}


def licence(files, package):
    """Entries with the licence of `package`, and the names of packages whose it is."""
    path = f"usr/share/doc/{package}"
    owners, entries = [package], {}
    # Packages made of one source may have one folder in common: then theirs is a link to it.
    while path in files.at:
        entries[path] = files.entry(path)
        path = files.target(path)
        owners.append(path.rpartition("/")[2])
    text = f"{path}/copyright"
    for each in files.chain(text, package) if text in files.at else []:
        entries[each] = files.entry(each)
        owner = files.at[each][0]
        if owner not in owners:
            owners.append(owner)
    return entries, owners


def about_package(files, name):
    """Entries that say what the package is, and its licence."""
    entries, owners = licence(files, name)
    if not any(path.endswith("/copyright") for path in entries):
        raise Failure(f"the package {name} has no licence in /usr/share/doc/{name}/copyright")
    for owner in owners:
        control = files.packages[owner].control().replace("\n", "\nStatus: install ok installed\n", 1)
        entries[f"var/lib/dpkg/status.d/{owner}"] = Entry(data=control.encode())
    return entries


def system_entries():
    """What is in each image and comes from no package."""
    entries = {name: Entry(link=f"usr/{name}") for name in MERGED}
    entries.update({f"usr/{name}": Entry() for name in MERGED})
    entries.update({
        "etc/passwd": Entry(data=PASSWD.encode()),
        "etc/group": Entry(data=GROUP.encode()),
        "etc/nsswitch.conf": Entry(data=NSSWITCH.encode()),
        # Where OpenSSL looks unless it is told otherwise.
        "usr/lib/ssl/cert.pem": Entry(link=f"../../../{BUNDLE}"),
        "usr/lib/ssl/certs": Entry(link="../../../etc/ssl/certs"),
        "usr/share/doc/ilmare/copyright": Entry(data=(ROOT / "LICENSE").read_bytes()),
        "tmp": Entry(mode=0o1777),
        "run": Entry(),
        "etc/ilmare": Entry(),
        "var/lib/ilmare": Entry(),
    })
    return entries


def common_entries(files):
    """Of the packages that each image has: package -> entries."""
    zones = {p for p in files.below("tzdata", "usr/share/zoneinfo") if p.split("/")[3] not in ("posix", "right", "localtime")}
    release = {"etc/debian_version", "etc/os-release", "usr/lib/os-release"} | files.below("base-files", "usr/share/common-licenses")
    bundle = b"".join(files.at[p][1].read_bytes().rstrip(b"\n") + b"\n" for p in sorted(files.below("ca-certificates", "usr/share/ca-certificates")))
    return {
        "base-files": {path: files.entry(path) for path in release},
        "ca-certificates": {BUNDLE: Entry(data=bundle)},
        "tzdata": {path: files.entry(path) for path in zones},
    }


def own_programs(files, image, binaries):
    """Pairs of real path and path in the image, of our programs and of Debian's."""
    pairs = [(binaries / name, f"usr/sbin/{name}") for name in image.programs]
    for path in (path.format(triplet=files.triplet) for path in image.debian):
        real = files.chain(path, "ilmare-broker")[-1]
        pairs.append((files.at[real][1], path))
    return pairs


def size_of(entries):
    return sum(len(entry.data) for entry in entries.values() if entry.data is not None)


def layers(files, binaries):
    """image -> list of (what a layer is for, its entries). `binaries`: folder of our programs, stripped."""
    wanted = {}  # package -> images that need it
    taken = {name: dict(entries) for name, entries in common_entries(files).items()}
    own = {}
    for name, image in IMAGES.items():
        programs = own_programs(files, image, binaries)
        own[name] = {path: Entry(data=real.read_bytes(), mode=0o755) for real, path in programs}
        paths = files.needed(programs)
        for path in paths:
            taken.setdefault(files.at[path][0], {})[path] = files.entry(path)
        users = {files.at[path][0] for path in paths} | set(COMMON)
        users |= {files.at[path.format(triplet=files.triplet)][0] for path in image.debian}
        for package in users:
            wanted.setdefault(package, set()).add(name)
    shared = {}  # images -> entries
    for package, images in wanted.items():
        entries = {**taken.get(package, {}), **about_package(files, package)}
        group = own[next(iter(images))] if len(images) == 1 else shared.setdefault(frozenset(images), {})
        group.update(entries)
    everywhere = shared.setdefault(frozenset(IMAGES), {})
    everywhere.update(system_entries())
    for group in [group for group, entries in shared.items() if size_of(entries) < SMALL and entries is not everywhere]:
        everywhere.update(shared.pop(group))
    result = {}
    for name in IMAGES:
        groups = sorted((group for group in shared if name in group), key=lambda group: (-len(group), sorted(group)))
        result[name] = [("what these share: " + " ".join(sorted(group)), shared[group]) for group in groups]
        result[name].append((name, own[name]))
    return result


def configuration(name, version):
    image = IMAGES[name]
    return {
        "Entrypoint": [image.entry],
        "Env": ["PATH=/usr/sbin:/usr/bin"],
        "Labels": {"org.opencontainers.image.title": image.title, "org.opencontainers.image.version": version},
        "User": f"{image.user}:{image.user}",
        "WorkingDir": "/",
    }


def write_images(files, binaries, version, output, names):
    """NAME-ARCH.tar in `output` for each of `names`; yields the path, and (what, entries, size) of each layer."""
    made = {}
    for name, parts in layers(files, binaries).items():
        if name not in names:
            continue
        blobs = []
        for what, entries in parts:
            if what not in made:
                made[what] = archive.layer(entries)
            blobs.append((what, made[what]))
        path = output / f"{name}-{files.arch}.tar"
        archive.write_image(path, f"{name}:{version}", files.arch, blobs, configuration(name, version))
        yield path, [(what, len(blob)) for what, blob in blobs]


def write_trees(files, binaries, output, names):
    """The same as folders: `output`/common for the first layer, `output`/NAME for the rest of each image."""
    made = layers(files, binaries)
    archive.write_tree(output / "common", next(iter(made.values()))[0][1])
    for name in names:
        rest = {}
        for _, entries in made[name][1:]:
            rest.update(entries)
        archive.write_tree(output / name, rest)
