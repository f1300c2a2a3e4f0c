"""Lists of the API, page after page by cursor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from berth import limits
from berth.errors import AnswerInvalid
from berth.transport import Call, Transport


def iterate(transport: Transport, path: str, params: Mapping[str, object], *, limit: int | None = None) -> Iterator[Any]:
    """Items of a list endpoint, page after page by cursor."""
    cursor: object = None
    left = limit
    while left is None or left > 0:
        size = limits.PAGE_SIZE if left is None else min(left, limits.PAGE_SIZE)
        page = transport.json(Call("GET", path, {**params, "limit": size, "cursor": cursor}))
        items = items_of(page)[:left]
        yield from items
        left = None if left is None else left - len(items)
        cursor = page.get("next")
        if not cursor or not items:
            return


def list_all(transport: Transport, path: str, /, **params: object) -> list[dict[str, Any]]:
    """All items of a list, page after page."""
    items: list[dict[str, Any]] = []
    cursor: object = None
    while True:
        page = transport.json(Call("GET", path, {**params, "cursor": cursor}))
        items += items_of(page)
        cursor = page.get("next")
        if not cursor:
            return items


def items_of(page: Mapping[str, Any]) -> list[Any]:
    """The rows of one page; AnswerInvalid where it is no list."""
    items = page.get("items")
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise AnswerInvalid("The server's answer is not a list of Berth's.", hint="Check the address: berth whoami")
    return items
