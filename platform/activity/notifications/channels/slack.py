"""Slack, by an incoming webhook: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks (2026-11-23)."""

from __future__ import annotations

import html
import re

from activity.notifications import chats
from activity.notifications.channel import Channel, Message
from activity.notifications.outcomes import Outcome
from kernel.words import Text

_ADDRESS = re.compile(r"https://hooks\.slack(-gov)?\.com/services/T[A-Z0-9]{1,40}/B[A-Z0-9]{1,40}/[A-Za-z0-9]{1,80}")


def _escape(text: str) -> str:
    return html.escape(text, quote=False)  # Slack's three control characters, which begin links and mentions.


def send(message: Message) -> Outcome:
    """An attachment without `mrkdwn_in`, which Slack shows without reading its markup. No page that a text names is fetched."""
    text = chats.text_of(message)
    title = _escape(text.title)
    attachment = {
        "fallback": title,
        "title": title,
        "text": _escape("\n".join(text.lines)),
        "mrkdwn_in": [],
        **({"title_link": text.link} if text.link else {}),
    }
    document = {"attachments": [attachment], "unfurl_links": False, "unfurl_media": False}
    return chats.submit(message, message.values["address"], document, service="Slack")


CHANNEL = Channel(
    kind="slack",
    label=Text("Slack", "Slack"),
    fields=(
        chats.address(
            _ADDRESS,
            example="https://hooks.slack.com/services/T.../B.../...",
            hint=Text("Of an app with an incoming webhook for your channel.", "由应用的传入 Webhook（Incoming Webhook）提供。"),
        ),
        chats.NAME,
    ),
    send=send,
    target=chats.named("hooks.slack.com"),
)
