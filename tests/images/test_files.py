"""What is in the images, read from the archives alone."""

import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import unpacked
from unpacked import ARCHS, EVERY, NAMES, ROOT, image

sys.path[:0] = [str(ROOT / "images"), str(ROOT / "tests" / "integration")]
sys.dont_write_bytecode = True
import elf  # noqa: E402
from case import main  # noqa: E402

TRIPLETS = {"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}
OWN = {
    "ilmare-cloud": {"ilmare-cloud"},
    "ilmare-edge": {"ilmare-edge", "ilmare-transfer", "ilmare-certificate"},
    "ilmare-transfer": {"ilmare-transfer"},
    "ilmare-broker": {"mosquitto", "mosquitto_pub", "mosquitto_sub", "mosquitto_rr"},
}
# Programs that run others, or change the system: none of them is there, under whatever path.
UNWANTED = {"sh", "bash", "dash", "busybox", "env", "perl", "python3", "apt", "apt-get", "dpkg", "su", "sudo", "mount", "ldconfig", "openssl",
    "curl", "wget", "nc", "tar", "cat", "ls"}


def of_each_image(test):
    """The test is called for each image with its name, architecture and Image."""
    @functools.wraps(test)
    def every(self):
        for name, arch in EVERY:
            with self.subTest(image=name, arch=arch):
                test(self, name, arch, image(name, arch))
    return every


def elves(it):
    """path -> Elf of each program and library of an image."""
    found = {}
    with tempfile.TemporaryDirectory() as top:
        for path, (_, data) in it.files.items():
            if data and data[:4] == b"\x7fELF":
                file = pathlib.Path(top, "elf")
                file.write_bytes(data)
                found[path] = elf.read(file)
    return found


class Archives(unittest.TestCase):
    @of_each_image
    def test_archives_are_well_formed(self, name, arch, it):
        version = re.search(r"^project\(ilmare VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text(), re.M).group(1)
        self.assertEqual(it.strangers, set())
        self.assertEqual(it.manifest[0]["RepoTags"], [f"{name}:{version}"])
        self.assertEqual(it.config_name, hashlib.sha256(it.config_bytes).hexdigest() + ".json")
        self.assertEqual(it.layer_names, [f"{digest}.tar" for digest in it.digests()])
        self.assertEqual(it.config["rootfs"]["diff_ids"], [f"sha256:{digest}" for digest in it.digests()])
        self.assertEqual(len(it.config["history"]), len(it.layers))
        self.assertEqual((it.config["os"], it.config["architecture"]), ("linux", arch))
        self.assertEqual(it.config["config"]["User"], "0:0" if name == "ilmare-edge" else "65532:65532")
        entry, = it.config["config"]["Entrypoint"]
        self.assertEqual(entry, {"ilmare-broker": "/usr/sbin/mosquitto"}.get(name, f"/usr/sbin/{name}"))
        self.assertIsNotNone(it.read(entry))

    @of_each_image
    def test_each_layer_is_in_order_and_belongs_to_nobody(self, _name, _arch, it):
        for infos in [it.infos, *it.layer_infos]:
            names = [info.name for info in infos]
            self.assertEqual(names, sorted(set(names)))
            for info in infos:
                self.assertEqual((info.uid, info.gid, info.uname, info.gname, info.mtime), (0, 0, "", "", 0), info.name)
                self.assertFalse(info.name.startswith(("/", ".")), info.name)
                self.assertNotIn("..", info.name.split("/"))

    @of_each_image
    def test_a_layer_changes_nothing_of_those_below(self, _name, _arch, it):
        seen = set()
        for infos in it.layer_infos:
            here = {info.name for info in infos if not info.isdir()}
            self.assertEqual(here & seen, set())
            seen |= here

    def test_images_share_their_layers(self):
        for arch in ARCHS:
            first = {image(name, arch).digests()[0] for name in NAMES}
            self.assertEqual(len(first), 1)
            edge, transfer = (image(name, arch).digests() for name in ("ilmare-edge", "ilmare-transfer"))
            self.assertEqual(set(transfer) - set(edge), {transfer[-1]})

    def test_the_same_input_gives_the_same_bytes(self):
        for arch in ARCHS:
            with self.subTest(arch=arch), tempfile.TemporaryDirectory() as again:
                # Other times, another umask, another time zone, another language.
                env = {**os.environ, "TZ": "Asia/Kolkata", "LC_ALL": "C.UTF-8"}
                said = subprocess.run([ROOT / "scripts" / "build-images", "--arch", arch, "--output", again], env=env, umask=0o077,
                    capture_output=True, text=True, check=False)
                self.assertEqual(said.returncode, 0, said.stderr[-2000:])
                self.assertEqual(said.stdout.split(), [f"{again}/{name}-{arch}.tar" for name in NAMES])
                for name in NAMES:
                    here, there = (hashlib.sha256(pathlib.Path(top, f"{name}-{arch}.tar").read_bytes()).hexdigest()
                        for top in (unpacked.folder(), again))
                    self.assertEqual(here, there, name)


class Contents(unittest.TestCase):
    @of_each_image
    def test_programs_are_those_and_no_others(self, name, _arch, it):
        programs = {path for path in it.files if path.startswith(("usr/bin/", "usr/sbin/", "usr/local/", "bin/", "sbin/", "opt/"))}
        self.assertEqual({path.rpartition("/")[2] for path in programs}, OWN[name])
        runnable = {path for path, (info, _) in it.files.items() if info.isreg() and info.mode & 0o111}
        for path in runnable:
            self.assertTrue(path in programs or ".so" in path, path)
        self.assertEqual({path.rpartition("/")[2] for path, (info, _) in it.files.items() if not info.isdir()} & UNWANTED, set())

    @of_each_image
    def test_no_file_has_rights_that_it_should_not_have(self, _name, _arch, it):
        for path, (info, _) in it.files.items():
            self.assertTrue(info.isreg() or info.isdir() or info.issym(), f"{path}: a device, a pipe or a hard link")
            if info.issym() or path == "tmp":
                continue
            self.assertEqual(info.mode & ~0o755, 0, f"{path}: mode {info.mode:o}")
        self.assertEqual(it.files["tmp"][0].mode, 0o1777)

    @of_each_image
    def test_every_link_leads_somewhere(self, _name, _arch, it):
        for path, (info, _) in it.files.items():
            if info.issym():
                self.assertIsNotNone(it.resolve(path), f"{path} -> {info.linkname}")
                # Also where the image is a folder in another root.
                self.assertFalse(info.linkname.startswith("/"), f"{path} -> {info.linkname}")

    def test_libraries_are_those_that_are_needed_and_no_others(self):
        for arch in ARCHS:
            # What is small is in the layer of all, also if only some images need it.
            everywhere, needed = set(), set()
            for name in NAMES:
                with self.subTest(image=name, arch=arch):
                    there, asked = self.libraries(arch, image(name, arch))
                    everywhere |= there
                    needed |= asked
            extra = {path for path in everywhere - needed if not path.endswith("/mosquitto_dynamic_security.so")}
            self.assertEqual(extra, set())

    def libraries(self, arch, it):
        """The libraries of an image, and those that its files need, which have to be there."""
        found = elves(it)
        needed = set()
        for path, about in found.items():
            self.assertEqual(about.arch, arch, path)
            self.assertIsNone(about.search, f"{path} looks for libraries in folders of its own")
            for library in about.needed:
                at = it.resolve(f"usr/lib/{TRIPLETS[arch]}/{library}")
                self.assertIn(at, found, f"{path} needs {library}")
                self.assertEqual(found[at].soname, library)
                needed.add(at)
            if about.interpreter:
                self.assertIn(it.resolve(about.interpreter), found, path)
                needed.add(it.resolve(about.interpreter))
        return {path for path in found if path.startswith("usr/lib/")}, needed

    @of_each_image
    def test_our_programs_are_stripped_and_know_nothing_of_this_machine(self, name, _arch, it):
        here = [str(ROOT).encode(), str(pathlib.Path.home()).encode() + b"/"]
        for path in OWN[name]:
            data = it.read(f"usr/sbin/{path}") or b""
            for text in [*here, b".debug_info"]:
                self.assertFalse(text in data, f"{path}: {text}")

    @of_each_image
    def test_packages_are_named_with_their_licence(self, _name, arch, it):
        listed = [path for path in it.files if re.match(r"var/lib/dpkg/status\.d/[^/]+$", path)]
        self.assertIn("var/lib/dpkg/status.d/libc6", listed)
        for path in listed:
            text = it.files[path][1].decode()
            package = path.rpartition("/")[2]
            self.assertRegex(text, rf"^Package: {re.escape(package)}\nStatus: install ok installed\n")
            self.assertRegex(text, r"\nVersion: \S+\n")
            self.assertRegex(text, rf"\nArchitecture: ({arch}|all)\n")
            self.assertTrue(text.endswith("\n") and "\n\n" not in text)
            self.assertGreater(len(it.read(f"usr/share/doc/{package}/copyright") or b""), 100, package)
        self.assertIn(b"ID=debian", it.read("etc/os-release"))
        self.assertIn(b"Apache License", it.read("usr/share/doc/ilmare/copyright"))
        for licence in ("GPL-2", "GPL-3", "LGPL-2.1", "Apache-2.0"):
            self.assertIsNotNone(it.read(f"usr/share/common-licenses/{licence}"))

    @of_each_image
    def test_users_authorities_zones_and_names(self, _name, _arch, it):
        users = dict(line.split(":")[::2][:2] for line in it.read("etc/passwd").decode().splitlines())
        self.assertEqual(users, {"root": "0", "nobody": "65534", "ilmare": "65532"})
        self.assertIn("ilmare:x:65532:\n", it.read("etc/group").decode())
        self.assertIn("hosts: files dns\n", it.read("etc/nsswitch.conf").decode())
        self.assertEqual(it.read("usr/share/zoneinfo/Europe/Rome")[:4], b"TZif")
        self.assertEqual(it.resolve("usr/lib/ssl/cert.pem"), "etc/ssl/certs/ca-certificates.crt")
        bundle = it.read("etc/ssl/certs/ca-certificates.crt")
        said = subprocess.run(["openssl", "crl2pkcs7", "-nocrl", "-certfile", "/dev/stdin"], input=bundle, capture_output=True, check=True).stdout
        names = subprocess.run(["openssl", "pkcs7", "-print_certs", "-noout"], input=said, capture_output=True, check=True).stdout
        self.assertGreater(names.count(b"subject="), 100)
        self.assertEqual(names.count(b"subject="), bundle.count(b"BEGIN CERTIFICATE"))

    def test_both_architectures_have_the_same(self):
        def general(path):
            for triplet in TRIPLETS.values():
                path = path.replace(triplet, "TRIPLET")
            return re.sub(r"usr/lib(64)?/(TRIPLET/)?ld-linux-.*", "LOADER", path)
        for name in NAMES:
            one, two = ({general(path) for path in image(name, arch).files} for arch in ARCHS)
            self.assertEqual(one, two, name)


class Trees(unittest.TestCase):
    def test_the_same_files_as_folders(self):  # for images/Dockerfile
        with tempfile.TemporaryDirectory() as top:
            subprocess.run([ROOT / "scripts" / "build-images", "--arch", "amd64", "--trees", f"{top}/trees"], check=True, capture_output=True)
            for name in NAMES:
                it = image(name, "amd64")
                there = {}
                for tree in ("common", name):
                    base = pathlib.Path(top, "trees", tree)
                    there.update((path.relative_to(base).as_posix(), path) for path in base.rglob("*"))
                self.assertEqual(set(there), set(it.files), name)
                for path, (info, data) in it.files.items():
                    real = there[path]
                    if info.issym():
                        self.assertEqual(os.readlink(real), info.linkname)
                        continue
                    self.assertEqual(real.stat().st_mode & 0o7777, info.mode, path)
                    self.assertTrue(data is None or real.read_bytes() == data, path)


class Commands(unittest.TestCase):
    def said(self, *arguments, **more):
        said = subprocess.run([ROOT / "scripts" / "build-images", *arguments], capture_output=True, text=True, check=False, **more)
        self.assertNotIn("Traceback", said.stderr)
        return said.returncode, said.stderr

    def test_what_cannot_be_done_is_said(self):
        code, text = self.said("ilmare-storage")
        self.assertEqual(code, 2)
        self.assertIn('no image "ilmare-storage"; there are: ilmare-cloud ilmare-edge ilmare-transfer ilmare-broker', text)
        code, text = self.said("--arch", "riscv64")
        self.assertEqual(code, 2)
        self.assertIn("amd64", text)
        code, text = self.said("--arch", "all", "--binaries", "/nowhere")
        self.assertEqual(code, 2)
        with tempfile.TemporaryDirectory() as top:
            code, text = self.said("--binaries", top, "--output", top)
            self.assertEqual((code, os.listdir(top)), (1, []))
            self.assertIn(f"{top}/ilmare-certificate is missing", text)
            # A relative folder is the caller's. A place that is none is said before anything is made.
            code, text = self.said("--binaries", ".", "--output", ".", cwd=top)
            self.assertIn(f"{top}/ilmare-certificate is missing", text)
            code, text = self.said("--binaries", ".", "--output", "/proc/images", "ilmare-transfer", cwd=top)
            self.assertEqual(code, 1)
            self.assertRegex(text, "build-images: .*/proc/images")

    def test_a_cross_compiler_that_is_missing(self):
        """It is said before CMake keeps in mind what it found out without one: it would not start again once it is there."""
        with tempfile.TemporaryDirectory() as top:
            top = pathlib.Path(top)
            (top / "sysroot" / "usr" / "include").mkdir(parents=True)
            (top / "bin").mkdir()
            for name, program in (("cmake", shutil.which("cmake")), ("ninja", "/bin/true"), ("qemu-aarch64", "/bin/true")):
                (top / "bin" / name).symlink_to(program)
            done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", top / "build", "--toolchain", ROOT / "cmake" / "arm64.cmake"], capture_output=True,
                                  text=True, env={"PATH": str(top / "bin"), "HOME": str(top), "ILMARE_SYSROOT": str(top / "sysroot")}, check=False)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("install the package gcc-aarch64-linux-gnu", done.stderr)

    def test_programs_of_another_architecture_are_not_taken(self):
        with tempfile.TemporaryDirectory() as top:
            code, text = self.said("--arch", "amd64", "--binaries", str(ROOT / "build" / "arm64" / "bin"), "--output", top)
            self.assertEqual((code, os.listdir(top)), (1, []))
            self.assertIn("this failed: strip", text)


if __name__ == "__main__":
    main()
