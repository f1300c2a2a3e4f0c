"""Opening every window, menu and drawer of a page.

What opens something says so (`aria-haspopup`), so the pages are asked, and nobody keeps a list of buttons. Each kind is
opened once: what has the same name elsewhere is the same.
"""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Locator, Page, expect

NEW_WINDOWS = ":is([role=dialog]:not([aria-hidden=true]), [role=menu]):not([data-tour])"
OPENERS = ":is([aria-haspopup=dialog], [aria-haspopup=menu]):not(:disabled)"
NAMES = "all => all.filter(one => one.checkVisibility()).map(one => (one.innerText || one.ariaLabel || '').split(':')[0].trim())"
SETTLED = """scheme => document.documentElement.dataset.mantineColorScheme === scheme
    && document.getAnimations().every(one => !(one instanceof CSSTransition))"""
LEAVE = """path => {
    document.querySelectorAll('main h1').forEach(title => { title.dataset.left = 'yes'; });
    history.pushState({}, '', path);
    dispatchEvent(new PopStateEvent('popstate', {state: {}}));
}"""
ACTIVE = "document.activeElement.outerHTML.slice(0, 150)"
CHOOSING = ":focus[data-mantine-stop-propagation=true]"
ASK_AXE = "(part, only) => axe.run(part, {runOnly: only, resultTypes: ['violations']})"


class Tour:
    """What was opened so far, and what was wrong with it."""

    def __init__(self, page: Page, rules: list[str], axe: str) -> None:
        self.page = page
        self.opened: set[str] = set()
        self.faults: list[str] = []
        self._windows = 0
        self._rules = rules
        self._axe = axe

    def open_all(self, part: Locator, *, place: str, depth: int = 0) -> None:
        """By the keyboard, one by one, and what they themselves open; then Escape, and back at what opened it."""
        for name in dict.fromkeys(part.locator(OPENERS).evaluate_all(NAMES)):
            if name in self.opened:
                continue
            named = part.locator(f"{OPENERS}[aria-label^={json.dumps(name)}]")
            opener = part.locator(OPENERS).filter(visible=True, has_text=name).or_(named).first
            if not opener.count():
                continue  # The page was drawn anew meanwhile, as live pages are.
            self.opened.add(name)
            opener.press("Enter")
            window = self._new_window()
            drawn = window.element_handle()
            self._look(window, f"{place}: {name}")
            if depth == 0:
                self.open_all(window, place=f"{place}: {name}", depth=1)
            if self.page.locator(CHOOSING).count():
                self.page.keyboard.press("Escape")  # This one is for the list of choices that opened with its field.
            self.page.keyboard.press("Escape")
            drawn.wait_for_element_state("hidden")
            self._expect_keyboard_at(opener, f"{place}: {name}")

    def _new_window(self) -> Locator:
        """The one that opens now, however long its file takes: what lies below it bears a number already."""
        opened = self.page.locator(NEW_WINDOWS).filter(visible=True).last
        expect(opened).to_be_visible()
        expect(opened.locator("[role=status][aria-busy=true]")).to_have_count(0)
        self._windows += 1
        opened.evaluate("(one, number) => { one.dataset.tour = number; }", self._windows)
        return self.page.locator(f"[data-tour='{self._windows}']")

    def _look(self, window: Locator, where: str) -> None:
        """All rules in the light; in the dark only the colours are other ones."""
        colors = {"type": "rule", "values": ["color-contrast"]}
        for scheme, only in (("light", {"type": "tag", "values": self._rules}), ("dark", colors)):
            self.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            self.page.wait_for_function(SETTLED, arg=scheme)
            if not self.page.evaluate("'axe' in window"):
                self.page.evaluate(self._axe)
            found: Any = window.evaluate(ASK_AXE, only)
            for entry in found["violations"]:
                places = [node["html"][:150] + node["failureSummary"][:200] for node in entry["nodes"][:2]]
                self.faults.append(f"{where} ({scheme}): {entry['id']}: {places}")
        self.page.emulate_media(color_scheme="light")

    def _expect_keyboard_at(self, opener: Locator, where: str) -> None:
        if not opener.count():
            return  # An entry of a menu that closed; the menu's own button is looked at next.
        try:
            expect(opener).to_be_focused()
        except AssertionError:
            self.faults.append(f"{where}: the keyboard is at {self.page.evaluate(ACTIVE)}")


def go(page: Page, path: str) -> None:
    """Within the portal, as a link would, which is much sooner; loaded anew where only a part of the page is another one."""
    if path.split("?")[0] == page.evaluate("location.pathname"):
        page.goto(path)
    else:
        page.evaluate(LEAVE, path)
    expect(page.locator("main h1:not([data-left]), main [role=alert]").first).to_be_visible()
    expect(page.locator("[role=status][aria-busy=true]")).to_have_count(0)
