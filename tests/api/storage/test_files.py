"""Files in volumes over HTTP: listed, fetched by range, deleted; always inert, never outside (security T9, T16)."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest

from clusters.engines.local.launching import walks
from kernel.file_names import text_of
from storage.services.volumes import grant_volume
from tests.factories.storage import a_file_in, make_volume
from tests.factories.tenants import SYSTEM, now

pytestmark = pytest.mark.database


@pytest.fixture
def volume(cast):
    return make_volume(cast.tenant, "data")


def content(volume) -> str:
    return f"/api/v1/volumes/{volume.id}/content"


def listing(volume) -> str:
    return f"/api/v1/volumes/{volume.id}/files"


def body(response) -> bytes:
    return b"".join(response.streaming_content) if response.streaming else response.content


def test_a_folder_is_listed(api, cast, volume):
    a_file_in(volume, "sets/数据.bin", b"12345")
    a_file_in(volume, "readme.txt", b"hi")
    os.symlink("/etc/passwd", Path(volume.location) / "link")
    root = api(cast.vera).get(listing(volume)).data
    assert [(row["path"], row["kind"]) for row in root["items"]] == [
        ("link", "link"),
        ("readme.txt", "file"),
        ("sets", "directory"),
    ]
    below = api(cast.vera).get(listing(volume), {"path": "/sets/"}).data
    assert [(row["path"], row["size_bytes"]) for row in below["items"]] == [("sets/数据.bin", 5)]
    assert root["truncated"] is False
    assert api(cast.vera).get(listing(volume), {"path": "nowhere"}).status_code == 404


def test_a_large_folder_comes_in_pages(api, cast, volume):
    names = [f"{number:02}" for number in range(25)]
    for name in names:
        a_file_in(volume, f"many/{name}", b"")
    client = api(cast.vera)
    pages, cursor = [], None
    while not pages or cursor:
        page = client.get(listing(volume), {"path": "many", "limit": 10, **({"cursor": cursor} if cursor else {})}).data
        pages.append([row["path"].removeprefix("many/") for row in page["items"]])
        assert page["truncated"] is (page["next"] is not None)
        cursor = page["next"]
    assert pages == [names[:10], names[10:20], names[20:]]
    first = client.get(listing(volume), {"path": "many", "limit": 10}).data["next"]
    assert client.get(listing(volume), {"cursor": first}).data["code"] == "invalid_cursor"  # Of another folder.
    assert client.get(listing(volume), {"limit": 1_001}).status_code == 422


def test_a_tenant_with_too_many_listings_is_told_to_come_again(api, cast, volume, monkeypatch):
    monkeypatch.setattr(walks, "_WAITING_MAX", 0)
    answer = api(cast.vera).get(listing(volume))
    assert (answer.status_code, answer["Retry-After"], "Other listings" in answer.data["detail"]) == (503, "5", True)


@pytest.mark.parametrize("name", [b"bad-\xff", b"two\nlines", b"back\\slash", "深".encode()])
def test_a_name_of_any_bytes_is_listed_fetched_and_deleted(api, cast, volume, name):
    place = os.path.join(os.fsencode(volume.location), name)
    with open(place, "wb") as file:
        file.write(b"here")
    client = api(cast.bob)
    (row,) = client.get(listing(volume)).data["items"]
    assert row["path"] == text_of(os.fsdecode(name))
    assert body(client.get(content(volume), {"path": row["path"]})) == b"here"
    assert client.delete(f"{content(volume)}?path={quote(row['path'])}").status_code == 204
    assert not os.path.exists(place)


def test_a_file_is_downloaded_whole_and_in_ranges(api, cast, volume):
    data = os.urandom(3_000_000)
    a_file_in(volume, "d/f.bin", data)
    client = api(cast.vera)
    whole = client.get(content(volume), {"path": "d/f.bin"})
    assert (whole.status_code, whole["Content-Length"], whole["Accept-Ranges"]) == (200, str(len(data)), "bytes")
    assert body(whole) == data
    for header, start, end in (("bytes=10-19", 10, 20), ("bytes=2999990-", 2999990, 3000000), ("bytes=-5", 2999995, 3000000)):
        part = client.get(content(volume), {"path": "d/f.bin"}, headers={"Range": header})
        assert (part.status_code, part["Content-Range"]) == (206, f"bytes {start}-{end - 1}/{len(data)}")
        assert body(part) == data[start:end]
    beyond = client.get(content(volume), {"path": "d/f.bin"}, headers={"Range": "bytes=3000000-"})
    assert (beyond.status_code, beyond["Content-Range"]) == (416, f"bytes */{len(data)}")
    assert beyond.json()["code"] == "range_not_satisfiable"
    many = client.get(content(volume), {"path": "d/f.bin"}, headers={"Range": "bytes=0-1,5-6"})
    assert (many.status_code, len(body(many))) == (200, len(data))
    head = client.head(content(volume), {"path": "d/f.bin"})
    assert (head.status_code, head["Content-Length"], head.content) == (200, str(len(data)), b"")


def test_a_download_that_was_cut_goes_on_only_if_the_file_is_the_same(api, cast, volume):
    a_file_in(volume, "f", b"0123456789")
    client = api(cast.vera)
    etag = client.get(content(volume), {"path": "f"})["ETag"]
    same = client.get(content(volume), {"path": "f"}, headers={"Range": "bytes=5-", "If-Range": etag})
    assert (same.status_code, body(same)) == (206, b"56789")
    assert client.get(content(volume), {"path": "f"}, headers={"If-None-Match": etag}).status_code == 304
    a_file_in(volume, "f", b"another text")
    changed = client.get(content(volume), {"path": "f"}, headers={"Range": "bytes=5-", "If-Range": etag})
    assert (changed.status_code, body(changed)) == (200, b"another text")


@pytest.mark.parametrize(
    "name", ["page.html", "image.svg", 'a"b;c.html', "数据.html", "<script>alert(1)</script>.txt", "x\u202egnp.exe", "a%0d%0ab"]
)
def test_a_browser_never_runs_what_it_downloads(api, cast, volume, name):
    a_file_in(volume, name.replace("/", "_"), b"<script>alert(1)</script>")
    response = api(cast.vera).get(content(volume), {"path": name.replace("/", "_")})
    assert response.status_code == 200
    assert response["Content-Type"] == "application/octet-stream"
    assert response["Content-Disposition"].startswith("attachment")
    assert "\n" not in response["Content-Disposition"]
    assert "\u202e" not in response["Content-Disposition"]
    assert response["X-Content-Type-Options"] == "nosniff"
    assert response["Content-Security-Policy"].startswith("sandbox")
    body(response)


OUTSIDE = [
    "../secret",
    "d/../../secret",
    "..",
    "/../secret",
    "%2e%2e/secret",
    "%252e%252e%252fsecret",
    "..;/secret",
    "..\\secret",
    "d/..%2f..%2fsecret",
    "\x00../secret",
    "d\x00",
    "file:///etc/passwd",
    "//etc/passwd",
    "/etc/passwd",
    "/proc/self/environ",
    "link",
    "linked/passwd",
    "d/loop/loop/f",
    "pipe",
    "d",
    "f/below",
    "a" * 5000,
    "\ud800",
]


@pytest.mark.parametrize("path", OUTSIDE)
@pytest.mark.parametrize("method", ["get", "delete"])
def test_no_path_leads_out_of_the_volume(api, cast, volume, data_dir, path, method):
    (data_dir / "volumes" / "secret").write_bytes(b"canary")
    a_file_in(volume, "f", b"mine")
    a_file_in(volume, "d/f", b"mine")
    os.symlink("/etc/passwd", Path(volume.location) / "link")
    os.symlink("/etc", Path(volume.location) / "linked")
    os.symlink(".", Path(volume.location) / "d/loop")
    os.mkfifo(Path(volume.location) / "pipe")
    url = f"{content(volume)}?path={quote(path, safe='', errors='surrogatepass')}"
    response = getattr(api(cast.alice), method)(url)
    if method == "delete" and path in {"link", "pipe", "d"}:
        assert response.status_code == 204  # What lies in the volume itself may go; what a link points to stays.
        assert Path("/etc/passwd").exists()
        return
    assert response.status_code in {400, 404, 409, 422}, (path, response.status_code)
    assert b"root:" not in response.content
    assert b"canary" not in response.content
    assert (data_dir / "volumes" / "secret").read_bytes() == b"canary"


def test_deleting_takes_a_member_and_is_told_once(api, cast, volume):
    a_file_in(volume, "d/f", b"x")
    url = f"{content(volume)}?path=d"
    assert api(cast.vera).delete(url).status_code == 403
    assert api(cast.bob).delete(url).status_code == 204
    assert not (Path(volume.location) / "d").exists()
    assert api(cast.bob).delete(url).status_code == 404
    assert api(cast.bob).delete(content(volume)).status_code == 422


def test_files_are_nobodys_business_but_the_tenants(api, cast, volume):
    a_file_in(volume, "f", b"x")
    for url in (listing(volume), f"{content(volume)}?path=f"):
        assert api(cast.carol).get(url).status_code == 404
        assert api(cast.otto).get(url).status_code == 403
        assert api().get(url).status_code == 401


def test_a_granted_volume_may_be_read_but_not_written(api, cast, volume):
    a_file_in(volume, "f", b"x")
    grant_volume(actor=SYSTEM, volume=volume, tenant_id=cast.elsewhere.pk, read_only=True, now=now())
    assert body(api(cast.carol).get(f"{content(volume)}?path=f")) == b"x"
    assert api(cast.carol).delete(f"{content(volume)}?path=f").status_code == 403
    grant_volume(actor=SYSTEM, volume=volume, tenant_id=cast.elsewhere.pk, read_only=False, now=now())
    assert api(cast.carol).delete(f"{content(volume)}?path=f").status_code == 204


def test_a_download_closes_its_file(api, cast, volume):
    a_file_in(volume, "f", b"x" * 100)
    before = len(os.listdir("/proc/self/fd"))
    for headers in ({}, {"Range": "bytes=0-1"}, {"Range": "bytes=999-"}, {"If-None-Match": "*"}):
        body(api(cast.vera).get(f"{content(volume)}?path=f", headers=headers))
    api(cast.vera).head(f"{content(volume)}?path=f")
    assert len(os.listdir("/proc/self/fd")) <= before + 1
