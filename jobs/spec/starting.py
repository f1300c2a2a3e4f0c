"""What must hold of `ready`, `start_after_ready` and `max_retry`: that the tasks of a job can all begin."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from jobs.lifecycle.policies import PolicyAction, PolicyEvent
from jobs.spec.model import JobSpec, Ready
from jobs.spec.problems import Problem
from jobs.spec.values import shown
from kernel.words import Text


def check_starting(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    """Readiness that can be found out, of roles that are there, and no role that waits for itself."""
    if "roles" in broken:
        return
    for name, role in spec.roles.items():
        if role.ready is not None and "role_parts" not in broken:
            yield from _check_ready(name, role.ready, role.ports)
        for index, other in enumerate(role.start_after_ready):
            if other not in spec.roles:
                yield Problem(
                    ("roles", name, "start_after_ready", index),
                    "unknown_role",
                    Text(f"The job has no role {shown(other)}.", f"作业没有角色 {shown(other)}。"),
                    Text(f"Its roles: {', '.join(spec.roles)}.", f"其角色：{', '.join(spec.roles)}。"),
                )
    waits = {name: role.start_after_ready for name, role in spec.roles.items()}
    for name in spec.roles:
        circle = find_circle(name, waits)
        if circle and name == min(circle):
            path = " -> ".join((*circle, circle[0]))
            yield Problem(
                ("roles", name, "start_after_ready"),
                "circular",
                Text(f"Roles wait for each other, so that none starts: {path}.", f"角色相互等待，均无法启动：{path}。"),
                Text("Remove one of them from start_after_ready.", "请从 start_after_ready 中去掉其中一个。"),
            )


def refuse_start_rules(spec: JobSpec) -> Iterator[Problem]:
    """For frameworks that start the programs of their tasks in a way of their own."""
    if spec.ssh:
        yield Problem(
            ("ssh",),
            "framework",
            Text(
                f"Framework {spec.framework} starts programs in other tasks by itself, and does not take ssh.",
                f"框架 {spec.framework} 自行在其他任务中启动程序，不支持 ssh。",
            ),
            Text("Remove ssh, or use another framework.", "请去掉 ssh，或使用其他框架。"),
        )
    for name, role in spec.roles.items():
        restarts = any(policy.action is PolicyAction.RESTART_TASK for policy in role.policies)
        given = {
            "ready": role.ready,
            "start_after_ready": role.start_after_ready,
            "max_retry": role.max_retry,
            "policies": restarts,
        }
        for key in [key for key, value in given.items() if value]:
            yield Problem(
                ("roles", name, key),
                "framework",
                Text(f"Framework {spec.framework} does not take {key}.", f"框架 {spec.framework} 不支持 {key}。"),
                Text(f"Remove {key}, or use another framework.", f"请去掉 {key}，或使用其他框架。"),
            )


def check_policies(spec: JobSpec, broken: frozenset[str]) -> Iterator[Problem]:
    """Policies that can be carried out, and under which a job can succeed."""
    for name, role in spec.roles.items():
        for index, policy in enumerate(role.policies):
            place = ("roles", name, "policies", index)
            well = sorted({*policy.on} & {PolicyEvent.SUCCEEDED, PolicyEvent.ROLE_SUCCEEDED})
            if well and policy.action not in (PolicyAction.COMPLETE, PolicyAction.IGNORE):
                yield Problem(
                    (*place, "do"),
                    "policy_endless",
                    Text(
                        f"{policy.action} on {well[0]} of role {name} would keep the job from ever succeeding.",
                        f"角色 {name} 在 {well[0]} 时执行 {policy.action}，作业将永远无法成功。",
                    ),
                    Text("Write do: complete or do: ignore there.", "请改为 do: complete 或 do: ignore。"),
                )
            elif policy.action is PolicyAction.RESTART_TASK and {*policy.on} != {PolicyEvent.FAILED}:
                yield Problem(
                    (*place, "on"),
                    "policy_place",
                    Text(
                        "restart_task is for failed alone: a task whose node is gone cannot start again in its place.",
                        "restart_task 只能用于 failed：节点已不在的任务无法在原处重新启动。",
                    ),
                    Text("Use restart_job for the other events.", "其他事件请使用 restart_job。"),
                )
            if policy.exit_code and PolicyEvent.FAILED not in policy.on:
                yield Problem(
                    (*place, "exit_code"),
                    "policy_code",
                    Text("exit_code is only of use with failed.", "exit_code 只能与 failed 一起使用。"),
                    Text("Remove it, or add failed.", "请去掉，或添加 failed。"),
                )


def check_processes(spec: JobSpec, *, framework_takes_them: bool) -> Iterator[Problem]:
    """Processes that share GPUs: whole ones, and as ranks of a framework that numbers them."""
    for name, role in spec.roles.items():
        if role.resources.processes_per_gpu == 1:
            continue
        place = ("roles", name, "resources", "processes_per_gpu")
        if role.resources.gpu.millis < 1000 or role.resources.gpu.millis % 1000:
            yield Problem(
                place,
                "processes_without_gpu",
                Text(
                    f"Role {name} asks for processes_per_gpu and for no whole GPU.",
                    f"角色 {name} 设置了 processes_per_gpu，却没有申请整块 GPU。",
                ),
                Text("Add gpu: 1 or more, or remove it.", "请添加 gpu: 1 或更多，或去掉该项。"),
            )
        elif not framework_takes_them:
            yield Problem(
                place,
                "framework",
                Text(
                    f"Framework {spec.framework} does not number several processes of a task.",
                    f"框架 {spec.framework} 不支持一个任务内的多个进程。",
                ),
                Text("Use framework: pytorch or jax, or remove it.", "请使用 framework: pytorch 或 jax，或去掉该项。"),
            )


def _check_ready(role: str, ready: Ready, ports: tuple[str, ...]) -> Iterator[Problem]:
    if (ready.port is None) == (ready.log is None):
        yield Problem(
            ("roles", role, "ready"),
            "ready_check",
            Text(f"ready of role {role} needs either port or log.", f"角色 {role} 的 ready 须填写 port 或 log 之一。"),
            Text("Write ready: {port: NAME} or ready: {log: TEXT}.", "请写 ready: {port: 名称} 或 ready: {log: 文本}。"),
        )
    elif ready.path is not None and ready.port is None:
        yield Problem(
            ("roles", role, "ready", "path"),
            "ready_check",
            Text("ready.path is only of use with ready.port.", "ready.path 只能与 ready.port 一起使用。"),
            Text("Remove it, or add port.", "请去掉，或添加 port。"),
        )
    if ready.port is not None and ready.port not in ports:
        yield Problem(
            ("roles", role, "ready", "port"),
            "unknown_port",
            Text(f"Role {role} has no port {shown(ready.port)}.", f"角色 {role} 没有端口 {shown(ready.port)}。"),
            Text(f"Add it: ports: [{ready.port}].", f"请添加：ports: [{ready.port}]。"),
        )


def find_circle(start: str, waits: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The shortest way from a role back to itself along what it waits for; () where there is none."""
    paths: list[tuple[str, ...]] = [(start,)]
    seen: set[str] = set()
    for path in paths:
        for other in waits.get(path[-1], ()):
            if other == start:
                return path
            if other not in seen:
                seen.add(other)
                paths.append((*path, other))
    return ()
