"""A simulated clock over the core itself: what waits, runs, is evicted and resumes, from a list of arrivals.

Events of one second are told in order - ends, then arrivals - and then one pass decides. A job that is evicted is told at once,
stays for the grace, loses what it did since its last checkpoint, and waits again with its old time of submission. So its wait, as
finish - submission - duration, has the lost work in it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import Admit, Book, Claim, Evict
from jobs.scheduling.core.state.work import Job

END, GONE, ARRIVE = range(3)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job with how long it will run, which the core is not told."""

    job: Job
    duration: int


@dataclass(slots=True)
class Stay:
    """What became of one job."""

    queue: int
    submitted_at: int
    duration: int
    gpu_millis: int
    first_started_at: int = -1
    started_at: int = -1
    done: int = 0  # Seconds of work that are saved.
    finished_at: int = -1
    evictions: int = 0
    turn: int = 0  # Tells the end of this run from those that were planned before an eviction.
    promised_at: int = -1
    gave_way: bool = False
    claimed_at: int = -1

    @property
    def wait(self) -> int:
        """Above what it would have taken alone."""
        return self.finished_at - self.submitted_at - self.duration


@dataclass(frozen=True, slots=True)
class Window:
    """By queue, thousandths of GPUs at the end of a window: held, and held or asked for by jobs that wait."""

    at: int
    held: dict[int, int]
    wanted: dict[int, int]


@dataclass(slots=True)
class Outcome:
    stays: dict[str, Stay] = field(default_factory=dict)
    windows: list[Window] = field(default_factory=list)
    lost: int = 0  # Thousandths of GPU-seconds, with the grace of those who left.
    passes: int = 0
    evictions: int = 0
    moves: int = 0  # Of them, those whose job went on elsewhere at once.
    reclaim_seconds: list[int] = field(default_factory=list)  # From a claim to the start.
    broken: int = 0  # Starts later than promised first, but for promises that gave way to somebody's right or to a loss.
    given_way: Counter[str] = field(default_factory=Counter)  # By cause, promises that did.
    promises: list[tuple[int, int]] = field(default_factory=list)  # (promised, actual) of each start that was booked.

    @property
    def useful(self) -> int:
        """Thousandths of GPU-seconds that were asked for and done."""
        return sum(stay.duration * stay.gpu_millis for stay in self.stays.values() if stay.finished_at >= 0)


class Replay:
    """One run of a core over arrivals. `grace_seconds`: how long an evicted gang still holds its machines."""

    def __init__(
        self,
        core: Core,
        arrivals: Iterable[Arrival],
        *,
        grace_seconds: int = 30,
        window_seconds: int = 600,
        on_pass: Callable[[Core, int], None] | None = None,
    ) -> None:
        self.core = core
        self.outcome = Outcome()
        self._grace = grace_seconds
        self._window = window_seconds
        self._on_pass = on_pass
        self._arrivals = {one.job.id: one for one in arrivals}
        self._events: list[tuple[int, int, str, int]] = [
            (one.job.submitted_at, ARRIVE, one.job.id, 0) for one in self._arrivals.values()
        ]
        heapq.heapify(self._events)
        self._wanted: dict[int, int] = {}
        self._held: dict[int, int] = {}

    def run(self) -> Outcome:
        """Until nothing more happens."""
        events = self._events
        window_at = events[0][0] + self._window if events else 0
        while events or (self.core.ordering and self.core.next_ring is not None):
            ring = self.core.next_ring
            now = events[0][0] if events else -1
            if ring is not None and (ring < now or not events):
                now = ring
            while window_at <= now:
                held = {queue: amount for queue, amount in sorted(self._held.items()) if amount}
                wanted = {queue: amount for queue, amount in sorted(self._wanted.items()) if amount}
                self.outcome.windows.append(Window(window_at, held, wanted))
                window_at += self._window
            while events and events[0][0] == now:
                _, kind, job_id, turn = heapq.heappop(events)
                self._happen(kind, job_id, turn, now)
            for decision in self.core.decide(now):
                if isinstance(decision, Admit):
                    self._start(decision.id, now)
                elif isinstance(decision, Evict):
                    self._leave(decision.id, now)
                    self.outcome.moves += decision.to is not None
                elif isinstance(decision, Claim):
                    self.outcome.stays[decision.id].claimed_at = now
                elif isinstance(decision, Book):
                    self._promise(decision)
            self.outcome.passes += 1
            if self._on_pass is not None:
                self._on_pass(self.core, now)
        return self.outcome

    def _happen(self, kind: int, job_id: str, turn: int, now: int) -> None:
        if kind == ARRIVE:
            job = self._arrivals[job_id].job
            gpus = sum(role.ask.gpu_millis * role.minimum for role in job.gang.roles)
            self.outcome.stays[job_id] = Stay(job.queue, now, self._arrivals[job_id].duration, gpus)
            self._wanted[job.queue] = self._wanted.get(job.queue, 0) + gpus
            self.core.submit(job)
            return
        stay = self.outcome.stays[job_id]
        if stay.turn != turn:
            return
        stay.turn += 1
        self._held[stay.queue] -= stay.gpu_millis
        self.core.ended(job_id)
        if kind == END:
            stay.finished_at = now
            self._wanted[stay.queue] -= stay.gpu_millis
        else:
            self.core.submit(self._arrivals[job_id].job)

    def _start(self, job_id: str, now: int) -> None:
        stay = self.outcome.stays[job_id]
        stay.started_at = now
        if stay.first_started_at < 0:
            stay.first_started_at = now
            if stay.promised_at >= 0:
                self.outcome.broken += now > stay.promised_at and not stay.gave_way
                self.outcome.promises.append((stay.promised_at, now))
        if stay.claimed_at >= 0:
            self.outcome.reclaim_seconds.append(now - stay.claimed_at)
            stay.claimed_at = -1
        self._held[stay.queue] = self._held.get(stay.queue, 0) + stay.gpu_millis
        heapq.heappush(self._events, (now + stay.duration - stay.done, END, job_id, stay.turn))

    def _promise(self, told: Book) -> None:
        stay = self.outcome.stays[told.id]
        if told.cause:
            self.outcome.given_way[told.cause] += 1
            stay.gave_way = stay.gave_way or told.cause != "overrun"
        elif stay.promised_at < 0:
            stay.promised_at = told.at

    def _leave(self, job_id: str, now: int) -> None:
        stay = self.outcome.stays[job_id]
        if now + self._grace >= stay.started_at + stay.duration - stay.done:
            return  # It comes to its end before it has to go.
        every = self._arrivals[job_id].job.checkpoint_seconds
        ran = now - stay.started_at
        saved = ran // every * every if every else 0
        stay.turn += 1
        stay.done += saved
        stay.evictions += 1
        self.outcome.evictions += 1
        self.outcome.lost += (ran + self._grace - saved) * stay.gpu_millis
        heapq.heappush(self._events, (now + self._grace, GONE, job_id, stay.turn))
