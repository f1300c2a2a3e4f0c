"""Lists in pages, by cursor: a page costs the same wherever it is, and rows that come or go do not shift it.

The cursor holds the last row's sort key, checked by a signature, so that no client can ask the database for a comparison of
their own making; it is bound to the path and order of the list that made it.
"""

from __future__ import annotations

import base64
import binascii
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db.models import BooleanField, F, Func, Model, Q, QuerySet, TextField, Value
from django.utils.crypto import constant_time_compare, salted_hmac
from rest_framework.request import Request
from rest_framework.response import Response

from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from webapi.bounds import PAGE_SIZE, PAGE_SIZE_MAX
from webapi.errors import InvalidCursor

CURSOR_LENGTH_MAX = 2_000
_SIGNATURE_LENGTH = 22  # 132 bits of the SHA-256 digest.


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the order. Nulls sort last in both directions on every database."""

    name: str
    descending: bool
    nullable: bool


def page(
    request: Request,
    queryset: QuerySet[Any, Any],
    *,
    order: tuple[str, ...],
    serialize: Callable[[Sequence[Any]], list[dict[str, Any]]],
    limit: int | None = None,
    filled: frozenset[str] = frozenset(),
) -> Response:
    """Answer one page of a list: `{"items": [...], "next": "<cursor>" | null}`.

    `order` names columns, `-` for descending, and must end in a unique one. Rows are models or `values()` dicts that
    contain those columns. One query, plus whatever `serialize` makes for the whole page. `filled` names nullable columns of the
    order in which the queryset has no nulls.
    """
    rows, cursor = slice_page(request, queryset, order=order, limit=limit, filled=filled)
    return Response({"items": serialize(rows), "next": cursor})


def slice_page(
    request: Request,
    queryset: QuerySet[Any, Any],
    *,
    order: tuple[str, ...],
    limit: int | None = None,
    filled: frozenset[str] = frozenset(),
) -> tuple[list[Any], str | None]:
    """The rows of the asked page and the cursor of the next, for answers with more than the list in them."""
    columns = tuple(_column(queryset.model, name, filled) for name in order)
    size = limit if limit is not None else page_size(request)
    scope = f"{request.path}|{','.join(order)}"
    text = request.query_params.get("cursor", "")
    if text:
        queryset = _after(queryset, columns, read_cursor(text, scope=scope, length=len(order)))
    terms = [_term(column) for column in columns]
    rows = list(queryset.order_by(*terms)[: size + 1])
    if len(rows) <= size:
        return rows, None
    rows = rows[:size]
    return rows, make_cursor([_value(rows[-1], column.name) for column in columns], scope=scope)


def page_size(request: Request, *, default: int = PAGE_SIZE, most: int = PAGE_SIZE_MAX) -> int:
    """The query parameter `limit`, between 1 and `most`."""
    text = request.query_params.get("limit", "")
    if not text:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) <= 6 and 1 <= int(text) <= most):
        message = Text(f"limit must be a whole number between 1 and {most}.", f"limit 须为 1 到 {most} 之间的整数。")
        raise InvalidInput(message, fields=[FieldError("/limit", "invalid", message)])
    return int(text)


def make_cursor(values: Sequence[Any], *, scope: str) -> str:
    """Pack a sort key so that only the list it comes from accepts it again."""
    payload = json.dumps([_plain(value) for value in values], separators=(",", ":"), ensure_ascii=False).encode()
    body = base64.urlsafe_b64encode(payload).decode().rstrip("=")
    return f"{_signature(body, scope)}{body}"


def read_cursor(text: str, *, scope: str, length: int) -> list[Any]:
    """Unpack a cursor; InvalidCursor for anything that `make_cursor` did not make for the same list."""
    signature, body = text[:_SIGNATURE_LENGTH], text[_SIGNATURE_LENGTH:]
    if len(text) > CURSOR_LENGTH_MAX or not constant_time_compare(signature, _signature(body, scope)):
        raise _refused()
    try:
        values = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    except (ValueError, binascii.Error):
        raise _refused() from None
    if not isinstance(values, list) or len(values) != length:
        raise _refused()
    return values


def _refused() -> InvalidCursor:
    return InvalidCursor(
        Text("The cursor does not belong to this list.", "该游标不属于此列表。"),
        hint=Text("Start without `cursor`, then pass on `next` unchanged.", "请先不带 `cursor` 开始，之后原样传递 `next`。"),
    )


def _signature(body: str, scope: str) -> str:
    digest = salted_hmac("webapi.pagination", f"{scope}|{body}", algorithm="sha256").digest()
    return base64.urlsafe_b64encode(digest).decode()[:_SIGNATURE_LENGTH]


def _column(model: type[Model], name: str, filled: frozenset[str]) -> _Column:
    plain = name.removeprefix("-")
    return _Column(plain, name.startswith("-"), plain not in filled and _is_nullable(model, plain))


def _is_nullable(model: type[Model], name: str) -> bool:
    """Whether any step of a path can be null; an annotation may always be."""
    for part in name.split("__"):
        try:
            found: Any = model._meta.pk if part == "pk" else model._meta.get_field(part)
        except FieldDoesNotExist:
            return True
        if found.null:
            return True
        if found.is_relation and found.related_model is not None:
            model = found.related_model
    return False


def _term(column: _Column) -> Any:
    if not column.nullable:
        return f"-{column.name}" if column.descending else column.name
    expression = F(column.name)
    return expression.desc(nulls_last=True) if column.descending else expression.asc(nulls_last=True)


def _after(queryset: QuerySet[Any, Any], columns: Sequence[_Column], values: Sequence[Any]) -> QuerySet[Any, Any]:
    """Rows behind a sort key: `a > x or (a = x and (b > y or ...))`, with each column's own direction."""
    if len(columns) > 1 and len({column.descending for column in columns}) == 1 and not any(c.nullable for c in columns):
        return _after_row(queryset, columns, values)
    condition: Q | None = None
    for column, value in reversed(list(zip(columns, values, strict=True))):
        behind, same = _behind(column, value), _same(column, value)
        tail = None if condition is None else same & condition
        condition = tail if behind is None else (behind if tail is None else behind | tail)
    first, value = columns[0], values[0]
    if not first.nullable and condition is not None:  # Lets the database start inside the index.
        condition = Q((f"{first.name}__{'lte' if first.descending else 'gte'}", value)) & condition
    try:
        return queryset.none() if condition is None else queryset.filter(condition)
    except (ValidationError, ValueError, TypeError):
        raise _refused() from None


def _after_row(queryset: QuerySet[Any, Any], columns: Sequence[_Column], values: Sequence[Any]) -> QuerySet[Any, Any]:
    """The same as one comparison of rows, `(a, b) > (x, y)`, which enters an index at exactly that place.

    The longer form enters it at `a >= x`, and among a hundred thousand rows with one `a` reads all those that were seen.
    """
    model = queryset.model
    try:
        given = [
            Value(field.to_python(value), output_field=field)
            for column, value in zip(columns, values, strict=True)
            for field in (model._meta.get_field(column.name),)
        ]
    except FieldDoesNotExist:
        raise AssertionError("a page's order without nulls names columns of its own table") from None
    except (ValidationError, ValueError, TypeError):
        raise _refused() from None
    row = _Row(*(F(column.name) for column in columns))
    return queryset.filter(_RowIsBehind(row, _Row(*given), arg_joiner=" < " if columns[0].descending else " > "))


class _Row(Func):
    """`(a, b)`."""

    template = "(%(expressions)s)"
    output_field = TextField()  # Of no meaning: a row is only compared.


class _RowIsBehind(Func):
    """Compares two rows as a whole."""

    template = "%(expressions)s"
    conditional = True
    output_field = BooleanField()


def _behind(column: _Column, value: Any) -> Q | None:
    if value is None:
        return None  # Nulls are last: nothing is behind them.
    further = Q((f"{column.name}__{'lt' if column.descending else 'gt'}", value))
    return further | Q((f"{column.name}__isnull", True)) if column.nullable else further


def _same(column: _Column, value: Any) -> Q:
    return Q((f"{column.name}__isnull", True)) if value is None else Q((column.name, value))


def _value(row: Any, name: str) -> Any:
    if isinstance(row, Mapping):
        return row[name]
    for part in name.split("__"):
        row = None if row is None else getattr(row, part)
    return row.pk if isinstance(row, Model) else row


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, str, float)):
        return value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, (uuid.UUID, Decimal)):
        return str(value)
    raise TypeError(f"{type(value).__name__} cannot be part of a page's order")
