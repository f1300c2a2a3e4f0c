"""All that `make test` runs, stage by stage: how long each took, and one line of counts at the end.

    python tools/testrun.py [--long | --check] [--only STAGE]... [pytest arguments]

Whatever touches rows, messages or sockets runs on PostgreSQL and Redis; what may differ by the database runs again on SQLite and
in memory (`ALSO_ON_SQLITE`). Tests that start real processes of an engine run with whole files on one worker, because the tests
of a file share a platform. They wait for half of their time; what computes, static checks first, runs beside them at a lower
priority, on servers of its own. Those that load many, or time them, run at the end, one after the other with nothing beside.
Every stage runs even if one before it failed or was ended at its limit; then failed tests of all but *plain* are run again, alone
(`tools/rerun.py`). The exit status says whether all passed. `--long` leaves nothing out on SQLite; `--check` needs no servers and
takes minutes. All that a run makes lies in one folder, which is looked through and removed at its end (`tools/remains.py`).

A whole run ends by comparing what tests showed with `docs/capabilities.md`: a claim that holds no longer fails the run. Its JUnit
reports stay in `build/results`, those of a part in the folder that `--results` names; `build/last-run.json` says of which commit
it was, and how it went. `-- --claims` runs only tests with a claim.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.builders import prepared  # noqa: E402 - the root comes first.
from tests.servers import ServerError, servers  # noqa: E402
from tools import capabilities, remains, rerun  # noqa: E402
from tools.frameworks import Environments  # noqa: E402
from tools.kubernetes.programs import Programs  # noqa: E402
from tools.progress import Stop  # noqa: E402

PROGRAMS = Path(sys.executable).parent
UNSTABLE = ROOT / "build" / "unstable.jsonl"
LAST_RUN = ROOT / "build" / "last-run.json"
REPORTS = "reports"  # Of the stages, in the run's folder.
PYTESTS = f"{prepared.TEMPORARY}/pytest-of-"  # It keeps those of the last runs by itself.
COUNTED = ("passed", "failed", "skipped")
FAILED_TESTS, NO_TESTS = 1, 5  # Exit status of pytest after failures, and when a selection is empty.
TEST_SECONDS_MAX = 300  # A worker's first database test also creates the database; a loaded machine takes a minute.
CHECK_SECONDS_MAX = 2_400  # They wait for all that is at a higher priority.
MAKING_SECONDS_MAX = 1_800  # The same for the environments of frameworks, which take two minutes of a machine at rest.
ENDING_SECONDS_MAX = 30  # For the reports of a stage that was told to end, and its servers.
LONGER = 10  # Times the limits, with full lengths.
WORKERS_MAX = 8  # More workers than this wait for the disk.
LOW = 10  # The priority of tests that run beside. With the lowest, whatever else a machine does would starve them.
OF_CHECKS = 5  # Of static checks beside them, which end soon: vitest gives up on a worker that takes more than a minute to start.
WAITING = 1.5  # Workers per core where tests wait for processes for about half of their time.

# Files that keep a worker for more than half a minute, longest first: where a file stays on one worker a stage begins with these,
# so that it does not end with one of them alone. By the times of `--durations=0`; all others follow by name.
LONG = (
    "tests/faults/test_crash_points.py",
    "tests/browser/test_every_page.py",
    "tests/faults/test_zombies.py",
    "tests/client/test_live.py",
    "tests/faults/test_redis.py",
    "tests/faults/test_database.py",
    "tests/faults/test_leadership.py",
    "tests/faults/test_disk.py",
    "tests/engines/test_frameworks.py",
    "tests/unit/tools/test_up.py",
    "tests/engines/test_counting.py",
    "tests/faults/test_clock.py",
)

# What runs on SQLite and in memory as well, and why. All else that touches rows says the same of both: it asks through the same
# models, and who may do what, what an answer looks like and what is refused is decided before a row is touched.
ALSO_ON_SQLITE: Mapping[str, str] = {
    "tests/contract": "statements written by hand for each database",
    "tests/services": "transactions, locks, races, plans, and every service of each app",
    "tests/realtime": "channels in memory",
    "tests/faults": "rows that cannot be read, and what a crowd leaves waiting",
    "tests/security/matrix/test_edges.py": "times and numbers that only one database can hold",
    "tests/security/matrix/test_injections.py": "comparisons with whatever a query says",
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
    "tests/faults/test_crash_points.py": "what a death leaves of a transaction, and points that no simulation reaches",
    "tests/faults/test_other_deaths.py": "death after death",
    "tests/upgrade/test_forward.py": "migrations of a filled file",
}


@dataclass(frozen=True)
class Stage:
    """A selection of tests. `markers` is a pytest marker expression, and `names` a marker that all of them have: only files that
    say it are read, because a worker takes ten seconds for all. `only` are the files and folders that a short run is about.
    `by_file` keeps the tests of a file on one worker, `single` all of them, `alone` too with nothing beside; those of a stage
    that `waits` leave time for more workers than there are cores. One that `computes` runs beside those. After `seconds_max`,
    several times what it takes, its workers are ended."""

    name: str
    markers: str
    with_servers: bool
    seconds_max: int
    computes: bool = False
    by_file: bool = False
    single: bool = False
    alone: bool = False
    waits: bool = False
    names: str = ""
    folder: str = "tests"  # Only tests below it, unless the caller names others.
    only: Mapping[str, str] = field(default_factory=dict)  # With the reason of each.
    profile: str = "embedded"  # Of the live platform.
    is_long: bool = False  # Only with full lengths.
    is_pure: bool = False  # Its tests have no excuse: one that failed is not run again.
    is_built: bool = False  # Only where its programs are in the cache, or by name: the first build takes a quarter of an hour.


STAGES = (
    Stage(
        "plain",
        "not database and not engines and not browser and not kubernetes and not frameworks",
        with_servers=False,
        seconds_max=4_500,  # Beside all that wait.
        computes=True,
        is_pure=True,
    ),
    Stage(
        "postgresql",
        "database and not engines and not kubernetes",
        with_servers=True,
        seconds_max=2_400,
        computes=True,
        names="database",
    ),
    Stage(
        "sqlite",
        "database and not engines and not kubernetes",
        with_servers=False,
        seconds_max=1_200,
        computes=True,
        names="database",
        only=ALSO_ON_SQLITE,
    ),
    Stage(
        "engines",
        "engines and not alone and not kubernetes",
        with_servers=True,
        seconds_max=2_700,
        by_file=True,
        waits=True,
        names="engines",
    ),
    Stage(
        "frameworks",
        "frameworks",
        with_servers=True,
        seconds_max=1_500,
        single=True,  # They share a platform, and what they start takes what memory there is.
        names="frameworks",
        folder="tests/frameworks",
    ),
    Stage("browser", "browser", with_servers=True, seconds_max=1_500, by_file=True, names="browser", folder="tests/browser"),
    Stage(
        "engines-sqlite",
        "engines and database and not kubernetes",
        with_servers=False,
        seconds_max=900,
        by_file=True,
        waits=True,
        names="engines",
        only=ENGINES_ALSO_ON_SQLITE,
    ),
    Stage("alone", "engines and alone and not kubernetes", with_servers=True, seconds_max=1_200, alone=True, names="alone"),
    Stage("kubernetes", "kubernetes", with_servers=True, seconds_max=1_500, single=True, names="kubernetes", is_built=True),
    Stage(
        "isolation",
        "engines",
        with_servers=True,
        seconds_max=1_200,
        by_file=True,
        names="engines",
        folder="tests/security/live",
        profile="production",
        is_long=True,
    ),
)
FRAMEWORKS = "frameworks"  # The stage before which environments are made.
FOR_A_CHECK = ("plain", "sqlite")
CHECKS: dict[str, Sequence[str]] = {
    "ruff": ("ruff", "check", "."),
    "format": ("ruff", "format", "--check", "."),
    "mypy": ("mypy", "platform", "tenants", "storage", "images", "jobs", "client/src"),
    "imports": ("lint-imports",),
    "portal": ("python", "tools/portal.py", "check"),
}


@dataclass(frozen=True, slots=True)
class Counts:
    """Of one stage's tests. `failed` counts tests with errors too; `names` are theirs."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0
    names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Result:
    """How one stage or check ended. `computed` are seconds of a core, without those of the servers: where they are far fewer
    than the time on all cores, the stage waited. `failures` may be run again; `is_final`: what failed is no matter of tests.
    `cut_off` names the tests that were under way when the stage was ended at its limit of `seconds_max`."""

    name: str
    seconds: float
    computed: float
    is_ok: bool
    seconds_max: int = 0
    tests: Counts = Counts()
    failures: tuple[rerun.Failure, ...] = ()
    is_final: bool = False
    unstable: tuple[rerun.Failure, ...] = ()
    cut_off: tuple[str, ...] = ()

    def line(self) -> str:
        tests = self.tests
        counts = f"{tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped" if self.name in _stage_names() else ""
        counts += f", {len(self.unstable)} unstable" if self.unstable else ""
        ended = "ok" if self.is_ok else "FAILED"
        most = f" of {self.seconds_max:5}" if self.seconds_max else " " * 9
        return f"  {self.name:<16}{ended:<8}{self.seconds:7.1f}{most} s, {self.computed:7.1f} s of a core  {counts}".rstrip()


StartStage = Callable[..., "Running"]


def main() -> int:
    options, extra = _arguments()
    wanted = options.only or [*CHECKS, *_stages_of(options)]
    stages = [stage for stage in STAGES if stage.name in wanted]
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's background ignores it, and so would all stages.
    begin = time.monotonic()
    results: list[Result] = []
    left: list[str] = []
    if any(stage.name == "kubernetes" for stage in stages):
        _build_kubernetes()
    with contextlib.ExitStack() as stack:
        place = prepared.make_folder()
        stack.callback(lambda: left.extend(_remove(place)))
        folder = place / REPORTS
        folder.mkdir()
        start = functools.partial(_start_stage, extra=extra, folder=folder, is_long=options.long)
        checks = [name for name in CHECKS if name in wanted]
        computing = [stage for stage in stages if stage.computes]
        waiting = [stage for stage in stages if not stage.computes and not stage.alone]
        threads = stack.enter_context(concurrent.futures.ThreadPoolExecutor())
        try:
            making = _start_environments(waiting, folder)
            if any(stage.name == "browser" or stage.waits or stage.alone or stage.single for stage in stages):
                _build_portal()
            beside = threads.submit(_run_lane, computing, checks, start, folder, is_beside=bool(waiting))
            results += _run_lane(waiting, [], start, folder, making=making)
            _raise_priorities()
            results[:0] = beside.result()
            results += _run_lane([stage for stage in stages if stage.alone], [], start, folder)
            if not extra:
                results = _run_again(results, start, folder)
        except BaseException:
            _end_all()
            raise
        is_whole = not (options.only or options.check or extra)
        if is_whole or options.results:
            _keep_reports(folder, options.results or capabilities.RESULTS)
        if is_whole:
            results.append(_compare_claims(folder))
    rerun.write_unstable(UNSTABLE, [failure for result in results for failure in result.unstable])
    seconds = time.monotonic() - begin
    _report(results, seconds, left)
    if is_whole:
        _write_last_run(results, seconds, left)
    return 0 if all(result.is_ok for result in results) else 1


def _remove(place: Path) -> list[str]:
    """Remove the run's folder and all that is left of the run; what was left, in words."""
    os.environ.pop(prepared.FOLDER)
    found = remains.find(place, expected=[prepared.PREPARED, REPORTS, PYTESTS])
    remains.remove(place, found)
    return found.lines()


def _write_last_run(results: Sequence[Result], seconds: float, left: Sequence[str]) -> None:
    """Of which commit it was and how it went; `last_whole` is the commit whose run passed last with nothing uncommitted."""
    commit = _git("rev-parse", "HEAD")
    is_clean = bool(commit) and not _git("status", "--porcelain")
    is_ok = all(result.is_ok for result in results)
    last_whole = commit if is_ok and is_clean else _last_whole()
    stages = [
        {
            "name": result.name,
            "is_ok": result.is_ok,
            "seconds": round(result.seconds, 1),
            "core_seconds": round(result.computed, 1),
            **{word: getattr(result.tests, word) for word in COUNTED},
            "unstable": [failure.test for failure in result.unstable],
            "cut_off": result.cut_off,
        }
        for result in results
    ]
    document = {
        "commit": commit,
        "is_clean": is_clean,
        "is_ok": is_ok,
        "last_whole": last_whole,
        "ended_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "seconds": round(seconds, 1),
        "core_seconds": round(sum(result.computed for result in results), 1),
        **{word: sum(getattr(result.tests, word) for result in results) for word in COUNTED},
        "unstable": sum(len(result.unstable) for result in results),
        "left_behind": left,
        "stages": stages,
    }
    LAST_RUN.parent.mkdir(exist_ok=True)
    LAST_RUN.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _last_whole() -> str:
    with contextlib.suppress(OSError, ValueError):
        return str(json.loads(LAST_RUN.read_text(encoding="utf-8"))["last_whole"])
    return ""


def _git(*words: str) -> str:
    """What git says, or nothing where there is no git or no repository."""
    with contextlib.suppress(FileNotFoundError):
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if not done.returncode else ""
    return ""


def _build_portal() -> None:
    """Have the portal that platforms serve in the cache before any of them starts. One that builds it itself would wait for the
    portal's tests, which work in the same folder at a low priority. What fails is told by those who need it."""
    subprocess.run([sys.executable, str(ROOT / "tools" / "portal.py")], cwd=ROOT, stdout=subprocess.DEVNULL, check=False)


def _build_kubernetes() -> None:
    """The first time takes a quarter of an hour. Where it cannot be built the tests are skipped, which the report shows."""
    try:
        Programs.cached().build()
    except Stop as refusal:
        print(refusal, file=sys.stderr)


def _start_environments(stages: Sequence[Stage], folder: Path) -> Running | None:
    """Have what is missing of the environments of frameworks made beside the stages that come before these. Where one cannot be
    made its tests are skipped, which the report shows; why is told before the stage."""
    names = [stage.name for stage in stages]
    if FRAMEWORKS not in names or not (missing := Environments.cached().missing()):
        return None
    is_first = names[0] == FRAMEWORKS
    print(f"\n=== environments: of {', '.join(missing)}{'' if is_first else ', told when they are needed'}", flush=True)
    command = [sys.executable, "-m", "tools.frameworks", *missing]
    output = None if is_first else folder / "environments.txt"
    return _start("environments", command, os.environ, output, None, MAKING_SECONDS_MAX, priority=LOW)


def _run_lane(
    stages: Sequence[Stage],
    checks: Sequence[str],
    start: StartStage,
    folder: Path,
    *,
    is_beside: bool = False,
    making: Running | None = None,
) -> list[Result]:
    """Run stages one after the other, with static checks beside them, on servers of their own. The stage of frameworks waits
    until their environments are made."""
    results: list[Result] = []
    with contextlib.ExitStack() as stack:
        environment: Mapping[str, str] = {}
        try:
            if any(stage.with_servers for stage in stages):
                environment = stack.enter_context(servers()).environment()
        except ServerError as error:
            print(error, file=sys.stderr)
            results.append(Result("servers", 0.0, 0.0, is_ok=False))
            stages = []
        checking = [_start_check(name, folder, is_beside=is_beside) for name in checks]
        for stage in stages:
            if _is_ending.is_set():
                break
            if making is not None and stage.name == FRAMEWORKS:
                making.finish()
            results.append(start(stage, environment if stage.with_servers else {}, is_beside=is_beside).finish())
        if making is not None and making.process.returncode is None:
            making.finish()
        return [*results, *(check.finish() for check in checking)]


def _run_again(results: Sequence[Result], start: StartStage, folder: Path) -> list[Result]:
    """The results after what failed was tried again, with the reports of their stages made good."""
    stages = {stage.name: stage for stage in STAGES}
    failures = [failure for result in results for failure in result.failures]
    final = [result.name for result in results if not result.is_ok and (result.is_final or not result.failures)]
    if reason := rerun.why_not(failures, final):
        print(f"\n=== not run again: {reason}", flush=True)
        failures = []
    with contextlib.ExitStack() as stack:
        environment: Mapping[str, str] = {}
        try:
            if any(stages[failure.stage].with_servers for failure in failures):
                environment = stack.enter_context(servers()).environment()
        except ServerError as error:
            print(error, file=sys.stderr)
            failures = []

        def run(failure: rerun.Failure, number: int) -> bool:
            stage, report = stages[failure.stage], folder / "again" / f"{failure.stage}-{number}.xml"
            report.parent.mkdir(exist_ok=True)
            report.unlink(missing_ok=True)
            print(f"\n=== again ({number} of {rerun.TRIES_MAX}): {failure.test} ({stage.name})", flush=True)
            servers_of_stage = environment if stage.with_servers else {}
            start(stage, servers_of_stage, test=failure.test, report=report, is_beside=False).finish()
            if rerun.has_passed(report):
                rerun.replace_cases(folder / f"{stage.name}.xml", report)
                return True
            return False

        unstable = list(rerun.run_again(failures, run))
    return [_after_again(result, unstable, folder) for result in results]


def _after_again(result: Result, unstable: Sequence[rerun.Failure], folder: Path) -> Result:
    passed = tuple(failure for failure in unstable if failure.stage == result.name)
    if not passed:
        return result
    counts = _counts(folder / f"{result.name}.xml")
    return replace(result, tests=counts, unstable=passed, is_ok=not counts.failed)


def _stages_of(options: argparse.Namespace) -> list[str]:
    if options.check:
        return list(FOR_A_CHECK)
    missing = Programs.cached().missing() if any(stage.is_built for stage in STAGES) else []
    if missing:
        print(f"Left out: kubernetes, because {', '.join(missing)} are not built. `make kubernetes` builds them once.")
    return [stage.name for stage in STAGES if not (stage.is_built and missing) and (options.long or not stage.is_long)]


def _arguments() -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run all checks and tests, with what they need.")
    parser.add_argument("--long", action="store_true", help="also run tests marked slow")
    parser.add_argument("--check", action="store_true", help="only what needs no servers, with all static checks")
    parser.add_argument("--only", action="append", choices=[*CHECKS, *_stage_names()], help="only this one; may be repeated")
    parser.add_argument("--results", type=Path, help="keep the JUnit reports in this folder, beside those of other stages")
    options, extra = parser.parse_known_args()
    return options, [argument for argument in extra if argument != "--"]


def _start_stage(
    stage: Stage,
    servers_of_stage: Mapping[str, str],
    extra: Sequence[str],
    folder: Path,
    *,
    is_long: bool,
    is_beside: bool,
    test: str = "",
    report: Path | None = None,
) -> Running:
    """With `test`, that test of the stage and no other, on one worker, into a `report` of its own."""
    markers = stage.markers if is_long else f"({stage.markers}) and not slow"
    cores = os.cpu_count() or 1
    is_single = stage.alone or stage.single or bool(test)
    workers = 1 if is_single else min(WORKERS_MAX, round(cores * WAITING) if stage.waits else cores)
    report = report or folder / f"{stage.name}.xml"
    options = [
        f"--numprocesses={workers}",
        *(["--dist=loadfile", "--no-loadscope-reorder"] if stage.by_file else []),
        f"--timeout={TEST_SECONDS_MAX}",
        f"--junitxml={report}",
        f"--failures={_failures_of(report)}",
        f"--hypothesis-profile={'search' if is_long else 'berth'}",
    ]
    is_named = any((ROOT / word.partition("::")[0]).exists() for word in extra)  # The caller says which tests.
    places = [test] if test else [] if is_named else _places(stage, is_long=is_long)
    command = [sys.executable, "-m", "pytest", "-q", *options, "-m", markers, *places, *extra]
    environment = _environment({**servers_of_stage, "BERTH_TEST_PROFILE": stage.profile})
    if not test:
        print(f"\n=== {stage.name}: {stage.markers}{', told at its end' if is_beside else ''}", flush=True)
    output = folder / f"{stage.name}.txt" if is_beside else None
    seconds_max = stage.seconds_max * (LONGER if is_long else 1)
    return _start(stage.name, command, environment, output, report, seconds_max, priority=LOW if is_beside else None)


def _failures_of(report: Path) -> Path:
    return report.with_suffix(".jsonl")


def _under_way_of(report: Path) -> Path:
    return rerun.under_way_of(_failures_of(report))


def _places(stage: Stage, *, is_long: bool) -> list[str]:
    """The files that hold the stage's tests, the long ones first, or the folder of all where every file may. Paths are relative
    to the root."""
    if not stage.names:
        return [stage.folder]
    wanted = list(stage.only) if stage.only and not is_long else [stage.folder]
    files = [path for place in wanted for path in _test_files(ROOT / place) if f"mark.{stage.names}" in path.read_text()]
    return sorted((path.relative_to(ROOT).as_posix() for path in files), key=_place_in_line)


def _place_in_line(name: str) -> tuple[int, str]:
    return LONG.index(name) if name in LONG else len(LONG), name


def _test_files(place: Path) -> list[Path]:
    return [place] if place.is_file() else list(place.rglob("test_*.py"))


def _environment(servers_of_stage: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without its own servers, and those of the stage. What was compiled is kept for the next stage:
    each worker would spend ten seconds on it."""
    left_out = ("BERTH_DATABASE_URL", "BERTH_REDIS_URL", "PYTHONDONTWRITEBYTECODE")
    kept = {name: value for name, value in os.environ.items() if name not in left_out}
    return {**kept, "TMPDIR": str(prepared.temporary()), **servers_of_stage}


def _counts(report: Path) -> Counts:
    """From a JUnit report; one that broke off before it was written counts as one failure. A test that failed and could not be
    tidied up after has two cases."""
    if not report.exists():
        return Counts(failed=1)
    try:
        cases = list(ElementTree.parse(report).iter("testcase"))
    except ElementTree.ParseError:
        return Counts(failed=1)
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = sum(case.find("skipped") is not None for case in cases if case not in failed)
    names = dict.fromkeys(f"{case.get('classname')}::{case.get('name')}" for case in failed)
    return Counts(len(cases) - len(failed) - skipped, len(failed), skipped, tuple(names))


def _keep_reports(folder: Path, kept: Path) -> None:
    kept.mkdir(parents=True, exist_ok=True)
    for report in folder.glob("*.xml"):
        shutil.copy(report, kept)


def _compare_claims(folder: Path) -> Result:
    """Whether all claims that the page shows still hold."""
    begin = time.monotonic()
    page = capabilities.PAGE.read_text(encoding="utf-8")
    broken, others = capabilities.differences(page, capabilities.results(folder))
    if others:
        command = f"python tools/capabilities.py {capabilities.RESULTS.relative_to(ROOT)}"
        print(f"\n=== docs/capabilities.md says otherwise; `{command}` makes it anew", *others, sep="\n  ")
    if broken:
        print("\n=== claims that hold no longer", *broken, sep="\n  ", flush=True)
    return Result("capabilities", time.monotonic() - begin, 0.0, is_ok=not broken)


@dataclass
class Running:
    """A stage or a static check under way. `output` keeps what it says until it is done; None: it says so at once. A stage leaves
    a `report`."""

    name: str
    process: subprocess.Popen[bytes]
    begin: float
    output: Path | None
    report: Path | None
    seconds_max: int

    def finish(self) -> Result:
        cut_off: tuple[str, ...] | None = None
        if not has_ended(self.process.pid, self.begin + self.seconds_max - time.monotonic()):
            cut_off = self._end()
        _, status, usage = os.wait4(self.process.pid, 0)
        self.process.returncode = os.waitstatus_to_exitcode(status)
        seconds, computed = time.monotonic() - self.begin, usage.ru_utime + usage.ru_stime
        counts = _counts(self.report) if self.report else Counts()
        is_ok = self.process.returncode in ((0, NO_TESTS) if self.report else (0,)) and not counts.failed
        if self.output:
            said = self.output.read_text(errors="replace")
            print(f"\n=== {self.name}\n{said if not is_ok else said[-300:]}", end="", flush=True)
        if cut_off is not None:
            ran = cut_off or ["no test"]
            print(f"\n=== {self.name} was ended at its limit of {self.seconds_max} s; it ran:", *ran, sep="\n  ")
            is_ok = False
        del _under_way[self.process.pid]
        failures, is_whole = rerun.read_failures(_failures_of(self.report), self.name) if self.report else ([], True)
        is_pure = self.name in (stage.name for stage in STAGES if stage.is_pure)
        is_final = self._is_broken() or not is_whole or is_pure or cut_off is not None
        return Result(
            self.name,
            seconds,
            computed,
            is_ok,
            self.seconds_max,
            counts,
            tuple(failures),
            is_final=not is_ok and is_final,
            cut_off=cut_off or (),
        )

    def _end(self) -> tuple[str, ...]:
        """End it as Ctrl-C does, so that it reports what it has, then whatever it started; the tests that were under way."""
        under_way = rerun.read_under_way(_under_way_of(self.report)) if self.report else []
        with remains.held([self.process.pid, *remains.descendants(self.process.pid)]) as kill:
            os.kill(self.process.pid, signal.SIGINT)
            has_ended(self.process.pid, ENDING_SECONDS_MAX)
            kill()
        return tuple(under_way)

    def _is_broken(self) -> bool:
        """Whether it ended in another way than by having run its tests, or failed without them."""
        return self.report is None or not self.report.exists() or self.process.returncode not in (0, FAILED_TESTS, NO_TESTS)


def has_ended(pid: int, seconds: float) -> bool:
    """Wait for a child until it has ended, so long at most; it is not collected."""
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], max(seconds, 0))[0])
    finally:
        os.close(descriptor)


def _start_check(name: str, folder: Path, *, is_beside: bool) -> Running:
    program, *words = CHECKS[name]
    places = os.pathsep.join(str(ROOT / place) for place in ("", "platform", "client/src"))
    # mypy's plugin reads the settings, which need a key.
    environment = {**os.environ, "PYTHONPATH": places, "BERTH_SECRET_KEY": os.urandom(32).hex()}
    return _start(
        name,
        [str(PROGRAMS / program), *words],
        environment,
        folder / f"{name}.txt",
        None,
        CHECK_SECONDS_MAX,
        priority=OF_CHECKS if is_beside else None,
    )


def _start(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    output: Path | None,
    report: Path | None,
    seconds_max: int,
    *,
    priority: int | None = None,
) -> Running:
    """Start a process, at the caller's priority or, with one of its own, in a session of its own."""
    with contextlib.ExitStack() as stack:
        to = stack.enter_context(output.open("wb")) if output else None
        error = subprocess.STDOUT if output else None
        has_session = priority is not None  # The kernel shares its time among sessions first where it groups by them.
        process = subprocess.Popen([*command], cwd=ROOT, env=environment, stdout=to, stderr=error, start_new_session=has_session)
    _under_way[process.pid] = has_session
    if priority is not None and not _is_alone.is_set():
        _set_priority(process.pid, priority)
    return Running(name, process, time.monotonic(), output, report, seconds_max)


def _set_priority(session: int, priority: int) -> None:
    """Of all that is in a session of ours, and of the session itself where the kernel groups by them. Only root raises it."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.setpriority(os.PRIO_PGRP, session, priority)
    with contextlib.suppress(OSError):
        Path(f"/proc/{session}/autogroup").write_text(f"{priority}\n")


def _raise_priorities() -> None:
    """What ran beside others has the machine to itself from now on."""
    _is_alone.set()
    for process, has_session in list(_under_way.items()):
        if has_session:
            _set_priority(process, 0)


_is_alone = threading.Event()
_under_way: dict[int, bool] = {}  # By process, whether it has a session of its own, which no key of a terminal ends.
_is_ending = threading.Event()


def _end_all() -> None:
    _is_ending.set()
    for process, has_session in list(_under_way.items()):
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if has_session else os.kill)(process, signal.SIGTERM)


def _report(results: Sequence[Result], seconds: float, left: Sequence[str] = ()) -> None:
    print("\n=== durations")
    for result in results:
        print(result.line())
    print(f"  {'all':<24}{seconds:7.1f}{'':9} s, {sum(result.computed for result in results):7.1f} s of a core")
    if left:
        print("\n=== left behind, and removed now", *left, sep="\n  ")
    broken = [result.name for result in results if not result.is_ok]
    if broken:
        print(f"\nNot passed: {', '.join(broken)}")
    for result in results:
        for name in result.tests.names:
            print(f"  {name} ({result.name})")
    unstable = [failure for result in results for failure in result.unstable]
    for failure in unstable:
        print(f"\n=== unstable: {failure.test} ({failure.stage}, load {failure.load}); its first failure:\n{failure.error}")
    print(f"\nunstable: {len(unstable)} ({UNSTABLE.relative_to(ROOT)})")
    totals = [sum(getattr(result.tests, name) for result in results) for name in ("passed", "failed", "skipped")]
    print(f"{totals[0]} passed, {totals[1]} failed, {totals[2]} skipped", flush=True)


def _stage_names() -> list[str]:
    return [stage.name for stage in STAGES]


if __name__ == "__main__":
    sys.exit(main())
