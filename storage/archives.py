"""Looks through an archive of source code before anybody unpacks it: gzipped tar with plain files below its root, nothing else.

A name that leads outside, a link that does, a device, a bomb: each is refused with the member's name. So is whatever no file
system could hold: a name that is too long, an entry below a file, one name for two things. The archive is read as a stream with
bounded memory and is never unpacked here; the engine unpacks it with its own checks and the tenant's rights, and what passes here
is what it can unpack.
"""

from __future__ import annotations

import posixpath
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import IO, cast

from kernel.errors import FieldError, InvalidInput
from kernel.limits import CODE_SNAPSHOT_BYTES
from storage import bounds
from storage.paths import NAME_BYTES_MAX

PROBLEMS_MAX = 20  # The first ones tell what is wrong with the rest.
HEADER_BYTES_MAX = 64 * 1024  # Extended headers of one member hold names; tarfile reads them into memory whole.


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What a checked archive holds."""

    file_count: int
    unpacked_bytes: int


class BadArchive(InvalidInput):
    """The uploaded code cannot be taken: it is no gzipped tar archive, or holds what must not be unpacked."""

    code = "bad_archive"
    title = "The archive cannot be used"


def check_archive(file: IO[bytes], *, size_bytes: int) -> ArchiveFacts:
    """Read a whole archive of `size_bytes` and give its facts; BadArchive names every member that is refused."""
    if size_bytes > CODE_SNAPSHOT_BYTES:
        raise BadArchive(
            f"The archive is larger than {CODE_SNAPSHOT_BYTES // 1024**2} MiB.", hint="Leave data out with .berthignore."
        )
    reader = _BoundedGzip(file, packed_bytes=size_bytes)
    problems: list[FieldError] = []
    tree = _Tree()
    count = size = 0
    try:
        # Stream mode reads forward only: no member can send the reader back to grow what was counted.
        with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r|", tarinfo=_Member) as archive:
            for member in archive:
                count += 1
                size += member.size if member.isreg() else 0  # Of a file with holes, more than the archive has of it.
                if count > bounds.CODE_FILES_MAX or tree.is_too_large:
                    raise BadArchive(f"The archive holds more than {bounds.CODE_FILES_MAX:,} entries.", hint=_IGNORE_HINT)
                if size > bounds.CODE_UNPACKED_BYTES_MAX:
                    raise BadArchive(f"Unpacked, its files have more than {bounds.CODE_UNPACKED_BYTES_MAX // 1024**2} MiB.")
                problem = _problem(member) or tree.add(member)
                if problem and len(problems) < PROBLEMS_MAX:
                    problems.append(FieldError(f"/archive/{count}", "bad_member", f"{_shown(member.name)}: {problem}"))
                archive.members = []  # type: ignore[attr-defined]  # Else every member seen stays in memory.
        reader.drain()
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError, ValueError, OverflowError) as error:
        raise BadArchive(f"The upload is no gzipped tar archive: {str(error)[:200]}", hint="Pack it with `tar -czf`.") from None
    if problems:
        raise BadArchive("The archive holds entries that are not unpacked.", fields=problems, hint=_IGNORE_HINT)
    return ArchiveFacts(count, reader.unpacked_bytes)


class _Member(tarfile.TarInfo):
    """A member whose extended headers are of a size that names have."""

    def _proc_member(self, archive: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type not in tarfile.REGULAR_TYPES and self.type not in _WITHOUT_BODY and self.size > HEADER_BYTES_MAX:
            raise BadArchive("A header inside the archive is too long.", hint="Pack it with `tar -czf`.")
        found: tarfile.TarInfo = super()._proc_member(archive)  # type: ignore[misc]  # Not in the type stubs.
        return found


_WITHOUT_BODY = frozenset({tarfile.DIRTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE})
_IGNORE_HINT = "Leave them out with .berthignore."


def _problem(member: tarfile.TarInfo) -> str | None:
    """Why a member is refused, in words; None if it may be unpacked."""
    name_problem = _path_problem(member.name)
    if name_problem:
        return name_problem
    if member.isreg() or member.isdir():
        return "its size is negative." if member.size < 0 else None
    if member.issym() or member.islnk():
        return _link_problem(member)
    kinds = {tarfile.CHRTYPE: "a device", tarfile.BLKTYPE: "a device", tarfile.FIFOTYPE: "a pipe"}
    return f"it is {kinds.get(member.type, 'of a kind')} that is not unpacked."


def _path_problem(name: str) -> str | None:
    parts = PurePosixPath(name).parts
    if not name or "\0" in name:
        return "it has no usable name."
    if len(name) > bounds.CODE_PATH_LENGTH or len(parts) > bounds.CODE_PATH_DEPTH:
        return "its name is too long or too deep."
    if any(len(part.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX for part in parts):
        return f"a name has more than {NAME_BYTES_MAX} bytes."
    if name.startswith("/") or "\\" in name or ".." in parts:
        return "its name leads outside of the archive."
    return None


class _Tree:
    """The files and folders that the members seen so far make, to find those that cannot be made beside the others."""

    def __init__(self) -> None:
        self._is_folder: dict[str, bool] = {}

    @property
    def is_too_large(self) -> bool:
        """Whether it has too many entries, with the folders that are only named by what is in them."""
        return len(self._is_folder) > bounds.CODE_FILES_MAX

    def add(self, member: tarfile.TarInfo) -> str | None:
        """Take the next member. Why it cannot be made, in words; None if it can."""
        path = posixpath.normpath(member.name)
        if path == ".":
            return None
        folder = posixpath.dirname(path)
        while folder:
            if not self._is_folder.setdefault(folder, True):
                return "it lies below something that is no folder."
            folder = posixpath.dirname(folder)
        if self._is_folder.get(path, member.isdir()) != member.isdir():
            return "the archive holds it twice, once as a folder."
        if member.islnk():
            target = posixpath.normpath(member.linkname)
            if target == path or self._is_folder.get(target, True):
                return "it links to a file that is not before it in the archive."
        self._is_folder[path] = member.isdir()
        return None


def _link_problem(member: tarfile.TarInfo) -> str | None:
    """A link may point to another entry of the archive, written relatively, and nowhere else."""
    target = member.linkname
    if not target or "\0" in target or target.startswith("/") or "\\" in target:
        return "it is a link to outside of the archive."
    if len(target) > bounds.CODE_PATH_LENGTH:
        return "what it links to has too long a name."
    start = PurePosixPath(member.name).parent.parts if member.issym() else ()
    depth = len([part for part in start if part != "."])
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return "it is a link to outside of the archive."
    return None


def _shown(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:120])


class _BoundedGzip:
    """Unpacks a gzip stream piece by piece and stops as soon as it is larger than any real archive of its size."""

    def __init__(self, file: IO[bytes], *, packed_bytes: int) -> None:
        self._file = file
        self._packed_bytes = packed_bytes
        self._inflate = zlib.decompressobj(wbits=31)
        self._pending = b""
        self.unpacked_bytes = 0
        ratio_limit = max(packed_bytes * bounds.CODE_RATIO_MAX, bounds.CODE_RATIO_FREE_BYTES)
        self._limit = min(ratio_limit, bounds.CODE_UNPACKED_BYTES_MAX)

    def read(self, size: int) -> bytes:
        """Up to `size` unpacked bytes; fewer only at the end."""
        pieces: list[bytes] = []
        wanted = size
        while wanted > 0:
            piece = self._inflate.decompress(self._pending, wanted)
            self._pending = self._inflate.unconsumed_tail
            if piece:
                pieces.append(piece)
                wanted -= len(piece)
                self._count(len(piece))
            elif self._inflate.eof:
                break
            elif not self._pending:
                self._pending = self._file.read(bounds.COPY_BYTES)
                if not self._pending:
                    raise EOFError("it ends in the middle")
        return b"".join(pieces)

    def drain(self) -> None:
        """Read to the end of the stream, so that its checksum is verified, and refuse what follows it."""
        while self.read(bounds.COPY_BYTES):
            pass
        if self._inflate.unused_data.strip(b"\0") or self._file.read(1):
            raise BadArchive("There is something behind the end of the archive.", hint="Pack it with `tar -czf`.")

    def _count(self, size: int) -> None:
        self.unpacked_bytes += size
        if self.unpacked_bytes > self._limit:
            raise BadArchive(
                f"Unpacked, the archive is larger than {self._limit // 1024**2} MiB, from {self._packed_bytes:,} bytes.",
                hint="Code snapshots are for source code; put data into a volume.",
            )
