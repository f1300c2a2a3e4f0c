"""The database as the scheduler sees it: pools, machines, queues, jobs, as one `State` with names behind its numbers.

The driver reads it whole when it begins to lead and then keeps it up to date; a question ("why does it wait", "what if") reads it
whole and throws it away. Both go through here, so both see the same.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple, Protocol

from clusters.engines.interface import ImageKind
from clusters.selectors import pools_and_nodes
from clusters.services.quarantine import Holds, current_holds
from images.lifecycle import ImageState
from images.services import ResolvedImage, resolved_images
from jobs.lifecycle.states import ATTEMPT_LIFECYCLE, AttemptState, CheckpointGate, JobState
from jobs.loading import memory
from jobs.loading.memory import Memory, Numbered
from jobs.loading.specs import load_spec, wish_of, wishes
from jobs.models import Attempt, Job, Task
from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.eligibility import Eligible, PoolView, Refusal, Wish, eligible
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.place.scores import PoolRules
from jobs.scheduling.core.snapshot import Held, Pool, State
from jobs.scheduling.core.state import work
from jobs.scheduling.core.state.decisions import Reason
from jobs.selectors.places import expected_seconds, moved_by
from jobs.selectors.pools import machines_of, rules_of, views_of
from kernel.config import current
from kernel.errors import InvalidInput
from kernel.resources import Resources
from reconciling import poison
from storage.services.mounts import volumes_meant
from tenants.budgets import Spent, budget_refusal, spent_budgets
from tenants.capacity import booked_of, capacities_of, held_bookings, limits_tree, tenant_paths, user_cap_lines
from tenants.quota.accounting import mark
from tenants.quota.bookings import Booked
from tenants.quota.caps import UserCap
from tenants.quota.limits import Capacity, LimitedQueue, amount_of
from tenants.quota.shares import Shares
from tenants.standing import Disabled, disabled_tenants

SCHEDULE = "jobs.schedule"
"""The duty under which a job that breaks the scheduling is counted as poison."""
LOAD_ROWS = 2_000
CHECKPOINT_REFUSALS = frozenset({"checkpoint_unreadable", "checkpoint_over_quota"})
MOVING = "moving_away"  # Why a job stops that goes on elsewhere at once.
OVERRUN_SECONDS = 30  # From the end of the grace until what ran has let go of its machines, and we know.
Shared = dict[Any, Any]


class PendingRow(NamedTuple):
    """The columns of a waiting job, in the order of the query."""

    id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    spec_id: uuid.UUID
    image_id: uuid.UUID | None
    image_kind: str
    image_digest: str
    parent_id: uuid.UUID | None
    hold: bool
    not_before_at: datetime | None
    open_dependencies: int
    attempt_count: int
    reason_code: str
    reason_detail: Mapping[str, Any]
    user_id: uuid.UUID
    max_runtime_seconds: int | None
    submitted_at: datetime
    placed_at: datetime | None
    checkpoint: str | None
    name: str = ""
    gpu_millis: int = 0
    predicted_seconds: int | None = None
    cautious_seconds: int | None = None


_DETAIL = PendingRow._fields.index("reason_detail") - 1  # Behind the id.


class LiveRow(NamedTuple):
    """The columns of a live attempt, which holds what its tasks ask for until it has ended."""

    attempt_id: uuid.UUID
    job_id: uuid.UUID
    state: str
    pool_id: uuid.UUID
    cluster_id: uuid.UUID
    tenant_id: uuid.UUID
    queue_id: uuid.UUID
    priority: int
    parent_id: uuid.UUID | None
    user_id: uuid.UUID
    spec_id: uuid.UUID
    max_runtime_seconds: int | None
    submitted_at: datetime
    created_at: datetime
    started_at: datetime | None
    evicted_for: uuid.UUID | None
    reason_code: str  # Of the job: whether the room that it is leaving for another is all that it loses.
    checkpoint: str | None = None  # None: the platform keeps no directory for it.
    predicted_seconds: int | None = None
    cautious_seconds: int | None = None

    @property
    def moves(self) -> bool:
        """Whether it goes on elsewhere once it has left."""
        return self.evicted_for is not None and self.reason_code == MOVING


class LiveTask(NamedTuple):
    attempt_id: uuid.UUID
    role: str
    number: int
    node_name: str
    amount: Resources
    gpus: tuple[str, ...] = ()  # As the engine calls them; empty until it has said.


@dataclass(frozen=True, slots=True)
class Numbers:
    """What the scheduler's numbers stand for. Equal ones mean the same of every number."""

    pools: tuple[uuid.UUID, ...]
    queues: tuple[uuid.UUID | None, ...]
    machines: tuple[tuple[int, str], ...]  # Pool and name.
    pool_at: Mapping[uuid.UUID, int] = field(compare=False)
    queue_at: Mapping[uuid.UUID, int] = field(compare=False)
    machine_at: Mapping[tuple[int, str], int] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Around:
    """All but jobs that a pass looks at."""

    pools: tuple[PoolView, ...]
    machines: tuple[Machine, ...]
    queues: tuple[LimitedQueue, ...]
    capacities: tuple[Capacity, ...]
    holds: Holds
    spent: Mapping[uuid.UUID, Spent]  # Budgets that keep new jobs waiting, by queue.
    rules: Mapping[int, PoolRules]  # How pools are filled.
    tenant_paths: Mapping[uuid.UUID, tuple[uuid.UUID, ...]]  # Each tenant and all above it, nearest first.
    caps: tuple[UserCap, ...]
    windows: tuple[Booked, ...]  # Bookings of tenants that hold or will.
    disabled: Mapping[uuid.UUID, Disabled]  # Tenants in which nothing starts.

    def numbers(self) -> Numbers:
        shares = Shares(self.queues, self.capacities)
        machines = tuple((one.pool, one.name) for one in self.machines)
        pools = tuple(pool.id for pool in self.pools)
        return Numbers(
            pools,
            shares.queue_ids,
            machines,
            {pool_id: number for number, pool_id in enumerate(pools)},
            shares.queue_at,
            {key: number for number, key in enumerate(machines)},
        )

    def queue_names(self) -> dict[uuid.UUID, str]:
        return {queue.id: queue.name for queue in self.queues}


@dataclass(slots=True)
class Judge:
    """What becomes of a waiting job before anybody asks for room: where it may go, and what withholds it, with memory of both."""

    around: Around
    numbers: Numbers
    images: Mapping[uuid.UUID, ResolvedImage]
    struck: Collection[uuid.UUID]
    parallelism: Mapping[uuid.UUID, int]  # By array, where it bounds how many of its children run.
    now: datetime
    held: Collection[str] = frozenset()  # Digests and volumes that some machine has already.
    volumes: Mapping[tuple[uuid.UUID, str], uuid.UUID | None] = field(default_factory=dict)  # By tenant and name.
    _eligible: dict[tuple[Wish, uuid.UUID, str], Eligible] = field(default_factory=dict)
    _over: dict[uuid.UUID, Refusal | None] = field(default_factory=dict)
    _parents: dict[uuid.UUID, uuid.UUID | None] = field(default_factory=dict)

    def job(self, row: PendingRow, wish: Wish) -> tuple[work.Job, Refusal | None]:
        """The job as the core takes it, and what withholds it."""
        where = self._where(wish, row)
        withheld = self._withheld(row)
        if withheld is None and not where.pools:
            withheld = where.refusal
        return (
            work.Job(
                id=str(row.id),
                queue=self.numbers.queue_at[row.queue_id],
                gang=self.near(row, wish),
                pools=where.pools,
                submitted_at=mark(row.submitted_at),
                priority=row.priority,
                order=moved_by(row),
                max_runtime=row.max_runtime_seconds,
                predicted=expected_seconds(row),
                cautious=row.cautious_seconds,
                user=row.user_id,
                tenants=self.around.tenant_paths.get(row.tenant_id, (row.tenant_id,)),
                withheld=None if withheld is None else Reason(withheld[0]),
                array=str(row.parent_id) if row.parent_id in self.parallelism else "",
                parallel=self.parallelism.get(row.parent_id, 0) if row.parent_id is not None else 0,
                checkpoint_seconds=wish.checkpoint_seconds,
            ),
            withheld,
        )

    def near(self, row: PendingRow, wish: Wish) -> GangAsk:
        """The gang with what it would rather find in place; what no machine has is not worth telling its equals apart."""
        image = digest if (digest := digest_of(row, self.images)) in self.held else ""
        data = frozenset(one for one in volumes_of(row, wish, self.volumes) if one in self.held)
        return _with_contents(wish.gang, image, data) if image or data else wish.gang

    def _where(self, wish: Wish, row: PendingRow) -> Eligible:
        key = (wish, row.tenant_id, row.image_kind)
        found = self._eligible.get(key)
        if found is None:
            found = self._eligible[key] = eligible(wish, row.tenant_id, row.image_kind, self.around.pools)
        return found

    def _withheld(self, row: PendingRow) -> Refusal | None:
        """Reasons that are the job's own, before any limit is asked."""
        held = self.around.holds.why(row.id, row.submitted_at, row.attempt_count + 1)
        if held is not None:
            return held
        if row.id in self.struck:
            return "set_aside", {}
        if row.checkpoint == CheckpointGate.REFUSED:
            told = row.reason_code if row.reason_code in CHECKPOINT_REFUSALS else "checkpoint_unreadable"
            return told, row.reason_detail if told == row.reason_code else {}
        disabled = self.around.disabled.get(row.tenant_id)
        if disabled is not None:
            return "tenant_disabled", disabled.as_detail()
        if row.hold:
            return "held", {}
        if row.open_dependencies:
            return "dependency", {"open": row.open_dependencies}
        if row.not_before_at is not None and row.not_before_at > self.now:
            return "not_before", {"at": row.not_before_at.isoformat()}
        if row.checkpoint == CheckpointGate.CHECKING:
            return "checkpoint_checking", {}
        image = self.images.get(row.image_id) if row.image_id is not None else None
        if image is not None and image.state != ImageState.READY:
            return "image_building", {}
        return self._over_budget(row.queue_id) if self.around.spent else None

    def _over_budget(self, queue_id: uuid.UUID) -> Refusal | None:
        """Why no job of a queue may start this month."""
        if queue_id not in self._over:
            if not self._parents:
                self._parents = {queue.id: queue.parent_id for queue in self.around.queues}
            path, here = [], queue_id
            while True:
                path.append(here)
                above = self._parents.get(here)
                if above is None:
                    break
                here = above
            refusal = budget_refusal(path, self.around.spent)
            self._over[queue_id] = None if refusal is None else ("budget", refusal.as_dict())
        return self._over[queue_id]


def digest_of(row: PendingRow, images: Mapping[uuid.UUID, ResolvedImage]) -> str:
    """Of the image that has to be brought to a machine; every machine has its own programs."""
    if row.image_kind == ImageKind.HOST:
        return ""
    image = images.get(row.image_id) if row.image_id is not None else None
    return image.digest if image is not None else row.image_digest


def volumes_of(row: PendingRow, wish: Wish, volumes: Mapping[tuple[uuid.UUID, str], uuid.UUID | None]) -> list[str]:
    """The volumes that a job mounts, by id."""
    found = (volumes.get((row.tenant_id, name)) for name in wish.mounts)
    return [str(volume_id) for volume_id in found if volume_id is not None]


def load_volumes(
    wanted: Iterable[tuple[PendingRow, Wish]], known: Mapping[tuple[uuid.UUID, str], uuid.UUID | None]
) -> dict[tuple[uuid.UUID, str], uuid.UUID | None]:
    """Which volumes jobs mount, of those that are not known yet; None for a name that means nothing (any more)."""
    unknown = {(row.tenant_id, name) for row, wish in wanted for name in wish.mounts} - known.keys()
    return {**dict.fromkeys(unknown), **volumes_meant(unknown)} if unknown else {}


@lru_cache(maxsize=10_000)
def _with_contents(gang: GangAsk, image: str, data: frozenset[str]) -> GangAsk:
    return replace(gang, roles=tuple(replace(role, image=image, data=data) for role in gang.roles))


@dataclass(frozen=True, slots=True)
class Loaded:
    """A whole state, and what its numbers and ids stand for. `withheld`: the amounts of reasons that are a job's own."""

    state: State
    around: Around
    numbers: Numbers
    rows: Mapping[str, PendingRow]
    withheld: Mapping[str, Refusal]
    attempts: Mapping[str, uuid.UUID]  # By job, the attempt that holds what it holds.


def load_state(now: datetime) -> Loaded:
    """All that the scheduler goes by at this moment, read at once, for questions. About ten queries and two a thousand jobs."""
    rows = list(load_pending({}))
    live = load_live()
    around = look_around(now, tenants_of(live))
    numbers = around.numbers()
    images = resolved_images({row.image_id for row in rows if row.image_id is not None})
    asked = load_wishes(row.spec_id for row in rows)
    volumes = load_volumes(((row, asked[row.spec_id]) for row in rows if row.spec_id in asked), {})
    held = frozenset[str]().union(*(one.images | one.data for one in around.machines))
    struck, parallelism = poison.strikes(SCHEDULE).keys(), load_parallelism(rows, live)
    judge = Judge(around, numbers, images, struck, parallelism, now, held, volumes)
    started = {row.job_id for row in live}  # Read later than those that wait: who started meanwhile waits no longer.
    waiting, withheld, kept = [], {}, {}
    for row in rows:
        wish = asked.get(row.spec_id) or _readable(row.spec_id)
        if row.queue_id not in numbers.queue_at or row.id in started or wish is None:
            continue
        job, why = judge.job(row, wish)
        waiting.append(job)
        kept[job.id] = row
        if why is not None:
            withheld[job.id] = why
    state = make_state(around, numbers, waiting, live, judge.parallelism, now, memory.load())
    return Loaded(state, around, numbers, kept, withheld, {str(row.job_id): row.attempt_id for row in live})


def _readable(spec_id: uuid.UUID) -> Wish | None:
    """None for a spec that nobody can read: the pass sets its job aside and says so, and the others get their answers."""
    with contextlib.suppress(InvalidInput, ValueError):
        return wish_of(load_spec(spec_id))
    return None


def make_state(
    around: Around,
    numbers: Numbers,
    waiting: Iterable[work.Job],
    live: Sequence[LiveRow],
    parallelism: Mapping[uuid.UUID, int],
    now: datetime,
    known: Memory,
) -> State:
    held = held_of(live, load_tasks([row.attempt_id for row in live]), numbers, around, parallelism)
    numbered = Numbered(numbers.pool_at, numbers.machine_at)
    return State(
        at=mark(now),
        pools=tuple(Pool(pool.id, pool.name, around.rules.get(number)) for number, pool in enumerate(around.pools)),
        machines=around.machines,
        queues=around.queues,
        capacities=around.capacities,
        waiting=tuple(waiting),
        running=(*held, *_undecided(around, numbers)),
        policy=policy(),
        caps=around.caps,
        windows=around.windows,
        history=known.by_number(numbers.queue_at, numbers.pool_at),
        history_at=known.history_at,
        evicted_at=known.evicted_at,
        reserved=numbered.starts(known.under_way),
        claims=numbered.claims(known.under_way),
    )


def policy() -> Policy:
    """How this installation wants its queues served."""
    config = current()
    return Policy(
        in_order=config.scheduler_in_order,
        reclaims=config.scheduler_reclaims,
        preempts=config.scheduler_preempts,
        least_runtime_seconds=round(config.scheduler_least_runtime_seconds),
        reclaim_least_runtime_seconds=round(config.scheduler_reclaim_least_runtime_seconds),
        patience_seconds=round(config.scheduler_patience_seconds),
        assumed_runtime_seconds=round(config.scheduler_assumed_runtime_seconds),
        shortest_first=config.scheduler_shortest_first,
        backfill_depth=config.scheduler_backfill_depth,
        grace_seconds=round(config.grace_seconds),
        overrun_seconds=round(config.grace_seconds) + OVERRUN_SECONDS,
        rebalances=config.scheduler_rebalances,
        migrations=config.scheduler_migrations,
        migrates_after_seconds=round(config.scheduler_migrates_after_seconds),
    )


# --- Reading ----------------------------------------------------------------------------------------------------------


def look_around(now: datetime, tenants: Mapping[uuid.UUID, set[uuid.UUID]]) -> Around:
    """Pools, machines, queues with their limits, holds, spent budgets and disabled tenants. `tenants`: who runs on each cluster.
    Nine queries."""
    pools, nodes = pools_and_nodes()
    machines = machines_of(pools, nodes)
    return Around(
        views_of(pools, tenants),
        machines,
        limits_tree().queues,
        capacities_of(pools, nodes),
        current_holds(),
        spent_budgets(now),
        rules_of(pools, machines),
        tenant_paths(),
        user_cap_lines(),
        tuple(sorted(map(booked_of, held_bookings(now)), key=lambda one: (one.starts_at, str(one.id)))),
        disabled_tenants(),
    )


def load_pending(shared: Shared, **condition: Any) -> Iterable[PendingRow]:
    """Waiting jobs as rows. Values that many rows have in common are kept once: they are most of a row's memory."""
    rows = (
        Job.objects.filter(state=JobState.QUEUED, desired="run", array_size__isnull=True, **condition)
        .order_by("id")
        .values_list(*PendingRow._fields)
    )
    keep = shared.setdefault
    for job_id, *values in rows.iterator(chunk_size=LOAD_ROWS):
        detail = values[_DETAIL]
        values[_DETAIL] = None
        common = [keep(value, value) if isinstance(value, (uuid.UUID, str, datetime)) else value for value in values]
        common[_DETAIL] = keep(("detail", json.dumps(detail, sort_keys=True)), detail)
        yield PendingRow(job_id, *common)


LIVE_COLUMNS = (
    "id", "job_id", "state", "pool_id", "cluster_id", "tenant_id", "job__queue_id", "job__priority", "job__parent_id",
    "job__user_id", "job__spec_id", "job__max_runtime_seconds", "job__submitted_at", "created_at", "started_at", "evicted_for",
    "job__reason_code", "job__checkpoint", "job__predicted_seconds", "job__cautious_seconds",
)  # fmt: skip


def load_live(**condition: Any) -> list[LiveRow]:
    """The attempts that hold machines. What is being stopped does so until it has ended."""
    rows = Attempt.objects.filter(state__in=ATTEMPT_LIFECYCLE.live_states, **condition).order_by("job_id")
    return [LiveRow(*row) for row in rows.values_list(*LIVE_COLUMNS)]


def load_tasks(attempt_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, list[LiveTask]]:
    """The tasks of these attempts, in order. One query for 500."""
    found: dict[uuid.UUID, list[LiveTask]] = {}
    for start in range(0, len(attempt_ids), 500):
        rows = Task.objects.filter(attempt_id__in=attempt_ids[start : start + 500]).order_by("attempt_id", "role", "index")
        columns = ("attempt_id", "role", "index", "node_name", "gpus", "cpu_millis", "memory_bytes", "gpu_millis")
        for attempt_id, role, index, node, gpus, *amounts in rows.values_list(*columns):
            found.setdefault(attempt_id, []).append(LiveTask(attempt_id, role, index, node, Resources(*amounts), tuple(gpus)))
    return found


def load_wishes(spec_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Wish]:
    return wishes(set(spec_ids))


def load_parallelism(rows: Iterable[PendingRow], live: Iterable[LiveRow]) -> dict[uuid.UUID, int]:
    """How many children of each array may run, where it says. One query for 500 arrays."""
    waiting, running = {row.parent_id for row in rows}, {row.parent_id for row in live}
    parents = sorted(parent for parent in waiting | running if parent is not None)
    found: dict[uuid.UUID, int] = {}
    for start in range(0, len(parents), 500):
        bounded = Job.objects.filter(id__in=parents[start : start + 500], array_parallelism__isnull=False)
        found.update((parent, bound) for parent, bound in bounded.values_list("id", "array_parallelism") if bound is not None)
    return found


def tenants_of(live: Iterable[LiveRow]) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Who runs on each cluster."""
    found: dict[uuid.UUID, set[uuid.UUID]] = {}
    for row in live:
        found.setdefault(row.cluster_id, set()).add(row.tenant_id)
    return found


# --- What runs --------------------------------------------------------------------------------------------------------


def held_of(
    live: Sequence[LiveRow],
    tasks: Mapping[uuid.UUID, Sequence[LiveTask]],
    numbers: Numbers,
    around: Around,
    parallelism: Mapping[uuid.UUID, int],
) -> list[Held]:
    """What runs, with the devices of each machine handed out in order: whole devices of one machine are alike."""
    devices, paths = Devices(around.machines), around.tenant_paths
    asked = load_wishes(row.spec_id for row in live)
    found = (
        one_held(row, tasks.get(row.attempt_id, ()), asked.get(row.spec_id), numbers, devices, parallelism, paths) for row in live
    )
    return [held for held in found if held is not None]


def one_held(
    row: LiveRow,
    tasks: Sequence[LiveTask],
    wish: Wish | None,
    numbers: Numbers,
    devices: Hands,
    parallelism: Mapping[uuid.UUID, int],
    tenant_paths: Mapping[uuid.UUID, tuple[uuid.UUID, ...]],
) -> Held | None:
    """A live attempt, with its gang for when it has to wait again; None where its pool or queue is not known any more."""
    pool = numbers.pool_at.get(row.pool_id)
    if pool is None or row.queue_id not in numbers.queue_at:
        return None
    whole, placed = Resources(), []
    for task in tasks:
        whole += task.amount
        machine = numbers.machine_at.get((pool, task.node_name))
        if machine is not None:
            ask = TaskAsk(task.amount.cpu_millis, task.amount.memory_bytes, task.amount.gpu_millis)
            placed.append(PlacedTask(task.role, task.number, machine, ask, devices.next(machine, ask, task.gpus)))
    job = work.Job(
        id=str(row.job_id),
        queue=numbers.queue_at[row.queue_id],
        gang=wish.gang if wish is not None else NO_GANG,
        pools=(pool,),
        submitted_at=mark(row.submitted_at),
        priority=row.priority,
        max_runtime=row.max_runtime_seconds,
        predicted=expected_seconds(row),
        cautious=row.cautious_seconds,
        user=row.user_id,
        tenants=tenant_paths.get(row.tenant_id, (row.tenant_id,)),
        array=str(row.parent_id) if row.parent_id in parallelism else "",
        parallel=parallelism.get(row.parent_id, 0) if row.parent_id is not None else 0,
        checkpoint_seconds=wish.checkpoint_seconds if wish is not None else 0,
    )
    return Held(
        job,
        Placed(pool, tuple(placed)),
        ((pool, amount_of(whole)),),
        mark(row.started_at or row.created_at),
        leaving=row.state == AttemptState.STOPPING,
        leaving_for=str(row.evicted_for) if row.evicted_for is not None else "",
        moves=row.moves,
    )


NO_GANG = GangAsk(())


class Hands(Protocol):
    """Hands out devices of machines."""

    def next(self, machine: int, ask: TaskAsk, names: tuple[str, ...] = ()) -> tuple[int, ...]: ...


class Devices:
    """Hands out the devices of machines in order, and from the first again where more is held than there is.

    Parts that the engine says are of one device are; those of which it has said nothing yet are where an engine would put them.
    """

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._machines = machines
        self._next: dict[int, int] = {}
        self._named: dict[tuple[int, str], int] = {}
        self._left: dict[int, dict[int, int]] = {}  # Of devices that are shared, by machine.

    def next(self, machine: int, ask: TaskAsk, names: tuple[str, ...] = ()) -> tuple[int, ...]:
        gpus = self._machines[machine].gpus
        if ask.is_share and gpus:
            return (self._shared(machine, ask.gpu_millis, names[0] if names else "", gpus),)
        wanted = min(max(1, ask.gpu_millis // 1000), gpus) if ask.gpu_millis else 0
        begin = self._next.get(machine, 0)
        self._next[machine] = begin + wanted
        return tuple(sorted({(begin + step) % gpus for step in range(wanted)}))

    def _shared(self, machine: int, millis: int, name: str, gpus: int) -> int:
        shared = self._left.setdefault(machine, {})
        found = self._named.get((machine, name)) if name else min(
            (one for one, left in shared.items() if left >= millis), key=lambda one: (shared[one], one), default=None
        )  # fmt: skip
        if found is None:
            found = self._next.get(machine, 0) % gpus
            self._next[machine] = self._next.get(machine, 0) + 1
        if name:
            self._named[machine, name] = found
        shared[found] = shared.get(found, WHOLE_MILLIS) - millis
        return found


def _undecided(around: Around, numbers: Numbers) -> list[Held]:
    """What quarantined attempts hold: machines, and nobody's quota."""
    found = []
    for (pool_id, node), amount in sorted(around.holds.allocated.items()):
        pool = numbers.pool_at.get(pool_id)
        machine = numbers.machine_at.get((pool, node)) if pool is not None else None
        if pool is None or machine is None:
            continue
        gpu_millis = amount.gpu_millis  # Of several tasks together: parts of devices count as whole ones.
        if gpu_millis > WHOLE_MILLIS:
            gpu_millis = -(-gpu_millis // WHOLE_MILLIS) * WHOLE_MILLIS
        ask = TaskAsk(amount.cpu_millis, amount.memory_bytes, gpu_millis)
        devices = Devices(around.machines).next(machine, ask)
        job = work.Job(f"quarantined {pool_id} {node}", 0, NO_GANG, (pool,), 0, evictable=False)
        found.append(Held(job, Placed(pool, (PlacedTask("", 0, machine, ask, devices),)), (), 0))
    return found
