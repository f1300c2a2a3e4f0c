"""The latest start that a waiting job is told is kept: in every history of a small installation, and in random ones.

A history goes on from the moment at which it was told: all end by their longest time, early or late. Who was told of a booked
start starts by then, unless it was told why not; who was told of the end of the line does if nobody came or was evicted.
"""

from __future__ import annotations

import heapq
import itertools
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pytest
from hypothesis import Phase, example, given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.decisions import Admit, Claim, Evict, Reserve
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.questions.explain import Settled
from jobs.scheduling.questions.latest import LINE, RESERVED, Latest, latest_start
from kernel.resources import Resources
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOL = Pool(uuid.UUID(int=90), "pool", PoolRules("pack"))
ROOT = LimitedQueue(uuid.UUID(int=1), None, "root")
NODES, GPUS = 2, 2
GRACE = 2
FREE = (Limit(), Limit())
OWED = (Limit(deserved=2000), Limit())


def state_of(policy: Policy, limits: tuple[Limit, Limit] = FREE, windows: Iterable[Booked] = ()) -> State:
    below = (LimitedQueue(uuid.UUID(int=10 + at), ROOT.id, "ab"[at], {POOL.id: {"gpu_millis": limits[at]}}) for at in range(2))
    capacity = Capacity(POOL.id, "pool", Resources(NODES * 8000, NODES << 30, NODES * GPUS * 1000))
    machines = tuple(Machine(f"n{number}", 0, 8000, 1 << 30, GPUS) for number in range(NODES))
    return State(1, (POOL,), machines, (ROOT, *below), (capacity,), policy=policy, bookings=tuple(windows))


def policy_of(**more: bool | int) -> Policy:
    told = {
        "shortest_first": 0,
        "assumed_runtime_seconds": 0,
        "least_runtime_seconds": 0,
        "overrun_seconds": 0,
        "replan_seconds": 0,
        "grace_seconds": GRACE,
        **more,
    }
    return Policy(history_seconds=1 << 40, aging_seconds=0, **told)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Come:
    """A job and how long it really runs."""

    job: JobAsk
    runs: int


def come(number: int, at: int, queue: int, tasks: int, gpus: int, most: int | None, runs: int, priority: int = 500) -> Come:
    gang = GangAsk((RoleAsk("worker", TaskAsk(1000, 1 << 10, gpus * 1000), tasks, tasks),))
    return Come(JobAsk(f"job-{number}", queue, gang, (0,), at, priority, max_runtime=most), runs)


class Told:
    """What a job was told, by which moment."""

    def __init__(self, job_id: str, latest: Latest, at: int) -> None:
        self.job_id, self.latest, self.at = job_id, latest, at


class History:
    """One installation from its first job to its last, which asks after each pass for the latest start of all who wait."""

    def __init__(self, state: State, comes: Iterable[Come]) -> None:
        self.state = state
        self.core: Core = build(state)
        self.runs = {arrival.job.id: arrival.runs for arrival in comes}
        self.events: list[tuple[int, int, str, int]] = []  # (when, kind, job, which start).
        self.arrivals = sorted(comes, key=lambda arrival: (arrival.job.submitted_at, arrival.job.id))
        self.started: dict[str, list[int]] = {}
        self.told: list[Told] = []
        self.evicted_at: list[int] = []
        self.came_at = [arrival.job.submitted_at for arrival in self.arrivals]
        self.moved: list[tuple[int, str]] = []  # Reserved starts that were taken back, with a cause.

    def run(self, *, asks_max: int = 1_000) -> History:
        now = self.state.at
        asked = 0
        for _ in range(2_000):
            while self.arrivals and self.arrivals[0].job.submitted_at <= now:
                self.core.submit(self.arrivals.pop(0).job)
            while self.events and self.events[0][0] <= now:
                _, kind, name, start = heapq.heappop(self.events)
                self._end(kind, name, start)
            self._pass(now)
            if asked < asks_max and self.core.waiting():
                asked += 1
                self._ask(now)
            moments = [self.events[0][0]] if self.events else []
            moments += [self.arrivals[0].job.submitted_at] if self.arrivals else []
            ring = self.core.next_pass_at
            moments += [max(ring, now + 1)] if ring is not None and self.core.waiting() else []
            if self.core.live.cleared:
                moments.append(now + 1)
            if not moments:
                return self
            now = max(min(moments), now + (0 if moments and min(moments) > now else 1))
        raise AssertionError("it does not come to an end")

    def _pass(self, now: int) -> None:
        for decision in self.core.decide(now):
            if isinstance(decision, Admit):
                self.started.setdefault(decision.id, []).append(now)
                self._push(now + self.runs[decision.id], 1, decision.id)
            elif isinstance(decision, Evict):
                self.evicted_at.append(now)
                self.events = [event for event in self.events if event[2] != decision.id]
                heapq.heapify(self.events)
                self._push(now + GRACE, 0, decision.id)
            elif (isinstance(decision, Reserve) and decision.cause) or isinstance(decision, Claim):
                self.moved.append((now, decision.id))

    def _push(self, at: int, kind: int, name: str) -> None:
        heapq.heappush(self.events, (at, kind, name, len(self.started.get(name, ()))))

    def _end(self, kind: int, name: str, start: int) -> None:
        job = self.core.running[name].job
        self.core.ended(name)
        if kind == 0:
            self.core.submit(job)

    def _ask(self, now: int) -> None:
        state = export(self.core, self.state)
        settled = Settled(replace(state, at=now))
        for job in self.core.waiting():
            if job.id not in self.core.transfers:
                latest = latest_start(settled, job.id)
                assert latest is not None
                self.told.append(Told(job.id, latest, now))

    def check(self) -> int:
        """Every bound that was told and whose assumptions came true; how many those are."""
        kept = 0
        for telling in self.told:
            if telling.latest.at is None:
                continue
            start = next((at for at in self.started.get(telling.job_id, ()) if at >= telling.at), None)
            if telling.latest.kind == LINE and (
                any(at > telling.at for at in self.came_at) or any(at >= telling.at for at in self.evicted_at)
            ):
                continue
            if telling.latest.kind == RESERVED and any(at >= telling.at and name == telling.job_id for at, name in self.moved):
                continue  # It gave way, and that was told.
            assert start is not None, f"{telling.job_id} never started, {telling.latest} told at {telling.at}"
            assert start <= telling.latest.at, f"{telling.job_id} started at {start}, {telling.latest} told at {telling.at}"
            kept += 1
        return kept


SHAPES = ((1, 1), (1, 2), (2, 2))  # Tasks and GPUs of each: a quarter, a half, all of it.
MOST = 4


def every_history(priority_of_last: int, queues: tuple[int, int, int, int]) -> Iterable[list[Come]]:
    """Four jobs one after the other, of every shape, each as short or as long as may be."""
    for shapes in itertools.product(SHAPES, repeat=4):
        for runs in ((1, 1, 1, 1), (MOST, MOST, MOST, MOST), (1, MOST, 1, MOST), (MOST, 1, MOST, 1)):
            yield [
                come(number, 1 + number, queues[number], *shapes[number], MOST + number, min(runs[number], MOST + number),
                     priority_of_last if number == 3 else 500)
                for number in range(4)
            ]  # fmt: skip


@pytest.mark.capability(
    "6.11", "The latest start is kept in every history of a small installation, with preemption, reclaim, a booking"
)
@pytest.mark.parametrize(
    ("policy", "limits", "windows", "priority"),
    [
        (policy_of(preempts=False), FREE, (), 500),
        (policy_of(preempts=True), FREE, (), 900),
        (policy_of(preempts=True), OWED, (), 500),
        (policy_of(preempts=False), FREE, (Booked(uuid.UUID(int=5), uuid.UUID(int=11), POOL.id, 4000, 9, 14),), 500),
    ],
    ids=["by turns", "with preemption by higher priority", "with what is deserved", "with a booking"],
)
def test_in_every_small_history_who_waits_starts_by_the_latest_start_that_it_was_told(
    policy: Policy, limits: tuple[Limit, Limit], windows: tuple[Booked, ...], priority: int
) -> None:
    kept = told = 0
    for comes in every_history(priority, (1, 1, 2, 1)):
        history = History(state_of(policy, limits, windows), comes).run()
        assert history.started.keys() == {arrival.job.id for arrival in comes}, "somebody starves"
        kept += history.check()
        told += sum(telling.latest.at is not None for telling in history.told)
        assert all(telling.latest.at is not None for telling in history.told), "everybody has a longest time, so all have a bound"
    assert kept > 300
    assert kept > told // 3


arrivals_of = some.lists(
    some.tuples(
        some.integers(1, 20),  # Submitted.
        some.integers(1, 2),
        some.sampled_from(SHAPES),
        some.integers(1, 30),  # Longest time.
        some.integers(0, 30),  # How much less it really takes.
        some.sampled_from((500, 500, 900)),
    ),
    min_size=2,
    max_size=14,
)


@pytest.mark.capability("6.11", "The latest start is kept in random histories")
@settings(max_examples=60, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
# A reserved start came; its place is given away in the same pass.
@example(
    [
        (15, 2, (2, 2), 30, 3, 500),
        (17, 2, (2, 2), 5, 4, 500),
        (13, 2, (1, 2), 18, 12, 500),
        (20, 1, (1, 2), 4, 1, 900),
        (20, 1, (1, 2), 4, 1, 900),
    ],
    False,
    FREE,
    1,
    43,
)
@given(arrivals_of, some.booleans(), some.sampled_from((FREE, OWED)), some.sampled_from((1, 1, 3)), some.integers(0, 60))
def test_in_random_histories_every_latest_start_is_kept(
    arrivals: list[tuple[int, int, tuple[int, int], int, int, int]],
    preempts: bool,
    limits: tuple[Limit, Limit],
    booked: int,
    window_at: int,
) -> None:
    comes = [
        come(number, at, queue, *shape, most, max(1, most - less), priority)
        for number, (at, queue, shape, most, less, priority) in enumerate(arrivals)
    ]
    windows = (Booked(uuid.UUID(int=5), uuid.UUID(int=11), POOL.id, 2000, window_at, window_at + 10),) if window_at > 20 else ()
    history = History(state_of(policy_of(preempts=preempts, backfill_depth=booked), limits, windows), comes).run(asks_max=12)
    assert history.started.keys() == {arrival.job.id for arrival in comes}, "somebody starves"
    history.check()


def waits(state: State, *comes: Come) -> Settled:
    core = build(state)
    for arrival in comes:
        core.submit(arrival.job)
    core.decide(state.at)
    return Settled(export(core, state))


def test_without_a_longest_time_of_others_there_is_no_bound_but_the_starvation_guard() -> None:
    settled = waits(state_of(policy_of(starvation_guard_seconds=50)), come(0, 1, 1, 2, 2, None, 1), come(1, 1, 1, 1, 1, 5, 1))
    assert latest_start(settled, "job-1") == Latest(None, "", "runtime_unknown", 51)
    assert latest_start(settled, "job-9") is None


def test_what_would_not_start_even_alone_says_why() -> None:
    limits = (Limit(ceiling=1000), Limit())
    settled = waits(state_of(policy_of(), limits), come(0, 1, 1, 1, 2, 5, 1))
    assert latest_start(settled, "job-0") == Latest(None, "", "ceiling"), "and nobody waits behind it"


def test_a_booked_start_is_told_as_the_latest() -> None:
    settled = waits(state_of(policy_of()), come(0, 1, 1, 2, 2, 40, 1), come(1, 1, 1, 2, 2, 5, 1), come(2, 1, 1, 2, 2, 7, 1))
    assert latest_start(settled, "job-1") == Latest(41, RESERVED, "", 86_401)
    last = latest_start(settled, "job-2")
    assert last is not None
    assert (last.kind, last.at) == (LINE, 1 + 40 + 1 + 5 + 1 + 1)


@settings(max_examples=80, deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
# Put aside before any start was reserved; what ended later was hidden for one.
@example(
    [
        (11, 2, (1, 1), 24, 21, 500),
        (13, 2, (1, 2), 1, 0, 500),
        (2, 2, (1, 2), 29, 20, 900),
        (11, 1, (1, 1), 28, 24, 900),
        (12, 1, (1, 1), 29, 15, 500),
        (2, 2, (2, 2), 28, 27, 500),
        (13, 2, (1, 2), 11, 4, 500),
        (12, 2, (2, 2), 14, 13, 500),
        (14, 2, (1, 2), 13, 4, 900),
        (15, 1, (1, 1), 27, 18, 500),
        (10, 2, (1, 2), 21, 5, 500),
        (11, 2, (2, 2), 9, 8, 500),
    ],
    1,
)
# What was hidden for a reserved start is laid open for that start, which goes elsewhere: the room is there for others of its
# shape.
@example(
    [
        (12, 2, (1, 1), 6, 27, 900),
        (3, 2, (2, 2), 30, 19, 900),
        (14, 1, (1, 1), 8, 1, 500),
        (4, 2, (1, 1), 22, 7, 900),
        (9, 2, (1, 1), 7, 22, 500),
    ],
    3,
)
@given(arrivals_of, some.sampled_from((1, 3)))
def test_nobody_waits_who_would_start_by_a_scheduler_made_anew(
    arrivals: list[tuple[int, int, tuple[int, int], int, int, int]], booked: int
) -> None:
    """Also who was woken for room that another took, and fits into room that is hidden for a reserved start."""
    comes = [
        come(number, at, queue, *shape, most, max(1, most - less), priority)
        for number, (at, queue, shape, most, less, priority) in enumerate(arrivals)
    ]
    history = History(state_of(policy_of(preempts=False, backfill_depth=booked)), comes)

    def compare(now: int) -> None:
        anew = build(replace(export(history.core, history.state), at=now))
        assert not [decision.id for decision in anew.decide(now) if isinstance(decision, Admit)]

    history._ask = compare  # type: ignore[method-assign]
    history.run(asks_max=40)


def test_who_ends_before_a_booked_start_takes_its_room_also_after_another_was_faster() -> None:
    """Two become free for a job of one and one that ends before the reserved start: the second is not passed over."""
    comes = [
        come(0, 1, 1, 1, 2, 28, 28),
        come(1, 1, 2, 1, 2, 3, 2),
        come(2, 2, 2, 2, 2, 3, 3, 900),
        come(3, 2, 2, 1, 1, 22, 22, 900),
        come(4, 2, 2, 1, 1, 5, 5, 500),
    ]
    history = History(state_of(policy_of(preempts=False)), comes).run(asks_max=0)
    assert history.started["job-3"] == [3]
    assert history.started["job-4"] == [3]
    assert history.started["job-2"] == [29]
