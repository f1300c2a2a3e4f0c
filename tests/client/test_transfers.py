"""Uploads and downloads that are interrupted, and folders that are packed."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import tarfile
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import CutOff, Upload, a_job, problem

import berth
from berth import limits
from berth.errors import FileRefused, NotFound
from berth.snapshots import list_code, pack_code
from berth.transfers import inside


@pytest.fixture
def trained(stub: Any) -> Any:
    stub.jobs = [a_job("train", state="succeeded")]
    stub.artifacts = {"model/weights.bin": os.urandom(300_000), "model/notes.txt": b"good", "log.txt": b"x"}
    return stub


def test_an_artifact_comes_home_whole_and_checked(trained: Any, client: Any, tmp_path: Path) -> None:
    [place] = client.jobs.download("train", "model/notes.txt", tmp_path)

    assert (place, place.read_bytes()) == (tmp_path / "notes.txt", b"good")


def test_what_a_job_left_is_waited_for_when_it_has_just_ended(
    trained: Any, client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "POLL_SECONDS", 0.001)
    trained.looks_until_collected = 3
    [place] = client.jobs.download("train", "log.txt", tmp_path)
    assert place.read_bytes() == b"x"


def test_what_a_running_job_has_not_left_yet_is_not_waited_for(trained: Any, client: Any, tmp_path: Path) -> None:
    trained.jobs = [a_job("train", state="running")]
    trained.looks_until_collected = 1_000
    with pytest.raises(NotFound):
        client.jobs.download("train", "log.txt", tmp_path)
    assert len(trained.sent(r"GET /jobs/.*/artifacts")) == 2


def test_a_folder_comes_home_as_cp_does(trained: Any, client: Any, tmp_path: Path) -> None:
    into = client.jobs.download("train", "model", tmp_path)
    renamed = client.jobs.download("train", "model", tmp_path / "other")

    assert sorted(into) == [tmp_path / "model/notes.txt", tmp_path / "model/weights.bin"]
    assert sorted(renamed) == [tmp_path / "other/notes.txt", tmp_path / "other/weights.bin"]


def test_a_broken_download_goes_on_where_it_stopped(trained: Any, client: Any, tmp_path: Path) -> None:
    data = trained.artifacts["model/weights.bin"]
    trained.fail(r"GET /jobs/.*/weights\.bin", httpx2.Response(200, headers={"ETag": '"v"'}, stream=CutOff(data[:100_000])))
    seen: list[int] = []

    [place] = client.jobs.download("train", "model/weights.bin", tmp_path / "w", progress=seen.append)

    assert place.read_bytes() == data
    _first, second = trained.sent(r"GET /jobs/.*/weights\.bin")
    assert (second.headers["Range"], second.headers["If-Range"]) == ("bytes=100000-", '"v"')
    assert seen == sorted(seen)


def test_a_part_left_by_an_earlier_run_is_taken_up(trained: Any, client: Any, tmp_path: Path) -> None:
    data = trained.artifacts["model/weights.bin"]
    (tmp_path / "w.part").write_bytes(data[:200_000])

    client.jobs.download("train", "model/weights.bin", tmp_path / "w")

    [request] = trained.sent(r"GET /jobs/.*/weights\.bin")
    assert request.headers["Range"] == "bytes=200000-"
    assert (tmp_path / "w").read_bytes() == data
    assert not (tmp_path / "w.part").exists()


def test_a_wrong_digest_puts_nothing_in_place(trained: Any, client: Any, tmp_path: Path) -> None:
    trained.fail(r"GET /jobs/.*/notes\.txt", httpx2.Response(200, content=b"evil"))

    with pytest.raises(berth.ChecksumMismatch):
        client.jobs.download("train", "model/notes.txt", tmp_path / "notes.txt")
    assert list(tmp_path.glob("notes*")) == []


@pytest.mark.parametrize("path", ["../evil", "/etc/passwd", "a/../../evil", "a\\..\\evil", "a\0b", ""])
def test_a_name_that_leads_out_of_the_folder_is_refused(path: str, tmp_path: Path) -> None:
    with pytest.raises(FileRefused):
        inside(tmp_path, path)


def test_a_download_does_not_write_through_a_link(trained: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "home").mkdir()
    (tmp_path / "home/model").symlink_to(tmp_path / "outside")

    with pytest.raises(FileRefused, match="is a link"):
        client.jobs.download("train", "model", tmp_path / "home")


def test_an_upload_is_sent_in_pieces_and_survives_a_break(stub: Any, client: Any, tmp_path: Path) -> None:
    data = os.urandom(5_000)
    (tmp_path / "data.bin").write_bytes(data)
    stub.volumes["digits"] = {}
    stub.chunk_bytes = 1_000
    stub.fail(r"PATCH /uploads/.*", None, httpx2.ReadError("the line broke"), None, problem(503, "unavailable", "Later."))
    seen: list[int] = []

    client.volumes.upload("digits", tmp_path / "data.bin", "raw/data.bin", progress=seen.append)

    assert stub.volumes["digits"] == {"raw/data.bin": data}
    assert (seen[0], seen[-1], seen == sorted(seen)) == (0, 5_000, True)


def test_an_upload_whose_answer_was_lost_does_not_send_the_piece_twice(stub: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x" * 2_000)
    stub.volumes["digits"] = {}
    stub.chunk_bytes = 1_000

    def accept_then_break(request: httpx2.Request) -> httpx2.Response:
        stub.append(request, request.url.path.rpartition("/")[2])
        raise httpx2.ReadError("the line broke")

    stub.fail(r"PATCH /uploads/.*", accept_then_break)
    client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    assert [request.headers["Upload-Offset"] for request in stub.sent(r"PATCH /uploads/.*")] == ["0", "1000"]


def test_an_upload_is_taken_up_by_the_next_run(stub: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x" * 2_000)
    stub.volumes["digits"] = {}
    stub.chunk_bytes = 1_000
    stub.fail(r"PATCH /uploads/.*", None, *[httpx2.ConnectError("down")] * 20)
    with pytest.raises(berth.ServerUnreachable):
        client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")
    stub.faults.clear()
    stub.requests.clear()

    client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    assert stub.sent("POST /uploads") == []
    assert [request.headers["Upload-Offset"] for request in stub.sent(r"PATCH /uploads/.*")] == ["1000"]


def test_an_empty_file_is_uploaded_too(stub: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    stub.volumes["digits"] = {}

    client.volumes.upload("digits", tmp_path / "empty", "empty")

    assert stub.volumes["digits"] == {"empty": b""}


def test_a_refused_upload_begins_anew_next_time(stub: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "data.bin").write_bytes(b"x")
    stub.volumes["digits"] = {}
    stub.fail(r"PATCH /uploads/.*", problem(422, "digest_mismatch", "The bytes are not what was announced."))
    with pytest.raises(berth.InvalidInput):
        client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    client.volumes.upload("digits", tmp_path / "data.bin", "data.bin")

    assert len(stub.sent("POST /uploads")) == 2


def test_code_is_packed_uploaded_once_and_named_by_its_digest(stub: Any, client: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print(1)")
    (tmp_path / "job.yaml").write_text("name: t\ncommand: python train.py\ncode: {path: .}\n")

    client.jobs.submit(tmp_path / "job.yaml")
    [upload] = stub.uploads.values()
    stub.known_code.add(upload.sha256)
    client.jobs.submit(str(tmp_path / "job.yaml"))

    assert isinstance(upload, Upload)
    assert [spec["code"] for spec in stub.specs.values()] == [{"snapshot": upload.sha256}] * 2
    assert len(stub.sent(r"PATCH /uploads/.*")) == 1
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(upload.data))) as archive:
        assert archive.getnames() == ["job.yaml", "train.py"]


def test_equal_folders_give_equal_snapshots(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "sub/x.py").write_text("1")
        (tmp_path / name / "run.sh").write_text("2")
        (tmp_path / name / "run.sh").chmod(0o750 if name == "a" else 0o711)
    os.utime(tmp_path / "b/run.sh", (1, 1))

    assert _digest(tmp_path / "a") == _digest(tmp_path / "b")
    (tmp_path / "b/run.sh").chmod(0o644)
    assert _digest(tmp_path / "a") != _digest(tmp_path / "b")


def test_what_berthignore_names_stays_at_home(tmp_path: Path) -> None:
    for path in ("a.py", "data/big.bin", "data/keep.txt", "out/x", ".git/config", "deep/out/y", "notes.log"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")
    (tmp_path / ".berthignore").write_text("# comment\n/data/*\n!/data/keep.txt\nout/\n*.log\n")

    assert [entry.path for entry in list_code(tmp_path)] == [".berthignore", "a.py", "data/keep.txt"]


def test_caches_stay_at_home_without_being_named(tmp_path: Path) -> None:
    for path in ("a.py", "__pycache__/a.pyc", ".venv/bin/python", "node_modules/x/y.js"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("x")

    assert [entry.path for entry in list_code(tmp_path)] == ["a.py"]


def test_links_inside_go_along_and_links_out_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x")
    (tmp_path / "b.py").symlink_to("a.py")
    assert [(entry.path, entry.link) for entry in list_code(tmp_path)] == [("a.py", ""), ("b.py", "a.py")]

    (tmp_path / "c.py").symlink_to("../outside")
    with pytest.raises(FileRefused, match="out of the folder"):
        list_code(tmp_path)


def test_a_folder_that_is_too_large_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("berth.limits.CODE_SNAPSHOT_BYTES", 10_000)
    (tmp_path / "big").write_bytes(os.urandom(50_000))

    with pytest.raises(FileRefused) as caught:
        pack_code(tmp_path)
    assert ".berthignore" in caught.value.hint


def _digest(folder: Path) -> str:
    snapshot = pack_code(folder)
    data = snapshot.file.read()
    snapshot.close()
    assert hashlib.sha256(data).hexdigest() == snapshot.sha256
    return snapshot.sha256
