"""A job does its worst to what is not its own, and the host shows what came of it."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.fake import Script
from clusters.engines.interface import GiveUp, HostDir, MountRef, Stream, TaskName, Workload
from controlplane.selftest.boundaries import PROBE, read
from tests.contract.engines.bench import Behaviour, Bench
from tests.contract.engines.test_exec import execute
from tests.security.isolation.conftest import ALICE, CAROL

pytestmark = pytest.mark.engines
FIRST = TaskName("worker", 0)
CANARY = "canary-7f3a9c"


def run(bench: Bench, shell: str, *, tenant: int = CAROL, **changes: object) -> str:
    """Run a shell text as a tenant and give what it wrote."""
    workload = replace(bench.workload(Behaviour(shell, Script()), tenant=tenant), **changes)  # type: ignore[arg-type]
    (answer,) = bench.engine.ensure([workload])
    assert getattr(answer, "created", False), answer
    bench.wait_for_end(workload.attempt_id)
    out = bench.read_all(workload.attempt_id, FIRST) + bench.read_all(workload.attempt_id, FIRST, Stream.ERR)
    return out.decode(errors="replace")


@pytest.fixture
def alices_job(bench: Bench) -> Workload:
    """Alice's job runs, with a secret in its environment, a file in its directory and a line in its log."""
    shell = 'echo "$TOKEN" > result.txt; chmod 644 result.txt; echo "$TOKEN"; echo ready; exec sleep 1000'
    workload = bench.start(Behaviour(shell, Script()), tenant=ALICE, secret_env={"TOKEN": CANARY})
    bench.wait_for_output(workload.attempt_id, b"ready")
    return workload


@pytest.fixture
def platform_files(data_dir: Path) -> tuple[Path, ...]:
    """The database and the key as the platform keeps them."""
    paths = tuple(data_dir / name for name in ("berth.sqlite3", "secret.key"))
    for path in paths:
        path.write_text(CANARY)
        path.chmod(0o600)
    return paths


@pytest.mark.capability("26", "A running job reads neither the database nor another tenant's files")
def test_the_database_and_the_key_are_closed_to_jobs(bench: Bench, platform_files: tuple[Path, ...]) -> None:
    output = run(bench, "".join(f"cat {path}; cp {path} copy; cat copy; echo x >> {path};" for path in platform_files))
    assert CANARY not in output
    assert [path.read_text() for path in platform_files] == [CANARY, CANARY]


@pytest.mark.capability("26", "A running job reads neither the database nor another tenant's files")
def test_another_tenants_working_directory_and_logs_are_closed(bench: Bench, alices_job: Workload, data_dir: Path) -> None:
    attempt = data_dir / "engine" / "here" / "attempts" / str(alices_job.attempt_id)
    assert (attempt / "work" / "result.txt").read_text().strip() == CANARY
    tries = [
        f"cat {attempt}/work/result.txt",
        f"ls {attempt}/work",
        f"cat {attempt}/control/*",
        f"cat {attempt}/control/worker-0.stdout",
    ]
    tries += [
        f"cat {attempt}/home/*",
        f"echo x > {attempt}/work/planted",
        f"ls {data_dir}/engine/here/attempts",
        f"ls {data_dir}",
    ]
    output = run(bench, "; ".join(tries))
    assert CANARY not in output
    assert str(alices_job.attempt_id) not in re.sub(r"/\S*", "", output)
    assert not (attempt / "work" / "planted").exists()


def test_another_tenants_environment_and_memory_are_closed(bench: Bench, alices_job: Workload) -> None:
    output = run(
        bench, "for each in /proc/[0-9]*; do tr '\\0' '\\n' < $each/environ; cat $each/cmdline; ls -l $each/fd/ $each/cwd; done"
    )
    assert CANARY not in output


def test_another_tenants_processes_are_not_signalled(bench: Bench, alices_job: Workload) -> None:
    seen = bench.see(alices_job.attempt_id)
    assert seen is not None
    pid = seen.tasks[0].pid
    assert pid is not None
    run(bench, f"kill -9 {pid}; kill -9 -{pid}; kill -9 $(seq {pid} {pid + 8}); kill -9 -1; true")
    seen = bench.see(alices_job.attempt_id)
    assert seen is not None
    assert seen.tasks[0].state == "running"


def test_a_job_has_its_tenants_user_no_rights_beyond_it_and_no_way_to_them(bench: Bench) -> None:
    output = run(bench, "id -u; id -g; id -G; grep -E '^(Cap(Prm|Eff|Bnd|Amb)|NoNewPrivs)' /proc/self/status; umask")
    lines = output.split("\n")
    assert lines[:3] == [str(200_000 + CAROL), str(200_000 + CAROL), str(200_000 + CAROL)]
    assert re.findall(r"Cap\w+:\s+(\w+)", output) == ["0" * 16] * 4
    assert "NoNewPrivs:\t1" in output
    assert lines[-2] == "0077"


def test_a_secret_is_in_the_process_alone(bench: Bench, alices_job: Workload, data_dir: Path) -> None:
    attempt = data_dir / "engine" / "here" / "attempts" / str(alices_job.attempt_id)
    written = [path for path in (data_dir / "engine").rglob("*") if path.is_file() and CANARY in path.read_text(errors="replace")]
    assert {path.name for path in written} == {"result.txt", "worker-0.stdout"}  # Alice's own doing.
    assert all(attempt in path.parents for path in written)
    for cmdline in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = cmdline.read_bytes().split(b"\0")
        except OSError:
            continue
        assert not any(word.startswith(b"TOKEN=") for word in words)


def test_a_users_library_path_reaches_no_process_with_rights(bench: Bench) -> None:
    workload = bench.start(
        Behaviour("echo ready; exec sleep 1000", Script()),
        tenant=CAROL,
        env={"LD_PRELOAD": ("/tmp/evil.so",), "LD_LIBRARY_PATH": ("/tmp",), "BASH_ENV": ("/tmp/evil",), "ENV": ("/tmp/evil",)},
    )
    bench.wait_for_output(workload.attempt_id, b"ready")
    seen = bench.see(workload.attempt_id)
    assert seen is not None
    wrapper = seen.tasks[0].pid
    with_rights = [wrapper, *_children(wrapper)]
    owners = [os.stat(f"/proc/{pid}").st_uid for pid in with_rights]
    assert 0 in owners
    for pid, owner in zip(with_rights, owners, strict=True):
        if owner == 0:
            assert b"evil" not in Path(f"/proc/{pid}/environ").read_bytes()


def test_the_launchers_socket_is_closed_to_jobs(bench: Bench, data_dir: Path) -> None:
    code = f"import socket; s = socket.socket(socket.AF_UNIX); s.connect('{data_dir}/launcher.sock'); print('connected')"
    assert "connected" not in run(bench, f'/usr/bin/python3 -c "{code}"')


def test_a_link_in_the_working_directory_leads_the_platform_nowhere(bench: Bench, platform_files: tuple[Path, ...]) -> None:
    from clusters.engines.local import LocalEngine

    target = platform_files[1]
    shell = f"ln -s {target} model; mkdir dir; ln -s {target.parent} dir/up; mkfifo pipe; echo mine > real"
    workload = bench.start(Behaviour(shell, Script()), tenant=CAROL)
    bench.wait_for_end(workload.attempt_id)
    engine = bench.engine
    assert isinstance(engine, LocalEngine)
    assert [file.path for file in engine.list_outputs(workload.attempt_id, ["."])] == ["real"]
    for path in ("model", "dir/up/secret.key", "pipe", "../control/started.json", "/etc/passwd"):
        with pytest.raises(Exception, match=r".") as refused:
            os.close(engine.open_output(workload.attempt_id, path))
        assert CANARY not in str(refused.value)
    descriptor = engine.open_output(workload.attempt_id, "real")
    with os.fdopen(descriptor) as file:
        assert file.read() == "mine\n"


def test_removing_an_attempt_follows_no_link_and_no_depth_stops_it(bench: Bench, platform_files: tuple[Path, ...]) -> None:
    shell = (
        f"ln -s {platform_files[0].parent} out; i=0; while [ $i -lt 300 ]; do mkdir deep && cd deep; i=$((i+1)); done; touch leaf"
    )
    workload = bench.start(Behaviour(shell, Script()), tenant=CAROL)
    bench.wait_for_end(workload.attempt_id)
    bench.wait_until(lambda: type(bench.engine.forget([workload.attempt_id])[0]).__name__ == "Forgotten", "forgetting")
    assert all(path.exists() for path in platform_files)


FILTERED = ("user_namespaces", "mounts", "keyrings", "kernel_programs", "performance_counters", "kernel_rings")


def probed(bench: Bench) -> dict[str, str]:
    """What the probe of the self-test finds open, while Alice's job runs beside it."""
    return {name: said for name, said in read(run(bench, f"exec /usr/bin/python3 -c {shlex.quote(PROBE)}")).items() if said}


def test_a_job_makes_no_user_namespace_mounts_nothing_and_reaches_no_part_of_the_kernel_it_does_not_need(bench: Bench) -> None:
    found = probed(bench)
    assert [found[name] for name in FILTERED if name in found] == []
    output = run(bench, "grep Seccomp: /proc/self/status; unshare --user --map-root-user --mount true")
    assert "Seccomp:\t2" in output
    assert "Operation not permitted" in output


def test_without_the_filter_the_same_tries_succeed(bench: Bench) -> None:
    """The tries are real ones: on a kernel that allows user namespaces the filter alone stands in the way."""
    if Path("/proc/sys/user/max_user_namespaces").read_text().strip() == "0":
        pytest.skip("this kernel allows no user namespaces")
    line = ["setpriv", "--reuid=200077", "--regid=200077", "--clear-groups", "--no-new-privs", "/usr/bin/python3", "-c", PROBE]
    done = subprocess.run(line, cwd="/tmp", capture_output=True, text=True, timeout=60, check=True)
    found = read(done.stdout)
    assert [name for name in ("user_namespaces", "mounts", "keyrings") if not found[name]] == []


def test_a_terminal_is_under_the_same_filter(bench: Bench, alices_job: Workload) -> None:
    shell = "grep Seccomp: /proc/self/status; unshare --user true; unshare --mount true; nsenter --target 1 --mount true"
    said, _ = execute(bench, alices_job.attempt_id, "/bin/sh", "-c", shell, terminal=None).wait()
    output = said.decode()
    assert "Seccomp:\t2" in output
    assert output.count("unshare: unshare failed: Operation not permitted") == 2
    assert "nsenter: " in output


def test_programs_of_other_languages_and_debuggers_work_under_the_filter(bench: Bench) -> None:
    program = "import ctypes, threading, os; t = threading.Thread(target=os.system, args=('echo thread',)); t.start(); t.join()"
    numa = "import ctypes; print('numa', ctypes.CDLL(None).syscall(239, None, None, 0, None, 0))"
    output = run(bench, f"/usr/bin/python3 -c {shlex.quote(program)}; /usr/bin/python3 -c {shlex.quote(numa)}")
    assert output.split() == ["thread", "numa", "0"]
    if shutil.which("gdb"):
        assert "exited normally" in run(bench, "gdb -nx -batch -ex run /bin/true 2>&1")
    if shutil.which("java"):
        assert "OpenJDK" in run(bench, "java -Xmx64m -version 2>&1")


def test_a_call_that_the_filter_does_not_know_does_not_exist(bench: Bench) -> None:
    """Libraries fall back from ENOSYS as on an older kernel; the C library takes clone instead of clone3."""
    code = (
        "import ctypes; l = ctypes.CDLL(None, use_errno=True)\nfor n in (435, 999): print(l.syscall(n, 0, 0), ctypes.get_errno())"
    )
    assert "-1 38\n-1 38" in run(bench, f"/usr/bin/python3 -c {shlex.quote(code)}")


def test_sockets_of_families_that_load_kernel_modules_are_refused(bench: Bench) -> None:
    opening = "try: socket.socket(family, 2, 0).close(); print(family)\n except OSError as e: print(family, e.errno)"
    code = f"import socket\nfor family in (1, 2, 10, 16, 38, 40, 21, 30):\n {opening}"
    expected = ["1", "2", "10", "16", "38 97", "40 97", "21 97", "30 97"]
    assert run(bench, f"/usr/bin/python3 -c {shlex.quote(code)}").split("\n")[:8] == expected


def test_memory_and_signals_of_other_processes_are_closed(bench: Bench, alices_job: Workload) -> None:
    found = probed(bench)
    assert [found[name] for name in ("process_memory", "signals") if name in found] == []


class TestInASandbox:
    """What only bubblewrap gives."""

    @pytest.fixture(autouse=True)
    def _only_sandboxed(self, bench: Bench) -> None:
        if bench.name != "bubblewrap":
            pytest.skip("about the sandbox")

    def test_a_job_sees_its_own_control_group_and_no_other(self, bench: Bench, alices_job: Workload) -> None:
        output = run(bench, "find /sys/fs/cgroup; cat /proc/self/cgroup")
        assert str(alices_job.attempt_id) not in output
        assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-", output)
        assert "/process_api" not in output
        assert set(re.findall(r"^\d+:\S*:(.*)$", output, re.MULTILINE)) == {"/"}

    def test_a_job_finds_every_wall_of_the_sandbox_closed(self, bench: Bench, alices_job: Workload) -> None:
        assert set(probed(bench)) <= {"socket_names"}  # The network is the host's, as the security page says.

    def test_without_network_a_job_sees_no_socket_of_the_host(self, bench: Bench, alices_job: Workload) -> None:
        code = "import socket; s = socket.socket(socket.AF_UNIX); s.connect(chr(0) + 'berth-abstract'); print('reached')"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind("\0berth-abstract")
            server.listen()
            assert "reached" in run(bench, f'/usr/bin/python3 -c "{code}"')
            assert "reached" not in run(bench, f'/usr/bin/python3 -c "{code}"', network=False)
        assert "berth-abstract" not in run(bench, "cat /proc/net/unix", network=False)

    def test_keys_of_other_users_are_not_listed(self, bench: Bench) -> None:
        output = run(bench, "cat /proc/keys /proc/key-users; true")
        assert not re.search(r"^\s*[0-9a-f]+[: ]", output, re.MULTILINE), output

    def test_a_job_sees_its_own_processes_only(self, bench: Bench, alices_job: Workload) -> None:
        output = run(bench, "for each in /proc/[0-9]*; do cat $each/comm; done | sort -u")
        assert set(output.split()) <= {"bwrap", "sh", "cat", "sort"}

    def test_the_system_is_read_only_and_the_platforms_files_are_not_there(self, bench: Bench, data_dir: Path) -> None:
        output = run(
            bench, f"touch /usr/x /etc/x /opt/x; ls {data_dir}; ls /root /home; ls /tmp; touch /tmp/mine /dev/shm/mine && ls /tmp"
        )
        assert output.count("Read-only file system") == 3
        assert f"cannot access '{data_dir}'" in output
        assert "mine" in output
        assert not Path("/tmp/mine").exists()

    def test_a_job_without_network_reaches_nothing_not_even_the_host(self, bench: Bench, listener: int) -> None:
        code = f"import socket; socket.create_connection(('127.0.0.1', {listener}), 2); print('reached')"
        assert "reached" in run(bench, f'/usr/bin/python3 -c "{code}"')
        assert "reached" not in run(bench, f'/usr/bin/python3 -c "{code}"', network=False)

    def test_a_builder_of_images_has_all_rights_in_a_namespace_and_its_tenants_outside(
        self, bench: Bench, alices_job: Workload, platform_files: tuple[Path, ...], data_dir: Path
    ) -> None:
        """What puts an image together mounts and changes its root; to the host it is its tenant."""
        attempt = data_dir / "engine" / "here" / "attempts" / str(alices_job.attempt_id)
        shell = (
            "id -u; cat /proc/self/uid_map; mkdir /tmp/m && mount -t tmpfs none /tmp/m && echo mounted; "
            "unshare --user true || echo closed; unshare --mount true && echo own; unshare --uts true && echo named; "
            "for each in net pid ipc cgroup time; do unshare --$each true && echo MORE; done; "
            "touch /tmp/f && chown 5:6 /tmp/f && stat -c %u:%g /tmp/f; "
            "python3 -c 'import os; os.setuid(5)' || echo no other user; "
            "mount -o remount,rw /usr; mount -o remount,rw,bind /usr; touch /usr/planted /etc/planted && echo PLANTED; "
            f"cat /etc/shadow {' '.join(map(str, platform_files))} {attempt}/work/result.txt; ls {data_dir}; "
            "mknod /tmp/disk b 8 0; mount -t proc proc /tmp/m; nsenter -t 1 -m true; kill -9 -1"
        )
        workload = bench.workload(Behaviour(shell, Script()), tenant=CAROL)
        builders = tuple(replace(task, builds_image=True) for task in workload.tasks)
        output = run(bench, shell, tasks=builders)
        lines = output.split("\n")
        assert lines[0] == "0"
        assert lines[1].split() == ["0", str(200_000 + CAROL), "1"]
        for said in ("mounted", "closed", "own", "named", "0:0", "no other user"):
            assert said in lines, output
        assert "MORE" not in lines, "a network of its own, say, would come with rights over more of the kernel"
        assert CANARY not in output
        assert "PLANTED" not in output
        assert not re.search(r"^root:[*x!$]", output, re.MULTILINE), output
        assert not Path("/usr/planted").exists()

    def test_a_link_in_a_volume_leads_no_mount_over_the_system(self, bench: Bench, data_dir: Path) -> None:
        """`/newroot` and `/oldroot` are what bubblewrap calls the sandbox and the host while it makes the view."""
        outer, inner = data_dir / "volumes" / "outer", data_dir / "volumes" / "inner"
        for place in (outer, inner):
            place.mkdir(parents=True, exist_ok=True)
            place.chmod(0o777)
        (outer / "link").symlink_to("/newroot")
        mounts = (
            MountRef(uuid.uuid4(), HostDir(str(outer)), "/data", read_only=False),
            MountRef(uuid.uuid4(), HostDir(str(inner)), "/data/link/usr", read_only=False),
        )
        workload = replace(bench.workload(Behaviour("id", Script()), tenant=CAROL), mounts=mounts)
        (answer,) = bench.engine.ensure([workload])
        assert isinstance(answer, GiveUp)
        assert (answer.code, "lies below" in answer.detail) == ("mount_target_refused", True)

    def test_a_volume_is_written_by_its_group_and_read_only_where_said(self, bench: Bench, data_dir: Path) -> None:
        from clusters.hostfiles import TenantFiles
        from tests.contract.engines.bench import policy_of

        volume = data_dir / "volumes" / "v"
        files = TenantFiles(_launcher(bench), str(data_dir), 200_000, 300_000, drop_rights=policy_of(data_dir).drop_rights)
        files.prepare_volume(str(volume), 5)
        mount = MountRef(uuid.uuid4(), HostDir(str(volume)), "/data/digits", read_only=False, group=5)
        assert run(bench, "echo from-carol > /data/digits/file && mkdir /data/digits/d", mounts=(mount,)) == ""
        both = "cat /data/digits/file; echo from-alice >> /data/digits/file; touch /data/digits/d/x; cat /data/digits/file"
        assert run(bench, both, tenant=ALICE, mounts=(mount,)).split() == ["from-carol", "from-carol", "from-alice"]
        read_only = replace(mount, read_only=True)
        assert "Read-only" in run(bench, "echo x >> /data/digits/file", mounts=(read_only,))
        outside = f"cat {volume}/file; ls {volume}"
        assert "from-" not in run(bench, outside)
        descriptor = files.open_read(str(volume), "file", tenant=ALICE, group=5)
        with os.fdopen(descriptor) as file:
            assert file.read() == "from-carol\nfrom-alice\n"
        with pytest.raises(PermissionError):
            files.open_read(str(volume), "file", tenant=ALICE)


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def _launcher(bench: Bench) -> object:
    return bench.engine._launcher  # type: ignore[attr-defined]


def _children(pid: int | None) -> list[int]:
    return [int(child) for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
