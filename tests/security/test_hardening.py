"""What was built for release is hardened, as the files themselves say. Build folder: the variable ILMARE_RELEASE, else build/release."""

import json
import os
import re
import subprocess
import unittest

from lab import ROOT
from agents import PATIENCE
from case import main

RELEASE = ROOT / os.environ.get("ILMARE_RELEASE", "build/release")


def readelf(file, *what):
    return subprocess.run(["readelf", "-W", *what, file], check=True, capture_output=True, text=True, timeout=PATIENCE).stdout


class Hardening(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.programs = sorted((RELEASE / "bin").glob("ilmare-*"))
        if not cls.programs:
            raise unittest.SkipTest(f"{RELEASE}/bin: no release build there")

    def test_all_are_looked_at(self):
        self.assertLessEqual({"ilmare-edge", "ilmare-cloud", "ilmare-worker"}, {program.name for program in self.programs})

    def test_position_independent(self):
        for program in self.programs:
            with self.subTest(program=program.name):
                self.assertRegex(readelf(program, "-h"), r"Type: +DYN")
                self.assertRegex(readelf(program, "-d"), r"\(FLAGS_1\) .*\bPIE\b")
                self.assertNotIn("TEXTREL", readelf(program, "-d"))

    def test_relocations_are_read_only_from_the_start_on(self):
        for program in self.programs:
            with self.subTest(program=program.name):
                self.assertIn("GNU_RELRO", readelf(program, "-l"))
                self.assertRegex(readelf(program, "-d"), r"\(FLAGS_1\) .*\bNOW\b")

    def test_nothing_is_writable_and_executable(self):
        for program in self.programs:
            with self.subTest(program=program.name):
                segments = readelf(program, "-l")
                self.assertRegex(segments, r"GNU_STACK .* RW +0x")
                self.assertNotRegex(segments, r"(LOAD|GNU_STACK) .* RWE ")

    def test_no_library_is_looked_for_in_odd_places(self):
        for program in self.programs:
            with self.subTest(program=program.name):
                self.assertNotRegex(readelf(program, "-d"), r"RPATH|RUNPATH")

    def test_stack_and_buffers_are_checked(self):
        for program in self.programs:
            with self.subTest(program=program.name):
                symbols = readelf(program, "--dyn-syms")
                self.assertIn("__stack_chk_fail", symbols)
                self.assertRegex(symbols, r"__(snprintf|memcpy|vsnprintf|read|fprintf)_chk")

    def test_every_file_is_compiled_so(self):
        commands = json.loads((RELEASE / "compile_commands.json").read_text())
        ours = [each for each in commands if re.match(rf"{re.escape(str(ROOT))}/(common|proto|edge-agent|cloud-agent)/", each["file"])]
        self.assertGreater(len(ours), 100)
        for each in ours:
            words = each["command"].split()
            self.assertLessEqual({"-O2", "-D_FORTIFY_SOURCE=2", "-fstack-protector-strong", "-fstack-clash-protection", "-fcf-protection"}, set(words),
                                 each["file"])
            self.assertTrue({"-fPIC", "-fPIE"} & set(words), each["file"])
            self.assertNotIn("-DNDEBUG", words)  # what must not be ends the process

    @unittest.skipUnless(os.uname().machine == "x86_64", "shadow stacks are of this machine's kind of processor")
    def test_jumps_are_tracked(self):
        """Of our own objects; whether a whole program is depends on the C library's start files, which in Debian 12 are not."""
        objects = [file for folder in ("common", "edge-agent", "cloud-agent") for file in (RELEASE / folder).rglob("*.c.o")]
        self.assertGreater(len(objects), 100)
        for file in objects[::10]:
            self.assertRegex(readelf(file, "-n"), r"x86 feature: IBT, SHSTK", file)


if __name__ == "__main__":
    main()
