"""Named positions in ordered tables, one row each. Only the holder of the row's lock moves it."""

from __future__ import annotations

from activity.models import Cursor


def lock_cursor(name: str) -> Cursor:
    """The cursor, locked until the caller's transaction ends; made at position 0 when it does not exist yet."""
    cursor = Cursor.objects.select_for_update().filter(name=name).first()
    if cursor is None:
        Cursor.objects.bulk_create([Cursor(name=name)], ignore_conflicts=True)
        cursor = Cursor.objects.select_for_update().get(name=name)
    return cursor


def position(name: str) -> int:
    """Where the cursor stands; 0 before its first move."""
    return Cursor.objects.filter(name=name).values_list("seq", flat=True).first() or 0


def move(cursor: Cursor, seq: int, *, mark: str = "") -> None:
    """Advance a locked cursor. It never goes back."""
    if seq < cursor.seq:
        raise AssertionError(f"{cursor} was asked to go back to {seq}")
    cursor.seq, cursor.mark = seq, mark
    cursor.save(update_fields=["seq", "mark"])
