"""Chooses the second term of the score for each GPU pool from what the pool got of late, every ten minutes.

It is a duty of the workers: seconds of arithmetic have no business in the process whose passes others wait for. The leading
scheduler reads what was chosen together with the pool, and tells its core (`WeightsChanged`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from itertools import islice, repeat

import structlog

from clusters.selectors import PoolFacts, pools_and_nodes
from clusters.services import measures
from jobs.reconcile.measuring import recent_tasks
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.questions.learn import PARTS, RECENT_MAX, Learned, learn
from jobs.selectors.pools import is_learning, machines_of, rules_of
from kernel.config import current

log = structlog.get_logger("scheduler")

POOLS_AT_ONCE = 4  # Those that were asked for longest ago: each takes up to five seconds of a core.
SEED = 0  # Always the same orders: what is chosen changes only with what the pool gets, never by chance.


def learn_pools(now: datetime) -> int:
    """Choose again for the pools that were asked for longest ago; for how many it is another choice now."""
    if not current().scheduler_learns:
        return 0
    pools, nodes = pools_and_nodes()
    machines = machines_of(pools, nodes)
    rules = rules_of(pools, machines)
    due = [number for number, pool in enumerate(pools) if is_learning(pool) and rules[number].policy == "fragmentation"]
    due.sort(key=lambda number: (pools[number].learned_at is not None, pools[number].learned_at or now, number))
    chosen = due[:POOLS_AT_ONCE]
    recent = _recent_of([pools[number] for number in chosen])
    changes = 0
    for number in chosen:
        pool, tasks = pools[number], recent[pools[number].id]
        found = learn([machine for machine in machines if machine.pool == number], rules[number], tasks, seed=SEED)
        if measures.record_learned(pool.id, None if found is None else _plain(found, len(tasks)), now):
            changes += 1
            log.info("weights_chosen", pool=pool.name, weights=dict(found.weights) if found is not None else {})
    return changes


def _recent_of(pools: Iterable[PoolFacts]) -> dict[uuid.UUID, list[TaskAsk]]:
    """The last tasks that each of these pools got, in their order."""
    found: dict[uuid.UUID, list[TaskAsk]] = {pool.id: [] for pool in pools}
    for pool_id, ask, often in recent_tasks() if found else ():
        known = found.get(pool_id)
        if known is not None:
            known.extend(islice(repeat(ask, often), RECENT_MAX - len(known)))
    return {pool_id: tasks[::-1] for pool_id, tasks in found.items()}


def _plain(found: Learned, tasks: int) -> measures.Learned:
    tried = [(trial.weights, trial.mean / PARTS) for trial in found.tried]
    return measures.Learned(found.weights, tried, found.machines, tasks)
