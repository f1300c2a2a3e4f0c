"""Frameworks by name. Adding one is a module with a `Framework`, a line in `_ALL`, and its tests."""

from __future__ import annotations

from jobs.frameworks.interface import Framework, FrameworkJob, FrameworkRole, Plan, RoleShape, TaskPlan
from jobs.frameworks.jax import Jax
from jobs.frameworks.mpi import Mpi
from jobs.frameworks.plain import Plain
from jobs.frameworks.pytorch import PyTorch

_ALL: dict[str, Framework] = {framework.name: framework for framework in (Plain(), Jax(), PyTorch(), Mpi())}


def get_framework(name: str) -> Framework:
    """The framework of this name; unknown names are refused by the job spec before they come here."""
    return _ALL[name]


def framework_names() -> tuple[str, ...]:
    """All frameworks, `none` first."""
    return tuple(_ALL)


__all__ = ["Framework", "FrameworkJob", "FrameworkRole", "Plan", "RoleShape", "TaskPlan", "framework_names", "get_framework"]
