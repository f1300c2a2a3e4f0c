"""Event log in, decision log out: the events of a core and its decisions, as lines that are equal to the byte anywhere.

A log begins with a `State` and goes on with events: the calls of `Core`, one line each, `decide` among them. Fed to a new core
(`replay_log`), they give the same decisions in the same order and so the same lines, on any machine and in any process. A log may
also say after each pass what was decided then, so that a replay can be compared with it. `recorder.py` writes such a log beside a
core that is at work.

The format of lines has no table of its own: `encoding.py` writes every value by its fields, `files.py` guards the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any, NamedTuple, get_args

from jobs.scheduling.core.core import Core
from jobs.scheduling.core.place.gangs import Placed
from jobs.scheduling.core.place.machines import Machine
from jobs.scheduling.core.place.scores import Mix, PoolRules
from jobs.scheduling.core.snapshot import Held, State, build, resume
from jobs.scheduling.core.state.decisions import Admit, Claim, Decision, Evict, Reserve, Wait
from jobs.scheduling.core.state.reservation import KeptReservation
from jobs.scheduling.core.state.work import Claimed, JobAsk, Need
from jobs.scheduling.replay.encoding import Encoding, Unreadable, text
from jobs.scheduling.replay.files import BadFile, Written, read_lines
from tenants.capacity.quota.bookings import Booked
from tenants.capacity.quota.caps import CapFacts
from tenants.capacity.quota.limits import Capacity, LimitedQueue
from tenants.capacity.quota.shares import Shares


class Submitted(NamedTuple):
    job: JobAsk


class Withdrawn(NamedTuple):
    id: str


class Started(NamedTuple):
    job: JobAsk
    placed: Placed
    at: int
    need: Need | None


class Ended(NamedTuple):
    id: str


class MachineChanged(NamedTuple):
    machine: Machine


class LimitsChanged(NamedTuple):
    """Other limits of the same queues and pools; what is held and remembered stays."""

    queues: tuple[LimitedQueue, ...]
    capacities: tuple[Capacity, ...]


class MixChanged(NamedTuple):
    """The mix of tasks of a pool, from now on."""

    pool: int
    mix: Mix | None


class WeightsChanged(NamedTuple):
    """The weights of single terms by which a pool is filled, from now on, instead of its policy's."""

    pool: int
    weights: Mapping[str, int]


class BookingsChanged(NamedTuple):
    """All bookings of tenants, from now on."""

    bookings: tuple[Booked, ...]


class CapsChanged(NamedTuple):
    """All caps on users, from now on."""

    caps: tuple[CapFacts, ...]


class Checkpointed(NamedTuple):
    id: str
    at: int


class ToldToLeave(NamedTuple):
    id: str


class Resumed(NamedTuple):
    """What was under way when the state was taken, once the waiting jobs are known: jobs that leave for claims, reserved starts,
    claims."""

    leaving: tuple[Held, ...]
    reserved: tuple[KeptReservation, ...]
    claims: tuple[Claimed, ...]


class Decided(NamedTuple):
    """A pass was asked for at this moment."""

    now: int


Event = (
    Submitted
    | Withdrawn
    | Started
    | Ended
    | MachineChanged
    | LimitsChanged
    | MixChanged
    | WeightsChanged
    | BookingsChanged
    | CapsChanged
    | Checkpointed
    | ToldToLeave
    | Resumed
    | Decided
)
EVENTS: dict[str, type] = {
    "submitted": Submitted,
    "withdrawn": Withdrawn,
    "started": Started,
    "ended": Ended,
    "machine_changed": MachineChanged,
    "limits_changed": LimitsChanged,
    "mix_changed": MixChanged,
    "weights_changed": WeightsChanged,
    "bookings_changed": BookingsChanged,
    "caps_changed": CapsChanged,
    "checkpointed": Checkpointed,
    "told_to_leave": ToldToLeave,
    "resumed": Resumed,
    "decide": Decided,
}
DECISIONS: dict[str, type] = {
    "admit": Admit,
    "wait": Wait,
    "evict": Evict,
    "claim": Claim,
    "book": Reserve,
}  # The first names, for digests.
assert set(get_args(Event)) == set(EVENTS.values())
assert set(get_args(Decision)) == set(DECISIONS.values())
NAMES = {kind: name for name, kind in (EVENTS | DECISIONS).items()}
LISTS = tuple(field.name for field in fields(State) if field.name != "history" and "tuple" in str(field.type))
IN_ORDER = frozenset({"pools", "capacities"})  # Numbered by position; the order of all other lists has no meaning.
SORTED_BY: dict[str, Callable[[Any], Any]] = {
    "machines": attrgetter("pool", "name"),
    "queues": lambda queue: str(queue.id),
    "waiting": attrgetter("submitted_at", "id"),
    "running": attrgetter("job.id"),
}


@dataclass(frozen=True, slots=True)
class Log:
    """A state and the events after it. `passes`: what was decided, where that was written down."""

    state: State
    events: tuple[Event, ...] = ()
    passes: tuple[PassDecided, ...] = ()


class PassDecided(NamedTuple):
    """What one pass decided."""

    now: int
    decisions: tuple[Decision, ...]


def in_order(state: State) -> State:
    """The same state with all lists in the order in which they are written."""
    ordered: dict[str, Any] = {name: _sorted(name, getattr(state, name)) for name in LISTS if name not in IN_ORDER}
    return replace(state, history=dict(sorted(state.history.items())), **ordered)


def apply(core: Core, event: Event) -> tuple[Decision, ...]:
    """Tell a core of an event. Returns its decisions where the event was a pass."""
    match event:
        case Decided(now):
            return core.decide(now)
        case Submitted(job):
            core.submit(job)
        case Withdrawn(job_id):
            core.withdraw(job_id)
        case Started(job, placed, at, need):
            core.started(job, placed, at, need)
        case Ended(job_id):
            core.ended(job_id)
        case MachineChanged(machine):
            core.machine_changed(machine)
        case LimitsChanged(queues, capacities):
            core.limits_changed(_with_history(core, queues, capacities))
        case MixChanged(pool, mix):
            core.mix_changed(pool, mix)
        case WeightsChanged(pool, weights):  # As with a mix: no job fits that did not.
            core.machines.set_rules(pool, replace(core.machines.rules.get(pool) or PoolRules(), weights=weights))
        case BookingsChanged(bookings):
            core.bookings_changed(bookings)
        case CapsChanged(caps):
            core.caps_changed(caps)
        case Checkpointed(job_id, at):
            core.checkpointed(job_id, at)
        case ToldToLeave(job_id):
            core.told_to_leave(job_id)
        case Resumed(leaving, reserved, claims):
            resume(core, leaving, reserved, claims)
    return ()


def replay(log: Log) -> Iterator[PassDecided]:
    """Decide again: all passes of a log through a new core."""
    core = build(log.state)
    for event in log.events:
        decided = apply(core, event)
        if isinstance(event, Decided):
            yield PassDecided(event.now, decided)


def replay_log(lines: Iterable[str]) -> list[str]:
    """The decision log of an event log. The same input gives the same bytes. Raises `BadFile` before anything is decided."""
    log = read_log(lines)
    return list(decision_lines(replay(log)))


# --- Writing ----------------------------------------------------------------------------------------------------------


def log_lines(log: Log) -> Iterator[str]:
    written, encoding = Written("log"), Encoding()
    yield written.begin()
    for plain in plain_state(encoding, log.state):
        yield written.line(plain)
    passes = iter(log.passes)
    for event in log.events:
        for plain in plain_item(encoding, NAMES[type(event)], event):
            yield written.line(plain)
        decided = next(passes, None) if isinstance(event, Decided) else None
        for plain in plain_pass(encoding, decided) if decided is not None else ():
            yield written.line(plain)
    yield written.end()


def decision_lines(passes: Iterable[PassDecided]) -> Iterator[str]:
    written, encoding = Written("decisions"), Encoding()
    yield written.begin()
    for decided in passes:
        for plain in plain_pass(encoding, decided):
            yield written.line(plain)
    yield written.end()


def plain_pass(encoding: Encoding, decided: PassDecided) -> Iterator[dict[str, Any]]:
    """One object for the pass, then one for each decision."""
    yield {"kind": "pass", "now": decided.now}
    for decision in decided.decisions:
        yield from plain_item(encoding, NAMES[type(decision)], decision)


def plain_state(encoding: Encoding, state: State) -> Iterator[dict[str, Any]]:
    """One object for all single values, then one for each item of each list."""
    ordered = in_order(state)
    single = {field.name: encoding.plain(getattr(ordered, field.name)) for field in fields(State) if field.name not in LISTS}
    yield {"kind": "state", **single}
    for name in LISTS:
        for item in getattr(ordered, name):
            yield from plain_item(encoding, name, item)


def plain_item(encoding: Encoding, kind: str, item: Any) -> Iterator[dict[str, Any]]:
    """An object of one kind, after the gangs that it is the first to name."""
    known = len(encoding.gangs)
    if isinstance(item, LimitsChanged):
        item = item._replace(queues=_sorted("queues", item.queues))
    plain = encoding.plain(item)
    for gang in encoding.gangs[known:]:
        yield {"kind": "gang", "value": encoding.whole_gang(gang)}
    yield {"kind": kind, "value": plain}


# --- Reading ----------------------------------------------------------------------------------------------------------


def read_log(lines: Iterable[str], *, is_open: bool = False) -> Log:
    """Read a log. `is_open`: it is still being written, or its writer was killed, so that it may end anywhere. The last pass may
    be incomplete then: it counts as a pass without written decisions."""
    reader, events, passes, is_within = StateReader(), [], _Passes(), False
    for number, found in read_lines(lines, "log", is_open=is_open):
        if reader.take(number, found):
            continue
        if passes.take(number, found, reader):
            is_within = is_open
            continue
        is_within = False
        kind = EVENTS.get(str(found.get("kind")))
        if kind is not None:
            events.append(reader.item(number, kind, found))
        elif found.get("kind") != "end":
            raise unknown_kind(number, found)
    decided = passes.read()
    return Log(reader.state(), tuple(events), decided[:-1] if is_within else decided)


class _Passes:
    """The passes of a log, put together from lines."""

    def __init__(self) -> None:
        self._found: list[tuple[int, list[Decision]]] = []

    def take(self, number: int, found: dict[str, Any], reader: StateReader) -> bool:
        """Whether the line was part of a pass."""
        if found.get("kind") == "pass":
            if type(found.get("now")) is not int or set(found) != {"kind", "now"}:
                raise BadFile(number, "invalid", "a pass has a moment, `now`, and nothing else")
            self._found.append((found["now"], []))
            return True
        kind = DECISIONS.get(str(found.get("kind")))
        if kind is None or not self._found:
            return False
        self._found[-1][1].append(reader.item(number, kind, found))
        return True

    def read(self) -> tuple[PassDecided, ...]:
        return tuple(PassDecided(now, tuple(decisions)) for now, decisions in self._found)


class StateReader:
    """A state, put together from its lines; other lines are left to the caller."""

    def __init__(self) -> None:
        self.encoding = Encoding()
        self._single: dict[str, Any] | None = None
        self._lists: dict[str, list[Any]] = {name: [] for name in LISTS}
        self._kinds = self.encoding.kinds(State)
        self._line = 1

    def take(self, number: int, found: dict[str, Any]) -> bool:
        """Whether the line was part of the state, or of the table of gangs."""
        kind, self._line = found.get("kind"), number
        if kind == "state":
            if self._single is not None:
                raise BadFile(number, "invalid", "a second state follows the first")
            single = {name: hint for name, hint in self._kinds.items() if name not in LISTS}
            plain = {name: value for name, value in found.items() if name != "kind"}
            self._single = self._read(number, lambda: self.encoding.members(single, plain))
        elif kind == "gang":
            self._read(number, lambda: self.encoding.read_gang(_value(found)))
        elif kind in self._lists:
            (item, _) = get_args(self._kinds[kind])
            self._lists[kind].append(self._read(number, lambda: self.encoding.value(item, _value(found))))
        else:
            return False
        return True

    def item(self, number: int, kind: type, found: dict[str, Any]) -> Any:
        return self._read(number, lambda: self.encoding.value(kind, _value(found)))

    def state(self) -> State:
        if self._single is None:
            raise BadFile(self._line, "missing_field", "there is no line of kind state")
        lists: dict[str, Any] = {name: tuple(items) for name, items in self._lists.items()}
        return State(**self._single, **lists)

    @staticmethod
    def _read(number: int, read: Callable[[], Any]) -> Any:
        try:
            return read()
        except Unreadable as broken:
            raise BadFile(number, broken.code, str(broken)) from None


def unknown_kind(number: int, found: dict[str, Any]) -> BadFile:
    return BadFile(number, "unknown_kind", f"nothing here is of kind {found.get('kind')!r}")


def _value(found: dict[str, Any]) -> Any:
    unknown = sorted(set(found) - {"kind", "value"})
    if unknown or "value" not in found:
        what = f"there is no such field; there are kind and value: {unknown[0]}" if unknown else "its value is missing"
        raise Unreadable("unknown_field" if unknown else "missing_field", "", what)
    return found["value"]


def _sorted(name: str, items: tuple[Any, ...]) -> tuple[Any, ...]:
    known = SORTED_BY.get(name)
    return tuple(sorted(items, key=known or (lambda item: text(Encoding().plain(item)))))


def _with_history(core: Core, queues: tuple[LimitedQueue, ...], capacities: tuple[Capacity, ...]) -> Shares:
    shares = Shares(queues, capacities)
    moment = core.shares.history_at
    if moment is not None:
        shares.recall(core.shares.history(), moment)
    return shares
