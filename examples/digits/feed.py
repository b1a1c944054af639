#!/usr/bin/python3
"""Appends handwritten digits to a dataset file, or prints them: what a device's camera and its user would do.

One sample a line: label, then 64 pixel values from 0 to 16. Without --offset it goes on where the file ends
(by its number of lines), so that no sample is fed twice. --scramble gives every sample a wrong label at random:
training on them makes a worse model, which the job should refuse. All lines of a call are appended by one write.

--images makes each image a file (PGM, in images/ beside the dataset) that the line names. --store sends the file, whole,
to an s3:// url after each batch, its images before it: an object has no append (store.py says where address and key
come from).
"""

import argparse
import os
import sys

import numpy as np

import model
import store
from stream import SEED, Stream
from worker import WorkerError


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("file", nargs="?", help="dataset file to append to (default: standard output)")
    parser.add_argument("--count", type=int, default=200, help="how many samples (default 200)")
    parser.add_argument("--offset", type=int, help="first sample of the stream to feed (default: number of lines in FILE)")
    parser.add_argument("--seed", type=int, default=SEED, help=f"order of the stream (default {SEED})")
    parser.add_argument("--scramble", action="store_true", help="give every sample a wrong label")
    parser.add_argument("--held-out", action="store_true", help="the samples that are never fed, instead of the stream's")
    parser.add_argument("--quiet", action="store_true", help="do not say what was appended")
    parser.add_argument("--images", action="store_true", help="a file for each image")
    parser.add_argument("--store", metavar="URL", help="s3:// url that FILE is sent to when the samples are in it")
    options = parser.parse_args()
    if (options.images or options.store) and not options.file:
        parser.error("--images and --store need FILE")
    if options.count < 1 or (options.offset or 0) < 0:
        parser.error("--count must be at least 1 and --offset at least 0")
    return parser, options


def line_count(path):
    try:
        with open(path, "rb") as file:
            return sum(chunk.count(b"\n") for chunk in iter(lambda: file.read(1 << 20), b""))
    except FileNotFoundError:
        return 0


def wrong_labels(stream, numbers, seed, offset):
    """Another digit for each sample, each of the nine as likely."""
    shifts = np.random.RandomState([seed, offset]).randint(1, 10, len(numbers))
    return [(int(stream.labels[number]) + int(shift)) % 10 for number, shift in zip(numbers, shifts)]


def write_images(folder, stream, numbers):
    os.makedirs(folder, exist_ok=True)
    for at, number in enumerate(numbers):
        with open(os.path.join(folder, f"{at:04d}.pgm"), "w", encoding="ascii") as file:
            file.write(f"P2\n8 8\n{model.PIXEL_MAX}\n" + "".join(f"{value}\n" for value in stream.pixels[number]))


def append(path, text):
    """One write: a reader that looks in between sees no half of a batch, unless the disk is full."""
    data = text.encode()
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        written = os.write(fd, data)
        if written != len(data):
            raise OSError(f"{path}: only {written} of {len(data)} bytes written")
    finally:
        os.close(fd)


def main():
    parser, options = arguments()
    stream = Stream(options.seed)
    if options.held_out:
        options.offset = options.offset or 0
        source = stream.held_out
        options.count = min(options.count, len(source) - options.offset)
    else:
        source = stream.rest
        if options.offset is None:
            options.offset = line_count(options.file) if options.file else 0
    numbers = source[options.offset:options.offset + options.count]
    if not numbers or len(numbers) < options.count:
        parser.error(f"the samples end at {len(source)}: cannot give {options.count} from {options.offset} on")
    labels = wrong_labels(stream, numbers, options.seed, options.offset) if options.scramble else stream.labels[numbers]
    text = "".join(stream.line(number, label) for number, label in zip(numbers, labels))
    url = store.require_s3("--store", options.store) if options.store else ""
    if options.images:
        batch = f"images/{options.offset:04d}"
        folder = os.path.join(os.path.dirname(os.path.abspath(options.file)), batch)
        write_images(folder, stream, numbers)
        if url:
            store.put_folder(folder, store.join(os.path.dirname(url), batch))
        text = "".join(f"{label} {batch}/{at:04d}.pgm\n" for at, label in enumerate(labels))
    if not options.file:
        sys.stdout.write(text)
        return
    append(options.file, text)
    if url:
        store.put(options.file, url)
    if not options.quiet:
        what = "scrambled samples" if options.scramble else "samples"
        print(f"{len(numbers)} {what} appended to {options.file}, from {options.offset} on")


if __name__ == "__main__":
    try:
        main()
    except (OSError, WorkerError) as failure:
        sys.exit(f"feed.py: {failure}")
