"""`mpi`: mpirun over the tasks of the job, on any engine, without ssh in the image.

Two shapes. With a role `launcher` of one task, that task runs its command (`mpirun ...`) and the tasks of all other roles take
the ranks; the launcher's end decides the job. With one role only, its first task does both. The launcher waits until all others
are ready. Tasks that take ranks run `mpi_agent.py`, which is sent along; their own command, which may be left out, is run first.
The image needs Open MPI (4.1 is tested; 5 only with tasks on machines of their own) and python3.

Slots of a task: its whole GPUs, else its whole cores, at least one."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf, TaskName, TextPart
from clusters.engines.interface import Text as TaskText
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import HOSTS_FILE, Layout, lay_out, own_environment
from jobs.frameworks.interface import Deciding, FrameworkJob, FrameworkRole, GangPlan, RoleShape, TaskPlan
from jobs.frameworks.roles import ring
from kernel.errors import FieldError
from kernel.words import Text

LAUNCHER = "launcher"
PORT = "berth-mpi"
AGENT_FILE = "berth-mpi.py"
ADDRESSES_FILE = "berth-mpi-hosts"
HOSTFILE = "berth-mpi-hostfile"
_AGENT = Path(__file__).with_name("mpi_agent.py").read_text(encoding="utf-8")


PAGE = """## mpi

`mpirun` starts ranks in the tasks of the job, with as many slots as a task has whole GPUs, else whole cores. No ssh is needed in
the image, only Open MPI and python3. Either one role, whose first task runs the command:

```yaml
framework: mpi
replicas: 4
command: mpirun ./solve
```

or a role `launcher` of one task beside the roles that take ranks; those may have a command of their own, which is run first.

| variable | meaning |
|---|---|
| `BERTH_MPI_HOSTFILE` | The hostfile with slots; `mpirun` of the launching task uses it by itself. |
| `BERTH_MPI_HOSTS` | Names, slots, addresses and ports of the tasks that take ranks. |
| `BERTH_MPI_PORT` | Port at which a task takes ranks. |
| `BERTH_ATTEMPT_KEY` | Secret of this attempt, by which its tasks know each other. |
"""


class Mpi(BaseFramework):
    name = "mpi"
    page = PAGE
    reserved_env = frozenset({"OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_agent"})
    takes_start_rules = False

    def completion(self, roles: Collection[str]) -> Deciding:
        return Deciding(LAUNCHER)

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        return ring({name: role for name, role in roles.items() if name != LAUNCHER})

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        """Roles that only take ranks have nothing to do before."""
        return None if role == LAUNCHER else ":"

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        if LAUNCHER not in roles:
            if len(roles) == 1:
                return []
            hint = Text(
                "Add a role launcher whose command is mpirun, or use one role only.",
                "请添加命令为 mpirun 的角色 launcher，或只用一个角色。",
            )
            return [
                FieldError(
                    "/roles",
                    "mpi_launcher",
                    Text("An MPI job of several roles needs a role launcher.", "有多个角色的 MPI 作业需要角色 launcher。"),
                    hint,
                )
            ]
        if roles[LAUNCHER].replicas_max != 1:
            message = Text(
                f"The launcher of an MPI job is one task, not {roles[LAUNCHER].replicas_max}.",
                f"MPI 作业的 launcher 只能有一个任务，而非 {roles[LAUNCHER].replicas_max} 个。",
            )
            return [
                FieldError(
                    f"/roles/{LAUNCHER}/replicas", "mpi_launcher", message, Text("Write replicas: 1.", "请写 replicas: 1。")
                )
            ]
        if len(roles) == 1:
            hint = Text(
                "Add a role worker, or rename the role to run mpirun in the first of its tasks.",
                "请添加角色 worker，或重命名该角色，使 mpirun 在其第一个任务中运行。",
            )
            return [
                FieldError(
                    "/roles",
                    "mpi_workers",
                    Text("The launcher has no tasks to start ranks in.", "launcher 没有可以启动 rank 的任务。"),
                    hint,
                )
            ]
        return []

    def compile(self, job: FrameworkJob) -> GangPlan:
        assert job.key, "an MPI attempt needs its key"
        layout = lay_out(job, chief=LAUNCHER)
        hosts = [role for role in layout.roles if role.name != LAUNCHER]
        shared: dict[str, TaskText] = {
            "BERTH_MPI_HOSTS": (FileOf(ADDRESSES_FILE),),
            "BERTH_MPI_HOSTFILE": (FileOf(HOSTFILE),),
        }
        files = {
            HOSTS_FILE: layout.hosts_file,
            AGENT_FILE: (_AGENT,),
            ADDRESSES_FILE: tuple(_addresses(hosts)),
            HOSTFILE: (_hostfile(hosts),),
        }
        return GangPlan(tuple(self._task(layout, shared, *place) for place in layout.tasks()), files)

    def _task(self, layout: Layout, shared: Mapping[str, TaskText], rank: int, role: FrameworkRole, index: int) -> TaskPlan:
        launches = role.name == LAUNCHER or (len(layout.roles) == 1 and index == 0)
        takes_ranks = role.name != LAUNCHER
        mode = ("both" if takes_ranks else "launch") if launches else "serve"
        env = {**own_environment(layout, rank, role, index), **shared}
        if takes_ranks:
            env["BERTH_MPI_PORT"] = (PortOf(role.name, index, PORT),)
        # Tasks of the only role share one command; but for the first it is the launcher's, not theirs.
        argv = (":",) if mode == "serve" and len(layout.roles) == 1 else role.argv
        preparation: tuple[TaskText, ...] = (("true",),) if argv == (":",) else tuple((argument,) for argument in argv)
        return TaskPlan(
            name=TaskName(role.name, index),
            argv=(("python3",), (FileOf(AGENT_FILE),), (mode,), ("--",), *preparation),
            env=env,
            ports=(*role.ports, PORT) if takes_ranks else role.ports,
            secret_env={"BERTH_ATTEMPT_KEY": layout.job.key},
        )


FRAMEWORK = Mpi()


def slots_of(role: FrameworkRole) -> int:
    """How many ranks mpirun puts on one task unless it is told otherwise."""
    return max(1, role.gpu_millis // 1000 or role.cpu_millis // 1000)


def _hostfile(roles: Sequence[FrameworkRole]) -> str:
    """Open MPI's hostfile. Names stand for tasks, not machines: several tasks may share a machine."""
    return "".join(f"{role.name}-{index} slots={slots_of(role)}\n" for role in roles for index in range(role.count))


def _addresses(roles: Sequence[FrameworkRole]) -> Sequence[TextPart]:
    parts: list[TextPart] = []
    for role in roles:
        for index in range(role.count):
            parts += (f"{role.name}-{index} {slots_of(role)} ", AddressOf(role.name, index), " ")
            parts += (PortOf(role.name, index, PORT), "\n")
    return parts
