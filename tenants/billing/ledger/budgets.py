"""What a queue may spend in a month: when to warn, and when its new jobs wait."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kernel.resources import Resources
from tenants.capacity.quota.accounting import ResourceSeconds

PERCENT_MAX = 1_000
WARN_AT = (80, 100)


class BudgetKind(StrEnum):
    """What is counted: money in millionths of the currency, GPU time in thousandths of a GPU times seconds, or node time in
    thousandths of a node times seconds."""

    MONEY = "money"
    GPU_TIME = "gpu_time"
    NODE_TIME = "node_time"


@dataclass(frozen=True, slots=True)
class BudgetFacts:
    """A month's amount for a queue and all queues below it. `stops`: when it is spent, new jobs wait for the next month."""

    queue_id: uuid.UUID
    kind: BudgetKind
    amount: int
    warn_at: tuple[int, ...] = WARN_AT
    stops: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """A budget and what of it is gone this month, with what runs now counted up to now."""

    budget: BudgetFacts
    spent: int

    @property
    def is_over(self) -> bool:
        return self.spent >= self.budget.amount

    @property
    def percent(self) -> int:
        """Rounded down; of nothing, everything is spent."""
        return 100 if not self.budget.amount else self.spent * 100 // self.budget.amount

    @property
    def level(self) -> int:
        """The highest threshold that is reached, in percent; 0 for none."""
        return max((at for at in self.budget.warn_at if self.spent * 100 >= self.budget.amount * at), default=0)


@dataclass(frozen=True, slots=True)
class BudgetRefusal:
    """Why a queue's new jobs wait: whose budget is spent, how much it was, how much is gone."""

    queue_id: uuid.UUID
    kind: BudgetKind
    amount: int
    spent: int

    def as_dict(self) -> dict[str, str | int]:
        """The numbers of the reason."""
        return {"queue": str(self.queue_id), "kind": str(self.kind), "amount": self.amount, "spent": self.spent}


def budget_refusal(path: Sequence[uuid.UUID], spent: Mapping[uuid.UUID, Spent]) -> BudgetRefusal | None:
    """The first budget on the way from a queue up to root that stops and is spent; None where jobs may start.

    `path` begins with the queue itself. Nothing is stopped that runs.
    """
    for queue_id in path:
        found = spent.get(queue_id)
        if found is not None and found.budget.stops and found.is_over:
            return BudgetRefusal(queue_id, found.budget.kind, found.budget.amount, found.spent)
    return None


def node_time(used: ResourceSeconds, capacity: Resources, nodes: int) -> int:
    """Thousandths of a node times seconds: of what is used of a pool, the resource that is the most nodes' worth, where a node is
    an average one of the pool. `capacity`: of all nodes. A resource that the pool has not counts for nothing.
    """
    pairs = (
        (used.cpu_milli_seconds, capacity.cpu_millis),
        (used.memory_byte_seconds, capacity.memory_bytes),
        (used.gpu_milli_seconds, capacity.gpu_millis),
    )
    return max((1000 * amount * nodes // most for amount, most in pairs if most > 0), default=0)


def sums_along(paths: Mapping[uuid.UUID, Sequence[uuid.UUID]], used: Iterable[tuple[uuid.UUID, int]]) -> dict[uuid.UUID, int]:
    """What each queue and all below it used, from what each used alone."""
    sums: dict[uuid.UUID, int] = {}
    for queue_id, amount in used:
        for above in paths.get(queue_id, (queue_id,)):
            sums[above] = sums.get(above, 0) + amount
    return sums
