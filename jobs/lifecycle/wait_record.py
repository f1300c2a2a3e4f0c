"""What the catalogue of wait reasons (`wait_reasons.py`) says about each code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, TypeVar

from kernel.words import NO_HINT, Sentence, Text

UNTOLD = Text("It starts when what withholds it is gone.", "限制解除后即启动。")
OTHER_JOBS = frozenset({"kept_for", "holder"})
"""Amounts that are about another job. They are stored with its id, and told with its name to those who may see it."""
FOUND_AT = "found_at"
"""Beside the amounts of a stored reason: when the scheduler found it, in ISO 8601."""
Code = TypeVar("Code", bound=StrEnum)


class WaitSource(StrEnum):
    """The part of the platform that finds the reason."""

    CORE = "core"  # A pass of the scheduler.
    JOB = "job"  # The driver, before a pass: what withholds the job itself.
    POOL = "pool"  # No pool may take it now, or none could hold it even when empty.
    HISTORY = "history"  # What became of it so far.
    SHOWN = "shown"  # No part: it is what people are shown for a code of the core.


class Number(StrEnum):
    """A number of the core's reason: the field of `WaitReason` that an amount is made of."""

    POOL = "pool"
    QUEUE = "queue"
    RESOURCE = "resource"
    NEED = "need"
    HELD = "held"
    LIMIT = "limit"
    FREE = "free"  # `limit` without `held`.
    KEPT = "kept"
    FITTING = "fitting"
    SINCE = "since"
    UNTIL = "until"
    WHAT = "what"


@dataclass(frozen=True, slots=True)
class WaitRecord(Generic[Code]):
    """One code. `words` is the sentence that a waiting job shows, `hint` what would change it; `shown_as`: a job that the core
    refuses so shows that code instead.

    `amounts` are what the sentence needs, by the names under which they are stored, each with an example. `numbers` says which
    of the core's numbers each is; without them `jobs/loading/reason_translation.py` has a function for the code. `condition` is
    what `berth explain` says of it, where that is not the sentence itself, and `released` what would let a job start that is
    withheld for it.
    """

    code: Code
    source: WaitSource
    words: Sentence | None = None
    hint: Text[str] = NO_HINT
    amounts: Mapping[str, Any] = field(default_factory=dict)
    numbers: Mapping[str, Number] = field(default_factory=dict)
    shown_as: Code | None = None
    condition: Sentence | None = None
    released: Text[str] = UNTOLD

    stage: int = 0
    """How far a job came in a pool that is refused so. The reason of the pool where it came furthest is told."""
    is_unfit: bool = False
    """No node takes it, not even an empty one: nothing is taken back, rebalanced or migrated for it."""
    is_counted: bool = False
    """Whether it still holds follows from counting how many tasks fit."""
    may_be_too_large: bool = False
    """It is asked first whether the job could ever fit: that tells people more."""
    ends_help: bool = False
    """The end of another job may remove it."""
    machines_help: bool = False
    """More nodes may remove it."""
    is_for_room: bool = False
    """Shown to people with the queues that hold the room."""
    is_for_another: bool = False
    """It is about one other job, which is named to a reader who sees it."""
    is_for_eviction: bool = False
    """The job may take room back, and this keeps it from that."""
    has_room_kept: bool = False
    """Its place is decided: nothing needs to be changed for it."""
    is_of_checkpoint: bool = False
    """Its checkpoint was refused, and people have to act."""
    says_more_than_its_time: bool = False
    """It says why a job starts only at a certain time."""

    def __post_init__(self) -> None:
        if (self.words is None) is (self.shown_as is None):
            raise TypeError(f"wait reason {self.code} needs either words or a code that it is shown as")
        if self.numbers and self.numbers.keys() != self.amounts.keys() - OTHER_JOBS:
            raise TypeError(f"wait reason {self.code} needs a number for each of its amounts")
