"""`berth exec`: a terminal, or one command, in a running task."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli.command import Session, command
from berth.cli.jobs import JobArgument
from berth.cli.messages import _
from berth.cli.output import note
from berth.cli.paint import is_terminal
from berth.errors import BerthError

if TYPE_CHECKING:
    from berth.execution import Execution

_READ_BYTES = 32 * 1024
_UNKNOWN_EXIT = 255  # As ssh has it where the status is not known.
_WHY = {
    "idle": "The terminal ended: it was idle for too long.",
    "signed_out": "The terminal ended: your token is no longer valid.",
    "switched_off": "The terminal ended: terminals were switched off.",
    "forbidden": "The terminal ended: your role no longer allows it.",
    "slow": "The terminal ended: its output was not read.",
}


@command(reads=False)
def exec_(
    session: Session,
    job: JobArgument,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Command to run; default: a shell.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Role of the task; default: the first.")] = None,
    index: Annotated[int | None, typer.Option("--index", min=0, help="Index of the task; default: the first.")] = None,
    plain_pipes: Annotated[bool, typer.Option("--no-terminal", "-T", help="Pass bytes unchanged, even at a terminal.")] = False,
) -> None:
    """Open a terminal in a running task, or run one command there: berth exec JOB -- nvidia-smi

    It has the task's user, sandbox, environment and limits, and ends with the task. At a terminal it is interactive;
    in a pipe, bytes pass unchanged. The exit code is the command's.
    """
    from berth.execution import start

    at_terminal = is_terminal(sys.stdin) and is_terminal(sys.stdout) and not plain_pipes
    job_id = session.client.jobs.resolve(job)
    size = shutil.get_terminal_size()
    execution = start(
        session.client.settings, job_id, words or [], role=role, index=index,
        terminal=(size.lines, size.columns) if at_terminal else None,
        language=session.client.transport.headers.get("Accept-Language", ""),
    )  # fmt: skip
    with contextlib.closing(execution), _raw_terminal(execution) if at_terminal else contextlib.nullcontext():
        threading.Thread(target=_feed, args=(execution, not at_terminal), daemon=True).start()
        for piece in execution:
            sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
    if execution.why in _WHY:
        note(_(_WHY[execution.why]), style="yellow")
    if execution.exit_code != 0:
        raise typer.Exit(_UNKNOWN_EXIT if execution.exit_code is None else execution.exit_code)


def _feed(execution: Execution, tells_end: bool) -> None:
    """Pass on what is typed or piped in, until it or the program ends."""
    try:
        while data := os.read(sys.stdin.fileno(), _READ_BYTES):
            execution.write(data)
        if tells_end:
            execution.end_input()
    except (BerthError, OSError, ValueError):  # The other thread tells of it; a closed standard input is an end, too.
        with contextlib.suppress(BerthError):
            if tells_end:
                execution.end_input()


@contextlib.contextmanager
def _raw_terminal(execution: Execution) -> Iterator[None]:
    """Hand every key to the other side, and follow this window's size; afterwards all is as before."""
    import termios
    import tty

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    changed = threading.Event()
    stop = threading.Event()

    def note_change(number: int, frame: Any) -> None:
        changed.set()

    def follow() -> None:  # Sending takes a lock that the interrupted thread may hold, so the handler only rings.
        while not stop.is_set():
            changed.wait()
            changed.clear()
            if not stop.is_set():
                size = shutil.get_terminal_size()
                with contextlib.suppress(BerthError):
                    execution.resize(size.lines, size.columns)

    earlier = signal.signal(signal.SIGWINCH, note_change)
    threading.Thread(target=follow, daemon=True).start()
    try:
        tty.setraw(descriptor, termios.TCSADRAIN)  # What was typed ahead counts.
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, earlier)
        stop.set()
        changed.set()
