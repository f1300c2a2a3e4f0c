"""The compose file: what Docker Compose would make of it, and that its commands are ones that the server has."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "compose"
EXAMPLES = {"berth.env": "berth.env.example", "redis.conf": "redis.conf.example", "postgresql-password": "redis.conf.example"}
# On a new machine the loader is compiled first: two minutes of a core, at the lowest priority beside other tests.
pytestmark = pytest.mark.timeout(900)
OURS = {"prepare", "web", "worker", "scheduler", "observer", "launcher"}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The project as Docker Compose's own loader reads it."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("needs Go: Docker Compose's loader is written in it")
    folder = tmp_path_factory.mktemp("compose") / "deploy" / "compose"
    shutil.copytree(FOLDER, folder)
    for name, example in EXAMPLES.items():
        shutil.copyfile(folder / example, folder / name)
    environment = {**os.environ, "BERTH_HOSTNAME": "berth.example.org", "GOFLAGS": "-mod=readonly"}
    cache = environment.get("BERTH_CACHE") or str(tmp_path_factory.getbasetemp())
    environment.setdefault("GOCACHE", f"{cache}/go-build")  # Also without a home.
    checked = subprocess.run(
        [go, "run", ".", str(folder / "compose.yaml")],
        cwd=Path(__file__).parent / "compose_check", env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if "dial tcp" in checked.stderr or "lookup " in checked.stderr:
        pytest.skip(f"the loader cannot be fetched: {checked.stderr.strip().splitlines()[-1]}")
    assert checked.returncode == 0, checked.stderr
    loaded: dict[str, Any] = json.loads(checked.stdout)
    return loaded


def test_every_process_of_ours_is_there_and_doubled_where_it_may_be(project: dict[str, Any]) -> None:
    services = project["services"]
    assert services.keys() >= OURS
    replicas = {name: services[name].get("deploy", {}).get("replicas", 1) for name in OURS}
    assert replicas == {"prepare": 1, "launcher": 1, "web": 2, "worker": 2, "scheduler": 2, "observer": 2}


def test_every_command_is_one_of_the_server(project: dict[str, Any]) -> None:
    for name in OURS:
        command, *arguments = project["services"][name]["command"]
        parser = load_command_class("controlplane", command).create_parser("manage.py", command)
        parser.parse_args(arguments)


def test_nothing_but_the_gateway_is_reached_from_outside(project: dict[str, Any]) -> None:
    services = project["services"]
    assert {name for name, service in services.items() if service.get("ports")} == {"gateway"}
    assert {name for name, service in services.items() if service.get("network_mode") == "none"} >= {"postgresql", "redis"}
    assert project["networks"]["front"]["internal"]


def test_only_the_launcher_keeps_root_and_it_sees_no_socket_of_the_servers(project: dict[str, Any]) -> None:
    services = project["services"]
    for name in OURS - {"launcher"}:
        service = services[name]
        assert service["cap_drop"] == ["ALL"], name
        assert service["read_only"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert not service.get("privileged"), name
        assert not service.get("user"), name
    launcher = services["launcher"]
    assert launcher["privileged"]
    assert {volume["target"] for volume in launcher["volumes"]} == {"/var/lib/berth"}


def test_no_password_is_in_the_file(project: dict[str, Any]) -> None:
    text = (FOLDER / "compose.yaml").read_text()
    assert "PASSWORD:" not in text
    for name in ("berth.env.example", "redis.conf.example"):
        for line in (FOLDER / name).read_text().splitlines():
            key, _, value = line.partition("=")
            assert not (key == "BERTH_SECRET_KEY" and value), "a sample key would be used"
