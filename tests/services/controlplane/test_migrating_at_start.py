"""What a start asks of its tables: nothing but names while all are there, and everything as soon as one is not."""

from __future__ import annotations

import pytest
from django.db import connection
from django.db.migrations.recorder import MigrationRecorder

from controlplane import bootstrap

pytestmark = pytest.mark.database


class Loaded(Exception):
    """The migrations were looked at one by one."""


@pytest.fixture(autouse=True)
def _loading_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(*arguments: object) -> None:
        raise Loaded

    monkeypatch.setattr(bootstrap, "MigrationExecutor", load)


def test_a_start_on_migrated_tables_loads_no_migration() -> None:
    bootstrap.migrate()


@pytest.mark.parametrize("app", ["jobs", "auth"])
def test_one_that_is_not_recorded_has_all_of_them_looked_at(app: str) -> None:
    last = MigrationRecorder(connection).migration_qs.filter(app=app).latest("id")
    last.delete()

    with pytest.raises(Loaded):
        bootstrap.migrate()
