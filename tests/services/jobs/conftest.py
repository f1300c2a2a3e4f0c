from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.builders.quay import Quay
    from tests.factories.tenants import Cast


@pytest.fixture
def quay(cast: Cast) -> Iterator[Quay]:
    """A platform with one node of 8 cores and 32 GiB."""
    from kernel import clock  # Django is set up only after this file is read.
    from tests.builders.quay import Quay

    made = Quay(cast)
    with clock.virtual(lambda: made.now):
        yield made
