"""What is secret of subscriptions at rest: sealed with a key derived from the installation's secret key."""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

PURPOSE = b"berth.activity.webhook-secret"  # Of the first channel that had one; another word would lose what is sealed.


def seal(text: str) -> str:
    """Encrypt with the present key."""
    return _keys().encrypt(text.encode()).decode()


def unseal(sealed: str) -> str:
    """Decrypt with the present key, or one that it replaced (SECRET_KEY_FALLBACKS)."""
    return _keys().decrypt(sealed.encode()).decode()


def reseal(sealed: str) -> str:
    """Encrypt what is sealed under any of our keys with the present one."""
    return _keys().rotate(sealed.encode()).decode()


def _keys() -> MultiFernet:
    return MultiFernet([Fernet(_derive(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)])


def _derive(secret: str | bytes) -> bytes:
    key = HKDF(algorithm=SHA256(), length=32, salt=None, info=PURPOSE).derive(
        secret.encode() if isinstance(secret, str) else secret
    )
    return base64.urlsafe_b64encode(key)
