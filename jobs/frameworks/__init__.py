"""Frameworks by name: every module of this folder that makes `FRAMEWORK` is one, so adding one is a module and its tests."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from jobs.frameworks.interface import (
    Deciding,
    Framework,
    FrameworkJob,
    FrameworkRole,
    GangPlan,
    ReadyCheck,
    RoleShape,
    TaskPlan,
)

NONE = "none"  # What a job has that names no framework.


def _found() -> dict[str, Framework]:
    """By name, `none` first, the others in order of their names."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    frameworks: list[Framework] = [module.FRAMEWORK for module in modules if hasattr(module, "FRAMEWORK")]
    by_name = {
        framework.name: framework
        for framework in sorted(frameworks, key=lambda framework: (framework.name != NONE, framework.name))
    }
    assert len(by_name) == len(frameworks), "two frameworks have the same name"
    return by_name


_ALL = _found()


def get_framework(name: str) -> Framework:
    """The framework of this name; unknown names are refused by the job spec before they come here."""
    return _ALL[name]


def framework_names() -> tuple[str, ...]:
    """All frameworks, `none` first."""
    return tuple(_ALL)


__all__ = [
    "Deciding",
    "Framework",
    "FrameworkJob",
    "FrameworkRole",
    "GangPlan",
    "ReadyCheck",
    "RoleShape",
    "TaskPlan",
    "framework_names",
    "get_framework",
]
