"""Notifications in the portal: the form of each channel comes from the server, and what does not arrive is said."""

from __future__ import annotations

import os

import pytest
from playwright.sync_api import Page, expect

from tests.browser.conftest import SignIn
from tests.browser.pages import open_page
from tests.builders.live import LivePlatform

pytestmark = pytest.mark.browser

ADDRESS = "https://oapi.dingtalk.com/robot/send?access_token=Canary0123"
PICTURES = os.environ.get("BERTH_TEST_PICTURES")  # A folder: for people to look at.


def picture(page: Page, name: str) -> None:
    if PICTURES:
        page.wait_for_timeout(600)
        page.screenshot(path=f"{PICTURES}/{name}.png")


@pytest.mark.parametrize(("locale", "scheme"), [("en-GB", "light"), ("en-GB", "dark"), ("zh-CN", "light"), ("zh-CN", "dark")])
def test_the_form_of_a_channel_tells_all_that_is_wrong_and_shows_no_secret_again(
    sign_in: SignIn, live_portal: LivePlatform, locale: str, scheme: str
) -> None:
    is_chinese = locale == "zh-CN"
    member = live_portal.person(f"nia-{locale.lower()}-{scheme}", tenant=f"notices-{locale.lower()}-{scheme}")
    page = sign_in(member, locale=locale, color_scheme=scheme)
    open_page(page, "/account?tab=notifications")
    page.get_by_role("button", name="添加" if is_chinese else "Add", exact=True).click()
    dialog = page.get_by_role("dialog")
    mail_problem = "本系统未设置邮件服务器" if is_chinese else "this installation has no mail server"
    expect(dialog.get_by_text(mail_problem)).to_be_visible()
    picture(page, f"form-mail-{locale}-{scheme}")
    dialog.get_by_role("combobox", name="渠道" if is_chinese else "Channel").click()
    picture(page, f"channels-{locale}-{scheme}")
    page.get_by_role("option", name="钉钉" if is_chinese else "DingTalk").click()
    expect(dialog.get_by_text("由群的自定义机器人提供" if is_chinese else "Of a custom robot of the group.")).to_be_visible()
    picture(page, f"form-{locale}-{scheme}")
    address = dialog.get_by_label("Webhook 地址" if is_chinese else "Webhook address")
    address.fill("https://evil.example/robot")
    dialog.get_by_label("加签密钥" if is_chinese else "Signing secret").fill("no")
    dialog.get_by_role("button", name="保存" if is_chinese else "Save").click()
    must = "地址须形如" if is_chinese else "The address must look like"
    expect(dialog.get_by_text(f"{must} https://oapi.dingtalk.com")).to_be_visible()
    expect(dialog.get_by_text("加签密钥以 SEC 开头" if is_chinese else "The signing secret begins with SEC")).to_be_visible()
    picture(page, f"wrong-{locale}-{scheme}")
    address.fill(ADDRESS)
    dialog.get_by_label("加签密钥" if is_chinese else "Signing secret").fill("SECabc")
    dialog.get_by_label("名称" if is_chinese else "Name").fill("训练群")
    dialog.get_by_role("button", name="保存" if is_chinese else "Save").click()
    expect(dialog).to_have_count(0)
    (made,) = member.items("/subscriptions")
    assert (made["channel"], made["settings"]) == ("dingtalk", {"address": None, "secret": None, "name": "训练群"})

    page.get_by_role("button", name="修改" if is_chinese else "Change", exact=True).click()
    kept = dialog.get_by_label("Webhook 地址" if is_chinese else "Webhook address")
    expect(kept).to_have_value("")
    expect(kept).to_have_attribute("placeholder", "已保存。输入即可替换。" if is_chinese else "Stored. Type to replace it.")
    expect(dialog.get_by_label("名称" if is_chinese else "Name")).to_have_value("训练群")
    picture(page, f"edit-{locale}-{scheme}")
    dialog.get_by_label("名称" if is_chinese else "Name").fill("Other")
    dialog.get_by_role("button", name="保存" if is_chinese else "Save").click()
    expect(dialog).to_have_count(0)
    (changed,) = member.items("/subscriptions")
    assert changed["settings"] == {"address": None, "secret": None, "name": "Other"}
    assert "Canary" not in page.content()

    by_mail = member.api("POST", "/subscriptions", {"channel": "mail", "kinds": ["failed"]})
    member.api("POST", f"/subscriptions/{by_mail['id']}/test")
    given_up = "最近一条消息未送达" if is_chinese else "The latest message was not delivered."
    for _ in range(30):
        page.reload()
        page.wait_for_timeout(1_000)
        if page.get_by_text(given_up).count():
            break
    expect(page.get_by_text(given_up)).to_be_visible()
    picture(page, f"list-{locale}-{scheme}")
