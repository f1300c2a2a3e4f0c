"""Fills in what an engine fills in, with fixed or real addresses, for looking at or running what frameworks lay out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from clusters.engines.interface import AddressOf, FileOf, PortOf, TaskName, Text
from jobs.frameworks import FrameworkJob, FrameworkRole, GangPlan, TaskPlan
from tests.builders.live import free_port


def a_job(*roles: FrameworkRole, **more: object) -> FrameworkJob:
    values: dict[str, object] = {"job_id": "01980c2e", "job_name": "digits", "attempt": 1, "key": "k" * 32, **more}
    return FrameworkJob(roles=roles, **values)  # type: ignore[arg-type]


def a_role(name: str, count: int, *argv: str, **more: object) -> FrameworkRole:
    return FrameworkRole(name, count, argv or ("true",), **more)  # type: ignore[arg-type]


def text_of(text: Text, *, ports: Mapping[tuple[str, int, str], int] | None = None, folder: Path | None = None) -> str:
    """Join a text with addresses `<role>-<index>.test`, ports counted from 31000 and paths below `folder`."""
    parts = []
    for part in text:
        if isinstance(part, AddressOf):
            parts.append("127.0.0.1" if ports is not None else f"{part.role}-{part.index}.test")
        elif isinstance(part, PortOf):
            parts.append(str(ports[part.role, part.index, part.name]) if ports is not None else f"<{part.name}>")
        elif isinstance(part, FileOf):
            parts.append(str((folder or Path("/files")) / part.name))
        else:
            parts.append(part)
    return "".join(parts)


def environment_of(task: TaskPlan) -> dict[str, str]:
    return {name: text_of(value) for name, value in task.env.items()}


def free_ports(plan: GangPlan) -> dict[tuple[str, int, str], int]:
    """A really free port for each name of each task."""
    ports: dict[tuple[str, int, str], int] = {}
    for task in plan.tasks:
        for name in task.ports:
            port = free_port()
            while port in ports.values():
                port = free_port()
            ports[task.name.role, task.name.index, name] = port
    return ports


def run(
    plan: GangPlan, folder: Path, *, code: Path | None = None, timeout_seconds: float = 60
) -> dict[TaskName, tuple[int, str]]:
    """Run all tasks as real processes on this machine, in `code` or a folder each; exit code and output of each."""
    ports = free_ports(plan)
    for name, text in plan.files.items():
        (folder / name).write_text(text_of(text, ports=ports, folder=folder))
    processes = {}
    for task in plan.tasks:
        own = folder / str(task.name)
        own.mkdir()
        env = {name: text_of(value, ports=ports, folder=folder) for name, value in task.env.items()}
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
        processes[task.name] = subprocess.Popen(
            [text_of(argument, ports=ports, folder=folder) for argument in task.argv],
            env={"PATH": path, "HOME": str(own), **env, **task.secret_env},
            cwd=code or own,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
    results = {}
    try:
        for name, process in processes.items():
            output, _ = process.communicate(timeout=timeout_seconds)
            results[name] = (process.returncode, output)
    finally:
        for process in processes.values():
            process.kill()
            process.wait()
    return results
