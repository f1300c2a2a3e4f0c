"""The folder that a job runs in, packed the same way every time: equal content gives equal bytes and is sent once.

Entries are sorted, times and owners left out, modes reduced to "may be executed". `.berthignore` in the folder says in
the language of `.gitignore` what stays at home; without it, version control, caches and environments stay."""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from berth import limits
from berth.errors import FileRefused

IGNORE_FILE = ".berthignore"
ALWAYS_LEFT_OUT = (".git/", ".hg/", ".svn/")
LEFT_OUT_BY_DEFAULT = (
    "__pycache__/",
    "*.pyc",
    ".venv/",
    "venv/",
    "node_modules/",
    ".ipynb_checkpoints/",
    ".mypy_cache/",
    ".pytest_cache/",
    ".ruff_cache/",
    ".DS_Store",
)
_FIRST_LINE_BYTES = 256  # As much as Linux reads of it.


@dataclass(frozen=True, slots=True)
class CodeEntry:
    """One file or link of the folder; `path` is relative, with forward slashes."""

    path: str
    source: Path
    size_bytes: int
    executable: bool
    link: str = ""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A packed folder in a temporary file, open for reading; close `file` to remove it."""

    file: BinaryIO
    sha256: str
    size_bytes: int
    file_count: int
    content_bytes: int
    windows_scripts: tuple[str, ...] = ()
    """Scripts whose first line ends as Windows ends lines, which no interpreter on Linux finds."""

    def close(self) -> None:
        self.file.close()


def list_code(folder: Path) -> list[CodeEntry]:
    """What would be packed, sorted by path. Refuses special files and links that lead out of the folder."""
    if not folder.is_dir():
        raise FileRefused(f"{folder} is not a folder.", hint="`code.path` names the folder that the job runs in.")
    left_out = _ignore_rules(folder)
    entries: list[CodeEntry] = []
    for entry in _walk(folder, "", left_out):
        entries.append(entry)
        if len(entries) > limits.CODE_FILES:
            raise FileRefused(
                f"{folder} has more than {limits.CODE_FILES:,} files.",
                hint=f"Name what the job does not need in {IGNORE_FILE}, or put data on a volume: berth cp DATA volume:path",
            )
    return sorted(entries, key=lambda entry: entry.path)


def pack_code(folder: Path, *, progress: Callable[[int], None] | None = None) -> Snapshot:
    """Pack the folder into a temporary file. `progress` gets the bytes read so far."""
    entries = list_code(folder)
    file = tempfile.TemporaryFile(prefix="berth-code-")  # noqa: SIM115 - handed to the caller.
    try:
        content_bytes = _write_archive(entries, file, folder, progress)
        size_bytes = file.tell()
        digest = _digest(file)
    except BaseException:
        file.close()
        raise
    scripts = tuple(entry.path for entry in entries if not entry.link and _is_windows_script(entry))
    return Snapshot(file, digest, size_bytes, sum(1 for entry in entries if not entry.link), content_bytes, scripts)


def _is_windows_script(entry: CodeEntry) -> bool:
    if not entry.executable and not entry.path.endswith((".sh", ".bash")):
        return False
    with entry.source.open("rb") as source:
        first = source.readline(_FIRST_LINE_BYTES)
    return first.endswith(b"\r\n") and (first.startswith(b"#!") or entry.path.endswith((".sh", ".bash")))


def _write_archive(entries: list[CodeEntry], file: BinaryIO, folder: Path, progress: Callable[[int], None] | None) -> int:
    content_bytes = 0
    with (
        gzip.GzipFile(filename="", fileobj=file, mode="wb", compresslevel=6, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for entry in entries:
            with _opened(entry) as (member, source):
                archive.addfile(member, source)
            content_bytes += member.size
            if file.tell() > limits.CODE_SNAPSHOT_BYTES:
                raise FileRefused(
                    f"{folder} packs to more than {limits.CODE_SNAPSHOT_BYTES // limits.MIB} MiB.",
                    hint=f"Name what the job does not need in {IGNORE_FILE}, or put data on a volume: berth cp DATA volume:path",
                )
            if progress:
                progress(content_bytes)
    return content_bytes


class _opened:  # noqa: N801 - used as a statement.
    """The archive member of an entry together with its open file, whose size is the one that is packed."""

    def __init__(self, entry: CodeEntry) -> None:
        self.entry = entry
        self.source: BinaryIO | None = None

    def __enter__(self) -> tuple[tarfile.TarInfo, BinaryIO | None]:
        member = tarfile.TarInfo(self.entry.path)
        member.mode = 0o755 if self.entry.executable else 0o644
        if self.entry.link:
            member.type, member.linkname, member.mode = tarfile.SYMTYPE, self.entry.link, 0o777
            return member, None
        try:
            self.source = self.entry.source.open("rb")
        except OSError as error:
            raise FileRefused(f"{self.entry.path} cannot be read: {error.strerror}.") from error
        member.size = os.fstat(self.source.fileno()).st_size
        return member, self.source

    def __exit__(self, *_: object) -> None:
        if self.source:
            self.source.close()


def _walk(folder: Path, prefix: str, left_out: Callable[[str], bool]) -> Iterator[CodeEntry]:
    with os.scandir(folder / prefix) as found:
        items = sorted(found, key=lambda item: item.name)
    for item in items:
        path = f"{prefix}{item.name}"
        status = item.stat(follow_symlinks=False)
        if left_out(path + "/" if stat.S_ISDIR(status.st_mode) else path):
            continue
        if stat.S_ISDIR(status.st_mode):
            yield from _walk(folder, f"{path}/", left_out)
        elif stat.S_ISLNK(status.st_mode):
            yield CodeEntry(path, Path(item.path), 0, False, link=_inner_link(item.path, path))
        elif stat.S_ISREG(status.st_mode):
            yield CodeEntry(path, Path(item.path), status.st_size, bool(status.st_mode & 0o111))
        else:
            raise FileRefused(f"{path} is a socket, pipe or device.", hint=f"Add it to {IGNORE_FILE}.")


def _inner_link(source: str, path: str) -> str:
    target = os.readlink(source)
    reached: list[str] = []
    for part in (*PurePosixPath(path).parent.parts, *PurePosixPath(target).parts):
        if part == ".." and reached:
            reached.pop()
        elif part in ("..", "/"):
            raise FileRefused(
                f"{path} is a link out of the folder, to {target}.", hint=f"Copy the file, or add it to {IGNORE_FILE}."
            )
        elif part != ".":
            reached.append(part)
    return target


def _ignore_rules(folder: Path) -> Callable[[str], bool]:
    import pathspec

    own = folder / IGNORE_FILE
    try:
        lines = own.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        lines = list(LEFT_OUT_BY_DEFAULT)
    except (OSError, UnicodeDecodeError) as error:
        raise FileRefused(f"{own} cannot be read: {error}.") from error
    try:
        return pathspec.GitIgnoreSpec.from_lines([*lines, *ALWAYS_LEFT_OUT]).match_file
    except ValueError as error:
        raise FileRefused(f"{own} has a line that is no pattern: {error}.") from error


def _digest(file: BufferedRandom) -> str:
    file.seek(0)
    digest = hashlib.file_digest(file, "sha256").hexdigest()
    file.seek(0)
    return digest
