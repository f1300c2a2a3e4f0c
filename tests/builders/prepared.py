"""One folder for all that a test run makes, and in it what its processes share and only the first of them makes.

    with made_once("tables") as folder:     # no other process is in the block with the same name
        if not (folder / "berth.sqlite3").exists(): ...
    short_folder("live")                    # /tmp/berth-abcdefgh/live-12345678

`tools/testrun.py` gives one folder to all its stages, and removes it with whatever is left in it. pytest alone makes one for
itself and its workers, and so does every other program that starts platforms: `make screens`, `make chaos`.
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

FOLDER = "BERTH_TEST_FOLDER"  # The variable that names it.
PREPARED = "prepared"
TEMPORARY = "tmp"


@contextlib.contextmanager
def made_once(name: str) -> Iterator[Path]:
    """The part of the folder that has this name, for one process at a time."""
    folder = _of_the_run() / PREPARED / name
    folder.mkdir(mode=0o755, parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder


def short_folder(name: str) -> Path:
    """A new one of the run, below /tmp wherever the caller keeps temporary files: sockets need short paths."""
    return Path(tempfile.mkdtemp(prefix=f"{name}-", dir=_of_the_run()))


def temporary() -> Path:
    """The place of the run's temporary files, which every user may write to."""
    return _of_the_run() / TEMPORARY


def make_folder() -> Path:
    """A new one, for this process and those that it starts."""
    folder = Path(tempfile.mkdtemp(prefix="berth-", dir="/tmp"))
    folder.chmod(0o755)  # The platform's own user runs the server from it.
    (folder / TEMPORARY).mkdir()
    (folder / TEMPORARY).chmod(0o1777)
    os.environ[FOLDER] = str(folder)
    return folder


def _of_the_run() -> Path:
    if FOLDER not in os.environ:
        make_folder()
        atexit.register(remove_folder)
    return Path(os.environ[FOLDER])


def remove_folder() -> None:
    shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)
