"""What `make test` runs, and that what runs on one database alone is left out on purpose."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import testrun

ROOT = Path(__file__).resolve().parents[3]
ALSO = [*testrun.ALSO_ON_SQLITE, *testrun.ENGINES_ALSO_ON_SQLITE]
STAGES = {stage.name: stage for stage in testrun.STAGES}


@pytest.mark.parametrize("place", ALSO)
def test_what_runs_on_sqlite_too_is_there(place: str) -> None:
    files = testrun._test_files(ROOT / place)

    assert any("mark.database" in path.read_text() for path in files)


def test_every_app_is_walked_through_on_sqlite() -> None:
    apps = {path.parent.name for path in (ROOT / "tests" / "api").glob("*/test_*.py") if "mark.database" in path.read_text()}
    walked = {place.split("/")[2] for place in testrun.ALSO_ON_SQLITE if place.startswith("tests/api/")}

    assert walked == apps


@pytest.mark.parametrize("stage", [stage for stage in testrun.STAGES if stage.names], ids=lambda stage: stage.name)
def test_a_stage_reads_only_files_that_say_a_marker_of_all_its_tests(stage: testrun.Stage) -> None:
    assert stage.names in stage.markers.split(" and ")


@pytest.mark.parametrize("name", ["postgresql", "engines"])
def test_on_servers_everything_runs(name: str) -> None:
    stage = STAGES[name]
    said = [path for path in (ROOT / "tests").rglob("test_*.py") if f"mark.{stage.names}" in path.read_text()]

    assert sorted(testrun._places(stage, is_long=False)) == sorted(path.relative_to(ROOT).as_posix() for path in said)


@pytest.mark.parametrize("stage", [stage for stage in testrun.STAGES if stage.by_file], ids=lambda stage: stage.name)
def test_long_files_come_first_where_a_file_keeps_its_worker(stage: testrun.Stage) -> None:
    places = testrun._places(stage, is_long=False)
    long = [name for name in testrun.LONG if name in places]

    assert places[: len(long)] == long
    assert places[len(long) :] == sorted(places[len(long) :])


def test_every_long_file_is_one_of_a_stage() -> None:
    places = {name for stage in testrun.STAGES if stage.by_file for name in testrun._places(stage, is_long=False)}

    assert set(testrun.LONG) <= places


def test_with_full_lengths_nothing_is_left_out_on_sqlite() -> None:
    assert testrun._places(STAGES["sqlite"], is_long=True) == testrun._places(STAGES["postgresql"], is_long=True)
    assert testrun._places(STAGES["engines-sqlite"], is_long=True) == testrun._places(STAGES["engines"], is_long=True)


def test_a_check_starts_no_server() -> None:
    options = argparse.Namespace(check=True, long=False)

    assert [STAGES[name].with_servers for name in testrun._stages_of(options)] == [False, False]


def test_what_runs_beside_a_stage_is_counted_and_its_output_kept(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo told; exit 1"]
    running = testrun._start("plain", command, dict(os.environ), tmp_path / "plain.txt", None, seconds_max=600)
    result = running.finish()

    assert (tmp_path / "plain.txt").read_text().split() == ["told"]
    assert not result.is_ok
    assert result.computed > 0


def test_a_marker_that_its_file_does_not_say_is_refused(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    """Otherwise no stage would read the file, and the test would never run."""
    conftest = request.config.pluginmanager.get_plugin(str(ROOT / "tests" / "conftest.py"))
    silent = tmp_path / "test_silent.py"
    silent.write_text("def test_it(): ...\n")
    item = SimpleNamespace(path=silent, nodeid="test_silent.py::test_it", iter_markers=lambda: [pytest.mark.engines.mark])
    assert conftest is not None

    with pytest.raises(pytest.UsageError, match=r"test_silent\.py::test_it is marked engines"):
        conftest.pytest_collection_modifyitems([item])


def test_tests_that_failed_are_named_at_the_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "api.xml").write_text("""<testsuites><testsuite tests="4" failures="1" errors="1" skipped="1">
        <testcase classname="tests.api.test_a" name="test_good"/>
        <testcase classname="tests.api.test_a" name="test_bad[1]"><failure message="no"/></testcase>
        <testcase classname="tests.api.test_b" name="test_broken"><error message="no"/></testcase>
        <testcase classname="tests.api.test_b" name="test_left_out"><skipped/></testcase>
    </testsuite></testsuites>""")

    counts = testrun._counts(tmp_path / "api.xml")
    testrun._report([testrun.Result("api", 1.0, 1.0, is_ok=False, tests=counts)], 1.0)

    assert (counts.passed, counts.failed, counts.skipped) == (1, 2, 1)
    told = capsys.readouterr().out
    assert "  tests.api.test_a::test_bad[1] (api)\n  tests.api.test_b::test_broken (api)\n" in told
    assert "test_good" not in told


def test_a_stage_whose_programs_are_not_built_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    options = argparse.Namespace(check=False, long=False)
    monkeypatch.setenv("BERTH_CACHE", str(tmp_path))
    assert "kubernetes" not in testrun._stages_of(options)
    assert "kube-apiserver" in capsys.readouterr().out
    monkeypatch.setattr(testrun.Programs, "missing", lambda _: [])
    assert "kubernetes" in testrun._stages_of(options)


def test_tests_of_frameworks_are_in_their_folder_and_of_no_other_stage() -> None:
    folder = ROOT / "tests" / "frameworks"
    said = [path for path in (ROOT / "tests").rglob("test_*.py") if "pytestmark = pytest.mark.frameworks\n" in path.read_text()]

    assert said == testrun._test_files(folder)


def test_environments_are_ready_before_their_stage_and_no_stage_before_waits_for_them(tmp_path: Path) -> None:
    made, seen = tmp_path / "made", []
    command = ["sh", "-c", f"while ! test -e {tmp_path}/first; do sleep 0.05; done; touch {made}"]
    making = testrun._start("environments", command, dict(os.environ), tmp_path / "made.txt", None, 60)

    def start(stage: testrun.Stage, *_: object, **__: object) -> SimpleNamespace:
        seen.append((stage.name, made.exists()))
        (tmp_path / "first").touch()
        return SimpleNamespace(finish=lambda: testrun.Result(stage.name, 0.0, 0.0, is_ok=True))

    stages = [testrun.Stage(name, name, with_servers=False, seconds_max=60) for name in ("engines", testrun.FRAMEWORKS)]
    testrun._run_lane(stages, [], start, tmp_path, making=making)

    assert seen == [("engines", False), (testrun.FRAMEWORKS, True)]


def test_the_stage_of_frameworks_leaves_the_stages_before_it_time_to_make_environments() -> None:
    names = [stage.name for stage in testrun.STAGES]

    assert names.index("engines") < names.index(testrun.FRAMEWORKS) < names.index("browser")
