"""`berth tenants`, `members` and `secrets`."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.leaving import (
    HandToOption,
    StopJobsOption,
    check_choice,
    hand_over,
    hint_at_hand_over,
    member_left,
    show_left,
    what_happens,
)
from berth.cli.messages import _, counted
from berth.cli.output import Column, hint
from berth.cli.paint import is_terminal
from berth.errors import Conflict, NotFound
from berth.sanitize import plain

NameArgument = Annotated[str, typer.Argument(metavar="NAME")]
TenantArgument = Annotated[str, typer.Argument(metavar="TENANT", help="Name or slug.")]
RoleOption = Annotated[str | None, typer.Option("--role", "-r", help="viewer, member or manager.")]


@command()
def list_tenants(session: Session) -> None:
    """List tenants that you may see."""
    session.show(session.client.tenants.list(), TENANT_COLUMNS, empty=_("No tenants that you may see."), key="slug")


@command()
def create_tenant(
    session: Session,
    name: NameArgument,
    parent: Annotated[str | None, typer.Option("--parent", help="Parent tenant.")] = None,
    description: Annotated[str | None, typer.Option("--description")] = None,
) -> None:
    """Create a tenant."""
    tenant = session.client.tenants.create(name, parent=parent, description=description)
    session.show_done(
        tenant, _("Tenant {name} is created: {slug}", name=plain(name), slug=plain(tenant.get("slug", ""))), key="slug"
    )
    hint(f"berth members add USER --role member -t {plain(name)}")


@command()
def disable_tenant(
    session: Session,
    tenant: TenantArgument,
    reason: Annotated[str | None, typer.Option("--reason", help="Reason, shown to the tenant's members.")] = None,
    stop_jobs: Annotated[
        bool, typer.Option("--stop-jobs", help="Stop running jobs, too; otherwise they run to their end.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show the affected tenants and jobs.")] = False,
    yes: YesOption = False,
) -> None:
    """Disable a tenant and its child tenants, as an operator. Data can still be read; queued jobs stay queued."""
    plan = session.client.tenants.disable(tenant, dry_run=True)
    name = plain(plan["tenant"]["name"])
    if dry_run or not session.is_for_programs:
        session.show([plan], TOUCHED_COLUMNS)
    if dry_run or not confirmed(_("Disable {tenant}? Nothing can be submitted or started there.", tenant=name), yes=yes):
        return
    done = session.client.tenants.disable(tenant, reason=reason, stop_jobs=stop_jobs)
    text = counted(
        done["stopped"],
        "{tenant} is disabled; {count} running job was asked to stop.",
        "{tenant} is disabled; {count} running jobs were asked to stop.",
        tenant=name,
    )
    session.show_done(done, text, key="tenant")
    hint(f"berth tenants enable {name}")


@command()
def enable_tenant(session: Session, tenant: TenantArgument) -> None:
    """Enable a disabled tenant, as an operator; its queued jobs start by themselves."""
    changed = session.client.tenants.enable(tenant)
    session.show_done(changed, _("{tenant} is enabled.", tenant=plain(changed["name"])), key="slug")


@command()
def delete_tenant(
    session: Session,
    tenant: TenantArgument,
    confirm: Annotated[str, typer.Option("--confirm", metavar="NAME", help="Name of the tenant; skips the confirmation.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show what would be deleted.")] = False,
) -> None:
    """Delete a disabled tenant without live jobs, as an operator. Roles, secrets, volumes and images go, the ledger stays."""
    plan = session.client.tenants.delete(tenant, dry_run=True)
    name = plain(plan["tenant"]["name"])
    if dry_run or not session.is_for_programs:
        session.show([plan], GOES_COLUMNS)
    if dry_run:
        return
    if not confirm:
        if not is_terminal(sys.stdin):
            raise UsageMistake(_("The deletion needs the tenant's name."), hint=f"berth tenants delete {name} --confirm NAME")
        confirm = str(typer.prompt(_("This cannot be undone. Type the tenant's name"), err=True))
    done = session.client.tenants.delete(tenant, confirm=confirm, plan=plan["plan"])
    session.show_done(done, _("{tenant} is deleted; ledger, statements and audit stay.", tenant=name))


@command()
def list_members(session: Session) -> None:
    """List the members of the tenant."""
    session.show(session.client.tenants.members(session.tenant), MEMBER_COLUMNS, empty=_("No members."), key="user")


@command()
def add_member(session: Session, user: Annotated[str, typer.Argument(metavar="USER")], role: RoleOption = None) -> None:
    """Add a user to the tenant, or change a member's role."""
    tenants, tenant = session.client.tenants, session.tenant
    try:
        member = tenants.add_member(tenant, user, role or "member")
    except Conflict:
        found = _member(tenants.members(tenant), user)
        if found is None or role is None:
            raise  # Without --role nothing was said about the role, and a manager stays one.
        member = tenants.change_member(tenant, str(found["id"]), role)
    session.show_done(
        member, _("{user} is {role} of {tenant}.", user=plain(user), role=plain(member["role"]), tenant=session.tenant_name)
    )


@command()
def remove_member(
    session: Session,
    user: Annotated[str, typer.Argument(metavar="USER")],
    stop_jobs: StopJobsOption = False,
    hand_to: HandToOption = None,
    yes: YesOption = False,
) -> None:
    """Remove a user from the tenant. Shows what the user leaves: running jobs continue and waiting jobs are held, unless
    --stop-jobs or --hand-to."""
    check_choice(stop_jobs, hand_to)
    tenant = session.tenant
    found = _member(session.client.tenants.members(tenant), user)
    if found is None:
        raise NotFound(
            _("{user} is not a member of {tenant}.", user=user, tenant=session.tenant_name), hint="berth members", status=404
        )
    show_left(session, lambda: session.client.tenants.member_left(tenant, str(found["id"])))
    question = _("Remove {user} from {tenant}?", user=plain(user), tenant=session.tenant_name)
    if confirmed(f"{question} {what_happens(stop_jobs, hand_to)}", yes=yes):
        session.client.tenants.remove_member(tenant, str(found["id"]), stop_jobs=stop_jobs, hand_to=hand_to)
        session.show_done(
            {"user": found}, _("{user} is no longer a member of {tenant}.", user=plain(user), tenant=session.tenant_name)
        )
        hint_at_hand_over(str(found.get("name") or user), session.tenant_name, stop_jobs, hand_to)


@command()
def list_secrets(session: Session) -> None:
    """List the names of the tenant's secrets; values cannot be read back."""
    session.show(
        session.client.tenants.secrets(session.tenant), SECRET_COLUMNS, empty=_("No secrets: berth secrets set NAME"), key="name"
    )


@command()
def set_secret(session: Session, name: NameArgument) -> None:
    """Set a secret from standard input or a hidden prompt; never from the command line, which other users can read."""
    if is_terminal(sys.stdin):
        value = str(typer.prompt(_("Value of {name}", name=plain(name)), hide_input=True, err=True))
    else:
        value = sys.stdin.read().removesuffix("\n")
    if not value:
        raise UsageMistake(_("The value is empty."), hint=_("Use standard input: berth secrets set NAME < file"))
    session.client.tenants.set_secret(session.tenant, name, value)
    session.show_done(
        {"name": name}, _("Secret {name} is set in {tenant}.", name=plain(name), tenant=session.tenant_name), key="name"
    )
    hint(_("In a job file: secrets: {{{name}: null}}", name=plain(name)))


@command()
def delete_secret(session: Session, name: NameArgument, yes: YesOption = False) -> None:
    """Delete a secret; jobs that use it can no longer be submitted."""
    if confirmed(_("Delete secret {name}?", name=plain(name)), yes=yes):
        session.client.tenants.delete_secret(session.tenant, name)
        session.show_done({"name": name}, _("Secret {name} is deleted.", name=plain(name)), key="name")


def _member(members: Iterable[dict[str, Any]], user: str) -> dict[str, object] | None:
    """The user of that name or id among the members."""
    return next((_user(member) for member in members if user in (_user(member).get("name"), _user(member).get("id"))), None)


def _user(member: dict[str, object]) -> dict[str, object]:
    user = member.get("user")
    return (
        user if isinstance(user, dict) else {"id": member.get("user_id") or member.get("id"), "name": member.get("name") or user}
    )


def _went(kind: str) -> Column:
    return Column(kind.upper().replace("_", " "), lambda plan: str(plan["goes"][kind]), right=True)


TOUCHED_COLUMNS = [
    Column("TENANT", lambda plan: plain(plan["tenant"]["name"]), shrinks=True),
    Column("TENANTS", lambda plan: str(plan["tenants"]), right=True),
    Column("PEOPLE", lambda plan: str(plan["people"]), right=True),
    Column("WAITING", lambda plan: str(plan["waiting"]), right=True),
    Column("RUNNING", lambda plan: str(plan["running"]), right=True),
]
GOES_COLUMNS = [
    Column("TENANT", lambda plan: plain(plan["tenant"]["name"]), shrinks=True),
    *(_went(kind) for kind in ("members", "secrets", "volumes", "images", "bookings")),
    Column("JOBS KEPT", lambda plan: str(plan["stays"]["jobs"]), right=True),
]
TENANT_COLUMNS = [
    Column("NAME", lambda tenant: plain(tenant["name"]), shrinks=True),
    Column("SLUG", lambda tenant: plain(tenant.get("slug", ""))),
    Column("PARENT", lambda tenant: formats.name_of(tenant.get("parent"))),
    Column("ROLE", lambda tenant: plain(tenant.get("role") or formats.NOTHING)),
    Column(
        "STATE",
        lambda tenant: (_("■ disabled"), "bright_black") if tenant.get("is_disabled") else (_("✓ active"), "green"),
    ),
    Column("DESCRIPTION", lambda tenant: plain(tenant.get("description") or ""), shrinks=True),
]
MEMBER_COLUMNS = [
    Column("USER", lambda member: formats.name_of(_user(member)), shrinks=True),
    Column("ROLE", lambda member: plain(member.get("role", ""))),
    Column("KIND", lambda member: plain(_user(member).get("kind") or "person")),
    Column("MEMBER SINCE", lambda member: formats.time_text(member.get("created_at"))),
]
SECRET_COLUMNS = [
    Column("NAME", lambda secret: plain(secret["name"]), shrinks=True),
    Column("CHANGED", lambda secret: formats.time_text(secret.get("updated_at") or secret.get("created_at"))),
]
tenants = make_group(
    "tenants",
    list_tenants,
    "List and create tenants; disable, enable and delete them.",
    {
        "list": list_tenants,
        "create": create_tenant,
        "disable": disable_tenant,
        "enable": enable_tenant,
        "delete": delete_tenant,
    },
)
members = make_group(
    "members",
    list_members,
    "List, add and remove members of a tenant.",
    {"list": list_members, "add": add_member, "remove": remove_member, "left": member_left, "hand-over": hand_over},
)
secrets = make_group(
    "secrets",
    list_secrets,
    "Set and delete a tenant's secrets.",
    {"list": list_secrets, "set": set_secret, "delete": delete_secret},
)
