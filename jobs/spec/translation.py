"""From what the model's validation found to what a person reads: places in their own document, plain words, suggested edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from jobs import bounds
from jobs.spec.values import shown
from jobs.spec.vocabulary import suggest_key
from kernel.errors import FieldError, InvalidInput
from kernel.words import Saying, Text, as_text

Location = tuple[str | int, ...]
HINTED_KEYS = 20  # Looking for the nearest known key costs; past this many misspelt keys no user reads the suggestions.


KEY = "\0key"  # Ends the location of an error about a key itself; no document holds a NUL.


def location_of(entry: ErrorDetails) -> Location:
    """Where an error is. The validation marks errors about keys with a text that users could write as well."""
    location = entry["loc"]
    is_about_key = len(location) > 1 and location[-1] == "[key]" and entry["type"] == "value" and entry["input"] == location[-2]
    return (*location[:-1], KEY) if is_about_key else location


def without_key_mark(location: Location) -> Location:
    return location[:-1] if location[-1:] == (KEY,) else location


def translate(
    found: Sequence[ErrorDetails], place: Callable[[Location], str], keys_at: Callable[[Location], tuple[str, ...]]
) -> list[FieldError]:
    """Put validation errors into words. `place` gives the pointer of a location, `keys_at` the keys allowed beside it."""
    errors = []
    unknown = 0
    for entry in found:
        location = without_key_mark(location_of(entry))
        if entry["type"] == "value":
            context = entry["ctx"]
            errors.append(FieldError(place(location), context["code"], context["message"], context["hint"]))
        elif entry["type"] == "missing":
            errors.append(_missing(location, place))
        elif entry["type"] == "extra_forbidden":
            unknown += 1
            hint = suggest_key(location, keys_at(location)) if unknown <= HINTED_KEYS else ""
            errors.append(FieldError(place(location), "unknown_key", _no_key(location[-1]), hint))
        else:
            errors.append(_misshapen(location, place, entry["input"]))
    return errors


def _no_key(key: str | int) -> Text[str]:
    return Text(f"There is no key {shown(key)} here.", f"此处没有键 {shown(key)}。")


def refusal(what: Text[str], errors: Sequence[FieldError]) -> InvalidInput:
    """One error that carries them all, up to the limit; `what` begins its sentence."""
    first = errors[0]
    message = as_text(first.message)
    more = Text(
        f"{what.en} has {len(errors)} errors; the first: {message.en}", f"{what.zh}有 {len(errors)} 处错误；第一处：{message.zh}"
    )
    kept = list(errors[: bounds.SPEC_ERRORS])
    if len(errors) > len(kept):
        kept[-1] = FieldError("", "more_errors", _unlisted(len(errors) - len(kept) + 1))
    return InvalidInput(message if len(errors) == 1 else more, hint=first.hint, fields=kept)


def _unlisted(count: int) -> Text[str]:
    return Text(f"{count} more errors are not listed.", f"另有 {count} 处错误未列出。")


def existing(document: Any, location: Location) -> Location:
    """The longest leading part of a location that the document has, and one step more where a key of a mapping is missing."""
    for depth, key in enumerate(location):
        is_there = key in document if isinstance(document, dict) else _has_index(document, key)
        if not is_there:
            return location[: depth + 1] if isinstance(document, dict) else location[:depth]
        document = document[key]
    return location


def _has_index(document: Any, key: str | int) -> bool:
    return isinstance(document, (list, tuple)) and isinstance(key, int) and key < len(document)


def _missing(location: Location, place: Callable[[Location], str]) -> FieldError:
    name = str(location[-1])
    if name == "command" and location[0] == "roles":
        path = place(location)
        role = shown(location[1])
        what = Text("The job", "作业") if path == "/command" else Text(f"Role {role}", f"角色 {role} ")
        return FieldError(
            path,
            "missing",
            Text(f"{what.en} has no command.", f"{what.zh}没有命令。"),
            Text("Add command: followed by what to run.", "请添加 command: 及要运行的命令。"),
        )
    return FieldError(
        place(location), "missing", Text(f"{name} is missing.", f"缺少 {name}。"), Text(f"Add {name}.", f"请添加 {name}。")
    )


def _misshapen(location: Location, place: Callable[[Location], str], value: object) -> FieldError:
    """The one thing that the model's own validation finds: no mapping where one is needed."""
    name = str(location[-1])
    hint: Saying = ""
    if len(location) == 2 and location[0] == "roles":
        subject = Text(f"Role {shown(name)}", f"角色 {shown(name)} ")
        hint = Text("Give it a command.", "请为它写上命令。")
    elif isinstance(location[-1], int) and len(location) > 1:
        subject = Text(f"Entry {name} of {location[-2]}", f"{location[-2]} 的第 {name} 项")
    else:
        subject = Text(name, f"{name} ")
    message = Text(f"{subject.en} must be a mapping, not {shown(value)}.", f"{subject.zh}须为映射，而非{shown(value, 'zh')}。")
    return FieldError(place(location), "mapping", message, hint)
