"""How people come in many at a time, and what the portal says when something is not there: a server, a session."""

from __future__ import annotations

import csv
import io
import tarfile
from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, expect

from tests.browser.conftest import Complaints, SignIn
from tests.browser.pages import open_page
from tests.browser.scene import SMALL
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

PASSWORD = "correct horse battery"
PEOPLE = "name,email,tenant,role\nerin,erin@example.org,{0},member\nfinn,finn@example.org,{0},viewer\n"


def test_everybody_of_an_imported_file_is_invited_and_comes_in_by_a_link(
    sign_in: SignIn, open_browser: Callable[..., BrowserContext], live_portal: LivePlatform
) -> None:
    tenant = live_portal.person("mel", tenant="imports").tenant
    page = sign_in(live_portal.operator)
    open_page(page, "/users")
    page.get_by_role("button", name="Import").click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("textbox", name="Lines").fill(PEOPLE.format(tenant))
    dialog.get_by_role("button", name="Check").click()
    dialog.get_by_role("button", name="Import", exact=True).click()
    dialog.get_by_role("button", name="Invite all 2 new users").click()
    expect(dialog.get_by_text("2 invitations created")).to_be_visible()
    with page.expect_download() as downloaded:
        dialog.get_by_role("button", name="Save the links (CSV)").click()
    rows = list(csv.DictReader(io.StringIO(downloaded.value.path().read_text(encoding="utf-8-sig"))))
    assert [(row["name"], row["role"], row["problem"]) for row in rows] == [("erin", "member", ""), ("finn", "viewer", "")]

    newcomer = open_browser().new_page()
    newcomer.goto(rows[0]["link"])
    expect(newcomer.get_by_text("imports, as member")).to_be_visible()
    expect(newcomer.get_by_text("For erin@example.org, invited by operator.")).to_be_visible()
    expect(newcomer.get_by_label("User name")).to_have_value("erin")  # The account is there: it cannot be called otherwise.
    for field in ("Password", "Repeat the password"):
        newcomer.get_by_role("textbox", name=field, exact=True).fill(PASSWORD)
    newcomer.get_by_role("button", name="Join").click()
    newcomer.wait_for_url("**/")
    expect(newcomer.get_by_role("region", name="Your first job in three steps")).to_be_visible()
    assert newcomer.request.get("/api/v1/tokens").json()["items"] == [], "joining in a browser leaves no token behind"


def test_a_page_that_was_never_loaded_waits_for_the_server_instead_of_breaking(
    sign_in: SignIn, live_portal: LivePlatform, complaints: Complaints
) -> None:
    page = sign_in(live_portal.person("ava", tenant="away"))
    open_page(page, "/")
    page.route("**/*", lambda route: route.abort("connectionrefused"))
    page.get_by_role("link", name="Usage", exact=True).click()
    expect(page.get_by_text("Berth cannot be reached").first).to_be_visible()
    expect(page.get_by_text("This page failed")).to_have_count(0)
    page.unroute_all(behavior="ignoreErrors")
    expect(page.get_by_role("heading", level=1)).to_have_text("Usage")  # By itself.
    complaints.found.clear()


def test_who_must_sign_in_again_is_told_that_the_job_being_written_is_kept(sign_in: SignIn, live_portal: LivePlatform) -> None:
    page = sign_in(live_portal.person("sid", tenant="signed-out"))
    open_page(page, "/submit")
    page.get_by_label("Name", exact=True).fill("half-written")
    page.get_by_label("Command").fill("echo on")
    expect(page.get_by_text("The job would start at once")).to_be_visible()
    page.context.clear_cookies()
    page.keyboard.type("!")  # The plan beside it is asked for, and finds that nobody is signed in, if nothing else did before.
    expect(page.get_by_text("Your session has ended.")).to_be_visible()
    expect(page.get_by_text("Your unsubmitted job is kept in this tab")).to_be_visible()


def test_all_outputs_come_as_one_archive(sign_in: SignIn, live_portal: LivePlatform) -> None:
    member = live_portal.person("ona", tenant="outputs")
    command = "mkdir model; echo 1 > model/a.txt; echo 2 > model/b.txt"
    job = member.submit({"name": "leaves", "command": command, "outputs": ["model"], "resources": SMALL}, wait=True)
    assert len(member.artifacts(job)) == 2  # Stored after the job has ended; the page offers nothing of a part.
    page = sign_in(member)
    open_page(page, f"/jobs/{job['id']}/artifacts")
    with page.expect_download() as downloaded:
        page.get_by_role("link", name="All as one archive (tar)").click()
    with tarfile.open(downloaded.value.path()) as archive:
        assert sorted(archive.getnames()) == ["leaves/model/a.txt", "leaves/model/b.txt"]
