"""What failed, line by line as it does: `--failures FILE`, for `tools/rerun.py`, which runs it again. Beside it, which tests have
begun and ended, for a stage that is ended at its limit.

A JUnit report has no node ids, and a run that is ended leaves none at all.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tools.rerun import COLLECTING, under_way_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--failures", type=Path, help="append each failure to this file, as a line of JSON")


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--failures")
    if path is not None and not hasattr(config, "workerinput"):  # A worker's reports come to the process that started it.
        config.pluginmanager.register(_Recorder(path))


class _Recorder:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._tests = under_way_of(path).open("a", encoding="utf-8", buffering=1)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._tests.write(f"+{nodeid}\n")

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._tests.write(f"-{nodeid}\n")

    def pytest_unconfigure(self) -> None:
        self._tests.close()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._append(report.nodeid, str(report.when), report.duration, report.longreprtext)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._append(report.nodeid, COLLECTING, 0.0, report.longreprtext)

    def _append(self, test: str, phase: str, seconds: float, error: str) -> None:
        load = round(os.getloadavg()[0], 1)
        line = {"test": test, "phase": phase, "load": load, "seconds": round(seconds, 2), "error": error}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, ensure_ascii=False) + "\n")
