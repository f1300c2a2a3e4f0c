"""A browser in which a person signed in before keeps a cookie that says so, sealed by this server. It opens nothing: its tries
at that person's password are counted apart from those of strangers (the device cookie of OWASP's Authentication guide)."""

from __future__ import annotations

import json
import secrets
import uuid
from dataclasses import dataclass

from cryptography.fernet import InvalidToken

from webapi.encryption import box_for

KNOWN_SECONDS = 180 * 86_400  # Half a year without signing in; each sign-in begins it anew.
_PURPOSE = b"berth known browser v1"


@dataclass(frozen=True, slots=True)
class KnownBrowser:
    """Whose browser it is, and which of theirs."""

    user_id: uuid.UUID
    key: str


def seal(user_id: uuid.UUID, known: KnownBrowser | None) -> str:
    """The cookie's value after a sign-in; a browser that is known as this person's stays the same one."""
    key = known.key if known is not None and known.user_id == user_id else secrets.token_urlsafe(12)
    return box_for(_PURPOSE).encrypt(json.dumps([str(user_id), key]).encode()).decode()


def unseal(text: str | None) -> KnownBrowser | None:
    """What a cookie says; None for none, and for one that is too old or not ours."""
    try:
        user_id, key = json.loads(box_for(_PURPOSE).decrypt((text or "").encode(), ttl=KNOWN_SECONDS))
        return KnownBrowser(uuid.UUID(user_id), str(key))
    except (InvalidToken, ValueError, TypeError):
        return None
