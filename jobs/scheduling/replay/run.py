"""A simulation of the core on a simulated clock: jobs wait, run, are evicted and resume, from a list of arrivals.

Events of one second are applied in order - ends, then arrivals - and then one pass decides. A job that is evicted is told at
once, stays for the grace, loses what it did since its last checkpoint, and waits again with its old time of submission. So its
wait, as finish - submission - duration, has the lost work in it.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.log import Decided, Ended, Event, PassDecided, Submitted, apply

END, GONE, ARRIVE = range(3)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A job with how long it will run, which the core is not told."""

    job: JobAsk
    duration: int


@dataclass(slots=True)
class Stay:
    """What became of a job."""

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
    reserved_at: int = -1
    gave_way: bool = False
    claimed_at: int = -1

    @property
    def wait(self) -> int:
        """Seconds beyond its run time."""
        return self.finished_at - self.submitted_at - self.duration


@dataclass(frozen=True, slots=True)
class UsageWindow:
    """By queue, thousandths of GPUs at the end of a window: held, and held or asked for by jobs that wait."""

    at: int
    held: dict[int, int]
    wanted: dict[int, int]


@dataclass(slots=True)
class ReplayOutcome:
    stays: dict[str, Stay] = field(default_factory=dict)
    windows: list[UsageWindow] = field(default_factory=list)
    lost: int = 0  # Thousandths of GPU-seconds, with the grace of evicted jobs.
    passes: int = 0
    evictions: int = 0
    migrations: int = 0  # Evictions after which the job went on elsewhere at once.
    reclaim_seconds: list[int] = field(default_factory=list)  # From a claim to the start.
    broken: int = 0  # Starts later than first reserved, without those that gave way to a job that stands above, or to a loss.
    given_way: Counter[str] = field(default_factory=Counter)  # By cause, reserved starts that gave way.
    reserved_starts: list[tuple[int, int]] = field(default_factory=list)  # (reserved, actual) of each reserved start.

    @property
    def useful(self) -> int:
        """Thousandths of GPU-seconds that were asked for and done."""
        return sum(stay.duration * stay.gpu_millis for stay in self.stays.values() if stay.finished_at >= 0)


Tell = Callable[[Event], tuple[Decision, ...]]


class Replay:
    """One run of a core over arrivals. `grace_seconds`: how long an evicted gang without a grace of its own still holds its
    machines. `tell`: the function that tells the core of each event, such as that of a `Recorder`; None: `apply`. `on_decided`
    gets what each pass decided."""

    def __init__(
        self,
        core: Core,
        arrivals: Iterable[Arrival],
        *,
        grace_seconds: int = 30,
        window_seconds: int = 600,
        on_pass: Callable[[Core, int], None] | None = None,
        tell: Tell | None = None,
        on_decided: Callable[[PassDecided], None] | None = None,
    ) -> None:
        self.core = core
        self._tell: Tell = tell or partial(apply, core)
        self._on_decided = on_decided
        self.outcome = ReplayOutcome()
        self._grace = grace_seconds
        self._window = window_seconds
        self._on_pass = on_pass
        self._arrivals = {arrival.job.id: arrival for arrival in arrivals}
        self._events: list[tuple[int, int, str, int]] = [
            (arrival.job.submitted_at, ARRIVE, arrival.job.id, 0) for arrival in self._arrivals.values()
        ]
        heapq.heapify(self._events)
        self._wanted: dict[int, int] = {}
        self._held: dict[int, int] = {}

    def run(self) -> ReplayOutcome:
        """Run until nothing more happens."""
        events = self._events
        window_at = events[0][0] + self._window if events else 0
        while events or (self.core.ordering and self.core.next_pass_at is not None):
            wakeup_at = self.core.next_pass_at
            now = events[0][0] if events else -1
            if wakeup_at is not None and (wakeup_at < now or not events):
                now = wakeup_at
            while window_at <= now:
                held = {queue: amount for queue, amount in sorted(self._held.items()) if amount}
                wanted = {queue: amount for queue, amount in sorted(self._wanted.items()) if amount}
                self.outcome.windows.append(UsageWindow(window_at, held, wanted))
                window_at += self._window
            while events and events[0][0] == now:
                _, kind, job_id, turn = heapq.heappop(events)
                self._happen(kind, job_id, turn, now)
            decisions = self._tell(Decided(now))
            if self._on_decided is not None:
                self._on_decided(PassDecided(now, decisions))
            for decision in decisions:
                if isinstance(decision, Admit):
                    self._start(decision.id, now)
                elif isinstance(decision, Evict):
                    self._leave(decision.id, now)
                    self.outcome.migrations += decision.to is not None
                elif isinstance(decision, Claim):
                    self.outcome.stays[decision.id].claimed_at = now
                elif isinstance(decision, Reserve):
                    self._reserve(decision)
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
            self._tell(Submitted(job))
            return
        stay = self.outcome.stays[job_id]
        if stay.turn != turn:
            return
        stay.turn += 1
        self._held[stay.queue] -= stay.gpu_millis
        self._tell(Ended(job_id))
        if kind == END:
            stay.finished_at = now
            self._wanted[stay.queue] -= stay.gpu_millis
        else:
            self._tell(Submitted(self._arrivals[job_id].job))

    def _start(self, job_id: str, now: int) -> None:
        stay = self.outcome.stays[job_id]
        stay.started_at = now
        if stay.first_started_at < 0:
            stay.first_started_at = now
            if stay.reserved_at >= 0:
                self.outcome.broken += now > stay.reserved_at and not stay.gave_way
                self.outcome.reserved_starts.append((stay.reserved_at, now))
        if stay.claimed_at >= 0:
            self.outcome.reclaim_seconds.append(now - stay.claimed_at)
            stay.claimed_at = -1
        self._held[stay.queue] = self._held.get(stay.queue, 0) + stay.gpu_millis
        heapq.heappush(self._events, (now + stay.duration - stay.done, END, job_id, stay.turn))

    def _reserve(self, told: Reserve) -> None:
        stay = self.outcome.stays[told.id]
        if told.cause:
            self.outcome.given_way[told.cause] += 1
            stay.gave_way = stay.gave_way or bool(told.by) or told.cause not in ("overrun", "yielded")
        elif stay.reserved_at < 0:
            stay.reserved_at = told.at

    def _leave(self, job_id: str, now: int) -> None:
        stay = self.outcome.stays[job_id]
        job = self._arrivals[job_id].job
        grace = self._grace if job.grace_seconds is None else job.grace_seconds
        if now + grace >= stay.started_at + stay.duration - stay.done:
            return  # It comes to its end before it has to go.
        every = job.checkpoint_seconds
        ran = now - stay.started_at
        saved = ran // every * every if every else 0
        stay.turn += 1
        stay.done += saved
        stay.evictions += 1
        self.outcome.evictions += 1
        self.outcome.lost += (ran + grace - saved) * stay.gpu_millis
        heapq.heappush(self._events, (now + grace, GONE, job_id, stay.turn))
