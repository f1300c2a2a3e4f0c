"""A progress bar on standard error for anything that moves bytes; silent without a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Self

from berth.cli.output import console
from berth.cli.paint import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress


class Progressing:
    """Call it with the bytes done so far. `total` None: how much there is, is not known."""

    def __init__(self, text: str, *, total: int | None) -> None:
        self._text, self._total = text, total
        self._bar: Progress | None = None

    def __enter__(self) -> Self:
        if is_terminal(sys.stderr):
            from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

            columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), DownloadColumn(binary_units=True))
            self._bar = Progress(
                *columns, TransferSpeedColumn(), TimeRemainingColumn(), console=console(stderr=True), transient=True
            )
            self._bar.start()
            self._task = self._bar.add_task(self._text, total=self._total)
        return self

    def __call__(self, done_bytes: int) -> None:
        if self._bar:
            self._bar.update(self._task, completed=done_bytes)

    def from_(self, before_bytes: int) -> Callable[[int], None]:
        """The same bar for the next file of several: what comes is added to what was done before."""
        return lambda done_bytes: self(before_bytes + done_bytes)

    def __exit__(self, *_error: object) -> None:
        if self._bar:
            self._bar.stop()
