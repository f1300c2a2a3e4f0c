"""The text of a file that somebody sent: UTF-8 or UTF-16, with or without a mark at its beginning.

Another encoding cannot be told from the bytes, and a wrong guess makes wrong names: it is refused."""

from __future__ import annotations

import codecs

from kernel.errors import FieldError, InvalidInput
from kernel.words import Text

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LOOKED_AT = 400  # Bytes from which the order of UTF-16 without a mark is seen.


def decode_file(data: bytes) -> str:
    """The text. InvalidInput names the first byte that is none."""
    mark, encoding = next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", _order_of(data) or "utf-8"))
    try:
        return data[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        at = error.start + len(mark)
        line = data.count(b"\n", 0, at) + 1
        message = Text(
            f"The file is not UTF-8: line {line} holds the byte 0x{data[at]:02X} of another encoding.",
            f"该文件不是 UTF-8：第 {line} 行含有其他编码的字节 0x{data[at]:02X}。",
        )
        hint = Text("Save it as UTF-8 (in a spreadsheet: CSV UTF-8).", "请另存为 UTF-8（电子表格中选“CSV UTF-8”）。")
        raise InvalidInput(message, hint=hint, fields=[FieldError("", "not_utf8", message, hint)]) from None


def _order_of(data: bytes) -> str:
    """UTF-16 without a mark: of plain letters each second byte is 0."""
    start = data[:_LOOKED_AT]
    pairs = len(start) // 2
    if pairs and start[1::2].count(0) > pairs * 0.4 and 0 not in start[0::2]:
        return "utf-16-le"
    if pairs and start[0::2].count(0) > pairs * 0.4 and 0 not in start[1::2]:
        return "utf-16-be"
    return ""
