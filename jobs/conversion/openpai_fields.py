"""Reading OpenPAI's fields strictly, each mistake with its place and line."""

from __future__ import annotations

from typing import Any

from jobs.conversion.notes import Findings
from jobs.spec.documents import Document, pointer
from jobs.spec.values import shown
from kernel.words import Saying, Text

Place = tuple[str | int, ...]


class FieldReader:
    """Gives a field's value, or nothing and a mistake."""

    def __init__(self, document: Document, findings: Findings) -> None:
        self._document, self._findings = document, findings
        self._failed: set[str] = set()

    def line(self, *place: str | int) -> int | None:
        return self._document.line_of(pointer(place))

    def wrong(self, place: Place, code: str, message: Saying, hint: Saying = "") -> None:
        path = pointer(place)
        if path not in self._failed:
            self._failed.add(path)
            self._findings.wrong(path, code, message, hint, line=self.line(*place))

    def failed(self, *place: str | int) -> bool:
        return pointer(place) in self._failed

    def is_mapping(self, value: Any, place: Place) -> bool:
        if not isinstance(value, dict):
            self.wrong(
                place,
                "mapping",
                Text(
                    f"{place[-1]} must be a mapping of keys to values, not {shown(value)}.",
                    f"{place[-1]} 须为从键到值的映射，而非{shown(value, 'zh')}。",
                ),
            )
        return isinstance(value, dict)

    def mapping(self, holder: dict[str, Any], key: str, place: Place) -> dict[str, Any]:
        """A mapping; an empty one where there is none."""
        value = holder.get(key)
        return value if value is not None and self.is_mapping(value, (*place, key)) else {}

    def sequence(self, holder: dict[str, Any], key: str, place: Place) -> list[Any]:
        """A list; an empty one where there is none."""
        value = holder.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self.wrong(
                (*place, key),
                "list",
                Text(f"{key} must be a list, not {shown(value)}.", f"{key} 须为列表，而非{shown(value, 'zh')}。"),
            )
            return []
        return value

    def text(self, holder: dict[str, Any], key: str, place: Place, *, required: bool = False) -> str:
        value = holder.get(key)
        if value is None or value == "":
            if required:
                self.wrong((*place, key), "required", Text(f"{key} is missing.", f"缺少 {key}。"))
            return ""
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self.wrong(
                (*place, key),
                "text",
                Text(f"{key} must be text, not {shown(value)}.", f"{key} 须为文本，而非{shown(value, 'zh')}。"),
            )
            return ""
        return str(value)

    def whole(self, holder: dict[str, Any], key: str, place: Place, *, least: int) -> int | None:
        value = holder.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            self.wrong(
                (*place, key),
                "integer",
                Text(f"{key} must be a whole number, not {shown(value)}.", f"{key} 须为整数，而非{shown(value, 'zh')}。"),
            )
            return None
        if value < least:
            self.wrong(
                (*place, key),
                "range",
                Text(f"{key} is {value}; it must be at least {least}.", f"{key} 为 {value}；须至少为 {least}。"),
            )
            return None
        return value
