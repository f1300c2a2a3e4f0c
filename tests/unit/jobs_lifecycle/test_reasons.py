from __future__ import annotations

import re

import pytest

from jobs.lifecycle.exits import all_classes
from jobs.lifecycle.reasons import REASONS, ReasonKind, exit_in, explain
from jobs.lifecycle.states import JobState
from jobs.lifecycle.unmet import condition_text
from kernel.wait_codes import RENAMED

GIB = 2**30


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("code", REASONS)
def test_every_reason_is_a_sentence_even_without_its_amounts(code, language):
    text = explain(code, {}, language)
    assert text.text.endswith("." if language == "en" else "。")
    assert not re.search(r"[{}]|None", text.text)
    assert not re.search(r"[{}]", text.hint) or "retry:" in text.hint


@pytest.mark.parametrize("code", REASONS)
def test_english_is_english_and_chinese_is_chinese(code):
    assert explain(code, {}, "en").text.isascii()
    assert re.search(r"[\u4e00-\u9fff]", explain(code, {}, "zh").text)


@pytest.mark.parametrize("reason", REASONS.values(), ids=lambda reason: reason.code)
def test_a_hint_names_the_same_people_in_both_languages(reason):
    english, chinese = reason.hint.en.lower(), reason.hint.zh
    assert bool(english) is bool(chinese)
    assert ("operator" in english) is ("运维人员" in chinese)
    assert ("manage" in english.replace("manage.py", "")) is ("管理员" in chinese)


def test_states_and_classes_of_ends_are_chinese_in_chinese_sentences():
    for state in JobState:
        assert state.value not in explain("derived", {"children": {state.value: 2}}, "zh").text
        assert state.value not in explain("code_not_fetched", {"name": "x1", "state": state.value}, "zh").text
    for code in ("retry_not_asked", "retries_exhausted"):
        assert "program_error" not in explain(code, {"class": "program_error", "limit": 2}, "zh").text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_every_class_of_end_is_a_reason_too(language):
    for entry in all_classes():
        assert explain(entry.code, {}, language).text


def test_codes_of_reasons_and_ends_are_one_namespace():
    both = set(REASONS) & {entry.code for entry in all_classes()}
    assert not both


def test_an_unknown_code_shows_itself():
    assert explain("brand_new_reason").text == "Brand new reason."


def test_a_ceiling_is_explained_with_its_numbers():
    detail = {"queue": "vision", "pool": "a100", "resource": "gpu_millis", "need": 16_000, "used": 4_000, "ceiling": 8_000}
    assert (
        explain("ceiling", detail).text
        == "It needs 16 GPUs; queue vision uses 4 GPUs of the 8 GPUs that it may use in pool a100."
    )
    assert "16 块 GPU" in explain("ceiling", detail, "zh").text
    memory = {**detail, "resource": "memory_bytes", "need": 64 * GIB, "used": 0, "ceiling": 32 * GIB}
    assert explain("ceiling_too_low", memory).text == "It needs 64 GiB; queue vision may never use more than 32 GiB in pool a100."


def test_one_of_something_is_spoken_of_as_one():
    def missing(gpus: int, cores: int = 0) -> str:
        need = {"gpu_millis": gpus * 1000, "cpu_millis": cores * 1000}
        return explain("no_room", {"need": need, "free": {}, "left_out": {"label": gpus, "taint": gpus}}).text

    assert "so 1 GPU is missing. 1 of its nodes lacks" in missing(1)
    assert "1 of its nodes has a taint" in missing(1)
    assert "so 1 GPU, 1 core are missing" in missing(1, 1)
    assert "so 2 GPUs are missing. 2 of its nodes lack " in missing(2)
    assert explain("making_room", {"jobs": 1}).text == "1 running job is being preempted for it."
    assert explain("making_room", {}).text == "? running jobs are being preempted for it."
    told = {"jobs": 1, "at": "2026-11-23T14:05:00Z"}
    assert explain("making_room", told).text.endswith("for it, and it starts by 2026-11-23 14:05 UTC at the latest.")
    assert "最迟于" in explain("making_room", told, "zh").text
    assert "at most 1 job was preempted" in explain("eviction_brake", {"evictions": 1, "limit": 1}).text
    kept = {"resource": "gpu_millis", "need": 2000, "kept": 1000, "pool": "a100"}
    assert "1 GPU of pool a100 is booked from" in explain("advance_reservation", kept).text
    assert "1 other job." in explain("dependency", {"open": 1}).text


@pytest.mark.parametrize(("earlier", "code"), RENAMED.items())
def test_a_wait_code_of_an_earlier_release_is_told_as_the_present_one(earlier: str, code: str) -> None:
    assert explain(earlier, {"pool": "a100"}) == explain(code, {"pool": "a100"})
    assert explain(earlier).code == code
    assert condition_text({"code": earlier, "pool": "a100"}) == condition_text({"code": code, "pool": "a100"})
    assert earlier not in REASONS


def test_a_lack_of_room_says_what_is_missing():
    detail = {
        "pool": "a100",
        "need": {"gpu_millis": 4000, "cpu_millis": 8000, "memory_bytes": 32 * GIB},
        "free": {"gpu_millis": 1000, "cpu_millis": 16_000, "memory_bytes": 8 * GIB},
    }
    assert explain("no_room", detail).text == (
        "It needs 4 GPUs, 8 cores, 32 GiB; pool a100 has 1 GPU, 16 cores, 8 GiB free, so 3 GPUs, 24 GiB are missing."
    )
    scattered = {**detail, "free": {"gpu_millis": 4000, "cpu_millis": 16_000, "memory_bytes": 64 * GIB}}
    assert "too fragmented for its tasks" in explain("no_room", scattered).text


def test_a_retry_says_why_and_when():
    text = explain("retrying", {"class": "node_lost", "attempt": 2, "seconds": 90}).text
    assert text == "Attempt 2 ended (node lost); the next one starts after 1m30s."


def test_names_are_put_in_as_they_are():
    name = "{pool} %s ${x} {{7*7}}"
    assert name in explain("no_ready_node", {"pool": name}).text
    assert name in explain("stopped_before_start", {"by": name}).text


def test_hints_say_what_would_help_where_something_would():
    assert explain("ceiling_too_low").hint
    assert explain("held").hint == "Release it."
    assert all(reason.hint.zh for reason in REASONS.values() if reason.hint.en)


def test_every_wait_has_words():
    assert {reason.kind for reason in REASONS.values()} == set(ReasonKind)


def test_a_failure_names_the_number_and_the_task_and_a_stop_names_who_asked():
    failed = explain("program_error", {"class": "program_error", "code": 5, "task": "worker-0"})
    assert "exit code 5" in failed.text
    assert "worker-0" in failed.text
    assert explain("stopped_by_user", {"by": "ann"}).text == "Stopped by ann."
    assert "退出码 5" in explain("program_error", {"code": 5}, "zh").text
    assert "退出码 5" in (exit_in({"class": "program_error", "code": 5}, "zh") or {})["text"]


def test_the_reason_of_a_stop_stands_behind_who_asked_and_is_never_looked_into():
    note = "wrong data {by} %s"
    assert explain("stopping", {"by": "ann", "note": note}).text == f"A stop was requested by ann: {note}"
    assert explain("stopped_by_user", {"by": "ann", "note": note}).text == f"Stopped by ann: {note}"
    assert explain("stopped_before_start", {"by": "ann", "note": note}).text == f"Stopped before it started by ann: {note}"
    assert explain("stopped_by_user", {"by": "ann", "note": note}, "zh").text == f"已被用户停止（ann）：{note}"


@pytest.mark.capability("38", "What to do about an end is told in English and Chinese")
def test_an_end_says_what_to_do_in_chinese_wherever_it_does_in_english():
    for entry in all_classes():
        text = explain(entry.code, {}, "zh")
        assert bool(text.hint) is bool(entry.remedy.en), entry.code
        assert not entry.remedy.en or re.search(r"[\u4e00-\u9fff]", text.hint), entry.code
        assert bool(explain(entry.code, {"by": "ann"}, "zh").hint) is bool(entry.remedy.en)


def test_a_stored_exit_is_told_in_chinese_and_its_data_stay():
    stored = {"class": "oom", "reason": "Out of memory", "text": "x", "hint": "Raise it.", "evidence": "Killed", "code": 137}
    told = exit_in(stored, "zh")
    assert told is not None
    assert (told["evidence"], told["code"], told["hint"]) == ("Killed", 137, "请提高 `memory`，或减小批大小或数据加载进程数。")
    assert exit_in(stored, "en") == stored
    assert exit_in({"class": "of a newer release", "hint": "y"}, "zh") == {"class": "of a newer release", "hint": "y"}
    assert exit_in(None, "zh") is None


def test_what_went_well_gives_no_advice():
    assert explain("success", {"class": "success"}).hint == ""


@pytest.mark.capability("57", "A cordoned node takes nothing new, with the operator's words, until it is released")
def test_a_job_kept_out_by_a_cordon_shows_the_operators_words():
    text = explain("no_ready_node", {"pool": "cpu", "why": ["Node vm is cordoned: new disks."]}).text
    assert text.endswith("Node vm is cordoned: new disks.")


def test_what_is_missing_is_told_among_what_is_free_even_where_there_is_none() -> None:
    detail = {"pool": "a100", "need": {"gpu_millis": 2000, "cpu_millis": 200}, "free": {"gpu_millis": 0, "cpu_millis": 7400}}
    assert explain("no_room", detail).text == (
        "It needs 2 GPUs, 0.2 cores; pool a100 has 0 GPUs, 7.4 cores free, so 2 GPUs are missing."
    )
    assert "空闲 0 块 GPU" in explain("no_room", detail, "zh").text
