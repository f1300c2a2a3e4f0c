"""Secrets are planted wherever the platform takes any, and looked for wherever it could leave them: there is none."""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.builders.live import LivePlatform, LiveUser, wait_until
from tests.builders.operating import manage
from tests.security.live.looking import where_found

pytestmark = [pytest.mark.engines, pytest.mark.database]


@dataclass
class Planted:
    """What was given to the platform, by what it is."""

    words: dict[str, str]
    job: str


def word(what: str) -> str:
    return f"canary-{what}-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def planted(live_platform: LivePlatform) -> Iterator[Planted]:
    platform = live_platform
    alice = platform.person("alice-canary", tenant="Canary & Co", role="manager")
    words: dict[str, str] = {"the token of a person": alice.token}
    words |= credentials(platform, alice)
    words |= errors(platform, alice)
    words["a secret"] = word("secret")
    alice.api("PUT", f"/tenants/{alice.tenant}/secrets/PLANTED", {"value": words["a secret"]})
    job = alice.submit(
        {"name": "reader", "command": 'test -n "$PLANTED" && echo ready; exec sleep 1000', "secrets": {"PLANTED": None}},
        wait=["running"],
    )
    alice.wait_for_line(job, "ready")
    words["the value that replaces a secret"] = word("replaced")
    alice.api("PUT", f"/tenants/{alice.tenant}/secrets/PLANTED", {"value": words["the value that replaces a secret"]})
    yield Planted(words, str(job["id"]))
    alice.stop(job, grace_seconds=0)


def credentials(platform: LivePlatform, alice: LiveUser) -> dict[str, str]:
    """Whatever the platform itself makes and shows once, and passwords that people choose."""
    words = {"a password": f"Pw-{word('password')}"}
    invited = {"email": "canary@example.org", "tenant": alice.tenant, "role": "viewer"}
    invitation = platform.operator.api("POST", "/invitations", invited)
    words["the code of an open invitation"] = alice.api("POST", "/invitations", {**invited, "email": "b@example.org"})["token"]
    words["the code of a used invitation"] = invitation["token"]
    body = {"token": invitation["token"], "name": f"c{uuid.uuid4().hex[:8]}", "password": words["a password"]}
    words["the token of an accepted invitation"] = platform.anonymous.api("POST", "/invitations:accept", body)["token"]["token"]
    account = alice.api("POST", f"/tenants/{alice.tenant}/service-accounts", {"name": f"ci{uuid.uuid4().hex[:6]}"})
    made = alice.api("POST", "/tokens", {"name": "ci", "service_account": account["id"]})
    words["the token of a service account"] = made["token"]
    hook = {"tenant": alice.tenant, "channel": "webhook", "target": f"http://127.0.0.1:9/{word('path')}", "kinds": ["failed"]}
    key = {"Idempotency-Key": word("key")}
    subscribed = alice.api("POST", "/subscriptions", hook, headers=key)
    again = alice.request("POST", "/subscriptions", json=hook, headers=key)
    assert (again.status_code, again.json()["code"]) == (409, "shown_once")
    words["the secret of a webhook"] = subscribed["secret"]
    words["the token of a chat"] = word("chat")
    settings = {"token": f"1:{words['the token of a chat']}", "chat": "1"}
    chat = {"tenant": alice.tenant, "channel": "telegram", "settings": settings, "kinds": ["budget"]}
    made = alice.api("POST", "/subscriptions", chat, headers={"Idempotency-Key": word("key")})
    alice.api("PATCH", f"/subscriptions/{made['id']}", {"settings": settings})
    words["a ticket"] = alice.api("POST", "/tickets")["ticket"]
    return words


def errors(platform: LivePlatform, alice: LiveUser) -> dict[str, str]:
    """Secrets in requests that fail, each in another way."""
    words = {f"{what} of a refused request": word("refused") for what in ("the token", "the password", "the body", "the query")}
    stranger = {"Authorization": f"Bearer berth_0123456789ab_{words['the token of a refused request']}"}
    assert platform.anonymous.request("GET", "/jobs", headers=stranger).status_code == 401
    assert platform.anonymous.request("POST", "/jobs", headers=stranger, content=b"{").status_code == 401
    refused = {"token": "bt_unknown", "name": "x", "password": words["the password of a refused request"]}
    assert platform.anonymous.request("POST", "/invitations:accept", json=refused).status_code in {404, 422}
    broken = f'{{"value": "{words["the body of a refused request"]}"'.encode()
    headers = {"Content-Type": "application/json"}
    path = f"/tenants/{alice.tenant}/secrets/BROKEN"
    assert alice.request("PUT", path, content=broken, headers=headers).status_code == 400
    nul = f"{words['the body of a refused request']}\0"
    assert alice.request("PUT", path, json={"value": nul}).status_code in {400, 422}
    words["the token of a refused chat"] = word("chat")
    chat = {"channel": "slack", "settings": {"address": f"https://evil.example/{words['the token of a refused chat']}"}}
    assert alice.request("POST", "/subscriptions", json=chat).status_code == 422
    asked = {"token": words["the query of a refused request"]}
    assert alice.request("GET", "/jobs", params=asked).status_code == 422
    return words


@pytest.mark.capability("26", "Secrets planted everywhere are found nowhere")
def test_nothing_that_was_planted_is_found_anywhere(live_platform: LivePlatform, planted: Planted) -> None:
    assert where_found(live_platform, planted.words) == []


def test_nor_after_the_platform_was_killed_and_started_again(live_platform: LivePlatform, planted: Planted) -> None:
    live_platform.restart(kill=True)
    live_platform.wait(planted.job, ["running"])

    assert where_found(live_platform, planted.words) == []


def test_a_backup_holds_the_keys_says_so_and_nothing_in_clear(live_platform: LivePlatform, planted: Planted) -> None:
    backup = live_platform.data_dir / "backups" / f"canary-{secrets.token_hex(4)}.tar"
    said = manage(live_platform, "backup", backup)
    try:
        assert "HOLDS THE SECRET KEYS" in said.stderr
        assert backup.stat().st_mode & 0o777 == 0o600
        assert where_found(live_platform, planted.words, backup=backup) == []
    finally:
        backup.unlink()


def test_what_is_audited_names_the_secret_and_not_its_value(live_platform: LivePlatform, planted: Planted) -> None:
    rows = live_platform.rows("SELECT target_name FROM activity_auditevent WHERE verb = 'secret.edit'")

    assert ("PLANTED",) in rows
    wait_until(lambda: live_platform.rows("SELECT count(*) FROM activity_auditevent WHERE seq IS NULL") == [(0,)], "the seals")
    assert "The chain holds" in manage(live_platform, "verify_audit").stdout
