"""`berth convert`: files of other systems as job files."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from berth import limits
from berth.cli.command import Session, command
from berth.cli.messages import _
from berth.cli.output import Format, hint, note, print_data
from berth.cli.paint import paint
from berth.errors import SpecInvalid
from berth.sanitize import plain
from berth.texts import decode

KINDS = {"lost": ("✗", "Lost", "red"), "changed": ("!", "Changed", "yellow"), "carried": ("✓", "Carried over", "green")}


@command()
def convert(
    session: Session,
    file: Annotated[str, typer.Argument(metavar="FILE", help="OpenPAI job (YAML) or sbatch script; - is standard input.")],
    source: Annotated[str, typer.Option("--from", metavar="SYSTEM", help="Source format: openpai, sbatch, or auto.")] = "auto",
) -> None:
    """Print an OpenPAI job or an sbatch script as a job file for `berth submit -f`; submit nothing.

    The parts that were carried over, changed and lost are listed on standard error. --json prints the job and the parts together.
    """
    made = session.client.jobs.convert(
        _read(file), source=None if source == "auto" else source, name="" if file == "-" else Path(file).name
    )
    if session.is_for_programs:
        print_data(made, session.form)
        return
    print_data(made["spec"], Format.YAML)
    for kind in KINDS:
        _show(kind, [entry for entry in made["notes"] if entry["kind"] == kind])
    if made["problems"]:
        note(_("The resulting job cannot be submitted:"), style="yellow")
        for problem in made["problems"]:
            note(f"  {plain(problem['path'])}: {plain(problem['message'])} {plain(problem.get('hint') or '')}".rstrip())
    else:
        hint(_("berth convert FILE > job.yaml   ·   berth submit -f job.yaml"))


def _read(file: str) -> str:
    """The text of a file; a job file is never as large as what is refused here."""
    try:
        data = sys.stdin.buffer.read(limits.SPEC_BYTES + 1) if file == "-" else _start_of(Path(file).expanduser())
        if len(data) > limits.SPEC_BYTES:
            raise SpecInvalid(f"{file} is larger than {limits.SPEC_BYTES // limits.MIB} MiB; a job file is not.")
        return decode(data, file)
    except OSError as error:
        raise SpecInvalid(f"{file} cannot be read: {error.strerror}.", hint="Name a file, or - for standard input.") from error


def _start_of(path: Path) -> bytes:
    with path.open("rb") as opened:
        return opened.read(limits.SPEC_BYTES + 1)


def _show(kind: str, notes: list[Mapping[str, Any]]) -> None:
    if not notes:
        return
    sign, title, color = KINDS[kind]
    note(f"{paint(sign, color, stream=sys.stderr)} {paint(_(title), 'bold', stream=sys.stderr)} ({len(notes)})")
    for entry in notes:
        line = _("line {line}", line=entry["line"]) if entry["line"] else ""
        place = ", ".join(part for part in (plain(entry["place"]), line) if part)
        note(f"  {place}: {plain(entry['text'])} {plain(entry['hint'])}".rstrip())
