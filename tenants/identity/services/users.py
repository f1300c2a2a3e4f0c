"""Users: made and disabled by operators, or by accepting an invitation. They are never deleted: what they did keeps a name."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from django.db import IntegrityError, transaction
from django.db.models import F

from activity.services import NewEvent, record_audit, record_events
from activity.sessions import recheck
from kernel.actor import Actor, TenantRole
from kernel.errors import Conflict, FieldError, Forbidden, InvalidInput, PreconditionFailed
from kernel.words import Text
from tenants.identity.access import demand, role_allows
from tenants.identity.models import Membership, Tenant, Token, TokenKind, User, UserKind
from tenants.identity.permissions import ROLE_RANK
from tenants.identity.services import names, passwords
from tenants.identity.services.leaving import HOLD, Done, Settlement, settle, told
from tenants.identity.services.tokens import revoke_all


def create_user(
    *, actor: Actor, name: str, email: str = "", password: str | None = None, is_operator: bool = False, now: datetime
) -> User:
    """Create a person. Without a password they come in by an operator's invitation."""
    demand(actor, None, "user.create")
    problems = names.Problems()
    names.user_name(name, problems)
    email = names.email_address(email, problems)
    if password is not None:
        names.password(password, problems, user_name=name, email=email)
    problems.raise_if_any()
    with transaction.atomic():
        user = insert_user(name=name, email=email, email_is_confirmed=True, password=password, is_operator=is_operator, now=now)
        record_audit(
            actor=actor,
            verb="user.create",
            tenant_id=None,
            target_kind="user",
            target_id=user.pk,
            target_name=name,
            after={"name": name, "email": email, "is_operator": is_operator},
            at=now,
        )
    return user


def insert_user(
    *, name: str, email: str, email_is_confirmed: bool, password: str | None, is_operator: bool = False, now: datetime
) -> User:
    """Write a checked person's row, inside the caller's transaction. Conflict if the name is taken, or a confirmed address."""
    confirmed, claimed = (email, None) if email_is_confirmed else ("", email)
    user = User(name=name, email=confirmed, email_claimed=claimed, is_operator=is_operator, created_at=now)
    user.set_password(password)  # None makes it unusable.
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        taken = "name" if User.objects.filter(name=name).exists() else "e-mail address"
        raise Conflict(
            Text(f"This {taken} is taken.", f"此 {taken} 已被占用。"),
            hint=Text("Choose another, or sign in as that user.", "请换一个，或以该用户登录。"),
        ) from None
    return user


def update_user(
    *,
    actor: Actor,
    user: User,
    email: str | None = None,
    is_active: bool | None = None,
    is_operator: bool | None = None,
    expected_version: int | None = None,
    settlement: Settlement = HOLD,
    now: datetime,
) -> User:
    """Change a user. People change their own address; operators everything. Disabling ends all tokens and connections; what runs
    of theirs goes on and what waits is withheld, unless the settlement says otherwise.

    An address that an operator writes is confirmed by that, and Conflict if it is another account's. One that people write about
    themselves is not compared: the answer, the statements and the time are the same whether another account has it or not.
    """
    only_own = user.pk == actor.user_id and is_active is None and is_operator is None
    demand(actor, None, "user.edit_self" if only_own else "user.edit")
    changes = _checked_changes(actor, user, email=email, is_active=is_active, is_operator=is_operator, now=now)
    _check_settlement(settlement, changes)
    done: Done = {}
    with transaction.atomic():
        before = {key: getattr(user, key) for key in changes}
        if changes.get("is_active") is False or changes.get("is_operator") is False:
            _keep_an_operator(user)
        rows = User.objects.filter(id=user.pk)
        if expected_version is not None:
            rows = rows.filter(version=expected_version)
        if "email" in changes:
            rows = rows.filter(email=user.email)  # By what stood there it was decided that it may be written.
        try:
            with transaction.atomic():
                changed = rows.update(version=F("version") + 1, **changes)
        except IntegrityError:
            raise Conflict(
                Text("This e-mail address is taken.", "此电子邮件地址已被占用。"),
                hint=Text("Each address belongs to one user.", "每个地址只属于一名用户。"),
            ) from None
        if not changed:
            raise PreconditionFailed(
                Text("The user was changed meanwhile.", "用户已被他人修改。"),
                hint=Text("Read it again and repeat your change.", "请重新读取，再做修改。"),
            )
        user.refresh_from_db()
        if changes.get("is_active") is False:
            revoke_all(user, now=now)
            _tell(user, "user.disabled", now)
            done = settle(actor=actor, user=user, tenant_ids=None, settlement=settlement, now=now)
        record_audit(
            actor=actor,
            verb="user.edit",
            tenant_id=user.tenant_id,
            target_kind="user",
            target_id=user.pk,
            target_name=user.name,
            before=before,
            after={**changes, **told(settlement, done)},
            at=now,
        )
    return user


def disable_user(*, actor: Actor, user: User, now: datetime) -> User:
    """Lock a user out: no token, session or live connection of theirs works from now on. Twice is once."""
    return update_user(actor=actor, user=user, is_active=False, now=now)


def set_password(*, actor: Actor, user: User, old: str, new: str, now: datetime) -> None:
    """Change one's own password. Every token, session and connection ends but the session that changes it: an intruder with the
    old password is out (security T14). Every problem is told at once."""
    demand(actor, None, "user.edit_self")
    if user.pk != actor.user_id:
        raise Forbidden(Text("Only users themselves change their password.", "只有用户本人可以修改密码。"))
    passwords.demand_kept_here(user)
    problems = names.Problems()
    if len(old) > names.PASSWORD_LENGTH_MAX or not user.check_password(old):
        problems.add("/current", "wrong_password", Text("The old password is wrong.", "旧密码错误。"))
    elif old == new:
        problems.add("/new", "same_password", Text("The new password is the old one.", "新密码与旧密码相同。"))
    names.password(new, problems, user_name=user.name, email=user.address, path="/new")
    problems.raise_if_any()
    with transaction.atomic():
        user.set_password(new)
        User.objects.filter(id=user.pk).update(password=user.password, version=F("version") + 1)
        own = Token.objects.filter(id=actor.token_id, kind=TokenKind.SESSION, user=user).first() if actor.token_id else None
        ended = revoke_all(user, now=now, but=own.pk if own else None)
        record_audit(
            actor=actor,
            verb="user.edit_self",
            tenant_id=None,
            target_kind="user",
            target_id=user.pk,
            target_name=user.name,
            after={"password": "changed", "sessions_and_tokens_ended": ended},
            at=now,
        )


def create_service_account(
    *, actor: Actor, tenant: Tenant, name: str, role: TenantRole = TenantRole.MEMBER, now: datetime
) -> User:
    """Create an account for a program of one tenant. It is called `<name>@<slug>` and holds at most the creator's role."""
    demand(actor, tenant.pk, "service_account.edit")
    own = actor.roles.get(tenant.pk)
    if own is not None and ROLE_RANK[own] < ROLE_RANK[role]:
        raise Forbidden(
            Text("You cannot give a role above your own.", "不能授予高于自己的角色。"),
            hint=Text("Ask a manager of the tenant.", "请联系租户管理员。"),
        )
    problems = names.Problems()
    names.user_name(name, problems)
    problems.raise_if_any()
    full_name = f"{name}@{tenant.slug}"
    with transaction.atomic():
        user = User(name=full_name, kind=UserKind.SERVICE, tenant=tenant, created_at=now)
        user.set_unusable_password()
        try:
            with transaction.atomic():
                user.save(force_insert=True)
        except IntegrityError:
            raise Conflict(
                Text(f"This tenant already has a service account {name!r}.", f"该租户已有服务账户 {name!r}。"),
                hint=Text("Choose another name.", "请换一个名称。"),
            ) from None
        Membership.objects.create(tenant=tenant, user=user, role=role, created_at=now)
        record_audit(
            actor=actor,
            verb="service_account.edit",
            tenant_id=tenant.pk,
            target_kind="user",
            target_id=user.pk,
            target_name=full_name,
            after={"name": full_name, "role": role},
            at=now,
        )
    return user


def disable_service_account(*, actor: Actor, user: User, now: datetime) -> User:
    """End a service account: its tokens stop at once. What runs of it goes on, what waits is withheld until a manager hands it
    over (`hand_over`)."""
    demand(actor, user.tenant_id, "service_account.edit")
    with transaction.atomic():
        if User.objects.filter(id=user.pk, kind=UserKind.SERVICE, is_active=True).update(
            is_active=False, version=F("version") + 1
        ):
            revoke_all(user, now=now)
            _tell(user, "user.disabled", now)
        user.refresh_from_db()
        record_audit(
            actor=actor,
            verb="service_account.edit",
            tenant_id=user.tenant_id,
            target_kind="user",
            target_id=user.pk,
            target_name=user.name,
            after={"is_active": False},
            at=now,
        )
    return user


def _checked_changes(
    actor: Actor, user: User, *, email: str | None, is_active: bool | None, is_operator: bool | None, now: datetime
) -> dict[str, str | bool | datetime | None]:
    problems = names.Problems()
    changes: dict[str, str | bool | datetime | None] = {}
    if email is not None:
        address = names.email_address(email, problems)
        if role_allows(actor, None, "user.edit") or not address or address.lower() == user.email.lower():
            changes = {"email": address, "email_claimed": None, "email_claimed_at": None}
        else:
            changes = {"email_claimed": address, "email_claimed_at": now}
    if is_active is not None:
        changes["is_active"] = is_active
    if is_operator is not None:
        changes["is_operator"] = is_operator
        if user.kind == UserKind.SERVICE and is_operator:
            problems.add(
                "/is_operator", "not_for_service", Text("A service account cannot be an operator.", "服务账户不能是运维人员。")
            )
    problems.raise_if_any()
    if user.pk == actor.user_id and (is_active is False or is_operator is False):
        raise Conflict(
            Text("Operators do not take away their own rights.", "运维人员不能撤销自己的权限。"),
            hint=Text("Ask another operator.", "请联系其他运维人员。"),
        )
    return changes


def _check_settlement(settlement: Settlement, changes: Mapping[str, object]) -> None:
    if settlement != HOLD and changes.get("is_active") is not False:
        message = Text(
            "Jobs are stopped or handed over only where the user is disabled.", "只有在停用用户时才能停止或移交其作业。"
        )
        hint = Text("Send `is_active: false` with it.", "请同时发送 `is_active: false`。")
        field = "/hand_to" if settlement.hand_to is not None else "/stop_jobs"
        raise InvalidInput(message, hint=hint, fields=[FieldError(field, "not_disabled", message, hint)])


def _keep_an_operator(user: User) -> None:
    if not user.is_operator:
        return
    operators = User.objects.select_for_update(no_key=True).filter(is_operator=True, is_active=True).order_by("id")
    if {operator.pk for operator in operators} <= {user.pk}:
        raise Conflict(
            Text(f"{user.name} is the last operator.", f"{user.name} 是最后一位运维人员。"),
            hint=Text("Make another user an operator first.", "请先将其他用户设为运维人员。"),
        )


def _tell(user: User, kind: str, now: datetime) -> None:
    recheck()
    record_events(
        [
            NewEvent(
                kind=kind,
                tenant_id=None,
                subject_kind="user",
                subject_id=user.pk,
                data={"user_id": user.pk, "name": user.name},
                at=now,
            )
        ]
    )
