"""Who holds how much of what was promised: the quota side of one scheduling pass.

`Shares` adds to what each queue holds (`queue_use.py`) the answers: what a gang would run on (its guarantee, what it
deserves, or what it borrows), who may be asked to give back, and how large a share is. All of it is integers in lists; a call
costs the depth of the tree and makes no object unless it refuses.

A tenant that was promised GPUs and nothing of cores is judged by its GPUs: only resources for which the queue below root has
a promise decide the standing, and with no promise at all everything is borrowed. A queue inside a tenant that has no promise
of its own uses the tenant's.

A queue's share is the larger of two weighted dominant parts. The first is its history `HORIZON_SECONDS` from now, if all that
runs goes on until then: what a gang will have used is charged when it starts, so the queues of one pass take turns. It is divided
by the history, at the same moment, of the most used resource of all pools, so it is a part of what was given out, at any age of
the installation; without any history it is present use. The second is half of present use (`AHEAD`): a queue that used little for
days catches up, but holds no more than twice what the others had by weight. History alone would give it every GPU that comes
free, for days; present use in every share (half of it was) sees what a tenant holds when a GPU comes free, not what it had, and
gives tenants by the sizes of their gangs. Figures: bench/RESULTS.md, "Weights alone".
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from kernel.wait_codes import WaitCode
from tenants.capacity.quota.decay import SCALE, faded, keep, left
from tenants.capacity.quota.limits import Amount, Capacity, LimitedQueue
from tenants.capacity.quota.queue_use import NOT_PROMISED, UNLIMITED, WIDTH, QueueUse

ONE = 1_000_000_000  # A share of the whole of a pool's resource, at weight 1.
WEIGHTLESS = 1 << 62  # Added to the share of queues of weight 0: served after all others.
# About half of the running times that it was measured with (10 to 90 minutes). On average of seeds, 15 to 30 minutes keep each
# tenant within 2 % of its part by weight; no horizon gives up to 4 %, and 8 hours up to 9 % too much to the smallest tenant.
HORIZON_SECONDS = 1_800
# Present use counts by half: two equal tenants, one with gangs of the whole pool, are each at twice their part in their turn. By
# two thirds, the one with small gangs got 7 % too much.
AHEAD = 2
_FINE = ONE * SCALE


class Standing(IntEnum):
    """What a gang would run on; a smaller value is a stronger right."""

    GUARANTEED = 0
    DESERVED = 1
    BORROWED = 2


class Refusal(NamedTuple):
    """Why an ask has no room. `ceiling`: `used + need` passes the queue's `limit`, or does with what unused guarantees
    of queues below keep of it (`kept`). `withheld`: it would take capacity that unused guarantees of others keep; `limit` is
    the pool's, `used` what is held or kept of it, `kept` the part of that which is kept and idle (`Shares.keepers` says for
    whom). `capacity`: the pool is simply used up.
    """

    code: WaitCode
    queue: int
    pool: int
    resource: int
    need: int
    used: int
    limit: int
    kept: int = 0

    @property
    def can_never_fit(self) -> bool:
        """Whether the ask alone is above the limit: waiting does not help."""
        return self.need > self.limit


class Shares(QueueUse):
    """Use along the tree, mutable, and what follows from it. `use`: what each queue's own jobs hold, without those below it."""

    def __init__(
        self,
        queues: Iterable[LimitedQueue],
        pools: Sequence[Capacity],
        use: Iterable[tuple[uuid.UUID, uuid.UUID, Amount]] = (),
        *,
        half_life_seconds: int = 604_800,
    ) -> None:
        if half_life_seconds < 1:
            raise ValueError(f"a half-life of {half_life_seconds} s: give at least one second")
        super().__init__(queues, pools)
        self._half_life = half_life_seconds
        self._kept_later = keep(HORIZON_SECONDS, half_life_seconds)
        self._kept, self._level = 0, _FINE
        self._at: int | None = None
        self._history: dict[tuple[int, int], int] = {}
        self._own_history: dict[tuple[int, int], int] = {}  # The part of `_history` that no queue below had.
        self._history_changed = True
        self._parts = [[0] * len(self._capacity) for _ in self.queue_ids]
        self._changed: set[int] = set()
        for queue_id, pool_id, amount in use:
            self.take(self.queue_at[queue_id], self.pool_at[pool_id], amount)

    # Whether there is room.

    def room(self, queue: int, pool: int, ask: Amount) -> Standing | Refusal:
        """What the ask would run on, or the first limit that refuses it: by resource, nearest queue first.

        A gang with several tasks in a pool asks once for their sum. A gang in several pools asks each; its standing is the
        largest. Asking for none of a resource is never refused for it.
        """
        path = self.path[queue]
        last = len(path) - 1
        top = path[last - 1] if last else -1
        promised_anything = False
        weakest = Standing.GUARANTEED
        column = pool * WIDTH - 1
        for amount in ask:
            column += 1
            if not amount:
                continue
            used, ceiling, inner, guarantee = (
                self._used[column],
                self._ceiling[column],
                self._inner[column],
                self._guarantee[column],
            )
            rise = amount
            for node in path:
                old, most = inner[node], ceiling[node]
                if used[node] + amount > most or (rise and old + rise > most):
                    kept = max(0, old - used[node] - amount + rise)
                    return Refusal(WaitCode.CEILING, node, pool, column - pool * WIDTH, amount, used[node], most, kept)
                if rise and node:
                    new, promised = old + rise, guarantee[node]
                    rise = 0 if new <= promised else new - (old if old > promised else promised)
            if rise and inner[0] + rise > self._capacity[column]:
                return self._withheld(path, pool, column, amount)
            owed = self._owed[column]
            if not last or owed[top] == NOT_PROMISED:
                continue
            promised_anything = True
            if rise and weakest is not Standing.BORROWED:
                weakest = Standing.DESERVED
                for node in path:
                    if owed[node] != NOT_PROMISED and used[node] + amount > owed[node]:
                        weakest = Standing.BORROWED
                        break
        return weakest if promised_anything else Standing.BORROWED

    def is_beyond(self, pool: int, ask: Amount) -> bool:
        """Whether a pool has less than this free: then `room` refuses it to any queue."""
        held = self.used(0, pool)
        capacity = self._capacity[pool * WIDTH : (pool + 1) * WIDTH]
        return any(amount and used + amount > most for amount, used, most in zip(ask, held, capacity, strict=True))

    def may_bind(self, queue: int, other: int, pool: int) -> bool:
        """Whether what one queue takes of a pool could make a limit refuse the other, beyond the end of the pool itself."""
        nodes = set(self.path[queue]) & set(self.path[other])
        for column in range(pool * WIDTH, pool * WIDTH + WIDTH):
            if any(self._guarantee[column]) or any(self._ceiling[column][node] < UNLIMITED for node in nodes):
                return True
        return False

    def refusals(self, queue: int, pool: int, ask: Amount) -> tuple[Refusal, ...]:
        """Every limit that refuses the ask, by resource and nearest queue first; for explanations."""
        found: list[Refusal] = []
        for place, amount in enumerate(ask):
            if not amount:
                continue
            column = pool * WIDTH + place
            used, ceiling, inner, rise = self._used[column], self._ceiling[column], self._inner[column], amount
            for node in self.path[queue]:
                kept = max(0, inner[node] - used[node] - amount + rise)
                if used[node] + amount > ceiling[node] or (rise and inner[node] + rise > ceiling[node]):
                    found.append(Refusal(WaitCode.CEILING, node, pool, place, amount, used[node], ceiling[node], kept))
                rise = self._rise((node,), column, rise)
            if self._rise(self.path[queue], column, amount) > max(0, self._capacity[column] - self._inner[column][0]):
                found.append(self._withheld(self.path[queue], pool, column, amount))
        return tuple(found)

    def _rise(self, path: tuple[int, ...], column: int, amount: int) -> int:
        """How much of an ask no guarantee on the way absorbs."""
        inner, guarantee = self._inner[column], self._guarantee[column]
        rise = amount
        for node in path:
            if node:
                rise = max(guarantee[node], inner[node] + rise) - max(guarantee[node], inner[node])
        return rise

    def _withheld(self, path: tuple[int, ...], pool: int, column: int, amount: int) -> Refusal:
        """The refusal of an ask that only others' unused guarantees, or the end of the pool, stand against."""
        held = self._used[column][0]
        absorbed = amount - self._rise(path, column, amount)
        kept = max(0, self._inner[column][0] - held - absorbed)
        code = WaitCode.WITHHELD if kept else WaitCode.CAPACITY
        return Refusal(code, 0, pool, column - pool * WIDTH, amount, held + kept, self._capacity[column], kept)

    def keepers(self, queue: int, pool: int, resource: int) -> tuple[tuple[int, int], ...]:
        """Whose unused guarantees a queue may not borrow, largest first: (queue, amount). Costs the size of the tree.

        The topmost queues that keep something; inside the asker's own tenant its siblings are named, too.
        """
        column = pool * WIDTH + resource
        guarantee, inner, used = self._guarantee[column], self._inner[column], self._used[column]
        path = frozenset(self.path[queue])
        found = []
        for node in self.path[queue]:
            for child in self.children[node]:
                kept = max(guarantee[child], inner[child]) - used[child]
                if child not in path and kept > 0:
                    found.append((child, kept))
        return tuple(sorted(found, key=lambda pair: (-pair[1], pair[0])))

    # Who may take back.

    def may_reclaim(self, claimant: int, victim: int, pool: int, ask: Amount, short: Sequence[bool] | None = None) -> bool:
        """Whether a queue may take work of another away so that it can hold `ask` of this pool.

        The claimant's queue and every ancestor below the common one stay within what they deserve after it, and the victim's
        queue and its ancestors are above what they deserve before it, in a resource that is asked and (where `short` is
        given) lacking. So a queue at or below its guarantee or deserved amount is never a victim, and neither side can
        take the same amount back. Never true within one queue: there, priorities decide.
        """
        if claimant == victim:
            return False
        above = set(self.path[claimant])
        common = next(node for node in self.path[victim] if node in above)
        lends = promised = False
        for place, amount in enumerate(ask):
            if not amount:
                continue
            column = pool * WIDTH + place
            after = self._within(claimant, common, column, amount)
            if after is False:
                return False
            promised = promised or after is True
            if after and (short is None or short[place]) and self._above(victim, common, column):
                lends = True
        return promised and lends

    def may_rebalance(self, claimant: int, victim: int, pool: int, ask: Amount, gives: Amount = (0, 0, 0)) -> bool:
        """Whether a queue may take `gives` from another that borrows, both being free to borrow, so that their parts come nearer.

        Just below the queue that both are under, the claimant's branch with `ask` must hold at most as large a part, by weight
        and of what it holds most of in this pool, as the victim's is left with. So nothing ever goes back and forth. History
        does not count: it decides who comes first, not who has to leave. Where a branch was promised nothing, none is taken.
        """
        above = set(self.path[claimant])
        common = next(node for node in self.path[victim] if node in above)
        if common in (claimant, victim):
            return False
        mine = next(node for node in self.path[claimant] if self.parent[node] == common)
        theirs = next(node for node in self.path[victim] if self.parent[node] == common)
        columns = [at for at, amount in enumerate(ask, start=pool * WIDTH) if amount]
        if not all(any(self._owed[at][branch] != NOT_PROMISED for at in columns) for branch in (mine, theirs)):
            return False
        return self._part_with(mine, pool, ask, 1) <= self._part_with(theirs, pool, gives, -1)

    def _part_with(self, queue: int, pool: int, amount: Amount, sign: int) -> int:
        """The weighted dominant part of one pool that a queue would hold with, or without, an amount."""
        columns = enumerate(amount, start=pool * WIDTH)
        held = [(at, self._used[at][queue] + sign * asked) for at, asked in columns if self._capacity[at]]
        return max((self._part(used, self._capacity[at], self._weight[at][queue]) for at, used in held), default=0)

    def reach(self, queue: int, pool: int, ask: Amount) -> int:
        """The highest queue below which `may_reclaim` could be true of any victim, -1 for none: everything on the way there
        stays within what it deserves when the queue holds the ask."""
        path = self.path[queue]
        height = len(path) - 1
        promised = False
        column = pool * WIDTH - 1
        for amount in ask:
            column += 1
            if not amount:
                continue
            owed, used = self._owed[column], self._used[column]
            for place in range(height):
                node = path[place]
                if owed[node] != NOT_PROMISED:
                    promised = True
                    if used[node] + amount > owed[node]:
                        height = place
                        break
        return path[height] if promised and (height or len(self.children[queue])) else -1

    def may_reach(self, queue: int, pool: int) -> bool:
        """Whether `reach` may find a queue for some ask: a queue without others below it, which holds already all that it
        deserves of whatever is promised on its way, reaches none."""
        path = self.path[queue]
        if self.children[queue]:
            return True
        for column in range(pool * WIDTH, pool * WIDTH + WIDTH):
            owed = self._owed[column]
            if owed[queue] != NOT_PROMISED:
                if self._used[column][queue] < owed[queue]:
                    return True
            elif any(owed[node] != NOT_PROMISED for node in path):
                return True
        return False

    def _within(self, queue: int, common: int, column: int, amount: int) -> bool | None:
        """Whether everything below the common queue stays within what it deserves; None where nothing is promised."""
        if queue == common:  # Its own jobs have what its children were not promised.
            return self._own[column][queue] + amount <= self._left(queue, column) if self._owed[column][queue] >= 0 else None
        owed, used = self._owed[column], self._used[column]
        topmost = queue
        for node in self.path[queue]:
            if node == common:
                break
            topmost = node
            if owed[node] != NOT_PROMISED and used[node] + amount > owed[node]:
                return False
        return True if owed[topmost] != NOT_PROMISED else None

    def _above(self, queue: int, common: int, column: int) -> bool:
        """Whether everything from the queue up to below the common one holds more than it deserves."""
        if queue == common:
            return self._own[column][queue] > self._left(queue, column)
        owed, used = self._owed[column], self._used[column]
        for node in self.path[queue]:
            if node == common:
                return True
            if used[node] <= max(0, owed[node]) and (owed[node] != NOT_PROMISED or self.parent[node] == common):
                return False
        return True

    def _left(self, queue: int, column: int) -> int:
        """What of a queue's deserved amount none of its children was promised."""
        return max(0, max(0, self._owed[column][queue]) - self._promised_below.get((queue, column), 0))

    def excess(self, queue: int, pool: int) -> Amount:
        """What a queue holds above what it deserves; the whole where nothing is promised."""
        column = pool * WIDTH
        over = [max(0, self._used[column + place][queue] - max(0, self._owed[column + place][queue])) for place in range(WIDTH)]
        return (over[0], over[1], over[2])

    # How large a share is.

    def advance(self, at: int) -> None:
        """Let history run to a moment, in whole seconds. The first call only starts the clock.

        Costs the size of the tree: call it once a minute, not with every gang.
        """
        if self._at is not None and at > self._at:
            kept = keep(at - self._at, self._half_life)
            lived = {column for _, column in self._history}
            for column in range(len(self._capacity)):
                used = self._used[column]
                if not used[0] and column not in lived:
                    continue
                for queue in range(len(used)):
                    old = self._history.get((queue, column), 0)
                    if used[queue] or old:
                        self._remember(queue, column, faded(old, used[queue], kept))
        self._at = at if self._at is None else max(at, self._at)

    def _remember(self, queue: int, column: int, history: int) -> None:
        if history:
            self._history[queue, column] = history
        else:
            self._history.pop((queue, column), None)
        self._history_changed = True

    def history(self) -> Mapping[tuple[int, int, int], int]:
        """What to keep for `recall`: (queue, pool, resource) to an amount in 1/SCALE."""
        return {(queue, *divmod(column, WIDTH)): amount for (queue, column), amount in sorted(self._history.items())}

    @property
    def history_at(self) -> int | None:
        """The moment at which `history` is true; None as long as none was given."""
        return self._at

    def recall(self, history: Mapping[tuple[int, int, int], int], at: int) -> None:
        """Begin with a history that was kept, true at that moment."""
        for (queue, pool, resource), amount in history.items():
            self._remember(queue, pool * WIDTH + resource, amount)
        self._at = at

    def remember(self, queue: int, pool: int, held: Amount, started_at: int, ended_at: int) -> None:
        """Add what was held once to the history of a queue and all above it, as of the moment of `recall` or `advance`."""
        if self._at is None:
            raise ValueError("a history needs a moment: call `advance` or `recall` first")
        for place, amount in enumerate(held):
            lasting = left(amount, started_at, min(ended_at, self._at), self._at, self._half_life) if amount else 0
            for node in self.path[queue]:
                column = pool * WIDTH + place
                self._remember(node, column, self._history.get((node, column), 0) + lasting)

    def share(self, queue: int) -> int:
        """The weighted dominant share of a queue and all below it (see above), in billionths."""
        self.refresh()
        return self.share_then(queue)

    def share_then(self, queue: int) -> int:
        """The share as of the last `refresh`: for a caller that asks for many."""
        return max(self._parts[queue], default=0) + (WEIGHTLESS if self._weightless[queue] else 0)

    def own_share(self, queue: int) -> int:
        """The same for a queue's own jobs alone, at weight 1: its place among the queues below it, 0 where there are none. Of
        their history, as of the last `refresh`."""
        largest = 0
        if not self.children[queue]:
            return largest
        for column, own in enumerate(self._own):
            used, history = own[queue], self._own_history.get((queue, column), 0)
            if used or history:
                largest = max(largest, self._shared(used, max(0, history), self._capacity[column], 1))
        return largest

    def is_owed(self, queue: int) -> bool:
        """Whether a queue holds less than it deserves of something and more of nothing that it was promised."""
        less = False
        for column in self._promised[queue]:
            used, owed = self._used[column][queue], self._owed[column][queue]
            if used > owed:
                return False
            less = less or used < owed
        return less

    def refresh(self) -> None:
        """Bring the shares of what was moved up to date; once a history changed, all."""
        if self._history_changed:
            self._read_history()
        for pool, stale in enumerate(self._stale):
            if not stale:
                continue
            for column in range(pool * WIDTH, pool * WIDTH + WIDTH):
                used, weight, capacity = self._used[column], self._weight[column], self._capacity[column]
                for queue in stale:
                    amount, old = used[queue], self._history.get((queue, column), 0)
                    part = self._shared(amount, old, capacity, weight[queue]) if amount or old else 0
                    self._parts[queue][column] = part
            self._changed |= stale
            stale.clear()

    def _read_history(self) -> None:
        """Take from a changed history what all shares depend on. Costs the size of the tree, like `advance`."""
        history, parent = self._history, self.parent
        whole = (
            history.get((0, column), 0) * ONE // (capacity * SCALE) for column, capacity in enumerate(self._capacity) if capacity
        )
        given = max(whole, default=0)
        self._kept = self._kept_later if given else 0  # Without a history, exactly present use.
        self._level = faded(given * SCALE, ONE, self._kept)
        self._own_history = dict(history)
        for (queue, column), amount in history.items():
            if queue:
                above = (parent[queue], column)
                self._own_history[above] = self._own_history.get(above, 0) - amount
        for pool, stale in enumerate(self._stale):  # The level is in every share, and a history may have ended.
            stale.update(queue for queue, parts in enumerate(self._parts) if any(parts[pool * WIDTH : (pool + 1) * WIDTH]))
        for queue, column in history:
            self._stale[column // WIDTH].add(queue)
        self._history_changed = False

    def changed(self) -> set[int]:
        """The queues whose share may have changed since this was asked last: for the one fair order that follows."""
        self.refresh()
        changed, self._changed = self._changed, set()
        return changed

    def _shared(self, used: int, history: int, capacity: int, weight: int) -> int:
        """The share of one resource by present use and history (in 1/SCALE)."""
        later = faded(history, used, self._kept) * _FINE // self._level
        least = used * SCALE // AHEAD
        return self._part(later if later > least else least, capacity * SCALE, weight)

    @staticmethod
    def _part(amount: int, capacity: int, weight: int) -> int:
        if not amount:
            return 0
        if not weight:
            return WEIGHTLESS + amount * ONE // max(1, capacity)
        return amount * ONE // max(1, capacity * weight)
