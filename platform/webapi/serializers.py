"""Translation of bodies, strictly: an unknown name is an error, and all errors come at once with their paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from webapi.problems import invalid_input


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses what it does not know: a misspelt or server-owned field never passes silently."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(str(key) for key in set(data) - _writable(self)) if isinstance(data, Mapping) else []
        problems: dict[str, Any] = {}
        if unknown:
            known = ", ".join(sorted(_writable(self))) or "none"
            problems = {
                name: [
                    serializers.ErrorDetail(f"There is no field {name[:80]!r} here. Known are: {known}.", code="unknown_field")
                ]
                for name in unknown
            }
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**problems, **_as_dict(error.detail)}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return value

    @classmethod
    def validated(cls, data: Any, *, partial: bool = False, context: dict[str, Any] | None = None) -> dict[str, Any]:
        """The checked body; InvalidInput with every error at once. With `partial`, only the fields that were sent."""
        serializer = cls(data=data, partial=partial, context=context or {})
        if not serializer.is_valid():
            raise invalid_input(serializer.errors)
        return dict(serializer.validated_data)

    @classmethod
    def validated_list(cls, data: Any, *, length_max: int, context: dict[str, Any] | None = None) -> list[dict[str, Any]]:
        """The checked body of an operation that takes a list of at most `length_max` items."""
        options: dict[str, Any] = {"many": True, "max_length": length_max, "context": context or {}}
        serializer = cls(data=data, **options)
        if not serializer.is_valid():
            raise invalid_input(serializer.errors)
        return [dict(item) for item in serializer.validated_data]


def _writable(serializer: serializers.Serializer[Any]) -> set[str]:
    return {name for name, field in serializer.fields.items() if not field.read_only}


def _as_dict(detail: Any) -> dict[str, Any]:
    return dict(detail) if isinstance(detail, Mapping) else {"non_field_errors": detail}
