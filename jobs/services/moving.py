"""Moving waiting jobs: one's own among themselves, so that no other user loses by it; any user's, for a manager.

**Among one's own** (only jobs of the moved job's owner change places): the places that these jobs have are dealt out anew
(`slots.py`). Other people's jobs keep theirs, and none of them ever has more of these jobs before it than it had.
**Among the whole queue**: the job is put right before or after another; all others keep their places. For managers.

Only jobs that could start now have a place to give away or to take: one that is held, waits for a time or for other jobs could
otherwise grow old as a place for another. A place is worth something only among jobs of the same queue and priority.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from django.db import transaction
from django.db.models import Max, Min, Q, QuerySet

from activity.services import record_audit
from jobs.lifecycle.states import JobState
from jobs.models import Job
from jobs.selectors.places import stands_of
from jobs.services.edit_events import tell_edited
from jobs.services.slots import OrderSlot, inserted, put, rearranged
from kernel.actor import Actor
from kernel.errors import Conflict, FieldError, InvalidInput
from kernel.priorities import format_priority
from kernel.words import Text
from reconciling import bulk
from reconciling.crashpoints import crashpoint
from tenants.capacity.services.queues import lock_queue
from tenants.identity.access import demand

MOVED_MAX = 10_000  # Rows that one call changes; more would keep others waiting for seconds.
BATCH = 500


class Among(StrEnum):
    """Whose jobs a job is moved among."""

    OWN = "own"
    QUEUE = "queue"


@dataclass(frozen=True, slots=True)
class Move:
    """Where a job is to stand: `before` or `after` another, or, without either, first or last."""

    before: Job | None = None
    after: Job | None = None
    to_end: bool = False
    among: Among = Among.OWN

    @property
    def other(self) -> Job | None:
        return self.before or self.after

    @property
    def path(self) -> str:
        return "/before" if self.before is not None else "/after"


@dataclass(frozen=True, slots=True)
class Moved:
    """How many jobs stand elsewhere now, and among whose jobs they moved."""

    count: int
    among: Among
    places: Mapping[uuid.UUID, int]  # Where each of them stands, in seconds since 1970: as if it had been submitted then.


def plan_move(*, actor: Actor, job: Job, move: Move, now: datetime) -> Moved:
    """What a move would come to. Refused as the move itself would be; nothing is changed."""
    among = _allowed(actor, job, move)
    return _planned(job, move, among, now)


def move_job(*, actor: Actor, job: Job, move: Move, confirm: Callable[[Moved], None] | None = None, now: datetime) -> Moved:
    """Move a waiting job, or of an array all children that wait. Refused where a job of the move does not wait.

    `confirm` sees what the move comes to under the lock under which it is made, and raises where that is not what was meant.
    """
    other = move.other
    among = _allowed(actor, job, move)
    with transaction.atomic():
        lock_queue(job.queue_id)  # One move at a time: two that deal out the same places would give one of them twice.
        planned = _planned(job, move, among, now)
        if confirm is not None:
            confirm(planned)
        changes = dict(planned.places)
        _write(changes, job)
        for ids in _batches(sorted(changes)):
            tell_edited(ids, reason="moved", now=now, data={"changed": ["place"]})
        record_audit(
            actor=actor,
            verb="job.move",
            tenant_id=job.tenant_id,
            target_kind="job",
            target_id=job.pk,
            target_name=job.name,
            after={
                "among": str(among),
                "before": None if move.before is None else str(move.before.pk),
                "after": None if move.after is None else str(move.after.pk),
                "to": None if other is not None else "last" if move.to_end else "first",
                "moved": len(changes),
            },
            count=max(1, len(changes)),
            at=now,
        )
        crashpoint("jobs.move.before_commit")
    return planned


def _allowed(actor: Actor, job: Job, move: Move) -> Among:
    """Among whose jobs the move is made, for actors who may make it."""
    other = move.other
    among = Among.QUEUE if other is not None and other.user_id != job.user_id else move.among
    demand(actor, job.tenant_id, "job.move", job.user_id if among == Among.OWN else None)
    _check(job, move)
    return among


def _planned(job: Job, move: Move, among: Among, now: datetime) -> Moved:
    block = _block(job, now)
    peers = _waiting(now).filter(queue_id=job.queue_id, priority=job.priority)
    if among == Among.OWN:
        changes = _among_own(peers.filter(user_id=job.user_id), block, move, now)
    else:
        changes = _among_all(peers, block, move, now)
    if len(changes) > MOVED_MAX:
        message = Text(
            f"This would move {len(changes)} jobs; one call moves {MOVED_MAX} at most.",
            f"这将移动 {len(changes)} 个作业；一次最多移动 {MOVED_MAX} 个。",
        )
        raise Conflict(
            message, hint=Text("Move it past fewer jobs, or change its priority.", "请少越过一些作业，或修改其优先级。")
        )
    return Moved(len(changes), among, changes)


def _check(job: Job, move: Move) -> None:
    """What can be said before looking at the queue."""
    other = move.other
    if other is None:
        return
    if other.pk == job.pk or (other.parent_id is not None and other.parent_id == job.pk):
        message = Text(f"{job.name} cannot be moved past itself.", f"{job.name} 不能越过自身。")
        hint = Text("Name another job.", "请指定其他作业。")
    elif other.queue_id != job.queue_id:
        message = Text(f"{other.name} waits in another queue than {job.name}.", f"{other.name} 与 {job.name} 不在同一队列。")
        hint = Text("Jobs are moved within one queue.", "只能在同一队列内移动作业。")
    elif other.priority != job.priority:
        message = Text(
            f"{other.name} has priority {format_priority(other.priority)}, {job.name} {format_priority(job.priority)}.",
            f"{other.name} 的优先级为 {format_priority(other.priority)}，{job.name} 为 {format_priority(job.priority)}。",
        )
        hint = Text(
            "Jobs are moved among those of the same priority: `berth priority set` changes it.",
            "只能在同一优先级的作业之间移动：用 `berth priority set` 修改优先级。",
        )
    else:
        return
    raise InvalidInput(message, hint=hint, fields=[FieldError(move.path, "not_movable", message, hint)])


def _waiting(now: datetime) -> QuerySet[Job]:
    """Jobs that could start as soon as there is room: those that have a place."""
    return Job.objects.filter(
        Q(not_before_at__isnull=True) | Q(not_before_at__lte=now),
        state=JobState.QUEUED,
        desired="run",
        hold=False,
        open_dependencies=0,
        array_size__isnull=True,
    )


def _block(job: Job, now: datetime) -> list[uuid.UUID]:
    """The job, or the waiting children of an array, that are moved together."""
    rows = _waiting(now).filter(queue_id=job.queue_id, priority=job.priority)
    rows = rows.filter(id=job.pk) if job.array_size is None else rows.filter(parent_id=job.pk)
    block = list(rows.order_by("id").values_list("id", flat=True)[: MOVED_MAX + 1])
    if not block:
        raise Conflict(
            Text(
                f"Job {job.name} has no place in the queue: it does not wait for room.",
                f"作业 {job.name} 在队列中没有位置：它并非在等待资源。",
            ),
            hint=Text(
                "Only a queued job moves that is not held and waits neither for a time nor for other jobs.",
                "只能移动排队中的作业：未挂起，且不等待时间或其他作业。",
            ),
        )
    if len(block) > MOVED_MAX:
        raise Conflict(
            Text(f"{job.name} has more than {MOVED_MAX} jobs that wait.", f"{job.name} 有超过 {MOVED_MAX} 个等待中的作业。"),
            hint=Text("Change its priority instead.", "请改为修改其优先级。"),
        )
    return block


def _ends(other: Job, known: Sequence[OrderSlot], move: Move) -> OrderSlot:
    """The job that stands for the other one: of an array, the first or last of its children that waits."""
    if other.array_size is not None:
        children = set(Job.objects.filter(parent_id=other.pk, state=JobState.QUEUED).values_list("id", flat=True))
        found = [place for place in known if place.id in children]
    else:
        found = [place for place in known if place.id == other.pk]
    if not found:
        message = Text(
            f"Job {other.name} has no place in the queue: it does not wait for room.",
            f"作业 {other.name} 在队列中没有位置：它并非在等待资源。",
        )
        hint = Text(
            "Name a queued job that is not held and waits neither for a time nor for other jobs.",
            "请指定排队中的作业：未挂起，且不等待时间或其他作业。",
        )
        raise Conflict(message, hint=hint, fields=[FieldError(move.path, "not_waiting", message, hint)])
    return found[0] if move.before is not None else found[-1]


def _places(rows: QuerySet[Job]) -> list[OrderSlot]:
    return sorted(
        OrderSlot(stands, job_id) for job_id, stands in rows.annotate(stands=stands_of(rows)).values_list("id", "stands")
    )


def _among_own(rows: QuerySet[Job], block: Sequence[uuid.UUID], move: Move, now: datetime) -> dict[uuid.UUID, int]:
    places = _places(rows)
    order = [place.id for place in places]
    before = after = None
    if move.before is not None:
        before = _ends(move.before, places, move).id
    elif move.after is not None:
        after = _ends(move.after, places, move).id
    elif not move.to_end:
        taken = set(block)
        before = next((job_id for job_id in order if job_id not in taken), None)
    return rearranged(places, put(order, block, before=before, after=after))


def _among_all(rows: QuerySet[Job], block: Sequence[uuid.UUID], move: Move, now: datetime) -> dict[uuid.UUID, int]:
    """Put in without touching another job's place."""
    other = move.other
    if other is not None:
        is_array = other.array_size is not None
        beside = _ends(other, _places(rows.filter(parent_id=other.pk) if is_array else rows.filter(id=other.pk)), move)
        at = inserted(block, before=beside) if move.before is not None else inserted(block, after=beside)
    else:
        others = rows.exclude(id__in=block) if len(block) <= BATCH else rows
        bounds = others.annotate(stands=stands_of(others)).aggregate(first=Min("stands"), last=Max("stands"))
        if bounds["first"] is None:
            return {}
        at = bounds["last"] + 1 if move.to_end else bounds["first"] - 1
    was = {place.id: place.at for ids in _batches(block) for place in _places(rows.filter(id__in=ids))}
    return {job_id: at for job_id in block if was.get(job_id) != at}


def _write(changes: dict[uuid.UUID, int], job: Job) -> None:
    """All or none: a job that started meanwhile takes its place with it, and then all places have to be dealt out anew."""
    rows = [
        {"id": job_id, "placed_at": datetime.fromtimestamp(at, UTC), "version": 1, "hold": False}
        for job_id, at in sorted(changes.items())
    ]
    waits = {"state": str(JobState.QUEUED), "desired": "run"}
    changed = len(bulk.update(Job, rows, guard=("hold",), equals=waits, increment=("version",)))
    if changed != len(changes):
        raise Conflict(
            Text(f"Jobs around {job.name} started or changed meanwhile.", f"{job.name} 周围的作业已启动或变化。"),
            hint=Text("Move it again.", "请重新移动。"),
        )


def _batches(ids: Iterable[uuid.UUID]) -> Iterator[list[uuid.UUID]]:
    found = list(ids)
    return (found[start : start + BATCH] for start in range(0, len(found), BATCH))
