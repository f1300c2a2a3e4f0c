"""Which language a reader of the API reads."""

from __future__ import annotations

from typing import Any

from kernel.words import LANGUAGES, Language

HEADER_LENGTH_MAX = 200  # Longer than any browser sends; the header is read before the caller is known.


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
        if primary in LANGUAGES and quality > best_quality:
            best, best_quality = Language(primary), quality
    return best


def reader_language(request: Any) -> str:
    """The language that the sender of a request reads."""
    return language_of(request.headers.get("Accept-Language", "")).value
