#!/usr/bin/python3
"""Fills in the ${…} tokens of digits.yaml, or with --store those of digits-s3.yaml, and prints the manifests.

Only these tokens are known: DIGITS_HOME (the folder that make_initial.py prepared), DIGITS_CODE (the folder of the
scripts), DIGITS_NODE, DIGITS_TRAIN_SECONDS, DIGITS_CHECK_SECONDS; with --store also DIGITS_STORE, DIGITS_TRANSFER,
DIGITS_ENDPOINT and DIGITS_HTTPS (of S3_ENDPOINT_URL), DIGITS_ACCESS_KEY and DIGITS_SECRET_KEY (of ACCESS_KEY_ID and
SECRET_ACCESS_KEY, in quotes). Any other tool that substitutes them does as well.
"""

import argparse
import json
import os
import shutil
import string
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def folder(text):
    """Absolute, and safe between the double quotes that the manifests put around it."""
    path = os.path.abspath(text)
    if any(character in '"\\;' or not character.isprintable() for character in path):
        raise argparse.ArgumentTypeError(f"{path!r}: quotes, backslashes, semicolons and control characters cannot be used")
    return path


def store(text):
    if not text.startswith("s3://") or any(character in '"\\;' or not character.isprintable() for character in text):
        raise argparse.ArgumentTypeError(f"{text!r}: s3://BUCKET/FOLDER, without quotes, backslashes and semicolons")
    return text.rstrip("/")


def store_tokens(options):
    missing = [name for name in ("S3_ENDPOINT_URL", "ACCESS_KEY_ID", "SECRET_ACCESS_KEY") if not os.environ.get(name)]
    if missing:
        sys.exit(f"render.py: --store needs the variables {', '.join(missing)}")
    scheme, _, endpoint = os.environ["S3_ENDPOINT_URL"].rpartition("://")
    return {
        "DIGITS_STORE": options.store,
        "DIGITS_TRANSFER": options.transfer or shutil.which("ilmare-transfer") or "ilmare-transfer",
        "DIGITS_ENDPOINT": endpoint.rstrip("/"),
        "DIGITS_HTTPS": "0" if scheme == "http" else "1",
        "DIGITS_ACCESS_KEY": json.dumps(os.environ["ACCESS_KEY_ID"]),
        "DIGITS_SECRET_KEY": json.dumps(os.environ["SECRET_ACCESS_KEY"]),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("home", type=folder, help="folder that make_initial.py prepared")
    parser.add_argument("--code", type=folder, default=HERE, help="folder of the scripts (default: this one)")
    parser.add_argument("--node", default="edge-1", help="node name of the edge agent (default edge-1)")
    parser.add_argument("--train-seconds", type=float, default=0, help="let each training last at least this long (default 0)")
    parser.add_argument("--check-seconds", type=int, default=1, help="checkPeriodSeconds of both triggers (default 1)")
    parser.add_argument("--store", type=store, metavar="URL", help="s3://BUCKET/FOLDER for dataset, models and output, as given to make_initial.py")
    parser.add_argument("--transfer", type=folder, help="with --store: the program ilmare-transfer for the train worker (default: that of PATH)")
    options = parser.parse_args()
    more = store_tokens(options) if options.store else {}
    with open(os.path.join(HERE, "digits-s3.yaml" if options.store else "digits.yaml"), encoding="utf-8") as file:
        template = string.Template(file.read())
    sys.stdout.write(template.substitute(
        DIGITS_HOME=options.home,
        DIGITS_CODE=options.code,
        DIGITS_NODE=options.node,
        DIGITS_TRAIN_SECONDS=f"{options.train_seconds:g}",
        DIGITS_CHECK_SECONDS=options.check_seconds,
        **more,
    ))


if __name__ == "__main__":
    main()
