"""Files inside volumes: listed, read, written and deleted with the rights of the tenant, never with ours."""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from django.db import transaction

from activity.services import record_audit
from clusters.hostfiles import Listing
from kernel.actor import Actor
from kernel.errors import NotFound, QuotaExceeded
from kernel.words import Text
from storage import hostaccess
from storage.models import Volume, VolumeGrant
from storage.paths import clean_path
from storage.services.volumes import VolumeReadOnly

MEASURED_ANEW = timedelta(minutes=1)  # How old a volume's size may be when a quota is checked.


@dataclass(frozen=True, slots=True)
class FileFacts:
    """One name in a volume. `kind` is `file`, `directory`, `link` or `other`; links are shown and never followed."""

    path: str
    kind: str
    size_bytes: int
    mode: int
    modified_at: datetime


@dataclass(frozen=True, slots=True)
class FilePage:
    """Names of a folder. `next`: the first name of the next page; `truncated`: there are more names than pages can give."""

    files: list[FileFacts]
    next: str | None
    truncated: bool


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A regular file opened for reading; the caller closes `descriptor`."""

    descriptor: int
    size_bytes: int
    etag: str


def list_files(volume: Volume, tenant_id: uuid.UUID, path: str, *, start: str = "", limit: int) -> FilePage:
    """The names in one folder, in order, from one on. NotFound if there is no such folder."""
    folder = clean_path(path)
    return file_page(folder, hostaccess.list_folder(volume, tenant_id, folder, limit=limit, start=start))


def file_page(folder: str, listing: Listing) -> FilePage:
    """A listing of that folder with paths from the root on."""
    prefix = f"{folder}/" if folder else ""
    found = [
        FileFacts(
            path=prefix + entry.path,
            kind=entry.kind,
            size_bytes=entry.size_bytes,
            mode=entry.mode,
            modified_at=datetime.fromtimestamp(entry.modified_at, UTC),
        )
        for entry in listing.entries
    ]
    return FilePage(found, listing.next, listing.truncated)


def open_file(volume: Volume, tenant_id: uuid.UUID, path: str) -> OpenFile:
    """Open a regular file for reading. NotFound for anything else, a link included."""
    descriptor = hostaccess.open_for_reading(volume, tenant_id, clean_path(path, required=True))
    found = os.fstat(descriptor)
    return OpenFile(descriptor, found.st_size, f"{found.st_ino:x}-{found.st_mtime_ns:x}-{found.st_size:x}")


def delete_file(*, actor: Actor, volume: Volume, tenant_id: uuid.UUID, path: str, now: datetime) -> None:
    """Delete a file or a whole folder. Asked again, there is nothing left to delete: NotFound."""
    check_writable(volume, tenant_id)
    inside = clean_path(path, required=True)
    if not hostaccess.exists(volume, tenant_id, inside):
        raise NotFound(
            Text(f"There is no {inside[:200]!r} in volume {volume.name}.", f"存储卷 {volume.name} 中没有 {inside[:200]!r}。")
        )
    hostaccess.remove(volume, tenant_id, inside)
    with transaction.atomic():
        Volume.objects.filter(id=volume.id).update(used_read_at=None)
        record_audit(
            actor=actor,
            verb="volume.write",
            tenant_id=volume.tenant_id,
            target_kind="volume",
            target_id=volume.id,
            target_name=volume.name,
            before={"deleted": inside},
            at=now,
        )


def put_file(volume: Volume, tenant_id: uuid.UUID, path: str, source: Path) -> None:
    """Copy a whole, checked file to its place in a volume, making folders as needed. May be done again after a crash."""
    check_writable(volume, tenant_id)
    hostaccess.write_file(volume, tenant_id, clean_path(path, required=True), source)
    Volume.objects.filter(id=volume.id).update(used_read_at=None)


def check_writable(volume: Volume, tenant_id: uuid.UUID) -> None:
    """VolumeReadOnly unless the tenant may write to the volume, VolumeNotOnHost where the platform cannot."""
    hostaccess.demand_on_host(volume)
    read_only = volume.read_only
    if tenant_id != volume.tenant_id:
        grant = VolumeGrant.objects.filter(volume=volume, tenant_id=tenant_id).first()
        read_only = read_only or grant is None or grant.read_only
    if read_only:
        raise VolumeReadOnly(
            Text(f"Volume {volume.name} may only be read.", f"存储卷 {volume.name} 只能读取。"),
            hint=Text("Ask its owner to make it writable.", "请联系其所有者改为可写。"),
        )


def check_quota(volume: Volume, tenant_id: uuid.UUID, size_bytes: int, *, now: datetime) -> None:
    """QuotaExceeded if so many more bytes do not fit into the volume's quota."""
    if volume.size_quota_bytes is None:
        return
    used = used_bytes(volume, tenant_id, now=now)
    if used + size_bytes > volume.size_quota_bytes:
        raise QuotaExceeded(
            Text(
                f"Volume {volume.name} holds {used:,} of {volume.size_quota_bytes:,} bytes; {size_bytes:,} more do not fit.",
                f"存储卷 {volume.name} 已用 {used:,} / {volume.size_quota_bytes:,} 字节；放不下另外 {size_bytes:,} 字节。",
            ),
            hint=Text("Delete files in it, or ask its owner to raise the quota.", "请删除其中的文件，或请所有者提高配额。"),
        )


def used_bytes(volume: Volume, tenant_id: uuid.UUID, *, now: datetime) -> int:
    """Bytes of all files in a volume, measured at most a minute ago."""
    if volume.used_bytes is not None and volume.used_read_at is not None and now - volume.used_read_at < MEASURED_ANEW:
        return volume.used_bytes
    used = hostaccess.measure(volume, tenant_id)
    Volume.objects.filter(id=volume.id).update(used_bytes=used, used_read_at=now)
    volume.used_bytes, volume.used_read_at = used, now
    return used
