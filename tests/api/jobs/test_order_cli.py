"""The command line on the product itself: priorities asked for and decided, waiting jobs moved."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.models import Job
from tests.builders.program import Run, program
from tests.builders.quay import Quay

pytestmark = pytest.mark.database


@pytest.fixture
def berth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    return program(tmp_path, monkeypatch)


def test_a_priority_is_refused_asked_for_and_approved(berth: Run, quay: Quay) -> None:
    cast = quay.cast
    quay.submit("demo")

    refused = berth(cast.bob, "priority", "set", "demo", "high", code=3).output
    assert "above normal" in refused
    assert "berth priority request" in refused
    asked = json.loads(berth(cast.bob, "priority", "request", "demo", "high", "--reason", "Friday.", "--json").stdout)
    assert "Friday." in berth(cast.alice, "priority").output
    assert berth(cast.bob, "priority", "approve", asked["id"], code=3).exit_code == 3
    assert "Approved." in berth(cast.alice, "priority", "approve", asked["id"], "--answer", "Fine.").output
    assert Job.objects.get(name="demo").priority == 900
    assert "approved" in berth(cast.bob, "priority", "list").output
    again = json.loads(berth(cast.bob, "priority", "request", "demo", "1000", "--json").stdout)
    assert "withdrawn" in berth(cast.bob, "priority", "withdraw", again["id"]).output
    third = json.loads(berth(cast.bob, "priority", "request", "demo", "urgent", "--json").stdout)
    assert "Denied." in berth(cast.alice, "priority", "deny", third["id"]).output


def test_a_window_is_asked_for_and_a_submission_asks_at_once(berth: Run, quay: Quay) -> None:
    cast = quay.cast

    made = json.loads(berth(cast.bob, "priority", "request", "--me", "high", "--for", "2d", "--json").stdout)
    assert (made["user"]["name"], made["priority"], made["job"]) == ("bob", 900, None)
    berth(cast.bob, "priority", "request", "--me", "--for", "2d", code=2)
    berth(cast.bob, "priority", "request", "high", code=2)
    berth(cast.bob, "submit", "-d", "-y", "--name", "hot", "--priority", "high", "true", code=2)
    berth(cast.bob, "submit", "-d", "-y", "--name", "hot", "--priority", "high", "--priority-reason", "Due.", "true")
    assert Job.objects.get(name="hot").priority == 500
    assert "Due." in berth(cast.alice, "priority", "--state", "pending").output
    berth(cast.alice, "priority", "approve", made["id"])
    berth(cast.bob, "submit", "-d", "-y", "--name", "hotter", "--priority", "high", "true")
    assert Job.objects.get(name="hotter").priority == 900


def test_grants_are_shown_and_set(berth: Run, quay: Quay) -> None:
    cast = quay.cast

    shown = berth(cast.bob, "priority", "grants").output
    assert "member" in shown
    assert json.loads(berth(cast.bob, "priority", "grants", "--json").stdout)["yours"] == 500
    assert "high" in berth(cast.alice, "priority", "grants", "--member", "high").output
    assert json.loads(berth(cast.bob, "priority", "grants", "--json").stdout)["yours"] == 900
    assert "normal" in berth(cast.alice, "priority", "grants", "--member", "default").output
    berth(cast.alice, "priority", "grants", "--manager", "urgent", code=3)


def test_waiting_jobs_are_moved(berth: Run, quay: Quay) -> None:
    bob = quay.cast.bob
    for name in ("a", "b", "c"):
        quay.submit(name)
        quay.pass_time(10)

    def order() -> list[str]:
        rows = Job.objects.all()
        return [job.name for job in sorted(rows, key=lambda job: (job.placed_at or job.submitted_at, job.id))]

    assert "its place in the queue is 1" in berth(bob, "bump", "c").output
    assert order() == ["c", "a", "b"]
    assert "place in the queue is 3" in berth(bob, "move", "a", "--last").output
    assert order() == ["c", "b", "a"]
    berth(bob, "move", "a", "--before", "b")
    berth(bob, "move", "c", "--after", "a")
    assert order() == ["a", "c", "b"]
    berth(bob, "move", "c", "--first", "--last", code=2)
    berth(bob, "move", "c", "--everybody", code=3)
