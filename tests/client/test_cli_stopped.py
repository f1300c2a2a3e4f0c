"""A job that somebody stopped: the reason that was given is told wherever the end is."""

from __future__ import annotations

from typing import Any

import pytest
from client_stub import a_job

from tests.client.test_cli_costs import answer

SAID = "Stopped by operator: the data is wrong"
END = {"class": "stopped_by_user", "text": "A user with the right to stop the job stopped it.", "hint": ""}


@pytest.fixture
def stopped(stub: Any) -> Any:
    reason = {"code": "stopped_by_user", "text": SAID, "hint": "", "detail": {}}
    stub.jobs = [a_job("mt", "stopped", number, exit=END, reason=reason) for number in (1, 2)]
    for job in stub.jobs:
        answer(stub, f"GET /jobs/{job['id']}/timeline", {"phases": [], "seconds": 0})
        answer(stub, f"GET /jobs/{job['id']}/cost", {"micros": 0, "currency": "EUR", "gpu_milli_seconds": 0})
    return stub


def test_the_reason_of_a_stop_is_shown(run: Any, stopped: Any) -> None:
    first, second = (job["id"] for job in stopped.jobs)
    for words in (("ps", "-a"), ("get", first), ("compare", first, second)):
        done = run(*words)
        assert SAID in done.stdout, (words, done.stderr)
        assert "Somebody with the right" not in done.stdout


def test_another_end_is_told_by_its_class(run: Any, stub: Any) -> None:
    end = {"class": "oom", "text": "It needed more memory than it asked for.", "hint": ""}
    stub.jobs = [a_job("mt", "failed", exit=end, reason={"code": "x", "text": "Something else.", "hint": "", "detail": {}})]

    assert end["text"] in run("get", "mt").stdout


def test_a_job_that_has_ended_is_not_said_to_be_released(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("mt", "stopped")]
    answer(stub, f"PATCH /jobs/{stub.jobs[0]['id']}", stub.jobs[0])

    refused = run("release", "mt")
    assert refused.exit_code == 1
    assert "Job mt is stopped; only a queued job can be released." in refused.stderr
    assert "is released" not in refused.output
