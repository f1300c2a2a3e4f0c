"""Files below a folder in which others work: what vanishes while it is looked at is not there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def paths_below(folder: Path) -> Iterator[Path]:
    """Every file and folder. `Path.rglob` fails at a folder that is removed meanwhile."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            yield Path(place) / name


def content(path: Path) -> bytes:
    """The bytes of a file; none of one that is gone, and of what is no file."""
    try:
        return path.read_bytes() if path.is_file() else b""
    except FileNotFoundError:
        return b""
