"""What only the local engine can be asked: crashes at any moment, reboots, reused pids, strays, simulated GPUs, metrics."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import random
import signal
import subprocess
import tarfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import (
    CheckpointRef,
    CodeRef,
    EngineUnreachable,
    Ensured,
    ExitReason,
    GiveUp,
    Gone,
    HostDir,
    ImageKind,
    ImageRef,
    MountRef,
    Retry,
    Stop,
    StopCause,
    Stream,
    SupportsLogMarks,
    SupportsMetrics,
    SupportsOutputs,
    TaskName,
    TaskState,
    Workload,
)
from clusters.engines.local import LocalEngine, exits, plan, records
from clusters.engines.local.launching import DirectLauncher, LauncherClient, LauncherRefused, start_child, syscalls
from clusters.engines.local.launching.verbs import SeenProcess, SignalAttempt, StartAttempt, Started
from clusters.engines.local.leases import Lease
from clusters.engines.local.watch import Known
from clusters.telemetry.metrics import METRICS, kind_of
from jobs.lifecycle.exits import find_class
from kernel.limits import LOG_AHEAD_BYTES, LOG_READ_BYTES
from kernel.resources import Resources
from tests.contract.engines.bench import (
    IS_ROOT,
    Behaviour,
    Bench,
    config_of,
    end_everything,
    ends_politely,
    fails,
    ignores_signals,
    local_bench,
    open_bench,
    policy_of,
    runs_on,
    succeeds,
    writes,
)

pytestmark = pytest.mark.engines
FIRST = TaskName("worker", 0)


@pytest.fixture
def local(engine_dir: Path) -> Iterator[Bench]:
    with open_bench("local", engine_dir) as opened:
        yield opened


@pytest.fixture(params=["local", "no-root", "bare"])
def any_local(request: pytest.FixtureRequest, engine_dir: Path) -> Iterator[Bench]:
    with open_bench(request.param, engine_dir) as opened:
        yield opened


def attempt_dir(bench: Bench, workload: Workload) -> Path:
    assert isinstance(bench.engine, LocalEngine)
    return Path(bench.engine.config.root) / "attempts" / str(workload.attempt_id)


def shell(text: str) -> Behaviour:
    return Behaviour(text, Script())


def with_gpus(workload: Workload, *gpu_millis: int) -> Workload:
    tasks = [
        replace(task, resources=Resources(1000, 256 << 20, millis))
        for task, millis in zip(workload.tasks, gpu_millis, strict=True)
    ]
    return replace(workload, tasks=tuple(tasks))


# --- Processes -------------------------------------------------------------------------------------------------------


def test_children_that_left_tree_and_session_end_with_their_task(any_local: Bench) -> None:
    code = "import os, time; os.fork() and os._exit(0); os.setsid(); os.fork() and os._exit(0); time.sleep(987)"
    stray = f"/usr/bin/python3 -c '{code}'"
    workload = any_local.start(shell(f"{stray} & sleep 0.3; echo ready; exit 4"))
    (task,) = any_local.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 4
    assert _processes_of(workload) == []


def test_a_task_that_ends_between_two_looks_has_ended_once_its_children_have(
    any_local: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one look ends what it left, the other says that it ended: where the exit comes in between, the next look does both."""
    assert isinstance(any_local.engine, LocalEngine)
    watch = any_local.engine._watch
    stray = "/usr/bin/python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(987)'"
    workload = any_local.start(shell(f"{stray}; echo ready; sleep 2; exit 4"))
    any_local.wait_for_output(workload.attempt_id, b"ready")
    end_leftovers, exit_file = watch._end_leftovers, watch._control(str(workload.attempt_id), f"{FIRST}.exit")

    def between(found: Sequence[Known]) -> set[tuple[str, str]]:
        ended = end_leftovers(found)
        any_local.wait_until(lambda: exits.read_exit(exit_file) is not None, "the exit")
        return ended

    monkeypatch.setattr(watch, "_end_leftovers", between)
    watch.observe()
    monkeypatch.undo()
    (task,) = any_local.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 4
    assert _processes_of(workload) == []


@pytest.mark.capability("9", "A stop ends the whole tree of processes, also children that left it")
def test_a_stop_kills_children_that_left_tree_and_session(any_local: Bench) -> None:
    stray = "/usr/bin/python3 -c 'import os, time; os.fork() and os._exit(0); os.setsid(); time.sleep(987)'"
    workload = any_local.start(shell(f"trap '' TERM; {stray}; echo ready; while :; do sleep 0.05; done"))
    any_local.wait_for_output(workload.attempt_id, b"ready")
    assert _processes_of(workload) != []
    any_local.engine.stop([Stop(workload.attempt_id, 0.1, StopCause.USER)])
    any_local.wait_for_end(workload.attempt_id)
    assert _processes_of(workload) == []


def test_a_task_that_forks_as_fast_as_it_is_killed_is_killed(local: Bench) -> None:
    bomb = "import os, time\ntry:\n  while 1: os.fork() or time.sleep(0.001)\nexcept OSError: time.sleep(9)"
    workload = local.start(shell(f"ulimit -p 400; echo ready; exec /usr/bin/python3 -c '{bomb}'"))
    local.wait_for_output(workload.attempt_id, b"ready")
    local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)])
    local.wait_for_end(workload.attempt_id)
    assert _processes_of(workload) == []


def test_a_task_has_a_session_of_its_own_and_default_signals(local: Bench) -> None:
    workload = local.start(shell("grep -E '^Sig(Ign|Blk)' /proc/self/status; ulimit -v; exec sleep 1000"))
    local.wait_for_output(workload.attempt_id, b"unlimited")
    seen = local.see(workload.attempt_id)
    assert seen is not None
    pid = seen.tasks[0].pid
    assert pid is not None
    assert os.getsid(pid) == pid
    output = b"".join(chunk.data for chunk in local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 0).chunks)
    assert all(int(line.split()[1], 16) & 0x7FFFFFFF == 0 for line in output.splitlines()[:2])


def test_a_wrapper_that_was_killed_leaves_no_code_and_no_doubt_while_the_task_runs(any_local: Bench) -> None:
    workload = any_local.start(shell("echo ready; exec sleep 1000"))
    any_local.wait_for_output(workload.attempt_id, b"ready")
    seen = any_local.see(workload.attempt_id)
    assert seen is not None
    assert seen.tasks[0].pid is not None
    os.kill(seen.tasks[0].pid, signal.SIGKILL)
    assert _processes_of(workload) != []
    seen = any_local.see(workload.attempt_id)
    assert seen is not None
    assert seen.tasks[0].state is TaskState.RUNNING
    any_local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)])
    (task,) = any_local.wait_for_end(workload.attempt_id)
    assert task.state is TaskState.GONE
    assert task.exit is not None
    assert task.exit.code is None


def test_a_reboot_ends_what_ran_and_keeps_what_had_ended(local: Bench, engine_dir: Path) -> None:
    ended, running = local.start(fails(3)), local.start(runs_on(), ports=("main",))
    local.wait_for_end(ended.attempt_id)
    local.close()
    boot_id = engine_dir / "boot_id"
    boot_id.write_text("another boot\n")
    engine = LocalEngine(config_of(engine_dir, boot_id_file=str(boot_id)), DirectLauncher(policy_of(engine_dir)))
    items = {item.attempt_id: item for item in engine.observe(None).items}
    (task,) = items[running.attempt_id].tasks
    assert (task.state, task.exit and task.exit.reason) == (TaskState.GONE, ExitReason.NODE_LOST)
    (task,) = items[ended.attempt_id].tasks
    assert task.exit is not None
    assert task.exit.code == 3
    assert json.loads((engine_dir / "engine" / "host" / "leases.json").read_text())["leases"] == {}
    assert engine.ensure([running]) == [Ensured(running.attempt_id, created=False)]
    engine.close()


def test_a_reused_pid_is_not_taken_for_the_task(local: Bench) -> None:
    workload = local.start(shell("exit 0"))
    local.wait_for_end(workload.attempt_id)
    control = attempt_dir(local, workload) / "control"
    other = subprocess.Popen(["/bin/sleep", "1000"])
    try:
        record = json.loads((control / "started.json").read_text())
        record["tasks"]["worker-0"]["pid"] = other.pid
        (control / "started.json").write_text(json.dumps(record))
        (control / "worker-0.exit").write_bytes(b"pending\n")
        local.restart()
        (task,) = local.wait_for_end(workload.attempt_id)
        assert task.state is TaskState.GONE
        local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)])
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


@pytest.mark.skipif(not IS_ROOT, reason="runs the launcher as a process")
def test_tasks_outlive_launcher_and_platform_and_obey_the_next(engine_dir: Path) -> None:
    socket_path = str(engine_dir / "launcher.sock")
    child = start_child(socket_path, policy_of(engine_dir))
    client = LauncherClient(socket_path)
    bench = local_bench("launcher", engine_dir, client)
    workload = bench.start(ignores_signals())
    bench.wait_for_output(workload.attempt_id, b"ready")
    bench.close()
    child.kill()
    child.communicate()
    child = start_child(socket_path, policy_of(engine_dir))
    bench.restart()
    seen = bench.see(workload.attempt_id)
    assert seen is not None
    assert seen.tasks[0].state is TaskState.RUNNING
    bench.engine.stop([Stop(workload.attempt_id, 0.1, StopCause.DEADLINE)])
    (task,) = bench.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.stop_cause) == (137, StopCause.DEADLINE)
    bench.close()
    end_everything(engine_dir, client)
    client.close()
    child.communicate()


@pytest.mark.skipif(not IS_ROOT, reason="runs the launcher as a process")
def test_a_kept_launcher_that_is_killed_is_replaced_and_ends_with_its_keeper(engine_dir: Path) -> None:
    socket_path = str(engine_dir / "launcher.sock")
    keeper = start_child(socket_path, policy_of(engine_dir), keep=True)
    client = LauncherClient(socket_path)
    bench = local_bench("launcher", engine_dir, client, use_bubblewrap=False)
    for _ in range(3):
        # The keeper listens before it has forked a launcher: whoever connects so early waits.
        bench.wait_until(lambda: bool(psutil.Process(keeper.pid).children()), "a launcher")
        (server,) = psutil.Process(keeper.pid).children()
        server.kill()
        workload = bench.start(writes(b"ran\n"))
        (task,) = bench.wait_for_end(workload.attempt_id)
        assert task.exit is not None
        assert task.exit.code == 0
    (server,) = psutil.Process(keeper.pid).children()
    end_everything(engine_dir, client)
    assert bench.engine.inventory().nodes
    keeper.communicate(timeout=60)
    assert keeper.returncode == 0
    assert not server.is_running()
    with pytest.raises(EngineUnreachable):
        bench.engine.inventory()
    bench.close()
    client.close()


# --- At most once ----------------------------------------------------------------------------------------------------


@pytest.mark.capability("9", "After a crash of the platform the job goes on, once, and its log is whole")
def test_many_workers_at_once_start_an_attempt_once(local: Bench, engine_dir: Path) -> None:
    witness = engine_dir / "witness"
    witness.mkdir(mode=0o777)
    witness.chmod(0o777)
    workload = local.workload(shell(f"echo started >> {witness}/$BERTH_TASK_KEY"))
    engines = [LocalEngine(config_of(engine_dir, use_bubblewrap=False), DirectLauncher(policy_of(engine_dir))) for _ in range(8)]
    answers: list[object] = []

    def ensure(engine: LocalEngine) -> None:
        answer: object = Retry(workload.attempt_id, "", "")
        while isinstance(answer, Retry):
            (answer,) = engine.ensure([workload])
        answers.append(answer)

    threads = [threading.Thread(target=ensure, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    local.wait_for_end(workload.attempt_id)
    assert sorted(answer.created for answer in answers if isinstance(answer, Ensured)) == [False] * 7 + [True]
    assert (witness / f"{workload.attempt_id}.worker-0").read_text() == "started\n"
    for engine in engines:
        engine.close()


@pytest.mark.skipif(not IS_ROOT, reason="runs the launcher as a process")
@pytest.mark.parametrize("seed", range(6))
def test_a_launcher_killed_at_any_moment_leaves_each_attempt_started_once_or_not_at_all(engine_dir: Path, seed: int) -> None:
    chance = random.Random(seed)
    witness = engine_dir / "witness"
    witness.mkdir()
    witness.chmod(0o777)
    socket_path = str(engine_dir / "launcher.sock")
    child = start_child(socket_path, policy_of(engine_dir))
    client = LauncherClient(socket_path)
    bench = local_bench("launcher", engine_dir, client, use_bubblewrap=False)
    workloads = [bench.workload(*[shell(f"echo started >> {witness}/$BERTH_TASK_KEY")] * 2) for _ in range(15)]
    killer = threading.Timer(chance.uniform(0.0, 0.15), child.kill)
    killer.start()
    with contextlib.suppress(EngineUnreachable):
        for workload in workloads:
            bench.engine.ensure([workload])
    killer.join()
    assert child.stdin is not None
    child.stdin.close()
    child.wait()
    child = start_child(socket_path, policy_of(engine_dir))
    bench.restart()
    bench.wait_until(lambda: not any(isinstance(answer, Retry) for answer in bench.engine.ensure(workloads)), "all starts")
    for workload in workloads:
        tasks = bench.wait_for_end(workload.attempt_id)
        counts = [_count(witness / f"{workload.attempt_id}.{task.name}") for task in tasks]
        assert counts in ([1, 1], [0, 0]), f"seed {seed}: {counts}"
        if counts == [0, 0]:
            assert {task.state for task in tasks} == {TaskState.GONE}
    bench.close()
    end_everything(engine_dir, client)
    client.close()
    assert child.stdin is not None
    child.stdin.close()
    child.wait(60)


def test_a_start_that_died_before_the_gate_is_done_again_by_the_next(local: Bench) -> None:
    workload = local.workload(writes(b"ran\n"))
    leftover = attempt_dir(local, workload)
    (leftover / "control").mkdir(parents=True)
    (leftover / "control" / "started.json").write_text("{}")
    assert local.see(workload.attempt_id) is None
    assert local.engine.ensure([workload]) == [Ensured(workload.attempt_id, created=True)]
    local.wait_for_end(workload.attempt_id)
    assert local.read_all(workload.attempt_id, FIRST) == b"ran\n"


def test_stopping_a_start_that_died_before_the_gate_removes_what_it_left(local: Bench) -> None:
    workload = local.workload(succeeds())
    leftover = attempt_dir(local, workload)
    (leftover / "control").mkdir(parents=True)
    assert local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)]) == [Gone(workload.attempt_id)]
    assert not leftover.exists()
    assert isinstance(local.engine.ensure([workload])[0], GiveUp)


def test_a_tombstone_is_kept_for_its_days_and_no_longer(local: Bench) -> None:
    old, young = local.workload(succeeds()), local.workload(succeeds())
    local.engine.stop([Stop(each.attempt_id, 0, StopCause.USER) for each in (old, young)])
    gates = attempt_dir(local, old).parents[1] / "gates"
    week = 7 * 86_400
    os.utime(gates / str(old.attempt_id), (0, time.time() - week - 60))
    os.utime(gates / str(young.attempt_id), (0, time.time() - week + 60))
    local.restart()
    local.engine.observe(None)
    assert isinstance(local.engine.ensure([young])[0], GiveUp)
    assert not (gates / str(old.attempt_id)).exists()


# --- What a task is given --------------------------------------------------------------------------------------------


def test_a_stream_has_another_mark_once_it_went_on(any_local: Bench) -> None:
    engine = any_local.engine
    assert isinstance(engine, SupportsLogMarks)
    workload = any_local.workload(shell("echo hello"))
    name = (workload.attempt_id, FIRST, Stream.OUT)
    before = engine.log_marks([name, (workload.attempt_id, FIRST, Stream.ERR)])
    engine.ensure([workload])
    any_local.wait_for_end(workload.attempt_id)
    after = engine.log_marks([name, name])
    assert before[0] != after[0] == after[1]
    any_local.read_all(workload.attempt_id, FIRST)
    assert engine.log_marks([name]) == [after[0]], "reading leaves it as it is"


def test_code_is_unpacked_before_the_start_and_belongs_to_the_tenant(any_local: Bench, engine_dir: Path) -> None:
    source = engine_dir / "source"
    (source / "sub").mkdir(parents=True)
    (source / "sub" / "train.sh").write_text("pwd; echo trained > result; echo odd > 'two\nlines'\n")
    (engine_dir / "code").mkdir()
    archive = engine_dir / "code" / "snapshot.tar.gz"
    subprocess.run(["/bin/tar", "-czf", str(archive), "-C", str(source), "."], check=True)
    workload = replace(any_local.workload(shell("sh train.sh")), code=CodeRef("sha256:x", str(archive)), workdir="sub")
    any_local.engine.ensure([workload])
    (task,) = any_local.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert task.exit.code == 0, any_local.read_all(workload.attempt_id, FIRST, Stream.ERR)
    engine = any_local.engine
    assert isinstance(engine, SupportsOutputs)
    assert [file.path for file in engine.list_outputs(workload.attempt_id, ["sub/res*"])] == ["sub/result"]
    with os.fdopen(engine.open_output(workload.attempt_id, "sub/result")) as file:
        assert file.read() == "trained\n"
    (odd,) = engine.list_outputs(workload.attempt_id, ["sub/two*"])
    assert odd.path == r"sub/two\x0alines"
    with os.fdopen(engine.open_output(workload.attempt_id, odd.path)) as file:
        assert file.read() == "odd\n"


def test_a_snapshot_that_is_no_archive_can_never_start(local: Bench, engine_dir: Path) -> None:
    broken = engine_dir / "broken.tar.gz"
    broken.write_bytes(b"no archive")
    for location, code in ((broken, "code_broken"), (engine_dir / "missing", "code_absent")):
        workload = replace(local.workload(succeeds()), code=CodeRef("sha256:x", str(location)))
        (answer,) = local.engine.ensure([workload])
        assert isinstance(answer, GiveUp)
        assert answer.code == code
        assert not attempt_dir(local, workload).exists()


def test_a_member_that_no_file_system_can_hold_ends_the_start_for_good(local: Bench, engine_dir: Path) -> None:
    archive = engine_dir / "long.tar.gz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.addfile(tarfile.TarInfo("n" * 300))
    workload = replace(local.workload(succeeds()), code=CodeRef("sha256:x", str(archive)))
    (answer,) = local.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert answer.code == "code_broken"
    assert "too long" in answer.detail


def test_a_command_that_the_system_does_not_take_ends_the_start_for_good(local: Bench) -> None:
    workload = local.workload(shell(f"echo {'x' * 200_000}"))
    (answer,) = local.engine.ensure([workload])
    assert isinstance(answer, GiveUp)
    assert (answer.code, "too long" in answer.detail) == ("start_refused", True)
    assert not attempt_dir(local, workload).exists()


def test_location_variables_are_the_engines_and_a_python_image_comes_first_on_the_path(local: Bench, engine_dir: Path) -> None:
    image = engine_dir / "images" / "one"
    (image / "bin").mkdir(parents=True)
    for path in (image.parent, image, image / "bin"):
        path.chmod(0o755)
    (image / "bin" / "tool").write_text("#!/bin/sh\necho from the image\n")
    (image / "bin" / "tool").chmod(0o755)
    show = shell('tool; [ "$(pwd)" = "$BERTH_WORKDIR" ] && touch "$HOME/h" "$TMPDIR/t" && echo "gpus=[$CUDA_VISIBLE_DEVICES]"')
    workload = replace(local.workload(show), image=ImageRef(ImageKind.PYTHON, "sha256:x", str(image)))
    local.engine.ensure([workload])
    local.wait_for_end(workload.attempt_id)
    assert local.read_all(workload.attempt_id, FIRST) == b"from the image\ngpus=[]\n"


WHO = "whoami; id -gn; echo $USER $LOGNAME; python3 -c 'import getpass, pathlib; print(getpass.getuser(), pathlib.Path.home())'"


@pytest.mark.skipif(not IS_ROOT, reason="each tenant has a user of its own")
def test_a_tasks_user_has_a_name(local: Bench) -> None:
    workload = local.start(shell(f"{WHO}; getent passwd $(id -u); touch /etc/passwd || echo closed"))
    local.wait_for_end(workload.attempt_id)
    line = "berth-tenant-1:x:200001:200001::/berth/home:/bin/sh"
    name = "berth-tenant-1"
    assert local.read_all(workload.attempt_id, FIRST).decode().splitlines() == [
        *(name, name, f"{name} {name}", f"{name} /berth/home", line, "closed")
    ]  # fmt: skip


class AskedByAnOlderWorker(DirectLauncher):
    def start(self, attempts: Sequence[StartAttempt]) -> Sequence[Started]:
        older = [json.loads(attempt.record) for attempt in attempts]
        for record in older:
            del record["user"]
        return super().start([replace(item, record=json.dumps(old)) for item, old in zip(attempts, older, strict=True)])


def test_a_worker_of_the_release_before_has_its_tasks_started_without_the_line(engine_dir: Path) -> None:
    """The other way round nothing changes: a launcher keeps the record, whatever is in it."""
    launcher = AskedByAnOlderWorker(policy_of(engine_dir))
    bench = local_bench("local", engine_dir, launcher)
    workload = bench.start(shell("cat /etc/passwd"))
    bench.wait_for_end(workload.attempt_id)
    assert bench.read_all(workload.attempt_id, FIRST) == Path("/etc/passwd").read_bytes()
    end_everything(engine_dir, launcher)


def test_a_job_may_call_its_user_otherwise(any_local: Bench) -> None:
    said = shell("echo $USER $LOGNAME")
    workload = any_local.start(said, env={"USER": ("alice",), "LOGNAME": ("bob",)})
    any_local.wait_for_end(workload.attempt_id)
    assert any_local.read_all(workload.attempt_id, FIRST) == b"alice bob\n"


def test_values_reach_the_task_as_they_are(any_local: Bench) -> None:
    hostile = "a'b\"c $(id) `id` ${HOME} \\ %s\n second line \t!*?"
    workload = any_local.start(
        Behaviour(
            "",
            Script(),
            argv=(("/usr/bin/python3",), ("-c",), ("import os, sys; print([os.environ['V'], sys.argv[1]])",), (hostile,)),
        ),
        env={"V": (hostile,)},
    )
    any_local.wait_for_end(workload.attempt_id)
    assert any_local.read_all(workload.attempt_id, FIRST).decode() == f"{[hostile, hostile]}\n"


def test_standard_output_can_be_opened_again_by_its_name(any_local: Bench) -> None:
    workload = any_local.start(shell("echo one; echo two > /dev/stderr; echo three >> /dev/stdout"))
    any_local.wait_for_end(workload.attempt_id)
    assert any_local.read_all(workload.attempt_id, FIRST) == b"one\nthree\n"
    assert any_local.read_all(workload.attempt_id, FIRST, Stream.ERR) == b"two\n"


def test_mounts_without_bubblewrap_are_refused_in_words(engine_dir: Path) -> None:
    engine = LocalEngine(config_of(engine_dir, use_bubblewrap=False), DirectLauncher(policy_of(engine_dir)))
    bench = local_bench("local", engine_dir, DirectLauncher(policy_of(engine_dir)))
    mount = MountRef(uuid.uuid4(), HostDir(str(engine_dir)), "/data", read_only=True)
    (answer,) = engine.ensure([replace(bench.workload(succeeds()), mounts=(mount,))])
    assert isinstance(answer, GiveUp)
    assert answer.code == "mounts_need_bubblewrap"
    assert "bubblewrap" in answer.detail


def test_a_container_image_is_not_built_without_bubblewrap(engine_dir: Path) -> None:
    engine = LocalEngine(config_of(engine_dir, use_bubblewrap=False), DirectLauncher(policy_of(engine_dir)))
    workload = local_bench("local", engine_dir, DirectLauncher(policy_of(engine_dir))).workload(succeeds())
    (answer,) = engine.ensure([replace(workload, tasks=(replace(workload.tasks[0], builds_image=True),))])
    assert isinstance(answer, GiveUp)
    assert (answer.code, "bubblewrap" in answer.detail) == ("workload_invalid", True)


def test_a_container_image_is_not_built_without_a_filter_of_system_calls(
    engine_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syscalls, "open_compiled", lambda kind: None)
    launcher = DirectLauncher(policy_of(engine_dir))
    engine = LocalEngine(config_of(engine_dir, use_bubblewrap=True), launcher)
    workload = local_bench("local", engine_dir, launcher).workload(succeeds())
    (answer,) = engine.ensure([replace(workload, tasks=(replace(workload.tasks[0], builds_image=True),))])
    assert isinstance(answer, GiveUp)
    assert (answer.code, "libseccomp2" in answer.detail) == ("workload_invalid", True)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda workload: replace(workload, tasks=(replace(workload.tasks[0], node="elsewhere"),)), "node_unknown"),
        (lambda workload: replace(workload, tasks=(replace(workload.tasks[0], env={"A-B": ("x",)}),)), "workload_invalid"),
        (lambda workload: replace(workload, tasks=(replace(workload.tasks[0], argv=()),)), "workload_invalid"),
        (lambda workload: replace(workload, workdir="../x"), "workload_invalid"),
        (lambda workload: replace(workload, files={"../x": ("y",)}), "workload_invalid"),
        (lambda workload: with_gpus(workload, 1_500), "gpu_share_invalid"),
    ],
)
def test_what_can_never_run_is_given_up_with_a_reason(local: Bench, change: Callable[[Workload], Workload], code: str) -> None:
    (answer,) = local.engine.ensure([change(local.workload(succeeds()))])
    assert isinstance(answer, GiveUp)
    assert (answer.code, bool(answer.detail)) == (code, True)
    assert find_class(code) is not None


@pytest.mark.capability(
    "61", "RDMA is asked for, placed where it is, and told to the engine; the local one hands its device files over"
)
def test_adapters_for_remote_memory_are_handed_to_who_asks_for_them_and_to_nobody_else(engine_dir: Path, tmp_path: Path) -> None:
    for name in ("uverbs0", "rdma_cm"):
        (tmp_path / name).touch()
    config = config_of(engine_dir, rdma_folder=str(tmp_path))
    bench = local_bench("local", engine_dir, DirectLauncher(policy_of(engine_dir)), rdma_folder=str(tmp_path))
    workload = bench.workload(succeeds(), succeeds())
    asking = replace(workload, tasks=(replace(workload.tasks[0], rdma=True), workload.tasks[1]))
    started = plan.plan(asking, Lease(config.root, 0.0), config, sandboxed=True, simulated=False, devices={})
    assert [task.devices for task in started.tasks] == [(f"{tmp_path}/rdma_cm", f"{tmp_path}/uverbs0"), ()]
    assert bench.engine.inventory().nodes[0].labels["rdma"] == "yes"
    bench.close()
    without = local_bench("local", engine_dir, DirectLauncher(policy_of(engine_dir)), rdma_folder=f"{tmp_path}/none")
    assert without.engine.inventory().nodes[0].labels["rdma"] == "no"
    (answer,) = without.engine.ensure([asking])
    assert isinstance(answer, GiveUp)
    assert "asks for RDMA; here has no adapter" in answer.detail
    without.close()


# --- GPUs and ports --------------------------------------------------------------------------------------------------


@pytest.mark.simulated_gpus
@pytest.mark.capability("9", "GPUs are leased exclusively")
def test_simulated_gpus_are_leased_exclusively_and_labelled(engine_dir: Path) -> None:
    launcher = DirectLauncher(policy_of(engine_dir))
    bench = local_bench("local", engine_dir, launcher, simulated_gpus="3xA100")
    show = Behaviour('echo "$CUDA_VISIBLE_DEVICES $BERTH_GPUS_SIMULATED"; exec sleep 1000', Script())
    first = with_gpus(bench.workload(show), 2_000)
    second = with_gpus(bench.workload(show), 2_000)
    assert bench.engine.ensure([first]) == [Ensured(first.attempt_id, created=True)]
    (busy,) = bench.engine.ensure([second])
    assert isinstance(busy, Retry)
    assert busy.code == "gpus_busy"
    bench.wait_for_output(first.attempt_id, b"SIMULATED-0,SIMULATED-1 1\n")
    seen = bench.see(first.attempt_id)
    assert seen is not None
    assert (seen.tasks[0].gpus, seen.tasks[0].gpus_simulated) == (("SIMULATED-0", "SIMULATED-1"), True)
    bench.restart()
    bench.engine.stop([Stop(first.attempt_id, 0, StopCause.USER)])
    bench.wait_for_end(first.attempt_id)
    assert bench.engine.ensure([second]) == [Ensured(second.attempt_id, created=True)]
    (node,) = bench.engine.inventory().nodes
    assert (node.capacity.gpu_millis, {gpu.simulated for gpu in node.gpus}, node.labels["gpus_simulated"]) == (
        3_000,
        {True},
        "yes",
    )
    bench.close()
    end_everything(engine_dir, launcher)


def test_shares_fill_one_device_before_they_break_another(engine_dir: Path) -> None:
    launcher = DirectLauncher(policy_of(engine_dir))
    bench = local_bench("local", engine_dir, launcher, simulated_gpus="2xA100")
    jobs = [with_gpus(bench.workload(runs_on()), millis) for millis in (500, 500, 1_000)]
    assert [getattr(answer, "created", answer) for answer in bench.engine.ensure(jobs)] == [True, True, True]
    held = {item.attempt_id: item.tasks[0].gpus for item in bench.engine.observe(None).items}
    assert held[jobs[0].attempt_id] == held[jobs[1].attempt_id] != held[jobs[2].attempt_id]
    bench.close()
    end_everything(engine_dir, launcher)


# --- Output ----------------------------------------------------------------------------------------------------------


def test_output_past_the_quota_takes_no_disk_while_the_task_goes_on(local: Bench) -> None:
    flood = "head -c 20000000 /dev/zero; echo tail; exec sleep 1000"
    workload = local.start(shell(flood), log_quota_bytes=1_000_000)
    path = attempt_dir(local, workload) / "control" / "worker-0.stdout"
    local.wait_until(lambda: path.stat().st_size > 20_000_000, "the flood")
    local.wait_until(lambda: local.see(workload.attempt_id) is not None and path.stat().st_blocks * 512 < 2_000_000, "the cut")
    assert path.stat().st_size == 20_000_005
    chunks = local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 0)
    assert sum(len(chunk.data) for chunk in chunks.chunks) == 1_000_000
    assert chunks.chunks[-1].skipped_bytes == 19_000_005
    assert local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, chunks.cursor).chunks == ()


def test_output_that_was_handed_on_is_given_back_to_the_disk_and_offsets_stay(local: Bench) -> None:
    size = 24_000_000
    workload = local.start(shell(f"head -c {size} /dev/zero | tr '\\0' x; echo end"))
    local.wait_for_end(workload.attempt_id)
    path = attempt_dir(local, workload) / "control" / "worker-0.stdout"
    assert len(local.read_all(workload.attempt_id, FIRST)) == size + 4
    local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, size + 4)
    assert path.stat().st_size == size + 4
    assert path.stat().st_blocks * 512 < size // 2
    assert path.stat().st_blocks * 512 >= LOG_AHEAD_BYTES, "what its reader may not have stored yet is still there"
    again = local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 0)
    assert again.chunks[0].skipped_bytes > 0
    assert "handed on" in again.chunks[0].marker


def test_output_is_called_drained_when_all_of_it_was_given_and_not_before(local: Bench) -> None:
    size = 2 * LOG_READ_BYTES + 1
    workload = local.start(shell(f"head -c {size} /dev/zero; exec sleep 1000"))
    path = attempt_dir(local, workload) / "control" / "worker-0.stdout"
    local.wait_until(lambda: path.stat().st_size == size, "the output")
    cursor, drained = 0, []
    while not drained or not drained[-1]:
        answer = local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, cursor)
        cursor, drained = answer.cursor, [*drained, answer.drained]
    assert (cursor, drained) == (size, [False, False, True])


def test_reading_the_output_of_a_task_that_runs_does_not_look_at_the_others(local: Bench) -> None:
    """Thousands are read a second, and a look at all of them holds a lock for as long as it takes."""
    workload = local.start(shell("echo ready; while [ ! -e go ]; do sleep 0.02; done"))
    local.wait_for_output(workload.attempt_id, b"ready\n")
    watch = local.engine._watch  # type: ignore[attr-defined]
    with ThreadPoolExecutor(1) as others, watch._lock:
        assert others.submit(local.engine.logs, workload.attempt_id, FIRST, Stream.OUT, 0).result(timeout=30).chunks
    (attempt_dir(local, workload) / "work" / "go").touch()
    local.wait_for_end(workload.attempt_id)
    assert local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 0).complete


def test_a_task_that_cuts_its_own_output_is_marked_and_offsets_go_on(local: Bench) -> None:
    workload = local.start(shell("echo 0123456789; while [ ! -e go ]; do sleep 0.02; done; : > /dev/stdout; echo after"))
    local.wait_for_output(workload.attempt_id, b"9\n")
    (attempt_dir(local, workload) / "work" / "go").touch()
    local.wait_for_end(workload.attempt_id)
    chunks = local.engine.logs(workload.attempt_id, FIRST, Stream.OUT, 11)
    assert [(chunk.offset, chunk.data, bool(chunk.marker)) for chunk in chunks.chunks] == [
        (11, b"", True),
        (11, b"after\n", False),
    ]
    assert (chunks.cursor, chunks.complete) == (17, True)


# --- Metrics ---------------------------------------------------------------------------------------------------------


def test_metrics_are_of_the_closed_table_and_measure_the_task(any_local: Bench) -> None:
    engine = any_local.engine
    assert isinstance(engine, SupportsMetrics)
    busy = "exec /usr/bin/python3 -c 'block = bytearray(50 << 20); print(1, flush=True)\nwhile True: pass'"
    workload = any_local.start(shell(busy))
    any_local.wait_for_output(workload.attempt_id, b"1\n")
    engine.sample()
    subject = f"task:{workload.attempt_id}:worker:0"

    def cpu_is_used() -> bool:
        values = {sample.metric: sample.value for sample in engine.sample() if sample.subject == subject}
        return values.get("cpu_millis", 0) > 100 and values["memory_bytes"] > 50 << 20 and values["processes"] >= 1

    any_local.wait_until(cpu_is_used, "a measured task")
    for sample in engine.sample():
        assert kind_of(sample.subject) in METRICS[sample.metric].subjects


@pytest.mark.capability("93", "The use of a task's GPUs is measured and kept, and a gap stays a gap")
@pytest.mark.simulated_gpus
def test_the_series_of_a_simulated_gpu_follow_the_task_that_holds_it(engine_dir: Path) -> None:
    launcher = DirectLauncher(policy_of(engine_dir))
    bench = local_bench("local", engine_dir, launcher, simulated_gpus="2xA100")
    engine = bench.engine
    assert isinstance(engine, SupportsMetrics)
    busy = "exec timeout 60 /usr/bin/python3 -c 'print(1, flush=True)\nwhile True: pass'"  # It ends, too, where the test fails.
    workload = with_gpus(bench.workload(shell(busy)), 1_000)
    assert engine.ensure([workload]) == [Ensured(workload.attempt_id, created=True)]
    bench.wait_for_output(workload.attempt_id, b"1\n")
    engine.sample()

    task, held, free = f"task:{workload.attempt_id}:worker:0", "gpu:here:SIMULATED-0", "gpu:here:SIMULATED-1"
    values: dict[tuple[str, str], float] = {}

    def works() -> bool:
        values.update({(sample.subject, sample.metric): sample.value for sample in engine.sample()})
        return values.get((held, "gpu_utilization_ratio"), 0.0) > 0.05

    bench.wait_until(works, "a device that works")
    assert values[task, "gpu_utilization_ratio"] == values[held, "gpu_utilization_ratio"] <= 1
    assert values[held, "gpu_power_watts"] > values[free, "gpu_power_watts"] > 0
    assert values[held, "gpu_temperature_celsius"] >= values[free, "gpu_temperature_celsius"] > 0
    assert values[held, "gpu_memory_bytes"] > values[free, "gpu_memory_bytes"] == 0
    assert values[free, "gpu_utilization_ratio"] == 0
    bench.close()
    end_everything(engine_dir, launcher)


# --- The inventory's word --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "kept_apart", "word"),
    [
        ({"drop_rights": True, "use_bubblewrap": False}, True, "user of their own"),
        ({"drop_rights": False, "use_bubblewrap": False}, False, "one tenant only"),
        ({"drop_rights": False, "use_bubblewrap": False, "isolation": "none"}, True, "Turned off by the operator"),
    ],
)
def test_isolation_is_told_as_it_is(engine_dir: Path, changes: dict[str, object], kept_apart: bool, word: str) -> None:
    inventory = LocalEngine(config_of(engine_dir, **changes), DirectLauncher(policy_of(engine_dir))).inventory()
    assert inventory.tenants_kept_apart is kept_apart
    assert word in " ".join(inventory.isolation)


def test_a_launcher_that_does_not_answer_decides_nothing(engine_dir: Path) -> None:
    bench = local_bench("launcher", engine_dir, LauncherClient(str(engine_dir / "nobody.sock")))
    workload = bench.workload(succeeds())
    with pytest.raises(EngineUnreachable):
        bench.engine.ensure([workload])
    assert bench.engine.observe(None).items == ()


class SlowLauncher(DirectLauncher):
    """Takes its time over every signal, and remembers the polite ones."""

    sent: list[str] = []

    def signal(self, signals: Sequence[SignalAttempt]) -> Sequence[int]:
        self.sent.extend(item.attempt_id for item in signals if item.number == signal.SIGTERM)
        time.sleep(0.05)
        return super().signal(signals)


def test_a_task_that_several_processes_stop_at_once_gets_its_signal_once(local: Bench, engine_dir: Path) -> None:
    workload = local.start(ignores_signals())
    local.wait_for_output(workload.attempt_id, b"ready")
    launcher = SlowLauncher(policy_of(engine_dir))
    launcher.sent.clear()
    engines = [LocalEngine(config_of(engine_dir, use_bubblewrap=False), launcher) for _ in range(4)]
    barrier = threading.Barrier(len(engines))

    def stop(engine: LocalEngine) -> None:
        barrier.wait()
        engine.stop([Stop(workload.attempt_id, 600.0, StopCause.USER)])  # None is so late that it has to kill.
        engine.observe(None)

    threads = [threading.Thread(target=stop, args=(engine,)) for engine in engines]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)])
    local.wait_for_end(workload.attempt_id)
    for engine in engines:
        engine.close()
    assert launcher.sent == [str(workload.attempt_id)]


class OlderLauncher(DirectLauncher):
    def look(self, asks: Sequence[SignalAttempt]) -> Sequence[Sequence[SeenProcess]]:
        raise LauncherRefused("'look' is not a verb of the launcher")


def test_under_a_launcher_of_the_release_before_all_processes_get_the_signal(local: Bench, engine_dir: Path) -> None:
    workload = local.start(ends_politely(7))
    local.wait_for_output(workload.attempt_id, b"ready")
    with contextlib.closing(LocalEngine(config_of(engine_dir), OlderLauncher(policy_of(engine_dir)))) as engine:
        engine.stop([Stop(workload.attempt_id, 60, StopCause.USER)])
    (task,) = local.wait_for_end(workload.attempt_id)
    assert task.exit is not None
    assert (task.exit.code, task.exit.stop_cause) == (7, StopCause.USER)


def test_a_process_that_froze_with_a_lock_keeps_no_job_from_being_stopped(
    local: Bench, engine_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "STOPS_SECONDS", 0.1)
    workload = local.start(runs_on())
    with (attempt_dir(local, workload).parents[1] / "stops" / ".lock").open("w") as frozen:
        fcntl.flock(frozen, fcntl.LOCK_EX)
        local.engine.stop([Stop(workload.attempt_id, 0, StopCause.USER)])
        local.wait_for_end(workload.attempt_id)


def test_a_stubborn_task_is_killed_although_nobody_looks(local: Bench) -> None:
    workload = local.start(ignores_signals())
    local.wait_for_output(workload.attempt_id, b"ready")
    local.engine.stop([Stop(workload.attempt_id, 0.2, StopCause.USER)])
    exit_file = attempt_dir(local, workload) / "control" / "worker-0.exit"
    local.wait_until(lambda: exit_file.read_bytes().startswith(b"137"), "the kill")


def _processes_of(workload: Workload) -> list[int]:
    marker = f"BERTH_TASK_KEY={workload.attempt_id}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if marker in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def _count(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_the_checkpoint_directory_is_the_tenants_alone(any_local: Bench, engine_dir: Path) -> None:
    kept = CheckpointRef(uuid.uuid4(), str(engine_dir / "checkpoints" / "tenant" / "job"), "runs/ckpt")
    shell = 'stat -c %a "$BERTH_CHECKPOINT_DIR"; echo here >runs/ckpt/x; cat "$BERTH_CHECKPOINT_DIR/x"'
    workload = any_local.start(Behaviour(shell, Script()), checkpoint=kept)
    any_local.wait_for_end(workload.attempt_id)
    assert any_local.read_all(workload.attempt_id, FIRST) == b"700\nhere\n"
    assert (engine_dir / "checkpoints" / "tenant" / "job" / "x").read_text() == "here\n"


def test_no_other_directory_is_given_away_as_a_checkpoint(local: Bench, engine_dir: Path) -> None:
    secret = engine_dir / "run"
    secret.mkdir()
    for location in (str(secret), str(engine_dir / "checkpoints" / ".." / "run"), "/etc/x/y"):
        workload = local.workload(Behaviour("exit 0", Script()), checkpoint=CheckpointRef(uuid.uuid4(), location, "ckpt"))
        (answer,) = local.engine.ensure([workload])
        assert isinstance(answer, GiveUp)
    assert secret.stat().st_uid == os.geteuid()
