"""From bytes to plain values, within bounds: text of YAML or JSON, and a check of any value that claims to be a document.

YAML is read by events, one at a time, so that a hostile text is refused before anything is built from it: no aliases, anchors
or tags, no duplicate keys, at most `limits.INPUT_DEPTH` levels and `bounds.INPUT_NODES` values. Plain scalars follow YAML 1.2
(JSON's numbers, true/false, null): `on`, `no`, `1:30`, `012` and `0x1F` stay the text that was written, and keys are always text.
Variables in an `env` are text whatever they look like: `3.10` and `True` reach the program as they are written.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import yaml

from jobs import bounds
from kernel import limits
from kernel.errors import FieldError, InvalidInput, TooLarge
from kernel.words import Saying, Text

INTEGER_MAX = 2**63 - 1  # What a database column and every JSON reader of ours can hold.
_INTEGER = re.compile(r"-?(?:0|[1-9][0-9]*)")
_FLOAT = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


class Format(StrEnum):
    YAML = "yaml"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Document:
    """A plain value, and for YAML the line (from 1) at which each of its parts begins, by JSON pointer."""

    value: Any
    lines: Mapping[str, int] = field(default_factory=dict)

    def line_of(self, path: str) -> int | None:
        """The line of a part, or of the nearest part around it; None where lines are not known."""
        while path and path not in self.lines:
            path = path.rpartition("/")[0]
        return self.lines.get(path)


def pointer(parts: tuple[str | int, ...] | list[str | int]) -> str:
    """Join keys and indexes into a JSON pointer (RFC 6901)."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)


def read_text(text: bytes | str, form: Format) -> Document:
    """Read one document. Raises InvalidInput with line and column, or TooLarge."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    if len(data) > bounds.SPEC_BYTES:
        raise TooLarge(
            Text(
                f"The job has {len(data)} bytes; at most {bounds.SPEC_BYTES} are allowed.",
                f"作业共 {len(data)} 字节；最多 {bounds.SPEC_BYTES} 字节。",
            ),
            hint=Text("Put data into files or volumes.", "请将数据放入文件或存储卷。"),
        )
    try:
        decoded = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _refuse(
            "encoding",
            Text(
                f"The text is not UTF-8: byte {error.start} cannot be read.", f"文本不是 UTF-8：第 {error.start} 字节无法读取。"
            ),
            Text("Save the file as UTF-8.", "请将文件保存为 UTF-8。"),
        ) from None
    return _read_yaml(decoded) if form is Format.YAML else Document(_read_json(decoded))


def parse_text(text: bytes | str, form: Format = Format.YAML) -> Any:
    """The value of a text; see `read_text` for one that knows its lines."""
    return read_text(text, form).value


_CHECK_THERE = Text("Check indentation, colons and quotes there.", "请检查该处的缩进、冒号与引号。")
_NESTED = Text(f"The document is nested deeper than {limits.INPUT_DEPTH} levels.", f"文档的嵌套超过 {limits.INPUT_DEPTH} 层。")
_TOO_MANY = Text(f"The document has more than {bounds.INPUT_NODES} values.", f"文档中的值超过 {bounds.INPUT_NODES} 个。")
_REMOVE_ONE = Text("Remove one of them.", "请去掉其中一个。")


def _refuse(code: str, message: Saying, hint: Saying = "", *, path: str = "", line: int | None = None) -> InvalidInput:
    return InvalidInput(message, hint=hint, fields=[FieldError(path, code, message, hint, line=line)])


def _at_zh(line: int, column: int) -> str:
    return f"第 {line} 行第 {column} 列"


def _at(line: int, column: int) -> str:
    return f"Line {line}, column {column}"


# --- JSON ------------------------------------------------------------------------------------------------------------


_JSON_TEXT = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)


def _read_json(text: str) -> Any:
    """Every value but the first in its list or mapping follows a comma, so commas tell beforehand what would be too many."""
    if text.count(",") > bounds.INPUT_NODES and _JSON_TEXT.sub("", text).count(",") > bounds.INPUT_NODES:
        raise _refuse(
            "too_many_nodes",
            Text(f"The document has more than {bounds.INPUT_NODES} values.", f"文档中的值超过 {bounds.INPUT_NODES} 个。"),
        )
    try:
        return json.loads(
            text, object_pairs_hook=_unique_pairs, parse_constant=_no_constant, parse_int=_integer, parse_float=_float
        )
    except json.JSONDecodeError as error:
        message = Text(
            f"{_at(error.lineno, error.colno)}: this is not JSON: {error.msg}.",
            f"{_at_zh(error.lineno, error.colno)}：不是 JSON：{error.msg}。",
        )
        raise _refuse("syntax", message, line=error.lineno) from None
    except RecursionError:
        raise _too_deep(_NESTED) from None


def _unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    mapping = dict(pairs)
    if len(mapping) == len(pairs):
        return mapping
    seen: set[str] = set()
    for key, _ in pairs:
        if key in seen:
            raise _refuse(
                "duplicate_key",
                Text(f"The key {_shown(key)} appears twice in one mapping.", f"键 {_shown(key)} 在同一映射中出现两次。"),
                Text("Remove one of them.", "请去掉其中一个。"),
            )
        seen.add(key)
    raise AssertionError("a shorter dictionary has a repeated key")


def _no_constant(word: str) -> Any:
    raise _refuse("not_finite", Text(f"{word} is not a number that can be stored.", f"{word} 不是可以保存的数字。"))


def _integer(digits: str) -> int:
    if len(digits) > 20:
        raise _refuse("integer_range", Text(f"The number {digits[:20]}… is too large.", f"数字 {digits[:20]}… 过大。"))
    return int(digits)


def _float(digits: str) -> float:
    if len(digits) > 400:
        raise _refuse("float_range", Text(f"The number {digits[:20]}… has too many digits.", f"数字 {digits[:20]}… 的位数过多。"))
    return float(digits)


def _shown(key: str) -> str:
    return f'"{key[:60]}"' if key.isprintable() else "with control characters"


def _too_deep(message: Saying, *, path: str = "", line: int | None = None) -> InvalidInput:
    return _refuse("too_deep", message, Text("Flatten the document.", "请减少文档的嵌套。"), path=path, line=line)


# --- YAML ------------------------------------------------------------------------------------------------------------


def _read_yaml(text: str) -> Document:
    try:
        reader = _YamlReader(yaml.CSafeLoader(text))
        return Document(reader.read(), reader.lines)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        message = Text(
            f"{_at(line, column)}: this is not YAML: {error.problem or error.context or 'it cannot be read'}.",
            f"{_at_zh(line, column)}：不是 YAML：{error.problem or error.context or '无法读取'}。",
        )
        raise _refuse("syntax", message, _CHECK_THERE, line=line) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise _refuse(
            "characters",
            Text(f"Line {line} holds a character that YAML does not allow.", f"第 {line} 行含有 YAML 不允许的字符。"),
            line=line,
        ) from None


def _is_variable(path: tuple[str | int, ...]) -> bool:
    """Whether a place is that of a variable for programs; a role may be called env, too."""
    return path[-2:-1] == ("env",) and path[-3:-2] != ("roles",)


def _line_of(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 1


class _YamlReader:
    """Builds plain values from parser events, counting as it goes. One reader reads one document."""

    def __init__(self, parser: yaml.CSafeLoader) -> None:
        self._parser = parser
        self._nodes = 0
        self.lines: dict[str, int] = {}

    def read(self) -> Any:
        self._next()  # Stream start.
        if isinstance(self._next(), yaml.StreamEndEvent):
            raise _refuse(
                "empty",
                Text("The document is empty.", "文档为空。"),
                Text(
                    "Write at least a command, such as command: python train.py.", "请至少写上命令，如 command: python train.py。"
                ),
            )
        value = self._value(self._next(), (), 1)
        self._next()  # Document end.
        after = self._next()
        if not isinstance(after, yaml.StreamEndEvent):
            line = _line_of(after)
            raise _refuse(
                "documents",
                Text(
                    f"Line {line}: a second document begins; one text is one job.",
                    f"第 {line} 行：开始了第二个文档；一个文本只含一个作业。",
                ),
                Text("Remove the --- line.", "请删除 --- 行。"),
                line=line,
            )
        return value

    def _next(self) -> yaml.Event:
        event = self._parser.get_event()
        assert event is not None, "the parser was asked past the end of the stream"
        return event

    def _value(self, event: yaml.Event, path: tuple[str | int, ...], depth: int) -> Any:
        line = _line_of(event)
        self._count(event, path, line, depth)
        self.lines.setdefault(pointer(path), line)
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, path, line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(path, depth)
        return self._mapping(path, depth)

    def _count(self, event: yaml.Event, path: tuple[str | int, ...], line: int, depth: int) -> None:
        self._nodes += 1
        column = event.start_mark.column + 1 if event.start_mark else 1
        at, at_zh = _at(line, column), _at_zh(line, column)
        place = pointer(path)
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            hint = Text("Write the value out where it is needed.", "请在需要处写出该值。")
            raise _refuse(
                "alias",
                Text(f"{at}: anchors (&) and aliases (*) are not allowed.", f"{at_zh}：不允许使用锚点（&）和别名（*）。"),
                hint,
                path=place,
                line=line,
            )
        if getattr(event, "tag", None) is not None:
            raise _refuse(
                "tag",
                Text(f"{at}: tags (!) are not allowed.", f"{at_zh}：不允许使用标签（!）。"),
                Text("Quote text that begins with !.", "以 ! 开头的文本请加引号。"),
                path=place,
                line=line,
            )
        if depth > limits.INPUT_DEPTH:
            raise _too_deep(
                Text(f"{at}: {_NESTED.en[0].lower()}{_NESTED.en[1:]}", f"{at_zh}：{_NESTED.zh}"), path=place, line=line
            )
        if self._nodes > bounds.INPUT_NODES:
            raise _refuse(
                "too_many_nodes",
                Text(
                    f"{at}: the document has more than {bounds.INPUT_NODES} values.",
                    f"{at_zh}：文档中的值超过 {bounds.INPUT_NODES} 个。",
                ),
                path="",
                line=line,
            )

    def _scalar(self, event: yaml.ScalarEvent, path: tuple[str | int, ...], line: int) -> Any:
        text: str = event.value
        if event.style or not event.implicit[0]:
            return text
        if _is_variable(path) and _WORDS.get(text, True) is not None:
            return text
        if text in _WORDS:
            return _WORDS[text]
        if _INTEGER.fullmatch(text):
            if len(text) > 20:
                raise _refuse(
                    "integer_range",
                    Text(f"Line {line}: the number {text[:20]}… is too large.", f"第 {line} 行：数字 {text[:20]}… 过大。"),
                    path=pointer(path),
                    line=line,
                )
            return int(text)
        if _NOT_FINITE.fullmatch(text):
            raise _refuse(
                "not_finite",
                Text(f"Line {line}: {text} is not a number that can be stored.", f"第 {line} 行：{text} 不是可以保存的数字。"),
                path=pointer(path),
                line=line,
            )
        if len(text) <= 400 and _FLOAT.fullmatch(text):
            return float(text)
        return text

    def _sequence(self, path: tuple[str | int, ...], depth: int) -> list[Any]:
        items: list[Any] = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._value(event, (*path, len(items)), depth + 1))
        return items

    def _mapping(self, path: tuple[str | int, ...], depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            line = _line_of(event)
            if not isinstance(event, yaml.ScalarEvent):
                self._count(event, path, line, depth)
                raise _refuse(
                    "key",
                    Text(f"Line {line}: a key must be plain text.", f"第 {line} 行：键须为普通文本。"),
                    path=pointer(path),
                    line=line,
                )
            self._count(event, path, line, depth)
            key: str = event.value
            place = (*path, key)
            if key in mapping:
                first = self.lines[pointer(place)]
                message = Text(
                    f"Line {line}: the key {_shown(key)} appears twice; first on line {first}.",
                    f"第 {line} 行：键 {_shown(key)} 重复；首次出现在第 {first} 行。",
                )
                raise _refuse("duplicate_key", message, _REMOVE_ONE, path=pointer(place), line=line)
            self.lines[pointer(place)] = line
            mapping[key] = self._value(self._next(), place, depth + 1)
        return mapping


# --- Any value -------------------------------------------------------------------------------------------------------


def check_document(document: object) -> None:
    """Refuse what no text of JSON could hold or what is beyond the bounds. Costs a few hundred nanoseconds a value."""
    problems: list[FieldError] = []
    for path, problem in _problems(document):
        problems.append(FieldError(pointer(path), *problem))
        if len(problems) >= bounds.SPEC_ERRORS:
            break
    if problems:
        raise InvalidInput(problems[0].message, hint=problems[0].hint, fields=problems)


_Link = tuple[Any, Any]  # (link of the parent, key): paths are built for problems only.


def _problems(document: object) -> Iterator[tuple[tuple[str | int, ...], tuple[str, Text[str]]]]:
    stack: list[tuple[Any, int, _Link | None]] = [(document, 1, None)]
    nodes = 0
    while stack:
        value, depth, link = stack.pop()
        nodes += 1
        if depth > limits.INPUT_DEPTH:
            yield _path(link), ("too_deep", _NESTED)
            return
        if isinstance(value, str):
            if problem := _text_problem(value):
                yield _path(link), problem
        elif isinstance(value, dict):
            if nodes + len(stack) + len(value) > bounds.INPUT_NODES:
                yield (), ("too_many_nodes", _TOO_MANY)
                return
            for key, item in value.items():
                if not isinstance(key, str) or _text_problem(key):
                    yield (
                        _path(link),
                        ("key", Text("A key must be text without control characters.", "键须为不含控制字符的文本。")),
                    )
                else:
                    stack.append((item, depth + 1, (link, key)))
        elif isinstance(value, (list, tuple)):
            if nodes + len(stack) + len(value) > bounds.INPUT_NODES:
                yield (), ("too_many_nodes", _TOO_MANY)
                return
            stack.extend((item, depth + 1, (link, index)) for index, item in enumerate(value))
        elif problem := _number_problem(value):
            yield _path(link), problem


def _path(link: _Link | None) -> tuple[str | int, ...]:
    parts: list[str | int] = []
    while link is not None:
        link, key = link
        parts.append(key)
    return tuple(reversed(parts))


def _text_problem(value: str) -> tuple[str, Text[str]] | None:
    if "\0" in value:
        return "nul", Text(
            "The text contains a NUL character, which no program can receive.", "文本含有 NUL 字符，任何程序都不能接收。"
        )
    if not value.isascii():
        try:
            value.encode("utf-8")
        except UnicodeEncodeError:
            return "encoding", Text(
                "The text contains half of a character (a lone surrogate).", "文本中有半个字符（不成对的代理字符）。"
            )
    return None


def _number_problem(value: object) -> tuple[str, Text[str]] | None:
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, int):
        too_large = Text(f"The number is beyond {INTEGER_MAX}.", f"数字超出 {INTEGER_MAX}。")
        return None if abs(value) <= INTEGER_MAX else ("integer_range", too_large)
    if isinstance(value, float):
        return None if math.isfinite(value) else ("not_finite", Text("The number is not finite.", "数字不是有限值。"))
    kind = type(value).__name__
    return "type", Text(f"A value of the kind {kind} cannot be stored.", f"{kind} 类型的值不能保存。")
