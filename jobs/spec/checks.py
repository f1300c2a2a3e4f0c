"""What must hold between the fields of a job. Each check reads a spec and says what is wrong where; none changes anything.

`broken` names the fields that were left out because they are wrong themselves; a check that would only repeat the
consequence of such an error keeps silent."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from jobs import bounds, frameworks
from jobs.spec.model import JobSpec, RoleCompletion, Shell
from jobs.spec.problems import Problem
from jobs.spec.starting import check_policies, check_processes, check_starting, refuse_start_rules
from jobs.spec.translation import Location
from jobs.spec.values import shown
from kernel import limits
from kernel.words import Text

RESERVED_PREFIX = "BERTH_"
REFERENCE = re.compile(r"\$(?:[A-Za-z_][A-Za-z0-9_]*|\{[A-Za-z_][A-Za-z0-9_]*\})")
"""What a shell would replace: `$HOME`, `${HOME}`."""


Check = Callable[[JobSpec, frozenset[str]], Iterator[Problem]]


def cross_check(spec: JobSpec, broken: frozenset[str] = frozenset()) -> Iterator[Problem]:
    """All problems between fields, in a fixed order."""
    for check in _CHECKS:
        yield from check(spec, broken)


def _check_roles(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if not spec.roles and not broken & {"roles", "replicas"}:
        yield Problem(
            ("roles",),
            "missing",
            Text("The job has no role.", "作业没有角色。"),
            Text("Add command: followed by what to run.", "请添加 command: 及要运行的命令。"),
        )
    for name, role in spec.roles.items():
        if role.replicas.min > role.replicas.max:
            message = Text(
                f"Role {name} asks for at least {role.replicas.min} and at most {role.replicas.max} replicas.",
                f"角色 {name} 请求至少 {role.replicas.min}、至多 {role.replicas.max} 个副本。",
            )
            yield Problem(("roles", name, "replicas"), "range", message, Text("Swap min and max.", "请交换 min 与 max。"))
        if role.shell is not Shell.AUTO and not isinstance(role.command, str):
            yield Problem(
                ("roles", name, "shell"),
                "shell_unused",
                Text("A command that is a list is run by no shell.", "列表形式的命令不经 shell 运行。"),
                Text("Remove shell, or write the command as text.", "请去掉 shell，或将命令写为文本。"),
            )
        for index, port in enumerate(role.ports):
            if port.startswith("berth-"):
                yield Problem(
                    ("roles", name, "ports", index),
                    "reserved",
                    Text(f"Port name {port} is reserved.", f"端口名 {port} 为保留名。"),
                    Text("Rename the port.", "请重命名端口。"),
                )
        for other in spec.roles:
            if other.startswith(f"{name}-ports") and role.ports:
                message = Text(
                    f"Role {other} and the ports of role {name} would share names of variables.",
                    f"角色 {other} 与角色 {name} 的端口会使用相同的变量名。",
                )
                yield Problem(
                    ("roles", other), "role_collision", message, Text(f"Rename role {other}.", f"请重命名角色 {other}。")
                )


def _check_size(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    tasks = spec.task_count_max
    if tasks > bounds.TASKS_PER_JOB:
        message = Text(
            f"The roles have {tasks} tasks together; at most {bounds.TASKS_PER_JOB} are allowed.",
            f"各角色共有 {tasks} 个任务；最多 {bounds.TASKS_PER_JOB} 个。",
        )
        yield Problem(
            ("roles",), "too_many_tasks", message, Text("Lower replicas, or split the job.", "请减少副本数，或拆分作业。")
        )
    if spec.array is None:
        return
    if tasks * spec.array.size > bounds.TASKS_PER_ARRAY:
        total = tasks * spec.array.size
        message = Text(
            f"{spec.array.size} children of {tasks} tasks are {total}; at most {bounds.TASKS_PER_ARRAY} are allowed.",
            f"{spec.array.size} 个子作业各 {tasks} 个任务，共 {total} 个；最多 {bounds.TASKS_PER_ARRAY} 个。",
        )
        yield Problem(
            ("array", "size"),
            "too_many_tasks",
            message,
            Text("Lower array.size, or submit several arrays.", "请减小 array.size，或分成多个数组作业提交。"),
        )
    if spec.array.parallelism is not None and spec.array.parallelism > spec.array.size:
        message = Text(
            f"array.parallelism {spec.array.parallelism} is above array.size {spec.array.size}.",
            f"array.parallelism {spec.array.parallelism} 大于 array.size {spec.array.size}。",
        )
        yield Problem(("array", "parallelism"), "range", message, Text("Leave it out for no limit.", "省略则不限制。"))


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
                    Text(
                        f"{name} is reserved: Berth sets the variables beginning with {RESERVED_PREFIX}.",
                        f"{name} 为保留名：以 {RESERVED_PREFIX} 开头的变量由 Berth 设置。",
                    ),
                    Text("Rename it.", "请重命名。"),
                )
            elif name in reserved:
                yield Problem(
                    (*place, name),
                    "reserved",
                    Text(f"{name} is set by framework {spec.framework}.", f"{name} 由框架 {spec.framework} 设置。"),
                    Text("Remove it, or use framework: none.", "请去掉，或使用 framework: none。"),
                )
            elif name in spec.secrets and place != ("secrets",):
                yield Problem(
                    (*place, name),
                    "env_and_secret",
                    Text(f"{name} is both a variable and a secret.", f"{name} 既是变量又是密钥。"),
                    Text("Remove one of them.", "请去掉其中一个。"),
                )
    yield from _check_environment_size(spec)


def _check_paths(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    """Variables reach a program as they are written. One that extends a search path would take the whole path away."""
    for place, variables in environments(spec):
        for name, value in variables.items():
            if name.upper().endswith("PATH") and (found := REFERENCE.search(value)) is not None:
                message = Text(
                    f"{name} holds {found[0]}, and a variable is passed on as it is written: {name} would have no other folders.",
                    f"{name} 含有 {found[0]}，而变量按原样传递：{name} 将不含其他目录。",
                )
                before = value.replace('"', '\\"')
                hint = Text(
                    f'Remove it here, and begin the command with: export {name}="{before}"',
                    f'请在此处去掉它，并在命令开头写：export {name}="{before}"',
                )
                yield Problem((*place, name), "path_reference", message, hint)


def environments(spec: JobSpec) -> Iterator[tuple[Location, Mapping[str, str]]]:
    """The job's variables and those of its roles, each with its place."""
    yield ("env",), spec.env
    for name, role in spec.roles.items():
        yield ("roles", name, "env"), role.env


def _check_environment_size(spec: JobSpec) -> Iterator[Problem]:
    common = _size(spec.env)
    for name, role in spec.roles.items():
        size = common + _size(role.env)
        if size > limits.ENV_BYTES:
            place = ("roles", name, "env") if role.env else ("env",)
            message = Text(
                f"The variables of role {name} have {size} bytes; at most {limits.ENV_BYTES} are allowed.",
                f"角色 {name} 的变量共 {size} 字节；最多 {limits.ENV_BYTES} 字节。",
            )
            yield Problem(place, "env_too_large", message, Text("Put data into files.", "请将数据放入文件。"))
            return


def _size(variables: Mapping[str, str]) -> int:
    return sum(len(name) + len(value.encode()) + 2 for name, value in variables.items())


def _check_completion(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if "roles" in broken:
        return
    chief = spec.completion.chief
    if chief is not None and chief not in spec.roles:
        yield Problem(
            ("completion", "chief"),
            "unknown_role",
            Text(f"The job has no role {shown(chief)}.", f"作业没有角色 {shown(chief)}。"),
            _roles_hint(spec),
        )
    for name, rule in spec.completion.roles.items():
        if name not in spec.roles:
            yield Problem(
                ("completion", "roles", name),
                "unknown_role",
                Text(f"The job has no role {shown(name)}.", f"作业没有角色 {shown(name)}。"),
                _roles_hint(spec),
            )
        elif "replicas" not in broken:
            yield from _check_thresholds(name, rule, spec.roles[name].replicas.min)


def _check_thresholds(name: str, rule: RoleCompletion, replicas: int) -> Iterator[Problem]:
    for key, threshold in (("min_failed", rule.min_failed), ("min_succeeded", rule.min_succeeded)):
        if isinstance(threshold, int) and threshold > replicas:
            message = Text(
                f"{key} of role {name} is {threshold}, but the role has only {replicas} {'task' if replicas == 1 else 'tasks'}.",
                f"角色 {name} 的 {key} 为 {threshold}，但该角色只有 {replicas} 个任务。",
            )
            yield Problem(
                ("completion", "roles", name, key),
                "range",
                message,
                Text(f"Use at most {replicas}, or never.", f"请填写不超过 {replicas} 的数，或 never。"),
            )


def _roles_hint(spec: JobSpec) -> Text[str]:
    names = ", ".join(spec.roles)
    return Text(f"Its roles: {names}.", f"其角色：{names}。")


def _check_mounts(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if "mounts" in broken:
        return
    seen: dict[str, int] = {}
    for index, mount in enumerate(spec.mounts):
        if mount.path in seen:
            message = Text(
                f"Volumes {spec.mounts[seen[mount.path]].volume} and {mount.volume} are both mounted at {mount.path}.",
                f"存储卷 {spec.mounts[seen[mount.path]].volume} 与 {mount.volume} 都挂载在 {mount.path}。",
            )
            yield Problem(
                ("mounts", index, "path"),
                "duplicate",
                message,
                Text("Choose another path for one of them.", "请为其中一个换路径。"),
            )
        seen.setdefault(mount.path, index)
        above = next((other for other in spec.mounts if mount.path.startswith(f"{other.path.rstrip('/')}/")), None)
        if above is not None:
            # A link in the outer volume would say where the inner one appears: no engine follows one with rights of its own.
            yield Problem(
                ("mounts", index, "path"),
                "nested",
                Text(
                    f"{shown(mount.path)} lies below {shown(above.path)}, where volume {above.volume} is mounted.",
                    f"{shown(mount.path)} 位于存储卷 {above.volume} 的挂载路径 {shown(above.path)} 之下。",
                ),
                Text(
                    "Choose paths beside each other, such as /data and /models.", "请选择互不包含的路径，例如 /data 和 /models。"
                ),
            )
    if spec.checkpoint is None or not spec.checkpoint.path.startswith("/"):
        return
    path = spec.checkpoint.path
    around = [mount for mount in spec.mounts if path == mount.path or path.startswith(mount.path + "/")]
    if not around or max(around, key=lambda mount: len(mount.path)).read_only:
        message = Text(
            f"checkpoint.path {shown(path)} is in no writable mount.", f"checkpoint.path {shown(path)} 不在可写的挂载中。"
        )
        yield Problem(
            ("checkpoint", "path"),
            "checkpoint_place",
            message,
            Text("Mount a volume there, or write a relative path.", "请在该处挂载存储卷，或使用相对路径。"),
        )


def _check_warning(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    before = spec.checkpoint and spec.checkpoint.before_deadline_seconds
    if before and spec.max_runtime_seconds is not None and 2 * before > spec.max_runtime_seconds:
        yield Problem(
            ("checkpoint", "before_deadline"),
            "range",
            Text(
                f"The signal comes {before} s before the end of {spec.max_runtime_seconds} s; half of it is the most.",
                f"信号将在 {spec.max_runtime_seconds} 秒的时限结束前 {before} 秒发出；最多为时限的一半。",
            ),
            Text("Raise max_runtime or lower before_deadline.", "请提高 max_runtime 或减小 before_deadline。"),
        )


def _check_code(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if spec.code is None:
        return
    given = [name for name in ("path", "git", "snapshot") if getattr(spec.code, name) is not None]
    if len(given) != 1 and "code" not in broken:
        found = " and ".join(given) if given else "none"
        yield Problem(
            ("code",),
            "code_source",
            Text(
                f"code needs exactly one of path, git and snapshot; it has {found}.",
                f"code 须且只须填写 path、git、snapshot 之一；现有 {found}。",
            ),
            Text("Keep one of them.", "请只保留一个。"),
        )
    if spec.code.ref is not None and spec.code.git is None and "code" not in broken:
        yield Problem(
            ("code", "ref"),
            "code_ref",
            Text("code.ref is only of use with code.git.", "code.ref 只能与 code.git 一起使用。"),
            Text("Remove it, or add git.", "请去掉，或添加 git。"),
        )
    if spec.code.secret is not None and spec.code.git is None and "code" not in broken:
        yield Problem(
            ("code", "secret"),
            "code_secret",
            Text("code.secret is only of use with code.git.", "code.secret 只能与 code.git 一起使用。"),
            Text("Remove it, or add git.", "请去掉，或添加 git。"),
        )
    if spec.code.git is not None and _has_credential(spec.code.git):
        yield Problem(
            ("code", "git"),
            "code_git_credential",
            Text(
                "code.git has a user or a password in its address, where all who see the job could read it.",
                "code.git 的地址中含用户名或密码，能看到该作业的人都能读到。",
            ),
            Text(
                "Take it out, store it with `berth secrets set NAME`, and write code: {git: ..., secret: NAME}.",
                "请将其去掉，用 `berth secrets set NAME` 保存，并填写 code: {git: ..., secret: NAME}。",
            ),
        )


def _has_credential(address: str) -> bool:
    """A user name alone belongs to an SSH address; by https it is a credential."""
    scheme, _, rest = address.partition("://")
    user, at, _ = rest.split("/", 1)[0].rpartition("@")
    return bool(at) and (scheme == "https" or ":" in user)


def _check_dependencies(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    lists = {"after": spec.after, "after_ok": spec.after_ok, "after_any": spec.after_any}
    count = sum(len(entries) for entries in lists.values())
    if count > bounds.DEPENDENCIES:
        yield Problem(
            ("after",),
            "too_many",
            Text(
                f"The job depends on {count} jobs; at most {bounds.DEPENDENCIES} are allowed.",
                f"作业依赖 {count} 个作业；最多 {bounds.DEPENDENCIES} 个。",
            ),
        )
    seen: dict[str, str] = {}
    for name, entries in lists.items():
        for index, entry in enumerate(entries):
            if entry in seen and name not in broken:
                message = Text(
                    f"{shown(entry)} stands in both {seen[entry]} and {name}.",
                    f"{shown(entry)} 同时出现在 {seen[entry]} 与 {name} 中。",
                )
                yield Problem(
                    (name, index), "duplicate", message, Text("Keep the stricter one, after_ok.", "请保留更严格的 after_ok。")
                )
            seen.setdefault(entry, name)


def role_shapes(spec: JobSpec) -> dict[str, frameworks.RoleShape]:
    """What frameworks judge of a job's roles."""
    return {
        name: frameworks.RoleShape(
            role.replicas.min, role.replicas.max, role.resources.gpu.millis, role.ports, role.resources.memory_bytes
        )
        for name, role in spec.roles.items()
    }


def _check_framework(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    if broken & {"roles", "replicas", "role_parts", "framework"}:
        return
    shapes = role_shapes(spec)
    framework = frameworks.get_framework(spec.framework)
    if not framework.takes_start_rules:
        yield from refuse_start_rules(spec)
    yield from check_processes(spec, framework_takes_them=framework.takes_processes)
    for field in framework.validate(shapes):
        location: tuple[Any, ...] = tuple(field.path.split("/")[1:])
        yield Problem(location, field.code, field.message, field.hint)


_CHECKS: tuple[Check, ...] = (
    _check_roles,
    _check_size,
    check_environment,
    _check_completion,
    _check_paths,
    _check_mounts,
    _check_warning,
    _check_code,
    _check_dependencies,
    check_starting,
    check_policies,
    _check_framework,
)
