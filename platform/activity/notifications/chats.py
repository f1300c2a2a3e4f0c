"""What the channels of chat services share: the text, the POST, and the meaning of answers.

Every service here takes one JSON document at one URL. apprise is not used: `docs/adr/chats-without-apprise.md` says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from activity.notifications import message as words
from activity.notifications.channel import Field, FieldRefused, Message, matches
from activity.notifications.outcomes import GiveUp, Outcome, Sent, TryAgain
from activity.notifications.posting import TRANSIENT, Answer
from kernel.config import Config
from kernel.words import Text

TITLE_LENGTH_MAX = 140
VALUE_LENGTH_MAX = 300  # Of one line: below what the service with the least room, WeCom, takes in all.
NAME_LENGTH_MAX = 80
BUSY_SECONDS = 60  # DingTalk, Feishu and WeCom count messages per minute, and name no wait.
JOINER = "\u2060"  # WORD JOINER: takes no room, breaks no line.
REFUSING = frozenset({401, 403, 404, 410})

Verdict = Callable[[Mapping[str, Any], Answer], Outcome | None]


# The text.


@dataclass(frozen=True, slots=True)
class ChatText:
    """A title and lines. `link` is the page of ours that shows more, "" for none; it is no line."""

    title: str
    lines: tuple[str, ...]
    link: str

    @property
    def whole(self) -> str:
        return "\n".join((self.title, *self.lines, *filter(None, [self.link])))


def text_of(message: Message) -> ChatText:
    """The message in the recipient's language, for a service that reads no markup in it.

    Every value is one line, so that no text of a user begins another one.
    """
    rows = words.rows(message.payload, message.language)
    return ChatText(
        title=without_mentions(words.one_line(f"[Berth] {words.title(message.payload, message.language)}", TITLE_LENGTH_MAX)),
        lines=tuple(
            f"{row.label}: {without_mentions(words.one_line(row.value, VALUE_LENGTH_MAX))}" for row in rows if not row.is_link
        ),
        link=next((row.value for row in rows if row.is_link), ""),
    )


def without_mentions(text: str) -> str:
    """A text that calls no one: services look for `@name`, `<!everyone>` and `<at id=...>`, and find a joiner in between."""
    return re.sub("([@<])", rf"\1{JOINER}", text)


# The request and its answer.


def submit(message: Message, url: str, document: Mapping[str, Any], *, service: str, verdict: Verdict | None = None) -> Outcome:
    """Post a document and read the answer; `verdict` reads a body that is a JSON object, None leaves it to the status."""
    return message.post(
        url,
        body=json.dumps(document, ensure_ascii=False).encode(),
        headers={"Content-Type": "application/json; charset=utf-8", "User-Agent": "Berth"},
        allow_private=message.config.webhook_private_targets,
        judge=lambda answer: _judged(answer, service, verdict),
    )


def _judged(answer: Answer, service: str, verdict: Verdict | None) -> Outcome:
    outcome = verdict(_object(answer.body), answer) if verdict is not None else None
    if outcome is not None:
        return outcome
    status = answer.status
    if 200 <= status < 300:
        return Sent(status)
    if 300 <= status < 400:
        return GiveUp(
            f"{service} answered with a redirect, which is not followed. Copy the address from {service} again.", status
        )
    if status in TRANSIENT:
        return TryAgain(f"{service} answered {status}.", status, answer.after_seconds)
    if status in REFUSING:
        return GiveUp(refusal(service, str(status)), status)
    return GiveUp(f"{service} refused the message with {status}.", status)


def refusal(service: str, by: str) -> str:
    """What to do where the service does not know the token."""
    return (
        f"{service} refused the message with {by}: what the subscription holds was revoked, or never was valid. "
        f"Make a new one in {service} and change the subscription, then send the message again."
    )


def coded(service: str, *, keys: tuple[str, ...], busy: frozenset[int], refusals: Mapping[int, str]) -> Verdict:
    """For services that answer 200 to everything and say in a code whether they took it; 0: taken.

    `busy` are codes of limits and outages; `refusals` say of others what to do. The service's own words are not passed on.
    """

    def verdict(said: Mapping[str, Any], answer: Answer) -> Outcome | None:
        if answer.status in TRANSIENT or 300 <= answer.status < 400:
            return None
        code = next((said[key] for key in keys if isinstance(said.get(key), int)), None)
        if code == 0:
            return Sent(answer.status) if answer.status < 300 else None
        if code is None:
            return TryAgain(f"{service} gave no answer that it is known to give.", answer.status) if answer.status < 300 else None
        if code in busy:
            return TryAgain(f"{service} is busy, or limits messages (code {code}).", answer.status, BUSY_SECONDS)
        unknown = f"{service} refused the message with code {code}, which its documentation explains."
        return GiveUp(refusals.get(code, unknown), answer.status)

    return verdict


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        said = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


# The form.


def address(pattern: re.Pattern[str], *, example: str, hint: Text[str]) -> Field:
    """The field for a webhook's URL that a service gave: a secret, and of that service's host alone."""
    return Field(
        name="address",
        label=Text("Webhook address", "Webhook 地址"),
        hint=hint,
        check=matches(pattern, Text(f"The address must look like {example}.", f"地址须形如 {example}。")),
        example=example,
    )


def _check_name(value: str, config: Config) -> None:
    if len(value) > NAME_LENGTH_MAX or not value.isprintable() or "://" in value:
        raise FieldRefused(
            Text(
                f"A name has at most {NAME_LENGTH_MAX} characters in one line, and is no address.",
                f"名称为单行，最多 {NAME_LENGTH_MAX} 个字符，且不能是地址。",
            )
        )


NAME = Field(
    name="name",
    label=Text("Name", "名称"),
    hint=Text("How your list shows it, such as the chat's name.", "列表中显示的名称，例如群名。"),
    check=_check_name,
    is_secret=False,
    is_required=False,
    example="#training",
)


def named(host: str) -> Callable[[Mapping[str, str]], str]:
    """What is shown of a subscription whose address is a secret: its name, or the service's host."""
    return lambda values: values.get("name") or host
