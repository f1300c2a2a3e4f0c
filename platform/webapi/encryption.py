"""Encryption under keys derived from the installation's secret key, one for each purpose (HKDF with SHA-256)."""

from __future__ import annotations

import base64

from cryptography.fernet import Fernet, MultiFernet
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings


def box_for(info: bytes) -> MultiFernet:
    """Encrypts for one purpose under the present key, opens under it and all former ones."""
    keys = [settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS]
    return MultiFernet([Fernet(_derive(key, info)) for key in keys])


def _derive(key: str | bytes, info: bytes) -> bytes:
    derived = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=info).derive(
        key.encode() if isinstance(key, str) else key
    )
    return base64.urlsafe_b64encode(derived)
