"""What there is and what is free: the machines of a pass, and the only thing that changes while it runs.

Machines are numbered by (pool, name), so that every answer is the same in whatever order they were given. `take` and `give` are
exact inverses; they record what is and never refuse, because a node may have shrunk below what runs on it. Deciding what fits
is the business of `placing.py`.

The ideal: every question is asked of every machine. The shortcut: machines that nothing here can tell apart - same kind, same
CPU, memory and tasks left, same remainders of devices whatever their order - form one class (`MachineClass`), are asked once,
and keep their answers. A class is a value: `take` and `give` move one machine from a class to another and change no class, so no
answer ever gets stale. What has to be looked at again after a change is the class that the machine went to; `arrivals` is the
list of these, by which `ranking.py` keeps itself up to date.

Labels are not part of a kind, or every host name would make a class of its own. Only the label conditions that some ask has
really put are, one bit for each: a new condition moves the machines that meet it into classes of their own, once.

`mark`, then `rewind` or `settle`: what is tried in between is undone exactly, or stays.
"""

from __future__ import annotations

import heapq
import zlib
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kernel.resources import Resources

if TYPE_CHECKING:  # They are kept here, beside what they describe, and know themselves what they are.
    from jobs.scheduling.core.place.ranking import Ranking
    from jobs.scheduling.core.place.scores import Mix, PoolRules
    from jobs.scheduling.core.place.topology import Topology

WHOLE_MILLIS = 1000
NEED = tuple[str, frozenset[str]]  # A label and the values that are accepted.
ARRIVALS_SPARE = 1024  # How much longer than the number of machines the list of arrivals gets before it is written anew.
MOVED_MAX = 4096  # Of so many of the latest changes, and as many again at times, it is known which machines they were of.


@dataclass(frozen=True, slots=True)
class Machine:
    """A node as the core sees it. `pool` is the index of its pool; `gpus` counts whole devices, all of one `model`."""

    name: str
    pool: int
    cpu_millis: int
    memory_bytes: int
    gpus: int = 0
    model: str = ""
    labels: Mapping[str, str] = field(default_factory=dict, hash=False)  # Also where it stands: island, switch, rack.
    taints: frozenset[str] = frozenset()  # Keep out tasks that do not tolerate them.
    avoid: frozenset[str] = frozenset()  # Taints that only ask to be avoided.
    blocked: str = ""  # Why nothing may start there; empty when something may.
    exclusive: bool = False  # Whether tasks may have cores of their own there.
    images: frozenset[str] = frozenset()  # Digests that are there already.
    data: frozenset[str] = frozenset()  # Datasets that are there already.
    tasks_max: int | None = None  # How many tasks it takes, whatever they need; None: no bound.


@dataclass(frozen=True, slots=True)
class TaskAsk:
    """What one task needs of one machine; equal asks have the same answer.

    `gpu_millis` below 1000 is a share of one device, else a multiple of 1000. `needs` are labels with the values accepted, in
    order of the label. `models` empty accepts any.
    """

    cpu_millis: int
    memory_bytes: int
    gpu_millis: int = 0
    models: frozenset[str] = frozenset()
    needs: tuple[NEED, ...] = ()
    tolerates: frozenset[str] = frozenset()
    exclusive: bool = False

    def __post_init__(self) -> None:
        assert self.cpu_millis >= 0
        assert self.memory_bytes >= 0
        assert self.gpu_millis >= 0
        assert self.gpu_millis < WHOLE_MILLIS or self.gpu_millis % WHOLE_MILLIS == 0

    @property
    def is_share(self) -> bool:
        return 0 < self.gpu_millis < WHOLE_MILLIS

    @property
    def resources(self) -> Resources:
        return Resources(self.cpu_millis, self.memory_bytes, self.gpu_millis)

    @property
    def tasks(self) -> int:
        """One; held room says of how many it is."""
        return 1


@dataclass(frozen=True, slots=True)
class MachineKind:
    """What two machines have in common that differ only in what is taken of them. `meets` has a bit for each known need."""

    pool: int
    cpu_millis: int
    memory_bytes: int
    gpus: int
    model: str
    taints: frozenset[str]
    avoid: frozenset[str]
    blocked: bool
    exclusive: bool
    meets: int = 0
    tasks_max: int | None = None


class MachineClass:
    """Machines that nothing can tell apart. All but `members` is fixed; `lost` keeps by mix how fragmented it is."""

    __slots__ = (
        "_order",
        "cpu",
        "devices",
        "gpu",
        "kind",
        "kind_number",
        "lost",
        "members",
        "memory",
        "partial",
        "tasks",
        "tie",
        "whole",
    )

    def __init__(
        self, kind: MachineKind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...], tasks: int | None = None
    ) -> None:
        self.kind = kind
        self.kind_number = kind_number
        self.cpu = cpu
        self.memory = memory
        self.tasks = tasks  # How many more it takes at most; None: no bound.
        self.devices = devices  # What is left of each device, ascending.
        self.gpu = sum(devices)
        self.whole = devices.count(WHOLE_MILLIS)
        self.partial = tuple(left for left in devices if 0 < left < WHOLE_MILLIS)
        self.tie = zlib.crc32(b"%s %d %d %r" % (kind.model.encode(), cpu, memory, devices))  # Spreads ties, alike everywhere.
        self.members: set[int] = set()
        self.lost: dict[Mix, int] = {}
        self._order: list[int] = []

    def join(self, machine: int) -> None:
        self.members.add(machine)
        heapq.heappush(self._order, machine)

    def first(self) -> int:
        """The member with the lowest number."""
        order, members = self._order, self.members
        if len(order) > 2 * len(members) + 16:
            order[:] = sorted(members)
        while order[0] not in members:
            heapq.heappop(order)
        return order[0]


@dataclass(slots=True)
class PoolState:
    """What is kept per pool. `epoch` counts how often `arrivals` was written anew."""

    members: tuple[int, ...]
    classes: dict[tuple[object, ...], MachineClass] = field(default_factory=dict)
    arrivals: list[MachineClass] = field(default_factory=list)
    epoch: int = 0
    cpu: int = 0  # Free on machines that take something.
    memory: int = 0
    gpu: int = 0
    shared: int = 0  # Devices of which a task has a share, used up or not.
    largest: Resources = field(default_factory=Resources)  # The most of each that any machine has when it is empty.
    rankings: dict[TaskAsk, Ranking] = field(default_factory=dict)
    joining: dict[TaskAsk, Ranking] = field(default_factory=dict)  # The same where no further device may be shared.
    topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A state to come back to."""

    position: int
    version: int


class Machines:
    """All machines with what is left of each. `rules` say by pool how it wants to be filled (scores.py)."""

    def __init__(self, machines: Iterable[Machine], rules: Mapping[int, PoolRules] | None = None) -> None:
        self.at = sorted(machines, key=lambda machine: (machine.pool, machine.name))
        self.rules = dict(rules or {})
        self.index = {(machine.pool, machine.name): index for index, machine in enumerate(self.at)}
        assert len(self.index) == len(self.at), "two machines of one pool have one name"
        self.class_of: list[MachineClass] = []
        self.devices = [[WHOLE_MILLIS] * machine.gpus for machine in self.at]
        self._sharers: dict[tuple[int, int], int] = {}  # (machine, device) -> how many have a share of it.
        self._conditions: dict[NEED, int] = {}
        self.holders: dict[str, set[int]] = {}  # By digest or dataset, the machines that have it already.
        self._tasks = [0] * len(self.at)  # How many are held, or kept for, on each.
        self._journal: list[tuple[int, int, int, int, tuple[int, ...], int]] = []
        self._marks = 0
        self.version = 0  # Of what is left anywhere: another with every change, and by `rewind` that of the mark again.
        self._versions = [0]  # The latest that led here, in order, and the newest of all.
        self._newest = 0
        self._moved: list[int] = []  # The machines of the changes between these.
        self._kinds: dict[MachineKind, int] = {}
        members: dict[int, list[int]] = {}
        for index, machine in enumerate(self.at):
            members.setdefault(machine.pool, []).append(index)
            self._holds(index, machine.images | machine.data, frozenset())
        self.pools = {pool: PoolState(tuple(inside)) for pool, inside in members.items()}
        for index, machine in enumerate(self.at):
            kind, kind_number = self._kind(machine)
            self._enter(index, kind, kind_number, machine.cpu_millis, machine.memory_bytes, (WHOLE_MILLIS,) * machine.gpus)
        for state in self.pools.values():
            self._count(state)

    # --- Questions ----------------------------------------------------------------------------------------------------

    def find(self, pool: int, name: str) -> int | None:
        """The number of a machine, by which all else goes; None when there is none of that name."""
        return self.index.get((pool, name))

    def left(self, machine: int) -> Resources:
        here = self.class_of[machine]
        return Resources(here.cpu, here.memory, here.gpu)

    def devices_left(self, machine: int) -> tuple[int, ...]:
        """What is left of each device, in thousandths."""
        return tuple(self.devices[machine])

    def free(self, pool: int) -> Resources:
        """What is left on the machines of a pool on which something may start."""
        state = self.pools.get(pool)
        return Resources(state.cpu, state.memory, state.gpu) if state else Resources()

    def classes(self, pool: int) -> list[MachineClass]:
        """The classes of a pool that have machines now, in no order that may matter."""
        state = self.pools.get(pool)
        return [machine_class for machine_class in state.classes.values() if machine_class.members] if state else []

    def moved_since(self, version: int) -> list[int] | None:
        """The machines of which something else is left than at a version, some twice; None where that is too long ago, or was
        undone."""
        at = bisect_left(self._versions, version)
        return self._moved[at:] if at < len(self._versions) and self._versions[at] == version else None

    @property
    def is_marked(self) -> bool:
        """Whether there is a state to come back to."""
        return self._marks > 0

    def condition(self, need: NEED) -> int:
        """The bit of a label condition. The first time that it is put, machines that meet it leave the classes of the others."""
        bit = self._conditions.get(need)
        if bit is None:
            bit = self._conditions[need] = 1 << len(self._conditions)
            label, accepted = need
            for index, machine in enumerate(self.at):
                if machine.labels.get(label) in accepted:
                    here = self.class_of[index]
                    self._move(
                        index, *self._known(replace(here.kind, meets=here.kind.meets | bit)), here.cpu, here.memory, here.devices
                    )
        return bit

    # --- Changes ------------------------------------------------------------------------------------------------------

    def take(self, machine: int, ask: TaskAsk, devices: tuple[int, ...] | None = None, tasks: int = 1) -> tuple[int, ...]:
        """Hold what one task needs, or so many together; returns its devices, to be handed to `give`. `devices` None: the fullest
        that still fit."""
        chosen = self.fullest(machine, ask) if devices is None else devices
        each = ask.gpu_millis if ask.gpu_millis < WHOLE_MILLIS else WHOLE_MILLIS
        self._change(machine, -ask.cpu_millis, -ask.memory_bytes, -each, chosen, -tasks)
        return chosen

    def give(self, machine: int, ask: TaskAsk, devices: tuple[int, ...], tasks: int = 1) -> None:
        """The exact inverse of the `take` that returned these devices."""
        each = ask.gpu_millis if ask.gpu_millis < WHOLE_MILLIS else WHOLE_MILLIS
        self._change(machine, ask.cpu_millis, ask.memory_bytes, each, devices, tasks)

    def update(self, machine: int, facts: Machine) -> None:
        """Replace what is known of a machine under the same pool and name; what is taken of it stays taken."""
        former = self.at[machine]
        assert (former.pool, former.name) == (facts.pool, facts.name)
        assert not self.is_marked
        here, left = self.class_of[machine], self.devices[machine]
        taken = [WHOLE_MILLIS - millis for millis in left]
        left[:] = [WHOLE_MILLIS - (taken[index] if index < len(taken) else 0) for index in range(facts.gpus)]
        self.at[machine] = facts
        self._holds(machine, facts.images | facts.data, former.images | former.data)
        kind, kind_number = self._kind(facts)
        cpu = here.cpu + facts.cpu_millis - former.cpu_millis
        memory = here.memory + facts.memory_bytes - former.memory_bytes
        self._move(machine, kind, kind_number, cpu, memory, tuple(sorted(left)))
        state = self.pools[facts.pool]
        self._count(state)
        state.rankings, state.joining, state.topology = {}, {}, None  # The largest machine may be another, and labels too.

    def update_contents(self, machine: int, facts: Machine) -> bool:
        """Take in other images and data that a machine holds; whether that is all that is new of it. No class changes by it."""
        former = self.at[machine]
        if replace(former, images=facts.images, data=facts.data) != facts:
            return False
        self.at[machine] = facts
        self._holds(machine, facts.images | facts.data, former.images | former.data)
        return True

    def _holds(self, machine: int, now: frozenset[str], before: frozenset[str]) -> None:
        for gone in before - now:
            self.holders[gone].discard(machine)
            if not self.holders[gone]:
                del self.holders[gone]
        for come in now - before:
            self.holders.setdefault(come, set()).add(machine)

    def set_rules(self, pool: int, rules: PoolRules) -> None:
        """Fill a pool by other rules from now on."""
        self.rules[pool] = rules
        state = self.pools.get(pool)
        if state is not None:
            state.rankings, state.joining, state.topology = {}, {}, None
            for machine_class in state.classes.values():
                machine_class.lost.clear()

    def fullest(self, machine: int, ask: TaskAsk) -> tuple[int, ...]:
        """The devices with the least left that still take the task; where none does, those with the most left."""
        left = self.devices[machine]
        if not ask.gpu_millis or not left:
            return ()
        each = min(ask.gpu_millis, WHOLE_MILLIS)
        order = sorted(
            range(len(left)), key=lambda device: (0, left[device], device) if left[device] >= each else (1, -left[device], device)
        )
        return tuple(sorted(order[: max(1, ask.gpu_millis // WHOLE_MILLIS)]))

    def with_left(self, machine: int, remainder: int) -> tuple[int, ...]:
        """The first device that has exactly this much left."""
        return (self.devices[machine].index(remainder),)

    def mark(self) -> Mark:
        """Remember how things are, for `rewind` or `settle`; marks nest."""
        self._marks += 1
        return Mark(len(self._journal), self.version)

    def rewind(self, mark: Mark) -> None:
        """Undo all since the mark."""
        while len(self._journal) > mark.position:
            machine, cpu, memory, each, devices, tasks = self._journal.pop()
            self._apply(machine, -cpu, -memory, -each, devices, -tasks)
        at = bisect_left(self._versions, mark.version)
        self._versions[at:] = [mark.version]
        del self._moved[at:]
        self.version = mark.version
        self._marks -= 1

    def settle(self, mark: Mark) -> None:
        """Let all since the mark stand."""
        assert len(self._journal) >= mark.position
        self._marks -= 1
        if not self._marks:
            self._journal.clear()

    def _change(self, machine: int, cpu: int, memory: int, each: int, devices: tuple[int, ...], tasks: int) -> None:
        if self._marks:
            self._journal.append((machine, cpu, memory, each, devices, tasks))
        self._apply(machine, cpu, memory, each, devices, tasks)

    def _apply(self, machine: int, cpu: int, memory: int, each: int, devices: tuple[int, ...], tasks: int) -> None:
        here = self.class_of[machine]
        self._tasks[machine] -= tasks
        state = self.pools[here.kind.pool]
        remainders = here.devices
        if devices:
            left = self.devices[machine]
            for device in devices:
                left[device] += each
            remainders = tuple(sorted(left))
            if -WHOLE_MILLIS < each < WHOLE_MILLIS:
                self._share(state, (machine, devices[0]), each < 0)
        if not here.kind.blocked:
            state.cpu += cpu
            state.memory += memory
            state.gpu += each * len(devices)
        self._move(machine, here.kind, here.kind_number, here.cpu + cpu, here.memory + memory, remainders)
        if state.topology is not None:
            state.topology.changed(machine)

    def _share(self, state: PoolState, device: tuple[int, int], more: bool) -> None:
        """Count an owner of a share more or less."""
        before = self._sharers.pop(device, 0)
        after = before + (1 if more else -1)
        if after:
            self._sharers[device] = after
        state.shared += (after > 0) - (before > 0)

    # --- Classes ------------------------------------------------------------------------------------------------------

    def _kind(self, machine: Machine) -> tuple[MachineKind, int]:
        meets = sum(bit for (label, accepted), bit in self._conditions.items() if machine.labels.get(label) in accepted)
        return self._known(
            MachineKind(
                machine.pool, machine.cpu_millis, machine.memory_bytes, machine.gpus, machine.model, machine.taints,
                machine.avoid, bool(machine.blocked), machine.exclusive, meets, machine.tasks_max,
            )
        )  # fmt: skip

    def _known(self, kind: MachineKind) -> tuple[MachineKind, int]:
        """A kind with its number, which stands for it where speed counts."""
        return kind, self._kinds.setdefault(kind, len(self._kinds))

    def _move(self, machine: int, kind: MachineKind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...]) -> None:
        self.version = self._newest = self._newest + 1
        self._versions.append(self.version)
        self._moved.append(machine)
        if len(self._moved) > 2 * MOVED_MAX and not self._marks:
            del self._versions[:MOVED_MAX], self._moved[:MOVED_MAX]
        self.class_of[machine].members.discard(machine)
        self._enter(machine, kind, kind_number, cpu, memory, devices)

    def _enter(self, machine: int, kind: MachineKind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...]) -> None:
        state = self.pools[kind.pool]
        tasks = None if kind.tasks_max is None else kind.tasks_max - self._tasks[machine]
        key = (kind_number, cpu, memory, devices, tasks)
        there = state.classes.get(key)
        if there is None:
            there = state.classes[key] = MachineClass(kind, kind_number, cpu, memory, devices, tasks)
        if not there.members:
            state.arrivals.append(there)
        there.join(machine)
        if machine == len(self.class_of):
            self.class_of.append(there)
        else:
            self.class_of[machine] = there
        if len(state.arrivals) > 2 * len(state.members) + ARRIVALS_SPARE:
            self._compact(state)

    @staticmethod
    def _compact(state: PoolState) -> None:
        """Forget classes without machines, and rankings that were not read since the last time."""
        state.classes = {key: machine_class for key, machine_class in state.classes.items() if machine_class.members}
        state.arrivals = list(state.classes.values())
        state.rankings = {ask: ranking for ask, ranking in state.rankings.items() if ranking.epoch == state.epoch}
        state.joining = {ask: ranking for ask, ranking in state.joining.items() if ranking.epoch == state.epoch}
        state.epoch += 1

    def _count(self, state: PoolState) -> None:
        inside = [self.at[index] for index in state.members]
        state.largest = Resources(
            max(machine.cpu_millis for machine in inside),
            max(machine.memory_bytes for machine in inside),
            max(machine.gpus for machine in inside) * WHOLE_MILLIS,
        )
        open_classes = [self.class_of[index] for index in state.members if not self.at[index].blocked]
        state.cpu = sum(machine_class.cpu for machine_class in open_classes)
        state.memory = sum(machine_class.memory for machine_class in open_classes)
        state.gpu = sum(machine_class.gpu for machine_class in open_classes)
