"""What a job printed is data, not commands for your terminal.

Escape sequences that move the cursor, set the title, write the clipboard, answer questions or hide text are removed;
colours and weights stay. Carriage returns are resolved (a progress bar shows its last state), and characters that turn
the direction of writing are dropped, so that a line cannot pose as another."""

from __future__ import annotations

import re

# ECMA-48: string controls (OSC, DCS, SOS, PM, APC) up to their end, CSI sequences, other escapes. The string forms come
# first and also match without an end, because a job may stop in the middle of one.
_STRING_CONTROL = r"(?:\x1b[\]P^_X]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
_CSI = r"(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~]?)"
_OTHER_ESCAPE = r"\x1b[ -/]*[0-~]?"
_SEQUENCE = re.compile(f"{_STRING_CONTROL}|{_CSI}|{_OTHER_ESCAPE}")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1a\x1c-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_ANY_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_KEPT = frozenset(
    {0, 1, 2, 3, 4, 7, 21, 22, 23, 24, 27, 29, *range(30, 38), 39, *range(40, 48), 49, *range(90, 98), *range(100, 108)}
)
_PARAMETERS_MAX = 16
RESET = "\x1b[0m"


def sanitize_line(line: str, *, colour: bool) -> str:
    """Make one line (without its newline) safe to print; with `colour`, safe colours stay and are closed at its end."""
    cleaned = _SEQUENCE.sub(_keep_colour if colour else "", line)
    if "\r" in cleaned:
        cleaned = next((part for part in reversed(cleaned.split("\r")) if part), "")
    cleaned = _CONTROL.sub("", cleaned)
    return cleaned + RESET if colour and "\x1b[" in cleaned else cleaned


def plain(text: object) -> str:
    """Any value from the server as one line of harmless text, for tables and messages."""
    return _ANY_CONTROL.sub(" ", _SEQUENCE.sub("", str(text))).strip()


def plain_block(text: object) -> str:
    """Like `plain`, keeping line breaks and tabs."""
    return "\n".join(_CONTROL.sub("", _SEQUENCE.sub("", line)).rstrip() for line in str(text).split("\n"))


def _keep_colour(match: re.Match[str]) -> str:
    if match["final"] != "m" or match["between"]:
        return ""
    kept = _safe_parameters(match["parameters"] or "0")
    return f"\x1b[{';'.join(map(str, kept))}m" if kept else ""


def _safe_parameters(text: str) -> list[int]:
    """Attributes of the safe subset; 38 and 48 keep their complete colour or are dropped with the rest of the list."""
    if not re.fullmatch(r"[0-9;]*", text):
        return []
    numbers = [int(part[:4] or 0) for part in text.split(";")][:_PARAMETERS_MAX]
    kept: list[int] = []
    while numbers:
        number = numbers.pop(0)
        if number in (38, 48):
            length = {5: 2, 2: 4}.get(numbers[0] if numbers else -1, 0)
            if not length or len(numbers) < length or any(part > 255 for part in numbers[:length]):
                break
            kept += [number, *numbers[:length]]
            del numbers[:length]
        elif number in _KEPT:
            kept.append(number)
    return kept
