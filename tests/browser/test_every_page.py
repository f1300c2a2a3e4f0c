"""Every page, for an operator and for a member, in both languages and both schemes: it opens, says what it is, breaks no rule of
accessibility, and nothing on it complains; and so does every window that it opens."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import PAGES, PageAt, open_page
from tests.browser.scene import Scene, set_up
from tests.browser.windows import Tour, go
from tests.builders.live import LivePlatform
from tools import portal as portal_builder

pytestmark = pytest.mark.browser

# WCAG 2.2 AA and what it builds on.
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OWN_TITLES = {"job", "queue", "tenant", "tenant-registries", "node", "template"}  # These are called what their object is called.
MEMBER_PAGES = [page for page in PAGES if not page.is_for_operators]


@pytest.fixture(scope="module")
def scene(live_portal: LivePlatform) -> Scene:
    return set_up(live_portal)


@pytest.fixture(scope="session")
def axe() -> str:
    """The rules' own program, from the portal's packages."""
    folder = portal_builder.packages(portal_builder.cache_folder())
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


@pytest.mark.capability(
    "53", "Every page opens for an operator and a member, in both languages and schemes, and breaks no rule of WCAG 2.2 AA"
)
@pytest.mark.parametrize("at", PAGES, ids=lambda at: at.name)
def test_an_operator_opens_it(at: PageAt, kept_page: SignIn, live_portal: LivePlatform, scene: Scene, axe: str) -> None:
    page = kept_page(live_portal.operator, color_scheme="light")
    open_page(page, scene.address(at.path))
    assert violations(page, axe) == []


@pytest.mark.capability(
    "53", "Every page opens for an operator and a member, in both languages and schemes, and breaks no rule of WCAG 2.2 AA"
)
@pytest.mark.parametrize("at", MEMBER_PAGES, ids=lambda at: at.name)
def test_a_member_opens_it_in_chinese_and_in_the_dark(at: PageAt, kept_page: SignIn, scene: Scene, axe: str) -> None:
    page = kept_page(scene.member, color_scheme="dark", locale="zh-CN")
    open_page(page, scene.address(at.path))
    if at.name not in OWN_TITLES and not at.name.startswith("job-"):
        expect(page.get_by_role("heading", level=1).first).to_have_text(re.compile(r"[\u4e00-\u9fff]"))
    assert violations(page, axe) == []


# Among what is opened; without these the test would be none.
OPENED = {
    "member": {"Rerun", "Stop", "Saved filters", "Save these filters", "Add tag", "Create a token", "Set up"},
    "operator": {"Plan maintenance", "New prices", "Drain…", "New user", "Edit", "Rules", "Book GPUs"},
}


@pytest.mark.parametrize("who", ["member", "operator"])
def test_windows_are_accessible_and_give_the_keyboard_back(
    who: str, sign_in: SignIn, live_portal: LivePlatform, scene: Scene, axe: str
) -> None:
    page = sign_in(scene.member if who == "member" else live_portal.operator, color_scheme="light", reduced_motion="reduce")
    page.goto("/")
    tour = Tour(page, RULES, axe)
    tour.open_all(page.locator("header"), place="header")
    for at in MEMBER_PAGES if who == "member" else PAGES:
        go(page, scene.address(at.path) + ("?state=queued" if at.name == "jobs" else ""))
        if at.name == "jobs":
            page.get_by_role("checkbox", name="next-in-line").first.check()
        tour.open_all(page.locator("main"), place=at.name)
    assert "\n".join(tour.faults) == ""
    assert OPENED[who] <= tour.opened, f"{OPENED[who] - tour.opened} of {sorted(tour.opened)}"


def violations(page: Page, axe: str) -> list[str]:
    """What breaks a rule, with the first places."""
    page.evaluate(axe)
    found: Any = page.evaluate(
        "rules => axe.run(document, {runOnly: {type: 'tag', values: rules}, resultTypes: ['violations']})", RULES
    )
    return [
        f"{entry['id']}: {entry['help']}: {[(node['html'][:200], node['failureSummary'][:300]) for node in entry['nodes'][:3]]}"
        for entry in found["violations"]
    ]
