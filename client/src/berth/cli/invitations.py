"""`berth users invite` and `accept`: how people come in. The code is asked for, so that no command line ever holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from berth.cli import formats
from berth.cli.account import Place, place_to_keep
from berth.cli.command import Session, UsageMistake, YesOption, asked, command, confirmed_by_person
from berth.cli.messages import _, language
from berth.cli.output import Format, hint, note
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
    """Invite a user to the tenant. Prints a command and a code, which is shown only once, for the user."""
    invitation = session.client.users.invite(email, tenant=session.tenant, role=role)
    session.show_done(invitation, _("{email} is invited.", email=plain(email)))
    session.show_once(
        _(
            "Send the command and its code to the user. The code works once, until {until}, and is shown only here:",
            until=formats.time_text(invitation.get("expires_at")),
        ),
        invitation["command"],
        invitation["token"],
    )


@command()
def accept(
    session: Session,
    name: Annotated[str | None, typer.Option("--name", help="User name of the new account; default: prompted for.")] = None,
    yes: YesOption = False,
) -> None:
    """Accept an invitation: create an account and sign in, or join with the account that is signed in on this computer.

    Code and password are typed at a prompt without echo, or read from two lines of standard input.
    """
    from berth.client import Client

    place = place_to_keep(session, usage=USAGE)
    code = asked(_("Invitation code"), hidden=True, usage=USAGE).strip()
    if not code.startswith(CODE_PREFIX):
        raise UsageMistake(_("This is not an invitation code; those begin with {prefix}", prefix=CODE_PREFIX))
    with Client(
        place.server,
        profile=place.name,
        config_path=place.path,
        http=session.http,
        language="zh-CN" if language() == "zh" else "en",
    ) as client:
        if client.settings.token:
            _join(session, client, code, name or "", yes)
        else:
            _make_account(session, client, place, code, name or "")


def _join(session: Session, client: Client, code: str, name: str, yes: bool) -> None:
    """Add the membership to the account that is signed in."""
    user = plain(client.whoami()["user"]["name"])
    if not confirmed_by_person(session, _("Join as {user}, who is signed in here?", user=user), yes=yes):
        note(_("The invitation was not accepted. To create a separate account: {usage}", usage=f"{USAGE} --profile NAME"))
        return
    answer = client.users.accept_invitation(code, name=name)
    text = _("{user} is {role} of {tenant}.", user=user, role=plain(answer["role"]), tenant=plain(answer["tenant"]["name"]))
    session.show_done(answer, text, key="role")
    hint(f"berth whoami   ·   berth submit -t {plain(answer['tenant']['name'])} -f job.yaml")


def _make_account(session: Session, client: Client, place: Place, code: str, name: str) -> None:
    """Make an account of the invitation, and keep its first token."""
    usage = f"{USAGE} --name NAME"
    name = name or asked(_("User name"), hidden=False, usage=usage).strip()
    password = asked(_("Password, 12 characters or more"), hidden=True, usage=usage, again=_("Repeat the password"))
    answer = client.users.accept_invitation(code, name=name, password=password)
    token = answer["token"].pop("token")
    is_kept = _keep(session, place, token, tenant=session.choices.tenant or "")
    if not is_kept:
        answer["token"]["token"] = token
    role, tenant = plain(answer["role"]), plain(answer["tenant"]["name"])
    session.show_done(
        answer, _("{user} is {role} of {tenant}.", user=plain(answer["user"]["name"]), role=role, tenant=tenant), key="role"
    )
    if is_kept and not session.is_for_programs:
        ends = formats.time_text(answer["token"]["expires_at"])
        note(_("Signed in to {server} until {ends}; kept in {path}.", server=place.server, ends=ends, path=place.path))
        note(_("Next: {commands}", commands="berth whoami   ·   berth submit python train.py"))


def _keep(session: Session, place: Place, token: str, *, tenant: str) -> bool:
    """Keep the token; where the file cannot be written, show it, for it is nowhere else. JSON and YAML then hold it."""
    try:
        place.keep(token, tenant=tenant)
    except OSError as error:
        if session.form in (Format.JSON, Format.YAML):
            note(_("{path} cannot be written: {reason}", path=place.path, reason=error), style="bold")
        session.show_once(
            _("{path} cannot be written: {reason}. Save this token now; it is shown once:", path=place.path, reason=error), token
        )
        return False
    return True
