"""What an attempt left in its working directory, read with its tenant's rights: a link to somewhere else leads nowhere."""

from __future__ import annotations

from collections.abc import Sequence

from clusters.engines.interface import OutputFile
from clusters.engines.local import records
from clusters.engines.local.launching import Launcher
from clusters.engines.local.launching.verbs import Owner
from clusters.engines.output_paths import FILES_MAX, matcher
from kernel.file_names import path_of, text_of


class Outputs:
    """Lists and opens the outputs of one engine's attempts."""

    def __init__(self, root: str, launcher: Launcher) -> None:
        self._root = root
        self._launcher = launcher

    def list(self, attempt_id: str, paths: Sequence[str]) -> Sequence[OutputFile]:
        """Give the regular files at, below or matching (`*`, `?`) the paths; "." is everything."""
        owner = self._owner(attempt_id)
        if owner is None:
            return ()
        listing = self._launcher.list_directory(
            self._root, self._work(attempt_id), owner, recursive=True, limit=FILES_MAX, patient=True
        )
        is_wanted = matcher(paths)
        return [
            OutputFile(text_of(entry.path), entry.size_bytes, entry.mode)
            for entry in listing.entries
            if entry.kind == "file" and is_wanted(entry.path)
        ]

    def open(self, attempt_id: str, path: str) -> int:
        """Open one for reading. Raises FileNotFoundError where it or the attempt is gone."""
        owner = self._owner(attempt_id)
        if owner is None:
            raise FileNotFoundError(path)
        return self._launcher.open_file(self._root, f"{self._work(attempt_id)}/{path_of(path)}", owner)

    def _owner(self, attempt_id: str) -> Owner | None:
        started = records.read_started(self._root, attempt_id)
        if started is None:
            return None
        attempt = records.parse_attempt(started.attempt)
        return Owner(attempt.uid, attempt.gid, attempt.groups)

    def _work(self, attempt_id: str) -> str:
        return f"{records.ATTEMPTS}/{attempt_id}/{records.WORK}"
