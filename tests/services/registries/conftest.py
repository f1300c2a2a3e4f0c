"""Registries that a file of tests shares."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.builders.registry import PASSWORD, RealRegistry, registry


@pytest.fixture(scope="module")
def open_registry() -> Iterator[RealRegistry]:
    with registry() as found:
        yield found


@pytest.fixture(scope="module")
def closed_registry() -> Iterator[RealRegistry]:
    """One that wants an account."""
    with registry(password=PASSWORD) as found:
        yield found
