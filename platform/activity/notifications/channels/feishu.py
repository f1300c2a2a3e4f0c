"""Feishu, and Lark as it is called elsewhere, by a custom bot of a group.

https://open.feishu.cn/document/client-docs/bot-v3/add-custom-bot (2026-11-23).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime

from activity.notifications import chats
from activity.notifications.channel import Channel, Field, Message, matches
from activity.notifications.outcomes import Outcome
from kernel.words import Text

_ADDRESS = re.compile(r"https://open\.(feishu\.cn|larksuite\.com)/open-apis/bot/v2/hook/[A-Za-z0-9-]{1,128}")
_SECRET = re.compile(r"[A-Za-z0-9]{1,128}")

_VERDICT = chats.coded(
    "Feishu",
    keys=("code", "StatusCode"),
    busy=frozenset({11232}),
    refusals={
        19001: chats.refusal("Feishu", "code 19001"),
        19002: chats.refusal("Feishu", "code 19002"),
        19021: "Feishu's bot did not accept the signature. Copy its signing secret again, and check this server's clock.",
        19022: "Feishu's bot does not accept this server's address. Add it in the bot's security settings.",
        19024: "Feishu's bot wants a keyword. Add `Berth` to the keywords in its security settings.",
    },
)


def signature(secret: str, at: datetime) -> dict[str, str]:
    """What the bot's security setting "signature" wants in the body: the key is the text, and nothing is signed with it."""
    seconds = str(int(at.timestamp()))
    digest = hmac.new(f"{seconds}\n{secret}".encode(), b"", hashlib.sha256).digest()
    return {"timestamp": seconds, "sign": base64.b64encode(digest).decode()}


def send(message: Message) -> Outcome:
    """A message of type `text`. Its one markup is `<at ...>`, which no text can begin (`chats.without_mentions`)."""
    secret = message.values.get("secret")
    document = {
        **(signature(secret, message.at) if secret else {}),
        "msg_type": "text",
        "content": {"text": chats.text_of(message).whole},
    }
    return chats.submit(message, message.values["address"], document, service="Feishu", verdict=_VERDICT)


CHANNEL = Channel(
    kind="feishu",
    label=Text("Feishu (Lark)", "飞书（Lark）"),
    fields=(
        chats.address(
            _ADDRESS,
            example="https://open.feishu.cn/open-apis/bot/v2/hook/...",
            hint=Text("Of a custom bot of the group.", "由群的自定义机器人提供。"),
        ),
        Field(
            name="secret",
            label=Text("Signing secret", "签名密钥"),
            hint=Text(
                "Where the bot's security setting is a signature; else set the keyword Berth.",
                "机器人安全设置为“签名校验”时填写；否则请设置关键词 Berth。",
            ),
            check=matches(_SECRET, Text("The signing secret has letters and digits alone.", "签名密钥只含字母和数字。")),
            is_required=False,
        ),
        chats.NAME,
    ),
    send=send,
    target=chats.named("open.feishu.cn"),
)
