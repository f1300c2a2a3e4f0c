"""`berth clusters`: what engines talk to; operators add, change, check and remove clusters while the platform runs."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Cell, Column, hint, note, print_data, print_facts
from berth.cli.paint import paint
from berth.sanitize import plain

FILE_BYTES_MAX = 1 << 20
EXAMPLE = "berth clusters add research --kubeconfig research.yaml"
MARKS = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "failed": ("✗", "red")}

ClusterArgument = Annotated[str, typer.Argument(metavar="CLUSTER", help="Name or id of the cluster.")]
KubeconfigOption = Annotated[
    str | None,
    typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig with keys inline; - reads standard input. Stored encrypted."),
]
InClusterOption = Annotated[bool, typer.Option("--in-cluster", help="Use the account of the pod that Berth runs in.")]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Setting, may be repeated: pod_addresses=true, node_selector.team=research."
    ),
]
FileOption = Annotated[Path | None, typer.Option("--file", "-f", help="File with settings, as a YAML or JSON mapping.")]


@command()
def list_clusters(session: Session) -> None:
    """List clusters with their health and the isolation of tenants."""
    session.show(session.client.clusters.list(), CLUSTER_COLUMNS, empty=_("No clusters."), key="name")


@command()
def show_cluster(session: Session, cluster: ClusterArgument) -> None:
    """Show a cluster with all details. The word `show` is optional."""
    found = session.client.clusters.get(cluster)
    if session.is_for_programs:
        print_data(found, session.form, key="name")
        return
    access = found.get("access") or {}
    settings = [f"{plain(name)}: {plain(_value_text(value))}" for name, value in sorted((found.get("config") or {}).items())]
    print_facts(
        [
            ("Name", (plain(found["name"]), "bold")),
            ("Kind", plain(found.get("kind", ""))),
            ("Condition", _condition(found)),
            ("Detail", _detail(found)),
            ("Since", formats.time_text((found.get("condition") or {}).get("since_at"))),
            ("Server", plain(access.get("server") or "")),
            ("Account", plain(access.get("account") or "")),
            ("Expires", formats.time_text(access.get("expires_at"))),
            ("Settings", "\n".join(settings)),
            ("Isolation", "\n".join(plain(fact) for fact in (found.get("isolation") or {}).get("facts") or [])),
            ("Seen", formats.time_text(found.get("inventory_read_at"))),
        ]
    )


@command()
def add_cluster(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new cluster.")],
    kind: Annotated[str, typer.Option("--kind", metavar="KIND", help="Kind of the cluster.")] = "kubernetes",
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    settings: SetOption = None,
    file: FileOption = None,
    disabled: Annotated[bool, typer.Option("--disabled", help="Add it disabled: no job starts there yet.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Dry run: check the cluster, store nothing.")] = False,
    skip_check: Annotated[
        bool, typer.Option("--skip-check", help="Add it without a check, or although the check fails.")
    ] = False,
) -> None:
    """Add a cluster, as an operator, after a check of it; its nodes and pools appear within seconds.

    The check connects from the server, not from this computer.
    """
    credentials = _credentials(kubeconfig, in_cluster=in_cluster)
    if credentials is None and not in_cluster:
        raise UsageMistake(_("Give --kubeconfig FILE, or --in-cluster."), hint=EXAMPLE)
    wanted = {"name": name, "kind": kind, "config": _settings(file, settings, {}), "credentials": credentials}
    if dry_run or not skip_check:
        checked = session.client.clusters.check_new(wanted)
        if dry_run:
            _show_check(session, checked)
            return
        _tell_check(checked)
        if checked["outcome"] == "failed":
            note(_("The cluster was not added. Mend what failed, or add it with --skip-check."), style="red")
            raise typer.Exit(1)
    added = session.client.clusters.add({**wanted, "is_enabled": not disabled})
    session.show_done(added, _("Cluster {cluster} is added.", cluster=plain(added["name"])), key="name")
    hint(f"berth clusters show {plain(added['name'])}   ·   berth nodes")


@command()
def change_cluster(
    session: Session,
    cluster: ClusterArgument,
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    settings: SetOption = None,
    unset: Annotated[
        list[str] | None, typer.Option("--unset", metavar="NAME", help="Restore the default of a setting; may be repeated.")
    ] = None,
    file: FileOption = None,
    name: Annotated[str | None, typer.Option("--name", help="New name; job files with the old name no longer find it.")] = None,
) -> None:
    """Change a cluster: its credentials, settings or name. What runs there continues."""
    credentials = _credentials(kubeconfig, in_cluster=in_cluster)
    found = session.client.clusters.get(cluster)
    config: dict[str, Any] = _settings(file, settings, found.get("config") or {})
    config |= dict.fromkeys(unset or [])
    changes: dict[str, Any] = {} if name is None else {"name": name}
    if config:
        changes["config"] = config
    if credentials is not None or in_cluster:
        changes["credentials"] = credentials
    if not changes:
        raise UsageMistake(_("Say what to change."), hint="berth clusters change research --set default_image=base:2")
    changed = session.client.clusters.change(found["id"], changes, version=found["version"])
    session.show_done(changed, _("Cluster {cluster} is changed.", cluster=plain(changed["name"])), key="name")
    hint(f"berth clusters check {plain(changed['name'])}")


@command()
def enable_cluster(session: Session, cluster: ClusterArgument) -> None:
    """Enable a cluster: jobs may start there again."""
    changed = session.client.clusters.change(session.client.clusters.get(cluster)["id"], {"is_enabled": True})
    session.show_done(changed, _("Cluster {cluster} is enabled.", cluster=plain(changed["name"])), key="name")


@command()
def disable_cluster(session: Session, cluster: ClusterArgument) -> None:
    """Disable a cluster: no new attempt starts there; what runs continues and is observed."""
    changed = session.client.clusters.change(session.client.clusters.get(cluster)["id"], {"is_enabled": False})
    text = _("Cluster {cluster} is disabled: no new attempt starts; what runs continues.", cluster=plain(changed["name"]))
    session.show_done(changed, text, key="name")
    hint(f"berth clusters enable {plain(changed['name'])}")


@command()
def lose_cluster(
    session: Session,
    cluster: ClusterArgument,
    yes: YesOption = False,
) -> None:
    """Declare a disabled cluster lost that does not answer: its attempts end, and their jobs start elsewhere.

    What still runs there would run twice. If it comes back, enable it: what is left of those attempts is stopped.
    """
    found = session.client.clusters.get(cluster)
    name = plain(found["name"])
    question = _("Declare {cluster} lost? What still runs there would run twice.", cluster=name)
    if not confirmed(question, yes=yes):
        return
    changed = session.client.clusters.change(found["id"], {"is_lost": True})
    text = _("Cluster {cluster} is lost: its attempts end, and their jobs start elsewhere.", cluster=name)
    session.show_done(changed, text, key="name")
    hint(f"berth clusters enable {name}   ·   berth clusters remove {name}")


@command()
def remove_cluster(
    session: Session,
    cluster: ClusterArgument,
    yes: YesOption = False,
) -> None:
    """Remove a cluster with its pools and their limits; its jobs stay on record.

    Refused while attempts live there, or guarantees or bookings hold; what is in the cluster itself stays there.
    """
    found = session.client.clusters.get(cluster)
    name = plain(found["name"])
    if not confirmed(_("Remove {cluster} with its pools and their limits?", cluster=name), yes=yes):
        return
    session.client.clusters.remove(found["id"])
    session.show_done(found, _("Cluster {cluster} is removed.", cluster=name), key="name")


@command()
def check_cluster(
    session: Session,
    cluster: ClusterArgument,
    kubeconfig: KubeconfigOption = None,
    in_cluster: InClusterOption = False,
    settings: SetOption = None,
    file: FileOption = None,
) -> None:
    """Check a cluster, as it is or with other credentials or settings; ends with 1 where something fails.

    Address, TLS, credentials, version, permissions, nodes, GPUs, network policies.
    """
    found = session.client.clusters.get(cluster)
    credentials = _credentials(kubeconfig, in_cluster=in_cluster)
    changes: dict[str, Any] = {}
    if config := _settings(file, settings, found.get("config") or {}):
        changes["config"] = config
    if credentials is not None or in_cluster:
        changes["credentials"] = credentials
    _show_check(session, session.client.clusters.check(found["id"], changes))


def _show_check(session: Session, checked: Mapping[str, Any]) -> None:
    """The result, and the exit code that goes with it."""
    if session.is_for_programs:
        print_data(checked, session.form, key="outcome")
    else:
        for line in _lines(checked["items"]):
            print(line)
    if checked["outcome"] == "failed":
        raise typer.Exit(1)


def _tell_check(checked: Mapping[str, Any]) -> None:
    """What is not as it should be, before the cluster is added."""
    for line in _lines([item for item in checked["items"] if item["outcome"] != "ok"], stream=sys.stderr):
        note(line)


def _lines(items: Sequence[Mapping[str, Any]], *, stream: Any = None) -> list[str]:
    width = max((len(item["check"]) for item in items), default=0)
    lines = []
    for item in items:
        mark, style = MARKS.get(item["outcome"], ("?", ""))
        out = stream or sys.stdout
        lines.append(f"{paint(mark, style, stream=out)} {plain(item['check']).ljust(width)}  {plain(item['text'])}")
        if item.get("hint"):
            lines.append(f"  {' ' * width}  {paint('→ ' + plain(item['hint']), 'bright_black', stream=out)}")
    return lines


# --- Reading what is given --------------------------------------------------------------------------------------------


def _credentials(kubeconfig: str | None, *, in_cluster: bool) -> str | None:
    """The text of the kubeconfig; None without one."""
    if kubeconfig is None:
        return None
    if in_cluster:
        raise UsageMistake(_("Give --kubeconfig or --in-cluster, not both."), hint=EXAMPLE)
    if kubeconfig == "-":
        return sys.stdin.read(FILE_BYTES_MAX)
    return _read(Path(kubeconfig))


def _settings(file: Path | None, given: Sequence[str] | None, present: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a file, and over them those of --set; one entry of a mapping is added to those that are there."""
    config: dict[str, Any] = {} if file is None else _mapping(file)
    for entry in given or []:
        path, equals, text = entry.partition("=")
        name, dot, key = path.partition(".")
        if not equals or not name or (dot and not key):
            message = _("{entry!r} is no setting: write NAME=VALUE, or NAME.KEY=VALUE.", entry=entry)
            raise UsageMistake(message, hint="--set pod_addresses=true --set node_selector.team=research")
        if dot:
            before = config.get(name, present.get(name)) or {}
            config[name] = {**(before if isinstance(before, Mapping) else {}), key: text}
        else:
            config[name] = _value(text)
    return config


def _value(text: str) -> Any:
    """What JSON makes of it; else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _mapping(file: Path) -> dict[str, Any]:
    import yaml

    try:
        document = yaml.safe_load(_read(file))
    except (yaml.YAMLError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise UsageMistake(_("{path} is no YAML or JSON mapping.", path=plain(str(file))), hint=EXAMPLE)
    return {str(name): value for name, value in document.items()}


def _read(path: Path) -> str:
    try:
        with path.open(encoding="utf-8") as stream:
            return stream.read(FILE_BYTES_MAX)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or "" if isinstance(error, OSError) else str(error)
        raise UsageMistake(_("{path} cannot be read: {reason}", path=plain(str(path)), reason=reason)) from None


# --- Cells ------------------------------------------------------------------------------------------------------------


def _value_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _condition(cluster: Any) -> Cell:
    condition = cluster.get("condition") or {}
    word = plain(condition.get("name") if isinstance(condition, dict) else condition)
    if cluster.get("lost_at"):
        return _("✗ lost"), "red"
    if cluster.get("is_enabled") is False:
        return _("■ disabled"), "yellow"
    good = word == "reachable"
    return f"{'✓' if good else '✗'} {word.replace('_', ' ')}", "green" if good else "red"


def _detail(cluster: Any) -> str:
    """What is wrong with it, where the server says more than a word."""
    condition = cluster.get("condition")
    return plain(condition.get("detail") or "") if isinstance(condition, dict) else ""


def _isolation(cluster: Any) -> str:
    isolation = cluster.get("isolation") or {}
    if not isinstance(isolation, dict):
        return ", ".join(plain(fact) for fact in isolation)
    return _("tenants isolated") if isolation.get("tenants_kept_apart") else _("one tenant only")


CLUSTER_COLUMNS = [
    Column("NAME", lambda cluster: plain(cluster["name"]), shrinks=True),
    Column("KIND", lambda cluster: plain(cluster.get("kind", ""))),
    Column("CONDITION", _condition),
    Column("ISOLATION", _isolation),
    Column("DETAIL", _detail, shrinks=True),
]
clusters = make_group(
    "clusters",
    list_clusters,
    "List clusters and their health; add, change, check and remove them.",
    {
        "list": list_clusters,
        "show": show_cluster,
        "add": add_cluster,
        "change": change_cluster,
        "check": check_cluster,
        "enable": enable_cluster,
        "disable": disable_cluster,
        "lose": lose_cluster,
        "remove": remove_cluster,
    },
    fallback="show",
)
