"""The fair order of queues: whose turn it is, when shares change with every gang that is placed.

From root down, the child comes next that is owed most, then the one with the smallest share, then the first by name; a queue's
own jobs stand among the queues below it. A step costs the depth of the tree times the logarithm of the children, because only
what moved is put into its parent's heap again; entries that are no longer true are dropped when they come up.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush

from tenants.capacity.quota.shares import Shares

Key = tuple[int, int, int]


class Turns:
    """Queues with waiting work. It follows `shares` as it is changed by take and give; only one may follow a `Shares`."""

    def __init__(self, shares: Shares, waiting: Iterable[int]) -> None:
        self._shares = shares
        self._waits: set[int] = set()
        size = len(shares.path)
        self._active = [0] * size  # Queues with waiting work at or below.
        self._heaps: list[list[tuple[Key, int]]] = [[] for _ in range(size)]
        self._keys: dict[int, Key] = {}
        self._own_keys: dict[int, Key] = {}
        shares.changed()
        for queue in sorted(set(waiting)):
            self.add(queue)

    def add(self, queue: int) -> None:
        """A queue has work waiting."""
        if queue in self._waits:
            return
        self._waits.add(queue)
        self._push_own(queue)
        for node in self._shares.path[queue]:
            self._active[node] += 1
            if node and self._active[node] == 1:
                self._push(node)

    def drop(self, queue: int) -> None:
        """A queue has nothing more that could start now."""
        if queue not in self._waits:
            return
        self._waits.remove(queue)
        for node in self._shares.path[queue]:
            self._active[node] -= 1

    def next(self) -> int | None:
        """The queue whose turn it is; it stays in the order until it is dropped. None: no queue waits."""
        for node in self._shares.changed():
            if node and self._active[node]:
                self._push(node)
            if node in self._waits:
                self._push_own(node)
        if not self._active[0]:
            return None
        here = 0
        while True:
            below = self._first(here)
            if below == here:
                return here
            here = below

    def _first(self, parent: int) -> int:
        heap = self._heaps[parent]
        while True:
            key, child = heap[0]
            if child == parent:
                if parent in self._waits and self._own_keys[parent] == key:
                    return child
            elif self._active[child] and self._keys[child] == key:
                return child
            heappop(heap)

    def _push(self, node: int) -> None:
        shares = self._shares
        key = (0 if shares.is_owed(node) else 1, shares.share_then(node), node)
        self._keys[node] = key
        self._put(shares.parent[node], (key, node))

    def _push_own(self, queue: int) -> None:
        key = (1, self._shares.own_share(queue), queue)
        self._own_keys[queue] = key
        self._put(queue, (key, queue))

    def _put(self, parent: int, entry: tuple[Key, int]) -> None:
        heap = self._heaps[parent]
        heappush(heap, entry)
        if len(heap) > 64 + 4 * len(self._shares.children[parent]):  # Old entries below the top would only grow in number.
            true = {
                found
                for found in heap
                if (self._own_keys.get(parent) if found[1] == parent else self._keys.get(found[1])) == found[0]
            }
            heap[:] = true
            heapify(heap)
