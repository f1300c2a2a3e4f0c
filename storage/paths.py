"""Paths that people write, inside a volume: data, decoded once, never a way out.

Only the grammar is checked here. That no link leads outside is checked again at every step when a file is opened
(`clusters/hostfiles.py`), under the rights of the tenant.
"""

from __future__ import annotations

import unicodedata

from kernel.errors import FieldError, InvalidInput
from kernel.words import Text
from storage.models import PATH_LENGTH

DEPTH_MAX = 64
_NOT_IN_NAMES = frozenset('\\/:*?"<>|')  # Some system or other gives each of them a meaning.
NAME_BYTES_MAX = 255  # Of one name, on all common file systems.


def clean_path(text: str, *, field: str = "/path", required: bool = False) -> str:
    """A path relative to the volume's root, `""` for the root itself. InvalidInput for anything that is no such path.

    A slash at the beginning means the volume's root. Percent signs and semicolons are ordinary characters.
    """
    problem = _problem(text)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if problem is None and required and not parts:
        problem = Text("The path must name a file, not the volume itself.", "路径须指向文件，而不是存储卷本身。")
    if problem is not None:
        raise InvalidInput(
            problem, fields=[FieldError(field, "bad_path", problem, Text("For example: data/train.npz", "例如：data/train.npz"))]
        )
    return "/".join(parts)


def shown_name(path: str) -> str:
    """The last part of a path as a file name for downloads: printable, without separators."""
    name = path.rsplit("/", 1)[-1]
    return (
        "".join(character if character.isprintable() and character not in '\\/:*?"<>|' else "_" for character in name) or "file"
    )


def _problem(text: str) -> Text[str] | None:
    if len(text) > PATH_LENGTH:
        return Text(f"A path has at most {PATH_LENGTH:,} characters.", f"路径最多 {PATH_LENGTH:,} 个字符。")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in text):
        return Text("A path holds no control characters.", "路径不能含有控制字符。")
    parts = text.split("/")
    if ".." in parts:
        return Text("A path must not contain `..`.", "路径不能含有 `..`。")
    if len(parts) > DEPTH_MAX:
        return Text(f"A path has at most {DEPTH_MAX} levels.", f"路径最多 {DEPTH_MAX} 层。")
    if any(len(part.encode()) > NAME_BYTES_MAX for part in parts):
        return Text(f"One name of a path has at most {NAME_BYTES_MAX} bytes.", f"路径中的每个名称最多 {NAME_BYTES_MAX} 字节。")
    return None
