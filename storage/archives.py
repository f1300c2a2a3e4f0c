"""Looks through an archive of source code before it is unpacked: gzipped tar with plain files below its root, nothing else.

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
from kernel.tar_members import HeaderTooLarge, bounded
from kernel.words import Text
from storage import bounds
from storage.paths import NAME_BYTES_MAX

PROBLEMS_MAX = 20  # The first ones tell what is wrong with the rest.
HEADER_BYTES_MAX = 64 * 1024  # Extended headers of one member hold names.


@dataclass(frozen=True, slots=True)
class ArchiveFacts:
    """What a checked archive holds."""

    file_count: int
    unpacked_bytes: int


class BadArchive(InvalidInput):
    """The uploaded code is not a gzipped tar archive, or holds entries that must not be unpacked."""

    code = "bad_archive"
    title = Text("The archive cannot be used", "归档文件无法使用")


def check_archive(file: IO[bytes], *, size_bytes: int) -> ArchiveFacts:
    """Read a whole archive of `size_bytes` and give its facts; BadArchive names every member that is refused."""
    if size_bytes > CODE_SNAPSHOT_BYTES:
        raise BadArchive(
            Text(
                f"The archive is larger than {CODE_SNAPSHOT_BYTES // 1024**2} MiB.",
                f"归档文件超过 {CODE_SNAPSHOT_BYTES // 1024**2} MiB。",
            ),
            hint=Text("Leave data out with .berthignore.", "请用 .berthignore 排除数据。"),
        )
    reader = _BoundedGzip(file, packed_bytes=size_bytes)
    problems: list[FieldError] = []
    tree = _Tree()
    count = size = 0
    try:
        # Stream mode reads forward only: no member can send the reader back to grow what was counted.
        with tarfile.open(fileobj=cast("IO[bytes]", reader), mode="r|", tarinfo=bounded(HEADER_BYTES_MAX)) as archive:
            for member in archive:
                count += 1
                size += member.size if member.isreg() else 0  # Of a file with holes, more than the archive has of it.
                if count > bounds.CODE_FILES_MAX or tree.is_too_large:
                    raise BadArchive(
                        Text(
                            f"The archive holds more than {bounds.CODE_FILES_MAX:,} entries.",
                            f"归档文件中的条目超过 {bounds.CODE_FILES_MAX:,} 个。",
                        ),
                        hint=_IGNORE_HINT,
                    )
                if size > bounds.CODE_UNPACKED_BYTES_MAX:
                    raise BadArchive(
                        Text(
                            f"Unpacked, its files have more than {bounds.CODE_UNPACKED_BYTES_MAX // 1024**2} MiB.",
                            f"解包后文件超过 {bounds.CODE_UNPACKED_BYTES_MAX // 1024**2} MiB。",
                        )
                    )
                problem = _problem(member) or tree.add(member)
                if problem and len(problems) < PROBLEMS_MAX:
                    problems.append(FieldError(f"/archive/{count}", "bad_member", _of_member(member.name, problem)))
                archive.members = []  # type: ignore[attr-defined]  # Else every member seen stays in memory.
        reader.drain()
    except HeaderTooLarge:
        raise BadArchive(
            Text("A header inside the archive is too long.", "归档文件中有过长的头部。"),
            hint=Text("Pack it with `tar -czf`.", "请用 `tar -czf` 打包。"),
        ) from None
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError, ValueError, OverflowError) as error:
        raise BadArchive(
            Text(
                f"The upload is no gzipped tar archive: {str(error)[:200]}",
                f"上传的内容不是 gzip 压缩的 tar 归档：{str(error)[:200]}",
            ),
            hint=Text("Pack it with `tar -czf`.", "请用 `tar -czf` 打包。"),
        ) from None
    if problems:
        raise BadArchive(
            Text("The archive holds entries that are not unpacked.", "归档文件中有不能解包的条目。"),
            fields=problems,
            hint=_IGNORE_HINT,
        )
    return ArchiveFacts(count, reader.unpacked_bytes)


_IGNORE_HINT = Text("Leave them out with .berthignore.", "请用 .berthignore 排除。")


def _of_member(name: str, problem: Text[str]) -> Text[str]:
    return Text(f"{_shown(name)}: {problem.en}", f"{_shown(name)}：{problem.zh}")


def _problem(member: tarfile.TarInfo) -> Text[str] | None:
    """Why a member is refused, in words; None if it may be unpacked."""
    name_problem = _path_problem(member.name)
    if name_problem:
        return name_problem
    if member.isreg() or member.isdir():
        return Text("its size is negative.", "大小为负数。") if member.size < 0 else None
    if member.issym() or member.islnk():
        return _link_problem(member)
    device = Text("a device", "设备文件")
    kinds = {tarfile.CHRTYPE: device, tarfile.BLKTYPE: device, tarfile.FIFOTYPE: Text("a pipe", "管道")}
    kind = kinds.get(member.type, Text("of a kind", "特殊类型"))
    return Text(f"it is {kind.en} that is not unpacked.", f"是{kind.zh}，不予解包。")


def _path_problem(name: str) -> Text[str] | None:
    parts = PurePosixPath(name).parts
    if not name or "\0" in name:
        return Text("it has no usable name.", "没有可用的名称。")
    if len(name) > bounds.CODE_PATH_LENGTH or len(parts) > bounds.CODE_PATH_DEPTH:
        return Text("its name is too long or too deep.", "名称过长或层级过深。")
    if any(len(part.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX for part in parts):
        return Text(f"a name has more than {NAME_BYTES_MAX} bytes.", f"有名称超过 {NAME_BYTES_MAX} 字节。")
    if name.startswith("/") or "\\" in name or ".." in parts:
        return Text("its name leads outside of the archive.", "名称指向归档文件之外。")
    return None


class _Tree:
    """The files and folders that the members seen so far make, to find those that cannot be made beside the others."""

    def __init__(self) -> None:
        self._is_folder: dict[str, bool] = {}

    @property
    def is_too_large(self) -> bool:
        """Whether it has too many entries, with the folders that are only named by what is in them."""
        return len(self._is_folder) > bounds.CODE_FILES_MAX

    def add(self, member: tarfile.TarInfo) -> Text[str] | None:
        """Take the next member. Why it cannot be made, in words; None if it can."""
        path = posixpath.normpath(member.name)
        if path == ".":
            return None
        folder = posixpath.dirname(path)
        while folder:
            if not self._is_folder.setdefault(folder, True):
                return Text("it lies below something that is no folder.", "其上级不是目录。")
            folder = posixpath.dirname(folder)
        if self._is_folder.get(path, member.isdir()) != member.isdir():
            return Text("the archive holds it twice, once as a folder.", "归档文件中有两个同名条目，其一为目录。")
        if member.islnk():
            target = posixpath.normpath(member.linkname)
            if target == path or self._is_folder.get(target, True):
                return Text("it links to a file that is not before it in the archive.", "它链接到的文件不在其之前。")
        self._is_folder[path] = member.isdir()
        return None


_LINK_OUTSIDE = Text("it is a link to outside of the archive.", "它链接到归档文件之外。")


def _link_problem(member: tarfile.TarInfo) -> Text[str] | None:
    """A link may point to another entry of the archive, written relatively, and nowhere else."""
    target = member.linkname
    if not target or "\0" in target or target.startswith("/") or "\\" in target:
        return _LINK_OUTSIDE
    if len(target) > bounds.CODE_PATH_LENGTH:
        return Text("what it links to has too long a name.", "它链接到的名称过长。")
    start = PurePosixPath(member.name).parent.parts if member.issym() else ()
    depth = len([part for part in start if part != "."])
    for part in PurePosixPath(target).parts:
        depth += -1 if part == ".." else 1
        if depth < 0:
            return _LINK_OUTSIDE
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
            raise BadArchive(
                Text("There is something behind the end of the archive.", "归档文件的末尾之后还有内容。"),
                hint=Text("Pack it with `tar -czf`.", "请用 `tar -czf` 打包。"),
            )

    def _count(self, size: int) -> None:
        self.unpacked_bytes += size
        if self.unpacked_bytes > self._limit:
            raise BadArchive(
                Text(
                    f"Unpacked, the archive is larger than {self._limit // 1024**2} MiB, from {self._packed_bytes:,} bytes.",
                    f"归档文件解包后超过 {self._limit // 1024**2} MiB（打包为 {self._packed_bytes:,} 字节）。",
                ),
                hint=Text(
                    "Code snapshots are for source code; put data into a volume.", "代码快照只用于源代码；数据请放入存储卷。"
                ),
            )
