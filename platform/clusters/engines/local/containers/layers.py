"""Unpack the layers of an image into a directory, whatever they say (OCI image specification 1.1, `layer.md`).

A layer is a stranger's archive, unpacked by a process without special rights. Nothing is made, linked or removed outside the
directory: names are taken apart, links on the way are followed within it, and the last component is never followed. Devices,
pipes, owners, set-id bits and extended attributes are left out: a container image of a tenant needs none of them. The
directory belongs to this process alone while it is filled.
"""

from __future__ import annotations

import contextlib
import errno
import gzip
import hashlib
import math
import os
import stat
import tarfile
import time
import zlib
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import BinaryIO, Protocol

from clusters.engines.local.containers.paths import kind_of, shown, within
from clusters.engines.local.launching import beneath
from clusters.registries.errors import ImageUnusable
from kernel.tar_members import bounded
from kernel.words import Text

MEMBERS_MAX = 2_000_000  # The largest images for training have some 300,000.
PATHS_BYTES_MAX = 512 * 1024**2  # Of all of them together, which are kept while an image is unpacked: those images have 30 MiB.
HEADER_BYTES_MAX = 1024 * 1024  # Of an extended header: some images keep access lists and signatures in them.
WHITEOUT, OPAQUE = ".wh.", ".wh..wh..opq"
_BLOCK = 1024 * 1024
_UNREADABLE = (tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, ValueError, OverflowError, UnicodeError, RecursionError)
_OF_THE_LAYER = frozenset(
    {errno.ENAMETOOLONG, errno.EINVAL, errno.ELOOP, errno.ENOTDIR, errno.EISDIR, errno.EEXIST, errno.EILSEQ, errno.EMLINK}
    | {errno.EFBIG, errno.ENOENT, errno.ENOTEMPTY}
)
"""What no later try mends: the member itself cannot be made. All else is the machine's, and may pass."""


class Readable(Protocol):
    def read(self, count: int, /) -> bytes: ...


@dataclass
class Budget:
    """What is left of the bounds of one image, over all its layers."""

    bytes_left: int
    members_left: int = MEMBERS_MAX
    paths_bytes_left: int = PATHS_BYTES_MAX
    ends_at: float = math.inf  # By `time.monotonic`.

    def take(self, count: int) -> None:
        self.bytes_left -= count
        if self.bytes_left < 0:
            raise ImageUnusable(
                Text(
                    "Unpacked, the image is larger than this installation allows (BERTH_IMAGE_BYTES_MAX).",
                    "镜像解包后超过本系统允许的大小（BERTH_IMAGE_BYTES_MAX）。",
                )
            )

    def take_member(self, path: str) -> None:
        """Of an archive, or a directory that an archive takes for granted."""
        self.members_left -= 1
        self.paths_bytes_left -= len(path)
        if self.members_left < 0:
            raise ImageUnusable(Text(f"The image has more than {MEMBERS_MAX:,} files.", f"镜像中的文件超过 {MEMBERS_MAX:,} 个。"))
        if time.monotonic() > self.ends_at:
            raise ImageUnusable(Text("It takes too long to unpack the image.", "解包镜像耗时过长。"))
        if self.paths_bytes_left < 0:
            raise ImageUnusable(Text("The paths of the image are too long together.", "镜像中的路径总长度过大。"))


@dataclass
class Root:
    """The directory that layers are unpacked into, in their order."""

    path: str
    budget: Budget
    modes: dict[str, int] = field(default_factory=dict)  # Of directories, set when all is there: some are closed.
    _made: set[str] = field(default_factory=set)  # By the present layer: its whiteouts mean what was there before it.
    _resolved: dict[str, str] = field(default_factory=dict)

    def apply(self, layer: Readable) -> str:
        """Unpack one layer; gives the digest of its archive. Raises ImageUnusable, and OSError where the machine is at fault."""
        self._made.clear()
        self._resolved.clear()
        source = _Counted(layer, self.budget)
        try:
            with tarfile.open(
                fileobj=source, mode="r|", tarinfo=bounded(HEADER_BYTES_MAX, sparse=False), bufsize=_BLOCK
            ) as members:  # type: ignore[call-overload]
                for member in members:
                    self.budget.take_member(member.name)
                    self._make(members, member)
                    members.members = []  # It would keep all of them.
            while source.read(_BLOCK):
                pass
        except _UNREADABLE as error:
            raise ImageUnusable(
                Text(f"A layer of the image cannot be unpacked: {str(error)[:200]}", f"镜像的某一层无法解包：{str(error)[:200]}")
            ) from error
        return source.digest

    def finish(self) -> None:
        """Set the modes of directories, the innermost first. What a later layer put in a directory's place is left as it is."""
        for path in sorted(self.modes, key=lambda path: path.count("/"), reverse=True):
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                self._set_mode(PurePosixPath(path).relative_to(self.path).parts, self.modes[path])

    def _set_mode(self, parts: tuple[str, ...], mode: int) -> None:
        with beneath.directory(self.path, parts, read=True) as found:
            os.fchmod(found, mode)

    # --- Members -----------------------------------------------------------------------------------------------------

    def _make(self, members: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        parts = _parts(member.name)
        if not parts:
            return
        try:
            parent = self._directory(parts[:-1])
            name, path = parts[-1], f"{parent}/{parts[-1]}"
            if name.startswith(WHITEOUT):
                self._white_out(parent, name)
            elif member.isdir():
                self._make_directory(path, member)
            elif member.isreg():
                self._make_file(members, member, path)
            elif member.issym():
                self._remove(path)
                os.symlink(member.linkname, path)
                self._made.add(path)
            elif member.islnk():
                self._make_link(member, path)
        except OSError as error:
            if error.errno not in _OF_THE_LAYER:
                raise
            raise ImageUnusable(
                Text(
                    f"{shown(member.name)} of the image cannot be made: {error.strerror}",
                    f"无法建立镜像中的 {shown(member.name)}：{error.strerror}",
                )
            ) from error

    def _make_directory(self, path: str, member: tarfile.TarInfo) -> None:
        if kind_of(path) != stat.S_IFDIR:
            self._remove(path)
            os.mkdir(path, 0o700)
        self.modes[path] = member.mode & 0o1777
        self._made.add(path)

    def _make_file(self, members: tarfile.TarFile, member: tarfile.TarInfo, path: str) -> None:
        self._remove(path)
        content = members.extractfile(member)
        assert content is not None, "a regular member has content"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o600), "wb") as file:
            while block := content.read(_BLOCK):
                file.write(block)
            file.flush()
            os.fchmod(file.fileno(), member.mode & 0o777)
            at = float(min(max(member.mtime, 0), 2**33))
            os.utime(file.fileno(), (at, at))  # Compiled Python is bound to the time of its source.
        self._made.add(path)

    def _make_link(self, member: tarfile.TarInfo, path: str) -> None:
        """A second name of a file in the directory, of this layer or an earlier one."""
        parts = _parts(member.linkname)
        source = f"{self._directory(parts[:-1], make=False)}/{parts[-1]}" if parts else ""
        if not source or kind_of(source) not in (stat.S_IFREG, stat.S_IFLNK):
            raise ImageUnusable(
                Text(
                    f"{shown(member.name)} of the image is a link to something that is no file of it.",
                    f"镜像中的 {shown(member.name)} 是链接，所指的不是镜像内的文件。",
                )
            )
        if source == path:
            return
        self._remove(path)
        os.link(source, path, follow_symlinks=False)
        self._made.add(path)

    def _white_out(self, parent: str, name: str) -> None:
        if name == OPAQUE:
            self._clear(parent)
        elif name.startswith(f"{WHITEOUT}{WHITEOUT}"):
            return  # Notes of an old storage driver.
        else:
            hidden = name.removeprefix(WHITEOUT)
            if hidden in ("", ".", ".."):
                raise ImageUnusable(
                    Text("The image has a whiteout without a name.", "镜像中有一个没有名称的删除标记（whiteout）。")
                )
            path = f"{parent}/{hidden}"
            if path not in self._made:
                self._remove(path)

    def _clear(self, path: str) -> None:
        """Remove what earlier layers left in a directory."""
        for name in os.listdir(path):
            inner = f"{path}/{name}"
            if inner not in self._made:
                self._remove(inner)
            elif kind_of(inner) == stat.S_IFDIR:
                self._clear(inner)

    def _remove(self, path: str) -> None:
        kind = kind_of(path)
        if kind is None:
            return
        if kind != stat.S_IFDIR:
            os.unlink(path)
        else:
            parent, name = os.path.split(path)
            with beneath.directory(parent, ()) as opened:
                beneath.remove_at(opened, name)
        self._resolved.clear()

    # --- Places ------------------------------------------------------------------------------------------------------

    def _directory(self, parts: tuple[str, ...], *, make: bool = True) -> str:
        """The real path of a directory in the root, made if it is missing. Links are followed as a program inside would."""
        wanted = "/".join(parts)
        found = self._resolved.get(wanted)
        if found is None:
            found = "/".join((self.path, *within(self.path, parts)))
            if make:
                self._make_missing(found)
                self._resolved[wanted] = found  # It is a directory now, until something is removed.
        return found

    def _make_missing(self, path: str) -> None:
        relative = PurePosixPath(path).relative_to(self.path).parts
        for depth in range(1, len(relative) + 1):
            place = "/".join((self.path, *relative[:depth]))
            if kind_of(place) is None:
                self.budget.take_member(place)
                os.mkdir(place, 0o700)
                self.modes[place] = 0o755


class _Counted:
    """An archive whose every byte counts against the budget, and into its digest."""

    def __init__(self, source: Readable | BinaryIO, budget: Budget) -> None:
        self._source, self._budget, self._digest = source, budget, hashlib.sha256()

    def read(self, count: int) -> bytes:
        block = self._source.read(min(count, _BLOCK) if count >= 0 else _BLOCK)
        self._budget.take(len(block))
        self._digest.update(block)
        return block

    @property
    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"


def _parts(name: str) -> tuple[str, ...]:
    parts = tuple(part for part in name.split("/") if part not in ("", "."))
    if ".." in parts or "\0" in name:
        raise ImageUnusable(Text(f"{shown(name)} of the image points outside.", f"镜像中的 {shown(name)} 指向镜像之外。"))
    return parts
