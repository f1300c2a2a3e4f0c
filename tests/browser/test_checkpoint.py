"""A job's checkpoint on its page: its age, size and files, and a rerun that goes on from it."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform, wait_until

pytestmark = pytest.mark.browser

SAVES = 'cd "$BERTH_CHECKPOINT_DIR" && printf 0123456789 >step-7.part.tmp && mv step-7.part.tmp step-7 && cd - >/dev/null'


def test_a_checkpoint_is_shown_with_its_age_size_and_files_and_a_rerun_goes_on_from_it(
    sign_in: SignIn, live_portal: LivePlatform
) -> None:
    member = live_portal.person("cleo", tenant="keeps")
    spec = {"name": "saves", "command": f"{SAVES}; exit 3", "checkpoint": {"path": "ckpt"}, "resources": SMALL}
    job = member.wait(member.submit(spec), ("failed",))
    wait_until(lambda: member.api("GET", f"/jobs/{job['id']}/checkpoint")["state"] == "ready", "the checkpoint in the store")
    page = sign_in(member)
    open_page(page, f"/jobs/{job['id']}")
    card = page.get_by_role("region", name="Checkpoint")
    expect(card).to_contain_text("ready")
    expect(card).to_contain_text("A new job can resume from this checkpoint")
    expect(card.locator("time")).to_contain_text("ago")
    expect(card.get_by_role("row").filter(has_text="Size")).to_contain_text("10 B")
    expect(card.get_by_role("row").filter(has_text="Size")).to_contain_text("1 file")
    card.get_by_role("button", name="Files").click()
    expect(card.get_by_role("table", name="Files").get_by_role("row")).to_have_count(1)
    with page.expect_download() as fetched:
        card.get_by_role("link", name="Download step-7").click()
    assert fetched.value.path().read_bytes() == b"0123456789"

    page.get_by_role("button", name="Rerun").click()
    rerun = page.get_by_role("dialog")
    rerun.get_by_role("switch", name="Start from this job’s checkpoint").check()
    expect(rerun.get_by_role("textbox")).to_have_value(re.compile(rf"checkpoint:\n(?: .*\n)* +from: {job['id']}\n"))
    rerun.get_by_role("button", name="Start the rerun").click()
    page.wait_for_url(lambda url: url.split("/jobs/")[-1] not in ("", job["id"]))
    expect(
        page.get_by_role("region", name="Checkpoint").get_by_role("link", name="the checkpoint of another job")
    ).to_have_attribute("href", f"/jobs/{job['id']}")
