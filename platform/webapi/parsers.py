"""Bodies, read with bounds: size, depth, number of values, duplicate names, numbers that are none.

Whatever a parser refuses costs at most one pass over the bytes: a hostile body is told apart from a valid one before any
validation runs. YAML and NDJSON reach their view as bytes (`RawBodyParser`), because only the view knows their meaning.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from kernel import limits
from kernel.errors import FieldError, InvalidInput, TooLarge
from webapi.errors import MalformedBody

BODY_NODES = 1_000_000  # Values of one body: a full batch of 10,000 items with a hundred values each.
INTEGER_DIGITS = 19  # 64 bits; longer numbers cost quadratic time and fit no column.

_OPENING, _CLOSING = frozenset(b"[{"), frozenset(b"]}")
_STRING_OR_BRACKET = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)


class LimitedJSONParser(BaseParser):
    """JSON as RFC 8259 means it: no duplicate names, no NaN, no bottomless nesting."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        return parse_json(read_body(stream, limits.BODY_BYTES))


class RawBodyParser(BaseParser):
    """The body as bytes, for formats that the view itself reads. Subclass or instantiate per content type with `raw`."""

    media_type = "application/octet-stream"
    body_bytes_max = limits.BODY_BYTES

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> bytes:
        return read_body(stream, self.body_bytes_max)


class YamlBody(RawBodyParser):
    """A YAML document as bytes."""

    media_type = "application/yaml"


class NdjsonBody(RawBodyParser):
    """One JSON document per line, as bytes; `parse_json` reads a line."""

    media_type = "application/x-ndjson"


class CsvBody(RawBodyParser):
    """A CSV table as bytes."""

    media_type = "text/csv"
    body_bytes_max = limits.BODY_BYTES_BEFORE_AUTH


class UploadChunk(RawBodyParser):
    """One piece of an upload."""

    media_type = "application/offset+octet-stream"
    body_bytes_max = limits.UPLOAD_CHUNK_BYTES


def read_body(stream: IO[bytes], bytes_max: int) -> bytes:
    """Read at most `bytes_max` bytes; TooLarge when there are more."""
    body = stream.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise TooLarge(f"The body is larger than {bytes_max} bytes.", hint="Send less at once, or use an upload.")
    return body


def parse_json(body: bytes, *, nodes_max: int = BODY_NODES, depth_max: int = limits.INPUT_DEPTH) -> Any:
    """Parse one JSON document; MalformedBody with line and column, InvalidInput for what Berth refuses to hold."""
    check_shape(body, nodes_max=nodes_max, depth_max=depth_max)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedBody(f"Byte {error.start} is not UTF-8.", hint="Send the body in UTF-8.") from None
    try:
        return json.loads(text, object_pairs_hook=_unique_names, parse_constant=_no_constant, parse_int=_bounded_integer)
    except json.JSONDecodeError as error:
        raise MalformedBody(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            hint="A trailing comma, a missing quote or a comment are the usual causes.",
        ) from None
    except RecursionError:
        raise _too_deep(depth_max) from None


def check_shape(body: bytes, *, nodes_max: int = BODY_NODES, depth_max: int = limits.INPUT_DEPTH) -> None:
    """Refuse nesting and counts beyond the limits before any object is made. One pass; strings are skipped whole."""
    if body.count(b",") >= nodes_max and _count_values(body) > nodes_max:
        raise TooLarge(f"The body holds more than {nodes_max} values.", hint="Split it into several requests.")
    depth = 0
    for match in _STRING_OR_BRACKET.finditer(body):
        first = body[match.start()]
        if first in _OPENING:
            depth += 1
            if depth > depth_max:
                raise _too_deep(depth_max)
        elif first in _CLOSING:
            depth -= 1


def _count_values(body: bytes) -> int:
    return _STRING_OR_BRACKET.sub(b"", body).count(b",") + 1


def _too_deep(depth_max: int) -> InvalidInput:
    message = f"The body is nested deeper than {depth_max} levels."
    return InvalidInput(message, fields=[FieldError("", "too_deep", message)])


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise MalformedBody(
                    f"The name {name[:80]!r} occurs twice in one object.", hint="Which of the two counts is undefined."
                )
            seen.add(name)
    return found


def _no_constant(name: str) -> Any:
    raise MalformedBody(f"{name} is not a JSON value.", hint="Use a number, or null.")


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > INTEGER_DIGITS:
        raise MalformedBody(f"The number {digits[:24]}... has more than {INTEGER_DIGITS} digits.")
    return int(digits)
