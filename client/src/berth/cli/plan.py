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


def print_plan(plan: Mapping[str, Any], spec: Mapping[str, Any], snapshot: Snapshot | None, *, stream: TextIO) -> None:
    """The plan as the server made it; `spec` and `snapshot` add what only this machine knows."""
    with contextlib.redirect_stdout(stream):
        planned: Mapping[str, Any] = plan.get("spec") or spec
        print_facts(
            [
                ("Job", (plain(planned.get("name") or spec.get("name") or "job"), "bold")),
                ("Tenant", formats.name_of(plan.get("tenant"))),
                ("Queue", formats.name_of(plan.get("queue"))),
                ("Image", _image_text(plan.get("image") or planned.get("image"))),
                ("Where", _where_text(plan, planned)),
                ("Framework", "" if planned.get("framework") in (None, "none") else plain(planned["framework"])),
                ("Code", _code_text(snapshot)),
                ("Array", _array_text(planned.get("array"))),
                ("Total", (formats.resources_text(_total(plan)), "bold") if _total(plan) else None),
                ("Runs at most", formats.duration_text(planned.get("max_runtime_seconds"))),
            ]
        )
        rows = _role_rows(plan, planned)
        if rows:
            print()
            print(table_text(rows, ROLE_COLUMNS), end="")
        print()
    for warning in plan.get("warnings") or []:
        text = warning.get("message") or warning.get("text") if isinstance(warning, Mapping) else warning
        note(f"{paint('!', 'bold yellow', stream=sys.stderr)} {plain(text)}")


def _role_rows(plan: Mapping[str, Any], spec: Mapping[str, Any]) -> list[dict[str, Any]]:
    roles = plan.get("roles") or spec.get("roles")
    if isinstance(roles, Mapping):
        return [{"role": name, **role} for name, role in roles.items() if isinstance(role, Mapping)]
    if isinstance(roles, list):
        return [{**role, "role": role.get("role") or role.get("name")} for role in roles]
    return [dict(spec)] if spec.get("command") else []


def _replicas_text(role: Any) -> str:
    replicas = role.get("replicas", 1)
    if isinstance(replicas, Mapping):
        low, high = replicas.get("min", 1), replicas.get("max", 1)
        return str(low) if low == high else f"{low}-{high}"
    return str(replicas)


def _each_text(role: Any) -> str:
    resources = role.get("resources") or {}
    gpu = resources.get("gpu")
    if isinstance(gpu, Mapping):
        resources = {**resources, "gpu_millis": gpu.get("millis"), "gpu_model": gpu.get("model")}
    elif gpu:
        return ", ".join(f"{key} {plain(value)}" for key, value in resources.items())
    known = formats.resources_text(resources)
    return known if known != formats.NOTHING else ", ".join(f"{key} {plain(value)}" for key, value in resources.items()) or known


def _command_text(role: Any) -> str:
    command = role.get("command") or ""
    text = plain(" ".join(command) if isinstance(command, (list, tuple)) else command)
    return text if len(text) <= _COMMAND_WIDTH else text[: _COMMAND_WIDTH - 1] + "…"


def _total(plan: Mapping[str, Any]) -> Mapping[str, Any]:
    total = plan.get("total") or plan.get("resources") or {}
    return total if isinstance(total, Mapping) else {}


def _where_text(plan: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    where = plan.get("where") or plan.get("placement")
    if isinstance(where, list):
        return ", ".join(formats.name_of(place) for place in where)
    if where:
        return formats.name_of(where)
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


def _array_text(array: Any) -> str:
    return _("{size} jobs", size=array.get("size")) if isinstance(array, Mapping) and array.get("size") else ""


ROLE_COLUMNS = [
    Column("ROLE", lambda role: plain(role.get("role") or "worker")),
    Column("TASKS", _replicas_text, right=True),
    Column("EACH", _each_text),
    Column("COMMAND", _command_text, shrinks=True),
]
