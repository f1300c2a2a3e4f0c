"""Imports and migrations point down, and the pure parts are plain Python."""

import os
import subprocess
import sys

import pytest
from django.apps import apps
from django.db.migrations.loader import MigrationLoader

from tests.architecture.sources import ROOT

LAYERS = (
    "kernel",
    "upstream",
    "webapi",
    "activity",
    "reconciling",
    "clusters",
    "tenants",
    "images",
    "storage",
    "jobs",
    "controlplane",
)
HEIGHT = {name: height for height, name in enumerate(LAYERS)}
HEIGHT["storage"] = HEIGHT["images"]  # Siblings: neither may know the other.


@pytest.mark.capability("55", "Apps import downwards only, and the scheduler's core no framework")
def test_the_import_contracts_hold():
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'platform'}"}
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()", "--no-cache"]

    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=110)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


def test_migrations_depend_only_on_layers_below():
    loader = MigrationLoader(None)
    wrong = []
    for (app, name), migration in loader.disk_migrations.items():
        for needed, _ in migration.dependencies:
            if app in HEIGHT and needed in HEIGHT and needed != app and HEIGHT[needed] >= HEIGHT[app]:
                wrong.append(f"{app}.{name} depends on {needed}")

    assert not wrong


def test_foreign_keys_point_down():
    wrong = []
    for model in apps.get_models():
        for field in model._meta.get_fields():
            if not field.is_relation or field.auto_created or field.related_model is None:
                continue
            from_app, to_app = model._meta.app_label, field.related_model._meta.app_label
            if from_app in HEIGHT and to_app in HEIGHT and from_app != to_app and HEIGHT[to_app] >= HEIGHT[from_app]:
                wrong.append(f"{model.__name__}.{field.name} -> {to_app}")

    assert not wrong


def test_every_app_has_its_place():
    ours = {config.name for config in apps.get_app_configs() if ROOT in _parents(config.path)}

    assert ours <= set(LAYERS)


def _parents(path):
    from pathlib import Path

    return Path(path).resolve().parents
