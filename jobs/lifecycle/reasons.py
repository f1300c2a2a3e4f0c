"""Why a job waits, moved or ended, in words, in English and Chinese.

A reason is stored as a code and its amounts; the words are made when they are read, by a function per code. Names that
users chose are put into the text as they are and never looked into. A reason with amounts missing still reads as a sentence,
and an unknown code, say of a newer version, shows itself. What a job waits for stands in `wait_reasons.py`.

Other tenants never appear by name: the caller leaves their names out of the amounts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from jobs.lifecycle.exit_classes import ExitClass
from jobs.lifecycle.exits import find_class
from jobs.lifecycle.fetches import FETCH_ENDS
from jobs.lifecycle.phrases import bracketed, bracketed_zh, by, capital, named, named_zh, noted, noted_zh, pool, pool_zh, state_zh
from jobs.lifecycle.wait_reasons import WAITS
from jobs.lifecycle.wait_words import CHILDREN
from kernel.wait_codes import present_code
from kernel.words import NO_HINT, Detail, Sentence, Text, counted, fixed


class ReasonKind(StrEnum):
    WAIT = "wait"  # Why a job is QUEUED.
    MOVE = "move"  # Why it changed its state on its way.
    END = "end"  # Why it ended.


@dataclass(frozen=True, slots=True)
class Reason:
    """A code with its words. The hint says what would change it; empty where nothing needs to."""

    code: str
    kind: ReasonKind
    words: Sentence
    hint: Text[str] = NO_HINT


@dataclass(frozen=True, slots=True)
class ReasonText:
    code: str
    text: str
    hint: str = ""


def explain(code: str, detail: Detail | None = None, language: str = "en") -> ReasonText:
    """The words of a reason. Codes are those of this module, of waits (also by their earlier names) and of the exit
    classification; anything else shows itself."""
    code = present_code(code)
    known = REASONS.get(code)
    if known is not None:
        return ReasonText(code, known.words.in_language(language)(detail or {}), known.hint.in_language(language))
    ended = find_class(code)
    if ended is None:
        return ReasonText(code, code.replace("_", " ").capitalize() + ".")
    return ReasonText(code, _end_words(ended).in_language(language)(detail or {}), ended.remedy.in_language(language))


def _end_words(ended: ExitClass) -> Sentence:
    """Who stopped it, where a user did; else what happened, with what the program itself left."""

    def write(detail: Detail) -> str:
        if detail.get("by"):
            return f"{ended.title.en} by {detail['by']}{noted(detail)}"
        return f"{ended.title.en}{_numbers(detail)}. {ended.reason}"

    def write_zh(detail: Detail) -> str:
        if detail.get("by"):
            return f"{ended.title.zh}（{detail['by']}）{noted_zh(detail)}"
        return f"{ended.title.zh}{_numbers_zh(detail)}。"

    return Text(write, write_zh)


def exit_in(document: Mapping[str, Any] | None, language: str) -> Mapping[str, Any] | None:
    """The stored exit of a job or attempt, its words in the reader's language; what is data stays as it is."""
    known = find_class(str(document.get("class", ""))) if document else None
    if document is None or known is None:
        return document
    told = {
        "reason": known.title.zh,
        "text": f"{known.title.zh}{_numbers_zh(document)}。",
        "hint": known.remedy.zh,
    }
    return Text(document, {**document, **told}).in_language(language)  # English stays as it was stored.


# --- Pieces of sentences ---------------------------------------------------------------------------------------------


def _numbers(detail: Detail) -> str:
    """` (exit code 139, signal 11, task worker-0)`: what the program itself left, as far as it is known and tells anything."""
    parts = [f"{noun.en} {detail[key]}" for key, noun in _NUMBERS if detail.get(key)]
    return f" ({', '.join(parts)})" if parts else ""


def _numbers_zh(detail: Detail) -> str:
    parts = [f"{noun.zh} {detail[key]}" for key, noun in _NUMBERS if detail.get(key)]
    return f"（{'，'.join(parts)}）" if parts else ""


_NUMBERS = (("code", Text("exit code", "退出码")), ("signal", Text("signal", "信号")), ("task", Text("task", "任务")))


def _never_met(detail: Detail) -> str:
    name, state = detail.get("name"), detail.get("state")
    if not name:
        return "A job that it depends on did not end as required, so it can never start."
    return f"It waited for job {name}, which {'was stopped' if state == 'stopped' else 'failed'}, so it can never start."


def _never_met_zh(detail: Detail) -> str:
    name, state = detail.get("name"), detail.get("state")
    if not name:
        return "所依赖的作业未按要求结束，本作业无法启动。"
    return f"所依赖的作业 {name} {'已停止' if state == 'stopped' else '失败'}，本作业无法启动。"


def _exhausted(detail: Detail) -> str:
    kind, limit = detail.get("class"), detail.get("limit")
    what = f"failures of class {kind}" if kind else "its failures"
    return (
        f"It was retried {counted(limit, 'time', 'times')} after {what}, the most that is allowed."
        if limit
        else f"No retry is left for {what}."
    )


def _exhausted_zh(detail: Detail) -> str:
    kind, limit = detail.get("class"), detail.get("limit")
    return f"{_class_zh(kind)}{'类' if kind else ''}失败的重试次数（{limit if limit is not None else '?'}）已用完。".strip()


def _mapping(detail: Detail, key: str) -> Detail:
    found = detail.get(key)
    return found if isinstance(found, Mapping) else {}


def _class_zh(code: object) -> str:
    """The name of a class of ends."""
    ended = find_class(str(code or ""))
    return f"“{ended.title.zh}”" if ended is not None else f" {code} " if code else ""


# --- The reasons -----------------------------------------------------------------------------------------------------


def _move(code: str, words: Sentence) -> Reason:
    return Reason(code, ReasonKind.MOVE, words)


def _not_fetched(detail: Detail) -> str:
    cause = FETCH_ENDS.get(str(detail.get("exit")))
    why = f": {cause.en}" if cause else ""
    return f"Its code was not fetched: job {detail.get('name', '?')} ended {detail.get('state', '?')}{why}."


def _not_fetched_zh(detail: Detail) -> str:
    cause = FETCH_ENDS.get(str(detail.get("exit")))
    why = f"：{cause.zh}" if cause else ""
    return f"未能取得代码：作业 {detail.get('name', '?')} 的结果为{state_zh(detail.get('state', '?'))}{why}。"


def _end(code: str, words: Sentence, hint: Text[str] = NO_HINT) -> Reason:
    return Reason(code, ReasonKind.END, words, hint)


_WAITS = (
    Reason(record.code, ReasonKind.WAIT, record.words, record.hint) for record in WAITS.values() if record.words is not None
)
_OTHERS = (
    _move("submitted", by("Submitted", "提交", "user")),
    _move(
        "admitted",
        Text(lambda detail: f"It was placed in {pool(detail)}.", lambda detail: f"已在{pool_zh(detail)}分配资源。"),
    ),
    _move(
        "adopted",
        Text(
            lambda detail: f"Attempt {detail.get('attempt', '?')}, which ran while a backup was restored, was adopted.",
            lambda detail: f"恢复备份期间运行的第 {detail.get('attempt', '?')} 次尝试已由本作业接管。",
        ),
    ),
    _move("launched", fixed("The cluster has accepted it.", "集群已接受。")),
    _move("started", fixed("All its tasks are running.", "所有任务已运行。")),
    _move("completing", fixed("Its outcome is decided; the remaining tasks are being stopped.", "结局已定，正在停止其余任务。")),
    _move(
        "making_way",
        fixed("It is preempted for a job with a prior claim, and requeued.", "因另一作业有优先权而被抢占，已重新排队。"),
    ),
    _move(
        "moving_away",
        fixed(
            "It migrates to other nodes so that a larger job can start; its new place is reserved.",
            "正迁移到其他节点，以便更大的作业启动；新位置已预留。",
        ),
    ),
    _move(
        "evening_out",
        fixed(
            "It is preempted for a queue that holds less by weight, and requeued.",
            "因另一队列按权重占用较少而被抢占，已重新排队。",
        ),
    ),
    _move(
        "draining",
        Text(
            lambda detail: f"{capital(named(detail, 'node', 'node'))} is being drained; the job is requeued.",
            lambda detail: f"{named_zh(detail, 'node', '节点')}正在排空；作业重新排队。",
        ),
    ),
    _move(
        "gpu_fault_stop",
        Text(
            lambda detail: (
                f"A GPU of {named(detail, 'node', 'node')} is faulty{bracketed(detail, 'fault')}; "
                "the job is requeued for other devices."
            ),
            lambda detail: (
                f"{named_zh(detail, 'node', '节点')}的 GPU 出现故障{bracketed_zh(detail, 'fault')}；作业重新排队，改用其他设备。"
            ),
        ),
    ),
    _move("stopping", by("A stop was requested", "请求停止")),
    _move("max_runtime", fixed("It has reached max_runtime and is being stopped.", "已达 max_runtime，正在停止。")),
    _move("dependency_met", fixed("Its dependencies are met.", "依赖已满足。")),
    _move(
        "derived",
        Text(lambda detail: CHILDREN.en(_mapping(detail, "children")), lambda detail: CHILDREN.zh(_mapping(detail, "children"))),
    ),
    _move("code_fetched", fixed("Its code has been fetched.", "代码已取得。")),
    _move("edited", by("Changed", "修改")),
    _move(
        "handed_over",
        Text(
            lambda detail: f"Handed over to {detail.get('to', '?')}{bracketed(detail, 'by')}.",
            lambda detail: f"已移交给 {detail.get('to', '?')}{bracketed_zh(detail, 'by')}。",
        ),
    ),
    _move("released", by("Released", "释放")),
    _end("stopped_before_start", by("Stopped before it started", "在启动前停止")),
    _end("stopped_before_restart", by("Stopped before it started again", "在再次启动前停止")),
    _end(
        "dependency_never_met",
        Text(_never_met, _never_met_zh),
        Text("Rerun the other job, then this job; or use after_any.", "先重跑所依赖的作业；或使用 after_any。"),
    ),
    _end(
        "code_not_fetched",
        Text(
            _not_fetched,
            _not_fetched_zh,
        ),
        Text(
            "The last line of that job's log says which address, ref or secret to change. Then rerun this job.",
            "该作业日志的最后一行说明了需要修改的地址、引用或密钥。修改后请重跑本作业。",
        ),
    ),
    _end(
        "code_unusable",
        Text(
            lambda detail: f"The code that job {detail.get('name', '?')} fetched cannot be used{bracketed(detail, 'error')}.",
            lambda detail: f"作业 {detail.get('name', '?')} 取得的代码无法使用{bracketed_zh(detail, 'error')}。",
        ),
        Text(
            "Change the repository, or upload the folder instead: code with a path.",
            "请修改仓库内容，或改为上传目录（code 的 path）。",
        ),
    ),
    _end(
        "task_failed",
        Text(
            lambda detail: f"Too many tasks of role {detail['role']} failed." if detail.get("role") else "Too many tasks failed.",
            lambda detail: f"角色 {detail['role']} 失败的任务过多。" if detail.get("role") else "失败的任务过多。",
        ),
    ),
    _end(
        "role_succeeded",
        Text(
            lambda detail: (
                f"Enough tasks of role {detail['role']} succeeded." if detail.get("role") else "Enough tasks succeeded."
            ),
            lambda detail: f"角色 {detail['role']} 成功的任务已足够。" if detail.get("role") else "成功的任务已足够。",
        ),
    ),
    _end("all_tasks_ended", fixed("All tasks have ended.", "所有任务均已结束。")),
    _end("nothing_succeeded", fixed("All tasks have ended, and none that counts succeeded.", "所有任务均已结束，且无一成功。")),
    _end(
        "attempts_exhausted",
        Text(
            lambda detail: f"It had {detail.get('attempts', '?')} attempts, the most that a job may have.",
            lambda detail: f"已尝试 {detail.get('attempts', '?')} 次，达到上限。",
        ),
        Text("Find the cause before you rerun it.", "请先查明原因再重跑。"),
    ),
    _end(
        "retries_exhausted",
        Text(_exhausted, _exhausted_zh),
        Text("Raise retry.limit if another attempt has a chance.", "如值得再试，请提高 retry.limit。"),
    ),
    _end(
        "retry_not_asked",
        Text(
            lambda detail: f"Failures of class {detail.get('class', '?')} are retried only if the job requests it.",
            lambda detail: f"{_class_zh(detail.get('class', '?'))}类失败仅在作业要求时重试。".strip(),
        ),
        Text("Set retry: {limit: 3} to have it retried.", "设置 retry: {limit: 3} 可自动重试。"),
    ),
)

REASONS: Mapping[str, Reason] = {reason.code: reason for reason in (*_WAITS, *_OTHERS)}
