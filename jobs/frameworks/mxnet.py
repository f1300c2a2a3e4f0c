"""`mxnet`: the parameter servers of MXNet's key-value store (`kvstore="dist_sync"`), told by DMLC_*.

A scheduler, servers and workers; all end well together. One that is lost leaves the others waiting for ever, so that it ends the
job. Scheduler and servers need no command: they serve from `import mxnet` until the workers are done."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from clusters.engines.interface import AddressOf, PortOf, Text
from jobs.frameworks.agent import gang
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import lay_out
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, RoleShape
from jobs.frameworks.roles import REQUIRED, SINGLE, check_roles, served, without
from jobs.frameworks.task_run import Requirement, TaskRun
from kernel.errors import FieldError

SCHEDULER, SERVER, WORKER = "scheduler", "server", "worker"
PORT = "berth-dmlc"
_LAWS = {SCHEDULER: SINGLE, SERVER: REQUIRED, WORKER: REQUIRED}
_MXNET = Requirement("mxnet", "pip install mxnet 'numpy<1.24'", module="mxnet")

PAGE = """## mxnet

| variable | meaning |
|---|---|
| `DMLC_ROLE` | `scheduler`, `server` or `worker`. |
| `DMLC_PS_ROOT_URI`, `DMLC_PS_ROOT_PORT` | Address and port of the scheduler. |
| `DMLC_NUM_SERVER`, `DMLC_NUM_WORKER` | Numbers of servers and workers. |
| `DMLC_NODE_HOST` | Address of this task. |

`scheduler` (one task) and `server` need no command. The job succeeds when all tasks have; one that fails ends it, because the
others would wait for it. MXNet 1.9 needs NumPy below 1.24.
"""


class MXNet(BaseFramework):
    name = "mxnet"
    page = PAGE
    reserved_env = frozenset(
        {
            *("DMLC_ROLE", "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "DMLC_NUM_SERVER"),
            *("DMLC_NUM_WORKER", "DMLC_NODE_HOST"),
        }
    )

    def short_roles(self, role: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """Workers, and one server."""
        return {SCHEDULER: {}, SERVER: without(role, "command", "replicas", "gpu"), WORKER: role}

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return served(roles, SERVER)

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        return None if role == WORKER else "python3 -c 'import mxnet'"

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        return list(check_roles(self.name, _LAWS, roles))

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        counts = {role.name: role.count for role in layout.roles}
        shared: dict[str, Text] = {
            "DMLC_PS_ROOT_URI": (AddressOf(SCHEDULER, 0),),
            "DMLC_PS_ROOT_PORT": (PortOf(SCHEDULER, 0, PORT),),
            "DMLC_NUM_SERVER": (str(counts[SERVER]),),
            "DMLC_NUM_WORKER": (str(counts[WORKER]),),
        }
        return gang(layout, lambda rank, role, index: _run(shared, role, index))


FRAMEWORK = MXNet()


def _run(shared: Mapping[str, Text], role: FrameworkRole, index: int) -> TaskRun:
    own: dict[str, Text] = {"DMLC_ROLE": (role.name,), "DMLC_NODE_HOST": (AddressOf(role.name, index),)}
    ports = (PORT,) if role.name == SCHEDULER else ()
    return TaskRun(env={**shared, **own}, ports=ports, requires=(_MXNET,))
