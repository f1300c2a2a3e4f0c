"""`berth users import FILE --invite LINKS`, and `berth notify add --mail` where no mail leaves."""

from __future__ import annotations

import csv
import json
import stat
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.client.stub import CODE, SERVER, problem

PEOPLE = """name,email,tenant,role
erin,erin@example.org,vision,manager
frank,frank@example.org,vision,
gina,,vision,member
bob,bob@example.org,vision,member
erin,erin@example.org,speech,member
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "people.csv"
    path.write_text(PEOPLE, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def imported(stub: Any) -> None:
    stub.imported = {
        "created": 3, "updated": 1, "unchanged": 1,
        "lines": [{"line": 2 + n, "name": name, "action": action} for n, (name, action) in enumerate(
            [("erin", "created"), ("frank", "created"), ("gina", "created"), ("bob", "updated"), ("erin", "unchanged")]
        )],
    }  # fmt: skip


def test_all_new_people_of_an_import_are_invited_and_the_links_are_for_their_owner_alone(run: Any, stub: Any, file: Path) -> None:
    links = file.with_name("links.csv")
    done = run("users", "import", str(file), "--invite", str(links))
    assert done.exit_code == 0, done.stderr
    assert "3 created" in done.stderr
    assert f"Invited: 2. Their links are in {links}" in done.stderr
    assert stat.S_IMODE(links.stat().st_mode) == 0o600
    with links.open(encoding="utf-8", newline="") as text:
        rows = list(csv.DictReader(text))
    assert [(row["name"], row["email"], row["tenant"], row["role"], row["problem"]) for row in rows] == [
        ("erin", "erin@example.org", "vision", "manager", ""),
        ("frank", "frank@example.org", "vision", "member", ""),
    ]
    assert {row["link"] for row in rows} == {f"{SERVER}/invitation#{CODE}"}
    sent = [json.loads(request.content) for request in stub.sent("POST /invitations")]
    assert [(invitation["email"], invitation["tenant"], invitation["role"]) for invitation in sent] == [
        ("erin@example.org", "vision", "manager"),
        ("frank@example.org", "vision", "member"),
    ]
    assert CODE not in done.stdout + done.stderr


def test_a_file_of_links_that_is_there_already_is_kept_and_nothing_is_imported(run: Any, stub: Any, file: Path) -> None:
    links = file.with_name("links.csv")
    links.write_text("yesterday's", encoding="utf-8")
    refused = run("users", "import", str(file), "--invite", str(links))
    assert (refused.exit_code, links.read_text("utf-8")) == (2, "yesterday's")
    assert stub.sent("POST /users:import") == []


def test_an_import_that_is_refused_leaves_no_empty_file_of_links(run: Any, stub: Any, file: Path) -> None:
    stub.fail("POST /users:import", problem(422, "invalid_input", "Line 2 is wrong."))
    links = file.with_name("links.csv")
    assert run("users", "import", str(file), "--invite", str(links)).exit_code != 0
    assert not links.exists()


def test_the_links_that_were_made_are_kept_where_one_invitation_is_refused(run: Any, stub: Any, file: Path) -> None:
    stub.fail("POST /invitations", problem(409, "conflict", "erin is invited already."))
    links = file.with_name("links.csv")
    done = run("users", "import", str(file), "--invite", str(links))
    assert done.exit_code == 1
    assert "erin has no invitation: erin is invited already." in done.stderr
    with links.open(encoding="utf-8", newline="") as text:
        rows = {row["name"]: row for row in csv.DictReader(text)}
    assert (rows["erin"]["link"], rows["erin"]["problem"]) == ("", "erin is invited already.")
    assert rows["frank"]["link"].endswith(f"#{CODE}")


def test_an_import_that_is_interrupted_says_who_has_no_invitation_yet(run: Any, stub: Any, file: Path) -> None:
    def stop(_request: Any) -> None:
        raise KeyboardInterrupt

    stub.fail("POST /invitations", None, stop)
    links = file.with_name("links.csv")
    stopped = run("users", "import", str(file), "--invite", str(links))
    assert stopped.exit_code == 130
    assert "3 created" in stopped.stderr
    assert "Invited: 1. Not invited yet: 1" in stopped.stderr
    assert "berth users invite frank@example.org --tenant vision --role member" in stopped.stderr
    with links.open(encoding="utf-8", newline="") as text:
        rows = {row["name"]: row for row in csv.DictReader(text)}
    assert rows["erin"]["link"].endswith(f"#{CODE}")
    assert (rows["frank"]["link"], rows["frank"]["problem"]) == ("", "not invited yet")


def test_links_lead_to_the_address_that_people_use(run: Any, stub: Any, file: Path) -> None:
    stub.fail("GET /info", httpx2.Response(200, json={"name": "berth", "url": "https://berth.example.org/"}))
    links = file.with_name("links.csv")
    run("users", "import", str(file), "--invite", str(links))
    assert f"https://berth.example.org/invitation#{CODE}" in links.read_text(encoding="utf-8")


def test_mail_notices_where_no_mail_leaves_are_said_to_arrive_nowhere(run: Any) -> None:
    assert "this installation has no mail server" in run("notify", "add", "--mail").stderr
    assert "mail server" not in run("notify", "add", "--webhook", "https://hooks.example.org/x").stderr
