"""`none`: tasks that find each other, if they need to, through the common variables."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from jobs.frameworks.agent import TaskRun, gang
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import Deciding, FrameworkJob, GangPlan, RoleShape
from kernel.errors import FieldError


class Plain:
    name = "none"
    page = ""
    reserved_env: frozenset[str] = frozenset()
    takes_start_rules = True
    takes_processes = False

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding()

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return []

    def compile(self, job: FrameworkJob) -> GangPlan:
        return gang(lay_out(job), lambda rank, role, index: TaskRun())


FRAMEWORK = Plain()
