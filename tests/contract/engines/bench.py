"""The engines under the contract, each on a bench that gives it the same jobs. A new engine adds a bench here, no test.

`local` runs as the user of the tests: with root each tenant has a user of its own. With root there is also `launcher` (the
same through the socket of a launcher process), `no-root` (a launcher without rights) and `bare` (no bubblewrap either).
`kubernetes` runs pods on a real node; `test_kubernetes_contract.py` puts it under the same tests.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clusters.engines.fake import FakeEngine, Script
from clusters.engines.interface import (
    AttemptId,
    AttemptObservation,
    CheckpointDir,
    CheckpointRef,
    Engine,
    EngineUnreachable,
    Ensured,
    ExitReason,
    GiveUp,
    ImageKind,
    ImageRef,
    Retry,
    Stream,
    TaskName,
    TaskObservation,
    TaskState,
    TaskWorkload,
    Text,
    Workload,
)
from clusters.engines.local import LocalEngine, LocalEngineConfig
from clusters.engines.local.launching import DirectLauncher, Launcher, LauncherClient, Policy, start_child
from clusters.engines.local.launching.verbs import SignalAttempt
from clusters.registries.rules import Rules
from kernel.resources import Resources

DEADLINE_SECONDS = 60.0
NOBODY = 65_534
IS_ROOT = os.geteuid() == 0
HOST_IMAGE = ImageRef(ImageKind.HOST, "")


def until_it_answers(call: Callable[[], Sequence[object]], *accepted: type) -> object:
    """Repeat a call as the platform does: after a Retry, and where the cluster did not answer."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(EngineUnreachable):
            (answer,) = call()
            if not isinstance(answer, Retry):
                assert isinstance(answer, accepted), answer
                return answer
        time.sleep(0.2)
    raise AssertionError(f"no answer of {accepted} in {DEADLINE_SECONDS:.0f} s")


@dataclass(frozen=True)
class Behaviour:
    """A job in words that every engine understands: real ones run `shell`, the fake one plays `script`."""

    shell: str
    script: Script
    argv: tuple[Text, ...] = ()
    memory_bytes: int = 0

    def command(self) -> tuple[Text, ...]:
        return self.argv or (("/bin/sh",), ("-c",), (self.shell,))


def succeeds() -> Behaviour:
    return Behaviour("exit 0", Script())


def fails(code: int) -> Behaviour:
    return Behaviour(f"exit {code}", Script(code=code))


def leaves_files() -> Behaviour:
    """Files of odd names and sizes below the working directory; then it waits for the signal, and leaves one more."""
    shell = """
        mkdir -p model/part && printf weights >model/part/w && printf '#!/bin/sh' >model/run && chmod 750 model/run
        printf odd >"model/two
lines \\ 100%s" && : >model/empty && ln -s /etc/passwd model/link && head -c 20000000 /dev/zero >model/large
        echo other >other
        trap 'printf saved >model/last; exit 0' TERM
        echo ready
        while :; do sleep 0.05; done
    """
    return Behaviour(shell, Script(duration_seconds=None, stop_code=0, stdout=b"ready\n"))


def dies(number: int) -> Behaviour:
    return Behaviour(f"kill -{number} $$", Script(code=128 + number, signal=number))


def runs_on() -> Behaviour:
    return Behaviour("exec sleep 1000", Script(duration_seconds=None, stop_code=143))


def ends_politely(code: int) -> Behaviour:
    shell = f"trap 'exit {code}' TERM; echo ready; while :; do sleep 0.05; done"
    return Behaviour(shell, Script(duration_seconds=None, stop_code=code, stdout=b"ready\n"))


_SAVES_ON = """
import os, signal, sys, time
if os.path.exists(os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], sys.argv[1])):
    sys.exit(0)  # Another attempt: all was saved.
def save(number, frame):
    signal.signal(number, signal.SIG_IGN)  # `timeout` passes it on, too.
    print("saving", flush=True)
    time.sleep(0.3)
    open(os.path.join(os.environ["BERTH_CHECKPOINT_DIR"], sys.argv[1]), "w").close()
    sys.exit(0)
signal.signal(getattr(signal, "SIG{name}"), save)
print("ready", flush=True)
while True:
    time.sleep(0.02)
"""
FORMS: Mapping[str, str] = {
    "alone": "PROGRAM",
    "in place of the shell": "exec PROGRAM",
    "after another": "true && PROGRAM",
    "in lines": "echo begins\nPROGRAM\necho goes on",
    "before another": "PROGRAM; echo goes on",
    "before a pipe": "PROGRAM | tee copy",
    "with its errors before a pipe": "{ PROGRAM 2>&1 1>&3 | tee copy >&2; } 3>&1",
    "in a shell of the user": "sh -c QUOTED",
    "in a list": "",
    "in the background": "PROGRAM & wait",
    "in parentheses": "(cd . && PROGRAM)",
    "beneath a program that passes signals on": "timeout 600 PROGRAM",
}
"""Ways to write a command with one program in it."""


def command_that_saves_on(name: str, form: str) -> str | list[str]:
    """A program in one of the forms that takes a moment at this signal to save: a file with the form's name. Where it finds
    that, it has nothing left to do."""
    words = ["python3", "-c", _SAVES_ON.replace("{name}", name), form]
    quoted = shlex.quote(f"{shlex.join(words)}; echo goes on")
    return FORMS[form].replace("PROGRAM", shlex.join(words)).replace("QUOTED", quoted) or words


def saves_on(name: str, form: str) -> Behaviour:
    command = command_that_saves_on(name, form)
    script = Script(duration_seconds=None, stop_code=0, stdout=b"ready\n")
    if isinstance(command, str):
        return Behaviour(command, script)
    return Behaviour("", script, argv=tuple((word,) for word in command))


def ignores_signals() -> Behaviour:
    return Behaviour(
        "trap '' TERM; echo ready; while :; do sleep 0.05; done",
        Script(duration_seconds=None, stop_seconds=None, stdout=b"ready\n"),
    )


def writes(stdout: bytes, stderr: bytes = b"") -> Behaviour:
    """Write bytes exactly; `\\0ooo` is what every printf understands."""
    out, err = ("".join(f"\\0{byte:03o}" for byte in data) for data in (stdout, stderr))
    return Behaviour(f"printf %b {shlex.quote(out)}; printf %b {shlex.quote(err)} >&2", Script(stdout=stdout, stderr=stderr))


def saves(data: bytes) -> Behaviour:
    """Leave this in the checkpoint directory, in a file."""
    text = "".join(f"\\0{byte:03o}" for byte in data)
    return Behaviour(f'printf %b {shlex.quote(text)} >"$BERTH_CHECKPOINT_DIR/number"', Script(saves=data))


def reads_saved() -> Behaviour:
    return Behaviour('cat "$BERTH_CHECKPOINT_DIR/number" 2>/dev/null; exit 0', Script(reads_saved=True))


def cannot_start() -> Behaviour:
    return Behaviour(
        "",
        Script(code=127, reason=ExitReason.START_FAILED, evidence="/nonexistent/program: not found"),
        argv=(("/nonexistent/program",),),
    )


def hogs_memory() -> Behaviour:
    return Behaviour(
        "exec /usr/bin/python3 -c 'import time; block = bytearray(200 << 20); time.sleep(1000)'",
        Script(code=137, signal=9, reason=ExitReason.OOM, evidence="limit"),
        memory_bytes=64 << 20,
    )


@dataclass
class Bench:
    """One engine and the means to give it jobs, to wait, and to lose the platform around it."""

    name: str
    make: Callable[[], Engine]
    pass_time: Callable[[float], None] = time.sleep
    behaviours: dict[tuple[AttemptId, TaskName], Behaviour] = field(default_factory=dict)
    image: ImageRef = HOST_IMAGE
    forms: Sequence[str] = tuple(FORMS)  # Fewer where each takes a pod.
    engine: Engine = field(init=False)

    def __post_init__(self) -> None:
        self.engine = self.make()

    @property
    def is_fake(self) -> bool:
        return self.name == "fake"

    def restart(self) -> None:
        """The platform is gone at once and comes back with nothing but what the engine keeps."""
        self.close()
        self.engine = self.make()

    def close(self) -> None:
        if not isinstance(self.engine, FakeEngine):
            self.engine.close()  # type: ignore[attr-defined]

    def workload(
        self,
        *behaviours: Behaviour,
        env: Mapping[str, Text] | None = None,
        secret_env: Mapping[str, str] | None = None,
        files: Mapping[str, Text] | None = None,
        ports: tuple[str, ...] = (),
        log_quota_bytes: int = 0,
        tenant: int = 1,
        checkpoint: CheckpointRef | None = None,
        keeps_outputs: bool = False,
    ) -> Workload:
        attempt_id = uuid.uuid4()
        tasks = []
        for index, behaviour in enumerate(behaviours):
            name = TaskName("worker", index)
            self.behaviours[attempt_id, name] = behaviour
            tasks.append(
                TaskWorkload(
                    name=name,
                    argv=behaviour.command(),
                    env={**(env or {}), **({"BERTH_CHECKPOINT_DIR": (CheckpointDir(),)} if checkpoint is not None else {})},
                    secret_env=secret_env or {},
                    resources=Resources(cpu_millis=1000, memory_bytes=behaviour.memory_bytes or 256 << 20),
                    ports=ports,
                )
            )
        return Workload(
            attempt_id=attempt_id,
            job_id=uuid.uuid4(),
            number=1,
            name="contract",
            isolation_key=f"tenant-{tenant}",
            isolation_number=tenant,
            user_key="alice",
            labels={},
            image=self.image,
            tasks=tuple(tasks),
            files=files or {},
            log_quota_bytes=log_quota_bytes,
            checkpoint=checkpoint,
            keeps_outputs=keeps_outputs,
        )

    def script_for(self, workload: Workload, task: TaskWorkload) -> Script:
        return self.behaviours[workload.attempt_id, task.name].script

    def start(self, *behaviours: Behaviour, **options: object) -> Workload:
        workload = self.workload(*behaviours, **options)  # type: ignore[arg-type]
        answers: list[Ensured | Retry | GiveUp] = []

        def answered() -> bool:
            answers[:] = self.engine.ensure([workload])
            return getattr(answers[0], "code", "") != "image_pulling"

        self.wait_until(answered, "the pull of the image")
        assert getattr(answers[0], "created", False), answers
        return workload

    def see(self, attempt_id: AttemptId) -> AttemptObservation | None:
        return next((item for item in self.engine.observe(None).items if item.attempt_id == attempt_id), None)

    def wait_until(self, holds: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not holds():
            assert time.monotonic() < deadline, f"{what} did not happen within {DEADLINE_SECONDS} s"
            self.pass_time(0.02)

    def wait_for_start(self, attempt_id: AttemptId) -> None:
        """Wait until all tasks run: a gang is let go by one who observes that all of it is there."""

        def has_started() -> bool:
            seen = self.see(attempt_id)
            return seen is not None and all(task.state is TaskState.RUNNING for task in seen.tasks)

        self.wait_until(has_started, "the start of all tasks")

    def wait_for_end(self, attempt_id: AttemptId) -> tuple[TaskObservation, ...]:
        """Wait until no task runs and give how they ended; checks that states go only forwards on the way."""
        order = [TaskState.PENDING, TaskState.RUNNING, TaskState.ENDED]
        reached: dict[TaskName, int] = {}

        def ended() -> bool:
            seen = self.see(attempt_id)
            assert seen is not None, "a live attempt is always observed"
            for task in seen.tasks:
                step = order.index(task.state) if task.state in order else len(order)
                assert step >= reached.get(task.name, 0), f"{task.name} went back to {task.state}"
                reached[task.name] = step
            return all(task.state in (TaskState.ENDED, TaskState.GONE) for task in seen.tasks)

        self.wait_until(ended, "the end of the attempt")
        seen = self.see(attempt_id)
        assert seen is not None
        return seen.tasks

    def read_all(self, attempt_id: AttemptId, task: TaskName, stream: Stream = Stream.OUT) -> bytes:
        """Read a stream of an ended task to its end."""
        cursor, data = 0, b""
        for _ in range(10_000):
            chunks = self.engine.logs(attempt_id, task, stream, cursor)
            data += b"".join(chunk.data for chunk in chunks.chunks)
            cursor = chunks.cursor
            if chunks.complete:
                return data
        raise AssertionError("the log never became complete")

    def wait_for_output(self, attempt_id: AttemptId, expected: bytes, task: TaskName | None = None) -> None:
        name = task or TaskName("worker", 0)

        def written() -> bool:
            chunks = self.engine.logs(attempt_id, name, Stream.OUT, 0).chunks
            return expected in b"".join(chunk.data for chunk in chunks)

        self.wait_until(written, f"output {expected!r}")


def policy_of(directory: Path, **changes: object) -> Policy:
    policy = Policy(
        roots=(str(directory),),
        uid_base=200_000,
        gid_base=300_000,
        service_uid=os.geteuid(),
        service_gid=os.getegid(),
        drop_rights=IS_ROOT,
    )
    return replace(policy, **changes)  # type: ignore[arg-type]


def config_of(directory: Path, **changes: object) -> LocalEngineConfig:
    config = LocalEngineConfig(root=str(directory / "engine" / "here"), node="here", drop_rights=IS_ROOT)
    return replace(config, **changes)  # type: ignore[arg-type]


def end_everything(directory: Path, launcher: Launcher) -> None:
    """Kill whatever a test left running, by attempt, and remove it."""
    for root in (directory / "engine").glob("*/attempts"):
        names = os.listdir(root)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:  # A task that begins just now is not there for the first signal.
            launcher.signal([SignalAttempt(str(root.parent), name, 9) for name in names])
            if all(launcher.remove_attempts(str(root.parent), names)) or time.monotonic() > deadline:
                break
            time.sleep(0.01)


def local_bench(name: str, directory: Path, launcher: Launcher, *, image: ImageRef = HOST_IMAGE, **changes: object) -> Bench:
    return Bench(name, lambda: LocalEngine(config_of(directory, **changes), launcher), image=image)


def fake_bench() -> Bench:
    now = [datetime(2026, 1, 1, tzinfo=UTC)]
    engines: list[FakeEngine] = []
    bench: list[Bench] = []

    def make() -> Engine:
        state = engines[-1].state if engines else None
        engines.append(FakeEngine(clock=lambda: now[0], script_for=lambda *task: bench[0].script_for(*task), state=state))
        return engines[-1]

    def pass_time(seconds: float) -> None:
        now[0] += timedelta(seconds=seconds)

    bench.append(Bench("fake", make, pass_time))
    return bench[0]


@contextlib.contextmanager
def running_launcher(directory: Path) -> Iterator[LauncherClient]:
    """A launcher process with the rights of the tests."""
    child = start_child(str(directory / "launcher.sock"), policy_of(directory))
    client = LauncherClient(str(directory / "launcher.sock"))
    try:
        yield client
    finally:
        client.close()
        assert child.stdin is not None
        child.stdin.close()
        child.wait(DEADLINE_SECONDS)


@contextlib.contextmanager
def launcher_without_rights(directory: Path) -> Iterator[Launcher]:
    """A launcher process of a user without any rights, with a data directory of its own."""
    root = directory / "engine" / "here"
    for path in (root, root / "attempts", root / "gates", root / "stops", root / "notes"):
        path.mkdir(parents=True, exist_ok=True)
    for path in (directory, *directory.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    socket_path = directory / f"{secrets.token_hex(4)}.sock"
    command = [sys.executable, "-P", "-m", "clusters.engines.local.launching", "--socket", str(socket_path)]
    command += [
        "--root",
        str(directory),
        "--uid-base",
        "200000",
        "--gid-base",
        "300000",
        "--service-uid",
        "0",
        "--service-gid",
        "0",
    ]
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    child = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        env=environment,
        cwd="/",
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        start_new_session=True,
    )
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not socket_path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    client = LauncherClient(str(socket_path))
    try:
        yield client
    finally:
        client.close()
        assert child.stdin is not None
        child.stdin.close()
        child.wait(DEADLINE_SECONDS)


@contextlib.contextmanager
def open_container_bench(name: str, directory: Path, image: ImageRef) -> Iterator[Bench]:
    """A local engine whose tasks run in an image of a registry on the loopback. `container-no-root`: it has no rights."""
    host, _, _ = image.location.partition("/")
    with contextlib.ExitStack() as stack:
        if name == "container-no-root":
            launcher: Launcher = stack.enter_context(launcher_without_rights(directory))
        else:
            launcher = DirectLauncher(policy_of(directory))
        rules, drops = Rules(plain_hosts=frozenset({host})), IS_ROOT and name != "container-no-root"
        bench = local_bench(name, directory, launcher, image=image, registries=rules, drop_rights=drops)
        stack.callback(end_everything, directory, launcher)
        stack.callback(bench.close)
        yield bench


@contextlib.contextmanager
def open_bench(name: str, directory: Path) -> Iterator[Bench]:
    """Give a bench by its name, and clean up after it."""
    if name == "fake":
        yield fake_bench()
        return
    if name == "kubernetes":
        from tests.contract.engines.kubernetes_bench import open_kubernetes_bench

        with open_kubernetes_bench(directory) as opened:
            yield opened
        return
    if name != "local" and not IS_ROOT:
        pytest.skip("needs root to give rights away")
    with contextlib.ExitStack() as stack:
        if name == "launcher":
            launcher: Launcher = stack.enter_context(running_launcher(directory))
            bench = local_bench(name, directory, launcher)
        elif name in ("no-root", "bare"):
            launcher = stack.enter_context(launcher_without_rights(directory))
            bench = local_bench(name, directory, launcher, drop_rights=False, use_bubblewrap=False if name == "bare" else None)
        else:
            launcher = DirectLauncher(policy_of(directory))
            bench = local_bench(name, directory, launcher)
        stack.callback(end_everything, directory, launcher)
        stack.callback(bench.close)
        yield bench


ENGINES = ("fake", "local", "launcher", "no-root", "bare")
