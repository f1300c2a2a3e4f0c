"""What a conversion has to tell: notes on what became of each part, and mistakes that keep it from being made at all.

A note is stored as a code with its amounts, and worded when a user reads it, in English or Chinese. What users wrote is put
into the words as it is, cut where it is long, and never looked into."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from jobs import bounds
from jobs.conversion.words import WORDS
from jobs.spec.values import SHOWN_LENGTH
from kernel.errors import FieldError, InvalidInput
from kernel.words import Saying, Text

VALUE_LENGTH = 200  # Of what users wrote, in the words of a note.
NOTES_MAX = 500  # Of one file; a hostile one could have one for every line.


class NoteKind(StrEnum):
    CARRIED = "carried"  # It means the same here.
    CHANGED = "changed"  # It means something a little different here.
    LOST = "lost"  # It is not in the job any more.


@dataclass(frozen=True, slots=True)
class Note:
    """What became of one part. `place` is its key or option, `line` counts from 1."""

    code: str
    kind: NoteKind
    place: str
    line: int | None
    values: Mapping[str, str]

    def text(self, language: str) -> str:
        return WORDS[self.code].text(self.values, language)

    def hint(self, language: str) -> str:
        return WORDS[self.code].hint(self.values, language)


@dataclass(slots=True)
class Findings:
    """Collects notes and mistakes while a file is read."""

    notes: list[Note] = field(default_factory=list)
    errors: list[FieldError] = field(default_factory=list)

    def carried(self, place: str, target: str, line: int | None) -> None:
        self._note(NoteKind.CARRIED, "carried", place, line, {"target": target})

    def changed(self, code: str, place: str, line: int | None, **values: object) -> None:
        self._note(NoteKind.CHANGED, code, place, line, values)

    def lost(self, code: str, place: str, line: int | None, **values: object) -> None:
        self._note(NoteKind.LOST, code, place, line, values)

    def wrong(self, path: str, code: str, message: Saying, hint: Saying = "", *, line: int | None = None) -> None:
        if len(self.errors) < bounds.SPEC_ERRORS:
            self.errors.append(FieldError(path, code, message, hint, line=line))

    def sorted_notes(self) -> tuple[Note, ...]:
        """Each once, what was lost before what changed before what was carried, then by line."""
        order = {NoteKind.LOST: 0, NoteKind.CHANGED: 1, NoteKind.CARRIED: 2}
        unique = {(note.code, note.place, note.line, tuple(note.values.items())): note for note in self.notes}
        return tuple(sorted(unique.values(), key=lambda note: (order[note.kind], note.line or 0)))

    def refuse_if_wrong(self) -> None:
        if self.errors:
            count = len(self.errors)
            message = (
                self.errors[0].message if count == 1 else Text(f"The file has {count} mistakes.", f"该文件有 {count} 处错误。")
            )
            fields = sorted(self.errors, key=lambda entry: entry.line or 0)
            raise InvalidInput(message, hint=fields[0].hint if count == 1 else "", fields=fields)

    def _note(self, kind: NoteKind, code: str, place: str, line: int | None, values: Mapping[str, object]) -> None:
        if len(self.notes) < NOTES_MAX:
            self.notes.append(Note(code, kind, place[:SHOWN_LENGTH], line, {key: _shown(value) for key, value in values.items()}))


def _shown(value: object) -> str:
    text = str(value)
    body = text if len(text) <= VALUE_LENGTH else text[:VALUE_LENGTH] + "…"
    return "".join(sign if sign.isprintable() else "\N{REPLACEMENT CHARACTER}" for sign in body)
