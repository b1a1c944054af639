#!/usr/bin/python3
"""Train worker: goes on training from the base model, saves the new one, reports it.

Reads BASE_MODEL_URL (file or folder; may be unset or not there yet: then a new network is begun),
TRAIN_DATASET_URL (this round's train samples) and MODEL_URL (the folder of this round, to save in; at an s3:// url
the model is saved to a folder of its own first and then sent, and the url of the object is reported).
ORIGINAL_DATASET_URL, the dataset the samples were taken from or the index of those of its files that they name, is
needed where a sample names the file of its image (model.py).

Started again for the same round, it does the same work from the same base and replaces its own file: the result
is the same, byte for byte. DIGITS_TRAIN_SECONDS makes the run last at least that long (something to interrupt).
"""

import os
import tempfile
import time

import model
import store
import worker


def base_network(path):
    if path and os.path.exists(model.model_file(path)):
        worker.log("going on from base model", file=model.model_file(path), sha256=model.sha256_of(path))
        return model.load(path)
    worker.log("no base model, beginning with a new network", base=path or "(none)")
    return model.new_network()


def save(network, me):
    """Into the folder of this round. Returns the model as the report names it, once it is complete there."""
    url = me.need("MODEL_URL")
    if not store.is_remote(url):
        target = os.path.join(url, model.FILE_NAME)
        model.save(network, target)
        return me.path_on_node(target)
    target = store.join(store.require_s3("MODEL_URL", url), model.FILE_NAME)
    with tempfile.TemporaryDirectory(prefix="digits-") as folder:
        path = os.path.join(folder, model.FILE_NAME)
        model.save(network, path)
        store.put(path, target)
    return target


def work(me):
    started = time.monotonic()
    at_least = me.seconds("DIGITS_TRAIN_SECONDS", 0)
    me.need("MODEL_URL")
    data = worker.require_local("TRAIN_DATASET_URL", me.need("TRAIN_DATASET_URL"))
    network = base_network(me.local_path("BASE_MODEL_URL"))

    pixels, labels = model.read_samples(data, model.images_of(me.local_path("ORIGINAL_DATASET_URL")))
    if len(labels) == 0:
        raise worker.WorkerError(f"{data}: no usable sample")
    before = network.measure(pixels, labels)
    network.train(pixels, labels)
    metrics = network.measure(pixels, labels)
    target = save(network, me)
    worker.log("trained", samples=len(labels), accuracy_before=before["accuracy"], accuracy=metrics["accuracy"], file=target)

    time.sleep(max(0.0, at_least - (time.monotonic() - started)))
    me.report("completed", [{"format": model.FORMAT, "url": target, "metrics": metrics}])


if __name__ == "__main__":
    worker.run("train", work)
