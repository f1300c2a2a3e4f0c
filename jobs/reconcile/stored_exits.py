"""The stored form of what an engine says of a task, and back: how it ended, and in words why it has not begun."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from clusters.engines.interface import ExitReason, StopCause, TaskExit, TaskObservation, TaskWaiting

UNSEEN = "lost"  # The reason of an end that no engine has told of.


def exit_document(seen: TaskObservation) -> dict[str, Any]:
    """A task's end as it is stored."""
    if seen.exit is None:
        return {"code": None, "signal": None, "reason": UNSEEN, "stop_cause": None, "evidence": ""}
    document = {**asdict(seen.exit), "reason": str(seen.exit.reason), "evidence": storable(seen.exit.evidence)}
    if not seen.exit.given_up:
        del document["given_up"]
    return document


def storable(text: str) -> str:
    """A text as a database can hold it: PostgreSQL takes no NUL, and what a job prints may have any byte."""
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def storable_wait(waiting: TaskWaiting | None) -> TaskWaiting | None:
    """The same, as a database can hold it."""
    return None if waiting is None else replace(waiting, text=storable(waiting.text))


def exit_value(document: Mapping[str, Any] | None) -> TaskExit | None:
    """The stored form as a value; None when the engine never knew."""
    if not document or document.get("reason") == UNSEEN:
        return None
    cause = document.get("stop_cause")
    return TaskExit(
        code=document.get("code"),
        signal=document.get("signal"),
        reason=ExitReason(document.get("reason") or "none"),
        stop_cause=StopCause(cause) if cause else None,
        evidence=document.get("evidence") or "",
        given_up=document.get("given_up") or "",
    )
