"""`ordered`: tasks that each have a part of numbered work: downloads, frames of a video, tracks of audio.

With a role `dispatcher` it is `queue` with a first deal: of n tasks, task i has the shards i, i + n, ..., and what a slow or lost
task has left is dealt again to those that are done; a straggler is named. Without one each task is a shard of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobs.frameworks.agent import gang
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, GangPlan, RoleShape
from jobs.frameworks.queue import DISPATCHER, Queue
from jobs.frameworks.task_run import TaskRun
from kernel.errors import FieldError

PAGE = """## ordered

| variable | meaning |
|---|---|
| `BERTH_SHARD_INDEX`, `BERTH_SHARD_COUNT` | Which part of the work this is, from 0, and how many there are. |

Without a role `dispatcher` each task is one shard: its index is `BERTH_RANK`. With one, its command prints one shard a line, and
the variables are those of [queue](#queue); of n tasks, task i begins with the shards i, i + n, and so on. See
[ordered](frameworks/ordered.md).
"""


class Ordered(Queue):
    name = "ordered"
    page = PAGE
    dealing = ("deal",)

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return super().validate(roles) if DISPATCHER in roles else []

    def compile(self, job: FrameworkJob) -> GangPlan:
        if any(role.name == DISPATCHER for role in job.roles):
            return super().compile(job)
        layout = lay_out(job)
        count = (str(layout.world_size),)
        return gang(
            layout,
            lambda rank, role, index: TaskRun(env={"BERTH_SHARD_INDEX": (str(rank),), "BERTH_SHARD_COUNT": count}),
        )


FRAMEWORK = Ordered()
