"""`mpi`: mpirun over the tasks of the job, on any engine, without ssh in the image.

Two shapes. With a role `launcher` of one task, that task runs its command (`mpirun ...`) and the tasks of all other roles take
the ranks; the launcher's end decides the job. With one role only, its first task does both. The launcher waits until all others
are ready. Tasks that take ranks run `mpi_agent.py`, which is sent along; their own command, which may be left out, is run first.
The image needs Open MPI (4.1 is tested; 5 only with tasks on machines of their own) and python3.

Slots of a task: its whole GPUs, else its whole cores, at least one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf, TaskName, Text, TextPart
from jobs.frameworks.environment import HOSTS_FILE, Layout, lay_out, own_environment
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, Plan, RoleShape, TaskPlan
from kernel.errors import FieldError

LAUNCHER = "launcher"
PORT = "berth-mpi"
AGENT_FILE = "berth-mpi.py"
ADDRESSES_FILE = "berth-mpi-hosts"
HOSTFILE = "berth-mpi-hostfile"
_AGENT = Path(__file__).with_name("mpi_agent.py").read_text(encoding="utf-8")


class Mpi:
    name = "mpi"
    reserved_env = frozenset({"OMPI_MCA_orte_default_hostfile", "OMPI_MCA_plm_rsh_agent"})
    default_chief: str | None = LAUNCHER

    def default_command(self, role: str) -> str | None:
        """Roles that only take ranks have nothing to do before."""
        return None if role == LAUNCHER else ":"

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        if LAUNCHER not in roles:
            if len(roles) == 1:
                return []
            hint = "Add a role launcher whose command is mpirun, or use one role only."
            return [FieldError("/roles", "mpi_launcher", "An MPI job of several roles needs a role launcher.", hint)]
        if roles[LAUNCHER].replicas_max != 1:
            message = f"The launcher of an MPI job is one task, not {roles[LAUNCHER].replicas_max}."
            return [FieldError(f"/roles/{LAUNCHER}/replicas", "mpi_launcher", message, "Write replicas: 1.")]
        if len(roles) == 1:
            hint = "Add a role worker, or rename the role to run mpirun in the first of its tasks."
            return [FieldError("/roles", "mpi_workers", "The launcher has no tasks to start ranks in.", hint)]
        return []

    def compile(self, job: FrameworkJob) -> Plan:
        assert job.key, "an MPI attempt needs its key"
        layout = lay_out(job, chief=LAUNCHER)
        hosts = [role for role in layout.roles if role.name != LAUNCHER]
        shared: dict[str, Text] = {
            "BERTH_MPI_HOSTS": (FileOf(ADDRESSES_FILE),),
            "BERTH_MPI_HOSTFILE": (FileOf(HOSTFILE),),
        }
        files = {
            HOSTS_FILE: layout.hosts_file,
            AGENT_FILE: (_AGENT,),
            ADDRESSES_FILE: tuple(_addresses(hosts)),
            HOSTFILE: (_hostfile(hosts),),
        }
        return Plan(tuple(self._task(layout, shared, *place) for place in layout.tasks()), files)

    def _task(self, layout: Layout, shared: Mapping[str, Text], rank: int, role: FrameworkRole, index: int) -> TaskPlan:
        launches = role.name == LAUNCHER or (len(layout.roles) == 1 and index == 0)
        takes_ranks = role.name != LAUNCHER
        mode = ("both" if takes_ranks else "launch") if launches else "serve"
        env = {**own_environment(layout, rank, role, index), **shared}
        if takes_ranks:
            env["BERTH_MPI_PORT"] = (PortOf(role.name, index, PORT),)
        # Tasks of the only role share one command; but for the first it is the launcher's, not theirs.
        argv = (":",) if mode == "serve" and len(layout.roles) == 1 else role.argv
        preparation: tuple[Text, ...] = (("true",),) if argv == (":",) else tuple((argument,) for argument in argv)
        return TaskPlan(
            name=TaskName(role.name, index),
            argv=(("python3",), (FileOf(AGENT_FILE),), (mode,), ("--",), *preparation),
            env=env,
            ports=(*role.ports, PORT) if takes_ranks else role.ports,
            secret_env={"BERTH_ATTEMPT_KEY": layout.job.key},
        )


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
