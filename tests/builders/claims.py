"""What each test shows of the product: `@pytest.mark.capability("18", "what must hold")`, once for each claim.

The JUnit report of a run gets the test's name and the kinds of engine that the test met, as properties of its case;
`tools/capabilities.py` makes the page of capabilities of them. Kinds are observed: an engine that starts processes is `real`, one
that pretends to is `fake`. Only `simulated` is said, by `@pytest.mark.simulated_gpus`: a real engine whose GPUs are simulated.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tools.capabilities import MARK, TESTS, Claim, MarkerError


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--claims", action="store_true", help="only tests that show a capability")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Files without a claim are not even read, where only claims are wanted."""
    is_left_out = config.getoption("--claims") and collection_path.is_file() and MARK not in collection_path.read_text()
    return True if is_left_out else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        try:
            claims = [Claim.of(mark.args) for mark in item.iter_markers("capability")]
        except MarkerError as error:
            raise pytest.UsageError(f"{item.nodeid}: {error}") from None
        if claims:
            item.user_properties.append(("test", f"{item.path.relative_to(TESTS).as_posix()}::{_name(item)}"))
    if config.getoption("--claims"):
        config.hook.pytest_deselected(items=[item for item in items if not item.get_closest_marker("capability")])
        items[:] = [item for item in items if item.get_closest_marker("capability")]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    """The engines are looked for when the test is over and its fixtures still stand."""
    if call.when == "call" and item.get_closest_marker("capability"):
        item.user_properties += [("engine", kind) for kind in sorted(engines_met(item))]
    return (yield)


def engines_met(item: pytest.Item) -> set[str]:
    """Kinds of engine that the test used: in its fixtures, in this process, or as the stages of real processes say."""
    values = [part for value in getattr(item, "funcargs", {}).values() for part in (value, getattr(value, "engine", None))]
    met = {kind for value in values if (kind := _kind_of(value))}
    if item.config.pluginmanager.hasplugin("django"):
        from clusters.services import engines

        met |= {kind for engine in engines._engines.values() if (kind := _kind_of(engine))}
        if engines._factories != engines.FOUND:
            met.add("fake")
    if not met and any(item.get_closest_marker(name) for name in ("engines", "browser", "kubernetes", "frameworks")):
        met.add("real")
    if "real" in met and item.get_closest_marker("simulated_gpus"):
        met = met - {"real"} | {"simulated"}
    return met


def _kind_of(engine: object) -> str:
    """`real` or `fake`; empty for what is no engine."""
    if "clusters" not in sys.modules:  # No engine can be one of ours: tests of the runner itself are without the product.
        return ""
    from clusters.engines.fake import FakeEngine
    from clusters.engines.local import LocalEngine

    return "real" if isinstance(engine, LocalEngine) else "fake" if isinstance(engine, FakeEngine) else ""


def _name(item: pytest.Item) -> str:
    return getattr(item, "originalname", None) or item.name
