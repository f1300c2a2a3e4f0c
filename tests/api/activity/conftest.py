from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # This file is read before Django is set up; the factories need its models.
    from tests.factories.tenants import Cast


@pytest.fixture
def cast(db: None) -> Cast:
    from tests.factories.tenants import make_cast

    return make_cast()
