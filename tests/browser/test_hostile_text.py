"""Users' text is text: in logs, names, descriptions, tags and errors nothing of it runs, leaves the page, or becomes markup."""

from __future__ import annotations

import base64
import contextlib
import json

import pytest
from playwright.sync_api import Page, Request, expect

from tests.browser.conftest import SignIn
from tests.browser.hostile import CALL, texts
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform, LiveUser

pytestmark = pytest.mark.browser

PLACES = ("/", "/jobs", "/templates", "/tenants", "/approvals", "/data", "/queues", "/account/tokens", "/audit")


class Watch:
    """What a page did that it must not do."""

    def __init__(self, page: Page, home: str) -> None:
        self.page, self.home, self.left = page, home, []
        page.on("request", self._request)

    def _request(self, request: Request) -> None:
        if not request.url.startswith((self.home, "data:", "blob:")):
            self.left.append(request.url)

    def assert_nothing_ran(self, where: str) -> None:
        assert self.page.evaluate("window.__stolen") is None, where
        assert self.left == [], where
        assert self.page.locator("main script, main iframe, main object, main base, main meta, main link").count() == 0, where
        assert self.page.url.startswith(self.home), where


@pytest.mark.capability("53", "Users' text stays text")
def test_five_hundred_texts_in_a_log_stay_text(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("hana", tenant="hostile")
    lines = texts()
    packed = base64.b64encode(json.dumps(lines).encode()).decode()
    program = f"import base64,json\nfor line in json.loads(base64.b64decode('{packed}')): print(line.replace(chr(10), ' '))"
    volume = {"name": "prints", "command": ["python3", "-c", program], "resources": SMALL}
    job = member.submit(volume, wait=True)
    assert job["state"] == "succeeded"
    page = sign_in(member)
    watch = Watch(page, live_portal.url)
    page.goto(f"/jobs/{job['id']}/logs")
    expect(page.get_by_text("<script>", exact=False).first).to_be_visible()
    for _ in range(40):
        page.mouse.wheel(0, -3_000)
    page.wait_for_timeout(500)
    watch.assert_nothing_ran("logs")
    assert page.locator("main a[href^='javascript'], main a[href*='evil.example']").count() == 0


@pytest.mark.capability("53", "Users' text stays text")
def test_names_titles_tags_and_errors_stay_text(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("hal", tenant="hostile", role="manager")
    kept = _leave_everywhere(live_portal, member)
    assert kept > 100, "too few of the texts were taken: this test would show nothing"
    for user in (member, live_portal.operator):
        page = sign_in(user)
        watch = Watch(page, live_portal.url)
        for path in PLACES:
            page.goto(path)
            expect(page.locator("main")).to_be_visible()
            expect(page.locator("[role=status][aria-busy=true]")).to_have_count(0)
            watch.assert_nothing_ran(path)
        for text in texts()[:6]:
            page.goto(f"/jobs?q={text.replace('&', '')}")
            expect(page.locator("main")).to_be_visible()
            watch.assert_nothing_ran(f"q={text}")


def _leave_everywhere(platform: LivePlatform, member: LiveUser) -> int:
    """Leave them wherever people may write; how many were taken. What is refused is shown as an error, which is a place too."""
    taken = 0
    short = [text[:63] for text in texts()]
    for number, text in enumerate(texts()[:60]):
        template = {
            "name": f"t{number}",
            "title": text[:100],
            "description": text,
            "spec": {"command": "true"},
            "tenant": member.tenant,
        }
        filters = {"name": short[number], "page": "jobs", "query": f"q={text}"[:1000]}
        job = {"spec": {"command": f"echo; exit 3 # {CALL}", "resources": SMALL, "name": short[number]}, "tenant": member.tenant}
        for path, body in (
            ("/templates", template),
            ("/saved-filters", filters),
            ("/jobs", job),
            ("/tokens", {"name": text[:100], "scopes": ["read"]}),
            ("/tenants", {"name": short[number], "description": text, "parent": member.tenant}),
        ):
            with contextlib.suppress(AssertionError):
                taken += member.request("POST", path, json=body).is_success
    for text in texts()[:8]:
        taken += platform.operator.request(
            "POST", "/announcements", json={"text": text, "text_zh": text, "level": "info"}
        ).is_success
    return taken
