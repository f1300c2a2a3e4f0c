"""`berth priority` and `berth move`: which of the waiting jobs comes first."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, make_group
from berth.cli.jobs import JobArgument
from berth.cli.messages import _, counted
from berth.cli.output import Column, Format, hint, print_data
from berth.sanitize import plain

EXAMPLE = "berth priority request JOB high --reason '...'   ·   berth priority request --me high --for 2d"
PriorityArgument = Annotated[str, typer.Argument(metavar="PRIORITY", help="low, normal, high, urgent, or a number up to 1000.")]
RequestArgument = Annotated[str, typer.Argument(metavar="REQUEST", help="Id of the request.")]
AnswerOption = Annotated[str, typer.Option("--answer", help="Answer to the requester.")]


@command()
def list_requests(
    session: Session,
    state: Annotated[
        str | None,
        typer.Option("--state", help="Only requests in this state: pending, approved, denied, withdrawn, expired or revoked."),
    ] = None,
) -> None:
    """Show requests for a higher priority, newest first."""
    session.show(session.client.priorities.requests(state=state), REQUEST_COLUMNS, empty=_("No requests for a priority."))


@command()
def set_priority(session: Session, job: JobArgument, priority: PriorityArgument) -> None:
    """Change the priority of a queued job, up to your limit."""
    changed = session.client.priorities.set(session.client.jobs.resolve(job), _value(priority))
    text = _("Job {name} has priority {priority}.", name=plain(changed["name"]), priority=changed["priority"])
    session.show_done(changed, text)


@command()
def request(
    session: Session,
    job: Annotated[str | None, typer.Argument(metavar="[JOB]", help="The job; omitted with --me or --user.")] = None,
    priority: Annotated[
        str | None, typer.Argument(metavar="PRIORITY", help="low, normal, high, urgent, or a number up to 1000.")
    ] = None,
    me: Annotated[bool, typer.Option("--me", help="Request a time window for all your submissions, not for one job.")] = False,
    user: Annotated[str | None, typer.Option("--user", help="User for whom the window is requested; for managers.")] = None,
    length: Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Duration: 10h, 2d.")] = None,
    start: Annotated[str | None, typer.Option("--from", metavar="TIME", help="Start of the window; default: now.")] = None,
    reason: Annotated[str, typer.Option("--reason", "-m", help="Reason, for the decision.")] = "",
) -> None:
    """Request a priority above your limit: for a job, or for all your submissions in a time window."""
    priorities = session.client.priorities
    if me or user is not None:
        if length is None or job is None or priority is not None:
            raise UsageMistake(_("Give the priority, and the duration with --for."), hint=EXAMPLE)
        begins = datetime.now(UTC) if start is None else formats.parse_when(start)
        ends = begins + timedelta(seconds=formats.parse_seconds(length))
        made = priorities.request_window(
            _value(job),
            ends_at=_iso(ends),
            starts_at=None if start is None else _iso(begins),
            user=user,
            tenant=session.choices.tenant,
            reason=reason,
        )
    elif job is None or priority is None or length is not None or start is not None:
        raise UsageMistake(_("Give a job and its priority."), hint=EXAMPLE)
    else:
        made = priorities.request(session.client.jobs.resolve(job), _value(priority), reason=reason)
    text = _("Priority {priority} is requested; a manager decides.", priority=plain(made["priority_name"]))
    session.show_done(made, text)
    hint(_("berth priority list   ·   berth priority withdraw {id}", id=made["id"]))


@command()
def approve(session: Session, request_id: RequestArgument, answer: AnswerOption = "") -> None:
    """Approve a request for a priority; a queued job moves at once."""
    session.show_done(session.client.priorities.approve(request_id, answer=answer), _("Approved."))


@command()
def deny(session: Session, request_id: RequestArgument, answer: AnswerOption = "") -> None:
    """Deny a request."""
    session.show_done(session.client.priorities.deny(request_id, answer=answer), _("Denied."))


@command()
def withdraw(session: Session, request_id: RequestArgument) -> None:
    """Withdraw a request, or end an approved window."""
    done = session.client.priorities.withdraw(request_id)
    session.show_done(done, _("The request is {state}.", state=_(done["state"])))


@command()
def grants(
    session: Session,
    member: Annotated[
        str | None, typer.Option("--member", help="Priority limit of members; `default` removes the setting.")
    ] = None,
    manager: Annotated[
        str | None,
        typer.Option("--manager", help="Priority limit of managers; set by a manager of the parent tenant or an operator."),
    ] = None,
) -> None:
    """Show the priority limit of each role in the tenant; set it with --member and --manager."""
    roles = {"member": member, "manager": manager}
    given = {role: None if text == "default" else _value(text) for role, text in roles.items() if text is not None}
    priorities = session.client.priorities
    found = priorities.set_grants(session.tenant, **given) if given else priorities.grants(session.tenant)
    if session.is_for_programs:
        print_data(found, session.form)
        return
    session.show(found["items"], GRANT_COLUMNS, empty="")
    if session.form in (Format.TABLE, Format.WIDE):
        hint(_("You may use up to {priority}.", priority=found["yours"]))


@command()
def move(
    session: Session,
    job: JobArgument,
    before: Annotated[str | None, typer.Option("--before", metavar="JOB", help="Move directly before this queued job.")] = None,
    after: Annotated[str | None, typer.Option("--after", metavar="JOB", help="Move directly after this queued job.")] = None,
    first: Annotated[bool, typer.Option("--first", help="Move to the front of the owner's jobs; the default.")] = False,
    last: Annotated[bool, typer.Option("--last", help="Move to the end of the owner's jobs.")] = False,
    everybody: Annotated[
        bool, typer.Option("--everybody", help="Move among the jobs of all users of the queue; for managers.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show the jobs that would move.")] = False,
    plan: Annotated[
        str | None, typer.Option("--plan", metavar="PLAN", help="Id of a dry run; apply only if its outcome still holds.")
    ] = None,
) -> None:
    """Move a queued job among your own jobs of the same queue and priority. Jobs of other users keep their place.

    Only managers move a job before or after a job of another user.
    """
    if (before is not None) + (after is not None) + first + last > 1:
        raise UsageMistake(_("Give one of --before, --after, --first and --last."), hint="berth move JOB --before OTHER")
    moved = session.client.jobs.move(job, before=before, after=after, last=last, everybody=everybody, dry_run=dry_run, plan=plan)
    if dry_run:
        count = moved["moved"]
        text = counted(count, "{count} job would change its place.", "{count} jobs would change their place.")
        session.show_done(moved, text, key="job")
        hint(_("To do exactly this or nothing, repeat the command with --plan {plan}.", plan=moved["plan"]))
        return
    place = moved["job"]["place"]
    text = _("Job {name} is moved; its place in the queue is {place}.", name=plain(moved["job"]["name"]), place=place)
    session.show_done(moved, text if place else _("Job {name} is moved.", name=plain(moved["job"]["name"])), key="job")


def _value(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdecimal() else text


def _iso(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _subject(row: dict[str, Any]) -> str:
    if row.get("job"):
        return plain(row["job"]["name"])
    return _("{user} until {end}", user=formats.name_of(row["user"]), end=formats.time_text(row["ends_at"]))


REQUEST_COLUMNS = [
    Column("REQUEST", lambda row: row["id"]),
    Column("STATE", lambda row: _(row["state"])),
    Column("PRIORITY", lambda row: plain(row["priority_name"])),
    Column("FOR", _subject, shrinks=True),
    Column("BY", lambda row: formats.name_of(row["created_by"])),
    Column("REASON", lambda row: plain(row["reason"] or formats.NOTHING), shrinks=True),
    Column("DECIDED BY", lambda row: formats.name_of(row["decided_by"])),
]
GRANT_COLUMNS = [
    Column("ROLE", lambda row: plain(row["role"])),
    Column("PRIORITY", lambda row: plain(row["priority_name"])),
    Column("SET IN", lambda row: formats.name_of(row["tenant"])),
]
priority = make_group(
    "priority",
    list_requests,
    "Set priorities; request higher ones, and decide on requests.",
    {
        "list": list_requests,
        "set": set_priority,
        "request": request,
        "approve": approve,
        "deny": deny,
        "withdraw": withdraw,
        "grants": grants,
    },
)
