"""The access policy: turns a user's memberships into an Actor, and the permission table into answers.

`webapi/access.py` holds the mechanism: nothing is served without a rule. Each room of this app registers those of its own rows in
`register_rules`, `tenants/access.py` those of the apps below, and apps above their own with `tenant_rule`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from django.db.models import Model, Q

from kernel.actor import Actor, TenantRole
from kernel.errors import Forbidden, NotFound
from kernel.words import Text
from tenants.identity.models import (
    BrowserSession,
    Invitation,
    Membership,
    Secret,
    Tenant,
    Token,
    TokenKind,
    User,
    UserKind,
)
from tenants.identity.permissions import PERMISSIONS, ROLE_NAMES, ROLE_RANK, Permission, effective_scopes
from tenants.identity.standing import demand_enabled
from webapi.access import Granted, needs_token, note_grant, register, register_holds

TENANTS_NAMED = 5  # In a hint; `berth whoami` lists all of them.


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
    """The actor of a person who operates the installation now, in a session; None for all others. One query."""
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
        raise needs_token()
    if tenant_id is not None and tenant_id not in actor.roles and not actor.is_operator:
        raise NotFound(
            Text("There is no such tenant.", "没有这个租户。"),
            hint=Text("`berth whoami` lists the tenants that you belong to.", "`berth whoami` 列出您所属的租户。"),
        )
    permission = permission_of(verb)
    if not _in_scope(actor, permission):
        raise Forbidden(
            Text(f"This token's scopes do not include {permission.scope}.", f"此令牌的权限范围不含 {permission.scope}。"),
            hint=Text(f"Use a token with the scope {permission.scope}.", f"请使用权限范围含 {permission.scope} 的令牌。"),
        )
    if tenant_id is not None:
        raise _refused_in(actor, tenant_id, permission)
    if names := _tenants_that_allow(actor, permission):
        raise Forbidden(
            Text(
                f"{actor.name} may do this for one tenant at a time; for all tenants together it is for operators.",
                f"{actor.name} 只能针对单个租户执行此操作；针对全部租户仅限运维人员。",
            ),
            hint=Text(
                f"Name a tenant in which your role allows it, with `tenant` (`--tenant`): {', '.join(names)}.",
                f"请用 `tenant`（`--tenant`）指定您有权限的租户：{'、'.join(names)}。",
            ),
        )
    who = permission.who()
    raise Forbidden(
        Text(f"{actor.name} may not do this. It is for: {who.en}.", f"{actor.name} 无权执行此操作。有权者：{who.zh}。"),
        hint=_whom_to_ask(permission, ""),
    )


def _refused_in(actor: Actor, tenant_id: uuid.UUID, permission: Permission) -> Forbidden:
    """The refusal in a tenant that the actor knows. One query."""
    name = Tenant.objects.filter(id=tenant_id).values_list("name", flat=True).first() or ""
    role, who = actor.roles.get(tenant_id), permission.who()
    held = Text(f"as {role}", f"角色为{ROLE_NAMES[role].zh}") if role else Text("without a role there", "在其中没有角色")
    return Forbidden(
        Text(
            f"{actor.name} may not do this in tenant {name} {held.en}. It is for: {who.en}.",
            f"{actor.name} 无权在租户 {name} 中执行此操作（{held.zh}）。有权者：{who.zh}。",
        ),
        hint=_whom_to_ask(permission, name),
    )


def _whom_to_ask(permission: Permission, tenant: str) -> Text[str]:
    """Who gives the role that a verb needs; `tenant`: its name, where one was named."""
    if permission.minimum is None:
        return Text("Ask an operator.", "请联系运维人员。")
    if not tenant:
        return Text("Ask a manager of the tenant, or an operator.", "请联系租户管理员或运维人员。")
    return Text(
        f"Ask a manager of tenant {tenant} for the role: `berth members --tenant {tenant}` lists them.",
        f"请向租户 {tenant} 的管理员申请角色：`berth members --tenant {tenant}` 可列出管理员。",
    )


def _tenants_that_allow(actor: Actor, permission: Permission) -> list[str]:
    """Names of the first tenants in which the actor's role would do: none of them was named. One query."""
    minimum = permission.minimum
    if minimum is None:
        return []
    enough = [tenant_id for tenant_id, role in actor.roles.items() if ROLE_RANK[role] >= ROLE_RANK[minimum]]
    rows = Tenant.objects.filter(id__in=enough, deleted_at__isnull=True).order_by("name", "id")
    return list(rows.values_list("name", flat=True)[:TENANTS_NAMED])


def in_scope(actor: Actor, verb: str) -> bool:
    """Whether the scopes of the actor's token cover `verb`, whatever the role."""
    return _in_scope(actor, permission_of(verb))


def permission_of(verb: str) -> Permission:
    """The table's row of a verb; LookupError for a verb that is not in it."""
    try:
        return PERMISSIONS[verb]
    except KeyError:
        raise LookupError(f"{verb} is not in the table of permissions; enter it in tenants/identity/permissions.py") from None


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

    Rows are visible to actors who may `<noun>.read` there; `noun` is the model's name unless given. `owner` names the column of
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
    """Register a model of the installation: members of any tenant see its rows, operators change them."""

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


def register_rules() -> None:
    """The rules of the rows of this room."""
    register_holds(_holds)
    tenant_rule(Tenant, "id")
    tenant_rule(Membership, noun="member")
    tenant_rule(Invitation)
    tenant_rule(Secret)
    register(User, sees=_sees_user, allows=_allows_user)
    register(Token, sees=_sees_token, allows=_allows_token)
    register(BrowserSession, sees=_sees_session, allows=_allows_session)


def _in_scope(actor: Actor, permission: Permission) -> bool:
    return actor.scopes is None or str(permission.scope) in actor.scopes


def _value(found: Any, column: str) -> Any:
    """The value behind a lookup path such as `job__tenant_id`."""
    for step in column.split("__"):
        found = getattr(found, step)
    return found


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
        return None, "user.edit"  # An actor who may lock a user out may take a token of theirs away.
    return token.user.tenant_id, "service_account.edit"
