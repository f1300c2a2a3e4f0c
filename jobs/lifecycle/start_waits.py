"""What a task waits for between its placement and its first step: as it is stored, counted and told.

A task's row has the latest word of its engine, `{code, text, since_at, pulled_seconds}`: `text` is the cluster's own and is
quoted, `since_at` is when it began to wait for this, `pulled_seconds` how long its image was pulled before. The time for
starting stands still for a task while its image is being pulled, up to a bound: a large image on a slow line is nobody's fault,
and the next attempt would begin the same pull.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from clusters.engines.interface import StartStep, TaskWaiting
from kernel.clock import utc_text
from kernel.words import Text

Stored = Mapping[str, Any]

STEPS: Mapping[StartStep, Text[str]] = {
    StartStep.CREATING: Text("It is being created.", "正在创建。"),
    StartStep.WAITING_FOR_QUEUE: Text("It waits in a queue of the cluster's own.", "在集群自身的队列中等待。"),
    StartStep.QUOTA: Text("A quota of the cluster is used up.", "集群的配额已用完。"),
    StartStep.UNSCHEDULABLE: Text("The cluster's scheduler finds no node for it.", "集群的调度器找不到合适的节点。"),
    StartStep.VOLUME_UNBOUND: Text("The cluster has no volume for one of its claims.", "集群没有可供其存储声明使用的卷。"),
    StartStep.VOLUME_ELSEWHERE: Text(
        "One of its volumes is in another zone, or on another node, than the node chosen for it.",
        "其存储卷与所选节点不在同一可用区或同一节点。",
    ),
    StartStep.VOLUME_IN_USE: Text(
        "Another pod uses a volume of it that one pod at a time may use.", "其独占存储卷正被其他 Pod 使用。"
    ),
    StartStep.VOLUMES_ATTACHED: Text("Its node can attach no more volumes.", "所在节点可挂接的卷数已达上限。"),
    StartStep.WAITING_FOR_DEVICES: Text(
        "Its node's GPUs, cores or ports are still in use.", "所在节点的 GPU、核心或端口仍被占用。"
    ),
    StartStep.MOUNTING: Text("Its volumes are being mounted.", "正在挂载存储卷。"),
    StartStep.PULLING_IMAGE: Text("Its image is being pulled.", "正在拉取镜像。"),
    StartStep.IMAGE_RETRY: Text("Its image could not be pulled; it is tried again.", "镜像拉取失败，正在重试。"),
    StartStep.BRINGING_CODE: Text("Its code is being brought.", "正在传送代码。"),
    StartStep.WAITING_FOR_GANG: Text("It waits for the other tasks of the job.", "等待作业的其他任务。"),
    StartStep.CLUSTER_UNREACHABLE: Text("The cluster does not answer.", "集群没有应答。"),
}


def next_wait(stored: Stored | None, seen: TaskWaiting | None, now: datetime) -> dict[str, Any] | None:
    """What a task's row says after this word of its engine; None says nothing, and so does a row that was never waited for."""
    if stored is None and seen is None:
        return None
    known = stored or {}
    code, text = (seen.code.value, seen.text) if seen is not None else ("", "")
    since_at = str(known["since_at"]) if known.get("code") == code else utc_text(now)
    left_pulling = known.get("code") == StartStep.PULLING_IMAGE != code
    pulled = pulled_seconds(stored, now) if left_pulling else float(known.get("pulled_seconds", 0.0))
    return {"code": code, "text": text, "since_at": since_at, "pulled_seconds": pulled}


def pulled_seconds(stored: Stored | None, now: datetime) -> float:
    """How long the task's image has been pulled until now, all its pulls together."""
    if not stored:
        return 0.0
    before = float(stored.get("pulled_seconds", 0.0))
    if stored.get("code") != StartStep.PULLING_IMAGE:
        return before
    return round(before + max(0.0, (now - datetime.fromisoformat(str(stored["since_at"]))).total_seconds()), 3)


def starts_too_late(began_at: datetime, stored: Stored | None, now: datetime, *, seconds: float, pull_seconds: float) -> bool:
    """Whether a task that has not begun had its time for starting: `seconds`, and up to `pull_seconds` in which its image was
    pulled."""
    stood_still = min(pulled_seconds(stored, now), pull_seconds)
    return began_at < now - timedelta(seconds=seconds + stood_still)


def wait_text(stored: Stored | None) -> str:
    """One phrase for the evidence of an end: the code and the cluster's words; "" where nothing is known."""
    if not stored or not stored.get("code"):
        return ""
    return ": ".join(filter(None, (str(stored["code"]), str(stored.get("text", "")))))


def wait_json(stored: Stored | None, language: str = "en") -> dict[str, Any] | None:
    """What a reader is told; None where nothing is known. A code of a newer version shows itself."""
    if not stored or not stored.get("code"):
        return None
    code = str(stored["code"])
    words = STEPS[StartStep(code)].in_language(language) if code in STEPS else code.replace("_", " ").capitalize() + "."
    return {"code": code, "text": words, "detail": str(stored.get("text", "")), "since": stored.get("since_at")}
