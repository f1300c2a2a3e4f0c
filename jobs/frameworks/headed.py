"""What clusters around a head have in common: Ray's head, Spark's master, Dask's scheduler.

The head's task runs the cluster's service and, beside it, the job's own program, the driver: its end is the end of the job.
Without a command the head serves until it is stopped. Workers start when the head is ready, the driver when all workers are; a
worker that fails is started again alone. A worker's own command, which may be left out, is run before it joins."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from jobs.frameworks.agent import gang
from jobs.frameworks.base import WORKER, BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import Deciding, FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import SINGLE, by_load, check_roles, headed_roles
from jobs.frameworks.task_run import TaskRun
from kernel.errors import FieldError

NOTHING = ":"
WORKER_RETRIES = 3  # A worker that fails more often fails for a reason.


class HeadedFramework(BaseFramework):
    """A framework of this shape says what the head and the workers run; `head` names the role."""

    head: str
    worker = WORKER

    def head_run(self, job: FrameworkJob, role: FrameworkRole) -> TaskRun:
        """Services of the head; its command is the job's own."""
        raise NotImplementedError

    def worker_run(self, job: FrameworkJob, role: FrameworkRole, index: int) -> TaskRun:
        """The command of a worker, which does not end by itself."""
        raise NotImplementedError

    def short_roles(self, role: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The command is the driver's; replicas and resources are the workers', and the head has no GPU."""
        return headed_roles(role, self.head, self.worker)

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding(self.head)

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return by_load({name: role for name, role in roles.items() if name != self.head})

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return NOTHING

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return list(check_roles(self.name, {self.head: SINGLE}, roles, takes_others=True))

    def compile(self, job: FrameworkJob) -> GangPlan:
        workers = tuple(role.name for role in job.roles if role.name != self.head)

        def run_of(rank: int, role: FrameworkRole, index: int) -> TaskRun:
            if role.name != self.head:
                run = self.worker_run(job, role, index)
                return replace(run, after=(self.head,), prepares=role.argv[-1:] != (NOTHING,), max_retry=WORKER_RETRIES)
            run = self.head_run(job, role)
            awaited = () if role.ready else workers  # Workers wait for what the job says of the head, so its command cannot wait.
            return replace(run, before_command=awaited, command=() if role.argv[-1:] == (NOTHING,) else run.command)

        return gang(lay_out(job, chief=self.head), run_of)
