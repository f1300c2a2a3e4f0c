"""How the command line tells what went wrong: fields by the options that gave them, and next steps that a shell can take.

The server speaks to programs: of paths in a body, of headers, of methods. Here the same refusal names the option, and a hint
about HTTP gives way to one about the command. Programs that ask for JSON get the server's own words.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from berth.cli.formats import localized
from berth.cli.messages import _
from berth.cli.output import Format, json_text, note
from berth.cli.paint import paint
from berth.errors import ApiError, BerthError, FieldProblem
from berth.sanitize import plain, plain_block

Options = Mapping[str, str]
"""What a command calls its parameters, by the names that fields of the API may have: `expires_at` is `--expires`."""

_OF_HTTP = re.compile(
    r"\b(GET|POST|PUT|PATCH|DELETE) `?/|Authorization: |Retry-After|Idempotency-Key|If-Match|`fields`|X-Berth-|Content-Type"
    r"|\bheaders?\b"
)
_COMMANDS = re.compile(r"`(berth [^`]+)`")
_HINTS = {
    "not_authenticated": "Sign in: berth login",
    "too_many_requests": "Wait a moment, then run the command again.",
    "unavailable": "Run the command again in a moment.",
    "too_large": "Send less at once; large files: berth cp",
    "feature_off": "Ask an operator to switch it on.",
    "idempotency_key_reused": "Give another --idempotency-key.",
    "route_not_found": "Server and command line may differ in version: berth version",
    "method_not_allowed": "Server and command line may differ in version: berth version",
}
_UNITS = ("_at", "_seconds", "_bytes", "_millis", "_date")


def options_of(parameters: Iterable[Any]) -> Options:
    """The options and arguments of a command, by the names of the fields that they give."""
    found: dict[str, str] = {}
    for parameter in parameters:
        is_option = parameter.param_type_name == "option"
        names = [name for name in parameter.opts if name.startswith("--")] if is_option else []
        shown = names[0] if names else parameter.metavar or str(parameter.name).upper()
        for name in (str(parameter.name).strip("_"), *(name.removeprefix("--").replace("-", "_") for name in names)):
            found.setdefault(name, shown)
    return found


def report(error: BerthError, form: Format | None = None, options: Options | None = None) -> None:
    """Say on standard error what went wrong, where, and what to do; programs get it as JSON there."""
    if form is Format.JSON:
        print_problem(error)
        return
    options = options or {}
    note(f"{paint(_('Error:'), 'bold red', stream=sys.stderr)} {localized(plain_block(_(_detail(error, options))))}")
    _print_fields(error, options)
    if hint := _hint(error):
        note(f"{paint(_('Hint:'), 'bold', stream=sys.stderr)} {localized(plain_block(_(hint)))}")
    if isinstance(error, ApiError) and error.status >= 500 and error.request_id:
        note(
            _("Request {request_id}: give this id when you ask for help.", request_id=plain(error.request_id)),
            style="bright_black",
        )


def _detail(error: BerthError, options: Options) -> str:
    """The sentence; of one that counts fields and repeats the first, what the fields below do not say."""
    if not isinstance(error, ApiError) or not _repeats_a_field(error):
        return error.detail
    if len(error.fields) > 1:
        return error.title or error.detail
    return f"{_place(error.fields[0], options)}: {error.fields[0].message}"


def _repeats_a_field(error: BerthError) -> bool:
    """Whether its sentence is that of the API for fields: `1 field is not valid: /role - ...`."""
    return bool(error.fields) and f"{error.fields[0].path or '/'} - {error.fields[0].message}" in error.detail


def _place(field: FieldProblem, options: Options) -> str:
    """The line of a file, or the option that gave the field, or its path where no option has its name."""
    if field.file and field.line:
        return field.place
    name = field.path.strip("/").split("/")[0]
    short = next((name.removesuffix(unit) for unit in _UNITS if name.endswith(unit)), name)
    return next((options[known] for known in (name, short, name.removesuffix("s")) if known in options), field.place)


def _hint(error: BerthError) -> str:
    if not isinstance(error, ApiError) or not _OF_HTTP.search(error.hint):
        return error.hint
    if error.code in ("too_many_requests", "unavailable") and error.retry_after_seconds:
        return _("Run the command again in {count} seconds.", count=int(error.retry_after_seconds))
    return _HINTS.get(error.code) or _without_http(error.hint)


def _without_http(hint: str) -> str:
    """The same; of one about HTTP only the commands that it names."""
    return "   ·   ".join(_COMMANDS.findall(hint)) if _OF_HTTP.search(hint) else hint


def _print_fields(error: BerthError, options: Options) -> None:
    """What is wrong where; of what the error as a whole says already, only the place."""
    places = [_place(field, options) for field in error.fields]
    width = max(map(len, places), default=0)
    is_repeated = len(error.fields) == 1 and isinstance(error, ApiError) and _repeats_a_field(error)
    is_said = len(error.fields) == 1 and error.fields[0].message == error.detail
    for field, shown in zip(error.fields, places, strict=True):
        place = paint(plain(shown).ljust(width), "cyan", stream=sys.stderr)
        pointer = plain(field.path) if field.line and field.path else ""
        if not is_said and not is_repeated:
            note(f"  {place}  {pointer}{': ' if pointer else ''}{localized(plain(field.message))}")
        elif field.line:
            note(f"  {place}  {pointer}".rstrip())
        if field.hint != error.hint and (told := _without_http(field.hint)):
            note(f"  {' ' * width}  {paint(localized(plain(told)), 'bright_black', stream=sys.stderr)}")


def print_problem(error: BerthError) -> None:
    """The error as one JSON document on standard error."""
    fields = [
        {
            "path": field.path,
            "code": field.code,
            "message": field.message,
            "hint": field.hint,
            "file": field.file,
            "line": field.line,
        }
        for field in error.fields
    ]
    document = {"code": error.code, "detail": error.detail, "hint": error.hint, "fields": fields, "exit_code": error.exit_code}
    print(json_text(document, indent=2), file=sys.stderr)
