"""What an engine says of its isolation is said in both languages."""

from __future__ import annotations

import re

import pytest

from clusters import isolation_facts as facts
from kernel.words import Text

SENTENCES = [text.en for name, text in vars(facts).items() if name.isupper() and isinstance(text, Text)]


@pytest.mark.parametrize("sentence", [*SENTENCES, facts.limited(1).en, facts.limited(2).en])
def test_every_sentence_has_a_chinese_one(sentence: str) -> None:
    assert len(SENTENCES) == 14
    assert sentence.isascii()
    assert len(sentence) <= 200  # Pages of jobs show the first, cut there.
    assert facts.fact_in(sentence, "en") == sentence
    assert re.search(r"[\u4e00-\u9fff]", facts.fact_in(sentence, "zh"))


def test_a_sentence_of_another_release_shows_itself() -> None:
    assert facts.fact_in("Jobs run in virtual machines.", "zh") == "Jobs run in virtual machines."
