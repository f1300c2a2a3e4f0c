"""What a framework does that says nothing of its own: one kind of task, all of which decide, anywhere."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from jobs.frameworks.interface import Deciding, RoleShape
from kernel.errors import FieldError

WORKER = "worker"


class BaseFramework:
    """The defaults of `jobs.frameworks.interface.Framework`, but for `name` and `compile`."""

    name: str
    page = ""
    reserved_env: frozenset[str] = frozenset()
    takes_start_rules = True
    takes_processes = False

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding()

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return {}

    def short_roles(self, role: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        return {WORKER: role}

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return []
