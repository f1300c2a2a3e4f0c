"""An operator adds a cluster in a browser, is told what is wrong, disables it, declares it lost and removes it."""

from __future__ import annotations

import socket

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_listening
from tests.builders.live import LivePlatform
from tests.factories.kubeconfig import kubeconfig

pytestmark = pytest.mark.browser

CHECK_MS = 60_000


def test_an_operator_adds_a_cluster_and_removes_it(sign_in: SignIn, live_portal: LivePlatform) -> None:
    with socket.socket() as free:  # Nothing listens there.
        free.bind(("127.0.0.1", 0))
        text = kubeconfig(f"https://127.0.0.1:{free.getsockname()[1]}")
        page = sign_in(live_portal.operator)
        open_listening(page, "/clusters")
        page.get_by_role("button", name="Add a cluster").click()
        dialog = page.get_by_role("dialog", name="Add a Kubernetes cluster")
        expect(dialog.get_by_role("textbox", name="Name", exact=True)).to_be_focused()
        dialog.get_by_role("button", name="Check and add").click()
        expect(dialog.get_by_text("Enter a name.")).to_be_visible()
        expect(dialog.get_by_text("Paste a kubeconfig, or choose its file.")).to_be_visible()
        dialog.get_by_role("textbox", name="Name", exact=True).fill("lab")
        dialog.get_by_role("textbox", name="Kubeconfig").fill(text)
        dialog.get_by_label("Other settings").fill("paralel: 4\nconnect_seconds: 0.5")
        dialog.get_by_role("button", name="Check and add").click()
        expect(dialog.get_by_text("paralel: not known.")).to_be_visible()
        dialog.get_by_label("Other settings").fill("connect_seconds: 0.5")
        dialog.get_by_role("button", name="Check and add").click()
        expect(dialog.get_by_text("Jobs cannot run here yet.")).to_be_visible(timeout=CHECK_MS)
        expect(dialog.get_by_text("check the port")).to_be_visible()
        dialog.get_by_label("Add it although the check failed").check(force=True)
        dialog.get_by_role("button", name="Check and add").click()
        expect(dialog).to_have_count(0, timeout=CHECK_MS)
        card = page.get_by_role("region", name="lab")
        expect(card.get_by_text("Account berth at https://127.0.0.1")).to_be_visible()
        expect(card.get_by_text("contact lost").first).to_be_visible(timeout=CHECK_MS)
        page.get_by_role("button", name="Disable: lab").click()
        page.get_by_role("dialog").get_by_role("button", name="Disable", exact=True).click()
        expect(card.get_by_text("switched off")).to_be_visible()
        page.get_by_role("button", name="Declare lost: lab").click()
        sure = page.get_by_role("dialog", name="Declare cluster lab lost?")
        expect(sure.get_by_text("What still runs there would run twice")).to_be_visible()
        sure.get_by_role("button", name="Declare lost", exact=True).click()
        expect(card.get_by_text("declared lost")).to_be_visible()
        page.get_by_role("button", name="Remove: lab").click()
        page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
        expect(card).to_have_count(0)
    assert [cluster["name"] for cluster in live_portal.operator.items("/clusters")] == ["local"]
