"""Stands in for the image that fetches remote files: pairs of a source and a destination folder. What it makes of each is a file with its name."""

import pathlib
import sys

for source, folder in zip(sys.argv[1::2], sys.argv[2::2]):
    source = source.removeprefix("@")
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(folder) / source.rsplit("/", 1)[1]).write_text(source)
    print(f"fetched {source}", flush=True)
