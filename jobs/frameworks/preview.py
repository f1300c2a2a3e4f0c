"""What a framework makes of a job, before it is submitted: roles, what runs in each, in which order, and whose end decides.

It is read off the plan that engines get, so that it cannot say anything else. Addresses, ports and paths, which only the engine
knows, stand as words: <worker-0>, <port berth-tf of worker-0>, <file berth-hosts>."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from clusters.engines.interface import AddressOf, CheckpointDir, FileOf, PortOf, Text
from jobs.frameworks.interface import Deciding, Framework, FrameworkJob, TaskPlan

VALUE_LENGTH = 400  # Of a variable: lists of hosts are as long as the job is large.
COMMON = "BERTH_"  # Variables of every task are in docs/environment.md.


@dataclass(frozen=True, slots=True)
class RoleLayout:
    """What the first task of a role becomes. `starts_after` are roles that are ready before anything of it starts, `waits_for`
    those before its command does; `beside` are programs of the framework, which run besides the command."""

    role: str
    count: int
    environment: Mapping[str, str]
    secrets: tuple[str, ...]
    ports: tuple[str, ...]
    command: tuple[str, ...]
    beside: tuple[tuple[str, ...], ...]
    starts_after: tuple[str, ...]
    waits_for: tuple[str, ...]
    ready_when: str
    max_retry: int
    processes: int
    installs: tuple[str, ...]  # What has to be in the image.


def layout_of(framework: Framework, job: FrameworkJob) -> tuple[list[RoleLayout], Deciding]:
    """One entry for each role, those first that start first; and which roles decide the end."""
    plan = framework.compile(job)
    counts = {role.name: role.count for role in job.roles}
    firsts = [task for task in plan.tasks if task.name.index == 0]
    roles = [_role(task, counts[task.name.role]) for task in firsts]
    return sorted(roles, key=lambda role: _depth(role.role, {entry.role: entry for entry in roles})), framework.completion(counts)


def _role(task: TaskPlan, count: int) -> RoleLayout:
    own: dict[str, Any] = json.loads(_shown(task.env["BERTH_TASK_PLAN"])) if "BERTH_TASK_PLAN" in task.env else {}
    command = [_joined(parts) for parts in own.get("argv", ())] if own else [_shown(part) for part in task.argv]
    added = {name: _joined(parts) for name, parts in own.get("env", {}).items()}
    variables = {name: _shown(text) for name, text in task.env.items() if not name.startswith(COMMON)}
    return RoleLayout(
        role=task.name.role,
        count=count,
        environment={name: value[:VALUE_LENGTH] for name, value in {**variables, **added}.items()},
        secrets=tuple(sorted(task.secret_env)),
        ports=task.ports,
        command=tuple(command),
        beside=tuple(tuple(_joined(parts) for parts in service["argv"]) for service in own.get("services", ())),
        starts_after=tuple(own.get("after", ())),
        waits_for=tuple(own.get("before", ())),
        ready_when=_ready(own),
        max_retry=own.get("max_retry", 0),
        processes=max(1, len(own.get("processes", ()))),
        installs=tuple(entry["name"] for entry in own.get("requires", ())),
    )


def _ready(plan: Mapping[str, Any]) -> str:
    check = plan.get("ready") or {}
    if check.get("log"):
        return f"log: {check['log']}"
    if check.get("port"):
        return f"{check['port']} {check['path']}".strip()
    return ""


def _depth(role: str, roles: Mapping[str, RoleLayout]) -> tuple[int, str]:
    """How many roles have to be ready one after the other before this one starts."""
    after = [other for other in roles[role].starts_after if other in roles]
    return (1 + max(_depth(other, roles)[0] for other in after) if after else 0), role


def _joined(parts: Sequence[Any]) -> str:
    return "".join(part if isinstance(part, str) else _filled(part) for part in parts)


def _filled(part: Mapping[str, str]) -> str:
    """A part that the task itself fills in."""
    if "address" in part:
        return part["address"]
    return f"<variable {part['env']}>" if "env" in part else f"<folder {part.get('scratch') or part['work']}>"


def _shown(text: Text) -> str:
    return "".join(part if isinstance(part, str) else _word(part) for part in text)


def _word(part: AddressOf | PortOf | FileOf | CheckpointDir) -> str:
    match part:
        case AddressOf():
            return f"<{part.role}-{part.index}>"
        case PortOf():
            return f"<port {part.name} of {part.role}-{part.index}>"
        case FileOf():
            return f"<file {part.name}>"
        case CheckpointDir():
            return "<checkpoint>"
