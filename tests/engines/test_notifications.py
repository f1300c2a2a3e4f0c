"""A webhook hears of each end of a job once, and can check that it was us."""

from __future__ import annotations

import hashlib
import hmac
import http.server
import json
import threading
import time
from collections.abc import Iterator

import pytest

from tests.builders.live import Json, LivePlatform, wait_until

pytestmark = [pytest.mark.engines, pytest.mark.database]


class Receiver:
    """A web server that keeps what it is sent."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.messages.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def about(self, job: Json) -> list[Json]:
        bodies = [json.loads(body) for _, body in self.messages]
        return [body for body in bodies if body["job"]["id"] == job["id"]]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    yield made
    made.server.shutdown()
    made.server.server_close()


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
        assert (told["state"], told["job"]["name"]) == (state, job["name"])
    for headers, content in receiver.messages:
        stamp, _, signature = headers["berth-signature"].partition(",v1=")
        seconds = stamp.removeprefix("t=")
        expected = hmac.new(subscription["secret"].encode(), f"{seconds}.".encode() + content, hashlib.sha256).hexdigest()
        assert hmac.compare_digest(signature, expected)
        assert abs(time.time() - int(seconds)) < 600
    live_platform.restart(kill=True)
    deliveries = nora.items("/deliveries")
    mine = [item for item in deliveries if item["subscription_id"] == subscription["id"]]
    assert [(item["state"], item["tries"]) for item in mine] == [("sent", 1)] * 3
    again = nora.submit({"name": "later", "command": "true"}, wait=True)
    wait_until(lambda: receiver.about(again), "the message after the restart")
    assert len(receiver.messages) == len({headers["berth-delivery"] for headers, _ in receiver.messages}) == 4
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
