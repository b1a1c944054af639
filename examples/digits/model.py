"""The network of the digits example, its file and its samples.

64 pixels → 32 rectified units → 10 digits, soft-max; plain mini-batch gradient descent in numpy. Small enough that
a round of training takes tenths of a second, and really trained: nothing here knows what the answer should be.

Design:
- Training goes on from whatever network it is given. Rates, passes and the order of the samples are fixed, so the
  same base and the same samples give the same network.
- The file is numpy's .npz read with allow_pickle=False: loading a model cannot run code, whoever wrote it.
- save() writes beside, syncs and renames: a reader sees the whole old file or the whole new one.
- A sample is one line: a label, and 64 values from 0 to 16 or the name of the image's file (PGM, plain), which is
  found from the folder of the dataset, or of the index where the dataset is remote. A line that is neither is named
  and left out; a file that should be there and is not is an error.

Invariant: every Network has the shapes of SHAPES and finite numbers; load() refuses anything else.
"""

import hashlib
import os

# One thread: the sums are then added in the same order on every machine, and a device has other things to do.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402 (after the setting above)

from worker import WorkerError, log  # noqa: E402

PIXELS = 64
PIXEL_MAX = 16
DIGITS = 10
HIDDEN = 32
SHAPES = {"w1": (PIXELS, HIDDEN), "b1": (HIDDEN,), "w2": (HIDDEN, DIGITS), "b2": (DIGITS,)}
FORMAT = "npz"
FILE_NAME = "model.npz"
INDEX_NAME = "dataIndex.txt"

PASSES = 20
RATE = 0.3
MINI_BATCH = 16
SEED = 1


class Network:
    def __init__(self, arrays):
        self.arrays = arrays

    def probabilities(self, pixels):
        return self.forward(pixels)[1]

    def forward(self, pixels):
        a = self.arrays
        hidden = np.maximum(pixels @ a["w1"] + a["b1"], 0.0)
        scores = hidden @ a["w2"] + a["b2"]
        scores -= scores.max(axis=1, keepdims=True)
        powers = np.exp(scores)
        return hidden, powers / powers.sum(axis=1, keepdims=True)

    def step(self, pixels, labels):
        """One step down the gradient of the mean cross-entropy of these samples."""
        a = self.arrays
        hidden, delta = self.forward(pixels)
        delta[np.arange(len(labels)), labels] -= 1.0
        delta /= len(labels)
        hidden_delta = (delta @ a["w2"].T) * (hidden > 0.0)
        a["w2"] -= RATE * (hidden.T @ delta)
        a["b2"] -= RATE * delta.sum(axis=0)
        a["w1"] -= RATE * (pixels.T @ hidden_delta)
        a["b1"] -= RATE * hidden_delta.sum(axis=0)

    def train(self, pixels, labels, passes=PASSES):
        order = np.random.RandomState(SEED)
        for _ in range(passes):
            shuffled = order.permutation(len(labels))
            for first in range(0, len(labels), MINI_BATCH):
                some = shuffled[first:first + MINI_BATCH]
                self.step(pixels[some], labels[some])

    def measure(self, pixels, labels):
        """Metrics over these samples. Without any there is no accuracy, and none is made up."""
        if len(labels) == 0:
            return {"samples": 0}
        sure = self.probabilities(pixels)
        right = sure[np.arange(len(labels)), labels]
        return {
            "accuracy": round(float((sure.argmax(axis=1) == labels).mean()), 6),
            "loss": round(float(-np.log(np.maximum(right, 1e-12)).mean()), 6),
            "samples": len(labels),
        }


def new_network():
    """An untrained network, always the same one."""
    random = np.random.RandomState(0)
    return Network({
        "w1": random.randn(PIXELS, HIDDEN) * np.sqrt(2.0 / PIXELS),
        "b1": np.zeros(HIDDEN),
        "w2": random.randn(HIDDEN, DIGITS) * np.sqrt(1.0 / HIDDEN),
        "b2": np.zeros(DIGITS),
    })


def model_file(path):
    """A model may be named by its file or by the folder it is in."""
    return os.path.join(path, FILE_NAME) if os.path.isdir(path) else path


def load(path):
    """Network in the file at `path`. Raises WorkerError for a file that is damaged or of another shape, OSError if it cannot be read."""
    try:
        with np.load(model_file(path), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in SHAPES}
    except OSError:
        raise
    except Exception as error:  # a damaged archive makes numpy, zipfile, zlib and tokenize raise whatever they meet
        raise WorkerError(f"{path}: not a model of this example: {error}") from error
    for name, shape in SHAPES.items():
        array = arrays[name]
        if array.shape != shape or array.dtype != np.float64 or not np.isfinite(array).all():
            raise WorkerError(f"{path}: {name} is not {shape} of finite numbers")
    return Network(arrays)


def save(network, path):
    folder = os.path.dirname(os.path.abspath(path))
    os.makedirs(folder, exist_ok=True)
    beside = os.path.join(folder, f".{os.path.basename(path)}.tmp")
    with open(beside, "wb") as file:
        np.savez(file, **network.arrays)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    folder_fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder_fd)
    finally:
        os.close(folder_fd)


def sha256_of(path):
    with open(model_file(path), "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def read_index(path):
    """(folder of the dataset, names of files below it) of a dataIndex.txt: first the folder, then words that are names."""
    folder, names = None, []
    with open(path, encoding="utf-8") as file:
        for line in file:
            if folder is None and not line.startswith("#"):
                folder = line.strip()
            elif folder is not None and line.rstrip("\r\n") != "#" and not line.startswith("# "):
                names += line.split()
    if not folder:
        raise WorkerError(f"{path}: names no folder")
    return folder, names


def images_of(original):
    """Where the images are that samples name, seen from ORIGINAL_DATASET_URL: a dataset, or the index of a remote one. None: nowhere.

    Of a remote dataset the files of the index, and no others, have been fetched into the index's own folder.
    """
    if not original:
        return None
    folder = os.path.dirname(os.path.abspath(original))
    if os.path.basename(original) == INDEX_NAME:
        source, names = read_index(original)
        missing = [name for name in names if not os.path.exists(os.path.join(folder, name))]
        if missing:
            raise WorkerError(f"{original}: {len(missing)} of {len(names)} files are not there, {missing[0]} is the first")
        log("files of the dataset", source=source, files=len(names))
    return folder


def read_image(path):
    """64 values of a plain PGM file of 8×8 pixels, or ValueError."""
    with open(path, encoding="ascii") as file:
        words = [word for line in file for word in line.partition("#")[0].split()]
    if words[:4] != ["P2", "8", "8", str(PIXEL_MAX)]:
        raise ValueError(f"{path}: not a plain PGM of 8 by 8 pixels from 0 to {PIXEL_MAX}")
    return [int(word) for word in words[4:]]


def parse_sample(line, images=None):
    """(label, pixels) of one line, or ValueError. images: the folder below which its file is, if it names one."""
    fields = line.split()
    if len(fields) == 2 and images is not None and not os.path.isabs(fields[1]) and ".." not in fields[1].split("/"):
        values = [int(fields[0]), *read_image(os.path.join(images, fields[1]))]
    else:
        values = [int(field) for field in fields]
    if len(values) != 1 + PIXELS:
        raise ValueError(f"{len(values)} fields instead of {1 + PIXELS}")
    if not 0 <= values[0] < DIGITS:
        raise ValueError(f"label {values[0]}")
    if min(values[1:]) < 0 or max(values[1:]) > PIXEL_MAX:
        raise ValueError("a pixel outside 0 to 16")
    return values[0], values[1:]


def read_samples(path, images=None):
    """(pixels scaled to 0…1, labels) of a txt file. images: see images_of."""
    labels, pixels = [], []
    with open(path, encoding="utf-8", errors="replace") as file:
        for number, line in enumerate(file, 1):
            try:
                label, values = parse_sample(line, images)
            except ValueError as error:
                log("line left out", file=path, line=number, reason=error)
                continue
            labels.append(label)
            pixels.append(values)
    return np.array(pixels, dtype=float).reshape(-1, PIXELS) / PIXEL_MAX, np.array(labels, dtype=int)
