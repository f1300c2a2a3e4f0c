"""Uploads over HTTP: announced, filled in pieces, resumed after a break."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from activity.models import AuditEvent
from storage import space
from storage.models import CodeSnapshot, Upload
from storage.services.volumes import grant_volume
from tests.factories.storage import an_archive, make_volume, sha256_of
from tests.factories.tenants import SYSTEM, now

pytestmark = pytest.mark.database

URL = "/api/v1/uploads"
PIECE = "application/offset+octet-stream"


def announce(client, data: bytes, **more):
    body = {"target": {"code": True}, "size_bytes": len(data), "sha256": sha256_of(data), **more}
    return client.post(URL, body, format="json")


def send(client, upload_id: str, data: bytes, offset: int = 0):
    return client.patch(f"{URL}/{upload_id}", data, content_type=PIECE, headers={"Upload-Offset": str(offset)})


def test_code_is_sent_in_pieces_and_never_twice(api, cast):
    client, data = api(cast.bob), an_archive({"a.py": os.urandom(5000)})
    made = announce(client, data)
    assert made.status_code == 201, made.data
    assert (made.data["offset_bytes"], made.data["complete"], made["Upload-Offset"]) == (0, False, "0")
    assert made.data["chunk_bytes_max"] == 8 * 1024**2
    first = send(client, made.data["id"], data[:2000])
    assert (first.status_code, first.data["offset_bytes"], first["Upload-Offset"]) == (200, 2000, "2000")
    last = send(client, made.data["id"], data[2000:], 2000)
    assert (last.status_code, last.data["complete"]) == (200, True)
    known = announce(client, data)
    assert (known.status_code, known.data["complete"], known.data["id"]) == (200, True, None)
    assert CodeSnapshot.objects.filter(tenant=cast.tenant).count() == 1


def test_after_a_break_the_upload_is_taken_up_where_it_was(api, cast):
    client, data = api(cast.bob), an_archive()
    upload_id = announce(client, data).data["id"]
    send(client, upload_id, data[:7])
    head = client.head(f"{URL}/{upload_id}")
    assert (head.status_code, head["Upload-Offset"], head["Upload-Length"]) == (200, "7", str(len(data)))
    doubled = send(client, upload_id, data[:7])
    assert (doubled.status_code, doubled["Upload-Offset"]) == (409, "7")
    assert doubled.json()["code"] == "offset_mismatch"
    assert send(client, upload_id, data[7:], 7).data["complete"] is True


def test_a_file_goes_to_its_place_in_a_volume(api, cast):
    volume = make_volume(cast.tenant, "digits")
    client, data = api(cast.bob), b"pixels"
    for name in ("digits", str(volume.id), f"{cast.tenant.slug}/digits"):
        made = announce(client, data, target={"volume": name, "path": f"{name[:3]}/train"})
        assert made.status_code == 201, made.data
        assert made.data["volume_id"] == str(volume.id)
        assert send(client, made.data["id"], data).data["complete"] is True
        assert (Path(volume.location) / f"{name[:3]}/train").read_bytes() == data


def test_what_arrived_wrong_starts_over(api, cast):
    client, data = api(cast.bob), b"right"
    make_volume(cast.tenant, "v")
    upload_id = announce(client, data, target={"volume": "v", "path": "f"}).data["id"]
    wrong = send(client, upload_id, b"wrong")
    assert (wrong.status_code, wrong.json()["code"], wrong["Upload-Offset"]) == (422, "digest_mismatch", "0")
    assert send(client, upload_id, data).data["complete"] is True


def test_an_archive_that_leads_outside_is_refused_by_name(api, cast):
    client, data = api(cast.bob), an_archive({"../../evil": b"x"})
    upload_id = announce(client, data).data["id"]
    refused = send(client, upload_id, data)
    assert (refused.status_code, refused.json()["code"]) == (422, "bad_archive")
    assert "evil" in refused.json()["fields"][0]["message"]
    assert client.get(f"{URL}/{upload_id}").status_code == 404


@pytest.mark.parametrize("offset", ["", "-1", "x", "1.5", "9" * 30, "²"])
def test_an_offset_that_is_none_is_refused(api, cast, offset):
    client = api(cast.bob)
    upload_id = announce(client, an_archive()).data["id"]
    url = f"{URL}/{upload_id}"
    headers = {"Upload-Offset": offset.encode().decode("latin-1")} if offset else {}
    assert client.patch(url, b"x", content_type=PIECE, headers=headers).status_code == 422


def test_a_piece_that_is_too_large_or_of_another_type_is_refused(api, cast):
    client = api(cast.bob)
    upload_id = announce(client, an_archive()).data["id"]
    assert send(client, upload_id, b"x" * (8 * 1024**2 + 1)).status_code == 413
    json = client.patch(f"{URL}/{upload_id}", {"a": 1}, format="json", headers={"Upload-Offset": "0"})
    assert json.status_code == 415


def test_all_mistakes_of_an_announcement_are_told(api, cast):
    client = api(cast.bob)
    refused = client.post(URL, {"target": {}, "size_bytes": "7", "sha": "x"}, format="json")
    assert refused.status_code == 422
    paths = {field["path"] for field in refused.json()["fields"]}
    assert {"/target/volume", "/target/path", "/size_bytes", "/sha256", "/sha"} <= paths
    both = client.post(
        URL, {"target": {"code": True, "volume": "v", "path": "p"}, "size_bytes": 1, "sha256": "a" * 64}, format="json"
    )
    assert both.status_code == 422
    huge = announce(client, b"", size_bytes=10**18)
    assert huge.status_code == 413


def test_a_full_disk_is_507(api, cast, monkeypatch):
    monkeypatch.setattr(space, "free_bytes", lambda path=None: 0)
    refused = announce(api(cast.bob), an_archive())
    assert (refused.status_code, refused.json()["code"]) == (507, "storage_full")
    assert refused["Retry-After"]


def test_an_upload_belongs_to_whoever_began_it(api, cast):
    data = an_archive()
    upload_id = announce(api(cast.bob), data).data["id"]
    for other, status in ((cast.carol, 404), (cast.vera, 404), (cast.otto, 404)):
        assert api(other).get(f"{URL}/{upload_id}").status_code == status
        assert send(api(other), upload_id, data).status_code == status
        assert api(other).delete(f"{URL}/{upload_id}").status_code == status
    assert api(cast.alice).get(f"{URL}/{upload_id}").status_code == 200
    assert api(cast.bob).delete(f"{URL}/{upload_id}").status_code == 204
    assert not Upload.objects.filter(id=upload_id).exists()


def test_a_viewer_and_an_outsider_may_not_upload(api, cast):
    volume = make_volume(cast.tenant, "v")
    target = {"volume": str(volume.id), "path": "f"}
    assert announce(api(cast.vera), b"x", tenant=cast.tenant.slug).status_code == 403
    assert announce(api(cast.vera), b"x", target=target).status_code == 403
    assert announce(api(cast.carol), b"x", target=target).status_code == 404
    assert announce(api(cast.carol), b"x", tenant=cast.tenant.slug).status_code == 404
    assert announce(api(cast.otto), b"x", target=target).status_code == 403
    assert announce(api(), b"x").status_code == 401


def test_a_granted_volume_takes_files_only_if_it_may_be_written(api, cast):
    volume = make_volume(cast.tenant, "v")
    target = {"volume": str(volume.id), "path": "f"}
    grant_volume(actor=SYSTEM, volume=volume, tenant_id=cast.elsewhere.pk, read_only=True, now=now())
    assert announce(api(cast.carol), b"x", target=target).status_code == 403
    grant_volume(actor=SYSTEM, volume=volume, tenant_id=cast.elsewhere.pk, read_only=False, now=now())
    made = announce(api(cast.carol), b"x", target=target)
    assert made.data["tenant_id"] == str(cast.elsewhere.pk)
    assert send(api(cast.carol), made.data["id"], b"x").data["complete"] is True


def test_a_repeated_announcement_makes_one_upload(api, cast):
    data = an_archive()
    body = {"target": {"code": True}, "size_bytes": len(data), "sha256": sha256_of(data)}
    ids = {api(cast.bob).post(URL, body, format="json", headers={"Idempotency-Key": "same"}).json()["id"] for _ in range(2)}
    assert len(ids) == 1


def test_every_accepted_call_is_audited(api, cast):
    client, data = api(cast.bob), an_archive()
    upload_id = announce(client, data).data["id"]
    send(client, upload_id, data[:5])
    send(client, upload_id, data[5:], 5)
    verbs = AuditEvent.objects.filter(target_id=upload_id).order_by("id").values_list("verb", flat=True)
    assert list(verbs) == ["upload.create", "upload.write", "upload.write"]
