"""Checks Ed25519 signatures (RFC 8032), so that a statement can be checked offline.

The arithmetic is that of `cryptography`, an extra of this package: submitting and watching jobs needs no signatures.
"""

from __future__ import annotations

import base64
import binascii

from berth.errors import ExtraMissing


def is_signed(data: bytes, signature: str, public_key: str) -> bool:
    """Whether the owner of the key signed just these bytes; key and signature are in Base64.

    Text that is no key or no signature signed nothing. Raises ExtraMissing where `cryptography` cannot be imported.
    """
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise ExtraMissing(
            "The signature was not checked: that needs the Python package cryptography, which is not installed beside berth.",
            # By the package's own name: `berth` in the Python Package Index is another project.
            hint="Install it into the environment of berth: pip install cryptography",
        ) from error
    try:
        key = Ed25519PublicKey.from_public_bytes(base64.b64decode(public_key, validate=True))
        key.verify(base64.b64decode(signature, validate=True), data)
    except (InvalidSignature, binascii.Error, ValueError):
        return False
    return True
