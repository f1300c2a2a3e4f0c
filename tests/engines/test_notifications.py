"""A webhook hears of each end of a job once, and can check that it was us."""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Iterator

import pytest

from tests.builders.live import LivePlatform, wait_until
from tests.builders.receiver import Message, Receiver, receiving

pytestmark = pytest.mark.engines  # Once is enough: nothing here depends on the database.


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def is_ours(message: Message, secret: str) -> bool:
    """What a receiver checks, by the documentation."""
    stamp, _, signature = message.headers["berth-signature"].partition(",v1=")
    seconds = stamp.removeprefix("t=")
    expected = hmac.new(secret.encode(), f"{seconds}.".encode() + message.content, hashlib.sha256).hexdigest()
    return hmac.compare_digest(signature, expected) and abs(time.time() - int(seconds)) < 600


def test_each_end_is_told_once_and_signed(live_platform: LivePlatform, receiver: Receiver) -> None:
    nora = live_platform.person("nora")
    body = {"channel": "webhook", "target": receiver.url, "kinds": ["succeeded", "failed", "stopped"], "jobs": "mine"}
    subscription = nora.api("POST", "/subscriptions", body)
    jobs = {
        "succeeded": nora.submit({"name": "well", "command": "true"}),
        "failed": nora.submit({"name": "badly", "command": "exit 3"}),
        "stopped": nora.submit({"name": "never", "command": "true", "hold": True}),
    }
    nora.stop(jobs["stopped"])
    for state, job in jobs.items():
        assert nora.wait(job)["state"] == state
        wait_until(lambda job=job: receiver.about(job), f"the message about {job['name']}")
        [told] = receiver.about(job)
        assert (told.body["state"], told.body["job"]["name"]) == (state, job["name"])
    assert all(is_ours(message, subscription["secret"]) for message in receiver.messages)

    def noted() -> list[tuple[str, int]]:
        mine = [item for item in nora.items("/deliveries") if item["subscription_id"] == subscription["id"]]
        return [(item["state"], item["tries"]) for item in mine]

    # What was sent and not noted when the platform is killed is sent again, with the same id.
    wait_until(lambda: noted() == [("sent", 1)] * 3, "the note of all three")
    live_platform.restart(kill=True)
    assert noted() == [("sent", 1)] * 3
    later = nora.submit({"name": "later", "command": "true"}, wait=True)
    wait_until(lambda: receiver.about(later), "the message after the restart")
    assert len(receiver.messages) == len({message.delivery for message in receiver.messages}) == 4
    nora.api("DELETE", f"/subscriptions/{subscription['id']}")


def test_nobody_hears_of_jobs_of_other_people(live_platform: LivePlatform, receiver: Receiver) -> None:
    bob = live_platform.person("bob")
    erin = live_platform.person("erin")
    subscription = bob.api("POST", "/subscriptions", {"channel": "webhook", "target": receiver.url, "kinds": ["succeeded"]})
    erins = erin.submit({"name": "hers", "command": "true"}, wait=True)
    bobs = bob.submit({"name": "his", "command": "true"}, wait=True)
    wait_until(lambda: receiver.about(bobs), "the message about Bob's job")
    assert receiver.about(erins) == []
    bob.api("DELETE", f"/subscriptions/{subscription['id']}")
