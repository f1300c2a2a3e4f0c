"""Whether a gang could ever be placed: one that asks for more than a cluster has in all is refused where it is submitted.

What clusters have is remembered by pool, and read again before anybody is refused: machines come. One that was told to wait
because more was known of a pool than there is left waits and says so, as before.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence

from clusters.selectors import PoolFacts, pool_totals
from jobs.spec.model import JobSpec
from kernel.errors import FieldError
from kernel.resources import RESOURCE_NAMES, ZERO, Resources, total
from kernel.words import format_amount

POOLS_MAX = 10_000  # Remembered; pools that are gone are forgotten with the rest.
_known: dict[uuid.UUID, Resources] = {}


def larger_than_any(spec: JobSpec, pools: Sequence[PoolFacts]) -> FieldError | None:
    """The refusal of a gang that no cluster takes even when it is empty; None where one does, or where nothing is known."""
    pools = [pool for pool in pools if spec.pool in (None, pool.name) and spec.cluster in (None, pool.cluster_name)]
    least = Resources()
    for role in spec.roles.values():
        least += role.resources.amounts * role.replicas.min
    if not pools or _most(least, pools, _known) is None:
        return None
    fresh = pool_totals([pool.id for pool in pools])
    for pool in pools:  # What is broken today is repaired tomorrow: a job for the whole pool waits for that.
        healthy, known = pool.node_shape * pool.node_count, fresh.get(pool.id, ZERO)
        fresh[pool.id] = Resources(*(max(getattr(healthy, name), getattr(known, name)) for name in RESOURCE_NAMES))
    if len(_known) + len(fresh) > POOLS_MAX:
        _known.clear()
    _known.update(fresh)
    if any(amounts == ZERO for amounts in fresh.values()) or (found := _most(least, pools, fresh)) is None:
        return None  # A pool without any machine yet may get whatever is asked for.
    resource, most, where = found
    need, there = format_amount(resource, getattr(least, resource)), format_amount(resource, most)
    message = f"Job {spec.name} asks for {need} together; {where} has {there} in all, and none has more."
    return FieldError("/roles", "larger_than_pool", message, f"Ask for at most {there}, or for fewer replicas.")


def _most(least: Resources, pools: Sequence[PoolFacts], totals: Mapping[uuid.UUID, Resources]) -> tuple[str, int, str] | None:
    """A resource of which no cluster has enough, the most that one has, and where; None if a cluster has enough of all.

    A gang stays in one cluster and may use several of its pools. A pool that is not known has nothing.
    """
    clusters: dict[uuid.UUID, list[PoolFacts]] = {}
    for pool in pools:
        clusters.setdefault(pool.cluster_id, []).append(pool)
    short: list[tuple[int, int, str]] = []
    for own in clusters.values():
        there = total([totals.get(pool.id, ZERO) for pool in own])
        lacks = [index for index, name in enumerate(RESOURCE_NAMES) if getattr(least, name) > getattr(there, name)]
        if not lacks:
            return None
        where = f"pool {own[0].name}" if len(own) == 1 else f"cluster {own[0].cluster_name}"
        short.append((lacks[-1], getattr(there, RESOURCE_NAMES[lacks[-1]]), where))
    index, most, where = max(short)
    return RESOURCE_NAMES[index], most, where
