"""Amounts that nobody means: each is a mistake of usage that is said, never a fault of the program."""

from __future__ import annotations

import json
from typing import Any

import pytest
from client_stub import a_job

LONG = "99999999d"
MANY = "9" * 5000


@pytest.mark.parametrize(
    "words",
    [
        ("ps", "--since", LONG),
        ("ps", "--since", "0001-01-01T00:00"),
        ("ps", "--since", f"{MANY}d"),
        ("logs", "hello", "--since", LONG),
        ("usage", "--since", LONG),
        ("announcements", "make", "z", "--for", LONG),
        ("reserve", "1", "--pool", "a100", "--for", LONG),
        ("reserve", "1", "--pool", "a100", "--from", "9999-12-31T23:00", "--for", "2d"),
        ("maintenance", "plan", "node-1", "--for", LONG),
        ("priority", "request", "--me", "600", "--for", LONG),
        ("tokens", "create", "ci", "--expires", "9999999999d"),
        ("stop", "hello", "--grace", f"{MANY}s"),
    ],
)
def test_a_time_beyond_every_calendar_is_a_mistake_of_usage(run: Any, stub: Any, words: tuple[str, ...]) -> None:
    stub.jobs = [a_job("hello", "running")]

    refused = run(*words)
    assert refused.exit_code == 2, refused.output
    assert "is too long." in refused.stderr or "is outside the years 1000 to 2999" in refused.stderr
    assert len(refused.stderr) < 500
    assert not [request for request in stub.requests if request.method != "GET"]


def test_it_is_said_in_chinese_too(run: Any) -> None:
    assert "最长为 36525 天" in run("ps", "--since", LONG, env={"BERTH_LANG": "zh"}).stderr


def test_more_last_lines_than_can_be_kept_are_refused(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("hello", "succeeded")]

    refused = run("logs", "hello", "-n", "99999999999999999999")
    assert refused.exit_code == 2
    assert "1000000" in refused.stderr


@pytest.mark.parametrize("cpu", ["nan", "inf", "1e400", MANY])
def test_an_amount_that_json_cannot_write_is_left_to_the_server_to_refuse(run: Any, stub: Any, cpu: str) -> None:
    run("submit", "-c", cpu, "true")

    assert json.loads(stub.sent("POST /jobs")[0].content)["spec"]["resources"]["cpu"] == cpu


@pytest.mark.parametrize("cpu", ["1e400", MANY])
def test_a_job_file_with_too_large_a_number_is_refused_with_its_line(run: Any, stub: Any, tmp_path: Any, cpu: str) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"command: ['true']\nresources:\n  cpu: {cpu}\n", encoding="utf-8")

    refused = run("submit", "-f", str(file))
    assert refused.exit_code == 2
    assert "this number is too large" in refused.stderr
    assert "3" in refused.stderr
