"""Job templates: a document with places that are filled in, and the parameters that fill them.

A place is `${{ parameters.NAME }}`, and it is data, never a language: the document is parsed first, then its texts are looked
through. A text that is nothing but one place becomes the value with its type; inside a longer text, and where only text may
stand (variables, labels), the value is written as text.
What was put in is not looked through again, so a value can neither name another parameter nor add a key.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from jobs.bounds import SPEC_BYTES
from jobs.spec.documents import check_document, pointer
from jobs.spec.parse import parse_spec
from jobs.spec.values import SHOWN_LENGTH, shown
from kernel.errors import FieldError, InvalidInput
from kernel.limits import TEXT_BYTES
from kernel.words import Text

TYPES = ("string", "integer", "number", "boolean", "choice")
PARAMETERS_MAX = 32  # More than a user fills in.
CHOICES_MAX = 64
TITLE_LENGTH = 100
DESCRIPTION_LENGTH = 500
INTEGER_MAX = 2**63 - 1
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
PLACE = re.compile(r"\$\{\{\s*parameters\.([A-Za-z_][A-Za-z0-9_]{0,62})\s*\}\}")
OPENING = "${{"
KEYS = (
    "name", "title", "title_zh", "type", "default", "minimum", "maximum", "choices", "description", "description_zh", "required",
)  # fmt: skip

Value = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a template. `minimum` and `maximum` bound a number, or the length of a text."""

    name: str
    type: str
    title: str = ""
    title_zh: str = ""
    description: str = ""
    description_zh: str = ""
    default: Value | None = None
    minimum: int | float | None = None
    maximum: int | float | None = None
    choices: tuple[Value, ...] = ()
    required: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "choices": list(self.choices)}


def read_parameters(given: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """The parameters of a new template. Raises InvalidInput with everything that is wrong, by pointer below `/parameters`."""
    errors: list[FieldError] = []
    found: list[Parameter] = []
    for index, entry in enumerate(given):
        place = f"/parameters/{index}"
        before = len(errors)
        _check_parameter(entry, place, errors)
        if len(errors) == before:
            found.append(_made(entry))
            if any(other.name == entry["name"] for other in found[:-1]):
                errors.append(
                    FieldError(
                        f"{place}/name",
                        "duplicate",
                        Text(f"Two parameters are called {entry['name']}.", f"有两个参数名为 {entry['name']}。"),
                    )
                )
    if len(given) > PARAMETERS_MAX:
        errors.append(
            FieldError(
                "/parameters",
                "too_many",
                Text(f"A template has at most {PARAMETERS_MAX} parameters.", f"一个模板最多有 {PARAMETERS_MAX} 个参数。"),
            )
        )
    if errors:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    return tuple(found)


def stored_parameters(stored: Sequence[Mapping[str, Any]]) -> tuple[Parameter, ...]:
    """Parameters that were checked when they were stored."""
    return tuple(_made(entry) for entry in stored)


def check_template(document: object, parameters: Sequence[Parameter]) -> None:
    """Refuse a document that no values could make a job. Raises InvalidInput by pointer below `/spec`.

    It is filled with the defaults, and with examples where there are none; what only an example makes wrong is forgiven.
    """
    try:
        check_document(document)
    except InvalidInput as error:
        raise InvalidInput(error.detail_text, hint=error.hint_text, fields=_below_spec(error.fields)) from None
    errors = _misplaced(document, parameters)
    if errors:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    values = {
        parameter.name: parameter.default if parameter.default is not None else _example(parameter) for parameter in parameters
    }
    unsure = {parameter.name for parameter in parameters if parameter.default is None}
    guessed = [path for path, names in places(document) if names & unsure]
    problems = [
        entry
        for entry in judge(fill(document, values))
        if not any(
            entry.path == path or entry.path.startswith(f"{path}/") or path.startswith(f"{entry.path}/") for path in guessed
        )
    ]
    if problems:
        fields = _below_spec(problems)
        raise InvalidInput(fields[0].message, hint=fields[0].hint, fields=fields)


def _below_spec(fields: Sequence[FieldError]) -> list[FieldError]:
    return [FieldError(f"/spec{entry.path}", entry.code, entry.message, entry.hint) for entry in fields]


def judge(document: object) -> tuple[FieldError, ...]:
    """What keeps a document from being a job; nothing where it is one."""
    try:
        parse_spec(document)
    except InvalidInput as error:
        return error.fields or (FieldError("", "invalid", error.detail_text, error.hint_text),)
    return ()


def read_values(parameters: Sequence[Parameter], given: Mapping[str, Any]) -> dict[str, Value | None]:
    """What fills the places: what was given, else the defaults; None for what is neither. All mistakes at once."""
    errors: list[FieldError] = []
    values: dict[str, Value | None] = {}
    known = {parameter.name for parameter in parameters}
    for name in sorted(set(given) - known):
        hint = Text(f"Known are: {', '.join(sorted(known)) or 'none'}.", f"可用：{', '.join(sorted(known)) or '无'}。")
        errors.append(
            FieldError(
                pointer(["parameters", name]),
                "unknown_parameter",
                Text(f"The template has no parameter {shown(name)}.", f"模板没有参数 {shown(name, 'zh')}。"),
                hint,
            )
        )
    for parameter in parameters:
        place = pointer(["parameters", parameter.name])
        value = given.get(parameter.name)
        if value is None or (value == "" and not parameter.required and parameter.type == "string"):  # An empty field of a form.
            value = parameter.default if value is None else None
            if value is None and parameter.required:
                errors.append(
                    FieldError(
                        place,
                        "required",
                        Text(f"The template needs {parameter.name}.", f"模板需要 {parameter.name}。"),
                        parameter.description,
                    )
                )
        else:
            problem = _misfit(parameter, value)
            if problem is not None:
                errors.append(FieldError(place, problem[0], problem[1]))
        values[parameter.name] = value
    if errors:
        raise InvalidInput(errors[0].message, hint=errors[0].hint, fields=errors)
    return values


def fill(document: Any, values: Mapping[str, Value | None]) -> Any:
    """The document with its places filled. A place without a value becomes null where it stands alone, else nothing.

    Raises InvalidInput, before anything is built, where a long value in many places would make more than a job may be.
    """
    lengths = {name: len(_as_text(value)) for name, value in values.items()}
    size = sum(lengths[name] for _, text, is_key in _texts(document, ()) if not is_key for name in PLACE.findall(text))
    if size > SPEC_BYTES:
        message = Text(f"Filled in, the job has more than {SPEC_BYTES} bytes.", f"代入参数后，作业超过 {SPEC_BYTES} 字节。")
        raise InvalidInput(
            message, fields=[FieldError("/parameters", "too_large", message, Text("Give shorter values.", "请给出更短的值。"))]
        )
    return _fill(document, values)


def _fill(document: Any, values: Mapping[str, Value | None], path: tuple[str | int, ...] = ()) -> Any:
    if isinstance(document, str):
        whole = PLACE.fullmatch(document)
        if whole is not None and not _holds_text(path):
            return values[whole[1]]
        return PLACE.sub(lambda match: _as_text(values[match[1]]), document)
    if isinstance(document, Mapping):
        return {key: _fill(item, values, (*path, key)) for key, item in document.items()}
    if isinstance(document, (list, tuple)):
        return [_fill(item, values, (*path, index)) for index, item in enumerate(document)]
    return document


def _holds_text(path: tuple[str | int, ...]) -> bool:
    """Variables and labels are texts, whatever is put into them."""
    return path[:-1] in {("env",), ("labels",)} or (len(path) == 4 and path[0] == "roles" and path[2] == "env")


def places(document: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str, frozenset[str]]]:
    """Where the document has places, with the parameters that each names."""
    if isinstance(document, str):
        names = frozenset(PLACE.findall(document))
        if names:
            yield pointer(path), names
    elif isinstance(document, Mapping):
        for key, item in document.items():
            yield from places(item, (*path, key))
    elif isinstance(document, (list, tuple)):
        for index, item in enumerate(document):
            yield from places(item, (*path, index))


def _misplaced(document: Any, parameters: Sequence[Parameter]) -> list[FieldError]:
    """Places that name no parameter, stand in a key, or are written in another way."""
    known = {parameter.name for parameter in parameters}
    hint = Text(
        f"Write ${{{{ parameters.NAME }}}}. Parameters are: {', '.join(sorted(known)) or 'none'}.",
        f"请写 ${{{{ parameters.NAME }}}}。参数有：{', '.join(sorted(known)) or '无'}。",
    )
    errors = []
    for path, names in places(document, ("spec",)):
        for name in sorted(names - known):
            errors.append(
                FieldError(
                    path, "unknown_parameter", Text(f"The template has no parameter {name}.", f"模板没有参数 {name}。"), hint
                )
            )
    for path, text, is_key in _texts(document, ("spec",)):
        if is_key and OPENING in text:
            errors.append(
                FieldError(
                    path,
                    "place_in_key",
                    Text("A key cannot be filled in.", "键中不能代入参数。"),
                    Text("Use a value.", "请用在值中。"),
                )
            )
        elif not is_key and OPENING in PLACE.sub("", text):
            errors.append(
                FieldError(
                    path,
                    "bad_place",
                    Text("Something between ${{ and }} is no parameter.", "${{ 与 }} 之间的内容不是参数。"),
                    hint,
                )
            )
    return errors


def _texts(document: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str, str, bool]]:
    if isinstance(document, str):
        yield pointer(path), document, False
    elif isinstance(document, Mapping):
        for key, item in document.items():
            yield pointer((*path, key)), str(key), True
            yield from _texts(item, (*path, key))
    elif isinstance(document, (list, tuple)):
        for index, item in enumerate(document):
            yield from _texts(item, (*path, index))


def _as_text(value: Value | None) -> str:
    """A value inside a text, as a job file writes it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _made(given: Mapping[str, Any]) -> Parameter:
    kept = {key: given[key] for key in KEYS if given.get(key) is not None}
    kept["choices"] = tuple(kept.get("choices", ()))
    return Parameter(**kept)


def _check_parameter(given: Mapping[str, Any], place: str, errors: list[FieldError]) -> None:
    def wrong(key: str, code: str, message: Text[str]) -> None:
        errors.append(FieldError(f"{place}/{key}" if key else place, code, message))

    for key in sorted(set(given) - set(KEYS)):
        wrong(
            key,
            "unknown_field",
            Text(
                f"A parameter has no {shown(key)}. Known are: {', '.join(KEYS)}.",
                f"参数没有 {shown(key, 'zh')}。可用：{', '.join(KEYS)}。",
            ),
        )
    name, kind = given.get("name"), given.get("type")
    if not isinstance(name, str) or not NAME.fullmatch(name):
        wrong(
            "name",
            "invalid",
            Text(
                "A parameter's name has letters, digits and _, at most 63, and begins with a letter or _.",
                "参数名由字母、数字和 _ 组成，最多 63 个字符，以字母或 _ 开头。",
            ),
        )
    for key, length in (
        ("title", TITLE_LENGTH), ("title_zh", TITLE_LENGTH), ("description", DESCRIPTION_LENGTH),
        ("description_zh", DESCRIPTION_LENGTH),
    ):  # fmt: skip
        text = given.get(key, "")
        if text is not None and (not isinstance(text, str) or len(text) > length or not text.isprintable()):
            wrong(
                key,
                "invalid",
                Text(f"{key} is printable text of at most {length} characters.", f"{key} 须为最多 {length} 个字符的可打印文本。"),
            )
    if not isinstance(given.get("required", False), bool):
        wrong("required", "invalid", Text("required is true or false.", "required 须为 true 或 false。"))
    if kind not in TYPES:
        wrong("type", "choice", Text(f"type is one of {', '.join(TYPES)}.", f"type 可选：{', '.join(TYPES)}。"))
        return
    for key in ("minimum", "maximum"):
        bound = given.get(key)
        if bound is not None and (kind in {"boolean", "choice"} or not _is_number(bound)):
            wrong(
                key,
                "invalid",
                Text(
                    f"{key} is a number, for a number or for the length of a text.", f"{key} 须为数字，用于数字参数或文本长度。"
                ),
            )
        elif bound is not None and kind == "string" and not 0 <= bound <= TEXT_BYTES:  # An example is made as long as this.
            wrong(key, "range", Text(f"A text has 0 to {TEXT_BYTES} characters.", f"文本为 0 到 {TEXT_BYTES} 个字符。"))
    low, high = given.get("minimum"), given.get("maximum")
    if _is_number(low) and _is_number(high) and low > high:  # type: ignore[operator]
        wrong("maximum", "range", Text("maximum is below minimum.", "maximum 小于 minimum。"))
    choices = given.get("choices") or ()
    if not isinstance(choices, (list, tuple)) or len(choices) > CHOICES_MAX or not all(_is_value(choice) for choice in choices):
        wrong(
            "choices",
            "invalid",
            Text(
                f"choices is a list of at most {CHOICES_MAX} texts or numbers.",
                f"choices 为最多 {CHOICES_MAX} 个文本或数字的列表。",
            ),
        )
    elif (kind == "choice") != bool(choices):
        wrong(
            "choices",
            "invalid",
            Text("A parameter of type choice, and no other, has choices.", "只有 choice 类型的参数才有 choices，且必须有。"),
        )
    elif given.get("default") is not None and not any(entry.path.startswith(place) for entry in errors):
        problem = _misfit(_made(given), given["default"])
        if problem is not None:
            wrong("default", problem[0], problem[1])


def _misfit(parameter: Parameter, value: Any) -> tuple[str, Text[str]] | None:
    """Why a value does not suit a parameter, as code and message."""
    if parameter.type == "choice":
        if any(value == choice and isinstance(value, bool) == isinstance(choice, bool) for choice in parameter.choices):
            return None
        choices = ", ".join(_as_text(choice)[:SHOWN_LENGTH] for choice in parameter.choices)
        return "choice", Text(f"{parameter.name} is one of {choices}.", f"{parameter.name} 可选：{choices}。")
    if parameter.type == "boolean":
        if isinstance(value, bool):
            return None
        return "boolean", Text(
            f"{parameter.name} is true or false, not {shown(value)}.",
            f"{parameter.name} 须为 true 或 false，而非{shown(value, 'zh')}。",
        )
    if parameter.type == "string":
        if not isinstance(value, str):
            return "string", Text(
                f"{parameter.name} is text, not {shown(value)}.", f"{parameter.name} 须为文本，而非{shown(value, 'zh')}。"
            )
        if len(value.encode("utf-8", "replace")) > TEXT_BYTES:
            return "too_long", Text(
                f"{parameter.name} has more than {TEXT_BYTES} bytes.", f"{parameter.name} 超过 {TEXT_BYTES} 字节。"
            )
        return _out_of_range(parameter, len(value), Text(" characters", " 个字符"))
    if isinstance(value, bool) or not isinstance(value, (int, float) if parameter.type == "number" else int):
        kind = Text("a number", "数字") if parameter.type == "number" else Text("a whole number", "整数")
        return parameter.type, Text(
            f"{parameter.name} is {kind.en}, not {shown(value)}.",
            f"{parameter.name} 须为{kind.zh}，而非{shown(value, 'zh')}。",
        )
    if not math.isfinite(value) or abs(value) > INTEGER_MAX:
        return "range", Text(f"{parameter.name} is too large.", f"{parameter.name} 过大。")
    return _out_of_range(parameter, value, Text("", ""))


def _out_of_range(parameter: Parameter, amount: int | float, unit: Text[str]) -> tuple[str, Text[str]] | None:
    least = parameter.minimum is not None and amount < parameter.minimum
    most = parameter.maximum is not None and amount > parameter.maximum
    if not least and not most:
        return None
    bound = (
        Text(f"at least {parameter.minimum:g}", f"至少为 {parameter.minimum:g}")
        if least
        else Text(f"at most {parameter.maximum:g}", f"至多为 {parameter.maximum:g}")
    )
    return "range", Text(
        f"{parameter.name} is {bound.en}{unit.en}, not {amount:g}.", f"{parameter.name} 须{bound.zh}{unit.zh}，而非 {amount:g}。"
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value) and abs(value) <= INTEGER_MAX


def _is_value(value: Any) -> bool:
    return isinstance(value, bool) or _is_number(value) or (isinstance(value, str) and len(value) <= DESCRIPTION_LENGTH)


def _example(parameter: Parameter) -> Value:
    if parameter.type == "choice":
        return parameter.choices[0]
    if parameter.type == "boolean":
        return False
    if parameter.type == "string":
        return "x" * max(1, int(parameter.minimum or 1))
    return parameter.minimum if parameter.minimum is not None else 1
