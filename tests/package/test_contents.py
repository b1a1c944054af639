#!/usr/bin/python3
"""What is in the packages: files, owners, modes, what they depend on, and what Debian's own judge says."""

import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from root import NATIVE, ROOT, package
from case import main

VERSION = re.search(r"project\(ilmare VERSION (\S+)", (ROOT / "CMakeLists.txt").read_text())[1]
MAN, DOC = "usr/share/man/man8", "usr/share/doc"

FILES = {
    "ilmare-edge": {
        "usr/sbin/ilmare-certificate": 0o755, "usr/sbin/ilmare-edge": 0o755, "usr/sbin/ilmare-enroll": 0o755,
        "usr/sbin/ilmare-transfer": 0o755,
        f"{MAN}/ilmare-certificate.8.gz": 0o644, f"{MAN}/ilmare-edge.8.gz": 0o644, f"{MAN}/ilmare-enroll.8.gz": 0o644,
        f"{MAN}/ilmare-transfer.8.gz": 0o644,
        "usr/lib/systemd/system/ilmare-edge.service": 0o644, "usr/lib/systemd/system/ilmare-edge.socket": 0o644,
        "usr/lib/sysusers.d/ilmare.conf": 0o644, f"{DOC}/ilmare-edge/examples/edge.yaml": 0o644,
    },
    "ilmare-cloud": {
        "usr/sbin/ilmare-cloud": 0o755, "usr/libexec/ilmare/ilmare-worker": 0o755, f"{MAN}/ilmare-cloud.8.gz": 0o644,
        "usr/lib/systemd/system/ilmare-cloud.service": 0o644, f"{DOC}/ilmare-cloud/examples/cloud.yaml": 0o644,
    },
}
for name, files in FILES.items():
    for file in ("changelog.gz", "changelog.Debian.gz", "copyright"):
        files[f"{DOC}/{name}/{file}"] = 0o644
    files[f"usr/share/lintian/overrides/{name}"] = 0o644
MACHINES = {"amd64": "Advanced Micro Devices X86-64", "arm64": "AArch64"}


def say(*command):
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, check=True, timeout=120).stdout


def field(deb, name):
    return say("dpkg-deb", "-f", deb, name).strip()


def libraries(deb):
    """What it depends on that is a library."""
    return {each for each in field(deb, "Depends").split(", ") if each.startswith("lib")}


class Commands(unittest.TestCase):
    def test_words_that_are_wrong(self):
        for words, said in ((("--arch",), "--arch needs a value"), (("--arch", "mips"), 'not for "mips"'), (("--arch=",), 'not for ""'),
                            (("edge",), "there is no option edge"), (("--arch", "arm64", "--nope"), "there is no option --nope")):
            with self.subTest(words=words):
                done = subprocess.run([ROOT / "scripts" / "build-packages", *words], capture_output=True, text=True, check=False, timeout=120)
                self.assertEqual((done.returncode, done.stdout), (2, ""))
                self.assertIn(said, done.stderr)


class Contents(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def unpack(self, deb):
        target = self.folder / deb.name
        subprocess.run(["dpkg-deb", "-x", deb, target], check=True)
        return target

    def check_files(self, name, arch):
        deb = package(name, arch)
        found = {}
        for line in say("dpkg-deb", "-c", deb).splitlines():
            mode, owner, _, _, _, path = line.split(maxsplit=5)
            self.assertEqual(owner, "root/root", line)
            self.assertIn(mode[0], "-d", line)
            if mode[0] == "d":
                self.assertEqual(mode, "drwxr-xr-x", line)
            else:
                found[path.removeprefix("./")] = sum(1 << (8 - i) for i, c in enumerate(mode[1:]) if c != "-")
        self.assertEqual(found, FILES[name])
        self.assertEqual((field(deb, "Architecture"), field(deb, "Version")), (arch, f"{VERSION}-1"))

    def test_files_owners_and_modes(self):
        for name in FILES:
            for arch in MACHINES:
                with self.subTest(package=name, arch=arch):
                    self.check_files(name, arch)

    def test_programs_are_for_the_architecture_and_stripped(self):
        for name, files in FILES.items():
            for arch, machine in MACHINES.items():
                tree = self.unpack(package(name, arch))
                for file in (f for f, mode in files.items() if mode == 0o755 and not f.endswith("ilmare-enroll")):
                    self.assertRegex(say("readelf", "-h", tree / file), rf"Machine:\s+{machine}\n")
                    self.assertNotIn(".debug_info", say("readelf", "-S", "-W", tree / file))

    def test_it_depends_on_what_the_programs_are_linked_with(self):
        """For the other architecture it is written down; here dpkg-shlibdeps has found it out."""
        for name in FILES:
            written = {line for line in (ROOT / "packaging" / "debian" / name[7:] / "libraries").read_text().splitlines() if line}
            for arch in MACHINES:
                self.assertEqual(libraries(package(name, arch)), written, f"{name} {arch}: packaging/debian/{name[7:]}/libraries")

    def test_lintian_has_nothing_to_say(self):
        for name in FILES:
            for arch in MACHINES:
                # It does not always remove its own.
                env = os.environ | {"TMPDIR": str(self.folder)}
                done = subprocess.run(["lintian", package(name, arch)], capture_output=True, text=True, check=False, timeout=120, env=env)
                said = "".join(line for line in done.stdout.splitlines(True) if line[:2] in ("E:", "W:"))
                self.assertEqual((done.returncode, said), (0, ""), done.stdout + done.stderr)

    def test_paths_that_are_written_into_files(self):
        tree = self.unpack(package("ilmare-edge"))
        self.assertIn("\nExecStart=/usr/sbin/ilmare-edge\n", (tree / "usr/lib/systemd/system/ilmare-edge.service").read_text())
        tree = self.unpack(package("ilmare-cloud"))
        self.assertIn("\nExecStart=/usr/sbin/ilmare-cloud\n", (tree / "usr/lib/systemd/system/ilmare-cloud.service").read_text())

    def test_the_examples_have_every_setting_and_change_none(self):
        for name, program in (("ilmare-edge", "edge"), ("ilmare-cloud", "cloud")):
            tree = self.unpack(package(name))
            example = tree / DOC / name / "examples" / f"{program}.yaml"
            lines = [line for line in example.read_text().splitlines() if not line.startswith("#")]
            self.assertEqual([line for line in lines if not re.fullmatch(r"(\w+:)?", line)], [], "these are set")
            agent = tree / "usr/sbin" / name
            keys = re.findall(r"(?m)^  --\S+ .*\((\S+)\)$", say(agent, "--help"))
            self.assertGreater(len(keys), 30)
            text = example.read_text()
            for key in keys:
                self.assertRegex(text, rf"(?m)^# *{re.escape(key.rpartition('.')[2])}:")
            node = ["--node=n"] if program == "edge" else []
            subprocess.run([agent, "--check-config", f"--config={example}", *node], check=True, capture_output=True)

    def test_man_pages_are_there_and_readable(self):
        tree = self.unpack(package("ilmare-edge"))
        for page in (tree / MAN).iterdir():
            done = subprocess.run(["man", "--warnings", "-l", page], capture_output=True, text=True, check=True, timeout=60,
                                  env={**os.environ, "MANROFFSEQ": "", "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
            self.assertEqual(done.stderr, "", page.name)
            self.assertIn("SYNOPSIS", done.stdout)

    def test_the_same_build_gives_the_same_bytes(self):
        env = {**os.environ, "SOURCE_DATE_EPOCH": say("git", "-C", ROOT, "log", "-1", "--format=%ct").strip()}
        made = []
        for number in ("1", "2"):
            out = self.folder / number
            subprocess.run(["cpack", "-B", out], cwd=ROOT / "build" / "release", env=env, check=True, capture_output=True)
            made.append({deb.name: deb.read_bytes() for deb in out.glob("*.deb")})
        self.assertEqual(len(made[0]), 2)
        self.assertEqual(made[0], made[1])


if __name__ == "__main__":
    main()
