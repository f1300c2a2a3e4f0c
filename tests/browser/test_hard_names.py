"""Every page with names as long as they may be, some of them from right to left, on a phone and on a wide screen: nothing of it
scrolls sideways, nothing is cut off for good, and digits stay beside what they belong to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser.conftest import SignIn
from tests.browser.hard_names import LONG_POOL, call_nodes, faults
from tests.browser.pages import PAGES, open_page
from tests.browser.scene import HARD_NAMES, Scene, furnish, set_up
from tests.builders.live import LivePlatform, running_platform

pytestmark = pytest.mark.browser

PHONE, WIDE = {"width": 390, "height": 844}, {"width": 1920, "height": 1080}


@pytest.fixture(scope="module")
def live_portal(portal: Path) -> Iterator[LivePlatform]:
    with running_platform(BERTH_PORTAL_DIR=str(portal), BERTH_LOCAL_SIMULATED_GPUS=LONG_POOL) as platform:
        yield platform


@pytest.fixture(scope="module")
def scene(live_portal: LivePlatform) -> Scene:
    made = set_up(live_portal, HARD_NAMES)
    furnish(live_portal, made, HARD_NAMES)
    return made


@pytest.mark.parametrize("viewport", [PHONE, WIDE], ids=["phone", "wide"])
def test_pages_keep_their_shape(viewport: dict[str, int], sign_in: SignIn, live_portal: LivePlatform, scene: Scene) -> None:
    node = live_portal.operator.items("/nodes")[0]["name"]
    found = {}
    for user in (scene.member, live_portal.operator):
        page = sign_in(user, viewport=viewport)
        call_nodes(page.context, node)
        for at in PAGES:
            if at.is_for_operators == (user is live_portal.operator):
                open_page(page, scene.address(at.path))
                found |= {f"{at.name}: {kind}": places for kind, places in faults(page).items()}
    assert found == {}
