"""`make cluster`: what it leaves alone, and when it calls a log whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import cluster
from tools.cluster import STEPS, Trial, cluster_role, is_whole
from tools.place import command_folder, config_path

WHOLE = [f"worker-{index} │ step {number}/{STEPS}  pi is about 3.14" for number in range(1, STEPS + 1) for index in (0, 1)]


def test_its_installation_has_a_directory_a_sign_in_and_commands_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = Trial.of(tmp_path, 0)
    others = {"BERTH_DATABASE_URL": "postgresql://db/berth", "BERTH_TOKEN": "theirs", "BERTH_DATA_DIR": "/var/lib/berth"}
    environment = {**others, "BERTH_CACHE": "/var/cache/berth", "PATH": "/usr/bin"}
    trial.settle(environment)
    assert environment.keys() == {"BERTH_CACHE", "PATH", "BERTH_DATA_DIR", "BERTH_CONFIG", "BERTH_COMMAND_DIR"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert (trial.data, trial.port) == (tmp_path / "platform", cluster.PORT)
    assert trial.data in command_folder().parents
    assert trial.data in config_path().parents
    assert not trial.cluster.directory.is_relative_to(trial.data)


def test_a_log_is_whole_when_each_step_of_each_worker_is_in_it_once() -> None:
    assert is_whole("\n".join(WHOLE))
    assert not is_whole("\n".join(WHOLE[1:]))
    assert not is_whole("\n".join([*WHOLE, WHOLE[-1]]))
    assert not is_whole("\n".join([*WHOLE[1:], WHOLE[-1]]))


def test_the_example_takes_the_steps_that_are_counted() -> None:
    program = (cluster.EXAMPLE.parent / "pods" / "steps.py").read_text()
    assert f'"STEPS", "{STEPS}"' in program


def test_the_role_is_that_of_the_documents() -> None:
    assert "kind: ClusterRole\nmetadata: {name: berth}\n" in cluster_role()
