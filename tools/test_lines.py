"""How many lines of tests there are for each line of source, by app: `python tools/test_lines.py`.

Blank lines, migrations and generated files do not count, and neither do the message catalogues of the client: they are data,
a sentence and its translation, of which `tests/client/test_cli.py` checks each entry. A test counts for the app whose behaviour
it checks: its folder says so, as `FOLDERS` has it. Tests of the whole platform at work (engines, faults, chaos, simulation,
histories, upgrades) count for `jobs`, because the life of jobs is what they check; those of security, architecture and the
browser count for no app. Two folders of security count for `tenants`: `credentials`, and `matrix`, which holds the answer of
every operation to each role against the access policy of `tenants/identity` (`access.py`, `permissions.py` and the rules that
other apps register there).
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEAST = 0.8  # What `jobs`, `tenants` and `client` are held to.
SOURCES = {"jobs": "jobs", "tenants": "tenants", "client": "client/src/berth"}
GENERATED = frozenset({"client/src/berth/_api/models.py"})
CATALOGUES = "client/src/berth/cli/messages_zh*.py"  # Data: no line of them decides anything.
FOLDERS: dict[str, tuple[str, ...]] = {
    "jobs": (
        "unit/jobs_lifecycle", "unit/jobs_spec", "unit/scheduling", "unit/frameworks", "unit/conversion", "unit/histories",
        "property/jobs", "property/scheduling", "services/jobs", "services/quarantine", "api/jobs", "realtime", "histories",
        "simulation", "engines", "faults", "chaos", "upgrade",
    ),
    "tenants": (
        "unit/tenants", "property/quota", "property/ledger", "services/tenants", "api/tenants", "security/credentials",
        "security/matrix",
    ),
    "client": ("client",),
}  # fmt: skip


def lines_of(folder: Path) -> int:
    """Lines that are not blank, of all Python files below a folder."""
    files = (path for path in folder.rglob("*.py") if "migrations" not in path.parts and not path.match(CATALOGUES))
    return sum(
        bool(line.strip())
        for path in files
        if path.relative_to(ROOT).as_posix() not in GENERATED
        for line in path.read_text(encoding="utf-8").splitlines()
    )


def main() -> int:
    is_less = False
    for app, source in SOURCES.items():
        have, tests = lines_of(ROOT / source), sum(lines_of(ROOT / "tests" / folder) for folder in FOLDERS[app])
        is_less |= tests < LEAST * have
        print(f"{app}: {have} lines of source, {tests} of tests, {tests / have:.2f} a line")
    return 1 if is_less else 0


if __name__ == "__main__":
    sys.exit(main())
