"""Questions about a job whose room others are leaving: by when it starts at the latest."""

from __future__ import annotations

import uuid

from jobs.scheduling.core.place.machines import Machine
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Pool, State, build, export
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.questions.explain import Settled
from jobs.scheduling.questions.latest import CLAIM, GRACE_OVER, Latest, latest_start
from kernel.resources import Resources
from tenants.capacity.quota.limits import Capacity, LimitedQueue
from tests.unit.scheduling.test_core import GIB, POOL, a_job, owed

GRACE, LETS_GO = 30, 30  # Of the policy: `grace_seconds`, and what `overrun_seconds` is above.


def one_claims(at: int) -> State:
    """Eight GPUs that one queue borrows; another that deserves half of them claims them in a pass at this moment."""
    root = LimitedQueue(uuid.UUID(int=1), None, "root")
    queues = tuple(
        LimitedQueue(uuid.UUID(int=10 + number), root.id, name, {POOL: {"gpu_millis": owed(4)}})
        for number, name in enumerate("ab")
    )
    state = State(
        0,
        (Pool(POOL, "pool", PoolRules(policy="pack")),),
        tuple(Machine(f"node-{number}", 0, 32_000, 128 * GIB, 4) for number in range(2)),
        (root, *queues),
        (Capacity(POOL, "pool", Resources(64_000, 256 * GIB, 8000)),),
        policy=Policy(grace_seconds=GRACE, overrun_seconds=GRACE + LETS_GO),
    )
    core = build(state)
    for number in range(8):
        core.submit(a_job(f"borrows-{number}"))
    core.decide(10)
    core.submit(a_job("claims", queue=2, tasks=2, at=10))
    core.decide(at)
    assert core.transfers.keys() == {"claims"}
    return export(core, state)


def latest_at(state: State, at: int, graces: dict[str, int] | None = None) -> Latest | None:
    core = build(state)
    core.decide(at)
    return latest_start(Settled(export(core, state)), "claims", graces or {})


def test_who_claims_starts_by_the_time_of_the_claim_and_the_longest_grace_of_those_who_leave() -> None:
    state = one_claims(100)
    first, second = sorted(held.job.id for held in state.running if held.leaving_for)
    assert latest_at(state, 100) == Latest(100 + GRACE + LETS_GO, CLAIM)
    assert latest_at(state, 100, {first: 10, second: 600}) == Latest(100 + 600 + LETS_GO, CLAIM)
    assert latest_at(state, 100, {"borrows-elsewhere": 9_000}) == Latest(100 + GRACE + LETS_GO, CLAIM)


def test_the_time_of_the_claim_outlives_the_core_that_made_it() -> None:
    state = one_claims(100)
    (claim,) = state.claims
    assert claim.since == 100
    assert latest_at(state, 120) == Latest(100 + GRACE + LETS_GO, CLAIM)


def test_no_latest_start_is_told_once_the_grace_is_over() -> None:
    state = one_claims(100)
    assert latest_at(state, 100 + GRACE + LETS_GO) == Latest(100 + GRACE + LETS_GO, CLAIM)
    assert latest_at(state, 101 + GRACE + LETS_GO) == Latest(None, "", GRACE_OVER)
