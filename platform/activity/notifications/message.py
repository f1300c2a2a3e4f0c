"""What a notice says, in the recipient's language: one title and rows of label and value.

Names, reasons and hints are data and come through as they are, in the language in which they were written: each channel makes
them harmless in its own markup.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from activity.notifications.kinds import KINDS
from kernel.words import Text

ENGLISH = "en"
TEST = "test"  # The event of a message that a user sends to try a subscription.
CELLS_MAX = 40  # Lines of one value in a mail.

_TEST_TITLE = Text("A test of your notifications", "通知测试")
_TEST_TEXT = Text("This is a test: no job ended.", "这是一条测试消息，没有作业结束。")
_BUDGET_TITLE = Text("{percent} % of the budget of {name} is spent", "{name} 的预算已用 {percent} %")
_STATES: Mapping[str, Text[str]] = {
    "queued": Text("queued", "排队中"),
    "running": Text("running", "运行中"),
    "succeeded": Text("succeeded", "成功"),
    "failed": Text("failed", "失败"),
    "stopped": Text("stopped", "已停止"),
}
_STOPS = Text("New jobs wait for the next month, or for a larger budget.", "新作业等待下个月，或更多预算。")
_UNITS = {"gpu_time": Text("GPU hours", "GPU 小时"), "node_time": Text("node hours", "节点小时")}
_FOOTER = Text(
    "You asked for this with a subscription. `berth` or {url} changes it.",
    "您订阅了此通知。可用 `berth` 或在 {url} 修改。",
)
_SPENT = Text("{spent:,.2f} of {amount:,.2f} {unit}, {percent} %", "{spent:,.2f} / {amount:,.2f} {unit}，{percent} %")


class _Label(StrEnum):
    """What stands before a value."""

    WHAT = "what"
    MORE = "more"
    AT = "at"
    NEXT = "next"
    QUEUE = "queue"
    TENANT = "tenant"
    MONTH = "month"
    SPENT = "spent"
    THEN = "then"
    JOB = "job"
    STATE = "state"
    REASON = "reason"
    HINT = "hint"
    SEE = "see"


_LABELS: Mapping[_Label, Text[str]] = {
    _Label.WHAT: Text("What", "内容"),
    _Label.MORE: Text("More", "详情"),
    _Label.AT: Text("At", "时间"),
    _Label.NEXT: Text("Next", "下一步"),
    _Label.QUEUE: Text("Queue", "队列"),
    _Label.TENANT: Text("Tenant", "租户"),
    _Label.MONTH: Text("Month", "月份"),
    _Label.SPENT: Text("Spent", "已用"),
    _Label.THEN: Text("Then", "此后"),
    _Label.JOB: Text("Job", "作业"),
    _Label.STATE: Text("State", "状态"),
    _Label.REASON: Text("Reason", "原因"),
    _Label.HINT: Text("Hint", "提示"),
    _Label.SEE: Text("See", "查看"),
}
if _LABELS.keys() != set(_Label):
    raise TypeError(f"labels without words: {sorted(set(_Label) - _LABELS.keys())}")


@dataclass(frozen=True, slots=True)
class Row:
    """One line. `is_link`: the value is a URL of ours."""

    label: str
    value: str
    is_link: bool = False


def title(payload: Mapping[str, Any], language: str) -> str:
    """One line that says what happened; it may hold anything that a user wrote."""
    if payload.get("event") == TEST:
        return _TEST_TITLE.in_language(language)
    if "budget" in payload:
        budget = payload["budget"]
        return _BUDGET_TITLE.in_language(language).format(percent=budget["percent"], name=budget["name"])
    if "notice" in payload:
        return str(payload["notice"]["title"])
    return KINDS[payload["kind"]].title.in_language(language).format(name=payload["job"]["name"])


def rows(payload: Mapping[str, Any], language: str) -> list[Row]:
    """What there is to know, without what is empty."""
    if payload.get("event") == TEST:
        found: list[tuple[_Label, Any]] = [(_Label.WHAT, _TEST_TEXT.in_language(language)), (_Label.AT, payload["at"])]
    elif "notice" in payload:
        found = _notice_rows(payload)
    else:
        found = _budget_rows(payload, language) if "budget" in payload else _job_rows(payload, language)
    return [Row(_LABELS[label].in_language(language), str(value), is_link=label is _Label.SEE) for label, value in found if value]


def footer(language: str, server_url: str) -> str:
    """Why the message came."""
    return _FOOTER.in_language(language).format(url=server_url)


def one_line(text: str, length_max: int) -> str:
    """Line breaks and controls become spaces, so that no text can add a line or a header; what is too long is cut."""
    clean = " ".join(printable(text).split())
    return clean if len(clean) <= length_max else clean[: length_max - 1] + "…"


def wrapped(value: str) -> list[str]:
    """A long or many-lined value in lines of 100, without controls that a terminal would obey."""
    lines = [part for line in value.splitlines() for part in (textwrap.wrap(printable(line), 100) or [""])]
    return lines[:CELLS_MAX]


def printable(text: str) -> str:
    return "".join(character if character.isprintable() else " " for character in text)


def _notice_rows(payload: Mapping[str, Any]) -> list[tuple[_Label, Any]]:
    notice = payload["notice"]
    return [
        (_Label.WHAT, notice["title"]),
        (_Label.MORE, notice["text"]),
        (_Label.AT, payload["at"]),
        (_Label.NEXT, notice["command"]),
    ]


def _budget_rows(payload: Mapping[str, Any], language: str) -> list[tuple[_Label, Any]]:
    budget = payload["budget"]
    is_money = budget["kind"] == "money"
    divisor = 1_000_000 if is_money else 3_600_000
    unit = budget["currency"] if is_money else _UNITS[budget["kind"]].in_language(language)
    amounts = {"spent": budget["spent"] / divisor, "amount": budget["amount"] / divisor}
    return [
        (_Label.QUEUE, f"{budget['name']}  ({budget['queue_id']})"),
        (_Label.TENANT, budget["tenant"]),
        (_Label.MONTH, budget["month"]),
        (_Label.SPENT, _SPENT.in_language(language).format(**amounts, unit=unit, percent=budget["percent"])),
        (_Label.THEN, _STOPS.in_language(language) if budget["stops"] else ""),
        (_Label.AT, payload["at"]),
        (_Label.NEXT, budget["command"]),
    ]


def _job_rows(payload: Mapping[str, Any], language: str) -> list[tuple[_Label, Any]]:
    job, state = payload["job"], payload["state"]
    return [
        (_Label.JOB, f"{job['name']}  ({job['id']})"),
        (_Label.TENANT, job["tenant"]),
        (_Label.STATE, _STATES[state].in_language(language) if state in _STATES else state),
        (_Label.REASON, job["reason"] or payload["reason"]),
        (_Label.HINT, job["hint"]),
        (_Label.AT, payload["at"]),
        (_Label.NEXT, job["command"]),
        (_Label.SEE, job["url"]),
    ]
