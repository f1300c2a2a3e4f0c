"""A past window of an installation: the jobs that ran and waited when it began, those that came, and how long each ran.

It is exported from the database (`jobs/reconcile/replay_trace.py`), written as lines like every file of the scheduler, and
replayed by the product's own core on a simulated clock, under the policy of the time or another policy.

A job that ran when the window began holds its machines and ends when it did. A job that waited, or came later, runs as long as it
ran then, whenever it starts. A job that was withdrawn while it waited is withdrawn at the same moment, unless it was started
before; it runs then for the median of its queue. Limits and machines change when they did.
"""

from __future__ import annotations

import heapq
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.machines import Machine
from jobs.scheduling.core.snapshot import State, build
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.encoding import Encoding, Unreadable
from jobs.scheduling.replay.files import BadFile, Written, read_lines
from jobs.scheduling.replay.log import (
    LimitsChanged,
    MachineChanged,
    PassDecided,
    StateReader,
    Withdrawn,
    plain_item,
    plain_state,
    unknown_kind,
)
from jobs.scheduling.replay.run import ARRIVE, END, Arrival, Replay, ReplayOutcome, Stay
from kernel.resources import Resources
from tenants.capacity.quota.limits import LimitedQueue

UNKNOWN = -1
GIVES_UP, NEW_LIMITS, NEW_MACHINE = 10, 11, 12  # Happen after the ends and arrivals of their second.
SOME_SECONDS = 60  # How long a job runs where no job ran at all.


@dataclass(frozen=True, slots=True)
class Entry:
    """A job that waited in the window. `duration` UNKNOWN: it never ran. `started_at` and `gave_up_at` as they were, or UNKNOWN.

    `is_open`: it still ran when it was exported, and its duration is how long it had run.
    """

    job: JobAsk
    duration: int
    started_at: int = UNKNOWN
    gave_up_at: int = UNKNOWN
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Run:
    """The end of a job that ran at the beginning. `job` has its ask, in case that it is evicted and waits again."""

    job: JobAsk
    ends_at: int
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class NewLimits:
    """From this moment other limits hold."""

    at: int
    queues: tuple[LimitedQueue, ...]


@dataclass(frozen=True, slots=True)
class NewMachine:
    """From this moment a machine is in this state: in service or not, with these labels."""

    at: int
    machine: Machine


@dataclass(frozen=True, slots=True)
class Past:
    """The window as a whole. `names` has the name of each queue, by number; `is_masked` whether all names are made up."""

    begins_at: int
    ends_at: int
    state: State
    names: tuple[str, ...]
    entries: tuple[Entry, ...] = ()
    runs: tuple[Run, ...] = ()
    edits: tuple[NewLimits, ...] = ()
    new_machines: tuple[NewMachine, ...] = ()
    is_masked: bool = False


# --- As lines ---------------------------------------------------------------------------------------------------------

_SINGLE = {"begins_at": int, "ends_at": int, "names": tuple[str, ...], "is_masked": bool}
_ITEMS: Mapping[str, type] = {"entries": Entry, "runs": Run, "edits": NewLimits, "new_machines": NewMachine}


def past_lines(past: Past) -> Iterator[str]:
    written, encoding = Written("window"), Encoding()
    yield written.begin()
    yield written.line({"kind": "window", **{name: encoding.plain(getattr(past, name)) for name in _SINGLE}})
    for plain in plain_state(encoding, past.state):
        yield written.line(plain)
    for name in _ITEMS:
        for item in getattr(past, name):
            for plain in plain_item(encoding, name, item):
                yield written.line(plain)
    yield written.end()


def read_past(lines: Iterable[str]) -> Past:
    """Raises `BadFile` with the line and what is wrong."""
    reader, single = StateReader(), dict[str, Any]()
    items: dict[str, list[Any]] = {name: [] for name in _ITEMS}
    for number, found in read_lines(lines, "window"):
        kind = str(found.get("kind"))
        if kind == "window" and not single:
            try:
                plain = {name: value for name, value in found.items() if name != "kind"}
                single = reader.encoding.members(_SINGLE, plain)
            except Unreadable as broken:
                raise BadFile(number, broken.code, str(broken)) from None
        elif kind in _ITEMS:
            items[kind].append(reader.item(number, _ITEMS[kind], found))
        elif not reader.take(number, found):
            raise unknown_kind(number, found)
    if not single:
        raise BadFile(2, "missing_field", "there is no line of kind window")
    lists: dict[str, Any] = {name: tuple(found) for name, found in items.items()}
    return Past(state=reader.state(), **single, **lists)


# --- Replaying --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Sample:
    """The state after a pass: how many jobs waited, and what was held."""

    at: int
    waiting: int
    held: Resources


class WindowReplay(Replay):
    """A past window through a new core. `policy` None: the policy that was in force."""

    def __init__(
        self,
        past: Past,
        policy: Policy | None = None,
        *,
        grace_seconds: int = 30,
        on_decided: Callable[[PassDecided], None] | None = None,
    ) -> None:
        core = build(replace(past.state, policy=policy or past.state.policy))
        durations = _durations(past)
        arrivals = [Arrival(entry.job, durations[entry.job.id]) for entry in past.entries]
        super().__init__(core, arrivals, grace_seconds=grace_seconds, on_pass=self._look, on_decided=on_decided)
        self.samples: list[Sample] = []
        self._past = past
        self._pools = range(len(past.state.pools))
        self._events = [(max(at, past.begins_at), kind, job_id, turn) for at, kind, job_id, turn in self._events]
        self._events += [
            (entry.gave_up_at, GIVES_UP, entry.job.id, 0) for entry in past.entries if entry.gave_up_at >= past.begins_at
        ]
        self._events += [(edit.at, NEW_LIMITS, "", number) for number, edit in enumerate(past.edits)]
        self._events += [(new_machine.at, NEW_MACHINE, "", number) for number, new_machine in enumerate(past.new_machines)]
        self._begin()
        heapq.heapify(self._events)
        self._waiting: set[str] = set()

    def _begin(self) -> None:
        """Add the jobs that run already."""
        began = {held.job.id: held for held in self._past.state.running}
        for run in self._past.runs:
            held, job = began[run.job.id], run.job
            gpus = sum(amount[2] for _, amount in held.need)
            stay = Stay(job.queue, job.submitted_at, max(1, run.ends_at - held.started_at), gpus)
            stay.first_started_at = stay.started_at = held.started_at
            self.outcome.stays[job.id] = stay
            self._arrivals[job.id] = Arrival(job, stay.duration)
            self._events.append((max(run.ends_at, self._past.begins_at), END, job.id, 0))
            for amounts in (self._held, self._wanted):
                amounts[job.queue] = amounts.get(job.queue, 0) + gpus

    def _happen(self, kind: int, job_id: str, turn: int, now: int) -> None:
        if kind == NEW_LIMITS:
            self._tell(LimitsChanged(self._past.edits[turn].queues, self._past.state.capacities))
        elif kind == NEW_MACHINE:
            self._tell(MachineChanged(self._past.new_machines[turn].machine))
        elif kind == GIVES_UP:
            if job_id in self._waiting and self.outcome.stays[job_id].first_started_at < 0:
                self._tell(Withdrawn(job_id))
                self._waiting.discard(job_id)
                self._wanted[self.outcome.stays[job_id].queue] -= self.outcome.stays[job_id].gpu_millis
        else:
            before = self.outcome.stays[job_id].turn if kind != ARRIVE else 0
            super()._happen(kind, job_id, turn, now)
            stay = self.outcome.stays[job_id]
            if kind == ARRIVE:
                stay.submitted_at = self._arrivals[job_id].job.submitted_at
            if stay.finished_at < 0 and (kind == ARRIVE or stay.turn != before):
                self._waiting.add(job_id)

    def _start(self, job_id: str, now: int) -> None:
        super()._start(job_id, now)
        self._waiting.discard(job_id)

    def _look(self, core: Core, now: int) -> None:
        used = [core.shares.used(0, pool) for pool in self._pools]
        held = Resources(*(sum(amount[place] for amount in used) for place in range(3)))
        self.samples.append(Sample(now, len(self._waiting), held))


def lived(past: Past, policy: Policy | None = None, *, grace_seconds: int = 30) -> tuple[ReplayOutcome, list[Sample]]:
    """Replay a window: what became of each job, and the state after each pass."""
    replayed = WindowReplay(past, policy, grace_seconds=grace_seconds)
    return replayed.run(), replayed.samples


def _durations(past: Past) -> dict[str, int]:
    """How long each job runs, in seconds; the median of its queue, or of all, for jobs that never ran."""
    known: dict[int, list[int]] = {}
    for entry in past.entries:
        if entry.duration != UNKNOWN:
            known.setdefault(entry.job.queue, []).append(entry.duration)
    all_durations = [duration for durations in known.values() for duration in durations] or [SOME_SECONDS]
    middle = {queue: statistics.median_low(durations) for queue, durations in known.items()}
    common = statistics.median_low(all_durations)
    return {
        entry.job.id: max(1, entry.duration if entry.duration != UNKNOWN else middle.get(entry.job.queue, common))
        for entry in past.entries
    }
