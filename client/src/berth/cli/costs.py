"""`berth usage`, `cost`, `prices`, `statement` and `budgets`: what was used, what it cost, and what may be spent."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Cell, Column, heading, note, print_data, print_facts, table_text
from berth.costs import digest_of
from berth.errors import FileRefused
from berth.sanitize import plain

GROUPS = ("tenant", "user", "queue", "pool", "job", "day", "fate")
UNITS = {"gpu_millis": "GPU", "cpu_millis": "core", "memory_bytes": "GiB"}
MICROS = 1_000_000
MILLI_HOUR = 3_600_000
BAR_WIDTH = 12

CsvOption = Annotated[str | None, typer.Option("--csv", metavar="FILE", help="Write CSV to this file; - is standard output.")]
QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of the queue.")]


@command()
def usage(
    session: Session,
    since: Annotated[str, typer.Option("--since", help="Start of the period: 7d, or 2027-01-31.")] = "30d",
    until: Annotated[str | None, typer.Option("--until", help="End of the period.")] = None,
    group_by: Annotated[str, typer.Option("--by", help="Sum up by tenant, user, queue, pool, job, day or fate.")] = "user",
    user: Annotated[str | None, typer.Option("--user", "-u", help="Only usage of this user; `me`: yourself.")] = None,
    queue: Annotated[str | None, typer.Option("--queue", "-q", help="Only usage of this queue.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Only in this pool.")] = None,
    fate: Annotated[
        str | None, typer.Option("--fate", help="Only usage of this fate: useful, failed, retried, evicted or stopped.")
    ] = None,
    held: Annotated[
        bool, typer.Option("--held", help="Show held but idle capacity: during starts, and booked but not used.")
    ] = False,
    csv: CsvOption = None,
) -> None:
    """Sum up usage in GPU hours and CPU core hours, and its cost. `--by fate` shows wasted usage.

    BUSY HOURS are GPU hours in which the GPUs worked, BUSY their share of the measured hours.
    """
    chosen = {
        "since": formats.iso_time(since),
        "until": formats.iso_time(until) if until else None,
        "user": user,
        "queue": queue,
        "pool": pool,
        "fate": fate,
        "tenant": session.client.settings.tenant or None,
    }
    if csv is not None:
        write_csv(session.client.costs.export(**chosen), csv)
        return
    if held:
        idle = session.client.costs.held(**{name: value for name, value in chosen.items() if name != "fate"})
        session.show(idle, HELD_COLUMNS, empty=_("No idle capacity was held in this time."), key="tenant")
        return
    rows = session.client.costs.usage(**chosen, group_by=group_by)
    session.show(rows, usage_columns(group_by, rows), empty=_("No usage in this time."), key="name")


def usage_columns(group_by: str, rows: list[dict[str, Any]]) -> list[Column]:
    """The key column named by what was grouped, then the sums; how busy GPUs were where that was measured, and the cost where it
    may be seen."""
    whole = sum(row["gpu_milli_seconds"] for row in rows) or sum(row["cpu_milli_seconds"] for row in rows) or 1
    column = "gpu_milli_seconds" if any(row["gpu_milli_seconds"] for row in rows) else "cpu_milli_seconds"
    columns = [
        Column(group_by.upper(), lambda row: _group_name(row, group_by), shrinks=True),
        Column("GPU HOURS", lambda row: hours_text(row["gpu_milli_seconds"], 1000), right=True),
        Column("CPU HOURS", lambda row: hours_text(row["cpu_milli_seconds"], 1000), right=True),
        Column("GIB HOURS", lambda row: hours_text(row["memory_byte_seconds"], 1024**3), right=True),
    ]
    if any(row.get("gpu_measured_milli_seconds") for row in rows):
        columns.insert(2, Column("BUSY HOURS", lambda row: hours_text(row["gpu_busy_milli_seconds"], 1000), right=True))
        columns.insert(3, Column("BUSY", _busy_share, right=True))
    if any(row.get("micros") is not None for row in rows):
        columns.append(Column("COST", lambda row: money(row.get("micros"), row.get("currency", "")), right=True))
    columns.append(Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True))
    if group_by == "fate":
        columns.append(Column("SHARE", lambda row: f"{row[column] / whole:.1%}", right=True))
    return columns


def _busy_share(row: Mapping[str, Any]) -> str:
    """Of the measured time: what was not measured is not idle."""
    measured = row["gpu_measured_milli_seconds"]
    return f"{row['gpu_busy_milli_seconds'] / measured:.0%}" if measured else "-"


@command()
def cost(session: Session, job: Annotated[str, typer.Argument(metavar="JOB", help="Name, prefix of the id, or id.")]) -> None:
    """Show the cost of a job so far, by attempt, and its present cost per hour."""
    found = session.client.costs.of_job(job)
    if session.is_for_programs:
        print_data(found, session.form)
        return
    currency = found["currency"]
    per_hour = money(found["micros_per_hour"], currency) if found["micros_per_hour"] else None
    print_facts(
        [
            ("Cost", (money(found["micros"], currency), "bold")),
            ("Per hour now", per_hour),
            ("GPU hours", hours_text(found["gpu_milli_seconds"], 1000)),
            ("GPUs busy", _busy_share(found) if found.get("gpu_measured_milli_seconds") else None),
            ("CPU hours", hours_text(found["cpu_milli_seconds"], 1000)),
        ]
    )
    if len(found["attempts"]) > 1:
        heading(_("Attempts"))
        sys.stdout.write(table_text([{**row, "currency": currency} for row in found["attempts"]], ATTEMPT_COLUMNS))


@command()
def list_prices(
    session: Session,
    pool: Annotated[str | None, typer.Option("--pool", help="Only in this pool.")] = None,
    everything: Annotated[bool, typer.Option("--all", "-a", help="Include past prices.")] = False,
) -> None:
    """Show hourly prices of a GPU, a core and a GiB in each pool, and when they take effect."""
    rows = session.client.costs.prices(pool=pool, everything=everything)
    session.show(rows, PRICE_COLUMNS, empty=_("No prices: all usage is free."))


@command()
def set_prices(
    session: Session,
    pool: Annotated[
        str, typer.Argument(metavar="POOL", help="Name or id of the pool; CLUSTER/POOL where several have the name.")
    ],
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="MONEY", help="Price of a GPU hour: 2.50, or 0.")] = None,
    cpu: Annotated[str | None, typer.Option("--cpu", "-c", metavar="MONEY", help="Price of a core hour.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", "-m", metavar="MONEY", help="Price of a GiB hour of memory.")] = None,
    begins: Annotated[
        str | None, typer.Option("--from", metavar="TIME", help="Effective from: 2027-01-31; default: as soon as possible.")
    ] = None,
) -> None:
    """Set future prices of a pool. Past usage keeps the price of its time."""
    given = {"gpu": gpu, "cpu": cpu, "memory": memory}
    prices = {name: parse_money(text) for name, text in given.items() if text is not None}
    if not prices:
        raise UsageMistake(_("Give at least one price: --gpu, --cpu or --memory."), hint="berth prices set POOL --gpu 2.50")
    rows = session.client.costs.set_prices(pool, prices, effective_at=formats.iso_time(begins) if begins else None)
    if session.is_for_programs:
        session.show(rows, PRICE_COLUMNS)
        return
    note(_("From {time} on, in pool {pool}:", time=formats.time_text(rows[0]["effective_at"]), pool=plain(pool)))
    sys.stdout.write(table_text(rows, PRICE_COLUMNS))


@command()
def withdraw_price(
    session: Session, price: Annotated[str, typer.Argument(metavar="PRICE", help="Id of a price that is not effective yet.")]
) -> None:
    """Withdraw a price that is not effective yet."""
    session.client.costs.withdraw_price(price)
    session.show_done({"id": price}, _("The price is withdrawn."))


@command()
def statement(
    session: Session,
    month: Annotated[str | None, typer.Argument(metavar="MONTH", help="Such as 2026-11; default: this month.")] = None,
    listed: Annotated[bool, typer.Option("--list", "-l", help="List closed months.")] = False,
    verify: Annotated[bool, typer.Option("--verify", help="Compute the digest on this computer, and compare.")] = False,
    csv: CsvOption = None,
) -> None:
    """Show a tenant's usage and cost of a month. A past month is closed and never changes."""
    tenant = session.tenant
    chosen = month or f"{datetime.now(UTC):%Y-%m}"
    if listed:
        session.show(session.client.costs.statements(tenant), MONTH_COLUMNS, empty=_("No month is closed yet."), key="month")
        return
    if csv is not None:
        write_csv(session.client.costs.statement_csv(tenant, chosen), csv)
        return
    found = session.client.costs.statement(tenant, chosen)
    is_right = digest_of(found["document"]) == found["sha256"]
    if session.is_for_programs:
        print_data(found, session.form, key="month")
    else:
        _show_statement(found)
    if verify and is_right:
        note(_("✓ The digest matches the document."), style="green")
    elif not is_right:
        note(_("✗ The digest does not match the document."), style="red")
        raise typer.Exit(1)


def _show_statement(found: Mapping[str, Any]) -> None:
    document, currency = found["document"], found["document"]["currency"]
    totals = document["totals"]
    closed = formats.time_text(found["closed_at"]) if found["closed_at"] else _("open: may still grow")
    print_facts(
        [
            ("Tenant", (plain(found["tenant"]["name"]), "bold")),
            ("Month", plain(found["month"])),
            ("Closed", closed),
            ("GPU hours", hours_text(totals["gpu_milli_seconds"], 1000)),
            ("Cost", (money(totals["micros"], currency), "bold")),
            ("SHA-256", plain(found["sha256"])),
        ]
    )
    if not document["lines"]:
        return
    heading(_("Fate"))
    fates = [
        {"fate": fate, "micros": micros, "gpu": totals["gpu_milli_seconds_by_fate"][fate], "currency": currency}
        for fate, micros in totals["micros_by_fate"].items()
    ]
    sys.stdout.write(table_text(fates, FATE_COLUMNS))
    heading(_("Lines"))
    names = found["names"]
    rows = [
        {**line, **{key: names.get(line[key], line[key]) for key in ("pool", "queue", "user")}, "currency": currency}
        for line in document["lines"]
    ]
    sys.stdout.write(table_text(rows, LINE_COLUMNS))


@command()
def list_budgets(session: Session) -> None:
    """Show monthly budgets of queues, and the amounts spent."""
    rows = [{**row, "name": row["queue"]["name"]} for row in session.client.costs.budgets()]
    session.show(rows, BUDGET_COLUMNS, empty=_("No queue has a budget."), key="name")


@command()
def set_budget(
    session: Session,
    queue: QueueArgument,
    amount: Annotated[str | None, typer.Option("--money", metavar="MONEY", help="Monthly budget in money: 10000.")] = None,
    gpu_hours: Annotated[str | None, typer.Option("--gpu-hours", metavar="N", help="Monthly budget in GPU hours.")] = None,
    node_hours: Annotated[str | None, typer.Option("--node-hours", metavar="N", help="Monthly budget in node hours.")] = None,
    warn: Annotated[
        list[int] | None,
        typer.Option("--warn", metavar="PERCENT", help="Percentage spent that notifies; may be repeated. Default: 80 and 100."),
    ] = None,
    stop: Annotated[bool, typer.Option("--stop", help="New jobs wait when the budget is spent; running jobs continue.")] = False,
) -> None:
    """Set the monthly budget of a queue and its child queues."""
    wishes = {"money": amount, "gpu_time": gpu_hours, "node_time": node_hours}
    given = [(kind, text) for kind, text in wishes.items() if text is not None]
    if len(given) != 1:
        hint = "berth budgets set QUEUE --money 10000 --stop"
        raise UsageMistake(_("Give one of --money, --gpu-hours and --node-hours."), hint=hint)
    ((kind, text),) = given
    units = parse_money(text) if kind == "money" else parse_money(text) * MILLI_HOUR // MICROS
    row = session.client.costs.set_budget(queue, kind=kind, amount=units, warn_at=warn, stops=stop)
    said = _(
        "Queue {queue} may spend {amount} a month; {percent} % of it is spent.",
        queue=plain(row["queue"]["name"]), amount=_budget_amount(row, row["amount"]), percent=row["percent"],
    )  # fmt: skip
    session.show_done({**row, "name": row["queue"]["name"]}, said, key="name")


@command()
def remove_budget(
    session: Session,
    queue: QueueArgument,
    yes: YesOption = False,
) -> None:
    """Remove a queue's budget."""
    if confirmed(_("Remove the budget of {queue}?", queue=plain(queue)), yes=yes):
        session.client.costs.remove_budget(queue)
        session.show_done({"queue": queue}, _("Queue {queue} has no budget now.", queue=plain(queue)), key="queue")


def parse_money(text: str) -> int:
    """`2.50` in millionths."""
    try:
        amount = Decimal(text.strip().replace("_", "")) * MICROS
        if not amount.is_finite() or amount < 0 or amount != amount.to_integral_value() or amount > 10**18:
            raise InvalidOperation
    except InvalidOperation:
        raise formats.BadAmount(f"{text!r} is no amount of money.", hint="Write 2.50, with at most six decimals") from None
    return int(amount)


def money(micros: int | None, currency: str) -> str:
    """`12.50 EUR`; below one, with as many decimals as there are."""
    if micros is None:
        return formats.NOTHING
    decimals = 2
    while abs(micros) < MICROS and micros % 10 ** (6 - decimals):
        decimals += 1
    return f"{Decimal(micros) / MICROS:,.{decimals}f} {plain(currency)}".strip()


def _group_name(row: Mapping[str, Any], group_by: str) -> str:
    name = formats.name_of(row.get("name") or row["id"])
    return _(name) if group_by == "fate" else name


def _budget_amount(row: Mapping[str, Any], amount: int) -> str:
    if row["kind"] == "money":
        return money(amount, row.get("currency", ""))
    hours = f"{amount / MILLI_HOUR:,.1f}"
    return _("{hours} GPU hours", hours=hours) if row["kind"] == "gpu_time" else _("{hours} node hours", hours=hours)


def _spent_bar(row: Mapping[str, Any]) -> Cell:
    share = row["percent"] / 100
    filled = min(BAR_WIDTH, round(share * BAR_WIDTH))
    style = "red" if share >= 1 else "yellow" if share >= 0.8 else "green"
    return f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {row['percent']:4} %", style


def hours_text(amount_seconds: int, unit: int) -> str:
    return f"{amount_seconds / unit / 3600:,.2f}"


def write_csv(data: bytes, target: str) -> None:
    if target == "-":
        sys.stdout.write(data.decode())
        return
    try:
        Path(target).write_bytes(data)
    except OSError as error:
        raise FileRefused(_("{path} cannot be written: {reason}", path=target, reason=error.strerror or "")) from error
    note(_("Written to {path}.", path=plain(target)))


HELD_WORDS = {"starting": "while it started", "ending": "while it ended", "booked": "booked but not used"}
HELD_COLUMNS = [
    Column("TENANT", lambda row: formats.name_of(row["tenant"]), shrinks=True),
    Column("HELD", lambda row: _(HELD_WORDS.get(row["kind"], row["kind"]))),
    Column("GPU HOURS", lambda row: hours_text(row["gpu_milli_seconds"], 1000), right=True),
    Column("CPU HOURS", lambda row: hours_text(row["cpu_milli_seconds"], 1000), right=True),
    Column("WORTH", lambda row: money(row["micros"], row["currency"]), right=True),
]
PRICE_COLUMNS = [
    Column("POOL", lambda row: formats.name_of(row.get("pool")), shrinks=True),
    Column("PER HOUR OF", lambda row: _(UNITS.get(row["resource"], row["resource"]))),
    Column("PRICE", lambda row: money(row["micros_per_hour"], row["currency"]), right=True),
    Column("FROM", lambda row: formats.time_text(row["effective_at"])),
    Column("STATE", lambda row: _(str(row["state"]))),
    Column("BY", lambda row: formats.name_of(row.get("created_by")), wide=True),
    Column("ID", lambda row: row["id"], wide=True),
]
MONTH_COLUMNS = [
    Column("MONTH", lambda row: plain(row["month"])),
    Column("CLOSED", lambda row: formats.time_text(row["closed_at"])),
    Column("SHA-256", lambda row: plain(row["sha256"])),
]
ATTEMPT_COLUMNS = [
    Column("ATTEMPT", lambda row: str(row["number"]), right=True),
    Column("FATE", lambda row: _(str(row["fate"] or "running"))),
    Column("GPU HOURS", lambda row: hours_text(row["gpu_milli_seconds"], 1000), right=True),
    Column("COST", lambda row: money(row["micros"], row["currency"]), right=True),
]
FATE_COLUMNS = [
    Column("FATE", lambda row: _(str(row["fate"]))),
    Column("GPU HOURS", lambda row: hours_text(row["gpu"], 1000), right=True),
    Column("COST", lambda row: money(row["micros"], row["currency"]), right=True),
]
LINE_COLUMNS = [
    Column("USED IN", lambda row: plain(row["used_in"])),
    Column("USER", lambda row: plain(row["user"]), shrinks=True),
    Column("QUEUE", lambda row: plain(row["queue"]), shrinks=True),
    Column("POOL", lambda row: plain(row["pool"]), shrinks=True),
    Column("FATE", lambda row: _(str(row["fate"]))),
    Column("GPU HOURS", lambda row: hours_text(row["gpu_milli_seconds"], 1000), right=True),
    Column("CPU HOURS", lambda row: hours_text(row["cpu_milli_seconds"], 1000), right=True, wide=True),
    Column("COST", lambda row: money(row["micros"], row["currency"]), right=True),
    Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True),
]
BUDGET_COLUMNS = [
    Column("QUEUE", lambda row: formats.name_of(row["queue"]), shrinks=True),
    Column("TENANT", lambda row: formats.name_of(row.get("tenant")), wide=True),
    Column("MONTH", lambda row: plain(row["month"])),
    Column("BUDGET", lambda row: _budget_amount(row, row["amount"]), right=True),
    Column("SPENT", lambda row: _budget_amount(row, row["spent"]), right=True),
    Column("", _spent_bar),
    Column("WHEN SPENT", lambda row: _("new jobs wait") if row["stops"] else _("warns only")),
]
prices = make_group(
    "prices",
    list_prices,
    "Show and set prices of resources.",
    {"list": list_prices, "set": set_prices, "withdraw": withdraw_price},
)
budgets = make_group(
    "budgets",
    list_budgets,
    "Show and set budgets of queues.",
    {"list": list_budgets, "set": set_budget, "remove": remove_budget},
)
