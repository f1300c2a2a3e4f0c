"""`none`: tasks that find each other, if they need to, through the common variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusters.engines.interface import TaskName
from jobs.frameworks.environment import HOSTS_FILE, lay_out, own_environment
from jobs.frameworks.interface import FrameworkJob, GangPlan, RoleShape, TaskPlan
from kernel.errors import FieldError


class Plain:
    name = "none"
    page = ""
    reserved_env: frozenset[str] = frozenset()
    default_chief: str | None = None

    def default_command(self, role: str) -> str | None:
        return None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return []

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        tasks = tuple(
            TaskPlan(
                name=TaskName(role.name, index),
                argv=tuple((argument,) for argument in role.argv),
                env=own_environment(layout, rank, role, index),
                ports=role.ports,
            )
            for rank, role, index in layout.tasks()
        )
        return GangPlan(tasks, {HOSTS_FILE: layout.hosts_file})


FRAMEWORK = Plain()
