"""From what the model's validation found to what a person reads: places in their own document, plain words, suggested edits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

from jobs.spec.values import shown
from jobs.spec.vocabulary import suggest_key
from kernel import limits
from kernel.errors import FieldError, InvalidInput

Location = tuple[str | int, ...]
HINTED_KEYS = 20  # Looking for the nearest known key costs; past this many misspelt keys nobody reads the suggestions.


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
            errors.append(FieldError(place(location), "unknown_key", f"There is no key {shown(location[-1])} here.", hint))
        else:
            errors.append(_misshapen(location, place, entry["input"]))
    return errors


def refusal(what: str, errors: Sequence[FieldError]) -> InvalidInput:
    """One error that carries them all, up to the limit; `what` begins its sentence."""
    first = errors[0]
    detail = first.message if len(errors) == 1 else f"{what} has {len(errors)} errors; the first: {first.message}"
    kept = list(errors[: limits.SPEC_ERRORS])
    if len(errors) > len(kept):
        kept[-1] = FieldError("", "more_errors", f"{len(errors) - len(kept) + 1} more errors are not listed.")
    return InvalidInput(detail, hint=first.hint, fields=kept)


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
        what = "The job" if path == "/command" else f"Role {shown(location[1])}"
        return FieldError(path, "missing", f"{what} has no command.", "Add command: followed by what to run.")
    return FieldError(place(location), "missing", f"{name} is missing.", f"Add {name}.")


def _misshapen(location: Location, place: Callable[[Location], str], value: object) -> FieldError:
    """The one thing that the model's own validation finds: no mapping where one is needed."""
    name = str(location[-1])
    hint = ""
    if len(location) == 2 and location[0] == "roles":
        subject, hint = f"Role {shown(name)}", "Give it a command."
    elif isinstance(location[-1], int) and len(location) > 1:
        subject = f"Entry {name} of {location[-2]}"
    else:
        subject = name
    return FieldError(place(location), "mapping", f"{subject} must be a mapping, not {shown(value)}.", hint)
