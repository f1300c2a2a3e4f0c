"""Values of the scheduler as plain JSON and back: what two machines write of equal values is equal to the byte.

Every class is written by its fields, so a field that is added is written and read without a word here. Sets are sorted, mappings
too; there are integers and no floats. What is read must be exactly what would have been written: an unknown field, a missing one
or a value of another type is refused with the way to it, and nothing is guessed.

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
from jobs.scheduling.core.place.machines import TaskAsk
from jobs.scheduling.core.place.scores import Mix

INTEGER_BITS_MAX = 128  # Sums of amounts over years fit by far; a longer number is a mistake or an attack.


class Unreadable(ValueError):
    """What was found is not what would have been written. `where` is the way to it from the line, `/gang/roles/0`."""

    def __init__(self, code: str, where: str, what: str) -> None:
        super().__init__(f"{where or '/'}: {what}" if where else what)
        self.code = code
        self.where = where
        self.what = what


def text(value: object) -> str:
    """The one way in which a plain value is written."""
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
            return {name: self.plain(getattr(value, name)) for name in _hints(kind)}
        if isinstance(value, frozenset | set):
            return sorted((self.plain(one) for one in value), key=text)
        if isinstance(value, Mapping):
            return self._mapping(value)
        if isinstance(value, tuple | list):
            return [self.plain(one) for one in value]
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
        plain = [(self.plain(key), self.plain(one)) for key, one in value.items()]
        if all(isinstance(key, str) for key, _ in plain):
            return dict(plain)
        return sorted(([key, one] for key, one in plain), key=text)

    # --- Reading ------------------------------------------------------------------------------------------------------

    def value(self, kind: Any, found: Any, where: str = "") -> Any:
        """What `plain` made this of, for a value of a type."""
        origin = typing.get_origin(kind)
        if origin in (typing.Union, types.UnionType):
            return None if found is None else self._of_one(kind, found, where)
        if origin is tuple:
            return self._tuple(typing.get_args(kind), found, where)
        if origin is frozenset:
            return frozenset(self.value(typing.get_args(kind)[0], one, where) for one in _list(found, where))
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
        read = self.members(_hints(kind), found, where)
        try:
            return kind(**read)
        except AssertionError as broken:
            raise Unreadable("invalid", where, f"no {kind.__name__} has these values {broken}".rstrip()) from None

    def members(self, hints: Mapping[str, Any], found: Any, where: str = "") -> dict[str, Any]:
        """The values of fields by name: of all of them, and of no others."""
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
        """A line of the table: the next number stands for this gang from here on."""
        self.gangs.append(self.fields(GangAsk, found, where))

    def _gang(self, found: Any, where: str) -> GangAsk:
        number = _integer(found, where)
        if not 0 <= number < len(self.gangs):
            raise Unreadable("invalid", where, f"there is no gang {number} so far")
        return self.gangs[number]

    def _of_one(self, kind: Any, found: Any, where: str) -> Any:
        (only,) = (one for one in typing.get_args(kind) if one is not type(None))
        return self.value(only, found, where)

    def _tuple(self, kinds: tuple[Any, ...], found: Any, where: str) -> tuple[Any, ...]:
        items = _list(found, where)
        if len(kinds) == 2 and kinds[1] is Ellipsis:
            return tuple(self.value(kinds[0], one, f"{where}/{at}") for at, one in enumerate(items))
        if len(items) != len(kinds):
            raise Unreadable("invalid", where, f"{len(kinds)} values were expected, not {len(items)}")
        return tuple(self.value(kind, one, f"{where}/{at}") for at, (kind, one) in enumerate(zip(kinds, items, strict=True)))

    def _read_mapping(self, kinds: tuple[Any, ...], found: Any, where: str) -> dict[Any, Any]:
        key_kind, value_kind = kinds
        pairs = found.items() if isinstance(found, dict) else [_pair(one, where) for one in _list(found, where)]
        return {self.value(key_kind, key, where): self.value(value_kind, one, f"{where}/{key}") for key, one in pairs}


@cache
def _hints(kind: type) -> Mapping[str, Any]:
    hints = typing.get_type_hints(kind)
    names = [one.name for one in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    return {name: hints[name] for name in names}


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
        raise Unreadable("invalid", where, f"one of {[one.value for one in kind]} was expected") from None


def _mix(found: Any, where: str) -> Mix:
    shapes = []
    for at, one in enumerate(_list(found, where)):
        here = f"{where}/{at}"
        if not isinstance(one, list) or len(one) != 5:
            raise Unreadable("invalid", here, "CPU, memory, GPU, models and how often were expected")
        cpu, memory, gpu, often = (_integer(one[place], here) for place in (0, 1, 2, 4))
        shapes.append((TaskAsk(cpu, memory, gpu, frozenset(_string(model, here) for model in _list(one[3], here))), often))
    return Mix(shapes)


_READERS: Mapping[Any, Callable[[Any, str], Any]] = {
    int: _integer,
    str: _string,
    bool: _truth,
    uuid.UUID: _identifier,
    Mix: _mix,
}
