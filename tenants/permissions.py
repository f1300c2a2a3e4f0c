"""Who may do what, as one table. `docs/permissions.md` is produced from it: `python -m tenants.permissions`.

Roles are inherited down the tenant tree. An operator holds the whole installation, but gets at a tenant's own contents
(secrets, files, submitting in its name) only through a role in that tenant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kernel.actor import TenantRole

ROLE_RANK = {TenantRole.VIEWER: 1, TenantRole.MEMBER: 2, TenantRole.MANAGER: 3}


class Scope(StrEnum):
    """What a token may be limited to. Every token may read; ALL is no limit beyond its user's own roles."""

    ALL = "all"
    READ = "read"
    JOBS = "jobs"
    DATA = "data"
    TENANT = "tenant"
    ACCOUNT = "account"
    OPERATE = "operate"


SCOPE_MEANS = {
    Scope.ALL: "Everything that the user may do.",
    Scope.READ: "See what the user may see. Part of every other scope.",
    Scope.JOBS: "Submit, change and stop jobs.",
    Scope.DATA: "Write volumes, uploads, code and images.",
    Scope.TENANT: "Run tenants: members, secrets, queues, service accounts.",
    Scope.ACCOUNT: "The user's own tokens, subscriptions and invitations.",
    Scope.OPERATE: "What only operators may do.",
}


@dataclass(frozen=True, slots=True)
class Permission:
    """Who may use one verb: users with `minimum` or more in the object's tenant, and those whom one of the flags names.

    `minimum` None: no role in a tenant is enough. `own`: a member may do it to what belongs to them. `operator`: operators
    may do it everywhere. `everyone`: every signed-in user, to whatever rows the model's rule shows or gives them.
    """

    minimum: TenantRole | None
    scope: Scope
    means: str
    operator: bool = True
    own: bool = False
    everyone: bool = False

    def who(self) -> str:
        """The same in words, for the documentation and for refusals."""
        people = ["every signed-in user"] if self.everyone else []
        if self.minimum is not None:
            people.append(f"{self.minimum} and above" if self.minimum != TenantRole.MANAGER else "manager")
        if self.own:
            people.append("member, for their own")
        if self.operator and not self.everyone:
            people.append("operator")
        return "; ".join(people)


def _viewer(means: str, *, operator: bool = True) -> Permission:
    return Permission(TenantRole.VIEWER, Scope.READ, means, operator=operator)


def _member(scope: Scope, means: str) -> Permission:
    return Permission(TenantRole.MEMBER, scope, means, operator=False)


def _own(scope: Scope, means: str, *, operator: bool = False) -> Permission:
    return Permission(TenantRole.MANAGER, scope, means, operator=operator, own=True)


def _manager(means: str, *, operator: bool = True, scope: Scope = Scope.TENANT) -> Permission:
    return Permission(TenantRole.MANAGER, scope, means, operator=operator)


def _operator(means: str) -> Permission:
    return Permission(None, Scope.OPERATE, means)


def _self(means: str, *, scope: Scope = Scope.ACCOUNT) -> Permission:
    return Permission(None, scope, means, operator=False, everyone=True)


def _everyone(means: str) -> Permission:
    return Permission(None, Scope.READ, means, everyone=True)


PERMISSIONS: dict[str, Permission] = {
    # Tenants and people.
    "tenant.read": _viewer("See a tenant."),
    "tenant.create": _manager("Create a tenant below this one; only operators create one at the top."),
    "tenant.edit": _manager("Rename or describe a tenant."),
    "tenant.disable": _operator("Disable a tenant, so that nothing begins in it, and enable it again."),
    "tenant.delete": _operator("Delete a disabled tenant; what it used stays in the ledger."),
    "member.read": _viewer("See who belongs to a tenant."),
    "member.edit": _manager("Add, change and remove members."),
    "invitation.read": _manager("See open invitations."),
    "invitation.create": _manager("Invite somebody by a code that works once."),
    "invitation.delete": _manager("Withdraw an invitation."),
    "invitation.accept": _self("Take up an invitation to one's own address."),
    "secret.read": Permission(TenantRole.MEMBER, Scope.READ, "See the names of secrets, never a value.", operator=False),
    "secret.edit": _manager("Set a secret.", operator=False),
    "secret.delete": _manager("Delete a secret.", operator=False),
    "service_account.read": _viewer("See a tenant's service accounts."),
    "service_account.edit": _manager("Create service accounts and their tokens.", operator=False),
    "user.read": _everyone("See oneself and the people of one's tenants; operators see everybody."),
    "user.create": _operator("Create users, one by one or from CSV."),
    "user.edit": _operator("Change, disable and enable users, and revoke their tokens."),
    "user.edit_self": _self("Change one's own e-mail address and password."),
    "token.read": _self("See one's own tokens, never their secret part.", scope=Scope.READ),
    "token.create": _self("Create a token with at most one's own scopes."),
    "token.delete": _self("Revoke one's own token."),
    "session.read": _self("See where one is signed in with a browser.", scope=Scope.READ),
    "session.delete": _self("End one's own session of a browser."),
    # Capacity.
    "queue.read": _viewer("See a queue, its limits and its use."),
    "queue.create": _manager("Split a tenant's queue."),
    "queue.edit": _manager("Rename a queue."),
    "queue.limit": _manager("Set limits of a queue; asked of the tenant that owns the queue above it."),
    "quota_edit.read": _viewer("See edits of limits, also those whose time is still to come."),
    "quota_edit.cancel": _manager("Cancel an edit of limits before its time."),
    "quota_request.read": _viewer("See limits that the tenant asked for."),
    "quota_request.create": _manager(
        "Ask for other limits of the tenant's queues; a person who may set them decides.", operator=False
    ),
    "quota_request.delete": _manager("Withdraw a request for other limits."),
    "cap.read": _viewer("See what one person may hold in a tenant."),
    "cap.edit": _manager("Cap what one person may hold in a tenant."),
    "priority_grant.read": _viewer("See which priority each role may use by itself."),
    "priority_grant.edit": _manager("Say which priority members may use; for managers, asked of the tenant above."),
    "booking.read": _viewer("See a tenant's bookings of GPUs."),
    "booking.create": _manager("Book GPUs of a pool for a window."),
    "booking.cancel": _own(Scope.TENANT, "Give a booking up.", operator=True),
    "usage.read": _viewer("See what a tenant used."),
    "cost.read": Permission(TenantRole.MANAGER, Scope.READ, "See what use cost, line by line.", own=True),
    "statement.read": _manager("See a tenant's statements.", scope=Scope.READ),
    "share.read": _viewer("See what share of the pools a tenant was promised and got, and its signed weeks."),
    "budget.read": _viewer("See a queue's budget and what of it is spent."),
    "budget.edit": _manager("Set and remove budgets; asked of the tenant that owns the queue above."),
    "price.read": _everyone("See what resources cost; members of any tenant."),
    "price.edit": _operator("Set prices, and take back those that do not hold yet."),
    # Jobs.
    "job.read": _viewer("See a job, its attempts, tasks, events and metrics."),
    "job.logs": _viewer("Read what a job printed."),
    "job.artifacts": _viewer("Fetch what a job left behind.", operator=False),
    "job.submit": _member(Scope.JOBS, "Submit a job."),
    "job.rerun": _member(Scope.JOBS, "Run or clone a job again, as one's own."),
    "job.edit": _own(Scope.JOBS, "Change priority, tags, hold, queue or limits of a job.", operator=True),
    "job.move": _own(Scope.JOBS, "Move a waiting job: among one's own, or anybody's as a manager.", operator=True),
    "priority_request.read": _viewer("See who asked for a higher priority, and what became of it."),
    "priority_request.create": _own(Scope.JOBS, "Ask for a higher priority than one may use by oneself."),
    "priority_request.decide": _manager("Approve or deny what somebody else asked for.", scope=Scope.JOBS),
    "priority_request.delete": _own(Scope.JOBS, "Withdraw a request, or end an approval before its time.", operator=True),
    "job.prolong": _manager("Give a job more time than it asked for.", scope=Scope.JOBS),
    "job.stop": _own(Scope.JOBS, "Stop a job.", operator=True),
    "job.exec": _own(Scope.JOBS, "Open a terminal or run a command in a running task of a job."),
    "job.delete": _own(Scope.JOBS, "Delete an ended job."),
    "template.read": _viewer("See a tenant's templates; public ones are for everybody."),
    "template.create": _member(Scope.JOBS, "Keep a template for the tenant."),
    "template.edit": _own(Scope.JOBS, "Change a template.", operator=True),
    "template.delete": _own(Scope.JOBS, "Delete a template.", operator=True),
    "template.publish": _operator("Make templates public, and change public ones."),
    # Software and data.
    "image.read": _viewer("See an image of the tenant, or one that operators share with all."),
    "image.create": _member(Scope.DATA, "Add an image."),
    "image.edit": _own(Scope.DATA, "Change an image's description or build it again."),
    "image.delete": _own(Scope.DATA, "Delete an image."),
    "image.share": _operator("Add, change or delete images for all tenants."),
    "volume.read": _viewer("See a volume."),
    "volume.create": _member(Scope.DATA, "Create a volume."),
    "volume.edit": _own(Scope.DATA, "Describe a volume."),
    "volume.delete": _own(Scope.DATA, "Delete a volume."),
    "volume.grant": _manager("Let another tenant mount a volume.", operator=False, scope=Scope.DATA),
    "volume.files": _viewer("List and read files of a volume.", operator=False),
    "volume.write": _member(Scope.DATA, "Write and delete files of a volume."),
    "upload.read": Permission(TenantRole.MANAGER, Scope.READ, "See how far an upload is.", operator=False, own=True),
    "upload.create": _member(Scope.DATA, "Start an upload."),
    "upload.write": _own(Scope.DATA, "Continue an upload."),
    "upload.delete": _own(Scope.DATA, "Give an upload up."),
    "artifact.read": _viewer("See and fetch an artifact.", operator=False),
    "code.read": _viewer("See a code snapshot.", operator=False),
    "code.create": _member(Scope.DATA, "Store a code snapshot."),
    # The installation.
    "cluster.read": _everyone("See clusters; members of any tenant."),
    "cluster.edit": _operator("Add, change, enable and disable clusters."),
    "pool.read": _everyone("See pools; members of any tenant."),
    "pool.edit": _operator("Change pools."),
    "node.read": _everyone("See nodes and their load; members of any tenant."),
    "node.edit": _operator("Cordon, release and taint nodes."),
    "maintenance.read": _everyone("See planned maintenance of machines; members of any tenant."),
    "maintenance.edit": _operator("Plan maintenance of machines, and end it."),
    "quarantine.read": _operator("See what clusters run that the restored database does not know."),
    "quarantine.edit": _operator("Adopt or stop what is in quarantine."),
    "feature.read": _everyone("See which features are switched on."),
    "feature.edit": _operator("Switch features on and off, for the installation or a tenant."),
    "announcement.read": _viewer("See a tenant's announcements; those for everybody are for every signed-in user."),
    "announcement.create": _manager("Announce something to a tenant; to everybody, operators."),
    "announcement.edit": _manager("Change an announcement."),
    "announcement.delete": _manager("Take an announcement back."),
    "selftest.read": _operator("Read how tenants were tried against each other."),
    "metrics.read": _operator("Scrape the platform's own metrics."),
    # What happened.
    "event.read": _viewer("See and follow a tenant's events."),
    "ticket.create": _self("Get a one-time ticket for a live connection.", scope=Scope.READ),
    "audit.read": _manager("See who did what in a tenant.", scope=Scope.READ),
    "preference.edit": _self("Change one's own preferences."),
    "saved_filter.read": _self("See one's own saved filters.", scope=Scope.READ),
    "saved_filter.create": _self("Save a filter."),
    "saved_filter.delete": _self("Delete one's own saved filter."),
    "subscription.read": _self("See one's own subscriptions.", scope=Scope.READ),
    "subscription.create": _self("Subscribe to notifications."),
    "subscription.edit": _self("Change one's own subscription."),
    "subscription.delete": _self("Delete one's own subscription."),
    "delivery.read": _self("See how one's own notifications fared.", scope=Scope.READ),
    "delivery.retry": _self("Send one's own notification again."),
}


def effective_scopes(scopes: Iterable[str]) -> frozenset[str] | None:
    """What the scopes stored on a token allow; None for no limit. Any scope includes reading."""
    given = frozenset(scopes)
    return None if Scope.ALL in given else given | {str(Scope.READ)}


def as_markdown() -> str:
    """The table as a page of documentation."""
    lines = [
        "# Permissions",
        "",
        "Roles are viewer < member < manager; a role in a tenant holds in all tenants below it. An operator looks after the",
        "installation and gets at a tenant's own contents (secrets, files, submitting) only through a role in that tenant.",
        "What you may not see does not exist for you (404); what you see but may not do is refused (403).",
        "",
        "This page is produced from `tenants/permissions.py` by `PYTHONPATH=.:platform python -m tenants.permissions`.",
        "",
        "| Verb | Meaning | Who | Token scope |",
        "|---|---|---|---|",
        *(f"| `{verb}` | {entry.means} | {entry.who()} | `{entry.scope}` |" for verb, entry in PERMISSIONS.items()),
        "",
        "## Token scopes",
        "",
        "| Scope | Allows |",
        "|---|---|",
        *(f"| `{scope}` | {SCOPE_MEANS[scope]} |" for scope in Scope),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.stdout.write(as_markdown())
