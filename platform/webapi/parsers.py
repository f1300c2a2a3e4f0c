"""Bodies, read with bounds: size, depth, number of values, duplicate names, numbers that are none.

Whatever a parser refuses costs at most one pass over the bytes: a hostile body is told apart from a valid one before any
validation runs. YAML and NDJSON reach their view as bytes (`RawBodyParser`), because only the view knows their meaning.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import IO, Any

from rest_framework.parsers import BaseParser

from kernel import limits
from kernel.errors import FieldError, InvalidInput, TooLarge
from webapi.errors import MalformedBody

BODY_NODES = 300_000  # Values of one body: 10,000 items with thirty values each; as objects about 30 MiB.
INTEGER_DIGITS = 19  # 64 bits; longer numbers cost quadratic time and fit no column.

_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_OPENING = frozenset(b"[{")


class LimitedJSONParser(BaseParser):
    """JSON as RFC 8259 means it: no duplicate names, no NaN, no bottomless nesting."""

    media_type = "application/json"

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        return parse_json(read_body(stream, limits.BODY_BYTES))


class RawBodyParser(BaseParser):
    """The body as bytes, for formats that the view itself reads. Subclass or instantiate per content type with `raw`."""

    media_type = "application/octet-stream"
    body_bytes_max = limits.BODY_BYTES

    def parse(self, stream: IO[bytes], media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
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
        value = json.loads(
            text,
            object_pairs_hook=_unique_names,
            parse_constant=_no_constant,
            parse_int=_bounded_integer,
            parse_float=_finite_number,
        )
    except json.JSONDecodeError as error:
        raise MalformedBody(
            f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
            hint="A trailing comma, a missing quote or a comment are the usual causes.",
        ) from None
    except RecursionError:
        raise _too_deep(depth_max) from None
    if "\\u" in text:
        _check_escapes(value)
    return value


def check_shape(body: bytes, *, nodes_max: int = BODY_NODES, depth_max: int = limits.INPUT_DEPTH) -> None:
    """Refuse nesting and counts beyond the limits before any object is made. Two passes at the speed of C."""
    if body.count(b",") + body.count(b"[") + body.count(b"{") < depth_max:
        return
    bare = _STRING.sub(b"", body)
    brackets = bare.translate(None, _NOT_BRACKETS)
    if bare.count(b",") + len(brackets) // 2 >= nodes_max:
        raise TooLarge(f"The body holds more than {nodes_max} values.", hint="Split it into several requests.")
    depth = 0
    for sign in brackets:
        depth += 1 if sign in _OPENING else -1
        if depth > depth_max:
            raise _too_deep(depth_max)


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


def _finite_number(digits: str) -> float:
    number = float(digits[:400])
    if not math.isfinite(number):
        raise MalformedBody(f"The number {digits[:24]} is larger than any that can be held.")
    return number


def _check_escapes(value: Any) -> None:
    """Refuse what no database stores and no encoding writes: NUL characters and halves of surrogate pairs."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise MalformedBody(
            "The body contains half of a surrogate pair.", hint="Escape characters beyond U+FFFF in pairs."
        ) from None
    if "\\u0000" in text and _holds_nul(value):
        raise MalformedBody("The body contains a NUL character.", hint="Remove it: no text of Berth can hold one.")


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(below) for name, below in value.items())
    return isinstance(value, list) and any(_holds_nul(below) for below in value)


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > INTEGER_DIGITS:
        raise MalformedBody(f"The number {digits[:24]}... has more than {INTEGER_DIGITS} digits.")
    return int(digits)
