"""Why a job waits, moved or ended, in words, in English and Chinese.

A reason is stored as a code and its amounts; the words are made when somebody reads them, by a function per code. Names that
users chose are put into the text as they are and never looked into. A reason with amounts missing still reads as a sentence,
and an unknown code, say of a newer version, shows itself.

Other tenants never appear by name: the caller leaves their names out of the amounts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.lifecycle.exit_hints_zh import HINTS_ZH
from jobs.lifecycle.exits import find_class
from jobs.lifecycle.states import JobState
from kernel.words import counted, format_amount, format_amounts, format_bytes, format_duration, format_moment, is_one

Detail = Mapping[str, Any]
Writer = Callable[[Detail], str]


class ReasonKind(StrEnum):
    WAIT = "wait"  # Why a job is QUEUED.
    MOVE = "move"  # Why it changed its state on its way.
    END = "end"  # Why it ended.


@dataclass(frozen=True, slots=True)
class Reason:
    """A code with its words. The hints say what would change it; empty where nothing needs to."""

    code: str
    kind: ReasonKind
    english: Writer
    chinese: Writer
    hint_english: str = ""
    hint_chinese: str = ""


@dataclass(frozen=True, slots=True)
class ReasonText:
    code: str
    text: str
    hint: str = ""


def explain(code: str, detail: Detail | None = None, language: str = "en") -> ReasonText:
    """The words of a reason. Codes are those of this module and of the exit classification; anything else shows itself."""
    known = REASONS.get(code)
    if known is not None:
        write = known.chinese if language == "zh" else known.english
        return ReasonText(code, write(detail or {}), known.hint_chinese if language == "zh" else known.hint_english)
    ended = find_class(code)
    if ended is None:
        return ReasonText(code, code.replace("_", " ").capitalize() + ".")
    who = (detail or {}).get("by")
    if who:
        if language == "zh":
            return ReasonText(code, f"{ended.title_zh}（{who}）{_noted_zh(detail or {})}", HINTS_ZH.get(code, ""))
        return ReasonText(code, f"{ended.title} by {who}{_noted(detail or {})}", ended.remedy)
    if language == "zh":
        return ReasonText(code, f"{ended.title_zh}{_numbers_zh(detail or {})}。", HINTS_ZH.get(code, ""))
    return ReasonText(code, f"{ended.title}{_numbers(detail or {})}. {ended.reason}", ended.remedy)


def exit_in(document: Mapping[str, Any] | None, language: str) -> Mapping[str, Any] | None:
    """The stored exit of a job or attempt, its words in the reader's language; what is data stays as it is."""
    known = find_class(str(document.get("class", ""))) if document and language == "zh" else None
    if document is None or known is None:
        return document
    return {
        **document,
        "reason": known.title_zh,
        "text": f"{known.title_zh}{_numbers_zh(document)}。",
        "hint": HINTS_ZH.get(known.code, ""),
    }


def _percent(detail: Detail) -> str:
    """How much of an amount is gone, where there is one to divide by."""
    amount, spent = detail.get("amount"), detail.get("spent")
    return f" ({spent * 100 // amount} %)" if isinstance(amount, int) and isinstance(spent, int) and amount > 0 else ""


# --- Pieces of sentences ---------------------------------------------------------------------------------------------


def _numbers(detail: Detail) -> str:
    """` (exit code 139, signal 11, task worker-0)`: what the program itself left, as far as it is known and tells anything."""
    parts = [f"{noun} {detail[key]}" for key, noun in _NUMBERS if detail.get(key)]
    return f" ({', '.join(parts)})" if parts else ""


def _numbers_zh(detail: Detail) -> str:
    parts = [f"{noun} {detail[key]}" for key, noun in _NUMBERS_ZH if detail.get(key)]
    return f"（{'，'.join(parts)}）" if parts else ""


_NUMBERS = (("code", "exit code"), ("signal", "signal"), ("task", "task"))
_NUMBERS_ZH = (("code", "退出码"), ("signal", "信号"), ("task", "任务"))


def _named(detail: Detail, key: str, noun: str) -> str:
    """`pool a100`, or `the pool` where the name is not known."""
    name = detail.get(key)
    return f"{noun} {name}" if name else f"the {noun}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _named_zh(detail: Detail, key: str, noun: str) -> str:
    name = detail.get(key)
    return f"{noun} {name} " if name else f"该{noun}"


def _amounts(detail: Detail, key: str, language: str = "en") -> str:
    amounts = detail.get(key)
    return format_amounts(amounts, language) if isinstance(amounts, Mapping) else ("?" if amounts is None else str(amounts))


def _one(detail: Detail, key: str, language: str = "en") -> str:
    """One amount of the resource that `detail` names."""
    amount = detail.get(key)
    return format_amount(str(detail.get("resource", "")), amount, language) if isinstance(amount, int) else "?"


def _moment(detail: Detail, key: str, unknown: str) -> str:
    """A time that is stored as ISO 8601."""
    return format_moment(detail[key]) if isinstance(detail.get(key), str) else unknown


def _capped(detail: Detail, key: str, language: str = "en") -> str:
    amount = detail.get(key)
    return capped_text(str(detail.get("what")), amount, language) if isinstance(amount, int) else "?"


def capped_text(what: str, amount: int, language: str = "en") -> str:
    """A number of what a cap counts: GPUs, jobs or containers."""
    if what == "gpu_millis":
        return format_amount("gpu_millis", amount, language)
    if language == "zh":
        return f"{amount} 个{'容器' if what == 'containers' else '作业'}"
    return counted(amount, "container", "containers") if what == "containers" else counted(amount, "job", "jobs")


def _shortage(detail: Detail, language: str = "en") -> str:
    """What is missing, resource by resource, of `need` beyond `free`."""
    need, free = detail.get("need"), detail.get("free")
    if not isinstance(need, Mapping) or not isinstance(free, Mapping):
        return ""
    return format_amounts({name: max(0, amount - free.get(name, 0)) for name, amount in need.items()}, language)


def _making_room(detail: Detail) -> str:
    told = f"Its room is being cleared: it waits for {counted(detail.get('jobs'), 'running job', 'running jobs')} to make way"
    if not detail.get("moving"):
        return f"{told}."
    return f"{told}. It fits in total but not in shape, so {detail['moving']} of them go on elsewhere."


def _making_room_zh(detail: Detail) -> str:
    told = f"正在为其腾出资源：等待 {detail.get('jobs', '?')} 个运行中的作业让出。"
    return f"{told}总量足够但形状不合，其中 {detail['moving']} 个在别处继续。" if detail.get("moving") else told


def _are(amount: str) -> str:
    return "is" if is_one(amount) else "are"


def _no_room(detail: Detail) -> str:
    pool, need, free = _named(detail, "pool", "pool"), _amounts(detail, "need"), _amounts(detail, "free")
    missing = _shortage(detail)
    if missing in {"", "nothing"}:
        return f"It needs {need}; {pool} has {free} free, but not in pieces that fit its tasks.{_left_out(detail)}"
    return f"It needs {need}; {pool} has {free} free, so {missing} {_are(missing)} missing.{_left_out(detail)}"


def _no_room_zh(detail: Detail) -> str:
    pool, need, free = _named_zh(detail, "pool", "资源池"), _amounts(detail, "need", "zh"), _amounts(detail, "free", "zh")
    missing = _shortage(detail, "zh")
    if missing in {"", "无"}:
        return f"需要 {need}；{pool}空闲 {free}，但分散在各节点，放不下其任务。{_left_out(detail, 'zh')}"
    return f"需要 {need}；{pool}空闲 {free}，还缺 {missing}。{_left_out(detail, 'zh')}"


def _left_out(detail: Detail, language: str = "en") -> str:
    """How many machines of the pool have room in vain, by the label or taint that keeps the job away from them."""
    counts = detail.get("left_out")
    if not isinstance(counts, Mapping):
        return ""
    words = {
        "label": ("lacks a label that it asks for", "lack a label that it asks for"),
        "taint": ("is kept for others by a taint", "are kept for others by a taint"),
    }
    words_zh = {"label": "缺少所要求的标签", "taint": "因污点留给其他作业"}
    if language == "zh":
        return "".join(f"其中 {counts[code]} 个节点{words_zh[code]}。" for code in words_zh if code in counts)
    return "".join(f" {counts[code]} of its machines {words[code][counts[code] != 1]}." for code in words if code in counts)


def _asked_labels(detail: Detail) -> str:
    labels = detail.get("labels")
    if not isinstance(labels, Mapping) or not labels:
        return "?"
    return ", ".join(f"{name}={'|'.join(str(one) for one in values)}" for name, values in labels.items())


def _blocked(detail: Detail) -> str:
    """What the nodes themselves say, as it was written down: the words of an operator who cordoned one are among them."""
    why = detail.get("why")
    return f" {' '.join(str(one) for one in why)}" if isinstance(why, (list, tuple)) and why else ""


def _never_met(detail: Detail) -> str:
    name, state = detail.get("name"), detail.get("state")
    if not name:
        return "A job that it depends on did not end as it must, so this one can never start."
    return f"It waited for job {name}, which {'was stopped' if state == 'stopped' else 'failed'}, so it can never start."


def _never_met_zh(detail: Detail) -> str:
    name, state = detail.get("name"), detail.get("state")
    if not name:
        return "所依赖的作业未按要求结束，本作业无法启动。"
    return f"所依赖的作业 {name} {'已停止' if state == 'stopped' else '失败'}，本作业无法启动。"


def _ceiling(detail: Detail) -> str:
    queue, pool = _named(detail, "queue", "queue"), _named(detail, "pool", "pool")
    return (
        f"It needs {_one(detail, 'need')}; {queue} uses {_one(detail, 'used')} of the {_one(detail, 'ceiling')} "
        f"that it may use in {pool}."
    )


def _ceiling_zh(detail: Detail) -> str:
    queue, pool = _named_zh(detail, "queue", "队列"), _named_zh(detail, "pool", "资源池")
    used, ceiling = _one(detail, "used", "zh"), _one(detail, "ceiling", "zh")
    return f"需要 {_one(detail, 'need', 'zh')}；{queue}在{pool}的上限为 {ceiling}，已用 {used}。"


def _ceiling_too_low(detail: Detail) -> str:
    queue, pool = _named(detail, "queue", "queue"), _named(detail, "pool", "pool")
    return f"It needs {_one(detail, 'need')}; {queue} may never use more than {_one(detail, 'ceiling')} in {pool}."


def _ceiling_too_low_zh(detail: Detail) -> str:
    queue, pool = _named_zh(detail, "queue", "队列"), _named_zh(detail, "pool", "资源池")
    return f"需要 {_one(detail, 'need', 'zh')}；{queue}在{pool}的上限仅为 {_one(detail, 'ceiling', 'zh')}。"


def _kept_for_others(detail: Detail) -> str:
    pool, need = _named(detail, "pool", "pool"), _one(detail, "need")
    return (
        f"It needs {need}; {pool} has {_one(detail, 'free')} that its queue may use, and keeps {_one(detail, 'kept')} idle "
        "for those to whom they are guaranteed."
    )


def _kept_for_others_zh(detail: Detail) -> str:
    pool, need = _named_zh(detail, "pool", "资源池"), _one(detail, "need", "zh")
    return (
        f"需要 {need}；{pool}可供其队列使用 {_one(detail, 'free', 'zh')}，另有 {_one(detail, 'kept', 'zh')} 保留给有保障的队列。"
    )


def _no_pool(detail: Detail) -> str:
    if detail.get("pool"):
        return f"There is no pool {detail['pool']} now."
    return f"There is no cluster {detail['cluster']} now." if detail.get("cluster") else "There is no pool to run it in."


def _no_pool_zh(detail: Detail) -> str:
    if detail.get("pool"):
        return f"目前没有资源池 {detail['pool']}。"
    return f"目前没有集群 {detail['cluster']}。" if detail.get("cluster") else "没有可用的资源池。"


def _listed(value: Any) -> str:
    return ", ".join(str(item) for item in value) if isinstance(value, (list, tuple)) else str(value or "?")


def _bytes(detail: Detail, key: str) -> str:
    value = detail.get(key)
    return format_bytes(value) if isinstance(value, int) else "?"


def _fault(detail: Detail) -> str:
    return f" ({detail['fault']})" if detail.get("fault") else ""


def _fault_zh(detail: Detail) -> str:
    return f"（{detail['fault']}）" if detail.get("fault") else ""


def _error(detail: Detail) -> str:
    return f" ({detail['error']})" if detail.get("error") else ""


def _error_zh(detail: Detail) -> str:
    return f"（{detail['error']}）" if detail.get("error") else ""


def _dependency(detail: Detail) -> str:
    count = detail.get("open")
    return f"It waits for {counted(count, 'other job', 'other jobs')}." if isinstance(count, int) else "It waits for other jobs."


def _retrying(detail: Detail) -> str:
    number, seconds, cause = detail.get("attempt"), detail.get("seconds"), str(detail.get("class", ""))
    what = f"Attempt {number} ended" if number else "The last attempt ended"
    ended = find_class(cause)
    why = f" ({ended.title.lower()})" if ended else ""
    if detail.get("emptied"):
        why = f" because {_named(detail, 'emptied', 'machine')} was emptied"
    when = f"after {format_duration(seconds)}" if isinstance(seconds, int) and seconds > 0 else "as soon as there is room"
    return f"{what}{why}; the next one starts {when}."


def _retrying_zh(detail: Detail) -> str:
    number, seconds, cause = detail.get("attempt"), detail.get("seconds"), str(detail.get("class", ""))
    what = f"第 {number} 次尝试已结束" if number else "上一次尝试已结束"
    ended = find_class(cause)
    why = f"（{ended.title_zh}）" if ended else ""
    if detail.get("emptied"):
        why = f"（{_named_zh(detail, 'emptied', '节点')}已排空）"
    when = f"{format_duration(seconds)} 后重试" if isinstance(seconds, int) and seconds > 0 else "有空位即重试"
    return f"{what}{why}，{when}。"


def _exhausted(detail: Detail) -> str:
    kind, limit = detail.get("class"), detail.get("limit")
    what = f"failures of class {kind}" if kind else "its failures"
    return (
        f"It was tried again {counted(limit, 'time', 'times')} after {what}, which is all that is allowed."
        if limit
        else f"No retry is left for {what}."
    )


def _exhausted_zh(detail: Detail) -> str:
    kind, limit = detail.get("class"), detail.get("limit")
    return f"{_class_zh(kind)}{'类' if kind else ''}失败的重试次数（{limit if limit is not None else '?'}）已用完。".strip()


def _mapping(detail: Detail, key: str) -> Detail:
    found = detail.get(key)
    return found if isinstance(found, Mapping) else {}


_STATES_ZH = {
    JobState.QUEUED: "等待中",
    JobState.ADMITTED: "已准入",
    JobState.STARTING: "启动中",
    JobState.RUNNING: "运行中",
    JobState.STOPPING: "停止中",
    JobState.SUCCEEDED: "已成功",
    JobState.FAILED: "已失败",
    JobState.STOPPED: "已停止",
}


def _state_zh(state: object) -> str:
    return _STATES_ZH.get(JobState(str(state)), str(state)) if state in set(JobState) else str(state)


def _class_zh(code: object) -> str:
    """The name of a class of ends."""
    ended = find_class(str(code or ""))
    return f"“{ended.title_zh}”" if ended is not None else f" {code} " if code else ""


def _children(detail: Detail) -> str:
    parts = [f"{count} {state}" for state, count in detail.items() if isinstance(count, int) and count]
    return f"Its children: {', '.join(parts)}." if parts else "Its state follows from its children."


def _children_zh(detail: Detail) -> str:
    parts = [f"{_state_zh(state)} {count}" for state, count in detail.items() if isinstance(count, int) and count]
    return f"子作业：{'、'.join(parts)}。" if parts else "状态由其子作业决定。"


def _fixed(text: str) -> Writer:
    return lambda detail: text


def _by(text: str, key: str = "by") -> Writer:
    """A sentence without its full stop, who did it if that is known, and why in their words if they said."""
    return lambda detail: f"{text} by {detail[key]}{_noted(detail)}" if detail.get(key) else f"{text}."


def _by_zh(text: str, key: str = "by") -> Writer:
    return lambda detail: f"由 {detail[key]} {text}{_noted_zh(detail)}" if detail.get(key) else f"{text}。"


def _noted(detail: Detail) -> str:
    """The end of a sentence: somebody's own words, or its full stop."""
    return f": {detail['note']}" if detail.get("note") else "."


def _noted_zh(detail: Detail) -> str:
    return f"：{detail['note']}" if detail.get("note") else "。"


# --- The reasons -----------------------------------------------------------------------------------------------------


def _wait(code: str, english: Writer, chinese: Writer, hint_english: str = "", hint_chinese: str = "") -> Reason:
    return Reason(code, ReasonKind.WAIT, english, chinese, hint_english, hint_chinese)


def _move(code: str, english: Writer, chinese: Writer) -> Reason:
    return Reason(code, ReasonKind.MOVE, english, chinese)


def _end(code: str, english: Writer, chinese: Writer, hint_english: str = "", hint_chinese: str = "") -> Reason:
    return Reason(code, ReasonKind.END, english, chinese, hint_english, hint_chinese)


_ALL = (
    _wait("scheduling", _fixed("The scheduler has not looked at it yet."), _fixed("调度器尚未处理。")),
    _wait("held", _fixed("It is held until somebody releases it."), _fixed("已挂起，等待释放。"), "Release it.", "释放该作业。"),
    _wait(
        "tenant_disabled",
        lambda detail: f"{'A tenant above its own' if detail.get('above') else 'Its tenant'} is disabled{_noted(detail)}",
        lambda detail: f"{'其上级租户' if detail.get('above') else '其租户'}已停用{_noted_zh(detail)}",
        "It starts when an operator enables the tenant.",
        "待运维人员启用该租户后启动。",
    ),
    _wait("dependency", _dependency, lambda detail: f"等待 {detail.get('open', '?')} 个其他作业。"),
    _wait(
        "not_before",
        lambda detail: f"It starts not before {_moment(detail, 'at', 'its time')}.",
        lambda detail: f"不早于 {_moment(detail, 'at', '设定时间')} 启动。",
    ),
    _wait("retrying", _retrying, _retrying_zh),
    _wait(
        "preempted_often",
        lambda detail: (
            f"It was preempted {counted(detail.get('preemptions'), 'time', 'times')} within an hour and waits before it tries "
            "again."
        ),
        lambda detail: f"一小时内被抢占 {detail.get('preemptions', '?')} 次，稍后再试。",
        "Lower what it asks for, or give it a checkpoint.",
        "减少资源需求，或设置检查点。",
    ),
    _wait(
        "budget",
        lambda detail: f"This month's budget of its queue, or of a queue above it, is spent{_percent(detail)}.",
        lambda detail: f"所属队列或其上级队列的本月预算已用尽{_percent(detail)}。",
        "It starts next month, or when a manager raises the budget: `berth budgets`.",
        "将于下月启动，或由管理员提高预算后启动：`berth budgets`。",
    ),
    _wait(
        "checkpoint_checking",
        _fixed("The checkpoint that it goes on from is looked through."),
        _fixed("正在检查用于续跑的检查点。"),
    ),
    _wait(
        "checkpoint_unreadable",
        lambda detail: f"Its checkpoint cannot be read: {detail.get('problem') or 'the log of the platform says why.'}",
        lambda detail: f"检查点无法读取：{detail.get('problem') or '原因见平台日志。'}",
        "Mend the directory, then release the job: `berth release JOB`; or run it again without: `berth rerun JOB`.",
        "修复该目录后释放作业：`berth release JOB`；或不使用检查点重新运行：`berth rerun JOB`。",
    ),
    _wait(
        "checkpoint_over_quota",
        lambda detail: (
            f"Its checkpoint directory holds {format_bytes(detail.get('size_bytes', 0))}; "
            f"{format_bytes(detail.get('quota_bytes', 0))} are allowed. Nothing of it was removed."
        ),
        lambda detail: (
            f"检查点目录占用 {format_bytes(detail.get('size_bytes', 0))}，"
            f"上限为 {format_bytes(detail.get('quota_bytes', 0))}；未删除任何内容。"
        ),
        "Fetch what you need (`berth cp JOB:checkpoint/ DIR`) and have the program keep fewer checkpoints, or ask an operator to "
        "raise BERTH_CHECKPOINT_QUOTA_BYTES; then release the job: `berth release JOB`.",
        "取回所需内容（`berth cp JOB:checkpoint/ DIR`）并减少保留的检查点，或请运维人员提高 BERTH_CHECKPOINT_QUOTA_BYTES，"
        "然后释放作业：`berth release JOB`。",
    ),
    _wait("image_building", _fixed("Its image is being built."), _fixed("镜像正在构建。")),
    _wait(
        "array_parallelism",
        _fixed("As many children of its array run as its parallelism allows."),
        _fixed("数组作业的并行数已满。"),
        "Raise array.parallelism when you submit it.",
        "提交时提高 array.parallelism。",
    ),
    _wait(
        "restored",
        lambda detail: (
            f"The database was restored from a backup; it waits until {_named(detail, 'cluster', 'cluster')} was asked "
            "what still runs there."
        ),
        lambda detail: f"数据库已从备份恢复；需先确认{_named_zh(detail, 'cluster', '集群')}上仍在运行的作业。",
        "Usually this takes seconds. Operators see the cluster's condition with `berth clusters`.",
        "通常只需数秒。运维人员可用 `berth clusters` 查看集群状态。",
    ),
    _wait(
        "quarantined",
        lambda detail: (
            f"Its attempt {detail.get('number') or '?'}, newer than the backup that was restored, is still on "
            f"{_named(detail, 'cluster', 'cluster')}. It starts no second time while that one may run."
        ),
        lambda detail: (
            f"其第 {detail.get('number') or '?'} 次尝试晚于所恢复的备份，"
            f"仍在{_named_zh(detail, 'cluster', '集群')}上；为避免重复运行，暂不启动。"
        ),
        "An operator adopts that attempt or stops it: `manage.py quarantine`.",
        "由运维人员接管或停止该尝试：`manage.py quarantine`。",
    ),
    _wait(
        "quarantined_unknown",
        _fixed(
            "After a restore a cluster runs attempts that do not say which job they belong to. It waits, for one may be its own."
        ),
        _fixed("恢复后，集群上有无法确认所属作业的尝试；其中可能有本作业的，故暂不启动。"),
        "It starts when those have ended or an operator has stopped them: `manage.py quarantine`.",
        "待其结束或由运维人员停止后启动：`manage.py quarantine`。",
    ),
    _wait("no_pool", _no_pool, _no_pool_zh, "Choose another pool or cluster, or leave it out.", "换一个资源池或集群，或不指定。"),
    _wait(
        "gpu_model",
        lambda detail: (
            f"It asks for {_listed(detail.get('need'))}; {_named(detail, 'pool', 'pool')} has {detail.get('have') or 'no GPU'}."
        ),
        lambda detail: (
            f"需要 {_listed(detail.get('need'))}；{_named_zh(detail, 'pool', '资源池')}为 {detail.get('have') or '无 GPU'}。"
        ),
        "Ask for a model that a pool has, or for any.",
        "改用现有型号，或不限型号。",
    ),
    _wait(
        "image_kind",
        lambda detail: f"Images of kind {detail.get('need', '?')} do not run in {_named(detail, 'pool', 'pool')}.",
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}不支持 {detail.get('need', '?')} 类镜像。",
        "Choose another image or pool.",
        "换一个镜像或资源池。",
    ),
    _wait(
        "no_machines",
        lambda detail: f"{_capital(_named(detail, 'pool', 'pool'))} has no machine at present.",
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}目前没有节点。",
        "It starts when the pool gets a machine that can run it; or choose another pool.",
        "资源池加入合适的节点后即可启动，或换一个资源池。",
    ),
    _wait(
        "shm",
        lambda detail: (
            f"A task asks for {_bytes(detail, 'need')} of shared memory; the largest machine of "
            f"{_named(detail, 'pool', 'pool')} has {_bytes(detail, 'largest')} of memory."
        ),
        lambda detail: (
            f"任务要求 {_bytes(detail, 'need')} 共享内存；{_named_zh(detail, 'pool', '资源池')}中最大的节点内存为 "
            f"{_bytes(detail, 'largest')}。"
        ),
        "Lower shm.",
        "减少 shm。",
    ),
    _wait(
        "ports",
        lambda detail: (
            f"Its tasks ask for {detail.get('need', '?')} ports together; the machines of {_named(detail, 'pool', 'pool')} have "
            f"{detail.get('most', '?')}."
        ),
        lambda detail: (
            f"其任务共要求 {detail.get('need', '?')} 个端口；{_named_zh(detail, 'pool', '资源池')}的节点共有 "
            f"{detail.get('most', '?')} 个。"
        ),
        "Ask for fewer ports or replicas.",
        "减少端口或副本数。",
    ),
    _wait(
        "no_mounts",
        lambda detail: f"The machines of {_named(detail, 'pool', 'pool')} cannot show volumes to a job.",
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}的节点不支持挂载存储卷。",
        "Leave mounts out, or choose another pool. Operators: install bubblewrap on the machine.",
        "去掉 mounts，或换一个资源池。运维人员可在节点上安装 bubblewrap。",
    ),
    _wait(
        "cluster_disabled",
        lambda detail: f"{_capital(_named(detail, 'cluster', 'cluster'))} is disabled.",
        lambda detail: f"{_named_zh(detail, 'cluster', '集群')}已停用。",
        "It starts when an operator enables the cluster; or choose another.",
        "待运维人员启用该集群后启动，或换一个集群。",
    ),
    _wait(
        "cluster_unreachable",
        lambda detail: f"{_capital(_named(detail, 'cluster', 'cluster'))} does not answer.",
        lambda detail: f"{_named_zh(detail, 'cluster', '集群')}无响应。",
        "It starts when the cluster answers again; `berth clusters` says why it does not.",
        "集群恢复后即可启动；`berth clusters` 可查看原因。",
    ),
    _wait(
        "one_tenant_only",
        lambda detail: (
            f"{_capital(_named(detail, 'cluster', 'cluster'))} cannot keep tenants apart and is in use by another tenant."
        ),
        lambda detail: f"{_named_zh(detail, 'cluster', '集群')}无法隔离租户，正被其他租户使用。",
    ),
    _wait(
        "no_ready_node",
        lambda detail: f"No node of {_named(detail, 'pool', 'pool')} that could hold it takes jobs now.{_blocked(detail)}",
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}中能放下它的节点目前都不接受作业。{_blocked(detail)}",
        "It starts when such a node is ready again; `berth nodes` shows them.",
        "节点恢复后即可启动；`berth nodes` 可查看节点。",
    ),
    _wait(
        "larger_than_pool",
        lambda detail: (
            f"It needs {_amounts(detail, 'need')}; {_named(detail, 'pool', 'pool')} could not hold it even when empty "
            f"(largest node: {_amounts(detail, 'largest_node')})."
        ),
        lambda detail: (
            f"需要 {_amounts(detail, 'need', 'zh')}；{_named_zh(detail, 'pool', '资源池')}即使全空也放不下"
            f"（最大节点：{_amounts(detail, 'largest_node', 'zh')}）。"
        ),
        "Lower resources or replicas, or choose a larger pool.",
        "减少资源或副本数，或换更大的资源池。",
    ),
    _wait(
        "label",
        lambda detail: (
            f"It asks for machines with {_asked_labels(detail)}; those of {_named(detail, 'pool', 'pool')} that have it could "
            "not hold it even when empty, or there are none."
        ),
        lambda detail: (
            f"要求节点带有标签 {_asked_labels(detail)}；{_named_zh(detail, 'pool', '资源池')}中没有带此标签且放得下它的节点，"
            "即使节点全空。"
        ),
        "Change placement.labels of the job; `berth nodes show` lists the labels of a machine.",
        "修改作业的 placement.labels；`berth nodes show` 可查看节点标签。",
    ),
    _wait(
        "taint",
        lambda detail: (
            f"The machines of {_named(detail, 'pool', 'pool')} that could hold it are kept for other jobs by taints: "
            f"{_listed(detail.get('taints'))}."
        ),
        lambda detail: (
            f"{_named_zh(detail, 'pool', '资源池')}中放得下它的节点因污点留给其他作业：{_listed(detail.get('taints'))}。"
        ),
        "If it may use them, name the taints in placement.tolerates of the job.",
        "如允许使用，请在作业的 placement.tolerates 中列出这些污点。",
    ),
    _wait(
        "exclusive_cores",
        lambda detail: (
            f"Cores of its own that a task asks for: {detail.get('cores', '?')}. In {_named(detail, 'pool', 'pool')} "
            f"{detail.get('machines', 0)} machines give cores to one task alone, at most {detail.get('largest', 0)}: they could "
            "not hold it even when empty."
        ),
        lambda detail: (
            f"每个任务要求 {detail.get('cores', '?')} 个独占核心；{_named_zh(detail, 'pool', '资源池')}中有 "
            f"{detail.get('machines', 0)} 个节点提供独占核心，最多 {detail.get('largest', 0)} 个，即使全空也放不下。"
        ),
        "Ask for fewer cores, leave cpu_exclusive out, or choose a pool whose machines give them.",
        "减少核心数、去掉 cpu_exclusive，或选择提供独占核心的资源池。",
    ),
    _wait(
        "no_place",
        lambda detail: (
            f"It asks that all its {detail.get('tasks', '?')} tasks go to one {detail.get('place') or 'place'}; no "
            f"{detail.get('place') or 'place'} of {_named(detail, 'pool', 'pool')} could hold them even when empty."
        ),
        lambda detail: (
            f"要求其 {detail.get('tasks', '?')} 个任务位于同一 {detail.get('place') or '位置'}；"
            f"{_named_zh(detail, 'pool', '资源池')}中任何一处即使全空也放不下。"
        ),
        "Set placement.together to a larger place or to pack, or ask for fewer tasks.",
        "将 placement.together 改为更大的范围或 pack，或减少任务数。",
    ),
    _wait(
        "ceiling",
        _ceiling,
        _ceiling_zh,
        "It starts when jobs of the queue end. A manager can raise the limit.",
        "队列中的作业结束后即可启动；管理员可提高上限。",
    ),
    _wait(
        "ceiling_too_low",
        _ceiling_too_low,
        _ceiling_too_low_zh,
        "Ask a manager to raise the limit, or ask for less.",
        "请管理员提高上限，或减少资源需求。",
    ),
    _wait(
        "set_aside",
        lambda detail: f"Berth failed three times at this job{_error(detail)}; it tries again every ten minutes.",
        lambda detail: f"平台处理此作业连续三次失败{_error_zh(detail)}，每十分钟重试一次。",
        "Tell an operator: the log has the details. Other jobs are not affected.",
        "请联系运维人员，日志中有详细信息；其他作业不受影响。",
    ),
    _wait(
        "gpu_shares",
        lambda detail: f"{_capital(_named(detail, 'pool', 'pool'))} lends whole GPUs only, and it asks for a part of one.",
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}只分配整块 GPU，而作业请求部分 GPU。",
        "Ask for a whole GPU, or choose a pool that lends parts.",
        "改为请求整块 GPU，或选择支持共享的资源池。",
    ),
    _wait(
        "kept_for_others",
        _kept_for_others,
        _kept_for_others_zh,
        "It starts when its queue may use more, or when others end. `berth queues` shows what each queue is promised.",
        "待所属队列额度增加或其他作业结束后启动；`berth queues` 可查看各队列的保障额度。",
    ),
    _wait(
        "not_together",
        lambda detail: (
            f"There is room in {_named(detail, 'pool', 'pool')} for all its {detail.get('tasks', '')} tasks, but not near enough "
            "to one another."
        ),
        lambda detail: f"{_named_zh(detail, 'pool', '资源池')}放得下其全部 {detail.get('tasks', '')} 个任务，但位置不够集中。",
        "It starts when enough gets free in one place, or drop the wish to be together.",
        "待同一位置空出足够资源后启动，或取消集中放置的要求。",
    ),
    _wait(
        "booked",
        lambda detail: (
            f"There is room in {_named(detail, 'pool', 'pool')}, but the start of a job before it is planned there at "
            f"{_moment(detail, 'at', 'a later time')}, and this one might run longer."
        ),
        lambda detail: (
            f"{_named_zh(detail, 'pool', '资源池')}有空位，但排在前面的作业计划于 {_moment(detail, 'at', '稍后')} 在此启动，"
            "而本作业可能运行更久。"
        ),
        "Give it a max_runtime that ends before, and it may start now.",
        "设置在此之前结束的 max_runtime，即可立即启动。",
    ),
    _wait(
        "reserved",
        lambda detail: (
            f"It needs {_one(detail, 'need')}; {_one(detail, 'kept')} of {_named(detail, 'pool', 'pool')} "
            f"{_are(_one(detail, 'kept'))} reserved from {_moment(detail, 'from', 'a time')} until "
            f"{_moment(detail, 'until', 'another')}."
        ),
        lambda detail: (
            f"需要 {_one(detail, 'need', 'zh')}；{_named_zh(detail, 'pool', '资源池')}的 {_one(detail, 'kept', 'zh')} "
            f"在 {_moment(detail, 'from', '?')} 至 {_moment(detail, 'until', '?')} 期间已被预订。"
        ),
        "A job whose max_runtime ends before the reservation begins may start now; `berth reserve list` shows reservations.",
        "若 max_runtime 在预订开始前结束，则可立即启动；`berth reserve list` 可查看预订。",
    ),
    _wait(
        "user_cap",
        lambda detail: (
            f"Its user has {_capped(detail, 'used')} of the {_capped(detail, 'limit')} that one user may have at once, "
            f"and it needs {_capped(detail, 'need')}."
        ),
        lambda detail: (
            f"该用户已用 {_capped(detail, 'used', 'zh')}，单个用户上限为 {_capped(detail, 'limit', 'zh')}，"
            f"本作业需要 {_capped(detail, 'need', 'zh')}。"
        ),
        "It starts when others of the user's jobs end. A manager can raise the cap: `berth queues caps`.",
        "该用户的其他作业结束后即可启动；管理员可提高上限：`berth queues caps`。",
    ),
    _wait(
        "tenant_cap",
        lambda detail: (
            f"The users of its tenant have {_capped(detail, 'used')} of the {_capped(detail, 'limit')} that they may have at "
            f"once together, and it needs {_capped(detail, 'need')}."
        ),
        lambda detail: (
            f"该租户共已用 {_capped(detail, 'used', 'zh')}，全体用户合计上限为 {_capped(detail, 'limit', 'zh')}，"
            f"本作业需要 {_capped(detail, 'need', 'zh')}。"
        ),
        "It starts when others of the tenant's jobs end. Whoever manages the queue above can raise it: `berth queues counts`.",
        "该租户的其他作业结束后即可启动；上级队列的管理员可提高上限：`berth queues counts`。",
    ),
    _wait(
        "too_young",
        lambda detail: (
            f"It may take back room in {_named(detail, 'pool', 'pool')}, but what runs there has not run long enough to be "
            f"evicted before {_moment(detail, 'at', 'a while')}."
        ),
        lambda detail: (
            f"可收回{_named_zh(detail, 'pool', '资源池')}的资源，但其上的作业运行时间不足，"
            f"{_moment(detail, 'at', '稍后')} 之后才可驱逐。"
        ),
        "It starts then, or sooner when something ends.",
        "届时启动；有作业提前结束则更早。",
    ),
    _wait(
        "eviction_brake",
        lambda detail: (
            f"It may take back room, but {counted(detail.get('evictions'), 'job was', 'jobs were')} evicted of late and at most "
            f"{detail.get('limit', '?')} may be."
        ),
        lambda detail: f"可收回资源，但近期已驱逐 {detail.get('evictions', '?')} 个作业，上限为 {detail.get('limit', '?')}。",
        "It goes on by itself.",
        "将自动继续。",
    ),
    _wait(
        "behind",
        lambda detail: (
            f"Another job waits before it in {_named(detail, 'queue', 'queue')}, and nobody may pass that one any more."
        ),
        lambda detail: f"{_named_zh(detail, 'queue', '队列')}中排在它前面的作业已等待过久，不允许再被超越。",
        "It starts after the one before it.",
        "待前面的作业启动后启动。",
    ),
    _wait(
        "making_room",
        _making_room,
        _making_room_zh,
        "It starts as soon as they have saved their work and ended.",
        "待其保存进度并结束后立即启动。",
    ),
    _wait(
        "moving",
        lambda detail: (
            f"It moves to other machines of {_named(detail, 'pool', 'pool')}, so that a larger job can start; its place is kept."
        ),
        lambda detail: f"正迁往{_named_zh(detail, 'pool', '资源池')}的其他节点，以便更大的作业启动；其位置已保留。",
        "It goes on there in a moment, and pays no retry.",
        "稍后即在新位置继续，不计入重试次数。",
    ),
    _wait("no_room", _no_room, _no_room_zh, "It starts when enough of what runs there has ended.", "有足够作业结束后即可启动。"),
    _wait("array", _children, _children_zh),
    _move("submitted", _by("Submitted", "user"), _by_zh("提交", "user")),
    _move(
        "admitted",
        lambda detail: f"A place was found in {_named(detail, 'pool', 'pool')}.",
        lambda detail: f"已在{_named_zh(detail, 'pool', '资源池')}分配资源。",
    ),
    _move(
        "adopted",
        lambda detail: f"Attempt {detail.get('attempt', '?')}, which ran while a backup was restored, was given back to it.",
        lambda detail: f"恢复备份期间运行的第 {detail.get('attempt', '?')} 次尝试已归还本作业。",
    ),
    _move("launched", _fixed("The cluster has accepted it."), _fixed("集群已接受。")),
    _move("started", _fixed("All its tasks run."), _fixed("所有任务已运行。")),
    _move(
        "completing",
        _fixed("Its end is decided; the tasks that still run are being stopped."),
        _fixed("结局已定，正在停止其余任务。"),
    ),
    _move(
        "making_way",
        _fixed("It makes way for a job with an older right to its room; it goes on when there is room again."),
        _fixed("为更有权使用该资源的作业让出位置；有空位时继续。"),
    ),
    _move(
        "moving_away",
        _fixed("It moves to other machines, so that a larger job can start: it goes on there at once, and its place is kept."),
        _fixed("迁往其他节点，以便更大的作业启动；位置已保留，立即继续。"),
    ),
    _move(
        "evening_out",
        _fixed(
            "It makes way for a queue that holds less by weight than its own, which borrows; it goes on when there is room again."
        ),
        _fixed("其队列按权重借用过多，为占用较少的队列让出位置；有空位时继续。"),
    ),
    _move(
        "draining",
        lambda detail: f"{_capital(_named(detail, 'node', 'machine'))} is being emptied; it goes on elsewhere, given room.",
        lambda detail: f"{_named_zh(detail, 'node', '节点')}正在排空；有空位时在别处继续。",
    ),
    _move(
        "gpu_fault_stop",
        lambda detail: (
            f"A GPU of {_named(detail, 'node', 'machine')} is out of order{_fault(detail)}; it is tried again on other devices."
        ),
        lambda detail: f"{_named_zh(detail, 'node', '节点')}的 GPU 出现故障{_fault_zh(detail)}；将在其他设备上重试。",
    ),
    _move("stopping", _by("A stop was asked for"), _by_zh("请求停止")),
    _move(
        "max_runtime",
        _fixed("It has run for as long as max_runtime allows and is being stopped."),
        _fixed("已达 max_runtime，正在停止。"),
    ),
    _move("dependency_met", _fixed("What it depended on is done."), _fixed("依赖已满足。")),
    _move(
        "derived",
        lambda detail: _children(_mapping(detail, "children")),
        lambda detail: _children_zh(_mapping(detail, "children")),
    ),
    _move("code_fetched", _fixed("Its code is fetched."), _fixed("代码已取得。")),
    _move("edited", _by("Changed"), _by_zh("修改")),
    _move("released", _by("Released"), _by_zh("释放")),
    _end("stopped_before_start", _by("Stopped before it started"), _by_zh("在启动前停止")),
    _end(
        "dependency_never_met",
        _never_met,
        _never_met_zh,
        "Rerun the other job, then this one; or use after_any.",
        "先重跑所依赖的作业；或使用 after_any。",
    ),
    _end(
        "code_not_fetched",
        lambda detail: f"Its code was not fetched: job {detail.get('name', '?')} ended {detail.get('state', '?')}.",
        lambda detail: f"未能取得代码：作业 {detail.get('name', '?')} 的结果为{_state_zh(detail.get('state', '?'))}。",
        "Read that job's log for the address and the ref that could not be read, then rerun this one.",
        "请查看该作业日志中无法读取的地址与引用，然后重跑本作业。",
    ),
    _end(
        "code_unusable",
        lambda detail: f"The code that job {detail.get('name', '?')} fetched cannot be used{_error(detail)}.",
        lambda detail: f"作业 {detail.get('name', '?')} 取得的代码无法使用{_error_zh(detail)}。",
        "Change what stands in the repository, or upload the folder instead: code with a path.",
        "请修改仓库内容，或改为上传目录（code 的 path）。",
    ),
    _end(
        "task_failed",
        lambda detail: f"Too many tasks of role {detail['role']} failed." if detail.get("role") else "Too many tasks failed.",
        lambda detail: f"角色 {detail.get('role', '')} 失败的任务过多。",
    ),
    _end(
        "role_succeeded",
        lambda detail: f"Enough tasks of role {detail['role']} succeeded." if detail.get("role") else "Enough tasks succeeded.",
        lambda detail: f"角色 {detail.get('role', '')} 成功的任务已足够。",
    ),
    _end("all_tasks_ended", _fixed("All tasks have ended."), _fixed("所有任务均已结束。")),
    _end(
        "nothing_succeeded",
        _fixed("All tasks have ended, and none that counts succeeded."),
        _fixed("所有任务均已结束，且无一成功。"),
    ),
    _end(
        "attempts_exhausted",
        lambda detail: f"It had {detail.get('attempts', '?')} attempts, the most that any job gets.",
        lambda detail: f"已尝试 {detail.get('attempts', '?')} 次，达到上限。",
        "Find the cause before you rerun it.",
        "请先查明原因再重跑。",
    ),
    _end(
        "retries_exhausted",
        _exhausted,
        _exhausted_zh,
        "Raise retry.limit if another attempt has a chance.",
        "如值得再试，请提高 retry.limit。",
    ),
    _end(
        "retry_not_asked",
        lambda detail: f"Failures of class {detail.get('class', '?')} are tried again only if the job asks for it.",
        lambda detail: f"{_class_zh(detail.get('class', '?'))}类失败仅在作业要求时重试。".strip(),
        "Set retry: {limit: 3} to have it tried again.",
        "设置 retry: {limit: 3} 可自动重试。",
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in _ALL}
