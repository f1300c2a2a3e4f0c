"""`slurm`: a script for `sbatch` as Slurm runs it. Each task of the job is a node; the script runs in the first one, and `srun`
in it starts processes on all of them.

What a script finds of Slurm is made of files that are sent along: `slurm_task.sh` puts `srun`, `scontrol show hostnames` and an
empty `module` where commands are looked for, and `slurm_agent.py` starts the steps. What a job asked of Slurm stands in its
variables as Slurm has it, such as SLURM_NTASKS_PER_NODE under `env`; everything else is computed from the placement. `mpirun`
finds the tasks as in framework mpi. The image needs python3 where a step is started, and Open MPI for `mpirun`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf, TaskName, Text, TextPart
from jobs import bounds
from jobs.frameworks import mpi_agent
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import HOSTS_FILE, Layout, lay_out, listed, own_environment
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, TaskPlan
from jobs.frameworks.slurm_array import read_array
from jobs.frameworks.slurm_steps import compressed

PORT = "berth-slurm"
NODES_FILE = "berth-slurm-nodes"
HOSTFILE = "berth-slurm-hostfile"
TASK_FILE = "slurm_task.sh"
_SENT = (
    *(TASK_FILE, "slurm_tools.sh", "slurm_agent.py", "slurm_steps.py", "slurm_wire.py", "srun_client.py", "srun_options.py"),
    "mpi_agent.py",
)
_FILES: Mapping[str, Text] = {name: (Path(__file__).with_name(name).read_text(encoding="utf-8"),) for name in _SENT}
MIB = 1024 * 1024
# Set from the placement; a job cannot say otherwise. All other variables of Slurm it may set, as with Slurm.
PLACED = frozenset(
    {
        *("SLURM_JOB_ID", "SLURM_JOBID", "SLURM_NNODES", "SLURM_JOB_NUM_NODES", "SLURM_NODEID", "SLURM_PROCID", "SLURM_LOCALID"),
        *("SLURM_GTIDS", "SLURM_TASKS_PER_NODE", "SLURM_JOB_CPUS_PER_NODE", "SLURM_CPUS_ON_NODE", "SLURM_NODELIST"),
        *("SLURM_JOB_NODELIST", "SLURMD_NODENAME", "SLURM_ARRAY_TASK_ID", "SLURM_ARRAY_JOB_ID", "BERTH_MPI_HOSTS"),
    }
)
# What the first process of a task sets, and what `srun` sets for the processes that it starts.
SET_LATER = frozenset(
    {
        *(
            "SLURM_TASK_PID",
            "SLURM_JOB_UID",
            "SLURM_JOB_GID",
            "SLURM_SUBMIT_DIR",
            "SLURM_JOB_GPUS",
            "SLURM_STEP_ID",
            "SLURM_STEPID",
        ),
        *("SLURM_STEP_NODELIST", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_GPUS"),
        *("SLURM_LAUNCH_NODE_IPADDR", "SLURM_SRUN_COMM_HOST", "SLURM_SRUN_COMM_PORT", "SLURM_STEP_LAUNCHER_PORT"),
        *("SLURM_CPU_BIND", "SLURM_CPU_BIND_LIST", "SLURM_CPU_BIND_TYPE", "SLURM_CPU_BIND_VERBOSE", "SLURM_UMASK"),
        "SRUN_DEBUG",
    }
)


class Slurm(BaseFramework):
    name = "slurm"
    page = Path(__file__).with_name("slurm.md").read_text(encoding="utf-8")
    reserved_env = PLACED
    takes_start_rules = False

    def compile(self, job: FrameworkJob) -> GangPlan:
        assert job.key, "a job that starts steps in its tasks needs a key"
        layout = lay_out(job)
        nodes = _nodes(layout)
        asked, placed = _asked(layout, nodes), _placed(layout, nodes)
        return GangPlan(
            tuple(_task(layout, node, asked, placed) for node in nodes),
            {**_FILES, HOSTS_FILE: layout.hosts_file, NODES_FILE: tuple(_nodes_file(nodes)), HOSTFILE: (_hostfile(nodes),)},
        )


FRAMEWORK = Slurm()


def job_number(job_id: str) -> int:
    """A number for a job's id, the same in all its tasks and attempts, within Slurm's own range (67,108,863).

    Many scripts make a port of its last four digits. The first of these is never 0, with which a shell would count in octal.
    """
    value = int(job_id.replace("-", ""), 16)
    return (value // 9_000 % 6_000 + 1) * 10_000 + 1_000 + value % 9_000


@dataclass(frozen=True, slots=True)
class _Node:
    """A task of the job, and how many of Slurm's tasks lie on it, from which rank on."""

    place: int
    role: FrameworkRole
    index: int
    tasks: int
    first: int

    @property
    def cpus(self) -> int:
        return max(1, self.role.cpu_millis // 1000)

    @property
    def gpus(self) -> int:
        return -(-self.role.gpu_millis // 1000)


def _nodes(layout: Layout) -> list[_Node]:
    places = list(layout.tasks())
    values = _values(layout, layout.roles[0])
    counts = _spread(len(places), _number(values, "SLURM_NTASKS"), _number(values, "SLURM_NTASKS_PER_NODE"))
    nodes, first = [], 0
    for (place, role, index), count in zip(places, counts, strict=True):
        nodes.append(_Node(place, role, index, count, first))
        first += count
    return nodes


def _spread(nodes: int, tasks: int | None, per_node: int | None) -> list[int]:
    """How many tasks lie on each node: at most `per_node`, one after another; else evenly, the first ones with one more."""
    if tasks is None:
        return [per_node or 1] * nodes
    if per_node is None:
        return [max(1, tasks // nodes + (place < tasks % nodes)) for place in range(nodes)]
    return [max(1, min(per_node, tasks - place * per_node)) for place in range(nodes)]


def _values(layout: Layout, role: FrameworkRole) -> Mapping[str, str]:
    return {**layout.job.env, **role.env}


def _number(values: Mapping[str, str], name: str) -> int | None:
    text = values.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 10 and int(text) else None


def _asked(layout: Layout, nodes: Sequence[_Node]) -> dict[str, Text]:
    """What a job may set otherwise, the same in all tasks (man sbatch, "output environment variables")."""
    job, first = layout.job, nodes[0]
    tasks, gpus = sum(node.tasks for node in nodes), sum(node.gpus for node in nodes)
    found = {
        "SLURM_CLUSTER_NAME": "berth",
        "SLURM_JOB_NAME": job.job_name,
        "SLURM_JOB_USER": job.user,
        "SLURM_JOB_ACCOUNT": job.tenant,
        "SLURM_JOB_PARTITION": job.queue,
        **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(tasks)),
        "SLURM_CPUS_PER_TASK": str(max(1, first.cpus // first.tasks)),
        "SLURM_DISTRIBUTION": "block",
        "SLURM_NODE_ALIASES": "(null)",
        "SLURM_PRIO_PROCESS": "0",
        "SLURM_TOPOLOGY_ADDR_PATTERN": "node",
        "SLURM_RESTART_COUNT": str(job.attempt - 1),
    }
    if not {"SLURM_MEM_PER_CPU", "SLURM_MEM_PER_GPU"} & set(_values(layout, first.role)):
        found["SLURM_MEM_PER_NODE"] = str(first.role.memory_bytes // MIB)
    if gpus:
        found["SLURM_GPUS"] = str(gpus)
        found["SLURM_GPUS_PER_NODE"] = str(first.gpus)
    return {**{name: (value,) for name, value in found.items()}, **_mpirun(is_alone=len(nodes) == 1)}


def _placed(layout: Layout, nodes: Sequence[_Node]) -> dict[str, Text]:
    """What follows from the placement, the same in all tasks."""
    found: dict[str, Text] = {
        **dict.fromkeys(("SLURM_JOB_ID", "SLURM_JOBID"), (str(job_number(layout.job.job_id)),)),
        **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), (str(len(nodes)),)),
        "SLURM_TASKS_PER_NODE": (compressed([node.tasks for node in nodes]),),
        "SLURM_JOB_CPUS_PER_NODE": (compressed([node.cpus for node in nodes]),),
        "BERTH_MPI_HOSTS": (FileOf(NODES_FILE),),
        **{name: (value,) for name, value in _array(layout.job).items()},
    }
    if len(nodes) <= bounds.HOSTS_IN_ENV:
        names = listed([AddressOf(node.role.name, node.index) for node in nodes])
        found.update(dict.fromkeys(("SLURM_JOB_NODELIST", "SLURM_NODELIST"), names))
    return found


def _array(job: FrameworkJob) -> dict[str, str]:
    """Slurm's indexes as `sbatch --array` named them: SBATCH_ARRAY_INX is Slurm's own variable for that option."""
    if job.array_index is None or job.array_size is None:
        return {}
    indexes = read_array(job.env.get("SBATCH_ARRAY_INX", "")) or read_array(f"0-{job.array_size - 1}")
    assert indexes is not None, "an array has a size"
    number = indexes.number(job.array_index) if job.array_index < indexes.size else job.array_index
    return {
        "SLURM_ARRAY_JOB_ID": str(job_number(job.array_id or job.job_id)),
        "SLURM_ARRAY_TASK_ID": str(number),
        "SLURM_ARRAY_TASK_COUNT": str(job.array_size),
        "SLURM_ARRAY_TASK_MIN": str(indexes.number(0)),
        "SLURM_ARRAY_TASK_MAX": str(indexes.number(indexes.size - 1)),
        "SLURM_ARRAY_TASK_STEP": str(indexes.step),
    }


def _task(layout: Layout, node: _Node, asked: Mapping[str, Text], placed: Mapping[str, Text]) -> TaskPlan:
    role, index = node.role, node.index
    address: Text = (AddressOf(role.name, index),)
    own: dict[str, Text] = {
        **placed,
        "SLURM_CPUS_ON_NODE": (str(node.cpus),),
        "SLURM_NODEID": (str(node.place),),
        "SLURM_PROCID": (str(node.first),),
        "SLURM_LOCALID": ("0",),
        "SLURM_GTIDS": (",".join(str(node.first + rank) for rank in range(node.tasks)),),
        "SLURMD_NODENAME": address,
        "SLURM_TOPOLOGY_ADDR": address,
        "BERTH_MPI_PORT": (PortOf(role.name, index, PORT),),
    }
    if node.gpus:
        own["SLURM_GPUS_ON_NODE"] = (str(node.gpus),)
    return TaskPlan(
        name=TaskName(role.name, index),
        argv=(("/bin/sh",), (FileOf(TASK_FILE),), *((argument,) for argument in role.argv)),
        env={**asked, **own_environment(layout, node.place, role, index), **own},
        ports=(*role.ports, PORT),
        secret_env={"BERTH_ATTEMPT_KEY": layout.job.key},
    )


def _mpirun(*, is_alone: bool) -> dict[str, Text]:
    """By which `mpirun` uses the tasks of the job, through the agent in place of ssh, and not Slurm, which is not here."""
    agent: Text = ("python3 ", FileOf("mpi_agent.py"), " agent")
    fixed = {name: (value,) for name, value in mpi_agent.FIXED.items()}
    return {
        **fixed,
        **({"OMPI_MCA_plm": ("isolated",)} if is_alone else {}),
        "OMPI_MCA_ras": ("^slurm",),
        "PRTE_MCA_ras": ("^slurm",),
        "OMPI_MCA_plm_rsh_agent": agent,
        "PRTE_MCA_plm_ssh_agent": agent,
        "OMPI_MCA_orte_default_hostfile": (FileOf(HOSTFILE),),
        "PRTE_MCA_prte_default_hostfile": (FileOf(HOSTFILE),),
    }


def _nodes_file(nodes: Sequence[_Node]) -> list[TextPart]:
    """Name, slots, address, port, cores, GPUs and tasks of each: the first four as framework mpi has them."""
    parts: list[TextPart] = []
    for node in nodes:
        task = (node.role.name, node.index)
        parts += (f"{task[0]}-{task[1]} {node.tasks} ", AddressOf(*task), " ", PortOf(*task, PORT))
        parts.append(f" {node.cpus} {node.gpus} {node.tasks}\n")
    return parts


def _hostfile(nodes: Sequence[_Node]) -> str:
    """Open MPI's hostfile. The only task of a job is reached without an agent."""
    if len(nodes) == 1:
        return f"localhost slots={nodes[0].tasks}\n"
    return "".join(f"{node.role.name}-{node.index} slots={node.tasks}\n" for node in nodes)
