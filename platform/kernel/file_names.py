r"""Names of files as text that prints and comes back: Linux allows any bytes but NUL and `/` in a name.

What is printable UTF-8 stands as it is, but for the backslash, which is written twice. A control character and each byte that is
no UTF-8 is written `\xHH`. Paths in the API, in the database and in commands are such text; the operating system's are the
strings that `os.fsdecode` gives.
"""

from __future__ import annotations

import re
import unicodedata

_UNUSUAL = re.compile(r"[^\x20-\x5b\x5d-\x7e]")
_UNPRINTED = frozenset({"Cc", "Cs"})
_ESCAPE = re.compile(rb"\\(?:\\|x([0-9a-fA-F]{2}))")


def text_of(path: str) -> str:
    """The text of a path of the operating system."""
    return path if path.isascii() and path.isprintable() and "\\" not in path else _UNUSUAL.sub(_escaped, path)


def path_of(text: str) -> str:
    """The operating system's path of a text. A backslash that begins no escape stands for itself. ValueError where an escape
    stands for a slash or NUL, which no name holds."""
    if "\\" not in text:
        return text
    given = text.encode("utf-8", "surrogateescape")
    if any(found.group(1) in (b"00", b"2f", b"2F") for found in _ESCAPE.finditer(given)):
        raise ValueError("no name of a file holds a slash or NUL")
    return _ESCAPE.sub(_byte, given).decode("utf-8", "surrogateescape")


def is_text(path: str) -> bool:
    """Whether nothing in it has to be written as an escape."""
    return not any(unicodedata.category(character) in _UNPRINTED for character in path)


def _byte(found: re.Match[bytes]) -> bytes:
    return b"\\" if found.group(1) is None else bytes([int(found.group(1), 16)])


def _escaped(found: re.Match[str]) -> str:
    character = found.group()
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNPRINTED:
        return character
    return "".join(f"\\x{byte:02x}" for byte in character.encode("utf-8", "surrogateescape"))
