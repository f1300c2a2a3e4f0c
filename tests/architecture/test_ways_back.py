"""What can be made can be taken back: every operation that creates something has a deletion, or an end that is named here."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

PATHS: dict[str, dict[str, Any]] = json.loads(
    (Path(__file__).resolve().parents[2] / "client" / "openapi.json").read_text(encoding="utf-8")
)["paths"]
API = "/api/v1"

# The operation that takes it back, where it is no DELETE below the path that creates.
OTHER_WAYS = {
    "POST /device-codes": ("POST /device-codes/{user_code}/deny", "It also ends by itself within ten minutes."),
    "POST /device-codes:redeem": ("DELETE /tokens/{token_id}", "It gives a token."),
    "POST /images/{image_id}/builds": ("POST /jobs/{job}/stop", "A build is a job."),
    "POST /invitations:accept": ("DELETE /tenants/{tenant}/members/{user_id}", "It makes a member."),
    "POST /jobs": ("POST /jobs/{job}/stop", "An ended job is part of the record."),
    "POST /jobs/{job}/clone": ("POST /jobs/{job}/stop", "As above."),
    "POST /jobs/{job}/rerun": ("POST /jobs/{job}/stop", "As above."),
    "POST /jobs:batch": ("POST /jobs/{job}/stop", "As above."),
    "POST /templates/{template_id}/test": ("POST /jobs/{job}/stop", "A test is a job."),
    "POST /tenants": ("POST /tenants/{tenant}/delete", "It is disabled first, and deleted by its name."),
    "POST /users": ("PATCH /users/{user_id}", "Users are disabled: what they did keeps a name."),
}
BY_ITSELF = {"POST /tickets": "A ticket works once, within seconds."}


def operation(method: str, path: str) -> str:
    return f"{method.upper()} {path.removeprefix(API)}"


OPERATIONS = {operation(method, path) for path, entry in PATHS.items() for method in entry}
CREATING = sorted(
    operation(method, path) for path, entry in PATHS.items() for method, told in entry.items() if "201" in told["responses"]
)


def own_way(creating: str) -> str | None:
    """DELETE of what was made: of the same path, or of one that has the new object's id behind it."""
    _method, path = creating.split(" ")
    found = [each for each in OPERATIONS if each == f"DELETE {path}" or each.rpartition("/")[0] == f"DELETE {path}"]
    return next((each for each in sorted(found) if each.endswith("}") or each == f"DELETE {path}"), None)


def test_everything_that_can_be_made_can_be_taken_back() -> None:
    assert len(CREATING) > 30
    lost = [each for each in CREATING if own_way(each) is None and each not in OTHER_WAYS and each not in BY_ITSELF]
    assert lost == [], "give it a DELETE, or name its end in OTHER_WAYS"


def test_the_named_ways_are_there_and_needed() -> None:
    assert {way for way, _reason in OTHER_WAYS.values()} <= OPERATIONS
    named = OTHER_WAYS.keys() | BY_ITSELF.keys()
    assert named <= set(CREATING), "they create nothing"
    assert {each for each in named if own_way(each) is not None} == set(), "they have a DELETE of their own"
