"""Who sees prices: all who sign in. The ledger itself is read through `billing/usage.py`, which asks for a tenant."""

from __future__ import annotations

from tenants.billing.models import Price
from tenants.identity.access import installation_rule


def register_rules() -> None:
    """The rules of the rows of this room."""
    installation_rule(Price)
