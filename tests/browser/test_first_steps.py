"""From an empty account to a finished job by clicking what is offered; and small things that members and managers look for."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening, open_page
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

GUIDED_SECONDS = 300  # The promise: a first job in five minutes from an empty installation.


@pytest.mark.capability("122", "A newcomer is led to a finished job in the browser, in less than five minutes")
def test_a_newcomer_is_led_to_a_finished_job_and_on(sign_in: SignIn, live_portal: LivePlatform) -> None:
    newcomer = live_portal.person("nia", tenant="fresh")
    page = sign_in(newcomer)
    began = time.monotonic()
    open_listening(page, "/")
    steps = page.get_by_role("region", name="Your first job in three steps")
    expect(steps.locator("[aria-current=step]").get_by_role("heading")).to_have_text("Run an example")
    steps.get_by_role("button", name="Run the example").click()
    steps.get_by_role("link", name="Watch it run").click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}/logs"))
    expect(page.get_by_text(re.compile("^Hello from worker")).first).to_be_visible()
    expect(page.locator("main").get_by_text("succeeded").first).to_be_visible()
    seconds = time.monotonic() - began
    print(f"a first job, from the home page to its success: {seconds:.1f} s")
    assert seconds < GUIDED_SECONDS
    assert [job["state"] for job in newcomer.items("/jobs?mine=true")] == ["succeeded"]

    page.get_by_role("link", name="Home", exact=True).click()
    expect(steps.locator("[aria-current=step]").get_by_role("heading")).to_have_text("Submit your own job")
    expect(steps.get_by_role("link", name="Read its log")).to_be_visible()
    expect(steps.get_by_role("link", name="From a notebook")).to_be_visible()
    steps.get_by_role("button", name="Hide these steps").click()
    expect(steps).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_be_focused()
    elsewhere = sign_in(newcomer, fresh=True)
    for seen in (page, elsewhere):
        seen.goto("/")
        expect(seen.get_by_role("heading", level=1)).to_have_text("Hello, nia")
        expect(seen.get_by_role("heading", name="My queued and running jobs")).to_be_visible()
        expect(seen.get_by_role("region", name="Your first job in three steps")).to_have_count(0)


@pytest.mark.capability("38", "Whoever stops a job may say why, and whoever sees the job reads it")
def test_the_reason_of_a_stop_is_read_by_whoever_looks_at_the_job(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("rea", tenant="reasons")
    jobs = [
        member.submit({"name": name, "command": "sleep 600", "resources": SMALL, "max_runtime": "1h"}, wait=("running",))
        for name in ("one", "two", "three")
    ]
    page = sign_in(member)
    open_listening(page, f"/jobs/{jobs[0]['id']}")
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Reason (optional)").fill("wrong data")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.get_by_text("Stopped by rea: wrong data").first).to_be_visible()

    open_listening(page, "/jobs?state=running")
    for name in ("two", "three"):
        page.get_by_role("checkbox", name=re.compile(name)).check()
    page.get_by_role("button", name="Stop", exact=True).click()
    dialog.get_by_label("Reason (optional)").fill("room for others")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(dialog.get_by_text(re.compile("2 succeeded"))).to_be_visible()
    for job in jobs[1:]:
        ended = member.wait(job)
        assert ended["reason"]["text"] == "Stopped by rea: room for others"


@pytest.mark.capability("107", "A template shows how its last test run ended, by portal, command line and API")
def test_a_template_shows_how_its_test_run_ended(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("tom", tenant="tries")
    made = member.api(
        "POST", "/templates", {"name": "tried", "title": "Tried", "spec": {"command": "echo tried", "name": "tried"}}
    )
    page = sign_in(member)
    page.goto("/templates?whose=tenant")
    expect(page.get_by_text("Never tested")).to_be_visible()
    open_listening(page, f"/templates/{made['id']}")
    page.get_by_role("button", name="Test run").click()
    page.get_by_role("dialog").get_by_role("button", name="Test run").click()
    expect(page.get_by_text("Test passed")).to_be_visible()
    member.api("PATCH", f"/templates/{made['id']}", {"spec": {"command": "echo other", "name": "tried"}})
    page.goto("/templates?whose=tenant")
    expect(page.get_by_text("Test outdated")).to_be_visible()


@pytest.mark.capability("53", "Times are shown in the preferred zone, which is named")
def test_times_are_shown_in_the_zone_that_one_prefers(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("zoe", tenant="zones")
    job = member.submit({"name": "early", "command": "true", "resources": SMALL}, wait=True)
    page = sign_in(member)
    page.goto("/account?tab=preferences")
    zone = page.get_by_role("combobox", name="Time zone")
    zone.click()
    zone.fill("Kathmandu")
    page.get_by_role("option", name="Asia/Kathmandu").click()
    expect(page.get_by_text("GMT+5:45")).to_be_visible()
    page.goto(f"/jobs/{job['id']}")
    expect(page.locator("main time").first).to_have_attribute("title", re.compile(r"GMT\+5:45$"))
    other = sign_in(member, fresh=True)
    other.goto(f"/jobs/{job['id']}")
    expect(other.locator("main time").first).to_have_attribute("title", re.compile(r"GMT\+5:45$"))


@pytest.mark.capability("110", "A feature that is off is gone from portal and API, for the installation or a tenant")
def test_what_is_switched_off_is_no_page_and_shows_no_cost(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("una", tenant="plain")
    for feature in ("notebook", "billing"):
        live_portal.operator.api("PUT", f"/features/{feature}", {"enabled": False, "tenant": "plain"})
    page = sign_in(member)
    for address in ("/notebook", "/prices"):
        page.goto(address)
        expect(page.get_by_role("link", name="To the home page")).to_be_visible()
    navigation = page.get_by_role("navigation").first
    expect(navigation.get_by_role("link", name="Jobs", exact=True)).to_be_visible()
    for name in ("Notebook", "Prices"):
        expect(navigation.get_by_role("link", name=name, exact=True)).to_have_count(0)
    page.goto("/usage?tab=budgets")
    expect(page.get_by_role("tab", name=re.compile("Use|Usage")).first).to_be_visible()
    expect(page.get_by_role("tab", name="Budgets")).to_have_count(0)
    _is_free_of_costs(page)
    page.goto("/submit")
    page.get_by_label("Command").fill("true")
    expect(page.get_by_text("The job would start at once")).to_be_visible()
    _is_free_of_costs(page)


def _is_free_of_costs(page: Page) -> None:
    expect(page.locator("main").get_by_text(re.compile(r"\bCosts?\b"))).to_have_count(0)


@pytest.mark.capability("122", "A refusal links its rule")
def test_a_refusal_links_its_rule(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("ruth", tenant="rules")
    page = sign_in(member)
    page.goto("/jobs/nothing-of-the-kind")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="What this rule means").first.click()
    rule = opened.value
    expect(rule).to_have_url(re.compile("/docs/errors#not_found$"))
    expect(rule.locator("#not_found")).to_be_visible()


def test_a_manager_sees_what_a_member_leaves_and_hands_it_over(sign_in: SignIn, live_portal: LivePlatform) -> None:
    manager = live_portal.person("mona", tenant="leaving", role="manager")
    member = live_portal.person("leo", tenant="leaving")
    job = member.submit({"name": "waits", "command": "true", "resources": SMALL, "hold": True}, wait=("queued",))
    page = sign_in(manager)
    open_page(page, f"/tenants/{manager.tenant}")
    page.get_by_role("button", name="Remove leo").click()
    dialog = page.get_by_role("dialog", name="Remove leo from leaving?")
    expect(dialog.get_by_role("list", name="What is left").get_by_text("1 waiting job")).to_be_visible()
    expect(dialog.get_by_role("radio", name="Hold")).to_be_checked()
    dialog.get_by_role("radio", name="Hand over to a member").check()
    dialog.get_by_role("combobox", name="Member").or_(dialog.get_by_role("textbox", name="Member")).first.fill("mona")
    page.keyboard.press("Escape")
    dialog.get_by_role("button", name="Remove", exact=True).click()
    expect(dialog).to_have_count(0)
    expect(page.get_by_role("button", name="Remove leo")).to_have_count(0)
    assert manager.job(job)["user"]["name"] == "mona"


def test_a_manager_deletes_an_empty_queue(sign_in: SignIn, live_portal: LivePlatform) -> None:
    manager = live_portal.person("quinn", tenant="queueing", role="manager")
    manager.api("POST", "/queues", {"name": "night", "tenant": manager.tenant})
    page = sign_in(manager)
    open_page(page, f"/tenants/{manager.tenant}")
    page.get_by_role("tab", name="Queues").click()
    page.get_by_role("button", name="Delete queue night").click()
    page.get_by_role("dialog", name="Delete queue night?").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("button", name="Delete queue night")).to_have_count(0)
    assert [queue["name"] for queue in manager.items("/queues")] == ["queueing"]
