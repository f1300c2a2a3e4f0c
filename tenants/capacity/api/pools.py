"""Pools as bodies name them: by id, by name where only one has it, or by cluster and name."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from clusters.selectors import PoolFacts
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from tenants.identity.api.shapes import Shown


def names_of_pools(pools: Sequence[PoolFacts]) -> dict[str, set[uuid.UUID]]:
    """Every way to name a pool, with the pools that are meant by it."""
    found: dict[str, set[uuid.UUID]] = {}
    for pool in pools:
        for text in (pool.name, f"{pool.cluster_name}/{pool.name}", str(pool.id)):
            found.setdefault(text, set()).add(pool.id)
    return found


def find_pool(text: str, pools: Sequence[PoolFacts], *, path: str) -> PoolFacts:
    """The one pool that is meant; InvalidInput at `path` for none or several."""
    meant = names_of_pools(pools).get(text.lower() if len(text) == 36 else text, set())
    if len(meant) == 1:
        return next(pool for pool in pools if pool.id in meant)
    message = (
        Text(f"There is no pool {text[:80]!r}.", f"没有资源池 {text[:80]!r}。")
        if not meant
        else Text(f"Several clusters have a pool {text[:80]!r}.", f"多个集群有资源池 {text[:80]!r}。")
    )
    raise InvalidInput(
        message,
        fields=[
            FieldError(
                path,
                "not_found",
                message,
                Text("`berth pools` lists them; CLUSTER/POOL is one.", "`berth pools` 可列出，写作 集群/资源池。"),
            )
        ],
    )


def pool_ref(pool_id: uuid.UUID, pools: Sequence[PoolFacts]) -> Shown | None:
    """A pool, where another object names it; None for one that is gone."""
    found = next((pool for pool in pools if pool.id == pool_id), None)
    return None if found is None else {"id": str(found.id), "name": found.name, "cluster": found.cluster_name}
