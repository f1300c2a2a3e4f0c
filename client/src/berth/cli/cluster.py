"""`berth nodes`, `gpus` and `pools`: what there is to run on, and how much of it is free."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, YesOption, command, confirmed, make_group
from berth.cli.messages import _, counted
from berth.cli.output import Cell, Column, hint, print_data, print_facts
from berth.cli.placement import (
    edit_pool,
    fragmentation_text,
    largest_task_text,
    largest_text,
    show_pool,
    taint,
    taints_text,
    untaint,
)
from berth.sanitize import plain

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name or id of the node.")]


@command()
def list_nodes(session: Session) -> None:
    """List nodes and their usage."""
    session.show(session.client.clusters.nodes(), NODE_COLUMNS, empty=_("No nodes."), key="name")


@command()
def show_node(session: Session, node: NodeArgument) -> None:
    """Show a node with all details. The word `show` is optional."""
    found = session.client.clusters.node(node)
    if session.is_for_programs:
        print_data(found, session.form, key="name")
        return
    print_facts(
        [
            ("Name", (plain(found["name"]), "bold")),
            ("State", _node_state(found)),
            ("Why", _why(found, between="\n")),
            ("Cluster", formats.name_of(found.get("cluster"))),
            ("Pool", formats.name_of(found.get("pool"))),
            ("CPU", _used("cpu_millis")(found)),
            ("Memory", _used("memory_bytes")(found)),
            ("GPUs", "\n".join(_gpu_text(gpu) for gpu in found.get("gpus") or [])),
            ("Labels", "\n".join(f"{plain(key)}={plain(value)}" for key, value in (found.get("labels") or {}).items())),
            ("Taints", taints_text(found)),
            ("Seen", formats.time_text(found.get("last_seen_at"))),
        ]
    )


@command()
def cordon(
    session: Session,
    node: NodeArgument,
    reason: Annotated[str, typer.Option("--reason", help="Reason; shown to all users whose jobs wait for the node.")] = "",
) -> None:
    """Cordon a node: no new task starts there; running tasks continue."""
    changed = session.client.clusters.cordon(node, reason=reason)
    session.show_done(
        changed, _("{node} is cordoned: no new task starts; running tasks continue.", node=plain(changed["name"])), key="name"
    )
    hint(f"berth nodes uncordon {plain(changed['name'])}")


@command()
def drain(
    session: Session,
    node: NodeArgument,
    reason: Annotated[str, typer.Option("--reason", help="Reason; shown to all users whose jobs wait for the node.")] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: show the jobs that would be evicted.")] = False,
    yes: YesOption = False,
) -> None:
    """Drain a node: cordon it and evict its jobs, which save their work and are requeued.

    The jobs are listed first. If the jobs have changed before your confirmation, none is evicted.
    """
    plan = session.client.clusters.drain(node, reason=reason, dry_run=True)
    name, jobs = plain(plan["node"]["name"]), plan["jobs"]
    if dry_run or not session.is_for_programs:
        session.show(jobs, LEAVING_COLUMNS, empty=_("Nothing runs on {node}.", node=name), key="job")
    question = counted(
        len(jobs), "Drain {node}? {count} job will be evicted.", "Drain {node}? {count} jobs will be evicted.", node=name
    )
    if dry_run or not confirmed(question, yes=yes):
        return
    done = session.client.clusters.drain(node, reason=reason, plan=plan["plan"])
    text = counted(
        len(jobs),
        "{node} is draining: {count} job is being evicted.",
        "{node} is draining: {count} jobs are being evicted.",
        node=name,
    )
    session.show_done(done, text, key="node")
    hint(f"berth nodes uncordon {name}")


@command()
def uncordon(session: Session, node: NodeArgument) -> None:
    """Uncordon a node: tasks may start there again."""
    changed = session.client.clusters.uncordon(node)
    name, is_ready = plain(changed["name"]), changed.get("ready")
    text = _("{node} accepts tasks again.") if is_ready else _("{node} accepts tasks again as soon as it is ready.")
    session.show_done(changed, text.format(node=name), key="name")


@command()
def list_pools(session: Session) -> None:
    """List pools of homogeneous nodes."""
    session.show(session.client.clusters.pools(), POOL_COLUMNS, empty=_("No pools."), key="name")


@command()
def gpus(session: Session) -> None:
    """Show GPUs by model and pool: total, allocated and free."""
    rows = [
        pool
        for pool in session.client.clusters.pools()
        if (pool.get("capacity") or {}).get("gpu_millis") or pool.get("gpu_model")
    ]
    session.show([_gpu_row(pool) for pool in rows], GPU_COLUMNS, empty=_("No GPUs."), key="model")
    if rows:
        hint(_("berth submit --gpu {model}:1 python train.py", model=plain(rows[0].get("gpu_model") or "a100")))


def _gpu_row(pool: dict[str, Any]) -> dict[str, Any]:
    every, held = ((pool.get(key) or {}).get("gpu_millis") or 0 for key in ("capacity", "allocated"))
    return {
        "model": pool.get("gpu_model") or "",
        "pool": pool["name"],
        "cluster": formats.name_of(pool.get("cluster")),
        "simulated": bool(pool.get("gpus_simulated")),
        "gpu_millis": every,
        "allocated_gpu_millis": held,
        "free_gpu_millis": max(0, every - held),
        "gpus_per_node_millis": (pool.get("node_shape") or {}).get("gpu_millis"),
        "use": pool.get("use"),
    }


def _used(resource: str) -> Any:
    show = formats.size_text if resource == "memory_bytes" else formats.millis_text

    def text(row: Any) -> str:
        every, held = ((row.get(key) or {}).get(resource) for key in ("capacity", "allocated"))
        if not every and resource == "gpu_millis":
            return formats.NOTHING
        return show(every) if held is None else f"{show(held)} / {show(every)}"

    return text


def _why(node: Any, *, between: str) -> str:
    """Why it is cordoned, and what its cluster says of it."""
    return between.join(plain(text) for text in (node.get("cordon_reason"), node.get("reason")) if text)


def _node_state(node: Any) -> Cell:
    if node.get("cordoned"):
        return _("■ cordoned"), "yellow"
    return (_("✓ ready"), "green") if node.get("ready") else (_("✗ not ready"), "red")


def _gpu_text(gpu: Any) -> str:
    marks = [_("simulated")] if gpu.get("simulated") else []
    marks += [] if gpu.get("healthy", True) else [_("unhealthy")]
    facts = (plain(gpu["identifier"]), plain(gpu["model"]), formats.size_text(gpu.get("memory_bytes")), ", ".join(marks))
    return "  ".join(facts).rstrip()


def _gpu_model(row: Any) -> str:
    model = plain(row.get("gpu_model") or formats.NOTHING)
    return f"{model} ({_('simulated')})" if row.get("gpus_simulated") else model


NODE_COLUMNS = [
    Column("NAME", lambda node: plain(node["name"]), shrinks=True),
    Column("STATE", _node_state),
    Column("POOL", lambda node: formats.name_of(node.get("pool"))),
    Column("CLUSTER", lambda node: formats.name_of(node.get("cluster")), wide=True),
    Column("GPU MODEL", _gpu_model),
    Column("GPUS", _used("gpu_millis"), right=True),
    Column("CPU", _used("cpu_millis"), right=True),
    Column("MEMORY", _used("memory_bytes"), right=True),
    Column("SEEN", lambda node: formats.age_text(node.get("last_seen_at")), wide=True, right=True),
    Column("WHY", lambda node: _why(node, between="; "), wide=True),
    Column("ID", lambda node: node["id"], wide=True),
]
POOL_COLUMNS = [
    Column("NAME", lambda pool: plain(pool["name"]), shrinks=True),
    Column("CLUSTER", lambda pool: formats.name_of(pool.get("cluster"))),
    Column("NODES", lambda pool: f"{pool.get('nodes_available', '?')} / {pool.get('node_count', '?')}", right=True),
    Column("GPU MODEL", _gpu_model),
    Column("GPUS", _used("gpu_millis"), right=True),
    Column("CPU", _used("cpu_millis"), right=True),
    Column("MEMORY", _used("memory_bytes"), right=True),
    Column("LARGEST JOB", largest_text, right=True),
    Column("FRAGMENTED", fragmentation_text, right=True),
]
GPU_COLUMNS = [
    Column("MODEL", lambda row: plain(row["model"]) + (f" ({_('simulated')})" if row["simulated"] else "")),
    Column("POOL", lambda row: plain(row["pool"]), shrinks=True),
    Column("CLUSTER", lambda row: plain(row["cluster"]), wide=True),
    Column("ALL", lambda row: formats.millis_text(row["gpu_millis"]), right=True),
    Column("HELD", lambda row: formats.millis_text(row["allocated_gpu_millis"]), right=True),
    Column("FREE", lambda row: (formats.millis_text(row["free_gpu_millis"]), "bold"), right=True),
    Column("PER NODE", lambda row: formats.millis_text(row["gpus_per_node_millis"]), right=True),
    Column("LARGEST TASK", largest_task_text, right=True),
    Column("LARGEST JOB", largest_text, right=True),
    Column("FRAGMENTED", fragmentation_text, right=True),
]
LEAVING_COLUMNS = [
    Column("JOB", lambda row: plain(row["job"]["name"]), shrinks=True),
    Column("TENANT", lambda row: plain(row["tenant"])),
    Column("USER", lambda row: plain(row["user"])),
    Column("TASKS", lambda row: str(row["tasks"]), right=True),
    Column("STARTED", lambda row: formats.time_text(row["started_at"])),
    Column("SAVES", lambda row: _("yes") if row["checkpoint"] else _("no")),
]
nodes = make_group(
    "nodes",
    list_nodes,
    "List nodes; cordon, drain and uncordon them.",
    {
        "list": list_nodes,
        "show": show_node,
        "cordon": cordon,
        "drain": drain,
        "uncordon": uncordon,
        "taint": taint,
        "untaint": untaint,
    },
    fallback="show",
)
pools = make_group(
    "pools",
    list_pools,
    "Show pools of homogeneous nodes; change their placement policy.",
    {"list": list_pools, "show": show_pool, "edit": edit_pool},
    fallback="show",
)
