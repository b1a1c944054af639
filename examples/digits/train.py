#!/usr/bin/python3
"""Train worker: goes on training from the base model, saves the new one, reports it.

Reads BASE_MODEL_URL (file or folder; may be unset or not there yet: then a new network is begun),
TRAIN_DATASET_URL (this round's train samples) and MODEL_URL (the folder of this round, to save in).
ORIGINAL_DATASET_URL, the dataset the samples were taken from, is not needed by this kind of training.

Started again for the same round, it does the same work from the same base and replaces its own file: the result
is the same, byte for byte. DIGITS_TRAIN_SECONDS makes the run last at least that long (something to interrupt).
"""

import os
import time

import model
import worker


def base_network(path):
    if path and os.path.exists(model.model_file(path)):
        worker.log("going on from base model", file=model.model_file(path), sha256=model.sha256_of(path))
        return model.load(path)
    worker.log("no base model, beginning with a new network", base=path or "(none)")
    return model.new_network()


def work(me):
    started = time.monotonic()
    at_least = me.seconds("DIGITS_TRAIN_SECONDS", 0)
    me.need("MODEL_URL")
    data = worker.require_local("TRAIN_DATASET_URL", me.need("TRAIN_DATASET_URL"))
    target = os.path.join(me.local_path("MODEL_URL"), model.FILE_NAME)
    network = base_network(me.local_path("BASE_MODEL_URL"))

    pixels, labels = model.read_samples(data)
    if len(labels) == 0:
        raise worker.WorkerError(f"{data}: no usable sample")
    before = network.measure(pixels, labels)
    network.train(pixels, labels)
    metrics = network.measure(pixels, labels)
    model.save(network, target)
    worker.log("trained", samples=len(labels), accuracy_before=before["accuracy"], accuracy=metrics["accuracy"], file=target)

    time.sleep(max(0.0, at_least - (time.monotonic() - started)))
    me.report("completed", [{"format": model.FORMAT, "url": me.path_on_node(target), "metrics": metrics}])


if __name__ == "__main__":
    worker.run("train", work)
