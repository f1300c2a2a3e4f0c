"""Every condition and change has words in both languages, whatever numbers are missing."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.lifecycle.unmet import _CHANGES, _CONDITIONS, _FILTERS, change_text, clears_text, condition_text, filter_text
from jobs.scheduling.core.place.filters import FILTERS
from jobs.scheduling.questions.explain import TELLING

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
@pytest.mark.parametrize("code", sorted({*_CONDITIONS, *TELLING}))
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


def test_every_filter_has_words() -> None:
    assert set(_FILTERS) == set(FILTERS)
    assert filter_text("new_one") == "new_one"


def test_a_ceiling_says_whose_and_how_much() -> None:
    assert condition_text(CEILING) == "It needs 2 GPUs in pool a100; queue vision holds 8 GPUs of the 8 GPUs that it may hold."
    assert condition_text(CEILING, "zh") == "在资源池 a100 需要 2 张 GPU；队列 vision 上限 8 张 GPU，已用 8 张 GPU。"
    assert "a queue above holds" in condition_text({**CEILING, "queue": None})


def test_too_little_room_says_what_keeps_it_out_most_machines_first() -> None:
    filters = [{"code": "cpu", "machines": 2}, {"code": "gpu", "machines": 30}]
    found = condition_text({"code": "no_room", "pool": "a100", "need": 4, "fitting": 1, "filters": filters})
    assert found == "Room for 1 of its 4 tasks is free in pool a100: too few GPUs free on 30, too few cores free on 2."


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cap": {"what": "jobs", "amount": 3}}, "Let its user have 3 jobs at once in its tenant."),
        (
            {"cap": {"what": "gpu_millis", "amount": 8000, "above": 1, "together": True}},
            "Let all users of a tenant above its own together have 8 GPUs at once.",
        ),
        ({"ask": {"roles": {"worker": {"replicas": 4, "gpu": 1}}}}, "Ask for 4 tasks, 1 GPU a task in role worker."),
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
        ({"unheard": {}}, ""),
    ],
)
def test_changes_are_told_in_words(change: dict[str, Any], words: str) -> None:
    assert change_text(change) == words


def test_who_would_be_evicted_is_counted() -> None:
    assert clears_text(1).startswith("1 job would")
    assert clears_text(2).startswith("2 jobs would")
    assert "2" in clears_text(2, "zh")
