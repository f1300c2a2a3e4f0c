"""Staying with a job: why it waits, what it prints, how it ends. Leaving never touches the job."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from berth.cli import formats
from berth.cli.jobs import outcome_text, why_text
from berth.cli.logs import LinePrinter, has_several_tasks, say_detached
from berth.cli.messages import _
from berth.cli.output import console, hint, note
from berth.cli.paint import is_terminal, paint
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.client import Client
    from berth.jobs import Job

_STARTED = frozenset({"running", "stopping", "succeeded", "failed", "stopped"})


def follow(client: Client, job: Job) -> int:
    """Follow until the end; gives the exit code: 0 when the job succeeded or the user left, 1 when it did not succeed."""
    try:
        array: Any = job.data.get("array")
        if array and array.get("size"):
            return _follow_array(client, job)
        _wait_for_start(client, job)
        printer = LinePrinter(prefixed=has_several_tasks(client, job.id))
        reader = client.jobs.log_reader(job.id)
        # A first attempt that failed fast may be over by now: what it printed says why.
        reader.attempt = min(1, int(job.data.get("attempt") or 0))
        printer.print(reader.lines(follow=True, bars=True))
        job.wait()
    except KeyboardInterrupt:
        say_detached(job.id)
        return 0
    print_outcome(job)
    return 0 if job.succeeded else 1


def _follow_array(client: Client, job: Job) -> int:
    """An array has no log of its own: say how many of its jobs run and have ended, until all have."""
    hint(_("One job's log: berth ps -a --parent {job}   ·   berth logs -f ID", job=job.id))
    if is_terminal(sys.stderr):
        with console(stderr=True).status(_array_text(job)) as status:
            job.data = client.jobs.wait(job.id, on_change=lambda now: status.update(_array_text(now))).data
    else:
        said = set[str]()

        def say(now: Job) -> None:
            if (text := _array_text(now)) not in said:
                said.add(text)
                note(text)

        job.data = client.jobs.wait(job.id, on_change=say).data
    print_outcome(job)
    return 0 if job.succeeded else 1


def _array_text(job: Job) -> str:
    counts = job.data.get("counts") or {}
    told = ", ".join(f"{number} {_(state)}" for state, number in sorted(counts.items()) if number)
    return f"{plain(job.name)}: {told or plain(job.state)}"


def print_outcome(job: Job) -> None:
    """How it ended, what to do about it, and where the results are."""
    sign, style = formats.state_text(job.state)
    note(f"{paint(sign.split(' ')[0], style, stream=sys.stderr)} {outcome_text(job.data)}")
    end: Any = job.data.get("exit") or {}
    if not job.succeeded and end.get("hint"):
        note(f"{paint(_('Hint:'), 'bold', stream=sys.stderr)} {plain(end['hint'])}")
    name = plain(job.name)
    if job.succeeded:
        hint(
            _("berth cp {job}: ./   ·   berth metrics {job}", job=name) if job.artifacts() else _("berth metrics {job}", job=name)
        )
    else:
        hint(_("berth get {job}   ·   berth rerun {job} --set path=value", job=name))


def _wait_for_start(client: Client, job: Job) -> None:
    """Say why the job waits, once per reason; on a terminal in one line that is replaced."""
    if is_terminal(sys.stderr):
        with console(stderr=True).status(_waiting_text(job)) as status:
            job.data = client.jobs.wait(job.id, until=_STARTED, on_change=lambda now: status.update(_waiting_text(now))).data
    else:
        said = set[str]()

        def say(now: Job) -> None:
            text = _waiting_text(now)
            if text not in said:
                said.add(text)
                note(text)

        job.data = client.jobs.wait(job.id, until=_STARTED, on_change=say).data


def _waiting_text(job: Job) -> str:
    why = why_text(job.data)
    return f"{plain(job.name)}: {plain(job.state)}" + (f" · {why}" if why else "")
