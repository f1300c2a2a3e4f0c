"""Texts in English and Chinese, and quantities in words, the same wherever a person reads them. For reading only: nothing parses
these.

`Text` is the one way in which the server holds what it says in both languages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kernel.limits import GIB, KIB, MIB


class Language(StrEnum):
    """Languages that Berth speaks."""

    ENGLISH = "en"
    CHINESE = "zh"


LANGUAGES = tuple(language.value for language in Language)
Words = TypeVar("Words", covariant=True)


@dataclass(frozen=True, slots=True)
class Text(Generic[Words]):
    """The same words in both languages: a `str`, or what writes one of amounts."""

    en: Words
    zh: Words

    def in_language(self, language: str) -> Words:
        """The Chinese words for `zh`; English for every other language."""
        return self.zh if language == "zh" else self.en

    def __str__(self) -> str:
        """The English words, for logs and for sentences that are written in English alone."""
        return str(self.en)


Saying = str | Text[str]
"""What a person reads; a `str` where it was written in English alone."""


def as_text(words: Saying) -> Text[str]:
    """The same as a `Text`; what was written in English alone stands for both languages."""
    return words if isinstance(words, Text) else Text(words, words)


Detail = Mapping[str, Any]
Writer = Callable[[Detail], str]
Sentence = Text[Writer]
"""A sentence with amounts, which it finds by their names."""


def fixed(en: str, zh: str) -> Sentence:
    """A sentence without amounts."""
    return Text(lambda detail: en, lambda detail: zh)


NO_HINT = Text("", "")
NOTHING = Text("nothing", "无")
BETWEEN_SENTENCES = Text(" ", "")
_SEPARATOR = Text(", ", "、")
_SECONDS = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}


def format_duration(seconds: int) -> str:
    """The shortest text that a job spec reads back to the same number: 5400 gives `1h30m`."""
    parts = []
    for unit, size in _SECONDS.items():
        count, seconds = divmod(seconds, size)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_moment(moment: datetime | str | None, *, up: bool = False) -> str:
    """A time in a sentence: `2026-11-23 14:05 UTC`, from a time or from ISO 8601; what is neither stays as it is. `up`: the next
    whole minute, for what is not so before that time.

    Every sentence of the server holds its times so: the portal and the command line find them by this form and show them in the
    time zone of the reader.
    """
    if isinstance(moment, str):
        try:
            moment = datetime.fromisoformat(moment)
        except ValueError:
            return str(moment)
    if moment is None:
        return "?"
    at = moment + timedelta(seconds=59, microseconds=999_999) if up else moment
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def format_bytes(amount: int) -> str:
    """Bytes in the largest binary unit that leaves a number of at least one: `16 GiB`, `1.5 GiB`."""
    for unit, size in (("TiB", 1024 * GIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if abs(amount) >= size:
            return f"{_trimmed(amount / size)} {unit}"
    return f"{amount} B"


def format_amount(name: str, amount: int, language: str = "en") -> str:
    """One resource by the name of its field: `gpu_millis` 1500 gives `1.5 GPUs`."""
    if name == "memory_bytes":
        return format_bytes(amount)
    number = _trimmed(amount / 1000)
    singular, many = ("GPU", "GPUs") if name == "gpu_millis" else ("core", "cores")
    noun = Text(singular if number == "1" else many, "块 GPU" if name == "gpu_millis" else "核 CPU")
    return f"{number} {noun.in_language(language)}"


def format_amounts(amounts: Mapping[str, int], language: str = "en", *, also: Collection[str] = ()) -> str:
    """Several resources, GPUs first: `2 GPUs, 8 cores, 32 GiB`. Those of which there are none are left out, but not `also`."""
    parts = [
        format_amount(name, amounts.get(name, 0), language)
        for name in ("gpu_millis", "cpu_millis", "memory_bytes")
        if amounts.get(name) or name in also
    ]
    return _SEPARATOR.in_language(language).join(parts) or NOTHING.in_language(language)


def counted(number: object, singular: str, many: str) -> str:
    """A number with its noun, in English: `1 job`, `2 jobs`; what is no number reads `? jobs`."""
    return f"{number if isinstance(number, int) else '?'} {singular if number == 1 else many}"


_DECIDED = {
    "pending": "待处理", "approved": "已批准", "denied": "已拒绝", "withdrawn": "已撤回", "expired": "已过期",
    "revoked": "已收回", "applied": "已生效", "cancelled": "已取消", "refused": "未能生效",
}  # fmt: skip


def decided_zh(state: object) -> str:
    """What became of a request or of a planned edit, in Chinese."""
    return _DECIDED.get(str(state), str(state))


def is_one(text: str) -> bool:
    """Whether English speaks of an amount, as these functions write it, in the singular: `1 GPU`, but not `1 GPU, 1 core`."""
    return text.startswith("1 ") and "," not in text


def _trimmed(number: float) -> str:
    return f"{number:.3f}".rstrip("0").rstrip(".") if number < 10 else f"{number:.1f}".rstrip("0").rstrip(".")
