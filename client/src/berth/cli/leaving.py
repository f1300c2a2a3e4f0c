"""What a user leaves who is removed from a tenant or disabled: shown before, stopped or handed over; `berth members left`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Any

import typer

from berth.cli.command import Session, UsageMistake, command
from berth.cli.messages import _
from berth.cli.output import Column, hint
from berth.errors import NotFound
from berth.sanitize import plain

StopJobsOption = Annotated[
    bool,
    typer.Option("--stop-jobs", help="Stop all jobs of the user; otherwise running jobs continue and waiting jobs are held."),
]
HandToOption = Annotated[
    str | None,
    typer.Option("--hand-to", metavar="NAME", help="Member who gets the user's jobs, templates, volumes, images and bookings."),
]
UserArgument = Annotated[str, typer.Argument(metavar="USER", help="Name or id of the user.")]

KINDS = {
    "running": "running jobs",
    "waiting": "waiting jobs",
    "templates": "templates",
    "volumes": "volumes",
    "images": "images",
    "bookings": "bookings",
    "tokens": "tokens",
}


@command()
def member_left(session: Session, user: UserArgument) -> None:
    """Show what a member would leave in the tenant, or a former member has left there."""
    show_left(session, lambda: session.client.tenants.member_left(session.tenant, user), of_programs=True)


@command()
def hand_over(
    session: Session,
    user: UserArgument,
    to: Annotated[str, typer.Argument(metavar="NAME", help="Name or id of the member who gets them.")],
) -> None:
    """Hand over the jobs, templates, volumes, images and bookings of a member or former member to another member."""
    done = session.client.tenants.hand_over(session.tenant, user, to)
    amounts = _amounts(done["handed_over"])
    names = {key: plain(done[key]["name"]) for key in ("user", "to")}
    text = _("{user} hands over to {to}: {amounts}.", amounts=amounts, **names)
    session.show_done(done, text, key="user")


def check_choice(stop_jobs: bool, hand_to: str | None) -> None:
    """Raise UsageMistake where both were chosen."""
    if stop_jobs and hand_to is not None:
        raise UsageMistake(_("Jobs are stopped or handed over, not both."), hint=_("Leave out --stop-jobs or --hand-to."))


def show_left(session: Session, read: Callable[[], dict[str, Any]], *, of_programs: bool = False) -> None:
    """A table of what is there; nothing where the output is for programs that do not ask for it, or the server is of a release
    that cannot say."""
    if session.is_for_programs and not of_programs:
        return
    try:
        left = read()
    except NotFound:
        if of_programs:
            raise
        return
    session.show([kind for kind in left["kinds"] if kind["count"]], LEFT_COLUMNS, empty=_("Nothing is left."), key="kind")


def what_happens(stop_jobs: bool, hand_to: str | None) -> str:
    """The second sentence of the question."""
    if stop_jobs:
        return _("All their jobs are stopped.")
    if hand_to is not None:
        return _("All of it is handed over to {to}.", to=plain(hand_to))
    return _("Running jobs continue; waiting jobs are held until they are handed over.")


def hint_at_hand_over(user: str, tenant: str, stop_jobs: bool, hand_to: str | None) -> None:
    if not stop_jobs and hand_to is None:
        hint(f"berth members hand-over {plain(user)} NAME -t {plain(tenant)}")


def _amounts(kinds: Iterable[dict[str, Any]]) -> str:
    return ", ".join(f"{_(KINDS.get(each['kind'], each['kind']))} {each['count']}" for each in kinds) or _("nothing")


def _first(kind: dict[str, Any]) -> str:
    names = ", ".join(plain(each["name"]) for each in kind["first"])
    return names + (", ..." if names and kind["count"] > len(kind["first"]) else "")


LEFT_COLUMNS = [
    Column("LEFT", lambda kind: _(KINDS.get(kind["kind"], plain(kind["kind"])))),
    Column("COUNT", lambda kind: str(kind["count"]), right=True),
    Column("NAMES", _first, shrinks=True),
]
