"""Another source for a module of the running program, which is not started again for it.

What the module defined before does from now on what the new source says, also where it was imported by name. Only in a process
that ends soon: what the module held in memory stays, and nothing leads back.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping
from types import FunctionType
from typing import Any

PLAIN = (bool, int, float, str, bytes, tuple, frozenset)


def swap(name: str, source: str) -> None:
    """Give a loaded module this source. Functions and methods change; a value that differs is refused, because those who imported
    it by name would keep the old one."""
    module = importlib.import_module(name)
    space = vars(module)
    before = dict(space)
    exec(compile(source, str(module.__file__), "exec", dont_inherit=True), space)
    _keep(before, space, name)


def _keep(before: Mapping[str, Any], space: dict[str, Any], module: str) -> None:
    """Put what was there back in its place, with the code of what came."""
    for name, old in before.items():
        new = space[name]
        if new is old:
            continue
        assert not (isinstance(old, PLAIN) and new != old), f"{module}.{name} is {new!r} instead of {old!r}: only code is swapped"
        if getattr(old, "__module__", "") == module:
            _take(old, new)
        space[name] = old


def _take(old: Any, new: Any) -> None:
    if isinstance(old, type):
        _take_methods(old, new)
    elif isinstance(inspect.unwrap(old), FunctionType):  # Below its decorators.
        _take_code(inspect.unwrap(old), inspect.unwrap(new))


def _take_methods(old: type, new: type) -> None:
    for name, member in vars(new).items():
        known = vars(old).get(name)
        if known is None and isinstance(member, FunctionType):
            setattr(old, name, member)
        for was, now in zip(_functions(known), _functions(member), strict=False):
            _take_code(was, now)


def _functions(member: object) -> list[FunctionType]:
    """The functions that a member of a class is made of."""
    if isinstance(member, property):
        parts: list[object] = [member.fget, member.fset, member.fdel]
    else:
        parts = [getattr(member, "__func__", member)]
    found = [inspect.unwrap(part) for part in parts if callable(part) and not isinstance(part, type)]
    return [each for each in found if isinstance(each, FunctionType)]


def _take_code(old: FunctionType, new: FunctionType) -> None:
    old.__code__, old.__defaults__, old.__kwdefaults__ = new.__code__, new.__defaults__, new.__kwdefaults__
