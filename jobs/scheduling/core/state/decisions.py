"""What a pass decides, as values with their numbers. Queues, pools and machines are the numbers of `Shares` and `Machines`."""

from __future__ import annotations

from typing import NamedTuple

from jobs.scheduling.core.place.filters import Refusal as Filtered
from jobs.scheduling.core.place.gangs import Placed
from tenants.quota.shares import Standing


class Reason(NamedTuple):
    """Why a job waits: the first thing that refused it, on the pool where it came furthest, with what it needs and what is held.

    Its own: `held`, `dependency`, `not_before`, `image`, `budget`, ... (whatever the driver withholds it for, with its numbers in
    `need`, `held`, `limit`), `array_parallelism`. Limits: `ceiling` (of `queue`), `withheld` (idle, but kept for others'
    guarantees: `kept`), `capacity`. Shape: `no_pool`, `no_machine`, `no_room`, `not_together`, with `fitting` of `need` tasks
    placed, and `filters`. `booked`: there is room, but another's start is booked on it, `until` then. `brake`: it may take room
    back, but too many were evicted of late. `too_young`: whoever would have to leave has not run for long enough, `until` then.
    `user_cap`: its user would hold more of `what` (`gpu_millis`, `jobs`, `containers`) than one may in tenant `of`;
    `tenant_cap`: all users of that tenant together would. `behind`: the queue is served strictly in order, and one before it
    waits. `claim`: its room is being cleared by `need` others, `held` of whom go on elsewhere. `moving`: it was moved, its place
    is kept, and it starts there in a moment. `reserved`: what it needs is booked by a tenant from `since` to `until`: of `limit`
    in the pool `held` would be held by others, and `kept` is booked; `of` is the booking.
    """

    code: str
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
    of: str = ""  # The id of what the numbers are about; not for everybody's eyes.


class Admit(NamedTuple):
    """Start a gang on these machines now. `standing`: what of its queue's limits it runs on."""

    id: str
    placed: Placed
    standing: Standing


class Wait(NamedTuple):
    """A job waits, and with it `jobs` - 1 others of the same queue, ask and priority behind it, for the same reason.

    Told when the reason of the first of them changes; `Core.why` answers for each.
    """

    id: str
    reason: Reason
    jobs: int


class Evict(NamedTuple):
    """End a running gang so that another may start; it loses `cost` thousandths of GPU-seconds.

    With a `booking` it is for what a tenant has booked for a time that is about to begin, and `claimant` is empty. `to`: where it
    goes on at once; its room there is kept. `rebalances`: both borrow, and its queue holds the larger part.
    """

    id: str
    claimant: str
    cost: int
    booking: str = ""
    to: Placed | None = None
    rebalances: bool = False


class Claim(NamedTuple):
    """Once `victims` are gone, the job starts where it was placed; nobody else gets that room meanwhile."""

    id: str
    placed: Placed
    victims: tuple[str, ...]
    cost: int


class Book(NamedTuple):
    """The start that is promised to a waiting job: by `at`, on these machines.

    With a `cause` it takes the place of a reservation that was not kept, `at` 0 if by none: `yielded` (who was owed the room, or
    stands higher in the same queue, took it), `machine` (one is lost), `overrun` (somebody stayed longer than it may), `limits`
    (lowered), `changed` (the job asks for something else now, or may not start).
    """

    id: str
    at: int
    machines: tuple[int, ...]
    cause: str = ""
    is_sure: bool = True


Decision = Admit | Wait | Evict | Claim | Book
