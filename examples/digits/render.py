#!/usr/bin/python3
"""Fills in the ${…} tokens of digits.yaml and prints the manifests.

Only these tokens are known: DIGITS_HOME (the folder that make_initial.py prepared), DIGITS_CODE (the folder of the
scripts), DIGITS_NODE, DIGITS_TRAIN_SECONDS, DIGITS_CHECK_SECONDS. Any other tool that substitutes them does as well.
"""

import argparse
import os
import string
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def folder(text):
    """Absolute, and safe between the double quotes that the manifests put around it."""
    path = os.path.abspath(text)
    if any(character in '"\\;' or not character.isprintable() for character in path):
        raise argparse.ArgumentTypeError(f"{path!r}: quotes, backslashes, semicolons and control characters cannot be used")
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("home", type=folder, help="folder that make_initial.py prepared")
    parser.add_argument("--code", type=folder, default=HERE, help="folder of the scripts (default: this one)")
    parser.add_argument("--node", default="edge-1", help="node name of the edge agent (default edge-1)")
    parser.add_argument("--train-seconds", type=float, default=0, help="let each training last at least this long (default 0)")
    parser.add_argument("--check-seconds", type=int, default=1, help="checkPeriodSeconds of both triggers (default 1)")
    options = parser.parse_args()
    with open(os.path.join(HERE, "digits.yaml"), encoding="utf-8") as file:
        template = string.Template(file.read())
    sys.stdout.write(template.substitute(
        DIGITS_HOME=options.home,
        DIGITS_CODE=options.code,
        DIGITS_NODE=options.node,
        DIGITS_TRAIN_SECONDS=f"{options.train_seconds:g}",
        DIGITS_CHECK_SECONDS=options.check_seconds,
    ))


if __name__ == "__main__":
    main()
