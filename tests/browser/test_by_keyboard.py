"""What a member does all day, without a mouse: in, to the form, submit, read the log, stop. And the keyboard is never lost."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

MENU_MOST = 20
TABS_MOST = 90  # Past the menu, the form and its sections; a page that needs more is one to mend.


def test_a_member_submits_reads_and_stops_a_job(open_browser: Callable[..., BrowserContext], live_portal: LivePlatform) -> None:
    member = live_portal.person("kay", tenant="keys")
    page = open_browser().new_page()
    page.goto("/")
    expect(page.get_by_label("User name or e-mail")).to_be_focused()
    page.keyboard.type(member.name)
    page.keyboard.press("Tab")
    page.keyboard.type(member.password)
    page.keyboard.press("Enter")

    expect(page.get_by_role("heading", level=1)).to_contain_text("Hello")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search pages, jobs and actions")).to_be_focused()
    page.keyboard.type("submit")
    page.keyboard.press("Enter")
    page.wait_for_url("**/submit")
    expect(page.get_by_role("dialog")).to_have_count(0)

    tab_to(page, page.get_by_label("Name", exact=True))
    page.keyboard.type("by-keys")
    tab_to(page, page.get_by_label("Command"))
    page.keyboard.press("Control+a")
    page.keyboard.type("while true; do echo typed; sleep 0.5; done")
    tab_to(page, page.get_by_role("button", name="Submit", exact=True))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))

    expect(page.get_by_role("heading", level=1)).to_have_text("by-keys")
    expect(page.locator("main").get_by_text("running").first).to_be_visible()
    tab_to(page, page.get_by_role("tab", selected=True))
    for _ in range(8):
        if page.get_by_role("tab", name="Log").evaluate("tab => tab === document.activeElement"):
            break
        page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    expect(page.get_by_text("typed", exact=True).first).to_be_visible()

    tab_to(page, page.get_by_role("button", name="Stop", exact=True), key="Shift+Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator(":focus")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("main").get_by_role("button", name="Stop", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog").locator(":focus")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("main").get_by_role("status").filter(has_text="stopped")).to_be_visible()
    expect(page.get_by_role("button", name="Stop", exact=True)).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_be_focused()


def test_the_first_tab_leads_past_the_menu(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator)
    open_page(page, "/jobs")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.keyboard.press("Tab")
    expect(page.locator("main :focus")).to_have_count(1)


def test_columns_of_the_list_are_chosen_and_kept(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("cora", tenant="columns")
    job = member.submit({"name": "wide", "command": "true", "hold": True, "priority": 417})
    page = sign_in(member)
    page.goto("/jobs")
    table = page.get_by_role("table", name="List of jobs")
    expect(table.get_by_role("columnheader", name="User", exact=True)).to_be_visible()
    expect(table.get_by_role("columnheader", name="Priority")).to_have_count(0)

    tab_to(page, page.get_by_role("button", name="Columns"))
    page.keyboard.press("Enter")
    user = page.get_by_role("menuitemcheckbox", name="User", exact=True)
    expect(user).to_be_checked()
    expect(page.locator("[role=menu]:focus, [role=menu] :focus")).to_have_count(1)  # The keyboard comes into it a moment later.
    for name in ("User", "Priority"):
        entry = page.get_by_role("menuitemcheckbox", name=name, exact=True)
        for _ in range(MENU_MOST):
            if entry.evaluate("one => one === document.activeElement"):
                break
            page.keyboard.press("ArrowDown")
        page.keyboard.press("Space")
    expect(user).not_to_be_checked()
    page.keyboard.press("Escape")
    expect(page.get_by_role("button", name="Columns")).to_be_focused()

    for again in (False, True):
        if again:
            page.reload()
        expect(table.get_by_role("columnheader", name="Priority")).to_be_visible()
        expect(table.get_by_role("columnheader", name="User", exact=True)).to_have_count(0)
        row = table.get_by_role("row").filter(has=page.get_by_role("link", name=job["name"], exact=True))
        expect(row.get_by_role("cell", name="417", exact=True)).to_be_visible()

    page.get_by_role("button", name="Columns").press("Enter")
    page.get_by_role("menuitem", name="As at first").press("Enter")
    expect(table.get_by_role("columnheader", name="User", exact=True)).to_be_visible()
    expect(table.get_by_role("columnheader", name="Priority")).to_have_count(0)


def test_the_order_of_the_list_begins_at_the_one_chosen(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator)
    page.goto("/jobs?sort=finished")
    order = page.get_by_role("combobox", name="Order")
    tab_to(page, order)
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("option", name="last ended first")).to_be_visible()
    expect(page.locator("[role=option][data-combobox-selected]")).to_have_text("last ended first")  # After they are drawn.
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs?sort=priority")
    expect(order).to_be_focused()


def tab_to(page: Page, wanted: Locator, *, key: str = "Tab") -> None:
    """Press the key until it is there."""
    expect(wanted).to_be_visible()
    for _ in range(TABS_MOST):
        page.keyboard.press(key)
        if wanted.evaluate("one => one === document.activeElement"):
            return
    raise AssertionError(f"{TABS_MOST} tabs do not lead to {wanted}")
