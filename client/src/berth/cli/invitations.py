"""`berth users invite` and `accept`: how people come in. The code is asked for, so that no command line ever holds it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from berth.cli import formats
from berth.cli.account import Place, place_to_keep
from berth.cli.command import Session, UsageMistake, asked, command, confirmed
from berth.cli.messages import _, language
from berth.cli.output import hint, note
from berth.cli.paint import is_terminal
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.client import Client

CODE_PREFIX = "bi_"
USAGE = "berth users accept --server URL"


@command()
def invite(
    session: Session,
    email: Annotated[str, typer.Argument(metavar="EMAIL")],
    role: Annotated[str, typer.Option("--role", "-r", help="viewer, member or manager.")] = "member",
) -> None:
    """Invite a person to the tenant. The answer is a command and its code, which is shown once; hand over both."""
    invitation = session.client.users.invite(email, tenant=session.tenant, role=role)
    session.show_done(invitation, _("{email} is invited.", email=plain(email)))
    if not session.is_for_programs:
        until = formats.time_text(invitation.get("expires_at"))
        note(_("Hand over the command and its code. The code works once, until {until}, and is shown only here:", until=until))
        print(plain(invitation["command"]))
        print(plain(invitation["token"]))


@command()
def accept(
    session: Session,
    name: Annotated[str | None, typer.Option("--name", help="User name of the new account; asked for when left out.")] = None,
) -> None:
    """Accept an invitation: makes your account and signs in here, or joins with the account that is signed in here.

    The code and a password are asked for without being shown, or read from two lines of standard input.
    """
    from berth.client import Client

    place = place_to_keep(session, usage=USAGE)
    code = asked(_("Code of the invitation"), hidden=True, usage=USAGE).strip()
    if not code.startswith(CODE_PREFIX):
        raise UsageMistake(_("This is no code of an invitation; those begin with {prefix}", prefix=CODE_PREFIX))
    with Client(
        place.server,
        profile=place.name,
        config_path=place.path,
        http=session.http,
        language="zh-CN" if language() == "zh" else "en",
    ) as client:
        if client.settings.token:
            _join(session, client, code, name or "")
        else:
            _make_account(session, client, place, code, name or "")


def _join(session: Session, client: Client, code: str, name: str) -> None:
    """Add the membership to the account that is signed in."""
    user = plain(client.whoami()["user"]["name"])
    has_person = is_terminal(sys.stdin) and is_terminal(sys.stderr)
    if has_person and not confirmed(_("Join as {user}, who is signed in here?", user=user), yes=False, default=True):
        note(_("Nothing was accepted. For an account of its own: {usage}", usage=f"{USAGE} --profile NAME"))
        return
    answer = client.users.accept_invitation(code, name=name)
    text = _("{user} is {role} of {tenant}.", user=user, role=plain(answer["role"]), tenant=plain(answer["tenant"]["name"]))
    session.show_done(answer, text, key="role")
    hint(f"berth whoami   ·   berth submit -t {plain(answer['tenant']['name'])} -f job.yaml")


def _make_account(session: Session, client: Client, place: Place, code: str, name: str) -> None:
    """Make an account of the invitation, and keep its first token."""
    usage = f"{USAGE} --name NAME"
    name = name or asked(_("User name"), hidden=False, usage=usage).strip()
    password = asked(_("Password, 12 characters or more"), hidden=True, usage=usage, again=_("The same again"))
    answer = client.users.accept_invitation(code, name=name, password=password)
    token = answer["token"].pop("token")
    is_kept = _keep(place, token, tenant=session.choices.tenant or "")
    role, tenant = plain(answer["role"]), plain(answer["tenant"]["name"])
    session.show_done(
        answer, _("{user} is {role} of {tenant}.", user=plain(answer["user"]["name"]), role=role, tenant=tenant), key="role"
    )
    if is_kept and not session.is_for_programs:
        ends = formats.time_text(answer["token"]["expires_at"])
        note(_("Signed in to {server} until {ends}; kept in {path}.", server=place.server, ends=ends, path=place.path))
        note(_("Next: {commands}", commands="berth whoami   ·   berth submit python train.py"))


def _keep(place: Place, token: str, *, tenant: str) -> bool:
    """Keep the token; where the file cannot be written, show it, for it is nowhere else."""
    try:
        place.keep(token, tenant=tenant)
    except OSError as error:
        text = _("{path} cannot be written: {reason}. Keep this token now; it is shown once:", path=place.path, reason=error)
        note(text, style="bold")
        print(plain(token))
        return False
    return True
