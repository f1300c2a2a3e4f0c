"""What there is to weigh: an ask against its wait and its cost before it is submitted; what was used and wasted after."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform, wait_until

pytestmark = pytest.mark.browser


@pytest.mark.capability("39", "The portal shows a smaller ask, which a click takes")
def test_a_smaller_ask_is_shown_with_its_start_and_cost_and_taken_by_a_click(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("abe", tenant="asks")
    pool = live_portal.operator.items("/pools")[0]
    live_portal.operator.api("POST", "/prices", {"pool": pool["id"], "gpu_hour_micros": 2_000_000})
    holder = member.submit(
        {"name": "holder", "command": "sleep 600", "resources": {**SMALL, "gpu": 1}, "max_runtime": "1h"}, wait=("running",)
    )
    page = sign_in(member)
    open_listening(page, "/submit")
    page.get_by_text("YAML", exact=True).click()
    page.locator(".cm-content").click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(
        "name: asks-much\nresources: {cpu: 100m, memory: 64Mi, gpu: 2}\nmax_runtime: 1h\ncommand: echo smaller\n"
    )
    half = page.get_by_role("row").filter(has_text=re.compile("^half"))
    expect(half.get_by_text("at once")).to_be_visible()
    expect(half.get_by_text(re.compile(r"\d EUR"))).to_be_visible()
    asked = page.get_by_role("row").filter(has_text=re.compile("^as requested"))
    expect(asked.get_by_text("at once")).to_have_count(0)
    expect(asked.get_by_text(re.compile(r"\d EUR"))).to_be_visible()

    page.get_by_role("button", name="Use this size: half").click()
    expect(page.get_by_text("The job would start at once")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.locator("main").get_by_text("succeeded").first).to_be_visible()
    assert member.items("/jobs?name=asks-much")[0]["resources"]["gpu_millis"] == 1000
    member.stop(holder, grace_seconds=0)


@pytest.mark.capability("60", "Use and waste are shown on the command line and in the portal")
def test_what_was_used_and_what_of_it_was_wasted_is_one_page(sign_in: SignIn, live_portal: LivePlatform) -> None:
    manager = live_portal.person("wim", tenant="wastes", role="manager")
    for command in ("sleep 2", "sleep 2; exit 3"):
        manager.submit({"name": "worker", "command": command, "resources": {**SMALL, "gpu": 1}}, wait=True)
    _wait_for_bills(live_portal, "wim", 2)
    page = sign_in(manager)
    page.goto("/usage?by=user")
    fates = page.get_by_role("region", name="Outcome")
    expect(fates.get_by_text("useful").first).to_be_visible()
    expect(fates.get_by_text("failed").first).to_be_visible()
    expect(page.get_by_role("cell", name="wim").first).to_be_visible()


@pytest.mark.simulated_gpus
@pytest.mark.capability("60", "GPU hours that were held stand beside busy ones, by tenant, user, queue, pool and job")
def test_hours_in_which_gpus_worked_stand_beside_hours_that_were_held(sign_in: SignIn, live_portal: LivePlatform) -> None:
    """Pretended GPUs measure nothing: a day of a larger machine is written beside the jobs' own."""
    manager = live_portal.person("hana", tenant="measured", role="manager")
    manager.submit({"name": "worker", "command": "true", "resources": {**SMALL, "gpu": 1}}, wait=True)
    _wait_for_bills(live_portal, "hana", 1)
    hour, today = 3_600_000, datetime.now(UTC)
    values = {
        "id": "id", "day": int(today.timestamp()) // 86_400, "billed": f"{today:%Y%m}", "tenant_id": "tenant_id",
        "queue_id": "queue_id", "user_id": "user_id", "pool_id": "pool_id", "fate": "'useful'", "attempts": 1,
        "gpu_milli_seconds": 40 * hour, "gpu_measured_milli_seconds": 30 * hour, "gpu_busy_milli_seconds": 9 * hour,
        **dict.fromkeys(("cpu_milli_seconds", "memory_mib_seconds", "memory_rest_seconds"), 0),
        **dict.fromkeys(("cpu_micros", "memory_micros", "gpu_micros"), 0),
    }  # fmt: skip
    live_portal.execute(
        f"INSERT INTO tenants_usageday ({', '.join(values)}) SELECT {', '.join(map(str, values.values()))} "
        "FROM tenants_ledgerentry WHERE user_id IN (SELECT id FROM tenants_user WHERE name = 'hana')"
    )
    page = sign_in(manager)
    page.goto("/usage?by=user")
    busy = page.get_by_role("region", name="Held and busy time")
    expect(busy.get_by_role("row").filter(has_text=re.compile("^busy"))).to_contain_text("9 GPU-hours")
    expect(busy.get_by_role("row").filter(has_text="idle")).to_contain_text("21 GPU-hours")
    expect(busy.get_by_role("row").filter(has_text="not measured")).to_contain_text("10 GPU-hours")
    expect(busy.get_by_role("group", name=re.compile(r"busy 22\.5%, idle 52\.5%, not measured 25%"))).to_be_visible()
    expect(page.get_by_role("row").filter(has_text="hana").get_by_text("30%")).to_be_visible()


def _wait_for_bills(platform: LivePlatform, user: str, count: int) -> None:
    """Until so many attempts of somebody are in the ledger: none need be there yet when its job has ended."""
    asked = f"SELECT 1 FROM tenants_ledgerentry WHERE user_id IN (SELECT id FROM tenants_user WHERE name = '{user}')"
    wait_until(lambda: len(platform.rows(asked)) == count, f"{count} entries of {user} in the ledger")
