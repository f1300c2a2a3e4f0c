"""Unpack a code snapshot beneath a directory, whatever the archive says.

Members are made by name in directories opened without following links, so that no order of links and files leaves the
directory. Links must point inside; devices, pipes, set-id bits and owners are dropped. Bounds end a decompression bomb.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import tarfile
import zlib
from typing import BinaryIO

from clusters.engines.local.launching.beneath import directory
from kernel.limits import CODE_SNAPSHOT_BYTES
from kernel.tar_members import bounded

UNPACKED_BYTES_MAX = 16 * CODE_SNAPSHOT_BYTES  # Text compresses well; a bomb goes far beyond.
MEMBERS_MAX = 500_000
HEADER_BYTES_MAX = 1024 * 1024  # More than any name has; the check of an upload allows less (`storage/archives.py`).
_BLOCK = 1024 * 1024
_SHOWN_LENGTH = 100
_OF_THE_ARCHIVE = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.ENOTEMPTY, errno.EILSEQ}
    | {errno.EMLINK, errno.EFBIG}
)
"""What no later try mends: the member itself cannot be made. All else is the machine's, and may pass."""


class BadSnapshot(Exception):
    """The snapshot cannot be unpacked: not a gzipped tar archive, or a member that leaves the directory."""

    code = "code_broken"


class NoSnapshot(BadSnapshot):
    """The snapshot is missing in the store."""

    code = "code_absent"


def unpack(archive: BinaryIO, target: int) -> None:
    """Unpack into an open, empty directory. Raises BadSnapshot, and OSError where the machine is at fault."""
    total = 0
    try:
        with tarfile.open(fileobj=archive, mode="r|gz", tarinfo=bounded(HEADER_BYTES_MAX)) as members:
            for count, member in enumerate(members, start=1):
                total += member.size
                if count > MEMBERS_MAX or total > UNPACKED_BYTES_MAX:
                    raise BadSnapshot(f"more than {UNPACKED_BYTES_MAX} bytes or {MEMBERS_MAX} members")
                _make(members, member, target)
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OverflowError) as error:
        raise BadSnapshot(str(error)) from error


def _make(members: tarfile.TarFile, member: tarfile.TarInfo, target: int) -> None:
    parts = _inside(member.name, member.name)
    if not parts:
        return
    try:
        _make_directories(target, parts if member.isdir() else parts[:-1])
        if member.isdir():
            return
        with directory(target, parts[:-1]) as parent:
            _make_file(members, member, target, parent, parts)
    except NotADirectoryError as error:
        raise BadSnapshot(f"member {_shown(member)} lies below something that is no directory") from error
    except OSError as error:
        if error.errno not in _OF_THE_ARCHIVE:
            raise
        raise BadSnapshot(f"member {_shown(member)} cannot be made: {error.strerror}") from error


def _shown(member: tarfile.TarInfo) -> str:
    """Its name for people: what is too long to be made is too long to be read."""
    return ascii(member.name if len(member.name) <= _SHOWN_LENGTH else f"{member.name[:_SHOWN_LENGTH]}...")


def _make_file(members: tarfile.TarFile, member: tarfile.TarInfo, target: int, parent: int, parts: tuple[str, ...]) -> None:
    name = parts[-1]
    if member.issym():
        _inside(posixpath.join(*parts[:-1], member.linkname) if parts[:-1] else member.linkname, member.name)
        _replace(parent, name)
        os.symlink(member.linkname, name, dir_fd=parent)
    elif member.islnk():
        _link(target, _inside(member.linkname, member.name), parent, name)
    elif member.isreg():
        _write(members, member, parent, name)


def _inside(path: str, member: str) -> tuple[str, ...]:
    normal = posixpath.normpath(path)
    if path.startswith("/") or normal == ".." or normal.startswith("../") or "\0" in path:
        raise BadSnapshot(f"member {member!r} points outside the archive")
    return tuple(part for part in normal.split("/") if part != ".")


def _make_directories(target: int, parts: tuple[str, ...]) -> None:
    for depth in range(len(parts)):
        with directory(target, parts[:depth]) as parent, contextlib.suppress(FileExistsError):
            os.mkdir(parts[depth], 0o755, dir_fd=parent)


def _link(target: int, source: tuple[str, ...], parent: int, name: str) -> None:
    if not source:
        raise BadSnapshot(f"member {name!r} links to nothing")
    _replace(parent, name)
    try:
        with directory(target, source[:-1]) as holder:
            os.link(source[-1], name, src_dir_fd=holder, dst_dir_fd=parent, follow_symlinks=False)
    except OSError as error:
        raise BadSnapshot(f"member {name!r} links to a member that is not there") from error


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, parent: int, name: str) -> None:
    _replace(parent, name)
    content = members.extractfile(member)
    assert content is not None, "a regular member has content"
    try:
        descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=parent)
    except FileExistsError as error:
        raise BadSnapshot(f"member {name!r} is there twice, once as a directory") from error
    with os.fdopen(descriptor, "wb") as file:
        while block := content.read(_BLOCK):
            file.write(block)
        os.fchmod(file.fileno(), 0o755 if member.mode & 0o100 else 0o644)


def _replace(parent: int, name: str) -> None:
    with contextlib.suppress(FileNotFoundError, IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=parent)
