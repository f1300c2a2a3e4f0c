"""What the launcher does not do, whoever asks: it keeps root, so its rules are its own."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import replace
from pathlib import Path

import pytest

from clusters.engines.local.launching import DirectLauncher, LauncherRefused, Policy
from clusters.engines.local.launching.verbs import Owner, SignalAttempt, StartAttempt, StartMount, StartOutcome, StartTask
from clusters.hostfiles import TenantFiles
from tests.contract.engines.bench import running_launcher

CAROL = Owner(200_012, 200_012)
TASK = StartTask("worker-0", ("/bin/true",), 'exec "$@"\n')


@pytest.fixture
def launcher(policy: Policy) -> DirectLauncher:
    return DirectLauncher(policy)


def attempt(data_dir: Path, **changes: object) -> StartAttempt:
    root = data_dir / "engine" / "here"
    for name in ("attempts", "gates"):
        (root / name).mkdir(parents=True, exist_ok=True)
    made = StartAttempt(str(root), "0198a", CAROL, (TASK,))
    return replace(made, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "owner", [Owner(0, 0), Owner(1_000, 1_000), Owner(200_012, 0), Owner(200_012, 200_012, (0,)), Owner(-1, 200_012)]
)
def test_no_task_runs_as_anybody_but_a_tenant(launcher: DirectLauncher, data_dir: Path, owner: Owner) -> None:
    (started,) = launcher.start([attempt(data_dir, owner=owner)])
    assert (started.outcome, started.code) == (StartOutcome.IMPOSSIBLE, "engine_gave_up")
    assert os.listdir(data_dir / "engine" / "here" / "gates") == []
    with pytest.raises(LauncherRefused):
        launcher.list_directory(str(data_dir), "", owner)


def test_no_path_outside_the_roots_is_served(launcher: DirectLauncher, data_dir: Path) -> None:
    (data_dir / "link").symlink_to("/etc")
    for root in ("/", "/etc", "/tmp", f"{data_dir}/../", str(data_dir / "link")):
        with pytest.raises(LauncherRefused):
            launcher.open_file(root, "passwd", None)
    for path in ("../passwd", "/etc/passwd", "a/../../x", "nul\0byte", ""):
        with pytest.raises(LauncherRefused):
            launcher.open_file(str(data_dir), path, None)
    with pytest.raises(OSError, match=r"symbolic|directory"):
        launcher.open_file(str(data_dir), "link/passwd", None)


def test_a_mount_from_outside_or_over_the_system_is_refused(launcher: DirectLauncher, data_dir: Path) -> None:
    for mount in (
        StartMount("/etc", "/data", True),
        StartMount(str(data_dir), "/etc/x", False),
        StartMount(str(data_dir), "/", False),
    ):
        (started,) = launcher.start([attempt(data_dir, mounts=(mount,), sandbox=True)])
        assert started.outcome is StartOutcome.IMPOSSIBLE
    assert os.listdir(data_dir / "engine" / "here" / "attempts") == []


def test_a_mount_below_another_one_is_refused(launcher: DirectLauncher, data_dir: Path) -> None:
    """A link in the outer one would lead bubblewrap, which has the launcher's rights, to whatever its owner likes."""
    inner = StartMount(str(data_dir), "/data/link/usr", False)
    outer = StartMount(str(data_dir), "/data", False)
    own = StartMount(str(data_dir), str(data_dir), False)
    below = StartMount(str(data_dir / "engine"), f"{data_dir}/engine", False)
    for mounts in ((outer, inner), (inner, outer), (own, below)):
        (started,) = launcher.start([attempt(data_dir, mounts=mounts, sandbox=True)])
        assert started.outcome is StartOutcome.IMPOSSIBLE
        assert "lies below" in started.detail


def test_signals_reach_only_processes_that_the_launcher_itself_recorded(launcher: DirectLauncher, data_dir: Path) -> None:
    attempt(data_dir)
    with pytest.raises(LauncherRefused):
        launcher.signal([SignalAttempt("/tmp", "x", 9)])
    with pytest.raises(LauncherRefused):
        launcher.signal([SignalAttempt(str(data_dir / "engine" / "here"), "../here", 9)])
    assert launcher.signal([SignalAttempt(str(data_dir / "engine" / "here"), "unknown", 9)]) == [0]


def test_only_the_service_user_is_answered_and_only_fixed_verbs(data_dir: Path) -> None:
    with running_launcher(data_dir) as client:
        assert (data_dir / "launcher.sock").stat().st_mode & 0o777 == 0o600
        client.list_directory(str(data_dir), "", None)
        for verb in ("__init__", "reap", "_kill", "exec"):
            with pytest.raises(LauncherRefused):
                client._ask(verb)
        (data_dir / "launcher.sock").chmod(0o666)  # Even where the file's mode fails, the peer is checked.
        child = os.fork()
        if child == 0:
            _ask_as_nobody(str(data_dir / "launcher.sock"))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def _ask_as_nobody(path: str) -> None:
    """In a child process: exit 7 if the launcher hung up without an answer."""
    code = 1
    try:
        os.setgroups([])
        os.setresgid(65_534, 65_534, 65_534)
        os.setresuid(65_534, 65_534, 65_534)
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            body = json.dumps({"verb": "remove_tree", "arguments": {"root": "/tmp", "path": "x", "owner": None}}).encode()
            try:
                connection.sendall(len(body).to_bytes(4) + body)
                code = 7 if connection.recv(1) == b"" else 2
            except ConnectionError:
                code = 7
    finally:
        os._exit(code)


class TestImages:
    """A tenant's build fills a directory; once sealed it is read by that tenant alone and written by nobody."""

    @pytest.fixture
    def files(self, launcher: DirectLauncher, data_dir: Path) -> TenantFiles:
        return TenantFiles(launcher, str(data_dir), 200_000, 300_000, drop_rights=True)

    def test_a_sealed_image_is_its_tenants_to_read(self, files: TenantFiles, data_dir: Path) -> None:
        image = data_dir / "images" / "one"
        files.prepare_image_directory(str(image), 12)
        descriptor = files.open_write(str(image), "program", tenant=12)
        os.write(descriptor, b"#!/bin/sh\n")
        os.close(descriptor)
        with pytest.raises(PermissionError):
            files.open_write(str(image), "planted", tenant=11)
        files.seal_tree(str(image), 12)
        os.close(files.open_read(str(image), "program", tenant=12))
        for refused in (
            lambda: files.open_read(str(image), "program", tenant=11),
            lambda: files.open_write(str(image), "program", tenant=12),
            lambda: files.open_write(str(image), "new", tenant=12),
            lambda: files.remove_tree(str(image), "program", tenant=12),
        ):
            with pytest.raises(PermissionError):
                refused()
        files.remove_tree(str(image))
        assert not image.exists()

    def test_an_operators_image_is_everybodys_to_read(self, files: TenantFiles, data_dir: Path) -> None:
        image = data_dir / "images" / "shared"
        files.prepare_image_directory(str(image), 1)
        os.close(files.open_write(str(image), "program", tenant=1))
        files.seal_tree(str(image), None)
        for tenant in (11, 12):
            os.close(files.open_read(str(image), "program", tenant=tenant))
            with pytest.raises(PermissionError):
                files.open_write(str(image), "program", tenant=tenant)
