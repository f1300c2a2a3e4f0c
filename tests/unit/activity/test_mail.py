"""The text of a mail: users' text is data, and no text can add a header or an address."""

from __future__ import annotations

from datetime import UTC, datetime
from email import message_from_bytes, policy
from typing import Any

import pytest

from activity.notifications.channels.mail import compose

AT = datetime(2026, 11, 20, 8, 15, tzinfo=UTC)
INJECTIONS = [
    "x\r\nBcc: evil@example.org",
    "x\nSubject: y",
    "x\x00\x1b[31m",
    "\u2028Bcc: a@b",
    "{job} {{ 7*7 }} %s ${HOME}",
    "名" * 300,
]


def payload(**job: Any) -> dict[str, Any]:
    about = {
        "id": "01a1",
        "name": "digits",
        "tenant": "vision",
        "reason": "Exit code 137: out of memory.",
        "hint": "Ask for more memory.",
        "command": "berth logs digits",
        "url": "https://berth.example.org/jobs/01a1",
        **job,
    }
    return {"kind": "failed", "state": "FAILED", "reason": "out_of_memory", "at": "2026-11-20T08:15:00Z", "job": about}


def mail(recipient: str = "alice@example.org", **job: Any) -> Any:
    composed = compose(
        payload(**job),
        sender="berth@example.org",
        recipient=recipient,
        delivery_id="d-1",
        at=AT,
        server_url="https://berth.example.org",
    )
    return message_from_bytes(composed.as_bytes(), policy=policy.default)


def test_a_mail_tells_name_state_reason_hint_and_next_command() -> None:
    text = mail().get_content()
    for expected in ["digits", "vision", "FAILED", "out of memory", "Ask for more memory", "berth logs digits"]:
        assert expected in text
    assert mail()["Subject"] == "[Berth] digits failed"


def test_a_repeated_mail_has_the_same_id() -> None:
    assert mail()["Message-ID"] == mail()["Message-ID"] == "<d-1@berth.example.org>"


@pytest.mark.parametrize("text", INJECTIONS)
def test_text_of_a_user_never_becomes_a_header(text: str) -> None:
    received = mail(name=text, reason=text)
    assert set(received.keys()) == set(mail().keys())
    assert received["To"] == "alice@example.org"
    assert len(received["Subject"]) < 200


@pytest.mark.parametrize("text", ["{job} {{ 7*7 }} %s ${HOME} $(id) `id`"])
def test_text_of_a_user_is_not_interpreted(text: str) -> None:
    assert text in mail(reason=text).get_content()


def test_controls_do_not_reach_a_terminal() -> None:
    assert "\x1b" not in mail(reason="a\x1b]0;title\x07b").get_content()


@pytest.mark.parametrize("address", ["", "a", "a@b@c", "a@b, c@d", "a@b\r\nBcc: c@d", "A <a@b>", "a b@c", "a@b;c@d"])
def test_what_is_not_one_address_is_refused(address: str) -> None:
    with pytest.raises(ValueError, match="address"):
        mail(recipient=address)
