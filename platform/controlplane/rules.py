"""Who sees what of the installation's own rows: operators."""

from __future__ import annotations

from django.db.models import Q

from controlplane.models import SelfTest
from tenants.identity.access import role_allows
from webapi.access import register


def register_rules() -> None:
    """Register the rules of this app. Called once, when the project starts."""
    register(
        SelfTest,
        sees=lambda actor: Q() if role_allows(actor, None, "selftest.read") else None,
        allows=lambda actor, found, verb: role_allows(actor, None, verb),
    )
