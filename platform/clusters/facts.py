"""What requests remember of clusters (`kernel/facts.py`), from tables whose changes leave a mark."""

from __future__ import annotations

from clusters.selectors import PoolFacts, list_pools
from kernel.facts import Facts


def remembered_pools(facts: Facts) -> tuple[PoolFacts, ...]:
    """As `list_pools`."""
    return facts.find("pools", list_pools)
