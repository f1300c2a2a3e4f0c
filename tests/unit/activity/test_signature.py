"""What a webhook's receiver verifies, checked with the code that the documentation gives it."""

from __future__ import annotations

import hashlib
import hmac
from datetime import UTC, datetime

from activity.notifications.channels.webhook import encode, sign
from activity.notifications.sealing import seal, unseal

AT = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)


def verify(secret: str, header: str, body: bytes) -> bool:
    parts = dict(part.split("=", 1) for part in header.split(","))
    expected = hmac.new(secret.encode(), parts["t"].encode() + b"." + body, hashlib.sha256).hexdigest()
    return hmac.compare_digest(expected, parts["v1"])


def test_a_receiver_verifies_the_signature() -> None:
    body = encode({"kind": "failed", "name": "数字"})
    assert verify("whsec_a", sign("whsec_a", body, at=AT), body)


def test_another_secret_body_or_time_does_not_verify() -> None:
    body = encode({"kind": "failed"})
    header = sign("whsec_a", body, at=AT)
    assert not verify("whsec_b", header, body)
    assert not verify("whsec_a", header, body + b" ")
    assert not verify("whsec_a", header.replace("t=1", "t=2", 1), body)


def test_the_signature_is_a_fixed_value() -> None:
    assert sign("whsec_a", b'{"a":1}', at=AT) == (
        f"t={int(AT.timestamp())},v1=" + hmac.new(b"whsec_a", b"%d." % AT.timestamp() + b'{"a":1}', "sha256").hexdigest()
    )


def test_a_secret_at_rest_does_not_show() -> None:
    sealed = seal("whsec_canary")
    assert "canary" not in sealed
    assert unseal(sealed) == "whsec_canary"
