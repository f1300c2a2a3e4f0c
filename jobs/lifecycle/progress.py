"""How far a task is, by a line that it prints on either of its streams: `berth: progress DONE/TOTAL`.

What a task prints is data of strangers, and comes in pieces of any size that begin and end anywhere. Only the last complete line
of what came counts. The beginning of a line is kept until its rest comes: as long as it may become such a line as it is, else as
one byte. What is kept is lost with the process: a line that was cut there is not read, and the next one is.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, TypeVar

from clusters.engines.interface import LogChunk

Name = TypeVar("Name", bound=Hashable)

BEGIN = b"berth: progress "
AMOUNT_MAX = 2**53  # Larger integers lose digits in JSON readers that know only doubles.
DIGITS_MAX = len(str(AMOUNT_MAX))
LINE_BYTES = len(BEGIN) + 2 * DIGITS_MAX + len(b"/\r")  # The longest line that counts, without its end.
_LINE = re.compile(rb"berth: progress ([0-9]{1,%d})/([0-9]{1,%d})\r?\n" % (DIGITS_MAX, DIGITS_MAX))
_OTHER = b"\0"  # Stands for the beginning of any other line.


@dataclass(frozen=True, slots=True)
class Progress:
    """So much is done of so much."""

    done: int
    total: int

    @property
    def share(self) -> float:
        return self.done / self.total if self.total else 0.0


@dataclass(frozen=True, slots=True)
class OpenLine:
    """The beginning of a line whose rest has not come, and the offset in the stream behind it."""

    data: bytes
    end: int


def last_progress(data: bytes) -> Progress | None:
    """What the last line of this kind says. As long as the data, whatever it is made of: every place is looked at once."""
    end = len(data)
    while (start := data.rfind(BEGIN, 0, end)) >= 0:
        if (start == 0 or data[start - 1] == ord("\n")) and (line := _LINE.match(data, start)):
            done, total = int(line[1]), int(line[2])
            if done <= total <= AMOUNT_MAX:
                return Progress(done, total)
        end = start
    return None


def read_progress(open_lines: MutableMapping[Name, OpenLine], name: Name, chunks: Iterable[LogChunk]) -> Progress | None:
    """What these pieces of a stream say last; `open_lines` keeps what they leave open. Bytes that came before count once."""
    progress: Progress | None = None
    for chunk in chunks:
        line = open_lines.pop(name, None)
        if chunk.marker or chunk.skipped_bytes:
            continue
        data = chunk.data
        if line is not None and chunk.offset <= line.end:
            data = line.data + data[line.end - chunk.offset :]
        if BEGIN in data:
            progress = last_progress(data) or progress
        rest = data[data.rfind(b"\n") + 1 :]
        if rest:
            end = max(chunk.offset + len(chunk.data), line.end if line is not None else 0)
            open_lines[name] = OpenLine(rest if _may_count(rest) else _OTHER, end)
    return progress


def _may_count(rest: bytes) -> bool:
    return BEGIN.startswith(rest) or (rest.startswith(BEGIN) and len(rest) <= LINE_BYTES)


def sum_of(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The progress of all that said theirs, as it is stored, together; None where none did. Large sums are told rounded."""
    reports = list(parts)
    if not reports:
        return None
    done, total = (sum(int(part[key]) for part in reports) for key in ("done", "total"))
    shift = max(0, total.bit_length() - AMOUNT_MAX.bit_length() + 1)
    return {"done": done >> shift, "total": total >> shift, "at": max(str(part["at"]) for part in reports)}
