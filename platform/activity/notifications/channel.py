"""What a channel is: a way by which a notice reaches a person. Each is one file in `channels/` that makes one `Channel`.

A channel says which fields a subscription by it has, and sends one message. It sees plain values, no row and no request, and
reaches the network through `Message.post` alone, or the operator's mail server.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from activity.notifications import posting
from activity.notifications.outcomes import Outcome
from kernel.config import Config
from kernel.words import Saying, Text, as_text

KIND_LENGTH_MAX = 10  # Of the column that keeps it.
VALUE_LENGTH_MAX = 2_000  # Of one field's value: a URL of the usual bound.
TARGET = "target"  # The field that the API has at the top of a subscription, and a column of its own.

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class IncompleteChannel(Exception):
    """A channel cannot be offered as it is; the message says what is missing. The server does not start."""


class FieldRefused(Exception):
    """A field has a value that cannot be used."""

    def __init__(self, detail: Saying, hint: Saying = "", code: str = "invalid") -> None:
        super().__init__(str(detail))
        self.detail, self.code = str(detail), code
        self.detail_text, self.hint_text = as_text(detail), as_text(hint)


@dataclass(frozen=True, slots=True)
class Problem:
    """Why nothing would arrive by a channel, for programs and for people."""

    code: str
    words: Text[str]


Check = Callable[[str, Config], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One field of a subscription's form. `check` raises FieldRefused, without the value where it is a secret.

    A secret is kept sealed and never shown again. `example` is shown while the field is empty.
    """

    name: str
    label: Text[str]
    hint: Text[str]
    check: Check
    is_secret: bool = True
    is_required: bool = True
    example: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What is to be sent, and where. `values` are the subscription's fields, `secret` the signing secret of one that signs.

    `address` is the recipient's mail address, `language` one of `en` and `zh`, `at` the time of this try.
    """

    delivery_id: str
    payload: Mapping[str, Any]
    address: str
    language: str
    values: Mapping[str, str] = field(repr=False)  # What is secret of them stands in no error's text.
    secret: str = field(repr=False)
    at: datetime
    config: Config
    post: posting.Post = posting.post


@dataclass(frozen=True, slots=True, kw_only=True)
class Channel:
    """A complete channel. `send` tries once and raises nothing that the other side can cause.

    `target` makes of the fields' values what is shown as the subscription's target: never a secret. `signs`: a secret is made
    at the subscription, shown once. `problem` says why nothing would arrive by it here, None where nothing is known.
    """

    kind: str
    label: Text[str]
    fields: tuple[Field, ...]
    send: Callable[[Message], Outcome]
    target: Callable[[Mapping[str, str]], str]
    signs: bool = False
    problem: Callable[[Config], Problem | None] = lambda config: None

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.kind) or len(self.kind) > KIND_LENGTH_MAX:
            raise IncompleteChannel(f"channel {self.kind!r}: a kind has up to {KIND_LENGTH_MAX} of a-z, 0-9 and _")
        names = [item.name for item in self.fields]
        if len(set(names)) < len(names) or not all(_NAME.fullmatch(name) for name in names):
            raise IncompleteChannel(f"channel {self.kind}: its fields need names of a-z, 0-9 and _, each once; they are {names}")
        texts = [self.label, *(words for item in self.fields for words in (item.label, item.hint))]
        if not all(words.en and words.zh for words in texts):
            raise IncompleteChannel(f"channel {self.kind}: every label and hint needs its words in English and in Chinese")
        if any(item.name == TARGET and item.is_secret for item in self.fields):
            raise IncompleteChannel(f"channel {self.kind}: `{TARGET}` is shown and cannot be a secret")
        if self.signs and names != [TARGET]:
            raise IncompleteChannel(f"channel {self.kind}: a channel that signs has the field `{TARGET}` and no other")
        if not all(map(callable, (self.send, self.target, self.problem, *(item.check for item in self.fields)))):
            raise IncompleteChannel(f"channel {self.kind}: `send`, `target`, `problem` and every `check` are functions")

    def check(self, values: Mapping[str, str], config: Config) -> dict[str, FieldRefused]:
        """What is wrong with the values, by field; empty where they will do."""
        known = {item.name: item for item in self.fields}
        refused = {
            name: FieldRefused(
                Text(f"{self.label.en} has no field `{name[:80]}`.", f"{self.label.zh}没有字段 `{name[:80]}`。"),
                code="not_allowed",
            )
            for name in values
            if name not in known
        }
        for name, item in known.items():
            if not values.get(name):
                if item.is_required:
                    needed = Text(f"{self.label.en} needs its {item.label.en.lower()}.", f"{self.label.zh}需要{item.label.zh}。")
                    refused[name] = FieldRefused(needed, item.hint, "required")
                continue
            try:
                item.check(values[name], config)
            except FieldRefused as error:
                refused[name] = error
        return refused


def matches(pattern: re.Pattern[str], detail: Saying) -> Check:
    """A check that the whole value is of a pattern. `detail` says what it looks like; the value itself is never repeated."""

    def check(value: str, config: Config) -> None:
        if len(value) > VALUE_LENGTH_MAX or not value.isascii() or not pattern.fullmatch(value):
            raise FieldRefused(detail)

    return check
