"""The states of OpenID Connect sign-ins that came back: each counts once."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import IntegrityError, transaction

from tenants.identity.identity_claims import SignInFailed
from tenants.identity.models import SpentState
from tenants.identity.oidc import STATE_SECONDS
from tenants.identity.token_text import digest_of


def spend_state(state: str, *, now: datetime) -> None:
    """Let a state come back once; SignInFailed the second time, also for two at once."""
    try:
        with transaction.atomic():
            SpentState.objects.create(digest=digest_of(state), expires_at=now + timedelta(seconds=2 * STATE_SECONDS))
    except IntegrityError:
        raise SignInFailed("oidc_state", "this sign-in came back before") from None


def forget_spent_states(now: datetime) -> int:
    """Delete what has run out by itself; returns how many. A part of the sweep."""
    return SpentState.objects.filter(expires_at__lt=now).delete()[0]
