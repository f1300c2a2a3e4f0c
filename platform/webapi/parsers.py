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
from kernel.words import Text
from webapi import bounds
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
        return parse_json(read_body(stream, bounds.BODY_BYTES))


class RawBodyParser(BaseParser):
    """The body as bytes, for formats that the view itself reads. Subclass or instantiate per content type with `raw`."""

    media_type = "application/octet-stream"
    body_bytes_max = bounds.BODY_BYTES

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
    body_bytes_max = bounds.BODY_BYTES_BEFORE_AUTH


class UploadChunk(RawBodyParser):
    """One piece of an upload."""

    media_type = "application/offset+octet-stream"
    body_bytes_max = limits.UPLOAD_CHUNK_BYTES


def read_body(stream: IO[bytes], bytes_max: int) -> bytes:
    """Read at most `bytes_max` bytes; TooLarge when there are more."""
    body = stream.read(bytes_max + 1)
    if len(body) > bytes_max:
        raise TooLarge(
            Text(f"The body is larger than {bytes_max} bytes.", f"请求体超过 {bytes_max} 字节。"),
            hint=Text("Send less at once, or use an upload.", "请减少一次发送的内容，或使用上传。"),
        )
    return body


def parse_json(body: bytes, *, nodes_max: int = BODY_NODES, depth_max: int = limits.INPUT_DEPTH) -> Any:
    """Parse one JSON document; MalformedBody with line and column, InvalidInput for what Berth refuses to hold."""
    check_shape(body, nodes_max=nodes_max, depth_max=depth_max)
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MalformedBody(
            Text(f"Byte {error.start} is not UTF-8.", f"第 {error.start} 字节不是 UTF-8。"),
            hint=Text("Send the body in UTF-8.", "请以 UTF-8 发送请求体。"),
        ) from None
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
            Text(
                f"The body is not JSON: {error.msg} at line {error.lineno}, column {error.colno}.",
                f"请求体不是 JSON：第 {error.lineno} 行第 {error.colno} 列，{error.msg}。",
            ),
            hint=Text(
                "A trailing comma, a missing quote or a comment are the usual causes.",
                "常见原因：多余的逗号、缺少引号或含有注释。",
            ),
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
        raise TooLarge(
            Text(f"The body holds more than {nodes_max} values.", f"请求体中的值超过 {nodes_max} 个。"),
            hint=Text("Split it into several requests.", "请拆分为多个请求。"),
        )
    depth = 0
    for sign in brackets:
        depth += 1 if sign in _OPENING else -1
        if depth > depth_max:
            raise _too_deep(depth_max)


def _too_deep(depth_max: int) -> InvalidInput:
    message = Text(f"The body is nested deeper than {depth_max} levels.", f"请求体的嵌套超过 {depth_max} 层。")
    return InvalidInput(message, fields=[FieldError("", "too_deep", message)])


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise MalformedBody(
                    Text(f"The name {name[:80]!r} occurs twice in one object.", f"名称 {name[:80]!r} 在同一对象中出现两次。"),
                    hint=Text("Which of the two counts is undefined.", "无法确定以哪一个为准。"),
                )
            seen.add(name)
    return found


def _no_constant(name: str) -> Any:
    raise MalformedBody(
        Text(f"{name} is not a JSON value.", f"{name} 不是 JSON 值。"), hint=Text("Use a number, or null.", "请使用数字或 null。")
    )


def _finite_number(digits: str) -> float:
    number = float(digits[:400])
    if not math.isfinite(number):
        raise MalformedBody(
            Text(f"The number {digits[:24]} is larger than any that can be held.", f"数字 {digits[:24]} 过大，无法保存。")
        )
    return number


def _check_escapes(value: Any) -> None:
    """Refuse what no database stores and no encoding writes: NUL characters and halves of surrogate pairs."""
    try:
        text = json.dumps(value, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        raise MalformedBody(
            Text("The body contains half of a surrogate pair.", "请求体中有不成对的代理字符（surrogate）。"),
            hint=Text("Escape characters beyond U+FFFF in pairs.", "U+FFFF 以上的字符须成对转义。"),
        ) from None
    if "\\u0000" in text and _holds_nul(value):
        raise MalformedBody(
            Text("The body contains a NUL character.", "请求体含有 NUL 字符。"),
            hint=Text("Remove it: no text of Berth can hold one.", "请去掉：Berth 的文本不能含有 NUL 字符。"),
        )


def _holds_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    if isinstance(value, dict):
        return any("\0" in name or _holds_nul(below) for name, below in value.items())
    return isinstance(value, list) and any(_holds_nul(below) for below in value)


def _bounded_integer(digits: str) -> int:
    if len(digits.lstrip("-")) > INTEGER_DIGITS:
        raise MalformedBody(
            Text(
                f"The number {digits[:24]}... has more than {INTEGER_DIGITS} digits.",
                f"数字 {digits[:24]}... 超过 {INTEGER_DIGITS} 位。",
            )
        )
    return int(digits)
