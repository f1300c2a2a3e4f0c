"""Titles of failures in the reader's language. Details and hints name objects and numbers, and stay English.

A class may carry `title_zh`; the others are looked up in `webapi.reference`, where a test keeps the table complete.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from kernel.errors import BerthError
from webapi.reference import REFERENCE

HEADER_LENGTH_MAX = 200  # Longer than any browser sends; the header is read before anybody is known.


class Language(StrEnum):
    """Languages that Berth speaks."""

    ENGLISH = "en"
    CHINESE = "zh"


def language_of(header: str) -> Language:
    """The best supported language of an `Accept-Language` header; English when it names none of ours."""
    best, best_quality = Language.ENGLISH, 0.0
    for entry in header[:HEADER_LENGTH_MAX].split(","):
        name, _, parameter = entry.strip().partition(";")
        try:
            quality = float(parameter.strip().removeprefix("q=")) if parameter else 1.0
        except ValueError:
            continue
        primary = name.strip().lower().partition("-")[0]
        if primary in {language.value for language in Language} and quality > best_quality:
            best, best_quality = Language(primary), quality
    return best


def reader_language(request: Any) -> str:
    """The language that whoever sent a request reads."""
    return language_of(request.headers.get("Accept-Language", "")).value


def title_of(failure: BerthError, language: Language) -> str:
    """A failure's title; its English one where nobody translated it."""
    if language is Language.CHINESE:
        entry = REFERENCE.get(failure.code)
        return str(getattr(failure, "title_zh", "") or (entry.title_zh if entry else "") or failure.title)
    return failure.title
