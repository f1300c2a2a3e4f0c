"""`berth compare`: two runs side by side, for people and for programs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_stub import a_job, problem

from tests.client.test_cli_costs import answer

SPEC = {"name": "digits", "roles": {"worker": {"command": "python train.py", "resources": {"memory": 2147483648}}}}
COST = {"micros": 1_500_000, "currency": "EUR", "gpu_milli_seconds": 7_200_000}


@pytest.fixture
def two_runs(stub: Any) -> Any:
    """One that failed after 4 s of running, and its rerun with another seed, which succeeded after 60 s and one wait of 9 s."""
    stub.jobs = [a_job("digits", "failed", 1), a_job("digits", "succeeded", 2)]
    first, second = (job["id"] for job in stub.jobs)
    stub.specs = {first: {**SPEC, "env": {"SEED": "1"}}, second: {**SPEC, "env": {"SEED": "2"}, "tags": ["final"]}}
    for job, waited, ran in ((first, 2.0, 4.0), (second, 9.0, 60.0)):
        phases = [{"phase": "queued", "seconds": waited}, {"phase": "running", "seconds": ran}]
        answer(stub, f"GET /jobs/{job}/timeline", {"phases": phases, "seconds": waited + ran})
        answer(stub, f"GET /jobs/{job}/cost", COST)
    return stub


def test_two_runs_stand_side_by_side_and_what_differs_is_marked(run: Any, two_runs: Any) -> None:
    first, second = (job["id"] for job in two_runs.jobs)
    done = run("compare", first, second)

    assert done.exit_code == 0
    lines = {line.split("  ")[0].strip(): line for line in done.stdout.splitlines() if line}
    assert "failed" in lines["State"]
    assert "≠" in lines["State"]
    assert "succeeded" in lines["State"]
    assert lines["Ran"].split() == ["Ran", "4.0s", "≠", "1m"]
    assert lines["Waited"].split() == ["Waited", "2.0s", "≠", "9.0s"]
    assert "≠" not in lines["Name"]
    assert lines["Cost"].count("1.50 EUR") == 2
    assert '"1"' in lines["env.SEED"]
    assert '"2"' in lines["env.SEED"]
    assert "roles" not in done.stdout, "what is the same in both files is not repeated"


def test_programs_get_both_runs_with_the_same_keys(run: Any, two_runs: Any) -> None:
    first, second = (job["id"] for job in two_runs.jobs)
    found = json.loads(run("compare", first, second, "--json").stdout)

    assert set(found) == {"a", "b", "spec"}
    assert set(found["a"]) == set(found["b"]) >= {"job", "waited_seconds", "ran_seconds", "attempts", "cost", "use"}
    assert (found["a"]["ran_seconds"], found["b"]["ran_seconds"]) == (4.0, 60.0)
    assert {"path": "env.SEED", "a": "1", "b": "2", "only_in": None} in found["spec"]
    assert [entry["only_in"] for entry in found["spec"] if entry["path"].startswith("tags")] == ["b"]


def test_a_cost_that_is_not_for_the_reader_is_left_out(run: Any, two_runs: Any) -> None:
    first, second = (job["id"] for job in two_runs.jobs)
    two_runs.faults = [(line, given) for line, given in two_runs.faults if not line.endswith("/cost")]
    for job in (first, second):
        two_runs.fail(f"GET /jobs/{job}/cost", problem(403, "forbidden", "Only its owner may see that."))
    done = run("compare", first, second)

    assert done.exit_code == 0
    assert "EUR" not in done.stdout


def test_a_run_that_is_not_there_ends_with_4_and_is_named(run: Any, two_runs: Any) -> None:
    done = run("compare", two_runs.jobs[0]["id"], "nowhere")

    assert done.exit_code == 4
    assert "nowhere" in done.stderr
