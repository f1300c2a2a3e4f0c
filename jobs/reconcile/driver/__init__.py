"""Keeps the scheduler's state up to date, asks it for decisions, and applies them; `driver.py` says how."""

from jobs.reconcile.driver.driver import SchedulerDriver

__all__ = ["SchedulerDriver"]
