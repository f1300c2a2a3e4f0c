"""Periodic duties without a beat process: rows that any worker may claim when they are due (design rule 1).

A duty is registered at start with its interval. `run_due` claims each due row by a guarded update, so that two tickers
never fire the same slot, and missed slots coalesce into one. With every ticker dead, nothing is lost but time.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from reconciling.models import Tick

_duties: dict[str, float] = {}


def register(name: str, *, every_seconds: float) -> None:
    """Make `name` fire about every `every_seconds`."""
    _duties[name] = every_seconds


def registered() -> dict[str, float]:
    return dict(_duties)


def install(now: datetime) -> None:
    """Write a row for every registered duty, keep due times of existing ones, drop duties that no longer exist."""
    known = dict(Tick.objects.values_list("name", "every_millis"))
    for name, seconds in _duties.items():
        millis = max(1, int(seconds * 1000))
        if name not in known:
            Tick.objects.bulk_create([Tick(name=name, every_millis=millis, due_at=now)], ignore_conflicts=True)
        elif known[name] != millis:
            Tick.objects.filter(name=name).update(every_millis=millis, due_at=now)
    Tick.objects.exclude(name__in=_duties).delete()


def run_due(now: datetime, *, holder: str, fire: Callable[[str], None]) -> float:
    """Fire every due duty that we win; returns the seconds until the next one is due (at most one)."""
    wait = 1.0
    for tick in Tick.objects.filter(name__in=_duties).order_by("due_at"):
        if tick.due_at > now:
            wait = min(wait, (tick.due_at - now).total_seconds())
            break
        next_at = now + timedelta(milliseconds=tick.every_millis)
        won = Tick.objects.filter(name=tick.name, due_at=tick.due_at).update(due_at=next_at, claimed_by=holder)
        if won:
            fire(tick.name)
            wait = min(wait, tick.every_millis / 1000)
    return max(wait, 0.005)
