"""What every engine does, with the same jobs and the same states on each."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from clusters.engines.interface import (
    AddressOf,
    CheckpointRef,
    Ensured,
    ExitReason,
    FileOf,
    Forgotten,
    GiveUp,
    Gone,
    Observations,
    PortOf,
    Retry,
    Stop,
    StopCause,
    Stopping,
    Stream,
    SupportsOutputs,
    TaskName,
    TaskState,
)
from tests.contract.engines.bench import (
    Behaviour,
    Bench,
    Script,
    cannot_start,
    dies,
    ends_politely,
    fails,
    hogs_memory,
    ignores_signals,
    leaves_files,
    reads_saved,
    runs_on,
    saves,
    saves_on,
    succeeds,
    writes,
)

pytestmark = pytest.mark.engines
FIRST = TaskName("worker", 0)


def stop(attempt_id: uuid.UUID, grace_seconds: float = 60.0, cause: StopCause = StopCause.USER) -> Stop:
    return Stop(attempt_id, grace_seconds, cause)


def test_a_job_that_succeeds_ends_with_code_0(bench: Bench) -> None:
    workload = bench.start(succeeds())
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert (task.state, task.exit and task.exit.code) == (TaskState.ENDED, 0)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.NONE
    assert task.exit.stop_cause is None
    assert task.started_at is not None
    assert task.ended_at is not None


@pytest.mark.parametrize("code", [1, 3, 42, 255])
def test_an_exit_code_is_kept(bench: Bench, code: int) -> None:
    workload = bench.start(fails(code))
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.signal, task.exit.reason) == (code, None, ExitReason.NONE)


@pytest.mark.parametrize("number", [6, 9, 11])
def test_a_death_by_signal_is_told_with_its_number_and_not_as_a_stop(bench: Bench, number: int) -> None:
    workload = bench.start(dies(number))
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.signal, task.exit.reason) == (128 + number, number, ExitReason.NONE)


def test_a_program_that_cannot_be_executed_is_a_failed_start_and_not_an_exit_of_the_job(bench: Bench) -> None:
    workload = bench.start(cannot_start())
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.START_FAILED
    assert "/nonexistent/program" in task.exit.evidence


def test_a_job_that_itself_ends_with_127_did_start(bench: Bench) -> None:
    workload = bench.start(fails(127))
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.reason is ExitReason.NONE


def test_ensure_twice_starts_once(bench: Bench) -> None:
    workload = bench.start(writes(b"once\n"))
    assert bench.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=False)]
    bench.wait_for_end(workload.attempt_id)
    assert bench.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=False)]
    assert bench.read_all(workload.attempt_id, FIRST) == b"once\n"


def test_a_batch_has_one_answer_per_item_in_order(bench: Bench) -> None:
    known, forgotten, new = bench.start(runs_on()), bench.workload(succeeds()), bench.workload(succeeds())
    assert bench.engine.stop([stop(forgotten.attempt_id)]) == [Gone(forgotten.attempt_id)]
    answers = bench.engine.ensure([new, forgotten, known])
    assert answers[0] == Ensured(new.attempt_id, created=True)
    assert isinstance(answers[1], GiveUp)
    assert answers[1].code == "attempt_forgotten"
    assert answers[2] == Ensured(known.attempt_id, created=False)
    assert bench.engine.stop([stop(known.attempt_id), stop(forgotten.attempt_id)]) == [
        Stopping(known.attempt_id),
        Gone(forgotten.attempt_id),
    ]


def test_nothing_asked_is_nothing_answered(bench: Bench) -> None:
    assert list(bench.engine.ensure([])) == list(bench.engine.stop([])) == list(bench.engine.forget([])) == []


def test_a_polite_stop_lets_the_job_end_itself_and_keeps_code_and_cause(bench: Bench) -> None:
    workload = bench.start(ends_politely(7))
    bench.wait_for_output(workload.attempt_id, b"ready")
    assert bench.engine.stop([stop(workload.attempt_id, cause=StopCause.PREEMPTED)]) == [Stopping(workload.attempt_id)]
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.reason, task.exit.stop_cause) == (7, ExitReason.STOPPED, StopCause.PREEMPTED)


@pytest.mark.parametrize(
    ("name", "cause"), [("TERM", StopCause.USER), ("USR1", StopCause.PREEMPTED), ("INT", StopCause.DEADLINE)]
)
def test_the_signal_and_the_grace_are_the_programs_in_whatever_form_its_command_is_written(
    bench: Bench, engine_dir: Path, name: str, cause: StopCause
) -> None:
    if bench.is_fake:
        pytest.skip("a pretended task has no processes")
    if bench.name == "kubernetes" and name != "USR1":
        pytest.skip("a pod for each form takes long; the wrapper's own tests send the others")
    kept = kept_in(engine_dir, "mine")
    workload = bench.start(*(saves_on(name, form) for form in bench.forms), checkpoint=kept)
    bench.wait_for_start(workload.attempt_id)
    for task in workload.tasks:
        bench.wait_for_output(workload.attempt_id, b"ready", task.name)
    bench.engine.stop([Stop(workload.attempt_id, 60, cause, signal=name)])
    ended = bench.wait_for_end(workload.attempt_id)
    assert sorted(path.name for path in Path(kept.location).iterdir()) == sorted(bench.forms)
    assert {task.exit.stop_cause for task in ended if task.exit} == {cause}


def test_a_job_that_ignores_the_signal_is_killed_after_the_grace(bench: Bench) -> None:
    workload = bench.start(ignores_signals())
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.engine.stop([stop(workload.attempt_id, grace_seconds=0.3, cause=StopCause.DEADLINE)])
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.signal) == (137, 9)
    assert (task.exit.reason, task.exit.stop_cause) == (ExitReason.STOPPED, StopCause.DEADLINE)


def test_a_second_stop_shortens_the_grace_and_the_first_cause_stands(bench: Bench) -> None:
    workload = bench.start(ignores_signals())
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.engine.stop([stop(workload.attempt_id, grace_seconds=3_600, cause=StopCause.USER)])
    bench.engine.stop([stop(workload.attempt_id, grace_seconds=0, cause=StopCause.PLATFORM)])
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.stop_cause is StopCause.USER


def test_stopping_what_has_ended_changes_nothing(bench: Bench) -> None:
    workload = bench.start(fails(5))
    before = bench.wait_for_end(workload.attempt_id)
    assert bench.engine.stop([stop(workload.attempt_id)]) == [Gone(workload.attempt_id)]
    assert bench.wait_for_end(workload.attempt_id) == before


def test_an_attempt_stopped_before_it_was_seen_never_starts(bench: Bench) -> None:
    workload = bench.workload(succeeds())
    assert bench.engine.stop([stop(workload.attempt_id)]) == [Gone(workload.attempt_id)]
    (answer,) = bench.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert answer.code == "attempt_forgotten"
    assert bench.see(workload.attempt_id) is None


def test_a_forgotten_attempt_is_absent_and_refused(bench: Bench) -> None:
    workload = bench.start(succeeds())
    bench.wait_for_end(workload.attempt_id)
    bench.wait_until(lambda: bench.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)], "forgetting")
    assert bench.see(workload.attempt_id) is None
    (answer,) = bench.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert bench.engine.stop([stop(workload.attempt_id)]) == [Gone(workload.attempt_id)]
    assert bench.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]


def test_what_runs_is_not_forgotten(bench: Bench) -> None:
    workload = bench.start(runs_on())
    (answer,) = bench.engine.forget([workload.attempt_id])
    assert isinstance(answer, Retry)
    assert bench.see(workload.attempt_id) is not None


def test_a_gang_starts_together_and_each_task_ends_by_itself(bench: Bench) -> None:
    workload = bench.start(fails(1), runs_on(), succeeds())
    bench.wait_until(lambda: _states(bench, workload.attempt_id).count(TaskState.ENDED) == 2, "two ends")
    assert _states(bench, workload.attempt_id)[1] is TaskState.RUNNING
    bench.engine.stop([stop(workload.attempt_id, cause=StopCause.COMPLETION)])
    first, second, third = bench.wait_for_end(workload.attempt_id)
    assert first.exit is not None
    assert first.exit.reason is ExitReason.NONE
    assert second.exit is not None
    assert second.exit.stop_cause is StopCause.COMPLETION
    assert third.exit is not None
    assert third.exit.code == 0


@pytest.mark.capability("85", "Addresses, ports and files are the same for all tasks")
def test_addresses_ports_and_files_are_filled_in_alike_for_all_tasks(bench: Bench) -> None:
    if bench.is_fake:
        pytest.skip("a pretended task reads no environment")
    show = Behaviour('echo "$PEER"; cat "$HOSTS"', Script())
    env = {"PEER": (AddressOf("worker", 1), ":", PortOf("worker", 1, "main")), "HOSTS": (FileOf("hosts"),)}
    files = {"hosts": (AddressOf("worker", 0), " slots=1\n")}
    workload = bench.start(show, show, env=env, files=files, ports=("main",))
    first, second = bench.wait_for_end(workload.attempt_id)
    expected = f"{second.address}:{second.ports['main']}\n{first.address} slots=1\n".encode()
    assert bench.read_all(workload.attempt_id, FIRST) == expected
    assert bench.read_all(workload.attempt_id, TaskName("worker", 1)) == expected
    assert first.ports["main"] != second.ports["main"]


def test_ports_of_live_attempts_differ(bench: Bench) -> None:
    attempts = [bench.start(runs_on(), runs_on(), ports=("a", "b")) for _ in range(3)]
    ports = [port for each in attempts for task in bench.see(each.attempt_id).tasks for port in task.ports.values()]  # type: ignore[union-attr]
    assert len(set(ports)) == len(ports) == 12


def test_output_is_given_byte_by_byte_and_by_stream(bench: Bench) -> None:
    out, err = bytes(range(256)), b"warning\n"
    workload = bench.start(writes(out, err))
    bench.wait_for_end(workload.attempt_id)
    assert bench.read_all(workload.attempt_id, FIRST) == out
    assert bench.read_all(workload.attempt_id, FIRST, Stream.ERR) == err


@pytest.mark.capability("41", "Logs are resumed by offset without gap or repeat")
def test_output_goes_on_from_a_cursor_without_gap_or_repeat(bench: Bench) -> None:
    workload = bench.start(writes(b"0123456789"))
    bench.wait_for_end(workload.attempt_id)
    rest = bench.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 4)
    assert [(chunk.offset, chunk.data) for chunk in rest.chunks] == [(4, b"456789")]
    assert (rest.cursor, rest.complete) == (10, True)
    assert bench.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 10).chunks == ()


def test_the_log_of_a_running_task_is_not_complete(bench: Bench) -> None:
    workload = bench.start(ends_politely(0))
    bench.wait_for_output(workload.attempt_id, b"ready\n")
    chunks = bench.engine.logs(workload.attempt_id, FIRST, Stream.OUT, len(b"ready\n"))
    assert (chunks.chunks, chunks.complete) == ((), False)


def test_output_past_the_quota_is_dropped_with_a_marker_that_counts_it(bench: Bench) -> None:
    workload = bench.start(writes(b"x" * 1_000), log_quota_bytes=600)
    bench.wait_for_end(workload.attempt_id)
    chunks = bench.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 0)
    assert b"".join(chunk.data for chunk in chunks.chunks) == b"x" * 600
    marker = chunks.chunks[-1]
    assert (marker.offset, marker.skipped_bytes, bool(marker.marker)) == (600, 400, True)
    assert (chunks.cursor, chunks.complete) == (1_000, True)


def test_a_job_runs_on_through_a_restart_of_the_platform_and_its_end_is_seen(bench: Bench) -> None:
    workload = bench.start(ends_politely(9))
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.restart()
    assert _states(bench, workload.attempt_id) == [TaskState.RUNNING]
    assert bench.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=False)]
    bench.engine.stop([stop(workload.attempt_id)])
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 9


def test_a_grace_ends_on_time_although_the_platform_restarted_in_between(bench: Bench) -> None:
    workload = bench.start(ignores_signals())
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.engine.stop([stop(workload.attempt_id, grace_seconds=0.5, cause=StopCause.PREEMPTED)])
    bench.restart()
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.signal, task.exit.stop_cause) == (9, StopCause.PREEMPTED)


def test_an_end_is_remembered_through_a_restart(bench: Bench) -> None:
    workload = bench.start(fails(4))
    before = bench.wait_for_end(workload.attempt_id)
    bench.restart()
    assert bench.wait_for_end(workload.attempt_id) == before


def test_a_complete_observation_has_every_attempt_and_no_other(bench: Bench) -> None:
    attempts = [bench.start(runs_on()) for _ in range(3)]
    bench.workload(succeeds())
    looks: list[Observations] = []

    def is_whole() -> bool:
        looks.append(bench.engine.observe(None))
        return looks[-1].complete

    bench.wait_until(is_whole, "a complete observation")  # An engine to which lists are dear does not give one each time.
    assert {item.attempt_id for item in looks[-1].items} == {each.attempt_id for each in attempts}


@pytest.mark.capability("32", "A task above its memory is ended and named out of memory, and only it")
def test_only_the_task_above_its_memory_ends_for_memory(bench: Bench) -> None:
    workload = bench.start(hogs_memory(), runs_on())
    bench.wait_until(lambda: _states(bench, workload.attempt_id)[0] is TaskState.ENDED, "the end of the hog")
    seen = bench.see(workload.attempt_id)
    assert seen is not None
    hog, other = seen.tasks
    assert hog.exit is not None
    assert (hog.exit.reason, hog.exit.stop_cause) == (ExitReason.OOM, None)
    assert hog.exit.evidence
    assert other.state is TaskState.RUNNING


def test_the_inventory_names_nodes_with_capacity_and_says_how_tenants_are_kept_apart(bench: Bench) -> None:
    inventory = bench.engine.inventory()
    assert inventory.isolation
    for node in inventory.nodes:
        assert node.name
        assert node.capacity.cpu_millis > 0
        assert node.capacity.memory_bytes > 0


def _states(bench: Bench, attempt_id: uuid.UUID) -> list[TaskState]:
    seen = bench.see(attempt_id)
    assert seen is not None
    return [task.state for task in seen.tasks]


def kept_in(directory: Path, job: str) -> CheckpointRef:
    return CheckpointRef(uuid.uuid4(), str(directory / "checkpoints" / "tenant" / job), "ckpt")


def test_what_an_attempt_saved_is_there_for_the_next_one_of_its_job_and_for_no_other(bench: Bench, engine_dir: Path) -> None:
    mine, others = kept_in(engine_dir, "mine"), kept_in(engine_dir, "others")
    first = bench.start(saves(b"7"), checkpoint=mine)
    bench.wait_for_end(first.attempt_id)
    assert bench.engine.forget([first.attempt_id]) == [Forgotten(first.attempt_id)]
    bench.restart()
    second, other = bench.start(reads_saved(), checkpoint=mine), bench.start(reads_saved(), checkpoint=others)
    for attempt, expected in ((second, b"7"), (other, b"")):
        bench.wait_for_end(attempt.attempt_id)
        assert bench.read_all(attempt.attempt_id, FIRST) == expected


def test_what_a_task_left_is_read_after_its_end_until_it_is_forgotten(bench: Bench) -> None:
    if not isinstance(bench.engine, SupportsOutputs):
        pytest.skip("this engine gives no files back")
    workload = bench.start(leaves_files(), keeps_outputs=True)
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.engine.stop([stop(workload.attempt_id)])
    bench.wait_for_end(workload.attempt_id)
    bench.restart()
    engine = bench.engine
    assert isinstance(engine, SupportsOutputs)
    listed = {file.path: file for file in engine.list_outputs(workload.attempt_id, ["model"])}
    odd = r"model/two\x0alines \\ 100%s"
    assert set(listed) == {"model/part/w", "model/run", odd, "model/empty", "model/large", "model/last"}
    assert (listed["model/large"].size_bytes, listed["model/run"].mode & 0o777) == (20_000_000, 0o750)
    contents = {}
    for path in sorted(listed):
        with os.fdopen(engine.open_output(workload.attempt_id, path), "rb") as file:
            contents[path] = file.read()
    assert contents.pop("model/large") == bytes(20_000_000)
    assert contents == {
        "model/part/w": b"weights",
        "model/run": b"#!/bin/sh",
        odd: b"odd",
        "model/empty": b"",
        "model/last": b"saved",
    }
    assert {file.path for file in engine.list_outputs(workload.attempt_id, ["oth*", "model/e*"])} == {"model/empty", "other"}
    with pytest.raises(OSError, match="link"):
        engine.open_output(workload.attempt_id, "model/link")
    assert bench.engine.forget([workload.attempt_id]) == [Forgotten(workload.attempt_id)]
