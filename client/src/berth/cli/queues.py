"""`berth queues`, `quota` and `usage`: what may be used, what is used now, and what was used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, command
from berth.cli.messages import _
from berth.cli.output import Cell, Column
from berth.sanitize import plain

RESOURCES = ("gpu_millis", "cpu_millis", "memory_bytes")
TITLES = {"gpu_millis": "GPU", "cpu_millis": "CPU", "memory_bytes": "memory"}
BAR_WIDTH = 12


@command()
def queues(session: Session) -> None:
    """Show the tree of queues."""
    session.show(session.client.queues.list(), QUEUE_COLUMNS, empty=_("No queues that you may see."), key="name")


@command()
def quota(
    session: Session, queue: Annotated[str | None, typer.Argument(metavar="QUEUE", help="Only this queue.")] = None
) -> None:
    """Show for each queue and pool what may be used, and what is used now."""
    rows = [session.client.queues.get(queue)] if queue else list(session.client.queues.list())
    session.show(list(quota_rows(rows)), QUOTA_COLUMNS, empty=_("No limits and nothing in use."), key="queue")


@command()
def usage(
    session: Session,
    since: Annotated[str, typer.Option("--since", help="From this time on: 7d, or 2027-01-31.")] = "30d",
    until: Annotated[str | None, typer.Option("--until", help="Up to this time.")] = None,
    group_by: Annotated[str, typer.Option("--by", help="Sum up by tenant, user, queue, pool or job.")] = "user",
) -> None:
    """Sum up what was used, in hours of GPUs and CPU cores."""
    rows = session.client.usage(
        since=_iso(since), until=_iso(until) if until else None, group_by=group_by, tenant=session.client.settings.tenant or None
    )
    session.show(rows, usage_columns(group_by), empty=_("Nothing was used in this time."), key="name")


def quota_rows(queues_: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per queue, pool and resource that has a ceiling or is in use."""
    for queue in queues_:
        for share in queue["pools"]:
            for resource in RESOURCES:
                used, ceiling = share["used"][resource], share["effective_ceiling"][resource]
                if ceiling is not None or used:
                    yield {
                        "queue": queue["path"],
                        "pool": share["pool"]["name"],
                        "resource": resource,
                        "used": used,
                        "ceiling": ceiling,
                        "headroom": share["headroom"][resource],
                    }


def usage_columns(group_by: str) -> list[Column]:
    """The key column named by what was grouped, then the sums."""
    return [
        Column(group_by.upper(), lambda row: formats.name_of(row.get("name") or row["id"]), shrinks=True),
        Column("GPU HOURS", lambda row: _hours(row["gpu_milli_seconds"], 1000), right=True),
        Column("CPU HOURS", lambda row: _hours(row["cpu_milli_seconds"], 1000), right=True),
        Column("GIB HOURS", lambda row: _hours(row["memory_byte_seconds"], 1024**3), right=True),
        Column("ATTEMPTS", lambda row: str(row["attempts"]), right=True),
    ]


def _hours(amount_seconds: int, unit: int) -> str:
    return f"{amount_seconds / unit / 3600:,.2f}"


def _iso(text: str) -> str:
    return formats.parse_since(text).isoformat().replace("+00:00", "Z")


def _amount(resource: str, value: int | None) -> str:
    if value is None:
        return _("no limit")
    return formats.size_text(value) if resource == "memory_bytes" else formats.millis_text(value)


def _bar(row: Any) -> Cell:
    if not row["ceiling"]:
        return ""
    share = min(1.0, row["used"] / row["ceiling"])
    filled = round(share * BAR_WIDTH)
    return (
        f"{'█' * filled}{'░' * (BAR_WIDTH - filled)} {share:4.0%}",
        "red" if share > 0.95 else "yellow" if share > 0.8 else "green",
    )


QUEUE_COLUMNS = [
    Column("QUEUE", lambda queue: plain(queue.get("path") or queue["name"]), shrinks=True),
    Column("TENANT", lambda queue: formats.name_of(queue.get("tenant"))),
    Column("TOP", lambda queue: _("yes") if queue.get("is_top") else formats.NOTHING, wide=True),
    Column("ID", lambda queue: queue["id"], wide=True),
]
QUOTA_COLUMNS = [
    Column("QUEUE", lambda row: plain(row["queue"]), shrinks=True),
    Column("POOL", lambda row: plain(row["pool"])),
    Column("OF", lambda row: TITLES[row["resource"]]),
    Column("USED", lambda row: _amount(row["resource"], row["used"]), right=True),
    Column("MAY USE", lambda row: _amount(row["resource"], row["ceiling"]), right=True),
    Column("", _bar),
]
