"""What Berth asks of Celery beyond its documentation has its effect."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from celery.fixups.django import DjangoWorkerFixup

from upstream.celery import keep_database


@pytest.mark.parametrize(("keeps", "closed"), [(True, 0), (False, 10)])
def test_a_task_leaves_the_database_open_for_the_next(keeps: bool, closed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    app: Any = SimpleNamespace(conf={})
    if keeps:
        keep_database(app)
    fixup = DjangoWorkerFixup(app)
    done: list[None] = []
    monkeypatch.setattr(fixup, "_close_database", lambda: done.append(None))
    for _ in range(10):
        fixup.close_database()
    assert len(done) == closed
