"""A past window of this installation, put together from what the database keeps of it.

Attempts say what ran and for how long, jobs what came and what they asked for, the history of limits what was promised then.
Where the scheduler's event log reaches back so far, it says what else held: machines and what became of them, the policy, caps
and bookings, past use, and what ran where. Without it these are those of now, as they are where pools, machines or queues came or
went since. A hold, an image that was built, or a cluster out of reach left no trace that could be lived through again; a
dependency counts as the moment at which it was met.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from django.db.models import Q

from jobs.loading import memory
from jobs.loading.around import Around, Numbers, look_around
from jobs.loading.asks import ask_of
from jobs.loading.rows import LIVE_COLUMNS, LOAD_ROWS, LiveRow
from jobs.loading.specs import load_spec, wish_of
from jobs.loading.state import load_volumes, load_wishes, located, make_state
from jobs.models import Attempt, Dependency, Job
from jobs.reconcile import event_log
from jobs.scheduling.core.eligibility import Wish, eligible
from jobs.scheduling.core.place.machines import Machine
from jobs.scheduling.core.snapshot import Held, State
from jobs.scheduling.core.state import work
from jobs.scheduling.replay.log import Decided, Event, Log, MachineChanged
from jobs.scheduling.replay.recorder import state_at
from jobs.scheduling.replay.trace import UNKNOWN, Entry, NewLimits, NewMachine, Past, Run
from storage.services.mounts import MeantVolume
from tenants.capacity.limits_history import limits_at, queue_names
from tenants.capacity.quota.accounting import mark
from tenants.capacity.quota.shares import Shares

BATCH = 500


class Ran(NamedTuple):
    """One attempt of the past: since its admission it held what it asked for."""

    job_id: uuid.UUID
    began_at: int
    ended_at: int  # UNKNOWN while it goes on.
    was_evicted: bool


class Came(NamedTuple):
    """The columns of a job of the window, in the order of the query."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    spec_id: uuid.UUID
    image_kind: str
    parent_id: uuid.UUID | None
    max_runtime_seconds: int | None
    not_before_at: datetime | None
    submitted_at: datetime
    ended_at: datetime | None
    user_id: uuid.UUID
    placed_at: datetime | None
    predicted_seconds: int | None
    cautious_seconds: int | None


@dataclass(frozen=True, slots=True)
class Scene:
    """What is looked up while jobs are put together."""

    around: Around
    numbers: Numbers
    asked: Mapping[uuid.UUID, Wish]
    volumes: Mapping[tuple[uuid.UUID, str], MeantVolume | None]
    parallelism: Mapping[uuid.UUID, int]
    ready_at: Mapping[uuid.UUID, int]  # When the dependencies of a job were met.


def past_trace(begins_at: datetime, ends_at: datetime, now: datetime) -> Past:
    """What ran and waited at `begins_at`, and all that came before `ends_at`. Reads; about ten queries and five a 500 jobs."""
    begin, end = mark(begins_at), mark(ends_at)
    live = _live_at(begins_at)
    came = _came(begins_at, ends_at)
    around = replace(look_around(now, {}), spent={})
    then, edits = limits_at(begins_at, ends_at, around.queues)
    around = replace(around, queues=then)
    numbers = around.numbers()
    asked = load_wishes(row.spec_id for row in came)
    scene = Scene(
        around,
        numbers,
        asked,
        load_volumes(((row.tenant_id, asked[row.spec_id]) for row in came if row.spec_id in asked), {}),
        _parallelism(came),
        _ready(came),
    )
    ran = _ran(came)
    jobs = {row.id: _job(row, scene) for row in came if row.queue_id in numbers.queue_at}
    known = event_log.covering(begins_at)
    logged = _of_the_log(known, numbers, begin) if known is not None else None
    state = logged or make_state(around, numbers, (), live, scene.parallelism, begins_at, memory.NOTHING)
    # What quarantined attempts hold is nobody's need. Of now it says nothing about then.
    running = [_with_wish(held, jobs) for held in state.running if logged is not None or held.need]
    runs = {held.job.id: _run(held, ran, begin, mark(now)) for held in running}
    names = queue_names()
    return Past(
        begin,
        end,
        replace(state, at=begin, queues=around.queues, running=tuple(running)),
        tuple("root" if queue_id is None else names.get(queue_id, str(queue_id)) for queue_id in numbers.queues),
        tuple(_entries(came, jobs, ran, runs.keys(), begin, mark(now))),
        tuple(runs.values()),
        tuple(NewLimits(mark(at), queues) for at, queues in edits),
        tuple(_new_machines(known.events, begin, end)) if known is not None and logged is not None else (),
    )


# --- What the event log says ------------------------------------------------------------------------------------------


def _of_the_log(known: Log, numbers: Numbers, begin: int) -> State | None:
    """The state of then, without those who waited; None where numbers meant something else then."""
    state = state_at(known, begin)
    machines = tuple(
        (machine.pool, machine.name) for machine in sorted(state.machines, key=lambda machine: (machine.pool, machine.name))
    )
    queues = Shares(state.queues, state.capacities).queue_ids
    if (tuple(pool.id for pool in state.pools), queues, machines) != (numbers.pools, numbers.queues, numbers.machines):
        return None
    waiting = {job.id for job in state.waiting}
    running = tuple(replace(held, leaving_for="", migrates=False) for held in state.running if held.job.id not in waiting)
    return replace(state, waiting=(), running=running, reserved=(), seats=(), claims=())


def _new_machines(events: Iterable[Event], begin: int, end: int) -> Iterator[NewMachine]:
    """What became of machines, at the moments of the passes after which it was seen."""
    changed: list[Machine] = []
    for event in events:
        if isinstance(event, MachineChanged):
            changed.append(event.machine)
        elif isinstance(event, Decided):
            if begin < event.now < end:
                yield from (NewMachine(event.now, machine) for machine in changed)
            changed = []


# --- Reading ----------------------------------------------------------------------------------------------------------


def _live_at(moment: datetime) -> list[LiveRow]:
    """The attempts that held machines then, as rows of live ones: that one was leaving, or for whom, is not kept."""
    rows = Attempt.objects.filter(Q(ended_at__isnull=True) | Q(ended_at__gt=moment), created_at__lte=moment)
    return [
        LiveRow(*row)._replace(state="running", started_at=None, evicted_for=None)
        for row in rows.order_by("job_id").values_list(*LIVE_COLUMNS)
    ]


def _came(begins_at: datetime, ends_at: datetime) -> list[Came]:
    rows = Job.objects.filter(
        Q(ended_at__isnull=True) | Q(ended_at__gt=begins_at), submitted_at__lt=ends_at, array_size__isnull=True
    )
    return [Came(*row) for row in rows.order_by("id").values_list(*Came._fields).iterator(chunk_size=LOAD_ROWS)]


def _ran(came: Sequence[Came]) -> dict[str, list[Ran]]:
    """By job, its attempts in order."""
    found: dict[str, list[Ran]] = {}
    for ids in _batches([row.id for row in came]):
        rows = Attempt.objects.filter(job_id__in=ids).order_by("job_id", "number")
        for job_id, began, ended, cause, evicted_for in rows.values_list(
            "job_id", "created_at", "ended_at", "stop_cause", "evicted_for"
        ):
            was_evicted = evicted_for is not None or cause == "preempted"
            attempt = Ran(job_id, mark(began), mark(ended) if ended is not None else UNKNOWN, was_evicted)
            found.setdefault(str(job_id), []).append(attempt)
    return found


def _parallelism(came: Sequence[Came]) -> dict[uuid.UUID, int]:
    found: dict[uuid.UUID, int] = {}
    for ids in _batches(sorted({row.parent_id for row in came if row.parent_id is not None})):
        bounded = Job.objects.filter(id__in=ids, array_parallelism__isnull=False)
        found.update((parent, bound) for parent, bound in bounded.values_list("id", "array_parallelism") if bound is not None)
    return found


def _ready(came: Sequence[Came]) -> dict[uuid.UUID, int]:
    """When what a job waited for had started or ended, as it asked; nothing for those that still wait for it."""
    found: dict[uuid.UUID, int] = {}
    for ids in _batches([row.id for row in came]):
        rows = Dependency.objects.filter(job_id__in=ids, met=True)
        for job_id, condition, started, ended in rows.values_list("job_id", "condition", "on__started_at", "on__ended_at"):
            met_at = started if condition == "after" else ended
            if met_at is not None:
                found[job_id] = max(found.get(job_id, 0), mark(met_at))
    return found


def _batches(ids: Sequence[uuid.UUID]) -> Iterator[Sequence[uuid.UUID]]:
    for start in range(0, len(ids), BATCH):
        yield ids[start : start + BATCH]


# --- Putting together -------------------------------------------------------------------------------------------------


def _job(row: Came, scene: Scene) -> work.JobAsk:
    wish = scene.asked.get(row.spec_id) or wish_of(load_spec(row.spec_id))
    placed = located(wish, row.tenant_id, scene.volumes)
    where = eligible(placed, row.tenant_id, row.image_kind, [replace(pool, reachable=True) for pool in scene.around.pools])
    not_before = mark(row.not_before_at) if row.not_before_at is not None else 0
    return ask_of(
        row,
        wish,
        gang=wish.gang,
        pools=where.pools,
        queue_at=scene.numbers.queue_at,
        tenant_paths=scene.around.tenant_paths,
        parallelism=scene.parallelism,
        not_before=max(not_before, scene.ready_at.get(row.id, 0)),
    )


def _with_wish(held: Held, jobs: Mapping[uuid.UUID, work.JobAsk]) -> Held:
    """What it asked for, for when it is evicted and waits again."""
    try:
        job = jobs.get(uuid.UUID(held.job.id))
    except ValueError:  # What quarantined attempts hold is of no job.
        job = None
    return held if job is None else replace(held, job=job)


def _run(held: Held, ran: Mapping[str, Sequence[Ran]], begin: int, now: int) -> Run:
    """When what ran at the beginning ended; at once where the scheduler was only about to be told."""
    attempts = [attempt for attempt in ran.get(held.job.id, ()) if attempt.began_at <= begin]
    if not attempts:  # Nobody's job, which quarantine holds, or one that had ended already.
        return Run(held.job, now if not held.need else begin, is_open=not held.need)
    is_open = attempts[-1].ended_at == UNKNOWN
    return Run(held.job, now if is_open else attempts[-1].ended_at, is_open)


def _entries(
    came: Iterable[Came],
    jobs: Mapping[uuid.UUID, work.JobAsk],
    ran: Mapping[str, Sequence[Ran]],
    running: Iterable[str],
    begin: int,
    now: int,
) -> Iterator[Entry]:
    """Who waited: all that did not run when the window began, and had not ended."""
    already = set(running)
    for row in came:
        job = jobs.get(row.id)
        if job is None or job.id in already:
            continue
        later = [attempt for attempt in ran.get(job.id, ()) if attempt.began_at > begin]
        lasting = [attempt for attempt in later if not attempt.was_evicted]
        is_open = any(attempt.ended_at == UNKNOWN for attempt in lasting)
        seconds = sum((now if attempt.ended_at == UNKNOWN else attempt.ended_at) - attempt.began_at for attempt in lasting)
        gave_up = mark(row.ended_at) if row.ended_at is not None and not later else UNKNOWN
        began = later[0].began_at if later else UNKNOWN
        if later and job.not_before > began:
            job = replace(job, not_before=0)  # That was the wait before a retry.
        yield Entry(job, max(1, seconds) if lasting else UNKNOWN, began, gave_up, is_open)
