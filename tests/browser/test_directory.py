"""Signing in by an LDAP directory as people do it: connect an account by the form, or come in as somebody new."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from tests.browser.conftest import SignIn
from tests.builders import slapd
from tests.builders.live import LivePlatform, running_platform
from tests.builders.slapd import PASSWORD, Directory

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not all(importlib.util.find_spec(name) for name in ("ldap", "django_auth_ldap")),
        reason="the extra `ldap` is not installed: pip install --require-hashes -r requirements-ldap.lock",
    ),
    pytest.mark.skipif(not slapd.SLAPD.exists(), reason="Debian's slapd is not installed"),
]


@pytest.fixture(scope="module")
def directory() -> Iterator[Directory]:
    with slapd.running() as server:
        server.person("kim.directory", email="kim@example.org")
        server.person("zoe.directory", email="zoe@example.org")
        yield server


@pytest.fixture(scope="module")
def live_portal(portal: Path, directory: Directory) -> Iterator[LivePlatform]:
    settings = {f"BERTH_{name.upper()}": str(value) for name, value in directory.settings.items()}
    with running_platform(BERTH_PORTAL_DIR=str(portal), BERTH_LDAP_CREATES_USERS="true", **settings) as platform:
        yield platform


def test_an_account_is_connected_and_its_password_stays_where_it_is_kept(
    sign_in: SignIn, open_browser: Callable[..., BrowserContext], live_portal: LivePlatform
) -> None:
    page = sign_in(live_portal.person("kim", tenant="vision"))
    page.goto("/account?tab=security")
    expect(page.get_by_label("Current password")).to_be_visible()
    form = page.get_by_role("region", name="Directory of your organisation")
    form.get_by_label("Name in the directory").fill("kim.directory")
    form.get_by_label("Password in the directory").fill("not this one")
    form.get_by_role("button", name="Connect").click()
    expect(form.get_by_text("The directory does not know this name with this password.")).to_be_visible()
    expect(form.get_by_label("Password in the directory")).to_be_focused()
    expect(form.get_by_label("Password in the directory")).to_have_attribute("aria-invalid", "true")
    form.get_by_label("Password in the directory").fill(PASSWORD)
    form.get_by_role("button", name="Connect").click()
    expect(page.get_by_text("The account is connected.")).to_be_visible()

    page = _come_in(open_browser, "kim.directory")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hello, kim")

    page = _come_in(open_browser, "zoe.directory")
    expect(page.get_by_role("heading", level=1)).to_have_text("Hello, zoe.directory")
    page.goto("/account?tab=security")
    expect(page.get_by_role("region", name="Password", exact=True)).to_contain_text("kept in the directory of your organisation")
    expect(page.get_by_role("button", name="Set up")).to_be_visible()
    for label in ("Current password", "Name in the directory"):
        expect(page.get_by_label(label)).to_have_count(0)


def _come_in(open_browser: Callable[..., BrowserContext], name: str) -> Page:
    page = open_browser().new_page()
    page.goto("/")
    page.get_by_label("User name or e-mail").fill(name)
    page.get_by_label("Password", exact=False).first.fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    return page
