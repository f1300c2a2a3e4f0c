"""The contract between Berth and the programs it starts: which variables every task finds, on every engine alike.

`CONTRACT` is the contract; `docs/environment.md` is produced from it, and a test compares both with what is really set. A change
that takes a variable away or changes its meaning raises `BERTH_ENV_VERSION`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from clusters.engines.interface import AddressOf, FileOf, PortOf, Text, TextPart
from jobs import bounds
from jobs.frameworks.interface import Framework, FrameworkJob, FrameworkRole

VERSION = "1"
HOSTS_FILE = "berth-hosts"


@dataclass(frozen=True, slots=True)
class Variable:
    """One entry of the contract. `name` may hold <ROLE> and <PORT>: upper case, dashes as underscores."""

    name: str
    meaning: str
    when: str
    example: str


CONTRACT = (
    Variable("BERTH_ENV_VERSION", "Version of this contract.", "always", "1"),
    Variable("BERTH_JOB_ID", "Id of the job.", "always", "01980c2e-6f3a-7c4e-9a55-0d1f2a3b4c5d"),
    Variable("BERTH_JOB_NAME", "Name of the job, as submitted.", "always", "digits"),
    Variable("BERTH_ATTEMPT", "Number of this attempt, from 1.", "always", "1"),
    Variable("BERTH_TENANT", "Tenant that the job belongs to.", "always", "vision"),
    Variable("BERTH_QUEUE", "Queue that the job was admitted from.", "always", "vision"),
    Variable("BERTH_USER", "Name of who submitted the job.", "always", "alice"),
    Variable("BERTH_ROLE", "Role of this task.", "always", "worker"),
    Variable("BERTH_INDEX", "Index of this task in its role, from 0.", "always", "0"),
    Variable(
        "BERTH_RANK", "Index of this task in the whole job, from 0: the chief role, then by role name and index.", "always", "0"
    ),
    Variable("BERTH_WORLD_SIZE", "Number of tasks in the job.", "always", "2"),
    Variable("BERTH_HOST", "Address of this task.", "always", "10.0.0.7"),
    Variable("BERTH_CPUS", "Whole cores that this task asked for, at least 1.", "always", "4"),
    Variable("BERTH_PORT_<PORT>", "Number of this task's port of that name.", "for each port of its role", "31001"),
    Variable("BERTH_ROLES", "All roles, separated by commas, in order of rank.", "always", "worker"),
    Variable("BERTH_<ROLE>_COUNT", "Number of tasks of the role.", "for each role", "2"),
    Variable(
        "BERTH_<ROLE>_HOSTS",
        "Addresses of the tasks of the role, separated by commas, in order of index.",
        f"for each role of at most {bounds.HOSTS_IN_ENV} tasks",
        "10.0.0.7,10.0.0.8",
    ),
    Variable(
        "BERTH_<ROLE>_PORTS_<PORT>",
        "Numbers of the port of that name, separated by commas, in order of index.",
        f"for each port of each role of at most {bounds.HOSTS_IN_ENV} tasks",
        "31001,31001",
    ),
    Variable(
        "BERTH_HOSTS_FILE",
        "A file with one line for each task: rank, role, index and address.",
        "always",
        "/run/berth/berth-hosts",
    ),
    Variable("BERTH_ARRAY_INDEX", "Index of this job in its array, from 0.", "in an array", "0"),
    Variable("BERTH_ARRAY_SIZE", "Number of jobs in the array.", "in an array", "100"),
    Variable(
        "BERTH_CHECKPOINT_DIR",
        "Absolute path of the directory that is kept over attempts; the task's own one, with `per: role` or `per: task`.",
        "with checkpoint",
        "/berth/checkpoint",
    ),
)


def variable_part(name: str) -> str:
    """A role's or port's name inside a variable's name. Their grammar has no underscore, so no two become one."""
    return name.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Layout:
    """What all tasks of an attempt share: made once, referred to by each task, never copied."""

    job: FrameworkJob
    roles: tuple[FrameworkRole, ...]  # In order of rank.
    common: Mapping[str, Text]
    hosts_file: Text

    @property
    def world_size(self) -> int:
        return sum(role.count for role in self.roles)

    def tasks(self) -> Iterator[tuple[int, FrameworkRole, int]]:
        """Rank, role and index of every task, in order of rank."""
        rank = 0
        for role in self.roles:
            for index in range(role.count):
                yield rank, role, index
                rank += 1


def lay_out(job: FrameworkJob, *, chief: str | None = None) -> Layout:
    """Compute what the tasks share. Roles rank by name, but the chief (the job's, else the one given) comes first.

    The order of keys in a document means nothing, so it must not decide who is rank 0.
    """
    first = job.chief or chief
    roles = tuple(sorted(job.roles, key=lambda role: (role.name != first, role.name)))
    return Layout(job, roles, dict(_common(job, roles)), tuple(_hosts_file(roles)))


def _common(job: FrameworkJob, roles: tuple[FrameworkRole, ...]) -> Iterator[tuple[str, Text]]:
    yield from ((name, (value,)) for name, value in job.env.items())
    yield "BERTH_ENV_VERSION", (VERSION,)
    yield "BERTH_JOB_ID", (job.job_id,)
    yield "BERTH_JOB_NAME", (job.job_name,)
    yield "BERTH_ATTEMPT", (str(job.attempt),)
    yield "BERTH_TENANT", (job.tenant,)
    yield "BERTH_QUEUE", (job.queue,)
    yield "BERTH_USER", (job.user,)
    yield "BERTH_WORLD_SIZE", (str(sum(role.count for role in roles)),)
    yield "BERTH_ROLES", (",".join(role.name for role in roles),)
    yield "BERTH_HOSTS_FILE", (FileOf(HOSTS_FILE),)
    for role in roles:
        yield from _role_variables(role)
    if job.array_index is not None and job.array_size is not None:
        yield "BERTH_ARRAY_INDEX", (str(job.array_index),)
        yield "BERTH_ARRAY_SIZE", (str(job.array_size),)


def _role_variables(role: FrameworkRole) -> Iterator[tuple[str, Text]]:
    prefix = f"BERTH_{variable_part(role.name)}"
    yield f"{prefix}_COUNT", (str(role.count),)
    if role.count > bounds.HOSTS_IN_ENV:
        return
    yield f"{prefix}_HOSTS", listed([AddressOf(role.name, index) for index in range(role.count)])
    for port in role.ports:
        yield f"{prefix}_PORTS_{variable_part(port)}", listed([PortOf(role.name, index, port) for index in range(role.count)])


def listed(parts: list[AddressOf] | list[PortOf]) -> Text:
    """The parts with commas between them."""
    text: list[TextPart] = []
    for part in parts:
        text += (",", part)
    return tuple(text[1:])


def _hosts_file(roles: tuple[FrameworkRole, ...]) -> Iterator[TextPart]:
    rank = 0
    for role in roles:
        for index in range(role.count):
            yield f"{rank} {role.name} {index} "
            yield AddressOf(role.name, index)
            yield "\n"
            rank += 1


def own_environment(layout: Layout, rank: int, role: FrameworkRole, index: int) -> dict[str, Text]:
    """Everything of one task but what its framework adds. The user's variables come first; ours cannot be overridden."""
    variables: dict[str, Text] = dict(layout.common)
    variables.update((name, (value,)) for name, value in role.env.items())
    variables["BERTH_ROLE"] = (role.name,)
    variables["BERTH_INDEX"] = (str(index),)
    variables["BERTH_RANK"] = (str(rank),)
    variables["BERTH_HOST"] = (AddressOf(role.name, index),)
    variables["BERTH_CPUS"] = (str(role.cores),)
    if layout.job.checkpoint_dir:
        variables["BERTH_CHECKPOINT_DIR"] = (*layout.job.checkpoint_dir, *_own_part(layout.job.checkpoint_per, role.name, index))
    for port in role.ports:
        variables[f"BERTH_PORT_{variable_part(port)}"] = (PortOf(role.name, index, port),)
    return variables


def _own_part(per: str, role: str, index: int) -> Text:
    if per == "role":
        return (f"/{role}",)
    return (f"/{role}-{index}",) if per == "task" else ()


# --- The document ----------------------------------------------------------------------------------------------------


def environment_markdown(frameworks: Iterable[Framework]) -> str:
    """The whole of docs/environment.md, with what each framework says of its own variables."""
    rows = [f"| `{item.name}` | {item.when} | {item.meaning} | `{item.example}` |" for item in CONTRACT]
    table = "\n".join(["| variable | set | meaning | example |", "|---|---|---|---|", *rows])
    pages = [f"\n{framework.page}" for framework in frameworks if framework.page]
    return "".join((_DOCUMENT_HEAD, table, _DOCUMENT_TAIL, *pages))


_DOCUMENT_HEAD = """# What a task finds in its environment

The same names on every kind of cluster. `BERTH_ENV_VERSION` rises when a name goes or changes its meaning; new names may come
at any time. Jobs cannot set names that begin with `BERTH_`. In names, `<ROLE>` and `<PORT>` stand for the role's and the port's
name in upper case, with dashes as underscores.

"""

_DOCUMENT_TAIL = f"""

`OMP_NUM_THREADS` is `BERTH_CPUS` unless the job or its image sets it: without it, programs that compute in threads start as many
as the machine has cores. `nproc` says the same number, for it reads that variable; a task with `cpu_exclusive` is bound to its
cores.

Roles of more than {bounds.HOSTS_IN_ENV} tasks have no lists in variables, because the system refuses such long ones; the hosts
file always has all tasks.

Beside these a task has `HOME`, a folder of its own that is empty at the start, `TMPDIR`, and `USER` and `LOGNAME`: the name of
its tenant's user, `berth-` with the tenant's slug. A job may set them otherwise; what an image sets does not count. On a local
cluster with bubblewrap /etc/passwd and /etc/group have a line for that user and its groups beside those of the machine or the
image, so that `whoami`, `getpass.getuser()` and ssh find it; an image that has a name for the user's number keeps it. On
Kubernetes only an image whose /etc/passwd all users may write gets the line, unless the container runtime adds one (CRI-O
does): elsewhere `USER` and `LOGNAME` say the name, and ssh does not start.
"""
