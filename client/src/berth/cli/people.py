"""`berth users` and `audit`."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, command, make_group
from berth.cli.invitations import accept, invite
from berth.cli.inviting import LinkFile, invite_all, new_people, tell_invited
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
def disable(session: Session, user: UserArgument) -> None:
    """Disable a user at once: tokens stop working; jobs and records stay."""
    _set_active(session, user, active=False)


@command()
def enable(session: Session, user: UserArgument) -> None:
    """Enable a disabled user."""
    _set_active(session, user, active=True)


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


def _set_active(session: Session, user: str, *, active: bool) -> None:
    found = {"id": user} if is_id(user) else next((row for row in session.client.users.list() if row.get("name") == user), None)
    if found is None:
        raise NotFound(_("There is no user {user!r} that you may see.", user=user), hint="berth users", status=404)
    changed = session.client.users.change(str(found["id"]), is_active=active)
    text = _("{user} is enabled.") if active else _("{user} is disabled.")
    session.show_done(changed, text.format(user=plain(user)))


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
