"""`berth compare`: two runs side by side, and in what they differ."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.costs import money
from berth.cli.jobs import end_text
from berth.cli.messages import _
from berth.cli.metrics import value_text
from berth.cli.output import Cell, Column, heading, hint, json_text, print_data, table_text
from berth.sanitize import plain, plain_block

RunArgument = Annotated[str, typer.Argument(metavar="A", help="Id, unique prefix of an id, or name (its latest job).")]
OtherArgument = Annotated[str, typer.Argument(metavar="B", help="The job to compare with.")]
DIFFERS = "≠"
MILLI_HOUR = 3_600_000

Run = Mapping[str, Any]


@command()
def compare(session: Session, a: RunArgument, b: OtherArgument) -> None:
    """Compare two runs: results, waits, attempts, cost, usage, and differences of their job files."""
    found = session.client.jobs.compare(a, b)
    if session.is_for_programs:
        print_data(found, session.form)
        return
    runs = (found["a"], found["b"])
    print(table_text(_facts(*runs), _columns(_("WHAT"))), end="")
    use = _use(*runs)
    if use:
        heading(_("Usage, mean and highest value"))
        print(table_text(use, _columns(_("METRIC"))), end="")
    heading(_("Job files"))
    if found["spec"]:
        print(table_text([_spec_row(entry) for entry in found["spec"]], _columns(_("PATH"))), end="")
    else:
        print(_("Both job files are the same."))
    hint(_("berth logs {a}   ·   berth logs {b}", a=plain(runs[0]["job"]["id"]), b=plain(runs[1]["job"]["id"])))


Row = tuple[str, str, str]


def _columns(what: str) -> list[Column]:
    """The sign stands in a column of its own: it says without colour which lines differ."""
    return [
        Column(what, lambda row: row[0], shrinks=True),
        Column("A", lambda row: row[1], shrinks=True),
        Column(" ", _sign),
        Column("B", lambda row: row[2], shrinks=True),
    ]


def _sign(row: Row) -> Cell:
    return (DIFFERS, "yellow") if row[1] != row[2] else ""


def _facts(a: Run, b: Run) -> list[Row]:
    readers: tuple[tuple[str, Callable[[Run], str]], ...] = (
        ("Name", lambda run: plain(run["job"]["name"])),
        ("Id", lambda run: run["job"]["id"]),
        ("State", lambda run: formats.state_text(run["job"].get("state"))[0]),
        ("Result", lambda run: _end_text(run["job"])),
        ("Waited", lambda run: formats.duration_text(run["waited_seconds"])),
        ("Starting", lambda run: formats.duration_text(run["starting_seconds"])),
        ("Ran", lambda run: formats.duration_text(run["ran_seconds"])),
        ("Attempts", lambda run: str(run["job"].get("attempt") or 0)),
        ("Each attempt", _outcomes),
        ("Cost", lambda run: money(run["cost"]["micros"], plain(run["cost"]["currency"])) if run["cost"] else formats.NOTHING),
        ("GPU-hours", lambda run: f"{run['cost']['gpu_milli_seconds'] / MILLI_HOUR:.2f}" if run["cost"] else formats.NOTHING),
        ("Requested", lambda run: formats.resources_text(run["job"].get("resources") or {})),
        ("Image", lambda run: formats.name_of(run["job"].get("image"))),
        ("Priority", lambda run: str(run["job"].get("priority", ""))),
        ("Pool", lambda run: plain(run["job"].get("pool") or formats.NOTHING)),
        ("Queue", lambda run: formats.name_of(run["job"].get("queue"))),
        ("Tenant", lambda run: formats.name_of(run["job"].get("tenant"))),
        ("User", lambda run: formats.name_of(run["job"].get("user"))),
        ("Submitted", lambda run: formats.time_text(run["job"].get("submitted_at"))),
    )
    return [(_(name), read(a), read(b)) for name, read in readers]


def _end_text(job: Run) -> str:
    return formats.said(end_text(job) or (job.get("reason") or {}).get("text") or formats.NOTHING)


def _outcomes(run: Run) -> str:
    """Oldest first: `1 failed 3s, 2 succeeded 1m 2s`."""
    return ", ".join(
        " ".join(
            (
                str(attempt["number"]),
                formats.state_word(attempt.get("outcome") or attempt["state"]),
                formats.span_text(attempt.get("started_at"), attempt.get("ended_at")),
            )
        )
        for attempt in reversed(run["attempts"])
    )


def _use(a: Run, b: Run) -> list[Row]:
    names = [*a["use"], *(name for name in b["use"] if name not in a["use"])]
    return [(plain(name), _use_text(a["use"].get(name)), _use_text(b["use"].get(name))) for name in names]


def _use_text(use: Mapping[str, Any] | None) -> str:
    if use is None:
        return formats.NOTHING
    return f"{value_text(use['mean'], use['unit'])} / {value_text(use['highest'], use['unit'])}"


def _spec_row(entry: Mapping[str, Any]) -> Row:
    sides = ("" if entry["only_in"] == other else plain_block(json_text(entry[side])) for side, other in (("a", "b"), ("b", "a")))
    first, second = sides
    return plain(entry["path"]), first, second
