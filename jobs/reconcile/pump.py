"""Moves what live attempts print from the engine into the store, so that pages never ask an engine.

A pass visits a window of the live attempts in the order of their ids, and the next pass the window behind it: with n live
attempts each of them is visited within n / BATCH_ATTEMPTS passes, rounded up, and none twice before all were once. The passes of
such a round follow each other without a wait.

Where the engine can tell which streams went on (`SupportsLogMarks`), only those streams are asked for output; what printed
nothing costs a look and no statement. Once in WHOLE_SECONDS all are asked, whatever the marks say; less often where that takes
long, as at a cluster that is asked over the network: it has a WHOLE_SHARE of the time.

On its way the output is looked through for the lines by which tasks say how far they are.
"""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from clusters.engines.interface import Engine, EngineUnreachable, LogStreamName, Stream, SupportsLogMarks, TaskName
from clusters.services import engine_for
from jobs.lifecycle.states import AttemptState
from jobs.models import Attempt, Task
from jobs.reconcile.progress import ProgressReader
from storage.logs import LogSource, PumpCounts, pump

BATCH_ATTEMPTS = 500
WHOLE_SECONDS = 60.0
WHOLE_SHARE = 1 / 20


@dataclass(slots=True)
class _Round:
    """Where this process stands with the streams of a cluster. Lost with the process, it costs one round without knowledge."""

    began_at: float = field(default_factory=time.monotonic)  # The last round in which all were asked.
    whole_seconds: float = 0.0  # So long that one took.
    is_whole: bool = True
    after: uuid.UUID | None = None  # The last attempt of the window before.
    tasks: dict[uuid.UUID, tuple[TaskName, ...]] = field(default_factory=dict)  # Tasks of an attempt are made with it.
    marks: dict[LogStreamName, Hashable] = field(default_factory=dict)  # Of streams whose output was stored up to there.
    visited: set[uuid.UUID] = field(default_factory=set)
    progress: ProgressReader = field(default_factory=ProgressReader)

    def end(self) -> None:
        """Begin anew, and forget what is not live any more."""
        self.after = None
        self.tasks = {attempt_id: tasks for attempt_id, tasks in self.tasks.items() if attempt_id in self.visited}
        self.progress.keep(self.visited)
        now = time.monotonic()
        if self.is_whole:
            self.whole_seconds = now - self.began_at
        self.is_whole = now - self.began_at > max(WHOLE_SECONDS, self.whole_seconds / WHOLE_SHARE)
        self.marks = {} if self.is_whole else {name: mark for name, mark in self.marks.items() if name[0] in self.visited}
        self.began_at = now if self.is_whole else self.began_at
        self.visited = set()


_rounds: dict[uuid.UUID, _Round] = {}


def pump_live(cluster_id: uuid.UUID) -> PumpCounts:
    """One pass: the next window of the live attempts of a cluster. `more` says that the round goes on, or a stream does.

    Of an attempt stopped while it was handed over it is unknown yet whether the engine has it: an engine that does not would
    say that it prints no more, and what it prints once it is there would be lost. Once it is seen it counts as launched.

    LogStoreFull where the store has no room; the window is visited again then.
    """
    round_ = _rounds.setdefault(cluster_id, _Round())
    attempts = _window(cluster_id, round_.after)
    _note_tasks(round_, [attempt_id for attempt_id, _, _ in attempts])
    sources = [LogSource(tenant, job, attempt_id, round_.tasks[attempt_id]) for attempt_id, tenant, job in attempts]
    try:
        counts = _pump(engine_for(cluster_id), sources, round_) if sources else PumpCounts()
    except EngineUnreachable:
        counts = PumpCounts()
    finally:
        round_.progress.write()
    counts.live = len(sources)
    round_.visited.update(source.attempt_id for source in sources)
    if len(sources) < BATCH_ATTEMPTS:
        counts.live += len(round_.visited) - len(sources)
        round_.end()
    else:
        round_.after = sources[-1].attempt_id
        counts.more = True
    return counts


def _window(cluster_id: uuid.UUID, after: uuid.UUID | None) -> Sequence[tuple[uuid.UUID, uuid.UUID, uuid.UUID]]:
    states = [AttemptState.STARTING, AttemptState.RUNNING, AttemptState.STOPPING]
    live = Attempt.objects.filter(cluster_id=cluster_id, state__in=states, launched_at__isnull=False)
    behind = live if after is None else live.filter(id__gt=after)
    return list(behind.order_by("id").values_list("id", "tenant_id", "job_id")[:BATCH_ATTEMPTS])


def _note_tasks(round_: _Round, attempt_ids: Sequence[uuid.UUID]) -> None:
    unknown = [attempt_id for attempt_id in attempt_ids if attempt_id not in round_.tasks]
    if not unknown:
        return
    tasks: dict[uuid.UUID, list[TaskName]] = defaultdict(list)
    for attempt_id, role, index in Task.objects.filter(attempt_id__in=unknown).values_list("attempt_id", "role", "index"):
        tasks[attempt_id].append(TaskName(role, index))
    round_.tasks.update({attempt_id: tuple(tasks[attempt_id]) for attempt_id in unknown})


def _pump(engine: Engine, sources: Sequence[LogSource], round_: _Round) -> PumpCounts:
    """Take in what those streams have that went on since they were stored. Marks are read before the output, never after."""
    if not isinstance(engine, SupportsLogMarks):
        return pump(engine, sources, look=round_.progress.look)
    names = [(source.attempt_id, task, stream) for source in sources for task in source.tasks for stream in Stream]
    marks = dict(zip(names, engine.log_marks(names), strict=True))
    news: dict[uuid.UUID, set[tuple[TaskName, Stream]]] = defaultdict(set)
    for name, mark in marks.items():
        if name not in round_.marks or round_.marks[name] != mark:
            news[name[0]].add(name[1:])
    if not news:
        return PumpCounts()
    asked = [replace(each, streams=frozenset(news[each.attempt_id])) for each in sources if each.attempt_id in news]
    counts = pump(engine, asked, look=round_.progress.look)
    round_.marks.update({name: marks[name] for name in counts.drained})
    return counts
