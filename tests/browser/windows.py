"""Opening every window, menu and drawer of a page.

What opens something says so (`aria-haspopup`), so the pages are asked, and nobody keeps a list of buttons. Each kind is opened once:
what has the same name elsewhere is the same.
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page, expect

WINDOWS = "[role=dialog]:not([aria-hidden=true]), [role=menu]"
OPENERS = ":is([aria-haspopup=dialog], [aria-haspopup=menu]):not(:disabled)"
NAMES = "all => all.filter(one => one.checkVisibility()).map(one => (one.innerText || one.ariaLabel || '').split(':')[0].trim())"
ASK_AXE = "(part, only) => axe.run(part, {runOnly: only, resultTypes: ['violations']})"


class Tour:
    """What was opened so far, and what was wrong with it."""

    def __init__(self, page: Page, rules: list[str]) -> None:
        self.page = page
        self.opened: set[str] = set()
        self.faults: list[str] = []
        self._rules = rules

    def open_all(self, part: Locator, *, place: str, depth: int = 0) -> None:
        """By the keyboard, one by one, and what they themselves open; then Escape, and back at what opened it."""
        for name in dict.fromkeys(part.locator(OPENERS).evaluate_all(NAMES)):
            if name in self.opened:
                continue
            opener = part.locator(OPENERS).filter(visible=True).filter(has_text=name).or_(part.locator(f"{OPENERS}[aria-label^={json.dumps(name)}]")).first
            if not opener.count():
                continue  # The page was drawn anew meanwhile, as live pages are.
            self.opened.add(name)
            opener.focus()
            self.page.keyboard.press("Enter")
            window = self.page.locator(WINDOWS).filter(visible=True).last
            expect(window).to_be_visible()
            expect(window.locator("[role=status][aria-busy=true]")).to_have_count(0)
            self._look(window, f"{place}: {name}")
            if depth == 0:
                self.open_all(window, place=f"{place}: {name}", depth=1)
            self.page.keyboard.press("Escape")
            expect(self.page.locator(WINDOWS).filter(visible=True)).to_have_count(depth)
            self._expect_keyboard_at(opener, f"{place}: {name}")

    def _look(self, window: Locator, where: str) -> None:
        """All rules in the light; in the dark only the colours are other ones."""
        for scheme, only in (("light", {"type": "tag", "values": self._rules}), ("dark", {"type": "rule", "values": ["color-contrast"]})):
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            found: Any = window.evaluate(ASK_AXE, only)
            for entry in found["violations"]:
                places = [node["html"][:150] + node["failureSummary"][:200] for node in entry["nodes"][:2]]
                self.faults.append(f"{where} ({scheme}): {entry['id']}: {places}")
        self.page.emulate_media(color_scheme="light")

    def _expect_keyboard_at(self, opener: Locator, where: str) -> None:
        try:
            expect(opener).to_be_focused(timeout=1_500)
        except AssertionError:
            self.faults.append(f"{where}: the keyboard is at {self.page.evaluate('document.activeElement.outerHTML.slice(0, 150)')}")


def go(page: Page, path: str) -> None:
    """Within the portal, as a link would: no page is loaded anew."""
    page.evaluate("path => { history.pushState({}, '', path); dispatchEvent(new PopStateEvent('popstate', {state: {}})); }", path)
    expect(page.locator("main h1, main [role=alert]").first).to_be_visible()
    expect(page.locator("[role=status][aria-busy=true]")).to_have_count(0)
