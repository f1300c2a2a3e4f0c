"""The database as the scheduler sees it: pools, machines, queues, jobs, as one `State` with names behind its numbers.

The driver reads it whole when it begins to lead and then keeps it up to date; a question ("why does it wait", "what if") reads it
whole and throws it away. Both go through here, so both see the same.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import lru_cache
from typing import Protocol

from clusters.engines.interface import ImageKind
from images.lifecycle import ImageState
from images.services import ResolvedImage, resolved_images
from jobs.lifecycle.states import AttemptState, CheckpointGate
from jobs.lifecycle.wait_reasons import WAITS
from jobs.loading import memory
from jobs.loading.around import Around, Numbers, look_around
from jobs.loading.asks import ask_of
from jobs.loading.memory import Memory, Numbered
from jobs.loading.rows import LiveRow, LiveTask, PendingRow, load_live, load_parallelism, load_pending, load_tasks, tenants_of
from jobs.loading.specs import load_spec, wish_of, wishes
from jobs.scheduling.core.core import Policy
from jobs.scheduling.core.eligibility import Eligible, Refusal, VolumeAsk, Wish, eligible
from jobs.scheduling.core.place.gangs import GangAsk, Placed, PlacedTask
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, Machine, TaskAsk
from jobs.scheduling.core.snapshot import Held, Pool, State
from jobs.scheduling.core.state import work
from jobs.scheduling.core.state.decisions import WaitReason
from kernel.config import current
from kernel.errors import InvalidInput
from kernel.resources import Resources
from kernel.wait_codes import WaitCode
from reconciling import poison
from storage.services.mounts import MeantVolume, volumes_meant
from tenants.billing.budgets import budget_refusal
from tenants.capacity.quota.accounting import mark
from tenants.capacity.quota.limits import amount_of
from tenants.identity.standing import Departed, Place, departed_from

SCHEDULE = "jobs.schedule"
"""The duty under which a job that breaks the scheduling is counted as poison."""
OVERRUN_SECONDS = 30  # From the end of the grace until what ran has let go of its machines, and we know.


@dataclass(slots=True)
class Judge:
    """What becomes of a waiting job before it asks for room: where it may go, and what withholds it, with memory of both."""

    around: Around
    numbers: Numbers
    images: Mapping[uuid.UUID, ResolvedImage]
    struck: Collection[uuid.UUID]
    parallelism: Mapping[uuid.UUID, int]  # By array, where it bounds how many of its children run.
    now: datetime
    held: Collection[str] = frozenset()  # Digests and volumes that some machine has already.
    volumes: Mapping[tuple[uuid.UUID, str], MeantVolume | None] = field(default_factory=dict)  # By tenant and name.
    departed: Mapping[Place, Departed] = field(default_factory=dict)  # Owners of waiting jobs who have left.
    _eligible: dict[tuple[Wish, uuid.UUID, str], Eligible] = field(default_factory=dict)
    _over: dict[uuid.UUID, Refusal | None] = field(default_factory=dict)
    _parents: dict[uuid.UUID, uuid.UUID | None] = field(default_factory=dict)

    def job(self, row: PendingRow, wish: Wish) -> tuple[work.JobAsk, Refusal | None]:
        """The job as the core takes it, and what withholds it."""
        where = self._where(wish, row)
        withheld = self._withheld(row)
        if withheld is None and not where.pools:
            withheld = where.refusal
        ask = ask_of(
            row,
            wish,
            gang=self.near(row, wish),
            pools=where.pools,
            queue_at=self.numbers.queue_at,
            tenant_paths=self.around.tenant_paths,
            parallelism=self.parallelism,
            withheld=None if withheld is None else WaitReason(withheld[0]),
        )
        return ask, withheld

    def near(self, row: PendingRow, wish: Wish) -> GangAsk:
        """The gang with what it would rather find in place; what no machine has is not worth telling its equals apart."""
        image = digest if (digest := digest_of(row, self.images)) in self.held else ""
        data = frozenset(volume for volume in volumes_of(row, wish, self.volumes) if volume in self.held)
        return _with_contents(wish.gang, image, data) if image or data else wish.gang

    def _where(self, wish: Wish, row: PendingRow) -> Eligible:
        wish = located(wish, row.tenant_id, self.volumes)
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
            return WaitCode.SET_ASIDE, {}
        if row.checkpoint == CheckpointGate.REFUSED:
            known = WAITS.get(row.reason_code)
            if known is not None and known.is_of_checkpoint:
                return known.code, row.reason_detail
            return WaitCode.CHECKPOINT_UNREADABLE, {}
        disabled = self.around.disabled.get(row.tenant_id)
        if disabled is not None:
            return WaitCode.TENANT_DISABLED, disabled.as_detail()
        departed = self.departed.get((row.tenant_id, row.user_id))
        if departed is not None:
            return WaitCode.OWNER_LEFT, departed.as_detail()
        if row.hold:
            return WaitCode.HELD, {}
        if row.open_dependencies:
            return WaitCode.DEPENDENCY, {"open": row.open_dependencies}
        if row.not_before_at is not None and row.not_before_at > self.now:
            return WaitCode.NOT_BEFORE, {"at": row.not_before_at.isoformat()}
        if row.checkpoint == CheckpointGate.CHECKING:
            return WaitCode.CHECKPOINT_CHECKING, {}
        image = self.images.get(row.image_id) if row.image_id is not None else None
        if image is not None and image.state != ImageState.READY:
            return WaitCode.IMAGE_BUILDING, {}
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
            self._over[queue_id] = None if refusal is None else (WaitCode.BUDGET, refusal.as_dict())
        return self._over[queue_id]


def digest_of(row: PendingRow, images: Mapping[uuid.UUID, ResolvedImage]) -> str:
    """Of the image that has to be brought to a machine; every machine has its own programs."""
    if row.image_kind == ImageKind.HOST:
        return ""
    image = images.get(row.image_id) if row.image_id is not None else None
    return image.digest if image is not None else row.image_digest


def volumes_of(row: PendingRow, wish: Wish, volumes: Mapping[tuple[uuid.UUID, str], MeantVolume | None]) -> list[str]:
    """The volumes that a job mounts, by id."""
    found = (volumes.get((row.tenant_id, name)) for name in wish.mounts)
    return [str(volume.id) for volume in found if volume is not None]


def located(wish: Wish, tenant_id: uuid.UUID, volumes: Mapping[tuple[uuid.UUID, str], MeantVolume | None]) -> Wish:
    """The wish of a job of this tenant, with where its volumes are. A name that means nothing (any more) keeps it out of no pool:
    what is wrong with it is told when the job starts."""
    if not wish.mounts:
        return wish
    found = ((name, volumes.get((tenant_id, name))) for name in wish.mounts)
    return replace(wish, places=tuple(VolumeAsk(name, at.place, at.cluster_name) for name, at in found if at is not None))


def look_up(wish: Wish, tenant_id: uuid.UUID) -> Wish:
    """The same for one job, looked up now. Two queries where it mounts any."""
    return located(wish, tenant_id, load_volumes([(tenant_id, wish)], {}))


def load_volumes(
    wanted: Iterable[tuple[uuid.UUID, Wish]], known: Mapping[tuple[uuid.UUID, str], MeantVolume | None]
) -> dict[tuple[uuid.UUID, str], MeantVolume | None]:
    """Which volumes jobs of these tenants mount, of those not known yet; None for a name that means nothing (any more)."""
    unknown = {(tenant_id, name) for tenant_id, wish in wanted for name in wish.mounts} - known.keys()
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
    volumes = load_volumes(((row.tenant_id, asked[row.spec_id]) for row in rows if row.spec_id in asked), {})
    held = frozenset[str]().union(*(machine.images | machine.data for machine in around.machines))
    struck, parallelism = poison.strikes(SCHEDULE).keys(), load_parallelism(rows, live)
    departed = departed_from({row.place for row in rows})
    judge = Judge(around, numbers, images, struck, parallelism, now, held, volumes, departed)
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
    """None for an unreadable spec: the pass sets its job aside and says so, and the others get their answers."""
    with contextlib.suppress(InvalidInput, ValueError):
        return wish_of(load_spec(spec_id))
    return None


def make_state(
    around: Around,
    numbers: Numbers,
    waiting: Iterable[work.JobAsk],
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
        bookings=around.bookings,
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
        starvation_guard_seconds=round(config.scheduler_starvation_guard_seconds),
        assumed_runtime_seconds=round(config.scheduler_assumed_runtime_seconds),
        shortest_first=config.scheduler_shortest_first,
        backfill_depth=config.scheduler_backfill_depth,
        grace_seconds=round(config.grace_seconds),
        overrun_seconds=round(config.grace_seconds) + OVERRUN_SECONDS,
        rebalances=config.scheduler_rebalances,
        migrations=config.scheduler_migrations,
        migrates_after_seconds=round(config.scheduler_migrates_after_seconds),
    )


def load_wishes(spec_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, Wish]:
    return wishes(set(spec_ids))


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
    job = ask_of(
        row,
        wish,
        gang=wish.gang if wish is not None else NO_GANG,
        pools=(pool,),
        queue_at=numbers.queue_at,
        tenant_paths=tenant_paths,
        parallelism=parallelism,
    )
    return Held(
        job,
        Placed(pool, tuple(placed)),
        ((pool, amount_of(whole)),),
        mark(row.started_at or row.created_at),
        leaving=row.state == AttemptState.STOPPING,
        leaving_for=str(row.evicted_for) if row.evicted_for is not None else "",
        migrates=row.migrates,
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
            (device for device, left in shared.items() if left >= millis),
            key=lambda device: (shared[device], device),
            default=None,
        )  # fmt: skip
        if found is None:
            found = self._next.get(machine, 0) % gpus
            self._next[machine] = self._next.get(machine, 0) + 1
        if name:
            self._named[machine, name] = found
        shared[found] = shared.get(found, WHOLE_MILLIS) - millis
        return found


def _undecided(around: Around, numbers: Numbers) -> list[Held]:
    """What quarantined attempts hold: machines, and no quota."""
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
        job = work.JobAsk(f"quarantined {pool_id} {node}", 0, NO_GANG, (pool,), 0, evictable=False)
        found.append(Held(job, Placed(pool, (PlacedTask("", 0, machine, ask, devices),)), (), 0))
    return found
