"""Translation of bodies, strictly: an unknown name is an error, and all errors come at once with their paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rest_framework import serializers

from kernel.words import Text
from webapi.problems import invalid_input
from webapi.refusals import INVALID_CHOICE, detail


class StrictSerializer(serializers.Serializer[Any]):
    """A serializer that refuses what it does not know: a misspelt or server-owned field never passes silently."""

    def to_internal_value(self, data: Any) -> Any:
        unknown = sorted(str(key) for key in set(data) - _writable(self)) if isinstance(data, Mapping) else []
        problems: dict[str, Any] = {}
        if unknown:
            known = ", ".join(sorted(_writable(self)))
            problems = {name: [detail(_unknown(name, known), code="unknown_field")] for name in unknown}
        try:
            value = super().to_internal_value(data)
        except serializers.ValidationError as error:
            raise serializers.ValidationError({**problems, **_as_dict(error.detail)}) from None
        if problems:
            raise serializers.ValidationError(problems)
        return value

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """The fields; those with choices name them where they refuse one."""
        found = super().get_fields()
        for field in found.values():
            _name_choices(field)
        return found

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


def _unknown(name: str, known: str) -> Text[str]:
    return Text(
        f"There is no field {name[:80]!r} here. Known are: {known or 'none'}.",
        f"此处没有字段 {name[:80]!r}。可用：{known or '无'}。",
    )


def _name_choices(field: serializers.Field[Any, Any, Any, Any]) -> None:
    if isinstance(field, serializers.ListField):
        _name_choices(field.child)
    elif isinstance(field, serializers.ChoiceField):
        known = ", ".join(str(choice) for choice in field.choices if choice != "")
        field.error_messages["invalid_choice"] = INVALID_CHOICE.format(known=known)


def _writable(serializer: serializers.Serializer[Any]) -> set[str]:
    return {name for name, field in serializer.fields.items() if not field.read_only}


def _as_dict(detail: Any) -> dict[str, Any]:
    return dict(detail) if isinstance(detail, Mapping) else {"non_field_errors": detail}
