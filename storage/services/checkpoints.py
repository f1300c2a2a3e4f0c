"""The directories that jobs keep over their attempts: opened, looked through between two attempts, measured, removed.

The rows say when each is looked at next; `jobs/reconcile/checkpoints.py` does the looking, because only jobs know whether an
attempt lives. Nothing is removed from a directory unless the engine has confirmed that its attempt is gone.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from django.db import transaction

from kernel.config import current
from kernel.crashpoints import crashpoint
from reconciling import bulk, fencing, leases
from reconciling.troubles import Trouble
from storage import checkpoint_files
from storage.checkpoint_files import Found
from storage.models import Checkpoint as Checkpoint
from storage.space import free_bytes

_without_room = Trouble("checkpoint_copies_wait_for_room")


def location_of(tenant_id: uuid.UUID, job_id: uuid.UUID) -> str:
    """Where a job's directory is on this host, whether it is there or not."""
    return str(current().data_dir / "checkpoints" / str(tenant_id) / str(job_id))


def any_location() -> str:
    """A path that is under what all jobs' directories are under."""
    return location_of(uuid.UUID(int=0), uuid.UUID(int=0))


def open_for(jobs: Mapping[uuid.UUID, uuid.UUID], *, now: datetime) -> None:
    """Say that attempts of these jobs (ids with their tenants) begin to write; measured from then on. Two statements."""
    if not jobs:
        return
    due_at = now + timedelta(seconds=current().checkpoint_seconds)
    with transaction.atomic():
        bulk.insert(Checkpoint, [_row(job_id, tenant_id) for job_id, tenant_id in jobs.items()], ignore_conflicts=True)
        Checkpoint.objects.filter(job_id__in=jobs).update(due_at=due_at, lease_expires_at=None)


def begin_from(jobs: Mapping[uuid.UUID, uuid.UUID], *, source: uuid.UUID, now: datetime) -> None:
    """Have these new jobs begin with a copy of another job's checkpoint. Caller's transaction."""
    rows = [{**_row(job_id, tenant_id), "started_from": source, "due_at": now} for job_id, tenant_id in jobs.items()]
    bulk.insert(Checkpoint, rows)


def look_through(jobs: Mapping[uuid.UUID, uuid.UUID], *, now: datetime) -> None:
    """Have these directories looked through before the next attempts of their jobs. Caller's transaction."""
    if not jobs:
        return
    bulk.insert(Checkpoint, [_row(job_id, tenant_id) for job_id, tenant_id in jobs.items()], ignore_conflicts=True)
    Checkpoint.objects.filter(job_id__in=jobs).update(problem="", due_at=now, lease_expires_at=None)


def measure_once(job_ids: Collection[uuid.UUID], *, now: datetime) -> None:
    """Have what ended jobs left measured once more. Caller's transaction."""
    if job_ids:
        Checkpoint.objects.filter(job_id__in=job_ids).update(due_at=now, lease_expires_at=None)


def claim_due(*, now: datetime, limit: int) -> tuple[uuid.UUID, list[Checkpoint]]:
    """Take directories that are due; the token guards what is recorded of them."""
    due = Checkpoint.objects.filter(due_at__lte=now, removed_at__isnull=True)
    token, ids = leases.claim(due, now=now, seconds=current().lease_seconds, limit=limit, order_by=("due_at", "job_id"))
    return token, list(Checkpoint.objects.filter(job_id__in=ids, lease_token=token).order_by("due_at", "job_id")) if ids else []


def settle(checkpoint: Checkpoint, *, depth: int) -> Found | None:
    """Bring a directory into the state from which the next attempt goes on, and say what is in it; None: call again, it is being
    copied, or another process is at it. Twice is harmless.

    A process that was paused past its lease must not remove what the next attempt writes. So a process that changes the
    directory holds a lock that ends with its process, not with its lease: until the paused one has gone on or died no other may
    say that the directory is ready, and no attempt starts; and one that comes to the lock late finds its lease gone.
    """
    with _only_one(checkpoint) as is_alone:
        if not is_alone or not is_held(checkpoint):
            return None
        try:
            return _bring(checkpoint, depth=depth)
        except checkpoint_files.Unreadable as error:
            return Found(checkpoint.saved_at, problem=str(error)[:500])


def _bring(checkpoint: Checkpoint, *, depth: int) -> Found | None:
    if checkpoint.started_from is not None and not checkpoint.is_copied:
        source = location_of(checkpoint.tenant_id, checkpoint.started_from)
        size = Checkpoint.objects.filter(job_id=checkpoint.started_from).values_list("size_bytes", flat=True).first() or 0
        if over_quota(Found(size_bytes=size)):
            return Found(size_bytes=size)  # Nothing is copied of what no attempt could go on from.
        checkpoint_files.prepare(checkpoint)
        if not _has_room(checkpoint, size, depth=depth) or not checkpoint_files.copy(source, checkpoint):
            return None
        crashpoint("storage.checkpoint.after_copy")
    found = checkpoint_files.measure(checkpoint, depth=depth)
    if found.half_written:
        checkpoint_files.drop(checkpoint, found.half_written)
        crashpoint("storage.checkpoint.after_drop")
    left = checkpoint_files.measure(checkpoint, depth=depth, opens=True)
    if checkpoint.started_from is not None and not checkpoint.is_copied and left.saved_at is None and not left.problem:
        return replace(left, problem=f"Job {checkpoint.started_from} left no complete checkpoint.")
    return left


def _has_room(checkpoint: Checkpoint, size: int, *, depth: int) -> bool:
    """Whether the disk has room for what is still to be copied, and its reserve; told once, where it has not."""
    if size > free_bytes():
        left = size - checkpoint_files.measure(checkpoint, depth=depth).size_bytes
        if left > free_bytes():
            _without_room.met(job_id=str(checkpoint.job_id), needs_bytes=left, free_bytes=free_bytes())
            return False
    _without_room.over()
    return True


@contextlib.contextmanager
def _only_one(checkpoint: Checkpoint) -> Iterator[bool]:
    """Hold the lock of a job's directory for the block; False if another process does."""
    path = _lock_of(checkpoint.job_id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def _lock_of(job_id: uuid.UUID) -> Path:
    return current().data_dir / "run" / "checkpoints" / str(job_id)


def is_held(checkpoint: Checkpoint) -> bool:
    """Whether the lease under which it was read is still in its row: a process that was paused past it changes nothing."""
    return Checkpoint.objects.filter(
        job_id=checkpoint.job_id, lease_token=checkpoint.lease_token, lease_expires_at__isnull=False
    ).exists()


def over_quota(found: Found) -> bool:
    quota = current().checkpoint_quota_bytes
    return bool(quota) and found.size_bytes > quota


def record(handler: str, rows: Sequence[Mapping[str, Any]]) -> list[uuid.UUID]:
    """Write what was found, of directories whose lease still is the one it was found under (`lease_token`); their jobs.

    Rows of one call have the same keys. Caller's transaction.
    """
    changed = [row["job_id"] for row in bulk.update(Checkpoint, rows, key="job_id", guard=("lease_token",))]
    for token in {row["lease_token"] for row in rows}:
        fencing.note_dropped(handler, Checkpoint, token=token, brought=[row["job_id"] for row in rows], written=changed)
    return changed


def facts_of(found: Found, *, now: datetime) -> dict[str, Any]:
    """The columns that a measurement fills."""
    return {
        "saved_at": found.saved_at,
        "size_bytes": found.size_bytes,
        "file_count": found.file_count,
        "is_writing": bool(found.half_written),
        "checked_at": now,
        "lease_expires_at": None,
    }


def open_jobs(after: uuid.UUID | None, *, limit: int) -> list[uuid.UUID]:
    """Jobs with a directory that are not known to have ended, in order of their ids."""
    rows = Checkpoint.objects.filter(kept_until__isnull=True, removed_at__isnull=True)
    if after is not None:
        rows = rows.filter(job_id__gt=after)
    return list(rows.order_by("job_id").values_list("job_id", flat=True)[:limit])


def keep_until(until: Mapping[uuid.UUID, datetime]) -> int:
    """Set for how long the directories of ended jobs are kept."""
    rows = [{"job_id": job_id, "kept_until": moment} for job_id, moment in until.items()]
    with transaction.atomic():
        return len(bulk.update(Checkpoint, rows, key="job_id")) if rows else 0


def remove_old(*, now: datetime, limit: int) -> int:
    """Remove directories past their time but those that a waiting job still has to copy; gives how many."""
    wanted = Checkpoint.objects.filter(is_copied=False, started_from__isnull=False, kept_until__isnull=True)
    rows = Checkpoint.objects.filter(kept_until__lt=now, removed_at__isnull=True)
    old = list(rows.exclude(job_id__in=wanted.values("started_from")).order_by("kept_until", "job_id")[:limit])
    for checkpoint in old:
        checkpoint_files.remove_all(checkpoint.location)
        _lock_of(checkpoint.job_id).unlink(missing_ok=True)
        crashpoint("storage.checkpoint.after_remove")
        Checkpoint.objects.filter(job_id=checkpoint.job_id).update(
            removed_at=now,
            due_at=None,
            saved_at=None,
            size_bytes=0,
            file_count=0,
            is_writing=False,
        )
    return len(old)


def _row(job_id: uuid.UUID, tenant_id: uuid.UUID) -> dict[str, Any]:
    return {
        "job_id": job_id,
        "tenant_id": tenant_id,
        "location": location_of(tenant_id, job_id),
        "problem": "",
        "size_bytes": 0,
        "file_count": 0,
        "is_writing": False,
        "is_copied": False,
    }
