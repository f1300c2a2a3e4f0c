"""`berth registries`: a tenant's accounts at container registries."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Column, hint, print_data
from berth.cli.paint import is_terminal
from berth.sanitize import plain

HostArgument = Annotated[str, typer.Argument(metavar="HOST", help="Host of the registry, such as registry.example.org:5000.")]


@command()
def list_registries(session: Session) -> None:
    """List the tenant's accounts at registries; passwords cannot be read back."""
    session.show(
        session.client.tenants.registries(session.tenant),
        COLUMNS,
        empty=_("No accounts: berth registries add HOST -u NAME"),
        key="host",
    )


@command()
def add(
    session: Session,
    host: HostArgument,
    username: Annotated[str, typer.Option("--username", "-u", help="User name of the account.")],
) -> None:
    """Add an account, or replace the one at this registry. The password comes from standard input or a hidden prompt."""
    if is_terminal(sys.stdin):
        password = str(typer.prompt(_("Password of {name}", name=plain(username)), hide_input=True, err=True))
    else:
        password = sys.stdin.read().removesuffix("\n")
    if not password:
        raise UsageMistake(_("The password is empty."), hint=_("Use standard input: berth registries add HOST -u NAME < file"))
    account = session.client.tenants.set_registry(session.tenant, host, username=username, password=password)
    session.show_done(
        account, _("The account at {host} is set in {tenant}.", host=plain(host), tenant=session.tenant_name), key="host"
    )
    hint(_("berth registries check {host}", host=plain(host)))


@command()
def remove(session: Session, host: HostArgument, yes: YesOption = False) -> None:
    """Remove an account; jobs with private images of this registry can no longer start, and builds cannot push to it."""
    if confirmed(_("Remove the account at {host}?", host=plain(host)), yes=yes):
        session.client.tenants.delete_registry(session.tenant, host)
        session.show_done({"host": host}, _("The account at {host} is removed.", host=plain(host)), key="host")


@command()
def check(
    session: Session,
    host: HostArgument,
    image: Annotated[str | None, typer.Option("--image", help="Also check that this image can be pulled.")] = None,
) -> None:
    """Ask a registry whether it takes the tenant's account; exits with 1 if not."""
    answer = session.client.tenants.check_registry(session.tenant, host, image=image)
    if session.is_for_programs:
        print_data({"host": host, **answer}, session.form, key="host")
    elif answer["ok"]:
        what = plain(image or host)
        digest = plain(answer.get("digest") or "")
        session.show_done(answer, _("{what} answers as it should. {digest}", what=what, digest=digest).strip())
    else:
        print(f"{plain(answer['title'] or '')}: {plain(answer['detail'] or '')}", file=sys.stderr)
        hint(plain(answer.get("hint") or ""))
    if not answer["ok"]:
        raise typer.Exit(1)


COLUMNS = [
    Column("HOST", lambda account: plain(account["host"]), shrinks=True),
    Column("USERNAME", lambda account: plain(account["username"])),
    Column("CHANGED", lambda account: formats.time_text(account.get("updated_at") or account.get("created_at"))),
]
registries = make_group(
    "registries",
    list_registries,
    "Add, check and remove accounts at container registries.",
    {"list": list_registries, "add": add, "remove": remove, "check": check},
)
