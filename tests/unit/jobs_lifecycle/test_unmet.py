"""Every condition and change has words in both languages, whatever numbers are missing."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.lifecycle.filter_words import FILTER_WORDS, FilterCode, filter_text
from jobs.lifecycle.reasons import explain
from jobs.lifecycle.unmet import _CHANGES, change_text, clears_text, condition_text, latest_text
from jobs.scheduling.core.place.filters import FILTERS
from kernel.wait_codes import WaitCode
from kernel.words import format_moment

CEILING = {
    "code": "ceiling",
    "pool": "a100",
    "queue": "vision",
    "resource": "gpu_millis",
    "need": 2000,
    "held": 8000,
    "limit": 8000,
}


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("code", WaitCode)
def test_a_condition_reads_as_a_sentence_even_without_numbers(code: str, language: str) -> None:
    text = condition_text({"code": code}, language)
    assert text.endswith("。" if language == "zh" else ".")
    assert "None" not in text


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("kind", sorted(_CHANGES))
def test_a_change_reads_as_a_sentence_even_without_numbers(kind: str, language: str) -> None:
    text = change_text({kind: {}}, language)
    assert "None" not in text
    assert text == "" if kind == "ask" else text.endswith(("。", "."))


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_is_not_so_before_a_time_is_told_with_a_minute_that_has_not_passed_by_then(language: str) -> None:
    at = "2026-11-23T14:05:37+00:00"
    told = [condition_text({"code": code, "until": at}, language) for code in ("too_young", "brake")]
    told.append(explain("too_young", {"at": at}, language).text)
    assert all("2026-11-23 14:06 UTC" in text for text in told), told
    assert "14:05" in explain("too_young", {"at": "2026-11-23T14:05:00+00:00"}, language).text


@pytest.mark.parametrize("language", ["en", "zh"])
def test_times_in_sentences_have_one_form(language: str) -> None:
    at, ends = "2026-11-23T14:05:37+00:00", "2026-11-23T16:00:00Z"
    told = [
        explain("not_before", {"at": at}, language).text,
        explain("backfill_reservation", {"at": at}, language).text,
        explain("advance_reservation", {"from": at, "until": ends}, language).text,
        latest_text({"kind": "line", "at": at}, language),
        condition_text({"code": "backfill_reservation", "until": at}, language),
    ]
    assert all("2026-11-23 14:05 UTC" in text and "23T" not in text for text in told), told
    assert "2026-11-23 16:00 UTC" in told[2]
    assert format_moment("soon") == "soon"


@pytest.mark.capability("89", "Every filter has words in both languages")
def test_every_filter_has_words() -> None:
    assert set(FILTER_WORDS) == set(FILTERS) == set(FilterCode)
    assert filter_text("new_one") == "new_one"


def test_a_ceiling_says_whose_and_how_much() -> None:
    assert condition_text(CEILING) == "It needs 2 GPUs in pool a100; queue vision holds 8 GPUs of the 8 GPUs that it may hold."
    assert condition_text(CEILING, "zh") == "在资源池 a100 需要 2 块 GPU；队列 vision 上限 8 块 GPU，已用 8 块 GPU。"
    assert "a queue above holds" in condition_text({**CEILING, "queue": None})


def test_too_little_room_says_what_keeps_it_out_most_machines_first() -> None:
    filters = [{"code": "cpu", "machines": 2}, {"code": "gpu", "machines": 30}]
    found = condition_text({"code": "no_room", "pool": "a100", "need": 4, "fitting": 1, "filters": filters})
    assert found == "Pool a100 has room for 1 of its 4 tasks: too few GPUs free on 30, too few cores free on 2."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cap": {"what": "jobs", "amount": 3}}, "Let its user have 3 jobs at once in its tenant."),
        (
            {"cap": {"what": "gpu_millis", "amount": 8000, "above": 1, "together": True}},
            "Let all users of a tenant above its own together have 8 GPUs at once.",
        ),
        ({"ask": {"roles": {"worker": {"replicas": 4, "gpu": 1}}}}, "Request 4 tasks, 1 GPU a task in role worker."),
        ({"ask": {"any_model": True}}, "Accept any GPU model."),
        ({"rank": {"priority": 600}}, "Raise its priority to 600."),
        ({"rank": {"first": True}}, "Move it to the head of its queue."),
        ({"release": {"from": "held"}}, "Release it."),
        (
            {"quota": {"queue_name": "vision", "pool": "a100", "resource": "gpu_millis", "ceiling": 9000}},
            "Set the ceiling to 9 GPUs for queue vision in pool a100.",
        ),
        ({"end": {"amounts": {"gpu_millis": 8000}}}, "It starts when a job of another tenant ends, which holds 8 GPUs."),
        ({"end": {"name": "train", "amounts": {"gpu_millis": 1000}}}, "End job train, which holds 1 GPU."),
        ({"end": {"name": "x6", "queued": True}}, "Stop the queued job x6, which is before it."),
        ({"end": {"count": 1, "queued": True}}, "It starts when 1 queued job of another tenant is gone that is before it."),
        ({"end": {"count": 3, "queued": True}}, "It starts when 3 queued jobs of other tenants are gone that are before it."),
        ({"unheard": {}}, ""),
    ],
)
def test_changes_are_told_in_words(change: dict[str, Any], words: str) -> None:
    assert change_text(change) == words


@pytest.mark.parametrize(
    ("by", "english", "chinese"),
    [
        ({"role": "operator", "tenant": None}, "An operator can raise", "由运维人员操作："),
        (
            {"role": "manager", "tenant": {"id": "1", "name": "vision"}},
            "A manager of vision can raise",
            "由租户 vision 的管理员操作：",
        ),
        ({"role": "manager", "tenant": None}, "A manager of the tenant above can raise", "由上级租户的管理员操作："),
    ],
)
def test_a_change_for_others_begins_with_who_may_make_it(by: dict[str, Any], english: str, chinese: str) -> None:
    change = {"rank": {"priority": 600}}
    assert change_text(change, "en", by) == f"{english} its priority to 600."
    assert change_text(change, "zh", by) == f"{chinese}优先级提高到 600。"


def test_who_would_be_evicted_is_counted() -> None:
    assert clears_text(1).startswith("1 job would")
    assert clears_text(2).startswith("2 jobs would")
    assert "2" in clears_text(2, "zh")


def test_a_cap_on_gpus_is_told_in_gpus_and_no_task_that_fits_as_none() -> None:
    cap = {"code": "user_cap", "what": "gpu_millis", "need": 1000, "held": 1000, "limit": 1000}
    assert condition_text(cap) == "Its user has 1 GPU of at most 1 GPU at once; it needs 1 GPU."
    assert "?" not in condition_text({"code": "no_room", "pool": "a100", "need": 4}), "a number that is 0 is not stored"
