"""Microsoft Teams, by a workflow that posts to a channel when a webhook is called.

https://support.microsoft.com/office/create-incoming-webhooks-with-workflows-for-microsoft-teams-8ae491c7-0394-4861-ba59-055e33f75498
(2026-11-23). The older "incoming webhook" connectors are retired.
"""

from __future__ import annotations

import re
from typing import Any

from activity.notifications import chats
from activity.notifications.channel import Channel, Message
from activity.notifications.outcomes import Outcome
from kernel.words import Text

# Microsoft's own domains, of which the part before names a region or an environment.
_ADDRESS = re.compile(
    r"https://([a-z0-9-]{1,63}\.){1,5}(logic\.azure|environment\.api\.powerplatform)\.(com|us|cn)(:443)?"
    r"/[A-Za-z0-9._~/-]{1,400}\?[A-Za-z0-9%&=._~/-]{1,1000}"
)


def _card(text: chats.ChatText, language: str) -> dict[str, Any]:
    """An adaptive card of runs, which know no Markdown: https://adaptivecards.io/explorer/TextRun.html (2026-11-23)."""
    runs = [{"text": text.title, "weight": "Bolder", "size": "Medium"}, *({"text": line} for line in text.lines)]
    card: dict[str, Any] = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [{"type": "RichTextBlock", "inlines": [{"type": "TextRun", **run}]} for run in runs],
        "msteams": {"width": "Full"},
    }
    if text.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": Text("See", "查看").in_language(language), "url": text.link}]
    return card


def send(message: Message) -> Outcome:
    """One adaptive card."""
    card = _card(chats.text_of(message), message.language)
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    document = {"type": "message", "attachments": [attachment]}
    return chats.submit(message, message.values["address"], document, service="Microsoft Teams")


CHANNEL = Channel(
    kind="teams",
    label=Text("Microsoft Teams", "Microsoft Teams"),
    fields=(
        chats.address(
            _ADDRESS,
            example="https://....environment.api.powerplatform.com/...?...&sig=...",
            hint=Text(
                "Of the workflow “Send webhook alerts to a channel”.",
                "由 Teams 工作流“向频道发送 Webhook 警报”提供。",
            ),
        ),
        chats.NAME,
    ),
    send=send,
    target=chats.named("Microsoft Teams"),
)
