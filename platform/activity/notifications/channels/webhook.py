"""A webhook: one signed POST of the event as JSON, to any address outside our own network.

The receiver verifies `Berth-Signature: t=<unix seconds>,v1=<hex>`, where v1 is HMAC-SHA256 with the subscription's secret over
`<t>.<body>`, and refuses old times. A message may come twice when Berth dies between sending and noting it: `Berth-Delivery`
is the same then, and the receiver drops the second.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from activity.notifications.channel import TARGET, Channel, Field, FieldRefused, Message
from activity.notifications.outcomes import Outcome
from kernel.config import Config
from kernel.targets import TargetRefused, parse_target
from kernel.words import Text


def sign(secret: str, body: bytes, *, at: datetime) -> str:
    """The Berth-Signature header."""
    seconds = int(at.timestamp())
    digest = hmac.new(secret.encode(), b"%d." % seconds + body, hashlib.sha256).hexdigest()
    return f"t={seconds},v1={digest}"


def encode(payload: Mapping[str, Any]) -> bytes:
    """The body: JSON whose bytes the signature covers."""
    return json.dumps(payload, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def send(message: Message) -> Outcome:
    """Sign and send."""
    body = encode({"delivery": message.delivery_id, **message.payload})
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "Berth",
        "Berth-Delivery": message.delivery_id,
        "Berth-Event": str(message.payload["event"]),
        "Berth-Signature": sign(message.secret, body, at=message.at),
    }
    return message.post(message.values[TARGET], body=body, headers=headers, allow_private=message.config.webhook_private_targets)


def _check(url: str, config: Config) -> None:
    """Whether the URL may be used. Whether its name leads outside is asked at each sending."""
    try:
        parse_target(url, allow_private=config.webhook_private_targets)
    except TargetRefused as error:
        raise FieldRefused(error.detail_text, error.hint_text, error.code) from None


CHANNEL = Channel(
    kind="webhook",
    label=Text("Webhook", "Webhook"),
    fields=(
        Field(
            name=TARGET,
            label=Text("Address of the webhook", "Webhook 地址"),
            hint=Text("Each message is a signed POST to this URL.", "每条消息以签名的 POST 请求发送到此 URL。"),
            check=_check,
            is_secret=False,
            example="https://",
        ),
    ),
    send=send,
    target=lambda values: values[TARGET],
    signs=True,
)
