"""Every page of the portal: its address on a platform with work on it, who may open it, and how it is opened."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from playwright.sync_api import Page, WebSocket, expect

HEARS_SECONDS = 60.0


@dataclass(frozen=True)
class PageAt:
    """`path` may hold `{job}` (one that ended), `{running}`, `{tenant}`, `{queue}`, `{node}`, `{template}`: see `Scene`."""

    name: str
    path: str
    is_for_operators: bool = False


PAGES = (
    PageAt("home", "/"),
    PageAt("jobs", "/jobs"),
    PageAt("job", "/jobs/{job}"),
    PageAt("job-logs", "/jobs/{job}/logs"),
    PageAt("job-metrics", "/jobs/{running}/metrics"),
    PageAt("job-tasks", "/jobs/{running}/tasks"),
    PageAt("job-events", "/jobs/{job}/events"),
    PageAt("job-artifacts", "/jobs/{job}/artifacts"),
    PageAt("job-spec", "/jobs/{job}/spec"),
    PageAt("job-waiting", "/jobs/{waiting}"),
    PageAt("compare", "/jobs/compare?a={job}&b={failed}"),
    PageAt("compare-choose", "/jobs/compare"),
    PageAt("submit", "/submit"),
    PageAt("templates", "/templates"),
    PageAt("template", "/templates/{template}"),
    PageAt("notebook", "/notebook"),
    PageAt("data", "/data"),
    PageAt("queues", "/queues"),
    PageAt("queue", "/queues/{queue}"),
    PageAt("cluster", "/cluster"),
    PageAt("usage", "/usage"),
    PageAt("usage-shares", "/usage?tab=shares"),
    PageAt("usage-statements", "/usage?tab=statements"),
    PageAt("account", "/account"),
    PageAt("account-security", "/account?tab=security"),
    PageAt("account-sessions", "/account?tab=sessions"),
    PageAt("account-tokens", "/account?tab=tokens"),
    PageAt("account-notifications", "/account?tab=notifications"),
    PageAt("invitation", "/invitation"),
    PageAt("device", "/device?code=BBBB-CCCC"),
    PageAt("tenants", "/tenants"),
    PageAt("tenant", "/tenants/{tenant}"),
    PageAt("tenant-registries", "/tenants/{tenant}/registries"),
    PageAt("quotas", "/quotas", is_for_operators=True),
    PageAt("approvals", "/approvals"),
    PageAt("bookings", "/bookings"),
    PageAt("prices", "/prices"),
    PageAt("nodes", "/nodes", is_for_operators=True),
    PageAt("node", "/nodes/{node}", is_for_operators=True),
    PageAt("clusters", "/clusters", is_for_operators=True),
    PageAt("maintenance", "/maintenance", is_for_operators=True),
    PageAt("users", "/users", is_for_operators=True),
    PageAt("announcements", "/announcements", is_for_operators=True),
    PageAt("features", "/features", is_for_operators=True),
    PageAt("audit", "/audit", is_for_operators=True),
    PageAt("nowhere", "/nowhere"),
)


def open_page(page: Page, path: str) -> None:
    """Go there and wait until nothing loads any more."""
    page.goto(path)
    expect(page.locator("main")).to_be_visible()
    expect(page.locator("[role=status][aria-busy=true]")).to_have_count(0)
    expect(page.get_by_role("button", name=re.compile("Load again|重新加载"))).to_have_count(0)


def open_listening(page: Page, path: str) -> None:
    """Go there and wait until the page hears of what happens: it is told of nothing that came before."""
    heard: list[bool] = []

    def listen(socket: WebSocket) -> None:
        if socket.url.endswith("/ws/v1/live"):
            socket.on("framereceived", lambda text: '"subscribed"' in str(text) and heard.append(True))

    page.on("websocket", listen)
    page.goto(path)
    deadline = time.monotonic() + HEARS_SECONDS
    while not heard:
        assert time.monotonic() < deadline, f"{path} is told of nothing after {HEARS_SECONDS} s"
        page.wait_for_timeout(20)  # Lets the browser tell what it received.
    page.remove_listener("websocket", listen)
