#!/usr/bin/python3
"""Eval worker: measures each model on the same samples and reports one result for each, in the order given.

Reads MODEL_URLS (joined by ";", the newly trained model first, then the one to compare with) and TEST_DATASET_URL.
ORIGINAL_DATASET_URL, the dataset or the index of those of its files that the samples name, is needed where a sample names the
file of its image. Whether the new one is deployed is not decided here: the job's deploy trigger compares the metrics. A bad model is
therefore a low figure, not an error.
"""

import model
import worker


def work(me):
    urls = [url for url in me.need("MODEL_URLS").split(";") if url]
    data = worker.require_local("TEST_DATASET_URL", me.need("TEST_DATASET_URL"))
    pixels, labels = model.read_samples(data, model.images_of(me.local_path("ORIGINAL_DATASET_URL")))
    results = []
    for url in urls:
        path = model.model_file(worker.require_local("MODEL_URLS", url))
        metrics = model.load(path).measure(pixels, labels)
        worker.log("evaluated", file=path, **metrics)
        results.append({"format": model.FORMAT, "url": me.path_on_node(path), "metrics": metrics})
    me.report("completed", results)


if __name__ == "__main__":
    worker.run("eval", work)
