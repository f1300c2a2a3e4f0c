"""Channels as plug-ins: an incomplete one is not offered, and a field takes what its service gives and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import types
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from activity.notifications import chats
from activity.notifications.channel import Channel, Field, FieldRefused, IncompleteChannel, Message, matches
from activity.notifications.channels import CHANNELS, dingtalk, feishu, offered, register, wecom
from activity.notifications.outcomes import Sent
from kernel.config import BadSetting, Config
from kernel.words import Text
from tests.architecture.sources import ROOT
from tests.factories.chats import CANARY, SETTINGS

CONFIG = Config(data_dir=Path("/nowhere"), mail_url="smtp://mail.example.org")
AT = datetime(2026, 11, 23, 12, tzinfo=UTC)
HOSTILE = "<!channel> <at id=all></at> @all [x](http://evil.example) *b* _i_ `c` <b>y</b> &amp; \r\nState: succeeded"


def field(**changes: Any) -> Field:
    values = {
        "name": "room",
        "label": Text("Room", "房间"),
        "hint": Text("Which.", "哪个。"),
        "check": lambda value, config: None,
    }
    return Field(**{**values, **changes})


def channel(**changes: Any) -> Channel:
    values: dict[str, Any] = {
        "kind": "pigeon",
        "label": Text("Pigeon", "信鸽"),
        "fields": (field(),),
        "send": lambda message: Sent(200),
        "target": lambda values: "roof",
    }
    return Channel(**{**values, **changes})


def module(name: str, **content: Any) -> types.ModuleType:
    made = types.ModuleType(f"activity.notifications.channels.{name}")
    vars(made).update(content)
    return made


def test_all_channels_of_the_folder_are_found() -> None:
    assert list(CHANNELS)[:2] == ["mail", "webhook"], "those that ask for least come first"
    assert set(CHANNELS) == {"mail", "webhook", *SETTINGS}


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "Pigeon"},
        {"kind": "pigeon_of_the_roof"},
        {"label": Text("Pigeon", "")},
        {"fields": (field(), field())},
        {"fields": (field(name="The room"),)},
        {"fields": (field(hint=Text("", "哪个。")),)},
        {"fields": (field(name="target", is_secret=True),)},
        {"fields": (field(check=None),)},
        {"send": None},
        {"target": "roof"},
        {"signs": True},
    ],
)
def test_an_incomplete_channel_is_refused_at_the_start(changes: dict[str, Any]) -> None:
    assert channel()
    with pytest.raises(IncompleteChannel):
        channel(**changes)


def test_a_file_without_a_channel_of_its_name_is_refused() -> None:
    assert set(register([module("pigeon", CHANNEL=channel())])) == {"pigeon"}
    with pytest.raises(IncompleteChannel, match="makes no CHANNEL"):
        register([module("pigeon")])
    with pytest.raises(IncompleteChannel, match="one name"):
        register([module("dove", CHANNEL=channel())])


def test_the_operator_chooses_what_is_offered_and_a_name_that_is_none_is_refused() -> None:
    assert [offer.kind for offer in offered(Config(data_dir=Path("/nowhere"), notification_channels="webhook, mail"))] == [
        "mail",
        "webhook",
    ]
    with pytest.raises(BadSetting, match="pigeon"):
        offered(Config(data_dir=Path("/nowhere"), notification_channels="mail,pigeon"))


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_what_a_service_gives_is_taken(kind: str) -> None:
    assert CHANNELS[kind].check(SETTINGS[kind], CONFIG) == {}


@pytest.mark.parametrize("kind", sorted(kind for kind, settings in SETTINGS.items() if "address" in settings))
@pytest.mark.parametrize(
    "change",
    [
        lambda url: url.replace("https://", "http://"),
        lambda url: re.sub("https://([^/:]+)", r"https://\1.evil.example", url),
        lambda url: url.replace("https://", "https://evil.example/"),
        lambda url: url.replace("https://", "https://evil.example@"),
        lambda url: url.replace("https://", "https://evil.example\\@"),
        lambda url: url.replace("https://", "https://127.0.0.1:443/?"),
        lambda url: re.sub("https://([^/:]+)(:443)?", r"https://\1:8443", url),
        lambda url: url + "#x",
        lambda url: url + "\n",
        lambda url: url + "\r\nHost: evil.example",
        lambda url: url + "/../../x?\u0661",
        lambda url: url + "a" * 2_000,
    ],
)
def test_no_other_address_is_taken_and_none_is_repeated(kind: str, change: Any) -> None:
    refused = CHANNELS[kind].check({**SETTINGS[kind], "address": change(SETTINGS[kind]["address"])}, CONFIG)["address"]
    assert refused.code == "invalid"
    assert CANARY not in f"{refused.detail} {refused.hint_text}"


@pytest.mark.parametrize("token", ["../../x", "1:a/../b", "1:a?x=", "1:a#", "a:b", "1:a b", "1:ä", "1:a\n"])
def test_a_telegram_token_never_leaves_its_place_in_the_path(token: str) -> None:
    assert CHANNELS["telegram"].check({"token": token, "chat": "1"}, CONFIG)["token"].code == "invalid"


def test_all_that_is_wrong_is_told_at_once() -> None:
    refused = CHANNELS["telegram"].check({"token": "x", "colour": "red"}, CONFIG)
    assert {name: error.code for name, error in refused.items()} == {
        "token": "invalid",
        "chat": "required",
        "colour": "not_allowed",
    }


def test_a_check_by_a_pattern_takes_the_whole_value_and_repeats_none() -> None:
    check = matches(re.compile("[0-9]+"), "A number.")
    check("12", CONFIG)
    for value in ("12\n", "12x", "\u0661", "1" * 3_000):
        with pytest.raises(FieldRefused) as error:
            check(value, CONFIG)
        assert error.value.detail == "A number."


def message(name: str = HOSTILE, language: str = "en") -> Message:
    job = {"name": name, "id": "01a1", "tenant": name, "reason": name, "hint": name, "command": "berth logs x"}
    payload = {
        "event": "job.failed",
        "kind": "failed",
        "state": "failed",
        "reason": "",
        "at": "2026-11-23T12:00:00Z",
        "job": {**job, "url": "https://berth.example.org/jobs/01a1"},
    }
    return Message(delivery_id="d", payload=payload, address="", language=language, values={}, secret="", at=AT, config=CONFIG)


def test_a_text_calls_nobody_and_no_value_begins_a_line() -> None:
    text = chats.text_of(message())
    assert not any(mark in text.whole for mark in ("@all", "<at", "<!", "<b>"))
    assert len(text.whole.splitlines()) == len(text.lines) + 2
    assert text.whole.replace(chats.JOINER, "").count("State: failed") == 1
    assert text.link == "https://berth.example.org/jobs/01a1"


def test_a_message_in_an_errors_text_shows_no_token() -> None:
    told = repr(replace(message(), values={"address": CANARY}, secret=CANARY))
    assert CANARY not in told


def test_a_text_is_in_the_recipients_language() -> None:
    text = chats.text_of(message("digits", "zh"))
    assert text.title == "[Berth] digits 已失败"
    assert "状态: 失败" in text.lines


def test_a_text_for_wecom_fits_in_its_bytes_whatever_is_written() -> None:
    for name in ("名" * 5_000, "😀" * 5_000, "x" * 20_000):
        fitted = wecom.fitted(chats.text_of(message(name)).whole)
        assert len(fitted.encode()) <= wecom.TEXT_BYTES_MAX
        assert fitted.endswith("https://berth.example.org/jobs/01a1")


def test_signatures_are_those_of_the_services() -> None:
    """By the formulas of the services' pages, computed apart with `openssl dgst -sha256 -hmac`."""
    assert dingtalk.signature("SECabc", AT) == {"timestamp": "1795435200000", "sign": DINGTALK}
    assert feishu.signature("abc", AT) == {"timestamp": "1795435200", "sign": FEISHU}


DINGTALK = "KUX25XeJH6X8wIIlwoFgyZ4EzAibwsPSL64B7ZvrU5c="
FEISHU = "BVe1nYrbaoRY9Ii45Om8QwChnbsiUZfjeysy4n0/IW8="


def test_the_server_does_not_start_with_an_incomplete_channel_and_says_which(tmp_path: Path) -> None:
    app = shutil.copytree(ROOT / "platform" / "activity", tmp_path / "activity")
    telegram = app / "notifications" / "channels" / "telegram.py"
    telegram.write_text(telegram.read_text(encoding="utf-8").replace("机器人令牌", "", 1), encoding="utf-8")
    code = f"import sys; sys.path[:0] = [{str(tmp_path)!r}, '.', 'platform']; import django; django.setup()"
    environment = {**os.environ, "BERTH_DATA_DIR": str(tmp_path), "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
    started = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert "IncompleteChannel: channel telegram" in started.stderr.splitlines()[-1]
