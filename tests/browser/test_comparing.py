"""Two runs side by side, from the list, from a rerun and by address; and the window in which a rerun is written."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser


def test_two_runs_ticked_in_the_list_stand_side_by_side(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("cora", tenant="compares")
    spec = {"name": "twin", "command": "test $SEED = 2", "env": {"SEED": "1"}, "resources": SMALL}
    first = member.submit(spec)
    first = member.wait(first, ("failed",))
    second = member.api("POST", f"/jobs/{first['id']}/rerun", {"changes": {"env": {"SEED": "2"}}})
    member.wait(second, ("succeeded",))
    page = sign_in(member)
    open_page(page, "/jobs")
    boxes = page.get_by_role("checkbox", name="Select twin")
    expect(boxes).to_have_count(2)
    for box in boxes.all():
        box.check()
    page.get_by_role("link", name="Compare", exact=True).click()
    page.wait_for_url(f"**/jobs/compare?a={first['id']}&b={second['id']}")  # The older one first, however the list is sorted.

    facts = page.get_by_role("table", name="Result, time and cost")
    end = facts.get_by_role("row").filter(has=page.get_by_role("rowheader", name="How it ended"))
    expect(end).to_contain_text("failed")
    expect(end).to_contain_text("succeeded")
    expect(end).to_contain_text("differs")
    expect(facts.get_by_role("row").filter(has=page.get_by_role("rowheader", name="Memory"))).to_contain_text("same")
    files = page.get_by_role("region", name="Job files").last
    changed = files.get_by_role("row").filter(has=page.get_by_role("img", name="changed"))
    expect(changed).to_have_count(1)
    expect(changed).to_contain_text(re.compile(r'SEED: "1".*SEED: "2"', re.DOTALL))
    page.get_by_role("switch", name="Show only differences").press("Space")
    expect(facts.get_by_role("rowheader", name="Memory")).to_have_count(0)

    open_page(page, f"/jobs/{second['id']}")
    page.get_by_role("link", name="Compare with the original").press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Compare twin with twin")


def test_a_run_that_one_may_not_see_is_told_and_another_can_be_named(sign_in: SignIn, live_portal: LivePlatform) -> None:
    hidden = live_portal.person("hal", tenant="hides").submit(
        {"name": "veiled", "command": "true", "resources": SMALL}, wait=True
    )
    member = live_portal.person("ola", tenant="open")
    own = member.submit({"name": "own-run", "command": "true", "resources": SMALL}, wait=True)
    page = sign_in(member)
    open_page(page, f"/jobs/compare?a={own['id']}&b={hidden['id']}")
    expect(page.get_by_role("alert")).to_contain_text(f"Run B: no job {hidden['id']}")
    assert "veiled" not in page.locator("body").inner_text()
    page.get_by_label("Run B: name or id").fill("own-run")
    page.get_by_role("button", name="Compare", exact=True).click()
    expect(page.get_by_text("A and B are the same job")).to_be_visible()


def test_escape_closes_the_window_on_top_and_what_was_typed_below_stays(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("esc", tenant="escapes")
    job = member.submit({"name": "typed", "command": "true", "resources": {"cpu": 1, "memory": "2Gi"}}, wait=True)
    page = sign_in(member)
    open_page(page, f"/jobs/{job['id']}")
    page.get_by_role("button", name="Rerun", exact=True).click()
    text = page.get_by_label("Spec of the new job (YAML)")
    expect(text).to_have_value(re.compile("memory: 2Gi"))  # As it was written, not in bytes.
    expect(page.get_by_text("No changes.")).to_be_visible()
    text.fill(text.input_value().replace("2Gi", "3Gi"))
    page.get_by_role("dialog").get_by_role("button", name="CLI · curl · Python").click()
    expect(page.get_by_role("dialog", name="Do the same outside the portal")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Do the same outside the portal")).to_have_count(0)
    expect(text).to_have_value(re.compile("memory: 3Gi"))
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.get_by_role("button", name="Rerun", exact=True).click()
    expect(page.get_by_label("Spec of the new job (YAML)")).to_have_value(re.compile("memory: 3Gi"))
    page.get_by_role("button", name="Start the rerun").click()
    page.wait_for_url(lambda address: job["id"] not in address)
    again = member.api("GET", f"/jobs/{page.url.rsplit('/', 1)[1]}")
    assert again["resources"]["memory_bytes"] == 3 * 1024**3
