"""What users can be told of money and time."""

from __future__ import annotations

from activity.notifications.kinds import NoticeKind, Shape

BUDGET = NoticeKind("budget", 60, Shape.BUDGET, frozenset({"budget.warned", "budget.spent"}))  # A share of it is spent.
