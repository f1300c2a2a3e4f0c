"""Which versions of Kubernetes are refused, warned of and taken."""

from __future__ import annotations

import pytest

from clusters.engines.kubernetes.checks import MINOR_MIN, MINOR_TESTED, judge_version
from clusters.engines.settings import Outcome


@pytest.mark.parametrize(
    ("version", "outcome", "words"),
    [
        (f"v1.{MINOR_MIN}.0", Outcome.OK, "Kubernetes"),
        (f"v1.{MINOR_TESTED}.4+k3s1", Outcome.OK, "Kubernetes"),
        (f"v1.{MINOR_MIN - 1}.9-eks-1", Outcome.FAILED, f"older than 1.{MINOR_MIN}"),
        (f"v1.{MINOR_TESTED + 1}.0", Outcome.WARNING, f"newer than 1.{MINOR_TESTED}"),
        ("v2.0.0", Outcome.FAILED, "v2.0.0"),
        ("", Outcome.FAILED, "no version"),
    ],
)
def test_a_version_is_judged_in_words(version: str, outcome: Outcome, words: str) -> None:
    found = judge_version({"gitVersion": version})
    assert (found.outcome, words in found.text.en) == (outcome, True)
    assert bool(found.hint.en) == (outcome is not Outcome.OK)
