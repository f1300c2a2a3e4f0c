"""The access policy: turns a user's memberships into an Actor, and the permission table into answers.

`webapi/access.py` holds the mechanism (nothing is served without a rule); this module registers the rules of this app and of
the apps below it. Apps above register their own models with `tenant_rule`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.apps import apps
from django.db.models import Model, Q

from kernel.actor import Actor, TenantRole
from kernel.errors import Forbidden, NotAuthenticated, NotFound
from tenants.ledger_models import Price
from tenants.models import (
    Announcement,
    Booking,
    BrowserSession,
    Invitation,
    Membership,
    PriorityGrant,
    Queue,
    QuotaEdit,
    QuotaRequest,
    SavedFilter,
    Secret,
    Tenant,
    TenantAncestor,
    Token,
    TokenKind,
    User,
    UserCap,
    UserKind,
)
from tenants.permissions import PERMISSIONS, ROLE_RANK, Permission, effective_scopes
from tenants.standing import demand_enabled
from webapi.access import Granted, note_grant, register, register_holds


def actor_for(user: User, token: Token | None, *, request_id: str = "") -> Actor:
    """The user as an actor, with inherited roles, through one credential (None: a session). One query."""
    return Actor(
        user_id=user.pk,
        name=user.name,
        is_operator=user.is_operator,
        roles=roles_of(user.pk),
        scopes=None if token is None else effective_scopes(token.scopes),
        token_id=None if token is None else token.pk,
        request_id=request_id,
    )


def operator_actor(user: object, *, request_id: str = "") -> Actor | None:
    """The actor of a person who operates the installation now, in a session; None for everybody else. One query."""
    if not isinstance(user, User) or not (user.is_active and user.is_operator and user.kind == UserKind.PERSON):
        return None
    return actor_for(user, None, request_id=request_id)


def roles_of(user_id: uuid.UUID) -> dict[uuid.UUID, TenantRole]:
    """The strongest role in every tenant that the user reaches: where a membership is, and below. One query."""
    return roles_of_many([user_id]).get(user_id, {})


def roles_of_many(user_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, dict[uuid.UUID, TenantRole]]:
    """The same for many users. One query."""
    roles: dict[uuid.UUID, dict[uuid.UUID, TenantRole]] = {}
    rows = Membership.objects.filter(user_id__in=frozenset(user_ids))
    rows = rows.filter(tenant__descendant_links__tenant__deleted_at__isnull=True)
    for user_id, tenant_id, text in rows.values_list("user_id", "tenant__descendant_links__tenant_id", "role"):
        role, own = TenantRole(text), roles.setdefault(user_id, {})
        if tenant_id not in own or ROLE_RANK[role] > ROLE_RANK[own[tenant_id]]:
            own[tenant_id] = role
    return roles


def role_allows(actor: Actor, tenant_id: uuid.UUID | None, verb: str, owner_id: uuid.UUID | None = None) -> bool:
    """Whether the actor may do `verb` in a tenant, to something that belongs to `owner_id` if given.

    `tenant_id` None stands for the installation. A verb that the table does not know is our mistake: LookupError.
    """
    permission = permission_of(verb)
    if is_system(actor):
        return True
    if _role_allows(actor, tenant_id, permission):
        note_grant(Granted(tenant_id, verb))
        return True
    if owner_id == actor.user_id and _owner_allows(actor, tenant_id, permission):
        note_grant(Granted(tenant_id, verb, is_own=True))
        return True
    return False


def _role_allows(actor: Actor, tenant_id: uuid.UUID | None, permission: Permission) -> bool:
    """Whether the actor may do it to anything in the tenant."""
    if not actor.is_authenticated or not _in_scope(actor, permission):
        return False
    if permission.everyone or (permission.operator and actor.is_operator):
        return True
    role = actor.roles.get(tenant_id) if tenant_id is not None else None
    return role is not None and permission.minimum is not None and ROLE_RANK[role] >= ROLE_RANK[permission.minimum]


def _owner_allows(actor: Actor, tenant_id: uuid.UUID | None, permission: Permission) -> bool:
    """Whether the actor may do it there to what belongs to them."""
    role = actor.roles.get(tenant_id) if tenant_id is not None else None
    may = permission.own and actor.is_authenticated and _in_scope(actor, permission)
    return may and role is not None and ROLE_RANK[role] >= ROLE_RANK[TenantRole.MEMBER]


def _holds(actor: Actor, granted: Granted) -> bool:
    """Whether a right that was granted is still there. For `webapi.access.holds`."""
    return role_allows(actor, granted.tenant_id, granted.verb, actor.user_id if granted.is_own else None)


def demand(actor: Actor, tenant_id: uuid.UUID | None, verb: str, owner_id: uuid.UUID | None = None) -> None:
    """Raise unless `role_allows`: NotFound where the actor may not know the tenant, Forbidden where it does; TenantDisabled
    where it would begin something in a disabled tenant."""
    if role_allows(actor, tenant_id, verb, owner_id):
        if tenant_id is not None:
            demand_enabled(tenant_id, verb)
        return
    if not actor.is_authenticated:
        raise NotAuthenticated("This needs a token.", hint="Run `berth login`, or send `Authorization: Bearer <token>`.")
    if tenant_id is not None and tenant_id not in actor.roles and not actor.is_operator:
        raise NotFound("There is no such tenant.", hint="`berth whoami` lists the tenants that you belong to.")
    permission = permission_of(verb)
    if not _in_scope(actor, permission):
        raise Forbidden(
            f"This token's scopes do not include {permission.scope}.", hint=f"Use a token with the scope {permission.scope}."
        )
    if tenant_id is None and _in_one_tenant(actor, permission):
        raise Forbidden(
            f"{actor.name} may do this for one tenant; for all tenants together it is for operators.",
            hint="Name a tenant in which your role allows it (`tenant`).",
        )
    raise Forbidden(
        f"{actor.name} may not do this. It is for: {permission.who()}.", hint="Ask a manager of the tenant, or an operator."
    )


def _in_one_tenant(actor: Actor, permission: Permission) -> bool:
    """Whether the actor's role in any tenant would do: then no tenant was named where one must be."""
    minimum = permission.minimum
    return minimum is not None and any(ROLE_RANK[role] >= ROLE_RANK[minimum] for role in actor.roles.values())


def in_scope(actor: Actor, verb: str) -> bool:
    """Whether the scopes of the actor's token cover `verb`, whatever the role."""
    return _in_scope(actor, permission_of(verb))


def permission_of(verb: str) -> Permission:
    """The table's row of a verb; LookupError for a verb that nobody entered."""
    try:
        return PERMISSIONS[verb]
    except KeyError:
        raise LookupError(f"{verb} is not in the table of permissions; enter it in tenants/permissions.py") from None


def is_system(actor: Actor) -> bool:
    """Whether the platform itself acts. No user can be named so: names hold no colon."""
    return actor.user_id is None and actor.name.startswith("system:")


def tenants_with(actor: Actor, verb: str) -> frozenset[uuid.UUID] | None:
    """Tenants in which the actor may do `verb` to anything; None for all of them."""
    permission = permission_of(verb)
    if is_system(actor):
        return None
    if not actor.is_authenticated or not _in_scope(actor, permission):
        return frozenset()
    if permission.operator and actor.is_operator:
        return None
    if permission.minimum is None:
        return frozenset()
    rank = ROLE_RANK[permission.minimum]
    return frozenset(tenant_id for tenant_id, role in actor.roles.items() if ROLE_RANK[role] >= rank)


def tenant_rule(
    model: type[Model],
    column: str = "tenant_id",
    *,
    noun: str = "",
    owner: str = "",
    shared: Callable[[Actor], Q | None] | None = None,
) -> None:
    """Register a model whose rows belong to the tenant in `column` (`job__tenant_id` for one reached through another).

    Rows are visible to whoever may `<noun>.read` there; `noun` is the model's name unless given. `owner` names the column of
    the user that a row belongs to. `shared` adds rows that the actor sees for another reason, such as a volume granted to
    its tenant; for reading it is enough that a row is visible, any other verb asks for a role in the row's own tenant.
    """
    noun = noun or str(model._meta.model_name)
    read = f"{noun}.read"
    owner_may_read = bool(owner) and permission_of(read).own

    def sees(actor: Actor) -> Q | None:
        tenant_ids = tenants_with(actor, read)
        if tenant_ids is None:
            return Q()
        if not actor.is_authenticated:
            return None
        condition = Q(**{f"{column}__in": tenant_ids})
        if owner_may_read:
            condition |= Q(**{owner: actor.user_id, f"{column}__in": frozenset(actor.roles)})
        extra = shared(actor) if shared else None
        return condition if extra is None else condition | extra

    def allows(actor: Actor, found: Any, verb: str) -> bool:
        if verb == read:
            return True  # `fetch` found it among the visible rows.
        owner_id = _value(found, owner) if owner else None
        return role_allows(actor, _value(found, column), verb, owner_id)

    register(model, sees=sees, allows=allows)


def own_rule(model: type[Model], column: str = "user_id") -> None:
    """Register a model whose rows only the user in `column` sees and changes (`subscription__user_id` through another)."""

    def sees(actor: Actor) -> Q | None:
        if is_system(actor):
            return Q()
        return Q(**{column: actor.user_id}) if actor.is_authenticated else None

    def allows(actor: Actor, found: Any, verb: str) -> bool:
        mine = is_system(actor) or _value(found, column) == actor.user_id
        return mine and role_allows(actor, None, verb)

    register(model, sees=sees, allows=allows)


def installation_rule(model: type[Model]) -> None:
    """Register a model of the installation: whoever belongs to any tenant sees its rows, operators change them."""

    def sees(actor: Actor) -> Q | None:
        return Q() if actor.is_operator or actor.roles else None

    def allows(actor: Actor, found: Any, verb: str) -> bool:
        return role_allows(actor, None, verb)

    register(model, sees=sees, allows=allows)


def operators_rule(model: type[Model], read: str) -> None:
    """Register a model that exists for operators alone; `read` is the verb without which there is no row of it."""

    def sees(actor: Actor) -> Q | None:
        return Q() if role_allows(actor, None, read) else None

    def allows(actor: Actor, found: Any, verb: str) -> bool:
        return role_allows(actor, None, verb)

    register(model, sees=sees, allows=allows)


def register_policy() -> None:
    """Register the rules of this app and of the apps below it. Called once, from `AppConfig.ready`."""
    register_holds(_holds)
    tenant_rule(Tenant, "id")
    tenant_rule(Membership, noun="member")
    tenant_rule(Invitation)
    tenant_rule(Secret)
    tenant_rule(QuotaEdit, noun="quota_edit")
    tenant_rule(QuotaRequest, noun="quota_request")
    tenant_rule(UserCap, noun="cap")
    tenant_rule(PriorityGrant, noun="priority_grant")
    tenant_rule(Booking, owner="created_by_id")
    own_rule(SavedFilter)
    register(Announcement, sees=_sees_announcement, allows=_allows_announcement)
    limits = (
        "Those who manage the queue above a queue limit it, operators the top queue of a tenant. Limit a queue below your own."
    )
    register(Queue, sees=_sees_queue, allows=_allows_queue, hints={"queue.limit": limits})
    register(User, sees=_sees_user, allows=_allows_user)
    register(Token, sees=_sees_token, allows=_allows_token)
    register(BrowserSession, sees=_sees_session, allows=_allows_session)
    for label in ("clusters.Cluster", "clusters.Pool", "clusters.Node", "clusters.MaintenanceWindow"):
        installation_rule(apps.get_model(label))
    installation_rule(Price)
    operators_rule(apps.get_model("clusters.Quarantined"), "quarantine.read")
    tenant_rule(apps.get_model("activity.AuditEvent"), noun="audit")
    tenant_rule(apps.get_model("activity.Event"))
    own_rule(apps.get_model("activity.Subscription"))
    own_rule(apps.get_model("activity.Delivery"))


def _in_scope(actor: Actor, permission: Permission) -> bool:
    return actor.scopes is None or str(permission.scope) in actor.scopes


def _value(found: Any, column: str) -> Any:
    """The value behind a lookup path such as `job__tenant_id`."""
    for step in column.split("__"):
        found = getattr(found, step)
    return found


def _sees_queue(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "queue.read")
    return Q() if tenant_ids is None else Q(tenant_id__in=tenant_ids)


def _allows_queue(actor: Actor, queue: Any, verb: str) -> bool:
    if verb in {"queue.limit", "budget.edit"}:  # Capacity is given by whoever owns the queue above; root's by operators.
        return queue.parent_id is not None and role_allows(actor, queue.parent.tenant_id, verb)
    return role_allows(actor, queue.tenant_id, verb)


def _sees_announcement(actor: Actor) -> Q | None:
    tenant_ids = tenants_with(actor, "announcement.read")
    if tenant_ids is None:
        return Q()
    if not actor.is_authenticated:
        return None
    return announced_in(tenant_ids)


def announced_in(tenant_ids: Iterable[uuid.UUID]) -> Q:
    """Announcements that reach these tenants: their own, those of all above them, and those to everybody. No query of its own."""
    reached = TenantAncestor.objects.filter(tenant_id__in=tenant_ids).values("ancestor_id")
    return Q(tenant_id__in=reached) | Q(tenant_id__isnull=True)


def _allows_announcement(actor: Actor, announcement: Any, verb: str) -> bool:
    return verb == "announcement.read" or role_allows(actor, announcement.tenant_id, verb)


def _sees_user(actor: Actor) -> Q | None:
    if actor.is_operator or is_system(actor):
        return Q()
    if not actor.is_authenticated:
        return None
    shared = Membership.objects.filter(tenant_id__in=frozenset(actor.roles)).values("user_id")
    return Q(id=actor.user_id) | Q(id__in=shared) | Q(tenant_id__in=frozenset(actor.roles))


def _allows_user(actor: Actor, user: Any, verb: str) -> bool:
    if verb == "user.edit_self":
        return bool(user.pk == actor.user_id) and role_allows(actor, None, verb)
    if verb.startswith("service_account."):
        return user.tenant_id is not None and role_allows(actor, user.tenant_id, verb)
    return role_allows(actor, None, verb)


def _sees_token(actor: Actor) -> Q | None:
    if not actor.is_authenticated:
        return Q() if is_system(actor) else None
    whose = Q() if actor.is_operator else looked_after(actor)
    return whose & Q(kind=TokenKind.PERSONAL)


def looked_after(actor: Actor) -> Q:
    """Tokens of one's own, and of service accounts in tenants that one manages."""
    return Q(user_id=actor.user_id) | Q(user__tenant_id__in=tenants_with(actor, "service_account.edit") or frozenset())


def _sees_session(actor: Actor) -> Q | None:
    return Q(user_id=actor.user_id, kind=TokenKind.SESSION) if actor.is_authenticated else None


def _allows_session(actor: Actor, session: Any, verb: str) -> bool:
    return session.user_id == actor.user_id and role_allows(actor, None, verb)


def _allows_token(actor: Actor, token: Any, verb: str) -> bool:
    return role_allows(actor, *right_to_token(actor, token, verb))


def right_to_token(actor: Actor, token: Token, verb: str) -> tuple[uuid.UUID | None, str]:
    """In which tenant, None for the installation, the actor needs which permission for this token."""
    if token.user_id == actor.user_id:
        return None, verb
    if token.user.tenant_id is None:
        return None, "user.edit"  # Who may lock somebody out may take one of their tokens away.
    return token.user.tenant_id, "service_account.edit"
