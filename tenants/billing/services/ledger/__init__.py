"""What writes the ledger and what is made from it: entries, days, statements, and the checks that they agree."""

from tenants.billing.services.ledger.append import LedgerLine, append_ledger
from tenants.billing.services.ledger.check import Charge, Finding, check_charges, check_days, check_reservations, wrong_months
from tenants.billing.services.ledger.fold import fold_days, rebuild_days
from tenants.billing.services.ledger.measured import GpuTask, register_gpu_tasks
from tenants.billing.services.ledger.statements import close_months, close_statement, verify_statements

__all__ = [
    "Charge",
    "Finding",
    "GpuTask",
    "LedgerLine",
    "append_ledger",
    "check_charges",
    "check_days",
    "check_reservations",
    "close_months",
    "close_statement",
    "fold_days",
    "rebuild_days",
    "register_gpu_tasks",
    "verify_statements",
    "wrong_months",
]
