"""What the command lines of both agents have in common, as tests: Settings is mixed into a Case that says which program, its wrong values, and which
settings take any text."""

import os
import re
import subprocess

from agents import program


class Settings:
    PROGRAM = None
    WRONG = {}  # by key: a value that --check-config refuses
    ANY_TEXT = set()
    RULES_BETWEEN = {}  # by key: members of its group that do not go together; the key is in the third line then
    NEEDED = ""  # lines without which nothing is accepted

    def run_agent(self, *flags, env=None, status=None):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ILMARE_", "NODENAME", "HOSTNAME", "BIND_PORT", "ROOTFS", "KUBE"))}
        done = subprocess.run([program(self.PROGRAM), *map(str, flags)], env={**clean, **(env or {})}, capture_output=True, text=True, timeout=20)
        if status is not None:
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done

    def keys(self):
        return re.findall(r"^  --\S+ .*\((\S+)\)$", self.run_agent("--help", status=0).stdout, re.M)

    def config(self, text):
        path = self.world.path / "agent.yaml"
        path.write_text(text)
        return path

    def test_prints(self):
        self.assertIn("Usage:", self.run_agent("--help", status=0).stdout)
        self.assertRegex(self.run_agent("--version", status=0).stdout, rf"^{self.PROGRAM} \d+\.\d+\.\d+")
        man = self.run_agent("--print-man", status=0).stdout
        self.assertTrue(man.startswith(".TH"))
        done = subprocess.run(["man", "--warnings", "-l", "-"], input=man, capture_output=True, text=True, env={**os.environ, "MANPAGER": "cat"}) \
            if os.path.exists("/usr/bin/man") else None
        if done:
            self.assertEqual(done.stderr, "")
        for key in self.keys():
            self.assertIn(key.replace("-", "\\-"), man)

    def test_each_key_is_checked_and_its_line_named(self):
        keys = self.keys()
        self.assertEqual(set(keys), set(self.WRONG) | self.ANY_TEXT)
        for key, value in self.WRONG.items():
            with self.subTest(key=key):
                group, _, name = key.rpartition(".")
                text = "# a line before it\n" + (f"{group}:\n  {name}: {value}\n" if group else f"{name}: {value}\n")
                text += "".join(f"{line}\n" for line in self.NEEDED.splitlines() if not line.startswith(f"{key}:"))
                for flags in (("--check-config",), ()):
                    done = self.run_agent("--config", self.config(text), *flags, status=2)
                    self.assertRegex(done.stderr, rf"(?m)agent\.yaml:{3 if group else 2}:(\d+:)? {re.escape(key)}: ")

    def test_rules_between_settings_name_the_line(self):
        for key, values in self.RULES_BETWEEN.items():
            group, _, name = key.rpartition(".")
            text = f"{group}:\n" + "".join(f"  {k}: {v}\n" if v else "  # nothing\n" for k, v in values.items()) + self.NEEDED
            said = self.run_agent("--config", self.config(text), "--check-config", status=2).stderr
            self.assertRegex(said, rf"(?m)agent\.yaml:3: {re.escape(key)}: is ")
