"""One way to show things for all commands: aligned tables for people, JSON and YAML for programs, ids for pipes."""

from __future__ import annotations

import json
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from berth.cli.messages import _
from berth.cli.paint import colour_wanted, is_terminal, paint
from berth.sanitize import plain

if TYPE_CHECKING:
    from rich.console import Console

Cell = str | tuple[str, str]
"""Text, or text with a style."""
_UNSAFE = re.compile("[\x7f-\x9f\u200e\u200f\u061c\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
_PIPE_WIDTH = 100_000  # Nothing is cut when no terminal is there.
_SHRUNK_WIDTH = 10  # Narrower than this a cell says nothing; the line is broken by the terminal instead.
_GAP = "  "


class Format(StrEnum):
    """The values of `-o`."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its title, how to get the cell from a row, and how it behaves when room is short."""

    title: str
    cell: Callable[[Any], Cell]
    wide: bool = False  # Shown with `-o wide` only.
    right: bool = False
    shrinks: bool = False  # May be cut to fit the terminal; others are not.


def print_data(data: object, form: Format, *, key: str = "") -> None:
    """Print JSON or YAML; characters that a terminal would obey are escaped. `key`: what `-o name` prints of it."""
    if form is Format.NAME and key and isinstance(data, Mapping):
        print_names([data], key)
    elif form is Format.YAML:
        import yaml

        from berth.cli.blocks import BlockDumper

        text = yaml.dump(data, Dumper=BlockDumper, allow_unicode=True, sort_keys=False, default_flow_style=False)
        if _UNSAFE.search(text):
            text = yaml.safe_dump(data, allow_unicode=False, sort_keys=False, default_flow_style=False)
        sys.stdout.write(text)
    else:
        print(json_text(data, indent=2))


def json_text(data: object, *, indent: int | None = None) -> str:
    """JSON that may be printed on a terminal as it is."""
    text = json.dumps(data, ensure_ascii=False, indent=indent, default=str)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def print_rows(
    rows: Iterable[Mapping[str, Any]], columns: Sequence[Column], form: Format, *, empty: str = "", key: str = "id"
) -> None:
    """Print a list in the wanted form. `key` names what `-o name` prints of each row."""
    listed = [dict(row) for row in rows]
    if form in (Format.JSON, Format.YAML):
        print_data(listed, form)
    elif form is Format.NAME:
        print_names(listed, key)
    elif not listed:
        print(empty or _("No files."), file=sys.stderr)
    else:
        sys.stdout.write(table_text(listed, columns, wide=form is Format.WIDE))


def print_names(rows: Iterable[Mapping[str, Any]], key: str) -> None:
    """One line for each value of `key`: text as it is, of an object its name, of a list each entry. What is not there is none."""
    for row in rows:
        value = row.get(key)
        for entry in value if isinstance(value, (list, tuple)) else (value,):
            name = entry.get("name") if isinstance(entry, Mapping) else entry
            if name not in (None, ""):
                print(plain(name))


def table_text(rows: Sequence[Any], columns: Sequence[Column], *, wide: bool = False, width: int | None = None) -> str:
    """The table as text. Columns that may shrink give way until it fits the terminal; without one nothing is cut."""
    chosen = [column for column in columns if wide or not column.wide]
    titles = [_(column.title) if column.title else "" for column in chosen]
    cells = [[_parts(column.cell(row)) for column in chosen] for row in rows]
    natural = [max([_width(title), *(_width(row[place][0]) for row in cells)]) for place, title in enumerate(titles)]
    widths = _fitted(natural, [column.shrinks for column in chosen], terminal_width() if width is None else width)
    header = _line([(title, "bold") for title in titles], chosen, widths)
    return "\n".join([header, *(_line(row, chosen, widths) for row in cells)]) + "\n"


def terminal_width() -> int:
    """Columns of the terminal on standard output; where there is none, so many that nothing is cut."""
    return shutil.get_terminal_size((80, 24)).columns if is_terminal(sys.stdout) else _PIPE_WIDTH


def _fitted(natural: Sequence[int], shrinks: Sequence[bool], room: int) -> list[int]:
    """Take from the widest column that may shrink, one by one, until the row fits or nothing can give way."""
    widths = list(natural)
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - room
    for _step in range(max(0, excess)):
        place = max((place for place in range(len(widths)) if shrinks[place]), key=lambda place: widths[place], default=None)
        if place is None or widths[place] <= _SHRUNK_WIDTH:
            break
        widths[place] -= 1
    return widths


def _line(parts: Sequence[tuple[str, str]], columns: Sequence[Column], widths: Sequence[int]) -> str:
    """One row, each cell padded outside its colour, nothing after the last that is not blank."""
    pieces = []
    for (text, style), column, width in zip(parts, columns, widths, strict=True):
        shown = _cut(text, width)
        padding = " " * (width - _width(shown))
        painted = paint(shown, style) if shown else ""
        pieces.append(padding + painted if column.right else painted + padding)
    return _GAP.join(pieces).rstrip()


def _cut(text: str, width: int) -> str:
    """At most so many terminal cells, the last one an ellipsis when something is left out."""
    if _width(text) <= width:
        return text
    kept = ""
    for character in text:
        if _width(kept + character) > width - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def console(*, width: int | None = None, stderr: bool = False) -> Console:
    """A rich console that agrees with `paint` about colour and width."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    coloured = colour_wanted(stream)
    if width is None:
        width = shutil.get_terminal_size((80, 24)).columns if is_terminal(stream) else _PIPE_WIDTH
    return Console(
        file=stream,
        width=width,
        no_color=not coloured,
        color_system="standard" if coloured else None,
        force_terminal=is_terminal(stream),
        highlight=False,
        markup=False,
        emoji=False,
    )


def print_facts(facts: Sequence[tuple[str, Cell | None]], *, indent: int = 0) -> None:
    """Aligned `label  value` lines; facts without a value are left out."""
    shown = [
        (_(label), value) for label, value in facts if (value[0] if isinstance(value, tuple) else value) not in (None, "", "-")
    ]
    margin = max((_width(label) for label, _value in shown), default=0)
    for label, value in shown:
        text, style = value if isinstance(value, tuple) else (str(value), "")
        padding = " " * (margin - _width(label))
        first, *more = text.split("\n")
        print(f"{' ' * indent}{paint(label, 'bright_black')}{padding}  {paint(first, style)}")
        for line in more:
            print(f"{' ' * (indent + margin + 2)}{paint(line, style)}")


def heading(text: str) -> None:
    """A blank line and a bold title."""
    print(f"\n{paint(text, 'bold')}")


def note(text: str, *, style: str = "") -> None:
    """A line for the person, beside the data: standard error."""
    print(paint(text, style, stream=sys.stderr), file=sys.stderr, flush=True)


def hint(text: str) -> None:
    """What to do next; only where a person looks."""
    if is_terminal(sys.stderr) and is_terminal(sys.stdout):
        note(f"→ {text}", style="bright_black")


def _parts(cell: Cell) -> tuple[str, str]:
    text, style = cell if isinstance(cell, tuple) else (cell, "")
    return plain(text), style


def _width(text: str) -> int:
    from rich.cells import cell_len

    return cell_len(text)
