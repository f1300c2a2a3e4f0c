"""What long names and names from right to left do to a page: it scrolls sideways, hides their end, or shows numbers elsewhere.

Each check asks the browser itself and gives the places; none of them knows a page. Nodes are called by their machines, so a
long name is put into the server's answers on their way to the page.
"""

from __future__ import annotations

import json
import re
from typing import Any

from playwright.sync_api import BrowserContext, Page, Route

LONG_NODE = "gpu-worker-0042.rack-17.row-c.hall-2.datacentre-frankfurt-west.example-company.org"
LONG_POOL = "2xNVIDIA-RTX-PRO-6000-Blackwell-Server-Edition-96GB-simulated-x1"

SIDEWAYS = """() => {
  const wide = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth <= wide) return [];
  const found = [...document.querySelectorAll('main *, header *')].filter((one) => {
    if (one.getBoundingClientRect().right <= wide + 1) return false;
    for (let over = one.parentElement; over; over = over.parentElement) {
      if (over !== document.body && getComputedStyle(over).overflowX !== 'visible') return false;
    }
    return true;
  });
  return [`${document.documentElement.scrollWidth} px of ${wide}`, ...found.slice(-3).map((one) => one.outerHTML.slice(0, 200))];
}"""

# Whose end is not to be seen: short words never, and others where pointing at them does not tell the whole. Whoever gave it a
# title of its own has seen it cut.
CUT = """() => [...document.querySelectorAll('main *, header *, nav *')].filter((one) => {
  const overflow = (of) => getComputedStyle(of).overflowX;
  const isFull = (of) => of.scrollWidth > of.clientWidth + 1;
  if (['visible', 'auto', 'scroll'].includes(overflow(one)) || one.matches('select, input, textarea')) return false;
  if (!one.innerText || !isFull(one) || one.clientWidth < 2) return false;
  if ([...one.querySelectorAll('*')].some((inner) => isFull(inner) && overflow(inner) !== 'visible')) return false;
  const isKnown = one.hasAttribute('title');
  one.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
  const isTold = one.closest('[title]') || one.querySelector('[title]');
  document.body.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));
  return !isTold || (!isKnown && one.innerText.trim().length <= 14);
}).map((one) => `${one.innerText.slice(0, 60)} in ${one.outerHTML.slice(0, 160)}`)"""

# A name from right to left takes the digits and signs beside it into its own direction, unless an element, or the two signs for
# it, set it apart; what is alone in its block harms nothing.
MIXED = r"""() => {
  const rtl = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff]/;
  const found = new Set();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!rtl.test(node.data) || node.parentElement.closest('script, style, [hidden]')) continue;
    if (node.data.split(/[\u2066-\u2069]/).every((part, place) => place % 2 === 1 || !rtl.test(part))) continue;
    let over = node.parentElement;
    const isInline = () => getComputedStyle(over).display === 'inline';
    while (isInline() && !/isolate|plaintext/.test(getComputedStyle(over).unicodeBidi)) over = over.parentElement;
    if (isInline() || over.innerText.trim() === node.data.trim()) continue;
    found.add(over.innerText.replace(/\s+/g, ' ').slice(0, 120));
  }
  return [...found];
}"""


def faults(page: Page) -> dict[str, list[str]]:
    """What is wrong with what is shown now, by kind."""
    checks = {"scrolls sideways": SIDEWAYS, "cut off without a title": CUT, "mixes directions": MIXED}
    found: dict[str, Any] = {name: page.evaluate(check) for name, check in checks.items()}
    return {name: places for name, places in found.items() if places}


def call_nodes(context: BrowserContext, name: str, long_name: str = LONG_NODE) -> None:
    """Let the page read another name of a machine wherever the server's answers hold it."""
    word = re.compile(rf'"{re.escape(name)}"')

    def answer(route: Route) -> None:
        if route.request.method != "GET" or "stream" in route.request.url:
            route.continue_()
            return
        response = route.fetch()
        if "json" not in response.headers.get("content-type", ""):
            route.fulfill(response=response)
            return
        route.fulfill(response=response, body=word.sub(json.dumps(long_name), response.text()))

    context.route("**/api/v1/**", answer)
