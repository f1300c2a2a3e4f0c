"""The command line on why a job waits and what if: what a person reads, and what is sent."""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from client_stub import NOON, a_job

NONE = {"jobs": [], "more": 0, "others": 0}
JOB = {"id": "0198c000-0000-7000-8000-000000000001", "name": "train"}
CONDITION = {
    "code": "no_room", "text": "Pool a100 has room for 0 of its 1 task: too few GPUs free on 4.", "own": False,
    "instead": False, "pool": "a100", "queue": None, "resource": None, "need": 1, "held": 0, "limit": 0, "kept": 0, "fitting": 0,
    "until": None, "filters": [], "jobs": [], "jobs_count": 0,
    "held_by": [
        {"queue": {"id": "q", "name": "vision"}, "cpu_millis": 4000, "memory_bytes": 1 << 30, "gpu_millis": 8000, "jobs": 2,
         "since": NOON, "standing": "borrowed", "kept": False},
        {"queue": None, "cpu_millis": 0, "memory_bytes": 0, "gpu_millis": 24_000, "jobs": 3, "since": NOON,
         "standing": "guaranteed", "kept": False},
    ],
}  # fmt: skip
EXPLAINED = {
    "job": JOB, "state": "queued", "at": NOON,
    "reason": {"code": "no_room", "text": "Too little room.", "hint": "", "detail": {}},
    "starts": False, "conditions": [CONDITION],
    "place": {"in_queue": 2, "queue_length": 5, "in_pool": 9, "pool_length": 40},
    "factors": {"priority": 500, "priority_seconds": 108_000, "waited_seconds": 3600, "order_seconds": 0, "queues": [
        {"queue": {"id": "q", "name": "vision"}, "is_owed": True, "share": 125_000_000, "share_now": 0},
        {"queue": {"id": "r", "name": "speech"}, "is_owed": False, "share": 250_000_000, "share_now": 500_000_000}]},
    "suggestions": [{"kind": "end_own", "text": "End job own, which holds 8 GPUs.", "starts_now": True,
                     "changes": [{"end": {"job": "own"}}], "evicts": [], "evicts_count": 0}],
    "decisions": [{"id": "d", "at": NOON, "kind": "refuse", "pool": "a100", "detail": {"reason": {"code": "no_room"}}}],
}  # fmt: skip


def answer(stub: Any, line: str, body: Any) -> None:
    stub.faults.append((line, httpx2.Response(200, json=body)))


def test_a_wait_is_explained_with_who_holds_what_and_what_would_help(run: Any, stub: Any) -> None:
    answer(stub, "GET /jobs/train/explain", EXPLAINED)
    found = run("explain", "train").stdout
    for text in (
        "2 of 5 in its queue, 9 of 40 among jobs for the same pools",
        "priority 500, equal to",
        "queue vision holds less than it deserves and comes first",
        "queue speech holds 50% of its pool by weight",
        "too few GPUs free on 4",
        "other tenants",
        "24 GPU",
        "- End job own, which holds 8 GPUs.",
        "refuse",
    ):
        assert text in found, found


WAIT = {"code": "unschedulable", "text": "The cluster's scheduler finds no node for it.", "detail": "0/3 nodes", "since": NOON}


def test_a_job_that_starts_says_what_its_tasks_wait_for_and_quotes_the_cluster(run: Any, stub: Any) -> None:
    starting = [{**WAIT, "tasks": ["worker-0", "worker-1"], "tasks_count": 5}]
    plainly = {**EXPLAINED, "conditions": [], "suggestions": [], "decisions": [], "place": None, "factors": None}
    answer(stub, "GET /jobs/train/explain", {**plainly, "state": "starting", "starting": starting})
    found = " ".join(run("explain", "train").stdout.split())
    assert "worker-0, worker-1, and 3 more: The cluster's scheduler finds no node for it. “0/3 nodes” (for " in found


def test_the_table_of_tasks_says_what_they_wait_for(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "starting") | {"attempt": 1}]
    task = {"role": "worker", "index": 0, "state": "pending", "node": None, "gpus": [], "exit": None, "started_at": None}
    answer(stub, "GET /jobs/[^/]*/tasks", {"items": [{**task, "waiting": WAIT}], "next": None})
    assert "finds no node for it. “0/3 nodes”" in " ".join(run("get", "train").stdout.split())


def test_a_job_shows_how_far_its_tasks_are_and_which_are_far_behind(run: Any, stub: Any) -> None:
    progress = {"done": 840, "total": 1000, "at": NOON}
    stub.jobs = [a_job("train", "running") | {"attempt": 1, "progress": {"done": 1679, "total": 4000, "at": NOON}}]
    task = {"role": "worker", "state": "running", "node": "node-1", "gpus": [], "exit": None, "started_at": NOON}
    slow = {"progress": {**progress, "done": 199}, "straggler": {"behind_percent": 64, "median_percent": 84}}
    tasks = [task | {"index": 0, "progress": progress, "straggler": None}, task | {"index": 1, **slow}]
    answer(stub, "GET /jobs/[^/]*/tasks", {"items": tasks, "next": None})
    shown = run("get", "train").stdout
    assert re.search(r"^Progress +1679/4000 \(41 %\)$", shown, re.MULTILINE)
    assert re.search(r"worker-0 .* 840/1000 \(84 %\)", shown)
    assert re.search(r"worker-1 .* 199/1000 \(19 %\), 64 points behind \(median 84 %\)", shown)
    assert "not stopped. Compare their nodes, logs and use: berth logs train --role worker --index 1" in shown
    answer(stub, "GET /jobs/[^/]*/tasks", {"items": tasks, "next": None})
    assert "199/1000 (19 %)，落后中位数（84%）64 个百分点" in run("get", "train", env={"BERTH_LANG": "zh"}).stdout


def test_a_job_whose_tasks_say_no_progress_shows_none(run: Any, stub: Any) -> None:
    stub.jobs = [a_job("train", "running") | {"attempt": 1, "progress": None}]
    task = {"role": "worker", "index": 0, "state": "running", "node": None, "gpus": [], "exit": None, "started_at": NOON}
    for row in (task, task | {"progress": None, "straggler": None}):  # A server of the release before knows of none.
        answer(stub, "GET /jobs/[^/]*/tasks", {"items": [row], "next": None})
        assert "progress" not in run("get", "train").stdout.lower()


@pytest.mark.parametrize(
    ("expected", "english", "chinese"),
    [
        ({"p90_at": NOON, "reason": "uncertain"}, "no 50 % time: too uncertain", "不给出 50% 的时间"),
        ({"p90_at": NOON, "reason": "little_history"}, "no 50 % time: too few jobs have ended", "已结束的作业太少"),
        ({"reason": "little_history"}, "too few jobs have ended to predict run times", "无法预测运行时间"),
        ({"reason": "unknown_ends"}, "no similar job has ended yet", "尚无类似的作业结束"),
        ({"reason": "not_yet", "known_by": NOON}, "not predicted yet; prediction by", "尚未预测"),
        ({"reason": "passes"}, "beyond the planning horizon", "超出预测范围"),
        ({"reason": "too_many"}, "too many jobs are queued or running", "等待或运行的作业过多"),
        ({"p50_at": NOON, "p90_at": NOON, "error": 0.24}, "median error: 24% of the wait", "误差中位数：等待时间的 24%"),
    ],
)
def test_what_cannot_be_known_of_a_start_is_said_in_words(
    run: Any, stub: Any, expected: dict[str, Any], english: str, chinese: str
) -> None:
    nothing = {"p50_at": None, "p90_at": None, "said_at": NOON, "reason": "", "was_by": None, "error": None}
    past = {"predictions": 0, "by_p90": None, "median_error_seconds": None}
    for env, words in (({"BERTH_LANG": "en"}, english), ({"BERTH_LANG": "zh_CN.UTF-8"}, chinese)):
        answer(stub, "GET /jobs/train/explain", {**EXPLAINED, "expected": {**nothing, "past": past, **expected}})
        assert words in " ".join(run("explain", "train", env=env).stdout.split())


def test_a_reason_that_has_gone_is_told_with_its_time_and_the_way_that_the_scheduler_named_comes_first(
    run: Any, stub: Any
) -> None:
    later = {**CONDITION, "code": "too_young", "text": "It may preempt jobs later.", "instead": True, "held_by": []}
    reason = {**EXPLAINED["reason"], "found_at": NOON}
    body = {**EXPLAINED, "reason": reason, "now": {**reason, "text": "A ceiling."}, "conditions": [later, CONDITION]}
    answer(stub, "GET /jobs/train/explain", body)
    told = run("explain", "train").stdout
    assert re.search(r"Now +A ceiling\. The reason above is of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d", told), told
    first, second = told.index("What is missing\n  It may preempt"), told.index("Or as soon as\n  Pool a100 has room for 0")
    assert first < second
    answer(stub, "GET /jobs/train/explain", body)
    assert "以上原因得于" in run("explain", "train", env={"BERTH_LANG": "zh_CN.UTF-8"}).stdout


def test_one_who_runs_reads_why_there_and_not_elsewhere(run: Any, stub: Any) -> None:
    rows = [
        {"machine": "n1", "total": 900, "terms": [["pack", 9, 100]]},
        {"machine": "n2", "total": 700, "terms": [["pack", 7, 100]]},
    ]
    filters = [{"code": "gpu", "machines": 5, "text": "too few GPUs free"}]
    detail = {
        "nodes": ["n1"], "candidates": 12, "standing": "deserved", "policy": "v1",
        "roles": [{"role": "worker", "filters": filters}],
        "scores": [{"role": "worker", "rows": rows}],
    }  # fmt: skip
    start = {"id": "d", "at": NOON, "kind": "wait_turned_start", "pool": "a100", "detail": detail}
    quiet = {"conditions": [], "suggestions": [], "place": None, "factors": None, "reason": None, "decisions": [start]}
    answer(stub, "GET /jobs/train/explain", {**EXPLAINED, **quiet, "state": "running"})
    found = run("explain", "train").stdout
    for text in (
        "started after waiting",
        "12 in the pool",
        "5 excluded: too few GPUs free",
        "PACK",
        "n2",
        "700",
        "deserved",
    ):
        assert text in found, found


def test_programs_get_the_answer_as_it_is(run: Any, stub: Any) -> None:
    answer(stub, "GET /jobs/train/explain", EXPLAINED)
    assert json.loads(run("explain", "train", "--quick", "--json").stdout) == EXPLAINED


def test_a_change_file_is_sent_and_its_consequences_are_told(run: Any, stub: Any, tmp_path: Path) -> None:
    starts = {"jobs": [{"job": JOB, "pool": "a100", "nodes": ["n1"], "reason": None, "evicts": 0}], "more": 1, "others": 2}
    counts = {"starts": 4, "waits": 1, "evicted": 0}
    lists = dict.fromkeys(("starts_not", "waits", "evicted", "spared", "displaced"), NONE)
    answer(stub, "POST /what-if", {"before": counts, "after": counts, "starts": starts, **lists})
    file = tmp_path / "change.yaml"
    file.write_text("changes:\n- end: {job: own}\n")
    found = run("what-if", "-f", str(file))
    assert "Would start" in found.stdout
    assert "and 1 more" in found.stdout
    assert "and 2 of other tenants" in found.stdout
    assert "4 start, 1 wait, 0 are preempted" in found.stdout


def test_a_time_without_quotes_in_a_change_file_is_sent_as_text(run: Any, stub: Any, tmp_path: Path) -> None:
    counts = {"starts": 0, "waits": 0, "evicted": 0}
    lists = dict.fromkeys(("starts", "starts_not", "waits", "evicted", "spared", "displaced"), NONE)
    answer(stub, "POST /what-if", {"before": counts, "after": counts, **lists})
    file = tmp_path / "change.yaml"
    file.write_text("- reserve: {queue: speech, pool: a100, gpu: 2, ends_at: 2026-11-28T00:00:00Z}\n")
    assert run("what-if", "-f", str(file)).exit_code == 0
    [change] = json.loads(stub.requests[-1].content)["changes"]
    assert change["reserve"]["ends_at"] == "2026-11-28T00:00:00+00:00"


@pytest.mark.parametrize("text", ["- 1", "changes: 3", "{", "just words"])
def test_a_file_that_holds_no_changes_is_a_mistake_of_usage(run: Any, stub: Any, tmp_path: Path, text: str) -> None:
    file = tmp_path / "change.yaml"
    file.write_text(text)
    assert run("what-if", "-f", str(file)).exit_code == 2
    assert run("what-if", "-f", str(tmp_path / "none.yaml")).exit_code == 2


def test_times_in_the_servers_sentences_are_on_the_clock_of_the_reader(run: Any, stub: Any) -> None:
    words = "There is room, but it is reserved from 2026-11-23 14:05 UTC on for another job."
    answer(stub, "GET /jobs/train/explain", {**EXPLAINED, "conditions": [{**EXPLAINED["conditions"][0], "text": words}]})
    before = os.environ.get("TZ")
    try:
        os.environ["TZ"] = "Asia/Shanghai"
        time.tzset()
        told = " ".join(run("explain", "train").stdout.split())
    finally:
        os.environ.pop("TZ") if before is None else os.environ.__setitem__("TZ", before)
        time.tzset()
    assert "There is room, but it is reserved from 2026-11-23 22:05+08:00 on" in told
