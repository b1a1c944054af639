#!/usr/bin/python3
"""Prepares the folder that digits.yaml speaks of: models, an empty dataset, an output folder.

HOME/models/initial.npz  trained on the stream's first 60 samples (the digits 0 to 3): base of round 1
HOME/models/deploy.npz   the model that serves: at first the same
HOME/data/samples.txt    the dataset, empty; feed.py appends to it
HOME/data/held-out.txt   samples that are never fed; the inference worker shows its accuracy on them
HOME/output/             for the job

With --store s3://BUCKET/FOLDER the models and the empty dataset are sent there too, as FOLDER/models/… and
FOLDER/data/samples.txt (store.py says where address and key come from).

What is there already is kept, so it may be called again; --force begins anew with models (never with data).
"""

import argparse
import os
import sys

import numpy as np

import model
import store
from stream import SEED, Stream
from worker import WorkerError


def initial_network(stream):
    network = model.new_network()
    network.train(stream.pixels[stream.initial] / model.PIXEL_MAX, np.array(stream.labels[stream.initial]))
    return network


def write_new(path, text):
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        pass


def prepare(home, seed, force):
    stream = Stream(seed)
    for folder in ("models", "data", "output"):
        os.makedirs(os.path.join(home, folder), exist_ok=True)
    network = initial_network(stream)
    for name in ("initial.npz", "deploy.npz"):
        path = os.path.join(home, "models", name)
        if force or not os.path.exists(path):
            model.save(network, path)
    write_new(os.path.join(home, "data", "samples.txt"), "")
    write_new(os.path.join(home, "data", "held-out.txt"), "".join(map(stream.line, stream.held_out)))


def send(home, url, force):
    for name in ("initial.npz", "deploy.npz"):
        store.put(os.path.join(home, "models", name), store.join(url, "models", name), only_new=not force)
    store.put(os.path.join(home, "data", "samples.txt"), store.join(url, "data", "samples.txt"), only_new=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("home", help="folder to prepare")
    parser.add_argument("--seed", type=int, default=SEED, help=f"order of the stream (default {SEED}); give feed.py the same")
    parser.add_argument("--force", action="store_true", help="write both models anew")
    parser.add_argument("--store", metavar="URL", help="s3://BUCKET/FOLDER that models and dataset are sent to as well")
    options = parser.parse_args()
    try:
        prepare(options.home, options.seed, options.force)
        if options.store:
            send(options.home, store.require_s3("--store", options.store), options.force)
    except (OSError, WorkerError) as error:
        sys.exit(f"make_initial.py: {error}")


if __name__ == "__main__":
    main()
