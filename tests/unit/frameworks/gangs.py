"""The tasks of a plan as processes that are looked at and stopped while they run."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from jobs.frameworks import GangPlan
from tests.unit.frameworks.resolving import free_ports, text_of

SECONDS = 60


class Gang:
    """All tasks of a plan as processes, each in a folder of its own, what it prints in a file."""

    def __init__(self, plan: GangPlan, folder: Path, **env: str) -> None:
        self._plan, self.folder, self._env = plan, folder, env
        self.ports = free_ports(plan)
        self.processes: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        for name, text in self._plan.files.items():
            (self.folder / name).write_text(text_of(text, ports=self.ports, folder=self.folder))
        for task in self._plan.tasks:
            own = self.folder / str(task.name)
            own.mkdir()
            given = {name: text_of(value, ports=self.ports, folder=self.folder) for name, value in task.env.items()}
            path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
            with (self.folder / f"{task.name}.log").open("wb") as log:
                self.processes[str(task.name)] = subprocess.Popen(
                    [text_of(argument, ports=self.ports, folder=self.folder) for argument in task.argv],
                    env={"PATH": path, "WITNESS": str(self.folder), **given, **task.secret_env, **self._env},
                    cwd=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip

    def end_of(self, name: str) -> int:
        return self.processes[name].wait(SECONDS)

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text()

    def tell(self, name: str, number: int) -> None:
        """A signal, to all processes of the task, as an engine gives it to those that handle it."""
        if self.processes[name].poll() is None:
            os.killpg(self.processes[name].pid, number)

    def stop(self) -> None:
        """As the platform does with those that a chief's end leaves."""
        for name in self.processes:
            self.tell(name, signal.SIGTERM)
        for name, process in self.processes.items():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(20)
            self.tell(name, signal.SIGKILL)
            process.wait()


@contextlib.contextmanager
def running(plan: GangPlan, folder: Path, **env: str) -> Iterator[Gang]:
    gang = Gang(plan, folder, **env)
    try:
        gang.start()
        yield gang
    finally:
        gang.stop()
