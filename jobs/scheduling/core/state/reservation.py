"""Booked starts as values: what is promised to whom, and what it will need of each machine."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jobs.scheduling.core.state.decisions import Book
from jobs.scheduling.core.state.gangs import PlacedTask
from jobs.scheduling.core.state.machines import WHOLE_MILLIS
from jobs.scheduling.core.state.work import Ghost, Job, Need, Shape
from tenants.quota.shares import Refusal, Shares, Standing

FOREVER = 1 << 62  # The end of what never ends.


class Promised(NamedTuple):
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

    def until(self, one: Promise) -> int:
        """The end that counts for a booked start: for one that is sure only what is sure."""
        return self.sure if one.is_sure else self.planned


NEVER = Ends(FOREVER, FOREVER)


@dataclass(slots=True, eq=False)
class Promise:
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


def fits(shares: Shares, one: Promise) -> bool:
    return not any(isinstance(shares.room(one.job.queue, pool, amount), Refusal) for pool, amount in one.need)


def order_of(one: Promise) -> tuple[int, str]:
    return (one.at, one.job.id)


def promise_of(
    job: Job,
    shape: Shape,
    pool: int,
    at: int,
    ends: Ends,
    tasks: tuple[PlacedTask, ...],
    standing: Standing,
    *,
    is_sure: bool,
) -> Promise:
    needs: dict[int, Room] = {}
    for task in tasks:
        needs.setdefault(task.machine, Room(0, 0, {})).add(task)
    return Promise(job, shape, pool, at, ends, tasks, standing, needs, is_sure)


def ghosts_of(machine: int, cpu: int, memory: int, devices: dict[int, int]) -> tuple[Ghost, ...]:
    whole = tuple(device for device, millis in sorted(devices.items()) if millis == WHOLE_MILLIS)
    found = []
    if cpu > 0 or memory > 0 or whole:
        found.append(Ghost(machine, max(0, cpu), max(0, memory), len(whole) * WHOLE_MILLIS, whole))
    found += [Ghost(machine, 0, 0, millis, (device,)) for device, millis in sorted(devices.items()) if 0 < millis < WHOLE_MILLIS]
    return tuple(found)


def covers(larger: Iterable[Ghost], smaller: Iterable[Ghost]) -> bool:
    """Whether everything that the one holds the other holds, too."""

    def sums(ghosts: Iterable[Ghost]) -> tuple[int, int, dict[int, int]]:
        cpu = memory = 0
        devices: dict[int, int] = {}
        for one in ghosts:
            cpu, memory = cpu + one.cpu_millis, memory + one.memory_bytes
            for device in one.devices:
                devices[device] = devices.get(device, 0) + min(one.gpu_millis, WHOLE_MILLIS)
        return cpu, memory, devices

    (cpu, memory, devices), (less_cpu, less_memory, fewer) = sums(larger), sums(smaller)
    return cpu >= less_cpu and memory >= less_memory and all(devices.get(device, 0) >= millis for device, millis in fewer.items())
