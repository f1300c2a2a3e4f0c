"""A public class name means one thing within an app."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT

APPS = (
    *("bench", "client/src/berth", "images", "jobs", "storage", "tenants", "tools"),
    *(
        "platform/activity",
        "platform/clusters",
        "platform/controlplane",
        "platform/kernel",
        "platform/reconciling",
        "platform/upstream",
        "platform/webapi",
    ),
)
GIVEN = {"Command", "DatabaseWrapper", "Migration"}  # Names by which Django looks a class up.
GENERATED = "client/src/berth/_api"


@pytest.mark.parametrize("app", APPS)
def test_a_class_name_is_defined_once_within_an_app(app: str) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted((ROOT / app).rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(GENERATED):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and node.name not in GIVEN:
                places[node.name].append(name)
    twice = {name: found for name, found in places.items() if len(found) > 1}
    assert not twice, f"Give all but one of each a name of its own: {twice}"


def test_every_app_is_looked_at() -> None:
    known = {Path(app).name for app in APPS}
    found = {path.name for path in (ROOT / "platform").iterdir() if (path / "__init__.py").exists()}
    assert found <= known
