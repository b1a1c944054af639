#!/usr/bin/python3
"""The rendering that is kept in golden/, with what differs from one rendering to the next masked.

    tests/chart/golden.py        writes the files anew; look at the difference before you keep it
"""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from chart_case import CHART, HERE, rendered  # noqa: E402

FOLDER = HERE / "golden"
CASES = {
    "default": {},
    "outside": {"set_": {"external.host": "broker.example", "broker.service.type": "NodePort", "broker.service.nodePort": 30883,
                         "enrolment.service.type": "LoadBalancer", "cloud.replicas": 1, "watch.namespaces": ["default", "other"],
                         "metrics.serviceMonitor.enabled": True, "edge.metrics.enabled": True, "edge.runAsUser": 1000}},
}
DEFINITIONS = "|".join(sorted(file.stem for file in (CHART / "crds").iterdir()))
# Certificates and keys, and what follows from them; the text of the definitions, which are tested elsewhere.
MASKS = [(rf"^(  (?:{DEFINITIONS})\.yaml: \|)\n(?:    .*\n| *\n)*?(?=  [a-z]+\.yaml: \||---$)", r"\1 MASKED\n"),
         (r"^( +(?:tls|ca|cloud-ca)\.(?:crt|key): )[A-Za-z0-9+/=]{40,}$", r"\1MASKED"),
         (r"^( +)-----BEGIN CERTIFICATE-----\n(?: +[A-Za-z0-9+/=]+\n)+ +-----END CERTIFICATE-----$", r"\1MASKED"),
         (r"^( +(?:ilmare/made-for|ilmare/renew-after|checksum/certificate): ).*$", r"\1MASKED")]


def shown(case):
    """The rendering of a case as it is kept."""
    done = rendered(release="ilmare", ns="ilmare", **CASES[case])
    assert done.returncode == 0, done.stderr
    out = done.stdout
    for pattern, replacement in MASKS:
        out = re.sub(pattern, replacement, out, flags=re.M)
    return out


if __name__ == "__main__":
    for name in CASES:
        (FOLDER / f"{name}.yaml").write_text(shown(name))
        print(FOLDER / f"{name}.yaml")
