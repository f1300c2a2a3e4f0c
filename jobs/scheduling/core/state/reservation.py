"""Reserved starts as values: job, moment and tasks, and what the gang will need of each machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.scheduling.core.place.gangs import PlacedTask
from jobs.scheduling.core.place.machines import WHOLE_MILLIS, TaskAsk
from jobs.scheduling.core.state.decisions import Reserve
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.work import HeldRoom, JobAsk, Need, Running, Shape
from tenants.capacity.quota.shares import Standing

FOREVER = 1 << 62  # The end of a gang without a known end.


class KeptReservation(NamedTuple):
    """A sure start as a value, to be kept between cores. A planned start is none: each core plans anew."""

    id: str
    pool: int
    at: int
    tasks: tuple[PlacedTask, ...]
    standing: Standing = Standing.BORROWED


class Ends(NamedTuple):
    """When a gang has left its machines: surely, by its longest time (`FOREVER` without one), and as planned."""

    sure: int
    planned: int

    def until(self, reservation: BackfillReservation) -> int:
        """The end that counts for a reserved start: the sure end for a sure start, else the planned end."""
        return self.sure if reservation.is_sure else self.planned


NEVER = Ends(FOREVER, FOREVER)


def grace_of(job: JobAsk, policy: Policy) -> int:
    """How long a job may take to leave once it is told to, in seconds."""
    return policy.grace_seconds if job.grace_seconds is None else job.grace_seconds


def overrun_of(job: JobAsk, policy: Policy) -> int:
    """How long after its maximum run time a job may still hold its machines, in seconds."""
    return max(0, policy.overrun_seconds + grace_of(job, policy) - policy.grace_seconds)


def planned_seconds(job: JobAsk, policy: Policy) -> int:
    """The planned run time of a job in seconds; 0 where it is not known. A predicted time is rounded up, by an eighth at most, so
    that jobs of about the same length count as equal."""
    if job.max_runtime is not None:
        return job.max_runtime + overrun_of(job, policy)
    if job.cautious is None:
        return policy.assumed_runtime_seconds
    step = 1 << max(0, job.cautious.bit_length() - 4)
    return max(step, -(-job.cautious // step) * step)


def ends_if_started(job: JobAsk, at: int, policy: Policy) -> Ends:
    """The ends of a job that starts at `at`."""
    seconds = planned_seconds(job, policy)
    end = at + seconds if seconds else FOREVER
    return Ends(FOREVER if job.max_runtime is None else end, end)


def sure_end(running: Running, policy: Policy) -> int:
    """When a gang has left its machines by its longest time; never for a claimant or a victim of a claim."""
    return FOREVER if running.claim is not None else ends_if_started(running.job, running.started_at, policy).sure


@dataclass(slots=True, eq=False)
class BackfillReservation:
    """A reserved start of `job`, as it waits now. `needs`: by machine what the gang will hold there. `is_sure`: it counts on
    longest times alone, so it is kept and told; else it counts on predicted or assumed run times, and is planned anew in each
    period."""

    job: JobAsk
    shape: Shape
    pool: int
    at: int
    ends: Ends
    tasks: tuple[PlacedTask, ...]
    standing: Standing
    needs: dict[int, Room]
    is_sure: bool

    @property
    def need(self) -> Need:
        return self.shape.least[self.pool]

    @property
    def told(self) -> Reserve:
        return Reserve(self.job.id, self.at, tuple(sorted(self.needs)), is_sure=self.is_sure)


@dataclass(slots=True)
class Room:
    """Amounts on one machine, of devices by number."""

    cpu: int
    memory: int
    devices: dict[int, int]
    tasks: int = 0

    def add(self, held: TaskAsk | HeldRoom, devices: tuple[int, ...], sign: int = 1) -> None:
        self.cpu += sign * held.cpu_millis
        self.memory += sign * held.memory_bytes
        self.tasks += sign * held.tasks
        each = sign * min(held.gpu_millis, WHOLE_MILLIS)
        for device in devices:
            self.devices[device] = self.devices.get(device, 0) + each


def order_of(reservation: BackfillReservation) -> tuple[int, str]:
    return (reservation.at, reservation.job.id)


def reservation_of(
    job: JobAsk,
    shape: Shape,
    pool: int,
    at: int,
    ends: Ends,
    tasks: tuple[PlacedTask, ...],
    standing: Standing,
    *,
    is_sure: bool,
) -> BackfillReservation:
    needs: dict[int, Room] = {}
    for task in tasks:
        needs.setdefault(task.machine, Room(0, 0, {})).add(task.ask, task.devices)
    return BackfillReservation(job, shape, pool, at, ends, tasks, standing, needs, is_sure)


def held_rooms_of(machine: int, cpu: int, memory: int, devices: dict[int, int], tasks: int = 0) -> tuple[HeldRoom, ...]:
    """What to hold on a machine. `tasks`: for how many, where their number is bounded there."""
    whole = tuple(device for device, millis in sorted(devices.items()) if millis == WHOLE_MILLIS)
    found = []
    if cpu > 0 or memory > 0 or whole or tasks > 0:
        found.append(HeldRoom(machine, max(0, cpu), max(0, memory), len(whole) * WHOLE_MILLIS, whole, max(0, tasks)))
    found += [
        HeldRoom(machine, 0, 0, millis, (device,)) for device, millis in sorted(devices.items()) if 0 < millis < WHOLE_MILLIS
    ]
    return tuple(found)


def covers(larger: Iterable[HeldRoom], smaller: Iterable[HeldRoom]) -> bool:
    """Whether everything that `smaller` holds is held by `larger`, too."""
    room = Room(0, 0, {})
    for held_rooms, sign in ((larger, 1), (smaller, -1)):
        for held in held_rooms:
            room.add(held, held.devices, sign)
    return all(amount >= 0 for amount in (room.cpu, room.memory, room.tasks, *room.devices.values()))
