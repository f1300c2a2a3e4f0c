"""All that `make test` runs, stage by stage: how long each took, and one line of counts at the end.

    python tools/testrun.py [--long | --check] [--only STAGE]... [pytest arguments]

Static checks run beside the tests that need nothing. Whatever touches rows, messages or sockets runs on PostgreSQL and Redis;
what may differ by the database runs again on SQLite and in memory (`ALSO_ON_SQLITE`). Tests that start real processes of an
engine run with whole files on one worker, because the tests of a file share a platform; those that load many, or time them,
run one after the other with nothing beside. Every stage runs even if one before it failed; the exit status says whether all
passed. `--long` leaves nothing out on SQLite; `--check` needs no servers and takes minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.builders import prepared  # noqa: E402 - the root comes first.
from tests.servers import ServerError, servers  # noqa: E402

PROGRAMS = Path(sys.executable).parent
NO_TESTS = 5  # Exit status of pytest when a selection is empty.
TEST_SECONDS_MAX = 300  # A worker's first database test also creates the database; a loaded machine takes a minute.
WORKERS_MAX = 8  # More workers than this wait for the disk.
WAITING = 1.5  # Workers per core where tests wait for processes for about half of their time.


# What runs on SQLite and in memory as well, and why. All else that touches rows says the same of both: it asks through the same
# models, and who may do what, what an answer looks like and what is refused is decided before a row is touched.
ALSO_ON_SQLITE: Mapping[str, str] = {
    "tests/contract": "statements written by hand for each database",
    "tests/services": "transactions, locks, races, plans, and every service of each app",
    "tests/realtime": "channels in memory",
    "tests/faults": "rows that cannot be read, and what a crowd leaves waiting",
    "tests/security/matrix/test_edges.py": "times and numbers that only one database can hold",
    "tests/security/matrix/test_queries.py": "comparisons with whatever a query says",
    "tests/security/credentials/test_guessing.py": "tries counted in memory",
    "tests/security/limits/test_requests_of_a_tenant.py": "requests counted in memory",
    "tests/api/webapi": "keys of idempotency, readiness",
    "tests/api/tenants/test_facts.py": "triggers that mark what changed",
    "tests/api/jobs/test_statements.py": "how many statements a submission takes",
    "tests/api/tenants/test_quota.py": "how many statements a change of quota takes",
    "tests/api/jobs/test_lists.py": "orders, cursors and searches",
    "tests/api/jobs/test_jobs.py": "a walk through jobs",
    "tests/api/tenants/test_tenants.py": "a walk through tenants",
    "tests/api/tenants/test_ledger.py": "sums over rows",
    "tests/api/storage/test_volumes.py": "a walk through storage",
    "tests/api/images": "a walk through images",
    "tests/api/clusters/test_clusters.py": "a walk through clusters",
    "tests/api/activity/test_events.py": "a walk through events, by their numbers",
    "tests/api/controlplane/test_console.py": "a walk through the console",
}
# The same of real platforms. The engines themselves know no database: their contract runs once.
ENGINES_ALSO_ON_SQLITE: Mapping[str, str] = {
    "tests/engines/test_first_job.py": "the first job",
    "tests/engines/test_survival.py": "kill -9 and up again on the same file",
    "tests/engines/test_restore.py": "a backup of the file, put back",
    "tests/security/live/test_a_job_that_attacks.py": "a file that no job may read",
    "tests/faults/test_crash_points.py": "what each death leaves of a transaction",
    "tests/faults/test_other_deaths.py": "death after death",
    "tests/faults/test_disk.py": "a file without room",
    "tests/upgrade/test_forward.py": "migrations of a filled file",
}


@dataclass(frozen=True)
class Stage:
    """A selection of tests. `markers` is a pytest marker expression, and `names` a marker that all of them have: only files that
    say it are read, because a worker takes ten seconds for all. `only` are the files and folders that a short run is about.
    `by_file` keeps the tests of a file on one worker, `alone` all of them; those of a stage that `waits` leave time for more
    workers than there are cores."""

    name: str
    markers: str
    with_servers: bool
    by_file: bool = False
    alone: bool = False
    waits: bool = False
    names: str = ""
    folder: str = "tests"  # Only tests below it, unless the caller names others.
    only: Mapping[str, str] = field(default_factory=dict)  # With the reason of each.
    profile: str = "embedded"  # Of the live platform.
    is_long: bool = False  # Only with full lengths.


STAGES = (
    Stage("plain", "not database and not engines and not browser", with_servers=False),
    Stage("postgresql", "database and not engines", with_servers=True, names="database"),
    Stage("sqlite", "database and not engines", with_servers=False, names="database", only=ALSO_ON_SQLITE),
    Stage("engines", "engines and not alone", with_servers=True, by_file=True, waits=True, names="engines"),
    Stage("alone", "engines and alone", with_servers=True, alone=True, names="alone"),
    Stage("browser", "browser", with_servers=True, by_file=True, names="browser", folder="tests/browser"),
    Stage(
        "engines-sqlite",
        "engines and database",
        with_servers=False,
        by_file=True,
        waits=True,
        names="engines",
        only=ENGINES_ALSO_ON_SQLITE,
    ),
    Stage(
        "isolation",
        "engines",
        with_servers=True,
        by_file=True,
        names="engines",
        folder="tests/security/live",
        profile="production",
        is_long=True,
    ),
)
FOR_A_CHECK = ("plain", "sqlite")
CHECKS: dict[str, Sequence[str]] = {
    "ruff": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy", "platform", "tenants", "storage", "images", "jobs", "client/src"),
    "imports": ("lint-imports",),
    "portal": ("python", "tools/portal.py", "check"),
}


@dataclass(frozen=True)
class Result:
    """How one stage or check ended. `failed` counts tests with errors too. `computed` are seconds of a core, without those of
    the servers: where they are far fewer than the time on all cores, the stage waited."""

    name: str
    seconds: float
    computed: float
    is_ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def line(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped" if self.name in _stage_names() else ""
        ended = "ok" if self.is_ok else "FAILED"
        return f"  {self.name:<16}{ended:<8}{self.seconds:7.1f} s, {self.computed:7.1f} s of a core  {counts}".rstrip()


def main() -> int:
    options, extra = _arguments()
    wanted = options.only or [*CHECKS, *_stages_of(options)]
    stages = [stage for stage in STAGES if stage.name in wanted]
    begin = time.monotonic()
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        prepared.make_folder()
        stack.callback(prepared.remove_folder)
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="berth-report-")))
        environment: Mapping[str, str] = {}
        try:
            if any(stage.with_servers for stage in stages):
                environment = stack.enter_context(servers()).environment()
        except ServerError as error:
            print(error, file=sys.stderr)
            results.append(Result("servers", 0.0, 0.0, is_ok=False))
            stages = []
        checks = [_start_check(name, folder) for name in CHECKS if name in wanted]
        for stage in stages:
            running = _start_stage(stage, environment if stage.with_servers else {}, extra, folder, is_long=options.long)
            results += [running.finish(), *(check.finish() for check in checks)]
            checks = []
        results += [check.finish() for check in checks]
    _report(results, time.monotonic() - begin)
    return 0 if all(result.is_ok for result in results) else 1


def _stages_of(options: argparse.Namespace) -> list[str]:
    if options.check:
        return list(FOR_A_CHECK)
    return [stage.name for stage in STAGES if options.long or not stage.is_long]


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run all checks and tests, with what they need.")
    parser.add_argument("--long", action="store_true", help="also run tests marked slow")
    parser.add_argument("--check", action="store_true", help="only what needs no servers, with all static checks")
    parser.add_argument("--only", action="append", choices=[*CHECKS, *_stage_names()], help="only this one; may be repeated")
    options, extra = parser.parse_known_args()
    return options, [argument for argument in extra if argument != "--"]


def _start_stage(
    stage: Stage, servers_of_stage: Mapping[str, str], extra: Sequence[str], folder: Path, *, is_long: bool
) -> Running:
    markers = stage.markers if is_long else f"({stage.markers}) and not slow"
    cores = os.cpu_count() or 1
    workers = 1 if stage.alone else min(WORKERS_MAX, round(cores * WAITING) if stage.waits else cores)
    report = folder / f"{stage.name}.xml"
    options = [
        f"--numprocesses={workers}",
        *(["--dist=loadfile"] if stage.by_file else []),
        f"--timeout={TEST_SECONDS_MAX}",
        f"--junitxml={report}",
        f"--hypothesis-profile={'search' if is_long else 'berth'}",
    ]
    is_named = any((ROOT / word.partition("::")[0]).exists() for word in extra)  # The caller says which tests.
    places = [] if is_named else _places(stage, is_long=is_long)
    command = [sys.executable, "-m", "pytest", "-q", *options, "-m", markers, *places, *extra]
    environment = _environment({**servers_of_stage, "BERTH_TEST_PROFILE": stage.profile})
    print(f"\n=== {stage.name}: {stage.markers}", flush=True)
    return _start(stage.name, command, environment, None, report)


def _places(stage: Stage, *, is_long: bool) -> list[str]:
    """The files that hold the stage's tests, or the folder of all where every file may. Paths are relative to the root."""
    if not stage.names:
        return [stage.folder]
    wanted = list(stage.only) if stage.only and not is_long else [stage.folder]
    files = [path for place in wanted for path in _test_files(ROOT / place) if f"mark.{stage.names}" in path.read_text()]
    return sorted(path.relative_to(ROOT).as_posix() for path in files)


def _test_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("test_*.py"))


def _environment(servers_of_stage: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its own servers, and those of the stage. What was compiled is kept for the next stage:
    each worker would spend ten seconds on it."""
    left_out = ("BERTH_DATABASE_URL", "BERTH_REDIS_URL", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, **servers_of_stage}


def _counts(report: Path) -> tuple[int, int, int]:
    """Passed, failed and skipped from a JUnit report; a run that broke off before writing one counts as one failure."""
    if not report.exists():
        return 0, 1, 0
    suites = ElementTree.parse(report).getroot().iter("testsuite")
    totals = {"tests": 0, "failures": 0, "errors": 0, "skipped": 0}
    for suite in suites:
        for name in totals:
            totals[name] += int(suite.get(name, "0"))
    failed = totals["failures"] + totals["errors"]
    return totals["tests"] - failed - totals["skipped"], failed, totals["skipped"]


@dataclass
class Running:
    """A stage or a static check under way. `output` keeps what it says until it is done; None: it says so at once. A stage leaves
    a `report`."""

    name: str
    process: subprocess.Popen[bytes]
    begin: float
    output: Path | None
    report: Path | None

    def finish(self) -> Result:
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        seconds, computed = time.monotonic() - self.begin, usage.ru_utime + usage.ru_stime
        passed, failed, skipped = _counts(self.report) if self.report else (0, 0, 0)
        is_ok = self.process.returncode in ((0, NO_TESTS) if self.report else (0,)) and not failed
        if self.output:
            said = self.output.read_text(errors="replace")
            print(f"\n=== {self.name}\n{said if not is_ok else said[-300:]}", end="", flush=True)
        return Result(self.name, seconds, computed, is_ok, passed, failed, skipped)


def _start_check(name: str, folder: Path) -> Running:
    program, *words = CHECKS[name]
    places = os.pathsep.join(str(ROOT / place) for place in ("", "platform", "client/src"))
    # mypy's plugin reads the settings, which need a key.
    environment = {**os.environ, "PYTHONPATH": places, "BERTH_SECRET_KEY": os.urandom(32).hex()}
    return _start(name, [str(PROGRAMS / program), *words], environment, folder / f"{name}.txt", None)


def _start(
    name: str, command: Sequence[str], environment: Mapping[str, str], output: Path | None, report: Path | None
) -> Running:
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(output.open("wb")) if output else None
        error = subprocess.STDOUT if output else None
        process = subprocess.Popen([*command], cwd=ROOT, env=environment, stdout=to, stderr=error)
    return Running(name, process, time.monotonic(), output, report)


def _report(results: Sequence[Result], seconds: float) -> None:
    print("\n=== durations")
    for result in results:
        print(result.line())
    print(f"  {'all':<24}{seconds:7.1f} s")
    broken = [result.name for result in results if not result.is_ok]
    if broken:
        print(f"\nNot passed: {', '.join(broken)}")
    totals = [sum(getattr(result, name) for result in results) for name in ("passed", "failed", "skipped")]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped", flush=True)


def _stage_names() -> list[str]:
    return [stage.name for stage in STAGES]


if __name__ == "__main__":
    sys.exit(main())
