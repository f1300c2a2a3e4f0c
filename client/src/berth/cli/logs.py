"""`berth logs`, and the printing of log lines that `berth submit` shares."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from berth import limits
from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.jobs import JobArgument
from berth.cli.messages import _
from berth.cli.output import Format, json_text, note
from berth.cli.paint import TASK_COLOURS, colour_wanted, is_terminal, paint
from berth.errors import NotFound
from berth.sanitize import plain, sanitize_line

if TYPE_CHECKING:
    from berth.client import Client
    from berth.logs import LogLine


TAIL_MAX = 1_000_000
"""Lines that are kept in memory until the last of them is known."""
REPLACE_ROW = "\r\x1b[K"


@command()
def logs(
    session: Session,
    job: JobArgument,
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Follow the log until the job ends. Ctrl+C stops following; the job continues.")
    ] = False,
    tail: Annotated[int | None, typer.Option("--tail", "-n", min=0, max=TAIL_MAX, help="Start with the last N lines.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only from this time on: 10m, 2h, or 2027-01-31T18:00.")] = None,
    role: Annotated[str | None, typer.Option("--role", help="Only tasks of this role.")] = None,
    index: Annotated[int | None, typer.Option("--index", min=0, help="Only tasks of this index.")] = None,
    stream: Annotated[str | None, typer.Option("--stream", help="Only stdout, or only stderr.")] = None,
    attempt: Annotated[int | None, typer.Option("--attempt", min=1, help="Number of the attempt; default: the latest.")] = None,
    timestamps: Annotated[bool, typer.Option("--timestamps", help="Prefix each line with its time.")] = False,
) -> None:
    """Print a job's log. With several tasks, each line begins with its task; with --json, each line is a document."""
    client = session.client
    job_id = client.jobs.resolve(job)
    lines = client.jobs.logs(
        job_id,
        follow=follow,
        tail=tail,
        since=formats.parse_since(since) if since else None,
        role=role,
        index=index,
        stream=stream,
        attempt=attempt,
        bars=follow and session.form is not Format.JSON,
    )
    try:
        if session.form is Format.JSON:
            _print_documents(lines)
        else:
            LinePrinter(prefixed=has_several_tasks(client, job_id), timestamps=timestamps).print(lines)
    except KeyboardInterrupt:
        if not follow:
            raise
        say_detached(job)


def say_detached(job: str) -> None:
    """What Ctrl+C means: you leave, the job stays."""
    note("")
    note(_("Detached; the job continues: berth logs -f {job}", job=plain(job)), style="bold")


def has_several_tasks(client: Client, job_id: str) -> bool:
    """Whether lines need to say whose they are. The spec knows before any task exists."""
    try:
        roles = client.jobs.spec(job_id).get("roles") or {}
    except NotFound:
        return True
    return sum(_replicas(role.get("replicas", 1)) for role in roles.values()) > 1


class LinePrinter:
    """Prints lines on standard output, sanitised, each task in a colour of its own.

    A progress bar is replaced in place on a terminal; elsewhere its state is a line every `BAR_SECONDS`, and its last one.
    """

    def __init__(self, *, prefixed: bool, timestamps: bool = False) -> None:
        self._prefixed = prefixed
        self._timestamps = timestamps
        self._colour = colour_wanted(sys.stdout)
        self._is_terminal = is_terminal(sys.stdout) and os.environ.get("TERM") != "dumb"
        self._styles: dict[str, str] = {}
        self._width = 0
        self._bars: dict[tuple[int, str, str], float] = {}
        self._shows_bar = False

    def print(self, lines: Iterable[LogLine]) -> int:
        """Print until the lines end; gives how many there were."""
        count = 0
        for line in lines:
            if line.is_open:
                self._print_bar(line)
                continue
            self._bars.pop((line.attempt, line.task, line.stream), None)
            self._clear_bar()
            print(self._text(line), flush=True)
            count += 1
        return count

    def _print_bar(self, line: LogLine) -> None:
        if self._is_terminal:
            from rich.cells import cell_len, set_cell_size

            columns = shutil.get_terminal_size().columns - 1  # A row that wraps could not be replaced.
            text = (f"{plain(line.task)} │ " if self._prefixed else "") + sanitize_line(line.text, colour=False)
            sys.stdout.write(REPLACE_ROW + (text if cell_len(text) <= columns else set_cell_size(text, columns)))
            sys.stdout.flush()
            self._shows_bar = True
            return
        key, now = (line.attempt, line.task, line.stream), time.monotonic()
        if now - self._bars.setdefault(key, now) >= limits.BAR_SECONDS:
            self._bars[key] = now
            print(self._text(line), flush=True)

    def _clear_bar(self) -> None:
        if self._shows_bar:
            sys.stdout.write(REPLACE_ROW)
            self._shows_bar = False

    def _text(self, line: LogLine) -> str:
        prefix = self._prefix(line)
        if line.marker:
            return prefix + paint(f"── {plain(line.marker)} ──", "yellow")
        return prefix + sanitize_line(line.text, colour=self._colour)

    def _prefix(self, line: LogLine) -> str:
        parts = []
        if self._timestamps:
            parts.append(paint(line.at.astimezone().isoformat(" ", "milliseconds") if line.at else " " * 29, "bright_black"))
        if self._prefixed:
            task = plain(line.task)
            self._width = max(self._width, len(task))
            style = self._styles.setdefault(task, TASK_COLOURS[len(self._styles) % len(TASK_COLOURS)])
            bar = paint("│", "red") if line.stream == "stderr" else paint("│", "bright_black")
            parts.append(f"{paint(task.ljust(self._width), style)} {bar}")
        return " ".join(parts) + " " if parts else ""


def _print_documents(lines: Iterable[LogLine]) -> None:
    for line in lines:
        document = {
            "at": line.at.isoformat().replace("+00:00", "Z") if line.at else None,
            "task": line.task,
            "stream": line.stream,
            "attempt": line.attempt or None,
            "offset": line.offset,
            "text": line.text,
            "marker": line.marker or None,
        }
        print(json_text(document), flush=True)


def _replicas(value: object) -> int:
    if isinstance(value, dict):
        return int(value.get("max") or value.get("min") or 1)
    return value if isinstance(value, int) else 1
