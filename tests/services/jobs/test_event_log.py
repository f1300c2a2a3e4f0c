"""The scheduler's event log: a past hour is decided again to the byte, also after a kill, and nothing waits for its disk."""

from __future__ import annotations

import io
import os
import zlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from django.core.management import call_command
from structlog.testing import capture_logs

from jobs.reconcile import event_log
from jobs.reconcile.driver import SchedulerDriver
from jobs.scheduling.core.state.decisions import Admit
from jobs.scheduling.replay.log import log_lines, read_log
from jobs.scheduling.replay.recorder import decide_again
from kernel.config import Config
from tests.builders.again import decided_alike
from tests.builders.quay import Quay
from tests.factories.clusters import node_facts
from tests.factories.tenants import Cast

pytestmark = pytest.mark.database
Configure = Callable[..., Config]
GPU = {"resources": {"gpu": 1, "memory": "1Gi"}}


@pytest.fixture
def quay(cast: Cast) -> Quay:
    return Quay(cast, nodes=[node_facts(f"node-{number}", cores=64, gpus=4) for number in range(2)])


def some_work(quay: Quay, jobs: int = 6) -> None:
    for number in range(jobs):
        quay.submit(f"job-{number}", priority=(100, 500)[number % 2], **GPU)
    quay.settle()


def the_files() -> list[Path]:
    return [kept.path for kept in event_log.files(event_log.folder())]


def test_what_was_decided_is_decided_again_from_the_files_alone(quay: Quay) -> None:
    some_work(quay)
    quay.driver.forget()
    [file] = the_files()
    log = read_log(event_log.lines(file))  # It was closed, so it is whole.
    assert sum(isinstance(decision, Admit) for decided in log.passes for decision in decided.decisions) == 6
    found = decide_again(log)
    assert (found.passes, found.difference) == (len(log.passes), None)


def test_the_next_leader_goes_on_in_a_file_of_its_own(quay: Quay) -> None:
    quay.submit("first", **GPU)
    quay.turn()
    quay.driver = SchedulerDriver()
    quay.submit("second", **GPU)
    quay.turn()
    quay.driver.forget()
    assert len(the_files()) == 2
    assert decided_alike(event_log.folder()) == 1  # The first file was not closed, so its last pass may be half.


def test_a_file_that_was_cut_off_anywhere_is_whole_as_far_as_it_goes(quay: Quay) -> None:
    for number in range(20):
        quay.submit(f"job-{number}", **GPU)
        quay.turn()
    [file] = the_files()
    data, passes = file.read_bytes(), 0
    for kept in range(len(data) // 2, len(data), len(data) // 64):
        file.write_bytes(data[:kept])
        found = decide_again(read_log(event_log.lines(file), is_open=True))
        assert found.difference is None
        assert found.passes >= passes
        passes = found.passes
    assert passes


def test_where_it_cannot_be_written_scheduling_goes_on_without_it(quay: Quay) -> None:
    event_log.folder().mkdir(exist_ok=True)
    event_log.folder().rmdir()
    event_log.folder().write_text("in the way")
    try:
        with capture_logs() as said:
            some_work(quay, 2)
    finally:
        event_log.folder().unlink()
    assert [event["event"] for event in said].count("event_log_not_written") == 1


def test_without_room_for_it_there_is_none(quay: Quay, configure: Configure) -> None:
    configure(scheduler_log_bytes=0)
    some_work(quay, 2)
    assert the_files() == []


def test_a_day_is_a_file_and_the_oldest_make_room(quay: Quay, configure: Configure) -> None:
    some_work(quay, 1)
    quay.submit("holds-on", hold=True, **GPU)
    quay.turn()
    quay.pass_time(event_log.FILE_SECONDS)
    quay.turn()
    first, second = the_files()
    assert first.name < second.name
    configure(scheduler_log_bytes=second.stat().st_size)
    event_log.drop_old(event_log.folder(), quay.now)
    assert the_files() == [second]
    old = (quay.now - timedelta(days=15)).timestamp()
    os.utime(second, (old, old))
    event_log.drop_old(event_log.folder(), quay.now)
    assert the_files() == []


def test_a_file_that_is_too_large_is_followed_by_another_though_not_at_every_pass(quay: Quay, configure: Configure) -> None:
    configure(scheduler_log_bytes=event_log.FILES_IN_ALL)
    quay.submit("holds-on", hold=True, **GPU)
    for _ in range(5):
        quay.turn()
        quay.pass_time(1)
    assert len(the_files()) == 1
    first = the_files()[0].name
    quay.pass_time(event_log.FILE_SECONDS_MIN)
    quay.turn()
    [kept] = the_files()  # There is no room for both.
    assert kept.name > first


def test_the_command_says_that_all_is_the_same_or_which_pass_is_not(quay: Quay, tmp_path: Path) -> None:
    some_work(quay)
    quay.driver.forget()
    said = io.StringIO()
    call_command("replay_decisions", stdout=said)
    assert said.getvalue().strip().endswith("all the same")
    [file] = the_files()
    log = read_log(event_log.lines(file))
    out_of_service = tuple(replace(machine, blocked="cordoned") for machine in log.state.machines)
    otherwise, said = tmp_path / "otherwise.jsonl.gz", io.StringIO()
    otherwise.write_bytes(packed(log_lines(replace(log, state=replace(log.state, machines=out_of_service)))))
    with pytest.raises(SystemExit, match="1 of 1 files are decided otherwise now"):
        call_command("replay_decisions", str(otherwise), stdout=said)
    what, then, now = said.getvalue().splitlines()
    assert "is decided otherwise" in what
    assert "Admit" in then
    assert "Wait" in now


@pytest.mark.parametrize(
    ("content", "told"),
    [(b"hello", "is no event log"), (b"", "no line of kind state"), ("empty", "no line of kind state")],
)
def test_another_file_is_told_as_one(content: bytes | str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "other.jsonl.gz"
    path.write_bytes(content if isinstance(content, bytes) else packed([]))
    with pytest.raises(SystemExit, match=told):
        call_command("replay_decisions", str(path))


def test_no_log_of_that_time_is_told_with_the_settings_that_decide_about_it() -> None:
    with pytest.raises(SystemExit, match="BERTH_SCHEDULER_LOG_DAYS"):
        call_command("replay_decisions", "--from", "2030-01-01")


def test_a_time_that_ends_before_it_begins_is_told_as_that() -> None:
    with pytest.raises(SystemExit, match="--to lies before --from"):
        call_command("replay_decisions", "--from", "2026-11-24", "--to", "2026-11-20")


def packed(lines: Iterable[str]) -> bytes:
    packer = zlib.compressobj(wbits=event_log.GZIP)
    return packer.compress("".join(f"{line}\n" for line in lines).encode()) + packer.flush()


def test_names_that_are_no_moments_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / f"notes{event_log.SUFFIX}").write_bytes(b"")
    (tmp_path / f"20261123T054853Z-7-000{event_log.SUFFIX}").write_bytes(b"")
    assert [kept.begins_at for kept in event_log.files(tmp_path)] == [datetime.fromisoformat("2026-11-23T05:48:53Z")]
