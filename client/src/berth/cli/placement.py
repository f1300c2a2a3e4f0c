"""`berth nodes taint`, `untaint`, `berth pools show` and `edit`: for whom machines are kept, and how pools are filled."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, command
from berth.cli.messages import _
from berth.cli.output import hint, print_data, print_facts
from berth.sanitize import plain

DEFAULT = "default"
EFFECTS = ("avoid", "keep-out")
EXAMPLE_TAINT = "berth nodes taint NODE fpga flaky=avoid"
EXAMPLE_EDIT = "berth pools edit a100 --policy pack --gpu-shares on --shared-gpus-max 2"

NodeArgument = Annotated[str, typer.Argument(metavar="NODE", help="Name or id of the node.")]
PoolArgument = Annotated[str, typer.Argument(metavar="POOL", help="Name or id of the pool.")]


@command()
def taint(
    session: Session,
    node: NodeArgument,
    taints: Annotated[
        list[str],
        typer.Argument(metavar="TAINT", help="Taint: a name keeps other jobs out, name=avoid makes them prefer other nodes."),
    ],
) -> None:
    """Taint a node: only jobs that tolerate the taint start there; with =avoid, others use it last. Running jobs continue."""
    wanted = {}
    for entry in taints:
        name, equals, effect = entry.partition("=")
        if not name or (equals and effect not in EFFECTS):
            raise UsageMistake(_("{entry!r} is not a taint: write its name, or name=avoid.", entry=entry), hint=EXAMPLE_TAINT)
        wanted[name] = effect or "keep-out"
    changed = session.client.clusters.taint(node, wanted)
    name = plain(changed["name"])
    session.show_done(changed, _("Taints of {node}: {taints}.", node=name, taints=taints_text(changed)), key="name")
    hint(_("A job file tolerates it with placement: {{tolerates: [{taint}]}}.", taint=plain(next(iter(wanted)))))


@command()
def untaint(
    session: Session,
    node: NodeArgument,
    taints: Annotated[list[str], typer.Argument(metavar="TAINT", help="Names of taints.")],
) -> None:
    """Remove taints that an operator set on a node. Taints that the cluster set stay."""
    changed = session.client.clusters.taint(node, dict.fromkeys(taints))
    left = taints_text(changed) or _("none")
    session.show_done(changed, _("Taints of {node}: {taints}.", node=plain(changed["name"]), taints=left), key="name")


@command()
def show_pool(session: Session, pool: PoolArgument) -> None:
    """Show a pool and its placement policy. The word `show` is optional."""
    found = session.client.clusters.pool(pool)
    if session.is_for_programs:
        print_data(found, session.form, key="name")
        return
    rules = found.get("rules") or {}
    print_facts(
        [
            ("Name", (plain(found["name"]), "bold")),
            ("Cluster", formats.name_of(found.get("cluster"))),
            ("Model", plain(found.get("gpu_model") or formats.NOTHING)),
            ("Policy", _said(rules.get("policy"))),
            ("Weights", _said(_weights_text(rules.get("weights") or {}))),
            ("Learned", _learned_text(found.get("learned"))),
            ("GPU shares", _("on") if rules.get("gpu_shares") else _("off")),
            ("Shared GPUs", _said(rules.get("shared_devices_max"))),
            ("Levels", _said(", ".join(plain(level) for level in rules.get("levels") or []))),
            ("Uneven", "\n".join(f"{plain(label)}: {_values(found)}" for label, found in (found.get("uneven") or {}).items())),
            ("Idle GPUs", "\n".join(_idle_text(model, idle) for model, idle in _models(found).items())),
            ("Fragmented", fragmentation_text(found)),
            ("Measured", formats.time_text((found.get("use") or {}).get("measured_at"))),
        ]
    )


@command()
def edit_pool(
    session: Session,
    pool: PoolArgument,
    policy: Annotated[str | None, typer.Option("--policy", help="fragmentation, pack, spread, ratio; or default.")] = None,
    weight: Annotated[
        list[str] | None,
        typer.Option(
            "--weight", metavar="TERM=N", help="Scoring weights, TERM=N, may be repeated; replaces all. `default` resets them."
        ),
    ] = None,
    shares: Annotated[str | None, typer.Option("--gpu-shares", metavar="on|off", help="Allow fractions of a GPU.")] = None,
    shared_max: Annotated[
        str | None, typer.Option("--shared-gpus-max", metavar="N", help="Maximum number of shared GPUs; or default.")
    ] = None,
    levels: Annotated[
        str | None, typer.Option("--levels", metavar="LIST", help="Topology levels, of island,switch,rack; or default.")
    ] = None,
    name: Annotated[
        str | None, typer.Option("--name", help="New name; job files with the old name no longer find the pool.")
    ] = None,
) -> None:
    """Rename a pool, or change its placement policy; settings that are not named stay. The policy applies to future starts."""
    rules: dict[str, Any] = {} if name is None else {"name": name}
    if policy is not None:
        rules["policy"] = None if policy == DEFAULT else policy
    if weight:
        rules["weights"] = None if weight == [DEFAULT] else dict(_weight(entry) for entry in weight)
    if shares is not None:
        if shares not in ("on", "off"):
            raise UsageMistake(_("--gpu-shares is on or off."), hint=EXAMPLE_EDIT)
        rules["gpu_shares"] = shares == "on" or None
    if shared_max is not None:
        rules["shared_devices_max"] = None if shared_max == DEFAULT else _number(shared_max)
    if levels is not None:
        rules["levels"] = None if levels == DEFAULT else [level.strip() for level in levels.split(",") if level.strip()]
    if not rules:
        raise UsageMistake(_("Give at least one change."), hint=EXAMPLE_EDIT)
    changed = session.client.clusters.edit_pool(pool, **rules)
    told = _("Pool {pool} has a new placement policy.", pool=plain(changed["name"]))
    if name is not None:
        told = _("Pool {old} is renamed to {pool}.", old=plain(pool), pool=plain(changed["name"]))
    session.show_done(changed, told, key="name")


def taints_text(node: Any) -> str:
    """The taints of a node, from the cluster and from operators."""
    return ", ".join(
        plain(name) if effect == "keep-out" else f"{plain(name)}={plain(effect)}"
        for name, effect in (node.get("taints") or {}).items()
    )


def _values(values: Any) -> str:
    return ", ".join(plain(value or formats.NOTHING) for value in values)


def fragmentation_text(pool: Any) -> str:
    """Which part of the idle GPUs is of no use to what the pool usually gets."""
    share = (pool.get("use") or {}).get("fragmentation")
    return formats.NOTHING if share is None else f"{share:.0%}"


def largest_text(pool: Any) -> str:
    """The most GPUs that a job could get now."""
    return _largest(pool, "largest_job")


def largest_task_text(pool: Any) -> str:
    return _largest(pool, "largest_task")


def _largest(pool: Any, key: str) -> str:
    found = [idle.get(key) or 0 for idle in _models(pool).values()]
    return f"{max(found)} GPU" if found else formats.NOTHING


def _models(pool: Any) -> dict[str, Any]:
    return ((pool.get("use") or {}).get("idle") or {}).get("models") or {}


def _idle_text(model: str, idle: Any) -> str:
    counts = sorted((idle.get("machines") or {}).items(), reverse=True)
    machines = ", ".join(f"{int(count)} x {plain(gpus)}" for gpus, count in counts)
    return _(
        "{model}: {gpus} on nodes {machines}; largest task {task}, largest job {job}",
        model=plain(model), gpus=idle.get("gpus"), machines=machines, task=idle.get("largest_task"), job=idle.get("largest_job"),
    )  # fmt: skip


def _said(value: object) -> str:
    return _("default") if value in (None, "") else str(value)


def _weights_text(weights: Mapping[str, Any]) -> str:
    return ", ".join(f"{plain(term)}={weight}" for term, weight in weights.items())


def _learned_text(learned: Mapping[str, Any] | None) -> str:
    """The weights that were chosen by what the pool gets, since when, and what was tried with what result."""
    if learned is None:
        return ""
    chosen = _("{weights} since {time}", weights=_weights_text(learned["weights"]), time=formats.time_text(learned["chosen_at"]))
    tried = [f"{_weights_text(trial['weights'])}: {trial['allocated']:.2%}" for trial in learned["tried"]]
    return "\n".join([chosen, *tried])


def _weight(entry: str) -> tuple[str, int]:
    term, equals, number = entry.partition("=")
    if not term or not equals:
        raise UsageMistake(_("{entry!r} is not a weight: write TERM=N.", entry=entry), hint=EXAMPLE_EDIT)
    return term, _number(number)


def _number(text: str) -> int:
    if not text.isascii() or not text.isdecimal() or len(text) > 9:
        raise UsageMistake(_("{number!r} is not an integer.", number=text), hint=EXAMPLE_EDIT)
    return int(text)
