"""`jax`: one process a task, joined by `jax.distributed`.

JAX reads the coordinator's address from JAX_COORDINATOR_ADDRESS by itself, but takes the number of processes and its own
number only from arguments or from clusters it knows (jax 0.10, jax._src.distributed). So a program says, before anything
else of JAX:

    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )
"""

from __future__ import annotations

from collections.abc import Mapping

from clusters.engines.interface import AddressOf, PortOf, TaskName, Text
from jobs.frameworks.agent import gang, shared_gpu_runs
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, GangPlan, RoleShape
from jobs.frameworks.roles import ring
from jobs.frameworks.task_run import TaskRun

PORT = "berth-jax"


PAGE = """## jax

| variable | meaning |
|---|---|
| `JAX_COORDINATOR_ADDRESS` | Address and port of the first task; JAX reads it by itself. |
| `JAX_NUM_PROCESSES` | Number of tasks. |
| `JAX_PROCESS_ID` | Rank of this task. |

JAX takes the last two from arguments only, so a program begins with

```python
import os, jax
jax.distributed.initialize(
    num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
)
```

With `processes_per_gpu` the command runs several times on each GPU; the variables count processes then, and
`XLA_PYTHON_CLIENT_MEM_FRACTION` keeps each to its part of the GPU's memory.
"""


class Jax(BaseFramework):
    name = "jax"
    page = PAGE
    reserved_env = frozenset({"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"})
    takes_processes = True

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return ring(roles)

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        first = layout.roles[0].name
        shared: dict[str, Text] = {
            "JAX_COORDINATOR_ADDRESS": (AddressOf(first, 0), ":", PortOf(first, 0, PORT)),
            "JAX_NUM_PROCESSES": (str(layout.world_size),),
        }
        ids = shared_gpu_runs(layout, lambda rank, total: {"JAX_PROCESS_ID": str(rank), "JAX_NUM_PROCESSES": str(total)})
        return gang(
            layout,
            lambda rank, role, index: TaskRun(
                env={**shared, "JAX_PROCESS_ID": (str(rank),)},
                ports=(PORT,) if rank == 0 else (),
                processes=ids.get(TaskName(role.name, index), ()),
            ),
        )


FRAMEWORK = Jax()
