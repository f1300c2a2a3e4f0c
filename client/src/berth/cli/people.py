"""`berth users` and `audit`."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, YesOption, command, confirmed, make_group
from berth.cli.invitations import accept, invite
from berth.cli.inviting import LinkFile, invite_all, new_people, tell_invited
from berth.cli.leaving import HandToOption, StopJobsOption, check_choice, show_left, what_happens
from berth.cli.messages import _
from berth.cli.output import Column
from berth.errors import NotFound
from berth.naming import is_id
from berth.sanitize import plain
from berth.texts import decode, read_text

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")]
NumberOption = Annotated[int, typer.Option("--number", "-n", min=1, help="Maximum number of rows.")]


@command()
def list_users(session: Session) -> None:
    """List users; for operators."""
    session.show(session.client.users.list(), USER_COLUMNS, empty=_("No users that you may see."))


@command()
def import_users(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file; - is standard input.")],
    links: Annotated[
        str | None,
        typer.Option("--invite", metavar="LINKS", help="Invite all new users; the links are written to this new CSV file."),
    ] = None,
) -> None:
    """Create users and memberships from a CSV file, all lines or none. New users sign in by an invitation."""
    text = decode(sys.stdin.buffer.read(), "-") if file == "-" else read_text(Path(file))
    with closing(LinkFile(links)) if links is not None else nullcontext() as kept:
        result = session.client.users.import_csv(text)
        counts = {key: result.get(key, 0) for key in ("created", "updated", "unchanged")}
        session.show_done(result, _("Users: {created} created, {updated} updated, {unchanged} unchanged.", **counts))
        refused = invite_all(session.client, new_people(text, result), kept) if kept is not None else []
    if kept is not None:
        tell_invited(kept, refused)


@command()
def disable(
    session: Session,
    user: UserArgument,
    stop_jobs: StopJobsOption = False,
    hand_to: HandToOption = None,
    yes: YesOption = False,
) -> None:
    """Disable a user at once: tokens stop working. Shows what the user leaves: running jobs continue and waiting jobs are held,
    unless --stop-jobs or --hand-to."""
    check_choice(stop_jobs, hand_to)
    found = _found(session, user)
    show_left(session, lambda: session.client.users.left(found))
    question = _("Disable {user}?", user=plain(user))
    if confirmed(f"{question} {what_happens(stop_jobs, hand_to)}", yes=yes):
        chosen: dict[str, object] = {**({"stop_jobs": True} if stop_jobs else {}), **({"hand_to": hand_to} if hand_to else {})}
        changed = session.client.users.change(found, is_active=False, **chosen)
        session.show_done(changed, _("{user} is disabled.", user=plain(user)))


@command()
def enable(session: Session, user: UserArgument) -> None:
    """Enable a disabled user."""
    changed = session.client.users.change(_found(session, user), is_active=True)
    session.show_done(changed, _("{user} is enabled.", user=plain(user)))


@command()
def audit(
    session: Session,
    number: NumberOption = 50,
    verb: Annotated[str | None, typer.Option("--verb", help="Only this operation, such as job.submit.")] = None,
) -> None:
    """Show the audit log, newest first."""
    session.show(
        session.client.activity.audit(limit=number, verb=verb), AUDIT_COLUMNS, empty=_("No audit records that you may see.")
    )


def _found(session: Session, user: str) -> str:
    """The id of a user."""
    found = {"id": user} if is_id(user) else next((row for row in session.client.users.list() if row.get("name") == user), None)
    if found is None:
        raise NotFound(_("There is no user {user!r} that you may see.", user=user), hint="berth users", status=404)
    return str(found["id"])


def _target(row: Any) -> str:
    target = row["target"]
    return f"{plain(target['kind'])} {plain(target['name'] or target['id'])}"


USER_COLUMNS = [
    Column("NAME", lambda user: plain(user["name"]), shrinks=True),
    Column("EMAIL", lambda user: plain(user.get("email") or formats.NOTHING), shrinks=True),
    Column("KIND", lambda user: plain(user.get("kind", "person"))),
    Column("OPERATOR", lambda user: _("yes") if user.get("is_operator") else formats.NOTHING),
    Column("STATE", lambda user: (_("✓ active"), "green") if user.get("is_active", True) else (_("■ disabled"), "bright_black")),
    Column("ID", lambda user: user["id"], wide=True),
]
AUDIT_COLUMNS = [
    Column("TIME", lambda row: formats.time_text(row["at"])),
    Column("WHO", lambda row: formats.name_of(row["actor"]), shrinks=True),
    Column("WHAT", lambda row: plain(row.get("verb", ""))),
    Column("TO", _target, shrinks=True),
    Column("REQUEST ID", lambda row: plain(row.get("request_id") or ""), wide=True),
]
users = make_group(
    "users",
    list_users,
    "Invite, import and disable users.",
    {
        "list": list_users,
        "invite": invite,
        "accept": accept,
        "import": import_users,
        "disable": disable,
        "enable": enable,
    },
)
