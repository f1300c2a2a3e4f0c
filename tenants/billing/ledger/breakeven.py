"""Own against rented: when machines that are bought have cost less than renting what was used of them.

Money is in millionths, power in watts, shares in percent; the months are equal (730 hours). What is measured is the GPU time of
a month; all else is an assumption that the answer repeats. Use beyond what the machines can do is rented in both cases.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

MONTH_HOURS = 730  # 8,760 hours of a year by twelve.
HORIZON_MAX = 240


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is not measured. The defaults are those of an eight-GPU server in a rented room, and are there to be replaced."""

    gpus: int = 8
    capex_micros: int = 280_000_000_000  # Such a server with its network, 2025 list prices.
    lifetime_months: int = 48  # Then it is bought again; what tax offices write servers off in lies between 36 and 60.
    staff_micros_per_month: int = 1_500_000_000  # A sixth of an administrator.
    site_micros_per_month: int = 400_000_000  # Room and lines, without the power.
    busy_watts: int = 1_200  # Of a GPU that works, with its share of the machine.
    idle_watts: int = 250
    overhead_percent: int = 40  # Cooling and losses: a PUE of 1.4.
    kwh_micros: int = 250_000
    rent_micros_per_gpu_hour: int = 2_500_000
    horizon_months: int = 60


@dataclass(frozen=True, slots=True)
class Month:
    """What both ways have cost by the end of a month, counted from 1; month 0 is the purchase."""

    month: int
    own_micros: int
    rent_micros: int


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The answer. `crossover_month` None: within the horizon, owning never becomes the cheaper way."""

    gpu_milli_hours_per_month: int
    capacity_milli_hours_per_month: int
    use_percent: int
    crossover_month: int | None
    stays_below: bool
    own_micros_per_month: int
    rent_micros_per_month: int
    use_percent_needed: int | None
    curve: tuple[Month, ...]

    @property
    def saved_micros(self) -> int:
        """Savings at the horizon; negative where renting is cheaper."""
        return self.curve[-1].rent_micros - self.curve[-1].own_micros


def break_even(gpu_milli_hours_per_month: int, given: Assumptions) -> BreakEven:
    """Both curves and the month in which they cross."""
    capacity = given.gpus * MONTH_HOURS * 1_000
    done_here = min(gpu_milli_hours_per_month, capacity)
    own = _monthly_own(done_here, gpu_milli_hours_per_month - done_here, given)
    rent = gpu_milli_hours_per_month * given.rent_micros_per_gpu_hour // 1_000
    curve = tuple(Month(month, _purchases(month, given) + own * month, rent * month) for month in range(given.horizon_months + 1))
    crossover = next((point.month for point in curve if point.own_micros <= point.rent_micros and point.month), None)
    after = [point for point in curve if crossover is not None and point.month >= crossover]
    return BreakEven(
        gpu_milli_hours_per_month=gpu_milli_hours_per_month,
        capacity_milli_hours_per_month=capacity,
        use_percent=gpu_milli_hours_per_month * 100 // capacity,
        crossover_month=crossover,
        stays_below=bool(after) and all(point.own_micros <= point.rent_micros for point in after),
        own_micros_per_month=own + given.capex_micros // given.lifetime_months,
        rent_micros_per_month=rent,
        use_percent_needed=_needed(given),
        curve=curve,
    )


def _monthly_own(done_milli_hours: int, rented_milli_hours: int, given: Assumptions) -> int:
    """What a month of owning costs beside the purchase: power for work and for waiting, people, room, and the overflow."""
    idle_milli_hours = given.gpus * MONTH_HOURS * 1_000 - done_milli_hours
    milli_watt_hours = done_milli_hours * given.busy_watts + idle_milli_hours * given.idle_watts
    power = milli_watt_hours * (100 + given.overhead_percent) * given.kwh_micros // (1_000 * 1_000 * 100)
    rented = rented_milli_hours * given.rent_micros_per_gpu_hour // 1_000
    return power + given.staff_micros_per_month + given.site_micros_per_month + rented


def _purchases(month: int, given: Assumptions) -> int:
    """All purchases by the end of a month: the first at once, the next when the first is worn out."""
    return given.capex_micros * (1 + max(0, month - 1) // given.lifetime_months)


def _needed(given: Assumptions) -> int | None:
    """The use in percent from which owning is cheaper over a lifetime; None where no use is enough."""
    for percent in range(1, 101):
        hours = given.gpus * MONTH_HOURS * 1_000 * percent // 100
        own = _monthly_own(hours, 0, given) * given.lifetime_months + given.capex_micros
        if own <= hours * given.rent_micros_per_gpu_hour // 1_000 * given.lifetime_months:
            return percent
    return None


def as_dict(found: BreakEven, given: Assumptions) -> dict[str, object]:
    """The answer as JSON, with what it rests on."""
    return {**asdict(found), "curve": [asdict(point) for point in found.curve], "saved_micros": found.saved_micros,
            "assumptions": asdict(given)}  # fmt: skip
