"""`berth breakeven`: whether owning GPUs is cheaper than renting them, by what was used."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.costs import MICROS, CsvOption, money, parse_money, write_csv
from berth.cli.messages import _
from berth.cli.output import Column, heading, hint, print_data, print_facts, table_text


@command()
def breakeven(
    session: Session,
    pool: Annotated[str | None, typer.Option("--pool", help="Only in this pool.")] = None,
    days: Annotated[int, typer.Option("--days", help="Days of usage to measure.")] = 30,
    hours: Annotated[
        int | None, typer.Option("--gpu-hours", metavar="N", help="Monthly GPU hours, instead of measured ones.")
    ] = None,
    gpus: Annotated[int | None, typer.Option("--gpus", help="Number of GPUs to buy.")] = None,
    price: Annotated[str | None, typer.Option("--buy", metavar="MONEY", help="Purchase price, nodes included.")] = None,
    rent: Annotated[str | None, typer.Option("--rent", metavar="MONEY", help="Rent of a GPU hour.")] = None,
    lifetime: Annotated[int | None, typer.Option("--lifetime", metavar="MONTHS", help="Lifetime of the GPUs, in months.")] = None,
    staff: Annotated[str | None, typer.Option("--staff", metavar="MONEY", help="Monthly cost of staff.")] = None,
    site: Annotated[str | None, typer.Option("--site", metavar="MONEY", help="Monthly cost of room and network.")] = None,
    kwh: Annotated[str | None, typer.Option("--kwh", metavar="MONEY", help="Price of a kilowatt-hour.")] = None,
    watts: Annotated[int | None, typer.Option("--watts", help="Watts of a busy GPU, with its share of the node.")] = None,
    horizon: Annotated[int | None, typer.Option("--months", help="Planning horizon, in months.")] = None,
    csv: CsvOption = None,
) -> None:
    """Compare owning GPUs with renting them, by GPU hours of the ledger. Assumptions replace missing options and are listed."""
    given: dict[str, object] = {
        "pool": pool, "days": days, "gpu_hours_per_month": hours, "gpus": gpus, "lifetime_months": lifetime, "busy_watts": watts,
        "horizon_months": horizon, "tenant": session.client.settings.tenant or None,
    }  # fmt: skip
    texts = {"capex_micros": price, "rent_micros_per_gpu_hour": rent, "staff_micros_per_month": staff,
             "site_micros_per_month": site, "kwh_micros": kwh}  # fmt: skip
    given |= {name: parse_money(text) for name, text in texts.items() if text is not None}
    found = session.client.costs.break_even(**given)
    if csv is not None:
        rows = [(point["month"], point["own_micros"] / MICROS, point["rent_micros"] / MICROS) for point in found["curve"]]
        text = "".join(f"{number},{own:.2f},{rented:.2f}\r\n" for number, own, rented in rows)
        write_csv(f"month,own,rent\r\n{text}".encode(), csv)
    elif session.is_for_programs:
        print_data(found, session.form)
    else:
        _show_break_even(found)


def _show_break_even(found: Mapping[str, Any]) -> None:
    currency, given, month = found["currency"], found["assumptions"], found["crossover_month"]
    answer = _("never within {months} months", months=given["horizon_months"])
    if month is not None:
        answer = _("in month {month}", month=month)
        if not found["stays_below"]:
            answer += " " + _("(until the GPUs are replaced)")
    needed = found["use_percent_needed"]
    print_facts(
        [
            ("Pool", formats.name_of(found.get("pool"))),
            ("GPU hours", _("{hours} a month", hours=f"{found['gpu_milli_hours_per_month'] / 1000:,.1f}")),
            ("Use", _("{percent} % of {gpus} GPUs", percent=found["use_percent"], gpus=given["gpus"])),
            ("Break-even", (answer, "bold")),
            ("Break-even utilisation", _("{percent} % use", percent=needed) if needed else _("never, at any utilisation")),
            ("Own", _("{money} a month, purchase included", money=money(found["own_micros_per_month"], currency))),
            ("Rented", _("{money} a month", money=money(found["rent_micros_per_month"], currency))),
            ("Saved", _("{money} by month {month}", money=money(found["saved_micros"], currency), month=given["horizon_months"])),
        ]
    )
    heading(_("Curve"))
    step = max(1, given["horizon_months"] // 10)
    points = [
        {**point, "currency": currency} for point in found["curve"] if point["month"] % step == 0 or point["month"] == month
    ]
    sys.stdout.write(table_text(points, CURVE_COLUMNS))
    heading(_("Assumed"))
    print_facts([(LABELS.get(name, name), _assumption(name, value, currency)) for name, value in given.items()])
    hint(_("berth breakeven --rent 2.50 --buy 280000 --gpus 8 changes what is assumed"))


LABELS = {
    "gpus": "GPUs bought",
    "capex_micros": "Purchase",
    "lifetime_months": "Months until replaced",
    "staff_micros_per_month": "People a month",
    "site_micros_per_month": "Room a month",
    "busy_watts": "Watts of a busy GPU",
    "idle_watts": "Watts of an idle GPU",
    "overhead_percent": "Cooling, percent",
    "kwh_micros": "Kilowatt-hour",
    "rent_micros_per_gpu_hour": "Rent of a GPU hour",
    "horizon_months": "Months ahead",
}


def _assumption(name: str, value: int, currency: str) -> str:
    return money(value, currency) if "micros" in name else str(value)


CURVE_COLUMNS = [
    Column("MONTH", lambda row: str(row["month"]), right=True),
    Column("OWN", lambda row: money(row["own_micros"], row["currency"]), right=True),
    Column("RENTED", lambda row: money(row["rent_micros"], row["currency"]), right=True),
    Column("", lambda row: ("◀", "green") if row["own_micros"] <= row["rent_micros"] and row["month"] else ""),
]
