"""Whose an e-mail address is: the account's for which somebody other than its owner vouched for it."""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import F, Q

from tenants.models import User


def confirmed_address(email: str) -> Q:
    """Finds the one account that has this address confirmed. One that people write about themselves leads to none."""
    return Q(email__iexact=email)


def confirm_address(user: User, email: str) -> None:
    """Confirm the address that the user claims, where it is `email` and no other account has it confirmed."""
    if not email or (user.email_claimed or "").lower() != email.lower():
        return
    claims = User.objects.filter(id=user.pk, email_claimed=user.email_claimed)
    try:
        with transaction.atomic():
            claims.update(email=user.email_claimed, email_claimed=None, email_claimed_at=None, version=F("version") + 1)
    except IntegrityError:
        return  # Another account has it; an operator sees both.
    user.refresh_from_db(fields=["email", "email_claimed", "email_claimed_at", "version"])
