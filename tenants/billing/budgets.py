"""Budgets as the scheduler and the API read them. What is spent was measured by the sweep: nothing is added up here."""

from __future__ import annotations

import uuid
from datetime import datetime

from tenants.billing.ledger.budgets import BudgetFacts as BudgetValue
from tenants.billing.ledger.budgets import BudgetKind, BudgetRefusal, Spent, budget_refusal
from tenants.billing.ledger.entries import day_of, month_of
from tenants.billing.models import Budget

__all__ = ["BudgetRefusal", "Spent", "budget_refusal", "spent_budgets"]


def spent_budgets(now: datetime) -> dict[uuid.UUID, Spent]:
    """The budgets that keep new jobs of their queue, and of those below it, waiting now, by queue. One query of a small table.

    Ask `budget_refusal(path, spent_budgets(now))` for a queue, whose path begins with itself and ends with root. Not measured yet
    in a new month, a budget is whole again.
    """
    rows = Budget.objects.filter(stops=True, spent_month=month_of(day_of(now))).order_by()
    columns = rows.values_list("queue_id", "kind", "amount", "spent")
    return {
        queue_id: Spent(BudgetValue(queue_id, BudgetKind(kind), amount, stops=True), spent)
        for queue_id, kind, amount, spent in columns
        if spent >= amount
    }
