"""The operators' console in a browser: it complains of nothing, speaks the reader's language and has the portal's colours."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser


def test_rows_of_the_console_can_be_chosen_and_acted_on_in_chinese(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator, locale="zh-CN", color_scheme="dark")
    page.goto("/admin/clusters/node/")
    page.locator("input.action-select").first.check()
    expect(page.get_by_role("combobox").filter(has_text="不再接受新任务")).to_be_visible()
    colour = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--color-primary-600')")
    assert colour.strip() == "rgb(11, 114, 133)"
