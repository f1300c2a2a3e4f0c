"""Text files as people have them: UTF-8 or UTF-16, with or without a mark at their beginning.

What is in another encoding is refused by its first byte: which one it is cannot be told from the bytes, and a wrong guess makes
wrong names. Only where the file says it itself, as Python files do (PEP 263), is it believed."""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from berth.errors import TextUnreadable

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_CODING = re.compile(rb"^#.{0,200}?coding[:=][ \t]{0,9}([-_.a-zA-Z0-9]{1,40})")
_LOOKED_AT = 400  # Bytes from which the order of UTF-16 without a mark is seen.


def read_text(path: Path) -> str:
    """The text of a file. TextUnreadable says why it cannot be read, and what to do."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TextUnreadable(f"{path} cannot be read: {error.strerror}.") from error
    return decode(data, str(path))


def decode(data: bytes, name: str) -> str:
    """The text of bytes that a file called `name` holds."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding, name)
    return _decoded(data, _order_of(data) or _said(data) or "utf-8", name)


def _decoded(data: bytes, encoding: str, name: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        if encoding != "utf-8":
            raise TextUnreadable(f"{name} cannot be read: byte {error.start} is not {encoding}.") from error
        line = data.count(b"\n", 0, error.start) + 1
        raise TextUnreadable(
            f"{name} cannot be read: line {line} holds the byte 0x{data[error.start]:02X}, which is not UTF-8.",
            hint=f"iconv -f latin1 -t utf-8 {name} > new   ·   with its own encoding, such as latin1 or gb18030",
        ) from error


def _order_of(data: bytes) -> str:
    """UTF-16 without a mark: of plain letters each second byte is 0."""
    start = data[:_LOOKED_AT]
    pairs = len(start) // 2
    if pairs and start[1::2].count(0) > pairs * 0.4 and 0 not in start[0::2]:
        return "utf-16-le"
    if pairs and start[0::2].count(0) > pairs * 0.4 and 0 not in start[1::2]:
        return "utf-16-be"
    return ""


def _said(data: bytes) -> str:
    for line in data.split(b"\n", 2)[:2]:
        found = _CODING.match(line)
        if found:
            try:
                return codecs.lookup(found[1].decode()).name
            except LookupError:
                return ""
    return ""
