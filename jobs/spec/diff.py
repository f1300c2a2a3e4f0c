"""What differs between two jobs, for the page that shows a resubmission beside its origin."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jobs.spec.canonical import to_document
from jobs.spec.documents import pointer
from jobs.spec.model import JobSpec


@dataclass(frozen=True, slots=True)
class SpecChange:
    """One place that differs; None stands for a key that is not there."""

    path: str
    older: Any
    newer: Any

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "from": self.older, "to": self.newer}


def diff_specs(older: JobSpec, newer: JobSpec) -> list[SpecChange]:
    """All differences, by JSON pointer into the canonical documents, in the order of the paths. Lists differ as a whole."""
    return sorted(_differences(to_document(older), to_document(newer), ()), key=lambda difference: difference.path)


def _differences(older: Any, newer: Any, path: tuple[str, ...]) -> list[SpecChange]:
    if isinstance(older, dict) and isinstance(newer, dict):
        found: list[SpecChange] = []
        for key in sorted(older.keys() | newer.keys()):
            found += _differences(older.get(key), newer.get(key), (*path, key))
        return found
    return [] if older == newer else [SpecChange(pointer(path), older, newer)]
