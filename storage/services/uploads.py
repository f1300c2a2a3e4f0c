"""Files on their way in: in pieces, resumable at every byte, checked against their digest before any user sees them.

The row's `offset_bytes` moves after the bytes are on disk, so a client that asks where it stands is never told too much. A
piece that is sent again at the same offset writes the same bytes to the same place. One lock per file keeps two senders of
one upload apart. An upload that is whole is finished by the piece that made it whole, or, after a crash, by an empty one.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import threading
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from django.db import transaction

from activity.services import record_audit
from kernel.actor import Actor
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import Conflict, FieldError, InvalidInput, NotFound, QuotaExceeded, TooLarge
from kernel.limits import CODE_SNAPSHOT_BYTES, UPLOAD_CHUNK_BYTES
from kernel.words import Text
from storage import bounds, space
from storage.archives import BadArchive
from storage.models import CodeSnapshot, Upload, UploadTarget, Volume
from storage.paths import clean_path
from storage.services.code import store_snapshot
from storage.services.files import check_quota, check_writable, put_file

_SHA256 = re.compile(r"[0-9a-f]{64}")


class OffsetMismatch(Conflict):
    """The piece does not begin where the upload stands; `Upload-Offset` of the answer says where that is."""

    code = "offset_mismatch"
    title = Text("The upload stands at another offset", "上传偏移不一致")
    retryable = True


class UploadBusy(Conflict):
    """Another request is writing to the same upload at this moment."""

    code = "upload_busy"
    title = Text("The upload is being written", "上传正忙")
    retryable = True


class DigestMismatch(InvalidInput):
    """The received bytes have another digest than announced. The upload starts over at offset 0."""

    code = "digest_mismatch"
    title = Text("The uploaded bytes have another digest", "内容校验不一致")


@dataclass(frozen=True, slots=True)
class NewUpload:
    """What is announced. `volume` None: a code snapshot; else the file's path in the volume."""

    size_bytes: int
    sha256: str
    volume: Volume | None = None
    path: str = ""


@dataclass(frozen=True, slots=True)
class StartedUpload:
    """The upload to fill, or None when the tenant has these very bytes as code already."""

    upload: Upload | None
    snapshot: CodeSnapshot | None = None


def start_upload(*, actor: Actor, tenant_id: uuid.UUID, new: NewUpload, now: datetime) -> StartedUpload:
    """Announce a file. An empty one is complete at once, and code that the tenant has is not sent again."""
    _check_announcement(new)
    target = UploadTarget.CODE if new.volume is None else UploadTarget.VOLUME
    if new.volume is None:
        snapshot = CodeSnapshot.objects.filter(tenant_id=tenant_id, digest=new.sha256).first()
        if snapshot is not None:
            return StartedUpload(None, snapshot)
    else:
        check_writable(new.volume, tenant_id)
        check_quota(new.volume, tenant_id, new.size_bytes, now=now)
    space.require_room(new.size_bytes, what="The upload")
    with transaction.atomic():
        if Upload.objects.filter(tenant_id=tenant_id, completed_at__isnull=True).count() >= bounds.UPLOADS_OPEN_MAX:
            raise QuotaExceeded(
                Text(
                    f"The tenant has {bounds.UPLOADS_OPEN_MAX} unfinished uploads.",
                    f"租户有 {bounds.UPLOADS_OPEN_MAX} 个未完成的上传。",
                ),
                hint=Text("Finish or delete one of them first.", "请先完成或删除其中一个。"),
            )
        upload = Upload.objects.create(
            tenant_id=tenant_id,
            created_by_id=actor.user_id,
            target=target,
            volume=new.volume,
            path="" if new.volume is None else clean_path(new.path, field="/target/path", required=True),
            size_bytes=new.size_bytes,
            sha256=new.sha256,
            created_at=now,
            updated_at=now,
        )
        _audit(actor, upload, "upload.create", now, after={"target": str(target), "size_bytes": new.size_bytes})
    if new.size_bytes == 0:
        with _locked(upload):
            _finish(upload, now=now)
    return StartedUpload(upload)


def append_bytes(*, actor: Actor, upload: Upload, offset: int, data: bytes, now: datetime) -> Upload:
    """Store one piece. OffsetMismatch if it does not begin where the upload stands; finishes the upload when it is whole.

    StorageFull leaves the upload as it was; DigestMismatch starts it over; BadArchive removes it.
    """
    if len(data) > UPLOAD_CHUNK_BYTES:
        raise TooLarge(
            Text(f"A piece has at most {UPLOAD_CHUNK_BYTES:,} bytes.", f"每段最多 {UPLOAD_CHUNK_BYTES:,} 字节。"),
            hint=Text("Send more, smaller pieces.", "请分成更多、更小的段发送。"),
        )
    with _locked(upload):
        _refresh(upload)
        if upload.completed_at is not None:
            if offset == upload.size_bytes and not data:
                return upload  # The answer of the last piece was lost.
            raise Conflict(
                Text("The upload is complete.", "此上传已完成。"),
                hint=Text("Start another one to send something else.", "请另建上传以发送其他内容。"),
            )
        if offset != upload.offset_bytes:
            raise OffsetMismatch(
                Text(
                    f"The upload stands at byte {upload.offset_bytes:,}, the piece begins at {offset:,}.",
                    f"此上传已到第 {upload.offset_bytes:,} 字节，而该分块从 {offset:,} 开始。",
                ),
                hint=Text("Ask for the offset with HEAD, and go on from there.", "请用 HEAD 查询偏移量，再从该处继续。"),
            )
        if offset + len(data) > upload.size_bytes:
            raise TooLarge(
                Text(
                    f"The upload was announced with {upload.size_bytes:,} bytes; this piece goes beyond.",
                    f"上传声明为 {upload.size_bytes:,} 字节；此段超出。",
                )
            )
        if data:
            space.require_room(len(data), what="The piece")
            _write(upload, offset, data)
            crashpoint("storage.upload.after_write")
            _advance(actor, upload, offset + len(data), now=now)
        if upload.offset_bytes == upload.size_bytes:
            _finish(upload, now=now)
    return upload


def delete_upload(*, actor: Actor, upload: Upload, now: datetime) -> None:
    """Give an upload up. What it already put into place stays."""
    with _locked(upload), transaction.atomic():
        Upload.objects.filter(id=upload.id).delete()
        _audit(actor, upload, "upload.delete", now)
        path = _place(upload.id)
        transaction.on_commit(lambda: path.unlink(missing_ok=True))
    _digests.forget(upload.id)


def remove_expired_uploads(*, now: datetime, limit: int = 1_000) -> int:
    """Drop uploads that were not continued for a day, and files that belong to none; gives how many rows. Sweeps call it."""
    rows = Upload.objects.filter(updated_at__lt=now - bounds.UPLOAD_KEPT).order_by("updated_at")
    expired = list(rows.values_list("id", flat=True)[:limit])
    for upload_id in expired:
        _place(upload_id).unlink(missing_ok=True)
    Upload.objects.filter(id__in=expired).delete()
    _remove_strays(now)
    return len(expired)


def _remove_strays(now: datetime) -> None:
    """Files without a row: left by a crash between the row's end and the file's."""
    folder = current().data_dir / "uploads"
    if not folder.is_dir():
        return
    old = now.timestamp() - bounds.UPLOAD_KEPT.total_seconds()
    names = [entry.name for entry in os.scandir(folder) if entry.is_file() and entry.stat().st_mtime < old]
    for start in range(0, len(names), 500):
        part = [name for name in names[start : start + 500] if _is_id(name)]
        known = {str(found) for found in Upload.objects.filter(id__in=part).values_list("id", flat=True)}
        for name in set(part) - known:
            (folder / name).unlink(missing_ok=True)


def _check_announcement(new: NewUpload) -> None:
    errors: list[FieldError] = []
    size_max = CODE_SNAPSHOT_BYTES if new.volume is None else bounds.UPLOAD_BYTES_MAX
    if not _SHA256.fullmatch(new.sha256):
        errors.append(
            FieldError(
                "/sha256",
                "bad_digest",
                Text("sha256 has 64 hexadecimal digits, in small letters.", "sha256 为 64 位小写十六进制数字。"),
            )
        )
    if new.size_bytes < 0:
        errors.append(FieldError("/size_bytes", "min_value", Text("The size must not be negative.", "大小不能为负。")))
    if errors:
        raise InvalidInput(errors[0].message, fields=errors)
    if new.size_bytes > size_max:
        hint = (
            Text("Leave data out with .berthignore, and put it into a volume.", "请用 .berthignore 排除数据，并将其放入存储卷。")
            if new.volume is None
            else Text("Split the file.", "请拆分文件。")
        )
        raise TooLarge(
            Text(
                f"{new.size_bytes:,} bytes are more than the {size_max:,} that are taken.",
                f"{new.size_bytes:,} 字节超过允许的 {size_max:,} 字节。",
            ),
            hint=hint,
        )


def _refresh(upload: Upload) -> None:
    try:
        upload.refresh_from_db()
    except Upload.DoesNotExist:
        _place(upload.id).unlink(missing_ok=True)
        raise NotFound(
            Text("There is no such upload any more.", "该上传已不存在。"), hint=Text("Start another one.", "请另建上传。")
        ) from None


def _write(upload: Upload, offset: int, data: bytes) -> None:
    descriptor = os.open(_place(upload.id), os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with space.full_disk_is_told("the upload"):
            view, position = memoryview(data), offset
            while view:
                written = os.pwrite(descriptor, view, position)
                view, position = view[written:], position + written
            os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    _digests.extend(upload.id, offset, data)


def _advance(actor: Actor, upload: Upload, offset: int, *, now: datetime) -> None:
    with transaction.atomic():
        moved = Upload.objects.filter(id=upload.id, offset_bytes=upload.offset_bytes, completed_at__isnull=True).update(
            offset_bytes=offset, updated_at=now
        )
        if not moved:
            raise OffsetMismatch(
                Text("The upload was moved on or given up by another request.", "该上传已被另一请求推进或放弃。"),
                hint=Text("Ask for the offset with HEAD.", "请用 HEAD 查询偏移量。"),
            )
        _audit(actor, upload, "upload.write", now, after={"offset_bytes": offset})
    upload.offset_bytes, upload.updated_at = offset, now


def _finish(upload: Upload, *, now: datetime) -> None:
    """Check the digest and put the file into its place. Every step may be done again after a crash."""
    path = _place(upload.id)
    if _digests.of(upload.id, path, upload.size_bytes) != upload.sha256:
        _digests.forget(upload.id)
        Upload.objects.filter(id=upload.id).update(offset_bytes=0, updated_at=now)
        raise DigestMismatch(
            Text(
                f"The {upload.size_bytes:,} bytes that arrived have another SHA-256 than announced.",
                f"收到的 {upload.size_bytes:,} 字节的 SHA-256 与声明不符。",
            ),
            hint=Text(
                "The upload starts over at offset 0. Did the file change meanwhile?", "上传将从偏移 0 重新开始。文件是否已变化？"
            ),
            fields=[
                FieldError(
                    "/sha256", "digest_mismatch", Text("The bytes that arrived have another digest.", "收到的内容校验和不同。")
                )
            ],
        )
    if upload.volume is None:
        try:
            store_snapshot(upload, path, now=now)
        except BadArchive:
            path.unlink(missing_ok=True)
            Upload.objects.filter(id=upload.id).delete()
            raise
    else:
        with space.full_disk_is_told("the file in its volume"):
            put_file(upload.volume, upload.tenant_id, upload.path, path)
    crashpoint("storage.upload.after_put")
    Upload.objects.filter(id=upload.id).update(completed_at=now, updated_at=now)
    upload.completed_at = upload.updated_at = now
    _digests.forget(upload.id)


@contextlib.contextmanager
def _locked(upload: Upload) -> Iterator[None]:
    """Hold the upload's file for the block; UploadBusy if another process does. The lock ends with the process."""
    path = _place(upload.id)
    path.parent.mkdir(mode=0o700, exist_ok=True)
    with space.full_disk_is_told("the upload"):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UploadBusy(
                Text("Another request is writing to this upload.", "另一请求正在写入此上传。"),
                hint=Text("Wait a moment, ask for the offset, go on.", "请稍候，查询偏移量后继续。"),
                retry_after_seconds=1,
            ) from None
        yield
    finally:
        if upload.completed_at is not None:
            path.unlink(missing_ok=True)
        os.close(descriptor)


def _place(upload_id: uuid.UUID) -> Path:
    return current().data_dir / "uploads" / str(upload_id)


def _is_id(name: str) -> bool:
    try:
        return str(uuid.UUID(name)) == name
    except ValueError:
        return False


def _audit(actor: Actor, upload: Upload, verb: str, now: datetime, *, after: dict[str, Any] | None = None) -> None:
    record_audit(
        actor=actor,
        verb=verb,
        tenant_id=upload.tenant_id,
        target_kind="upload",
        target_id=upload.id,
        target_name=upload.path,
        after=after,
        at=now,
    )


class _Digests:
    """Digests of uploads as far as this process has seen their bytes, so that a long file is not read again at its end."""

    def __init__(self, size: int = 256) -> None:
        self._size = size
        self._known: OrderedDict[uuid.UUID, tuple[int, Any]] = OrderedDict()
        self._lock = threading.Lock()

    def extend(self, upload_id: uuid.UUID, offset: int, data: bytes) -> None:
        with self._lock:
            reached, digest = self._known.pop(upload_id, (0, hashlib.sha256()))
            if reached != offset:
                return  # Other bytes went elsewhere; the file itself will be read.
            digest.update(data)
            self._known[upload_id] = (offset + len(data), digest)
            while len(self._known) > self._size:
                self._known.popitem(last=False)

    def of(self, upload_id: uuid.UUID, path: Path, size_bytes: int) -> str:
        with self._lock:
            reached, digest = self._known.get(upload_id, (0, None))
        if digest is not None and reached == size_bytes:
            return str(digest.hexdigest())
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def forget(self, upload_id: uuid.UUID) -> None:
        with self._lock:
            self._known.pop(upload_id, None)


_digests = _Digests()
