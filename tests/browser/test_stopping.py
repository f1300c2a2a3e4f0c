"""Stopping several jobs from the list: what became of each is said beside it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

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
    told = page.get_by_role("dialog", name="Done: 2. Not done: 0.")
    expect(told.get_by_role("listitem").filter(has_text="waits")).to_contain_text("It is stopped.")
    expect(told.get_by_role("listitem").filter(has_text="done-before")).to_contain_text("It had already ended: succeeded.")
    assert member.job(waits)["state"] == "stopped"
