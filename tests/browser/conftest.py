"""A real browser in front of a real platform: Debian's Chromium, driven by Playwright, on the portal as it is built.

    page = sign_in(live_portal.operator)            # a browser of its own, signed in by the form's own request
    page.goto("/jobs")

Whatever a page complains about while a test uses it (an error in its console, a script that threw, an answer of 5xx, something
that its policy refused) fails the test, even where everything looked right.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Response, expect, sync_playwright

from tests.builders.live import LivePlatform, LiveUser, running_platform
from tools import portal as portal_builder

CHROMIUM = "/usr/bin/chromium"
TIMEOUT_MS = 60_000  # A loaded machine; an idle one needs a fraction of a second.
# What Chromium itself writes for every answer of 4xx; the page shows those in words, and that is tested.
EXPECTED = "Failed to load resource: the server responded with a status of 4"

SignIn = Callable[..., Page]


@pytest.fixture(scope="session")
def portal() -> Path:
    """The built portal; BERTH_TEST_PORTAL names one that is there already."""
    given = os.environ.get("BERTH_TEST_PORTAL")
    return Path(given) if given else portal_builder.build(portal_builder.cache_folder())


@pytest.fixture(scope="module")
def live_portal(portal: Path) -> Iterator[LivePlatform]:
    """A platform that serves it, for all tests of a file."""
    with running_platform(BERTH_PORTAL_DIR=str(portal)) as platform:
        yield platform


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])  # Root may not have one.
        yield browser
        browser.close()


class Complaints:
    """What pages said that nobody should ever read."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def listen(self, page: Page) -> None:
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.found.append(f"thrown: {error}"))
        page.on("response", self._response)
        page.on("dialog", lambda dialog: self.found.append(f"dialog: {dialog.message}"))

    def _console(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not message.text.startswith(EXPECTED):
            self.found.append(f"console: {message.text}")

    def _response(self, response: Response) -> None:
        if response.status >= 500:
            self.found.append(f"{response.status} {response.request.method} {response.url}")


@pytest.fixture
def complaints() -> Iterator[Complaints]:
    """Empty it in a test that provokes some."""
    complaints = Complaints()
    yield complaints
    assert complaints.found == []


@pytest.fixture
def open_browser(chromium: Browser, live_portal: LivePlatform, complaints: Complaints) -> Iterator[Callable[..., BrowserContext]]:
    """Makes browsers that know nobody yet: `open_browser(locale="zh-CN", color_scheme="dark")`."""
    contexts: list[BrowserContext] = []

    def make(**options: object) -> BrowserContext:
        contexts.append(_browser(chromium, live_portal, complaints, **options))
        return contexts[-1]

    yield make
    left = [context for context in contexts if context in chromium.contexts]  # A test may have closed one itself.
    for context in left:  # What a test answered in the server's place may still be under way.
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")
        context.unroute_all(behavior="ignoreErrors")
        context.close()


@pytest.fixture(scope="module")
def sessions() -> dict[str, Any]:
    """The cookies of whoever signed in before: one name may try only a few times a minute."""
    return {}


@pytest.fixture
def sign_in(open_browser: Callable[..., BrowserContext], sessions: dict[str, Any]) -> SignIn:
    """A page in a browser of their own for somebody who is signed in; each call makes another. `fresh`: with a session of its
    own, which may be ended."""

    def enter(user: LiveUser, *, fresh: bool = False, **options: object) -> Page:
        context = open_browser(**options)
        _sign_in(context, user, {} if fresh else sessions)
        return context.new_page()

    return enter


@pytest.fixture(scope="module")
def kept_pages(chromium: Browser, live_portal: LivePlatform, sessions: dict[str, Any]) -> Iterator[KeptPages]:
    with contextlib.ExitStack() as stack:
        yield KeptPages(lambda complaints, **options: _browser(chromium, live_portal, complaints, **options), sessions, stack)


@pytest.fixture
def kept_page(kept_pages: KeptPages) -> Iterator[SignIn]:
    """The page of somebody who is signed in, the same for all tests of a file: each opens its address there anew. A page in a
    browser of its own takes three times as much computing, because a process begins and reads all scripts."""
    kept_pages.complaints.found.clear()
    yield kept_pages.of
    assert kept_pages.complaints.found == []


class KeptPages:
    """Pages by person, and what any of them complained about. `stack` closes them."""

    def __init__(
        self, open_browser: Callable[..., BrowserContext], sessions: dict[str, Any], stack: contextlib.ExitStack
    ) -> None:
        self.complaints = Complaints()
        self._open_browser, self._sessions, self._stack = open_browser, sessions, stack
        self._pages: dict[str, Page] = {}

    def of(self, user: LiveUser, **options: object) -> Page:
        """`options` are those of the person's first call."""
        if user.name not in self._pages:
            context = self._open_browser(self.complaints, **options)
            self._stack.callback(context.close)
            _sign_in(context, user, self._sessions)
            self._pages[user.name] = context.new_page()
        return self._pages[user.name]


def _browser(chromium: Browser, platform: LivePlatform, complaints: Complaints, **options: object) -> BrowserContext:
    facts = {"base_url": platform.url, "locale": "en-GB", "viewport": {"width": 1360, "height": 900}, **options}
    context = chromium.new_context(**facts)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT_MS)
    context.on("page", complaints.listen)
    return context


def _sign_in(context: BrowserContext, user: LiveUser, sessions: dict[str, Any]) -> None:
    if user.name in sessions:
        context.add_cookies(sessions[user.name])
        return
    answer = context.request.post("/api/v1/session", data={"name": user.name, "password": user.password})
    assert answer.ok, answer.text()
    sessions[user.name] = context.cookies()
