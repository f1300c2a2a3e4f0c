from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.factories.tenants import Cast


@pytest.fixture
def cast(db: None) -> Cast:
    """Alice manages, Bob belongs, Vera looks, Carol manages elsewhere, Otto operates."""
    from tests.factories.tenants import make_cast  # Only once Django is set up.

    return make_cast()
