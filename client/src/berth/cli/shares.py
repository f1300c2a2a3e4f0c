"""`berth shares`: what was deserved and what was delivered, and the signed statements of weeks."""

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
    "digest": "✗ The digest does not match the document.",
    "signature": "✗ The signature does not match the document.",
    "key": "✗ The statement was not signed by this installation.",
}
FILE_BYTES_MAX = 1 << 24

WeekArgument = Annotated[str | None, typer.Argument(metavar="WEEK", help="Such as 2026-W47; default: this week.")]


@command()
def show_shares(
    session: Session,
    since: Annotated[str, typer.Option("--since", help="Start of the period: 7d, or 2027-01-31.")] = "7d",
    until: Annotated[str | None, typer.Option("--until", help="End of the period.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only in this pool.")] = None,
    csv: CsvOption = None,
) -> None:
    """Show deserved and delivered GPU hours and core hours of queues, largest deficit first.

    DESERVED is the amount by the limits of a queue, DUE the part of it that its jobs requested, SHORTFALL the part of DUE that
    was not delivered. FAIR is the fair part of all that was delivered: due amounts first, the rest by weight. DEFICIT is FAIR
    less DELIVERED. DELIVERED % and FAIR % are parts of all that the queue and its siblings got.
    """
    chosen = {"since": formats.iso_time(since), "until": formats.iso_time(until) if until else None, "pool": pool}
    chosen["tenant"] = session.client.settings.tenant or None
    if csv is not None:
        write_csv(session.client.shares.export(**chosen), csv)
        return
    rows = session.client.shares.list(**chosen)
    session.show(rows, SHARE_COLUMNS, empty=_("No capacity was deserved, requested or used in this time."), key="queue")


@command()
def show_week(
    session: Session,
    week: WeekArgument = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List closed weeks.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Verify digest and signature on this computer.")] = False,
) -> None:
    """Show a tenant's signed week of deserved and delivered shares. A past week is closed and never changes."""
    tenant = session.tenant
    if listed:
        session.show(session.client.shares.weeks(tenant), WEEK_COLUMNS, empty=_("No week is closed yet."), key="week")
        return
    found = session.client.shares.week(tenant, week or f"{datetime.now(UTC):%G-W%V}")
    if session.is_for_programs:
        print_data(found, session.form, key="week")
    else:
        _show_statement(found)
    if verify:
        _judge(found, session.client.shares.keys())


@command()
def verify_week(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Output of `berth shares week --json`; - is standard input.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="Trusted public key; may be repeated. Needs no server.")
    ] = None,
) -> None:
    """Verify a saved statement: its digest, its signature, and whether its key is trusted."""
    _judge(_read(file), key or session.client.shares.keys())


@command()
def show_keys(session: Session) -> None:
    """Show the public keys of the installation; save them to verify statements offline."""
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
        raise UsageMistake(_("{path} is not a statement.", path=plain(str(file))), hint="berth shares week --json > week.json")
    return dict(found)


def _judge(found: Mapping[str, Any], keys: Sequence[str]) -> None:
    problem = problem_of(found, keys)
    if problem:
        note(_(PROBLEMS[problem]), style="red")
        raise typer.Exit(1)
    note(_("✓ Digest and signature are valid."), style="green")


def _show_statement(found: Mapping[str, Any]) -> None:
    closed = formats.time_text(found["closed_at"]) if found["closed_at"] else _("open: may still grow")
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
        heading(_("Deserved and delivered"))
        rows = [
            {
                **line,
                "deserved": line["promised"],
                "requested": line["wanted"],
                "pool": {"name": names.get(line["pool"], line["pool"])},
            }
            for line in document["lines"]
        ]
        sys.stdout.write(table_text(rows, SHARE_COLUMNS[1:]))


def _hours(name: str) -> Any:
    return lambda row: hours_text(row[name], 1000)


def _deficit(row: Mapping[str, Any]) -> Cell:
    hours = hours_text(row["deficit"], 1000)
    return (hours, "red") if row["deficit"] > 0 else hours


def _shortfall(row: Mapping[str, Any]) -> Cell:
    hours = hours_text(row["shortfall"], 1000)
    return (hours, "red") if row["shortfall"] > 0 else hours


def _part(name: str) -> Any:
    return lambda row: f"{row[name] / 10_000:.1f}%"


SHARE_COLUMNS = [
    Column("QUEUE", lambda row: formats.name_of(row.get("queue")), shrinks=True),
    Column("POOL", lambda row: formats.name_of(row.get("pool")), shrinks=True),
    Column("OF", lambda row: _(UNITS.get(row["resource"], row["resource"]))),
    Column("DESERVED", _hours("deserved"), right=True, wide=True),
    Column("REQUESTED", _hours("requested"), right=True),
    Column("DUE", _hours("due"), right=True),
    Column("DELIVERED", _hours("delivered"), right=True),
    Column("SHORTFALL", _shortfall, right=True),
    Column("FAIR", _hours("fair"), right=True),
    Column("DEFICIT", _deficit, right=True),
    Column("DELIVERED %", _part("delivered_ppm"), right=True),
    Column("FAIR %", _part("fair_ppm"), right=True),
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
    "Show deserved and delivered shares, and signed weeks.",
    {"show": show_shares, "week": show_week, "verify": verify_week, "keys": show_keys},
)
