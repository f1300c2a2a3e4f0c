"""Uploads: resumable at every byte, checked at the end, bounded, and never half visible (reliability F27)."""

from __future__ import annotations

import errno
import fcntl
import os
from datetime import timedelta
from pathlib import Path

import pytest

from kernel.errors import Conflict, InvalidInput, NotFound, QuotaExceeded, StorageFull, TooLarge
from storage import bounds, space
from storage.archives import BadArchive
from storage.models import CodeSnapshot, Upload
from storage.services import uploads
from storage.services.code import resolve_code
from storage.services.uploads import (
    DigestMismatch,
    NewUpload,
    OffsetMismatch,
    UploadBusy,
    append_bytes,
    delete_upload,
    remove_expired_uploads,
    start_upload,
)
from storage.services.volumes import VolumeReadOnly
from tests.factories.storage import an_archive, an_upload, make_volume, sha256_of
from tests.factories.tenants import SYSTEM, make_tenant, now

pytestmark = pytest.mark.database


def send(upload: Upload, data: bytes, offset: int = 0) -> Upload:
    return append_bytes(actor=SYSTEM, upload=upload, offset=offset, data=data, now=now())


def temporary(upload: Upload, data_dir: Path) -> Path:
    return data_dir / "uploads" / str(upload.id)


def test_a_file_sent_in_pieces_appears_whole_at_its_path(data_dir):
    tenant = make_tenant()
    volume = make_volume(tenant)
    data = os.urandom(10_000)
    upload = an_upload(tenant, data, volume=volume, path="sets/v1/train.bin")
    for start in range(0, len(data), 3_000):
        assert not (Path(volume.location) / "sets/v1/train.bin").exists()
        upload = send(upload, data[start : start + 3_000], start)
    assert upload.completed_at is not None
    assert (Path(volume.location) / "sets/v1/train.bin").read_bytes() == data
    assert os.listdir(Path(volume.location) / "sets/v1") == ["train.bin"]
    assert not temporary(upload, data_dir).exists()


def test_a_piece_at_another_offset_changes_nothing():
    upload = an_upload(make_tenant(), data := an_archive())
    send(upload, data[:10])
    for offset in (0, 5, 11, len(data)):
        with pytest.raises(OffsetMismatch, match="stands at byte 10"):
            send(upload, b"x", offset)
    assert Upload.objects.get(id=upload.id).offset_bytes == 10
    assert send(upload, data[10:], 10).completed_at is not None


def test_an_upload_goes_on_after_the_server_forgot_everything_in_memory():
    upload = an_upload(make_tenant(), data := an_archive({"a.py": os.urandom(5_000)}))
    send(upload, data[:100])
    uploads._digests.forget(upload.id)
    assert send(Upload.objects.get(id=upload.id), data[100:], 100).completed_at is not None


def test_a_crash_before_the_offset_moved_costs_only_the_piece(monkeypatch):
    upload = an_upload(make_tenant(), data := an_archive())
    monkeypatch.setattr(uploads, "_advance", lambda *args, **kwargs: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        send(upload, data[:50])
    monkeypatch.undo()
    assert Upload.objects.get(id=upload.id).offset_bytes == 0
    send(upload, data[:20])
    assert send(upload, data[20:], 20).completed_at is not None


def test_a_crash_at_the_end_is_finished_by_an_empty_piece(monkeypatch):
    tenant = make_tenant()
    volume = make_volume(tenant)
    upload = an_upload(tenant, b"abc", volume=volume, path="f")
    with monkeypatch.context() as patch:
        patch.setattr(uploads, "put_file", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            send(upload, b"abc")
    assert Upload.objects.get(id=upload.id).offset_bytes == 3
    uploads._digests.forget(upload.id)
    assert send(Upload.objects.get(id=upload.id), b"", 3).completed_at is not None
    assert (Path(volume.location) / "f").read_bytes() == b"abc"


def test_the_last_answer_may_be_asked_for_again(data_dir):
    upload = an_upload(make_tenant(), data := an_archive())
    send(upload, data)
    assert send(upload, b"", len(data)).completed_at is not None
    with pytest.raises(Conflict):
        send(upload, b"x", len(data))
    assert not temporary(upload, data_dir).exists()


def test_bytes_with_another_digest_are_never_put_into_place():
    tenant = make_tenant()
    volume = make_volume(tenant)
    upload = an_upload(tenant, b"right", volume=volume, path="f")
    with pytest.raises(DigestMismatch):
        send(upload, b"wrong")
    assert not (Path(volume.location) / "f").exists()
    assert Upload.objects.get(id=upload.id).offset_bytes == 0
    assert send(Upload.objects.get(id=upload.id), b"right").completed_at is not None


def test_an_empty_file_is_complete_at_once():
    tenant = make_tenant()
    volume = make_volume(tenant)
    upload = an_upload(tenant, b"", volume=volume, path="empty")
    assert upload.completed_at is not None
    assert (Path(volume.location) / "empty").read_bytes() == b""


def test_more_than_announced_is_refused():
    tenant = make_tenant()
    upload = an_upload(tenant, b"abc", volume=make_volume(tenant), path="f")
    with pytest.raises(TooLarge):
        send(upload, b"abcd")
    with pytest.raises(TooLarge):
        send(upload, b"x" * (9 * 1024**2))


def test_two_senders_of_one_upload_do_not_mix(data_dir):
    upload = an_upload(make_tenant(), data := an_archive())
    send(upload, data[:10])
    with temporary(upload, data_dir).open("r+b") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UploadBusy):
            send(upload, data[10:], 10)
    assert send(upload, data[10:], 10).completed_at is not None


def test_code_is_known_by_its_digest_inside_its_tenant_only():
    tenant, other = make_tenant(), make_tenant()
    upload = an_upload(tenant, data := an_archive())
    send(upload, data)
    new = NewUpload(size_bytes=len(data), sha256=sha256_of(data))
    assert start_upload(actor=SYSTEM, tenant_id=tenant.pk, new=new, now=now()).upload is None
    assert start_upload(actor=SYSTEM, tenant_id=other.pk, new=new, now=now()).upload is not None
    ref = resolve_code(tenant_id=tenant.pk, digest=new.sha256)
    assert Path(ref.location).read_bytes() == data
    assert Path(ref.location).parent.name == str(tenant.number)
    assert Path(ref.location).stat().st_mode & 0o777 == 0o440
    with pytest.raises(InvalidInput):
        resolve_code(tenant_id=other.pk, digest=new.sha256)


def test_the_same_code_from_two_uploads_is_stored_once():
    tenant, data = make_tenant(), an_archive()
    first, second = an_upload(tenant, data), an_upload(tenant, data)
    send(first, data)
    assert send(second, data).completed_at is not None
    assert CodeSnapshot.objects.filter(tenant=tenant).count() == 1


def test_a_bad_archive_is_refused_and_forgotten(data_dir):
    tenant = make_tenant()
    upload = an_upload(tenant, data := an_archive({"../evil": b"x"}))
    with pytest.raises(BadArchive):
        send(upload, data)
    assert not Upload.objects.filter(id=upload.id).exists()
    assert not temporary(upload, data_dir).exists()
    assert not CodeSnapshot.objects.filter(tenant=tenant).exists()
    with pytest.raises(NotFound):
        send(upload, b"x")


def test_a_full_disk_is_told_and_nothing_confirmed_is_lost(monkeypatch):
    upload = an_upload(make_tenant(), data := an_archive({"a": os.urandom(3000)}))
    send(upload, data[:1000])
    written = os.pwrite

    def full(descriptor, piece, position):
        if position >= 1500:
            raise OSError(errno.ENOSPC, "No space left on device")
        return written(descriptor, bytes(piece)[: 1500 - position], position)

    with monkeypatch.context() as patch:
        patch.setattr(uploads.os, "pwrite", full)
        with pytest.raises(StorageFull):
            send(upload, data[1000:], 1000)
    assert Upload.objects.get(id=upload.id).offset_bytes == 1000
    assert send(Upload.objects.get(id=upload.id), data[1000:], 1000).completed_at is not None


def test_what_has_no_room_is_refused_before_it_is_sent(monkeypatch):
    monkeypatch.setattr(space, "free_bytes", lambda path=None: 100)
    with pytest.raises(StorageFull) as caught:
        an_upload(make_tenant(), b"x" * 101)
    assert "100 are free" in caught.value.detail


@pytest.mark.parametrize("path", ["../x", "a/../../x", "", "/", ".", "a\x00b", "a\nb", "x/" * 100, "n" * 300, "\ud800"])
def test_a_path_that_is_none_is_refused(path):
    tenant = make_tenant()
    with pytest.raises(InvalidInput):
        an_upload(tenant, b"x", volume=make_volume(tenant), path=path)


@pytest.mark.parametrize(
    ("path", "place"),
    [("%2e%2e/x", "%2e%2e/x"), ("a;b", "a;b"), ("/etc/passwd", "etc/passwd"), ("..;/x", "..;/x"), ("a\\..\\b", "a\\..\\b")],
)
def test_a_path_is_decoded_once_and_stays_in_the_volume(path, place):
    tenant = make_tenant()
    volume = make_volume(tenant)
    send(an_upload(tenant, b"x", volume=volume, path=path), b"x")
    assert (Path(volume.location) / place).read_bytes() == b"x"


def test_a_link_in_the_volume_leads_nowhere(tmp_path):
    tenant = make_tenant()
    volume = make_volume(tenant)
    os.symlink(tmp_path, Path(volume.location) / "out")
    upload = an_upload(tenant, b"x", volume=volume, path="out/evil")
    with pytest.raises((NotFound, Conflict)):
        send(upload, b"x")
    assert os.listdir(tmp_path) == []


def test_a_read_only_volume_takes_no_upload():
    tenant = make_tenant()
    with pytest.raises(VolumeReadOnly):
        an_upload(tenant, b"x", volume=make_volume(tenant, read_only=True), path="f")


def test_a_volumes_quota_refuses_what_does_not_fit():
    tenant = make_tenant()
    volume = make_volume(tenant, size_quota_bytes=10)
    send(an_upload(tenant, b"123456", volume=volume, path="a"), b"123456")
    volume.refresh_from_db()
    with pytest.raises(QuotaExceeded, match="6 of 10"):
        an_upload(tenant, b"12345", volume=volume, path="b")


def test_uploads_that_nobody_continues_are_removed(data_dir):
    tenant = make_tenant()
    old = an_upload(tenant, b"abcdef", volume=make_volume(tenant, "v"), path="f")
    send(old, b"abc")
    fresh = an_upload(tenant, data := an_archive())
    Upload.objects.filter(id=old.id).update(updated_at=now() - timedelta(days=2))
    stray = data_dir / "uploads" / "0199aaaa-0000-7000-8000-000000000000"
    stray.write_bytes(b"x")
    os.utime(stray, (1, 1))
    assert remove_expired_uploads(now=now()) == 1
    assert not stray.exists()
    assert not temporary(old, data_dir).exists()
    assert send(fresh, data).completed_at is not None


def test_an_upload_can_be_given_up(data_dir, django_capture_on_commit_callbacks):
    upload = an_upload(make_tenant(), data := an_archive())
    send(upload, data[:10])
    with django_capture_on_commit_callbacks(execute=True):
        delete_upload(actor=SYSTEM, upload=upload, now=now())
    assert not temporary(upload, data_dir).exists()
    with pytest.raises(NotFound):
        send(upload, data[10:], 10)


def test_a_tenant_has_a_bounded_number_of_unfinished_uploads(monkeypatch):
    monkeypatch.setattr(bounds, "UPLOADS_OPEN_MAX", 2)
    tenant = make_tenant()
    an_upload(tenant, b"1")
    an_upload(tenant, b"2")
    with pytest.raises(QuotaExceeded):
        an_upload(tenant, b"3")


@pytest.mark.parametrize("digest", ["", "a" * 63, "A" * 64, "g" * 64, "../" + "a" * 61])
def test_a_digest_that_is_none_is_refused(digest):
    new = NewUpload(size_bytes=1, sha256=digest)
    with pytest.raises(InvalidInput):
        start_upload(actor=SYSTEM, tenant_id=make_tenant().pk, new=new, now=now())
