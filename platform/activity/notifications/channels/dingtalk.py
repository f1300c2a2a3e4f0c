"""DingTalk, by a custom robot of a group: https://open.dingtalk.com/document/orgapp/custom-robot-access (2026-11-23)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from datetime import datetime
from urllib.parse import urlencode

from activity.notifications import chats
from activity.notifications.channel import Channel, Field, Message, matches
from activity.notifications.outcomes import Outcome
from kernel.words import Text

_ADDRESS = re.compile(r"https://oapi\.dingtalk\.com/robot/send\?access_token=[A-Za-z0-9]{1,128}")
_SECRET = re.compile(r"SEC[A-Za-z0-9]{1,128}")

_VERDICT = chats.coded(
    "DingTalk",
    keys=("errcode",),
    busy=frozenset({-1, 130101, 410100}),  # Busy; more than 20 messages a minute, by the older and the newer code.
    refusals={
        310000: "DingTalk's robot refused the message by its security settings: give the subscription its signing secret, "
        "or allow the keyword `Berth` or this server's address there.",
        300001: chats.refusal("DingTalk", "code 300001"),
        40035: chats.refusal("DingTalk", "code 40035"),
        400013: "The DingTalk group was dismissed. Choose another one.",
        400101: chats.refusal("DingTalk", "code 400101"),
        400102: "DingTalk's robot is switched off. Switch it on in the group.",
    },
)


def signature(secret: str, at: datetime) -> dict[str, str]:
    """What the robot's security setting "sign" wants in the query."""
    milliseconds = str(int(at.timestamp() * 1000))
    digest = hmac.new(secret.encode(), f"{milliseconds}\n{secret}".encode(), hashlib.sha256).digest()
    return {"timestamp": milliseconds, "sign": base64.b64encode(digest).decode()}


def send(message: Message) -> Outcome:
    """A message of type `text`, which has no markup; people are called by a list beside it, which is empty."""
    url = message.values["address"]
    if secret := message.values.get("secret"):
        url = f"{url}&{urlencode(signature(secret, message.at))}"
    document = {"msgtype": "text", "text": {"content": chats.text_of(message).whole}, "at": {"atMobiles": [], "isAtAll": False}}
    return chats.submit(message, url, document, service="DingTalk", verdict=_VERDICT)


CHANNEL = Channel(
    kind="dingtalk",
    label=Text("DingTalk", "钉钉"),
    fields=(
        chats.address(
            _ADDRESS,
            example="https://oapi.dingtalk.com/robot/send?access_token=...",
            hint=Text("Of a custom robot of the group.", "由群的自定义机器人提供。"),
        ),
        Field(
            name="secret",
            label=Text("Signing secret", "加签密钥"),
            hint=Text(
                "Where the robot's security setting is a signature; else allow the keyword Berth.",
                "机器人安全设置为“加签”时填写；否则请设置关键词 Berth。",
            ),
            check=matches(
                _SECRET,
                Text(
                    "The signing secret begins with SEC, and has letters and digits alone.",
                    "加签密钥以 SEC 开头，只含字母和数字。",
                ),
            ),
            is_required=False,
            example="SEC...",
        ),
        chats.NAME,
    ),
    send=send,
    target=chats.named("oapi.dingtalk.com"),
)
