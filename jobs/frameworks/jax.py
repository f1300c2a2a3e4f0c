"""`jax`: one process a task, joined by `jax.distributed`.

JAX reads the coordinator's address from JAX_COORDINATOR_ADDRESS by itself, but takes the number of processes and its own
number only from arguments or from clusters it knows (jax 0.10, jax._src.distributed). So a program says, before anything
else of JAX:

    jax.distributed.initialize(
        num_processes=int(os.environ["JAX_NUM_PROCESSES"]), process_id=int(os.environ["JAX_PROCESS_ID"])
    )
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusters.engines.interface import AddressOf, PortOf, TaskName, Text
from jobs.frameworks.environment import HOSTS_FILE, Layout, lay_out, own_environment
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, RoleShape, TaskPlan
from kernel.errors import FieldError

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
"""


class Jax:
    name = "jax"
    page = PAGE
    reserved_env = frozenset({"JAX_COORDINATOR_ADDRESS", "JAX_NUM_PROCESSES", "JAX_PROCESS_ID"})
    default_chief: str | None = None

    def default_command(self, role: str) -> str | None:
        return None

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return []

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        first = layout.roles[0].name
        shared: dict[str, Text] = {
            "JAX_COORDINATOR_ADDRESS": (AddressOf(first, 0), ":", PortOf(first, 0, PORT)),
            "JAX_NUM_PROCESSES": (str(layout.world_size),),
        }
        return GangPlan(tuple(self._task(layout, shared, *place) for place in layout.tasks()), {HOSTS_FILE: layout.hosts_file})

    def _task(self, layout: Layout, shared: Mapping[str, Text], rank: int, role: FrameworkRole, index: int) -> TaskPlan:
        return TaskPlan(
            name=TaskName(role.name, index),
            argv=tuple((argument,) for argument in role.argv),
            env={**own_environment(layout, rank, role, index), **shared, "JAX_PROCESS_ID": (str(rank),)},
            ports=(*role.ports, PORT) if rank == 0 else role.ports,
        )


FRAMEWORK = Jax()
