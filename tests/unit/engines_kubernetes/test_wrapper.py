"""The wrapper in real shells, as the first process of a process namespace."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters.engines.kubernetes import wrapper

SHELLS = [shell for shell in (["dash"], ["bash"], ["busybox", "sh"]) if shutil.which(shell[0])]
ALL_BYTES = "import sys; sys.stdout.buffer.write(bytes(range(256)) * 300); sys.stderr.buffer.write(b'w')"


class Container:
    """Runs a program under the wrapper, and reads its frames."""

    def __init__(self, folder: Path, shell: list[str]) -> None:
        self.folder, self.shell = folder, shell
        self.message = folder / "message"
        self.message.touch()
        self.passwd = folder / "passwd"
        self.started: list[subprocess.Popen[bytes]] = []
        (folder / "berth").mkdir()

    def start(self, *argv: str, quota: int = 1 << 20, environment: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        script, task = map(self.here, (wrapper.SCRIPT, wrapper.TASK_SCRIPT))
        words = [*self.shell, "-c", script, "berth", task, str(quota), "", "", "", "", *argv]
        namespace = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"]
        process = subprocess.Popen(
            [*namespace, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, **(environment or {})}
        )
        self.started.append(process)
        return process

    def remove(self) -> None:
        """End what a test that failed has left; a namespace goes with its first process."""
        for process in self.started:
            process.kill()
            process.communicate()

    def here(self, script: str) -> str:
        own = script.replace("/dev/termination-log", str(self.message)).replace(wrapper.USERS_FILE, str(self.passwd))
        return own.replace(f"{wrapper.ROOT}/", f"{self.folder}/berth/")

    def run_beside(self, process: subprocess.Popen[bytes], script: str, *words: str) -> None:
        """As `exec` does."""
        (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        beside = ["nsenter", "--target", first, "--pid", "--mount", *self.shell, "-c", self.here(script), "berth", *words]
        subprocess.run(beside, check=True, timeout=60)

    def run(self, *argv: str, quota: int = 1 << 20) -> tuple[int, bytes, bytes]:
        return self.end(self.start(*argv, quota=quota))

    def end(self, process: subprocess.Popen[bytes]) -> tuple[int, bytes, bytes]:
        output, errors = process.communicate(timeout=60)
        streams = {"O": b"", "E": b""}
        self.dropped = 0
        for line in (output + errors).split(b"\n"):
            frame = wrapper.read_frame(line)
            if frame is not None and frame.data is not None:
                assert frame.offset == len(streams[frame.stream])
                streams[frame.stream] += frame.data
            elif frame is not None:
                self.dropped += frame.skipped
        return process.returncode, streams["O"], streams["E"]


@pytest.fixture(params=SHELLS, ids=lambda shell: shell[0])
def container(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Container]:
    if os.geteuid() != 0:
        pytest.skip("needs root for a process namespace")
    made = Container(tmp_path, request.param)
    yield made
    made.remove()


def test_codes_and_signals_come_through(container: Container) -> None:
    assert container.run("/bin/sh", "-c", "exit 7")[0] == 7
    shutil.rmtree(container.folder / "berth/run")
    assert container.run("/bin/sh", "-c", "kill -9 $$")[0] == 137


def test_a_user_without_a_name_gets_one_where_the_image_lets_it(container: Container) -> None:
    if container.shell[0] == "busybox":
        pytest.skip("it asks an id of its own, to which root has a name")
    program = container.folder / "id"
    program.write_text("#!/bin/sh\ncase $1 in -un) exit 1 ;; *) echo 260002 ;; esac\n")
    program.chmod(0o755)
    environment = {"PATH": f"{container.folder}:{os.environ['PATH']}", "USER": "berth-x"}
    assert container.end(container.start("/bin/true", environment=environment))[0] == 0
    assert not container.passwd.exists()
    container.passwd.write_text("root:x:0:0::/root:/bin/sh\n")
    shutil.rmtree(container.folder / "berth/run")
    assert container.end(container.start("/bin/true", environment=environment))[0] == 0
    line = f"berth-x:x:260002:260002::{container.folder}/berth/home:/bin/sh\n"
    assert container.passwd.read_text() == f"root:x:0:0::/root:/bin/sh\n{line}"


def test_bytes_and_streams_come_through(container: Container) -> None:
    assert container.run("/usr/bin/python3", "-c", ALL_BYTES) == (0, bytes(range(256)) * 300, b"w")


def test_the_quota_cuts_exactly_and_counts_the_rest(container: Container) -> None:
    assert container.run("/usr/bin/python3", "-c", "print('x' * 99_999)", quota=70_000)[1] == b"x" * 70_000
    assert container.dropped == 30_000


def test_what_cannot_be_executed_is_told_apart(container: Container) -> None:
    assert container.run("/nonexistent")[0] == 127
    assert container.message.read_text() == "berth: cannot start /nonexistent"
    shutil.rmtree(container.folder / "berth/run")
    container.message.write_text("")
    assert container.run("/bin/sh", "-c", "exit 127")[0] == 127
    assert container.message.read_text() == ""


SAVES = """
import os, signal, sys, time
def save(*_):
    time.sleep(0.3)
    print("saved", flush=True)
    sys.exit(0)
signal.signal(getattr(signal, f"SIG{sys.argv[2]}"), save)
open(sys.argv[1], "w").close()
while True: time.sleep(0.02)
"""


def begun(container: Container) -> None:
    """Wait until the task says so by a file."""
    deadline = time.monotonic() + 60
    while not (container.folder / "begun").exists():
        assert time.monotonic() < deadline, "it did not begin"
        time.sleep(0.02)


def stop(
    process: subprocess.Popen[bytes], container: Container, name: str = "TERM", target: str = "programs", grace: float = 600
) -> None:
    begun(container)
    number = int(signal.Signals[f"SIG{name}"])
    container.run_beside(process, wrapper.STOP_SCRIPT, name, str(number), target, str(int(grace * 100)))


def saving(container: Container, name: str = "TERM") -> str:
    return shlex.join(["/usr/bin/python3", "-c", SAVES, str(container.folder / "begun"), name])


@pytest.mark.parametrize("name", ["TERM", "USR1"])
def test_the_stop_signal_reaches_the_task_and_its_code_counts(container: Container, name: str) -> None:
    text = f"trap 'exit 8' {name}; : >{container.folder}/begun; while :; do sleep 0.05; done"
    process = container.start("/bin/sh", "-c", text, quota=9)
    stop(process, container, name)
    assert container.end(process)[0] == 8


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("INT", "PROGRAM; echo goes on", b"saved\ngoes on\n"),
        ("USR1", "PROGRAM | tee copy", b"saved\n"),
        ("TERM", "(PROGRAM) & sleep 600", b"saved\n"),
    ],
)
def test_a_program_saves_whatever_waits_for_it(container: Container, name: str, form: str, said: bytes) -> None:
    process = container.start("/bin/sh", "-c", form.replace("PROGRAM", saving(container, name)))
    stop(process, container, name)
    assert container.end(process)[1] == said


@pytest.mark.parametrize(("target", "said"), [("children", b"saved\n"), ("first", b"")])
def test_the_processes_that_were_asked_for_get_the_signal(container: Container, target: str, said: bytes) -> None:
    process = container.start("/bin/sh", "-c", f"trap 'kill -9 $!; exit 9' TERM; {saving(container)} & wait")
    stop(process, container, target=target)
    assert container.end(process)[1] == said


def test_the_kubelets_own_signal_is_passed_on(container: Container) -> None:
    process = container.start("/bin/sh", "-c", saving(container))
    begun(container)
    (first,) = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    os.kill(int(first), signal.SIGTERM)
    assert container.end(process)[:2] == (0, b"saved\n")


STUBBORN = """
import os, signal, sys
def told(*_):
    os.write(1, b"told\\n")
    open(f"{sys.argv[1]}-told-{os.getpid()}", "w").close()
signal.signal(signal.SIGTERM, told)
for number in range(4): os.fork()
open(f"{sys.argv[1]}-{os.getpid()}", "w").close()
while True: signal.pause()
"""


def test_what_does_not_end_is_killed_after_its_grace_and_its_output_is_whole(container: Container) -> None:
    def await_all(pattern: str) -> None:
        deadline = time.monotonic() + 60
        while len(list(container.folder.glob(pattern))) < 16:
            assert time.monotonic() < deadline, f"not all of them are there: {pattern}"
            time.sleep(0.02)

    program = shlex.join(["/usr/bin/python3", "-c", STUBBORN, str(container.folder / "begun")])
    process = container.start("/bin/sh", "-c", f"{program} & head -c 30000 /dev/zero; wait")
    await_all("begun-[0-9]*")
    (container.folder / "begun").touch()
    stop(process, container)  # Its end is far away,
    await_all("begun-told-*")
    stop(process, container, grace=1)  # and comes nearer; the signal is not given again.
    stop(process, container)
    code, output, _ = container.end(process)
    assert (code, output.replace(b"\0", b"")) == (137, b"told\n" * 16)
    assert len(output) == 30_000 + 5 * 16


def test_a_stop_that_comes_while_the_task_is_begun_is_not_lost(container: Container) -> None:
    (container.folder / "berth/run/told").mkdir(parents=True)
    assert container.run("/bin/sh", "-c", "echo began; sleep 600")[:2] == (143, b"")


def test_what_outlives_the_task_does_not_keep_it(container: Container) -> None:
    began = time.monotonic()
    assert container.run("/bin/sh", "-c", "sleep 300 & echo hi")[:2] == (0, b"hi\n")
    assert time.monotonic() - began < 30


def test_files_with_late_addresses_are_written_as_they_are(container: Container) -> None:
    text = "10.0.0.1 $(id) `id` 'x' \\n\n"
    environment = {"BERTH_FILE_NAME_0": "hosts", "BERTH_FILE_TEXT_0": text}
    process = container.start("/bin/cat", f"{container.folder}/berth/run/files/hosts", environment=environment)
    assert container.end(process)[1] == text.encode()


@pytest.mark.parametrize(("own", "threads"), [({}, b"3"), ({"OMP_NUM_THREADS": "8"}, b"8")])
def test_threads_are_as_many_as_the_cores_unless_image_or_job_say_otherwise(
    container: Container, own: dict[str, str], threads: bytes
) -> None:
    process = container.start("/bin/sh", "-c", "echo $OMP_NUM_THREADS", environment={"BERTH_CPUS": "3", **own})
    assert container.end(process)[1] == threads + b"\n"
