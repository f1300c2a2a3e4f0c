"""The text of a token: its scheme, the prefix by which its row is found, and the digest that is kept of it."""

from __future__ import annotations

import hashlib

from tenants.identity.models import TokenKind

SCHEME = "berth"
SCHEMES = {TokenKind.PERSONAL: SCHEME, TokenKind.SESSION: "berthsession"}
PREFIX_LENGTH = 12


def digest_of(text: str) -> str:
    """What is kept of a secret text. It has 256 random bits, so a plain SHA-256 is enough and fast."""
    return hashlib.sha256(text.encode()).hexdigest()


def prefix_of(text: str, kind: TokenKind = TokenKind.PERSONAL) -> str | None:
    """The part of a token that finds its row; None for what cannot be a token of this kind."""
    scheme, _, rest = text.partition("_")
    prefix, _, secret = rest.partition("_")
    if scheme != SCHEMES[kind] or len(prefix) != PREFIX_LENGTH or not secret or len(text) > 200 or not text.isascii():
        return None
    return prefix
