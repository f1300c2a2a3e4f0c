"""A program beside a task of the local engine, as its caller holds it: the ends, and the launcher's word of its exit."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import struct
import termios
from collections.abc import Sequence

from clusters.engines.interface import Asker, ExecRefused, NotRunning, TaskName, TerminalSize
from clusters.engines.local.launching import Launcher, LauncherRefused, wire
from clusters.engines.local.launching.verbs import OpenedShell, OpenShell

_ANSWER_SECONDS = 1.0  # The exit code is one small message, and it was there when the caller looked.


class LocalExecution:
    """See `Execution`. Belongs to one thread or event loop."""

    def __init__(self, opened: OpenedShell, *, terminal: bool) -> None:
        self._input, self._output, self._lifeline = opened.input, opened.output, opened.lifeline
        self._terminal = terminal
        for descriptor in {self._input, self._output}:
            os.set_blocking(descriptor, False)

    @property
    def input(self) -> int:
        return self._input

    @property
    def output(self) -> int:
        return self._output

    @property
    def ended(self) -> int:
        return self._lifeline.fileno()

    def resize(self, size: TerminalSize) -> None:
        if self._terminal and self._output != -1:
            with contextlib.suppress(OSError):  # It ended this moment.
                fcntl.ioctl(self._output, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))

    def end_input(self) -> None:
        """Close the pipe; at a terminal, the end of input is a character that the person types."""
        if not self._terminal and self._input != -1:
            os.close(self._input)
            self._input = -1

    def exit_code(self) -> int | None:
        try:
            self._lifeline.settimeout(_ANSWER_SECONDS)
            message, _ = wire.receive(self._lifeline)
        except (OSError, wire.Broken):  # The launcher is gone, and the program with it.
            return None
        return int(message["exit_code"])

    def close(self) -> None:
        for descriptor in {self._input, self._output} - {-1}:
            os.close(descriptor)
        self._input = self._output = -1
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_RDWR)
        self._lifeline.close()


def execute(
    launcher: Launcher, root: str, attempt: str, task: TaskName, argv: Sequence[str], terminal: TerminalSize | None, asker: Asker
) -> LocalExecution:
    """Ask the launcher. Raises NotRunning and ExecRefused."""
    size = terminal or TerminalSize()
    ask = OpenShell(
        root, attempt, str(task), tuple(argv), size.rows, size.columns, terminal is not None, asker.tenant, asker.user
    )
    try:
        opened = launcher.open_shell(ask)
    except LauncherRefused as error:
        raise ExecRefused(str(error)) from error
    except OSError as error:
        if error.errno in (errno.ESRCH, errno.ENOENT):
            raise NotRunning(f"Task {task} does not run any more.") from error
        raise ExecRefused(error.strerror or str(error)) from error
    return LocalExecution(opened, terminal=terminal is not None)
