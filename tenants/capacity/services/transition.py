"""The door of this app: edits of limits and bookings change state here and nowhere else."""

from __future__ import annotations

from reconciling.transition import Binding
from tenants.capacity.lifecycle import BOOKING, EDIT, REQUEST
from tenants.capacity.models import Booking, QuotaEdit, QuotaRequest

EDITS = Binding(kind="quota_edit", model=QuotaEdit, lifecycle=EDIT)
BOOKINGS = Binding(kind="booking", model=Booking, lifecycle=BOOKING)
REQUESTS = Binding(kind="quota_request", model=QuotaRequest, lifecycle=REQUEST)
