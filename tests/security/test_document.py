"""docs/security.md names tests, here, in tests/kube or tests/integration: they exist. broker-config/README.md explains lines: all of production.conf and
bridge.conf, and no others."""

import re
import unittest

from lab import CONFIG, HERE, ROOT
from case import main


def keys(name):
    return {line.split()[0] for line in (CONFIG / name).read_text().splitlines() if line and not line.startswith("#")}


class Document(unittest.TestCase):
    def test_the_tests_that_it_names_exist(self):
        text = (ROOT / "docs" / "security.md").read_text()
        there = {}
        for file in (each for folder in (HERE, HERE.parent / "kube", HERE.parent / "integration") for each in folder.glob("test_*.py")):
            there.setdefault(file.name, set()).update(re.findall(r"def (test_\w+)", file.read_text()))
        named = re.findall(r"`(test_\w+)`", text)
        self.assertGreater(len(named), 30)
        self.assertEqual([name for name in named if not any(name in tests for tests in there.values())], [])
        self.assertEqual([file for file in re.findall(r"`(test_\w+\.py)`", text) if file not in there], [])

    def test_every_cannot_has_a_test(self):
        text = (ROOT / "docs" / "security.md").read_text()
        rows = [row for table in re.findall(r"They \*\*cannot\*\*\n\n((?:\|.*\n)+)", text) for row in table.splitlines()[2:]]
        self.assertGreater(len(rows), 15)
        for row in rows:
            self.assertRegex(row, r"`test_\w+`")

    def test_each_line_of_the_configurations_is_explained(self):
        text = (CONFIG / "README.md").read_text()
        for name, heading in (("production.conf", "### Why each line is there"), ("bridge.conf", "## Using bridge.conf")):
            section = text.split(heading)[1].split("\n## ")[0]
            rows = " ".join(re.findall(r"(?m)^\|([^|]*)\|", section))
            if name == "bridge.conf":  # what it has in common is explained there
                rows += text.split("### Why each line is there")[1]
            common = {"connection", "address", "log_dest", "log_type"}  # said in the file
            missing = [key for key in keys(name) - common if f"`{key}" not in rows]
            self.assertEqual(missing, [], name)


if __name__ == "__main__":
    main()
