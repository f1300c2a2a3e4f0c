"""From a document to a `JobSpec`: complete or refused, with every error at once, each with its place and the edit that helps.

A document with errors is judged twice: its shape first; then, with the wrong parts left out, what holds between fields. So a
misspelt key does not hide that the mounts collide."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jobs.frameworks import get_framework
from jobs.spec.checks import cross_check
from jobs.spec.documents import Document, Format, check_document, pointer, read_text
from jobs.spec.model import DEFAULT_ROLE, FRAMEWORKS, JobSpec
from jobs.spec.translation import KEY, Location, existing, location_of, refusal, translate, without_key_mark
from jobs.spec.values import shown
from jobs.spec.vocabulary import keys_at
from kernel.errors import FieldError, InvalidInput
from kernel.words import Text

SHORTHAND = ("command", "shell", "replicas", "resources", "ports", "ready", "max_retry", "policies")


def parse_spec(document: object) -> JobSpec:
    """Validate a document completely. Raises InvalidInput with all its errors, up to `bounds.SPEC_ERRORS`."""
    check_document(document)
    if not isinstance(document, dict):
        message = Text(
            f"A job is a mapping of keys to values, not {shown(document)}.", f"作业应为键值映射，而非 {shown(document)}。"
        )
        raise InvalidInput(
            message,
            fields=[
                FieldError(
                    "", "mapping", message, Text("Begin with command: python train.py.", "请以 command: python train.py 开头。")
                )
            ],
        )
    reading = _Reading(document)
    spec, errors = reading.judge()
    if spec is None or errors:
        raise refusal(Text("The job", "作业"), errors)
    return spec


def parse_document(text: bytes | str, form: Format = Format.YAML) -> JobSpec:
    """Read and validate a text; errors carry line numbers where the format has them."""
    document = read_text(text, form)
    try:
        return parse_spec(document.value)
    except InvalidInput as error:
        raise with_lines(error, document) from None


def with_lines(error: InvalidInput, document: Document) -> InvalidInput:
    """The same refusal with the line of every field that has one."""
    fields = [
        FieldError(field.path, field.code, field.message, field.hint, line=field.line or document.line_of(field.path))
        for field in error.fields
    ]
    return InvalidInput(error.detail_text, hint=error.hint_text, fields=fields)


class _Reading:
    """One document on its way to a spec: shorthand written out, and the way back from the model's places to the user's."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._written = document
        self._short_roles: frozenset[str] = frozenset()
        self._short_completion: str | None = None
        self._errors: list[FieldError] = []
        self._document = self._write_out(document)

    def judge(self) -> tuple[JobSpec | None, list[FieldError]]:
        """The spec if there is one, and all errors in the order of the document's keys."""
        try:
            spec = JobSpec.model_validate(self._document)
            broken: frozenset[str] = frozenset()
        except ValidationError as error:
            found = error.errors(include_url=False)
            self._errors += translate(found, self._pointer, self._keys_at)
            rest = _salvage(self._document, [_wrong_part(entry) for entry in found])
            broken = frozenset(_topic(location_of(entry)) for entry in found)
            if rest is None:
                return None, list(dict.fromkeys(self._errors))
            spec = rest
        for problem in cross_check(spec, broken):
            self._errors.append(FieldError(self._pointer(problem.location), problem.code, problem.message, problem.hint))
        return spec, list(dict.fromkeys(self._errors))

    # --- Shorthand ---------------------------------------------------------------------------------------------------

    def _write_out(self, written: dict[str, Any]) -> dict[str, Any]:
        """Turn the one-role form into roles, and drop keys without a value: they ask for the default."""
        document = {key: value for key, value in written.items() if value is not None}
        short = [key for key in SHORTHAND if key in document]
        if short and "roles" in document:
            for key in short:
                message = Text(
                    f"{key} stands both beside roles and, for each role, inside them.", f"{key} 既写在 roles 旁，又写在各角色内。"
                )
                self._errors.append(
                    FieldError(
                        pointer([key]),
                        "shorthand",
                        message,
                        Text(f"Move {key} into the role that it belongs to.", f"请将 {key} 移到所属的角色内。"),
                    )
                )
                del document[key]
        elif short or "roles" not in document:
            role = {key: document.pop(key) for key in short}
            document["roles"] = _short_roles(role, str(document.get("framework", "none")))
            self._short_roles = frozenset(document["roles"])
        if isinstance(document.get("roles"), dict):
            framework = str(document.get("framework"))
            roles = {name: _without_none(role) for name, role in document["roles"].items()}
            document["roles"] = {name: _with_command(name, roles, framework) for name in sorted(roles)}
        if isinstance(document.get("placement"), dict):
            document["placement"] = _without_none(document["placement"])
        if isinstance(document.get("completion"), dict):
            document["completion"] = self._write_out_completion(document["completion"], document.get("roles"))
        return document

    def _write_out_completion(self, completion: dict[str, Any], roles: object) -> dict[str, Any]:
        completion = _without_none(completion)
        short = [key for key in ("min_failed", "min_succeeded") if key in completion]
        if not short or "roles" in completion or not isinstance(roles, dict) or len(roles) != 1:
            return completion
        self._short_completion = next(iter(roles))
        thresholds = {key: completion.pop(key) for key in short}
        return {**completion, "roles": {self._short_completion: thresholds}}

    def _pointer(self, location: Location) -> str:
        """The place in the user's document that a place in the model came from."""
        if location[0] == "roles" and len(location) > 1 and location[1] in self._short_roles:
            location = location[2:] or ("command",)
        if self._short_completion is not None and location[:3] == ("completion", "roles", self._short_completion):
            location = ("completion", *location[3:])
        return pointer(existing(self._written, location))

    def _keys_at(self, location: Location) -> tuple[str, ...]:
        return keys_at(location, at_top=bool(self._short_roles))


def _without_none(value: Any) -> Any:
    """A copy without empty keys, one level below as well for `resources`; other values as they are."""
    if not isinstance(value, dict):
        return value
    return {
        key: {name: item for name, item in entry.items() if item is not None}
        if key == "resources" and isinstance(entry, dict)
        else entry
        for key, entry in value.items()
        if entry is not None
    }


def _short_roles(role: dict[str, Any], framework: str) -> dict[str, Any]:
    """A job with one command and no roles: what its framework makes of it."""
    if framework not in FRAMEWORKS:
        return {DEFAULT_ROLE: role}
    return {name: dict(written) for name, written in get_framework(framework).short_roles(role).items()}


def _with_command(name: str, roles: Mapping[str, Any], framework: str) -> Any:
    """A role for which its framework has something to run need not say it."""
    role = roles[name]
    if not isinstance(role, dict) or "command" in role or framework not in FRAMEWORKS:
        return role
    command = get_framework(framework).default_command(name, roles)
    return role if command is None else {"command": command, **role}


def _topic(location: Location) -> str:
    """The subject that an error makes unsafe to reason about: a top-level key, or what is unsure about the roles."""
    if location[0] != "roles":
        return str(location[0])
    if len(location) == 1 or (len(location) == 3 and location[2] == KEY):
        return "roles"
    if len(location) == 2 or location[2] == "replicas":
        return "replicas"
    return "role_parts" if location[2] in {"ports", "resources"} else ""


def _wrong_part(entry: ErrorDetails) -> Location:
    """What must go for the rest to make sense: a key that is missing spoils the mapping that should have it."""
    location = location_of(entry)
    if entry["type"] == "missing" and not (location[0] == "roles" and location[-1] == "command"):
        return location[:-1] or location
    return location


SALVAGE_ROUNDS = 4  # Leaving one part out can spoil the mapping around it, that the list around that, and so on.


def _salvage(document: dict[str, Any], locations: list[Location]) -> JobSpec | None:
    """What a document says when its wrong parts are left out; None when that says nothing either."""
    rest = copy.deepcopy(document)
    for _ in range(SALVAGE_ROUNDS):
        for location in sorted(locations, key=_depth_first, reverse=True):
            _cut(rest, location)
        try:
            return JobSpec.model_validate(rest)
        except ValidationError as error:
            locations = [_wrong_part(entry) for entry in error.errors(include_url=False)]
    return None


def _depth_first(location: Location) -> tuple[tuple[bool, str], ...]:
    return tuple((isinstance(part, int), str(part).zfill(6) if isinstance(part, int) else part) for part in location)


def _cut(document: Any, location: Location) -> None:
    """Remove one place. A role keeps a stand-in command, so that what refers to the role still finds it."""
    is_bad_key = location[-1] == KEY
    location = without_key_mark(location)
    if location == ("roles",):
        document["roles"] = {DEFAULT_ROLE: {"command": "true"}}
        return
    if location[0] == "roles" and not is_bad_key and (len(location) == 2 or location[2:3] == ("command",)):
        roles = document.get("roles")
        name = str(location[1])
        if isinstance(roles, dict) and name in roles:
            role = roles[name] if isinstance(roles[name], dict) else {}
            roles[name] = {**role, "command": "true"}
        return
    for key in location[:-1]:
        document = _step(document, key)
    last = location[-1]
    if isinstance(document, dict):
        document.pop(last, None)
    elif isinstance(document, list) and isinstance(last, int) and last < len(document):
        del document[last]


def _step(document: Any, key: str | int) -> Any:
    if isinstance(document, Mapping):
        return document.get(str(key))
    if isinstance(document, list) and isinstance(key, int) and key < len(document):
        return document[key]
    return None
