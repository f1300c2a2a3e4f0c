"""What writes about shares: recorded demand, and signed statements of weeks that are over."""

from tenants.billing.services.shares.demand import Demand, record_demand
from tenants.billing.services.shares.statements import VerifiedWeek, close_weeks, verify_weeks

__all__ = ["Demand", "VerifiedWeek", "close_weeks", "record_demand", "verify_weeks"]
