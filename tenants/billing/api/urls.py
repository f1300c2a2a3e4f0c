"""Paths of use, prices, statements and budgets, below `/api/v1/`."""

from django.urls import path

from tenants.billing.api import billing, usage

urlpatterns = [
    path("usage", usage.UsageView.as_view(), name="usage"),
    path("usage:held", usage.UsageHeldView.as_view(), name="usage-held"),
    path("usage:export", usage.UsageExportView.as_view(), name="usage-export"),
    path("breakeven", usage.BreakEvenView.as_view(), name="breakeven"),
    path("prices", billing.PricesView.as_view(), name="prices"),
    path("prices:estimate", billing.EstimateView.as_view(), name="prices-estimate"),
    path("prices/<uuid:price_id>", billing.PriceView.as_view(), name="price"),
    path("budgets", billing.BudgetsView.as_view(), name="budgets"),
    path("queues/<uuid:queue_id>/budget", billing.BudgetView.as_view(), name="queue-budget"),
    path("tenants/<str:tenant>/statements", billing.StatementsView.as_view(), name="statements"),
    path("tenants/<str:tenant>/statements/<str:month>", billing.StatementView.as_view(), name="statement"),
]
