"""Which files of a working directory a job's declared outputs mean: the same on every engine."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence

FILES_MAX = 100_000  # More names than anyone looks at; the rest stays in the directory until the attempt is forgotten.


def matcher(paths: Sequence[str]) -> Callable[[str], bool]:
    """Whether a path, relative to the working directory, is at, below or matches (`*`, `?`) one of the declared; "." is all."""
    wanted = [path.strip("/").removeprefix("./") for path in paths]
    return lambda path: any(_matches(path, pattern) for pattern in wanted)


def _matches(path: str, wanted: str) -> bool:
    if wanted in (".", "") or path == wanted or path.startswith(f"{wanted}/"):
        return True
    parts, patterns = path.split("/"), wanted.split("/")
    return len(parts) >= len(patterns) and all(map(fnmatch.fnmatchcase, parts, patterns))
