"""`openpai`: tasks that find each other through the variables of OpenPAI's runtime, as its jobs expect them.

Names of roles and ports are often spelled otherwise there: `Task_Role` is role `task-role` here. A job says its spellings in two
of OpenPAI's own variables, under the role's `env`: PAI_CURRENT_TASK_ROLE_NAME, and PAI_CONTAINER_HOST_PORT_LIST with the names of
its ports here in place of numbers, as in `SynPort:synport;http:http,http-2`. `berth convert` writes both where they differ."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from clusters.engines.interface import AddressOf, PortOf, TaskName, Text, TextPart
from jobs import bounds
from jobs.frameworks.base import BaseFramework
from jobs.frameworks.environment import HOSTS_FILE, Layout, lay_out, listed, own_environment
from jobs.frameworks.interface import FrameworkJob, FrameworkRole, GangPlan, TaskPlan

ROLE_NAME = "PAI_CURRENT_TASK_ROLE_NAME"
PORT_NAMES = "PAI_CONTAINER_HOST_PORT_LIST"
HTTP, SSH = "berth-http", "berth-ssh"  # OpenPAI gives every task one port of each kind; a role may have its own of that name.
MIB = 1024 * 1024
SHM_MIB = 512  # What OpenPAI gives a task that asks for nothing.


class OpenPai(BaseFramework):
    name = "openpai"
    page = Path(__file__).with_name("openpai.md").read_text(encoding="utf-8")
    reserved_env: frozenset[str] = frozenset()
    takes_start_rules = False

    def compile(self, job: FrameworkJob) -> GangPlan:
        layout = lay_out(job)
        known = {role.name: _known(role) for role in layout.roles}
        shared = _shared(layout, list(known.values()))
        tasks = tuple(_task(layout, known[role.name], shared, rank, index) for rank, role, index in layout.tasks())
        return GangPlan(tasks, {HOSTS_FILE: layout.hosts_file})


FRAMEWORK = OpenPai()


@dataclass(frozen=True, slots=True)
class _Role:
    """A role, its name there, and for each of its ports there the ports here."""

    role: FrameworkRole
    name: str
    ports: Mapping[str, tuple[str, ...]]

    @property
    def part(self) -> str:
        """Its name inside a variable's."""
        return _part(self.name)

    def numbers(self, index: int, label: str) -> Text:
        return listed([PortOf(self.role.name, index, port) for port in self.ports[label]])

    @property
    def own_ports(self) -> tuple[str, ...]:
        """Ports beside those that the job names."""
        named = {port for ports in self.ports.values() for port in ports}
        return tuple(port for port in (HTTP, SSH) if port in named)

    @property
    def amounts(self) -> tuple[int, int, int, int]:
        """GPUs, cores, mebibytes of memory and of shared memory."""
        role = self.role
        shm = role.shm_bytes // MIB or SHM_MIB
        return -(-role.gpu_millis // 1000), max(1, role.cpu_millis // 1000), role.memory_bytes // MIB, shm

    @property
    def limits(self) -> tuple[int, int]:
        least_failed, least_succeeded = self.role.min_failed, self.role.min_succeeded
        return -1 if least_failed is None else least_failed, -1 if least_succeeded is None else least_succeeded


def _known(role: FrameworkRole) -> _Role:
    ports: dict[str, tuple[str, ...]] = {}
    for entry in role.env.get(PORT_NAMES, "").split(";"):
        label, _, names = entry.partition(":")
        own = tuple(name for name in names.split(",") if name in role.ports)
        if label and own:
            ports[_part(label)] = own
    spelled = {name for own in ports.values() for name in own}
    ports |= {_part(name): (name,) for name in role.ports if name not in spelled}
    ports.setdefault("ssh", (SSH,))
    ports.setdefault("http", (HTTP,))
    return _Role(role, role.env.get(ROLE_NAME) or _part(role.name), ports)


def _part(name: str) -> str:
    """A name as a part of a variable's, where a shell would not take it as it is."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def _shared(layout: Layout, roles: Sequence[_Role]) -> dict[str, Text]:
    """What is the same in all tasks."""
    job, names = layout.job, ",".join(role.name for role in roles)
    found: dict[str, Text] = {
        "PAI_JOB_NAME": (job.job_name,),
        "PAI_USER_NAME": (job.user,),
        "PAI_JOB_ATTEMPT_INDEX": (str(job.attempt - 1),),
        "PAI_CURRENT_VIRTUAL_CLUSTER": (job.queue,),
        **dict.fromkeys(("PAI_TASK_ROLE_COUNT", "PAI_JOB_TASK_ROLE_COUNT"), (str(len(roles)),)),
        **dict.fromkeys(("PAI_TASK_ROLE_LIST", "PAI_JOB_TASK_ROLE_LIST"), (names,)),
        "PAI_JOB_TASK_COUNT": (str(layout.world_size),),
    }
    if layout.world_size <= bounds.OPENPAI_HOSTS_IN_ENV:
        instances = (f"{role.name}:{index}" for role in roles for index in range(role.role.count))
        found["PAI_TASK_ROLE_INSTANCES"] = (",".join(instances),)
    for role in roles:
        found |= _of_role(role)
    return found


def _of_role(role: _Role) -> dict[str, Text]:
    failed, succeeded = role.limits
    found: dict[str, Text] = {
        f"PAI_TASK_ROLE_TASK_COUNT_{role.part}": (str(role.role.count),),
        f"PAI_RESOURCE_{role.part}": (",".join(map(str, role.amounts)),),
        f"PAI_MIN_FAILED_TASK_COUNT_{role.part}": (str(failed),),
        f"PAI_MIN_SUCCEEDED_TASK_COUNT_{role.part}": (str(succeeded),),
    }
    if role.role.count > bounds.OPENPAI_HOSTS_IN_ENV:
        return found
    hosts: list[TextPart] = []
    for index in range(role.role.count):
        address = AddressOf(role.role.name, index)
        found[f"PAI_HOST_IP_{role.part}_{index}"] = (address,)
        hosts += (",", address, ":", PortOf(role.role.name, index, role.ports["http"][0]))
        for label in role.ports:
            numbers = role.numbers(index, label)
            found[f"PAI_PORT_LIST_{role.part}_{index}_{label}"] = numbers
            found[f"PAI_{role.part}_{index}_{label}_PORT"] = numbers
    found[f"PAI_TASK_ROLE_{role.part}_HOST_LIST"] = tuple(hosts[1:])
    return found


def _task(layout: Layout, known: _Role, shared: Mapping[str, Text], rank: int, index: int) -> TaskPlan:
    role = known.role
    own: dict[str, Text] = dict(_own(known, index))
    own |= {ROLE_NAME: (known.name,), PORT_NAMES: tuple(_port_list(known, index))}
    return TaskPlan(
        name=TaskName(role.name, index),
        argv=tuple((argument,) for argument in role.argv),
        env={**shared, **own, **own_environment(layout, rank, role, index), PORT_NAMES: own[PORT_NAMES]},
        ports=(*role.ports, *known.own_ports),
    )


def _own(known: _Role, index: int) -> dict[str, Text]:
    role, (gpus, cpus, memory, shm), (failed, succeeded) = known.role, known.amounts, known.limits
    address: Text = (AddressOf(role.name, index),)
    http: Text = (PortOf(role.name, index, known.ports["http"][0]),)
    found: dict[str, Text] = {
        **dict.fromkeys(("PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX", "PAI_TASK_INDEX"), (str(index),)),
        **dict.fromkeys(("PAI_CURRENT_CONTAINER_IP", "PAI_CONTAINER_HOST_IP", "PAI_HOST_IP"), address),
        **dict.fromkeys(("PAI_CURRENT_CONTAINER_PORT", "PAI_CONTAINER_HOST_PORT"), http),
        "PAI_CONTAINER_SSH_PORT": (PortOf(role.name, index, known.ports["ssh"][0]),),
    }
    counts = {
        "TASK_COUNT": role.count, "CPU_COUNT": cpus, "GPU_COUNT": gpus, "MEM_MB": memory, "SHM_MB": shm,
        "MIN_FAILED_TASK_COUNT": failed, "MIN_SUCCEEDED_TASK_COUNT": succeeded,
    }  # fmt: skip
    found |= {f"PAI_CURRENT_TASK_ROLE_{name}": (str(count),) for name, count in counts.items()}
    found |= {f"PAI_CONTAINER_HOST_{label}_PORT_LIST": known.numbers(index, label) for label in known.ports}
    return found


def _port_list(known: _Role, index: int) -> list[TextPart]:
    parts: list[TextPart] = []
    for label in known.ports:
        parts += (f"{label}:", *known.numbers(index, label), ";")
    return parts
