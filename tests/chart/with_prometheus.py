"""By hand: what both agents print at /metrics, and every query of the dashboard, judged by a real Prometheus.

    ILMARE_TEST_PROMETHEUS=FOLDER tests/chart/run BUILD_DIR tests/chart/with_prometheus.py

FOLDER has `prometheus` and `promtool`: from a release of theirs, or by `go build` of github.com/prometheus/prometheus/cmd/…. Prometheus scrapes a cloud
agent and an edge agent that have gone through a round, with the labels namespace and pod as its discovery gives them to pods. Not part of
any step of scripts/test: test_running.py has the part of it that needs no Prometheus.
"""

import json
import os
import pathlib
import re
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

import test_running
from chart_case import main, setUpModule  # noqa: F401

import yaml

from agents import Process, free_port, until
from test_running import F, ChartLoop

FOLDER = os.environ.get("ILMARE_TEST_PROMETHEUS")
# What Grafana puts in place of its variables.
VARIABLES = {"$namespace": ".*", "$__rate_interval": "10s", "$__interval": "10s", "$__range": "1h"}


@unittest.skipIf(FOLDER is None, "ILMARE_TEST_PROMETHEUS is not set")
class Prometheus(test_running.Running):
    def test_it(self):
        self.install()
        self.broker()
        agents = {"cloud": self.cloud(f"{F}-cloud-1"), "edge": self.edge()}
        loop = ChartLoop(self, self.ports["workers"])
        loop.create()
        loop.serving()
        loop.feed()
        self.assertEqual(loop.over(1)["type"], "Completed")

        for name, agent in agents.items():
            with self.subTest(f"promtool check metrics: {name}"):
                done = subprocess.run([pathlib.Path(FOLDER, "promtool"), "check", "metrics"], input=agent.get("/metrics")[1], capture_output=True,
                                      text=True, check=False)
                self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

        self.scrape(agents)
        dashboard = json.loads(next(iter(self.of("ConfigMap", "dashboard")["data"].values())))
        for panel in dashboard["panels"]:
            for target in panel.get("targets", ()):
                with self.subTest(panel["title"], expression=target["expr"]):
                    query = target["expr"]
                    for variable, value in VARIABLES.items():
                        query = query.replace(variable, value)
                    self.assertNotIn("$", query)
                    until(lambda query=query: self.ask("query", query=query)["result"], f"{query} has a value")
                    result = self.ask("query", query=query)["result"]
                    for label in re.findall(r"\{\{\s*(\w+)\s*\}\}", target.get("legendFormat", "")):
                        self.assertTrue(all(label in each["metric"] for each in result), f"{label} of the legend: {result}")
        for variable in dashboard["templating"]["list"]:
            for metric, label in re.findall(r"label_values\((\w+), *(\w+)\)", str(variable["query"])):
                self.assertEqual(self.ask(f"label/{label}/values", **{"match[]": metric}), [self.ns])

    def scrape(self, agents):
        self.port, folder = free_port(), self.world.path / "prometheus"
        folder.mkdir()
        jobs = [{"job_name": name, "static_configs": [{"targets": [f"127.0.0.1:{agent.observe_port}"], "labels": {"namespace": self.ns, "pod": name}}]}
                for name, agent in agents.items()]
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": jobs}))
        self.prometheus = self.world.add(Process(self.world, "prometheus", [
            pathlib.Path(FOLDER, "prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
            f"--web.listen-address=127.0.0.1:{self.port}"])).start()
        until(lambda: self.prometheus.alive() and "ready to receive web requests" in self.prometheus.text(), lambda: f"Prometheus is ready:\n{self.prometheus.tail()}")
        until(lambda: [each["health"] for each in self.ask("targets")["activeTargets"]] == ["up"] * len(agents), lambda: f"all are scraped: {self.ask('targets')}")

    def ask(self, what, **words):
        url = f"http://127.0.0.1:{self.port}/api/v1/{what}?{urllib.parse.urlencode(words)}"
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as e:
            raise AssertionError(f"{words}: {e.code} {e.read().decode()}") from None


def load_tests(loader, *_):
    """Not those of the class that it builds on."""
    return unittest.TestSuite([Prometheus("test_it")])


if __name__ == "__main__":
    main()
