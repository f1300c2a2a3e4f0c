"""Many stored files as one archive, written while it is sent: nothing is collected on disk or in memory first.

Plain tar (POSIX.1-2001, pax headers, so that names may be long and in any script): most outputs are compressed already. What a
job that runs has removed or renamed since it was listed is left out, and the last entry names it. An archive that cannot be
finished ends its connection; what arrived is then no complete transfer, and no client takes it for one.
"""

from __future__ import annotations

import functools
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from kernel.errors import NotFound
from kernel.file_names import path_of
from storage.bounds import COPY_BYTES
from storage.models import Artifact

LEFT_OUT = "berth-left-out.txt"
LEFT_OUT_MAX = 10_000  # Names that the last entry tells.
MODE_BITS = 0o777  # No set-user bit of a job comes out of an archive.


@dataclass(frozen=True, slots=True)
class Member:
    """A file or a folder of an archive, its name as text of `kernel.file_names`. `open` gives a descriptor to read the file from,
    which the archive closes; None: a folder. `modified_at` is in seconds since 1970."""

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
    """The archive in pieces of a bounded size. Raises OSError where a file became shorter while it was packed."""
    gone: list[str] = []
    for member in members:
        header = tarfile.TarInfo(path_of(member.name))
        header.mode, header.mtime = member.mode & MODE_BITS, int(member.modified_at)
        if member.open is None:
            header.type = tarfile.DIRTYPE
            yield _bytes_of(header)
            continue
        try:
            descriptor = member.open()
        except (FileNotFoundError, NotFound):
            gone.append(member.name)
            continue
        try:
            header.size = os.fstat(descriptor).st_size
            yield _bytes_of(header)
            yield from _contents(descriptor, header.size, member.name)
        finally:
            os.close(descriptor)
        yield bytes(-header.size % tarfile.BLOCKSIZE)
    if gone:
        yield _told(gone)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _told(gone: Sequence[str]) -> bytes:
    """The last entry, beside the folder: what is not in the archive, though it was when the archive was begun."""
    lines = ["Not there any more when it was to be packed:", *gone[:LEFT_OUT_MAX]]
    lines += [f"and {len(gone) - LEFT_OUT_MAX} more"] if len(gone) > LEFT_OUT_MAX else []
    content = ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
    header = tarfile.TarInfo(LEFT_OUT)
    header.size, header.mode = len(content), 0o644
    return _bytes_of(header) + content + bytes(-len(content) % tarfile.BLOCKSIZE)


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
