"""Somebody with an empty home who types `make up`: every command is a process of its own, with nothing of ours around it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.builders.live import end_tasks, free_port, wait_until
from tests.builders.prepared import short_folder
from tools.keep import find_keeper
from tools.place import ROOT, Place, RunningPlatform, find_running


class Newcomer:
    """A home, a data directory that is not there yet and a port. Their shell has a proxy for the outside, as many have."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.home.mkdir()
        self.data = folder / "data"
        self.commands = folder / "bin"
        self.port = free_port()
        self.place = Place(self.data, self.port)
        self.config = self.home / ".config" / "berth" / "config.toml"

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ.get("PATH", os.defpath),
            "LANG": "C.UTF-8",
            "HOME": str(self.home),
            "BERTH_DATA_DIR": str(self.data),
            "BERTH_PORT": str(self.port),
            "BERTH_ENVIRONMENT": sys.prefix,
            "BERTH_COMMAND_DIR": str(self.commands),
            "http_proxy": "http://127.0.0.1:9",
            **more,
        }

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`make <action>`, less make."""
        return self._call([sys.executable, str(ROOT / "tools" / "up.py"), *arguments], **more)

    def up(self, *arguments: str, **more: str) -> str:
        """`make up` that must succeed; what it said."""
        done = self.run("up", "--no-example", *arguments, **more)
        assert done.returncode == 0, done.stdout + done.stderr + self.log()
        return done.stdout

    def refused(self, *arguments: str, **more: str) -> str:
        """`make up` that must end with a message and leave nothing running; the message."""
        done = self.run("up", "--no-example", *arguments, **more)
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        assert self.running() is None
        assert self.processes() == []
        return done.stderr

    def manage(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        """`manage.py` of the copy that is installed; `serve` is the platform in the foreground."""
        return self._call([sys.executable, str(self.place.release / "manage.py"), *arguments], **more)

    def berth(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The command that was put where shells look."""
        return self._call([str(self.commands / "berth"), *arguments], no_proxy="127.0.0.1")

    def running(self) -> RunningPlatform | None:
        return find_running(self.place)

    def process(self) -> int:
        running = self.running()
        assert running is not None, "no platform runs"
        return running.process

    def processes(self) -> list[int]:
        """Processes that name this data directory in their command line or environment."""
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "cmdline").read_bytes() + b"\0" + (folder / "environ").read_bytes()
                if os.fsencode(self.data) in words and int(folder.name) != os.getpid():
                    found.append(int(folder.name))
        return found

    def log(self) -> str:
        return self.place.log.read_text(errors="replace") if self.place.log.exists() else ""

    def kill(self) -> None:
        """kill -9, as a power cut: nobody is left who would start it again."""
        self.kill_keeper()
        os.kill(self.process(), signal.SIGKILL)
        wait_until(lambda: self.running() is None, "the end of the killed platform")

    def kill_keeper(self) -> None:
        """Let what dies stay dead."""
        if keeper := find_keeper(self.place):
            os.kill(keeper, signal.SIGKILL)
            wait_until(lambda: not find_keeper(self.place), "the end of the keeper")

    def _call(self, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environment(**more), cwd=self.home, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=200, check=False,
        )  # fmt: skip


@contextlib.contextmanager
def a_newcomer() -> Iterator[Newcomer]:
    """On a place that the platform's user may pass; nothing runs there afterwards."""
    folder = short_folder("up")
    folder.chmod(0o755)
    newcomer = Newcomer(folder)
    try:
        yield newcomer
    finally:
        newcomer.run("down")
        if newcomer.data.is_dir():
            end_tasks(newcomer.data)
        shutil.rmtree(folder, ignore_errors=True)
