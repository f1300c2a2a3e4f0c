"""Whose an e-mail address is: the account's for which a party other than its owner vouched.

Only the capitals of ASCII are folded. A database folds more: PostgreSQL's UPPER makes `I` of a dotless i (U+0131), so that a
mailbox of that name, which is another person's, would lead to the account of the name with `i`.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import F, QuerySet

from tenants.identity.models import User

_FOLDED_ALIKE_MAX = 20  # Addresses that a database takes for one: ASCII letters with another sign of the same capital are few.


def find_by_confirmed_address(users: QuerySet[User], email: str) -> User | None:
    """The account among `users` that has this address confirmed. An address that people write about themselves leads to none."""
    rows = users.filter(email__iexact=email).order_by("id")[:_FOLDED_ALIKE_MAX]
    return next((user for user in rows if is_same_address(user.email, email)), None)


def is_same_address(address: str, other: str) -> bool:
    """Whether two addresses differ at most in the capitals of ASCII."""
    return _folded(address) == _folded(other)


def _folded(address: str) -> str:
    return "".join(sign.lower() if sign.isascii() else sign for sign in address)


def confirm_address(user: User, email: str) -> None:
    """Confirm the address that the user claims, where it is `email` and no other account has it confirmed."""
    if not email or not is_same_address(user.email_claimed or "", email):
        return
    claims = User.objects.filter(id=user.pk, email_claimed=user.email_claimed)
    try:
        with transaction.atomic():
            claims.update(email=user.email_claimed, email_claimed=None, email_claimed_at=None, version=F("version") + 1)
    except IntegrityError:
        return  # Another account has it; an operator sees both.
    user.refresh_from_db(fields=["email", "email_claimed", "email_claimed_at", "version"])
