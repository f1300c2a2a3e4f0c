"""Who knocks: every kind of caller that the matrix sends at every operation."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from kernel.actor import TenantRole


class Who(StrEnum):
    """Callers, seen from the tenant `own`. OTHER manages the tenant `foreign`, and is nobody in `own`."""

    ANONYMOUS = "anonymous"
    EMPTY = "empty"
    GARBAGE = "garbage"
    EXPIRED = "expired"
    REVOKED = "revoked"
    VIEWER = "viewer"
    MEMBER = "member"
    OWNER = "owner"
    MANAGER = "manager"
    OTHER = "other"
    OPERATOR = "operator"


STRANGERS = (Who.ANONYMOUS, Who.EMPTY, Who.GARBAGE, Who.EXPIRED, Who.REVOKED)
RANK = {Who.VIEWER: 1, Who.MEMBER: 2, Who.OWNER: 2, Who.MANAGER: 3, Who.OTHER: 3}


@dataclass(frozen=True)
class Principal:
    """One caller: the header it sends, and the user behind it if there is one."""

    who: Who
    header: str | None
    user: object = None


def make_principals(own, foreign) -> dict[Who, Principal]:
    """Everybody. `owner` is a member to whom the objects of both sides' makers belong; the expired and the revoked token
    belong to a manager, so that only their state refuses them."""
    from tenants.models import Token
    from tests.factories.tenants import make_member, make_token, make_user

    def person(who: Who, tenant=None, role=None, **columns) -> Principal:
        user = make_user(f"{who}-of-matrix", email=f"{who}@example.org", **columns)
        if tenant is not None:
            make_member(tenant, user, role)
        return Principal(who, f"Bearer {make_token(user).text}", user)

    manager = person(Who.MANAGER, own, TenantRole.MANAGER)
    expired, revoked = make_token(manager.user), make_token(manager.user)
    past = datetime.now(UTC) - timedelta(seconds=5)
    Token.objects.filter(pk=expired.token.pk).update(created_at=past - timedelta(days=1), expires_at=past)
    Token.objects.filter(pk=revoked.token.pk).update(revoked_at=past)
    found = [
        Principal(Who.ANONYMOUS, None),
        Principal(Who.EMPTY, "Bearer "),
        Principal(Who.GARBAGE, "Bearer berth_0123456789ab_" + "x" * 43),
        Principal(Who.EXPIRED, f"Bearer {expired.text}"),
        Principal(Who.REVOKED, f"Bearer {revoked.text}"),
        person(Who.VIEWER, own, TenantRole.VIEWER),
        person(Who.MEMBER, own, TenantRole.MEMBER),
        person(Who.OWNER, own, TenantRole.MEMBER),
        manager,
        person(Who.OTHER, foreign, TenantRole.MANAGER),
        person(Who.OPERATOR, is_operator=True),
    ]
    return {principal.who: principal for principal in found}
