"""Broker and hints of a simulation: both may lose, double and reorder what they carry."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

Message = tuple[str, tuple[tuple[str, Any], ...]]


@dataclass
class Broker:
    """Messages to whichever worker takes them. A queue that nobody reads keeps one of each: messages are hints."""

    chance: random.Random
    waiting: list[Message] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def send(self, name: str, *, lose: float = 0.0, **arguments: Any) -> None:
        self.counts["sent"] += 1
        message = (name, tuple(sorted(arguments.items())))
        if self.chance.random() < lose:
            self.counts["lost"] += 1
        elif message not in self.waiting:
            self.waiting.append(message)

    def take(self, *, reorder: bool, double: float) -> Message | None:
        if not self.waiting:
            return None
        place = self.chance.randrange(len(self.waiting)) if reorder else 0
        message = self.waiting.pop(place)
        if self.chance.random() < double:
            self.counts["doubled"] += 1
            self.waiting.append(message)
        return message

    def flush(self) -> None:
        self.counts["flushed"] += len(self.waiting)
        self.waiting.clear()
