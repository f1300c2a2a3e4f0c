"""Pictures of every page, for people to look at: `make screens`, or `python -m tests.browser.screens FOLDER [page...]`.

A platform of its own is started twice: empty, as a newcomer finds it, and with work on it. Each page is drawn light and dark, in
English and Chinese, and as a phone shows it. An index page shows all of them side by side. With `--hard-names` everything is
called as long as it may be, and from right to left: on a phone and on a wide screen.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright
from playwright.sync_api import TimeoutError as TookTooLong

from tests.browser.conftest import CHROMIUM
from tests.browser.hard_names import LONG_POOL, call_nodes
from tests.browser.pages import PAGES, PageAt
from tests.browser.scene import HARD_NAMES, PLAIN_NAMES, furnish, set_up
from tests.builders.live import LivePlatform, LiveUser, running_platform
from tools import portal

WIDE, PHONE = {"width": 1360, "height": 900}, {"width": 390, "height": 844}
SETTLE_MS = 400  # Charts and transitions.
LOADING = "[role=status][aria-busy=true]"


@dataclass(frozen=True)
class Look:
    """One way to see a page."""

    name: str
    options: Mapping[str, Any]


LOOKS = (
    Look("light-en", {"color_scheme": "light", "locale": "en-GB", "viewport": WIDE}),
    Look("dark-zh", {"color_scheme": "dark", "locale": "zh-CN", "viewport": WIDE}),
    Look("phone-dark-en", {"color_scheme": "dark", "locale": "en-GB", "viewport": PHONE}),
)
HARD_LOOKS = (
    Look("phone-en", {"color_scheme": "light", "locale": "en-GB", "viewport": PHONE}),
    Look("wide-en", {"color_scheme": "light", "locale": "en-GB", "viewport": {"width": 1920, "height": 1080}}),
)
EMPTY = {"home", "jobs", "submit", "templates", "data", "queues", "cluster", "usage", "approvals", "bookings", "prices", "nodes",
         "maintenance", "announcements", "audit", "tenants"}  # fmt: skip


def main() -> int:
    words = [word for word in sys.argv[1:] if word != "--hard-names"]
    names = HARD_NAMES if len(words) < len(sys.argv) - 1 else PLAIN_NAMES
    looks = HARD_LOOKS if names is HARD_NAMES else LOOKS
    settings = {"BERTH_LOCAL_SIMULATED_GPUS": LONG_POOL} if names is HARD_NAMES else {}
    folder = Path(words[0] if words else "build/screens")
    wanted = set(words[1:])
    folder.mkdir(parents=True, exist_ok=True)
    pages = [page for page in PAGES if not wanted or page.name in wanted]
    built = portal.build(portal.cache_folder())
    with running_platform(BERTH_PORTAL_DIR=str(built), **settings) as platform, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        made: list[str] = []
        if names is PLAIN_NAMES:
            newcomer = platform.person("nora", tenant="new")
            empty = [page for page in pages if page.name in EMPTY]
            made += _draw(browser, platform, folder, "empty", newcomer, empty, None, looks)
        scene = set_up(platform, names)
        furnish(platform, scene, names)
        made += _draw(browser, platform, folder, "full" if names is PLAIN_NAMES else "hard", scene.member, pages, scene, looks)
        browser.close()
    (folder / "index.html").write_text(_index(made), encoding="utf-8")
    print(f"{len(made)} pictures: {folder / 'index.html'}")
    return 0


def _draw(
    browser: Browser,
    platform: LivePlatform,
    folder: Path,
    state: str,
    member: LiveUser,
    pages: list[PageAt],
    scene: Any,
    looks: Sequence[Look],
) -> Iterator[str]:
    node = platform.operator.items("/nodes")[0]["name"] if looks is HARD_LOOKS else ""
    for look in looks:
        for who in (member, platform.operator):
            context = browser.new_context(base_url=platform.url, timezone_id="Europe/Berlin", **look.options)
            answer = context.request.post("/api/v1/session", data={"name": who.name, "password": who.password})
            assert answer.ok, answer.text()
            if node:
                call_nodes(context, node)
            page = context.new_page()
            for at in pages:
                if at.is_for_operators != (who is platform.operator):
                    continue
                yield _take(
                    page, at.path if scene is None else scene.address(at.path), folder / f"{at.name}-{state}-{look.name}.png"
                )
            context.close()


def _take(page: Page, path: str, file: Path) -> str:
    page.goto(path)
    try:
        page.wait_for_selector("main h1, main [role=alert]", timeout=15_000)
        page.wait_for_selector(LOADING, state="detached", timeout=15_000)
    except TookTooLong:
        print(f"{file.name}: it still loads", file=sys.stderr)
    page.wait_for_timeout(SETTLE_MS)
    page.screenshot(path=file)
    print(file.name, flush=True)
    return file.name


def _index(names: list[str]) -> str:
    figures = "\n".join(
        f'<figure><a href="{escape(name)}"><img src="{escape(name)}" loading="lazy"></a>'
        f"<figcaption>{escape(name)}</figcaption></figure>"
        for name in sorted(names)
    )
    style = "figure{display:inline-block;width:30%;margin:1%;font:12px sans-serif}img{width:100%;border:1px solid #999}"
    return f'<!doctype html><meta charset="utf-8"><title>Screens</title><style>{style}</style>{figures}'


if __name__ == "__main__":
    sys.exit(main())
