"""What a framework is: a pure function from a job's roles to the environment and rendezvous that its runtime expects.

A framework knows no engine: addresses, ports and file paths stay placeholders (`AddressOf`, `PortOf`, `FileOf`) that the engine
fills in. It reads no clock, setting or database; the same job compiles to the same tasks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from clusters.engines.interface import TaskName, Text
from kernel.errors import FieldError


@dataclass(frozen=True, slots=True)
class RoleShape:
    """What a framework may judge of a role before anything runs."""

    replicas_min: int
    replicas_max: int
    gpu_millis: int
    ports: tuple[str, ...]
    memory_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ReadyCheck:
    """When a task is ready: a port of its own is open, a GET of `path` at it is answered well, or it wrote a text."""

    port: str = ""
    path: str = ""
    log: str = ""
    seconds: int = 0  # How long that may take from its start; 0: as long as others wait for it.


@dataclass(frozen=True, slots=True)
class FrameworkRole:
    """A role of an attempt: how many tasks really run, and what each executes.

    `max_retry` None leaves to the framework how often a task's command is started again alone.
    """

    name: str
    count: int
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    ports: tuple[str, ...] = ()
    gpu_millis: int = 0
    cpu_millis: int = 1000
    memory_bytes: int = 0
    shm_bytes: int = 0
    min_failed: int | None = 1  # Failed tasks that end the job; None where no number does.
    min_succeeded: int | None = None  # Succeeded tasks that end it; None where no number does.
    count_min: int = 1  # The least that the job asked for.
    ready: ReadyCheck | None = None
    start_after_ready: tuple[str, ...] = ()
    max_retry: int | None = None
    retry_codes: tuple[int, ...] = ()  # Ends after which it is started again; none: after all that are failures.
    processes_per_gpu: int = 1

    @property
    def processes(self) -> int:
        """How often each task runs its command at once."""
        return self.gpu_millis // 1000 * self.processes_per_gpu if self.processes_per_gpu > 1 else 1

    @property
    def cores(self) -> int:
        """Whole cores, at least 1."""
        return max(1, self.cpu_millis // 1000)


@dataclass(frozen=True, slots=True)
class FrameworkJob:
    """An attempt as frameworks see it.

    `key` is a secret of this attempt, the same for all its tasks and unguessable for others (mpi only needs it); it travels in
    `TaskPlan.secret_env`. `checkpoint_dir` is empty for a job without checkpoint; `checkpoint_per` says whether each
    `role` or `task` has a directory of its own in it. `chief` is the role that ranks first. `array_id` is
    the id of the array that the job is one of.
    """

    job_id: str
    job_name: str
    attempt: int
    roles: tuple[FrameworkRole, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    checkpoint_dir: Text = ()
    checkpoint_per: str = "job"
    array_index: int | None = None
    array_size: int | None = None
    array_id: str | None = None
    tenant: str = ""
    queue: str = ""
    user: str = ""
    key: str = field(default="", repr=False)
    chief: str | None = None
    signal_target: str = "programs"  # Of `kernel.signals.SignalTarget`.
    ssh: bool = False  # Its tasks reach one another by ssh.


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """What a `TaskWorkload` needs from the framework: the user's variables are in `env` already."""

    name: TaskName
    argv: tuple[Text, ...]
    env: Mapping[str, Text]
    ports: tuple[str, ...]
    secret_env: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class GangPlan:
    """All tasks in order of their rank, and the files that the engine puts where `FileOf` finds them."""

    tasks: tuple[TaskPlan, ...]
    files: Mapping[str, Text] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Deciding:
    """`chief`: its end decides, where it is there; else all roles do. `vital`: roles without which the chief gets nowhere."""

    chief: str | None = None
    vital: frozenset[str] = frozenset()


class Framework(Protocol):
    """One module of `jobs/frameworks`; stateless."""

    name: str
    page: str  # What docs/environment.md says of its variables, from a heading on; empty: it sets none of its own.
    reserved_env: frozenset[str]  # Variables that it sets and a job may therefore not.
    takes_start_rules: bool  # Whether roles may have `ready`, `start_after_ready` and `max_retry`.
    takes_processes: bool  # Whether roles may have `processes_per_gpu`.

    def completion(self, roles: Collection[str]) -> Deciding:
        """Which of these roles decide the end of a job that says nothing of it itself."""
        ...

    def placement(self, roles: Mapping[str, RoleShape]) -> Mapping[str, str]:
        """How the tasks of a role go to machines where the job says nothing: `pack` or `spread`; roles left out, anywhere. The
        name "" stands for all roles, near one another."""
        ...

    def short_roles(self, role: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
        """The roles of a job that is written in the short form, with one command and no roles."""
        ...

    def default_command(self, role: str, roles: Collection[str]) -> str | None:
        """What tasks of the role run when the job says nothing; None where it must."""
        ...

    def validate(self, roles: Mapping[str, RoleShape]) -> Sequence[FieldError]:
        """What keeps these roles from running under the framework; empty when nothing does."""
        ...

    def compile(self, job: FrameworkJob) -> GangPlan:
        """Lay out all tasks of an attempt. Costs time in proportion to the number of tasks."""
        ...
