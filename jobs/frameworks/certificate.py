"""A certificate and its private key from an attempt's key, for frameworks whose only lock is TLS.

All tasks of the attempt have the same one and trust no other, so that it is a shared secret: who has it belongs to the job. The
same key gives the same certificate, as compiling an attempt again has to."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from functools import lru_cache

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

_FROM, _UNTIL = datetime(2020, 1, 1, tzinfo=UTC), datetime(2120, 1, 1, tzinfo=UTC)  # It goes with the attempt's key, not by time.


@lru_cache(maxsize=4)
def certificate_of(key: str) -> tuple[str, str]:
    """Certificate and private key as PEM. Kept for a moment: each task of an attempt asks."""
    private = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"certificate " + key.encode()).digest())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "berth-attempt")])
    builder = x509.CertificateBuilder(name, name, private.public_key(), 1, _FROM, _UNTIL)
    for extension, is_critical in (
        (x509.BasicConstraints(ca=True, path_length=0), True),
        (x509.SubjectKeyIdentifier.from_public_key(private.public_key()), False),
        (_usage(), True),
    ):
        builder = builder.add_extension(extension, critical=is_critical)
    pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return builder.sign(private, None).public_bytes(Encoding.PEM).decode(), pem


def _usage() -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=True,
        **dict.fromkeys(
            (
                *("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "crl_sign"),
                *("encipher_only", "decipher_only"),
            ),
            False,
        ),
    )
