"""The systemd units: valid, closed, and with commands that the server has."""

from __future__ import annotations

import configparser
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from django.core.management import load_command_class

UNITS = Path(__file__).resolve().parents[2] / "deploy" / "systemd"
SERVER = "/var/lib/berth/bin/berth-server"
SERVICES = sorted(UNITS.glob("*.service"))
ROLES = {"web", "worker", "scheduler", "observer", "launcher"}


def read(path: Path) -> configparser.RawConfigParser:
    unit = configparser.RawConfigParser(strict=False, delimiters=("=",), comment_prefixes=("#",))
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read_string(path.read_text())
    return unit


def command_of(path: Path) -> list[str]:
    program, *arguments = shlex.split(read(path)["Service"]["ExecStart"])
    assert program == SERVER
    return arguments


def test_systemd_finds_nothing_wrong_with_them(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("needs systemd-analyze, of Debian's package systemd")
    for path in UNITS.iterdir():
        if path.suffix in {".service", ".socket", ".target", ".timer"}:  # Only the server's program need not be on this machine.
            (tmp_path / path.name).write_text(path.read_text().replace(SERVER, "/bin/true"))
    checked = subprocess.run(
        ["systemd-analyze", "verify", *(str(path) for path in sorted(tmp_path.iterdir()))],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    ours = [line for line in checked.stderr.splitlines() if "berth" in line]
    assert (checked.returncode, ours) == (0, [])


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.stem)
def test_the_command_is_one_of_the_server(path: Path) -> None:
    command, *arguments = command_of(path)
    load_command_class("controlplane", command).create_parser("manage.py", command).parse_args(arguments)


def test_there_is_a_unit_for_every_process_and_the_target_wants_two_of_each() -> None:
    assert {command_of(path)[1] for path in SERVICES if command_of(path)[0] == "run"} == ROLES
    wanted = [word for line in (UNITS / "berth.target").read_text().splitlines() if line.startswith("Wants=")
              for word in line.removeprefix("Wants=").split()]  # fmt: skip
    for role in ROLES - {"launcher"}:
        assert {f"berth-{role}@1.service", f"berth-{role}@2.service"} <= set(wanted)


@pytest.mark.parametrize("path", [path for path in SERVICES if "launcher" not in path.name], ids=lambda path: path.stem)
def test_everything_but_the_launcher_gives_up_root_and_can_never_get_it_back(path: Path) -> None:
    service = read(path)["Service"]
    assert service["User"] == "berth"
    assert service["NoNewPrivileges"] == "yes"
    assert service["CapabilityBoundingSet"] == ""
    assert service["ProtectSystem"] == "strict"


def test_jobs_outlive_the_launcher() -> None:
    service = read(UNITS / "berth-launcher.service")["Service"]
    assert service["KillMode"] == "process"
    assert service["Delegate"] == "yes"
