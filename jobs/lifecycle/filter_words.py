"""The filters that keep a task out of a node, as codes and as part of a sentence in both languages.

The core asks them in the order of `jobs/scheduling/core/place/filters.py`. A code without words fails at import.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from kernel.words import Text


class FilterCode(StrEnum):
    """Why a node is left out. The values are stored, with jobs, decisions and replays."""

    BLOCKED = "blocked"
    GPU_MODEL = "gpu_model"
    LABEL = "label"
    TAINT = "taint"
    SHARES_NOT_ALLOWED = "shares_not_allowed"
    EXCLUSIVE_CORES = "exclusive_cores"
    GPU = "gpu"
    GPU_SHARE = "gpu_share"
    GPU_SHARE_GUARD = "gpu_share_guard"
    CPU = "cpu"
    MEMORY = "memory"
    TASKS = "tasks"


FILTER_WORDS: Mapping[FilterCode, Text[str]] = {
    FilterCode.BLOCKED: Text("out of service", "停止服务"),
    FilterCode.GPU_MODEL: Text("another GPU model", "GPU 型号不符"),
    FilterCode.LABEL: Text("a label is missing", "缺少标签"),
    FilterCode.TAINT: Text("a taint is not tolerated", "污点不被容忍"),
    FilterCode.SHARES_NOT_ALLOWED: Text("whole GPUs only", "只分配整块 GPU"),
    FilterCode.EXCLUSIVE_CORES: Text("no exclusive cores", "不提供独占核心"),
    FilterCode.GPU: Text("too few GPUs free", "空闲 GPU 不足"),
    FilterCode.GPU_SHARE: Text("no GPU with a large enough fraction free", "没有足够大的空闲 GPU 份额"),
    FilterCode.GPU_SHARE_GUARD: Text("no more GPUs may be shared", "可共享的 GPU 已满"),
    FilterCode.CPU: Text("too few cores free", "空闲 CPU 不足"),
    FilterCode.MEMORY: Text("too little memory free", "空闲内存不足"),
    FilterCode.TASKS: Text("no further task allowed", "任务数已达上限"),
}
if FILTER_WORDS.keys() != set(FilterCode):
    raise TypeError(f"filters without words: {sorted(set(FilterCode) - FILTER_WORDS.keys())}")


def filter_text(code: str, language: str = "en") -> str:
    """The words of one filter; an unknown one, say of a newer version, shows itself."""
    return FILTER_WORDS[FilterCode(code)].in_language(language) if code in set(FilterCode) else code
