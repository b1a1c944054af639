#!/usr/bin/python3
"""The command line of ilmare-cloud: what it prints, and what it says about mistakes."""

from case import Case, main
from settings import Settings

VALUES_THAT_ARE_WRONG = {
    "cluster": "nomad", "logLevel": "loud", "mqtt.brokers": "[http://x]", "mqtt.topicRoot": "a/+/b", "mqtt.passwordFile": "/none", "mqtt.keyFile": "/none",
    "mqtt.insecure": "perhaps", "mqtt.keepAlive": "0s", "mqtt.sessionExpiry": "-1s", "mqtt.willDelay": "ten", "mqtt.reconnectMin": "0",
    "mqtt.reconnectMax": "1000d", "local.workerLogMax": "1", "local.stopWorkers": "2", "kube.requestsPerSecond": "0", "kube.burst": "0", "kube.credentials": "x", "kube.watchSilence": "1ms",
    "kube.leaseDuration": "1s", "kube.leaseRenewDeadline": "0s", "kube.leaseRetryPeriod": "1ms",
    "lcServer": "nonsense", "nodes": "7", "observe.host": "nonsense", "observe.port": "70000", "documents.slowTimer": "1ms", "rounds.backoffMin": "x",
    "rounds.backoffMax": "-1s", "workers.startTimeout": "1ms", "workers.reportedRunning": "1ms", "workers.maxRestarts": "-1",
    "workers.nodeSilenceLimit": "-1s", "status.conditionsMax": "1", "enrolment.port": "70000", "enrolment.host": "nonsense", "enrolment.serviceAccount": "x",
    "enrolment.secretPrefix": "A_B", "enrolment.lifetime": "1s", "enrolment.denied": "[A_B]", "enrolment.reserved": "[A_B]",
}
ANY_TEXT = {"name", "mqtt.username", "mqtt.caFile", "mqtt.certFile", "local.manifestsDir", "local.stateDir", "local.supervisor", "kube.kubeconfig",
            "kube.context", "kube.namespaces", "kube.lease", "kube.leaseNamespace", "kube.storageImage", "enrolment.certFile", "enrolment.keyFile", "enrolment.authorityCert", "enrolment.authorityKey"}
RULES_BETWEEN = {"mqtt.reconnectMax": {"reconnectMin": "3s", "reconnectMax": "2s"}, "rounds.backoffMax": {"backoffMin": "3s", "backoffMax": "2s"},
                 "kube.leaseDuration": {"leaseRenewDeadline": "5s", "leaseDuration": "5999ms"},
                 "kube.leaseRenewDeadline": {"leaseRetryPeriod": "5s", "leaseRenewDeadline": "6s"},
                 "mqtt.keyFile": {"x": None, "keyFile": "/k"}, "mqtt.passwordFile": {"x": None, "passwordFile": "/dev/null"}}


class Config(Settings, Case):
    PROGRAM = "ilmare-cloud"
    WRONG, ANY_TEXT, RULES_BETWEEN = VALUES_THAT_ARE_WRONG, ANY_TEXT, RULES_BETWEEN

    def test_mistakes_are_named_together(self):
        path = self.config("observe:\n  port: abc\n  nonsense: 1\nwhat: {}\nlogLevel: [info]\n")
        said = self.run_agent("--config", path, "--workers-max-restarts=-1", "--nope", env={"ILMARE_MQTT_KEEP_ALIVE": "zz"}, status=2).stderr
        for expected in (f"{path}:2:", f"{path}:3:", f"{path}:4:", f"{path}:5:", "--workers-max-restarts", "--nope", "ILMARE_MQTT_KEEP_ALIVE"):
            self.assertIn(expected, said)

    def test_nodes(self):
        """A map of maps: what is wrong in it is named down to its member."""
        for text, expected in (("nodes: {a: {lcServer: x}}\n", "a.lcServer"), ("nodes: {a: {server: http://a}}\n", "a.server"),
                               ("nodes: {UPPER: {lcServer: http://a}}\n", "UPPER")):
            self.assertIn(expected, self.run_agent("--config", self.config(text), "--check-config", status=2).stderr)
        self.run_agent("--config", self.config("nodes: {edge-1: {lcServer: http://10.0.0.7:9100}}\n"), "--check-config", status=0)

    def test_what_cannot_be_started(self):
        state = self.world.path / "file"
        state.write_text("not a folder")
        manifests = self.world.path / "manifests"
        manifests.mkdir()
        done = self.run_agent(f"--local-manifests-dir={manifests}", f"--local-state-dir={state}/x", "--observe-port=0", status=1)
        self.assertIn(f"{state}", done.stderr)
        self.assertIn("cannot start", done.stderr)


if __name__ == "__main__":
    main()
