"""The command line on the product itself: templates listed, shown, filled in and run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from jobs.models import Job
from jobs.services.templates import ensure_shipped_templates
from tests.builders.program import Run, program
from tests.builders.quay import Quay
from tests.factories.tenants import make_member, now

pytestmark = pytest.mark.database


@pytest.fixture
def berth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    ensure_shipped_templates(now())
    return program(tmp_path, monkeypatch)


def test_a_template_is_found_shown_and_run(berth: Run, quay: Quay) -> None:
    bob = quay.cast.bob

    assert "pytorch-single" in berth(bob, "templates").output
    assert "hello" not in berth(bob, "templates", "--search", "sweep").output
    assert "command" in berth(bob, "templates", "show", "hello").output
    made = json.loads(berth(bob, "templates", "render", "hello", "-p", "cpu=2", "-p", "command=echo 1").stdout)
    assert (made["resources"]["cpu"], made["command"]) == (2, "echo 1")
    done = json.loads(berth(bob, "templates", "use", "hello", "-p", "command=true", "--name", "mine", "--json").stdout)
    assert Job.objects.get(name="mine").pk.hex == done["id"].replace("-", "")
    assert [row["uses"] for row in json.loads(berth(bob, "templates", "--json", "-s", "first-steps").stdout)] == [1]


def test_what_does_not_suit_is_said(berth: Run, quay: Quay) -> None:
    bob = quay.cast.bob

    refused = berth(bob, "templates", "use", "hello", "-p", "cpu=many", "-p", "nothing=1", code=2).output
    assert "is a number" in refused
    assert "nothing" in refused
    assert "/resources/memory" in berth(bob, "templates", "use", "hello", "-p", "memory=much", code=2).output
    assert not Job.objects.exists()


@pytest.mark.capability("107", "A template shows how its last test run ended, by portal, command line and API")
def test_a_template_is_tested_and_the_list_says_how_that_ended(berth: Run, quay: Quay) -> None:
    otto = quay.cast.otto  # Public templates are operators' own; a job needs a tenant that they are a member of.
    make_member(quay.cast.tenant, otto.user, "member")

    def words() -> list[str]:
        return [row["test"]["result"] for row in json.loads(berth(otto, "templates", "--json", "-s", "first-steps").stdout)]

    assert words() == ["never"]
    done = json.loads(berth(otto, "-t", "vision", "templates", "test", "hello", "--json").stdout)
    assert Job.objects.get(id=done["test"]["job"]["id"]).tags == ["template-hello", "template-test"]
    quay.settle()
    assert words() == ["passed"]
    assert "passed" in berth(otto, "templates", "show", "hello").output
