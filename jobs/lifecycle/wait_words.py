"""Sentences of waits that are too long for the catalogue (`wait_reasons.py`), which says for which reason each of them is.

The first half is what a job shows, with the amounts that are stored with it. The second half is what `berth explain` tells of
each condition, with all numbers; names that its reader may not know are not in its document.
"""

from __future__ import annotations

from collections.abc import Mapping

from jobs.lifecycle.exits import find_class
from jobs.lifecycle.filter_words import FilterCode, filter_text
from jobs.lifecycle.phrases import (
    amount,
    amounts,
    are,
    capital,
    capped,
    count,
    moment,
    named,
    named_zh,
    other_job,
    other_job_zh,
    plural,
    pool,
    pool_zh,
    state_zh,
    told_job,
)
from kernel.words import NOTHING, Detail, Sentence, Text, counted, format_amounts, format_bytes, format_duration, format_moment

FILTERS_SHOWN = 4  # In a sentence.

# --- What a job shows -------------------------------------------------------------------------------------------------


def _dependency(d: Detail) -> str:
    number = d.get("open")
    return (
        f"It waits for {counted(number, 'other job', 'other jobs')}." if isinstance(number, int) else "It waits for other jobs."
    )


DEPENDENCY = Text(_dependency, lambda d: f"等待 {d.get('open', '?')} 个其他作业。")


def _volume_place(d: Detail) -> str:
    volume = capital(named(d, "volume", "volume"))
    if d.get("kind") == "nfs":
        return f"{volume} is on the NFS server {d.get('server') or '?'}, which the nodes of {pool(d)} do not mount."
    if d.get("kind") != "claim":
        return f"{volume} is a directory of the platform's host, which the nodes of {pool(d)} do not have."
    if d.get("cluster"):
        return f"{volume} is a claim in cluster {d['cluster']}, and {pool(d)} is in another."
    return f"{volume} is a claim that the cluster of {pool(d)} is to make, and it has no storage class."


def _volume_place_zh(d: Detail) -> str:
    volume = named_zh(d, "volume", "存储卷")
    if d.get("kind") == "nfs":
        return f"{volume}位于 NFS 服务器 {d.get('server') or '?'}，{pool_zh(d)}的节点不挂载该服务器。"
    if d.get("kind") != "claim":
        return f"{volume}是平台主机上的目录，{pool_zh(d)}的节点上没有。"
    if d.get("cluster"):
        return f"{volume}是集群 {d['cluster']} 中的存储声明，{pool_zh(d)}属于另一集群。"
    return f"{volume}须由{pool_zh(d)}所属集群创建存储声明，而该集群没有存储类。"


VOLUME_PLACE = Text(_volume_place, _volume_place_zh)


def _retrying(d: Detail) -> str:
    number, seconds, cause = d.get("attempt"), d.get("seconds"), str(d.get("class", ""))
    what = f"Attempt {number} ended" if number else "The last attempt ended"
    ended = find_class(cause)
    why = f" ({ended.title.en.lower()})" if ended else ""
    if d.get("emptied"):
        why = f" because {named(d, 'emptied', 'node')} was drained"
    when = f"after {format_duration(seconds)}" if isinstance(seconds, int) and seconds > 0 else "as soon as there is room"
    if d.get("failures"):
        when += f", since {d['failures']} attempts failed within {format_duration(int(d.get('within') or 0))}"
    if d.get("at"):
        when += f": at {format_moment(d['at'])}, or by `berth retry-now`"
    return f"{what}{why}; the next one starts {when}."


def _retrying_zh(d: Detail) -> str:
    number, seconds, cause = d.get("attempt"), d.get("seconds"), str(d.get("class", ""))
    what = f"第 {number} 次尝试已结束" if number else "上一次尝试已结束"
    ended = find_class(cause)
    why = f"（{ended.title.zh}）" if ended else ""
    if d.get("emptied"):
        why = f"（{named_zh(d, 'emptied', '节点')}已排空）"
    when = f"{format_duration(seconds)} 后重试" if isinstance(seconds, int) and seconds > 0 else "有空位即重试"
    if d.get("failures"):
        when = f"{format_duration(int(d.get('within') or 0))} 内失败 {d['failures']} 次，{when}"
    if d.get("at"):
        when += f"：{format_moment(d['at'])}，或用 `berth retry-now` 立即重试"
    return f"{what}{why}，{when}。"


RETRYING = Text(_retrying, _retrying_zh)


def longer(d: Detail) -> str:
    """How long files with holes are, where that is more than they hold."""
    return f" (its files are {format_bytes(d['length_bytes'])} long)" if d.get("length_bytes", 0) > d.get("size_bytes", 0) else ""


def longer_zh(d: Detail) -> str:
    return f"（文件长度共 {format_bytes(d['length_bytes'])}）" if d.get("length_bytes", 0) > d.get("size_bytes", 0) else ""


def spent_part(d: Detail) -> str:
    """How much of a budget is gone, where there is an amount to divide by."""
    whole, spent = d.get("amount"), d.get("spent")
    return f" ({spent * 100 // whole} %)" if isinstance(whole, int) and isinstance(spent, int) and whole > 0 else ""


def _no_pool(d: Detail) -> str:
    if d.get("pool"):
        return f"There is no pool {d['pool']}."
    return f"There is no cluster {d['cluster']}." if d.get("cluster") else "There is no pool to run it in."


def _no_pool_zh(d: Detail) -> str:
    if d.get("pool"):
        return f"没有资源池 {d['pool']}。"
    return f"没有集群 {d['cluster']}。" if d.get("cluster") else "没有可用的资源池。"


NO_POOL = Text(_no_pool, _no_pool_zh)


def asked_labels(d: Detail) -> str:
    labels = d.get("labels")
    if not isinstance(labels, Mapping) or not labels:
        return "?"
    return ", ".join(f"{name}={'|'.join(str(value) for value in values)}" for name, values in labels.items())


def blocked(d: Detail) -> str:
    """What the nodes themselves say, as it was written down: the words of an operator who cordoned one are among them."""
    why = d.get("why")
    return f" {' '.join(str(cause) for cause in why)}" if isinstance(why, (list, tuple)) and why else ""


MOVING = Text(
    lambda d: f"It migrates to other nodes of {pool(d)} so that a larger job can start; its new place is reserved.",
    lambda d: f"正迁移到{pool_zh(d)}的其他节点，以便更大的作业启动；新位置已预留。",
)


def _ceiling(d: Detail) -> str:
    return (
        f"It needs {amount(d, 'need')}; {named(d, 'queue', 'queue')} uses {amount(d, 'used')} of the {amount(d, 'ceiling')} "
        f"that it may use in {pool(d)}."
    )


def _ceiling_zh(d: Detail) -> str:
    used, ceiling = amount(d, "used", "zh"), amount(d, "ceiling", "zh")
    return f"需要 {amount(d, 'need', 'zh')}；{named_zh(d, 'queue', '队列')}在{pool_zh(d)}的上限为 {ceiling}，已用 {used}。"


CEILING = Text(_ceiling, _ceiling_zh)


def _making_room(d: Detail) -> str:
    told = f"{plural(d, 'jobs', 'running job is', 'running jobs are')} being preempted for it"
    if d.get("at"):
        told += f", and it starts by {moment(d, 'at', '?')} at the latest"
    if not d.get("moving"):
        return f"{told}."
    return f"{told}; {counted(d['moving'], 'of them migrates', 'of them migrate')} to other nodes."


def _making_room_zh(d: Detail) -> str:
    told = f"正在为其抢占 {d.get('jobs', '?')} 个运行中的作业"
    if d.get("at"):
        told += f"，最迟于 {moment(d, 'at', '?')} 启动"
    return f"{told}；其中 {d['moving']} 个迁移到其他节点。" if d.get("moving") else f"{told}。"


MAKING_ROOM = Text(_making_room, _making_room_zh)


def _no_room(d: Detail) -> str:
    need, free, missing = amounts(d, "need"), _free(d, "en"), _shortage(d, "en")
    more = "".join(f" {sentence}" for sentence in _left_out(d, "en"))
    if missing in {"", NOTHING.en} and "shared_devices_max" in d:
        most = plural(d, "shared_devices_max", "GPU", "GPUs")
        return (
            f"It needs {need}; {pool(d)} has {free} free, but may share {most} at most, and the GPUs that are shared already "
            f"have no room for its tasks.{more}"
        )
    if missing in {"", NOTHING.en}:
        return f"It needs {need}; {pool(d)} has {free} free, but too fragmented for its tasks.{more}"
    holder = told_job(d, "holder")
    if holder is not None:
        need, free = _lacked(d, "en")
        return f"It needs {need}; {pool(d)} has {free} free; {_holds(holder, missing)}.{more}"
    return f"It needs {need}; {pool(d)} has {free} free, so {missing} {are(missing)} missing.{more}"


def _no_room_zh(d: Detail) -> str:
    need, free, missing = amounts(d, "need", "zh"), _free(d, "zh"), _shortage(d, "zh")
    more = "".join(_left_out(d, "zh"))
    if missing in {"", NOTHING.zh} and "shared_devices_max" in d:
        most = count(d, "shared_devices_max")
        return f"需要 {need}；{pool_zh(d)}空闲 {free}，但最多共享 {most} 块 GPU，已共享的 GPU 放不下其任务。{more}"
    if missing in {"", NOTHING.zh}:
        return f"需要 {need}；{pool_zh(d)}空闲 {free}，但分散在各节点，放不下其任务。{more}"
    holder = told_job(d, "holder")
    if holder is not None:
        need, free = _lacked(d, "zh")
        return f"需要 {need}；{pool_zh(d)}空闲 {free}；{_holds_zh(holder, missing)}。{more}"
    return f"需要 {need}；{pool_zh(d)}空闲 {free}，还缺 {missing}。{more}"


NO_ROOM = Text(_no_room, _no_room_zh)


def _holds(holder: Detail, missing: str) -> str:
    """`job train (bob) holds the missing 2 GPUs until 2026-11-23 14:05 UTC at the latest`."""
    if not holder.get("is_alone"):
        return f"{other_job(holder)} and others hold the missing {missing}"
    until = f" until {format_moment(holder['until'], up=True)} at the latest" if holder.get("until") else ""
    return f"{other_job(holder)} holds the missing {missing}{until}"


def _holds_zh(holder: Detail, missing: str) -> str:
    if not holder.get("is_alone"):
        return f"所缺的 {missing} 由{other_job_zh(holder)}等占用"
    until = f"，最迟至 {format_moment(holder['until'], up=True)}" if holder.get("until") else ""
    return f"所缺的 {missing} 由{other_job_zh(holder)}占用{until}"


def _free(d: Detail, language: str) -> str:
    """What is free, with 0 of what is needed and of which there is none."""
    need, free = d.get("need"), d.get("free")
    if not isinstance(need, Mapping) or not isinstance(free, Mapping):
        return amounts(d, "free", language)
    return format_amounts(free, language, also=[name for name, wanted in need.items() if wanted])


def _lacked(d: Detail, language: str) -> tuple[str, str]:
    """What is needed and what is free of that of which there is too little."""
    lacked = [name for name, wanted in d["need"].items() if wanted > d["free"].get(name, 0)]
    needs, free = ({name: d[key].get(name, 0) for name in lacked} for key in ("need", "free"))
    return format_amounts(needs, language), format_amounts(free, language, also=lacked)


def _shortage(d: Detail, language: str) -> str:
    """What is missing, resource by resource, of `need` beyond `free`."""
    need, free = d.get("need"), d.get("free")
    if not isinstance(need, Mapping) or not isinstance(free, Mapping):
        return ""
    return format_amounts({name: max(0, wanted - free.get(name, 0)) for name, wanted in need.items()}, language)


_LEFT_OUT: Mapping[FilterCode, Sentence] = {
    FilterCode.LABEL: Text(
        lambda d: f"{counted(d['count'], 'of its nodes lacks', 'of its nodes lack')} a label that it requests.",
        lambda d: f"其中 {d['count']} 个节点缺少所要求的标签。",
    ),
    FilterCode.TAINT: Text(
        lambda d: f"{counted(d['count'], 'of its nodes has', 'of its nodes have')} a taint that it does not tolerate.",
        lambda d: f"其中 {d['count']} 个节点带有其不容忍的污点。",
    ),
}


def _left_out(d: Detail, language: str) -> list[str]:
    """How many nodes of the pool have room that the job cannot use, by the label or taint that excludes it."""
    counts = d.get("left_out")
    if not isinstance(counts, Mapping):
        return []
    return [words.in_language(language)({"count": counts[code]}) for code, words in _LEFT_OUT.items() if code in counts]


def _children(d: Detail) -> str:
    parts = [f"{number} {state}" for state, number in d.items() if isinstance(number, int) and number]
    return f"Its children: {', '.join(parts)}." if parts else "Its state follows from its children."


def _children_zh(d: Detail) -> str:
    parts = [f"{state_zh(state)} {number}" for state, number in d.items() if isinstance(number, int) and number]
    return f"子作业：{'、'.join(parts)}。" if parts else "状态由其子作业决定。"


CHILDREN = Text(_children, _children_zh)
USER_CAP = Text(
    lambda d: f"Its user has {capped(d, 'used')} of at most {capped(d, 'limit')} at once; it needs {capped(d, 'need')}.",
    lambda d: (
        f"该用户已用 {capped(d, 'used', 'zh')}，单个用户上限为 {capped(d, 'limit', 'zh')}，本作业需要 {capped(d, 'need', 'zh')}。"
    ),
)
TENANT_CAP = Text(
    lambda d: (
        f"The users of its tenant together have {capped(d, 'used')} of at most {capped(d, 'limit')} at once; "
        f"it needs {capped(d, 'need')}."
    ),
    lambda d: (
        f"该租户共已用 {capped(d, 'used', 'zh')}，全体用户合计上限为 {capped(d, 'limit', 'zh')}，"
        f"本作业需要 {capped(d, 'need', 'zh')}。"
    ),
)
BOOKED_FOR_A_TIME = Text(
    lambda d: (
        f"It needs {amount(d, 'need')}; {amount(d, 'kept')} of {pool(d)} "
        f"{are(amount(d, 'kept'))} booked from {moment(d, 'from', 'a time')} until "
        f"{moment(d, 'until', 'another')}."
    ),
    lambda d: (
        f"需要 {amount(d, 'need', 'zh')}；{pool_zh(d)}的 {amount(d, 'kept', 'zh')} "
        f"在 {moment(d, 'from', '?')} 至 {moment(d, 'until', '?')} 期间已被预订。"
    ),
)


def _kept_for(d: Detail) -> str:
    """`job train (bob), which needs 4 GPUs`."""
    found = told_job(d, "kept_for")
    if found is None:
        return "an earlier job"
    return f"{other_job(found)}, which needs {format_amounts(_leading(found.get('need') or {}))}"


def _kept_for_zh(d: Detail) -> str:
    found = told_job(d, "kept_for")
    if found is None:
        return "更早的作业"
    return f"需要 {format_amounts(_leading(found.get('need') or {}), 'zh')} 的{other_job_zh(found)}"


def _leading(needs: Mapping[str, int]) -> Mapping[str, int]:
    """Of a job with GPUs these say enough."""
    return {"gpu_millis": needs["gpu_millis"]} if needs.get("gpu_millis") else needs


KEPT_FROM_THEN = Text(
    lambda d: (
        f"Kept for {_kept_for(d)}: {pool(d)} has room, but that job has a reserved start there at "
        f"{moment(d, 'at', 'a later time')}, and this job may still be running then."
    ),
    lambda d: (
        f"为{_kept_for_zh(d)}保留：{pool_zh(d)}有空位，但该作业已预留于 {moment(d, 'at', '稍后')} 在此启动，"
        "本作业届时可能仍在运行。"
    ),
)
BEHIND = Text(
    lambda d: (
        f"It waits behind {_kept_for(d)}: that job has passed the starvation guard, or {named(d, 'queue', 'queue')} is strictly "
        "ordered, so no later job starts before it."
    ),
    lambda d: (
        f"排在{_kept_for_zh(d)}之后：该作业已达防饥饿时限，或{named_zh(d, 'queue', '队列')}严格按序，之后的作业不会先于它启动。"
    ),
)


# --- What `berth explain` tells ---------------------------------------------------------------------------------------


def told_queue(d: Detail) -> str:
    return f"queue {d['queue']}" if d.get("queue") else "a queue above"


def told_queue_zh(d: Detail) -> str:
    return f"队列 {d['queue']} " if d.get("queue") else "上级队列"


def told_pool_zh(d: Detail) -> str:
    return f"资源池 {d['pool']} " if d.get("pool") else "资源池"


def filters(d: Detail) -> str:
    """What keeps tasks out of how many nodes, most nodes first, and the full stop."""
    parts = [f"{why} on {machines}" for why, machines in _filters(d, "en")]
    return f": {', '.join(parts)}." if parts else "."


def filters_zh(d: Detail) -> str:
    parts = [f"{machines} 个节点{why}" for why, machines in _filters(d, "zh")]
    return f"：{'，'.join(parts)}。" if parts else "。"


def _filters(d: Detail, language: str) -> list[tuple[str, object]]:
    rows = [row for row in d.get("filters") or () if isinstance(row, Mapping)]
    rows.sort(key=lambda row: -int(row.get("machines", 0)))
    return [(filter_text(str(row.get("code", "")), language), row.get("machines", "?")) for row in rows[:FILTERS_SHOWN]]


def _when(d: Detail, *, up: bool = False) -> str:
    return format_moment(d.get("until"), up=up)


def _over_ceiling(d: Detail) -> str:
    kept = f", with {amount(d, 'kept')} of that reserved for its child queues" if d.get("kept") else ""
    return (
        f"It needs {amount(d, 'need')} in {pool(d)}; {told_queue(d)} holds {amount(d, 'held')} of the "
        f"{amount(d, 'limit')} that it may hold{kept}."
    )


def _over_ceiling_zh(d: Detail) -> str:
    kept = f"（其中 {amount(d, 'kept', 'zh')} 为下级队列保留）" if d.get("kept") else ""
    return (
        f"在{told_pool_zh(d)}需要 {amount(d, 'need', 'zh')}；{told_queue_zh(d)}上限 {amount(d, 'limit', 'zh')}，"
        f"已用 {amount(d, 'held', 'zh')}{kept}。"
    )


OVER_CEILING = Text(_over_ceiling, _over_ceiling_zh)


def _withheld(d: Detail) -> str:
    have, held, kept = (amount(d, key) for key in ("limit", "held", "kept"))
    return (
        f"It needs {amount(d, 'need')}; of the {have} of {pool(d)}, {held} {are(held)} held or guaranteed, and {kept} of that "
        f"{are(kept)} idle but guaranteed to other queues."
    )


def _withheld_zh(d: Detail) -> str:
    return (
        f"需要 {amount(d, 'need', 'zh')}；{told_pool_zh(d)}共 {amount(d, 'limit', 'zh')}，"
        f"已占用或保障 {amount(d, 'held', 'zh')}，其中 {amount(d, 'kept', 'zh')} 空闲但已保障给其他队列。"
    )


WITHHELD = Text(_withheld, _withheld_zh)


def _used_up(d: Detail) -> str:
    held = amount(d, "held")
    return f"It needs {amount(d, 'need')}; of the {amount(d, 'limit')} of {pool(d)}, {held} {are(held)} held."


def _used_up_zh(d: Detail) -> str:
    have, held = amount(d, "limit", "zh"), amount(d, "held", "zh")
    return f"需要 {amount(d, 'need', 'zh')}；{told_pool_zh(d)}共 {have}，已占用 {held}。"


USED_UP = Text(_used_up, _used_up_zh)

TOO_FEW_FIT = Text(
    lambda d: f"{capital(pool(d))} has room for {d.get('fitting') or 0} of its {plural(d, 'need', 'task', 'tasks')}{filters(d)}",
    lambda d: f"{told_pool_zh(d)}目前只能放下 {count(d, 'need')} 个任务中的 {d.get('fitting') or 0} 个{filters_zh(d)}",
)
NONE_FITS = Text(
    lambda d: f"No node of {pool(d)} fits one of its tasks, even when empty{filters(d)}",
    lambda d: f"{told_pool_zh(d)}中没有节点能容纳其任务，即使节点全空{filters_zh(d)}",
)
TOO_FEW_FIT_TOGETHER = Text(
    lambda d: (
        f"{capital(pool(d))} has room, but not close enough together: one place fits "
        f"{count(d, 'fitting')} of its {plural(d, 'need', 'task', 'tasks')}."
    ),
    lambda d: f"{told_pool_zh(d)}有空位但不够集中：同一处最多放下 {count(d, 'need')} 个任务中的 {count(d, 'fitting')} 个。",
)
TAKES_BACK_LATER = Text(
    lambda d: f"It may preempt jobs from {_when(d, up=True)} on; until then they have not reached the least run time.",
    lambda d: f"自 {_when(d, up=True)} 起可抢占作业；此前这些作业未达最短运行时间。",
)
TOO_MANY_EVICTED = Text(
    lambda d: f"Preemption limit: too many jobs were preempted recently; preemption continues from {_when(d, up=True)} on.",
    lambda d: f"抢占上限：近期抢占过多；自 {_when(d, up=True)} 起恢复抢占。",
)
BEING_CLEARED = Text(
    lambda d: (
        f"{plural(d, 'need', 'job is', 'jobs are')} being preempted for it; it starts after their end."
        + (f" {counted(d['held'], 'of them migrates', 'of them migrate')} to other nodes." if d.get("held") else "")
    ),
    lambda d: (
        f"正在为其抢占 {count(d, 'need')} 个作业，待其退出后启动。"
        + (f"其中 {count(d, 'held')} 个迁移到其他节点。" if d.get("held") else "")
    ),
)


def as_shown(words: Sentence) -> Sentence:
    """A condition in the words of the reason that a job shows."""
    return Text(lambda d: words.en(_shown(d)), lambda d: words.zh(_shown(d)))


def _shown(d: Detail) -> Detail:
    """The numbers of a condition by the names under which they are stored with a job."""
    found = {**d, "used": d.get("held"), "from": d.get("since"), "at": d.get("until")}
    return {key: value for key, value in found.items() if value is not None}
