"""Who may do what, as one table. `docs/permissions.md` is produced from it: `python -m tenants.identity.permissions`.

Roles are inherited down the tenant tree. An operator holds the whole installation, but gets at a tenant's own contents
(secrets, files, submitting in its name) only through a role in that tenant.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from kernel.actor import TenantRole
from kernel.words import Text

ROLE_NAMES = {
    TenantRole.VIEWER: Text("viewer", "查看者"),
    TenantRole.MEMBER: Text("member", "成员"),
    TenantRole.MANAGER: Text("manager", "管理员"),
}
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
    Scope.ALL: "All rights of the user.",
    Scope.READ: "Read all that the user may see. Part of every other scope.",
    Scope.JOBS: "Submit, change and stop jobs.",
    Scope.DATA: "Write volumes, uploads, code and images.",
    Scope.TENANT: "Manage tenants: members, secrets, queues, service accounts.",
    Scope.ACCOUNT: "The user's own tokens, subscriptions and invitations.",
    Scope.OPERATE: "Rights of operators only.",
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

    def who(self) -> Text[str]:
        """The same in words, for the documentation and for refusals."""
        people = [Text("every signed-in user", "所有已登录用户")] if self.everyone else []
        if self.minimum is not None:
            role = ROLE_NAMES[self.minimum]
            is_last = self.minimum == TenantRole.MANAGER
            people.append(role if is_last else Text(f"{role.en} and above", f"{role.zh}及以上"))
        if self.own:
            people.append(Text("member, for their own", "成员（仅限本人的）"))
        if self.operator and not self.everyone:
            people.append(Text("operator", "运维人员"))
        return Text("; ".join(text.en for text in people), "；".join(text.zh for text in people))


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
    "tenant.disable": _operator("Disable a tenant, so that no job is submitted or started in it, and enable it again."),
    "tenant.delete": _operator("Delete a disabled tenant; its usage stays in the ledger."),
    "member.read": _viewer("See members of a tenant."),
    "member.edit": _manager("Add, change and remove members."),
    "invitation.read": _manager("See open invitations."),
    "invitation.create": _manager("Invite a user by a one-time code."),
    "invitation.delete": _manager("Withdraw an invitation."),
    "invitation.accept": _self("Accept an invitation to your own address."),
    "secret.read": Permission(TenantRole.MEMBER, Scope.READ, "See names of secrets, never values.", operator=False),
    "secret.edit": _manager("Set a secret.", operator=False),
    "secret.delete": _manager("Delete a secret.", operator=False),
    "registry.read": Permission(
        TenantRole.MEMBER, Scope.READ, "See and check a tenant's accounts at registries, never passwords.", operator=False
    ),
    "registry.edit": _manager("Set an account at a registry.", operator=False),
    "registry.delete": _manager("Delete an account at a registry.", operator=False),
    "service_account.read": _viewer("See a tenant's service accounts."),
    "service_account.edit": _manager("Create service accounts and their tokens.", operator=False),
    "user.read": _everyone("See yourself and the members of your tenants; operators see all users."),
    "user.create": _operator("Create users, singly or from CSV."),
    "user.edit": _operator("Change, disable and enable users, and revoke their tokens."),
    "user.edit_self": _self("Change your own e-mail address and password."),
    "token.read": _self("See your own tokens, never their secret part.", scope=Scope.READ),
    "token.create": _self("Create a token with your own scopes or fewer."),
    "token.delete": _self("Revoke your own token."),
    "session.read": _self("See your own browser sessions.", scope=Scope.READ),
    "session.delete": _self("End your own browser session."),
    # Capacity.
    "queue.read": _viewer("See a queue, its limits and its use."),
    "queue.create": _manager("Create queues below a tenant's queue."),
    "queue.edit": _manager("Rename a queue."),
    "queue.delete": _manager("Delete an empty queue."),
    "queue.limit": _manager("Set limits of a queue; checked in the tenant that owns the queue above it."),
    "quota_edit.read": _viewer("See edits of limits, including scheduled edits."),
    "quota_edit.cancel": _manager("Cancel a scheduled edit of limits."),
    "quota_request.read": _viewer("See limits that the tenant requested."),
    "quota_request.create": _manager(
        "Request other limits of the tenant's queues; a user who may set them decides.", operator=False
    ),
    "quota_request.delete": _manager("Withdraw a request for other limits."),
    "cap.read": _viewer("See per-user caps of a tenant."),
    "cap.edit": _manager("Set per-user caps of a tenant."),
    "priority_grant.read": _viewer("See the priority limit of each role."),
    "priority_grant.edit": _manager("Set the priority limit of members; for managers, checked in the tenant above."),
    "booking.read": _viewer("See a tenant's bookings of GPUs."),
    "booking.create": _manager("Book GPUs of a pool for a time window."),
    "booking.cancel": _own(Scope.TENANT, "Cancel a booking.", operator=True),
    "usage.read": _viewer("See the usage of a tenant."),
    "cost.read": Permission(TenantRole.MANAGER, Scope.READ, "See the cost of usage, line by line.", own=True),
    "statement.read": _manager("See a tenant's statements.", scope=Scope.READ),
    "share.read": _viewer("See the deserved and delivered shares of a tenant, and its signed weeks."),
    "budget.read": _viewer("See a queue's budget, and the amount spent."),
    "budget.edit": _manager("Set and remove budgets; checked in the tenant that owns the queue above."),
    "price.read": _everyone("See prices of resources; members of any tenant."),
    "price.edit": _operator("Set prices, and withdraw prices that are not effective yet."),
    # Jobs.
    "job.read": _viewer("See a job, its attempts, tasks, events and metrics."),
    "job.logs": _viewer("Read logs of a job."),
    "job.artifacts": _viewer("Download artifacts of a job.", operator=False),
    "job.submit": _member(Scope.JOBS, "Submit a job."),
    "job.rerun": _member(Scope.JOBS, "Rerun or clone a job, as your own job."),
    "job.edit": _own(Scope.JOBS, "Change priority, tags, hold, queue or limits of a job.", operator=True),
    "job.move": _own(Scope.JOBS, "Move a waiting job among your own; managers move all jobs.", operator=True),
    "priority_request.read": _viewer("See requests for a higher priority, and their decisions."),
    "priority_request.create": _own(Scope.JOBS, "Request a priority above your own limit."),
    "priority_request.decide": _manager("Approve or deny a request of another user.", scope=Scope.JOBS),
    "priority_request.delete": _own(Scope.JOBS, "Withdraw a request, or end an approved window.", operator=True),
    "job.prolong": _manager("Raise the run time limit of a job.", scope=Scope.JOBS),
    "job.stop": _own(Scope.JOBS, "Stop a job.", operator=True),
    "job.exec": _own(Scope.JOBS, "Open a terminal or run a command in a running task of a job."),
    "job.delete": _own(Scope.JOBS, "Delete an ended job."),
    "template.read": _viewer("See a tenant's templates; public templates are for all users."),
    "template.create": _member(Scope.JOBS, "Create a template of the tenant."),
    "template.edit": _own(Scope.JOBS, "Change a template.", operator=True),
    "template.delete": _own(Scope.JOBS, "Delete a template.", operator=True),
    "template.publish": _operator("Publish templates, and change public templates."),
    # Software and data.
    "image.read": _viewer("See an image of the tenant, or an image shared with all tenants."),
    "image.create": _member(Scope.DATA, "Add an image."),
    "image.edit": _own(Scope.DATA, "Change an image's description, or rebuild it."),
    "image.delete": _own(Scope.DATA, "Delete an image."),
    "image.share": _operator("Add, change or delete images for all tenants."),
    "volume.read": _viewer("See a volume."),
    "volume.create": _member(Scope.DATA, "Create a volume."),
    "volume.place": _operator("Create, change and delete volumes on NFS and on existing claims."),
    "volume.edit": _own(Scope.DATA, "Describe a volume."),
    "volume.delete": _own(Scope.DATA, "Delete a volume."),
    "volume.grant": _manager("Let another tenant mount a volume.", operator=False, scope=Scope.DATA),
    "volume.files": _viewer("List and read files of a volume.", operator=False),
    "volume.write": _member(Scope.DATA, "Write and delete files of a volume."),
    "upload.read": Permission(TenantRole.MANAGER, Scope.READ, "See the progress of an upload.", operator=False, own=True),
    "upload.create": _member(Scope.DATA, "Start an upload."),
    "upload.write": _own(Scope.DATA, "Continue an upload."),
    "upload.delete": _own(Scope.DATA, "Cancel an upload."),
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
    "maintenance.read": _everyone("See maintenance windows of nodes; members of any tenant."),
    "maintenance.edit": _operator("Plan maintenance windows of nodes, and end them."),
    "quarantine.read": _operator("See attempts on clusters that the restored database does not know."),
    "quarantine.edit": _operator("Adopt or stop attempts in quarantine."),
    "feature.read": _everyone("See features, and whether each is on."),
    "feature.edit": _operator("Switch features on and off, for the installation or a tenant."),
    "announcement.read": _viewer("See a tenant's announcements; every signed-in user sees announcements to all users."),
    "announcement.create": _manager("Publish an announcement to a tenant; operators also to all users."),
    "announcement.edit": _manager("Change an announcement."),
    "announcement.delete": _manager("Withdraw an announcement."),
    "selftest.read": _operator("Read results of the tenant escape self-test."),
    "metrics.read": _operator("Scrape the platform's own metrics."),
    # What happened.
    "event.read": _viewer("See and follow a tenant's events."),
    "ticket.create": _self("Get a one-time ticket for a live connection.", scope=Scope.READ),
    "audit.read": _manager("Read the audit log of a tenant.", scope=Scope.READ),
    "preference.edit": _self("Change your own preferences."),
    "saved_filter.read": _self("See your own saved filters.", scope=Scope.READ),
    "saved_filter.create": _self("Save a filter."),
    "saved_filter.delete": _self("Delete your own saved filter."),
    "subscription.read": _self("See your own subscriptions.", scope=Scope.READ),
    "subscription.create": _self("Subscribe to notifications."),
    "subscription.edit": _self("Change your own subscription."),
    "subscription.delete": _self("Delete your own subscription."),
    "delivery.read": _self("See your own deliveries.", scope=Scope.READ),
    "delivery.retry": _self("Resend your own notification."),
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
        "Roles are viewer < member < manager; a role in a tenant holds in all tenants below it. An operator manages the",
        "installation and gets access to a tenant's own contents (secrets, files, submitting) only through a role "
        "in that tenant.",
        "Objects that you may not see do not exist for you (404); an operation that you may not use is refused (403).",
        "",
        "This page is produced from `tenants/identity/permissions.py`: "
        "`PYTHONPATH=.:platform python -m tenants.identity.permissions`.",
        "",
        "| Verb | Meaning | Who | Token scope |",
        "|---|---|---|---|",
        *(f"| `{verb}` | {entry.means} | {entry.who().en} | `{entry.scope}` |" for verb, entry in PERMISSIONS.items()),
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
