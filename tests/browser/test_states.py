"""When the API fails, cannot be reached, refuses or is slow: every main page says so in words, offers a next step, and goes on
by itself once it can."""

from __future__ import annotations

import json
import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.conftest import Complaints, SignIn
from tests.browser.scene import Scene, set_up
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

MAIN_PAGES = (
    "/",
    "/jobs",
    "/jobs/{job}",
    "/jobs/{job}/logs",
    "/submit",
    "/queues",
    "/cluster",
    "/usage",
    "/templates",
    "/data",
    "/approvals",
)
BUSY = "main [role=status][aria-busy=true]"
# Each part of a page has a button of its own, and fails in its own time: once more where what follows live has asked meanwhile.
TRY_EACH_ONCE = """busy => {
    for (const one of document.querySelectorAll('button:not([data-tried])')) {
        if (one.textContent.trim() !== 'Try again') continue;
        one.dataset.tried = 'yes';
        one.click();
    }
    return !document.querySelector(busy) && !document.body.innerText.includes('The server failed.');
}"""


@pytest.fixture(scope="module")
def scene(live_portal: LivePlatform) -> Scene:
    return set_up(live_portal)


def test_a_fault_of_the_server_is_told_and_tried_again(sign_in: SignIn, scene: Scene, complaints: Complaints) -> None:
    page = sign_in(scene.member)
    for path in MAIN_PAGES:
        with_api(page, problem(500, "internal_error", "The server failed."))
        page.goto(scene.address(path))
        alert = page.locator("main [role=alert]").first
        expect(alert).to_contain_text("The server failed.")
        expect(page.get_by_role("heading", level=1).or_(alert).first).to_be_visible()
        page.unroute_all(behavior="ignoreErrors")
        page.wait_for_function(TRY_EACH_ONCE, arg=BUSY)
        expect(page.get_by_text("The server failed.")).to_have_count(0)
    complaints.found.clear()


def test_what_one_may_not_see_is_told(sign_in: SignIn, scene: Scene) -> None:
    page = sign_in(scene.member)
    for path in MAIN_PAGES:
        with_api(page, problem(403, "forbidden", "Ask a manager of the tenant."))
        page.goto(scene.address(path))
        alert = page.locator("main [role=alert]").first
        expect(alert).to_contain_text("You may not see this")
        expect(alert).to_contain_text("Ask a manager of the tenant.")


def test_without_a_network_it_says_so_and_goes_on_by_itself(sign_in: SignIn, scene: Scene, complaints: Complaints) -> None:
    for path in ("/jobs", "/jobs/{job}", "/queues"):
        page = sign_in(scene.member)
        with_api(page, lambda route: route.abort("connectionrefused"))
        page.goto(scene.address(path))
        alert = page.locator("main [role=alert]").first
        expect(alert).to_contain_text("Berth cannot be reached")
        page.unroute_all(behavior="ignoreErrors")
        expect(page.get_by_text("Berth cannot be reached")).to_have_count(0)
        page.context.close()
    complaints.found.clear()


def test_while_it_waits_it_shows_that(sign_in: SignIn, scene: Scene) -> None:
    page = sign_in(scene.member)
    for path in MAIN_PAGES:
        with_api(page, lambda route: None)  # Never answered.
        page.goto(scene.address(path))
        expect(page.locator(BUSY).first).to_be_visible()
        page.unroute_all(behavior="ignoreErrors")


def test_a_newcomer_finds_a_next_step_everywhere(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("newt", tenant="nothing-yet"))
    for path in ("/", "/jobs", "/templates", "/data", "/approvals", "/bookings", "/usage", "/notebook"):
        page.goto(path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        expect(page.locator(BUSY)).to_have_count(0)
        expect(page.locator("main [role=alert]")).to_have_count(0)
        expect(page.locator("main").locator("a, button, code"), path).not_to_have_count(0)


def with_api(page: Page, answer: Callable[[Route], object]) -> None:
    """Answer whatever the pages ask, but not who is signed in and what there is for them."""
    page.route(re.compile(r"/api/v1/(?!session|whoami|preferences|features|announcements)"), answer)


def problem(status: int, code: str, detail: str) -> Callable[[Route], None]:
    body = json.dumps({"title": "Something", "status": status, "code": code, "detail": detail, "request_id": "r-1"})
    return lambda route: route.fulfill(status=status, content_type="application/problem+json", body=body)
