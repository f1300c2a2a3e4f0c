"""What must hold between the fields of a job. Each check reads a spec and says what is wrong where; none changes anything.

`broken` names the fields that were left out because they are wrong themselves; a check that would only repeat the
consequence of such an error keeps silent."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from jobs import frameworks
from jobs.spec.model import JobSpec, RoleCompletion
from jobs.spec.values import shown
from kernel import limits

Location = tuple[str | int, ...]
RESERVED_PREFIX = "BERTH_"


class Problem(NamedTuple):
    """A place, and the rest of a FieldError."""

    location: Location
    code: str
    message: str
    hint: str = ""


Check = Callable[[JobSpec, frozenset[str]], Iterator[Problem]]


def cross_check(spec: JobSpec, broken: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """All problems between fields, in a fixed order."""
    for check in _CHECKS:
        yield from check(spec, broken)


def _check_roles(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if not spec.roles and not broken & {"roles", "replicas"}:
        yield Problem(("roles",), "missing", "The job has no role.", "Add command: followed by what to run.")
    for name, role in spec.roles.items():
        if role.replicas.min > role.replicas.max:
            message = f"Role {name} asks for at least {role.replicas.min} and at most {role.replicas.max} replicas."
            yield Problem(("roles", name, "replicas"), "range", message, "Swap min and max.")
        for index, port in enumerate(role.ports):
            if port.startswith("berth-"):
                yield Problem(("roles", name, "ports", index), "reserved", f"Port name {port} is reserved.", "Rename the port.")
        for other in spec.roles:
            if other.startswith(f"{name}-ports") and role.ports:
                message = f"Role {other} and the ports of role {name} would share names of variables."
                yield Problem(("roles", other), "role_collision", message, f"Rename role {other}.")


def _check_size(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    tasks = spec.task_count_max
    if tasks > limits.TASKS_PER_JOB:
        message = f"The roles have {tasks} tasks together; at most {limits.TASKS_PER_JOB} are allowed."
        yield Problem(("roles",), "too_many_tasks", message, "Lower replicas, or split the job.")
    if spec.array is None:
        return
    if tasks * spec.array.size > limits.TASKS_PER_ARRAY:
        total = tasks * spec.array.size
        message = f"{spec.array.size} children of {tasks} tasks are {total}; at most {limits.TASKS_PER_ARRAY} are allowed."
        yield Problem(("array", "size"), "too_many_tasks", message, "Lower array.size, or submit several arrays.")
    if spec.array.parallelism is not None and spec.array.parallelism > spec.array.size:
        message = f"array.parallelism {spec.array.parallelism} is above array.size {spec.array.size}."
        yield Problem(("array", "parallelism"), "range", message, "Leave it out for no limit.")


def check_environment(spec: JobSpec, broken: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """Names that are taken or set twice, and the size of all variables; alone of use to items of a batch."""
    reserved = frameworks.get_framework(spec.framework).reserved_env
    scopes: list[tuple[Location, Mapping[str, str]]] = [(("env",), spec.env), (("secrets",), spec.secrets)]
    scopes += [(("roles", name, "env"), role.env) for name, role in spec.roles.items()]
    for place, names in scopes:
        for name in names:
            if name.upper().startswith(RESERVED_PREFIX):
                yield Problem(
                    (*place, name),
                    "reserved",
                    f"{name} is reserved: Berth sets the variables beginning with {RESERVED_PREFIX}.",
                    "Rename it.",
                )
            elif name in reserved:
                yield Problem(
                    (*place, name),
                    "reserved",
                    f"{name} is set by framework {spec.framework}.",
                    "Remove it, or use framework: none.",
                )
            elif name in spec.secrets and place != ("secrets",):
                yield Problem((*place, name), "env_and_secret", f"{name} is both a variable and a secret.", "Remove one of them.")
    yield from _check_environment_size(spec)


def _check_environment_size(spec: JobSpec) -> Iterator[Problem]:
    common = _size(spec.env)
    for name, role in spec.roles.items():
        size = common + _size(role.env)
        if size > limits.ENV_BYTES:
            place = ("roles", name, "env") if role.env else ("env",)
            message = f"The variables of role {name} have {size} bytes; at most {limits.ENV_BYTES} are allowed."
            yield Problem(place, "env_too_large", message, "Put data into files.")
            return


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode()) + 2 for name, value in variables.items())


def _check_completion(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if "roles" in broken:
        return
    chief = spec.completion.chief
    if chief is not None and chief not in spec.roles:
        yield Problem(("completion", "chief"), "unknown_role", f"The job has no role {shown(chief)}.", _roles_hint(spec))
    for name, rule in spec.completion.roles.items():
        if name not in spec.roles:
            yield Problem(("completion", "roles", name), "unknown_role", f"The job has no role {shown(name)}.", _roles_hint(spec))
        elif "replicas" not in broken:
            yield from _check_thresholds(name, rule, spec.roles[name].replicas.min)


def _check_thresholds(name: str, rule: RoleCompletion, replicas: int) -> Iterator[Problem]:
    for key, threshold in (("min_failed", rule.min_failed), ("min_succeeded", rule.min_succeeded)):
        if isinstance(threshold, int) and threshold > replicas:
            message = (
                f"{key} of role {name} is {threshold}, but the role has only {replicas} {'task' if replicas == 1 else 'tasks'}."
            )
            yield Problem(("completion", "roles", name, key), "range", message, f"Use at most {replicas}, or never.")


def _roles_hint(spec: JobSpec) -> str:
    return f"Its roles: {', '.join(spec.roles)}."


def _check_mounts(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if "mounts" in broken:
        return
    seen: dict[str, int] = {}
    for index, mount in enumerate(spec.mounts):
        if mount.path in seen:
            message = f"Volumes {spec.mounts[seen[mount.path]].volume} and {mount.volume} are both mounted at {mount.path}."
            yield Problem(("mounts", index, "path"), "duplicate", message, "Choose another path for one of them.")
        seen.setdefault(mount.path, index)
    if spec.checkpoint is None or not spec.checkpoint.path.startswith("/"):
        return
    path = spec.checkpoint.path
    around = [mount for mount in spec.mounts if path == mount.path or path.startswith(mount.path + "/")]
    if not around or max(around, key=lambda mount: len(mount.path)).read_only:
        message = f"checkpoint.path {shown(path)} is in no writable mount."
        yield Problem(("checkpoint", "path"), "checkpoint_place", message, "Mount a volume there, or write a relative path.")


def _check_code(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if spec.code is None:
        return
    given = [name for name in ("path", "git", "snapshot") if getattr(spec.code, name) is not None]
    if len(given) != 1 and "code" not in broken:
        found = " and ".join(given) if given else "none"
        yield Problem(
            ("code",), "code_source", f"code needs exactly one of path, git and snapshot; it has {found}.", "Keep one of them."
        )
    if spec.code.ref is not None and spec.code.git is None and "code" not in broken:
        yield Problem(("code", "ref"), "code_ref", "code.ref is only of use with code.git.", "Remove it, or add git.")
    if spec.code.secret is not None and spec.code.git is None and "code" not in broken:
        yield Problem(("code", "secret"), "code_secret", "code.secret is only of use with code.git.", "Remove it, or add git.")
    if spec.code.git is not None and _has_credential(spec.code.git):
        yield Problem(
            ("code", "git"),
            "code_git_credential",
            "code.git has a user or a password in its address, where everybody who sees the job could read it.",
            "Take it out, store it with `berth secrets set NAME`, and write code: {git: ..., secret: NAME}.",
        )


def _has_credential(address: str) -> bool:
    """A user name alone belongs to an SSH address; by https it is a credential."""
    scheme, _, rest = address.partition("://")
    user, at, _ = rest.split("/", 1)[0].rpartition("@")
    return bool(at) and (scheme == "https" or ":" in user)


def _check_dependencies(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    lists = {"after": spec.after, "after_ok": spec.after_ok, "after_any": spec.after_any}
    count = sum(len(entries) for entries in lists.values())
    if count > limits.DEPENDENCIES:
        yield Problem(("after",), "too_many", f"The job depends on {count} jobs; at most {limits.DEPENDENCIES} are allowed.")
    seen: dict[str, str] = {}
    for name, entries in lists.items():
        for index, entry in enumerate(entries):
            if entry in seen and name not in broken:
                message = f"{shown(entry)} stands in both {seen[entry]} and {name}."
                yield Problem((name, index), "duplicate", message, "Keep the stricter one, after_ok.")
            seen.setdefault(entry, name)


def _check_framework(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if broken & {"roles", "replicas", "role_parts", "framework"}:
        return
    shapes = {
        name: frameworks.RoleShape(role.replicas.min, role.replicas.max, role.resources.gpu.millis, role.ports)
        for name, role in spec.roles.items()
    }
    for field in frameworks.get_framework(spec.framework).validate(shapes):
        location: tuple[Any, ...] = tuple(field.path.split("/")[1:])
        yield Problem(location, field.code, field.message, field.hint)


_CHECKS: tuple[Check, ...] = (
    _check_roles,
    _check_size,
    check_environment,
    _check_completion,
    _check_mounts,
    _check_code,
    _check_dependencies,
    _check_framework,
)
