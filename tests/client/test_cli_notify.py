"""`berth notify`: the fields of a channel come from the server, and a secret never from the command line."""

from __future__ import annotations

import json
from typing import Any

import pytest

ADDRESS = "https://hooks.slack.com/services/T0/B0/Canary"
ID = "0198c000-0000-7000-8000-000000000006"


def body(stub: Any, pattern: str) -> Any:
    return json.loads(stub.sent(pattern)[-1].content)


def test_channels_are_listed_with_what_they_ask_for(run: Any) -> None:
    done = run("notify", "channels")
    assert "address (secret), secret (secret, optional), name (optional)" in " ".join(done.stdout.split())
    assert [row["kind"] for row in json.loads(run("notify", "channels", "--json").stdout)] == ["mail", "slack"]


def test_a_secret_field_is_read_from_standard_input(run: Any, stub: Any) -> None:
    done = run("notify", "add", "--by", "slack", "--set", "name=#training", input=f"{ADDRESS}\n")
    assert done.exit_code == 0, done.stderr
    assert body(stub, "POST /subscriptions") == {
        "channel": "slack",
        "kinds": ["succeeded", "failed"],
        "settings": {"address": ADDRESS, "name": "#training"},
    }
    assert "Canary" not in done.stderr


def test_an_optional_secret_is_read_where_it_is_named(run: Any, stub: Any) -> None:
    run("notify", "add", "--by", "slack", "--set", "secret", input=f"{ADDRESS}\nSECabc\n")
    assert body(stub, "POST /subscriptions")["settings"] == {"address": ADDRESS, "secret": "SECabc"}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--by", "slack", "--set", f"address={ADDRESS}"), "address is secret"),
        (("--by", "slack", "--set", "colour=red"), "no field 'colour'"),
        (("--by", "slack"), "Webhook address is missing"),
        (("--by", "pigeon"), "no channel 'pigeon'"),
        (("--by", "slack", "--mail"), "Give the channel"),
        ((), "Give the channel"),
        (("--mail", "--set", "a=b"), "--set goes with --by"),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_sent(run: Any, stub: Any, words: tuple[str, ...], told: str) -> None:
    done = run("notify", "add", *words)
    assert (done.exit_code, stub.sent("POST /subscriptions")) == (2, [])
    assert told in done.stderr


def test_a_subscription_is_changed_paused_and_tried(run: Any, stub: Any) -> None:
    stub.fail("GET /subscriptions", _page({"id": ID, "channel": "slack", "target": "#a", "kinds": ["failed"]}))
    assert run("notify", "edit", ID, "--set", "name=", "--set", "address", "--pause", input=f"{ADDRESS}\n").exit_code == 0
    assert body(stub, "PATCH /subscriptions/.*") == {"is_active": False, "settings": {"address": ADDRESS, "name": ""}}
    assert run("notify", "edit", ID).exit_code == 2
    assert run("notify", "test", ID).exit_code == 0
    assert len(stub.sent(f"POST /subscriptions/{ID}/test")) == 1


def test_what_does_not_arrive_is_shown_in_the_list(run: Any, stub: Any) -> None:
    row = {"id": ID, "channel": "slack", "target": "#a", "kinds": ["failed"], "is_active": True}
    stub.fail("GET /subscriptions", _page({**row, "last_failure": {"at": "2026-11-23T12:00:00Z", "error": "It was revoked."}}))
    done = " ".join(run("notify").stdout.split())
    assert "not sent" in done
    assert "It was revoked." in done


def _page(*rows: dict[str, Any]) -> Any:
    import httpx2

    return httpx2.Response(200, json={"items": list(rows), "next": None})
