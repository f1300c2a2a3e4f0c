"""Values as the API writes and reads them: UTC times with `Z`, quantities in integers, slugs."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from kernel.clock import read_moment
from kernel.errors import FieldError, InvalidInput
from kernel.limits import YEAR_MAX, YEAR_MIN
from kernel.priorities import PRIORITIES, PRIORITY_MAX

SLUG = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
INTEGER_MAX = 2**63 - 1  # What a column holds.


def utc_text(moment: datetime | None) -> str | None:
    """A time as `2026-11-20T08:15:30.123456Z`; None stays None."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def read_utc(text: str, *, name: str) -> datetime:
    """A time from a query parameter, ISO 8601 with an offset or `Z`; InvalidInput naming the parameter otherwise."""
    try:
        return read_moment(text.strip().replace(" ", "+"))
    except ValueError:
        message = f"{name} must be a time such as 2026-11-20T08:15:30Z, of a year from {YEAR_MIN} to {YEAR_MAX}."
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)]) from None


@extend_schema_field(OpenApiTypes.DATETIME)
class UtcTimeField(serializers.Field[datetime, str, str | None, Any]):
    """A time with an offset; naive times are refused, because nobody knows which zone was meant."""

    def to_internal_value(self, data: str) -> datetime:
        if not isinstance(data, str):
            raise serializers.ValidationError("Must be a time such as 2026-11-20T08:15:30Z.", code="invalid")
        try:
            return read_utc(data, name=self.field_name or "time")
        except InvalidInput as error:
            raise serializers.ValidationError(error.detail, code="invalid") from None

    def to_representation(self, value: datetime) -> str | None:
        return utc_text(value)


class QuantityField(serializers.IntegerField):
    """A whole, non-negative amount in its smallest unit. Text and fractions are refused: `"4"` and `4.0` hide mistakes."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("min_value", 0)
        kwargs.setdefault("max_value", INTEGER_MAX)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, bool) or not isinstance(data, int):
            self.fail("invalid")
        return super().to_internal_value(data)


class SlugField(serializers.CharField):
    """A name for URLs: small letters, digits and inner hyphens, at most 63."""

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 63)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        text = super().to_internal_value(data)
        if SLUG.fullmatch(text) is None:
            raise serializers.ValidationError("Use small letters, digits and inner hyphens, at most 63.", code="invalid")
        return text


_REFUSED = frozenset({"Cc", "Cs", "Cn", "Zl", "Zp"})
_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")


class NameField(serializers.CharField):
    """A name for people: printable text without control characters, trimmed, not empty."""

    of_lines = ""  # What parts lines, where there may be several.

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("max_length", 255)
        super().__init__(**kwargs)

    def to_internal_value(self, data: Any) -> str:
        if not isinstance(data, str):
            self.fail("invalid")
        text = super().to_internal_value(data)
        if not is_plain_text(text.translate(dict.fromkeys(map(ord, self.of_lines)))):
            raise serializers.ValidationError(
                "Must not contain control characters, or marks that turn the direction of the text around them.", code="invalid"
            )
        return text


class WordsField(NameField):
    """Words for people, of one or more lines."""

    of_lines = "\n\t"


def is_plain_text(text: str) -> bool:
    """Whether a text is of one line and stays within itself: no controls, no lone surrogates, nothing that turns the text around
    it. Joiners of emoji and scripts, wide and unbreakable spaces and marks of one direction are ordinary text."""
    return not any(character in _TURNING or unicodedata.category(character) in _REFUSED for character in text)


@extend_schema_field(
    {"oneOf": [{"type": "string", "enum": list(PRIORITIES)}, {"type": "integer", "minimum": 0, "maximum": PRIORITY_MAX}]}
)
class PriorityField(serializers.Field[int, Any, int, Any]):
    """A priority: a whole number, or one of the classes by name."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and data in PRIORITIES:
            return PRIORITIES[data]
        if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data <= PRIORITY_MAX:
            raise serializers.ValidationError(
                f"Must be one of {', '.join(PRIORITIES)}, or a whole number from 0 to {PRIORITY_MAX}.", code="invalid"
            )
        return data

    def to_representation(self, value: int) -> int:
        return value
