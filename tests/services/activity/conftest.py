from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:  # This file is read before Django is set up; the factories need its models.
    from tests.factories.activity import Jobs, Mailbox, Receiver
    from tests.factories.tenants import Cast


@pytest.fixture
def cast(db: None) -> Cast:
    from tests.factories.tenants import make_cast

    return make_cast()


@pytest.fixture
def jobs() -> Iterator[Jobs]:
    from tests.factories.activity import job_directory

    with job_directory() as found:
        yield found


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    from tests.factories.activity import webhook_receiver

    with webhook_receiver() as found:
        yield found


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    from tests.factories.activity import mail_server

    with mail_server() as found:
        yield found
