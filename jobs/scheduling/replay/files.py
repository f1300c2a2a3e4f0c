"""Files of one JSON object a line, which tell whether they are whole and as they were written.

The first line says what the file is: `format`, `version`, and what it `holds`. The last says how many lines there are. Each line
carries under `~` a checksum over itself and all before it, so that a line that was changed, lost, doubled or moved is found, and
named. The checksum guards against mistakes, not against forgery: it is easily written anew.

Files of version 3 are read, too: there, two codes of waits have their earlier names (`kernel/wait_codes.py`).
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from jobs.scheduling.replay.encoding import text
from kernel.wait_codes import present_code

FORMAT, VERSION = "berth-scheduling", 4
WITH_EARLIER_CODES = 3  # The one earlier version that is read.
CHECK = "~"
LINE_MAX = 16 * 1024 * 1024  # A pool's mix of shapes is the longest that there is, and far below this.


class BadFile(ValueError):
    """A file that cannot be read: `line` (from 1), a stable `code`, and what is wrong in words."""

    def __init__(self, line: int, code: str, what: str) -> None:
        super().__init__(f"line {line}: {what}")
        self.line = line
        self.code = code
        self.what = what


class Written:
    """Lines as they are written, one after the other."""

    def __init__(self, holds: str) -> None:
        self._check = 0
        self._count = 0
        self._header = {"kind": "header", "format": FORMAT, "version": VERSION, "holds": holds}

    def begin(self) -> str:
        return self.line(self._header)

    def line(self, plain: dict[str, Any]) -> str:
        assert CHECK not in plain
        self._check = zlib.crc32(text(plain).encode(), self._check)
        self._count += 1
        return text({**plain, CHECK: _hex(self._check)})

    def end(self) -> str:
        return self.line({"kind": "end", "lines": self._count + 1})


def read_lines(lines: Iterable[str], holds: str, *, is_open: bool = False) -> Iterator[tuple[int, dict[str, Any]]]:
    """The objects between the first line and the last with their numbers; every line is checked before it is handed out.

    Raises `BadFile`, at the latest at the end, where a file was cut off. `is_open`: the file may end anywhere, also within a
    line; where it is whole, its last line is handed out, too.
    """
    check, number, ended, has_earlier_codes = 0, 0, False, False
    for number, line in enumerate(lines, start=1):
        if is_open and not line.endswith("\n"):
            return
        if ended:
            raise BadFile(number, "edited", "something follows the line that says that this is the end")
        found = _object(number, line)
        told = found.pop(CHECK, None)
        check = zlib.crc32(text(found).encode(), check)
        if number == 1:
            _check_header(found, holds)
            has_earlier_codes = found["version"] == WITH_EARLIER_CODES
        if told != _hex(check) or text({**found, CHECK: told}) != line.rstrip("\n"):
            what = "this line, or one before it that is missing now, is not as it was written"
            raise BadFile(number, "edited", f"{what}: its checksum is {_hex(check)}, not {told}")
        if found.get("kind") == "end":
            ended = True
            if found != {"kind": "end", "lines": number}:
                raise BadFile(number, "edited", f"the end says {found.get('lines')} lines, and this is line {number}")
        if number > 1 and (is_open or not ended):
            if has_earlier_codes:
                _name_codes_anew(found)
            yield number, found
    if not ended and not is_open:
        raise BadFile(number + 1, "truncated", f"the file ends after {number} lines, and the line that says so is missing")


def _object(number: int, line: str) -> dict[str, Any]:
    if len(line) > LINE_MAX:
        raise BadFile(number, "invalid", f"the line is longer than {LINE_MAX} characters")
    try:
        found = json.loads(line, parse_float=_no_float, parse_constant=_no_float)
    except (ValueError, RecursionError) as broken:
        if number == 1:
            raise BadFile(1, "not_a_log", "this is no file of the scheduler: the first line is no JSON object") from None
        if not line.endswith("\n"):
            raise BadFile(number, "truncated", "the file ends within this line") from None
        raise BadFile(number, "invalid", f"the line is no JSON object: {broken}") from None
    if not isinstance(found, dict):
        raise BadFile(number, "invalid" if number > 1 else "not_a_log", "the line is no JSON object")
    return found


def _no_float(found: str) -> None:
    raise ValueError(f"{found} is no whole number")


def _check_header(found: dict[str, Any], holds: str) -> None:
    if found.get("format") != FORMAT:
        raise BadFile(1, "not_a_log", f"this is no file of the scheduler: its first line does not say format {FORMAT}")
    if found.get("version") not in (WITH_EARLIER_CODES, VERSION):
        read = f"this release reads the versions {WITH_EARLIER_CODES} and {VERSION}"
        raise BadFile(1, "version", f"the file is of version {found.get('version')}; {read}")
    if found.get("holds") != holds:
        raise BadFile(1, "other_kind", f"the file holds a {found.get('holds')}, and a {holds} was expected")


def _name_codes_anew(found: dict[str, Any]) -> None:
    """Give the reason of a wait its present name. A line of another shape stays as it is: its reader refuses it."""
    value = found.get("value")
    reason = value.get("reason") if found.get("kind") == "wait" and isinstance(value, dict) else None
    if isinstance(reason, dict) and isinstance(reason.get("code"), str):
        reason["code"] = present_code(reason["code"])


def _hex(check: int) -> str:
    return f"{check:08x}"
