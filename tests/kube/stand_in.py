"""Stands in for the image of a training project: train.py, eval.py and inference.py as its arguments say, with no machine learning in it.

It uses what Sedna's library uses: the variables, the prefix that it cuts from paths, two results for a trained model (the one that serves and
the one to go on from), five attempts 3 s apart. With hot update the model is loaded when the configuration says so, and each time it is told.
STAND_IN_METRICS: JSON list, the metrics of each evaluated model in order.
"""

import json
import os
import pathlib
import signal
import sys
import time
import urllib.request

env = os.environ
PREFIX = env.get("DATA_PATH_PREFIX", "/home/data")


def on_node(path):
    """The path as the node has it."""
    return path[len(PREFIX):] if PREFIX and path.startswith(PREFIX) else path


def report(kind, results):
    worker = env["WORKER_NAME"]
    body = {"name": worker, "namespace": env["NAMESPACE"], "ownerName": env["JOB_NAME"], "ownerKind": "incrementallearningjob", "kind": kind,
            "status": "completed", "results": results}
    url = f"{env.get('LC_SERVER', 'http://localhost:9100')}/sedna/workers/{worker}/info"
    for attempt in range(5):
        if attempt:
            time.sleep(3)
        try:
            request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
            with urllib.request.urlopen(request, timeout=30) as answer:
                json.load(answer)
                return
        except (OSError, ValueError) as e:
            print(f"attempt {attempt + 1}: {e}", flush=True)
    # As the library does: a lost report does not fail the script.


def train():
    base, folder = pathlib.Path(env["BASE_MODEL_URL"]), pathlib.Path(env["MODEL_URL"])
    samples = pathlib.Path(env["TRAIN_DATASET_URL"]).read_text().splitlines()
    assert base.exists(), f"there is no base model {base}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "saved_model.pb").write_text(f"{env['WORKER_NAME']} learned from {len(samples)} samples\n")
    (folder / "checkpoint").write_text(env["WORKER_NAME"])
    report("train", [{"format": "pb", "url": on_node(str(folder / "saved_model.pb")), "metrics": None},
                     {"format": "ckpt", "url": on_node(str(folder)), "metrics": None}])


def evaluate():
    assert pathlib.Path(env["TEST_DATASET_URL"]).exists()
    models = env["MODEL_URLS"].split(";")
    assert all(pathlib.Path(m).exists() for m in models), models
    metrics = json.loads(env.get("STAND_IN_METRICS", '[{"precision": [0.9, 0.8]}, {"precision": [0.5, 0.4]}]'))
    report("eval", [{"format": "pb", "url": on_node(m), "metrics": metrics[min(i, len(metrics) - 1)]} for i, m in enumerate(models)])


def infer():
    print(f"serves {pathlib.Path(env['MODEL_URL']).read_text().strip()}", flush=True)
    seen = None
    while env.get("MODEL_HOT_UPDATE") == "true" and signal.sigtimedwait([signal.SIGTERM], int(env["MODEL_POLL_PERIOD_SECONDS"])) is None:
        config = pathlib.Path(env["MODEL_HOT_UPDATE_CONFIG"])
        config = json.loads(config.read_text())["model_config"] if config.exists() else {}
        if config.get("model_update_time") == seen:
            continue
        # As a container it would see the path that stands there; here the folder is where the configuration is.
        file = pathlib.Path(env["MODEL_HOT_UPDATE_CONFIG"]).parent / pathlib.Path(config["model_path"]).name
        print(f"serves {file.read_text().strip()}", flush=True)
        seen = config["model_update_time"]
        report("deploy", [{"format": "pb", "url": config["model_path"], "metrics": None}])
    if env.get("MODEL_HOT_UPDATE") != "true":
        signal.sigwait([signal.SIGTERM])


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM] if sys.argv[1] == "inference.py" else [])
    {"train.py": train, "eval.py": evaluate, "inference.py": infer}[sys.argv[1]]()
