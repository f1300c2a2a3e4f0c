"""`berth announcements`, `maintenance` and `features`: what operators need a terminal for at night."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer

from berth.cli import formats
from berth.cli.command import Session, UsageMistake, YesOption, command, confirmed, make_group
from berth.cli.messages import _
from berth.cli.output import Column, hint
from berth.sanitize import plain

FromOption = Annotated[str | None, typer.Option("--from", metavar="TIME", help="Start of the window; default: now.")]
ForOption = Annotated[str | None, typer.Option("--for", metavar="DURATION", help="Duration: 10h, 2d.")]
UntilOption = Annotated[str | None, typer.Option("--until", metavar="TIME", help="End of the window.")]


@command()
def list_announcements(
    session: Session,
    all_: Annotated[
        bool, typer.Option("--all", "-a", help="Include dismissed, planned and past announcements that you may edit.")
    ] = False,
) -> None:
    """Show current announcements."""
    session.show(session.client.announcements.list(all_=all_), ANNOUNCEMENT_COLUMNS, empty=_("No announcements."))


@command()
def announce(
    session: Session,
    text: Annotated[str, typer.Argument(metavar="TEXT")],
    chinese: Annotated[str, typer.Option("--zh", metavar="TEXT", help="Text in Chinese.")] = "",
    level: Annotated[str, typer.Option("--level", metavar="LEVEL", help="info, warning or critical.")] = "info",
    start: FromOption = None,
    length: ForOption = None,
    end: UntilOption = None,
) -> None:
    """Publish an announcement to all users, or with --tenant to a tenant and its child tenants."""
    begins, ends = _window(start, length, end, needs_end=False)
    made = session.client.announcements.create(
        text, text_zh=chinese, level=level, tenant=session.choices.tenant, starts_at=begins, ends_at=ends
    )
    session.show_done(made, _("Announced: {words}", words=plain(made["text"])))
    hint(f"berth announcements delete {made['id']}")


@command()
def delete_announcement(
    session: Session,
    announcement: Annotated[str, typer.Argument(metavar="ANNOUNCEMENT", help="Id of the announcement.")],
    yes: YesOption = False,
) -> None:
    """Withdraw an announcement."""
    if confirmed(_("Withdraw the announcement?"), yes=yes):
        session.client.announcements.delete(announcement)
        session.show_done({"id": announcement}, _("The announcement is withdrawn."))


@command()
def list_maintenance(
    session: Session, all_: Annotated[bool, typer.Option("--all", "-a", help="Include past windows.")] = False
) -> None:
    """Show maintenance windows, planned and active."""
    session.show(session.client.maintenance.list(open_=not all_), MAINTENANCE_COLUMNS, empty=_("No maintenance windows."))


@command()
def plan_maintenance(
    session: Session,
    nodes: Annotated[list[str] | None, typer.Argument(metavar="[NODE...]", help="Names or ids of nodes.")] = None,
    pool: Annotated[str | None, typer.Option("--pool", help="Pool, instead of nodes: all its nodes.")] = None,
    start: FromOption = None,
    length: ForOption = None,
    end: UntilOption = None,
    drain: Annotated[bool, typer.Option("--drain", help="Requeue running jobs when the window begins.")] = False,
    reason: Annotated[str, typer.Option("--reason", help="Reason, shown to owners of affected jobs.")] = "",
) -> None:
    """Plan a maintenance window of nodes or of a pool: no job starts there."""
    if bool(nodes) == bool(pool):
        raise UsageMistake(_("Give nodes, or a pool with --pool."), hint="berth maintenance plan NODE --for 2h --drain")
    begins, ends = _window(start, length, end, needs_end=True)
    window = session.client.maintenance.create(
        starts_at=begins or "", ends_at=ends or "", pool=pool, nodes=nodes or (), drain=drain, reason=reason
    )
    text = _(
        "Maintenance of {count} node(s) from {start} to {end}.",
        count=window["node_count"],
        start=formats.time_text(window["starts_at"]),
        end=formats.time_text(window["ends_at"]),
    )
    session.show_done(window, text)
    hint(f"berth maintenance cancel {window['id']}")


@command()
def cancel_maintenance(
    session: Session, window: Annotated[str, typer.Argument(metavar="WINDOW", help="Id of the window.")]
) -> None:
    """Cancel a planned window, or end an active one now; its nodes accept jobs again."""
    session.show_done(session.client.maintenance.cancel(window), _("The maintenance window is closed."))


@command()
def list_features(session: Session) -> None:
    """Show which features are on; with --tenant for a tenant."""
    rows = session.client.features.list(tenant=session.choices.tenant)
    session.show(rows, FEATURE_COLUMNS, empty=_("No features."), key="name")


@command()
def enable_feature(session: Session, name: Annotated[str, typer.Argument(metavar="FEATURE")]) -> None:
    """Switch a feature on, for the installation, or with --tenant for a tenant."""
    _set_feature(session, name, True)


@command()
def disable_feature(session: Session, name: Annotated[str, typer.Argument(metavar="FEATURE")]) -> None:
    """Switch a feature off: its pages and operations disappear."""
    _set_feature(session, name, False)


@command()
def inherit_feature(session: Session, name: Annotated[str, typer.Argument(metavar="FEATURE")]) -> None:
    """Remove a feature's setting, so that it inherits again."""
    _set_feature(session, name, None)


def _set_feature(session: Session, name: str, enabled: bool | None) -> None:
    session.client.features.set(name, enabled, tenant=session.choices.tenant)
    text = {
        True: _("Feature {name} is on.", name=plain(name)),
        False: _("Feature {name} is off.", name=plain(name)),
        None: _("Feature {name} is inherited.", name=plain(name)),
    }
    session.show_done({"name": name, "enabled": enabled}, text[enabled], key="name")


def _window(start: str | None, length: str | None, end: str | None, *, needs_end: bool) -> tuple[str | None, str | None]:
    """Begin and end as the API takes them; None where nothing was said."""
    if (length is not None and end is not None) or (needs_end and length is None and end is None):
        raise UsageMistake(_("Give the duration with --for, or the end with --until."), hint="--for 2h")
    begins = formats.parse_when(start) if start is not None else None
    ends = formats.parse_when(end) if end is not None else None
    if length is not None:
        ends = (begins or datetime.now(UTC)) + timedelta(seconds=formats.parse_seconds(length))
    if needs_end and begins is None:
        begins = datetime.now(UTC)
    return _iso(begins), _iso(ends)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat().replace("+00:00", "Z")


ANNOUNCEMENT_COLUMNS = [
    Column("ID", lambda row: row["id"]),
    Column("LEVEL", lambda row: _(row["level"])),
    Column("FOR", lambda row: _("all users") if row["everybody"] else formats.name_of(row.get("tenant"))),
    Column("UNTIL", lambda row: formats.time_text(row["ends_at"])),
    Column("TEXT", lambda row: plain(row["text"]), shrinks=True),
]
MAINTENANCE_COLUMNS = [
    Column("ID", lambda row: row["id"]),
    Column("STATE", lambda row: _(row["state"])),
    Column("POOL", lambda row: formats.name_of(row.get("pool"))),
    Column("NODES", lambda row: str(row["node_count"]), right=True),
    Column("FROM", lambda row: formats.time_text(row["starts_at"])),
    Column("UNTIL", lambda row: formats.time_text(row["ends_at"])),
    Column("DRAIN", lambda row: _("yes") if row["drain"] else _("no")),
    Column("REASON", lambda row: plain(row["reason"]), shrinks=True),
]
FEATURE_COLUMNS = [
    Column("FEATURE", lambda row: plain(row["name"])),
    Column("STATE", lambda row: _("on") if row["enabled"] else _("off")),
    Column("SETTING", lambda row: formats.NOTHING if row["setting"] is None else _("on") if row["setting"] else _("off")),
    Column("TITLE", lambda row: plain(row["title"]), shrinks=True),
]
announcements = make_group(
    "announcements",
    list_announcements,
    "Show, publish and withdraw announcements.",
    {"list": list_announcements, "make": announce, "delete": delete_announcement},
)
maintenance = make_group(
    "maintenance",
    list_maintenance,
    "Show maintenance windows; plan and cancel them.",
    {"list": list_maintenance, "plan": plan_maintenance, "cancel": cancel_maintenance},
)
features = make_group(
    "features",
    list_features,
    "Show features; switch them on and off.",
    {"list": list_features, "enable": enable_feature, "disable": disable_feature, "inherit": inherit_feature},
)
