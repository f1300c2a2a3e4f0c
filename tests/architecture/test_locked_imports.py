"""The server imports nothing that its own lock does not install: what tests need hides such a hole from every other test."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.architecture.sources import ROOT

FOLDERS = ("platform", "tenants", "storage", "images", "jobs")
OF_EXTRAS = {"tenants.identity.ldap_backend"}  # Imported where its extra is set up, by nothing else.

# Imports every module of the server in a process that refuses whatever belongs to a distribution that is not named.
IMPORT_ALL = """
import importlib, importlib.metadata, re, sys

locked, modules = (set(argument.split()) for argument in sys.argv[1:3])
owners = importlib.metadata.packages_distributions()


class Refusal:
    def find_spec(self, name, path=None, target=None):
        found = {re.sub(r"[-_.]+", "-", owner).lower() for owner in owners.get(name.partition(".")[0], ())}
        if found and not found & locked:
            raise ModuleNotFoundError(f"{name} belongs to {sorted(found)}, which requirements.lock does not have")


sys.meta_path.insert(0, Refusal())
import django

django.setup()
for module in sorted(modules):
    importlib.import_module(module)
print(len(modules), "modules")
"""


def modules() -> list[str]:
    found = []
    for folder in FOLDERS:
        base = ROOT / folder if folder == "platform" else ROOT
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(base).with_suffix("").parts
            if path.name != "__main__.py" and "migrations" not in parts:
                found.append(".".join(parts[:-1] if parts[-1] == "__init__" else parts))
    return [name for name in found if name and name not in OF_EXTRAS]


def import_all(lock: str, folder: Path) -> subprocess.CompletedProcess[str]:
    locked = re.findall(r"^([a-z0-9._-]+)==", lock, re.MULTILINE)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "platform"))),
        "DJANGO_SETTINGS_MODULE": "controlplane.settings",
        "BERTH_DATA_DIR": str(folder),
        "BERTH_SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyzABCDEF",
    }
    command = [sys.executable, "-c", IMPORT_ALL, " ".join([*locked, "berth", "berth-server"]), " ".join(modules())]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_the_server_imports_only_what_its_lock_installs(tmp_path: Path) -> None:
    done = import_all((ROOT / "requirements.lock").read_text(encoding="utf-8"), tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]


def test_an_import_that_the_lock_does_not_have_is_found(tmp_path: Path) -> None:
    lock = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    done = import_all(re.sub(r"^packaging==", "something-else==", lock, flags=re.MULTILINE), tmp_path)
    assert "which requirements.lock does not have" in done.stderr
