"""Paths that people write, inside a volume: data, decoded once, never a way out.

Only the grammar is checked here. That no link leads outside is checked again at every step when a file is opened
(`clusters/hostfiles.py`), under the rights of the tenant.
"""

from __future__ import annotations

from kernel.errors import FieldError, InvalidInput
from kernel.file_names import is_text, path_of, text_of
from kernel.words import Text
from storage.models import PATH_LENGTH

DEPTH_MAX = 64
_NOT_IN_NAMES = frozenset('\\/:*?"<>|')  # Some system or other gives each of them a meaning.
NAME_BYTES_MAX = 255  # Of one name, on all common file systems.


def clean_path(text: str, *, field: str = "/path", required: bool = False) -> str:
    """A path relative to the volume's root, `""` for the root itself. InvalidInput for anything that is no such path.

    A slash at the beginning means the volume's root. Percent signs and semicolons are ordinary characters; what does not print is
    written as `kernel.file_names` has it.
    """
    problem = _problem(text)
    parts = [part for part in path_of(text).split("/") if part not in ("", ".")] if problem is None else []
    if problem is None and required and not parts:
        problem = Text("The path must name a file, not the volume itself.", "路径须指向文件，而不是存储卷本身。")
    if problem is not None:
        raise InvalidInput(
            problem, fields=[FieldError(field, "bad_path", problem, Text("For example: data/train.npz", "例如：data/train.npz"))]
        )
    return text_of("/".join(parts))


def shown_name(path: str) -> str:
    """The last part of a path as a file name for downloads: printable, without separators."""
    name = path.rsplit("/", 1)[-1]
    return (
        "".join(character if character.isprintable() and character not in '\\/:*?"<>|' else "_" for character in name) or "file"
    )


def _problem(text: str) -> Text[str] | None:
    if len(text) > PATH_LENGTH:
        return Text(f"A path has at most {PATH_LENGTH:,} characters.", f"路径最多 {PATH_LENGTH:,} 个字符。")
    if not is_text(text):
        return Text(r"A control character in a path is written as `\x0a`.", r"路径中的控制字符须写作 `\x0a` 的形式。")
    try:
        parts = path_of(text).split("/")
    except ValueError:
        return Text("A name holds no slash and no NUL.", "名称不能含有斜杠或 NUL。")
    if ".." in parts:
        return Text("A path must not contain `..`.", "路径不能含有 `..`。")
    if len(parts) > DEPTH_MAX:
        return Text(f"A path has at most {DEPTH_MAX} levels.", f"路径最多 {DEPTH_MAX} 层。")
    if any(len(part.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX for part in parts):
        return Text(f"One name of a path has at most {NAME_BYTES_MAX} bytes.", f"路径中的每个名称最多 {NAME_BYTES_MAX} 字节。")
    return None
