"""A program beside a live task: its user, its sandbox, its limits, its environment, and no longer than the task."""

from __future__ import annotations

import os
import select
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.interface import (
    Asker,
    ExecRefused,
    Execution,
    ImageKind,
    ImageRef,
    NotRunning,
    Stop,
    StopCause,
    SupportsExec,
    TaskName,
    TerminalSize,
)
from clusters.engines.local import LocalEngine
from clusters.engines.local.launching import LauncherRefused, shells
from clusters.engines.local.launching.verbs import OpenShell
from tests.builders.registry import registry, shell
from tests.contract.engines.bench import DEADLINE_SECONDS, IS_ROOT, Bench, open_bench, open_container_bench, runs_on

pytestmark = pytest.mark.engines
FIRST = TaskName("worker", 0)
SIZE = TerminalSize(rows=31, columns=97)


@pytest.fixture(scope="module")
def shell_image() -> Iterator[ImageRef]:
    with registry() as found:
        digest = found.push("team/shell:1", [shell()])
        yield ImageRef(ImageKind.REGISTRY, digest, f"{found.host}/team/shell:1@{digest}")


@pytest.fixture(params=["local", "launcher", "no-root", "bare", "container", "container-no-root"])
def any_local(request: pytest.FixtureRequest, engine_dir: Path) -> Iterator[Bench]:
    if not request.param.startswith("container"):
        with open_bench(request.param, engine_dir) as opened:
            yield opened
        return
    if request.param == "container-no-root" and not IS_ROOT:
        pytest.skip("needs root to give rights away")
    with open_container_bench(request.param, engine_dir, request.getfixturevalue("shell_image")) as opened:
        yield opened


@pytest.fixture
def local(engine_dir: Path) -> Iterator[Bench]:
    with open_bench("local", engine_dir) as opened:
        yield opened


class Typed:
    """What a person has: types, reads, waits."""

    def __init__(self, execution: Execution) -> None:
        self.execution = execution
        self.seen = b""

    def type(self, text: bytes) -> None:
        os.write(self.execution.input, text)

    def read_until(self, expected: bytes) -> bytes:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while expected not in self.seen:
            assert time.monotonic() < deadline, (expected, self.seen)
            if select.select([self.execution.output], [], [], 0.1)[0]:
                try:
                    data = os.read(self.execution.output, 65_536)
                except OSError:
                    data = b""
                assert data, f"it ended after {self.seen!r}"
                self.seen += data
        return self.seen

    def wait(self) -> tuple[bytes, int | None]:
        """All that it prints until it has ended, and its code."""
        assert select.select([self.execution.ended], [], [], DEADLINE_SECONDS)[0], self.seen
        while select.select([self.execution.output], [], [], 0.2)[0]:
            try:
                data = os.read(self.execution.output, 65_536)
            except OSError:
                break
            if not data:
                break
            self.seen += data
        code = self.execution.exit_code()
        self.execution.close()
        return self.seen, code


def execute(bench: Bench, attempt: uuid.UUID, *argv: str, terminal: TerminalSize | None = SIZE) -> Typed:
    assert isinstance(bench.engine, SupportsExec)
    return Typed(bench.engine.execute(attempt, FIRST, argv, terminal, Asker("tenant", "user")))


def test_a_person_types_and_sees_and_the_code_comes_home(any_local: Bench) -> None:
    workload = any_local.start(runs_on())
    typed = execute(any_local, workload.attempt_id)
    typed.type(b"stty size; tty; echo $((40 + 2)) >file; cat file\n")
    typed.read_until(b"31 97")
    typed.read_until(b"42")
    assert b"not a tty" not in typed.seen
    typed.execution.resize(TerminalSize(50, 132))
    typed.type(b"stty size\n")
    typed.read_until(b"50 132")
    typed.type(b"sleep 500\n")
    any_local.wait_until(lambda: bool(processes_of(workload.attempt_id, b"sleep\x00500")), "the program")
    typed.type(b"\x03")
    any_local.wait_until(lambda: not processes_of(workload.attempt_id, b"sleep\x00500"), "the end by Ctrl+C")
    typed.type(b"echo st''ill here\n")
    typed.read_until(b"still here")
    typed.type(b"exit 7\n")
    assert typed.wait()[1] == 7


def test_a_command_has_pipes_and_both_ends_close(any_local: Bench) -> None:
    workload = any_local.start(runs_on())
    typed = execute(
        any_local, workload.attempt_id, "/bin/sh", "-c", 'tr a-z A-Z; echo "$0 $1" >&2; exit 3', "a b", "$HOME", terminal=None
    )
    typed.type(b"some text\n")
    typed.execution.end_input()
    assert typed.wait() == (b"SOME TEXT\na b $HOME\n", 3)


def test_it_is_the_tasks_user_directory_environment_and_group(any_local: Bench) -> None:
    said = 'id -u; id -G; pwd; echo "$WORD $SECRET $CUDA_VISIBLE_DEVICES."; umask; cat /proc/self/cgroup;'
    said += 'grep -E "NoNewPrivs|CapEff|CapBnd" /proc/self/status'
    secret = {"SECRET": "it's\n$(touch /tmp/x)"}
    behaviour = replace(runs_on(), shell=f"( {said} ) >first; echo ready; exec sleep 1000")
    workload = any_local.start(behaviour, env={"WORD": ("a  'b",)}, secret_env=secret)
    any_local.wait_for_output(workload.attempt_id, b"ready")
    theirs = execute(any_local, workload.attempt_id, "cat", "first", terminal=None).wait()[0]
    ours = execute(any_local, workload.attempt_id, "/bin/sh", "-c", said, terminal=None).wait()[0]
    assert b"NoNewPrivs:\t1" in ours
    if any_local.name in ("no-root", "bare", "container-no-root"):  # Without rights neither has any, whatever could be asked for.
        theirs, ours = (
            b"\n".join(line for line in text.splitlines() if not line.startswith((b"CapBnd", b"NoNew")))
            for text in (theirs, ours)
        )
    assert ours == theirs
    assert b"CapEff:\t0000000000000000" in ours


def test_it_ends_with_its_task(any_local: Bench) -> None:
    workload = any_local.start(runs_on())
    typed = execute(any_local, workload.attempt_id)
    typed.type(b"trap '' TERM HUP; echo re''ady\n")
    typed.read_until(b"ready")
    any_local.engine.stop([Stop(workload.attempt_id, 0.1, StopCause.USER)])
    any_local.wait_for_end(workload.attempt_id)
    _, code = typed.wait()
    assert code != 0
    with pytest.raises(NotRunning):
        execute(any_local, workload.attempt_id)


def test_it_ends_with_its_lifeline_even_if_it_ignores_hanging_up(any_local: Bench) -> None:
    workload = any_local.start(runs_on())
    typed = execute(any_local, workload.attempt_id, "/bin/sh", "-c", "trap '' HUP TERM; echo ready; while :; do sleep 0.05; done")
    typed.read_until(b"ready")
    assert processes_of(workload.attempt_id, b"trap ''")
    typed.execution.close()
    any_local.wait_until(lambda: not processes_of(workload.attempt_id, b"trap ''"), "the end of the shell")
    seen = any_local.see(workload.attempt_id)
    assert seen is not None
    assert seen.tasks[0].state == "running"


def test_what_it_uses_counts_for_the_task(local: Bench) -> None:
    if not IS_ROOT:
        pytest.skip("needs control groups")
    workload = local.start(runs_on())
    code = "block = bytearray(400 << 20); print(len(block))"
    output, status = execute(local, workload.attempt_id, "/usr/bin/python3", "-c", code, terminal=None).wait()
    assert status != 0
    assert b"419430400" not in output


def test_it_sees_its_own_sandbox_only(local: Bench, engine_dir: Path) -> None:
    assert isinstance(local.engine, LocalEngine)
    if not local.engine.config.uses_sandbox:
        pytest.skip("needs bubblewrap")
    other = local.start(replace(runs_on(), shell="echo secret >mine; exec sleep 1000"), tenant=2)
    workload = local.start(runs_on())
    theirs = f"{engine_dir}/engine/here/attempts/{other.attempt_id}"
    said = f"ls -d {engine_dir}; ls /proc | grep -c '^[0-9]'; kill -0 {os.getpid()}; ls {theirs}; cat {theirs}/work/mine"
    output, _ = execute(local, workload.attempt_id, "/bin/sh", "-c", said, terminal=None).wait()
    assert b"secret" not in output
    assert output.count(b"No such file") + output.count(b"cannot access") >= 2, output
    assert int(next(line for line in output.splitlines() if line.isdigit())) < 12, output


def test_the_launcher_refuses_what_is_none_of_its_tasks(local: Bench) -> None:
    workload = local.start(runs_on())
    assert isinstance(local.engine, LocalEngine)
    root, attempt = local.engine.config.root, str(workload.attempt_id)
    launcher = local.engine._launcher
    for wrong in (
        OpenShell("/etc", attempt, "worker-0"),
        OpenShell(root, "../" + attempt, "worker-0"),
        OpenShell(root, attempt, "worker-0", ("a\0b",)),
        OpenShell(root, attempt, "worker-0", ("a",) * 5_000),
        OpenShell(root, attempt, "worker-0", rows=0),
        OpenShell(root, attempt, "worker-0", columns=70_000),
    ):
        with pytest.raises(LauncherRefused):
            launcher.open_shell(wrong)
    for gone in (OpenShell(root, str(uuid.uuid4()), "worker-0"), OpenShell(root, attempt, "worker-9")):
        with pytest.raises(ProcessLookupError):
            launcher.open_shell(gone)


def test_only_so_many_run_at_once(local: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shells, "SHELLS_PER_USER", 1)
    workload = local.start(runs_on())
    first = execute(local, workload.attempt_id, "cat", terminal=None)
    with pytest.raises(ExecRefused):
        execute(local, workload.attempt_id, "true", terminal=None)
    first.execution.end_input()
    assert first.wait()[1] == 0
    assert execute(local, workload.attempt_id, "true", terminal=None).wait()[1] == 0


def test_no_descriptor_is_left_behind(local: Bench) -> None:
    workload = local.start(runs_on())
    execute(local, workload.attempt_id, "true").wait()
    before = os.listdir("/proc/self/fd")
    for _ in range(3):
        execute(local, workload.attempt_id, "true").wait()
        with pytest.raises(LauncherRefused):
            local.engine._launcher.open_shell(OpenShell("/etc", "x", "y"))  # type: ignore[attr-defined]
    local.wait_until(lambda: len(os.listdir("/proc/self/fd")) <= len(before), "the closing of all descriptors")
    output, _ = execute(local, workload.attempt_id, "ls", "-l", "/proc/self/fd", terminal=None).wait()
    assert not [word for word in (b"ns:", b"memfd", b"socket") if word in output], output


def processes_of(attempt: uuid.UUID, word: bytes) -> list[int]:
    """Live programs of this attempt with a word on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            environment, line = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if str(attempt).encode() in environment and word in line:
            found.append(int(entry.name))
    return found
