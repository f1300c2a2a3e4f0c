"""A member's day, a manager's and an operator's, done by hand in a browser on a platform with two GPUs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening
from tests.browser.scene import SMALL
from tests.builders.live import Json, LivePlatform, LiveUser

pytestmark = pytest.mark.browser

# Lines that are told to come: a page that opens late would show only the last ones of many.
PRINTS = "for i in 1 2 3 4 5 6; do echo step $i; [ $i != 3 ] || until [ -e go ]; do sleep 0.1; done; done; sleep 600"


@pytest.mark.capability("36", "The portal submits by form and by file")
def test_a_member_fills_in_the_form_and_sees_the_job_succeed(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("fay", tenant="forms"))
    open_listening(page, "/submit")
    page.get_by_label("Name", exact=True).fill("by-form")
    page.get_by_label("Command").fill("echo made by a form")
    expect(page.get_by_text("The job would start at once")).to_be_visible()
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.get_by_role("heading", level=1)).to_have_text("by-form")
    expect(page.locator("main").get_by_text("succeeded").first).to_be_visible()
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_text("made by a form").first).to_be_visible()


@pytest.mark.capability("36", "The portal submits by form and by file")
@pytest.mark.capability("38", "A rerun shows the difference")
@pytest.mark.capability("53", "Members, managers and operators do a day's work in the browser")
def test_a_job_written_as_yaml_waits_says_why_runs_prints_stops_and_runs_again(
    sign_in: SignIn, live_portal: LivePlatform
) -> None:
    member = live_portal.person("yan", tenant="yamls")
    holder = member.submit(
        {"name": "holder", "command": "sleep 600", "resources": {**SMALL, "gpu": 2}, "max_runtime": "1h"}, wait=("running",)
    )
    page = sign_in(member)
    open_listening(page, "/submit")
    page.get_by_text("YAML", exact=True).click()
    editor = page.locator(".cm-content")
    editor.click()
    page.keyboard.press("Control+a")
    page.keyboard.press("Delete")
    page.keyboard.insert_text(
        f"name: by-yaml\nresources: {{cpu: 100m, memory: 64Mi, gpu: 2}}\nmax_runtime: 1h\ncommand: |\n  {PRINTS}\n"
    )
    expect(page.get_by_text("The job would start at once")).to_have_count(0)
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url(re.compile(r"/jobs/[0-9a-f-]{36}"))
    expect(page.locator("main").get_by_text("queued").first).to_be_visible()
    expect(page.locator("main").get_by_text(re.compile("needs 2 GPUs")).first).to_be_visible()

    member.stop(holder, grace_seconds=0)
    expect(page.locator("main").get_by_text("running").first).to_be_visible()  # Without a word from us.
    page.get_by_role("tab", name="Log").click()
    expect(page.get_by_text("step 3", exact=True)).to_be_visible()
    _work_folder(live_portal, member, page.url).joinpath("go").touch()
    expect(page.get_by_text("step 6", exact=True)).to_be_visible()

    page.get_by_role("button", name="Stop", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("main").get_by_text("stopped").first).to_be_visible()

    page.get_by_role("button", name="Rerun", exact=True).click()
    spec = page.get_by_label("Spec of the new job (YAML)")
    expect(spec).to_have_value(re.compile("command:"))
    spec.fill(re.sub(r"command:.*", "command: echo once more", spec.input_value(), flags=re.DOTALL))
    expect(page.get_by_role("dialog").get_by_text("echo once more").first).to_be_visible()
    before = page.url
    page.get_by_role("button", name="Start the rerun").click()
    page.wait_for_url(lambda address: address != before and "/jobs/" in address)
    expect(page.locator("main").get_by_text("succeeded").first).to_be_visible()


@pytest.mark.capability("53", "No line of a log is missed or doubled over a break")
def test_no_line_is_missed_or_doubled_over_a_break(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("lou", tenant="lines")
    waiting = "until [ -e go-$i ]; do sleep 0.1; done"  # However long the page takes to open, and the break to be seen.
    counting = f"for i in $(seq 120); do echo line-$i; case $i in 5|60) {waiting};; esac; sleep 0.1; done"
    job = member.submit({"name": "counting", "command": counting, "resources": SMALL}, wait=("running",))
    page = sign_in(member)
    line = BreakableLine(page)
    page.goto(f"/jobs/{job['id']}/logs")
    expect(page.get_by_text("line-5", exact=True)).to_be_visible()
    folder = _work_folder(live_portal, member, page.url)
    folder.joinpath("go-5").touch()
    line.cut()
    expect(page.get_by_text("Reconnecting")).to_be_visible()
    member.wait_for_line(job, "line-60")
    folder.joinpath("go-60").touch()
    line.mend()
    expect(page.get_by_text("line-120", exact=True)).to_be_visible()
    page.get_by_role("button", name="Download").click()
    with page.expect_download() as downloaded:
        page.get_by_role("menuitem").first.click()
    assert [line for line in downloaded.value.path().read_text().splitlines() if line] == [f"line-{n}" for n in range(1, 121)]
    assert _shown_lines(page) == [f"line-{n}" for n in range(1, 121)]


@pytest.mark.capability("53", "Members, managers and operators do a day's work in the browser")
def test_a_manager_moves_quota_and_sees_the_wait_end(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("ned", tenant="narrow")
    queue = _queue_of(live_portal, "narrow")
    pool = live_portal.operator.items("/pools")[0]
    live_portal.operator.api("PUT", f"/queues/{queue['id']}/limits", [{"pool": pool["id"], "gpu_millis": 1000}])
    spec = {"command": "sleep 600", "resources": {**SMALL, "gpu": 1}, "max_runtime": "1h"}
    first = member.submit({"name": "goes-first", **spec}, wait=("running",))
    waiting = member.submit({"name": "held-back", **spec})
    member.wait_for_reason(waiting, "ceiling")
    watching = sign_in(member)
    open_listening(watching, f"/jobs/{waiting['id']}")
    expect(watching.locator("main").get_by_text("queued").first).to_be_visible()

    page = sign_in(live_portal.operator)
    page.goto("/quotas")
    cell = page.get_by_label("Ceiling of narrow", exact=True)
    cell.fill("2")
    cell.press("Tab")
    expect(page.get_by_text("1 would start")).to_be_visible()
    page.get_by_role("button", name="Apply now").click()
    expect(watching.locator("main").get_by_text("running").first).to_be_visible()
    for job in (first, waiting):
        member.stop(job, grace_seconds=0)


@pytest.mark.capability("53", "Members, managers and operators do a day's work in the browser")
@pytest.mark.capability("121", "An operator is told beforehand whom the emptying of a machine touches")
def test_an_operator_drains_a_node_knowing_whom_it_touches(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("dee", tenant="drained")
    job = member.submit(
        {"name": "in-the-way", "command": "sleep 600", "resources": SMALL, "max_runtime": "1h"}, wait=("running",)
    )
    node = live_portal.operator.items("/nodes")[0]
    page = sign_in(live_portal.operator)
    open_listening(page, f"/nodes/{node['id']}")
    page.get_by_role("button", name="Drain").first.click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("in-the-way").first).to_be_visible()
    dialog.get_by_role("button", name="Drain").last.click()
    expect(page.locator("main").get_by_text(re.compile("cordoned", re.IGNORECASE)).first).to_be_visible()
    page.get_by_role("button", name="Uncordon").first.click()
    page.get_by_role("dialog").get_by_role("button", name="Uncordon").click()
    member.wait(job, ("running",))
    member.stop(job, grace_seconds=0)


@pytest.mark.capability("53", "Two tenants see nothing of each other")
def test_two_tenants_see_nothing_of_each_other(sign_in: SignIn, live_portal: LivePlatform) -> None:
    secretive = live_portal.person("sue", tenant="secretive")
    curious = live_portal.person("cyd", tenant="curious")
    job = secretive.submit({"name": "unheard-of", "command": "echo whisper", "resources": SMALL, "tags": ["hushhush"]}, wait=True)
    page = sign_in(curious)
    for path in ("/", "/jobs", "/jobs?q=unheard", "/queues", "/cluster", "/usage", "/tenants", "/templates", "/data"):
        page.goto(path)
        expect(page.locator("main")).to_be_visible()
        expect(page.locator("[role=status][aria-busy=true]")).to_have_count(0)
        text = page.locator("body").inner_text()
        assert not [word for word in ("unheard-of", "hushhush", "secretive", "whisper") if word in text], path
    for path in (f"/jobs/{job['id']}", f"/jobs/{job['id']}/logs", f"/tenants/{secretive.tenant}"):
        page.goto(path)
        expect(page.get_by_role("alert").first).to_be_visible()
        assert "whisper" not in page.locator("body").inner_text()


@pytest.mark.capability("6.18", "Operators read in the portal what the self-test found")
def test_an_operator_reads_how_tenants_were_tried_against_each_other(sign_in: SignIn, live_portal: LivePlatform) -> None:
    """A run that found something, as a hole would leave it; nobody else is offered the page."""
    page = sign_in(live_portal.operator)
    page.goto("/clusters")
    reports = page.get_by_role("region", name="Isolation self-tests")
    expect(reports.get_by_text("No self-test has run yet.")).to_be_visible()
    finding = {"operation": "GET /api/v1/jobs/{job}", "by": "stranger", "status": 200, "problem": "it names the job", "query": []}
    live_portal.execute(
        "INSERT INTO controlplane_selftest "
        "(id, started_at, finished_at, verdict, requests, findings, walls, detail, tenant_ids, removed_at) "
        "SELECT id, created_at, created_at, 'failed', 1200, "
        f"'{json.dumps([finding])}', '[]', '', '[]', created_at FROM tenants_user WHERE name = 'operator'"
    )
    page.reload()
    row = reports.get_by_role("row").filter(has_text="found holes")
    expect(row).to_contain_text("GET /api/v1/jobs/{job}: it names the job")
    expect(row).to_contain_text("1,200")

    member = sign_in(live_portal.person("isa", tenant="isolated"))
    member.goto("/")
    expect(member.get_by_role("link", name="Jobs").first).to_be_visible()
    expect(member.get_by_role("link", name="Clusters", exact=True)).to_have_count(0)


def _queue_of(platform: LivePlatform, tenant: str) -> Json:
    found: Json = next(queue for queue in platform.operator.items("/queues") if queue["name"] == tenant)
    return found


def _work_folder(platform: LivePlatform, member: LiveUser, address: str) -> Path:
    """Where the job of a page runs."""
    job = re.search(r"/jobs/([0-9a-f-]{36})", address)
    assert job
    [attempt] = member.items(f"/jobs/{job[1]}/attempts")
    [folder] = platform.data_dir.glob(f"engine/*/attempts/{attempt['id']}/work")
    return folder


class BreakableLine:
    """The page's live connection through a proxy that can drop it; Chromium's own offline mode leaves open sockets open."""

    def __init__(self, page: Page) -> None:
        self._is_cut = False
        self._open: list[WebSocketRoute] = []
        page.route_web_socket("**/ws/v1/live", self._pass_on)

    def _pass_on(self, socket: WebSocketRoute) -> None:
        if self._is_cut:
            socket.close()
            return
        socket.connect_to_server()
        self._open.append(socket)

    def cut(self) -> None:
        """Drop what is open, and whatever is opened until `mend`."""
        self._is_cut = True
        for socket in self._open:
            socket.close()
        self._open.clear()

    def mend(self) -> None:
        self._is_cut = False


def _shown_lines(page: Page) -> list[str]:
    """All lines of the log as the page draws them while it is scrolled from its beginning to its end."""
    page.get_by_role("button", name="Go to the beginning").click()
    log = page.get_by_role("log")
    expect(log.get_by_text("line-1", exact=True)).to_be_visible()
    seen: dict[str, None] = {}
    while True:
        drawn = log.inner_text()
        seen.update(dict.fromkeys(re.findall(r"line-\d+", drawn)))
        if "line-120" in seen:
            return list(seen)
        log.hover()
        page.mouse.wheel(0, 300)
        page.wait_for_function("([log, drawn]) => log.innerText !== drawn", arg=[log.element_handle(), drawn])
