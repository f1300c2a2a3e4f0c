"""What lies in the directory that a job keeps, through `clusters.hostfiles`: with the rights of its tenant, never with ours.

A program writes under a name that ends in `.tmp` or `.partial` and renames when it is done: whatever else stands at the top of
the directory is a whole checkpoint. Of a job whose roles or tasks have directories of their own, the top is that of each.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from clusters.hostfiles import Entry, HostFiles, LauncherRefused, LauncherUnavailable, Listing, MeasuredTree, host_files
from kernel.config import current
from kernel.errors import Conflict, NotFound
from kernel.words import Text
from storage import bounds
from storage.hostaccess import no_answer
from storage.models import Checkpoint
from tenants.selectors import tenant_facts

HALF_WRITTEN = (".tmp", ".partial")
_OF_THE_TREE = frozenset(
    {errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOTDIR, errno.ENOTEMPTY, errno.EISDIR, errno.ENOENT}
)  # The job made it so: another try ends the same way.
_GONE = frozenset({errno.ELOOP, errno.ENXIO, errno.ENOTDIR, errno.ENOENT})


class Unreadable(Exception):
    """What lies there cannot be gone on from; the message says why."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a directory holds. `saved_at`: when the newest whole checkpoint was written; of several roles or tasks that each write
    one, the oldest of their newest. `problem` says in words why no attempt can go on from it. `size_bytes` is what its files hold
    of the disk, `length_bytes` how long they are: more, where they have holes."""

    saved_at: datetime | None = None
    size_bytes: int = 0
    length_bytes: int = 0
    file_count: int = 0
    half_written: tuple[str, ...] = ()
    problem: str = ""


def prepare(checkpoint: Checkpoint) -> None:
    """Make the directory; harmless where it is there."""
    files, number = _files(checkpoint.tenant_id)
    try:
        files.prepare_checkpoint(checkpoint.location, number)
    except LauncherUnavailable as error:
        raise no_answer(error) from error


def copy(source: str, checkpoint: Checkpoint) -> bool:
    """Copy another job's directory of the same tenant into this one, for a while; True once all of it is there. Unreadable
    where it can never be."""
    files, number = _files(checkpoint.tenant_id)
    with _blaming("The checkpoint that it begins from cannot be copied"):
        return files.copy_tree(source, checkpoint.location, tenant=number, seconds=bounds.CHECKPOINT_COPY_SECONDS)


@contextlib.contextmanager
def _blaming(what: str) -> Iterator[None]:
    """Turn what the job's own tree is to blame for into Unreadable; a launcher that does not answer is not."""
    try:
        yield
    except LauncherUnavailable as error:
        raise no_answer(error) from error
    except LauncherRefused as error:
        raise Unreadable(f"{what}: {error}") from error
    except OSError as error:
        if error.errno not in _OF_THE_TREE:
            raise
        where = f" at {os.fsdecode(error.filename)[:200]}" if isinstance(error.filename, (str, bytes)) else ""
        raise Unreadable(f"{what}{where}: {error.strerror}.") from error


def measure(checkpoint: Checkpoint, *, depth: int, opens: bool = False) -> Found:
    """Look through the directory. `depth` is where checkpoints stand in it: 1, or 2 in directories of roles or tasks. `opens`:
    also open the files of the newest checkpoint, since the next attempt will."""
    files, number = _files(checkpoint.tenant_id)
    try:
        measured = files.measure_tree(
            checkpoint.location,
            "",
            tenant=number,
            depth=depth,
            half_written=HALF_WRITTEN,
            limit=bounds.CHECKPOINT_FILES_MAX,
            patient=True,
        )
    except LauncherUnavailable as error:
        raise no_answer(error) from error
    except LauncherRefused as error:
        return Found(problem=str(error))
    except OSError as error:
        if error.errno != errno.ENOENT:
            return Found(problem=f"The directory cannot be listed: {error.strerror}.")
        return Found(problem="The directory is not there any more.") if checkpoint.saved_at is not None else Found()
    found, newest = _found(measured)
    if found.problem or not opens or newest is None:
        return found
    return _opened(found, newest, files, checkpoint.location, number)


def drop(checkpoint: Checkpoint, names: Iterable[str]) -> None:
    """Remove what was half written when its attempt ended. Unreadable where that cannot be."""
    files, number = _files(checkpoint.tenant_id)
    with _blaming("What was half written cannot be removed"):
        for name in names:
            files.remove_tree(checkpoint.location, name, tenant=number)


def remove_all(location: str) -> None:
    """Remove a directory with all that is in it; absent is done."""
    try:
        host_files(current()).remove_tree(location)
    except LauncherUnavailable as error:
        raise no_answer(error) from error


def list_folder(location: str, tenant_id: uuid.UUID, path: str, *, limit: int, start: str = "") -> Listing:
    files, number = _files(tenant_id)
    with _telling(path):
        return files.list_directory(location, path, tenant=number, limit=limit, start=start)


def list_tree(location: str, tenant_id: uuid.UUID, path: str, *, limit: int) -> Listing | None:
    """All that lies below a folder; None where that is more names than the limit."""
    files, number = _files(tenant_id)
    with _telling(path):
        if files.measure_tree(location, path, tenant=number, limit=limit).truncated:
            return None  # Counting costs the caller nothing, other than names.
        listing = files.list_directory(location, path, tenant=number, recursive=True, limit=limit)
        return None if listing.truncated else listing


def open_for_reading(location: str, tenant_id: uuid.UUID, path: str) -> int:
    """A descriptor of a regular file; the caller closes it."""
    files, number = _files(tenant_id)
    with _telling(path):
        return files.open_read(location, path, tenant=number)


@contextlib.contextmanager
def _telling(path: str) -> Iterator[None]:
    """Turn what the host says into what a caller of the API is told."""
    try:
        yield
    except LauncherUnavailable as error:
        raise no_answer(error) from error
    except (LauncherRefused, OSError) as error:
        raise _told(error, path) from error


def _files(tenant_id: uuid.UUID) -> tuple[HostFiles, int]:
    return host_files(current()), tenant_facts([tenant_id])[tenant_id].number


def _found(measured: MeasuredTree) -> tuple[Found, Entry | None]:
    """What was measured in our words, and the newest whole checkpoint in it."""
    oldest = min(measured.newest, key=lambda entry: entry.modified_at, default=None)
    too_much = f"It holds more than {bounds.CHECKPOINT_FILES_MAX:,} files, or directories more than 64 deep."
    found = Found(
        saved_at=datetime.fromtimestamp(oldest.modified_at, UTC) if oldest is not None else None,
        size_bytes=measured.held_bytes,
        length_bytes=measured.length_bytes,
        file_count=measured.file_count,
        half_written=measured.half_written,
        problem=too_much if measured.truncated else "",
    )
    return found, oldest


def _files_of(newest: Entry, files: HostFiles, location: str, number: int) -> list[str]:
    """The first files of a checkpoint, by their paths."""
    if newest.kind != "directory":
        return [newest.path]
    limit = bounds.CHECKPOINT_OPENED_MAX
    listing = files.list_directory(location, newest.path, tenant=number, recursive=True, limit=limit, patient=True)
    return [f"{newest.path}/{entry.path}" for entry in listing.entries if entry.kind == "file"]


def _opened(found: Found, newest: Entry, files: HostFiles, location: str, number: int) -> Found:
    path = newest.path
    try:
        for path in _files_of(newest, files, location, number):
            descriptor = files.open_read(location, path, tenant=number)
            try:
                os.pread(descriptor, 1, 0)
            finally:
                os.close(descriptor)
    except LauncherUnavailable as error:
        raise no_answer(error) from error
    except (LauncherRefused, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        return replace(found, problem=f"{path}: {why}."[:500])
    return found


def _told(error: LauncherRefused | OSError, path: str) -> Exception:
    if isinstance(error, PermissionError):
        return Conflict(
            Text(f"{path[:200]!r} in the checkpoint is closed.", f"检查点中的 {path[:200]!r} 不可读取。"),
            hint=Text("The job that made it has to open its mode.", "须由生成它的作业放开其访问权限。"),
        )
    if isinstance(error, IsADirectoryError):
        return Conflict(
            Text(f"{path[:200]!r} in the checkpoint is a folder.", f"检查点中的 {path[:200]!r} 是目录。"),
            hint=Text("Ask for it as an archive.", "请以归档文件的形式下载。"),
        )
    if isinstance(error, LauncherRefused) or error.errno in _GONE:
        what = (
            Text(f"{path[:200]!r} in the checkpoint", f"检查点中没有 {path[:200]!r}")
            if path
            else Text("directory of the checkpoint", "没有检查点的目录")
        )
        return NotFound(
            Text(f"There is no {what.en}, or it is no plain file.", f"{what.zh}，或者它不是普通文件。"),
            hint=Text("List the folder above it to see what there is.", "请列出上级目录，查看其中的内容。"),
        )
    return error
