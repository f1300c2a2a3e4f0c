"""WeCom, by a robot of a group: https://developer.work.weixin.qq.com/document/path/91770 (2026-11-23)."""

from __future__ import annotations

import re

from activity.notifications import chats
from activity.notifications.channel import Channel, Message
from activity.notifications.outcomes import Outcome
from kernel.words import Text

TEXT_BYTES_MAX = 2_048  # Of a message of type `text`.

_ADDRESS = re.compile(r"https://qyapi\.weixin\.qq\.com/cgi-bin/webhook/send\?key=[A-Za-z0-9_-]{1,128}")

_VERDICT = chats.coded(
    "WeCom",
    keys=("errcode",),
    busy=frozenset({-1, 45009, 45033}),  # Busy; more than 20 messages a minute; too many at once.
    refusals={
        93000: chats.refusal("WeCom", "code 93000"),
        93004: "WeCom's robot is switched off. Switch it on in the group.",
        93008: "WeCom's robot is no longer in the group. Add one, and change the subscription.",
        40058: "WeCom refused the text of the message (code 40058).",
    },
)


def send(message: Message) -> Outcome:
    """A message of type `text`, which has no markup; people are called by a list beside it, which is not sent."""
    document = {"msgtype": "text", "text": {"content": fitted(chats.text_of(message).whole)}}
    return chats.submit(message, message.values["address"], document, service="WeCom", verdict=_VERDICT)


def fitted(text: str) -> str:
    """The text in the bytes that there are: the longest line is cut, again and again."""
    lines = text.split("\n")
    while len("\n".join(lines).encode()) > TEXT_BYTES_MAX:
        longest = max(range(len(lines)), key=lambda index: len(lines[index].encode()))
        lines[longest] = lines[longest][: len(lines[longest]) * 3 // 4] + "…"
    return "\n".join(lines)


CHANNEL = Channel(
    kind="wecom",
    label=Text("WeCom", "企业微信"),
    fields=(
        chats.address(
            _ADDRESS,
            example="https://qyapi.weixin.qq.com/cgi-bin/webhook/send?key=...",
            hint=Text("Of a robot of the group.", "由群机器人提供。"),
        ),
        chats.NAME,
    ),
    send=send,
    target=chats.named("qyapi.weixin.qq.com"),
)
