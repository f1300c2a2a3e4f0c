"""Tenants that always want more get their part in the long run, by the scheduler's own core on a simulated clock."""

from __future__ import annotations

import random
import uuid
from collections.abc import Mapping, Sequence

import pytest

from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.place.gangs import GangAsk, RoleAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.snapshot import Pool, State, build
from jobs.scheduling.core.state.work import JobAsk
from jobs.scheduling.replay.run import Arrival, Replay
from kernel.resources import Resources
from tenants.billing.ledger.fairness import HOUR, Holding, Limits, Share, ShareKey, Wanted, shares
from tenants.capacity.quota.limits import Capacity, Limit, LimitedQueue

POOL = uuid.UUID(int=1)
ROOT = uuid.UUID(int=9)
NODES, GPUS = 3, 8
DAY = 24 * HOUR
WEIGHTS = {"a": 1, "b": 2, "c": 3}
OVER = 1.5  # Everybody asks for half as much again as is theirs.


def lived(
    limits: Mapping[str, Limit],
    sizes: Sequence[int] | Mapping[str, Sequence[int]],
    *,
    days: int,
    seed: int,
    ends_known: bool = False,
    over: float = OVER,
    comes_at: Mapping[str, int] | None = None,
    measured: tuple[int, int] | None = None,
) -> tuple[dict[str, Share], int]:
    """Days of jobs of these sizes (GPUs, of all or by tenant) and of ten minutes to an hour and a half; the share of each tenant,
    and all they got. `ends_known`: each job's maximum run time is its run time, so starts are reserved for gangs that wait.
    `over`: how much they ask for, in parts. `comes_at`: the second from which a tenant submits. `measured`: from and to which
    hour."""
    ids = {name: uuid.UUID(int=100 + number) for number, name in enumerate(sorted(limits))}
    queues = (
        LimitedQueue(ROOT, None, "root"),
        *(LimitedQueue(ids[name], ROOT, name, {POOL: {"gpu_millis": limit}}) for name, limit in limits.items()),
    )
    machines = tuple(Machine(f"node-{number}", 0, 64_000, 1 << 40, GPUS) for number in range(NODES))
    total = Resources(64_000 * NODES, NODES << 40, GPUS * NODES * 1000)
    policy = Policy(grace_seconds=0)
    core = build(State(0, (Pool(POOL, "a100"),), machines, queues, (Capacity(POOL, "a100", total),), policy=policy))
    chance, arrivals = random.Random(seed), []
    for name in sorted(limits):
        rate, number = GPUS * NODES * WEIGHTS[name] / sum(WEIGHTS.values()) * over, 0
        at = float((comes_at or {}).get(name, 0))
        while at < days * DAY:
            gpus, seconds = chance.choice(sizes[name] if isinstance(sizes, Mapping) else sizes), chance.randrange(600, 5_400)
            gang = GangAsk((RoleAsk("worker", TaskAsk(1_000, 1 << 30, gpus * 1000), 1, 1),))
            job = JobAsk(
                f"{name}-{number:05}",
                core.shares.queue_at[ids[name]],
                gang,
                (0,),
                int(at),
                max_runtime=seconds if ends_known else None,
            )
            arrivals.append(Arrival(job, seconds))
            number, at = number + 1, at + gpus * seconds / rate
    stays = Replay(core, arrivals, grace_seconds=0).run().stays
    held = [
        Holding(ids[key[0]], POOL, Resources(0, 0, stay.gpu_millis), stay.started_at, stay.finished_at)
        for key, stay in stays.items()
    ]
    first, last = measured or (0, days * 24)
    waiting = [Wanted(hour, queue_id, POOL, 0, 10**12) for hour in range(first, last) for queue_id in ids.values()]
    found = shares(since=first * HOUR, until=last * HOUR, history=[Limits(0, queues)], held=held, waiting=waiting)
    got = {name: found[ShareKey(ids[name], POOL, "gpu_millis")] for name in limits}
    return got, got["a"].delivered_by_all


@pytest.mark.capability("15", "drf: queues take turns by weighted dominant share, and get their part over time")
@pytest.mark.capability(
    "33", "Tenants of weights 1, 2 and 3 that always want more get their part within 1 %, with asks of one size"
)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_who_always_wants_more_gets_its_part_by_weight_within_one_percent(seed: int) -> None:
    found, all_got = lived({name: Limit(weight=weight) for name, weight in WEIGHTS.items()}, (2,), days=4, seed=seed)

    assert all_got >= 0.99 * GPUS * NODES * 1000 * 4 * DAY
    for name, share in found.items():
        assert share.fair == pytest.approx(all_got * WEIGHTS[name] / 6, rel=1e-6)
        assert abs(share.deficit) * 100 <= share.fair


ALONE = {name: Limit(weight=weight) for name, weight in WEIGHTS.items()}
EVERY_SIZE = (1, 2, 4, 8)
MIXES = {
    "every size": (EVERY_SIZE, False),
    "every size, ends known": (EVERY_SIZE, True),
    "the smallest share in the smallest gangs": ({"a": (1,), "b": (4,), "c": (8,)}, True),
    "the smallest share in whole nodes": ({"a": (8,), "b": (4,), "c": (1,)}, True),
    "whole nodes in the middle": ({"a": (2,), "b": (8,), "c": (2,)}, True),
    "the smallest share in the smallest gangs, no end known": ({"a": (1,), "b": (4,), "c": (8,)}, False),
    "the smallest share in whole nodes, no end known": ({"a": (8,), "b": (1,), "c": (1,)}, False),
    "whole nodes in the middle, no end known": ({"a": (2,), "b": (8,), "c": (2,)}, False),
}
SEEDS = (1, 2, 3, 4)


@pytest.mark.parametrize(
    ("mix", "seeds"),
    [(mix, SEEDS[:1]) for mix in MIXES] + [pytest.param(mix, SEEDS, marks=pytest.mark.slow) for mix in MIXES],
)
def test_weights_alone_give_each_its_part_within_three_percent_whatever_the_sizes_of_gangs(
    mix: str, seeds: tuple[int, ...]
) -> None:
    """On average of the seeds, and in each within five percent. The smallest tenant's part is four GPUs: half a gang of eight."""
    sizes, ends_known = MIXES[mix]
    off: dict[str, list[float]] = {name: [] for name in WEIGHTS}
    for seed in seeds:
        found, all_got = lived(ALONE, sizes, days=4, seed=seed, ends_known=ends_known)
        assert all_got >= 0.92 * GPUS * NODES * 1000 * 4 * DAY
        for name, share in found.items():
            off[name].append(share.delivered / (all_got * WEIGHTS[name] / 6) - 1)
    for name, each in off.items():
        assert abs(sum(each) / len(each)) <= 0.03, (name, each)
        assert all(abs(error) <= 0.05 for error in each), (name, each)


def test_a_tenant_that_comes_later_catches_up_and_leaves_the_others_more_than_half_of_what_they_had() -> None:
    """The others had 40 and 60 % for two days. It gets up to twice as much by weight as they, 40 %, until it has caught up."""
    found, all_got = lived(ALONE, (1, 2), days=3, seed=1, over=3, comes_at={"a": 2 * DAY}, measured=(51, 63))

    assert all_got >= 0.95 * GPUS * NODES * 1000 * 12 * HOUR
    assert 0.25 * all_got <= found["a"].delivered <= 0.43 * all_got
    assert found["b"].delivered >= 0.2 * all_got
    assert found["c"].delivered >= 0.3 * all_got


@pytest.mark.capability("33", "What tenants deserve is delivered within 5 %, where gangs are small against it")
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_what_is_deserved_is_delivered_within_five_percent_where_gangs_are_small_against_it(seed: int) -> None:
    """A tenant that deserves 4 GPUs may hold no third gang of 2 beside them, so its last GPU is idle now and then."""
    limits = {name: Limit(deserved=4000 * weight) for name, weight in WEIGHTS.items()}
    found, _ = lived(limits, (1, 1, 2), days=2, seed=seed)

    for share in found.values():
        assert share.due == share.deserved > 0
        assert share.shortfall * 100 <= 5 * share.due
        assert abs(share.deficit) * 100 <= 5 * share.fair
