"""Pieces of the sentences about jobs, in English and Chinese. What is missing reads as a question mark or is left out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jobs.lifecycle.states import JobState
from kernel.words import (
    Detail,
    Sentence,
    Text,
    counted,
    format_amount,
    format_amounts,
    format_bytes,
    format_moment,
    is_one,
)


def named(detail: Detail, key: str, noun: str) -> str:
    """`pool a100`, or `the pool` where the name is not known."""
    name = detail.get(key)
    return f"{noun} {name}" if name else f"the {noun}"


def named_zh(detail: Detail, key: str, noun: str) -> str:
    name = detail.get(key)
    return f"{noun} {name} " if name else f"该{noun}"


def pool(detail: Detail) -> str:
    return named(detail, "pool", "pool")


def pool_zh(detail: Detail) -> str:
    return named_zh(detail, "pool", "资源池")


def cluster(detail: Detail) -> str:
    return named(detail, "cluster", "cluster")


def cluster_zh(detail: Detail) -> str:
    return named_zh(detail, "cluster", "集群")


def other_job(found: Detail) -> str:
    """`job train (bob, tenant speech)`: the tenant where it is not that of the waiting job, and no name where that is not for the
    reader."""
    if not found.get("name"):
        return "a job of another tenant"
    tenant = f"tenant {found['tenant']}" if found.get("tenant") else ""
    whose = ", ".join(filter(None, (found.get("user"), tenant)))
    return f"job {found['name']} ({whose})" if whose else f"job {found['name']}"


def other_job_zh(found: Detail) -> str:
    if not found.get("name"):
        return "其他租户的作业"
    tenant = f"租户 {found['tenant']}" if found.get("tenant") else ""
    whose = "，".join(filter(None, (found.get("user"), tenant)))
    return f"作业 {found['name']}（{whose}）" if whose else f"作业 {found['name']} "


def told_job(detail: Detail, key: str) -> Detail | None:
    """The other job that a reason is about, as its reader may know it; None where it is about none, or where that was not looked
    up."""
    found = detail.get(key)
    return found if isinstance(found, Mapping) and "name" in found else None


def capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def amounts(detail: Detail, key: str, language: str = "en") -> str:
    """Several resources."""
    found = detail.get(key)
    return format_amounts(found, language) if isinstance(found, Mapping) else ("?" if found is None else str(found))


def amount(detail: Detail, key: str, language: str = "en") -> str:
    """One amount of the resource that `detail` names."""
    found = detail.get(key)
    return format_amount(str(detail.get("resource", "")), found, language) if isinstance(found, int) else "?"


def moment(detail: Detail, key: str, unknown: str, *, up: bool = False) -> str:
    """A time that is stored as ISO 8601; `up`: the next whole minute."""
    return format_moment(detail[key], up=up) if isinstance(detail.get(key), str) else unknown


def capped(detail: Detail, key: str, language: str = "en") -> str:
    """An amount of what a cap counts."""
    found = detail.get(key)
    return capped_text(str(detail.get("what")), found, language) if isinstance(found, int) else "?"


def capped_text(what: str, number: int, language: str = "en") -> str:
    """A number of what a cap counts: GPUs, jobs or containers."""
    if what == "gpu_millis":
        return format_amount("gpu_millis", number, language)
    if what == "containers":
        return Text(counted(number, "container", "containers"), f"{number} 个容器").in_language(language)
    return Text(counted(number, "job", "jobs"), f"{number} 个作业").in_language(language)


def count(detail: Detail, key: str) -> str:
    found = detail.get(key)
    return str(found) if isinstance(found, int) else "?"


def plural(detail: Detail, key: str, singular: str, many: str) -> str:
    return counted(detail.get(key), singular, many)


def size(detail: Detail, key: str) -> str:
    """Bytes."""
    value = detail.get(key)
    return format_bytes(value) if isinstance(value, int) else "?"


def listed(value: Any) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value or "?")


def are(text: str) -> str:
    """The verb for an amount."""
    return "is" if is_one(text) else "are"


def bracketed(detail: Detail, key: str) -> str:
    """` (...)`, where there is anything to say."""
    return f" ({detail[key]})" if detail.get(key) else ""


def bracketed_zh(detail: Detail, key: str) -> str:
    return f"（{detail[key]}）" if detail.get(key) else ""


_STATES: Mapping[JobState, Text[str]] = {
    JobState.QUEUED: Text("queued", "排队中"),
    JobState.ADMITTED: Text("admitted", "已准入"),
    JobState.STARTING: Text("starting", "启动中"),
    JobState.RUNNING: Text("running", "运行中"),
    JobState.STOPPING: Text("stopping", "停止中"),
    JobState.SUCCEEDED: Text("succeeded", "已成功"),
    JobState.FAILED: Text("failed", "已失败"),
    JobState.STOPPED: Text("stopped", "已停止"),
}
if _STATES.keys() != set(JobState):
    raise TypeError(f"states without words: {sorted(set(JobState) - _STATES.keys())}")


def state_zh(state: object) -> str:
    return _STATES[JobState(str(state))].zh if state in set(JobState) else str(state)


def owner(detail: Detail) -> str:
    """`Its owner bob`, or `Its owner` where the name is not known."""
    return f"Its owner {detail['user']}" if detail.get("user") else "Its owner"


def owner_zh(detail: Detail) -> str:
    return f"其所有者 {detail['user']} " if detail.get("user") else "其所有者"


def noted(detail: Detail) -> str:
    """The end of a sentence: a user's own words, or its full stop."""
    return f": {detail['note']}" if detail.get("note") else "."


def noted_zh(detail: Detail) -> str:
    return f"：{detail['note']}" if detail.get("note") else "。"


def by(en: str, zh: str, key: str = "by") -> Sentence:
    """A sentence without its full stop, who did it if that is known, and why in their words if they said."""
    return Text(
        lambda detail: f"{en} by {detail[key]}{noted(detail)}" if detail.get(key) else f"{en}.",
        lambda detail: f"由 {detail[key]} {zh}{noted_zh(detail)}" if detail.get(key) else f"{zh}。",
    )
