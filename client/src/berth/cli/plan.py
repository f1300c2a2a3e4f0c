"""What a submission will mean, before it happens."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TextIO

from berth.cli import formats
from berth.cli.copy import files_text
from berth.cli.messages import _
from berth.cli.output import Column, note, print_facts, table_text
from berth.cli.paint import paint
from berth.sanitize import plain

if TYPE_CHECKING:
    from berth.snapshots import Snapshot

_COMMAND_WIDTH = 60


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
                ("Code", _code_text(snapshot)),
                ("Jobs", str(plan["jobs"]) if plan["jobs"] > 1 else ""),
                ("Total", (formats.resources_text(plan["total"]), "bold")),
                ("Runs at most", formats.duration_text(spec.get("max_runtime"))),
            ]
        )
        print()
        print(table_text(plan["roles"], ROLE_COLUMNS))
    for warning in plan["warnings"]:
        note(f"{paint('!', 'bold yellow', stream=sys.stderr)} {plain(warning)}")


def _command_text(role: Any) -> str:
    command = role.get("command") or ""
    text = plain(" ".join(command) if isinstance(command, (list, tuple)) else command)
    return text if len(text) <= _COMMAND_WIDTH else text[: _COMMAND_WIDTH - 1] + "…"


def _where_text(spec: Mapping[str, Any]) -> str:
    named = [plain(spec[key]) for key in ("cluster", "pool") if spec.get(key)]
    return "/".join(named) or _("the scheduler picks")


def _image_text(image: Any) -> str:
    digest = plain(image.get("digest") or "") if isinstance(image, Mapping) else ""
    name = formats.name_of(image)
    return f"{name} ({digest[:19]})" if digest and name != formats.NOTHING else name


def _code_text(snapshot: Snapshot | None) -> str:
    if snapshot is None:
        return ""
    return _("{files}, {size} packed", files=files_text(snapshot.file_count), size=formats.size_text(snapshot.size_bytes))


ROLE_COLUMNS = [
    Column("ROLE", lambda role: plain(role["name"])),
    Column("TASKS", lambda role: str(role["replicas"]), right=True),
    Column("EACH", lambda role: formats.resources_text(role["resources"])),
    Column("COMMAND", _command_text, shrinks=True),
]
