"""A manager keeps an account at a registry in a browser, is told whether it works, and nobody reads its password back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.builders.live import LivePlatform, running_platform
from tests.builders.registry import PASSWORD, USER, Member, RealRegistry, registry

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def closed() -> Iterator[RealRegistry]:
    with registry(password=PASSWORD) as found:
        yield found


@pytest.fixture(scope="module")
def live_portal(portal: Path, closed: RealRegistry) -> Iterator[LivePlatform]:
    with running_platform(BERTH_PORTAL_DIR=str(portal), BERTH_REGISTRY_PLAIN_HOSTS=closed.host) as platform:
        yield platform


def test_a_manager_keeps_an_account_and_is_told_whether_it_works(
    sign_in: SignIn, live_portal: LivePlatform, closed: RealRegistry
) -> None:
    digest = closed.push("team/train:1", [[Member("hello", b"hello\n")]])
    manager = live_portal.person("mara", tenant="vision", role="manager")
    page = sign_in(manager)
    open_page(page, f"/tenants/{manager.tenant}")
    page.get_by_role("tab", name="Registries").click()
    expect(page.get_by_text("No accounts at registries yet")).to_be_visible()
    page.get_by_role("button", name="Add an account").click()
    dialog = page.get_by_role("dialog", name="Add an account")
    dialog.get_by_role("textbox", name="Registry").fill(f"{closed.host}/team/train")
    dialog.get_by_role("textbox", name="User name").fill(USER)
    dialog.get_by_label("Password or token", exact=False).first.fill("not the password")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("Enter the host alone, without the name of an image.")).to_be_visible()
    dialog.get_by_role("textbox", name="Registry").fill("no_host!")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog.get_by_text("is no host of a registry")).to_be_visible()
    dialog.get_by_role("textbox", name="Registry").fill(f"http://{closed.host}/")
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)
    row = page.get_by_role("row", name=re.compile(re.escape(closed.host)))
    expect(row.get_by_text(USER)).to_be_visible()

    row.get_by_role("button", name=f"Check {closed.host}").click()
    dialog = page.get_by_role("dialog", name=f"Check {closed.host}")
    dialog.get_by_role("button", name="Check", exact=True).click()
    expect(dialog.get_by_text("The registry refuses the image")).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()

    row.get_by_role("button", name=f"Replace {closed.host}").click()
    dialog = page.get_by_role("dialog", name=f"Replace {closed.host}")
    expect(dialog.get_by_role("textbox", name="Registry")).to_be_disabled()
    expect(dialog.get_by_role("textbox", name="User name")).to_have_value(USER)
    dialog.get_by_label("Password or token", exact=False).first.fill(PASSWORD)
    dialog.get_by_role("button", name="Save").click()
    expect(dialog).to_have_count(0)

    row.get_by_role("button", name=f"Check {closed.host}").click()
    dialog = page.get_by_role("dialog", name=f"Check {closed.host}")
    dialog.get_by_role("button", name="Check", exact=True).click()
    expect(dialog.get_by_text(f"{closed.host} answers and takes the account.")).to_be_visible()
    dialog.get_by_role("textbox", name="Image").fill(f"{closed.host}/team/train:1")
    dialog.get_by_role("button", name="Check", exact=True).click()
    expect(dialog.get_by_text(digest)).to_be_visible()
    dialog.get_by_role("button", name="Cancel").click()
    assert PASSWORD not in page.content()

    row.get_by_role("button", name=f"Delete {closed.host}").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text("No accounts at registries yet")).to_be_visible()
    assert manager.items(f"/tenants/{manager.tenant}/registries") == []


def test_a_member_checks_and_changes_nothing_and_a_viewer_sees_nothing(
    sign_in: SignIn, live_portal: LivePlatform, closed: RealRegistry
) -> None:
    manager = live_portal.person("mara", tenant="vision", role="manager")
    manager.api("PUT", f"/tenants/{manager.tenant}/registries/{closed.host}", {"username": USER, "password": PASSWORD})
    member = live_portal.person("milo", tenant="vision")
    page = sign_in(member, locale="zh-CN", color_scheme="dark")
    open_page(page, f"/tenants/{member.tenant}/registries")
    expect(page.get_by_role("tab", name="镜像仓库")).to_have_attribute("aria-selected", "true")
    row = page.get_by_role("row", name=re.compile(re.escape(closed.host)))
    expect(row.get_by_role("button")).to_have_count(1)
    row.get_by_role("button", name=f"检查 {closed.host}").click()
    page.get_by_role("dialog").get_by_role("button", name="检查", exact=True).click()
    expect(page.get_by_text(f"{closed.host} 有响应，并接受该账户。")).to_be_visible()
    page = sign_in(live_portal.person("vera", tenant="vision", role="viewer"))
    open_page(page, f"/tenants/{member.tenant}/registries")
    expect(page.get_by_text("Only members of the tenant see its accounts at registries, not operators.")).to_be_visible()
    expect(page.get_by_role("tab", name="Registries")).to_have_count(0)
