"""Booked starts as values: what is promised to whom, and what it will need of each machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.scheduling.core.place.gangs import PlacedTask
from jobs.scheduling.core.place.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.decisions import Book
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.work import HeldRoom, Job, Need, Running, Shape
from tenants.quota.shares import Refusal, Shares, Standing

FOREVER = 1 << 62  # The end of what never ends.


class KeptReservation(NamedTuple):
    """A booked start as a value, to be kept between cores."""

    id: str
    pool: int
    at: int
    tasks: tuple[PlacedTask, ...]
    standing: Standing = Standing.BORROWED
    is_sure: bool = True
    planned_at: int = 0
    may_be_earlier: bool = False


class Ends(NamedTuple):
    """When a gang holds nothing any more: surely, by its longest time (`FOREVER` without one), and as is planned with."""

    sure: int
    planned: int

    def until(self, one: BackfillReservation) -> int:
        """The end that counts for a booked start: for one that is sure only what is sure."""
        return self.sure if one.is_sure else self.planned


NEVER = Ends(FOREVER, FOREVER)


def planned_seconds(job: Job, policy: Policy) -> int:
    """How long a job will run, as is planned with; 0 where that is not known. What is predicted is rounded up, by an eighth at
    most, so that jobs that are about as long count as equal."""
    if job.max_runtime is not None:
        return job.max_runtime + policy.overrun_seconds
    if job.cautious is None:
        return policy.assumed_runtime_seconds
    step = 1 << max(0, job.cautious.bit_length() - 4)
    return max(step, -(-job.cautious // step) * step)


def ends_if_started(job: Job, at: int, policy: Policy) -> Ends:
    """When a job ends that starts then."""
    seconds = planned_seconds(job, policy)
    end = at + seconds if seconds else FOREVER
    return Ends(FOREVER if job.max_runtime is None else end, end)


def sure_end(one: Running, policy: Policy) -> int:
    """When a gang holds nothing any more by its longest time; never for one that claims, or is claimed from."""
    return FOREVER if one.claim is not None else ends_if_started(one.job, one.started_at, policy).sure


@dataclass(slots=True, eq=False)
class BackfillReservation:
    """A booked start. `needs` has by machine what the gang will hold there. `is_sure`: it counts on longest times alone, so that
    it is kept; else it counts on how long others of their kind ran, or on what is assumed where nothing is known."""

    job: Job
    shape: Shape
    pool: int
    at: int
    ends: Ends
    tasks: tuple[PlacedTask, ...]
    standing: Standing
    needs: dict[int, Room]
    is_sure: bool
    planned_at: int = 0
    may_be_earlier: bool = False  # Something ended since it was planned.

    @property
    def need(self) -> Need:
        return self.shape.least[self.pool]

    @property
    def told(self) -> Book:
        return Book(self.job.id, self.at, tuple(sorted(self.needs)), is_sure=self.is_sure)


@dataclass(slots=True)
class Room:
    """Amounts on one machine, of devices by number."""

    cpu: int
    memory: int
    devices: dict[int, int]

    def add(self, task: PlacedTask) -> None:
        self.cpu += task.ask.cpu_millis
        self.memory += task.ask.memory_bytes
        each = min(task.ask.gpu_millis, WHOLE_MILLIS)
        for device in task.devices:
            self.devices[device] = self.devices.get(device, 0) + each


def fits(shares: Shares, one: BackfillReservation) -> bool:
    return not any(isinstance(shares.room(one.job.queue, pool, amount), Refusal) for pool, amount in one.need)


def order_of(one: BackfillReservation) -> tuple[int, str]:
    return (one.at, one.job.id)


def reservation_of(
    job: Job,
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
        needs.setdefault(task.machine, Room(0, 0, {})).add(task)
    return BackfillReservation(job, shape, pool, at, ends, tasks, standing, needs, is_sure)


def held_rooms_of(machine: int, cpu: int, memory: int, devices: dict[int, int]) -> tuple[HeldRoom, ...]:
    whole = tuple(device for device, millis in sorted(devices.items()) if millis == WHOLE_MILLIS)
    found = []
    if cpu > 0 or memory > 0 or whole:
        found.append(HeldRoom(machine, max(0, cpu), max(0, memory), len(whole) * WHOLE_MILLIS, whole))
    found += [
        HeldRoom(machine, 0, 0, millis, (device,)) for device, millis in sorted(devices.items()) if 0 < millis < WHOLE_MILLIS
    ]
    return tuple(found)


def covers(larger: Iterable[HeldRoom], smaller: Iterable[HeldRoom]) -> bool:
    """Whether everything that the one holds the other holds, too."""

    def sums(held_rooms: Iterable[HeldRoom]) -> tuple[int, int, dict[int, int]]:
        cpu = memory = 0
        devices: dict[int, int] = {}
        for one in held_rooms:
            cpu, memory = cpu + one.cpu_millis, memory + one.memory_bytes
            for device in one.devices:
                devices[device] = devices.get(device, 0) + min(one.gpu_millis, WHOLE_MILLIS)
        return cpu, memory, devices

    (cpu, memory, devices), (less_cpu, less_memory, fewer) = sums(larger), sums(smaller)
    return cpu >= less_cpu and memory >= less_memory and all(devices.get(device, 0) >= millis for device, millis in fewer.items())
