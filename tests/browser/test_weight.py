"""What everybody loads before the first page is there."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

SCRIPT_BYTES_MAX = 220_000  # Compressed, as sent; the budget of the first load.

SENT = """() => performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith('.js'))
    .map((entry) => [entry.name.split('/').pop(), entry.encodedBodySize])"""


@pytest.mark.capability("53", "The first load is light")
def test_the_first_load_is_light(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.operator)
    page.goto("/")
    expect(page.get_by_role("heading", level=1)).to_be_visible()
    sent = dict(page.evaluate(SENT))
    assert sent
    assert sum(sent.values()) <= SCRIPT_BYTES_MAX, sorted(sent.items(), key=lambda entry: -entry[1])
