"""Decisions of a pass, as values. Queues, pools and machines are the numbers of `Shares` and `Machines`."""

from __future__ import annotations

from typing import NamedTuple

from jobs.scheduling.core.place.filters import Refusal as Filtered
from jobs.scheduling.core.place.gangs import Placed
from kernel.wait_codes import WaitCode
from tenants.capacity.quota.shares import Standing


class WaitReason(NamedTuple):
    """Why a job waits: the first thing that refused it, in the pool where it came furthest, with what it needs and what is held.

    Of the job itself: `held`, `dependency`, `not_before`, `image`, `budget`, ... (what the driver withholds it for, with numbers
    in `need`, `held`, `limit`), `array_parallelism`. Limits: `ceiling` (of `queue`), `withheld` (idle, but kept for guarantees of
    other queues: `kept`), `capacity`. Shape: `no_pool`, `no_machine`, `no_room`, `not_together`, with `fitting` of `need` tasks
    placed, and `filters`. `backfill_reservation`: there is room, but the start of another job is reserved on it, at `until`.
    `brake`: it may take room back, but too many gangs were evicted recently. `too_young`: its possible victims have not run for
    long enough until `until`. `user_cap`: its user would hold more of `what` (`gpu_millis`, `jobs`, `containers`) than a user may
    in tenant `of`; `tenant_cap`: all users of that tenant together would. `behind`: the queue is served strictly in order, and an
    earlier job waits. `claim`: its room is being cleared by `need` victims, `held` of which go on elsewhere. `moving`: it was
    moved, its place is kept, and it starts there in a moment. `advance_reservation`: what it needs is booked by a tenant from
    `since` to `until`: of `limit` in the pool `held` would be held by other work, and `kept` is booked; `of` is the booking.
    """

    code: WaitCode
    pool: int = -1
    queue: int = -1
    resource: int = -1
    need: int = 0
    held: int = 0
    limit: int = 0
    kept: int = 0
    fitting: int = 0
    until: int = 0
    filters: tuple[Filtered, ...] = ()
    since: int = 0
    what: str = ""
    of: str = ""  # The id of the tenant or booking; not shown to all users.


class Admit(NamedTuple):
    """Start a gang on these machines now. `standing`: which of its queue's limits it runs on."""

    id: str
    placed: Placed
    standing: Standing


class Wait(NamedTuple):
    """A job waits, and with it `jobs` - 1 others of the same queue, ask and priority behind it, for the same reason.

    Decided when the reason of the first of them changes; `Core.why` answers for each.
    """

    id: str
    reason: WaitReason
    jobs: int


class Evict(NamedTuple):
    """End a running gang so that another may start; it loses `cost` thousandths of GPU-seconds.

    With a `booking` it leaves for a booking that is about to begin, and `claimant` is empty. `to`: where it goes on at once; its
    room there is kept. `rebalances`: both queues borrow, and its queue holds the larger part.
    """

    id: str
    claimant: str
    cost: int
    booking: str = ""
    to: Placed | None = None
    rebalances: bool = False


class Claim(NamedTuple):
    """Once `victims` are gone, the job starts where it was placed; no other job gets that room meanwhile."""

    id: str
    placed: Placed
    victims: tuple[str, ...]
    cost: int


class Reserve(NamedTuple):
    """The start that is reserved for a waiting job: by `at`, on these machines.

    With a `cause` it replaces a reservation that was not kept; `at` 0: by none. Causes: `yielded` (a job that was owed the room,
    or has a higher priority in the same queue, took it), `machine` (one is lost), `overrun` (a gang stayed longer than planned),
    `limits` (lowered), `changed` (the job asks for something else now, or may not start). `by`: the job that took it, where that
    stands above it; a start that yielded to no such job was broken.
    """

    id: str
    at: int
    machines: tuple[int, ...]
    cause: str = ""
    is_sure: bool = True
    by: str = ""


Decision = Admit | Wait | Evict | Claim | Reserve
