"""Volumes on this host, through `clusters.hostfiles`: which directory, whose rights, and its errors in our words.

A path that cannot be opened because it is a link, a device or another user's does not exist: NotFound, without saying which.
"""

from __future__ import annotations

import contextlib
import errno
import os
import uuid
from collections.abc import Iterator
from pathlib import Path

from clusters.hostfiles import HostFiles, LauncherBusy, LauncherRefused, LauncherUnavailable, Listing, host_files
from kernel.config import current
from kernel.errors import Conflict, NotFound, Unavailable
from kernel.words import Text
from storage.bounds import COPY_BYTES
from storage.models import Volume, VolumeKind
from tenants.selectors import tenant_facts

MEASURED_FILES_MAX = 1_000_000  # A volume of more files is not measured to its end; what is beyond is not counted.


class VolumeNotOnHost(Conflict):
    """The platform does not see the files of this volume: they are on a claim of a cluster, or on an NFS server."""

    code = "volume_not_on_host"
    title = Text("The files of the volume are not on the platform's host", "存储卷的文件不在平台主机上")


def demand_on_host(volume: Volume) -> None:
    """Raise VolumeNotOnHost where the platform does not see the volume's files."""
    if volume.kind != VolumeKind.LOCAL:
        raise VolumeNotOnHost(
            Text(
                f"Volume {volume.name} is of kind {volume.kind}: only jobs that mount it see its files.",
                f"存储卷 {volume.name} 的类型为 {volume.kind}：只有挂载它的作业能访问其中的文件。",
            ),
            hint=Text(
                f"List or copy them in a job, with mounts: [{{volume: {volume.name}, path: /data}}].",
                f"请在作业中查看或复制，作业须填写 mounts: [{{volume: {volume.name}, path: /data}}]。",
            ),
        )


def _root(volume: Volume) -> str:
    demand_on_host(volume)
    return volume.location


def prepare_volume(volume: Volume) -> None:
    """Make the volume's directory, for the members of its group; twice is fine."""
    with _told(volume, ""):
        _files().prepare_volume(_root(volume), volume.number)


def remove_volume(volume: Volume) -> None:
    """Remove the volume's directory with all that is in it; absent is done."""
    with _told(volume, ""):
        _files().remove_tree(_root(volume))


def list_folder(volume: Volume, tenant_id: uuid.UUID, path: str, *, limit: int, start: str = "") -> Listing:
    with _told(volume, path):
        files, number = _files(), _number(tenant_id)
        return files.list_directory(_root(volume), path, tenant=number, group=volume.number, limit=limit, start=start)


def open_for_reading(volume: Volume, tenant_id: uuid.UUID, path: str) -> int:
    """A descriptor of a regular file; the caller closes it."""
    with _told(volume, path):
        return _files().open_read(_root(volume), path, tenant=_number(tenant_id), group=volume.number)


def exists(volume: Volume, tenant_id: uuid.UUID, path: str) -> bool:
    """Whether there is anything at a path, a link included."""
    folder, _, name = path.rpartition("/")
    try:
        listing = list_folder(volume, tenant_id, folder, limit=1, start=name)
    except NotFound:
        return False
    return any(entry.path == name for entry in listing.entries)


def remove(volume: Volume, tenant_id: uuid.UUID, path: str) -> None:
    with _told(volume, path):
        _files().remove_tree(_root(volume), path, tenant=_number(tenant_id), group=volume.number)


def write_file(volume: Volume, tenant_id: uuid.UUID, path: str, source: Path) -> None:
    """Copy a file of ours into the volume, whole or not at all: written under another name, then moved into place."""
    files, number = _files(), _number(tenant_id)
    folder = path.rpartition("/")[0]
    part = f".berth-{uuid.uuid4().hex[:16]}.part"
    part = f"{folder}/{part}" if folder else part
    with _told(volume, path):
        if folder:
            files.make_directory(_root(volume), folder, tenant=number, group=volume.number)
        try:
            descriptor = files.open_write(_root(volume), part, tenant=number, group=volume.number)
            _copy(source, descriptor)
            files.rename(_root(volume), part, path, tenant=number, group=volume.number)
        except BaseException:
            with contextlib.suppress(OSError, LauncherUnavailable):
                files.remove_tree(_root(volume), part, tenant=number, group=volume.number)
            raise


def measure(volume: Volume, tenant_id: uuid.UUID) -> int:
    """Bytes that all regular files in a volume hold of the disk."""
    with _told(volume, ""):
        files, number = _files(), _number(tenant_id)
        return files.measure_tree(_root(volume), "", tenant=number, group=volume.number, limit=MEASURED_FILES_MAX).held_bytes


def _files() -> HostFiles:
    return host_files(current())


def _number(tenant_id: uuid.UUID) -> int:
    return tenant_facts([tenant_id])[tenant_id].number


def _copy(source: Path, descriptor: int) -> None:
    try:
        with source.open("rb") as given:
            while piece := given.read(COPY_BYTES):
                view = memoryview(piece)
                while view:
                    view = view[os.write(descriptor, view) :]
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _told(volume: Volume, path: str) -> Iterator[None]:
    """Turn what the host says into what a caller of the API is told."""
    try:
        yield
    except LauncherUnavailable as error:
        raise no_answer(error) from error
    except FileExistsError as error:
        raise Conflict(
            Text(
                f"{path[:200]!r} in volume {volume.name} cannot be made: a file is in the way.",
                f"无法在存储卷 {volume.name} 中建立 {path[:200]!r}：该位置已有文件。",
            )
        ) from error
    except (FileNotFoundError, LauncherRefused) as error:
        raise _missing(volume, path) from error
    except IsADirectoryError as error:
        raise Conflict(
            Text(f"{path[:200]!r} in volume {volume.name} is a folder.", f"存储卷 {volume.name} 中的 {path[:200]!r} 是目录。")
        ) from error
    except PermissionError as error:
        raise Conflict(
            Text(
                f"{path[:200]!r} in volume {volume.name} is closed to this tenant.",
                f"此租户无权访问存储卷 {volume.name} 中的 {path[:200]!r}。",
            ),
            hint=Text("The user who made it has to open its mode.", "须由其建立者放开访问权限。"),
        ) from error
    except OSError as error:
        if isinstance(error, NotADirectoryError) or error.errno in _LINK_ERRORS:
            raise _missing(volume, path) from error
        if error.errno == errno.ENAMETOOLONG:
            raise Conflict(
                Text(
                    f"A name in {path[:200]!r} is longer than the file system of volume {volume.name} takes.",
                    f"{path[:200]!r} 中有名称超过存储卷 {volume.name} 所在文件系统允许的长度。",
                )
            ) from error
        raise


_LINK_ERRORS = frozenset({errno.ELOOP, errno.ENXIO})  # A link; a pipe without a writer.


def no_answer(error: LauncherUnavailable) -> Unavailable:
    """What a caller is told where nothing could be looked up: to ask again."""
    if isinstance(error, LauncherBusy):
        return Unavailable(
            Text(
                "Other listings of this tenant's files are under way, as many as may be at once.",
                "此租户的文件正在被列出，同时进行的数量已达上限。",
            ),
            retry_after_seconds=5,
        )
    return Unavailable(
        Text("The part of Berth that reads tenants' files does not answer.", "读取租户文件的 Berth 组件没有应答。"),
        retry_after_seconds=2,
    )


def _missing(volume: Volume, path: str) -> NotFound:
    what = (
        Text(f"{path[:200]!r} in volume {volume.name}", f"存储卷 {volume.name} 中没有 {path[:200]!r}")
        if path
        else Text(f"directory of volume {volume.name}", f"没有存储卷 {volume.name} 的目录")
    )
    return NotFound(
        Text(f"There is no {what.en}, or it is no plain file.", f"{what.zh}，或者它不是普通文件。"),
        hint=Text("List the folder above it to see what there is.", "请列出上级目录，查看其中的内容。"),
    )
