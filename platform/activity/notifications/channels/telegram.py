"""Telegram, by a bot of the user's own: https://core.telegram.org/bots/api#sendmessage (2026-11-23)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from activity.notifications import chats
from activity.notifications.channel import Channel, Field, Message, matches
from activity.notifications.outcomes import GiveUp, Outcome, TryAgain
from activity.notifications.posting import Answer, seconds_of
from kernel.words import Text

_TOKEN = re.compile(r"[0-9]{1,20}:[A-Za-z0-9_-]{1,100}")
_CHAT = re.compile(r"-?[0-9]{1,20}|@[A-Za-z][A-Za-z0-9_]{0,63}")


def _verdict(said: Mapping[str, Any], answer: Answer) -> Outcome | None:
    """Telegram says in the body how long to wait; what a refusal means is for the one who made the bot."""
    if answer.status == 429:
        asked = said.get("parameters")
        seconds = seconds_of(str(asked.get("retry_after", ""))) if isinstance(asked, dict) else None
        return TryAgain("Telegram limits messages to this chat.", 429, seconds or answer.after_seconds)
    if answer.status == 400:
        return GiveUp("Telegram did not find the chat. Write to the bot, or add it to the group, and check the chat's id.", 400)
    if answer.status == 403:
        return GiveUp("Telegram's chat has blocked or removed the bot. Let it in again, or change the subscription.", 403)
    return None


def send(message: Message) -> Outcome:
    """A message without a parse mode, in which no markup is read: that the title is bold stands beside the text."""
    text = chats.text_of(message)
    document = {
        "chat_id": message.values["chat"],
        "text": text.whole,
        "entities": [{"type": "bold", "offset": 0, "length": len(text.title.encode("utf-16-le")) // 2}],
        "link_preview_options": {"is_disabled": True},
    }
    url = f"https://api.telegram.org/bot{message.values['token']}/sendMessage"
    return chats.submit(message, url, document, service="Telegram", verdict=_verdict)


CHANNEL = Channel(
    kind="telegram",
    label=Text("Telegram", "Telegram"),
    fields=(
        Field(
            name="token",
            label=Text("Bot token", "机器人令牌"),
            hint=Text("What @BotFather gave you for a bot of yours.", "由 @BotFather 提供的机器人令牌。"),
            check=matches(
                _TOKEN,
                Text(
                    "A bot token is a number, a colon, and letters and digits, as @BotFather gives it.",
                    "机器人令牌由数字、冒号及字母和数字组成，由 @BotFather 提供。",
                ),
            ),
            example="110201543:AAH...",
        ),
        Field(
            name="chat",
            label=Text("Chat", "聊天"),
            hint=Text(
                "The chat's id, or a public channel as @name. The bot must be in it.",
                "聊天的 id，或公开频道的 @名称；机器人须在其中。",
            ),
            check=matches(
                _CHAT,
                Text(
                    "A chat is its number, such as -1001234567890, or a public channel's @name.",
                    "聊天为其编号（如 -1001234567890），或公开频道的 @名称。",
                ),
            ),
            is_secret=False,
            example="-1001234567890",
        ),
    ),
    send=send,
    target=lambda values: values["chat"],
)
