"""Which CUDA a container image needs of a GPU's driver, in the words of NVIDIA's container tools, and whether a driver has it.

Images say it in `NVIDIA_REQUIRE_CUDA`: alternatives, divided by spaces, each with conditions, divided by commas, all of which
must hold (docs.nvidia.com, Container Toolkit 1.16, "Constraints"):

    cuda>=12.4 brand=tesla,driver>=535,driver<536 brand=unknown,driver>=535,driver<536

`cuda` is the newest CUDA that the driver supports. Images that only tell with which CUDA they were made (`CUDA_VERSION`, a label)
run on every driver of the same major version (docs.nvidia.com/deploy/cuda-compatibility, "Minor Version Compatibility").

Conditions on what is not known of a machine, its brand say, and what is not written as above, are no reason to refuse. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

EXPRESSION_MAX = 8_192  # NVIDIA's own have some 2,000 characters: a line for each brand and older driver.
REQUIRE, DISABLE, VERSION, LABEL = "NVIDIA_REQUIRE_CUDA", "NVIDIA_DISABLE_REQUIRE", "CUDA_VERSION", "com.nvidia.cuda.version"
_CONDITION = re.compile(r"(cuda|driver)(>=|<=|!=|=|>|<)([0-9]+(?:\.[0-9]+){0,3})")
_RELEASE = re.compile(r"([0-9]{1,3})(?:\.[0-9]+){0,3}")
_TRUE = frozenset({"1", "t", "true"})  # As the toolkit reads it (Go's strconv.ParseBool), whatever the case.
_PARTS = 4

Numbers = tuple[int, ...]
_COMPARE: Mapping[str, Callable[[Numbers, Numbers], bool]] = {
    ">=": lambda there, wanted: there >= wanted,
    "<=": lambda there, wanted: there <= wanted,
    ">": lambda there, wanted: there > wanted,
    "<": lambda there, wanted: there < wanted,
    "=": lambda there, wanted: there == wanted,
    "!=": lambda there, wanted: there != wanted,
}


@dataclass(frozen=True, slots=True)
class Driver:
    """What a machine has: the newest CUDA that its driver supports ("12.4"), and the driver's version. Empty: not known."""

    cuda: str
    version: str


def requirement_of(env: Mapping[str, str], labels: Mapping[str, str]) -> str:
    """What an image needs, by its variables and labels; "" where it says nothing, or says that it is not to be asked."""
    if is_disabled(env):
        return ""
    stated = env.get(REQUIRE, "").strip()
    if stated:
        return stated if len(stated) <= EXPRESSION_MAX else ""
    made_with = _RELEASE.fullmatch((env.get(VERSION) or labels.get(LABEL) or "").strip())
    return f"cuda>={made_with[1]}.0" if made_with is not None else ""


def is_disabled(env: Mapping[str, str]) -> bool:
    """Whether these variables say that no driver is to be asked for: the image brings what an older one lacks."""
    return env.get(DISABLE, "").strip().lower() in _TRUE


def holds(requirement: str, driver: Driver) -> bool | None:
    """Whether a machine has what an image needs; None where that is not known."""
    answers = [_all_hold(alternative, driver) for alternative in requirement.split()]
    if not answers or True in answers:
        return True
    return None if None in answers else False


def least(requirement: str) -> Driver:
    """The lowest CUDA, or else the lowest driver, that an image asks for, for people; empty where it asks for something else."""
    lowest: dict[str, str] = {}
    for alternative in requirement.split():
        for name, comparison, version in _CONDITION.findall(alternative):
            if comparison in (">=", ">") and (name not in lowest or _numbers(version) < _numbers(lowest[name])):
                lowest[name] = version
    cuda = lowest.get("cuda", "")
    return Driver(cuda, "" if cuda else lowest.get("driver", ""))


def age(driver: Driver) -> tuple[Numbers, Numbers]:
    """By which newer drivers sort after older ones."""
    return _numbers(driver.cuda), _numbers(driver.version)


def _all_hold(alternative: str, driver: Driver) -> bool | None:
    answers = [_holds(condition, driver) for condition in alternative.split(",")]
    if False in answers:
        return False
    return None if None in answers else True


def _holds(condition: str, driver: Driver) -> bool | None:
    found = _CONDITION.fullmatch(condition)
    if found is None:
        return None
    name, comparison, version = found.groups()
    there = driver.cuda if name == "cuda" else driver.version
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)*", there):
        return None
    wanted = _numbers(version)
    if name == "cuda":  # Of a driver, only these two parts are told.
        wanted = (*wanted[:2], *([0] * (_PARTS - 2)))
    return _COMPARE[comparison](_numbers(there), wanted)


def _numbers(version: str) -> Numbers:
    parts = [int(part) for part in version.split(".")[:_PARTS] if part.isascii() and part.isdigit()]
    return (*parts, *([0] * (_PARTS - len(parts))))
