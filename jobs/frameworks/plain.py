"""`none`: tasks that find each other, if they need to, through the common variables."""

from __future__ import annotations

from jobs.frameworks.agent import gang
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, GangPlan
from jobs.frameworks.task_run import TaskRun


class Plain(BaseFramework):
    name = "none"

    def compile(self, job: FrameworkJob) -> GangPlan:
        return gang(lay_out(job), lambda rank, role, index: TaskRun())


FRAMEWORK = Plain()
