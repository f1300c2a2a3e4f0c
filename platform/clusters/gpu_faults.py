"""What follows from evidence against a GPU: plain values, no rows.

A machine whose device is out of order is cordoned with the evidence; what runs on that device moves, unless it only runs slower.
Errors that meet one program alone (Xid 13, 31, 43, 94) or that the driver has dealt with (63, 92) cordon nothing: the program
restarts. Numbers and reactions are those of NVIDIA's "XID Errors" (docs.nvidia.com/deploy/xid-errors), as of 2025.
An Xid that is not in the table is shown in the series `gpu_xid_code`, and cordons nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from clusters.engines.interface import GpuFault, GpuFaultKind
from kernel.words import Text

FAULTS_KEPT = 64  # Of one node; the oldest that are resolved go first.

XIDS: Mapping[int, Text[str]] = {
    48: Text("an uncorrectable memory error", "不可纠正的显存错误"),
    64: Text("a row of its memory could not be replaced", "显存行重映射失败"),
    74: Text("an error of its NVLink", "NVLink 错误"),
    79: Text("it has fallen off the bus", "设备已从总线脱落"),
    95: Text("an uncontained memory error", "未能隔离的显存错误"),
    119: Text("its GSP firmware does not answer", "GSP 固件无响应"),
    120: Text("an error of its GSP firmware", "GSP 固件错误"),
    140: Text("an unrecovered memory error", "未恢复的显存错误"),
}

_OTHER_XID = Text("an error of the driver", "驱动程序错误")
_OTHERS: Mapping[GpuFaultKind, Text[str]] = {
    GpuFaultKind.ECC: Text("uncorrectable memory errors", "不可纠正的显存错误"),
    GpuFaultKind.REMAP: Text("a row of its memory could not be replaced", "显存行重映射失败"),
    GpuFaultKind.THROTTLE: Text("slowed down for heat or power for a long time", "因过热或供电不足长时间降频"),
    GpuFaultKind.LOST: Text("the driver does not reach it any more", "驱动程序无法访问该设备"),
}
_MOVES_NOTHING = frozenset({GpuFaultKind.THROTTLE, GpuFaultKind.REMAP})  # The programs on it go on.
_STAYS_COUNTED = frozenset({GpuFaultKind.ECC, GpuFaultKind.REMAP})  # Told again by every new process until a reset.


def calls_for_cordon(fault: GpuFault) -> bool:
    """Whether the machine must not get new work until an operator has looked at it."""
    return fault.kind is not GpuFaultKind.XID or fault.number in XIDS


def words_of(document: Mapping[str, Any], language: str = "en") -> str:
    """A stored fault in words: `GPU-6f1c: Xid 79, it has fallen off the bus`."""
    kind, number = str(document.get("kind", "")), document.get("number")
    if kind == GpuFaultKind.XID:
        error = XIDS.get(int(number or 0), _OTHER_XID)
        what = Text(f"Xid {number}, {error.en}", f"Xid {number}，{error.zh}").in_language(language)
    else:
        what = next((words.in_language(language) for name, words in _OTHERS.items() if name == kind), kind)
        what = f"{what} ({number})" if kind == GpuFaultKind.ECC else what
    return f"{document.get('gpu', '')}: {what}"


def open_faults(documents: object) -> list[dict[str, Any]]:
    """Of the stored faults of a node those that no operator has resolved."""
    return [document for document in documents if not document.get("resolved_at")] if isinstance(documents, list) else []


def moves_jobs(document: Mapping[str, Any]) -> bool:
    """Whether jobs on the device must go: what they compute there cannot be trusted, or does not go on."""
    return document.get("kind") not in _MOVES_NOTHING


def with_fault(documents: list[dict[str, Any]], fault: GpuFault, now: datetime) -> list[dict[str, Any]]:
    """The stored faults with one more, or as they are where it is known: open still, or the evidence that was resolved."""
    same = [
        document
        for document in documents
        if (document["gpu"], document["kind"], document["number"]) == (fault.gpu, fault.kind, fault.number)
    ]
    if any(not document.get("resolved_at") or _is_told_again(document, fault) for document in same):
        return documents
    told = {
        "gpu": fault.gpu,
        "kind": str(fault.kind),
        "number": fault.number,
        "observed_at": fault.at.astimezone(UTC).isoformat(),
        "since_at": now.isoformat(),
        "resolved_at": None,
        "resolved_by": "",
    }
    kept = [document for document in documents if document.get("resolved_at")][-FAULTS_KEPT:]
    return [*kept, *open_faults(documents), told]


def resolved(documents: object, by: str, now: datetime) -> list[dict[str, Any]]:
    """The stored faults once an operator has returned the machine."""
    known = documents if isinstance(documents, list) else []
    return [
        document if document.get("resolved_at") else {**document, "resolved_at": now.isoformat(), "resolved_by": by}
        for document in known
    ]


def _is_told_again(document: Mapping[str, Any], fault: GpuFault) -> bool:
    return fault.kind in _STAYS_COUNTED or fault.at <= datetime.fromisoformat(document["observed_at"])
