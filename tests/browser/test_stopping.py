"""Stopping several jobs from the list: what became of each is said beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import WebSocketRoute, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser


def test_a_job_that_waited_is_said_to_be_stopped_and_one_that_ended_before_to_have_ended(
    sign_in: SignIn, live_portal: LivePlatform
) -> None:
    member = live_portal.person("stan", tenant="stops")
    member.submit({"name": "done-before", "command": "true", "resources": SMALL}, wait=True)
    waits = member.submit({"name": "waits", "command": "true", "hold": True, "resources": SMALL})
    page = sign_in(member)
    open_page(page, "/jobs")
    for name in ("done-before", "waits"):
        page.get_by_role("checkbox", name=f"Select {name}").check()
    page.get_by_role("button", name="Stop", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Stop", exact=True).click()
    told = page.get_by_role("dialog", name="2 succeeded, 0 failed.")
    expect(told.get_by_role("listitem").filter(has_text="waits")).to_contain_text("The job is stopped.")
    expect(told.get_by_role("listitem").filter(has_text="done-before")).to_contain_text("The job had already ended: succeeded.")
    assert member.job(waits)["state"] == "stopped"


def test_a_page_that_was_read_before_it_heard_of_anything_shows_what_happened_meanwhile(
    sign_in: SignIn, live_portal: LivePlatform
) -> None:
    member = live_portal.person("gale", tenant="gaps")
    job = member.submit({"name": "stopped-unheard", "command": "sleep 1000", "resources": SMALL}, wait=["running"])
    page = sign_in(member)
    may_listen = False

    def listen(socket: WebSocketRoute) -> None:
        if may_listen:
            socket.connect_to_server()
        else:
            socket.close()

    page.route_web_socket("**/ws/v1/live", listen)
    open_page(page, f"/jobs/{job['id']}")
    expect(page.get_by_role("main").get_by_text("running", exact=True).first).to_be_visible()
    member.stop(job, grace_seconds=0)
    assert member.wait(job)["state"] == "stopped"
    may_listen = True
    expect(page.get_by_role("main").get_by_text("stopped", exact=True).first).to_be_visible()
