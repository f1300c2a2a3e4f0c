"""`berth queues` and `quota`: what may be used, and what is used now."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.limits import (
    approve_request,
    cancel_edit,
    deny_request,
    edit_limits,
    limit_counts,
    limit_runtime,
    list_caps,
    list_edits,
    list_requests,
    set_cap,
    withdraw_request,
)
from berth.cli.messages import _
from berth.cli.output import Cell, Column, hint, note
from berth.sanitize import plain

RESOURCES = ("gpu_millis", "cpu_millis", "memory_bytes")
TITLES = {"gpu_millis": "GPU", "cpu_millis": "CPU", "memory_bytes": "memory"}
BAR_WIDTH = 12


QueueArgument = Annotated[str, typer.Argument(metavar="QUEUE", help="Name, path or id of the queue.")]


@command()
def list_queues(session: Session) -> None:
    """Show the tree of queues."""
    session.show(session.client.queues.list(), QUEUE_COLUMNS, empty=_("No queues that you may see."), key="name")


@command()
def create_queue(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new queue.")],
    parent: Annotated[str | None, typer.Option("--parent", help="Parent queue; default: the tenant's top queue.")] = None,
) -> None:
    """Create a child queue: jobs can be submitted to it, and it can have limits of its own."""
    queue = session.client.queues.create(name, parent=parent)
    session.show_done(queue, _("Queue {path} is created.", path=plain(queue["path"])))
    hint(_("berth queues limit {name} --pool POOL --gpu 4   ·   berth submit -q {name} ...", name=plain(name)))


@command()
def rename_queue(
    session: Session, queue: QueueArgument, name: Annotated[str, typer.Argument(metavar="NAME", help="The new name.")]
) -> None:
    """Rename a queue; its jobs stay in it."""
    changed = session.client.queues.rename(queue, name)
    session.show_done(changed, _("Queue {old} is renamed to {new}.", old=plain(queue), new=plain(changed["name"])))


@command()
def delete_queue(session: Session, queue: QueueArgument, yes: YesOption = False) -> None:
    """Delete a queue without unfinished jobs, child queues and bookings; its finished jobs and its history stay."""
    if confirmed(_("Delete queue {queue}?", queue=plain(queue)), yes=yes):
        session.client.queues.delete(queue)
        session.show_done({"name": queue}, _("Queue {queue} is deleted.", queue=plain(queue)), key="name")


@command()
def limit_queue(
    session: Session,
    queue: QueueArgument,
    pool: Annotated[str, typer.Option("--pool", help="Pool to limit; CLUSTER/POOL where several have the name.")],
    cpu: Annotated[str | None, typer.Option("--cpu", "-c", metavar="N", help="CPU cores: 16, 0.5, or none.")] = None,
    memory: Annotated[str | None, typer.Option("--memory", "-m", metavar="SIZE", help="Memory: 64Gi, or none.")] = None,
    gpu: Annotated[str | None, typer.Option("--gpu", "-g", metavar="N", help="GPUs: 8, 0.5, or none.")] = None,
) -> None:
    """Set the ceiling of a queue in a pool: all that its jobs, child queues included, may hold; `none` removes a limit.

    Resources and pools that are not named keep their limits. Limits apply to future starts: no running job is stopped.
    """
    given = {"cpu_millis": cpu, "memory_bytes": memory, "gpu_millis": gpu}
    ceilings = {name: parse_ceiling(name, text) for name, text in given.items() if text is not None}
    if not ceilings:
        raise UsageMistake(
            _("Give at least one limit: --cpu, --memory or --gpu."), hint="berth queues limit QUEUE --pool POOL --gpu 8"
        )
    changed = session.client.queues.limit(queue, pool, **ceilings)
    share = next(share for share in changed["pools"] if pool in (share["pool"]["id"], share["pool"]["name"], _long_name(share)))
    amounts = ", ".join(f"{_(TITLES[name])} {_amount(name, share['ceiling'][name])}" for name in RESOURCES)
    text = _(
        "Queue {queue}, pool {pool}: {amounts}.", queue=plain(changed["name"]), pool=plain(share["pool"]["name"]), amounts=amounts
    )
    session.show_done(changed, text)
    over = [name for name in ceilings if (share["ceiling"][name] is not None and share["used"][name] > share["ceiling"][name])]
    if over and not session.is_for_programs:
        note(_("! Usage exceeds the new limit. No running job is stopped; no job starts until usage has fallen."), style="yellow")


@command()
def quota(
    session: Session, queue: Annotated[str | None, typer.Argument(metavar="QUEUE", help="Only this queue.")] = None
) -> None:
    """Show limits and current usage of each queue in each pool."""
    rows = [session.client.queues.get(queue)] if queue else list(session.client.queues.list())
    session.show(list(quota_rows(rows)), QUOTA_COLUMNS, empty=_("No limits and nothing in use."), key="queue")


def parse_ceiling(resource: str, text: str) -> int | None:
    """`16`, `0.5` or `64Gi` in the smallest unit; None for `none`."""
    if text.strip().lower() == "none":
        return None
    return formats.parse_size(text) if resource == "memory_bytes" else formats.parse_millis(text)


def quota_rows(queues_: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """One row per queue, pool and resource that has a ceiling, was promised something, or is in use."""
    for queue in queues_:
        for share in queue["pools"]:
            for resource in RESOURCES:
                used, ceiling = share["used"][resource], share["effective_ceiling"][resource]
                promised = {
                    column: share[column][resource]
                    for column in ("guarantee", "deserved")
                    if share.get(column) and share[column][resource]
                }
                if ceiling is not None or used or promised:
                    yield {
                        "queue": queue["path"],
                        "pool": share["pool"]["name"],
                        "resource": resource,
                        "used": used,
                        "ceiling": ceiling,
                        "headroom": share["headroom"][resource],
                        **promised,
                    }


def _amount(resource: str, value: int | None) -> str:
    if value is None:
        return _("no limit")
    return formats.size_text(value) if resource == "memory_bytes" else formats.millis_text(value)


def _promised(row: Any, column: str) -> str:
    return _amount(row["resource"], row[column]) if row.get(column) else formats.NOTHING


def _long_name(share: Any) -> str:
    return f"{share['pool']['cluster']}/{share['pool']['name']}"


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
    Column("OF", lambda row: _(TITLES[row["resource"]])),
    Column("USED", lambda row: _amount(row["resource"], row["used"]), right=True),
    Column("GUARANTEE", lambda row: _promised(row, "guarantee"), right=True),
    Column("DESERVED", lambda row: _promised(row, "deserved"), right=True),
    Column("LIMIT", lambda row: _amount(row["resource"], row["ceiling"]), right=True),
    Column("", _bar),
]
queues = make_group(
    "queues",
    list_queues,
    "Show queues; create, rename, limit and delete them.",
    {
        "list": list_queues,
        "create": create_queue,
        "rename": rename_queue,
        "delete": delete_queue,
        "limit": limit_queue,
        "edit": edit_limits,
        "edits": list_edits,
        "cancel": cancel_edit,
        "requests": list_requests,
        "approve": approve_request,
        "deny": deny_request,
        "withdraw": withdraw_request,
        "runtime": limit_runtime,
        "counts": limit_counts,
        "caps": list_caps,
        "cap": set_cap,
    },
)
