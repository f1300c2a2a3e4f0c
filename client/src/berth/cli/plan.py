"""What a submission will mean, before it happens."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from berth.cli import formats
from berth.cli.copy import files_text
from berth.cli.expected import PREDICTIONS_LEAST, unexpected_text
from berth.cli.messages import _
from berth.cli.output import Column, heading, note, print_facts, table_text
from berth.cli.paint import paint
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.snapshots import Snapshot

_COMMAND_WIDTH = 60
_BESIDE_WIDTH = 160


def print_plan(plan: Mapping[str, Any], snapshot: Snapshot | None, *, stream: TextIO) -> None:
    """The plan as the server made it; `snapshot` is the code that goes along."""
    spec = plan["spec"]
    with contextlib.redirect_stdout(stream):
        print_facts(
            [
                ("Job", (plain(plan["name"]), "bold")),
                ("Tenant", formats.name_of(plan["tenant"])),
                ("Queue", formats.name_of(plan["queue"])),
                ("Image", _image_text(plan["image"])),
                ("Where", _where_text(spec)),
                ("Framework", "" if plan["framework"] == "none" else plain(plan["framework"])),
                ("Code", _code_text(plan.get("fetches"), snapshot)),
                ("Jobs", str(plan["jobs"]) if plan["jobs"] > 1 else ""),
                ("Total", (formats.resources_text(plan["total"]), "bold")),
                ("Runs at most", formats.duration_text(plan.get("max_runtime_seconds"))),
                ("Planned to run", "" if _is_predicted(plan.get("forecast")) else formats.planned_text(plan)),
            ]
        )
        print()
        print(table_text(plan["roles"], ROLE_COLUMNS))
        if plan.get("layout"):
            _print_layout(plan["layout"])
        if plan.get("forecast"):
            _print_forecast(plan["forecast"])
    for warning in plan["warnings"]:
        note(f"{paint('!', 'bold yellow', stream=sys.stderr)} {plain(warning)}")


def _print_layout(layout: Mapping[str, Any]) -> None:
    """What the framework makes of each role: order of start, variables, and whose end decides."""
    if not any(role["environment"] or role["beside"] or role["starts_after"] for role in layout["roles"]):
        return
    heading(_("What will be made, in the order of start"))
    for role in layout["roles"]:
        facts = [
            ("Starts after", ", ".join(map(plain, role["starts_after"]))),
            ("Command waits for", ", ".join(map(plain, role["waits_for"]))),
            ("Beside it", "; ".join(plain(" ".join(argv))[:_BESIDE_WIDTH] for argv in role["beside"])),
            ("Ready when", plain(role["ready_when"])),
            ("Started again", _("{count} times", count=role["max_retry"]) if role["max_retry"] else ""),
            ("Processes", str(role["processes"]) if role["processes"] > 1 else ""),
            ("Needs", ", ".join(map(plain, role["installs"]))),
            *((name, plain(value)[:_BESIDE_WIDTH]) for name, value in sorted(role["environment"].items())),
        ]
        sys.stdout.write(f"{paint(plain(role['role']), 'bold')} x {role['count']}\n")
        print_facts([(label, value) for label, value in facts if value], indent=2)
    chief = layout["chief"]
    told = (
        _("The end of {role} is the end of the job.", role=plain(chief)) if chief else _("All tasks decide the end of the job.")
    )
    sys.stdout.write(f"{told}\n\n")


def _is_predicted(forecast: Mapping[str, Any] | None) -> bool:
    """Whether the forecast tells how long others like it ran, which is planned with instead."""
    return forecast is not None and forecast["runs_by"] not in ("", "asked")


def _command_text(role: Any) -> str:
    command = role.get("command") or ""
    text = plain(" ".join(command) if isinstance(command, (list, tuple)) else command)
    return text if len(text) <= _COMMAND_WIDTH else text[: _COMMAND_WIDTH - 1] + "…"


def _where_text(spec: Mapping[str, Any]) -> str:
    named = [plain(spec[key]) for key in ("cluster", "pool") if spec.get(key)]
    return "/".join(named) or _("chosen by the scheduler")


def _image_text(image: Any) -> str:
    digest = plain(image.get("digest") or "") if isinstance(image, Mapping) else ""
    name = formats.name_of(image)
    return f"{name} ({digest[:19]})" if digest and name != formats.NOTHING else name


def _code_text(fetched: Mapping[str, str] | None, snapshot: Snapshot | None) -> str:
    if fetched:
        facts = {name: plain(fetched[name]) for name in ("job", "ref", "git")}
        return _("job {job} first fetches {ref} of {git}", **facts)
    if snapshot is None:
        return ""
    return _("{files}, {size} packed", files=files_text(snapshot.file_count), size=formats.size_text(snapshot.size_bytes))


def _print_forecast(forecast: Mapping[str, Any]) -> None:
    """When it would start and what it would cost, as asked and smaller: more or sooner is for the reader to choose."""
    from berth.cli.costs import money

    currency, lasts = forecast["currency"], forecast["runs_seconds"]

    def cost(option: Mapping[str, Any], name: str) -> str:
        found = option["cost"] or {}
        low, high = found.get(name), found.get(f"{name}_max")
        if low is None or high is None:
            return formats.NOTHING
        return money(low, currency) if low == high else f"{money(low, '').strip()} – {money(high, currency)}"

    columns = [
        Column("SIZE", lambda option: _(SIZES[option["size"]])),
        Column("TOTAL", lambda option: formats.resources_text(option["total"])),
        Column("START", _start_text),
        Column("PER HOUR", lambda option: cost(option, "micros_per_hour"), right=True),
    ]
    if lasts is not None:
        columns.append(Column("TOTAL COST", lambda option: cost(option, "micros"), right=True))
    heading(_("Predicted start and cost"))
    print(table_text(forecast["options"], columns))
    if lasts is not None:
        note(_("Predicted run time: {time}; a smaller job may run longer.", time=formats.duration_text(lasts)))
    past = forecast["past"]
    if past["predictions"] >= PREDICTIONS_LEAST and past["by_p90"] is not None:
        note(_("{rate} of the last {count} predictions were kept.", count=past["predictions"], rate=f"{past['by_p90']:.0%}"))


def _start_text(option: Mapping[str, Any]) -> str:
    """From when it starts as likely as not, to when it does nine times in ten."""
    if option["starts_now"]:
        return _("at once")
    soon, late = option["p50_at"], option["p90_at"]
    if soon is None and late is not None:
        return _("by {time}", time=formats.time_text(late))
    if soon is None:
        return unexpected_text(option)
    begins = formats.time_text(soon)
    return f"{begins} – {formats.time_text(late)}" if late is not None and late != soon else begins


SIZES = {"asked": "as requested", "half": "half", "quarter": "a quarter"}
ROLE_COLUMNS = [
    Column("ROLE", lambda role: plain(role["name"])),
    Column("TASKS", lambda role: str(role["replicas"]), right=True),
    Column("EACH", lambda role: formats.resources_text(role["resources"])),
    Column("COMMAND", _command_text, shrinks=True),
]
