"""Room on disk: asked before it is used, so that a full disk refuses uploads and never the database."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from kernel.config import current
from kernel.errors import StorageFull
from kernel.words import Text
from storage.bounds import DISK_RESERVE_BYTES

_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_CLOSED = frozenset({errno.EROFS, errno.EIO})  # Mounted read-only by an operator, or by the kernel after an error of the disk.


def free_bytes(path: Path | None = None) -> int:
    """Bytes that may still be written below the data directory; what is kept in reserve does not count."""
    found = os.statvfs(path or current().data_dir)
    return max(0, found.f_bavail * found.f_frsize - DISK_RESERVE_BYTES)


def troubles(folders: Iterable[Path]) -> dict[str, str]:
    """What keeps each of these folders from being written to, by name; empty where all is well. Missing ones are left out."""
    found: dict[str, str] = {}
    for folder in folders:
        try:
            facts = os.statvfs(folder)
        except FileNotFoundError:
            continue
        except OSError as error:
            found[folder.name] = f"cannot be looked at ({error.strerror})"
            continue
        if facts.f_flag & os.ST_RDONLY:
            found[folder.name] = "the disk takes no changes (read-only)"
        elif facts.f_bavail == 0:
            found[folder.name] = "the disk is full"
        elif facts.f_files and facts.f_favail == 0:
            found[folder.name] = "the disk has no room for more files (inodes)"
    return found


def require_room(size_bytes: int, *, what: str) -> None:
    """StorageFull unless there is room for so many more bytes."""
    free = free_bytes()
    if size_bytes > free:
        raise StorageFull(
            Text(
                f"{what} needs {size_bytes:,} bytes; {free:,} are free on the server's disk.",
                f"{what} 需要 {size_bytes:,} 字节；服务器磁盘剩余 {free:,} 字节。",
            ),
            hint=Text(
                "Delete files that are no longer needed, or ask an operator for more room.",
                "请删除不再需要的文件，或请运维人员增加空间。",
            ),
            retry_after_seconds=60,
        )


def is_without_room(error: OSError) -> bool:
    """Whether a disk or a quota is full, or takes no changes: all writes wait, and none of them is at fault."""
    return error.errno in _FULL or error.errno in _CLOSED


@contextlib.contextmanager
def full_disk_is_told(what: str) -> Iterator[None]:
    """Turn "no space left on device" inside the block into StorageFull, and so a disk that takes no changes at all."""
    try:
        yield
    except OSError as error:
        if error.errno in _CLOSED:
            raise StorageFull(
                Text(
                    f"The server's disk takes no changes, so {what} was not stored; nothing was lost that was already confirmed.",
                    f"服务器磁盘无法写入，{what} 未存储；已确认的内容没有丢失。",
                ),
                hint=Text(
                    "An operator has to look at the disk; then send the same again.", "需由运维人员检查磁盘，然后重新发送。"
                ),
                retry_after_seconds=60,
            ) from error
        if error.errno not in _FULL:
            raise
        raise StorageFull(
            Text(
                f"The disk became full while storing {what}; nothing was lost that was already confirmed.",
                f"存储 {what} 时磁盘已满；已确认的内容没有丢失。",
            ),
            hint=Text("Free some room, then send the same again.", "请腾出空间后重新发送。"),
            retry_after_seconds=60,
        ) from error
