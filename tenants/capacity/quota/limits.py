"""What a queue is promised and allowed, per pool and resource, and whether a whole tree of such limits holds together.

Four numbers say it: the *guarantee* is never lent, the *deserved* part is lent while idle and taken back on demand, the
*ceiling* is never passed, and the *weight* divides what no queue is promised. `validate` answers every break of a tree at once;
it does not judge whether a promise is wise, and it reads no clock and no database.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from kernel.resources import RESOURCE_NAMES, Resources
from kernel.words import Text, format_amount

AMOUNT_MAX = 2**53  # Larger integers lose digits in JSON readers that know only doubles; 8 PiB of memory in one pool.
WEIGHT_MAX = 1_000_000  # Keeps shares inside 64 bits; a ratio of a million is more than any split needs.
SUMMED = ("guarantee", "deserved")

Amount = tuple[int, int, int]
"""CPU, memory and GPU in the order of RESOURCE_NAMES: a plain tuple, because the scheduler's inner loop makes many."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The limits of one queue for one resource of one pool. `deserved` None: the guarantee; `ceiling` None: none."""

    guarantee: int = 0
    deserved: int | None = None
    ceiling: int | None = None
    weight: int = 1

    @property
    def owed(self) -> int:
        """The amount that may be taken back from borrowers."""
        return self.guarantee if self.deserved is None else max(self.deserved, self.guarantee)

    @property
    def is_promise(self) -> bool:
        """Whether the limit promises anything at all; one with only a ceiling does not."""
        return self.guarantee > 0 or self.deserved is not None

    def as_dict(self) -> dict[str, int | None]:
        return {
            "guarantee": self.guarantee,
            "deserved": self.deserved,
            "ceiling": self.ceiling,
            "weight": self.weight,
        }


NO_LIMIT = Limit()
Limits = Mapping[uuid.UUID, Mapping[str, Limit]]
"""Pool and resource to limit."""


@dataclass(frozen=True, slots=True)
class LimitedQueue:
    """A queue as the rules of limits see it. The only queue without a parent is the operators' root."""

    id: uuid.UUID
    parent_id: uuid.UUID | None
    name: str
    limits: Limits = field(default_factory=dict)

    def limit(self, pool_id: uuid.UUID, resource: str) -> Limit:
        return self.limits.get(pool_id, {}).get(resource, NO_LIMIT)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a pool has in all; `name` is for messages."""

    pool_id: uuid.UUID
    name: str
    total: Resources


@dataclass(frozen=True, slots=True)
class Break:
    """One rule that a tree of limits breaks: where, which (stable), in words with the numbers, and what would be accepted.

    `excess` is by how much, where the rule is about amounts: an edit may leave a break that was there, but not widen it.
    """

    queue_id: uuid.UUID
    pool_id: uuid.UUID
    resource: str
    column: str
    code: str
    message: Text[str]
    hint: Text[str]
    excess: int = 0

    @property
    def path(self) -> str:
        return f"/limits/{self.queue_id}/{self.pool_id}/{self.resource}/{self.column}"


def amount_of(resources: Resources) -> Amount:
    return (resources.cpu_millis, resources.memory_bytes, resources.gpu_millis)


def validate(queues: Iterable[LimitedQueue], pools: Sequence[Capacity]) -> tuple[Break, ...]:
    """Every break of the rules, ordered by queue name, pool and resource; empty when the tree holds.

    A queue's guarantee and deserved amount are at least the sums of its children's, a child's ceiling is at most the lowest
    above it, and `guarantee <= deserved <= ceiling`. What stands directly below root adds up to at most the pool's capacity
    in guarantees; deserved amounts may promise a pool that is still to grow only as far as it has grown, too.
    """
    nodes = {queue.id: queue for queue in queues}
    known = {pool.pool_id: pool for pool in pools}
    breaks: list[Break] = []
    for queue in nodes.values():
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                breaks += _alone(queue, pool_id, resource, limit, known)
    if not any(found.code in MALFORMED for found in breaks):  # Sums over what is no number say nothing.
        breaks += _sums(nodes, known)
        breaks += _ceilings(nodes, known)
    order = {queue.id: (queue.name, str(queue.id)) for queue in nodes.values()}
    pool_order = {pool.pool_id: (pool.name, str(pool.pool_id)) for pool in pools}
    return tuple(
        sorted(
            breaks,
            key=lambda found: (
                order[found.queue_id],
                pool_order.get(found.pool_id, ("", str(found.pool_id))),
                found.resource,
                found.column,
                found.code,
            ),
        )
    )


MALFORMED = frozenset({"invalid", "out_of_range"})


def _alone(
    queue: LimitedQueue, pool_id: uuid.UUID, resource: str, limit: Limit, known: Mapping[uuid.UUID, Capacity]
) -> list[Break]:
    """What is wrong with one limit without looking at any other."""

    def found(column: str, code: str, message: Text[str], hint: Text[str], excess: int = 0) -> Break:
        return Break(queue.id, pool_id, resource, column, code, message, hint, excess)

    def told(amount: int, language: str = "en") -> str:
        return format_amount(resource, amount, language)

    if pool_id not in known:
        names = ", ".join(sorted(pool.name for pool in known.values())[:20])
        return [
            found(
                "pool",
                "not_found",
                Text("There is no such pool.", "没有这个资源池。"),
                Text(f"Pools are: {names or 'none'}.", f"资源池有：{names or '无'}。"),
            )
        ]
    if resource not in RESOURCE_NAMES:
        return [
            found(
                "resource",
                "not_found",
                Text("There is no such resource.", "没有这种资源。"),
                Text(f"Resources are: {', '.join(RESOURCE_NAMES)}.", f"资源有：{', '.join(RESOURCE_NAMES)}。"),
            )
        ]
    if queue.parent_id is None and limit != NO_LIMIT:
        return [
            found(
                "ceiling",
                "is_root",
                Text("The root queue has no limits.", "根队列没有额度。"),
                Text("Limit the queues below it.", "请设定其下级队列的额度。"),
            )
        ]
    breaks = []
    for column, most, may_be_none in (
        ("guarantee", AMOUNT_MAX, False),
        ("deserved", AMOUNT_MAX, True),
        ("ceiling", AMOUNT_MAX, True),
        ("weight", WEIGHT_MAX, False),
    ):
        value = getattr(limit, column)
        if value is None and may_be_none:
            continue
        if type(value) is not int:
            breaks.append(
                found(
                    column,
                    "invalid",
                    Text(f"{column} is no whole number.", f"{column} 不是整数。"),
                    Text(f"Give a whole number from 0 to {most}.", f"请给出 0 到 {most} 之间的整数。"),
                )
            )
        elif not 0 <= value <= most:
            breaks.append(
                found(
                    column,
                    "out_of_range",
                    Text(
                        f"{column} is {value}; it must be between 0 and {most}.", f"{column} 为 {value}；须在 0 到 {most} 之间。"
                    ),
                    Text(f"Give 0 to {most}.", f"请给出 0 到 {most}。"),
                )
            )
    if breaks:
        return breaks
    if limit.deserved is not None and limit.deserved < limit.guarantee:
        breaks.append(
            found(
                "deserved",
                "below_guarantee",
                Text(
                    f"deserved is {told(limit.deserved)}, less than the guarantee of {told(limit.guarantee)}.",
                    f"deserved 为 {told(limit.deserved, 'zh')}，小于保障 {told(limit.guarantee, 'zh')}。",
                ),
                Text(
                    f"Set at least {told(limit.guarantee)}, or leave it out: then it is the guarantee.",
                    f"请设为至少 {told(limit.guarantee, 'zh')}，或省略：省略时即为保障。",
                ),
                limit.guarantee - limit.deserved,
            )
        )
    for column in SUMMED:
        value = getattr(limit, column)
        if limit.ceiling is not None and value is not None and value > limit.ceiling:
            message = Text(
                f"{column} is {told(value)}, more than the queue's own ceiling of {told(limit.ceiling)}.",
                f"{column} 为 {told(value, 'zh')}，超过该队列自身的上限 {told(limit.ceiling, 'zh')}。",
            )
            hint = Text(
                f"Set at most {told(limit.ceiling)}, or raise the ceiling.",
                f"请设为至多 {told(limit.ceiling, 'zh')}，或提高上限。",
            )
            breaks.append(found(column, "above_ceiling", message, hint, value - limit.ceiling))
    return breaks


def _sums(nodes: Mapping[uuid.UUID, LimitedQueue], known: Mapping[uuid.UUID, Capacity]) -> list[Break]:
    """Where children are promised more than their parent has to give."""
    sums: dict[tuple[uuid.UUID, uuid.UUID, str, str], int] = {}
    for queue in nodes.values():
        if queue.parent_id is None:
            continue
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                for column, value in (("guarantee", limit.guarantee), ("deserved", limit.owed)):
                    key = (queue.parent_id, pool_id, resource, column)
                    sums[key] = sums.get(key, 0) + value
    breaks = []
    for (parent_id, pool_id, resource, column), total in sums.items():
        parent, pool = nodes.get(parent_id), known.get(pool_id)
        if parent is None or pool is None or resource not in RESOURCE_NAMES or total == 0:
            continue
        if parent.parent_id is None:
            most = getattr(pool.total, resource)
            whose = Text(f"pool {pool.name} has", f"资源池 {pool.name} 只有")
        else:
            own = parent.limit(pool_id, resource)
            most = own.guarantee if column == "guarantee" else own.owed
            whose = Text(f"queue {parent.name} itself has", f"队列 {parent.name} 自身只有")
        if total > most:
            en, zh = (
                [format_amount(resource, amount, language) for amount in (total, most, total - most)] for language in ("en", "zh")
            )
            message = Text(
                f"The {column} of the queues directly below {parent.name} adds up to {en[0]}, but {whose.en} {en[1]}.",
                f"{parent.name} 直属下级队列的 {column} 合计 {zh[0]}，而{whose.zh} {zh[1]}。",
            )
            hint = Text(f"Lower it by {en[2]} in all.", f"请合计降低 {zh[2]}。")
            if parent.parent_id:
                hint = Text(
                    f"Lower it by {en[2]} in all, or raise {column} of {parent.name}.",
                    f"请合计降低 {zh[2]}，或提高 {parent.name} 的 {column}。",
                )
            breaks.append(Break(parent_id, pool_id, resource, column, "sum_above_parent", message, hint, total - most))
    return breaks


def _ceilings(nodes: Mapping[uuid.UUID, LimitedQueue], known: Mapping[uuid.UUID, Capacity]) -> list[Break]:
    """Ceilings that could never be reached, because one further up is lower."""
    breaks = []
    for queue in nodes.values():
        for pool_id, row in queue.limits.items():
            for resource, limit in row.items():
                if limit.ceiling is None or pool_id not in known:
                    continue
                above = _lowest_above(nodes, queue, pool_id, resource)
                if above is not None and limit.ceiling > above:  # Whose it is may be none of the reader's business.
                    en, zh = (
                        [format_amount(resource, amount, language) for amount in (limit.ceiling, above)]
                        for language in ("en", "zh")
                    )
                    message = Text(
                        f"The ceiling of {queue.name}, {en[0]}, is more than the {en[1]} that a queue above may use.",
                        f"{queue.name} 的上限 {zh[0]} 超过上级队列可用的 {zh[1]}。",
                    )
                    hint = Text(
                        f"Set at most {en[1]}, or have the limit above raised first.",
                        f"请设为至多 {zh[1]}，或先提高上级的额度。",
                    )
                    excess = limit.ceiling - above
                    breaks.append(Break(queue.id, pool_id, resource, "ceiling", "above_parent", message, hint, excess))
    return breaks


def _lowest_above(nodes: Mapping[uuid.UUID, LimitedQueue], queue: LimitedQueue, pool_id: uuid.UUID, resource: str) -> int | None:
    lowest: int | None = None
    here = queue.parent_id
    for _ in range(len(nodes)):
        node = nodes.get(here) if here is not None else None
        if node is None:
            break
        ceiling = node.limit(pool_id, resource).ceiling
        if ceiling is not None and (lowest is None or ceiling < lowest):
            lowest = ceiling
        here = node.parent_id
    return lowest
