"""Each feature of the list is really bound to something: its operations, its sockets, its pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.urls import URLPattern, URLResolver, get_resolver

from webapi.features import FEATURES
from webapi.views import ApiView

pytestmark = pytest.mark.database
V1 = "/api/v1"
PORTAL = Path(__file__).parents[3] / "frontend" / "src"
BY_SOCKET = {"terminal"}  # tests/realtime/test_exec_socket.py sees it closed.
BY_PAGE = {"notebook"}  # A page that shows how to use what is there anyway.


def views() -> Iterator[tuple[str, type[ApiView]]]:
    """Addresses with their views, of the API alone."""

    def walk(patterns: list[URLPattern | URLResolver], before: str) -> Iterator[tuple[str, type[ApiView]]]:
        for pattern in patterns:
            address = before + str(pattern.pattern).lstrip("^")
            if isinstance(pattern, URLResolver):
                yield from walk(pattern.url_patterns, address)
            elif isinstance(
                view := getattr(pattern.callback, "view_class", None) or getattr(pattern.callback, "cls", None), type
            ):
                yield address, view

    return ((address, view) for address, view in walk(get_resolver().url_patterns, "/") if issubclass(view, ApiView))


@pytest.mark.capability("110", "Every feature of the list is bound to operations, a socket or a page")
def test_every_feature_is_bound_to_operations_or_says_to_what_else():
    bound = {view.feature for _, view in views() if view.feature}
    assert bound | BY_SOCKET | BY_PAGE == set(FEATURES)
    assert not bound & (BY_SOCKET | BY_PAGE)


@pytest.mark.capability("110", "Every feature of the list is bound to operations, a socket or a page")
@pytest.mark.parametrize("name", sorted(set(FEATURES) - BY_SOCKET - BY_PAGE))
def test_the_operations_of_a_feature_that_is_off_are_gone_and_come_back(api, cast, name):
    addresses = [address for address, view in views() if view.feature == name and hasattr(view, "get") and "<" not in address]
    assert addresses
    for enabled, is_gone in ((False, True), (None, False)):
        assert api(cast.otto).put(f"{V1}/features/{name}", {"enabled": enabled, "tenant": None}, format="json").status_code == 204
        for address in addresses:
            for person in (cast.bob, cast.otto):
                answer = api(person).get(address)
                code = answer.json().get("code") if "json" in answer["Content-Type"] else None
                assert (code == "feature_off") is is_gone, (name, address, answer.content[:200])


@pytest.mark.capability("110", "Every feature of the list is bound to operations, a socket or a page")
def test_every_feature_hides_its_pages_by_their_address_and_its_parts_of_others():
    gated = set(re.findall(r"\bfeature: '(\w+)'", (PORTAL / "app" / "pageFiles.ts").read_text()))
    parts = "".join(path.read_text() for path in (*PORTAL.rglob("*.tsx"), PORTAL / "app" / "pages.ts"))
    asked = set(re.findall(r"(?:\bsession\.|(?<![.\w]))has\('(\w+)'\)", parts))
    assert gated == set(FEATURES) - BY_SOCKET  # The terminal is a part of a job's page.
    assert asked == set(FEATURES)
