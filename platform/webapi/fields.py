"""Fields of the API's bodies: UTC times with `Z`, quantities in integers, slugs, names and words."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from kernel.clock import read_moment, utc_text
from kernel.errors import FieldError, InvalidInput
from kernel.limits import YEAR_MAX, YEAR_MIN
from kernel.names import SLUG, is_plain_text
from kernel.priorities import PRIORITIES, PRIORITY_MAX
from kernel.words import Text
from webapi.refusals import refusal

INTEGER_MAX = 2**63 - 1  # What a column holds.


def read_utc(text: str, *, name: str) -> datetime:
    """A time from a query parameter, ISO 8601 with an offset or `Z`; InvalidInput naming the parameter otherwise."""
    try:
        return read_moment(text.strip().replace(" ", "+"))
    except ValueError:
        message = Text(
            f"{name} must be a time such as 2026-11-20T08:15:30Z, of a year from {YEAR_MIN} to {YEAR_MAX}.",
            f"{name} 须为 2026-11-20T08:15:30Z 这样的时间，年份在 {YEAR_MIN} 到 {YEAR_MAX} 之间。",
        )
        raise InvalidInput(message, fields=[FieldError(f"/{name}", "invalid", message)]) from None


@extend_schema_field(OpenApiTypes.DATETIME)
class UtcTimeField(serializers.Field[datetime, str, str | None, Any]):
    """A time with an offset; naive times are refused, because their zone is unknown."""

    def to_internal_value(self, data: str) -> datetime:
        if not isinstance(data, str):
            raise refusal(
                Text("Must be a time such as 2026-11-20T08:15:30Z.", "须为 2026-11-20T08:15:30Z 这样的时间。"), code="invalid"
            )
        try:
            return read_utc(data, name=self.field_name or "time")
        except InvalidInput as error:
            raise refusal(error.detail_text, code="invalid") from None

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
            raise refusal(
                Text(
                    "Use small letters, digits and inner hyphens, at most 63.",
                    "请使用小写字母、数字及名称内部的连字符，最多 63 个字符。",
                ),
                code="invalid",
            )
        return text


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
            raise refusal(
                Text(
                    "Must not contain control characters, or marks that turn the direction of the text around them.",
                    "不能含有控制字符，或改变周围文字方向的标记。",
                ),
                code="invalid",
            )
        return text


class WordsField(NameField):
    """Words for people, of one or more lines."""

    of_lines = "\n\t"


@extend_schema_field(
    {"oneOf": [{"type": "string", "enum": list(PRIORITIES)}, {"type": "integer", "minimum": 0, "maximum": PRIORITY_MAX}]}
)
class PriorityField(serializers.Field[int, Any, int, Any]):
    """A priority: a whole number, or one of the classes by name."""

    def to_internal_value(self, data: Any) -> int:
        if isinstance(data, str) and data in PRIORITIES:
            return PRIORITIES[data]
        if isinstance(data, bool) or not isinstance(data, int) or not 0 <= data <= PRIORITY_MAX:
            names = ", ".join(PRIORITIES)
            raise refusal(
                Text(
                    f"Must be one of {names}, or a whole number from 0 to {PRIORITY_MAX}.",
                    f"须为 {names} 之一，或 0 到 {PRIORITY_MAX} 之间的整数。",
                ),
                code="invalid",
            )
        return data

    def to_representation(self, value: int) -> int:
        return value
