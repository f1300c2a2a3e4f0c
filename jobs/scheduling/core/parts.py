"""What the phases of a pass work on and with."""

from __future__ import annotations

from dataclasses import dataclass

from jobs.scheduling.core.advance import AdvanceReservations
from jobs.scheduling.core.claims import Claims
from jobs.scheduling.core.occupancy import Occupancy
from jobs.scheduling.core.placements import Placements
from jobs.scheduling.core.reservations import BackfillReservations
from jobs.scheduling.core.seats import Seats
from jobs.scheduling.core.state.live import Live
from jobs.scheduling.core.wakeups import WakeUps


@dataclass(frozen=True)
class Parts:
    """The parts of a core."""

    live: Live
    placements: Placements
    advance: AdvanceReservations
    reservations: BackfillReservations
    seats: Seats
    claims: Claims
    occupancy: Occupancy
    wakeups: WakeUps
