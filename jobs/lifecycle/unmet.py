"""What keeps a job waiting and what would start it, in words, in English and Chinese.

`jobs/lifecycle/reasons.py` has the one reason that a job shows; here is all that `berth explain` tells, made of the numbers in a
document. Amounts that are missing read as a question mark, codes that are unknown as themselves. Names that the reader may not
know are left out by whoever makes the document: what is not there is spoken of as another's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from jobs.lifecycle.reasons import REASONS, capped_text, explain
from kernel.words import counted, format_amount, format_amounts, format_bytes, format_duration, format_moment, is_one

Document = Mapping[str, Any]
Writer = Callable[[Document], str]
SHOWN = 4  # Filters that are told in a sentence.


def condition_text(document: Document, language: str = "en") -> str:
    """The words of one condition."""
    write = _CONDITIONS.get(str(document.get("code", "")))
    if write is None:
        code = str(document.get("code", ""))
        return explain(code, document.get("detail") or {}, language).text if code in REASONS else explain(code, {}, language).text
    return write[language == "zh"](document)


def filter_text(code: str, language: str = "en") -> str:
    """Why a machine is left out, as part of a sentence."""
    words = _FILTERS.get(code)
    return words[language == "zh"] if words else code


def change_text(document: Document, language: str = "en", by: Document | None = None) -> str:
    """The words of one change, an object with one key as in `changes` of a what-if. `by`: the `role` that may make it, and in
    which `tenant`, where the reader may not; the words of such a change are one sentence that begins with a verb."""
    for kind, values in document.items():
        write = _CHANGES.get(kind)
        if write is not None and isinstance(values, Mapping):
            text = write[language == "zh"](values)
            return text if by is None else _made_by(text, by, language)
    return ""


def _made_by(text: str, by: Document, language: str) -> str:
    """`An operator can add 2 machines ...`."""
    tenant = (by.get("tenant") or {}).get("name")
    if language == "zh":
        whose = f"租户 {tenant} 的" if tenant else "上级租户的"
        return f"由{'运维人员' if by.get('role') == 'operator' else f'{whose}管理员'}操作：{text}"
    who = "An operator" if by.get("role") == "operator" else f"A manager of {tenant or 'the tenant above'}"
    return f"{who} can {text[:1].lower()}{text[1:]}"


def clears_text(count: int, language: str = "en") -> str:
    """That a change evicts others before the job starts."""
    if language == "zh":
        return f"需先抢占 {count} 个作业，待其退出后启动。"
    return f"{counted(count, 'job', 'jobs')} would be evicted for it; it starts after that."


def latest_text(document: Document, language: str = "en") -> str:
    """By when a job starts at the latest, or why nobody can say, and from when on nobody of its queue passes it."""
    words = _LATEST.get(str(document.get("kind") or ""))
    if words is None:
        words = _NO_LATEST.get(str(document.get("reason")), _NO_LATEST[""])
    text = words[language == "zh"].replace("@", format_moment(document.get("at")))
    if document.get("next_reservation_from") and document.get("kind") != "booked":
        text += _NEXT_RESERVATION[language == "zh"].replace("@", format_moment(document["next_reservation_from"]))
    return text


_LATEST: Mapping[str, tuple[str, str]] = {
    "booked": (
        "It starts by @ at the latest: that start is booked, and nobody who comes later may delay it. It only gives way to an "
        "older right, to a lost machine or to a lowered limit.",
        "最迟 @ 启动：已预定启动时间，后来者不得推迟；仅在他人有更早的权利、节点丢失或上限降低时让位。",
    ),
    "line": (
        "It starts by @ at the latest, if nobody else submits anything and nobody is evicted: then all before it have had the "
        "longest time that they may take.",
        "若无新作业提交且无人被驱逐，最迟 @ 启动：届时其前的作业均已用满最长时间。",
    ),
}
_NO_LATEST: Mapping[str, tuple[str, str]] = {
    "runtime_unknown": (
        "No latest start can be told: others that run or wait may take any time (they have no max_runtime).",
        "无法给出最迟启动时间：有其他作业未设 max_runtime，可能一直运行。",
    ),
    "": (
        "No latest start can be told: it would not start even if it were alone.",
        "无法给出最迟启动时间：即使没有其他作业也无法启动。",
    ),
}
_NEXT_RESERVATION = (
    " From @ on the next reserved start in its pools goes to this job.",
    "自 @ 起，其资源池中的下一个预留启动名额归此作业。",
)


# --- Pieces of sentences ------------------------------------------------------------------------------------------------


def _amount(document: Document, key: str, language: str) -> str:
    value = document.get(key)
    return format_amount(str(document.get("resource", "")), value, language) if isinstance(value, int) else "?"


def _queue(document: Document, language: str) -> str:
    name = document.get("queue")
    if name:
        return f"队列 {name} " if language == "zh" else f"queue {name}"
    return "上级队列" if language == "zh" else "a queue above"


def _pool(document: Document, language: str) -> str:
    name = document.get("pool")
    if language == "zh":
        return f"资源池 {name} " if name else "资源池"
    return f"pool {name}" if name else "the pool"


def _are(amount: str) -> str:
    return "is" if is_one(amount) else "are"


def _when(document: Document) -> str:
    return format_moment(document.get("until"))


def _filters(document: Document, language: str) -> str:
    """What keeps tasks out of how many machines, most machines first."""
    rows = [one for one in document.get("filters") or () if isinstance(one, Mapping)]
    rows.sort(key=lambda one: -int(one.get("machines", 0)))
    parts = []
    for one in rows[:SHOWN]:
        count, why = one.get("machines", "?"), filter_text(str(one.get("code", "")), language)
        parts.append(f"{count} 台{why}" if language == "zh" else f"{why} on {count}")
    if not parts:
        return "。" if language == "zh" else "."
    return f"：{'，'.join(parts)}。" if language == "zh" else f": {', '.join(parts)}."


def _count(document: Document, key: str) -> str:
    value = document.get(key)
    return str(value) if isinstance(value, int) else "?"


def _plural(document: Document, key: str, one: str, many: str) -> str:
    return counted(document.get(key), one, many)


# --- Conditions ---------------------------------------------------------------------------------------------------------


def _kept_for(d: Document) -> str:
    """`train, which needs 4 GPUs`; without its name where that is not for the reader."""
    if "for_need" not in d:
        return "another job"
    return f"{d.get('for') or 'a job of another tenant'}, which needs {format_amounts(_leading(d['for_need']))}"


def _kept_for_zh(d: Document) -> str:
    if "for_need" not in d:
        return "其他作业"
    return f"{d.get('for') or '其他租户的作业'}（需要 {format_amounts(_leading(d['for_need']), 'zh')}）"


def _leading(amounts: Mapping[str, int]) -> Mapping[str, int]:
    """Of a job with GPUs these say enough."""
    return {"gpu_millis": amounts["gpu_millis"]} if amounts.get("gpu_millis") else amounts


def _ceiling(d: Document) -> str:
    kept = f", with {_amount(d, 'kept', 'en')} of that kept for queues below it" if d.get("kept") else ""
    return (
        f"It needs {_amount(d, 'need', 'en')} in {_pool(d, 'en')}; {_queue(d, 'en')} holds {_amount(d, 'held', 'en')} of the "
        f"{_amount(d, 'limit', 'en')} that it may hold{kept}."
    )


def _ceiling_zh(d: Document) -> str:
    kept = f"（另有 {_amount(d, 'kept', 'zh')} 为下级队列保留）" if d.get("kept") else ""
    return (
        f"在{_pool(d, 'zh')}需要 {_amount(d, 'need', 'zh')}；{_queue(d, 'zh')}上限 {_amount(d, 'limit', 'zh')}，"
        f"已用 {_amount(d, 'held', 'zh')}{kept}。"
    )


def _withheld(d: Document) -> str:
    have, held, kept = (_amount(d, key, "en") for key in ("limit", "held", "kept"))
    return (
        f"It needs {_amount(d, 'need', 'en')}; of the {have} of {_pool(d, 'en')}, {held} {_are(held)} held or kept, "
        f"and {kept} of that {'stands' if is_one(kept) else 'stand'} idle because it is guaranteed to others."
    )


def _withheld_zh(d: Document) -> str:
    return (
        f"需要 {_amount(d, 'need', 'zh')}；{_pool(d, 'zh')}共 {_amount(d, 'limit', 'zh')}，"
        f"已占用或保留 {_amount(d, 'held', 'zh')}，其中 {_amount(d, 'kept', 'zh')} 空闲但已保障给他人。"
    )


def _capacity(d: Document) -> str:
    have, held = _amount(d, "limit", "en"), _amount(d, "held", "en")
    return f"It needs {_amount(d, 'need', 'en')}; of the {have} of {_pool(d, 'en')}, {held} {_are(held)} held."


def _capacity_zh(d: Document) -> str:
    return f"需要 {_amount(d, 'need', 'zh')}；{_pool(d, 'zh')}共 {_amount(d, 'limit', 'zh')}，已占用 {_amount(d, 'held', 'zh')}。"


def _as_told(code: str, d: Document, language: str) -> str:
    """In the words of the reason that a job shows."""
    detail = {**{key: value for key, value in d.items() if value is not None}, "used": d.get("held"), "from": d.get("since")}
    return explain(code, {key: value for key, value in detail.items() if value is not None}, language).text


_CONDITIONS: Mapping[str, tuple[Writer, Writer]] = {
    "ceiling": (_ceiling, _ceiling_zh),
    "withheld": (_withheld, _withheld_zh),
    "capacity": (_capacity, _capacity_zh),
    "no_pool": (lambda d: "There is no pool that may take it.", lambda d: "没有可接纳它的资源池。"),
    "no_machine": (
        lambda d: f"No machine of {_pool(d, 'en')} takes one of its tasks, not even an empty one{_filters(d, 'en')}",
        lambda d: f"{_pool(d, 'zh')}中没有节点能容纳其任务，即使节点全空{_filters(d, 'zh')}",
    ),
    "no_room": (
        lambda d: (
            f"Room for {_count(d, 'fitting')} of its {_plural(d, 'need', 'task', 'tasks')} is free in {_pool(d, 'en')}"
            f"{_filters(d, 'en')}"
        ),
        lambda d: f"{_pool(d, 'zh')}目前只能放下 {_count(d, 'need')} 个任务中的 {_count(d, 'fitting')} 个{_filters(d, 'zh')}",
    ),
    "not_together": (
        lambda d: (
            f"There is room in {_pool(d, 'en')}, but not near enough to one another: one place takes "
            f"{_count(d, 'fitting')} of its {_plural(d, 'need', 'task', 'tasks')}."
        ),
        lambda d: f"{_pool(d, 'zh')}有空位但不够集中：同一处最多放下 {_count(d, 'need')} 个任务中的 {_count(d, 'fitting')} 个。",
    ),
    "booked": (
        lambda d: (
            f"There is room, but from {_when(d)} on it is kept for {_kept_for(d)}, and this one might not be over by then."
        ),
        lambda d: f"有空位，但自 {_when(d)} 起已预留给{_kept_for_zh(d)}，本作业届时可能尚未结束。",
    ),
    "too_young": (
        lambda d: f"It may take room back from others from {_when(d)} on; until then they have not run for long enough.",
        lambda d: f"自 {_when(d)} 起可收回他人借用的资源；此前对方运行时间不足。",
    ),
    "brake": (
        lambda d: f"It may take room back from others, but many were evicted of late; the next may be from {_when(d)} on.",
        lambda d: f"可收回他人借用的资源，但近期抢占过多；自 {_when(d)} 起恢复。",
    ),
    "behind": (
        lambda d: (
            f"What gets free is kept for {_kept_for(d)}: that job of its queue has waited for so long that no other may pass it, "
            "or the queue is served in order."
        ),
        lambda d: f"空出的资源预留给{_kept_for_zh(d)}：它在同队列中等待过久而不可越过，或队列按顺序服务。",
    ),
    "user_cap": (lambda d: _as_told("user_cap", d, "en"), lambda d: _as_told("user_cap", d, "zh")),
    "tenant_cap": (lambda d: _as_told("tenant_cap", d, "en"), lambda d: _as_told("tenant_cap", d, "zh")),
    "reserved": (lambda d: _as_told("reserved", d, "en"), lambda d: _as_told("reserved", d, "zh")),
    "claim": (
        lambda d: (
            f"Its room is being cleared: {_plural(d, 'need', 'job has', 'jobs have')} to leave, and it starts after that."
            + (f" It fits in total, not in shape: {_count(d, 'held')} of them go on elsewhere at once." if d.get("held") else "")
        ),
        lambda d: (
            f"正在为其腾出资源：{_count(d, 'need')} 个作业退出后即启动。"
            + (f"总量足够但形状不合，其中 {_count(d, 'held')} 个立即在别处继续。" if d.get("held") else "")
        ),
    ),
    "moving": (
        lambda d: f"It moves to other machines of {_pool(d, 'en')} so that a larger job can start; its place is kept for it.",
        lambda d: f"正迁往{_pool(d, 'zh')}的其他节点，以便更大的作业启动；其位置已保留。",
    ),
    "array_parallelism": (
        lambda d: (
            f"{_plural(d, 'held', 'child of its array runs', 'children of its array run')}, and no more than "
            f"{_count(d, 'limit')} may."
        ),
        lambda d: f"数组作业已有 {_count(d, 'held')} 个子作业运行，上限为 {_count(d, 'limit')}。",
    ),
}  # fmt: skip

_FILTERS: Mapping[str, tuple[str, str]] = {
    "blocked": ("out of service", "停止服务"),
    "gpu_model": ("another GPU model", "GPU 型号不符"),
    "label": ("a label is missing", "缺少标签"),
    "taint": ("kept for others by a taint", "有污点，留给他人"),
    "shares_not_allowed": ("no parts of a GPU are lent", "不出借 GPU 份额"),
    "exclusive_cores": ("no cores for one task alone", "不提供独占核心"),
    "gpu": ("too few GPUs free", "空闲 GPU 不足"),
    "gpu_share": ("no GPU with as large a part free", "没有足够大的 GPU 份额"),
    "gpu_share_guard": ("no more GPUs may be shared", "可共享的 GPU 已满"),
    "cpu": ("too few cores free", "空闲 CPU 不足"),
    "memory": ("too little memory free", "空闲内存不足"),
}


# --- Changes ------------------------------------------------------------------------------------------------------------


def _ask(d: Document) -> str:
    parts = []
    for name, role in sorted((d.get("roles") or {}).items()):
        values = [
            _plural(role, "replicas", "task", "tasks") if "replicas" in role else "",
            f"{_plural(role, 'gpu', 'GPU', 'GPUs')} a task" if "gpu" in role else "",
            f"{format_amount('cpu_millis', role['cpu_millis'])} a task" if "cpu_millis" in role else "",
            f"{format_bytes(role['memory_bytes'])} of memory a task" if "memory_bytes" in role else "",
        ]
        parts.append(f"Ask for {', '.join(filter(None, values))} in role {name}.")
    if d.get("pools"):
        parts.append(f"Accept {'pool' if len(d['pools']) == 1 else 'any of the pools'} {', '.join(d['pools'])}.")
    if d.get("max_runtime_seconds"):
        parts.append(f"Promise to be over within {format_duration(d['max_runtime_seconds'])} (max_runtime).")
    return " ".join([*parts, *(words[0] for wish, words in _WISHES.items() if d.get(wish))])


def _ask_zh(d: Document) -> str:
    parts = []
    for name, role in sorted((d.get("roles") or {}).items()):
        values = [
            f"{role['replicas']} 个任务" if "replicas" in role else "",
            f"每任务 {role['gpu']} 张 GPU" if "gpu" in role else "",
            f"每任务 {format_amount('cpu_millis', role['cpu_millis'], 'zh')}" if "cpu_millis" in role else "",
            f"每任务 {format_bytes(role['memory_bytes'])} 内存" if "memory_bytes" in role else "",
        ]
        parts.append(f"角色 {name} 改为{'，'.join(filter(None, values))}。")
    if d.get("pools"):
        parts.append(f"接受资源池 {'、'.join(d['pools'])}。")
    if d.get("max_runtime_seconds"):
        parts.append(f"承诺在 {format_duration(d['max_runtime_seconds'])} 内结束（max_runtime）。")
    return "".join([*parts, *(words[1] for wish, words in _WISHES.items() if d.get(wish))])


_WISHES: Mapping[str, tuple[str, str]] = {
    "any_model": ("Accept any GPU model.", "接受任意 GPU 型号。"),
    "anywhere": ("Only wish for tasks near one another, do not insist.", "任务就近放置改为尽量而非必须。"),
    "any_label": ("Do without the labels that it asks of a machine.", "不再要求节点标签。"),
    "shared_cores": ("Do without cores of its own.", "不再要求独占核心。"),
}


def _quota(d: Document) -> str:
    whose = f"queue {d['queue_name']}" if d.get("queue_name") else "a queue above"
    words = {"guarantee": "guarantee", "deserved": "deserved amount", "ceiling": "ceiling"}
    parts = [
        f"the {words[key]} to {format_amount(str(d.get('resource', '')), d[key])}" for key in words if d.get(key) is not None
    ]
    return f"Set {' and '.join(parts)} for {whose} in {_pool(d, 'en')}."


def _quota_zh(d: Document) -> str:
    whose = f"队列 {d['queue_name']} " if d.get("queue_name") else "上级队列"
    words = {"guarantee": "保障", "deserved": "应得", "ceiling": "上限"}
    parts = [
        f"{words[key]}设为 {format_amount(str(d.get('resource', '')), d[key], 'zh')}" for key in words if d.get(key) is not None
    ]
    return f"将{whose}在{_pool(d, 'zh')}的{'、'.join(parts)}。"


def _end(d: Document) -> str:
    if d.get("queued") and d.get("name"):
        return f"Stop waiting job {d['name']}, which stands before it."
    if d.get("queued"):
        counted_jobs = _plural(d, "count", "waiting job of another tenant is", "waiting jobs of other tenants are")
        return f"It starts when {counted_jobs} gone that {'stands' if d.get('count') == 1 else 'stand'} before it."
    held = format_amounts(d.get("amounts") or {})
    if d.get("name"):
        return f"End job {d['name']}, which holds {held}."
    if d.get("count", 1) == 1:
        return f"It starts when a job of another tenant ends, which holds {held}."
    return f"It starts when {_count(d, 'count')} jobs of other tenants end, which hold {held}."


def _end_zh(d: Document) -> str:
    if d.get("queued") and d.get("name"):
        return f"停止排在其前面的等待作业 {d['name']}。"
    if d.get("queued"):
        return f"其他租户排在其前面的 {_count(d, 'count')} 个等待作业离开后即可启动。"
    held = format_amounts(d.get("amounts") or {}, "zh")
    if d.get("name"):
        return f"结束作业 {d['name']}（占用 {held}）。"
    return f"其他租户的 {d.get('count', 1)} 个作业（共占用 {held}）结束后即可启动。"


def _add_nodes(d: Document) -> str:
    has = format_amounts({key: d.get(key, 0) for key in ("gpu_millis", "cpu_millis", "memory_bytes")})
    return f"Add {_plural(d, 'count', 'machine', 'machines')} with {has} to {_pool(d, 'en')}."


def _add_nodes_zh(d: Document) -> str:
    has = format_amounts({key: d.get(key, 0) for key in ("gpu_millis", "cpu_millis", "memory_bytes")}, "zh")
    return f"向{_pool(d, 'zh')}增加 {_count(d, 'count')} 台节点（每台 {has}）。"


_RELEASED: Mapping[str, tuple[str, str]] = {
    "checkpoint_checking": ("It starts when its checkpoint was looked through.", "检查点检查完毕后即启动。"),
    "checkpoint_unreadable": ("Mend its checkpoint and release it.", "修复检查点后释放该作业。"),
    "checkpoint_over_quota": (
        "Remove files from its checkpoint, or have an operator raise the quota of checkpoints; then release it.",
        "清理其检查点目录，或由运维人员提高检查点配额，然后释放该作业。",
    ),
    "tenant_disabled": ("It starts when an operator enables the tenant.", "待运维人员启用该租户后启动。"),
    "held": ("Release it.", "释放该作业。"),
    "dependency": ("It starts when the jobs that it waits for have ended.", "所依赖的作业结束后即启动。"),
    "array_parallelism": ("It starts when one of its array ends; or raise array.parallelism.", "同数组的作业结束后即启动。"),
    "not_before": ("It starts at its time; or set start_after to an earlier one.", "到时即启动；也可提前 start_after。"),
    "budget": (
        "It starts when a manager of the tenant above, or an operator, has raised the budget.",
        "上级租户的管理员或运维人员提高预算后即启动。",
    ),
}


def _cap(document: Document) -> str:
    tenant = "a tenant above its own" if document.get("above") else "its tenant"
    amount = _capped(document, "en")
    if document.get("together"):
        return f"Let all users of {tenant} together have {amount} at once."
    return f"Let its user have {amount} at once in {tenant}."


def _cap_zh(document: Document) -> str:
    tenant = "上级租户" if document.get("above") else "该租户"
    who = "全体用户合计" if document.get("together") else "该用户"
    return f"将{who}在{tenant}的上限调至 {_capped(document, 'zh')}。"


def _capped(document: Document, language: str) -> str:
    amount = document.get("amount")
    return capped_text(str(document.get("what")), amount, language) if isinstance(amount, int) else "?"


_CHANGES: Mapping[str, tuple[Writer, Writer]] = {
    "release": (
        lambda d: _RELEASED.get(str(d.get("from")), ("It starts when what withholds it is gone.", ""))[0],
        lambda d: _RELEASED.get(str(d.get("from")), ("", "限制解除后即启动。"))[1],
    ),
    "ask": (_ask, _ask_zh),
    "rank": (
        lambda d: "Move it to the head of its queue." if d.get("first") else f"Raise its priority to {_count(d, 'priority')}.",
        lambda d: "移到队列最前。" if d.get("first") else f"优先级提高到 {_count(d, 'priority')}。",
    ),
    "quota": (_quota, _quota_zh),
    "cap": (_cap, _cap_zh),
    "end": (_end, _end_zh),
    "uncordon": (
        lambda d: f"Let machine {d.get('node') or '?'} of {_pool(d, 'en')} take work again.",
        lambda d: f"恢复{_pool(d, 'zh')}的节点 {d.get('node') or '?'}。",
    ),
    "add_nodes": (_add_nodes, _add_nodes_zh),
}
