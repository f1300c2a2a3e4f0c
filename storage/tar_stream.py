"""Many stored files as one archive, written while it is sent: nothing is collected on disk or in memory first.

Plain tar (POSIX.1-2001, pax headers, so that names may be long and in any script): most outputs are compressed already. An
archive that cannot be finished ends its connection; what arrived is then no complete transfer, and no client takes it for one.
"""

from __future__ import annotations

import functools
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from storage.bounds import COPY_BYTES
from storage.models import Artifact

MODE_BITS = 0o777  # No set-user bit of a job comes out of an archive.


@dataclass(frozen=True, slots=True)
class Member:
    """A file or a folder of an archive. `open` gives a descriptor to read the file from, which the archive closes; None: a
    folder. `modified_at` is in seconds since 1970."""

    name: str
    mode: int
    modified_at: float
    open: Callable[[], int] | None = None


def artifact_members(artifacts: Iterable[Artifact], *, folder: str) -> Iterator[Member]:
    """Artifacts below a folder of this name."""
    for row in artifacts:
        opened = functools.partial(os.open, row.location, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        yield Member(f"{folder}/{row.path}", row.mode, row.created_at.timestamp(), opened)


def pack(members: Iterable[Member]) -> Iterator[bytes]:
    """The archive in pieces of a bounded size. Raises OSError where a file is gone, or became shorter while it was packed."""
    for member in members:
        header = tarfile.TarInfo(member.name)
        header.mode, header.mtime = member.mode & MODE_BITS, int(member.modified_at)
        if member.open is None:
            header.type = tarfile.DIRTYPE
            yield _bytes_of(header)
            continue
        descriptor = member.open()
        try:
            header.size = os.fstat(descriptor).st_size
            yield _bytes_of(header)
            yield from _contents(descriptor, header.size, member.name)
        finally:
            os.close(descriptor)
        yield bytes(-header.size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _bytes_of(header: tarfile.TarInfo) -> bytes:
    return header.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")


def _contents(descriptor: int, size: int, name: str) -> Iterator[bytes]:
    """As many bytes as the header says: a file that became shorter is not filled up."""
    left = size
    while left:
        piece = os.read(descriptor, min(COPY_BYTES, left))
        if not piece:
            raise OSError(f"{name} became shorter while it was packed")
        left -= len(piece)
        yield piece
