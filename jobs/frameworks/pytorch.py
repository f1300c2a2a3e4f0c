"""`pytorch`: `torch.distributed` over the tasks, in either of its two ways, with the same variables.

One process a task: `init_process_group` finds MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE. Several processes a task:
`torchrun script.py` takes its options from the PET_* variables, starts as many processes as the task has GPUs (one without),
and sets RANK and WORLD_SIZE anew for each of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from clusters.engines.interface import AddressOf, PortOf, TaskName, Text
from jobs.frameworks.agent import gang, shared_gpu_runs
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import ring
from jobs.frameworks.task_run import TaskRun

PORT = "berth-torch"


PAGE = """## pytorch

| variable | meaning |
|---|---|
| `MASTER_ADDR`, `MASTER_PORT` | Address and port of the first task. |
| `RANK`, `WORLD_SIZE` | Rank of this task and number of tasks, for one process a task. |
| `LOCAL_RANK`, `LOCAL_WORLD_SIZE` | 0 and 1, for one process a task. |
| `PET_NNODES`, `PET_NODE_RANK`, `PET_MASTER_ADDR`, `PET_MASTER_PORT` | The same for `torchrun`, as its options. |
| `PET_NPROC_PER_NODE` | Processes that `torchrun` starts in this task: its whole GPUs, or 1. |

One process a task: `command: python train.py`, which calls `torch.distributed.init_process_group`. One process a GPU:
`command: torchrun train.py`; it sets `RANK`, `WORLD_SIZE` and `LOCAL_RANK` anew for each process.

Several processes a GPU: `resources: {gpu: 4, processes_per_gpu: 3}` runs `command: python train.py` twelve times in the task.
Each process is a rank, with `RANK` and `WORLD_SIZE` of its own, sees its GPU alone (`LOCAL_RANK` stays 0), and has its part of
that GPU's memory in `BERTH_GPU_MEMORY_FRACTION`, for `torch.cuda.set_per_process_memory_fraction(float(os.environ[...]))`.
NCCL takes no two processes on one GPU: use gloo.
"""


class PyTorch(BaseFramework):
    name = "pytorch"
    page = PAGE
    reserved_env = frozenset(
        {
            *("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
            *("PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR", "PET_MASTER_PORT", "PET_NPROC_PER_NODE"),
        }
    )
    takes_processes = True

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return ring(roles)

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        first = layout.roles[0].name
        address: Text = (AddressOf(first, 0),)
        port: Text = (PortOf(first, 0, PORT),)
        count: Text = (str(layout.world_size),)
        shared: dict[str, Text] = {
            "MASTER_ADDR": address,
            "MASTER_PORT": port,
            "WORLD_SIZE": count,
            "LOCAL_RANK": ("0",),
            "LOCAL_WORLD_SIZE": ("1",),
            "PET_NNODES": count,
            "PET_MASTER_ADDR": address,
            "PET_MASTER_PORT": port,
        }
        shared_gpus = shared_gpu_runs(layout, lambda rank, total: {"RANK": str(rank), "WORLD_SIZE": str(total)})
        return gang(
            layout,
            lambda rank, role, index: replace(
                _run(shared, rank, role), processes=shared_gpus.get(TaskName(role.name, index), ())
            ),
        )


FRAMEWORK = PyTorch()


def _run(shared: Mapping[str, Text], rank: int, role: FrameworkRole) -> TaskRun:
    number: Text = (str(rank),)
    own = {"RANK": number, "PET_NODE_RANK": number, "PET_NPROC_PER_NODE": (str(max(1, role.gpu_millis // 1000)),)}
    return TaskRun(env={**shared, **own}, ports=(PORT,) if rank == 0 else ())
