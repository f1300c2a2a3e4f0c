"""Which shard of a queue is done, failed, waiting or in whose hands: rules alone, without HTTP, files or a clock of their own.

Sent along with a job, so it imports the standard library only and runs on Python 3.7."""

from __future__ import annotations

import secrets
import statistics
from collections import deque
from collections.abc import Callable, Sequence

BATCH_MAX = 64
SLOW_SECONDS = 0.5  # What is quicker is never run twice.
SLOW_FACTOR = 2.0  # Of the median: longer at one shard is slow.
WAITING, DONE, FAILED = 0, 1, 2


class ShardLease:
    """One shard in the hands of one worker."""

    def __init__(self, token: str, index: int, holder: ShardHolder, now: float, seconds: float) -> None:
        self.token, self.index, self.holder = token, index, holder
        self.began = now
        self.until = now + seconds


class ShardHolder:
    """A worker, from its start until its program starts again."""

    def __init__(self, name: str, session: str, now: float) -> None:
        self.name, self.session = name, session
        self.leases: dict[str, ShardLease] = {}  # in the order in which it works at them.
        self.seen = self.mark = now  # `mark`: since when it is at the first of them.


class Shards:
    """What is done, failed, waiting or in whose hands. Knows neither HTTP nor files; the clock is given."""

    def __init__(
        self,
        lines: Sequence[str],
        now: Callable[[], float],
        *,
        lease_seconds: float = 60.0,
        tries: int = 3,
        copies: bool = True,
        done: Sequence[int] = (),
        deal: Sequence[str] = (),
    ) -> None:
        self.lines = lines
        self.lease_seconds = lease_seconds
        self.failed = 0
        self.holders: dict[str, ShardHolder] = {}
        self._now, self._tries, self._copies = now, tries, copies
        self._state = bytearray(len(lines))
        self._charged: dict[int, int] = {}
        self._winner: dict[int, str] = {}
        self._leases: dict[str, ShardLease] = {}
        self._hands: dict[int, list[ShardLease]] = {}
        self._durations: deque[float] = deque(maxlen=101)
        self._serial = 0
        self._life = secrets.token_hex(4)
        for index in done:
            self._state[index] = DONE
        self.done = self.done_before = len(done)
        left = [index for index in range(len(lines)) if self._state[index] == WAITING]
        self._waiting: deque[int] = deque() if deal else deque(left)
        self._dealt: dict[str, deque[int]] = {name: deque() for name in deal}
        self._owner: dict[int, str] = {}
        for index in left if deal else ():
            self._owner[index] = deal[index % len(deal)]
            self._dealt[self._owner[index]].append(index)
        self._deal_sizes = {name: len(part) for name, part in self._dealt.items()}
        self._deal_done = dict.fromkeys(self._dealt, 0)

    @property
    def total(self) -> int:
        return len(self.lines)

    @property
    def is_over(self) -> bool:
        return self.done + self.failed == self.total

    @property
    def leased(self) -> int:
        return len(self._leases)

    def failures(self) -> list[int]:
        return [index for index, state in enumerate(self._state) if state == FAILED]

    # --- What a worker does ------------------------------------------------------------------------------------------

    def hello(self, name: str, session: str) -> ShardHolder:
        """The holder of this name. With another session than before its program has started again, and holds nothing."""
        holder = self.holders.get(name)
        if holder is None or holder.session != session:
            if holder is not None:
                self._lose(list(holder.leases.values()))
            holder = self.holders[name] = ShardHolder(name, session, self._now())
        holder.seen = self._now()
        return holder

    def take(self, holder: ShardHolder, count: int) -> list[ShardLease]:
        """ShardLease up to so many shards: fewer near the end, and then what a slow worker has."""
        own = self._dealt.get(holder.name, ())
        left = len(own) or len(self._waiting)
        count = min(count, BATCH_MAX, max(1, left // (2 * (1 if own else len(self.holders)))))
        taken: list[ShardLease] = []
        while len(taken) < count:
            index = self._next(holder)
            if index is None:
                break
            taken.append(self._lease(holder, index))
        if not taken and count > 0 and not holder.leases and self._copies:
            index = self._from_slow(holder)
            taken = [] if index is None else [self._lease(holder, index)]
        return taken

    def keep(self, holder: ShardHolder, tokens: Sequence[str]) -> None:
        """Give back what the worker does not know of: the answer that leased it was lost on its way."""
        self.give_back([token for token in holder.leases if token not in set(tokens)])

    def renew(self, tokens: Sequence[str]) -> list[str]:
        """Lengthen these leases; those that are none any more come back: their shards need no work."""
        until = self._now() + self.lease_seconds
        for token in tokens:
            if token in self._leases:
                self._leases[token].until = until
        return [token for token in tokens if token not in self._leases]

    def finish(self, tokens: Sequence[str]) -> tuple[list[int], list[str]]:
        """Count these results: the shards done by them, and the tokens for whose shard another result was counted before.

        A result counts, too, where its lease has run out meanwhile: it is one."""
        counted, late = [], []
        indexes = [(token, self._index_of(token)) for token in tokens]
        self._measure([self._leases[token] for token in tokens if token in self._leases])
        for token, index in indexes:
            if index is None or (self._state[index] == DONE and self._winner.get(index) != token):
                late.append(token)
            elif self._state[index] != DONE:
                self._count(index, token)
                counted.append(index)
        return counted, late

    def fail(self, tokens: Sequence[str]) -> None:
        """These tries failed. One that has no lease any more has been judged before."""
        for token in tokens:
            if token in self._leases:
                lease = self._leases[token]
                lease.holder.mark = self._now()
                self._let_go(lease)
                self._charge(lease.index)

    def give_back(self, tokens: Sequence[str]) -> None:
        """What a worker that is stopped has not done; no try is lost."""
        for lease in [self._leases[token] for token in reversed(tokens) if token in self._leases]:
            self._let_go(lease)
            self._wait_again(lease.index, first=True)

    def leave(self, holder: ShardHolder) -> None:
        """The worker goes."""
        self.give_back(list(holder.leases))
        if self.holders.get(holder.name) is holder:
            del self.holders[holder.name]

    def expire(self) -> None:
        """Take away leases that were not renewed; forget workers that hold nothing and say nothing."""
        now = self._now()
        for holder in list(self.holders.values()):
            self._lose([lease for lease in holder.leases.values() if lease.until <= now])
            if not holder.leases and holder.seen + 2 * self.lease_seconds < now:
                del self.holders[holder.name]

    # --- Where shards go ---------------------------------------------------------------------------------------------

    def _next(self, holder: ShardHolder) -> int | None:
        """A waiting shard: of the worker's own part, of those that came back, of the part with most left."""
        index = self._waiting_in(self._dealt.get(holder.name), last=False)
        if index is None:
            index = self._waiting_in(self._waiting, last=False)
        while index is None and self._dealt:
            longest = max(self._dealt.values(), key=len)
            if not longest:
                break
            index = self._waiting_in(longest, last=True)
        return index

    def _waiting_in(self, part: deque[int] | None, *, last: bool) -> int | None:
        """The first or last shard of this part that still waits."""
        while part:
            index = part.pop() if last else part.popleft()
            if self._state[index] == WAITING and index not in self._hands:
                return index
        return None

    def _from_slow(self, taker: ShardHolder) -> int | None:
        """A shard of the worker that is longest at one: one that it has not begun moves; one that it is at is shared with it."""
        slow = max(SLOW_SECONDS, SLOW_FACTOR * statistics.median(self._durations) if self._durations else 0.0)
        at_one = {holder.name: self._seconds_at(holder) for holder in self.holders.values() if holder is not taker}
        names = sorted((name for name, seconds in at_one.items() if seconds > slow), key=lambda name: -at_one[name])
        for name in names:
            not_begun = list(self.holders[name].leases.values())[1:]
            if not_begun:
                self._let_go(not_begun[-1])
                return None if not_begun[-1].index in self._hands else not_begun[-1].index
        for name in names:
            [lease] = self.holders[name].leases.values()
            if len(self._hands[lease.index]) == 1:
                return lease.index
        return None

    def _seconds_at(self, holder: ShardHolder) -> float:
        """How long it is at its first shard."""
        for lease in holder.leases.values():
            return self._now() - max(holder.mark, lease.began)
        return 0.0

    def _lease(self, holder: ShardHolder, index: int) -> ShardLease:
        self._serial += 1
        lease = ShardLease(f"{self._life}-{index}-{self._serial}", index, holder, self._now(), self.lease_seconds)
        self._leases[lease.token] = holder.leases[lease.token] = lease
        self._hands.setdefault(index, []).append(lease)
        return lease

    def tries_of(self, index: int) -> int:
        """Which try the next one is, from 1."""
        return self._charged.get(index, 0) + 1

    def _let_go(self, lease: ShardLease) -> None:
        del self._leases[lease.token]
        del lease.holder.leases[lease.token]
        hands = self._hands[lease.index]
        hands.remove(lease)
        if not hands:
            del self._hands[lease.index]

    def _lose(self, leases: Sequence[ShardLease]) -> None:
        """Take these from a worker. It worked at its first one, which may have been what ended it: that lost a try."""
        for lease in reversed(leases):
            is_first = next(iter(lease.holder.leases)) == lease.token
            self._let_go(lease)
            if is_first:
                self._charge(lease.index)
            else:
                self._wait_again(lease.index, first=True)

    def _charge(self, index: int) -> None:
        self._charged[index] = self._charged.get(index, 0) + 1
        if self._charged[index] < self._tries:
            self._wait_again(index)
        elif index not in self._hands and self._state[index] == WAITING:
            self._state[index] = FAILED
            self.failed += 1

    def _wait_again(self, index: int, *, first: bool = False) -> None:
        if self._state[index] == WAITING and index not in self._hands:
            if self._charged.get(index, 0) >= self._tries:
                self._state[index] = FAILED
                self.failed += 1
            elif first:
                self._waiting.appendleft(index)
            else:
                self._waiting.append(index)

    # --- Results -----------------------------------------------------------------------------------------------------

    def _index_of(self, token: str) -> int | None:
        life, _, rest = token.partition("-")
        index = rest.partition("-")[0]
        return int(index) if life == self._life and index.isdigit() and int(index) < self.total else None

    def _count(self, index: int, token: str) -> None:
        if self._state[index] == FAILED:
            self.failed -= 1
        self._state[index] = DONE
        self._winner[index] = token
        self.done += 1
        owner = self._owner.get(index)
        if owner is not None and token in self._leases and self._leases[token].holder.name == owner:
            self._deal_done[owner] += 1
        for lease in list(self._hands.get(index, ())):
            if lease.token != token:
                lease.holder.mark = self._now()  # It stops that work, and begins the next.
            self._let_go(lease)

    def _measure(self, leases: Sequence[ShardLease]) -> None:
        """How long a shard takes, by the time between two reports."""
        if leases:
            holder, now = leases[0].holder, self._now()
            each = (now - max(holder.mark, min(lease.began for lease in leases))) / len(leases)
            self._durations.extend([each] * min(len(leases), 8))
            holder.mark = now

    def stragglers(self) -> dict[str, tuple[int, int, int, int]]:
        """Workers that are at less than half of what the median is at, once that is at half of its part: done and size of their
        own part, and of the median's."""
        parts = sorted((self._deal_done[name] / size, name) for name, size in self._deal_sizes.items() if size)
        if len(parts) < 2:
            return {}
        half, median = parts[len(parts) // 2]
        return {
            name: (self._deal_done[name], self._deal_sizes[name], self._deal_done[median], self._deal_sizes[median])
            for share, name in parts
            if half >= 0.5 and share < half / 2
        }
