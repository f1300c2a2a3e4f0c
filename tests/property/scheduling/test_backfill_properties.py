"""Reserved starts over random histories in which nobody stays longer than it may: no promise is broken."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as some

from jobs.scheduling.core.core import Core, Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.state.decisions import Admit, Claim
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.run import Arrival, Replay, ReplayOutcome
from tenants.capacity.quota.limits import Limit
from tests.property.scheduling.test_core_properties import GPUS, NODES, a_core

DEVICES = (250, 500, 1000, 1000, 2000, 4000)
arrivals_of = some.lists(
    some.tuples(
        some.integers(0, 60),  # Submitted.
        some.integers(1, 3),  # Queue.
        some.integers(1, 4),  # Tasks.
        some.sampled_from(DEVICES),
        some.sampled_from((100, 9_000, 16_000)),  # Cores.
        some.integers(1, 80),  # How long it runs.
        some.one_of(some.none(), some.integers(0, 80), some.integers(0, 80)),  # How much less than it may; None: nobody knows.
        some.sampled_from((500, 500, 900)),
        some.integers(0, 1),
    ),
    min_size=2,
    max_size=25,
)
limits = some.sampled_from(
    (
        {"a": Limit(), "b": Limit(weight=2), "c": Limit()},
        {"a": Limit(), "b": Limit(weight=2), "c": Limit(ceiling=8000)},
        {"a": Limit(guarantee=4000), "b": Limit(ceiling=8000), "c": Limit(ceiling=6000)},
        {"a": Limit(deserved=8000), "b": Limit(deserved=4000), "c": Limit()},
    )
)


def replayed(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], policy: Policy, tasks_max: int | None = None
) -> tuple[Core, ReplayOutcome]:
    core = a_core(limits, policy, tasks_max)
    told = []
    for number, (at, queue, tasks, gpu, cpu, runs, spare, priority, more) in enumerate(arrivals):
        gang = GangAsk((RoleAsk("worker", TaskAsk(cpu, 1 << 10, gpu), tasks, tasks + more),))
        longest = None if spare is None else runs + spare
        told.append(Arrival(JobAsk(f"job-{number:02}", queue, gang, (0,), at, priority, max_runtime=longest), runs))
    return core, Replay(core, told, grace_seconds=3, on_pass=holds).run()


def holds(core: Core, now: int) -> None:
    """What is hidden is never more than there is, and nothing is held twice."""
    for index in range(NODES):
        left = core.machines.left(index)
        assert left.cpu_millis >= 0
        assert left.memory_bytes >= 0
        assert (core.machines.class_of[index].tasks or 0) >= 0
        assert all(0 <= millis <= 1000 for millis in core.machines.devices_left(index))
    for reservation in core.reservations.by_job.values():
        assert reservation.at > now
        assert reservation.job.id in core.ordering


GPUS_ASKED = some.integers(1, 16)
booking = some.sampled_from((1, 1, 2, 50))


@settings(max_examples=80, deadline=None)
# One that counts on the end of another that is booked and has no longest time is not sure.
@example(
    {"a": Limit(), "b": Limit(weight=2), "c": Limit()},
    [
        (0, 1, 1, 250, 100, 1, 0, 500, 1), (0, 1, 1, 250, 100, 1, 14, 500, 1), (0, 1, 1, 250, 100, 1, 44, 500, 1),
        (0, 1, 1, 1000, 100, 1, 0, 900, 0), (0, 1, 4, 4000, 100, 1, None, 900, 1), (0, 1, 1, 1000, 100, 1, 56, 500, 1),
    ],
    2,
    0,
    None,
)  # fmt: skip
@given(limits, arrivals_of, booking, some.sampled_from((0, 7)), some.sampled_from((None, None, 2, 3)))
def test_no_promise_is_broken_where_nobody_stays_longer_than_it_may(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], booked: int, rebook: int, tasks_max: int | None
) -> None:
    policy = Policy(backfill_depth=booked, replan_seconds=rebook, overrun_seconds=0, least_runtime_seconds=5, preempts=False)
    core, found = replayed(limits, arrivals, policy, tasks_max)
    assert found.broken == 0
    assert set(found.given_way) <= ({"yielded"} if any(limit.deserved or limit.guarantee for limit in limits.values()) else set())
    assert core.machines.free(0).gpu_millis == NODES * GPUS * 1000
    assert not core.reservations


@settings(max_examples=80, deadline=None)
@given(limits, arrivals_of, booking, some.sampled_from((None, 2, 3)))
def test_a_promise_only_ever_yields_to_a_right(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], booked: int, tasks_max: int | None
) -> None:
    policy = Policy(backfill_depth=booked, replan_seconds=0, overrun_seconds=0, least_runtime_seconds=0)
    core, found = replayed(limits, arrivals, policy, tasks_max)
    assert found.broken == 0
    assert set(found.given_way) <= {"yielded"}
    assert core.machines.free(0).gpu_millis == NODES * GPUS * 1000


@settings(max_examples=30, deadline=None)
@given(limits, arrivals_of, booking)
def test_the_same_arrivals_in_any_order_get_the_same_starts(
    limits: dict[str, Limit], arrivals: list[tuple[Any, ...]], booked: int
) -> None:
    policy = Policy(backfill_depth=booked, replan_seconds=0, overrun_seconds=0)
    first, again = replayed(limits, arrivals, policy), replayed(limits, arrivals, policy)
    assert repr(sorted(first[1].stays.items())) == repr(sorted(again[1].stays.items()))
    assert first[1].reserved_starts == again[1].reserved_starts


@settings(max_examples=60, deadline=None)
# A reserved start comes before its time: its place goes to the first who was refused, not to who is refused just then.
@example(
    [
        (0, 3, 26, 1), (10, 5, 22, 1), (10, 9, 15, 1), (21, 9, 40, 5), (24, 1, 10, 11), (21, 3, 15, 5), (26, 9, 39, 1),
        (28, 10, 26, 1), (21, 3, 20, 0), (26, 5, 10, 1), (21, 9, 21, 1), (28, 9, 21, 1), (36, 9, 18, 0), (36, 11, 26, 0),
    ],
    0,
)  # fmt: skip
@example([(0, 14, 11, 10), (0, 7, 11, 0), (0, 13, 11, 0)], 10)  # The first that came is expected to run longest.
@given(
    some.lists(some.tuples(some.integers(0, 50), some.integers(1, 16), some.integers(1, 40), some.integers(0, 20)), max_size=30),
    some.sampled_from((0, 10)),
)
def test_each_starts_within_as_many_longest_runs_as_are_before_it(
    arrivals: list[tuple[int, int, int, int]], shortest_first: int
) -> None:
    """No job starves: the first that waits starts once those that run by then have ended, at the latest. A job is first at the
    latest at the time from which it stands, when those have started that stand before it or had a reserved start when it came."""
    policy = Policy(overrun_seconds=0, replan_seconds=0, starvation_guard_seconds=0, shortest_first=shortest_first)
    core = a_core({"a": Limit(), "b": Limit(), "c": Limit()}, policy)
    told = [
        Arrival(JobAsk(f"job-{number:02}", 1, a_gang(gpus), (0,), at, max_runtime=runs + spare), runs)
        for number, (at, gpus, runs, spare) in enumerate(arrivals)
    ]
    found = Replay(core, told).run()
    longest = max((arrival.job.max_runtime or 0 for arrival in told), default=0)
    stands = {arrival.job.id: arrival.job.submitted_at + shortest_first * (arrival.job.max_runtime or 0) for arrival in told}
    came = {arrival.job.id: (arrival.job.submitted_at, arrival.job.id) for arrival in told}
    for job_id, since in stands.items():
        before = sum((stands[other], other) <= (since, job_id) or came[other] < came[job_id] for other in stands)
        assert 0 <= found.stays[job_id].first_started_at <= since + before * longest


@settings(max_examples=60, deadline=None)
@given(
    some.lists(some.tuples(some.integers(0, 50), some.integers(1, 16), some.integers(1, 40)), max_size=30), some.integers(1, 60)
)
def test_where_nobody_knows_when_others_end_the_guard_bounds_the_wait(arrivals: list[tuple[int, int, int]], guard: int) -> None:
    policy = Policy(starvation_guard_seconds=guard, reclaims=False, preempts=False)
    core = a_core({"a": Limit(), "b": Limit(), "c": Limit()}, policy)
    told = [
        Arrival(JobAsk(f"job-{number:02}", 1, a_gang(gpus), (0,), at), runs) for number, (at, gpus, runs) in enumerate(arrivals)
    ]
    found = Replay(core, told).run()
    longest = max((arrival.duration for arrival in told), default=0)
    order = sorted((arrival.job for arrival in told), key=lambda job: (job.submitted_at, job.id))
    for place, job in enumerate(order):
        assert 0 <= found.stays[job.id].first_started_at <= job.submitted_at + guard + (place + 1) * longest


def a_gang(gpus: int) -> GangAsk:
    return GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, 1000), gpus, gpus),))


@settings(max_examples=80, deadline=None)
@given(arrivals_of, booking, some.integers(1, 2))
def test_what_a_queue_was_promised_is_its_own_at_once_whatever_is_booked(
    arrivals: list[tuple[Any, ...]], booked: int, queue: int
) -> None:
    """A job of one GPU within what its queue deserves starts, or others leave for it, also where starts of others are booked."""
    limits = {"a": Limit(deserved=8000), "b": Limit(deserved=8000), "c": Limit()}
    core = a_core(limits, Policy(backfill_depth=booked, replan_seconds=0, overrun_seconds=0, least_runtime_seconds=0))
    for number, (_, other, tasks, gpu, _, runs, spare, priority, _) in enumerate(arrivals):
        gang = GangAsk((RoleAsk("worker", TaskAsk(100, 1 << 10, max(1000, gpu)), tasks, tasks),))
        longest = None if spare is None else runs + spare
        core.submit(JobAsk(f"job-{number:02}", other, gang, (0,), number, priority, max_runtime=longest))
        core.decide(number)
    now = len(arrivals)
    for name in sorted(job.id for job in core.waiting() if job.queue == queue and job.id in core.ordering):
        core.withdraw(name)
    if core.transfers or core.shares.used(queue, 0)[2] + 1000 > 8000:
        return
    core.submit(JobAsk("owner", queue, a_gang(1), (0,), now, 900))
    told = [decision for decision in core.decide(now) if isinstance(decision, Admit | Claim) and decision.id == "owner"]
    assert told or any(running.is_leaving for running in core.running.values())
