"""What a scheduler decided is decided again from its event log, and has to be the same."""

from __future__ import annotations

from pathlib import Path

from jobs.reconcile import event_log
from jobs.scheduling.replay.log import read_log
from jobs.scheduling.replay.recorder import decide_again


def decided_alike(folder: Path) -> int:
    """Decide all that is in a folder of event logs again; how many passes there were. Their writers may have been killed."""
    passes = 0
    for kept in event_log.files(folder):
        found = decide_again(read_log(event_log.lines(kept.path), is_open=True))
        assert found.difference is None, f"{kept.path.name}, pass {found.passes}: {found.difference}"
        passes += found.passes
    return passes
