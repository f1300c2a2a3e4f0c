"""`berth users`, `audit` and `notify`."""

from __future__ import annotations

import sys
from contextlib import closing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, make_group
from berth.cli.invitations import accept, invite
from berth.cli.inviting import LinkFile, invite_all, new_people, tell_invited
from berth.cli.messages import _
from berth.cli.output import Column, note
from berth.errors import NotFound
from berth.naming import is_id
from berth.sanitize import plain

UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")]
NumberOption = Annotated[int, typer.Option("--number", "-n", min=1, help="At most so many.")]


@command()
def list_users(session: Session) -> None:
    """List users; for operators."""
    session.show(session.client.users.list(), USER_COLUMNS, empty=_("No users that you may see."))


@command()
def import_users(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="CSV file; - is standard input.")],
    links: Annotated[
        str | None, typer.Option("--invite", metavar="LINKS", help="Invite all new people; the links go to this new CSV file.")
    ] = None,
) -> None:
    """Make users and memberships from a CSV file; all lines or none. New people get in by an invitation."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageMistake(_("{path} cannot be read: {reason}", path=file, reason=error)) from error
    with closing(LinkFile(links)) if links is not None else nullcontext() as kept:
        result = session.client.users.import_csv(text)
        counts = {key: result.get(key, 0) for key in ("created", "updated", "unchanged")}
        session.show_done(result, _("Users: {created} created, {updated} updated, {unchanged} unchanged.", **counts))
        refused = invite_all(session.client, new_people(text, result), kept) if kept is not None else []
    if kept is not None:
        tell_invited(kept, refused)


@command()
def disable(session: Session, user: UserArgument) -> None:
    """Lock a user out at once; tokens stop working, jobs and records stay."""
    _set_active(session, user, active=False)


@command()
def enable(session: Session, user: UserArgument) -> None:
    """Let a disabled user in again."""
    _set_active(session, user, active=True)


@command()
def audit(
    session: Session,
    number: NumberOption = 50,
    verb: Annotated[str | None, typer.Option("--verb", help="Only this operation, such as job.submit.")] = None,
) -> None:
    """Show who did what, newest first."""
    session.show(
        session.client.activity.audit(limit=number, verb=verb), AUDIT_COLUMNS, empty=_("Nothing is recorded that you may see.")
    )


@command()
def list_subscriptions(session: Session) -> None:
    """List what you are told about."""
    session.show(session.client.activity.subscriptions(), SUBSCRIPTION_COLUMNS, empty=_("None yet: berth notify add --mail"))


@command()
def add_subscription(
    session: Session,
    mail: Annotated[bool, typer.Option("--mail", help="By mail to your address.")] = False,
    webhook: Annotated[str | None, typer.Option("--webhook", metavar="URL", help="By signed request to this address.")] = None,
    on: Annotated[
        list[str] | None, typer.Option("--on", metavar="STATE", help="When a job becomes so: succeeded, failed, stopped.")
    ] = None,
    every: Annotated[bool, typer.Option("--all-jobs", help="All jobs of the tenant, not only yours.")] = False,
) -> None:
    """Be told when a job ends. The secret that signs a webhook is shown once."""
    if mail == bool(webhook):
        raise UsageMistake(_("Say how: --mail, or --webhook URL."))
    wanted: dict[str, Any] = {"channel": "mail" if mail else "webhook", "kinds": on or ["succeeded", "failed"]}
    if webhook:
        wanted["target"] = webhook
    if every:
        wanted |= {"jobs": "all", "tenant": session.tenant}
    subscription = session.client.activity.subscribe(**wanted)
    session.show_done(subscription, _("You will be told."))
    if subscription.get("problem") == "no_mail_server":
        note(_("No mail will arrive yet: this installation has no mail server. An operator sets BERTH_MAIL_URL."), style="yellow")
    if subscription.get("secret") and not session.is_for_programs:
        note(_("Check signatures with this; it is shown once:"))
        print(plain(subscription["secret"]))


@command()
def remove_subscription(session: Session, subscription: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Be told no longer."""
    session.client.activity.unsubscribe(subscription)
    session.show_done({"id": subscription}, _("You will not be told any more."))


@command()
def deliveries(session: Session, number: NumberOption = 50) -> None:
    """Show what was sent to you, and what could not be."""
    session.show(session.client.activity.deliveries(limit=number), DELIVERY_COLUMNS, empty=_("Nothing was sent yet."))


@command()
def retry(session: Session, delivery: Annotated[str, typer.Argument(metavar="ID")]) -> None:
    """Send once more what could not be delivered."""
    session.show_done(session.client.activity.retry_delivery(delivery), _("It will be sent again."))


def _set_active(session: Session, user: str, *, active: bool) -> None:
    found = {"id": user} if is_id(user) else next((row for row in session.client.users.list() if row.get("name") == user), None)
    if found is None:
        raise NotFound(_("There is no user {user!r} that you may see.", user=user), hint="berth users", status=404)
    changed = session.client.users.change(str(found["id"]), is_active=active)
    text = _("{user} may sign in again.") if active else _("{user} is locked out.")
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
    Column("REQUEST", lambda row: plain(row.get("request_id") or ""), wide=True),
]
SUBSCRIPTION_COLUMNS = [
    Column("ID", lambda row: row["id"]),
    Column("HOW", lambda row: plain(row.get("channel", ""))),
    Column("WHEN", lambda row: ", ".join(plain(state) for state in row.get("kinds") or [])),
    Column("TO", lambda row: plain(row.get("target") or formats.NOTHING), shrinks=True),
]
DELIVERY_COLUMNS = [
    Column("TIME", lambda row: formats.time_text(row["created_at"])),
    Column("ABOUT", lambda row: plain(row.get("kind", ""))),
    Column("STATE", lambda row: formats.state_text(row.get("state"))),
    Column("TRIES", lambda row: str(row.get("tries", formats.NOTHING)), right=True),
    Column("LAST ERROR", lambda row: plain(row.get("last_error") or ""), shrinks=True),
    Column("ID", lambda row: row["id"]),
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
notify = make_group(
    "notify",
    list_subscriptions,
    "Choose what you are told about, and how.",
    {"list": list_subscriptions, "add": add_subscription, "remove": remove_subscription, "log": deliveries, "retry": retry},
)
