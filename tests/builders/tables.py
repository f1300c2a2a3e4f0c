"""Tables that tests show people when a run ends: `show_table("title", lines)` of the fixture, from any worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

PROPERTY = "table"


@pytest.fixture
def show_table(record_property: Callable[[str, object], None]) -> Callable[[str, Sequence[str]], None]:
    """Print a title and lines once the run is over."""

    def show(title: str, lines: Sequence[str]) -> None:
        record_property(PROPERTY, "\n".join([title, *lines]))

    return show


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                for name, text in report.user_properties:
                    if name == PROPERTY:
                        terminalreporter.write_line(f"\n{text}")
