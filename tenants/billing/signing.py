"""Signatures of the installation: who has its public key can check offline that a document came from here, unchanged.

The key (Ed25519) is derived from the installation's secret key, so nothing more has to be kept. After a rotation, what was
signed before is recognized as long as the former key stands in `SECRET_KEY_FALLBACKS`; its signature stays right for ever.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings

_PURPOSE = b"berth statement signature v1"


@dataclass(frozen=True, slots=True)
class Signed:
    """A signature and the key that checks it, in Base64."""

    signature: str
    public_key: str


def sign(data: bytes) -> Signed:
    """The same data is signed with the same letters every time."""
    key = _key(settings.SECRET_KEY)
    return Signed(_text(key.sign(data)), _public(key))


def is_signed(data: bytes, signed: Signed) -> bool:
    """Whether the key that is named signed just this."""
    try:
        Ed25519PublicKey.from_public_bytes(base64.b64decode(signed.public_key, validate=True)).verify(
            base64.b64decode(signed.signature, validate=True), data
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def public_keys() -> list[str]:
    """The keys of this installation: the present one first."""
    return [_public(_key(secret)) for secret in (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)]


def _key(secret: str | bytes) -> Ed25519PrivateKey:
    material = secret.encode() if isinstance(secret, str) else secret
    seed = HKDF(algorithm=hashes.SHA256(), length=32, salt=None, info=_PURPOSE).derive(material)
    return Ed25519PrivateKey.from_private_bytes(seed)


def _public(key: Ed25519PrivateKey) -> str:
    return _text(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
