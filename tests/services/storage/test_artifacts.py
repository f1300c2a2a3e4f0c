"""Outputs are brought home once, whole, with their digest; what is left behind is said."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from datetime import timedelta
from pathlib import Path

import pytest

from kernel.errors import NotFound, StorageFull
from kernel.ids import new_id
from storage import bounds, downloads, selectors, space, tar_stream
from storage.models import Artifact
from storage.services import artifacts
from storage.services.artifacts import OutputSource, collect_outputs, remove_old_artifacts
from tests.factories.storage import OutputsEngine, PrintingEngine
from tests.factories.tenants import make_tenant, now

pytestmark = pytest.mark.database


@pytest.fixture
def source() -> OutputSource:
    return OutputSource(make_tenant().pk, new_id(), new_id())


def collect(engine, source, paths=("model",), **more):
    return collect_outputs(engine, source, paths, now=now(), **more)


def stored(source):
    return {row.path: Path(row.location).read_bytes() for row in selectors.list_artifacts(source.attempt_id)}


def test_outputs_are_copied_with_size_digest_and_mode(source, data_dir):
    weights = os.urandom(3_000_000)
    engine = OutputsEngine({"model/w.npz": weights, "model/run.sh": b"#!/bin/sh", "other": b"no"}, {"model/run.sh": 0o4755})
    done = collect(engine, source)
    assert (done.done, done.file_count, done.size_bytes, done.marker) == (True, 2, 3_000_009, "")
    assert stored(source) == {"model/w.npz": weights, "model/run.sh": b"#!/bin/sh"}
    row = selectors.get_artifact(source.attempt_id, "model/w.npz")
    assert row.sha256 == hashlib.sha256(weights).hexdigest()
    assert selectors.get_artifact(source.attempt_id, "model/run.sh").mode == 0o755
    folder = data_dir / "artifacts" / str(source.tenant_id) / str(source.attempt_id)
    assert Path(row.location).parent == folder
    assert folder.stat().st_mode & 0o777 == 0o700


def test_a_name_never_becomes_a_path_of_ours(source):
    names = ["model/../../../etc/cron.d/x", "/etc/passwd", "model/ok", "", "model/\udcff"]
    done = collect(OutputsEngine(dict.fromkeys(names, b"x")), source, paths=("", "model", "/etc"))
    assert list(stored(source)) == ["model/ok"]
    assert done.skipped_count == len(names) - 1


def test_collecting_again_changes_nothing(source):
    engine = OutputsEngine({"model/a": b"1"})
    first = collect(engine, source)
    engine.files["model/b"] = b"2"
    assert collect(engine, source) == first
    assert list(stored(source)) == ["model/a"]


def test_a_collection_that_was_cut_off_goes_on(source, monkeypatch, data_dir):
    engine = OutputsEngine({f"model/{number}": bytes([number]) for number in range(5)})
    copied = artifacts._copy
    calls = []

    def dying(descriptor, place, *, room):
        calls.append(place)
        if len(calls) == 3:
            place.write_bytes(b"half")
            raise KeyboardInterrupt
        return copied(descriptor, place, room=room)

    with monkeypatch.context() as patch:
        patch.setattr(artifacts, "_copy", dying)
        with pytest.raises(KeyboardInterrupt):
            collect(engine, source)
    assert Artifact.objects.filter(attempt_id=source.attempt_id).count() == 2
    done = collect(engine, source)
    assert (done.file_count, done.size_bytes) == (5, 5)
    assert stored(source) == engine.files
    folder = data_dir / "artifacts" / str(source.tenant_id) / str(source.attempt_id)
    assert len(os.listdir(folder)) == 5


def test_much_output_takes_several_rounds(source):
    engine = OutputsEngine({f"model/{number}": b"x" for number in range(4)})
    rounds = 1
    while not collect(engine, source, seconds_max=0.0).done:
        rounds += 1
        assert rounds < 20
    assert rounds == 4
    assert len(stored(source)) == 4


@pytest.mark.capability("42", "Past the quota files are left behind, and that is said")
def test_past_the_quota_files_are_left_behind_and_said(source, configure):
    configure(artifact_quota_bytes=10)
    done = collect(OutputsEngine({"model/a": b"12345", "model/b": b"1234567", "model/c": b"123"}), source)
    assert list(stored(source)) == ["model/a", "model/c"]
    assert (done.skipped_count, done.skipped_bytes) == (1, 7)
    assert "at most 10 bytes" in done.marker


def test_a_file_that_grows_while_it_is_copied_stops_at_the_quota(source, configure, data_dir):
    configure(artifact_quota_bytes=10)
    done = collect(OutputsEngine({"model/a": b"1"}, grows={"model/a": b"x" * 5_000_000}), source)
    assert (stored(source), done.skipped_count) == ({}, 1)


def test_an_output_that_is_not_there_is_said(source):
    done = collect(OutputsEngine({"modl/a": b"1"}), source, paths=("model", "logs"))
    assert "there was no file at model, logs" in done.marker


def test_patterns_count_as_found(source):
    done = collect(OutputsEngine({"out.pt": b"1"}), source, paths=("out.pt",))
    assert done.marker == ""


def test_a_cluster_that_cannot_give_files_says_so(source):
    done = collect(PrintingEngine(), source)
    assert done.done
    assert "cannot give files back" in done.marker


def test_a_job_without_outputs_is_done_at_once(source):
    assert collect(OutputsEngine({"model/a": b"1"}), source, paths=()).file_count == 0


def test_a_full_disk_waits_until_it_is_accepted(source, monkeypatch):
    engine = OutputsEngine({"model/a": b"123", "model/b": b"4"})
    monkeypatch.setattr(space, "free_bytes", lambda path=None: 2)
    with pytest.raises(StorageFull):
        collect(engine, source)
    assert not selectors.collections_of([source.attempt_id])
    monkeypatch.undo()
    assert collect(engine, source).file_count == 2


def test_what_vanished_meanwhile_is_said(source):
    engine = OutputsEngine({"model/a": b"1"})
    listed = engine.list_outputs(source.attempt_id, ("model",))
    engine.list_outputs = lambda *_: listed  # type: ignore[method-assign]
    engine.files.clear()
    assert "could not be read" in collect(engine, source).marker


def test_old_artifacts_are_removed(source):
    collect(OutputsEngine({"model/a": b"1"}), source)
    place = Path(selectors.get_artifact(source.attempt_id, "model/a").location)
    assert remove_old_artifacts(now=now() + timedelta(days=30)) == 0
    assert remove_old_artifacts(now=now() + bounds.ARTIFACT_KEPT + timedelta(days=1)) == 1
    assert not place.exists()
    with pytest.raises(NotFound):
        selectors.get_artifact(source.attempt_id, "model/a")
    assert selectors.collections_of([source.attempt_id])[source.attempt_id].is_removed


def test_an_artifact_is_found_by_its_exact_path_only(source):
    collect(OutputsEngine({"model/a": b"1"}), source)
    for path in ("model/../model/a", "/model/a", "model//a", "model/a\x00", "model%2fa", ""):
        with pytest.raises(NotFound):
            selectors.get_artifact(source.attempt_id, path)


def test_all_outputs_come_as_one_archive_below_a_folder_of_the_jobs_name(source):
    files = {"model/w.npz": os.urandom(3_000_000), "model/empty": b"", "model/数据-" + "x" * 120: b"17"}
    collect(OutputsEngine(files, {"model/w.npz": 0o4755}), source)
    members = tar_stream.artifact_members(selectors.list_artifacts(source.attempt_id), folder="train")
    response = downloads.archive_response(tar_stream.pack(members), name="train.tar")
    assert response["Content-Disposition"] == 'attachment; filename="train.tar"'
    assert response["Content-Type"] == "application/x-tar"
    with tarfile.open(fileobj=io.BytesIO(b"".join(response.streaming_content))) as archive:
        members = archive.getmembers()
        assert {member.name: archive.extractfile(member).read() for member in members} == {
            f"train/{path}": data for path, data in files.items()
        }
        assert archive.getmember("train/model/w.npz").mode == 0o755, "no set-user bit leaves with it"


def test_an_archive_is_never_longer_in_memory_than_a_piece(source):
    collect(OutputsEngine({"model/w.npz": bytes(5 * bounds.COPY_BYTES)}), source)
    members = tar_stream.artifact_members(selectors.list_artifacts(source.attempt_id), folder="train")
    assert max(len(piece) for piece in tar_stream.pack(members)) <= bounds.COPY_BYTES


def test_a_file_that_went_is_left_out_of_an_archive_and_told_in_its_last_entry(source):
    collect(OutputsEngine({"model/a": b"1", "model/b": b"2"}), source)
    rows = list(selectors.list_artifacts(source.attempt_id).order_by("path"))
    Path(rows[0].location).unlink()
    packed = b"".join(tar_stream.pack(tar_stream.artifact_members(rows, folder="train")))
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["train/model/b", tar_stream.LEFT_OUT]
        assert b"train/model/a" in archive.extractfile(tar_stream.LEFT_OUT).read()
