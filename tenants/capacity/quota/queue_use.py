"""What each queue holds of each pool and resource, along the tree, and the limits that it is measured by.

All of it is integers in lists; a call costs the depth of the tree and makes no object.

How guarantees are kept from being lent: per node, `inner` is what its own jobs hold plus what each child *keeps*, and a node
keeps `max(guarantee, inner)`. An ask raises `inner` of its queue; what the guarantee there absorbs goes no further up. What
arrives at the root is borrowed from all queues, and must leave every unused guarantee in the pool's capacity. `inner` follows
from use alone, so giving after taking is the identity in any order.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence

from kernel.resources import RESOURCE_NAMES
from tenants.capacity.quota.limits import NO_LIMIT, Amount, Capacity, LimitedQueue, amount_of

UNLIMITED = 1 << 80
NOT_PROMISED = -1
WIDTH = len(RESOURCE_NAMES)


class QueueUse:
    """Queues and pools are small integers here: `queue_at[id]`, `pool_at[id]`.

    Queue 0 is root: the operators' queue where it is given, else a queue that no user sees.
    """

    def __init__(self, queues: Iterable[LimitedQueue], pools: Sequence[Capacity]) -> None:
        self.pool_ids = tuple(pool.pool_id for pool in pools)
        self.pool_at = {pool_id: index for index, pool_id in enumerate(self.pool_ids)}
        self._capacity = [amount for pool in pools for amount in amount_of(pool.total)]
        self.version = 0  # Grows with everything that is taken or given: what was asked at a version is true at it.
        self._place(queues)
        size = len(self.queue_ids)
        columns = range(len(self._capacity))
        self._own = [[0] * size for _ in columns]
        self._used = [[0] * size for _ in columns]
        self._inner = [[0] * size for _ in columns]
        self._read_limits()
        self._stale: list[set[int]] = [set() for _ in pools]  # By pool, the queues of which something moved.

    # Building.

    def _place(self, queues: Iterable[LimitedQueue]) -> None:
        """Number the queues: root first, then by the names on the way down, so that the order of input does not matter."""
        nodes = {queue.id: queue for queue in queues}
        roots = sorted((queue for queue in nodes.values() if queue.parent_id is None), key=lambda queue: (queue.name, queue.id))
        root = roots[0] if roots else None
        paths: dict[uuid.UUID, tuple[tuple[str, str], ...]] = {}

        def name_path(queue: LimitedQueue) -> tuple[tuple[str, str], ...]:
            steps: list[LimitedQueue] = []
            here: LimitedQueue | None = queue
            while here is not None and here.id not in paths and here is not root:
                if len(steps) > len(nodes):
                    raise AssertionError(f"the queues above {queue.id} form a circle")
                steps.append(here)
                here = nodes.get(here.parent_id) if here.parent_id is not None else None
            path = paths.get(here.id, ()) if here is not None else ()
            for step in reversed(steps):
                path = (*path, (step.name, str(step.id)))
                paths[step.id] = path
            return path

        others = sorted((queue for queue in nodes.values() if queue is not root), key=name_path)
        self._limited: list[LimitedQueue | None] = [root, *others]
        self.queue_ids: tuple[uuid.UUID | None, ...] = tuple(queue.id if queue else None for queue in self._limited)
        self.queue_at = {queue_id: index for index, queue_id in enumerate(self.queue_ids) if queue_id is not None}
        self.parent: list[int] = [-1] * len(self._limited)
        self.children: list[list[int]] = [[] for _ in self._limited]
        self.path: list[tuple[int, ...]] = [(0,)] * len(self._limited)
        for index, queue in enumerate(self._limited[1:], start=1):  # Parents come before children.
            assert queue is not None
            above = self.queue_at.get(queue.parent_id, 0) if queue.parent_id is not None else 0
            self.parent[index] = above
            self.children[above].append(index)
            self.path[index] = (index, *self.path[above])

    def _read_limits(self) -> None:
        size = len(self._limited)
        columns = range(len(self._capacity))
        self._guarantee = [[0] * size for _ in columns]
        self._owed = [[NOT_PROMISED] * size for _ in columns]
        self._ceiling = [[UNLIMITED] * size for _ in columns]
        self._weight = [[1] * size for _ in columns]
        self._weightless = [False] * size
        self._promised: list[list[int]] = [[] for _ in range(size)]
        self._promised_below: dict[tuple[int, int], int] = {}
        for index, queue in enumerate(self._limited):
            if index == 0 or queue is None:
                continue
            weights = [row.weight for by_resource in queue.limits.values() for row in by_resource.values()]
            self._weightless[index] = bool(weights) and not any(weights)
            for pool_id, by_resource in queue.limits.items():
                pool = self.pool_at.get(pool_id)
                if pool is None:
                    continue
                for place, resource in enumerate(RESOURCE_NAMES):
                    limit = by_resource.get(resource, NO_LIMIT)
                    column = pool * WIDTH + place
                    self._guarantee[column][index] = limit.guarantee
                    self._weight[column][index] = limit.weight
                    if limit.ceiling is not None:
                        self._ceiling[column][index] = limit.ceiling
                    if limit.is_promise:
                        self._owed[column][index] = limit.owed
                        self._promised[index].append(column)
                        key = (self.parent[index], column)
                        self._promised_below[key] = self._promised_below.get(key, 0) + limit.owed
        for column in columns:  # Idle guarantees are kept from the start; children come after parents.
            guarantee, inner = self._guarantee[column], self._inner[column]
            for index in range(size - 1, 0, -1):
                inner[self.parent[index]] += max(guarantee[index], inner[index])

    # What is held.

    def take(self, queue: int, pool: int, ask: Amount) -> None:
        """Hold an amount. Never refuses: `room` says whether it should."""
        self.version += 1
        path = self.path[queue]
        column = pool * WIDTH
        for amount in ask:
            if amount:
                self._move(path, column, amount)
            column += 1
        self._stale[pool].update(path)

    def give(self, queue: int, pool: int, ask: Amount) -> None:
        """Give an amount back that was taken: the exact inverse of `take`."""
        self.version += 1
        path = self.path[queue]
        column = pool * WIDTH
        for amount in ask:
            if amount:
                self._move(path, column, -amount)
                assert self._own[column][queue] >= 0, "gave back more than was held"
            column += 1
        self._stale[pool].update(path)

    def _move(self, path: tuple[int, ...], column: int, amount: int) -> None:
        used, inner, guarantee = self._used[column], self._inner[column], self._guarantee[column]
        self._own[column][path[0]] += amount
        rise = amount
        for node in path:
            used[node] += amount
            if rise:
                old = inner[node]
                new = inner[node] = old + rise
                promised = guarantee[node]
                rise = (new if new > promised else promised) - (old if old > promised else promised)

    def used(self, queue: int, pool: int) -> Amount:
        """What a queue and all queues below it hold."""
        column = pool * WIDTH
        return (self._used[column][queue], self._used[column + 1][queue], self._used[column + 2][queue])

    def own(self, queue: int, pool: int) -> Amount:
        """What a queue's own jobs hold, without queues below."""
        column = pool * WIDTH
        return (self._own[column][queue], self._own[column + 1][queue], self._own[column + 2][queue])
