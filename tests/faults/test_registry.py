"""The registry of crash points and the code agree: a point that nobody reaches proves nothing."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from kernel.crashpoints import POINTS

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("platform", "tenants", "storage", "images", "jobs")
REGISTERED = f"""
from kernel.crashpoints import crashpoint, register_crash_points
register_crash_points({dict(POINTS)!r})
"""


def points_in_code() -> Counter[str]:
    """Every name that a call of `crashpoint` has as its argument; the call must name it plainly."""
    found: Counter[str] = Counter()
    for folder in SOURCES:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "crashpoint":
                    [argument] = node.args
                    assert isinstance(argument, ast.Constant), f"{path}:{node.lineno} does not name its point"
                    found[str(argument.value)] += 1
    return found


def test_every_point_of_the_registry_is_somewhere_in_the_code_and_every_one_of_the_code_in_the_registry() -> None:
    assert set(points_in_code()) == set(POINTS)


def test_a_name_stands_for_one_place() -> None:
    assert {name: count for name, count in points_in_code().items() if count > 1} == {}


def test_every_point_says_what_is_done_and_what_is_not() -> None:
    assert all(meaning.endswith(".") and len(meaning) > 20 for meaning in POINTS.values())


def run(code: str, **environment: str) -> int:
    path = os.pathsep.join([str(ROOT / "platform"), *sys.path])
    program = f"{REGISTERED}\n{code}"
    return subprocess.run([sys.executable, "-c", program], env={"PYTHONPATH": path, **environment}, timeout=120).returncode


@pytest.mark.parametrize("name", ["jobs.launch.after_claim", "jobs.stop.after_engine"])
def test_a_process_dies_where_it_is_asked_to(name: str, tmp_path: Path) -> None:
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT=name) == -signal.SIGKILL
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT="jobs.submit.after_commit") == 0
    assert run(f"crashpoint({name!r})") == 0
    file = tmp_path / "crash-at"
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT=str(file)) == 0
    file.write_text("jobs.submit.after_commit")
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT=str(file)) == 0
    file.write_text(name)
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT=str(file)) == -signal.SIGKILL
    assert run(f"crashpoint({name!r})", BERTH_CRASH_AT=str(file)) == 0


def test_a_process_freezes_where_it_is_asked_to_and_goes_on_from_there(tmp_path: Path) -> None:
    file = tmp_path / "crash-at"
    file.write_text("freeze jobs.stop.after_claim")
    path = os.pathsep.join([str(ROOT / "platform"), *sys.path])
    program = f"{REGISTERED}\ncrashpoint('jobs.stop.after_claim')"
    environment = {"PYTHONPATH": path, "BERTH_CRASH_AT": str(file)}
    with subprocess.Popen([sys.executable, "-c", program], env=environment) as process:
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        assert not file.exists()
        process.send_signal(signal.SIGCONT)
        assert process.wait(120) == 0


def test_a_point_that_is_not_registered_is_a_mistake() -> None:
    assert run("crashpoint('no.such.point')") == 1
