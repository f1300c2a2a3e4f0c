"""Bytes of a log as text: never a character cut in two, never an error."""

from __future__ import annotations

CHARACTER_BYTES_MAX = 4


def incomplete_tail(data: bytes | bytearray) -> int:
    """How many bytes at the end begin a UTF-8 character that is not finished; 0 for whole or broken text."""
    for back in range(1, min(CHARACTER_BYTES_MAX, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        return back if _length(byte) > back else 0
    return 0


def decode(data: bytes) -> str:
    """Text for people: bytes that are no UTF-8 become the replacement character."""
    return data.decode("utf-8", errors="replace")


def _length(first: int) -> int:
    """Bytes of a character, told by its first one; 1 for a byte that starts none."""
    if 0xC2 <= first <= 0xDF:
        return 2
    if 0xE0 <= first <= 0xEF:
        return 3
    if 0xF0 <= first <= 0xF4:
        return 4
    return 1
