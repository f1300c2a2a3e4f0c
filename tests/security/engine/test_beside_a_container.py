"""A program beside a task in a hostile container image: no right but the tenant's, no way out, no longer than the task."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.interface import ExecRefused, ImageKind, ImageRef, NotRunning, Stop, StopCause, TaskName, Workload
from clusters.engines.local import processes
from clusters.engines.local.launching import becoming, entering, syscalls
from tests.builders.prepared import short_folder
from tests.builders.registry import Member, RealRegistry, registry, shell, symlink
from tests.contract.engines.bench import IS_ROOT, Bench, open_container_bench, runs_on
from tests.contract.engines.test_exec import Typed, execute, processes_of

pytestmark = pytest.mark.engines
FIRST = TaskName("worker", 0)
RIGHTS = "grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp):?' /proc/self/status"
ROOMS = "for room in user mnt pid ipc uts cgroup net; do readlink /proc/self/ns/$room; done"
TRAPS = ("nsenter", "setsid", "setpriv", "python3", "python", "bash")


@pytest.fixture(scope="module")
def place() -> Iterator[RealRegistry]:
    with registry() as found:
        yield found


@pytest.fixture
def engine_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    import shutil

    directory = short_folder("engine")
    directory.chmod(0o711)
    yield directory
    shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
def image(place: RealRegistry) -> ImageRef:
    return pushed(place, "team/plain:1", [*shell(), symlink("bin/readlink", "busybox")])


@pytest.fixture
def bench(engine_dir: Path, image: ImageRef) -> Iterator[Bench]:
    with open_container_bench("container", engine_dir, image) as opened:
        yield opened


def pushed(place: RealRegistry, name: str, *layers: list[Member]) -> ImageRef:
    digest = place.push(name, list(layers))
    return ImageRef(ImageKind.REGISTRY, digest, f"{place.host}/{name}@{digest}")


def running(bench: Bench, shell_text: str = "true", **options: object) -> Workload:
    workload = bench.start(replace(runs_on(), shell=f"{shell_text}; echo ready; exec sleep 1000"), **options)
    bench.wait_for_output(workload.attempt_id, b"ready")
    return workload


def said(bench: Bench, workload: Workload, text: str) -> str:
    return execute(bench, workload.attempt_id, "/bin/sh", "-c", text, terminal=None).wait()[0].decode(errors="replace")


def test_it_has_the_rights_of_its_task_and_is_where_its_task_is(bench: Bench) -> None:
    workload = running(bench, f"( {RIGHTS}; {ROOMS} ) >rights")
    theirs = said(bench, workload, "cat rights")
    assert said(bench, workload, f"{RIGHTS}; {ROOMS}") == theirs
    assert "CapEff:\t0000000000000000" in theirs
    assert "CapBnd:\t0000000000000000" in theirs
    assert "NoNewPrivs:\t1" in theirs
    assert ("Seccomp:\t2" in theirs) == (syscalls.compiled(syscalls.Filter.TASK) is not None)


def test_what_brings_its_end_home_is_the_tenant_without_rights_too(bench: Bench) -> None:
    workload = running(bench)
    typed = execute(bench, workload.attempt_id, "sleep", "777", terminal=None)
    bench.wait_until(lambda: bool(processes_of(workload.attempt_id, b"sleep\x00777")), "the program")
    (program,) = processes_of(workload.attempt_id, b"sleep\x00777")
    found = processes.read_process(program)
    assert found is not None
    status = Path(f"/proc/{found.parent}/status").read_text()
    if IS_ROOT:
        assert "Uid:\t200001\t200001\t200001\t200001" in status
        assert "Groups:\t \n" in status
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert f"{name}:\t0000000000000000" in status, name
    assert os.listdir(f"/proc/{found.parent}/fd") == [], "nothing of ours stays open beside a tenant's program"
    typed.execution.close()


@pytest.mark.parametrize(
    "attack",
    [
        "unshare -U true",
        "unshare -m true",
        "nsenter -t 1 -m true",
        "mount -t tmpfs none /tmp",
        "chroot / true",
        "echo x >/made-here",
    ],
)
def test_it_cannot_do_what_its_task_cannot(bench: Bench, attack: str) -> None:
    output = said(bench, running(bench), f"if ( {attack} ) 2>/dev/null >/dev/null; then echo done; else echo refused; fi")
    assert output == "refused\n"


def test_it_sees_nothing_of_the_host_or_of_another_tenant(bench: Bench, engine_dir: Path) -> None:
    other = running(bench, "echo canary-4711 >mine; chmod 777 . mine", tenant=2)
    workload = running(bench)
    attempts = f"{engine_dir}/engine/here/attempts"
    output = said(
        bench,
        workload,
        f"ls -d {engine_dir} /usr /home /root; cat {attempts}/{other.attempt_id}/work/mine; "
        "ls /proc/*/root/; cat /proc/*/environ",
    )
    assert "canary-4711" not in output
    assert str(other.attempt_id) not in output.replace(f"{attempts}/{other.attempt_id}", "")
    assert f"\n{engine_dir}\n" not in output
    assert not {line for line in output.splitlines() if line.isdigit() and int(line) == os.getpid()}


def test_no_program_of_the_image_runs_before_the_rights_are_gone(place: RealRegistry, engine_dir: Path) -> None:
    """What the host's programs are called is something else in the image, and so is its loader's list of libraries."""
    trap = b"#!/bin/sh\nid -u >>/tmp/trapped; cat /proc/self/status >>/tmp/trapped\n"
    layer = [
        *shell(),
        *(Member(f"{folder}/{name}", trap, 0o755) for folder in ("bin", "usr/bin") for name in TRAPS if name != "nsenter"),
    ]
    layer += [
        Member("usr/bin/nsenter", trap, 0o755),
        Member("etc/ld.so.preload", b"/evil.so\n"),
        Member("evil.so", b"no library"),
    ]
    with open_container_bench("container", engine_dir, pushed(place, "team/traps:1", layer)) as bench:
        workload = running(bench)
        assert said(bench, workload, "echo in; cat /tmp/trapped || echo none").splitlines()[0] == "in"
        assert "none" in said(bench, workload, "cat /tmp/trapped || echo none")


@pytest.mark.parametrize(
    "start",
    [
        Member("bin/sh", b"#!/proc/self/exe\n", 0o755),
        symlink("bin/sh", "/proc/self/exe"),
        Member("bin/sh", b"\x7fELF nothing", 0o755),
    ],
)
def test_a_shell_that_leads_back_to_our_program_gives_nothing(place: RealRegistry, engine_dir: Path, start: Member) -> None:
    """As in CVE-2019-5736: what is executed then is the host's interpreter, with no right to change it."""
    interpreter = Path(os.path.realpath("/proc/self/exe"))
    before = interpreter.stat()
    with open_container_bench("container", engine_dir, pushed(place, "team/plain:1", shell())) as bench:
        workload = running(bench)
        tree = next((engine_dir / "engine/here/images/trees").iterdir()) / "root"
        (tree / "bin/sh").unlink()
        if start.link:
            (tree / "bin/sh").symlink_to(start.link)
        else:
            (tree / "bin/sh").write_bytes(start.content)
            (tree / "bin/sh").chmod(start.mode)
        output, code = execute(bench, workload.attempt_id, "id", terminal=None).wait()
        assert code != 0, output
    assert (interpreter.stat().st_mtime_ns, interpreter.stat().st_size) == (before.st_mtime_ns, before.st_size)


def test_a_terminal_that_the_image_replaces_is_no_terminal(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The descriptor that comes back is looked at, whatever opened it."""
    workload = running(bench)
    monkeypatch.setattr(entering, "_TERMINALS", (1, 3))
    with pytest.raises(ExecRefused, match="cannot be entered"):
        execute(bench, workload.attempt_id, "true")


def test_it_does_not_outlive_the_task_even_in_a_session_of_its_own(bench: Bench) -> None:
    workload = running(bench)
    typed = execute(bench, workload.attempt_id, "/bin/sh", "-c", "trap '' TERM HUP; (sleep 778 &); echo up; sleep 779")
    typed.read_until(b"up")
    bench.wait_until(lambda: bool(processes_of(workload.attempt_id, b"sleep\x00778")), "the child")
    typed.execution.close()
    bench.engine.stop([Stop(workload.attempt_id, 0.1, StopCause.USER)])
    bench.wait_for_end(workload.attempt_id)
    deadline = time.monotonic() + 10
    while left := [pid for number in (b"778", b"779") for pid in processes_of(workload.attempt_id, b"sleep\x00" + number)]:
        assert time.monotonic() < deadline, left
        time.sleep(0.02)
    with pytest.raises(NotRunning):
        execute(bench, workload.attempt_id, "true", terminal=None)


def test_it_dies_with_what_brings_its_end_home(bench: Bench) -> None:
    workload = running(bench)
    typed: Typed = execute(bench, workload.attempt_id, "sleep", "780", terminal=None)
    bench.wait_until(lambda: bool(processes_of(workload.attempt_id, b"sleep\x00780")), "the program")
    (program,) = processes_of(workload.attempt_id, b"sleep\x00780")
    found = processes.read_process(program)
    assert found is not None
    os.kill(found.parent, 9)
    bench.wait_until(lambda: not processes_of(workload.attempt_id, b"sleep\x00780"), "the end of the program")
    assert typed.wait()[1] == 137


def test_a_stop_of_the_task_is_answered_by_the_program_itself(bench: Bench) -> None:
    workload = bench.start(replace(runs_on(), shell="trap '' TERM; echo ready; while :; do sleep 0.05; done"))
    bench.wait_for_output(workload.attempt_id, b"ready")
    asks = "trap 'exit 9' TERM; echo up; while :; do sleep 0.05; done"
    typed = execute(bench, workload.attempt_id, "sh", "-c", asks, terminal=None)
    typed.read_until(b"up")
    bench.engine.stop([Stop(workload.attempt_id, 20.0, StopCause.USER)])
    assert typed.wait()[1] == 9


def test_becoming_loads_nothing_of_the_platform() -> None:
    """It runs with rights in an interpreter of its own: the standard library only."""
    text = Path(becoming.__file__).read_text()
    imported = {line.split()[1].partition(".")[0] for line in text.splitlines() if line.startswith(("import ", "from "))}
    assert imported <= {
        "__future__",
        "array",
        "collections",
        "ctypes",
        "fcntl",
        "json",
        "os",
        "signal",
        "socket",
        "struct",
        "sys",
        "termios",
        "typing",
    }
