"""Whatever a core can be told or decide is written, read back exactly, and written again to the same bytes."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from jobs.lifecycle.filter_words import FilterCode
from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.filters import Refusal
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.ranking import ScoreRow
from jobs.scheduling.core.place.scores import POLICIES, Mix, PoolRules
from jobs.scheduling.core.snapshot import Held, Pool, State, build, export
from jobs.scheduling.core.state.decisions import Admit, Claim, Evict, Reserve, Wait, WaitReason
from jobs.scheduling.core.state.work import JobAsk, Seat
from jobs.scheduling.questions.learn import CANDIDATES
from jobs.scheduling.replay.log import (
    BookingsChanged,
    CapsChanged,
    Checkpointed,
    Decided,
    Ended,
    LimitsChanged,
    Log,
    MachineChanged,
    MixChanged,
    PassDecided,
    Started,
    Submitted,
    ToldToLeave,
    WeightsChanged,
    Withdrawn,
    apply,
    decision_lines,
    in_order,
    log_lines,
    read_log,
    replay,
    replay_log,
)
from jobs.scheduling.replay.recorder import Recorder
from kernel.resources import RESOURCE_NAMES, Resources
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue
from tenants.capacity.quota.shares import Standing

words = some.text(max_size=6)  # Of any script: names come from people.
numbers = some.integers(-(2**70), 2**70)
counts = some.integers(0, 2**53)
sets = some.frozensets(words, max_size=3)
conditions = some.lists(some.tuples(words, sets), max_size=2).map(tuple)
asks = some.builds(
    TaskAsk, counts, counts, some.sampled_from((0, 250, 1000, 8000)), sets, conditions,
    sets, some.booleans(),
)  # fmt: skip
roles = some.builds(RoleAsk, words, asks, counts, counts, words, some.none() | counts, words, sets)
gangs = some.lists(roles, max_size=3, unique_by=lambda role: role.role).map(lambda found: GangAsk(tuple(found), "pack"))
amounts = some.tuples(counts, counts, counts)
needs = some.lists(some.tuples(counts, amounts), max_size=2).map(tuple)
filtered = some.builds(Refusal, some.sampled_from(FilterCode), counts, counts, counts, counts)
reasons = some.builds(WaitReason, some.sampled_from(WaitCode), *[numbers] * 9, some.lists(filtered, max_size=2).map(tuple))
jobs = some.builds(
    JobAsk,
    id=words,
    queue=counts,
    gang=gangs,
    pools=some.lists(counts, max_size=3).map(tuple),
    submitted_at=counts,
    priority=numbers,
    order=numbers,
    max_runtime=some.none() | counts,
    predicted=some.none() | counts,
    not_before=counts,
    withheld=some.none() | reasons,
    array=words,
    parallel=counts,
    evictable=some.booleans(),
    user=some.none() | some.uuids(),
    tenants=some.lists(some.uuids(), max_size=2).map(tuple),
    checkpoint_seconds=counts,
    grace_seconds=some.none() | counts,
)
tasks = some.builds(PlacedTask, words, counts, counts, asks, some.lists(counts, max_size=3).map(tuple))
rows = some.builds(ScoreRow, words, numbers, some.lists(some.tuples(words, numbers, numbers), max_size=2).map(tuple))
tables = some.lists(some.tuples(words, some.lists(rows, max_size=2).map(tuple)), max_size=2).map(tuple)
placed = some.builds(Placed, counts, some.lists(tasks, max_size=3).map(tuple), counts, tables)
machines = some.builds(
    Machine, words, counts, counts, counts, counts, words, some.dictionaries(words, words, max_size=3), sets, sets, words,
    some.booleans(), sets, sets,
)  # fmt: skip
limits = some.builds(Limit, counts, some.none() | counts, some.none() | counts, counts)
queues = some.builds(
    LimitedQueue, some.uuids(), some.none() | some.uuids(), words,
    some.dictionaries(some.uuids(), some.dictionaries(some.sampled_from(RESOURCE_NAMES), limits), max_size=2),
)  # fmt: skip
capacities = some.builds(Capacity, some.uuids(), words, some.builds(Resources, counts, counts, counts))
rules = some.builds(PoolRules, some.sampled_from(sorted(POLICIES)), some.dictionaries(words, numbers, max_size=2))
policies = some.builds(Policy, counts, some.booleans(), some.booleans(), some.booleans(), *[counts] * 7)
caps = some.lists(
    some.builds(CapFacts, some.uuids(), some.none() | some.uuids(), some.none() | counts, some.none() | counts), max_size=1
).map(tuple)
windows = some.lists(some.builds(Booked, some.uuids(), some.uuids(), some.uuids(), counts, counts, counts), max_size=1).map(tuple)
held = some.builds(Held, jobs, placed, needs, counts, counts, some.booleans(), words)
some_queues = some.lists(queues, max_size=2, unique_by=lambda queue: queue.id)
states = some.builds(
    State,
    at=counts,
    pools=some.lists(some.builds(Pool, some.uuids(), words, some.none()), max_size=2).map(tuple),
    machines=some.lists(machines, max_size=3, unique_by=lambda machine: (machine.pool, machine.name)).map(tuple),
    queues=some.lists(queues, max_size=3, unique_by=lambda queue: queue.id).map(tuple),
    capacities=some.lists(capacities, max_size=2).map(tuple),
    waiting=some.lists(jobs, max_size=3, unique_by=lambda job: job.id).map(tuple),
    running=some.lists(
        some.builds(Held, jobs, placed, needs, counts, counts, some.booleans(), words, some.booleans()),
        max_size=2,
        unique_by=lambda running: running.job.id,
    ).map(tuple),
    policy=policies,
    history=some.dictionaries(some.tuples(counts, counts, counts), numbers, max_size=3),
    history_at=counts,
    evicted_at=some.lists(some.tuples(counts, counts), max_size=3).map(tuple),
    caps=caps.map(lambda found: tuple(sorted(found, key=repr))),
    bookings=windows.map(lambda found: tuple(sorted(found, key=repr))),
    seats=some.lists(some.builds(Seat, jobs, placed, needs, words, counts), max_size=1).map(tuple),
)
events = some.one_of(
    some.builds(Submitted, jobs),
    some.builds(Withdrawn, words),
    some.builds(Started, jobs, placed, counts, some.none() | needs),
    some.builds(Ended, words),
    some.builds(MachineChanged, machines),
    some.builds(
        LimitsChanged,
        some.lists(queues, max_size=2, unique_by=lambda queue: queue.id).map(
            lambda found: tuple(sorted(found, key=lambda queue: queue.id))
        ),
        some.lists(capacities, max_size=2).map(tuple),
    ),
    some.builds(WeightsChanged, counts, some.dictionaries(words, counts, max_size=2)),
    some.builds(BookingsChanged, windows),
    some.builds(CapsChanged, caps),
    some.builds(Checkpointed, words, counts),
    some.builds(ToldToLeave, words),
    some.builds(Decided, counts),
)
decisions = some.one_of(
    some.builds(Admit, words, placed, some.sampled_from(Standing)),
    some.builds(Wait, words, reasons, counts),
    some.builds(Evict, words, words, counts, booking=words, to=some.none() | placed, rebalances=some.booleans()),
    some.builds(Claim, words, placed, some.lists(words, max_size=2).map(tuple), counts),
    some.builds(Reserve, words, counts, some.lists(counts, max_size=2).map(tuple)),
)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(states, some.lists(events, max_size=6).map(tuple))
def test_what_happened_is_read_back_exactly(state: State, happened: tuple[Any, ...]) -> None:
    lines = list(log_lines(Log(state, happened)))
    read = read_log(f"{line}\n" for line in lines)
    assert read == Log(in_order(state), happened)
    assert list(log_lines(read)) == lines


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(states, some.lists(some.builds(PassDecided, counts, some.lists(decisions, max_size=4).map(tuple)), max_size=4).map(tuple))
def test_what_was_decided_is_read_back_exactly(state: State, passes: tuple[PassDecided, ...]) -> None:
    lines = list(log_lines(Log(state, tuple(Decided(decided.now) for decided in passes), passes)))
    assert read_log(lines).passes == passes
    assert list(log_lines(read_log(lines))) == lines


def test_a_log_that_tells_of_another_mix_and_of_contents_is_replayed_to_the_byte() -> None:
    """A mix is compared by identity, so the strategies above leave it out."""
    mix = Mix([(TaskAsk(100, 1 << 20, 4000), 3), (TaskAsk(100, 1 << 20, 500, frozenset({"A100"})), 1)])
    machines = tuple(Machine(f"n{number}", 0, 8_000, 1 << 30, 4, "A100") for number in range(3))
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    pool = Pool(uuid.UUID(int=9), "gpu", PoolRules("fragmentation"))
    capacity = Capacity(pool.id, pool.name, Resources(24_000, 3 << 30, 12_000))
    state = State(10, (pool,), machines, (root, LimitedQueue(uuid.UUID(int=2), root.id, "a")), (capacity,))

    def asking(name: str, gpus: int) -> Submitted:
        role = RoleAsk("worker", TaskAsk(100, 1 << 20, gpus * 1000), 1, 1, image="digest")
        return Submitted(JobAsk(name, 1, GangAsk((role,)), (0,), 10))

    events = (
        asking("one", 4), Decided(11), MixChanged(0, mix), MachineChanged(replace(machines[2], images=frozenset({"digest"}))),
        asking("two", 2), Decided(12), MixChanged(0, None), asking("three", 1), Decided(13),
    )  # fmt: skip
    written = list(log_lines(Log(state, events)))
    assert list(log_lines(read_log(written))) == written
    assert replay_log(written) == replay_log(written) == list(decision_lines(replay(Log(state, events))))
    second = next(decision for decision in list(replay(Log(state, events)))[1].decisions if isinstance(decision, Admit))
    best = second.placed.tables[0][1][0]
    assert (best.machine, [value for name, value, _ in best.terms if name == "image"]) == ("n2", [10_000])


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    some.lists(some.tuples(some.sampled_from((1, 16)), some.sampled_from((500, 1000, 2000, 4000))), min_size=4, max_size=24),
    some.integers(1, 20),
    some.sampled_from(CANDIDATES),
)
def test_a_log_with_other_weights_in_it_decides_the_same_again(
    asked: list[tuple[int, int]], change_after: int, chosen: Mapping[str, int]
) -> None:
    machines = tuple(Machine(f"n{number}", 0, 32_000, 64 << 30, 4, "A100") for number in range(4))
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    pool = Pool(uuid.UUID(int=9), "gpu", PoolRules("fragmentation", shares=True))
    capacity = Capacity(pool.id, pool.name, Resources(128_000, 256 << 30, 16_000))
    state = State(10, (pool,), machines, (root, LimitedQueue(uuid.UUID(int=2), root.id, "a")), (capacity,))
    kept: list[str] = []
    recorder = Recorder(state, kept.append, with_decisions=True)
    decided: list[PassDecided] = []
    for number, (cores, gpu) in enumerate(asked):
        if number == change_after:
            recorder.tell(WeightsChanged(0, chosen))
        role = RoleAsk("worker", TaskAsk(cores * 1000, 1 << 20, gpu), 1, 1)
        recorder.tell(Submitted(JobAsk(f"job-{number:02}", 1, GangAsk((role,)), (0,), 10 + number)))
        decided.append(PassDecided(11 + number, recorder.tell(Decided(11 + number))))
    recorder.close()
    log = read_log(kept)
    assert list(log.passes) == decided == list(replay(log))
    # A core that is built from what this one came to is filled by the same weights.
    anew = build(export(recorder.core, state))
    assert anew.machines.rules[0].weights == recorder.core.machines.rules[0].weights
    assert anew.machines.rules[0].weight("balanced") == (chosen["balanced"] if change_after < len(asked) else 2)


def test_weights_that_change_choose_another_machine() -> None:
    machines = (Machine("even", 0, 8_000, 1 << 20, 4, "A100"), Machine("large", 0, 64_000, 1 << 20, 4, "A100"))
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    pool = Pool(uuid.UUID(int=9), "gpu", PoolRules("fragmentation"))
    capacity = Capacity(pool.id, pool.name, Resources(72_000, 2 << 20, 8_000))
    core = build(State(10, (pool,), machines, (root, LimitedQueue(uuid.UUID(int=2), root.id, "a")), (capacity,)))
    core.mix_changed(0, Mix([(TaskAsk(100, 1 << 20, 4000), 1)]))
    found = []
    for name, weights in (("one", {"balanced": 2}), ("two", {"balanced": 0, "spread": 2})):
        apply(core, WeightsChanged(0, weights))
        role = RoleAsk("worker", TaskAsk(8_000, 1 << 20, 4000), 1, 1)
        apply(core, Submitted(JobAsk(name, 1, GangAsk((role,)), (0,), 10)))
        (admitted,) = (decision for decision in apply(core, Decided(11)) if isinstance(decision, Admit))
        found.append(core.machines.at[admitted.placed.tasks[0].machine].name)
        apply(core, Ended(name))
    assert found == ["even", "large"]
