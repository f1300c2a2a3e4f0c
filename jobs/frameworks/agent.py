"""Lays out tasks, with what a framework has to do in them before and around their command.

A framework says for each task what it is besides its command (`TaskRun`). Where that is no more than variables and ports, the
command is the task's own program. Else `task_agent.py` is, which is sent along and told by BERTH_TASK_PLAN what to do: refuse an
image that lacks a package, wait for other roles, start services, say that this task is ready, start a failed command again."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from clusters.engines.interface import AddressOf, CheckpointDir, FileOf, PortOf, TaskName, Text, TextPart
from jobs.frameworks import ssh
from jobs.frameworks.environment import HOSTS_FILE, Layout, own_environment
from jobs.frameworks.interface import FrameworkRole, GangPlan, ReadyCheck, TaskPlan
from jobs.frameworks.task_run import AgentText, OwnVariable, Requirement, Scratch, Service, TaskRun, WorkFolder

AGENT_FILE = "berth-task.py"
READY_FILE = "berth-ready"
READY_PORT = "berth-ready"
KEY = "BERTH_ATTEMPT_KEY"
WAIT_SECONDS = 600  # Until a task is ready, where the job says nothing: the default of the start timeout.
LONGER_SECONDS = 60  # That others wait for it: it knows best why it is not ready.
_AGENT = Path(__file__).with_name("task_agent.py").read_text(encoding="utf-8")
_PLACES = {Scratch: "scratch", WorkFolder: "work", OwnVariable: "env"}


def gang(layout: Layout, run_of: Callable[[int, FrameworkRole, int], TaskRun]) -> GangPlan:
    """All tasks of an attempt; `run_of` gets rank, role and index of each."""
    runs = [(rank, role, index, run_of(rank, role, index)) for rank, role, index in layout.tasks()]
    if layout.job.ssh:
        runs = [(rank, role, index, ssh.with_ssh(layout, role, index, run)) for rank, role, index, run in runs]
    awaited = {name for _, role, _, run in runs for name in (*_after(role, run), *run.before_command)}
    tasks = tuple(_task(layout, rank, role, index, run, role.name in awaited) for rank, role, index, run in runs)
    files: dict[str, Text] = {HOSTS_FILE: layout.hosts_file}
    if any(task.argv[1:2] == ((FileOf(AGENT_FILE),),) for task in tasks):
        files[AGENT_FILE] = (_AGENT,)
    if awaited:
        files[READY_FILE] = tuple(_ready_lines(layout, awaited))
    if layout.job.ssh:
        files[ssh.HOSTS_FILE] = tuple(ssh.hosts(layout))
    return GangPlan(tasks, files)


def _after(role: FrameworkRole, run: TaskRun) -> tuple[str, ...]:
    return tuple(sorted({*run.after, *role.start_after_ready}))


def _task(layout: Layout, rank: int, role: FrameworkRole, index: int, run: TaskRun, is_awaited: bool) -> TaskPlan:
    plan = dict(_plan(role, index, run, is_awaited))
    command = _command(role, run)
    env = {**own_environment(layout, rank, role, index), **run.env}
    argv: tuple[Text, ...] = tuple((argument,) for argument in role.argv)
    if plan:
        common = {"wait_seconds": _wait_seconds(layout), "signal_target": layout.job.signal_target}
        env["BERTH_TASK_PLAN"] = _json({**plan, **common, "argv": list(command)}, _in_parts)
        argv = (("python3",), (FileOf(AGENT_FILE),))
        if "after" in plan or "before" in plan:
            env["BERTH_READY_FILE"] = (FileOf(READY_FILE),)
    elif run.command is not None:
        argv = tuple(_plain(argument) for argument in run.command)
    ports = (*role.ports, *run.ports, *((READY_PORT,) if is_awaited else ()))
    secret_env = {**({KEY: layout.job.key} if run.secret else {}), **run.secret_env}
    return TaskPlan(TaskName(role.name, index), argv, env, tuple(dict.fromkeys(ports)), secret_env)


def _wait_seconds(layout: Layout) -> int:
    return LONGER_SECONDS + max([WAIT_SECONDS, *(role.ready.seconds for role in layout.roles if role.ready is not None)])


def _command(role: FrameworkRole, run: TaskRun) -> tuple[AgentText, ...]:
    return tuple((argument,) for argument in role.argv) if run.command is None else run.command


def _plan(role: FrameworkRole, index: int, run: TaskRun, is_awaited: bool) -> Iterator[tuple[str, object]]:
    """What the agent has to do besides running the command; nothing for most tasks."""
    after = _after(role, run)
    if after:
        yield "after", list(after)
    if run.before_command:
        yield "before", list(run.before_command)
    max_retry = run.max_retry if role.max_retry is None else role.max_retry
    if max_retry:
        yield "max_retry", max_retry
        yield "retry_codes", list(role.retry_codes)
    if run.after_failure:
        yield "after_failure", list(run.after_failure)
    if run.prepares:
        yield "prepare", [(argument,) for argument in role.argv]
    if run.requires:
        yield "requires", [_requirement(entry) for entry in run.requires]
    if run.services:
        yield "services", [_service(role.name, index, service) for service in run.services]
    ready = role.ready or (ReadyCheck(port=run.ready_port) if run.ready_port else None)
    if ready is not None and (is_awaited or role.ready is not None):
        yield "ready", _check(role.name, index, ready)
    if is_awaited:
        yield "ready_port", PortOf(role.name, index, READY_PORT)
    if run.extra_env or run.files or run.loopback:
        yield "env", run.extra_env
        yield "files", run.files
        yield "loopback", run.loopback
    if run.processes:
        yield "processes", list(run.processes)
        yield "processes_per_gpu", role.processes_per_gpu


def _requirement(entry: Requirement) -> dict[str, str]:
    program = {"program": entry.program, "variable": entry.variable}
    return {"name": entry.name, "install": entry.install, "module": entry.module, **program}


def _service(role: str, index: int, service: Service) -> dict[str, object]:
    port: object = PortOf(role, index, service.port) if service.port else ""
    return {"name": service.name, "argv": list(service.argv), "port": port}


def _check(role: str, index: int, ready: ReadyCheck) -> dict[str, object]:
    port: object = PortOf(role, index, ready.port) if ready.port else ""
    return {"port": port, "path": ready.path, "log": ready.log, "seconds": ready.seconds}


def _ready_lines(layout: Layout, awaited: set[str]) -> Iterator[TextPart]:
    """Role, index, address and port of every task that others wait for."""
    for _, role, index in layout.tasks():
        if role.name in awaited:
            yield f"{role.name} {index} "
            yield AddressOf(role.name, index)
            yield " "
            yield PortOf(role.name, index, READY_PORT)
            yield "\n"


def _plain(argument: AgentText) -> Text:
    parts = tuple(part for part in argument if not isinstance(part, Scratch | WorkFolder | OwnVariable))
    assert len(parts) == len(argument), "a command that needs the agent has no plan"
    return parts


def shared_gpu_runs(
    layout: Layout, variables: Callable[[int, int], Mapping[str, str]]
) -> Mapping[TaskName, tuple[Mapping[str, str], ...]]:
    """For tasks whose GPUs several processes share: the variables of each process, from its rank and the number of all ranks.

    A process has its part of the device's memory in the variables that frameworks read, and for others in
    BERTH_GPU_MEMORY_FRACTION."""
    total = sum(role.count * role.processes for role in layout.roles)
    runs: dict[TaskName, tuple[Mapping[str, str], ...]] = {}
    rank = 0
    for _, role, index in layout.tasks():
        ranks = range(rank, rank + role.processes)
        rank += role.processes
        runs[TaskName(role.name, index)] = tuple({**variables(own, total), **_guard(role)} for own in ranks)
    return runs if total != layout.world_size else {}


def _guard(role: FrameworkRole) -> dict[str, str]:
    """Nine tenths of an equal part each: what a process needs of a device beside its arrays is not counted by frameworks."""
    fraction = f"{0.9 / role.processes_per_gpu:.4f}"
    return {
        "BERTH_GPU_MEMORY_FRACTION": fraction,
        "XLA_PYTHON_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }


# --- JSON with places in it ------------------------------------------------------------------------------------------


def json_text(value: object) -> Text:
    """JSON in which the engine fills in addresses, ports and paths, none of which needs escaping.

    Lists and mappings are those of JSON; a tuple is a text of parts and becomes one string."""
    return _json(value, _as_string)


def _json(value: object, encode: Callable[[tuple[object, ...]], Iterator[TextPart]]) -> Text:
    parts: list[TextPart] = []
    for part in _encoded(value, encode):
        if isinstance(part, str) and parts and isinstance(parts[-1], str):
            parts[-1] += part
        else:
            parts.append(part)
    return tuple(parts)


def _encoded(value: object, encode: Callable[[tuple[object, ...]], Iterator[TextPart]]) -> Iterator[TextPart]:
    if isinstance(value, Mapping):
        for number, (name, entry) in enumerate(value.items()):
            yield f"{', ' if number else '{'}{json.dumps(name)}: "
            yield from _encoded(entry, encode)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for number, entry in enumerate(value):
            yield ", " if number else "["
            yield from _encoded(entry, encode)
        yield "]" if value else "[]"
    elif isinstance(value, tuple):
        yield from encode(value)
    elif isinstance(value, PortOf):
        yield from _as_string((value,))
    else:
        yield json.dumps(value)


def _as_string(text: tuple[object, ...]) -> Iterator[TextPart]:
    yield '"'
    for part in text:
        if isinstance(part, str):
            yield json.dumps(part)[1:-1]
        else:
            assert isinstance(part, AddressOf | PortOf | FileOf | CheckpointDir), "only the agent knows this part"
            yield part
    yield '"'


def _in_parts(text: tuple[object, ...]) -> Iterator[TextPart]:
    """A list of strings, and of mappings for what the agent fills in or may replace."""
    for number, part in enumerate(text):
        yield ", " if number else "["
        if isinstance(part, Scratch | WorkFolder | OwnVariable):
            yield json.dumps({_PLACES[type(part)]: part.name})
        elif isinstance(part, AddressOf):
            yield from ('{"address": ', *_as_string((part,)), "}")
        else:
            yield from _as_string((part,))
    yield "]" if text else "[]"
