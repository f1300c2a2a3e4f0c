"""What all processes of one test run share and only the first of them makes: the server's copy, tables that are migrated.

    with made_once("tables") as folder:     # nobody else is in the block with the same name
        if not (folder / "berth.sqlite3").exists(): ...

`tools/testrun.py` gives one folder to all its stages. pytest alone makes one for itself and its workers, and so
does every other program that starts platforms: `make screens`, `make chaos`.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

FOLDER = "BERTH_TEST_PREPARED"


@contextlib.contextmanager
def made_once(name: str) -> Iterator[Path]:
    """The part of the folder that has this name, for one process at a time."""
    if FOLDER not in os.environ:
        make_folder()
        atexit.register(remove_folder)
    folder = Path(os.environ[FOLDER]) / name
    folder.mkdir(mode=0o755, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def make_folder() -> Path:
    """A new one, for this process and those that it starts."""
    folder = Path(tempfile.mkdtemp(prefix="berth-prepared-", dir="/tmp"))
    folder.chmod(0o755)  # The platform's own user runs the server from it.
    os.environ[FOLDER] = str(folder)
    return folder


def remove_folder() -> None:
    shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)
