"""Between two attempts: what is looked through, what holds a job, what is copied, measured, and removed in the end."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from clusters.engines.fake import Script
from jobs import tasks
from jobs.models import Job, StoredSpec
from jobs.reconcile import checkpoints
from jobs.services.edit import edit_job
from jobs.services.rerun import prepare_again
from kernel.clock import database_now
from kernel.errors import InvalidInput
from storage.models import Checkpoint
from storage.services.checkpoints import claim_due, location_of, settle
from tests.builders.quay import Quay
from tests.factories.storage import a_checkpoint_of

pytestmark = pytest.mark.database
KEPT = {"path": "ckpt"}
FAILS = Script(duration_seconds=5, code=1)


def kept(job: Job) -> Checkpoint:
    return Checkpoint.objects.get(job_id=job.id)


def failed_once(quay: Quay, **spec: Any) -> Job:
    """A job that runs its first attempt, and may have one more."""
    job = quay.submit(script=FAILS, retry={"limit": 3}, **{"checkpoint": KEPT, **spec})
    quay.turn()
    assert quay.state(job) in ("starting", "running")
    return job


def left(job: Job, **files: bytes) -> Path:
    """What the attempt left there."""
    Checkpoint.objects.filter(job_id=job.id).delete()
    return a_checkpoint_of(job, files)


def test_the_next_attempt_waits_until_its_checkpoint_was_looked_through(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    job = failed_once(quay)
    left(job, step=b"1")
    monkeypatch.setattr(checkpoints, "look", lambda: 0)  # The part that looks is late.
    quay.pass_time(6)
    for _ in range(4):
        quay.turn()
        quay.pass_time(30)
    assert (quay.state(job), quay.reason(job)) == ("queued", "checkpoint_checking")
    monkeypatch.undo()
    quay.turn(3)
    assert quay.state(job) in ("starting", "running")
    assert len(quay.attempts(job)) == 2


def test_what_is_half_written_goes_and_what_is_whole_stays(quay: Quay) -> None:
    job = failed_once(quay)
    folder = left(job, **{"step-1/weights": b"12345", "step-2.tmp/weights": b"1", "x.partial": b"1"})
    quay.pass_time(6)
    quay.turn(2)
    assert sorted(path.name for path in folder.iterdir()) == ["step-1"]
    assert (kept(job).size_bytes, kept(job).file_count, kept(job).problem) == (5, 1, "")
    assert kept(job).saved_at is not None


def test_the_next_attempt_waits_for_a_process_that_was_paused_while_it_removed_what_is_half_written(
    quay: Quay, data_dir: Path
) -> None:
    """Its lease is long over; what it still removes must not be what the next attempt writes."""
    job = failed_once(quay)
    folder = left(job, **{"step-1": b"1", "step-2.tmp": b"1"})
    lock = data_dir / "run" / "checkpoints" / str(job.id)
    lock.parent.mkdir(parents=True, exist_ok=True)
    hold = "import fcntl, sys; file = open(sys.argv[1], 'w'); fcntl.flock(file, 2); print('held', flush=True); input()"
    command = [sys.executable, "-c", hold, str(lock)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as paused:
        assert paused.stdout is not None
        assert paused.stdout.readline() == "held\n"
        for _ in range(4):
            quay.pass_time(60)
            quay.turn()
        assert (quay.state(job), quay.reason(job)) == ("queued", "checkpoint_checking")
        assert (folder / "step-2.tmp").exists(), "two at once are at it"
        paused.kill()
    quay.pass_time(60)
    quay.turn(3)
    assert not (folder / "step-2.tmp").exists()
    assert quay.state(job) in ("starting", "running")


def test_a_process_that_was_paused_past_its_lease_removes_nothing(quay: Quay) -> None:
    job = failed_once(quay)
    folder = left(job, **{"step-1": b"1"})
    Checkpoint.objects.filter(job_id=job.id).update(due_at=database_now())
    _token, [late] = claim_due(now=database_now(), limit=1)
    claim_due(now=database_now() + timedelta(hours=1), limit=1)  # Another one took it over.
    (folder / "step-2.tmp").write_bytes(b"written by the next attempt")
    assert settle(late, depth=1) is None
    assert (folder / "step-2.tmp").exists()


def test_a_directory_over_its_quota_holds_the_job_and_loses_nothing(quay: Quay, configure: Any) -> None:
    job = failed_once(quay)
    folder = left(job, step=b"123456")
    configure(checkpoint_quota_bytes=5)
    quay.pass_time(6)
    quay.turn(4)
    found = quay.job(job.id)
    assert (found.state, found.hold, found.reason_code) == ("queued", True, "checkpoint_over_quota")
    assert (folder / "step").read_bytes() == b"123456"
    assert len(quay.attempts(job)) == 1


def test_a_job_that_starts_from_another_has_a_copy_of_its_own(quay: Quay) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    left(source, **{"step-1/weights": b"weights", "half.tmp": b"1"})
    job = quay.submit("second", script=Script(duration_seconds=5), checkpoint={**KEPT, "from": "source"})
    quay.turn(3)
    folder = Path(location_of(job.tenant_id, job.id))
    assert (folder / "step-1" / "weights").read_bytes() == b"weights"
    assert not (folder / "half.tmp").exists()
    assert kept(job).started_from == source.id
    assert quay.state(job) in ("starting", "running")


def test_a_copy_that_is_over_the_quota_is_not_begun_and_is_made_once_it_may_be(quay: Quay, configure: Any) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    left(source, step=b"123456")
    Checkpoint.objects.filter(job_id=source.id).update(size_bytes=6)
    configure(checkpoint_quota_bytes=5)
    job = quay.submit("second", script=Script(duration_seconds=50), checkpoint={**KEPT, "from": "source"})
    quay.turn(3)
    found = quay.job(job.id)
    assert (found.hold, found.reason_code) == (True, "checkpoint_over_quota")
    folder = Path(location_of(job.tenant_id, job.id))
    assert not (folder / "step").exists()

    configure(checkpoint_quota_bytes=100)
    edit_job(job=found, actor=quay.cast.bob.actor, changes={"hold": False}, expected_version=None, now=quay.now)
    quay.turn(4)
    assert (folder / "step").read_bytes() == b"123456"
    assert quay.state(job) in ("starting", "running")


def test_a_copy_waits_while_the_disk_has_no_room_for_it(quay: Quay, monkeypatch: pytest.MonkeyPatch) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    left(source, step=b"123456")
    Checkpoint.objects.filter(job_id=source.id).update(size_bytes=6)
    monkeypatch.setattr("storage.services.checkpoints.free_bytes", lambda: 5)
    job = quay.submit("second", script=Script(duration_seconds=50), checkpoint={**KEPT, "from": "source"})
    quay.turn(3)
    assert (quay.state(job), quay.reason(job)) == ("queued", "checkpoint_checking")
    folder = Path(location_of(job.tenant_id, job.id))
    assert not (folder / "step").exists()

    monkeypatch.setattr("storage.services.checkpoints.free_bytes", lambda: 6)
    quay.pass_time(2)
    quay.turn(3)
    assert (folder / "step").read_bytes() == b"123456"
    assert quay.state(job) in ("starting", "running")


def test_a_rerun_starts_from_the_job_that_was_meant_and_says_so_once_that_is_gone(quay: Quay) -> None:
    source = quay.submit("train", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    left(source, step=b"1")
    job = quay.submit("train", script=Script(duration_seconds=1), checkpoint={**KEPT, "from": "train"})
    quay.settle()
    assert str(source.id) in StoredSpec.objects.get(id=job.spec_id).document
    again = prepare_again(actor=quay.cast.bob.actor, job=quay.job(job.id), kind="rerun", changes={})
    assert again.checkpoint_from == source.id
    Checkpoint.objects.filter(job_id=source.id).update(removed_at=database_now())
    with pytest.raises(InvalidInput) as refused:
        prepare_again(actor=quay.cast.bob.actor, job=quay.job(job.id), kind="rerun", changes={})
    assert [field.code for field in refused.value.fields] == ["no_checkpoint"]


def test_nobody_starts_from_a_job_without_a_checkpoint(quay: Quay) -> None:
    quay.submit("bare", script=Script(duration_seconds=1))
    with pytest.raises(InvalidInput) as refused:
        quay.submit("second", checkpoint={**KEPT, "from": "bare"})
    assert [field.code for field in refused.value.fields] == ["no_checkpoint"]
    assert str(refused.value.fields[0].message) == "Job bare keeps no checkpoint."


def test_a_source_that_still_runs_is_to_be_waited_for(quay: Quay) -> None:
    quay.submit("source", script=Script(duration_seconds=5), checkpoint=KEPT)
    quay.turn()
    with pytest.raises(InvalidInput) as refused:
        quay.submit("second", checkpoint={**KEPT, "from": "source"})
    [field] = refused.value.fields
    assert str(field.message) in {
        f"Job source has no complete checkpoint yet; it is {state}." for state in ("starting", "running")
    }
    assert "or until the job has ended (`berth wait source`), then submit again" in str(field.hint)

    quay.settle()
    Checkpoint.objects.update(removed_at=database_now())
    with pytest.raises(InvalidInput) as refused:
        quay.submit("second", checkpoint={**KEPT, "from": "source"})
    assert str(refused.value.fields[0].message) == "Job source has ended without a complete checkpoint, or that is removed."


def test_a_job_may_start_from_one_that_ended_just_now_before_its_directory_was_looked_through(quay: Quay) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    left(source, step=b"1")
    Checkpoint.objects.filter(job_id=source.id).update(due_at=database_now(), saved_at=None)
    job = quay.submit("second", script=Script(duration_seconds=1), checkpoint={**KEPT, "from": "source"})
    quay.settle()
    assert quay.state(job) == "succeeded"
    assert (Path(location_of(job.tenant_id, job.id)) / "step").read_bytes() == b"1"


def test_a_job_that_ended_just_now_and_left_nothing_holds_the_one_that_would_start_from_it(quay: Quay) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    Path(location_of(source.tenant_id, source.id)).mkdir(parents=True, exist_ok=True)
    Checkpoint.objects.filter(job_id=source.id).update(due_at=database_now(), saved_at=None)
    job = quay.submit("second", script=Script(duration_seconds=1), checkpoint={**KEPT, "from": "source"})
    quay.turn(3)
    assert (quay.state(job), quay.reason(job)) == ("queued", "checkpoint_unreadable")
    assert kept(job).problem == f"Job {source.id} left no complete checkpoint."


def test_the_time_of_an_ended_jobs_checkpoint_ends_but_not_while_another_job_has_to_copy_it(quay: Quay) -> None:
    source = quay.submit("source", script=Script(duration_seconds=1), checkpoint=KEPT)
    quay.settle()
    folder = left(source, step=b"1")
    now = database_now()
    checkpoints.sweep(now)
    assert kept(source).kept_until is not None
    waiting = quay.submit("second", hold=True, checkpoint={**KEPT, "from": "source"})
    later = now + timedelta(days=8)
    checkpoints.sweep(later)
    assert folder.exists()
    Checkpoint.objects.filter(job_id=waiting.id).update(is_copied=True)
    checkpoints.sweep(later)
    assert not folder.exists()
    assert kept(source).removed_at is not None


def test_what_a_running_job_saved_counts_when_victims_are_chosen(quay: Quay, configure: Any) -> None:
    configure(checkpoint_seconds=1)
    job = quay.submit(script=Script(duration_seconds=500), checkpoint={**KEPT, "interval": "10m"})
    quay.turn(2)
    place = left(job, step=b"1")
    quay.pass_time(60)
    saved_at = int((place / "step").stat().st_mtime)
    quay.submit("other", script=Script(duration_seconds=1))  # Somebody waits, so there is something to choose.
    quay.turn(2)
    core = quay.driver.kept.core
    assert core is not None
    assert core.running[str(job.id)].checkpoint_at == saved_at
    assert core.running[str(job.id)].job.checkpoint_seconds == 600


def test_files_of_a_checkpoint_are_listed_and_fetched_one_by_one_and_together(quay: Quay, api: Any) -> None:
    job = quay.submit(script=Script(duration_seconds=1), checkpoint=KEPT)
    left(job, **{"step-1/weights": b"weights", "number": b"7"})
    client = api(quay.cast.bob)
    about = client.get(f"/api/v1/jobs/{job.id}/checkpoint").json()
    assert (about["state"], about["file_count"], about["size_bytes"], about["if_evicted_now"]) == ("ready", 2, 8, None)
    names = [(file["path"], file["kind"]) for file in client.get(f"/api/v1/jobs/{job.id}/checkpoint/files").json()["items"]]
    assert names == [("number", "file"), ("step-1", "directory")]
    content = client.get(f"/api/v1/jobs/{job.id}/checkpoint/content", {"path": "step-1/weights"})
    assert b"".join(content.streaming_content) == b"weights"
    packed = b"".join(client.get(f"/api/v1/jobs/{job.id}/checkpoint/archive").streaming_content)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == ["number", "step-1", "step-1/weights"]
        member = archive.extractfile("step-1/weights")
        assert member is not None
        assert member.read() == b"weights"
    assert client.get(f"/api/v1/jobs/{job.id}/checkpoint/files", {"path": "../.."}).status_code == 422


def test_a_name_of_any_bytes_is_fetched_from_a_checkpoint_and_is_in_its_archive(quay: Quay, api: Any) -> None:
    job = quay.submit(script=Script(duration_seconds=1), checkpoint=KEPT)
    name = os.fsdecode(b"two\nlines \xff")
    left(job, **{f"{name}/weights": b"weights"})
    client = api(quay.cast.bob)
    (folder,) = client.get(f"/api/v1/jobs/{job.id}/checkpoint/files").json()["items"]
    (file,) = client.get(f"/api/v1/jobs/{job.id}/checkpoint/files", {"path": folder["path"]}).json()["items"]
    assert file["path"] == r"two\x0alines \xff/weights"
    content = client.get(f"/api/v1/jobs/{job.id}/checkpoint/content", {"path": file["path"]})
    assert b"".join(content.streaming_content) == b"weights"
    packed = b"".join(client.get(f"/api/v1/jobs/{job.id}/checkpoint/archive").streaming_content)
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        assert archive.getnames() == [name, f"{name}/weights"]


def test_looks_take_one_thread_of_a_worker_and_none_that_is_asked_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The others are for starts and stops, however long somebody's directory takes."""
    begun, go, looks = threading.Event(), threading.Event(), []

    def look() -> int:
        looks.append(threading.get_ident())
        begun.set()
        assert go.wait(30)
        return 0

    monkeypatch.setattr(checkpoints, "look", look)
    with ThreadPoolExecutor(1) as worker:
        first = worker.submit(tasks.checkpoints_task)
        assert begun.wait(30)
        tasks.checkpoints_task()  # Comes back at once.
        assert len(looks) == 1
        go.set()
        first.result(timeout=30)
    assert len(looks) == 2
    assert len(set(looks)) == 1
