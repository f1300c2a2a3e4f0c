"""`berth shares`: what was promised and what was delivered, and the signed statements of weeks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command, make_group
from berth.cli.costs import CsvOption, hours_text, write_csv
from berth.cli.messages import _
from berth.cli.output import Cell, Column, heading, note, print_data, print_facts, table_text
from berth.sanitize import plain
from berth.shares import problem_of

UNITS = {"gpu_millis": "GPU", "cpu_millis": "core"}
PROBLEMS = {
    "digest": "✗ The digest is not that of the document.",
    "signature": "✗ The signature is not that of the document.",
    "key": "✗ It was not signed by this installation.",
}
FILE_BYTES_MAX = 1 << 24

WeekArgument = Annotated[str | None, typer.Argument(metavar="WEEK", help="Such as 2026-W47; this week when left out.")]


@command()
def show_shares(
    session: Session,
    since: Annotated[str, typer.Option("--since", help="From this time on: 7d, or 2027-01-31.")] = "7d",
    until: Annotated[str | None, typer.Option("--until", help="Up to this time.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only in this pool.")] = None,
    csv: CsvOption = None,
) -> None:
    """Show what queues were promised and what they got, in hours of GPUs and cores; what is missing comes first.

    PROMISED is what a queue deserved by its limits; OWED the part of it that its jobs asked for; FAIR its part of what all
    got: what is owed first, the rest by weight. DEFICIT is what it got less than that.
    """
    chosen = {"since": formats.iso_time(since), "until": formats.iso_time(until) if until else None, "pool": pool}
    chosen["tenant"] = session.client.settings.tenant or None
    if csv is not None:
        write_csv(session.client.shares.export(**chosen), csv)
        return
    rows = session.client.shares.list(**chosen)
    session.show(rows, SHARE_COLUMNS, empty=_("Nothing was promised, wanted or used in this time."))


@command()
def show_week(
    session: Session,
    week: WeekArgument = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List the weeks that are closed.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Check digest and signature here.")] = False,
) -> None:
    """Show a tenant's week: what it was promised and got, signed. A week that is over is closed, and never changes again."""
    tenant = session.tenant
    if listed:
        session.show(session.client.shares.weeks(tenant), WEEK_COLUMNS, empty=_("No week is closed yet."), key="week")
        return
    found = session.client.shares.week(tenant, week or f"{datetime.now(UTC):%G-W%V}")
    if session.is_for_programs:
        print_data(found, session.form)
    else:
        _show_statement(found)
    if verify:
        _judge(found, session.client.shares.keys())


@command()
def verify_week(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `berth shares week --json` wrote; - is standard input.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="Trusted public key; may be repeated. Needs no server.")
    ] = None,
) -> None:
    """Check a statement that was kept: its digest, its signature, and whether the key is one that you trust."""
    _judge(_read(file), key or session.client.shares.keys())


@command()
def show_keys(session: Session) -> None:
    """Show the public keys with which this installation signs; keep them to check statements without it."""
    rows = [{"public_key": key, "now": place == 0} for place, key in enumerate(session.client.shares.keys())]
    session.show(rows, KEY_COLUMNS, key="public_key")


def _read(file: Path) -> dict[str, Any]:
    try:
        with sys.stdin.buffer if str(file) == "-" else file.open("rb") as stream:
            found = json.loads(stream.read(FILE_BYTES_MAX))
    except OSError as error:
        raise UsageMistake(_("{path} cannot be read: {reason}", path=plain(str(file)), reason=error.strerror or "")) from None
    except (ValueError, RecursionError):
        found = None
    texts = ("sha256", "signature", "public_key")
    is_right = isinstance(found, dict) and all(isinstance(found.get(name), str) for name in texts)
    if not is_right or not isinstance(found.get("document"), dict):
        raise UsageMistake(_("{path} is no statement.", path=plain(str(file))), hint="berth shares week --json > week.json")
    return dict(found)


def _judge(found: Mapping[str, Any], keys: Sequence[str]) -> None:
    problem = problem_of(found, keys)
    if problem:
        note(_(PROBLEMS[problem]), style="red")
        raise typer.Exit(1)
    note(_("✓ Digest and signature are right."), style="green")


def _show_statement(found: Mapping[str, Any]) -> None:
    closed = formats.time_text(found["closed_at"]) if found["closed_at"] else _("open: it may still grow")
    print_facts(
        [
            ("Tenant", (plain(found["tenant"]["name"]), "bold")),
            ("Week", plain(found["week"])),
            ("Closed", closed),
            ("SHA-256", plain(found["sha256"])),
            ("Signature", plain(found["signature"])),
        ]
    )
    document, names = found["document"], found["names"]
    if document["lines"]:
        heading(_("Promised and delivered"))
        rows = [{**line, "pool": {"name": names.get(line["pool"], line["pool"])}} for line in document["lines"]]
        sys.stdout.write(table_text(rows, SHARE_COLUMNS[1:]))


def _hours(name: str) -> Any:
    return lambda row: hours_text(row[name], 1000)


def _deficit(row: Mapping[str, Any]) -> Cell:
    hours = hours_text(row["deficit"], 1000)
    return (hours, "red") if row["deficit"] > 0 else hours


def _shortfall(row: Mapping[str, Any]) -> Cell:
    hours = hours_text(row["shortfall"], 1000)
    return (hours, "red") if row["shortfall"] > 0 else hours


def _shares(row: Mapping[str, Any]) -> str:
    return f"{row['delivered_ppm'] / 10_000:.1f}% / {row['fair_ppm'] / 10_000:.1f}%"


SHARE_COLUMNS = [
    Column("QUEUE", lambda row: formats.name_of(row.get("queue")), shrinks=True),
    Column("POOL", lambda row: formats.name_of(row.get("pool")), shrinks=True),
    Column("OF", lambda row: _(UNITS.get(row["resource"], row["resource"]))),
    Column("PROMISED", _hours("promised"), right=True, wide=True),
    Column("WANTED", _hours("wanted"), right=True),
    Column("OWED", _hours("due"), right=True),
    Column("GOT", _hours("delivered"), right=True),
    Column("MISSING", _shortfall, right=True),
    Column("FAIR", _hours("fair"), right=True),
    Column("DEFICIT", _deficit, right=True),
    Column("GOT / FAIR SHARE", _shares, right=True),
]
WEEK_COLUMNS = [
    Column("WEEK", lambda row: plain(row["week"])),
    Column("CLOSED", lambda row: formats.time_text(row["closed_at"])),
    Column("SHA-256", lambda row: plain(row["sha256"])),
]
KEY_COLUMNS = [
    Column("PUBLIC KEY", lambda row: plain(row["public_key"])),
    Column("STATE", lambda row: _("now") if row["now"] else _("past")),
]
shares = make_group(
    "shares",
    show_shares,
    "Show promised and delivered shares, and signed weeks.",
    {"show": show_shares, "week": show_week, "verify": verify_week, "keys": show_keys},
)
