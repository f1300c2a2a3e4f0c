"""`berth ps`, `stop`, `wait`, `events`, and the noun `job`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, make_group
from berth.cli.expected import UNEXPECTED
from berth.cli.messages import _
from berth.cli.output import Cell, Column, Format, hint, note, table_text
from berth.cli.paint import is_terminal
from berth.errors import ApiError
from berth.naming import short_ids
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.jobs import Job

JobArgument = Annotated[str, typer.Argument(metavar="JOB", help="Id, unique prefix of an id, or name (its latest job).")]
JobsArgument = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids, unique prefixes of ids, or names.")]
LIVE_STATES = ("queued", "admitted", "starting", "running", "stopping")
WATCH_SECONDS = 2.0
NAMES_SHOWN = 3


@command()
def ps(
    session: Session,
    all_: Annotated[bool, typer.Option("--all", "-a", help="Include jobs that have ended.")] = False,
    state: Annotated[list[str] | None, typer.Option("--state", "-s", help="Only jobs in this state; may be repeated.")] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only jobs of this user; `me`: yourself.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only jobs of this queue.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Only jobs of this name.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only jobs with this tag.")] = None,
    label: Annotated[
        list[str] | None, typer.Option("--label", "-l", metavar="KEY=VALUE", help="Only jobs with this label.")
    ] = None,
    search: Annotated[str | None, typer.Option("--search", help="Only jobs with this text in their name or a tag.")] = None,
    since: Annotated[
        str | None, typer.Option("--since", help="Submitted (with --sort finished: ended) from this time on.")
    ] = None,
    until: Annotated[
        str | None, typer.Option("--until", help="Submitted (with --sort finished: ended) before this time: 7d, or 2027-01-31.")
    ] = None,
    parent: Annotated[str | None, typer.Option("--parent", help="Only the children of this array.")] = None,
    sort: Annotated[
        str | None,
        typer.Option("--sort", metavar="ORDER", help="Sort order: created (default), finished (ended jobs only) or priority."),
    ] = None,
    number: Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of rows.")] = 50,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh the list until Ctrl+C.")] = False,
) -> None:
    """List jobs, newest first: those that have not ended, or all with -a."""
    filters: dict[str, Any] = {"user": user, "queue": queue, "name": name, "tag": tag, "state": state, "q": search, "sort": sort}
    filters["label"] = [entry.replace("=", ":", 1) for entry in label or []]
    filters |= {name: formats.iso_time(text) for name, text in (("since", since), ("until", until)) if text}
    if user == "me":
        filters |= {"user": None, "mine": True}
    if parent:
        filters["parent"] = session.client.jobs.resolve(parent)
    if not state and not all_ and not parent and sort != "finished":
        filters["state"] = list(LIVE_STATES)
    if watch and not session.is_for_programs:
        _watch(session, filters, number)
        return
    rows = _listed(session, filters, number)
    empty = _("No jobs.") if all_ or state else _("No job is queued or running; -a includes ended jobs.")
    shared = shared_why(rows)
    session.show(rows, job_columns(rows, without=shared), empty=empty)
    if shared and not session.is_for_programs:
        note(_("All {count} queued jobs: {why}", count=sum(_waits(row) for row in rows), why=shared))
    if not session.is_for_programs:
        for pool, holders in room_holders(rows).items():
            note(_("Pool {pool} is held by {holders}.", pool=pool, holders=holders))
    if rows:
        hint(_("berth logs -f {job}   ·   berth get {job}", job=plain(rows[0]["name"])))


@command()
def stop(
    session: Session,
    jobs: JobsArgument,
    grace: Annotated[str | None, typer.Option("--grace", help="Grace period between signal and kill, such as 30s.")] = None,
    reason: Annotated[str, typer.Option("--reason", help="Reason; shown to all users who can see the job.")] = "",
) -> None:
    """Stop jobs: send each its signal, then kill it after the grace period."""
    seconds = None if grace is None else formats.parse_seconds(grace)
    wanted = [session.client.jobs.resolve(job) for job in jobs]
    stopped = []
    for job_id in wanted:
        job = session.client.jobs.stop(job_id, grace_seconds=seconds, reason=reason)
        stopped.append(job.data)
        if not session.is_for_programs:
            text = _("Job {name} was asked to stop; its state is {state}.")
            if job.has_ended:  # Stopped is what it should be: a job that waits is so at once.
                text = _("Job {name} is stopped.") if job.state == "stopped" else _("Job {name} had already ended: {state}.")
            session.show_done(job.data, text.format(name=plain(job.name), state=formats.state_word(job.state)))
    if session.is_for_programs:
        session.show(stopped, [])
    else:
        hint(_("berth wait {job}   ·   berth rerun {job}", job=jobs[0]))


@command()
def wait(
    session: Session,
    jobs: JobsArgument,
    timeout: Annotated[str | None, typer.Option("--timeout", help="Timeout, such as 10m; exit code 124.")] = None,
) -> None:
    """Wait until jobs have ended. The exit code is 0 if all succeeded, 1 if not, 124 after the timeout."""
    import time

    deadline = None if timeout is None else time.monotonic() + formats.parse_seconds(timeout)
    ended: list[Job] = []
    for name in [session.client.jobs.resolve(job) for job in jobs]:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        ended.append(session.client.jobs.wait(name, timeout=left))
        if not session.is_for_programs:
            session.show_done(ended[-1].data, outcome_text(ended[-1].data))
    if session.is_for_programs:
        session.show([job.data for job in ended], [])
    if not all(job.succeeded for job in ended):
        raise typer.Exit(1)


@command()
def events(
    session: Session,
    job: JobArgument,
    number: Annotated[int | None, typer.Option("--number", "-n", min=1, help="Maximum number of rows.")] = None,
) -> None:
    """Show a job's events, oldest first: states, reasons, attempts."""
    session.show(session.client.jobs.events(job, limit=number), EVENT_COLUMNS, empty=_("No events yet."))


def shared_why(jobs: Sequence[Any]) -> str:
    """Why all of them that wait do, where that is one sentence: told once, not in every row."""
    reasons = {why_text(job) for job in jobs if _waits(job)}
    return reasons.pop() if len(reasons) == 1 and sum(_waits(job) for job in jobs) > 1 else ""


def room_holders(jobs: Sequence[Any]) -> dict[str, str]:
    """By pool, who holds the room that jobs of the list wait for; its GPUs alone where all of them want GPUs."""
    found: dict[str, list[Any]] = {}
    for job in jobs:
        if _waits(job) and job.get("held_by"):
            found.setdefault(plain(job["reason"]["detail"]["pool"]), []).append(job)
    return {pool: _holders_text(waiting) for pool, waiting in found.items()}


def _holders_text(waiting: Sequence[Any]) -> str:
    holders = waiting[0]["held_by"]
    if all((job.get("resources") or {}).get("gpu_millis") for job in waiting) and any(row["gpu_millis"] for row in holders):
        holders = [{**row, "cpu_millis": 0, "memory_bytes": 0} for row in holders if row["gpu_millis"]]
    return "; ".join(f"{formats.holder_text(row)} ({formats.amounts_text(row)})" for row in holders)


def _waits(job: Any) -> bool:
    return bool(job.get("state") == "queued")


def job_columns(jobs: Sequence[Any], *, without: str = "") -> list[Column]:
    """Columns of a job list. Ids are as short as this list allows; users and GPUs are shown where they differ from the usual,
    place and expected start where the server told any. `without`: a reason that is told beside the list."""
    short = short_ids(str(job["id"]) for job in jobs)
    one_user = len({formats.name_of(job.get("user")) for job in jobs}) < 2
    no_gpus = all(_gpus(job) == formats.NOTHING for job in jobs)
    return [
        Column("ID", lambda job: short[job["id"]]),
        Column("NAME", lambda job: plain(job["name"]), shrinks=True),
        Column("STATE", _state),
        Column("TENANT", lambda job: formats.name_of(job.get("tenant")), wide=True),
        Column("QUEUE", lambda job: formats.name_of(job.get("queue")), wide=True),
        Column("USER", lambda job: formats.name_of(job.get("user")), wide=one_user),
        Column("GPUS", _gpus, right=True, wide=no_gpus),
        Column("AGE", lambda job: formats.age_text(job.get("submitted_at")), right=True),
        Column("RAN", _ran, right=True),
        *_standing_columns(jobs),
        Column("TRY", lambda job: str(job.get("attempt") or formats.NOTHING), wide=True, right=True),
        Column("IMAGE", lambda job: formats.name_of(job.get("image")), wide=True),
        Column("WHERE", where_text, wide=True),
        Column("WHY", lambda job: ("" if without and why_text(job) == without else why_text(job), "bright_black"), shrinks=True),
    ]


def _listed(session: Session, filters: dict[str, Any], number: int) -> list[Any]:
    """The jobs with their place and expected start; without, where the server is of a release that does not know them."""
    try:
        return [job.data for job in session.client.jobs.list(limit=number, standing=True, **filters)]
    except ApiError as error:
        if not any((problem.path, problem.code) == ("/standing", "unknown_parameter") for problem in error.fields):
            raise
    return [job.data for job in session.client.jobs.list(limit=number, **filters)]


def _standing_columns(jobs: Sequence[Any]) -> list[Column]:
    found = []
    if any(_waits(job) and job.get("place") for job in jobs):
        found.append(Column("PLACE", lambda job: str((_waits(job) and job.get("place")) or formats.NOTHING), right=True))
    if any(job.get("expected_start") for job in jobs):
        found.append(Column("STARTS IN", _expected_start, right=True))
    return found


def _expected_start(job: Any) -> str:
    """In how long, as likely as not; else by when nine times in ten, marked as a bound. `berth explain` has both, and why not."""
    told = job.get("expected_start") or {}
    if told.get("reason") == "overdue":
        return _("overdue")
    if told.get("p50_at"):
        return formats.until_text(told["p50_at"])
    if told.get("p90_at"):
        return f"≤ {formats.until_text(told['p90_at'])}"
    if told.get("known_by"):
        return _("not predicted yet ({time})", time=formats.until_text(told["known_by"]))
    return _("not predicted") if told.get("reason") in UNEXPECTED else formats.NOTHING


def _ran(job: Any) -> str:
    """Since its first start; a job that waits again does not run."""
    return formats.NOTHING if _waits(job) else formats.span_text(job.get("started_at"), job.get("ended_at"))


def why_text(job: Any) -> str:
    """The reason of a wait or of an end, in the server's words."""
    if job.get("state") == "succeeded":
        return ""
    reason = job.get("reason") or {}
    return formats.said(end_text(job) or _awaited(reason) or reason.get("text") or reason.get("code") or "")


def end_text(job: Any) -> str:
    """How it ended, in the server's words. Of a stop: by whom and why, which only the reason says."""
    end, reason = job.get("exit") or {}, job.get("reason") or {}
    said = reason.get("text") if end.get("class") == "stopped_by_user" else ""
    return said or end.get("text") or ""


def _awaited(reason: Any) -> str:
    """The jobs that are waited for, where the reason's amounts name them."""
    if reason.get("code") != "dependency":
        return ""
    detail = reason.get("detail") or {}
    jobs = detail.get("jobs") or [detail.get("name")]
    names = [name for name in map(formats.name_of, jobs if isinstance(jobs, list) else []) if name != formats.NOTHING]
    if not names:
        return ""
    if len(names) == 1 and detail.get("open") in (None, 1):
        return _("It waits for job {name}.", name=names[0])
    shown, left = names[:NAMES_SHOWN], max(len(names), detail.get("open") or 0) - len(names[:NAMES_SHOWN])
    listed = ", ".join(shown)
    return (
        _("It waits for jobs {names} and {count} more.", names=listed, count=left)
        if left
        else _("It waits for jobs {names}.", names=listed)
    )


def _gpus(job: Any) -> str:
    """How many it holds, else asks for at most; `sim` beside it when they are simulated, so that they are not taken for real."""
    millis = (job.get("held") or job.get("resources") or {}).get("gpu_millis") or 0
    text = formats.millis_text(millis) if millis else formats.NOTHING
    return f"{text} {_('sim')}" if job.get("gpus_simulated") else text


def where_text(job: Any) -> str:
    """Cluster and pool."""
    places = [formats.name_of(job.get(key)) for key in ("cluster", "pool")]
    return "/".join(place for place in places if place != formats.NOTHING) or formats.NOTHING


def outcome_text(job: Any) -> str:
    """One sentence on how a job ended."""
    name, ran = plain(job["name"]), formats.span_text(job.get("started_at"), job.get("ended_at"))
    if job["state"] == "succeeded":
        return _("Job {name} succeeded after {ran}.", name=name, ran=ran)
    if job["state"] == "stopped":
        return _("Job {name} was stopped after {ran}. {why}", name=name, ran=ran, why=why_text(job)).strip()
    return _("Job {name} failed after {ran}: {why}", name=name, ran=ran, why=why_text(job) or _("reason unknown"))


def _state(job: Any) -> Cell:
    text, style = formats.state_text(job.get("state"))
    counts = job.get("counts")
    if counts and job.get("array"):
        done = sum(counts.get(state, 0) for state in ("succeeded", "failed", "stopped"))
        return f"{text} {done}/{job['array'].get('size', sum(counts.values()))}", style
    if job.get("desired") == "stop" and job.get("state") not in ("succeeded", "failed", "stopped"):
        return f"{text}, {_('stopping')}", "yellow"
    return text, style


def _watch(session: Session, filters: dict[str, Any], number: int) -> None:
    from datetime import datetime

    from berth.cli.output import console

    if not is_terminal(sys.stdout):
        raise UsageMistake(_("--watch needs a terminal."), hint=_("Use berth ps --json in a program."))
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    screen = console()
    with Live(console=screen, auto_refresh=False, screen=True) as live:
        try:
            while True:
                rows = _listed(session, filters, min(number, max(5, screen.height - 4)))
                listed = table_text(rows, job_columns(rows), wide=session.form is Format.WIDE) if rows else _("No jobs.")
                title = f"{datetime.now():%H:%M:%S}  {_('every {seconds} s, Ctrl+C ends', seconds=int(WATCH_SECONDS))}\n"
                live.update(Group(Text(title, style="bright_black"), Text.from_ansi(listed)), refresh=True)
                session.client.transport.sleep(WATCH_SECONDS)
        except KeyboardInterrupt:
            return


def _subject(event: Any) -> str:
    """The job itself, or which of its attempts or tasks."""
    subject, detail = event["subject"], event.get("detail") or {}
    number = detail.get("attempt") or detail.get("number")
    return f"{plain(subject['kind'])} {number}" if number and subject["kind"] != "job" else plain(subject["kind"])


def _change(event: Any) -> Cell:
    text, style = formats.state_text(event["to_state"])
    return (f"{plain(event['from_state'])} → {text}" if event.get("from_state") else text), style


def _event_why(event: Any) -> str:
    detail = event.get("detail") or {}
    if event.get("reason_text"):
        return formats.said(event["reason_text"])
    text, note = detail.get("text") or event.get("reason") or "", detail.get("note")  # Of a server that gives no words.
    return formats.said(f"{text}: {note}" if note else text)


EVENT_COLUMNS = [
    Column("TIME", lambda event: formats.time_text(event["at"])),
    Column("WHAT", _subject),
    Column("CHANGE", _change),
    Column("BY", lambda event: plain(event.get("actor") or formats.NOTHING), wide=True),
    Column("WHY", _event_why, shrinks=True),
]


def _build_group() -> typer.Typer:
    from berth.cli.again import clone, rerun
    from berth.cli.logs import logs
    from berth.cli.metrics import metrics
    from berth.cli.show import get
    from berth.cli.submit import submit

    actions = {
        "list": ps,
        "submit": submit,
        "get": get,
        "logs": logs,
        "wait": wait,
        "stop": stop,
        "rerun": rerun,
        "clone": clone,
        "events": events,
        "metrics": metrics,
    }
    return make_group("job", None, "Work with jobs.", actions)


def __getattr__(name: str) -> Any:
    if name == "job_group":
        return _build_group()
    raise AttributeError(name)
