"""Room on disk: asked before it is used, so that a full disk refuses uploads and never the database."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

from kernel.config import current
from kernel.errors import StorageFull
from storage.bounds import DISK_RESERVE_BYTES

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})


def free_bytes(path: Path | None = None) -> int:
    """Bytes that may still be written below the data directory; what is kept in reserve does not count."""
    found = os.statvfs(path or current().data_dir)
    return max(0, found.f_bavail * found.f_frsize - DISK_RESERVE_BYTES)


def require_room(size_bytes: int, *, what: str) -> None:
    """StorageFull unless there is room for so many more bytes."""
    free = free_bytes()
    if size_bytes > free:
        raise StorageFull(
            f"{what} needs {size_bytes:,} bytes; {free:,} are free on the server's disk.",
            hint="Delete files that are no longer needed, or ask an operator for more room.",
            retry_after_seconds=60,
        )


@contextlib.contextmanager
def full_disk_is_told(what: str) -> Iterator[None]:
    """Turn "no space left on device" inside the block into StorageFull."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise StorageFull(
            f"The disk became full while storing {what}; nothing was lost that was already confirmed.",
            hint="Free some room, then send the same again.",
            retry_after_seconds=60,
        ) from error
