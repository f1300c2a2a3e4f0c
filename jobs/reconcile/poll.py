"""Looking at a cluster: read everything, note it, draw conclusions. Correct with this alone; watches only make it sooner.

A look goes into those attempts of which the engine says something else than it did last. What only time brings, deadlines and
the like, is seen when all are gone into, once in `BERTH_POLL_SECONDS`: WINDOW_ATTEMPTS of them with each look, because going
into thousands takes seconds in which no end would be noticed.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from clusters.engines.interface import AttemptObservation, Engine, EngineUnreachable, Observations, Stream, TaskName
from clusters.engines.interface import TaskState as Seen
from clusters.services import engine_for, is_current, record_contact, refresh_engines
from clusters.services.quarantine import is_quarantined
from jobs.models import Attempt
from jobs.reconcile import poisoned_jobs
from jobs.reconcile.progress import ProgressReader
from jobs.reconcile.quarantine import compare
from jobs.reconcile.record import record_observations
from jobs.reconcile.stored_exits import storable
from jobs.reconcile.watched import LIVE, Watched, watch
from jobs.services.looks import note_look
from kernel.clock import database_now, host_now
from kernel.config import current
from kernel.crashpoints import crashpoint
from kernel.errors import StorageFull
from reconciling import poison
from storage.logs import LogSource, pump, read_tail

log = structlog.get_logger("poll")

WINDOW_ATTEMPTS = 500


@dataclass(slots=True)
class _Round:
    """Where this process stands with going into all live attempts of a cluster, in the order of their ids."""

    began_at: datetime
    after: uuid.UUID | None = None  # The last attempt of the window before.
    is_over: bool = False


_rounds: dict[uuid.UUID, _Round] = {}
_taken_in: dict[uuid.UUID, dict[uuid.UUID, AttemptObservation]] = {}
"""By cluster, what was seen of its live attempts and is written down."""

TAIL_BYTES = 16 * 1024  # Enough for a traceback; what a failure is named by.


def lease_name(cluster_id: uuid.UUID) -> str:
    """The lease of the process that looks at a cluster: two at once would only stand in each other's way."""
    return f"observe.{cluster_id}"


def poll(cluster_id: uuid.UUID) -> int:
    """Observe a cluster once; returns how many live attempts it has. Right also if several do it at once."""
    live = list(Attempt.objects.filter(cluster_id=cluster_id, state__in=LIVE).values_list("id", flat=True))
    if not live and not is_quarantined(cluster_id):
        return 0
    try:
        engine = engine_for(cluster_id)
        began, began_here = database_now(), host_now()
        observations = on_database_clock(engine.observe(None), began, began_here)
    except EngineUnreachable as error:
        record_contact(cluster_id, reachable=False, detail=str(error), now=database_now())
        return 0
    crashpoint("jobs.poll.after_observe")
    now = database_now()
    compare(engine, cluster_id, observations, live, now=now)  # First: a job that this frees must know what still runs of it.
    news = _news(cluster_id, observations, live, now)
    taken_in = set(live) - set(news)

    def take_in(part: Sequence[uuid.UUID]) -> None:
        if _record(cluster_id, engine, observations, part if len(part) < len(live) else None):
            taken_in.update(part)

    struck = poison.work_through(poisoned_jobs.OBSERVE, news, take_in, now=now, key=lambda attempt_id: attempt_id)
    poisoned_jobs.mark(poisoned_jobs.OBSERVE, struck, now=now)
    if len(taken_in) == len(live) and observations.complete:
        note_look(cluster_id, now)
    _note_taken_in(cluster_id, observations, taken_in)  # Without who was struck, now or so recently that it was left out.
    return len(live)


def _news(cluster_id: uuid.UUID, observations: Observations, live: Sequence[uuid.UUID], now: datetime) -> Sequence[uuid.UUID]:
    """The live attempts of which something else is seen than last time, and those whose turn it is."""
    seen, taken_in = {item.attempt_id: item for item in observations.items}, _taken_in.get(cluster_id, {})
    due = _window(cluster_id, live, now)
    return [
        attempt_id
        for attempt_id in live
        if attempt_id in due or attempt_id not in seen or seen[attempt_id] != taken_in.get(attempt_id)
    ]


def _window(cluster_id: uuid.UUID, live: Sequence[uuid.UUID], now: datetime) -> Collection[uuid.UUID]:
    """The next attempts of a round through all; none where the last round is over and the next is not due."""
    round_ = _rounds.get(cluster_id)
    if round_ is None or round_.is_over:
        if round_ is not None and timedelta(0) <= now - round_.began_at < timedelta(seconds=current().poll_seconds):
            return ()
        round_ = _rounds[cluster_id] = _Round(now)
    behind = [attempt_id for attempt_id in live if round_.after is None or attempt_id > round_.after]
    window = sorted(behind, key=lambda attempt_id: attempt_id.int)[:WINDOW_ATTEMPTS]
    round_.is_over = len(window) == len(behind)
    round_.after = window[-1] if window else None
    return frozenset(window)


def _note_taken_in(cluster_id: uuid.UUID, observations: Observations, attempts: Collection[uuid.UUID]) -> None:
    _taken_in[cluster_id] = {item.attempt_id: item for item in observations.items if item.attempt_id in attempts}


def on_database_clock(observations: Observations, began: datetime, began_here: datetime) -> Observations:
    """Say by the database's clock when it was read, which launches are written down by: hosts' clocks are set and disagree.

    It was read after `began`, unless it is a copy that was older even then, by the clock of the host that both were read on.
    """
    age = max(timedelta(0), began_here - observations.read_at)
    return replace(observations, read_at=began - age)


def _record(cluster_id: uuid.UUID, engine: Engine, observations: Observations, only: Collection[uuid.UUID] | None) -> bool:
    """Read the rows anew each time: what a failed try did to them in memory is not in the database.

    Nothing is gone because an engine does not see it that is not of the cluster as it is now: it was moved, lost or taken back a
    moment ago, and other processes may have started something where it is now. False: then nothing is written.
    """
    watched = watch(cluster_id, observations, only=only)
    if any(item.seen is None for item in watched) and not is_current(cluster_id, engine):
        refresh_engines()
        return False
    tails = _tails(cluster_id, [item for item in watched if _has_failure(item) and not poisoned_jobs.is_marked(item.attempt)])
    record_observations(watched, log_tails=tails, now=database_now())
    return True


def _has_failure(item: Watched) -> bool:
    return item.seen is not None and any(
        task.state == Seen.ENDED and task.exit is not None and task.exit.code not in (0, None) for task in item.seen.tasks
    )


def _tails(cluster_id: uuid.UUID, failing: list[Watched]) -> dict[uuid.UUID, str]:
    """The last words of the first task that failed, from the store, after everything was pumped there."""
    if not failing:
        return {}
    sources = [log_source(item.attempt, [TaskName(role, index) for role, index in item.tasks]) for item in failing]
    try:
        with ProgressReader() as progress:
            pump(engine_for(cluster_id), sources, look=progress.look)
    except EngineUnreachable:
        log.info("tail_not_read", cluster_id=str(cluster_id))
    except (
        OSError,
        StorageFull,
    ) as error:  # A full disk keeps logs waiting in the engine; that a job has ended is written down all the same.
        log.info("tail_not_stored", cluster_id=str(cluster_id), error=repr(error))
    tails = {}
    for item in failing:
        assert item.seen is not None
        ended = [task for task in item.seen.tasks if task.exit is not None and task.exit.code not in (0, None)]
        first = min(ended, key=lambda task: (task.ended_at is None, task.ended_at, task.name.role, task.name.index))
        tails[item.attempt.id] = "".join(
            storable(read_tail(item.attempt.id, first.name, stream, size_bytes=TAIL_BYTES)) for stream in (Stream.OUT, Stream.ERR)
        )
    return tails


def log_source(attempt: Attempt, tasks: list[TaskName]) -> LogSource:
    return LogSource(attempt.tenant_id, attempt.job_id, attempt.id, tuple(tasks))
