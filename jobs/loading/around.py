"""Everything but jobs that a pass looks at: pools, machines, queues and what their tenants may use, with a number for each."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from clusters.selectors import pools_and_nodes
from clusters.services.quarantine import Holds, current_holds
from jobs.scheduling.core.eligibility import PoolView
from jobs.scheduling.core.place.machines import Machine
from jobs.scheduling.core.place.scores import PoolRules
from jobs.selectors.pools import machines_of, rules_of, views_of
from tenants.billing.budgets import Spent, spent_budgets
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.limits import Capacity, LimitedQueue
from tenants.capacity.quota.shares import Shares
from tenants.capacity.reads import booked_of, capacities_of, held_bookings, limits_tree, user_cap_lines
from tenants.identity.selectors import tenant_paths
from tenants.identity.standing import Disabled, disabled_tenants


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the scheduler's numbers stand for. Equal ones mean the same of every number."""

    pools: tuple[uuid.UUID, ...]
    queues: tuple[uuid.UUID | None, ...]
    machines: tuple[tuple[int, str], ...]  # Pool and name.
    pool_at: Mapping[uuid.UUID, int] = field(compare=False)
    queue_at: Mapping[uuid.UUID, int] = field(compare=False)
    machine_at: Mapping[tuple[int, str], int] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Around:
    """All but jobs that a pass looks at."""

    pools: tuple[PoolView, ...]
    machines: tuple[Machine, ...]
    queues: tuple[LimitedQueue, ...]
    capacities: tuple[Capacity, ...]
    holds: Holds
    spent: Mapping[uuid.UUID, Spent]  # Budgets that keep new jobs waiting, by queue.
    rules: Mapping[int, PoolRules]  # How pools are filled.
    tenant_paths: Mapping[uuid.UUID, tuple[uuid.UUID, ...]]  # Each tenant and all above it, nearest first.
    caps: tuple[CapFacts, ...]
    bookings: tuple[Booked, ...]  # Bookings of tenants that hold or will.
    disabled: Mapping[uuid.UUID, Disabled]  # Tenants in which nothing starts.

    def numbers(self) -> Numbers:
        shares = Shares(self.queues, self.capacities)
        machines = tuple((machine.pool, machine.name) for machine in self.machines)
        pools = tuple(pool.id for pool in self.pools)
        return Numbers(
            pools,
            shares.queue_ids,
            machines,
            {pool_id: number for number, pool_id in enumerate(pools)},
            shares.queue_at,
            {key: number for number, key in enumerate(machines)},
        )

    def queue_names(self) -> dict[uuid.UUID, str]:
        return {queue.id: queue.name for queue in self.queues}


def look_around(now: datetime, tenants: Mapping[uuid.UUID, set[uuid.UUID]]) -> Around:
    """Pools, machines, queues with their limits, holds, spent budgets and disabled tenants. `tenants`: who runs on each cluster.
    Nine queries."""
    pools, nodes = pools_and_nodes()
    machines = machines_of(pools, nodes)
    return Around(
        views_of(pools, tenants),
        machines,
        limits_tree(with_deleted=True).queues,
        capacities_of(pools, nodes),
        current_holds(),
        spent_budgets(now),
        rules_of(pools, machines),
        tenant_paths(),
        user_cap_lines(),
        tuple(sorted(map(booked_of, held_bookings(now)), key=lambda booking: (booking.starts_at, str(booking.id)))),
        disabled_tenants(),
    )
