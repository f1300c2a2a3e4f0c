"""Values of the scheduler as plain JSON and back: equal values give equal bytes on any machine.

Every class is written by its fields, so a new field is written and read without a change here. Sets are sorted, mappings too;
there are integers and no floats. What is read must be exactly what would have been written: an unknown field, a missing field or
a value of another type is refused with its path, and nothing is guessed.

Older files stay readable, and digests stay equal: a field that was renamed is written by its first name (`WRITTEN_AS`), and a
field that was added later is not written where it has its default, which a missing one means (`ADDED`).

`GangAsk` is the exception: many jobs ask for the same, so each one is written once and referred to by its number.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import types
import typing
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from jobs.scheduling.core.place.gangs import GangAsk
from jobs.scheduling.core.place.machines import Machine, TaskAsk
from jobs.scheduling.core.place.scores import Mix
from jobs.scheduling.core.state.decisions import Reserve
from jobs.scheduling.core.state.policy import Policy
from jobs.scheduling.core.state.work import HeldRoom, JobAsk

INTEGER_BITS_MAX = 128  # Sums of amounts over years fit by far; a longer number is a mistake or an attack.
WRITTEN_AS: Mapping[type, Mapping[str, str]] = {Policy: {"replan_seconds": "rebook_seconds"}}
"""By class and field, the name in files where it differs from the name in code."""

ADDED: Mapping[type, Mapping[str, Any]] = {
    HeldRoom: {"tasks": 0},
    JobAsk: {"grace_seconds": None},
    Machine: {"tasks_max": None},
    Reserve: {"by": ""},
}
"""By class, the fields that were added later, with the defaults that are not written."""


class Unreadable(ValueError):
    """What was read is not what would have been written. `where`: its path in the line, `/gang/roles/0`."""

    def __init__(self, code: str, where: str, what: str) -> None:
        super().__init__(f"{where or '/'}: {what}" if where else what)
        self.code = code
        self.where = where
        self.what = what


def text(value: object) -> str:
    """A plain value as it is written, always in the same way."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


class Encoding:
    """Plain values of typed ones and back, with the table of gangs of one file."""

    def __init__(self) -> None:
        self.gangs: list[GangAsk] = []
        self._numbers: dict[GangAsk, int] = {}
        self._by_identity: dict[int, int] = {}

    # --- Writing ------------------------------------------------------------------------------------------------------

    def plain(self, value: Any) -> Any:
        if value is None or type(value) in (int, str, bool):
            return value
        if isinstance(value, GangAsk):
            return self._number(value)
        if isinstance(value, enum.Enum):
            return value.value
        if isinstance(value, uuid.UUID):
            return str(value)
        if isinstance(value, Mix):
            return [[cpu, memory, gpu, sorted(models), often] for (cpu, memory, gpu, models), often in value.shapes]
        kind: Any = type(value)
        if dataclasses.is_dataclass(kind) or hasattr(kind, "_fields"):
            added = ADDED.get(kind, {})
            read = ((name, written, getattr(value, name)) for name, written in _names(kind))
            return {
                written: self.plain(field_value)
                for name, written, field_value in read
                if name not in added or field_value != added[name]
            }
        if isinstance(value, frozenset | set):
            return sorted((self.plain(item) for item in value), key=text)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, tuple | list):
            return [self.plain(item) for item in value]
        raise TypeError(f"nothing says how a {type(value).__name__} is written")

    def whole_gang(self, gang: GangAsk) -> dict[str, Any]:
        """A gang itself, for the table."""
        return {name: self.plain(getattr(gang, name)) for name in _hints(GangAsk)}

    def _number(self, gang: GangAsk) -> int:
        number = self._by_identity.get(id(gang))
        if number is None or self.gangs[number] is not gang:
            number = self._numbers.get(gang)
            if number is None:
                number = self._numbers[gang] = len(self.gangs)
                self.gangs.append(gang)
                self._by_identity[id(gang)] = number
        return number

    def _mapping(self, value: Mapping[Any, Any]) -> Any:
        plain = [(self.plain(key), self.plain(item)) for key, item in value.items()]
        if all(isinstance(key, str) for key, _ in plain):
            return dict(plain)
        return sorted(([key, item] for key, item in plain), key=text)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def value(self, kind: Any, found: Any, where: str = "") -> Any:
        """The value of a type that `plain` would write like this."""
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            return None if found is None else self._optional(kind, found, where)
        if origin is tuple:
            return self._tuple(typing.get_args(kind), found, where)
        if origin is frozenset:
            return frozenset(self.value(typing.get_args(kind)[0], item, where) for item in _list(found, where))
        if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
            return self._read_mapping(typing.get_args(kind), found, where)
        reader = _READERS.get(kind)
        if reader is not None:
            return reader(found, where)
        if kind is GangAsk:
            return self._gang(found, where)
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _member(kind, found, where)
        return self.fields(kind, found, where)

    def fields(self, kind: type, found: Any, where: str = "") -> Any:
        """A value of a class from all its fields."""
        hints, names = _hints(kind), _names(kind)
        if isinstance(found, dict):
            found = {**ADDED.get(kind, {}), **found}
        read = self.members({written: hints[name] for name, written in names}, found, where)
        try:
            return kind(**{name: read[written] for name, written in names})
        except AssertionError as broken:
            raise Unreadable("invalid", where, f"no {kind.__name__} has these values {broken}".rstrip()) from None

    def members(self, hints: Mapping[str, Any], found: Any, where: str = "") -> dict[str, Any]:
        """The values of fields by name, where there are exactly these fields."""
        if not isinstance(found, dict):
            raise Unreadable("invalid", where, f"an object was expected, of {', '.join(hints)}")
        unknown = sorted(set(found) - set(hints))
        if unknown:
            known = ", ".join(sorted(hints))
            raise Unreadable("unknown_field", f"{where}/{unknown[0]}", f"there is no such field; there are {known}")
        missing = [name for name in hints if name not in found]
        if missing:
            raise Unreadable("missing_field", f"{where}/{missing[0]}", "this field is missing")
        return {name: self.value(hint, found[name], f"{where}/{name}") for name, hint in hints.items()}

    @staticmethod
    def kinds(kind: type) -> Mapping[str, Any]:
        """The types of the fields of a class, in their order."""
        return _hints(kind)

    def read_gang(self, found: Any, where: str = "") -> None:
        """Add a gang to the table, under the next number."""
        self.gangs.append(self.fields(GangAsk, found, where))

    def _gang(self, found: Any, where: str) -> GangAsk:
        number = _integer(found, where)
        if not 0 <= number < len(self.gangs):
            raise Unreadable("invalid", where, f"there is no gang {number} so far")
        return self.gangs[number]

    def _optional(self, kind: Any, found: Any, where: str) -> Any:
        (only,) = (member for member in typing.get_args(kind) if member is not type(None))
        return self.value(only, found, where)

    def _tuple(self, kinds: tuple[Any, ...], found: Any, where: str) -> tuple[Any, ...]:
        items = _list(found, where)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return tuple(self.value(kinds[0], item, f"{where}/{at}") for at, item in enumerate(items))
        if len(items) != len(kinds):
            raise Unreadable("invalid", where, f"{len(kinds)} values were expected, not {len(items)}")
        return tuple(self.value(kind, item, f"{where}/{at}") for at, (kind, item) in enumerate(zip(kinds, items, strict=True)))

    def _read_mapping(self, kinds: tuple[Any, ...], found: Any, where: str) -> dict[Any, Any]:
        key_kind, value_kind = kinds
        pairs = found.items() if isinstance(found, dict) else [_pair(pair, where) for pair in _list(found, where)]
        return {self.value(key_kind, key, where): self.value(value_kind, item, f"{where}/{key}") for key, item in pairs}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


@cache
def _names(kind: type) -> tuple[tuple[str, str], ...]:
    """Each field's name in code, and in files."""
    written = WRITTEN_AS.get(kind, {})
    return tuple((name, written.get(name, name)) for name in _hints(kind))


def _list(found: Any, where: str) -> list[Any]:
    if not isinstance(found, list):
        raise Unreadable("invalid", where, "a list was expected")
    return found


def _pair(found: Any, where: str) -> tuple[Any, Any]:
    if not isinstance(found, list) or len(found) != 2:
        raise Unreadable("invalid", where, "a list of a key and a value was expected")
    return found[0], found[1]


def _integer(found: Any, where: str) -> int:
    if type(found) is not int or found.bit_length() > INTEGER_BITS_MAX:
        raise Unreadable("invalid", where, "a whole number was expected")
    return found


def _string(found: Any, where: str) -> str:
    if type(found) is not str:
        raise Unreadable("invalid", where, "a text was expected")
    return found


def _truth(found: Any, where: str) -> bool:
    if type(found) is not bool:
        raise Unreadable("invalid", where, "true or false was expected")
    return found


def _identifier(found: Any, where: str) -> uuid.UUID:
    try:
        read = uuid.UUID(_string(found, where))
    except ValueError:
        raise Unreadable("invalid", where, "an identifier (UUID) was expected") from None
    return read


def _member(kind: type[enum.Enum], found: Any, where: str) -> enum.Enum:
    try:
        return kind(found)
    except ValueError:
        raise Unreadable("invalid", where, f"one of {[member.value for member in kind]} was expected") from None


def _mix(found: Any, where: str) -> Mix:
    shapes = []
    for at, row in enumerate(_list(found, where)):
        here = f"{where}/{at}"
        if not isinstance(row, list) or len(row) != 5:
            raise Unreadable("invalid", here, "CPU, memory, GPU, models and how often were expected")
        cpu, memory, gpu, often = (_integer(row[place], here) for place in (0, 1, 2, 4))
        shapes.append((TaskAsk(cpu, memory, gpu, frozenset(_string(model, here) for model in _list(row[3], here))), often))
    return Mix(shapes)


_READERS: Mapping[Any, Callable[[Any, str], Any]] = {
    int: _integer,
    str: _string,
    bool: _truth,
    uuid.UUID: _identifier,
    Mix: _mix,
}
