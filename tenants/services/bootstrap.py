"""What an empty installation gets: its first operator, tenant and token. Nothing has a default; all is generated."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from activity.services import record_audit
from kernel.actor import TenantRole, system_actor
from tenants.identity.models import Membership, User
from tenants.identity.permissions import Scope
from tenants.identity.services import names
from tenants.identity.services.tokens import DAYS_DEFAULT, issue
from tenants.identity.services.users import insert_user
from tenants.services.tenants import create_tenant

PASSWORD_BYTES = 18  # 24 characters: typed once, then changed.


@dataclass(frozen=True, slots=True)
class Credentials:
    """The first operator's way in. Shown once; neither password nor token can be read again."""

    user_name: str
    password: str
    tenant_name: str
    tenant_slug: str
    token: str
    token_expires_at: datetime

    def __repr__(self) -> str:
        return f"Credentials(user_name={self.user_name!r}, tenant_name={self.tenant_name!r})"


def bootstrap_installation(
    *, now: datetime, user_name: str = "operator", tenant_name: str = "default", email: str = ""
) -> Credentials | None:
    """Create the first operator as manager of the first tenant; None if there are users already."""
    actor = system_actor("bootstrap")
    problems = names.Problems()
    names.user_name(user_name, problems)
    names.display_name(tenant_name, problems, path="/tenant")
    names.email_address(email, problems)
    problems.raise_if_any()
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    with transaction.atomic():
        if User.objects.exists():
            return None
        user = insert_user(name=user_name, email=email, email_is_confirmed=True, password=password, is_operator=True, now=now)
        tenant = create_tenant(actor=actor, name=tenant_name, now=now)
        Membership.objects.create(tenant=tenant, user=user, role=TenantRole.MANAGER, created_at=now)
        issued = issue(user, name="first token", scopes=[Scope.ALL], lifetime=timedelta(days=DAYS_DEFAULT), now=now)
        record_audit(
            actor=actor,
            verb="installation.bootstrap",
            tenant_id=tenant.pk,
            target_kind="user",
            target_id=user.pk,
            target_name=user_name,
            after={"operator": user_name, "tenant": tenant_name},
            at=now,
        )
    return Credentials(user_name, password, tenant_name, tenant.slug, issued.text, issued.token.expires_at)
