"""All that `make test` runs, stage by stage: how long each took, and one line of counts at the end.

    python tools/testrun.py [--long] [--only STAGE]... [pytest arguments]

Static checks run beside the tests that need nothing. Whatever touches rows, messages or sockets runs twice: on PostgreSQL and
Redis, then on SQLite and in memory. Tests that start real processes of an engine run last, whole files on one worker, because
the tests of a file share a platform; those that load many, or time them, run one after the other with nothing beside. Every
stage runs even if one before it failed; the exit status says whether all passed.
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
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Stage:
    """A selection of tests. `markers` is a pytest marker expression; `by_file` keeps the tests of a file on one worker, `alone`
    all of them; those of a stage that `waits` leave time for more workers than there are cores."""

    name: str
    markers: str
    with_servers: bool
    by_file: bool = False
    alone: bool = False
    waits: bool = False
    folder: str = ""  # Only tests below it, unless the caller names others.
    profile: str = "embedded"  # Of the live platform.
    is_long: bool = False  # Only with full lengths.


STAGES = (
    Stage("plain", "not database and not engines and not browser", with_servers=False),
    Stage("postgresql", "database and not engines", with_servers=True),
    Stage("sqlite", "database and not engines", with_servers=False),
    Stage("engines", "engines and not alone", with_servers=True, by_file=True, waits=True),
    Stage("alone", "engines and alone", with_servers=True, alone=True),
    Stage("browser", "browser", with_servers=True, by_file=True, folder="tests/browser"),
    Stage("engines-sqlite", "engines and database", with_servers=False, by_file=True, waits=True),
    Stage(
        "isolation",
        "engines",
        with_servers=True,
        by_file=True,
        folder="tests/security/live",
        profile="production",
        is_long=True,
    ),
)
CHECKS: dict[str, Sequence[str]] = {
    "ruff": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy", "platform", "tenants", "storage", "images", "jobs", "client/src"),
    "imports": ("lint-imports",),
    "portal": ("python", "tools/portal.py", "check"),
}


@dataclass(frozen=True)
class Result:
    """How one stage or check ended. `failed` counts tests with errors too."""

    name: str
    seconds: float
    is_ok: bool
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def line(self) -> str:
        counts = f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped" if self.name in _stage_names() else ""
        return f"  {self.name:<16}{'ok' if self.is_ok else 'FAILED':<8}{self.seconds:7.1f} s  {counts}".rstrip()


def main() -> int:
    options, extra = _arguments()
    wanted = options.only or [*CHECKS, *(stage.name for stage in STAGES if options.long or not stage.is_long)]
    stages = [stage for stage in STAGES if stage.name in wanted]
    begin = time.monotonic()
    running = [_start_check(name, command) for name, command in CHECKS.items() if name in wanted]
    results: list[Result] = []
    try:
        with contextlib.ExitStack() as stack:
            prepared.make_folder()
            stack.callback(prepared.remove_folder)
            environment: Mapping[str, str] = {}
            if any(stage.with_servers for stage in stages):
                environment = stack.enter_context(servers()).environment()
            for stage in stages:
                results.append(_run_stage(stage, environment if stage.with_servers else {}, extra, is_long=options.long))
                if stage is stages[0]:
                    results += [check.finish() for check in running]
                    running = []
    except ServerError as error:
        print(error, file=sys.stderr)
        results.append(Result("servers", 0.0, is_ok=False))
    results += [check.finish() for check in running]
    _report(results, time.monotonic() - begin)
    return 0 if all(result.is_ok for result in results) else 1


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run all checks and tests, with what they need.")
    parser.add_argument("--long", action="store_true", help="also run tests marked slow")
    parser.add_argument("--only", action="append", choices=[*CHECKS, *_stage_names()], help="only this one; may be repeated")
    options, extra = parser.parse_known_args()
    return options, [argument for argument in extra if argument != "--"]


def _run_stage(stage: Stage, environment: Mapping[str, str], extra: Sequence[str], *, is_long: bool) -> Result:
    print(f"\n=== {stage.name}: {stage.markers}", flush=True)
    markers = stage.markers if is_long else f"({stage.markers}) and not slow"
    cores = os.cpu_count() or 1
    workers = 1 if stage.alone else min(WORKERS_MAX, round(cores * WAITING) if stage.waits else cores)
    with tempfile.TemporaryDirectory(prefix="berth-report-") as folder:
        report = Path(folder) / "report.xml"
        options = [
            f"--numprocesses={workers}",
            *(["--dist=loadfile"] if stage.by_file else []),
            f"--timeout={TEST_SECONDS_MAX}",
            f"--junitxml={report}",
            f"--hypothesis-profile={'search' if is_long else 'berth'}",
        ]
        is_named = any((ROOT / word.partition("::")[0]).exists() for word in extra)  # The caller says which tests.
        folder = [stage.folder] if stage.folder and not is_named else []
        command = [sys.executable, "-m", "pytest", "-q", *options, "-m", markers, *folder]
        environment = {**environment, "BERTH_TEST_PROFILE": stage.profile}
        begin = time.monotonic()
        status = subprocess.run([*command, *extra], cwd=ROOT, env=_environment(environment)).returncode
        passed, failed, skipped = _counts(report)
        is_ok = status in (0, NO_TESTS) and not failed
        return Result(stage.name, time.monotonic() - begin, is_ok, passed, failed, skipped)


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
class RunningCheck:
    """A static check in the background; its output is shown when it is done."""

    name: str
    process: subprocess.Popen[str]
    begin: float

    def finish(self) -> Result:
        output, _ = self.process.communicate()
        is_ok = self.process.returncode == 0
        print(f"\n=== {self.name}\n{output if not is_ok else output[-300:]}", end="", flush=True)
        return Result(self.name, time.monotonic() - self.begin, is_ok)


def _start_check(name: str, command: Sequence[str]) -> RunningCheck:
    program = str(PROGRAMS / command[0])
    places = os.pathsep.join(str(ROOT / place) for place in ("", "platform", "client/src"))
    # mypy's plugin reads the settings, which need a key.
    environment = {**os.environ, "PYTHONPATH": places, "BERTH_SECRET_KEY": os.urandom(32).hex()}
    process = subprocess.Popen(
        [program, *command[1:]], cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return RunningCheck(name, process, time.monotonic())


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
