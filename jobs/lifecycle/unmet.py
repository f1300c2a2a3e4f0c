"""What keeps a job waiting and what would start it, in words, in English and Chinese.

`jobs/lifecycle/reasons.py` has the one reason that a job shows; here is all that `berth explain` tells, made of the numbers in a
document. Amounts that are missing read as a question mark, codes that are unknown as themselves. Names that the reader may not
know are left out of the document by its maker: what is not there is spoken of as another's.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobs.lifecycle.phrases import capped, count, plural, pool
from jobs.lifecycle.reasons import explain
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_record import UNTOLD
from jobs.lifecycle.wait_words import told_pool_zh, told_queue, told_queue_zh
from kernel.wait_codes import present_code
from kernel.words import (
    Detail,
    Sentence,
    Text,
    counted,
    format_amount,
    format_amounts,
    format_bytes,
    format_duration,
    format_moment,
)


def condition_text(document: Detail, language: str = "en") -> str:
    """The words of one condition."""
    code = present_code(str(document.get("code", "")))
    record = WAITS.get(code)
    if record is not None and record.condition is not None:
        return record.condition.in_language(language)(document)
    return explain(code, (document.get("detail") or {}) if record is not None else {}, language).text


def change_text(document: Detail, language: str = "en", by: Detail | None = None) -> str:
    """The words of one change, an object with one key as in `changes` of a what-if. `by`: the `role` that may make it, and in
    which `tenant`, where the reader may not; the words of such a change are one sentence that begins with a verb."""
    for kind, values in document.items():
        write = _CHANGES.get(kind)
        if write is not None and isinstance(values, Mapping):
            text = write.in_language(language)(values)
            return text if by is None else _made_by(text, by).in_language(language)
    return ""


def _made_by(text: str, by: Detail) -> Text[str]:
    """`An operator can add 2 nodes ...`."""
    tenant, is_operator = (by.get("tenant") or {}).get("name"), by.get("role") == "operator"
    who = Text(f"A manager of {tenant or 'the tenant above'}", f"{f'租户 {tenant} ' if tenant else '上级租户'}的管理员")
    if is_operator:
        who = Text("An operator", "运维人员")
    return Text(f"{who.en} can {text[:1].lower()}{text[1:]}", f"由{who.zh}操作：{text}")


def clears_text(number: int, language: str = "en") -> str:
    """That a change preempts other jobs before the job starts."""
    return Text(
        f"{counted(number, 'job', 'jobs')} would be preempted for it; it starts after that.",
        f"需先抢占 {number} 个作业，待其退出后启动。",
    ).in_language(language)


def latest_text(document: Detail, language: str = "en") -> str:
    """The latest start of a job, or why none can be given, and from when on the next reserved start goes to it."""
    words = _LATEST.get(str(document.get("kind") or ""))
    if words is None:
        words = _NO_LATEST.get(str(document.get("reason")), _NO_LATEST[""])
    text = words.in_language(language).replace("@", format_moment(document.get("at")))
    if document.get("next_reservation_from") and document.get("kind") != "backfill_reservation":
        text += _NEXT_RESERVATION.in_language(language).replace("@", format_moment(document["next_reservation_from"]))
    return text


_LATEST: Mapping[str, Text[str]] = {
    "backfill_reservation": Text(
        "Latest start: @. The start is reserved; no later job delays it. It yields only to a prior claim, a lost node or a "
        "lowered limit.",
        "最迟启动时间：@。该启动已预留，后来的作业不会推迟；仅在有优先权的作业、节点丢失或上限降低时让位。",
    ),
    "claim": Text(
        "It starts by @ at the latest: other jobs were told to leave for it, and their grace is over by then.",
        "最迟 @ 启动：已通知其他作业为其让出，届时其宽限期已过。",
    ),
    "line": Text(
        "Latest start: @, if no further job is submitted and none is preempted; every earlier job then has used its maximum run "
        "time.",
        "最迟启动时间：@（若无新作业提交且无作业被抢占）；届时更早的作业均已用满最长运行时间。",
    ),
}
_NO_LATEST: Mapping[str, Text[str]] = {
    "runtime_unknown": Text(
        "Latest start: unknown, because running or earlier jobs have no max_runtime.",
        "最迟启动时间：未知，因为运行中或更早的作业未设 max_runtime。",
    ),
    "grace_over": Text(
        "No latest start can be told: the jobs that were told to leave for it have taken longer than their grace.",
        "无法给出最迟启动时间：应为其让出的作业已超出宽限期。",
    ),
    "": Text(
        "Latest start: none, because it would not start even without other jobs.",
        "最迟启动时间：无，因为即使没有其他作业也无法启动。",
    ),
}
_NEXT_RESERVATION = Text(
    " From @ on the next reserved start in its pools goes to this job.",
    "自 @ 起，其资源池中的下一个预留启动名额归此作业。",
)


# --- Changes ------------------------------------------------------------------------------------------------------------


def _ask(d: Detail) -> str:
    parts = []
    for name, role in sorted((d.get("roles") or {}).items()):
        values = [
            plural(role, "replicas", "task", "tasks") if "replicas" in role else "",
            f"{plural(role, 'gpu', 'GPU', 'GPUs')} a task" if "gpu" in role else "",
            f"{format_amount('cpu_millis', role['cpu_millis'])} a task" if "cpu_millis" in role else "",
            f"{format_bytes(role['memory_bytes'])} of memory a task" if "memory_bytes" in role else "",
        ]
        parts.append(f"Request {', '.join(filter(None, values))} in role {name}.")
    if d.get("pools"):
        parts.append(f"Accept {'pool' if len(d['pools']) == 1 else 'any of the pools'} {', '.join(d['pools'])}.")
    if d.get("max_runtime_seconds"):
        parts.append(f"Set max_runtime to {format_duration(d['max_runtime_seconds'])}.")
    return " ".join([*parts, *(words.en for wish, words in _WISHES.items() if d.get(wish))])


def _ask_zh(d: Detail) -> str:
    parts = []
    for name, role in sorted((d.get("roles") or {}).items()):
        values = [
            f"{role['replicas']} 个任务" if "replicas" in role else "",
            f"每任务 {role['gpu']} 块 GPU" if "gpu" in role else "",
            f"每任务 {format_amount('cpu_millis', role['cpu_millis'], 'zh')}" if "cpu_millis" in role else "",
            f"每任务 {format_bytes(role['memory_bytes'])} 内存" if "memory_bytes" in role else "",
        ]
        parts.append(f"角色 {name} 改为{'，'.join(filter(None, values))}。")
    if d.get("pools"):
        parts.append(f"接受资源池 {'、'.join(d['pools'])}。")
    if d.get("max_runtime_seconds"):
        parts.append(f"将 max_runtime 设为 {format_duration(d['max_runtime_seconds'])}。")
    return "".join([*parts, *(words.zh for wish, words in _WISHES.items() if d.get(wish))])


_WISHES: Mapping[str, Text[str]] = {
    "any_model": Text("Accept any GPU model.", "接受任意 GPU 型号。"),
    "anywhere": Text("Prefer nearby tasks instead of requiring them.", "任务就近放置改为尽量而非必须。"),
    "any_label": Text("Drop the node labels.", "去掉节点标签。"),
    "shared_cores": Text("Drop cpu_exclusive.", "去掉 cpu_exclusive。"),
}


def _quota(d: Detail) -> str:
    whose = told_queue({"queue": d.get("queue_name")})
    words = {"guarantee": "guarantee", "deserved": "deserved amount", "ceiling": "ceiling"}
    parts = [
        f"the {words[key]} to {format_amount(str(d.get('resource', '')), d[key])}" for key in words if d.get(key) is not None
    ]
    return f"Set {' and '.join(parts)} for {whose} in {pool(d)}."


def _quota_zh(d: Detail) -> str:
    whose = told_queue_zh({"queue": d.get("queue_name")})
    words = {"guarantee": "保障", "deserved": "应得", "ceiling": "上限"}
    parts = [
        f"{words[key]}设为 {format_amount(str(d.get('resource', '')), d[key], 'zh')}" for key in words if d.get(key) is not None
    ]
    return f"将{whose}在{told_pool_zh(d)}的{'、'.join(parts)}。"


def _end(d: Detail) -> str:
    if d.get("queued") and d.get("name"):
        return f"Stop the queued job {d['name']}, which is before it."
    if d.get("queued"):
        counted_jobs = plural(d, "count", "queued job of another tenant is", "queued jobs of other tenants are")
        return f"It starts when {counted_jobs} gone that {'is' if d.get('count') == 1 else 'are'} before it."
    held = format_amounts(d.get("amounts") or {})
    if d.get("name"):
        return f"End job {d['name']}, which holds {held}."
    if d.get("count", 1) == 1:
        return f"It starts when a job of another tenant ends, which holds {held}."
    return f"It starts when {count(d, 'count')} jobs of other tenants end, which hold {held}."


def _end_zh(d: Detail) -> str:
    if d.get("queued") and d.get("name"):
        return f"停止排在其前面的作业 {d['name']}。"
    if d.get("queued"):
        return f"其他租户排在其前面的 {count(d, 'count')} 个排队作业离开后即可启动。"
    held = format_amounts(d.get("amounts") or {}, "zh")
    if d.get("name"):
        return f"结束作业 {d['name']}（占用 {held}）。"
    return f"其他租户的 {d.get('count', 1)} 个作业（共占用 {held}）结束后即可启动。"


def _add_nodes(d: Detail) -> str:
    has = format_amounts({key: d.get(key, 0) for key in ("gpu_millis", "cpu_millis", "memory_bytes")})
    return f"Add {plural(d, 'count', 'node', 'nodes')} with {has} to {pool(d)}."


def _add_nodes_zh(d: Detail) -> str:
    has = format_amounts({key: d.get(key, 0) for key in ("gpu_millis", "cpu_millis", "memory_bytes")}, "zh")
    return f"向{told_pool_zh(d)}增加 {count(d, 'count')} 个节点（每台 {has}）。"


def _released(d: Detail) -> Text[str]:
    record = WAITS.get(str(d.get("from")))
    return UNTOLD if record is None else record.released


def _cap(document: Detail) -> str:
    tenant = "a tenant above its own" if document.get("above") else "its tenant"
    amount = capped(document, "amount")
    if document.get("together"):
        return f"Let all users of {tenant} together have {amount} at once."
    return f"Let its user have {amount} at once in {tenant}."


def _cap_zh(document: Detail) -> str:
    tenant = "上级租户" if document.get("above") else "该租户"
    who = "全体用户合计" if document.get("together") else "该用户"
    return f"将{who}在{tenant}的上限调至 {capped(document, 'amount', 'zh')}。"


_CHANGES: Mapping[str, Sentence] = {
    "release": Text(lambda d: _released(d).en, lambda d: _released(d).zh),
    "ask": Text(_ask, _ask_zh),
    "rank": Text(
        lambda d: "Move it to the head of its queue." if d.get("first") else f"Raise its priority to {count(d, 'priority')}.",
        lambda d: "移到队列最前。" if d.get("first") else f"优先级提高到 {count(d, 'priority')}。",
    ),
    "quota": Text(_quota, _quota_zh),
    "cap": Text(_cap, _cap_zh),
    "end": Text(_end, _end_zh),
    "uncordon": Text(
        lambda d: f"Uncordon node {d.get('node') or '?'} of {pool(d)}.",
        lambda d: f"恢复{told_pool_zh(d)}的节点 {d.get('node') or '?'} 的调度。",
    ),
    "add_nodes": Text(_add_nodes, _add_nodes_zh),
}
