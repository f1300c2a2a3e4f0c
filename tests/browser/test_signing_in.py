"""The way in and out, as people take it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

# The page's questions get no answer once `isUnanswered` is set, but those of the sign-in. They never leave the page: a browser
# loads at most three things at a time for a page in the background, and held requests would keep the sign-in's own file away.
UNANSWERED = r"""
    const ask = window.fetch;
    window.fetch = (request, options) =>
        window.isUnanswered && /\/api\/v1\/(?!session|sign-in-methods)/.test(request.url ?? request)
            ? new Promise(() => {}) : ask(request, options);
"""


def test_somebody_signs_in_by_the_form_and_out_again(
    open_browser: Callable[..., BrowserContext], live_portal: LivePlatform
) -> None:
    page = open_browser().new_page()
    page.goto("/jobs")
    page.get_by_label("User name or e-mail").fill(live_portal.operator.name)
    page.get_by_label("Password", exact=False).first.fill(live_portal.operator.password)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("Jobs")
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("menuitem", name="Sign out").click()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    assert page.context.request.get("/api/v1/whoami").status == 401


def test_a_wrong_password_is_told_and_nothing_is_opened(
    open_browser: Callable[..., BrowserContext], live_portal: LivePlatform
) -> None:
    page = open_browser(locale="zh-CN").new_page()
    page.goto("/")
    page.get_by_label("用户名或邮箱").fill(live_portal.operator.name)
    page.get_by_label("密码", exact=False).first.fill("not the password at all")
    page.get_by_role("button", name="登录").click()
    expect(page.get_by_role("alert")).to_contain_text("用户名或密码错误")


@pytest.mark.capability("sign-in", "Name or address and password make a session, which its owner can end")
def test_a_revoked_session_is_out_within_seconds(sign_in: SignIn, live_portal: LivePlatform) -> None:
    user = live_portal.person("revoked-rita")
    page = sign_in(user, fresh=True)
    page.add_init_script(UNANSWERED)
    open_listening(page, "/")
    expect(page.get_by_role("button", name="Your account")).to_be_visible()
    page.evaluate("() => { window.isUnanswered = true; }")  # No answer to a question tells it.
    other = sign_in(user, fresh=True)
    other.goto("/")
    csrf = other.context.request.get("/api/v1/session").json()["csrf"]
    ended = other.context.request.post(
        "/api/v1/sessions:end-others", headers={"X-Berth-CSRF": csrf, "Origin": live_portal.url}, data={}
    )
    assert ended.ok, ended.text()
    expect(page.get_by_role("button", name="Sign in")).to_be_visible()
    expect(other.get_by_role("button", name="Your account")).to_be_visible()


def test_an_operator_revokes_the_one_token_of_somebody_that_leaked(sign_in: SignIn, live_portal: LivePlatform) -> None:
    careless = live_portal.person("carl", tenant="leaks")
    leaked = careless.api("POST", "/tokens", {"name": "in-a-public-notebook"})
    page = sign_in(live_portal.operator)
    page.goto("/users?q=carl")
    page.get_by_role("button", name="Tokens of carl").click()
    row = page.get_by_role("dialog").get_by_role("row").filter(has_text="in-a-public-notebook")
    row.get_by_role("button", name="Revoke").click()
    page.get_by_role("dialog", name="Revoke", exact=True).get_by_role("button", name="Revoke").click()
    expect(row).to_have_count(0)
    assert careless.request("GET", "/whoami", headers={"Authorization": f"Bearer {leaked['token']}"}).status_code == 401
    assert careless.api("GET", "/whoami")["user"]["name"] == "carl"


def test_language_and_theme_are_kept(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator)
    page.goto("/")
    page.get_by_role("button", name="Your account").click()
    page.get_by_role("menuitem", name="中文").click()
    page.get_by_role("menuitem", name="深色").click()
    page.reload()
    expect(page.get_by_role("link", name="作业", exact=True)).to_be_visible()
    expect(page.locator("html")).to_have_attribute("data-mantine-color-scheme", "dark")
    expect(page.locator("html")).to_have_attribute("lang", "zh-CN")


@pytest.mark.capability("53", "The palette and the keys lead everywhere")
def test_the_palette_and_the_keys_lead_everywhere(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator)
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.keyboard.press("Control+k")
    page.get_by_role("combobox", name="Search pages, jobs and actions").fill("queues")
    page.keyboard.press("Enter")
    page.wait_for_url("**/queues")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.evaluate("now => { Date.now = () => now; }", int(time.time() * 1000))  # The second key must come within a moment.
    page.keyboard.press("g")
    page.keyboard.press("j")
    page.wait_for_url("**/jobs")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
