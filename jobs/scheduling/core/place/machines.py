"""What there is and what is free: the machines of a pass, and the only thing that changes while it runs.

Machines are numbered by (pool, name), so that every answer is the same in whatever order they were given. `take` and `give` are
exact inverses; they record what is and never refuse, because a node may have shrunk below what runs on it. Deciding what fits
is the business of `placing.py`.

The ideal: every question is asked of every machine. The shortcut: machines that nothing here can tell apart - same kind, same
CPU and memory left, same remainders of devices whatever their order - form one class (`MachineClass`), are asked once, and keep
their answers. A class is a value: `take` and `give` move one machine from a class to another and change no class, so no answer
ever gets stale. What has to be looked at again after a change is the class that the machine went to; `arrivals` is the list of
these, by which `ranking.py` keeps itself up to date.

Labels are not part of a kind, or every host name would make a class of its own. Only the label conditions that some ask has
really put are, one bit for each: a new condition moves the machines that meet it into classes of their own, once.

`mark`, then `rewind` or `settle`: what is tried in between is undone exactly, with the memory of what does not fit, or stays.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kernel.resources import Resources

if TYPE_CHECKING:  # They are kept here, beside what they describe, and know themselves what they are.
    from jobs.scheduling.core.place.ranking import Ranking
    from jobs.scheduling.core.place.refusals import RefusedAsks
    from jobs.scheduling.core.place.scores import Mix, PoolRules
    from jobs.scheduling.core.place.topology import Topology

WHOLE_MILLIS = 1000
NEED = tuple[str, frozenset[str]]  # A label and the values that are accepted.
ARRIVALS_SPARE = 1024  # How much longer than the number of machines the list of arrivals gets before it is written anew.
GIVEN_MAX = 1024  # As many unread changes for the better cost as much to look at as forgetting what did not fit.


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
    taints: frozenset[str] = frozenset()  # Keep out whoever does not tolerate them.
    avoid: frozenset[str] = frozenset()  # Taints that only ask to be avoided.
    blocked: str = ""  # Why nothing may start there; empty when something may.
    exclusive: bool = False  # Whether tasks may have cores of their own there.
    images: frozenset[str] = frozenset()  # Digests that are there already.
    data: frozenset[str] = frozenset()  # Datasets that are there already.


@dataclass(frozen=True, slots=True)
class TaskAsk:
    """What one task needs of one machine; equal asks meet the same fate.

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


@dataclass(frozen=True, slots=True)
class Kind:
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
        "tie",
        "whole",
    )

    def __init__(self, kind: Kind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...]) -> None:
        self.kind = kind
        self.kind_number = kind_number
        self.cpu = cpu
        self.memory = memory
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
    given: list[MachineClass] = field(default_factory=list)
    epoch: int = 0
    cpu: int = 0  # Free on machines that take something.
    memory: int = 0
    gpu: int = 0
    shared: int = 0  # Devices that someone has a share of, used up or not.
    largest: Resources = field(default_factory=Resources)  # The most of each that any machine has when it is empty.
    rankings: dict[TaskAsk, Ranking] = field(default_factory=dict)
    joining: dict[TaskAsk, Ranking] = field(default_factory=dict)  # The same where no further device may be shared.
    refused: RefusedAsks | None = None
    topology: Topology | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A state to come back to."""

    position: int
    given: tuple[int, ...]
    refused: tuple[RefusedAsks | None, ...]


class Machines:
    """All machines with what is left of each. `rules` say by pool how it wants to be filled (scores.py)."""

    def __init__(self, machines: Iterable[Machine], rules: Mapping[int, PoolRules] | None = None) -> None:
        self.at = sorted(machines, key=lambda one: (one.pool, one.name))
        self.rules = dict(rules or {})
        self.index = {(one.pool, one.name): index for index, one in enumerate(self.at)}
        assert len(self.index) == len(self.at), "two machines of one pool have one name"
        self.class_of: list[MachineClass] = []
        self.devices = [[WHOLE_MILLIS] * one.gpus for one in self.at]
        self._sharers: dict[tuple[int, int], int] = {}  # (machine, device) -> how many have a share of it.
        self._conditions: dict[NEED, int] = {}
        self.holders: dict[str, set[int]] = {}  # By digest or dataset, the machines that have it already.
        self._journal: list[tuple[int, int, int, int, tuple[int, ...]]] = []
        self._marks = 0
        self.version = 0  # Grows with every change of what is left anywhere: what was counted at a version is true at it.
        self._kinds: dict[Kind, int] = {}
        members: dict[int, list[int]] = {}
        for index, one in enumerate(self.at):
            members.setdefault(one.pool, []).append(index)
            self._holds(index, one.images | one.data, frozenset())
        self.pools = {pool: PoolState(tuple(inside)) for pool, inside in members.items()}
        for index, one in enumerate(self.at):
            kind, kind_number = self._kind(one)
            self._enter(index, kind, kind_number, one.cpu_millis, one.memory_bytes, (WHOLE_MILLIS,) * one.gpus)
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
        return [one for one in state.classes.values() if one.members] if state else []

    def largest_free(self, pool: int) -> dict[str, int]:
        """By GPU model, the most whole devices that are free on one machine on which something may start."""
        found: dict[str, int] = {}
        for one in self.classes(pool):
            if one.kind.gpus and not one.kind.blocked:
                found[one.kind.model] = max(found.get(one.kind.model, 0), one.whole)
        return dict(sorted(found.items()))

    def emptied(self) -> Machines:
        """The same machines with nothing taken: what could ever fit."""
        return Machines(self.at, self.rules)

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
            for index, one in enumerate(self.at):
                if one.labels.get(label) in accepted:
                    here = self.class_of[index]
                    self._move(
                        index, *self._known(replace(here.kind, meets=here.kind.meets | bit)), here.cpu, here.memory, here.devices
                    )
        return bit

    # --- Changes ------------------------------------------------------------------------------------------------------

    def take(self, machine: int, ask: TaskAsk, devices: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """Hold what one task needs; returns its devices, to be handed to `give`. `devices` None: the fullest that still fit."""
        chosen = self.fullest(machine, ask) if devices is None else devices
        each = ask.gpu_millis if ask.gpu_millis < WHOLE_MILLIS else WHOLE_MILLIS
        self._change(machine, -ask.cpu_millis, -ask.memory_bytes, -each, chosen)
        return chosen

    def give(self, machine: int, ask: TaskAsk, devices: tuple[int, ...]) -> None:
        """The exact inverse of the `take` that returned these devices."""
        self.take_back(machine, ask, devices)
        self._given(machine)

    def take_back(self, machine: int, ask: TaskAsk, devices: tuple[int, ...]) -> None:
        """Undo a `take` since which nothing was found not to fit."""
        each = ask.gpu_millis if ask.gpu_millis < WHOLE_MILLIS else WHOLE_MILLIS
        self._change(machine, ask.cpu_millis, ask.memory_bytes, each, devices)

    def update(self, machine: int, facts: Machine) -> None:
        """Replace what is known of a machine under the same pool and name; what is taken of it stays taken."""
        known = self.at[machine]
        assert (known.pool, known.name) == (facts.pool, facts.name)
        assert not self._marks
        here, left = self.class_of[machine], self.devices[machine]
        taken = [WHOLE_MILLIS - one for one in left]
        left[:] = [WHOLE_MILLIS - (taken[index] if index < len(taken) else 0) for index in range(facts.gpus)]
        self.at[machine] = facts
        self._holds(machine, facts.images | facts.data, known.images | known.data)
        kind, kind_number = self._kind(facts)
        cpu = here.cpu + facts.cpu_millis - known.cpu_millis
        memory = here.memory + facts.memory_bytes - known.memory_bytes
        self._move(machine, kind, kind_number, cpu, memory, tuple(sorted(left)))
        state = self.pools[facts.pool]
        self._count(state)
        state.rankings, state.joining, state.topology = {}, {}, None  # The largest machine may be another, and labels too.
        self._given(machine)

    def recollect(self, machine: int, facts: Machine) -> bool:
        """Take in other images and data that a machine holds; whether that is all that is new of it. No class changes by it."""
        known = self.at[machine]
        if replace(known, images=facts.images, data=facts.data) != facts:
            return False
        self.at[machine] = facts
        self._holds(machine, facts.images | facts.data, known.images | known.data)
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
            state.rankings, state.joining, state.refused, state.topology = {}, {}, None, None
            for one in state.classes.values():
                one.lost.clear()

    def fullest(self, machine: int, ask: TaskAsk) -> tuple[int, ...]:
        """The devices with the least left that still take the task; where none does, those with the most left."""
        left = self.devices[machine]
        if not ask.gpu_millis or not left:
            return ()
        each = min(ask.gpu_millis, WHOLE_MILLIS)
        order = sorted(range(len(left)), key=lambda one: (0, left[one], one) if left[one] >= each else (1, -left[one], one))
        return tuple(sorted(order[: max(1, ask.gpu_millis // WHOLE_MILLIS)]))

    def with_left(self, machine: int, remainder: int) -> tuple[int, ...]:
        """The first device that has exactly this much left."""
        return (self.devices[machine].index(remainder),)

    def mark(self) -> Mark:
        """Remember how things are, for `rewind` or `settle`; marks nest."""
        self._marks += 1
        states = self.pools.values()
        return Mark(
            len(self._journal),
            tuple(len(state.given) for state in states),
            tuple(state.refused.copy() if state.refused is not None else None for state in states),
        )

    def rewind(self, mark: Mark) -> None:
        """Undo all since the mark."""
        while len(self._journal) > mark.position:
            machine, cpu, memory, each, devices = self._journal.pop()
            self._apply(machine, -cpu, -memory, -each, devices)
        for state, given, refused in zip(self.pools.values(), mark.given, mark.refused, strict=True):
            del state.given[given:]
            state.refused = refused
        self._marks -= 1

    def settle(self, mark: Mark) -> None:
        """Let all since the mark stand."""
        assert len(self._journal) >= mark.position
        self._marks -= 1
        if not self._marks:
            self._journal.clear()

    def _change(self, machine: int, cpu: int, memory: int, each: int, devices: tuple[int, ...]) -> None:
        if self._marks:
            self._journal.append((machine, cpu, memory, each, devices))
        self._apply(machine, cpu, memory, each, devices)

    def _apply(self, machine: int, cpu: int, memory: int, each: int, devices: tuple[int, ...]) -> None:
        here = self.class_of[machine]
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
        """Count one owner of a share more or less."""
        before = self._sharers.pop(device, 0)
        after = before + (1 if more else -1)
        if after:
            self._sharers[device] = after
        state.shared += (after > 0) - (before > 0)

    def _given(self, machine: int) -> None:
        """Note a change for the better, for whoever remembers what did not fit."""
        state = self.pools[self.at[machine].pool]
        state.given.append(self.class_of[machine])
        if len(state.given) > GIVEN_MAX and not self._marks:
            state.given.clear()
            state.refused = None

    # --- Classes ------------------------------------------------------------------------------------------------------

    def _kind(self, one: Machine) -> tuple[Kind, int]:
        meets = sum(bit for (label, accepted), bit in self._conditions.items() if one.labels.get(label) in accepted)
        return self._known(
            Kind(
                one.pool, one.cpu_millis, one.memory_bytes, one.gpus, one.model, one.taints, one.avoid, bool(one.blocked),
                one.exclusive, meets,
            )
        )  # fmt: skip

    def _known(self, kind: Kind) -> tuple[Kind, int]:
        """A kind with its number, which stands for it where speed counts."""
        return kind, self._kinds.setdefault(kind, len(self._kinds))

    def _move(self, machine: int, kind: Kind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...]) -> None:
        self.version += 1
        self.class_of[machine].members.discard(machine)
        self._enter(machine, kind, kind_number, cpu, memory, devices)

    def _enter(self, machine: int, kind: Kind, kind_number: int, cpu: int, memory: int, devices: tuple[int, ...]) -> None:
        state = self.pools[kind.pool]
        key = (kind_number, cpu, memory, devices)
        there = state.classes.get(key)
        if there is None:
            there = state.classes[key] = MachineClass(kind, kind_number, cpu, memory, devices)
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
        """Forget classes without machines, and rankings that nobody read since the last time."""
        state.classes = {key: one for key, one in state.classes.items() if one.members}
        state.arrivals = list(state.classes.values())
        state.rankings = {ask: one for ask, one in state.rankings.items() if one.epoch == state.epoch}
        state.joining = {ask: one for ask, one in state.joining.items() if one.epoch == state.epoch}
        state.epoch += 1

    def _count(self, state: PoolState) -> None:
        inside = [self.at[index] for index in state.members]
        state.largest = Resources(
            max(one.cpu_millis for one in inside),
            max(one.memory_bytes for one in inside),
            max(one.gpus for one in inside) * WHOLE_MILLIS,
        )
        open_classes = [self.class_of[index] for index in state.members if not self.at[index].blocked]
        state.cpu = sum(one.cpu for one in open_classes)
        state.memory = sum(one.memory for one in open_classes)
        state.gpu = sum(one.gpu for one in open_classes)
