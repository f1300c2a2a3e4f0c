"""Ways to an identity provider that came back: each counts once."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from tenants.identity_claims import SignInFailed
from tenants.models import SpentState
from tenants.oidc import TRIP_SECONDS
from tenants.services.tokens import digest_of


def spend_state(state: str, *, now: datetime) -> None:
    """Let a way back count once; SignInFailed the second time, also for two at once."""
    try:
        with transaction.atomic():
            SpentState.objects.create(digest=digest_of(state), expires_at=now + timedelta(seconds=2 * TRIP_SECONDS))
    except IntegrityError:
        raise SignInFailed("oidc_state", "this sign-in came back before") from None


def forget_spent_states(now: datetime) -> int:
    """Delete what has run out by itself; returns how many. A part of the sweep."""
    return SpentState.objects.filter(expires_at__lt=now).delete()[0]
